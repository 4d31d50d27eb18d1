"""Pictures: one decoder, one answer for transparency, one way to resize."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from shiftproof.data.folders import read_images
from shiftproof.safe_io.pictures import decode, fit, read_picture


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
