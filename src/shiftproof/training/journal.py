"""What a run reports: bars on a terminal, lines elsewhere, JSON lines and TensorBoard in its folder."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any, TextIO

from shiftproof import progress
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.training.process import Stopwatch


class Journal:
    """The log of a run, `log.jsonl`, one JSON object per line, each with the step it belongs to.

    Opened for a run that resumes at `step`, after `epochs` whole epochs, it drops all later lines.
    """

    def __init__(self, folder: Path, step: int, epochs: int, tensorboard: bool) -> None:
        self.path = folder / "log.jsonl"
        lines = self.path.read_text(errors="replace").splitlines() if self.path.exists() else []
        kept = [line for line in lines if _within(line, step, epochs)]
        atomic_write(self.path, "".join(f"{line}\n" for line in kept).encode())
        self._file = self.path.open("a")
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, event: str, step: int, **values: Any) -> None:
        """Add a line; floats become scalars of TensorBoard with the same name."""
        self._file.write(json.dumps({"event": event, "step": step, **values}) + "\n")
        try:
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{event}/{name}", value, step)

    def close(self) -> None:
        """Flush and close; a line that does not fit on the disk is dropped."""
        with contextlib.suppress(OSError):
            self._file.close()
        if self._board is not None:
            self._board.close()


def _within(line: str, step: int, epochs: int) -> bool:
    """Whether a line belongs to no later step or epoch; a line cut off by a kill counts as later."""
    try:
        found = json.loads(line)
        return bool(found["step"] <= step and found.get("epoch", 0) <= epochs)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


class Display:
    """Progress of a run: bars for the run and the epoch, or a line per epoch where there is no terminal."""

    def __init__(self, name: str, epochs: int, steps: int, quiet: bool = False, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.quiet, self.epochs, self.steps = quiet or progress.quiet(), epochs, steps
        self._bars: Any = None
        if not self.quiet and self.stream.isatty():
            from rich import progress as rich
            from rich.console import Console

            self._bars = rich.Progress(
                rich.TextColumn("{task.description}"),
                rich.BarColumn(bar_width=None),
                rich.MofNCompleteColumn(),
                rich.TextColumn("{task.fields[note]}"),
                rich.TimeElapsedColumn(),
                rich.TimeRemainingColumn(),
                console=Console(file=self.stream),
            )
            self._run = self._bars.add_task(name, total=epochs * steps, note="")
            self._epoch = self._bars.add_task("epoch", total=steps, note="")

    def shown(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which the bars are shown."""
        return self._bars or contextlib.nullcontext()

    def step(self, epoch: int, step: int, loss: float, accuracy: float, speed: float) -> None:
        """Update the bars after a step."""
        if self._bars is not None:
            note = f"loss {loss:.3f}, accuracy {accuracy:.1%}, {speed:,.0f} images/s"
            self._bars.update(self._run, completed=epoch * self.steps + step)
            self._bars.update(self._epoch, completed=step, description=f"epoch {epoch + 1}", note=note)

    def epoch(self, row: dict[str, Any], seconds: float) -> None:
        """Print the line of an epoch."""
        words = [f"epoch {row['epoch']}/{self.epochs}", f"loss {row['loss']:.4f}", f"accuracy {row['accuracy']:.2%}"]
        if "validation_accuracy" in row:
            words.append(f"validation {row['validation_accuracy']:.2%}")
        self.say(", ".join([*words, f"{seconds:.0f} s"]))

    def warn(self, text: str) -> None:
        """Print one line, even if quiet."""
        if self.quiet:
            print(text, file=self.stream, flush=True)
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """Print one line, unless quiet."""
        if self._bars is not None:
            self._bars.console.print(text, highlight=False)
        elif not self.quiet:
            print(text, file=self.stream, flush=True)


class Speed:
    """Images per second, over the last ten seconds."""

    def __init__(self) -> None:
        self._watch = Stopwatch()
        self._marks: list[tuple[float, int]] = [(0.0, 0)]

    def __call__(self, images: int) -> float:
        """The speed after this many more images."""
        now = self._watch()
        self._marks.append((now, self._marks[-1][1] + images))
        while len(self._marks) > 2 and now - self._marks[0][0] > 10:
            del self._marks[0]
        (before, first), (_, last) = self._marks[0], self._marks[-1]
        return (last - first) / max(now - before, 1e-9)
