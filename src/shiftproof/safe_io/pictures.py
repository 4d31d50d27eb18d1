"""Pictures from files, decoded in one way for every use, and the one way to resize them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.safe_io.limits import read_bounded

EXTENSIONS = {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
_FORMATS = ("PNG", "JPEG", "GIF", "TIFF", "BMP", "PPM", "WEBP")  # some of Pillow's others start programs
_LARGEST = 2**29  # bytes of a file


def find_pictures(paths: Sequence[Path]) -> list[Path]:
    """The files among `paths`, and the pictures in the folders among them, subfolders included, in order."""
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
    """The picture in a file, in [0, 1]: grey (`channels` = 1) or red, green, blue. (C, H, W); see `decode`."""
    picture = decode(path, channels)
    return picture if picture.is_floating_point() else picture.float().div_(255)


def decode(path: Path, channels: int | None = None) -> Tensor:
    """The picture in a file: uint8, or float32 in [0, 1] where the file has more than 8 bits. (C, H, W)

    `channels` is 1 or 3, or None for what the file has. The picture is upright, as its EXIF orientation says, its
    first frame counts, and transparency becomes white, as viewers show it. A file that is no picture, is damaged, or is
    too large for an honest one is a ValueError.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            # the bytes are read first, so that a length which a damaged file claims costs no memory
            with Image.open(io.BytesIO(read_bounded(path, _LARGEST)), formats=_FORMATS) as opened:
                return _values(ImageOps.exif_transpose(opened), channels)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: too large for a picture: {error}") from error
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} is not an image that Pillow can read.") from error
    except Exception as error:  # Pillow's readers raise nearly anything
        if isinstance(error, OSError) and error.filename is not None:  # missing or unreadable: the system's own words
            raise
        raise ValueError(f"{path} is not an image that Pillow can read ({error}).") from error


def _values(picture: Any, channels: int | None) -> Tensor:
    from PIL import Image

    if picture.mode == "F" or picture.mode.startswith("I"):
        deep, top = np.array(picture), 1.0 if picture.mode == "F" else 65535.0
        if not (deep.min() >= 0 and deep.max() <= top):
            raise ValueError(f"its values must lie in 0..{top:g}: save it with 8 or 16 bits")
        return torch.from_numpy(deep.astype(np.float32)).div_(top).expand(channels or 1, -1, -1)
    grey = channels == 1 or (channels is None and picture.mode in ("1", "L", "LA"))
    if picture.has_transparency_data:
        seen = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen)
    pixels = torch.from_numpy(np.array(picture.convert("L" if grey else "RGB")))
    return pixels[None] if grey else pixels.permute(2, 0, 1)


def fit(picture: Tensor, size: tuple[int, int]) -> Tensor:
    """The largest centred part of a picture with the shape of `size`, resized to it. (C, H, W) -> (C, *size)

    Downsampling averages over areas, enlarging is bilinear. An 8-bit picture stays one, rounded once.
    """
    height, width = picture.shape[-2:]
    if (height, width) == size:
        return picture
    scale = min(height / size[0], width / size[1])
    rows, columns = (min(n, max(1, round(scale * m))) for n, m in zip((height, width), size))
    top, left = (height - rows) // 2, (width - columns) // 2
    part = picture[:, top : top + rows, left : left + columns]
    if scale >= 1:
        out = _average_rows(_average_rows(part, size[0]).mT, size[1]).mT
    else:
        out = F.interpolate(part[None].double(), size, mode="bilinear", align_corners=False)[0]
    return (out if picture.is_floating_point() else out.round()).to(picture.dtype)


def _average_rows(x: Tensor, count: int) -> Tensor:
    """The means of the rows over `count` equal intervals, in float64. (C, H, W) -> (C, count, W)

    Interval i is [i * H / count, (i + 1) * H / count]; row j is [j, j + 1] and counts by the part that is inside.
    """
    height = x.shape[1]
    edges = torch.arange(count + 1, dtype=torch.float64) * height / count
    low, high, first = edges[:-1], edges[1:], edges[:-1].long()
    out = torch.zeros(len(x), count, x.shape[2], dtype=torch.float64)
    for tap in range(int((high.ceil() - first).max())):
        row = first + tap
        inside = (torch.minimum(high, row + 1) - torch.maximum(low, row)).clamp(min=0) * (count / height)
        out += inside[:, None] * x[:, row.clamp(max=height - 1)].double()
    return out
