"""What the tests tried, counted: the source of docs/reliability.md.

A test calls `count` or `measured`. Each process appends to a file of its own in the folder that the variable `FOLDER`
names, so that no worker waits for another and a killed one loses nothing; `pytest --reliability FILE` merges them.
Without that option the calls do nothing. The hooks of pytest at the end belong to conftest.py.
"""

import datetime
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FOLDER = "SHIFTPROOF_TALLY"


def count(section: str, what: str, number: int = 1, *, of: str = "") -> None:
    """Add to the number of things tried; `of` one of several that the same was tried on, a row for each."""
    _append({"section": section, "what": what, "of": of, "count": number})


def measured(section: str, what: str, value: float, bound: float | None = None) -> None:
    """Remember a number, of several the largest, and the bound that a test holds it to."""
    _append({"section": section, "what": what, "value": float(value), "bound": bound})


def _append(line: dict[str, Any]) -> None:
    if folder := os.environ.get(FOLDER):
        with (Path(folder) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


@dataclass
class Section:
    """The rows of one table: how often, and how large at most (with its bound)."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)  # by what was tried on, and what
    values: dict[str, tuple[float, float | None]] = field(default_factory=dict)


def merge(folder: Path) -> dict[str, Section]:
    """What all processes wrote, by section; a line cut off by a kill is left out."""
    found: dict[str, Section] = {}
    for entry in _entries(sorted(folder.glob("*.jsonl"))):
        section, what = found.setdefault(entry["section"], Section()), entry["what"]
        if "count" in entry:
            key = (entry["of"], what)
            section.counts[key] = section.counts.get(key, 0) + entry["count"]
        else:
            before = section.values.get(what, (entry["value"], None))[0]
            section.values[what] = (max(before, entry["value"]), entry["bound"])
    return dict(sorted(found.items()))


def _entries(files: Iterable[Path]) -> Iterable[dict[str, Any]]:
    for path in files:
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                continue


def render(sections: dict[str, Section], facts: dict[str, str]) -> str:
    """The page: what the run was, then one table for each section."""
    lines = ["# Reliability", "", "Written by `make soak` from the counts of its tests; not to be edited by hand."]
    lines += ["Every case counted here kept its law: a run with a failure writes no page.", ""]
    lines += _table(("run", ""), facts.items(), ":-- | :--")
    for title, section in sections.items():
        lines += ["", f"## {title}"]
        lines += _crossed(section.counts)
        rows = [(what, f"{number:,}") for (of, what), number in sorted(section.counts.items()) if not of]
        lines += ["", *_table(("tried", "times"), rows, ":-- | --:")] if rows else []
        largest = [
            (what, _short(value), "" if bound is None else _short(bound))
            for what, (value, bound) in sorted(section.values.items())
        ]
        lines += ["", *_table(("measured", "largest", "bound held"), largest, ":-- | --: | --:")] if largest else []
    return "\n".join(lines) + "\n"


def _short(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def _crossed(counts: dict[tuple[str, str], int]) -> list[str]:
    """What was tried across, what it was tried on down."""
    names = sorted({of for of, _ in counts if of})
    tried = sorted({what for of, what in counts if of})
    rows = [(of, *(f"{counts[of, what]:,}" if (of, what) in counts else "" for what in tried)) for of in names]
    return ["", *_table(("", *tried), rows, " | ".join([":--", *["--:"] * len(tried)]))] if rows else []


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]], alignment: str) -> list[str]:
    return [f"| {' | '.join(head)} |", f"| {alignment} |", *(f"| {' | '.join(row)} |" for row in rows)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reliability", metavar="FILE", help="write the counts of this run to FILE, if all tests pass")


def pytest_configure(config: pytest.Config) -> None:
    """Where the counts of all workers meet; they inherit the environment."""
    if config.getoption("--reliability") and not hasattr(config, "workerinput"):
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="shiftproof-tally-")


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """The page of `--reliability`."""
    page = config.getoption("--reliability")
    if not page or hasattr(config, "workerinput"):
        return
    folder = Path(os.environ.pop(FOLDER))
    if exitstatus == 0:
        passed, skipped = (len(terminalreporter.stats.get(word, ())) for word in ("passed", "skipped"))
        tests = {"tests": f"{passed:,} passed, {skipped:,} skipped"}
        Path(page).write_text(render(merge(folder), tests | _circumstances()))
        terminalreporter.write_line(f"wrote {page}")
    else:
        terminalreporter.write_line(f"{page}: not written, for not every test passed")
    shutil.rmtree(folder)


def _circumstances() -> dict[str, str]:
    from shiftproof import environment  # imports torch

    code, machine = environment.code(), environment.machine()
    return {
        "profile": os.environ.get("SHIFTPROOF_PROFILE", "test"),
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "commit": f"{code['commit']}{' with changes' if code['changed'] else ''}",
        "versions": ", ".join(f"{name} {machine[name]}" for name in ("python", "torch", "numpy")),
        "processor": f"{machine['processor']}, {'C kernels' if machine['kernels'] else 'no C kernels'}",
    }
