"""What `shiftproof app` computes and draws, without a browser."""

import asyncio
import base64
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image
from torch import Tensor, nn

from helpers.zoo import timm
from shiftproof.app import (
    command,
    drawing,
    guard,
    layer,
    layer_tab,
    network,
    network_panels,
    network_tab,
    own,
    panels,
    samples,
    uploads,
)
from shiftproof.commands.main import main
from shiftproof.ghs.matrix import GHS, sampling_matrix
from shiftproof.invariance import shift_error
from shiftproof.layers import Downsample, base, create_downsample, methods, register_method
from shiftproof.models.export import save_model
from shiftproof.training.checkpoint import write_tensors
from shiftproof.training.config import configure
from shiftproof.training.loop import train
from shiftproof.training.runs import open_weights


def pixels(uri: str) -> Any:
    """The pixels of a data URI."""
    kind, _, body = uri.partition(",")
    assert kind == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


def picture(size: int = 24) -> Tensor:
    return torch.rand(1, 3, size, size)


# the tab Layer


@pytest.mark.parametrize("kind", ["circular", "cropped", "fractional"])
def test_panels_carry_the_measure(kind: str) -> None:
    """AD is the sum of absolute differences of the two outputs; equal bits are those of the measure."""
    image, shift = picture(), ((1.0, -2.0) if kind != "fractional" else (0.5, 0.25))
    found = layer.compare(image, shift, kind, ["max", "lpf", "ghs"], layer.Settings())
    moved = layer.move(image, shift, kind)
    assert torch.equal(found.moved, moved[0])
    for panel in found.panels:
        made = create_downsample(panel.method, 3)
        change = (made(moved) - made(image)).abs()
        assert torch.equal(panel.output, made(moved)[0])
        assert panel.total == pytest.approx(float(change.sum()), rel=1e-5)
        assert panel.mean == pytest.approx(float(change.mean()), rel=1e-5)
        assert panel.largest == pytest.approx(float(change.max()), rel=1e-5)
        assert torch.allclose(panel.difference, (made(moved) - made(image))[0].mean(0))
        assert panel.exact == (panel.method == "ghs" and kind == "circular")


def test_every_registered_method_has_a_panel() -> None:
    """Also those with weights, whose numbers do not change from one look to the next."""
    image = picture()
    first, again = (layer.compare(image, (5, 7), "circular", methods(), layer.Settings()) for _ in range(2))
    assert [panel.method for panel in first.panels] == methods()
    for a, b in zip(first.panels, again.panels):
        assert a.problem is None
        assert (a.total, a.exact) == (b.total, b.exact)
        assert a.exact == (a.law == "exact-invariant")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(base, "_registry", dict(base._registry))

    @register_method("moody")
    class Moody(Downsample):
        def __init__(self, channels: int, stride: int, padding: str, ndim: int) -> None:
            super().__init__(stride, ndim)

        def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
            raise RuntimeError("not <today>")

    yield "moody"
    layer._layer.cache_clear()


def test_a_method_that_fails_says_so_in_its_own_panel(failing: str) -> None:
    found = layer.compare(picture(), (1, 1), "circular", [failing, "max"], layer.Settings())
    html = panels.methods(found)
    assert "not &lt;today&gt;" in html
    assert found.panels[1].problem is None


def test_the_ring_is_where_the_pivot_of_ghs_is() -> None:
    """At the largest value, wherever the picture is moved; index of APS and pivots per channel are no position."""
    image = picture()
    where = divmod(int(image.amax(1).argmax()), 24)
    found = layer.compare(image, (3, 5), "circular", ["aps", "ghs"], layer.Settings())
    assert found.pivot == ((where[0] + 3) % 24, (where[1] + 5) % 24)
    assert 'class="ring"' in panels.stage(found, (3, 5), "circular", "a picture")
    each = layer.compare(image, (3, 5), "circular", ["aps", "ghs"], layer.Settings(pivot="per-channel"))
    assert each.pivot is None
    assert layer.compare(image, (3, 5), "circular", ["max"], layer.Settings()).pivot is None


def test_settings_are_those_of_ghs_and_stride_is_everybodys() -> None:
    settings = layer.Settings(3, "7", "0.5", "linear", "corner", "energy")
    image = picture()
    ghs, strided = layer.compare(image, (0, 0), "circular", ["ghs", "strided"], settings).panels
    options: dict[str, Any] = {"orders": 7, "sigma": 0.5, "taper": "linear", "anchor": "corner", "pivot": "energy"}
    assert torch.equal(ghs.output, create_downsample("ghs", 3, 3, **options)(image)[0])
    assert strided.output.shape == (3, 8, 8)


