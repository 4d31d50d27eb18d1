"""Uploaded files, and the sample pictures."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.app_pictures import picture_files
from helpers.app_visitor import AppServer
from shiftproof.app import sample_pictures, uploads


def test_files_beyond_a_limit_are_refused(server: AppServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that is too large gets a message; the server itself refuses files beyond its own limit."""
    monkeypatch.setattr(uploads, "PICTURE_BYTES", 100)
    good, _ = picture_files(tmp_path)
    with pytest.raises(ValueError, match=r"alpha.png has .* MiB; the limit is"):
        uploads.take_picture(good["alpha.png"])
    assert f'"max_file_size":{uploads.FILE_BYTES}'.encode() in server.ask("/")[1]


def test_an_upload_is_read_once_and_deleted(tmp_path: Path) -> None:
    """Good or bad, the file is gone; the picture is scaled down."""
    file = tmp_path / "large.png"
    Image.fromarray(np.zeros((600, 1400, 3), np.uint8)).save(file)
    assert uploads.take_picture(file).shape == (3, 219, 512)
    assert not file.exists()
    file.write_text("nothing")
    with pytest.raises(ValueError, match=r"^large.png is not an image"):
        uploads.take_picture(file)
    assert not file.exists()


def test_several_uploads_are_deleted_together(tmp_path: Path) -> None:
    files = [tmp_path / f"{k}.png" for k in range(3)]
    for file in files:
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(file)
    assert [name for name, _ in uploads.take_pictures(files[:1])] == ["0.png"]
    files[1].write_bytes(b"")
    with pytest.raises(ValueError, match=r"^1.png is empty"):
        uploads.take_pictures(files[1:])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="17 pictures are too many: the page measures up to 16"):
        uploads.take_pictures(["x"] * 17)


def test_sample_pictures_are_in_colour() -> None:
    for name in sample_pictures.SAMPLES:
        found = sample_pictures.sample(name)
        assert found.shape[0] == 3
        assert 0 <= float(found.min()) < float(found.max()) <= 1
    grey = sample_pictures.match_channels(torch.tensor([1.0, 1.0, 1.0]).view(3, 1, 1), 1)
    assert float(grey) == pytest.approx(1)
