"""Folders of pictures as data sets: one subfolder per class, pictures of any kind in 8 bits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from shiftproof.safe_io.pictures import decode, fit


def class_files(folder: Path) -> dict[str, list[Path]]:
    """The files of every class: one subfolder per class, named after it; hidden files are ignored."""
    if not folder.is_dir():
        raise ValueError(f"{folder}: not a folder.")
    classes = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if len(classes) < 2:
        raise ValueError(f"{folder}: must have a subfolder of images for each of at least 2 classes, not {classes}.")
    found = {}
    for name in classes:
        inside = [path for path in (folder / name).rglob("*") if path.is_file()]
        shown = [p for p in inside if not any(part.startswith(".") for part in p.relative_to(folder / name).parts)]
        found[name] = sorted(shown, key=Path.as_posix)
        if not shown:
            raise ValueError(f"{folder / name}: no image in this class folder; remove it, or put images into it.")
    return found


def read_images(paths: Sequence[Path], size: int | None = None) -> Tensor:
    """Pictures as uint8: (N, 1, H, W) if all of them are grey, else (N, 3, H, W).

    With a `size`, the central square of each is resized to `size` x `size` pixels. Without, all must have one size.
    """
    pictures = [_read_8_bit(path, size) for path in paths]
    (height, width), channels = pictures[0].shape[1:], max(len(picture) for picture in pictures)
    for path, picture in zip(paths, pictures):
        if picture.shape[1:] != (height, width):
            raise ValueError(
                f"{path}: {picture.shape[2]} x {picture.shape[1]} pixels, but {paths[0].name} has {width} x {height}: "
                "pass `size` to resize all of them."
            )
    return torch.stack([picture.expand(channels, -1, -1) for picture in pictures])


def _read_8_bit(path: Path, size: int | None) -> Tensor:
    picture = decode(path)
    if size is not None:
        picture = fit(picture, (size, size))
    return picture.mul(255).round().to(torch.uint8) if picture.is_floating_point() else picture
