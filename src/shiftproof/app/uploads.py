"""Files that people hand in: bounded, read once, deleted at once, and answered with a sentence where they are bad."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from shiftproof.safe_io.pictures import fit, read_picture

PICTURE_BYTES = 32 * 2**20
FILE_BYTES = 256 * 2**20  # of networks: the server takes nothing larger
PIXELS = 24_000_000
KEPT = 512  # pixels on the longer side of what is kept of a picture
PICTURES = 16
_one_at_a_time = threading.Lock()  # a decoded picture is large, and filters of warnings belong to the whole process


def take_picture(file: str | Path) -> Tensor:
    """The picture in an uploaded file, which is deleted whatever comes of it. (3, H, W), at most `KEPT` on a side

    A file that is no picture, or too large a one, is a `ValueError` in words for the person who sent it.
    """
    path = Path(file)
    try:
        with _one_at_a_time:
            _check(path)
            picture = read_picture(path)
    except (ValueError, OSError) as error:
        raise ValueError(plain(error, path)) from None
    finally:
        path.unlink(missing_ok=True)
    height, width = picture.shape[1:]
    scale = KEPT / max(height, width)
    return picture if scale >= 1 else fit(picture, (max(1, round(height * scale)), max(1, round(width * scale))))


def take_pictures(files: Sequence[str | Path]) -> list[tuple[str, Tensor]]:
    """Several of them, with their names. The first bad one is the answer, and all are deleted in any case."""
    try:
        if len(files) > PICTURES:
            raise ValueError(f"{len(files)} pictures are more than the {PICTURES} that are measured at a time here.")
        return [(Path(file).name, take_picture(file)) for file in files]
    finally:
        for file in files:
            Path(file).unlink(missing_ok=True)


def plain(error: BaseException, *paths: Path) -> str:
    """What an error says, with the names of the files instead of where the server put them."""
    words = str(error)
    for path in paths:
        words = words.replace(str(path), path.name)
    return words


def _check(path: Path) -> None:
    """Refuse what would cost much to read, by its header."""
    from PIL import Image

    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path} is empty.")
    if size > PICTURE_BYTES:
        raise ValueError(f"{path} has {size / 2**20:.0f} MiB; pictures may have {PICTURE_BYTES >> 20} here.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of many pixels, and odd metadata
            with Image.open(path) as opened:
                width, height = opened.size
    except Image.DecompressionBombError:
        pixels = "far too many"
    except Exception:  # no picture: `read_picture` has the words for it
        return
    else:
        if width * height <= PIXELS:
            return
        pixels = f"{width * height / 1e6:.0f}"
    raise ValueError(f"{path} has {pixels} megapixels; pictures may have {PIXELS / 1e6:.0f} here.")
