"""The folder of a run: what is in it, whether to begin or resume, and the network that it holds.

* config.json          the resolved configuration
* checkpoints/         the newest checkpoints
* log.jsonl            losses, accuracies, learning rates; the same for TensorBoard in tensorboard/
* best.safetensors     the weights of the epoch with the best validation accuracy
* final.safetensors    the weights of the last epoch
* result.json          written last: the run is finished
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.data.batches import derive_seed, normalise, split
from shiftproof.data.sets import Dataset, Images, load_dataset
from shiftproof.models import create_model
from shiftproof.safe_io.limits import parse_json, read_bounded
from shiftproof.training import converted
from shiftproof.training.checkpoint import read_tensors, write_tensors
from shiftproof.training.config import Config, ModelConfig, differences, naming_settings
from shiftproof.training.resolve import RemovedError, restore

_LARGEST = 2**26  # bytes of a JSON file


def build_model(config: Config, dataset: Dataset, images: Images | None = None) -> nn.Module:
    """The network of a configuration, for the images of a data set; weights drawn from the run's seed.

    `images`: those of the training, for a run that begins: a network from elsewhere takes the weights that the
    configuration names.
    """
    torch.manual_seed(derive_seed(config.run.seed))
    first = None
    if images is not None and config.model.converted:
        few = images.images[: max(1, config.model.calibrate)]
        first = normalise(few, dataset.mean, dataset.std)
    with naming_settings("model"):
        try:
            return _make(config.model, len(dataset.classes), dataset.train.images.shape[1:], first)
        except TypeError as error:  # an option the method does not have
            raise ValueError(f"`options` (={config.model.options}): {error}") from None


def _make(model: ModelConfig, classes: int, shape: Sequence[int], images: Tensor | None = None) -> nn.Module:
    """A network for inputs of a shape (C, H, W)."""
    if model.converted:
        return converted.build(model, classes, shape, images)
    settings = converted.refuse(model, converted.THEIRS)
    options = settings.pop("options")
    return create_model(**settings, num_classes=classes, in_channels=shape[0], size=shape[1:], **options)


def load_data(config: Config, data_dir: Path | None = None) -> tuple[Dataset, Images, Images]:
    """The data set of a configuration, and its images for training and for validation."""
    path = None if config.data.path is None else Path(config.data.path)
    with naming_settings("data"):
        dataset = load_dataset(config.data.name, data_dir, path=path, size=config.data.size)
        if config.data.mean:
            dataset = _normalised(dataset, tuple(config.data.mean), tuple(config.data.std))
        return dataset, *split(dataset.train, config.data.validation, config.data.split_seed, config.data.limit)


def _normalised(dataset: Dataset, mean: tuple[float, ...], std: tuple[float, ...]) -> Dataset:
    """A data set with other statistics; where they have more channels, grey pictures become as many equal channels."""
    count = dataset.train.images.shape[1]
    if count not in (1, len(mean)):
        raise ValueError(f"`mean` (={list(mean)}) must have an entry for each of the {count} channels of the images.")
    train, test = (Images(p.images.expand(-1, len(mean), -1, -1), p.labels) for p in (dataset.train, dataset.test))
    return replace(dataset, train=train, test=test, mean=mean, std=std)


def find_run(config: Config | None, out: Path, resume: bool, restarted: bool) -> tuple[Config, dict[str, Any] | None]:
    """What to train in the folder `out`, and the result if that run is finished.

    Without a `config` it is that of the run in the folder. Processes that torchrun `restarted` need no `resume`.
    """
    saved = read_config(out)
    if saved is None:
        if config is None:
            raise ValueError(f"{out}: no run was begun there; say what to train.")
        return config, None
    if not resume and not (restarted and launch_mark(out).exists()):
        raise ValueError(f"{out}: already holds a run; add --resume to continue it, or choose another folder.")
    if config is not None and (different := differences(saved, config)):
        raise ValueError(f"{out}: the run there has other settings: {'; '.join(different)}.")
    return config or saved, read_result(out)


def launch_mark(out: Path) -> Path:
    """The file that says which launch of torchrun a run belongs to."""
    return out / f".launch-{re.sub('[^A-Za-z0-9_-]', '_', os.environ.get('TORCHELASTIC_RUN_ID', 'none'))}"


def load_run(out: Path, which: str = "best", data_dir: Path | None = None) -> tuple[nn.Module, Config, Dataset]:
    """The network of a run with its `best` or `final` weights, in eval mode, its settings and its data set."""
    config = read_config(out)
    if config is None:
        raise ValueError(f"{out}: no run was begun there.")
    if read_result(out) is None:
        raise ValueError(f"{out}: the run is not finished. Continue it with `shiftproof train --resume --out {out}`.")
    path = out / f"{which}.safetensors"
    dataset, _, _ = load_data(config, data_dir)
    model = build_model(config, dataset)
    tensors, _ = read_tensors(path)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path}: does not fit the configuration beside it: {checks.one_line(error)}") from None
    form = torch.channels_last if config.run.channels_last else torch.contiguous_format
    return model.to(memory_format=form).eval(), config, dataset  # type: ignore[call-overload]


def open_weights(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network in a file of weights, in eval mode, and what `describe` wrote; needs no data set."""
    tensors, about = read_tensors(path)
    try:
        made = ModelConfig(**about["model"])
        if made.converted and not made.name.startswith("cifar:"):
            raise ValueError(f"its network is made by {made.name!r}, which a file must not name")  # it would be run
        model = _make(replace(made, weights=None), len(about["classes"]), about["size"])
        model.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: does not say what network its weights are of: {checks.one_line(error)}") from None
    return model.eval(), about


def read_result(out: Path) -> dict[str, Any] | None:
    """What a finished run wrote last, or None."""
    return _read_json(out / "result.json", "the result of a run")


def read_config(out: Path) -> Config | None:
    """The settings a run was begun with, its options in full, or None."""
    path, what = out / "config.json", "the configuration of a run"
    tree = _read_json(path, what)
    try:
        return None if tree is None else restore(tree)
    except RemovedError as error:
        raise ValueError(f"{path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: not {what}: {error}") from None


def _read_json(path: Path, what: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    data = read_bounded(path, _LARGEST)
    try:
        tree = parse_json(data)
    except ValueError as error:
        raise ValueError(f"{path}: not {what}: {error}") from None
    if not isinstance(tree, dict):
        raise ValueError(f"{path}: not {what}: it holds a {type(tree).__name__}")
    return tree


def write_weights(path: Path, model: nn.Module, config: Config, dataset: Dataset) -> None:
    """Write a file of weights that `open_weights` reads."""
    write_tensors(path, model.state_dict(), describe(config, dataset))


def describe(config: Config, dataset: Dataset) -> dict[str, Any]:
    """What a file of weights says about them: enough to use it."""
    tree = config.to_dict()
    return {
        "model": tree["model"],
        "data": dataset.name,
        "classes": list(dataset.classes),
        "size": list(dataset.train.images.shape[1:]),
        "mean": list(dataset.mean),
        "std": list(dataset.std),
    }
