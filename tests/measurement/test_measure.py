"""`measure`: the numbers, the networks and pictures it takes from strangers, the page it writes."""

import importlib
import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from rich.console import Console
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.invariance import KINDS, survey
from shiftproof.measurement.measure import measure, run
from shiftproof.measurement.result import percent
from shiftproof.models.export import save_model
from shiftproof.models.predictor import Predictor, load_predictor
from shiftproof.reports import html_page
from shiftproof.safe_io import pictures
from shiftproof.safe_io.torch_files import load_program

FACTORY = """
import torch
from torch import nn
from shiftproof.layers import create_downsample

def make():
    torch.manual_seed(0)
    first = nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
    return nn.Sequential(
        first, nn.ReLU(), create_downsample("ghs", channels=4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )

def greys():
    return nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def many():
    return nn.Sequential(nn.Conv2d(7, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

def maps():
    return nn.Conv2d(3, 2, 3)

def picky():
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(5, 2))
"""


def strided() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()).eval()


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same small network as a module, an exported program and an ONNX file, for images of 8 x 8."""
    folder = tmp_path_factory.mktemp("networks")
    (folder / "mine_to_measure.py").write_text(FACTORY)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.syspath_prepend(folder)
        warnings.simplefilter("ignore")
        model = importlib.import_module("mine_to_measure").make()
        for name in ("model.pt2", "model.onnx"):
            save_model(model, torch.rand(2, 3, 8, 8), folder / name)
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    colours = np.random.default_rng(0).integers(0, 256, (3, 20, 30, 3), dtype=np.uint8)
    for name, values in zip(("a.png", "more/b.JPG", "<script>alert(1)<&.png"), colours):
        Image.fromarray(values).save(folder / name)
    (folder / "notes.txt").write_text("not a picture, and not asked for")
    return folder


def test_an_invariant_network_measures_as_exact() -> None:
    """GHS: not a bit changes under any circular shift; every shift was tried; the network keeps its mode."""
    network = sp.create_model("resnet20", "ghs", num_classes=4).train()
    frozen: Any = network.layer1
    frozen.eval()
    result = measure(network, torch.rand(1, 3, 8, 8))
    circular = result.kinds["circular"]
    assert circular.exact
    assert (circular.max, circular.mean, circular.pairs, circular.reference) == (0.0, 0.0, 1.0, 1.0)
    assert len(circular.shifts) == 64
    assert result.headline() == "This network gives the same output for every circular shift, bit for bit."
    assert not result.kinds["cropped"].exact
    assert list(result.kinds) == ["circular", "cropped", "fractional"]
    assert network.training
    assert not frozen.training


def test_a_strided_network_does_not() -> None:
    """The measure of all images is that of `survey`, put together from single ones."""
    network, x = strided(), torch.rand(5, 3, 9, 8)
    result = measure(network, x, batch_size=16)
    for kind, found in result.kinds.items():
        error, agreement = survey(network, x, "all", kind)
        assert not found.exact
        assert found.max == pytest.approx(error.max, rel=1e-4)
        assert found.mean == pytest.approx(error.mean, rel=1e-4)
        assert found.pairs == pytest.approx(agreement.pairs)
        assert found.reference == pytest.approx(agreement.reference)
        assert torch.allclose(found.change_map, error.map, rtol=1e-3, atol=1e-6)
        assert torch.allclose(found.kept_map, agreement.map)
        assert torch.allclose(found.kept_map.flatten(), found.kept)
    assert re.match(r"This network changes its answer for \d.* % of the circular shifts\.", result.headline())


def test_the_worst_shift_of_an_image_is_one_that_changes_its_answer() -> None:
    """Before and after are the answers at that shift, and no shift that changes the answer moves the scores further."""
    network, x = strided(), torch.rand(6, 3, 8, 8)
    for i, image in enumerate(measure(network, x, kinds=["circular"], names=list("abcdef")).kinds["circular"].images):
        every = torch.cat([x[i : i + 1].roll((r, c), (2, 3)) for r in range(8) for c in range(8)])
        with torch.no_grad():
            scores = network(every)
        answers = scores.argmax(1)
        row, column = (int(v) for v in image.shift)
        assert (image.before, image.after) == (int(answers[0]), int(answers[8 * row + column]))
        assert image.kept == pytest.approx(float((answers == answers[0]).double().mean()))
        candidates = answers != answers[0] if image.kept < 1 else answers >= 0
        assert image.change == pytest.approx(float((scores - scores[0]).abs().amax(1)[candidates].max()), rel=1e-4)
        assert image.name == "abcdef"[i]


def test_shifts_are_sampled_where_all_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says how many were tried, of how many; a list or a number of shifts is taken as it is."""
    module = importlib.import_module("shiftproof.measurement.measure")
    monkeypatch.setattr(module, "PIXELS", 1000)
    monkeypatch.setattr(module, "SAMPLE", 7)
    network, x = strided(), torch.rand(1, 3, 8, 8)
    result = measure(network, x, kinds=["circular"])
    assert "7 of 64" in str(result)
    assert "of the 7 circular shifts tried" in result.headline()
    assert int(result.kinds["circular"].change_map.isfinite().sum()) == 7
    assert len(measure(network, x, shifts=3, kinds=["cropped"]).kinds["cropped"].shifts) == 3
    assert measure(network, x, shifts=[(1, 2)], kinds=["circular"]).kinds["circular"].shifts == [(1, 2)]
    assert "all 64" in str(measure(network, x, shifts="all", kinds=["circular"]))
    assert measure(network, x, seed=1).to_json() == measure(network, x, seed=1).to_json()
    assert measure(network, x, seed=1).to_json() != measure(network, x, seed=2).to_json()


