"""torch.compile, torch.export and ONNX: the traced layer is the layer, and keeps the law, ties included."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from helpers.tracers import DYNAMIC, quiet, to_onnx
from shiftproof.invariance import assert_shift_invariant, same_bits
from shiftproof.layers import GHS1d, GHS2d, GHS3d
from shiftproof.maps.shifts import circular_shift

LAYERS = {"ghs": GHS2d(), "paper": GHS2d.paper(pivot_rule="energy"), "local": GHS2d(kernel="local(order=2)")}

pytestmark = quiet


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def maps(*shape: int) -> list[Tensor]:
    """Without ties, with ties in some samples, with ties in all, with NaN."""
    smooth, tied = torch.rand(shape), (torch.rand(shape) * 2).round()
    mixed = smooth.clone()
    mixed[0] = tied[0]
    ill = smooth.clone()
    ill[(0,) * len(shape)] = torch.nan
    return [smooth, mixed, tied, torch.zeros(shape), ill]


def check(traced: Callable[[Tensor], Tensor], layer: nn.Module, *shape: int, exact: bool = True) -> None:
    """The traced layer gives the layer's output and keeps the law."""
    for x in maps(*shape):
        assert torch.allclose(traced(x), layer(x), atol=1e-6, equal_nan=True)
        reference = traced(x)
        for _ in range(6 if exact else 0):
            shift = [int(torch.randint(0, n, ())) for n in shape[2:]]
            moved = circular_shift(x, shift, range(2, len(shape)))
            assert same_bits(traced(moved), reference)


@pytest.mark.parametrize("name", LAYERS)
def test_compile(name: str) -> None:
    """fullgraph, the default backend; forward and backward; then a size it has to compile for dynamically."""
    layer = LAYERS[name]
    compiled = torch.compile(layer, fullgraph=True)
    check(compiled, layer, 3, 4, 9, 8)
    x = torch.rand(3, 4, 9, 8, requires_grad=True)
    ours, theirs = (torch.autograd.grad(f(x).sin().sum(), x)[0] for f in (compiled, layer))
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_compile_with_dynamic_sizes() -> None:
    layer = GHS2d()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for shape in ((2, 3, 9, 8), (3, 3, 12, 7), (2, 3, 20, 33)):
        check(compiled, layer, *shape)


@pytest.mark.parametrize("layer", [GHS1d(), GHS3d.paper()], ids=["1d", "3d"])
def test_compile_other_dimensions(layer: nn.Module) -> None:
    shape = (2, 2, 6, 5, 4) if isinstance(layer, GHS3d) else (2, 2, 13)
    check(torch.compile(layer, fullgraph=True), layer, *shape)


def test_compile_inside_a_network() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"), nn.ReLU(), GHS2d(), nn.Flatten()).eval()
    assert_shift_invariant(torch.compile(net, fullgraph=True), torch.rand(2, 3, 8, 8), batch_size=16)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_export_with_dynamic_sizes(name: str, strict: bool) -> None:
    """Dynamic batch, height and width; tried at sizes the exporter never saw."""
    layer = LAYERS[name]
    shapes = {"x": {0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}}
    program = torch.export.export(layer, (torch.rand(3, 4, 10, 12),), dynamic_shapes=shapes, strict=strict)
    for shape in ((2, 4, 7, 9), (5, 4, 33, 20), (1, 4, 16, 16)):
        check(program.module(), layer, *shape)


def test_export_with_fixed_sizes_needs_no_operator_of_ours() -> None:
    """The matrices become constants: the graph can be loaded where shiftproof is not installed."""
    program = torch.export.export(GHS2d(), (torch.rand(3, 4, 10, 12),), dynamic_shapes={"x": {0: DYNAMIC}})
    assert "shiftproof" not in str(program.graph)
    check(program.module(), GHS2d(), 5, 4, 10, 12)


LOADER = """
import sys, torch, shiftproof.layers
from shiftproof.invariance import same_bits
program = torch.export.load(sys.argv[1]).module()
for shape in ((2, 4, 7, 9), (5, 4, 33, 20), (1, 4, 16, 16)):
    x = (torch.rand(shape) * 3).round()
    assert torch.allclose(program(x), shiftproof.GHS2d()(x), atol=1e-6)
    assert same_bits(program(x), program(x.roll((3, 5), (2, 3))))
print("loaded")
"""


def test_saved_program_in_a_new_process(tmp_path: Path) -> None:
    """Saved, loaded in a new process, tried at three sizes it never saw."""
    shapes = {"x": {0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC}}
    program = torch.export.export(GHS2d(), (torch.rand(3, 4, 10, 12),), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "ghs.pt2")
    command = [sys.executable, "-c", LOADER, str(tmp_path / "ghs.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "loaded\n", done.stderr


@pytest.mark.parametrize("name", LAYERS)
def test_onnx(name: str, tmp_path: Path) -> None:
    """onnxruntime, dynamic batch, fixed height and width: the same output, the same law."""
    run = to_onnx(LAYERS[name].eval(), torch.rand(3, 4, 10, 12), tmp_path / "ghs.onnx")
    check(run, LAYERS[name], 2, 4, 10, 12)
    check(run, LAYERS[name], 5, 4, 10, 12)


def test_onnx_refuses_dynamic_sizes() -> None:
    """Height and width must be fixed there, and the message says so."""
    shapes = {"x": {0: DYNAMIC, 2: DYNAMIC}}
    with pytest.raises(Exception, match="GHS needs a fixed height and width in ONNX"):
        torch.onnx.export(GHS2d(), (torch.rand(3, 4, 10, 12),), dynamic_shapes=shapes, dynamo=True, verbose=False)
