"""The trained networks that the page offers, and pictures to try them on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from torch import Tensor

from shiftproof.app.sample_pictures import SAMPLES, match_channels, sample
from shiftproof.data.sets import load_dataset
from shiftproof.evaluation.classifier import Classifier, pixels
from shiftproof.models import pretrained
from shiftproof.safe_io.pictures import fit
from shiftproof.training.runs import open_weights, read_config, read_result

IMAGES = 30  # test images offered per data set


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network: `scores` takes images (B, C, H, W) in [0, 1] of `size` (C, H, W).

    `data` is the data set that it was trained on. For the user's own data, `folder` holds the pictures. `padded` is
    the size that smaller images were padded to.
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
        """Networks of one family take the same pictures and have the same classes."""
        channels, height, width = self.size
        return f"{self.data}: {height} x {width} pixels, {'colour' if channels == 3 else 'grey'}"


@dataclass
class Library:
    """The networks by family, and the reasons why others could not be loaded."""

    families: dict[str, list[Network]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def find_networks(runs: Sequence[Path]) -> Library:
    """The networks in the package, then those of finished runs. Each of `runs` is a run or a folder of runs."""
    library = Library()
    for name in sorted(pretrained.available(), key=_rank):
        with resources.as_file(pretrained.FOLDER.joinpath(f"{name}.safetensors")) as path:
            _load(library, path, _method(name), data=name.rpartition("-")[2])
    for folder in _runs(runs):
        try:
            config = read_config(folder)
            if config is None or read_result(folder) is None:
                library.problems.append(f"{folder}: the run is not finished.")
                continue
            place = None if config.data.path is None else Path(config.data.path)
            label = f"{config.recipe} ({folder.name})"
            _load(library, folder / "best.safetensors", label, config.data.name, place, config.data.size)
        except (ValueError, OSError) as error:
            library.problems.append(str(error))
    return library


def _method(name: str) -> str:
    """The method in NETWORK-METHOD-DATASET; it may contain dashes."""
    return name.partition("-")[2].rpartition("-")[0]


def _rank(name: str) -> int:
    """The methods that the paper compares come first, in its order: the page shows the first few networks."""
    compared = ("strided", "lpf", "aps", "ghs")
    return compared.index(_method(name)) if _method(name) in compared else len(compared)


def _runs(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if not place.is_dir():
            raise ValueError(f"--runs {place}: no such folder.")
        is_run = (place / "config.json").exists()
        yield from [place] if is_run else sorted(path.parent for path in place.glob("*/config.json"))


def _load(
    library: Library, path: Path, name: str, data: str, folder: Path | None = None, padded: int | None = None
) -> None:
    model, about = open_weights(path)
    channels, height, width = about["size"]
    classifier = Classifier(model, about["mean"], about["std"])
    network = Network(name, classifier, tuple(about["classes"]), (channels, height, width), data, folder, padded)
    library.families.setdefault(network.family, []).append(network)


@functools.lru_cache(maxsize=32)
def pictures(network: Network, data_dir: Path | None = None) -> dict[str, Tensor]:
    """Pictures by name, each (1, C, H, W): test images of the network's data set if it is available, then samples."""
    found: dict[str, Tensor] = {}
    try:
        dataset = load_dataset(network.data, data_dir, path=network.folder, size=network.padded)
    except (ValueError, OSError, ModuleNotFoundError):
        pass  # not available
    else:
        if tuple(dataset.test.images.shape[1:]) == network.size:
            for k, (image, label) in enumerate(zip(dataset.test.images[:IMAGES], dataset.test.labels)):
                found[f"{network.classes[int(label)]} (test image {k})"] = pixels(image)[None]
    for name in SAMPLES:
        found[name] = fitted(sample(name), network)
    return found


def fitted(picture: Tensor, network: Network) -> Tensor:
    """A picture (3, H, W) with the size and the channels of a network. (1, C, H, W)"""
    channels, *size = network.size
    return fit(match_channels(picture, channels), (size[0], size[1]))[None]
