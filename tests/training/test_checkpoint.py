"""Checkpoints: whole or not there, and what is damaged is noticed."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from shiftproof.training.checkpoint import Checkpoints, read_tensors, write_tensors

TENSORS = {
    "weight": torch.arange(24.0).view(2, 3, 2, 2).to(memory_format=torch.channels_last),
    "count": torch.tensor(7),
    "half": torch.ones(3, dtype=torch.bfloat16),
}
STATE = {"epoch": 3, "sums": [0.1, 2.0], "best": None}


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", TENSORS, STATE)
    tensors, state = read_tensors(tmp_path / "a.safetensors")
    assert state == STATE
    assert tensors.keys() == TENSORS.keys()
    for name, t in TENSORS.items():
        assert torch.equal(tensors[name], t)
        assert tensors[name].dtype == t.dtype
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_any_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """Header, JSON or tensor: no flipped bit goes unnoticed."""
    path = tmp_path / "a.safetensors"
    write_tensors(path, TENSORS, STATE)
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        path.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        try:
            tensors, state = read_tensors(path)
        except ValueError:
            continue
        # a blank that pads the header
        assert state == STATE
        assert all(torch.equal(tensors[k], t) for k, t in TENSORS.items())
        assert good[place] == ord(" ")


@pytest.mark.parametrize("length", [0, 7, 8, 100, -1])
def test_a_truncated_file_is_an_error(length: int, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, TENSORS, STATE)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        read_tensors(path)


def test_a_hostile_file_is_an_error_and_runs_nothing(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "executed").touch, ())

    path = tmp_path / "a.safetensors"
    path.write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        read_tensors(path)
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")  # a header that claims to be enormous
    with pytest.raises(ValueError, match="not a readable checkpoint"):
        read_tensors(path)
    assert not (tmp_path / "executed").exists()


def test_the_newest_stay_and_a_damaged_one_falls_back(tmp_path: Path) -> None:
    """Keep two; if the newest is damaged, take the one before and say so."""
    store = Checkpoints(tmp_path, keep=2)
    said: list[str] = []
    assert store.newest(said.append) is None
    for step in (5, 10, 200):
        store.save(step, TENSORS, STATE | {"step": step})
    assert [p.name for p in store.files()] == ["step-000000200.safetensors", "step-000000010.safetensors"]
    found = store.newest(said.append)
    assert found is not None
    assert found[1]["step"] == 200
    assert said == []
    newest = store.files()[0]
    newest.write_bytes(newest.read_bytes()[:-1])
    found = store.newest(said.append)
    assert found is not None
    assert found[1]["step"] == 10
    assert "step-000000200.safetensors" in said[0]
    assert "Using the one before it" in said[0]
    assert newest.with_suffix(".damaged").exists()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk destroys nothing and leaves nothing half-written."""
    path = tmp_path / "a.safetensors"
    write_tensors(path, TENSORS, STATE)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(path, TENSORS, {"epoch": 4})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]
