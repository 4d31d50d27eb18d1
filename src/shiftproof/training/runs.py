"""The folder of a run, and what can be made from it again.

* config.json          the resolved configuration
* checkpoints/         the newest checkpoints
* log.jsonl            losses, accuracies, learning rates; the same for TensorBoard in tensorboard/
* best.safetensors     the weights of the epoch with the best validation accuracy
* final.safetensors    the weights of the last epoch
* result.json          written last: the run is finished
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from shiftproof.data.batches import derive, split
from shiftproof.data.sets import Dataset, Images, load_dataset
from shiftproof.models import create_model
from shiftproof.safe_io import limits
from shiftproof.training.checkpoint import read_tensors
from shiftproof.training.config import Config
from shiftproof.training.resolve import restore

_LARGEST = 2**26  # bytes of a JSON file


def build_model(config: Config, dataset: Dataset) -> nn.Module:
    """The network of a configuration, for the images of a data set; weights drawn from the run's seed."""
    torch.manual_seed(derive(config.run.seed))
    model = config.model
    try:
        return create_model(
            model.name,
            model.method,
            len(dataset.classes),
            in_channels=dataset.train.images.shape[1],
            padding=model.padding,
            stem=model.stem,
            head=model.head,
            size=tuple(dataset.train.images.shape[2:]),
            share=model.share,
            width=model.width,
            geometry=model.geometry,
            **model.options,
        )
    except TypeError as error:  # an option the method does not have
        raise ValueError(f"`model.options` (={model.options}): {error}") from None


def load_data(config: Config, data_dir: Path | None = None) -> tuple[Dataset, Images, Images]:
    """The data set of a configuration, and its images for training and for validation."""
    path = None if config.data.path is None else Path(config.data.path)
    dataset = load_dataset(config.data.name, data_dir, path=path, size=config.data.size)
    return dataset, *split(dataset.train, config.data.validation, config.data.split_seed, config.data.limit)


def load_run(out: Path, which: str = "best", data_dir: Path | None = None) -> tuple[nn.Module, Config, Dataset]:
    """The network of a run with its `best` or `final` weights, in eval mode, its settings and its data set."""
    config = read_config(out)
    if config is None:
        raise ValueError(f"{out}: no run was begun there.")
    if read_result(out) is None:
        raise ValueError(f"{out}: the run is not finished. Go on with `shiftproof train --resume --out {out}`.")
    path = out / f"{which}.safetensors"
    dataset, _, _ = load_data(config, data_dir)
    model = build_model(config, dataset)
    tensors, _ = read_tensors(path)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{path}: does not fit the configuration beside it: {error}") from None
    form = torch.channels_last if config.run.channels_last else torch.contiguous_format
    return model.to(memory_format=form).eval(), config, dataset  # type: ignore[call-overload]


def open_weights(path: Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network in a file of weights, in eval mode, and what `describe` wrote beside them; needs no data set."""
    tensors, about = read_tensors(path)
    try:
        made = {k: v for k, v in about["model"].items() if k != "options"} | about["model"]["options"]
        channels, *size = about["size"]
        model = create_model(num_classes=len(about["classes"]), in_channels=channels, size=size, **made)
        model.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: does not say what network its weights are of: {error}") from None
    return model.eval(), about


def read_result(out: Path) -> dict[str, Any] | None:
    """What a finished run wrote last, or None."""
    path = out / "result.json"
    if not path.exists():
        return None
    text = limits.content(path, _LARGEST)
    try:
        result = limits.parse_json(text)
        if not isinstance(result, dict):
            raise ValueError(f"it holds a {type(result).__name__}")
    except ValueError as error:
        raise ValueError(f"{path}: not the result of a run: {error}") from None
    return result


def read_config(out: Path) -> Config | None:
    """The settings a run was begun with, its options in full, or None."""
    path = out / "config.json"
    if not path.exists():
        return None
    text = limits.content(path, _LARGEST)
    try:
        tree = limits.parse_json(text)
        if not isinstance(tree, dict):
            raise ValueError(f"it holds a {type(tree).__name__}")
        return restore(tree)
    except ValueError as error:
        raise ValueError(f"{path}: not the configuration of a run: {error}") from None


def describe(config: Config, dataset: Dataset) -> dict[str, Any]:
    """What stands in a file of weights beside them: enough to use it."""
    tree = config.to_dict()
    return {
        "model": tree["model"],
        "data": dataset.name,
        "classes": list(dataset.classes),
        "size": list(dataset.train.images.shape[1:]),
        "mean": list(dataset.mean),
        "std": list(dataset.std),
    }