def test_progress_ends_at_the_end() -> None:
    seen: list[tuple[float, int]] = []
    measure(strided(), torch.rand(2, 3, 4, 4), report=lambda *now: seen.append(now))
    assert seen == sorted(seen)
    assert seen[-1] == (6, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": torch.rand(3, 8, 8)}, r"Add the batch axis with `images\[None\]`"),
        ({"images": torch.rand(0, 3, 8, 8)}, "at least one image"),
        ({"kinds": ["circle"]}, "Did you mean 'circular'"),
        ({"kinds": []}, "`kinds` must name at least one"),
        ({"names": ["one"]}, "`names` (1) must have one entry per image (2)"),
        ({"labels": ["one"]}, "`labels` (1) must have one entry per class (8)"),
        ({"shifts": 0}, "`shifts` (=0) must be at least 1"),
        ({"model": lambda x: x}, "must return scores"),
    ],
)
def test_measure_says_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"model": strided(), "images": torch.rand(2, 3, 8, 8)} | arguments
    with pytest.raises(ValueError, match=message if "\\" in message else re.escape(message)):
        measure(given.pop("model"), given.pop("images"), **given)


def test_json_is_the_dictionary() -> None:
    """What is written is what is read; shifts not tried are null, a change that is not finite is "inf"."""
    result = measure(strided(), torch.rand(2, 3, 4, 4), shifts=2, labels=list("abcdefgh"))
    assert json.loads(result.to_json()) == result.to_dict()
    grid = result.to_dict()["kinds"]["circular"]["change_map"]
    assert sum(v is None for row in grid for v in row) == 14
    broken = measure(lambda x: x[:, :, 0, 0].log(), (torch.rand(1, 3, 4, 4) > 0.5).float(), kinds=["circular"])
    assert json.loads(broken.to_json())["kinds"]["circular"]["max"] == "inf"


def test_table_and_text_say_the_same() -> None:
    result = measure(strided(), torch.rand(2, 3, 8, 8))
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(result.table())
    table, text = console.export_text(), str(result)
    for kind in result.kinds.values():
        for cell in kind.row():
            assert cell in table
            assert cell in text
    assert result.headline() in text
    assert percent(0.99999) == "over 99.9 %"


