"""Checkpoints that survive a kill at any moment.

A checkpoint is one safetensors file: the tensors, the rest as JSON in its header, and a digest over both. It is written
atomically: a file with the name of a checkpoint is whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.safe_io.atomic import atomic_write

_HEADER = "shiftproof"
_PATTERN = "step-*.safetensors"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write tensors and a JSON-able state into one file; the file is replaced as a whole or not at all."""
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    text = json.dumps(state, sort_keys=True)
    save = importlib.import_module("safetensors.torch").save
    # one entry: several have no fixed order, and equal states should be equal files
    header = json.dumps({"digest": tensor_digest(plain, text), "state": text})
    atomic_write(path, save(plain, {_HEADER: header}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a file that is not exactly that is a ValueError. Nothing in it is executed."""
    safetensors = importlib.import_module("safetensors")
    try:
        with safetensors.safe_open(path, "pt") as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        header = json.loads(meta[_HEADER])
        if tensor_digest(tensors, header["state"]) != header["digest"]:
            raise ValueError("its contents do not match its digest")
        state = json.loads(header["state"])
        if not isinstance(state, dict):
            raise ValueError(f"its state is a {type(state).__name__}")
        return tensors, state
    except (OSError, MemoryError):
        raise  # not the fault of the file
    except Exception as error:  # a damaged header can raise nearly anything
        raise ValueError(f"{path}: not a readable checkpoint: {checks.one_line(error)}") from None


def tensor_digest(tensors: Mapping[str, Tensor], text: str = "") -> str:
    """sha256 over a text and over names, types, shapes and bytes of tensors."""
    out = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        t = tensors[name].detach().cpu().contiguous()
        out.update(f"{name} {t.dtype} {tuple(t.shape)}".encode())
        out.update(t.reshape(-1).view(torch.uint8).numpy().data)
    return out.hexdigest()


@dataclass(kw_only=True)
class RunState:
    """How far a run is: what a checkpoint keeps beside the tensors, under the names of the fields."""

    data: str  # the checksum of the images
    threads: int
    processes: int
    epoch: int = 0  # finished epochs
    step: int = 0  # finished steps of the current epoch
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # of this epoch: loss, right answers, images
    seconds: float = 0.0
    best: dict[str, Any] | None = None  # the best epoch, and the number by which it was judged
    history: list[dict[str, Any]] = field(default_factory=list)  # one row per epoch
    scaler: dict[str, Any] = field(default_factory=dict)  # of fp16

    def to_dict(self) -> dict[str, Any]:
        """As a dictionary, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> RunState:
        """The state that `to_dict` wrote."""
        try:
            return cls(**saved)
        except TypeError as error:
            raise ValueError(f"not the state of a run: {error}") from None

    def add(self, sums: Sequence[float]) -> tuple[float, float]:
        """Count a step; returns loss and accuracy of the epoch so far."""
        self.sums = [a + b for a, b in zip(self.sums, sums)]
        self.step += 1
        return self.sums[0] / self.sums[2], self.sums[1] / self.sums[2]

    def end_epoch(self, checked: Mapping[str, Any], seconds: float) -> bool:
        """Add the row of the epoch to the history, with what was `checked`; returns whether it is the best so far."""
        loss, right, count = self.sums
        row = {"epoch": self.epoch + 1, "loss": loss / count, "accuracy": right / count, **checked}
        judged = row.get("validation_accuracy", float(self.epoch))  # without validation the last epoch is the best
        self.history.append(row)
        self.epoch, self.step, self.sums, self.seconds = self.epoch + 1, 0, [0.0, 0.0, 0.0], seconds
        better = self.best is None or judged > self.best["judged"]
        if better:
            self.best = {"epoch": self.epoch, "judged": judged}
        return bool(better)


class Checkpoints:
    """The newest checkpoints of a run, in a folder of their own."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def files(self) -> list[Path]:
        """All checkpoints, the newest first."""
        return sorted(self.folder.glob(_PATTERN), reverse=True)

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write the checkpoint of a step, then remove the oldest beyond those to keep."""
        write_tensors(self.folder / f"step-{step:09d}.safetensors", tensors, state)
        self._clear()

    def _clear(self) -> None:
        for old in self.files()[self.keep :]:
            old.unlink(missing_ok=True)

    def newest(self, warn: Callable[[str], None]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint that can be read, or None; others are reported to `warn` and set aside."""
        files = self.files()
        for path in files:
            try:
                found = read_tensors(path)
                self._clear()  # a kill may have come between a write and the removal
                return found
            except ValueError as error:
                left = "Using the one before it" if path != files[-1] else "None is left: starting over"
                warn(f"{error}. {left}.")
                path.replace(path.with_suffix(".damaged"))
        return None


def checkpoint_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and statistics, and the state of the optimizer for every parameter, by name."""
    out = {f"model.{name}": t for name, t in model.state_dict().items()}
    for name, p in model.named_parameters():
        for kind, value in optimizer.state.get(p, {}).items():
            if value is not None:
                out[f"optimizer.{kind}.{name}"] = value
    return out


def restore_tensors(model: nn.Module, optimizer: torch.optim.Optimizer, saved: dict[str, Tensor]) -> None:
    """Put back what `checkpoint_tensors` took."""
    model.load_state_dict({k.partition(".")[2]: t for k, t in saved.items() if k.startswith("model.")})
    parameters = dict(model.named_parameters())
    for key, value in saved.items():
        what, _, rest = key.partition(".")
        if what == "optimizer":
            kind, _, name = rest.partition(".")
            p = parameters[name]
            if kind != "step":  # a counter
                # in the memory layout of the parameter: another one may round differently
                value = torch.empty_like(p).copy_(value).detach()
            optimizer.state[p][kind] = value


@contextlib.contextmanager
def explain_full_disk(out: Path) -> Iterator[None]:
    """A disk that fills up during a run: say that nothing is lost."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise OSError(
            f"{error.filename or out}: {error.strerror}. The last checkpoint is kept: make room and continue with "
            "--resume."
        ) from None
