"""Uploaded files: kept in a folder of the visitor's own, limited in size, read once, then deleted."""

from __future__ import annotations

import secrets
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path

from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from torch import Tensor

from shiftproof.safe_io.pictures import fit, read_picture

PICTURE_BYTES = 32 * 2**20
FILE_BYTES = 256 * 2**20  # of a network; the server refuses larger files
PIXELS = 24_000_000
KEPT = 512  # longer sides are scaled down to this many pixels
PICTURES = 16
_one_at_a_time = threading.Lock()  # decoded pictures are large, and warning filters are global to the process


async def receive(request: Request) -> Response:
    """Store the files of a request in a new folder inside the folder of its visitor; the answer is their paths."""
    from gradio.route_utils import upload_fn
    from gradio.routes import file_upload_statuses

    upload_id = request.query_params.get("upload_id")
    folder = request.state.folder / secrets.token_hex(8)
    try:
        files, *_ = await upload_fn(request, folder, FILE_BYTES, upload_id, upload_progress=file_upload_statuses)
    except MultiPartException as error:
        return PlainTextResponse(error.message, 413 if "maximum allowed size" in error.message else 400)
    request.app.state.received.update(files)
    return JSONResponse(files)


def take_picture(file: str | Path) -> Tensor:
    """The picture in an uploaded file, which is deleted in any case. (3, H, W), at most `KEPT` pixels on a side

    If the file is not a picture or is too large, the message of the `ValueError` can be shown to the user.
    """
    path = Path(file)
    try:
        with _one_at_a_time:
            _check(path)
            picture = read_picture(path)
    except (ValueError, OSError) as error:
        raise ValueError(hide_paths(error, path)) from None
    finally:
        path.unlink(missing_ok=True)
    height, width = picture.shape[1:]
    scale = KEPT / max(height, width)
    return picture if scale >= 1 else fit(picture, (max(1, round(height * scale)), max(1, round(width * scale))))


def take_pictures(files: Sequence[str | Path]) -> list[tuple[str, Tensor]]:
    """Several uploaded pictures with their names. The first bad file raises; all files are deleted in any case."""
    try:
        if len(files) > PICTURES:
            raise ValueError(f"{len(files)} pictures are too many: the page measures up to {PICTURES} at a time.")
        return [(Path(file).name, take_picture(file)) for file in files]
    finally:
        for file in files:
            Path(file).unlink(missing_ok=True)


def hide_paths(error: BaseException, *paths: Path) -> str:
    """The message of an error, with the names of the files in place of their paths on the server."""
    message = str(error)
    for path in paths:
        message = message.replace(str(path), path.name)
    return message


def _check(path: Path) -> None:
    """Refuse a file that would be expensive to decode, judging by its header."""
    from PIL import Image

    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path} is empty.")
    if size > PICTURE_BYTES:
        raise ValueError(f"{path} has {size / 2**20:.0f} MiB; the limit is {PICTURE_BYTES >> 20} MiB.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about many pixels and odd metadata
            with Image.open(path) as opened:
                width, height = opened.size
    except Image.DecompressionBombError:
        pixels = "far too many"
    except Exception:  # not a picture: `read_picture` raises a clear error
        return
    else:
        if width * height <= PIXELS:
            return
        pixels = f"{width * height / 1e6:.0f}"
    raise ValueError(f"{path} has {pixels} megapixels; the limit is {PIXELS / 1e6:.0f}.")
