"""What became of the mutants of the core: `mutants.py restore`, then `mutmut run`, then `mutants.py page MUTMUT PAGE`.

Each survivor must stand in tests/mutants.toml with the reason why no test can tell it from the code as it is. The
verdicts are kept in tests/mutants.json, so that only the mutants of functions that have changed since are tried: delete
it to try all of them.
"""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXPLAINED, VERDICTS = ROOT / "tests" / "mutants.toml", ROOT / "tests" / "mutants.json"
MADE = ROOT / "mutants"  # by mutmut, with a .meta beside each module
LETTERS = {0: "s", 1: "k", None: "-"}  # survived, killed, not tried; "k" also for whatever else ends a process
LETTERS |= dict.fromkeys((-24, 24, 36, 152, 255), "-")  # timeouts, which say little on a busy machine
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


def keep(made: Path, verdicts: Path) -> None:
    """Write the verdicts of mutmut's files: by module and function a hash of its code, and a letter for each mutant."""
    kept: dict[str, dict[str, list[str]]] = {}
    for path in sorted(made.rglob("*.meta")):
        meta = json.loads(path.read_text())
        letters: dict[str, str] = collections.defaultdict(str)
        for name, code in meta["exit_code_by_key"].items():
            letters[name.rpartition(".")[2].partition("__mutmut_")[0]] += LETTERS.get(code, "k")
        module = kept[path.relative_to(made).as_posix()] = {}
        for function, digest in meta["hash_by_function_name"].items():
            if letters[function].strip("-"):
                module[function] = [digest, letters[function]]
    verdicts.write_text(json.dumps(kept, indent=0) + "\n")


def forget(made: Path, names: set[str]) -> None:
    """Let mutmut try these mutants again."""
    for path in made.rglob("*.meta"):
        meta = json.loads(path.read_text())
        meta["exit_code_by_key"] |= dict.fromkeys(names & meta["exit_code_by_key"].keys())
        path.write_text(json.dumps(meta))


def restore(made: Path, verdicts: Path) -> None:
    """Write mutmut's files from the verdicts, where there are none; mutmut drops what is of another hash."""
    codes = {"s": 0, "k": 1, "-": None}
    for place, functions in json.loads(verdicts.read_text() if verdicts.exists() else "{}").items():
        path = made / place
        if path.exists():
            continue
        module = place.removeprefix("src/").removesuffix(".py.meta").removesuffix("/__init__").replace("/", ".")
        tried = {
            f"{module}.{function}__mutmut_{i}": codes[letter]
            for function, (_, letters) in functions.items()
            for i, letter in enumerate(letters, 1)
        }
        keys = "type_check_error_by_key", "durations_by_key", "estimated_durations_by_key"
        usual: dict[str, dict[str, object]] = {key: {} for key in keys}
        hashes = {function: digest for function, (digest, _) in functions.items()}
        meta = usual | {"exit_code_by_key": tried, "hash_by_function_name": hashes}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(meta))


def report(mutmut: str, out: str) -> int:
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
        print(
            f"{len(open_)} mutants are neither killed nor explained in {EXPLAINED.name}. The next run tries them again."
        )
    forget(MADE, {mutant.name for mutant in open_})
    keep(MADE, VERDICTS)
    return int(bool(open_))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["restore"]:
            restore(MADE, VERDICTS)
        case ["page", mutmut, out]:
            sys.exit(report(mutmut, out))