def test_figure_marks_the_origin_and_is_written_whole(tmp_path: Path) -> None:
    """Two maps with colour bars for each kind, no shift in the middle of the circular ones; dots for a sample."""
    result = measure(strided(), torch.rand(2, 3, 8, 8))
    figure = result.figure(tmp_path / "new" / "map.png")
    assert len(figure.axes) == 2 * 3 * 2
    image: Any = figure.axes[0].images[0]
    assert list(image.get_extent()) == [-4.5, 3.5, 3.5, -4.5]
    assert image.get_array()[4, 4] == 1  # unshifted: every answer is kept
    with Image.open(tmp_path / "new" / "map.png") as picture:
        assert min(picture.size) > 600
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["map.png"]
    sparse = measure(strided(), torch.rand(1, 3, 8, 8), shifts=5, kinds=["circular"]).figure()
    dots: Any = sparse.axes[0].collections[0].get_offsets()
    assert not sparse.axes[0].images
    assert len(dots) == 5


def test_notes_are_text_with_code_between_backticks() -> None:
    assert html_page.notes(["run `a <b>`", "a ` alone", "and `"]) == (
        '<p class="soft">run <code>a &lt;b&gt;</code></p><p class="soft">a ` alone</p><p class="soft">and `</p>'
    )


def test_page_stands_alone_and_escapes() -> None:
    """No resource from anywhere, no script, names of files and classes as text; at most 12 thumbnails."""
    names = ["<script>alert(1)<.png"] * 14
    labels = [f"<b>{i}" for i in range(8)]
    html = measure(
        strided(), torch.rand(14, 3, 8, 8), shifts=9, names=names, labels=labels, kinds=["circular"]
    ).to_html()
    assert "<script" not in html
    assert "<b>0" not in html
    assert not re.search(r"https?://|url\(|@import|<link", html)
    assert set(re.findall(r'(?:src|srcset)="([^"]{10})', html)) == {"data:image"}
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert html.count("answer kept for") == 12
    assert "the 12 least steady of 14" in html
    assert "&lt;b&gt;" in html
    exact = measure(lambda x: x.amax((2, 3)), torch.randn(1, 3, 8, 8), kinds=["circular"]).to_html()
    assert "No shift changes a single bit." in exact
    near = measure(
        lambda x: torch.stack([x[:, 0, 0, 0] + 9, x[:, 0, 1, 1]], 1), torch.rand(1, 2, 8, 8), shifts=3, kinds=KINDS[:2]
    )
    steady = near.to_html()
    assert "the same answer, scores move by" in steady
    assert "Under cropped shifts it keeps its answer; scores move by up to" in steady


