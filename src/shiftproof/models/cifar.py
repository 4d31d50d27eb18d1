"""The residual networks for CIFAR-10 as others publish them (He et al. 2016, section 4.2): sources to convert.

Zero padding, strides in the convolutions, shortcuts without weights. Keys: `conv1`, `bn1`,
`layer{1,2,3}.{i}.{conv1,bn1,conv2,bn2}`, `linear`, as in Y. Idelbayev's pytorch_resnet_cifar10, whose weights
`published_file` fetches (ResNet-20 and ResNet-56, BSD-2).
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# what the weights were trained with, under timm's names
INPUTS: dict[str, Any] = {
    "input_size": (3, 32, 32),
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}
_ADDRESS = "https://raw.githubusercontent.com/akamaster/pytorch_resnet_cifar10/master/pretrained_models/"
_PUBLISHED = {  # the file and its sha256, with which the name ends
    "resnet20": ("resnet20-12fca82f.th", "12fca82f0bebc4135bf1f32f6e3710e61d5108578464b84fd6d7f5c1b04036c8"),
    "resnet56": ("resnet56-4bfd9763.th", "4bfd97631478d6b638d2764fd2baff3edb1d7d82252d54439343b6596b9b5367"),
}


class Block(nn.Module):
    """Two convolutions; the shortcut takes every second pixel and fills up with channels of zeros."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.stride, self.added = stride, width - channels

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, width, ceil(H/stride), ceil(W/stride))."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.stride > 1 or self.added:
            before = self.added // 2
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.added - before))
        return F.relu(out + x)


class CifarResNet(nn.Module):
    """Three stages of 16, 32 and 64 channels with `depth` blocks each, the mean over positions, a classifier."""

    def __init__(self, depth: int, num_classes: int = 10) -> None:
        super().__init__()
        self.pretrained_cfg = dict(INPUTS)
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1, self.layer2, self.layer3 = (
            nn.Sequential(Block(channels, width, stride), *(Block(width, width, 1) for _ in range(depth - 1)))
            for channels, width, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        )
        self.linear = nn.Linear(64, num_classes)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, num_classes)."""
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        out: Tensor = self.linear(x.mean((2, 3)))
        return out


CIFAR_RESNETS = {f"resnet{6 * depth + 2}": partial(CifarResNet, depth) for depth in (3, 5, 7, 9, 18)}


def sha256(path: Path) -> str:
    """The sha256 of a file, as hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def published_file(name: str) -> Path:
    """The published weights of a network, in torch's folder of downloads; fetched if they are not there yet."""
    if name not in _PUBLISHED:
        raise ValueError(f"cifar:{name} has no published weights; there are some of {', '.join(_PUBLISHED)}.")
    file, digest = _PUBLISHED[name]
    path = Path(torch.hub.get_dir()) / "checkpoints" / file
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(_ADDRESS + file, str(path), digest, progress=False)
        except (OSError, RuntimeError) as error:  # no connection, or another file than it should be
            raise ValueError(
                f"{_ADDRESS}{file} could not be fetched ({error}). Place the file at {path}, or name it as the file of "
                "weights."
            ) from error
    if (found := sha256(path)) != digest:
        raise ValueError(f"{path}: sha256 {found}, and it should be {digest}. Remove the file to fetch it again.")
    return path
