"""Files from anyone through whole commands: a result or one line, and nothing else happens."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given
from torch import Tensor

from helpers import tally
from helpers.hostile import ATTACKS
from helpers.laws import effort
from helpers.mutations import damaged
from helpers.readers import exported
from helpers.sandbox import Outcome, Sandbox
from helpers.sandboxed_commands import make

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")]


def saved(tensors: dict[str, Tensor]) -> bytes:
    out = io.BytesIO()
    torch.save(tensors, out)
    return out.getvalue()


def torch_weights() -> bytes:
    return saved(make().state_dict())


def safe_weights() -> bytes:
    return safetensors.torch.save(make().state_dict())


# read without harm, and then refused by the network
UNFIT = {
    "of another network": {"other": torch.zeros(3)},
    "a tensor without end": make().state_dict() | {"0.bias": torch.zeros(1).expand(2**40)},
}


# command, file: a whole one, and the reader whose attacks are tried
CASES = {
    ("convert", "x.pt"): (torch_weights, "weights, torch"),
    ("convert", "x.safetensors"): (safe_weights, "weights, safetensors"),
    ("evaluate", "x.pt"): (torch_weights, "weights, torch"),
    ("evaluate", "x.safetensors"): (safe_weights, "weights, safetensors"),
    ("measure", "x.onnx"): (lambda: exported()["model.onnx"], "onnx"),
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


def run(sandbox: Sandbox, command: str, file: str, content: bytes) -> Outcome:
    """What the command makes of a file with this content, in a folder of its own."""
    if command not in sandbox.warm:
        sandbox.warm.add(command)  # imports write caches, and git is asked for the commit
        outcome(sandbox, command, file, CASES[command, file][0]())
    found = outcome(sandbox, command, file, content)
    assert not found.deeds
    assert found.kind in ("value", "ValueError"), found
    assert found.peak < 2**29, found
    tally.count("Files: damaged and hostile", "through a command", of=command)
    return found


def outcome(sandbox: Sandbox, command: str, file: str, content: bytes) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, file)
        path.write_bytes(content)
        found = sandbox.call("helpers.sandboxed_commands", command, path)
        assert not list(Path(folder).rglob("executed"))
    return found


@pytest.mark.parametrize(("command", "file"), CASES)
def test_hostile_files_through_commands(command: str, file: str, sandbox: Sandbox) -> None:
    """Whole files work; of the others, each error is one line that names the file."""
    whole, reader = CASES[command, file]
    assert run(sandbox, command, file, whole()).kind == "value"
    attacks = {name: content() for name, content in ATTACKS[reader].items()}
    attacks |= {name: saved(tensors) for name, tensors in UNFIT.items() if file == "x.pt"}
    for attack, content in attacks.items():
        found = run(sandbox, command, file, content)
        assert found.kind == "ValueError", attack
        assert file in found.message, (attack, found)


@pytest.mark.parametrize(("command", "file"), CASES)
def test_damaged_files_through_commands(command: str, file: str, sandbox: Sandbox) -> None:
    @effort(10, 100)
    @given(damaged(CASES[command, file][0](), bytes))
    def law(content: bytes) -> None:
        run(sandbox, command, file, content)

    law()
