"""The files that editors, pre-commit and citation tools read."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

import shiftproof

ROOT = Path(__file__).parents[2]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def hooks(place: str) -> list[dict[str, Any]]:
    """The hooks of pre-commit from this repository ("local"), or from elsewhere."""
    repos = read(".pre-commit-config.yaml")["repos"]
    return [hook for repo in repos if (repo["repo"] == "local") == (place == "local") for hook in repo["hooks"]]


@pytest.mark.parametrize("hook", hooks("local"), ids=lambda hook: hook["id"])
def test_local_hooks_run_programs_of_the_development_set(hook: dict[str, Any]) -> None:
    program = hook["entry"].split()[0]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    assert program in {re.split(r"[<>=\[]", name)[0] for name in extras}
    assert (Path(sys.executable).parent / program).exists()
    assert hook["language"] == "system"


def test_other_hooks_are_pinned() -> None:
    assert {hook["id"] for hook in hooks("elsewhere")} == {"end-of-file-fixer", "trailing-whitespace"}
    for repo in read(".pre-commit-config.yaml")["repos"]:
        assert repo["repo"] == "local" or re.fullmatch(r"v\d+\.\d+\.\d+", repo["rev"])


def test_the_tree_is_as_the_whitespace_hooks_leave_it() -> None:
    """Text files end in one newline, and no line ends in a space."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    exclude = re.compile(read(".pre-commit-config.yaml")["exclude"])
    checked = 0
    for name in filter(None, listed.split("\0")):
        data = (ROOT / name).read_bytes() if (ROOT / name).is_file() and not exclude.search(name) else b""
        if data and b"\0" not in data:
            assert data.endswith(b"\n"), name
            assert not data.endswith(b"\n\n"), name
            assert not re.search(rb"[ \t]+$", data, flags=re.M), name
            checked += 1
    assert checked > 200


def test_the_citation_names_the_software_and_the_paper() -> None:
    """The keys that version 1.2.0 of the format requires, and the version of the package."""
    citation = read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert citation["version"] == shiftproof.__version__
    assert citation["license"] == "Apache-2.0"
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= set(paper)
    assert "Gaussian-Hermite Moments" in paper["title"]
    assert [author["family-names"] for author in paper["authors"]] == ["Singh", "Bosilj", "Cielniak"]


def test_editors_know_the_line_length() -> None:
    text = (ROOT / ".editorconfig").read_text()
    length = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    assert text.startswith("root = true\n")
    assert f"max_line_length = {length}\n" in text
