"""The tab Network, without the page: trained networks that are at hand, and what every shift does to their answers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor

from shiftproof.app.samples import SAMPLES, in_colours, sample
from shiftproof.data.sets import load_dataset
from shiftproof.evaluation.classifier import Classifier, pixels
from shiftproof.invariance import Shift, ShiftError, survey
from shiftproof.models import pretrained
from shiftproof.safe_io.pictures import fit
from shiftproof.training.runs import open_weights, read_config, read_result

SHIFTS = 1024  # tried at most: all of them up to 32 x 32 pixels
IMAGES = 30  # of a data set that are offered
PATHS = ("row", "column", "diagonal")


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network: images (B, C, H, W) in [0, 1] to scores, the names of its classes, the size it was made for.

    `data` names what it was trained on; `folder` holds the pictures where that is somebody's own, `padded` the size
    that smaller images were padded to.
    """

    name: str
    scores: Callable[[Tensor], Tensor]
    classes: tuple[str, ...]
    size: tuple[int, int, int]
    data: str
    folder: Path | None = None
    padded: int | None = None

    @property
    def family(self) -> str:
        """Networks of one family take the same pictures and know the same classes."""
        channels, height, width = self.size
        return f"{self.data}: {height} x {width} pixels, {'colour' if channels == 3 else 'grey'}"


@dataclass
class Library:
    """The networks by family, and why some that were found are not among them."""

    families: dict[str, list[Network]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, network: Network) -> None:
        """Enter a network of any family."""
        self.families.setdefault(network.family, []).append(network)


def find_networks(runs: Sequence[Path]) -> Library:
    """The networks that come with the package, then those of the finished runs in folders, or of runs themselves."""
    library = Library()
    names = {name: tuple(name.split("-", 1)[1].rsplit("-", 1)) for name in pretrained.available()}
    for name, (method, data) in sorted(names.items(), key=lambda item: _place(item[1][0])):
        with resources.as_file(pretrained.FOLDER.joinpath(f"{name}.safetensors")) as path:
            _enter(library, path, method, data)
    found = list(_runs(runs))
    for folder in found:
        try:
            config = read_config(folder)
            if config is None or read_result(folder) is None:
                library.problems.append(f"{folder}: the run is not finished.")
                continue
            place = None if config.data.path is None else Path(config.data.path)
            label = f"{config.recipe} ({folder.name})"
            _enter(library, folder / "best.safetensors", label, config.data.name, place, config.data.size)
        except (ValueError, OSError) as error:
            library.problems.append(str(error))
    return library


def _place(method: str) -> int:
    """Those that the paper compares come first, in its order, for the first few are shown."""
    compared = ("strided", "lpf", "aps", "ghs")
    return compared.index(method) if method in compared else len(compared)


