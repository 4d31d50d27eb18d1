"""Pictures for the tests of the app: uploads of every kind, and what a data URI shows."""

import base64
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def header_of(width: int, height: int) -> bytes:
    """A PNG whose header claims this size, with almost no data."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"\0" * 64))
        + chunk(b"IEND", b"")
    )


def picture_files(folder: Path) -> tuple[dict[str, Path], dict[str, tuple[Path, str]]]:
    """Files that users upload: good ones, and bad ones with the message they get."""
    grey = (np.linspace(0, 1, 48 * 80).reshape(48, 80) * 255).astype(np.uint8)
    rgb = np.stack([grey, grey[::-1], grey[:, ::-1]], -1)
    good = {
        "cmyk.jpg": Image.fromarray(rgb).convert("CMYK"),
        "sixteen.png": Image.fromarray(grey.astype(np.uint16) * 257),
        "alpha.png": Image.fromarray(np.dstack([rgb, grey])),
    }
    for name, picture in good.items():
        picture.save(folder / name)
    frames = [Image.fromarray(np.roll(grey, 8 * k, 1)) for k in range(1, 4)]
    frames[0].save(folder / "animated.gif", save_all=True, append_images=frames[1:])
    (folder / "words.png").write_text("not an image, whatever its name says")
    (folder / "empty.png").write_bytes(b"")
    (folder / "huge.png").write_bytes(header_of(10_000, 10_000))
    (folder / "giant.png").write_bytes(header_of(60_000, 60_000))
    whole = io.BytesIO()
    Image.fromarray(rgb).save(whole, "PNG")
    (folder / "broken.png").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    bad = {
        "words.png": "is not an image that Pillow can read",
        "empty.png": "is empty",
        "huge.png": "has 100 megapixels",
        "giant.png": "has far too many megapixels",
        "broken.png": "is not an image that Pillow can read",
    }
    return (
        {name: folder / name for name in (*good, "animated.gif")},
        {name: (folder / name, words) for name, words in bad.items()},
    )


def as_pixels(uri: str) -> Any:
    """The pixels of a data URI."""
    kind, _, body = uri.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))