def test_inside_is_the_matrix_of_the_layer() -> None:
    found = layer.inside(24, layer.Settings())
    assert np.array_equal(found.matrix, sampling_matrix(24, 12, GHS))
    assert found.orders == 48
    assert found.functions.shape == (layer.DRAWN, len(found.x))
    html = panels.inner(found)
    assert "12 samples from 24 pixels" in html
    assert "the first 5; that of order <i>p</i> weighs 2<sup>&minus;<i>p</i>/48</sup>" in html
    assert "the first 5 of 48" in panels.inner(layer.inside(24, layer.Settings(taper="none")))
    assert "all 2" in panels.inner(layer.inside(24, layer.Settings(orders="2", sigma="rule", taper="none")))
    with pytest.raises(ValueError, match="48,000 functions here; the page takes up to 4,096"):
        layer.inside(24, layer.Settings(orders="4000N"))
    (panel,) = layer.compare(picture(), (0, 0), "circular", ["ghs"], layer.Settings(orders="4000N")).panels
    assert panel.problem is not None


@pytest.mark.parametrize(("typed", "stride"), [(None, 2), (0, 2), (-3, 1), (3.0, 3), (99, 8)])
def test_a_stride_may_be_anything_while_it_is_typed(typed: float | None, stride: int) -> None:
    assert layer_tab.settled(typed, "N") == layer.Settings(stride, "N")


def test_differences_that_are_not_zero_are_seen() -> None:
    """Transparent is zero and nothing else; sign is colour; beyond the scale nothing is added."""
    shown = pixels(drawing.signed(np.array([[0.0, 1e-9, -0.1, 5.0]]), 0.25))[0]
    assert shown[0, 3] == 0
    assert shown[1, 3] == 1
    assert tuple(shown[1, :3]) == drawing.POSITIVE
    assert tuple(shown[2, :3]) == drawing.NEGATIVE
    assert 90 < shown[2, 3] < 110
    assert shown[3, 3] == 255


def test_heat_maps_leave_out_what_is_unknown() -> None:
    shown = pixels(drawing.heat(np.array([[0.0, 1.0, np.nan, np.inf]]), 1.0))[0]
    assert shown[:, 3].tolist() == [255, 255, 0, 255]
    light = shown[:, :3].astype(int).sum(1)
    assert light[0] < light[1] == light[3]
    assert (pixels(drawing.heat(np.zeros((2, 2)), 0.0))[..., 3] == 255).all()


def test_pictures_are_grey_or_in_colour() -> None:
    assert pixels(drawing.picture(np.full((1, 2, 3), 0.5))).shape == (2, 3)
    assert pixels(drawing.picture(np.full((3, 2, 3), 2.0))).tolist() == [[[255] * 3] * 3] * 2


def test_words_of_others_are_escaped() -> None:
    assert "<b>" not in drawing.legend(["<b>"]) + panels.notice("<b>")
    assert panels.figure(0.0001, False).count("1.0e-04") == 1


# uploads


def test_an_upload_is_read_once_and_deleted(tmp_path: Path) -> None:
    """Good or bad, it is gone; what is kept is small."""
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
    with pytest.raises(ValueError, match="17 pictures are more than the 16"):
        uploads.take_pictures(["x"] * 17)


def test_samples_are_bundled_pictures_in_colour() -> None:
    for name in samples.SAMPLES:
        found = samples.sample(name)
        assert found.shape[0] == 3
        assert 0 <= float(found.min()) < float(found.max()) <= 1
    grey = samples.in_colours(torch.tensor([1.0, 1.0, 1.0]).view(3, 1, 1), 1)
    assert float(grey) == pytest.approx(1)


# the tab Network


