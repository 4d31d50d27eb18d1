"""Whatever stands in a file: the right value or a clear error, in bounded memory, and nothing else happens."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import tally
from helpers.hostile import ATTACKS
from helpers.laws import effort
from helpers.mutations import damaged
from helpers.readers import READERS
from helpers.sandbox import PATIENCE, Outcome, Sandbox

pytestmark = [pytest.mark.counted, pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")]
SECTION = "Files: damaged and hostile"
CORPUS = Path(__file__).with_name("corpus")
SLOW = ("as large as Pillow allows", "16 bits")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


def read(sandbox: Sandbox, name: str, content: bytes) -> Outcome:
    """The outcome of reading a file with this content, in a folder of its own."""
    reader = READERS[name]
    if name not in sandbox.warm:
        sandbox.warm.add(name)
        for whole, wrap in reader.seeds():
            read(sandbox, name, wrap(whole))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, reader.file)
        path.write_bytes(content)
        outcome = sandbox.call("helpers.readers", reader.function.__name__, path)
        assert not list(Path(folder).rglob("executed"))
        return outcome


def judge(outcome: Outcome, file: str) -> str:
    """What is wrong with an outcome, or nothing."""
    if outcome.deeds:
        return f"did {outcome.deeds}"
    if outcome.kind == "value":
        return ""
    if not outcome.expected:
        return f"raised {outcome.kind}: {outcome.message} ({outcome.causes})"
    if file not in outcome.message:
        return f"does not name the file: {outcome.message}"
    if "MemoryError" in outcome.causes or "alloc" in outcome.causes.lower():
        return f"asked for memory without bound: {outcome.causes}"
    return ""


@pytest.mark.parametrize(
    ("deed", "complaint"),
    [
        ("nothing", ""),
        ("writes_outside", "did ['open"),
        ("makes_a_link", "did ['os.symlink"),
        ("starts_a_program", 'did ["subprocess.Popen'),
        ("calls_the_shell", 'did ["os.system'),
        ("connects", 'did ["socket.connect'),
        ("takes_memory", "raised MemoryError"),
        ("hides_that_it_took_memory", "asked for memory without bound"),
        ("crashes", "raised killed: exit code -11"),
        ("hangs", "raised hung"),
        ("raises_another_error", "raised KeyError"),
        ("names_no_file", "does not name the file"),
    ],
)
def test_the_judge_sees_what_is_wrong(
    deed: str, complaint: str, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helpers.sandbox.PATIENCE", 5.0 if deed == "hangs" else PATIENCE)
    path = tmp_path / "in" / "file"
    path.parent.mkdir()
    found = judge(sandbox.call("helpers.misdeeds", deed, path), "file")
    assert found.replace("'", '"').startswith(complaint.replace("'", '"'))
    assert bool(found) == bool(complaint)


@pytest.mark.parametrize("name", READERS)
def test_whole_files_are_read(name: str, sandbox: Sandbox) -> None:
    """What the others damage is read as it is."""
    for content, wrap in READERS[name].seeds():
        outcome = read(sandbox, name, wrap(content))
        assert outcome.kind == "value", outcome
        assert not judge(outcome, READERS[name].file)


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_right_or_refused(name: str, sandbox: Sandbox) -> None:
    reader = READERS[name]

    @effort(60 // reader.cost, 800 // reader.cost)
    @given(st.one_of([damaged(content, wrap) for content, wrap in reader.seeds()]))
    def law(content: bytes) -> None:
        outcome = read(sandbox, name, content)
        assert not judge(outcome, reader.file)
        assert outcome.peak < reader.memory
        tally.count(SECTION, "read" if outcome.kind == "value" else "refused", of=name)

    law()


def cases() -> list[Any]:
    """Pictures of 88 million pixels take seconds, and run in `make soak`."""
    return [
        pytest.param(name, attack, marks=pytest.mark.slow if attack in SLOW else ())
        for name in ATTACKS
        for attack in ATTACKS[name]
    ]


@pytest.mark.parametrize(("name", "attack"), cases())
def test_hostile_files_do_no_harm(name: str, attack: str, sandbox: Sandbox) -> None:
    outcome = read(sandbox, name, ATTACKS[name][attack]())
    assert not judge(outcome, READERS[name].file)
    assert outcome.peak < READERS[name].memory
    tally.count(SECTION, "made to do harm", of=name)
    bound = READERS[name].memory / 2**20
    tally.measured(SECTION, f"MiB for a file that may take {bound:,.0f}", outcome.peak / 2**20, bound)


@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.iterdir()))
def test_found_cases_stay_mended(name: str, sandbox: Sandbox) -> None:
    """Files that once led to a crash, a hang, an error of another kind, or one without the file's name."""
    for path in sorted((CORPUS / name).iterdir()):
        outcome = read(sandbox, name, path.read_bytes())
        assert not judge(outcome, READERS[name].file), path.name
        assert outcome.peak < READERS[name].memory
        tally.count(SECTION, "found cases, replayed")
