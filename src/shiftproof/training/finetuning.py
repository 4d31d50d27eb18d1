"""Fine-tuning: a trained network from elsewhere, converted, trained for a few more epochs by the loop of all runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shiftproof.models.loading import full_source, input_settings, load_model
from shiftproof.training.config import Config, configure
from shiftproof.training.loop import train


def finetune(
    source: str,
    out: Path,
    *,
    dataset: str = "folder",
    folder: Path | None = None,
    method: str = "ghs",
    weights: str | Path | None = None,
    pretrained: bool = False,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    data_dir: Path | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Convert a trained network, train it for a few epochs into the folder `out`, and return what `result.json` says.

    `source`, `weights` and `pretrained` are those of `models.load_model`; the images come from a `dataset` or from your
    own `folder` (`data.load_dataset`). `changes` are settings by dotted key, such as `{"optim.epochs": 5}`; two epochs
    are the default. The run is like any other (`training.loop.train`): it resumes, works under torchrun, and is
    evaluated and put on record by its folder.

    Images are normalised as the network says that it was trained; those of a folder are resized as it says. A network
    that says nothing gets the statistics of the data set. If the data has other classes, the last layer is replaced.
    """
    config = configure_finetuning(
        source,
        dataset=dataset,
        folder=folder,
        method=method,
        weights=weights,
        pretrained=pretrained,
        seed=seed,
        changes=changes,
    )
    return train(config, Path(out), resume=resume, data_dir=data_dir, quiet=quiet)


def configure_finetuning(
    source: str,
    *,
    dataset: str | None = None,
    folder: Path | None = None,
    method: str | None = None,
    weights: str | Path | None = None,
    pretrained: bool = False,
    seed: int | None = None,
    file: Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of `finetune`. What is not given is as in the `file`, or in the preset `finetune`."""
    named: dict[str, Any] = {"model.pretrained": True} if pretrained else {}
    if weights is not None:
        named["model.weights"] = str(weights)
    if folder is not None:
        dataset, named["data.path"] = dataset or "folder", str(folder)
    config = configure(
        "finetune",
        model=full_source(source),
        method=method,
        dataset=dataset,
        seed=seed,
        file=file,
        changes=named | dict(changes or {}),
    )
    known, data = input_settings(load_model(source)), config.data
    if "mean" in known and not data.mean:
        data = replace(data, mean=list(known["mean"]), std=list(known["std"]))
    if "input_size" in known and data.name == "folder" and data.size is None:
        data = replace(data, size=known["input_size"][1])
    return replace(config, data=data)