def small(name: str = "small", size: tuple[int, int, int] = (1, 6, 8), seed: int = 0) -> network.Network:
    """A strided network of no great wisdom."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(size[0], 4, 3, 2, 1, padding_mode="circular"), nn.ReLU(), nn.AdaptiveMaxPool2d(1))
    head = nn.Sequential(model, nn.Flatten(), nn.Linear(4, 3, bias=False)).eval()

    def scores(x: Tensor) -> Tensor:
        with torch.no_grad():
            return 20 * head(x)  # type: ignore[no-any-return]

    return network.Network(name, scores, ("a", "b", "c"), size, "digits")


def test_a_sweep_is_the_scores_of_every_shift() -> None:
    """At each place of its grid those of the shifted picture; and the measure beside them is the one of the package."""
    net, image = small(), torch.rand(1, 1, 6, 8)
    steps: list[tuple[int, int]] = []
    found = network.sweep(net, image, lambda done, total: steps.append((done, total)))
    assert found.rows == [-3, -2, -1, 0, 1, 2]
    assert found.columns == [-4, -3, -2, -1, 0, 1, 2, 3]
    for r, row in enumerate(found.rows):
        for c, column in enumerate(found.columns):
            assert torch.allclose(found.scores[r, c], net.scores(image.roll((row, column), (2, 3)))[0], atol=1e-5)
    error = shift_error(net.scores, image)
    assert found.error.max == pytest.approx(error.max, rel=1e-5)
    assert found.changes[3, 4] == 0
    assert steps[-1] == (48, 48)
    assert found.place((-3, 3)) == (0, 7)
    answer, share = found.probability(3, 4)
    assert answer == found.answer
    assert share == pytest.approx(float(net.scores(image).softmax(1).max()), rel=1e-4)


def test_the_worst_shift_changes_the_answer_if_any_does() -> None:
    """And of those the scores the most; the nearest of equals; a network that never changes has a worst score."""
    flips = 0
    for seed in range(12):
        net, image = small(seed=seed), torch.rand(1, 1, 6, 8)
        found = network.sweep(net, image)
        changed, change, (row, column) = found.worst()
        r, c = found.place((row, column))
        assert float(found.changes[r, c]) == pytest.approx(change, rel=1e-5)
        kept = found.answers == found.answer
        assert changed == (not bool(kept.all()))
        assert changed == bool(found.answers[r, c] != found.answer)
        among = found.changes[~kept] if changed else found.changes
        assert change == float(among.max())
        flips += changed
    assert 0 < flips < 12
    still = network.Sweep([-1, 0], [-1, 0], torch.ones(2, 2, 3), torch.ones(3), found.error, 1.0)
    object.__setattr__(still.error, "changes", torch.zeros(4))
    assert still.worst() == (False, 0.0, (0, 0))


def test_paths_go_through_the_place() -> None:
    found = network.sweep(small(), torch.rand(1, 1, 6, 8))
    place = (2, 5)
    row, column, diagonal = (found.path(place, path) for path in network.PATHS)
    assert [len(p) for p in (row, column, diagonal)] == [8, 6, 8]
    assert all(place in p for p in (row, column, diagonal))
    assert {r for r, _ in row} == {2}
    assert {c for _, c in column} == {5}
    assert diagonal[5] == place
    assert diagonal[6] == (3, 6)


def test_many_shifts_are_tried_in_odd_steps() -> None:
    """At most `SHIFTS` of them, no shift among them, and not only those that a stride of 2 does not notice."""
    for size in (8, 32, 33, 64, 224):
        step = network.step_of(small(size=(3, size, size)))
        axis = network.axis(size, step)
        assert step % 2 == 1
        assert len(axis) ** 2 <= network.SHIFTS
        assert 0 in axis
        assert len({v % size for v in axis}) == len(axis)
        assert (step == 1) == (size <= 32)


def test_panels_of_networks_say_what_changed() -> None:
    """All heat maps have one scale; the answer that changed says what it was."""
    image = torch.rand(1, 1, 6, 8)
    nets = [small(name, seed=seed) for seed, name in enumerate(("<one>", "two"))]
    pairs = [(net, network.sweep(net, image)) for net in nets]
    html = network_panels.networks(pairs, (0, 0), "row")
    assert "&lt;one&gt;" in html
    assert html.count(f">{max(s.error.max for _, s in pairs):.2f}</span></p>") == 2
    changed = next((n, s) for n, s in ((n, network.sweep(n, image)) for n in map(_seeded, range(12))) if s.worst()[0])
    shift = changed[1].worst()[2]
    assert f"was {'abc'[changed[1].answer]}" in network_panels.networks([changed], shift, "diagonal")
    assert 'data-pixels="8"' in network_panels.stage(image[0], (1, 0), "x")


def _seeded(seed: int) -> network.Network:
    return small(seed=seed)


def test_networks_are_found_where_they_are(tmp_path: Path) -> None:
    """Those of the package, of finished runs and of a run itself; others are named with the reason."""
    run = tmp_path / "runs" / "digits"
    config = configure("smoke", method="ghs", dataset="digits", changes={"optim.epochs": 1, "data.limit": 64})
    train(config, run, quiet=True)
    for name, content in (("begun", (run / "config.json").read_text()), ("odd", "{}"), ("odder", '{"model": 3}')):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "config.json").write_text(content)
    (tmp_path / "runs" / "odd" / "result.json").write_text("{}")
    found = network.find_networks([tmp_path / "runs"])
    names = {family: [n.name for n in members] for family, members in found.families.items()}
    assert names["cifar10: 32 x 32 pixels, colour"][:4] == ["strided", "lpf", "aps", "ghs"]  # what is shown at first
    (digits,) = (family for family in names if family.startswith("digits"))
    assert names[digits] == ["ghs (digits)"]
    assert len(found.problems) == 3
    assert any("not finished" in words for words in found.problems)
    assert network.find_networks([run]).families[digits][0].classes == tuple("0123456789")
    with pytest.raises(ValueError, match="no such folder of runs"):
        network.find_networks([tmp_path / "nowhere"])
    net = found.families[digits][0]
    offered = network.pictures(net)
    assert sum("test image" in name for name in offered) == network.IMAGES
    assert all(image.shape == (1, *net.size) for image in offered.values())
    assert network.sweep(net, offered["camera"]).error.exact
    _, about = open_weights(run / "best.safetensors")
    assert about["data"] == "digits"


def test_choices_of_another_family_are_replaced() -> None:
    """The page may send them while it waits for those of this one; nothing chosen is nothing shown."""
    made = network.Network("one", lambda x: x.flatten(1)[:, :2], ("a", "b"), (1, 8, 8), "nothing of the kind")
    tab = network_tab.Tab(network.Library({"family": [made]}), None)
    found = tab.compute("family", "3 (test image 0)", None, ["another"], lambda *_, **__: None)
    assert [n.name for n, _ in found.pairs] == ["one"]
    assert found.name in network.pictures(made)
    assert tab.compute("family", "camera", None, [], lambda *_, **__: None).pairs == []


def test_networks_whose_data_are_not_there_take_bundled_pictures(tmp_path: Path) -> None:
    net = network.find_networks([]).families["cifar10: 32 x 32 pixels, colour"][0]
    assert list(network.pictures(net, tmp_path)) == list(samples.SAMPLES)


def test_weights_that_do_not_say_what_they_are_of(tmp_path: Path) -> None:
    write_tensors(tmp_path / "w.safetensors", {"a": torch.ones(1)}, {"model": {"name": "resnet20"}})
    with pytest.raises(ValueError, match="does not say what network its weights are of"):
        open_weights(tmp_path / "w.safetensors")


# the tab Your model


def request(**options: Any) -> own.Request:
    return own.Request([("one", torch.rand(3, 40, 30))], **options)


def nothing(share: float, words: str) -> None:
    assert 0 <= share <= 1


def test_a_file_is_measured_in_every_kind(tmp_path: Path) -> None:
    """Near shifts by whole pixels, all the fractional ones: each as a map that has no holes."""
    net = nn.Sequential(nn.Conv2d(1, 3, 3, stride=2), nn.AdaptiveMaxPool2d(1), nn.Flatten()).eval()
    save_model(net, torch.rand(2, 1, 20, 16), tmp_path / "net.pt2")
    html = own.measure_file(
        tmp_path / "net.pt2", request(reach=2, kinds=("circular", "cropped", "fractional"), imagenet=True), nothing
    )
    assert "25 of 320" in html  # circular
    assert "25 of 25" not in html
    assert "all 64" in html  # fractional
    assert "none, pixels in [0, 1]" in html  # ImageNet's numbers are for three channels
    assert str(tmp_path) not in html


def test_shifts_around_are_each_once() -> None:
    assert len(own._around(2, (9, 9))) == 25
    assert len(own._around(9, (4, 6))) == 24
    assert set(own._around(1, (8, 8))) == {(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)}


def test_bad_networks_get_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net.txt"
    file.write_text("")
    with pytest.raises(ValueError, match=r"^net.txt: must be an exported program"):
        own.measure_file(file, request(), nothing)
    (tmp_path / "net.pt2").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"^net.pt2: no exported program"):
        own.measure_file(tmp_path / "net.pt2", request(), nothing)
    shape = ("n", 3, 8, 8)
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, shape)],
                              [value("y", TensorProto.FLOAT, shape)])  # fmt: skip
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "maps.onnx"
    )
    with pytest.raises(ValueError, match=r"^maps.onnx: must return scores"):
        own.measure_file(tmp_path / "maps.onnx", request(), nothing)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match="needs onnxruntime: install it with `pip install onnxruntime`"):
        own.measure_file(tmp_path / "maps.onnx", request(), nothing)


def test_timm_by_name_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other module is imported, whatever is typed; a network that cannot be converted says so."""
    assert timm.list_models()
    for name in ("os:system", "timm:../x", "timm", "timm:a:b", "timm:resnet18\nos:system"):
        with pytest.raises(ValueError, match="must be `timm:NAME`"):
            own.measure_timm(name, None, "ghs", request(), nothing)
    weights = tmp_path / "w.pt"
    weights.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"^w.pt: no weights that can be read safely"):
        own.measure_timm("timm:resnet10t", weights, "ghs", request(), nothing)
    with pytest.raises(ValueError, match=r"`size` .* must be from 16 to 256"):
        own.measure_timm("timm:resnet10t", None, "ghs", request(size=1000), nothing)
    with pytest.raises(ValueError, match="timm:vit_tiny_patch16_224 cannot be converted"):
        own.measure_timm("timm:vit_tiny_patch16_224", None, "ghs", request(), nothing)
    monkeypatch.setattr(own, "has_timm", lambda: False)
    with pytest.raises(ValueError, match="needs timm: install it with `pip install timm`"):
        own.measure_timm("timm:resnet10t", None, "ghs", request(), nothing)


