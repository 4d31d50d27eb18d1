"""Pictures from files, of the kinds that are in common use, as tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.data.formats import open_picture

EXTENSIONS = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}


def find_pictures(paths: Sequence[Path]) -> list[Path]:
    """The files among `paths`, and the pictures in the folders among them, folders inside included, in order."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [p for p in path.rglob("*") if p.suffix.lower() in EXTENSIONS and not p.name.startswith(".")]
            found += sorted(p for p in inside if p.is_file())
        elif path.exists():
            found.append(path)
        else:
            raise ValueError(f"{path}: no such file or folder.")
    if not found:
        raise ValueError(f"{', '.join(map(str, paths))}: no pictures there ({', '.join(sorted(EXTENSIONS))}).")
    return list(dict.fromkeys(found))


def read_picture(path: Path, channels: int = 3) -> Tensor:
    """The picture in a file, in [0, 1]: grey (`channels` = 1) or red, green, blue. (C, H, W)

    It stands upright as its EXIF orientation says, the first frame of several counts, and what is transparent
    becomes white. A file that is not a picture, is damaged, or is too large to be an honest one is a `ValueError`.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with open_picture(path) as opened:
                picture = ImageOps.exif_transpose(opened)
                return _values(picture, "L" if channels == 1 else "RGB")
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: too large for a picture: {error}") from error
    except Exception as error:  # Pillow's readers raise whatever they stumble over
        if isinstance(error, OSError) and error.filename is not None:  # missing or unreadable: the system's own words
            raise
        raise ValueError(f"{path} is not an image that Pillow can read.") from error


def _values(picture: Any, mode: str) -> Tensor:
    """The pixels in [0, 1]. (C, H, W)"""
    from PIL import Image

    if picture.mode == "F" or picture.mode.startswith("I"):
        grey = np.nan_to_num(np.array(picture, dtype=np.float32))
        top = 65535.0 if picture.mode.startswith("I") else max(float(grey.max()), 1.0)
        return torch.from_numpy(grey).div_(top).clamp_(0, 1).expand(len(mode), -1, -1)
    if picture.has_transparency_data:
        seen = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    pixels = torch.from_numpy(np.array(picture.convert(mode)))
    return (pixels[None] if mode == "L" else pixels.permute(2, 0, 1)).float().div_(255)


def fit(picture: Tensor, size: tuple[int, int]) -> Tensor:
    """The largest centred part of a picture that has the shape of `size`, area-averaged to it (enlarged: bilinear)."""
    height, width = picture.shape[-2:]
    if (height, width) == size:
        return picture
    scale = min(height / size[0], width / size[1])
    rows, columns = (min(n, max(1, round(scale * m))) for n, m in zip((height, width), size))
    top, left = (height - rows) // 2, (width - columns) // 2
    part = picture[None, :, top : top + rows, left : left + columns]
    if scale >= 1:
        return F.interpolate(part, size, mode="area")[0]
    return F.interpolate(part, size, mode="bilinear", align_corners=False)[0]
