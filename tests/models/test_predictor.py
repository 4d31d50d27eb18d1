"""Networks from files: the same numbers in every format, and nothing executed from hostile ones."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from helpers.programs import PATHLIB, pickled, rewritten
from helpers.small_networks import write_networks
from shiftproof.invariance import KINDS
from shiftproof.measurement.measure import measure
from shiftproof.models.predictor import Predictor, load_predictor
from shiftproof.safe_io.torch_files import load_program


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_networks(tmp_path_factory.mktemp("networks"))


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
