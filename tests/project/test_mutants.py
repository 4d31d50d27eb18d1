"""The score of the mutants is counted right, and nothing is explained that is not there any more."""

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
