"""What the tab Your model computes, without a browser."""

import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from helpers.zoo import timm
from shiftproof.app import your_model
from shiftproof.models.export import save_model


def request(**options: Any) -> your_model.Request:
    return your_model.Request([("one", torch.rand(3, 40, 30))], **options)


def nothing(share: float, words: str) -> None:
    assert 0 <= share <= 1


def test_a_file_is_measured_in_every_kind(tmp_path: Path) -> None:
    """Small shifts by whole pixels, all fractional ones; each kind has a complete map."""
    net = nn.Sequential(nn.Conv2d(1, 3, 3, stride=2), nn.AdaptiveMaxPool2d(1), nn.Flatten()).eval()
    save_model(net, torch.rand(2, 1, 20, 16), tmp_path / "net.pt2")
    html = your_model.measure_file(
        tmp_path / "net.pt2", request(reach=2, kinds=("circular", "cropped", "fractional"), imagenet=True), nothing
    )
    assert "25 of 320" in html  # circular
    assert "25 of 25" not in html
    assert "all 64" in html  # fractional
    assert "none, pixels in [0, 1]" in html  # ImageNet's statistics are for three channels
    assert str(tmp_path) not in html


def test_shifts_around_are_each_once() -> None:
    assert len(your_model._shifts_around(2, (9, 9))) == 25
    assert len(your_model._shifts_around(9, (4, 6))) == 24
    assert set(your_model._shifts_around(1, (8, 8))) == {(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)}


def test_bad_networks_get_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net.txt"
    file.write_text("")
    with pytest.raises(ValueError, match=r"^net.txt: must be an exported program"):
        your_model.measure_file(file, request(), nothing)
    (tmp_path / "net.pt2").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"^net.pt2: no exported program"):
        your_model.measure_file(tmp_path / "net.pt2", request(), nothing)
    shape = ("n", 3, 8, 8)
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value("x", TensorProto.FLOAT, shape)],
                              [value("y", TensorProto.FLOAT, shape)])  # fmt: skip
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "maps.onnx"
    )
    with pytest.raises(ValueError, match=r"^maps.onnx: must return scores"):
        your_model.measure_file(tmp_path / "maps.onnx", request(), nothing)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match="needs onnxruntime: install it with `pip install onnxruntime`"):
        your_model.measure_file(tmp_path / "maps.onnx", request(), nothing)


def test_only_timm_is_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other module is imported, whatever the user types; a network that cannot be converted is an error."""
    assert timm.list_models()
    for name in ("os:system", "timm:../x", "timm", "timm:a:b", "timm:resnet18\nos:system"):
        with pytest.raises(ValueError, match="must be `timm:NAME`"):
            your_model.measure_timm(name, None, "ghs", request(), nothing)
    weights = tmp_path / "w.pt"
    weights.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"^w.pt: no weights that can be read safely"):
        your_model.measure_timm("timm:resnet10t", weights, "ghs", request(), nothing)
    with pytest.raises(ValueError, match=r"`size` .* must be from 16 to 256"):
        your_model.measure_timm("timm:resnet10t", None, "ghs", request(size=1000), nothing)
    with pytest.raises(ValueError, match="timm:vit_tiny_patch16_224 cannot be converted"):
        your_model.measure_timm("timm:vit_tiny_patch16_224", None, "ghs", request(), nothing)
    monkeypatch.setattr(your_model, "has_timm", lambda: False)
    with pytest.raises(ValueError, match="needs timm: install it with `pip install timm`"):
        your_model.measure_timm("timm:resnet10t", None, "ghs", request(), nothing)


def test_before_and_after_with_given_weights(tmp_path: Path) -> None:
    torch.save(timm.create_model("resnet10t").state_dict(), tmp_path / "w.pt")
    html = your_model.measure_timm("timm:resnet10t", tmp_path / "w.pt", "ghs", request(size=32, reach=1), nothing)
    assert html.count('class="half"') == 2
    assert "What was replaced" in html
    assert "The weights are random" not in html
