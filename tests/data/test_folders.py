"""Folders of pictures as data sets."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shiftproof.data import folders, load_dataset

GREY = np.linspace(0, 255, 64).astype(np.uint8).reshape(8, 8)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "I;16", "I", "F", "RGB", "RGBA", "P", "CMYK"])
def test_images_of_any_mode(mode: str, tmp_path: Path) -> None:
    """Grey modes become one channel, the others three; the values survive, in 8 bits."""
    if mode == "I;16":
        picture = Image.fromarray(GREY.astype(np.uint16) * 257)
    elif mode == "I":
        picture = Image.fromarray(GREY.astype(np.int32) * 257)
    elif mode == "F":
        picture = Image.fromarray(GREY.astype(np.float32) / 255)
    else:
        picture = Image.fromarray(GREY).convert(mode)
    path = tmp_path / "x.tif"
    picture.save(path)
    images = folders.read_images([path])
    assert images.shape == (1, 1 if mode in ("1", "L", "LA", "I;16", "I", "F") else 3, 8, 8)
    if mode == "1":
        assert set(images.flatten().tolist()) == {0, 255}
    else:
        assert (images.numpy() == GREY).all()


def test_one_picture_in_colour_makes_all_colour(tmp_path: Path) -> None:
    Image.fromarray(GREY).save(tmp_path / "grey.png")
    Image.new("RGB", (8, 8), (255, 0, 7)).save(tmp_path / "red.png")
    images = folders.read_images([tmp_path / "grey.png", tmp_path / "red.png"])
    assert (images[0].numpy() == GREY).all()
    assert images[1, :, 3, 3].tolist() == [255, 0, 7]


def test_transparency_becomes_white(tmp_path: Path) -> None:
    """Hidden colours do not show, be they hidden by an alpha channel or by an entry of the palette."""
    Image.new("RGBA", (2, 2), (200, 100, 50, 0)).save(tmp_path / "alpha.png")
    Image.new("LA", (2, 2), (200, 0)).save(tmp_path / "grey.png")
    palette = Image.new("P", (2, 2), 0)
    palette.putpalette([200, 100, 50])
    palette.save(tmp_path / "palette.png", transparency=0)
    for name in ("alpha", "grey", "palette"):
        assert folders.read_images([tmp_path / f"{name}.png"]).min() == 255


def test_orientation_and_first_frame(tmp_path: Path) -> None:
    """A photograph is turned as its camera says; of an animation the first frame counts."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees
    Image.new("L", (6, 4)).save(tmp_path / "turned.jpg", exif=exif)
    assert folders.read_images([tmp_path / "turned.jpg"]).shape == (1, 1, 6, 4)
    frames = [Image.new("L", (4, 4), level) for level in (10, 200)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    assert set(folders.read_images([tmp_path / "moving.gif"]).flatten().tolist()) == {10}


def test_sizes(tmp_path: Path) -> None:
    """Without a size all images agree, or the odd one is named; with one, the central square is resized."""
    wide = np.zeros((4, 8), np.uint8)
    wide[:, 2:6] = np.arange(16, dtype=np.uint8).reshape(4, 4) * 4
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(GREY[:2, :2]).save(tmp_path / "small.png")
    paths = [tmp_path / "wide.png", tmp_path / "small.png"]
    with pytest.raises(ValueError, match=r"small.png: 2 x 2 pixels, but wide.png has 8 x 4: pass `size`"):
        folders.read_images(paths)
    images = folders.read_images(paths, 2)
    areas = wide[:, 2:6].reshape(2, 2, 2, 2).mean(axis=(1, 3))
    assert (images[0, 0].numpy() == areas).all()
    assert (images[1, 0].numpy() == GREY[:2, :2]).all()
    assert folders.read_images(paths, 6).shape == (2, 1, 6, 6)


@pytest.mark.filterwarnings("ignore")  # as in use, where warnings are no errors
def test_images_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not an image, cut off, too many bits, a decompression bomb: an error that names the file."""
    whole = tmp_path / "whole.png"
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (64, 64)).astype(np.uint8)).save(whole)
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:2000])
    Image.fromarray(np.full((2, 2), 2.0, np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.full((2, 2), 70000, np.int32)).save(tmp_path / "long.tif")
    for name in ("text.png", "empty.jpg", "cut.png", "float.tif", "long.tif"):
        with pytest.raises(ValueError, match=f"{name} is not an image that Pillow can read"):
            folders.read_images([tmp_path / name])
    with pytest.raises(FileNotFoundError, match=r"missing.png"):
        folders.read_images([tmp_path / "missing.png"])
    for limit in (3000, 1000):  # Pillow warns at the limit and refuses at twice the limit
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=r"whole.png: too large for a picture: .*decompression bomb"):
            folders.read_images([whole])


def test_class_folders(tmp_path: Path) -> None:
    """One folder per class, in the order of names; hidden files are ignored; errors name the folder."""
    for name in ("b/1.png", "b/deep/0.png", "a/2.png", "a/.hidden.png", ".git/x.png", "a/.cache/y.png", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = folders.class_files(tmp_path)
    assert list(found) == ["a", "b"]
    assert [p.relative_to(tmp_path).as_posix() for p in found["b"]] == ["b/1.png", "b/deep/0.png"]
    assert [p.name for p in found["a"]] == ["2.png"]
    (tmp_path / "c").mkdir()
    with pytest.raises(ValueError, match=r"/c: no image in this class folder"):
        folders.class_files(tmp_path)
    with pytest.raises(ValueError, match=r"b: must have a subfolder of images for each of at least 2 classes"):
        folders.class_files(tmp_path / "b")
    with pytest.raises(ValueError, match=r"notes.txt: not a folder"):
        folders.class_files(tmp_path / "notes.txt")


def paint(folder: Path, classes: dict[str, int], size: int = 6) -> None:
    """A folder of images: class by class, each image of its own grey."""
    for i, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for k in range(count):
            Image.new("L", (size, size), 20 * i + k).save(folder / name / f"{k:02}.png")


def test_folder_with_parts(tmp_path: Path) -> None:
    paint(tmp_path / "train", {"cat": 3, "dog": 2})
    paint(tmp_path / "test", {"cat": 1, "dog": 1})
    data = load_dataset("folder", path=tmp_path)
    assert data.classes == ("cat", "dog")
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1]
    assert data.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 20, 21]
    assert data.test.images[:, 0, 0, 0].tolist() == [0, 20]
    assert data.source == f"folder {tmp_path}"
    assert load_dataset("folder", path=tmp_path, size=4).test.images.shape == (2, 1, 4, 4)
    paint(tmp_path / "test", {"emu": 1})
    with pytest.raises(ValueError, match="train and test must have the same classes; 'emu' is in one of them only"):
        load_dataset("folder", path=tmp_path)


def test_folder_without_parts(tmp_path: Path) -> None:
    """A fifth of each class, at least one image, is for the test; no image is in both parts, none is lost."""
    paint(tmp_path, {"cat": 10, "dog": 2})
    data = load_dataset("folder", path=tmp_path)
    assert data.test.labels.tolist() == [0, 0, 1]
    shades = data.train.images[:, 0, 0, 0].tolist() + data.test.images[:, 0, 0, 0].tolist()
    assert sorted(shades) == [*range(10), 20, 21]
    assert data.checksum == load_dataset("folder", path=tmp_path).checksum
    paint(tmp_path, {"emu": 1})
    with pytest.raises(ValueError, match="emu: has one image and needs at least 2"):
        load_dataset("folder", path=tmp_path)


def test_a_constant_channel_can_be_divided_by(tmp_path: Path) -> None:
    paint(tmp_path / "train", {"cat": 1})
    paint(tmp_path / "test", {"cat": 1, "dog": 1})
    (tmp_path / "train" / "dog").mkdir()
    Image.new("L", (6, 6), 0).save(tmp_path / "train" / "dog" / "0.png")
    data = load_dataset("folder", path=tmp_path)
    assert (data.mean, data.std) == ((0.0,), (1.0,))


def test_folders_that_are_wrong(tmp_path: Path) -> None:
    """No path, a train part without a test part, mixed sizes, an empty class, an unreadable image."""
    with pytest.raises(ValueError, match="`path` must name the folder of images"):
        load_dataset("folder")
    paint(tmp_path / "half" / "train", {"cat": 2, "dog": 2})
    with pytest.raises(ValueError, match="half: has one of the folders train and test"):
        load_dataset("folder", path=tmp_path / "half")
    vehicles = tmp_path / "vehicles"
    paint(vehicles, {"bus": 2, "train": 2})  # a class may be called so
    assert load_dataset("folder", path=vehicles).classes == ("bus", "train")
    Image.new("L", (9, 9)).save(vehicles / "train" / "large.png")
    with pytest.raises(ValueError, match=r"large.png: 9 x 9 pixels, but 00.png has 6 x 6"):
        load_dataset("folder", path=vehicles)
    (vehicles / "train" / "large.png").write_text("text")
    with pytest.raises(ValueError, match=r"large.png is not an image that Pillow can read"):
        load_dataset("folder", path=vehicles)
    (vehicles / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: no image in this class folder"):
        load_dataset("folder", path=vehicles)
