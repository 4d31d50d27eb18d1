"""The E(2) network: its parts against e2cnn's own, rotations and shifts, and what it refuses."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from e2cnn import gspaces
from e2cnn.nn import FieldType, GeometricTensor, R2Conv, init
from torch import Tensor, nn

import shiftproof as sp
from helpers.laws import TOLERANCE, stir
from shiftproof.layers import Downsample, create_downsample, methods
from shiftproof.models import e2
from shiftproof.models.e2 import E2SFCNN, FieldDownsample, SteerableConv, elu, quarter_turns
from shiftproof.training.config import configure
from shiftproof.training.loop import train
from shiftproof.training.optimizer import make_optimizer
from shiftproof.training.runs import load_run

SPACE = gspaces.Rot2dOnR2(16)
NARROW = 0.03  # one to three fields per layer


def regular(count: int) -> FieldType:
    return FieldType(SPACE, [SPACE.regular_repr] * count)


def network(method: str = "ghs", geometry: str = "circular", **options: Any) -> Any:
    """A narrow network in evaluation mode, with statistics off their defaults."""
    model = sp.create_model("e2", method, in_channels=1, size=29, width=NARROW, geometry=geometry, **options)
    stir(model)
    return model.eval()


def images(size: int = 29) -> Tensor:
    """One random and one 8-bit image."""
    x = torch.rand(2, 1, size, size)
    x[1] = (x[1] * 300).clamp(max=255).round() / 255
    return x


def turning(f: Any, x: Tensor) -> float:
    """The largest change of f when images turn by 90, 180 and 270 degrees."""
    with torch.no_grad():
        return max(float((f(x.rot90(k, (-2, -1))) - f(x)).abs().max()) for k in (1, 2, 3))


def test_the_network_is_the_reference_at_full_width() -> None:
    """Kernels 9, 7, 7, 7, 7, 5; fields 24, 32, 36, 36, 64, 96; head 96-96-10; maps of 21 and 11 pixels are pooled."""
    model = sp.create_model("e2", in_channels=1, geometry="reference")
    assert isinstance(model, E2SFCNN)
    convs = [m for m in model.modules() if isinstance(m, SteerableConv)]
    assert [c.kernel_size for c in convs] == [9, 7, 7, 7, 7, 5]
    assert [len(c.out_type) for c in convs] == [24, 32, 36, 36, 64, 96]
    assert [(c.around, c.border) for c in convs] == [(n, "zeros") for n in (0, 3, 3, 3, 3, 0)]
    assert [(m.in_features, m.out_features) for m in model.modules() if isinstance(m, nn.Linear)] == [
        (96, 96),
        (96, 96),
        (96, 10),
    ]
    assert [m.p for m in model.modules() if isinstance(m, nn.Dropout)] == [0.3] * 3
    circular = sp.create_model("e2", in_channels=1, width=0.5)
    convs = [m for m in circular.modules() if isinstance(m, SteerableConv)]
    assert [len(c.out_type) for c in convs] == [12, 16, 18, 18, 32, 48]
    assert [(c.around, c.border) for c in convs] == [(n, "circular") for n in (4, 3, 3, 3, 3, 2)]


@pytest.mark.parametrize(("geometry", "sizes"), [("reference", [21, 11]), ("circular", [29, 15])])
def test_digits_of_29_pixels_are_pooled_at_odd_sizes(geometry: str, sizes: list[int]) -> None:
    model, seen = network(geometry=geometry), []
    for module in model.modules():
        if isinstance(module, Downsample):
            module.register_forward_pre_hook(lambda _, args: seen.append(tuple(args[0].shape[2:])))
    assert model(images()).shape == (2, 10)
    assert seen == [(n, n) for n in sizes]


@pytest.mark.parametrize(("inputs", "kernel"), [(0, 9), (3, 7), (2, 5)])
def test_the_convolution_is_that_of_e2cnn(inputs: int, kernel: int) -> None:
    """The same coefficients give the same maps, and are drawn from the same distribution."""
    before = regular(inputs) if inputs else FieldType(SPACE, [SPACE.trivial_repr] * 2)
    torch.manual_seed(1)
    mine = SteerableConv(before, regular(2), kernel, kernel // 2, "zeros")
    other = R2Conv(before, regular(2), kernel, padding=kernel // 2, bias=False, initialize=False)
    torch.manual_seed(1)
    init.generalized_he_init(other.weights.data, other.basisexpansion)
    torch.testing.assert_close(mine.weights.flatten(), other.weights)
    x = GeometricTensor(torch.randn(2, before.size, 12, 12), before)
    torch.testing.assert_close(mine(x).tensor, other(x).tensor, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_quarter_turns_are_those_of_e2cnn(turns: int) -> None:
    fields = FieldType(SPACE, [SPACE.regular_repr] * 2 + [SPACE.trivial_repr])
    x = torch.randn(1, fields.size, 5, 5)
    expected = GeometricTensor(x, fields).transform(4 * turns).tensor
    torch.testing.assert_close(quarter_turns(x, fields, turns), expected)
    six = gspaces.Rot2dOnR2(6)
    with pytest.raises(ValueError, match=r"has 6 rotations, which must be a multiple of 4"):
        quarter_turns(torch.zeros(1, 6, 5, 5), FieldType(six, [six.regular_repr]), 1)


def test_elu_rounds_alike_everywhere() -> None:
    """elu(x) = x or e^x - 1, with equal bits for equal values wherever they stand in memory."""
    x = torch.cat([torch.randn(1000) * 3, torch.tensor([0.0, 200.0, -200.0])]).requires_grad_()
    torch.testing.assert_close(elu(x), nn.functional.elu(x))
    (slope,) = torch.autograd.grad(elu(x).sum(), x)
    torch.testing.assert_close(slope, torch.where(x > 0, 1.0, x.detach().clamp(max=0).exp()))
    values = x.detach()
    for start in range(40):
        assert torch.equal(elu(values[start:].clone()), elu(values)[start:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [11, 15, 21, 29])
@pytest.mark.parametrize("method", ["ghs", "ghs-paper"])
def test_rotations_commute_with_ghs_on_odd_maps(method: str, size: int, dtype: torch.dtype) -> None:
    """One maximum, centre anchor: to 1e-5 in float32 and 1e-12 in float64."""
    layer = FieldDownsample(create_downsample(method, 32, anchor="center"), regular(2))
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    errors = layer.check_equivariance(atol=tolerance, rtol=0, size=size, dtype=dtype)
    assert [element for element, _ in errors] == [4, 8, 12]
    assert max(error for _, error in errors) <= tolerance


@pytest.mark.parametrize(
    ("anchor", "size"), [("center", 20), ("center", 28), ("corner", 21), ("corner", 20), ("corner", 29)]
)
def test_rotations_do_not_commute_elsewhere(anchor: str, size: int) -> None:
    """On even sizes no pixel is the centre, and the corner is not the centre: the check says so."""
    grid = "anchored" if anchor == "center" else "periodic"
    layer = FieldDownsample(create_downsample("ghs", 32, anchor=anchor, grid=grid), regular(2))
    with pytest.raises(AssertionError, match=rf"a rotation of {size} x {size} maps by 90 degrees: the largest error"):
        layer.check_equivariance(atol=1e-2, size=size)


def test_which_other_methods_pass_the_check() -> None:
    """Windows must lie evenly: max pooling with 2 pixels on even maps, with 3 on odd ones; filters on odd ones."""
    cases: list[tuple[str, dict[str, Any], int, bool]] = [
        ("max", {}, 20, True),
        ("max", {}, 21, False),
        ("max", {"kernel_size": 3}, 21, True),
        ("strided", {}, 21, True),
        ("strided", {}, 20, False),
        ("lpf", {}, 21, True),
        ("lpf", {}, 20, False),
        ("aps", {}, 21, False),
    ]
    for method, options, size, passes in cases:
        layer = FieldDownsample(create_downsample(method, 32, **options), regular(2))
        if passes:
            layer.check_equivariance(size=size)
        else:
            with pytest.raises(AssertionError, match="does not commute"):
                layer.check_equivariance(size=size)


def test_pooling_keeps_the_type_and_tells_the_shape() -> None:
    """One pivot for all channels, whatever field they belong to."""
    ghs = sp.GHS2d()
    layer = FieldDownsample(ghs, regular(3))
    x = torch.randn(2, 48, 11, 14)
    y = layer(GeometricTensor(x, regular(3)))
    assert y.type == layer.in_type == layer.out_type
    assert tuple(y.tensor.shape) == layer.evaluate_output_shape((2, 48, 11, 14)) == (2, 48, 6, 7)
    mixed = torch.randperm(48)
    assert torch.equal(ghs.select(x), ghs.select(x[:, mixed]))
    torch.testing.assert_close(ghs(x[:, mixed]), y.tensor[:, mixed])


def test_fields_whose_channels_are_not_permuted_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`in_type` holds fields of type 'irrep_1'"):
        FieldDownsample(create_downsample("ghs", 2), FieldType(SPACE, [SPACE.irrep(1)]))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("method", ["ghs", "ghs-paper", "align"])
def test_the_circular_network_is_bit_exact(method: str, layout: torch.memory_format) -> None:
    """The largest change of the logits over all 841 shifts is 0.0."""
    model = network(method)
    x = images().contiguous(memory_format=layout)
    shifts = "all" if method == "ghs" else 64
    assert sp.shift_error(model, x, shifts, batch_size=128).max == 0.0


@pytest.mark.parametrize("method", ["max", "lpf", "strided"])
def test_no_place_of_the_circular_network_is_special(method: str) -> None:
    """Not the border of the maps either, whatever is pooled: shifts by both strides leave the logits alone."""
    shifts = [(4, 0), (0, 8), (16, 12), (28, 20)]
    assert sp.shift_error(network(method), images(32), shifts).max < TOLERANCE[torch.float32]
    assert sp.shift_error(network(method, "reference"), images(32), shifts).max > 1e-3


def test_where_no_shift_law_holds() -> None:
    """In the reference geometry, and without GHS."""
    assert sp.shift_error(network(geometry="reference"), images(), 16).max > 1e-3
    for method in ("max", "lpf", "aps"):
        assert sp.shift_error(network(method), images(), 16).max > 1e-4


@pytest.mark.parametrize("geometry", e2.GEOMETRIES)
def test_logits_do_not_change_when_the_image_turns(geometry: str) -> None:
    """By 90 degrees, to rounding, with images of 29 pixels; with 28 only where nothing but the pivot is special."""
    model = network(geometry=geometry)
    assert turning(model, images()) < TOLERANCE[torch.float32]
    even = turning(model, images(28))
    assert even < 1e-3 if geometry == "circular" else even > 1e-3


@pytest.mark.parametrize("method", methods())
def test_every_method_trains_in_it(method: str) -> None:
    model = sp.create_model("e2", method, 3, in_channels=1, width=NARROW)
    assert model(images()).shape == (2, 3)
    model(images()).logsumexp(1).sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all()


def test_a_state_is_the_same_in_both_modes_and_holds_no_basis() -> None:
    """It can be taken in one mode and loaded in the other; models do not share tensors."""
    model, other = network(), network().train()
    assert set(model.state_dict()) == set(other.state_dict())
    other.load_state_dict(model.state_dict())
    x = images()
    assert torch.equal(other.eval()(x), model(x))
    assert sum(t.numel() for t in model.state_dict().values()) < 2 * sum(p.numel() for p in model.parameters())
    model.double()
    assert model(x.double()).dtype == torch.float64
    assert other(x).dtype == torch.float32


def test_refusals() -> None:
    """Of choices a network does not have, and of images it was not made for."""
    with pytest.raises(ValueError, match=r"`geometry` \(='round'\)"):
        sp.create_model("e2", geometry="round")
    with pytest.raises(ValueError, match=r"`width` \(=0.0\)"):
        sp.create_model("e2", width=0)
    choices: list[tuple[str, dict[str, Any]]] = [
        ("e2", {"head": "flatten"}),
        ("e2", {"stem": "imagenet"}),
        ("e2", {"share": False}),
        ("resnet20", {"width": 0.5}),
        ("resnet20", {"geometry": "reference"}),
    ]
    for name, choice in choices:
        (key,) = choice
        with pytest.raises(ValueError, match=rf"`{key}` .* is not an argument of the network '{name}': leave it out"):
            sp.create_model(name, **choice)
    for geometry, smallest in (("circular", 17), ("reference", 25)):
        model = network(geometry=geometry)
        assert model(images(smallest)).shape == (2, 10)
        with pytest.raises(ValueError, match=rf"1 channels and at least {smallest} x {smallest} pixels"):
            model(images(smallest - 1))
    with pytest.raises(ValueError, match="must have 1 channels"):
        model(torch.rand(1, 3, 29, 29))


def test_the_rest_of_the_package_does_without_e2cnn() -> None:
    """Until the network is made."""
    code = (
        "import sys; sys.modules['e2cnn'] = None\n"
        "import shiftproof as sp, shiftproof.models\n"
        "assert 'e2' in shiftproof.models.models()\n"
        "try: sp.create_model('e2')\n"
        "except ModuleNotFoundError as error: assert error.name == 'e2cnn', error.name\n"
        "else: raise SystemExit('not missed')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_regularisation_is_the_references() -> None:
    """L1 and L2: 1e-7 on filters, 1e-8 on hidden layers, none on the classifier, on batch norms and on biases."""
    model = sp.create_model("e2", in_channels=1, width=NARROW)
    optimizer = make_optimizer(model, configure("paper", model="e2").optim)
    assert isinstance(optimizer, torch.optim.Adam)
    found = {id(p): (g["l1"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    for name, p in model.named_parameters():
        expected = (
            1e-7 if name.endswith("conv.weights") else 1e-8 if name in ("head.1.weight", "head.5.weight") else 0.0
        )
        assert found[id(p)] == pytest.approx((expected, expected)), name


def test_it_is_trained_by_name(tmp_path: Path) -> None:
    """A run resumes to the same bits; its network is loaded with the weights it had."""
    changes = {"optim.epochs": 2, "run.threads": 1, "run.tensorboard": False, "data.limit": 64, "optim.batch_size": 32}
    config = configure("smoke", model="e2", dataset="digits", changes=changes)
    train(config, tmp_path / "run", quiet=True)
    final = (tmp_path / "run" / "final.safetensors").read_bytes()
    for name in ("result.json", "final.safetensors", "checkpoints/step-000000004.safetensors"):
        (tmp_path / "run" / name).unlink()
    train(None, tmp_path / "run", resume=True, quiet=True)
    assert (tmp_path / "run" / "final.safetensors").read_bytes() == final
    model, _, dataset = load_run(tmp_path / "run", "final")
    assert isinstance(model, E2SFCNN)
    x = dataset.test.images[:2] / 255
    assert sp.shift_error(model, x, 16).max == 0.0