def test_formats_give_the_same_numbers(networks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module, its exported program and its ONNX file are one network."""
    monkeypatch.syspath_prepend(networks)
    x = torch.rand(2, 3, 8, 8)
    found: dict[str, Predictor] = {}
    for source in ("mine_to_measure:make", str(networks / "model.pt2"), str(networks / "model.onnx")):
        found[source] = load_predictor(source)
        assert found[source].channels == 3
        assert found[source].size == (None if ":" in source else (8, 8))
    first, *others = found.values()
    options: dict[str, Any] = {"shifts": 16, "kinds": KINDS[:2]}
    expected = measure(first, x, **options)
    assert expected.kinds["circular"].exact
    for predictor in others:
        assert torch.allclose(predictor(x), first(x), atol=1e-6)
        for count in (1, 2, 5):  # a program exported for any batch may still not take one image alone
            assert predictor(x[:1].repeat(count, 1, 1, 1)).shape == (count, 3)
        result = measure(predictor, x, **options)
        assert result.kinds["circular"].exact
        for kind, numbers in result.kinds.items():
            assert numbers.max == pytest.approx(expected.kinds[kind].max, abs=1e-5)
            assert numbers.mean == pytest.approx(expected.kinds[kind].mean, abs=1e-5)
            assert (numbers.pairs, numbers.reference) == (expected.kinds[kind].pairs, expected.kinds[kind].reference)
    program = load_program(networks / "model.pt2").module()
    assert measure(program, x, shifts=3, kinds=["circular"]).kinds["circular"].exact  # it has no modes to switch


def onnx_file(path: Path, shape: list[Any], kind: int = TensorProto.FLOAT, inputs: int = 1) -> str:
    """The mean of each channel, as an ONNX network for inputs of one shape."""
    nodes = [helper.make_node("ReduceMean", ["x0", "axes"], ["y"], keepdims=0)]
    axes = numpy_helper.from_array(np.array([2, 3]), "axes")
    values = [helper.make_tensor_value_info(f"x{i}", kind, shape) for i in range(inputs)]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info("y", kind, None)], [axes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return str(path)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
@pytest.mark.parametrize("shape", [[4, 3, 8, 8], ["b", 3, "h", "w"], [1, "c", 8, "w"]])
def test_onnx_of_any_batch(shape: list[Any], kind: int, tmp_path: Path) -> None:
    """A fixed batch is served in pieces, filled up with copies; free sizes stay free."""
    predictor = load_predictor(onnx_file(tmp_path / "model.onnx", shape, kind))
    assert predictor.size == (None if shape[2] == "h" else (8, 8))
    assert predictor.channels == (None if shape[1] == "c" else 3)
    for count in (1, 4, 6):
        x = torch.rand(count, 3, 8, 8)
        assert torch.allclose(predictor(x), x.mean((2, 3)), atol=2e-3 if kind == TensorProto.FLOAT16 else 1e-6)
    with pytest.raises(ValueError, match=r"model\.onnx: fails on images of shape"):
        predictor(torch.rand(1, 3, 8))


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ([1, 8, 8, 3], {}, "takes images of 8 channels; pictures have 1 or 3"),
        ([1, 3, 8, 8, 8], {}, "must take one batch of images"),
        ([1, 3, 8, 8], {"inputs": 2}, "must take one batch of images"),
        ([1, 3, 8, 8], {"kind": TensorProto.INT64}, "of floats"),
    ],
)
def test_onnx_that_does_not_take_pictures(
    shape: list[int], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        load_predictor(onnx_file(tmp_path / "model.onnx", shape, **options))


class Hostile:
    """Leaves a file behind where it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path("executed").touch, ())


def pickled() -> bytes:
    buffer = io.BytesIO()
    torch.save(Hostile(), buffer)
    return buffer.getvalue()


