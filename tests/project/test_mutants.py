"""The score of the mutants is counted right, and nothing is explained that is not there any more."""

import json
import runpy
import tomllib
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
mutants = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "mutants.py")))

RESULTS = """
    shiftproof.maps.padding.x_pad__mutmut_1: killed
    shiftproof.maps.padding.x_pad__mutmut_2: survived
    shiftproof.maps.padding.x_pad__mutmut_3: timeout
    shiftproof.ghs.moments.x_moments__mutmut_1: no tests
"""
DIFF = """--- src/shiftproof/maps/padding.py
+++ src/shiftproof/maps/padding.py
@@ -1,3 +1,3 @@
 def pad(x):
-    return x + 0
+    return x - 0
"""


def test_score() -> None:
    """Killed, of those that a test could have noticed."""
    found = mutants.parse(RESULTS)
    assert [m.killed for m in found] == [True, False, True, False]
    page = mutants.page(found, {found[1]: "zero has no sign here"})
    assert "| `maps.padding` | 3 | 2 | 1 | 100.0% |" in page
    assert "| `ghs.moments` | 1 | 0 | 0 | 0.0% |" in page
    assert "| all | 4 | 2 | 1 | 66.7% |" in page
    assert "| zero has no sign here | 1 |" in page


def test_a_change_is_known_by_its_lines() -> None:
    assert mutants.change(DIFF) == ("return x + 0", "return x - 0")
    text = '[[mutant]]\nwas = "return x + 0"\nis = "return x - 0"\nwhy = "because"\n'
    assert mutants.explanations(text) == {mutants.change(DIFF): "because"}


def test_explanations_are_of_lines_that_exist() -> None:
    core = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]["only_mutate"]
    lines = {line.strip() for pattern in core for path in ROOT.glob(pattern) for line in path.read_text().splitlines()}
    for was, now in mutants.explanations((ROOT / "tests" / "mutants.toml").read_text()):
        assert set(was.splitlines()) <= lines
        assert was != now


def test_verdicts_are_kept_and_given_back(tmp_path: Path) -> None:
    """All but timeouts, and what is to be tried again; files that are there are left alone."""
    name = "shiftproof.ghs.backend.x_find__mutmut_{}"
    codes = {name.format(i): code for i, code in enumerate((1, 0, None, -24, -11, 0), 1)}
    other = {"shiftproof.ghs.backend.xǁSamplingǁof__mutmut_1": None}
    meta = {"exit_code_by_key": codes | other, "hash_by_function_name": {"x_find": "abc", "xǁSamplingǁof": "def"}}
    place = Path("src/shiftproof/ghs/backend/__init__.py.meta")
    made, verdicts, again = tmp_path / "made", tmp_path / "mutants.json", tmp_path / "again"
    (made / place).parent.mkdir(parents=True)
    (made / place).write_text(json.dumps(meta))
    mutants.forget(made, {name.format(6), "shiftproof.maps.x_pad__mutmut_1"})
    mutants.keep(made, verdicts)
    assert json.loads(verdicts.read_text()) == {place.as_posix(): {"x_find": ["abc", "ks--k-"]}}
    mutants.restore(again, verdicts)
    found = json.loads((again / place).read_text())
    assert found["exit_code_by_key"] == dict(zip(codes, (1, 0, None, None, 1, None)))
    assert found["hash_by_function_name"] == {"x_find": "abc"}
    (again / place).write_text("{}")
    mutants.restore(again, verdicts)
    assert (again / place).read_text() == "{}"