def test_before_and_after_with_weights_of_ones_own(tmp_path: Path) -> None:
    torch.save(timm.create_model("resnet10t").state_dict(), tmp_path / "w.pt")
    html = own.measure_timm("timm:resnet10t", tmp_path / "w.pt", "ghs", request(size=32, reach=1), nothing)
    assert html.count('class="half"') == 2
    assert "What was replaced" in html
    assert "Its weights are random" not in html


# the server


def test_what_is_open() -> None:
    """What the page asks for, and not a path more."""
    for path in ("/", "/theme.css", "/assets/index-a1.js", "/static/fonts/x.woff2", "/gradio_api/queue/join"):
        assert guard.OPEN.fullmatch(path), path
    for path in (
        "/assets/../x",
        "/static/..",
        "/assets//etc",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/proxy=x",
        "//",
    ):
        assert not guard.OPEN.fullmatch(path), path


def test_the_guard_lets_the_server_start_and_refuses_sockets() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    async def receive() -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        seen.append((message["type"], message["code"]))

    guarded = guard.Guard(app)
    asyncio.run(guarded({"type": "lifespan"}, receive, send))
    asyncio.run(guarded({"type": "websocket", "path": "/", "headers": []}, receive, send))
    assert seen == ["lifespan", ("websocket.close", 1008)]


