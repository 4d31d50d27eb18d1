"""The counts behind docs/reliability.md: nothing is lost, nothing is added, a failed run writes nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import tally

pytest_plugins = ["pytester"]
HERE = Path(__file__).parents[1]
HOOKS = "from helpers.tally import pytest_addoption, pytest_configure, pytest_terminal_summary"

INNER = """
from helpers import tally
import pytest

@pytest.mark.parametrize("i", range(10))
def test_counts(i):
    tally.count("Files", "idx", 3)
    tally.count("Files", "amat")
    tally.count("Files", "read", 2, of="png")
    tally.count("Files", "refused", of="png" if i else "gif")
    tally.measured("Numerics", "error", i / 10, bound=1.0)
"""


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted here does not count in the run these tests belong to."""
    monkeypatch.delenv(tally.FOLDER, raising=False)


def run(pytester: pytest.Pytester, text: str, *words: str) -> pytest.RunResult:
    pytester.makeconftest(HOOKS)
    pytester.makepyfile(test_inner=text)
    pytester.makeini(f"[pytest]\npythonpath = {HERE}")
    return pytester.runpytest("-p", "no:cacheprovider", *words)


@pytest.mark.parametrize("workers", [0, 2])
def test_counts_of_all_workers_are_added(workers: int, pytester: pytest.Pytester) -> None:
    done = run(pytester, INNER, f"-n{workers}", "--reliability", "page.md")
    assert done.ret == 0
    page = (pytester.path / "page.md").read_text()
    assert "| idx | 30 |" in page
    assert "| amat | 10 |" in page
    assert "|  | read | refused |\n| :-- | --: | --: |\n| gif |  | 1 |\n| png | 20 | 9 |\n\n" in page
    assert "| error | 0.9 | 1 |" in page
    assert "| tests | 10 passed" in page
    assert page.index("## Files") < page.index("## Numerics")


def test_without_the_option_nothing_is_written(pytester: pytest.Pytester) -> None:
    assert run(pytester, INNER, "-p", "no:xdist").ret == 0
    assert not list(pytester.path.rglob("*.md"))
    assert not list(pytester.path.rglob("*.jsonl"))


def test_a_failed_run_leaves_the_page_as_it_was(pytester: pytest.Pytester) -> None:
    (pytester.path / "page.md").write_text("of an earlier run")
    done = run(pytester, INNER + "    assert i < 9\n", "--reliability", "page.md")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["*page.md: not written, for not every test passed*"])
    assert (pytester.path / "page.md").read_text() == "of an earlier run"


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tally.FOLDER, str(tmp_path))
    code = "import os; from helpers import tally; tally.count('Files', 'idx', 5); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], cwd=HERE, check=False)
    tally.count("Files", "idx", 2)
    (tmp_path / "1.jsonl").write_text('{"section": "Files", "what": "idx", "cou')
    assert tally.merge(tmp_path)["Files"].counts == {("", "idx"): 7}
