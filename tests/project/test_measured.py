"""The numbers of the README are those of the records."""

import re
import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURED = runpy.run_path(str(ROOT / "tools" / "measured.py"))
PAGE = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def results() -> object:
    return MEASURED["Results"]()


def test_the_readme_has_the_numbers_of_the_records(results: object) -> None:
    assert MEASURED["write"](PAGE, results) == PAGE, "run `python tools/measured.py`"


def test_measured_numbers_have_a_place() -> None:
    """Every place has its text, and no mean with a spread stands outside of one."""
    places = set(re.findall(r"<!-- numbers: (?!end )(\w+) -->", PAGE))
    assert places == set(MEASURED["PLACES"])
    outside = MEASURED["_PLACE"].sub("", PAGE)
    assert "±" not in outside
    assert not re.findall(r"\d\.\d+ ?%", outside)


def test_another_record_changes_the_readme(tmp_path: Path) -> None:
    """What is written follows from the records, and from nothing else."""
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.rmtree(tmp_path / "results" / "records")
    (tmp_path / "results" / "records").mkdir()
    empty = MEASURED["write"](PAGE, MEASURED["Results"](tmp_path / "results"))
    assert "GHS has not run (n=0): not compared." in empty
    shutil.copytree(ROOT / "results", tmp_path / "results", dirs_exist_ok=True)
    for path in (tmp_path / "results" / "records").glob("cifar10-resnet20-lpf-laptop-seed0-*.json"):
        path.write_text(path.read_text().replace('"value": 0.84', '"value": 0.74'))
    assert MEASURED["write"](PAGE, MEASURED["Results"](tmp_path / "results")) != PAGE