def test_the_next_free_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with command.listen(port) as found:
            assert port < found.getsockname()[1] < port + command.PORTS
            assert found.getsockname()[0] == "127.0.0.1"
        monkeypatch.setattr(command, "PORTS", 1)
        with pytest.raises(OSError, match=f"no free port from {port} to {port}"):
            command.listen(port)
    with pytest.raises(ValueError, match="must be from 0 to 65535"):
        command.listen(70_000)


def test_the_command_opens_the_page(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The address is printed, and opened unless it is told not to; folders that are not there are an error."""
    opened: list[str] = []
    asked: list[Any] = []

    async def serve(make: Any, listening: Any, ready: Any) -> None:
        make()
        ready(None)

    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(command, "application", lambda *a: asked.append(a))
    monkeypatch.setattr(command, "serve", serve)
    assert main(["app", "--port", "0"]) == 0
    assert opened[0] in capsys.readouterr().out
    assert main(["app", "--port", "0", "--no-browser", "--json", "--runs", "here"]) == 0
    assert json.loads(capsys.readouterr().out)["url"].startswith("http://127.0.0.1:")
    assert len(opened) == 1
    assert asked[1][0] == [Path("here")]


def test_without_gradio_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert main(["app", "--port", "0", "--no-browser"]) == 2
    assert "`shiftproof app` needs gradio: install it with `pip install 'shiftproof[app]'`" in capsys.readouterr().err


def test_ctrl_c_ends_the_server_and_leaves_nothing(tmp_path: Path) -> None:
    """It answers, it stops with 130, and its folder of uploads is gone."""
    code = "import sys; from shiftproof.commands.main import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "app", "--port", "0", "--no-browser", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which whoever runs the tests may ignore
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["url"].startswith("http://127.0.0.1:")
    assert any(p.name.startswith("shiftproof-app-") for p in tmp_path.iterdir())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 130
    assert errors == "shiftproof: stopped.\n"
    assert not any(p.name.startswith("shiftproof-app-") for p in tmp_path.iterdir())