def rewritten(source: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """A copy of an exported program with some of its records changed."""
    from torch.export.pt2_archive._package import PT2ArchiveReader

    reader = PT2ArchiveReader(str(source))
    skip = (".data/", "byteorder")  # the writer makes them itself
    records = {n: reader.read_bytes(n) for n in reader.get_file_names() if not n.startswith(skip)}
    change(records)
    writer = torch._C.PyTorchFileWriter(str(target))
    for name, content in records.items():
        writer.write_record(name, content, len(content))
    writer.write_end_of_file()


def in_graph(old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    def change(records: dict[str, bytes]) -> None:
        before = records["models/model.json"].decode()
        assert old in before
        records["models/model.json"] = before.replace(old, new).encode()

    return change


def in_weights(records: dict[str, bytes]) -> None:
    records["data/weights/weight_0"] = pickled()
    name = "data/weights/model_weights_config.json"
    records[name] = records[name].replace(b'"use_pickle": false', b'"use_pickle": true')


def in_constants(records: dict[str, bytes]) -> None:
    records["data/constants/opaque_obj_0"] = pickled()
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": False, "tensor_meta": None}
    records["data/constants/model_constants_config.json"] = json.dumps({"config": {"o": entry}}).encode()


PATHLIB = "__import__('pathlib').Path('executed').touch()"
ATTACKS: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "example": (lambda r: r.update({"data/sample_inputs/model.pt": pickled()}), "example inputs are not plain tensors"),
    "weights": (in_weights, "pickled objects"),
    "constants": (in_constants, "opaque_obj_0"),
    "legacy": (lambda r: r.update({"data/weights/model.pt": pickled()}), "no part of a plain exported program"),
    "library": (lambda r: r.update({"data/aotinductor/m/x.so": b""}), "no part of a plain exported program"),
    "size": (in_graph("Symbol('", f"{PATHLIB} or Symbol('"), "is not arithmetic"),
    "function": (in_graph("torch.ops.aten.relu.default", "torch.os.mkdir"), "calls 'torch.os.mkdir'"),
    "saver": (in_graph("torch.ops.aten.relu.default", "torch.ops.aten.save.default"), "calls 'torch.ops.aten.save"),
    "nothing": (in_graph("torch.ops.aten.relu.default", "torch.ops.aten.x.y"), "calls 'torch.ops.aten.x.y'"),
    "name": (in_graph('"name": "input"', f'"name": "input, _={PATHLIB}"'), "more than a name"),
    "container": (in_graph("builtins.tuple", "collections.defaultdict"), "plain containers"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_programs_execute_nothing(
    attack: str, networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever torch would unpickle, evaluate, import, call or write into code is refused by name of the file."""
    monkeypatch.chdir(tmp_path)
    change, message = ATTACKS[attack]
    rewritten(networks / "model.pt2", tmp_path / "hostile.pt2", change)
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        load_predictor("hostile.pt2")
    assert str(refusal.value).startswith("hostile.pt2: ")
    assert [p.name for p in tmp_path.iterdir()] == ["hostile.pt2"]


def test_an_unchanged_copy_is_read_and_its_guards_are_not_run(
    networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attacks fail for what they changed, not because they were copied."""
    monkeypatch.chdir(tmp_path)

    def guard(records: dict[str, bytes]) -> None:
        program = json.loads(records["models/model.json"])
        program["guards_code"] = [PATHLIB]
        records["models/model.json"] = json.dumps(program).encode()

    rewritten(networks / "model.pt2", tmp_path / "copy.pt2", guard)
    predictor = load_predictor("copy.pt2")
    assert predictor(torch.rand(3, 3, 8, 8)).shape == (3, 3)
    with pytest.raises(ValueError, match=r"copy\.pt2: fails on images of shape \(3, 3, 9, 8\)"):
        predictor(torch.rand(3, 3, 9, 8))
    assert not Path("executed").exists()


@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
def test_broken_network_files(suffix: str, networks: Path, tmp_path: Path) -> None:
    """Empty, junk, cut short, another zip: an error that begins with the file's name."""
    path = tmp_path / f"model.{suffix}"
    whole = (networks / path.name).read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("version", "8.0")
        archive.writestr("serialized_state_dict.pt", pickled())
    for content in (b"", b"junk" * 9, whole[: len(whole) // 2], buffer.getvalue()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: no "):
            load_predictor(str(path))
    with pytest.raises(FileNotFoundError, match="No such file"):
        load_predictor(str(tmp_path / f"missing.{suffix}"))
    with pytest.raises(ValueError, match="has its weights inside"):
        load_predictor(str(path), tmp_path / "weights.pt")


def test_programs_that_do_not_take_pictures(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    x = torch.rand(2, 3, 8, 8)
    torch.export.save(torch.export.export(Two(), (x, x)), tmp_path / "two.pt2")
    with pytest.raises(ValueError, match="must take one batch of images"):
        load_predictor(str(tmp_path / "two.pt2"))

    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x.mean((2, 3)), x

    torch.export.save(torch.export.export(Fixed(), (x,)), tmp_path / "fixed.pt2")
    predictor = load_predictor(str(tmp_path / "fixed.pt2"))
    assert predictor.batch == (2, 2)
    many = torch.rand(5, 3, 8, 8)
    assert torch.allclose(predictor(many), many.mean((2, 3)))


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


def test_command(
    networks: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of pictures in, a table and a page out; as JSON the same numbers."""
    monkeypatch.syspath_prepend(networks)
    out = tmp_path / "new" / "measure.html"
    assert run(str(networks / "model.onnx"), [photos, photos / "a.png"], shifts="9", out=out) == 0
    printed = capsys.readouterr().out
    assert "bit for bit" in printed
    assert "images: 3 of 8 x 8 pixels, 3 channels" in printed
    assert "normalisation: none, pixels in [0, 1]" in printed
    assert f"wrote {out}" in printed
    html = out.read_text()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;&amp;.png" in html
    assert [p.name for p in out.parent.iterdir()] == ["measure.html"]
    options: dict[str, Any] = {"size": 8, "shifts": "5", "kinds": ["circular"], "mean": ["imagenet"], "out": out}
    assert run("mine_to_measure:make", [photos], as_json=True, **options) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["about"]["normalisation"] == "mean 0.485, 0.456, 0.406, std 0.229, 0.224, 0.225"
    assert record["file"] == str(out)
    assert len(record["kinds"]["circular"]["shifts"]) == 5
    assert [Path(i["name"]).name for i in record["kinds"]["circular"]["images"]] == sorted(
        ["a.png", "b.JPG", "<script>alert(1)<&.png"], key=lambda n: str(photos / ("more" if n == "b.JPG" else "") / n)
    )


def test_size_of_pictures_for_a_network_that_takes_any(
    networks: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their own where all are alike and small; else one size for all; in the colours of the network."""
    monkeypatch.syspath_prepend(networks)
    options: dict[str, Any] = {"out": tmp_path / "m.html", "shifts": "2", "kinds": ["circular"], "as_json": True}
    assert run("mine_to_measure:greys", [photos], **options) == 0
    assert json.loads(capsys.readouterr().out)["about"]["images"] == "3 of 20 x 30 pixels, 1 channels"
    Image.new("L", (40, 40)).save(photos / "other.png")
    assert run("mine_to_measure:greys", [photos], std=["0.5"], **options) == 0
    about = json.loads(capsys.readouterr().out)["about"]
    assert about["images"] == "4 of 224 x 224 pixels, 1 channels"
    assert about["normalisation"] == "mean 0, std 0.5"


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("model.pt2", {"size": 9}, "`size` (=9) must be that of model.pt2, which takes (8, 8) only"),
        ("model.pt2", {"images": ["nowhere"]}, "nowhere: no such file or folder"),
        ("model.pt2", {"images": ["empty"]}, "empty: no pictures there"),
        ("model.pt2", {"images": ["photos/notes.txt"]}, "notes.txt is not an image"),
        ("model.pt2", {"shifts": "many"}, "`shifts` (='many') must be 'all' or a number"),
        ("model.pt2", {"shifts": "0"}, "`shifts` (=0) must be at least 1"),
        ("model.pt2", {"mean": ["cifar"]}, "must be numbers, or imagenet"),
        ("model.pt2", {"mean": ["1", "2"]}, "must be one number, or one per channel (3)"),
        ("model.pt2", {"std": ["0"]}, "`std` (=0.0) must be positive"),
        ("mine_to_measure:greys", {"mean": ["imagenet"]}, "one per channel (1)"),
        ("mine_to_measure:many", {}, "mine_to_measure:many: takes images of 7 channels"),
        ("mine_to_measure:maps", {}, "mine_to_measure:maps: must return scores"),
        ("mine_to_measure:picky", {}, "mine_to_measure:picky: fails on images of shape"),
    ],
)
def test_command_says_what_is_wrong(
    source: str,
    options: dict[str, Any],
    message: str,
    networks: Path,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line that names the file or the option, and no page."""
    monkeypatch.syspath_prepend(networks)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.pt2").write_bytes((networks / "model.pt2").read_bytes())
    (tmp_path / "empty").mkdir()
    options = {"images": ["photos"]} | options
    with pytest.raises(ValueError, match=re.escape(message)):
        run(source, [Path(p) for p in options.pop("images")], **options)
    assert not Path("measure.html").exists()
