"""The licences of everything the package needs, from the metadata of what is installed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PACKAGE = "shiftproof"
RUN = ("", "train", "report", "app", "ray", "e2", "completion")  # extras that users install; "" is the package alone
_PERMISSIVE = re.compile(
    r"(0BSD|(3-Clause )?BSD( License|[- ][23]-Clause( Clear)?)?|Apache([- ]2\.0| Software License)|LLVM-exception|"
    r"BSL-1\.0|MIT( License|-CMU)?|ISC( License \(ISCL\))?|PSF-2\.0|Python Software Foundation License|Zlib|CC0-1\.0)"
)
_WORDS = re.compile(r" (?:AND|OR|WITH) ")


@dataclass(frozen=True)
class Licence:
    """A distribution and its terms; `extra` is the first of the package's extras that brings it."""

    name: str
    version: str
    terms: str
    extra: str

    @property
    def permissive(self) -> bool:
        """Whether every part of it is; a choice (`OR`) must leave only good ones too."""
        if _PERMISSIVE.fullmatch(self.terms):
            return True
        parts = _WORDS.split(self.terms.replace("(", "").replace(")", ""))
        return all(_PERMISSIVE.fullmatch(part) for part in parts)


def terms(name: str) -> str:
    """What a distribution says of itself: the SPDX expression, else its classifiers, else a line of its text."""
    found = metadata.metadata(name)
    kinds = [c.rpartition(" :: ")[2] for c in found.get_all("Classifier") or [] if c.startswith("License ::")]
    kinds = [kind for kind in kinds if kind != "OSI Approved"]
    return found["License-Expression"] or " AND ".join(kinds) or (found["License"] or "unknown").partition("\n")[0]


def needed(extra: str) -> set[str]:
    """The names of all distributions that `shiftproof[extra]` brings onto this platform, and what they bring."""
    seen: set[tuple[str, str]] = set()
    left = [(PACKAGE, extra)]
    while left:
        name, wanted = key = left.pop()
        if key in seen:
            continue
        seen.add(key)
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": wanted}):
                left += [(canonicalize_name(requirement.name), e) for e in ("", *requirement.extras)]
    return {name for name, _ in seen} - {PACKAGE}


def licences() -> list[Licence]:
    """Of the whole development set, by the extra that first needs a distribution."""
    found: dict[str, Licence] = {}
    for extra in (*RUN, "dev"):
        for name in sorted(needed(extra) - found.keys()):
            found[name] = Licence(name, metadata.version(name), terms(name), extra)
    return list(found.values())


def page() -> str:
    """All of them as Markdown."""
    rows = licences()
    lines = [
        "# Licences",
        "",
        "shiftproof is under the Apache License 2.0. What it stands on, in the versions that its",
    ]
    lines += ["tests run with, as each says of itself:", ""]
    for extra in (*RUN, "dev"):
        mine = [row for row in rows if row.extra == extra]
        title = {"": "The package", "dev": "Development"}.get(extra, f"Extra `{extra}`")
        if mine:
            lines += [f"## {title}", "", "| distribution | version | licence |", "| --- | --- | --- |"]
            lines += [f"| {row.name} | {row.version} | {row.terms} |" for row in mine]
            lines += [""]
    other = ", ".join(f"{row.name} ({row.terms})" for row in rows if not row.permissive)
    lines += [
        "## Not permissive in the strict sense",
        "",
        f"{other}: the Mozilla Public License asks those who change these files to publish the changes, and nothing of",
        "those who use them. The package alone needs none of them. Builds of PyTorch with CUDA bring libraries under",
        "NVIDIA's own terms.",
        "",
    ]
    return "\n".join(lines)
