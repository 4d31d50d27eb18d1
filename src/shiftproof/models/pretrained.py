"""Trained weights that come with the package: `create_model("resnet20", method="ghs", weights="cifar10")`.

One safetensors file per network, method and data set; its header says how the images were normalised.
"""

from __future__ import annotations

import importlib
from importlib import resources

from torch import Tensor

FOLDER = resources.files(__package__).joinpath("weights")


def available() -> list[str]:
    """The names of all files, as NETWORK-METHOD-DATASET."""
    files = (path.name for path in FOLDER.iterdir())
    return sorted(name.removesuffix(".safetensors") for name in files if name.endswith(".safetensors"))


def load_pretrained(name: str) -> dict[str, Tensor]:
    """The weights NETWORK-METHOD-DATASET."""
    if name not in available():
        raise ValueError(f"no weights {name!r} come with the package; there are {', '.join(available()) or 'none'}.")
    content = FOLDER.joinpath(f"{name}.safetensors").read_bytes()
    tensors: dict[str, Tensor] = importlib.import_module("safetensors.torch").load(content)
    return tensors
