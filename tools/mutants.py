"""What became of the mutants of the core: `python tools/mutants.py MUTMUT PAGE` after `mutmut run`.

Each survivor must stand in tests/mutants.toml with the reason why no test can tell it from the code as it is.
"""

from __future__ import annotations

import collections
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

EXPLAINED = Path(__file__).parents[1] / "tests" / "mutants.toml"
KILLED = ("killed", "timeout", "segfault", "caught by type check")


@dataclass(frozen=True)
class Mutant:
    """One change of the code, as mutmut names it, and what the tests made of it."""

    name: str
    status: str

    @property
    def module(self) -> str:
        """The module it is in."""
        return re.split(r"\.x_|\.xǁ", self.name)[0].removeprefix("shiftproof.")

    @property
    def killed(self) -> bool:
        """Whether a test noticed, if only by not coming to an end."""
        return self.status in KILLED


def parse(results: str) -> list[Mutant]:
    """The lines of `mutmut results`."""
    pairs = (line.strip().rpartition(": ") for line in results.splitlines() if "__mutmut_" in line)
    return [Mutant(name, status) for name, _, status in pairs]


def change(diff: str) -> tuple[str, str]:
    """The lines that a diff takes away and puts in their place, without their indent."""
    body = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    was, now = ("\n".join(line[1:].strip() for line in body if line.startswith(sign)) for sign in "-+")
    return was, now


def explanations(text: str) -> dict[tuple[str, str], str]:
    """Why a change makes no difference, by the change."""
    return {(entry["was"], entry["is"]): entry["why"] for entry in tomllib.loads(text).get("mutant", [])}


def score(mutants: list[Mutant], reasons: dict[Mutant, str]) -> str:
    """How many were killed, by module, as a table in Markdown."""
    lines = ["| module | mutants | killed | no difference | killed of the others |", "| :-- | --: | --: | --: | --: |"]
    for module in [*sorted({m.module for m in mutants}), ""]:
        mine = [m for m in mutants if module in ("", m.module)]
        killed, excused = sum(m.killed for m in mine), sum(m in reasons for m in mine)
        name = f"`{module}`" if module else "all"
        share = killed / (len(mine) - excused) if len(mine) > excused else 1.0
        lines.append(f"| {name} | {len(mine):,} | {killed:,} | {excused:,} | {share:.1%} |")
    return "\n".join(lines)


def page(mutants: list[Mutant], reasons: dict[Mutant, str]) -> str:
    """The score and the reasons, as Markdown."""
    lines = ["# Mutants", "", "Written by `make mutants`; not to be edited by hand. Each mutant is the core with one"]
    lines += ["small mistake in it (made by mutmut), and a test should fail on it. Where none can, because the"]
    lines += ["mistake changes nothing that could be seen, the reason is counted below.", ""]
    lines += [score(mutants, reasons)]
    lines += ["", "| why a change makes no difference | mutants |", "| :-- | --: |"]
    lines += [f"| {why} | {n} |" for why, n in collections.Counter(reasons.values()).most_common()]
    return "\n".join(lines) + "\n"


def main(mutmut: str, out: str) -> int:
    """Print the score and what is not explained, write the page; 1 where something is left to be done."""

    def ask(*words: str) -> str:
        return subprocess.run([mutmut, *words], capture_output=True, text=True, check=True).stdout

    mutants = parse(ask("results", "--all", "true"))
    known, reasons, open_ = explanations(EXPLAINED.read_text()), {}, []
    for mutant in mutants:
        if mutant.killed:
            continue
        was, now = change(ask("show", mutant.name))
        if mutant.status != "not checked" and (was, now) in known:
            reasons[mutant] = known[was, now]
        else:
            open_.append(mutant)
            print(f"{mutant.name}: {mutant.status}\n  - {was}\n  + {now}")
    Path(out).write_text(page(mutants, reasons))
    print(score(mutants, reasons))
    if open_:
        print(f"{len(open_)} mutants are neither killed nor explained in {EXPLAINED.name}.")
    return int(bool(open_))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
