"""Pictures from files: one decoder, one answer for transparency, one way to resize, and hostile files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from shiftproof.data.folders import read_images
from shiftproof.safe_io import pictures
from shiftproof.safe_io.pictures import decode, fit, read_picture


def test_pictures_of_every_mode(tmp_path: Path) -> None:
    """Grey, colour, palette, alpha, 16 bits, floats: all become the same picture in [0, 1]."""
    grey = np.linspace(0, 255, 40 * 60).reshape(40, 60).astype(np.uint8)
    made = {mode: Image.fromarray(grey).convert(mode) for mode in ("L", "RGB", "RGBA", "LA", "P", "CMYK", "YCbCr")}
    made["I;16"] = Image.fromarray(grey.astype(np.uint16) * 257)
    made["F"] = Image.fromarray(grey.astype(np.float32) / 255)
    for mode, picture in made.items():
        path = tmp_path / ("x.tif" if mode in ("I;16", "F", "CMYK", "YCbCr") else "x.png")
        picture.save(path, compression="tiff_lzw")  # Pillow 12 cannot read YCbCr that is not compressed
        for channels in (1, 3):
            values = pictures.read_picture(path, channels)
            assert values.shape == (channels, 40, 60)
            assert torch.allclose(values, torch.from_numpy(grey / 255).float(), atol=0.02), mode


def test_pictures_as_they_are_seen(tmp_path: Path) -> None:
    """Upright, the first frame, white where nothing is."""
    corner = Image.new("RGB", (4, 2), "black")
    corner.putpixel((0, 0), (255, 255, 255))
    exif = corner.getexif()
    exif[0x0112] = 6  # turned by a quarter
    corner.save(tmp_path / "turned.png", exif=exif)
    values = pictures.read_picture(tmp_path / "turned.png", 1)
    assert values.shape == (1, 4, 2)
    assert values[0].argmax() == 1
    Image.new("RGBA", (3, 3), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert pictures.read_picture(tmp_path / "clear.png").eq(1).all()
    frames = [Image.new("L", (3, 3), level) for level in (255, 0)]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    assert pictures.read_picture(tmp_path / "film.gif", 1).eq(1).all()


def test_fit_keeps_the_middle_and_the_mean() -> None:
    """The largest centred part of the wanted shape, area-averaged; small pictures are enlarged."""
    picture = torch.rand(3, 40, 60)
    assert torch.allclose(pictures.fit(picture, (10, 10)), nn.functional.avg_pool2d(picture[:, :, 10:50], 4), atol=1e-6)
    assert pictures.fit(picture, (20, 30)).mean() == pytest.approx(float(picture.mean()), abs=1e-5)
    assert pictures.fit(picture, (40, 60)) is picture
    assert pictures.fit(picture, (80, 90)).shape == (3, 80, 90)
    assert pictures.fit(torch.rand(1, 1, 500), (3, 2)).shape == (1, 3, 2)


def test_hostile_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an image, cut short, a bomb: an error that names the file."""
    path = tmp_path / "x.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 50), dtype=np.uint8)).save(path)
    whole = path.read_bytes()
    for content in (b"", b"junk", whole[:200], whole[:-100], whole[:40] + b"\xff" * 40 + whole[80:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.png is not an image that Pillow can read"):
            pictures.read_picture(path)
    path.write_bytes(whole)
    for limit in (2000, 1000):  # Pillow warns of the one and refuses the other
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"x\.png: too large for a picture"):
            pictures.read_picture(path)
    with pytest.raises(FileNotFoundError):
        pictures.read_picture(tmp_path / "missing.png")


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA"])
def test_a_folder_and_measure_see_the_same_picture(mode: str, tmp_path: Path) -> None:
    """Transparent pixels too: what one reads as bytes, the other reads as numbers."""
    values = np.random.RandomState(0).randint(0, 256, (7, 9, 4)).astype(np.uint8)
    picture = Image.fromarray(values, "RGBA")
    picture = picture.quantize(8) if mode == "P" else picture.convert(mode)
    picture.save(tmp_path / "x.png")
    bytes_ = read_images([tmp_path / "x.png"])[0]
    assert torch.equal(bytes_.float() / 255, read_picture(tmp_path / "x.png", len(bytes_)))


@pytest.mark.parametrize("channels", [1, 3, None])
def test_transparency_is_white(channels: int | None, tmp_path: Path) -> None:
    """In part, it is mixed with white."""
    Image.new("RGBA", (1, 1), (0, 0, 0, 51)).save(tmp_path / "x.png")
    assert set(decode(tmp_path / "x.png", channels).flatten().tolist()) == {204}


def test_more_than_8_bits_are_kept(tmp_path: Path) -> None:
    """As numbers; a data set rounds them once. What has no known range is refused, with a remedy."""
    deep = np.array([[1, 300], [40000, 65535]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert torch.allclose(read_picture(tmp_path / "deep.png", 1)[0], torch.from_numpy(deep / 65535).float())
    assert read_images([tmp_path / "deep.png"])[0, 0].tolist() == [[0, 1], [156, 255]]
    Image.fromarray(np.full((2, 2), 200.0, np.float32)).save(tmp_path / "float.tif")
    with pytest.raises(ValueError, match=r"float.tif is .*its values must lie in 0..1: save it with 8 or 16 bits"):
        decode(tmp_path / "float.tif")


@pytest.mark.parametrize(("size", "count"), [(512, 31), (7, 7), (5, 3), (9, 1), (40, 10)])
def test_downsampling_averages_over_exact_areas(size: int, count: int) -> None:
    """Every pixel counts by the part of the area that it covers."""
    edges = np.linspace(0, size, count + 1)
    pixel = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weights = np.clip(overlap, 0, None) * (count / size)
    assert np.allclose(weights.sum(1), 1)
    picture = np.random.RandomState(0).rand(2, size, size)
    found = fit(torch.from_numpy(picture), (count, count))
    assert np.allclose(found.numpy(), weights @ picture @ weights.T, atol=1e-13)


def test_8_bits_stay_8_bits_and_are_rounded_once() -> None:
    picture = torch.tensor([[[0, 1, 1], [1, 1, 1]]], dtype=torch.uint8)
    shrunk = fit(picture.repeat_interleave(3, 1), (1, 1))  # the mean of the middle is 7 / 8 or so
    assert shrunk.dtype == torch.uint8
    assert shrunk.item() == 1
    noise = torch.randint(0, 256, (3, 30, 20), dtype=torch.uint8)
    for size in ((7, 5), (60, 40), (30, 20)):
        assert torch.equal(fit(noise, size), fit(noise.double(), size).round().to(torch.uint8))