def _runs(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if not place.is_dir():
            raise ValueError(f"{place}: no such folder of runs.")
        inside = [place] if (place / "config.json").exists() else sorted(p.parent for p in place.glob("*/config.json"))
        yield from inside


def _enter(
    library: Library, path: Path, name: str, data: str, folder: Path | None = None, padded: int | None = None
) -> None:
    model, about = open_weights(path)
    channels, height, width = about["size"]
    library.add(
        Network(
            name,
            Classifier(model, about["mean"], about["std"]),
            tuple(about["classes"]),
            (channels, height, width),
            data,
            folder,
            padded,
        )
    )


@functools.lru_cache(maxsize=32)
def pictures(network: Network, data_dir: Path | None = None) -> dict[str, Tensor]:
    """Pictures to try a network on, by name: test images of its data set where that is at hand, bundled ones.

    Each is (1, C, H, W), in the size and the colours of the network.
    """
    found: dict[str, Tensor] = {}
    try:
        dataset = load_dataset(network.data, data_dir, path=network.folder, size=network.padded)
    except (ValueError, OSError, ModuleNotFoundError):
        pass  # not at hand
    else:
        if tuple(dataset.test.images.shape[1:]) == network.size:
            for k, (image, label) in enumerate(zip(dataset.test.images[:IMAGES], dataset.test.labels)):
                found[f"{network.classes[int(label)]} (test image {k})"] = pixels(image)[None]
    for name in SAMPLES:
        found[name] = fitted(sample(name), network)
    return found


def fitted(picture: Tensor, network: Network) -> Tensor:
    """A picture (3, H, W) in the size and the colours of a network. (1, C, H, W)"""
    channels, *size = network.size
    return fit(in_colours(picture, channels), (size[0], size[1]))[None]


@dataclass(frozen=True)
class Sweep:
    """The scores of a network for every shift of a picture, on a grid of rows and columns; no shift is in the middle.

    `error` is the measure over the same shifts.
    """

    rows: list[int]
    columns: list[int]
    scores: Tensor  # (R, C, classes)
    unmoved: Tensor  # (classes,)
    error: ShiftError
    kept: float

    @property
    def answers(self) -> Tensor:
        """The class of each shift. (R, C)"""
        return self.scores.argmax(-1)

    @property
    def answer(self) -> int:
        """The class of the picture where it was."""
        return int(self.unmoved.argmax())

    @property
    def changes(self) -> Tensor:
        """The largest change of a score for each shift. (R, C)"""
        return self.error.changes.view(len(self.rows), len(self.columns))

    def probability(self, row: int, column: int) -> tuple[int, float]:
        """The class that a shift gives, by its place in the grid, and its probability."""
        shares = self.scores[row, column].softmax(0)
        best = int(shares.argmax())
        return best, float(shares[best])

    def place(self, shift: tuple[float, float]) -> tuple[int, int]:
        """Where in the grid a shift is, or the nearest to it."""
        row, column = (
            min(range(len(axis)), key=lambda k: abs(axis[k] - v)) for axis, v in zip((self.rows, self.columns), shift)
        )
        return row, column

    def worst(self) -> tuple[bool, float, tuple[int, int]]:
        """Whether any shift changes the answer; the largest change of a score among those that do, or among all.

        Of shifts that do the same harm, to rounding, the nearest is named.
        """
        changed = self.answers != self.answer
        among = torch.where(changed | ~changed.any(), self.changes, -1.0)
        far = [r * r + c * c for r in self.rows for c in self.columns]
        worst = [k for k, v in enumerate(among.flatten().tolist()) if v >= float(among.max()) * (1 - 1e-6)]
        row, column = divmod(min(worst, key=far.__getitem__), len(self.columns))
        return bool(changed.any()), float(among.max()), (self.rows[row], self.columns[column])

    def path(self, place: tuple[int, int], path: str) -> list[tuple[int, int]]:
        """The places of the grid that lie on a path through one of them."""
        row, column = place
        height, width = len(self.rows), len(self.columns)
        if path == PATHS[0]:
            return [(row, c) for c in range(width)]
        if path == PATHS[1]:
            return [(r, column) for r in range(height)]
        return [((row + k) % height, (column + k) % width) for k in range(-column, width - column)]


def sweep(network: Network, image: Tensor, progress: Callable[[int, int], object] | None = None) -> Sweep:
    """Try the circular shifts of a picture (1, C, H, W): all, or on a grid of odd steps where they are many."""
    rows, columns = (axis(n, step_of(network)) for n in image.shape[2:])
    shifts: list[Shift] = [(r, c) for r in rows for c in columns]
    answers: list[Tensor] = []

    def record(x: Tensor) -> Tensor:
        answers.append(network.scores(x))
        return answers[-1]

    error, agreement = survey(record, image, shifts, batch_size=64, progress=progress)
    scores = torch.cat(answers[1:])[: len(shifts)]
    return Sweep(rows, columns, scores.view(len(rows), len(columns), -1), answers[0][0], error, agreement.reference)


def step_of(network: Network) -> int:
    """The smallest odd step whose grid has at most `SHIFTS` places: an even one would miss what strides of 2 do."""
    _, height, width = network.size
    step = 1
    while math.prod(len(axis(n, step)) for n in (height, width)) > SHIFTS:
        step += 2
    return step


def axis(size: int, step: int) -> list[int]:
    """Shifts of one axis in steps from no shift, up to half the size each way."""
    back = size // 2 // step
    return [k * step for k in range(-back, (size - 1 - size // 2) // step + 1)]
