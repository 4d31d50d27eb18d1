"""The converter on well-known networks, on ours, and on networks it must refuse."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers import zoo
from helpers.tracers import DYNAMIC, quiet, to_onnx
from shiftproof.conversion import ConversionError, conversion_report, convert
from shiftproof.conversion.capture import trace
from shiftproof.conversion.example import Inputs
from shiftproof.conversion.replacements import SharedDownsample
from shiftproof.conversion.verify import check_stages
from shiftproof.invariance import assert_shift_invariant, same_bits, shift_error
from shiftproof.layers import Downsample, create_downsample
from shiftproof.models import create_model

pytestmark = quiet
every_network = pytest.mark.parametrize("name", zoo.NAMES)


def images(batch: int = 2, size: int = 64) -> Tensor:
    return torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


@every_network
def test_strided_conversion_is_the_source(name: str) -> None:
    """The oracle: strides moved after norm and activation, nothing else changed."""
    model = zoo.create(name)
    x = images()
    with torch.no_grad():
        expected = model(x)
        moved = convert(model, "strided", padding=None)
        assert torch.allclose(moved(x), expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    assert not any(getattr(m, "stride", 1) in (2, (2, 2)) for m in moved.modules() if isinstance(m, nn.Conv2d))


@every_network
def test_converted_network(name: str) -> None:
    """Same keys, same output shape and dtype, source untouched, invariant to every shift, each stage on its own."""
    model = zoo.create(name)
    x = images()
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        expected = model(x)
        new = convert(model, "ghs")
        out = new(x)
        assert torch.equal(model(x), expected)
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())
    assert set(new.state_dict()) == set(before)
    assert out.shape == expected.shape
    assert out.dtype == expected.dtype
    assert_shift_invariant(new, x[:1], shifts=64, batch_size=16)
    assert check_stages(new, Inputs.of(new, x)) == []  # type: ignore[arg-type]
    report = conversion_report(new)
    assert report.law == "exact-invariant"
    assert not report.not_converted
    strided = [m for m in new.modules() if isinstance(m, nn.Conv2d) and max(m.stride) > 1]
    assert not strided
    padded = [m for m in new.modules() if isinstance(m, nn.Conv2d) and max(m.kernel_size) > 1]
    assert all(m.padding_mode == "circular" for m in padded)

    new.load_state_dict(before)  # weights load after conversion as before
    new.train()
    new(x).square().mean().backward()
    for key, p in new.named_parameters():
        assert p.grad is not None, key
        assert p.grad.isfinite().all(), key
    moved = [bool(p.grad.abs().sum() > 0) for p in new.parameters() if p.grad is not None]
    assert sum(moved) > 0.8 * len(moved)  # not all: stochastic depth, and a bias before a batch norm


@pytest.mark.zoo
@every_network
def test_converted_network_under_all_shifts(name: str) -> None:
    assert_shift_invariant(convert(zoo.create(name)), images(1), batch_size=64)


# the others take minutes and run in `make zoo`
@pytest.mark.no_cover
@pytest.mark.parametrize("name", [n if n in zoo.OWN else pytest.param(n, marks=pytest.mark.zoo) for n in zoo.NAMES])
def test_export_and_onnx(name: str, tmp_path: Path) -> None:
    """Saved and loaded, and through onnxruntime: the same output, the same law, another batch."""
    new = convert(zoo.create(name))
    x = images()
    program = torch.export.export(new, (x,), dynamic_shapes=({0: DYNAMIC},))
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    with torch.no_grad():
        expected = new(images(3))
        scale = float(expected.abs().max())
        for run in (loaded, to_onnx(program, x, tmp_path / "model.onnx")):
            out = run(images(3))
            assert torch.allclose(out, expected, atol=1e-4 * scale)
            for shift in ((1, 0), (7, 30), (63, 2)):
                assert same_bits(run(images(3).roll(shift, (2, 3))), out)


@pytest.mark.parametrize("name", ["torchvision:resnet18", "torchvision:shufflenet_v2_x1_0", "inception"])
def test_places_and_groups(name: str) -> None:
    """Branches that meet share one selection; a 1 x 1 shortcut is downsampled before its convolution."""
    new = convert(zoo.create(name))
    rows = conversion_report(new).replaced
    shared = sum(isinstance(m, SharedDownsample) for m in new.modules())
    places = {r.name: (r.after, r.group) for r in rows}
    if name == "torchvision:resnet18":
        assert shared == 3
        assert places["`conv1`"] == ("`relu`", 1)
        assert places["`maxpool`"] == ("`maxpool`", 2)
        assert places["`layer2.0.conv1`"] == ("`layer2.0.relu`", 3)
        assert places["`layer2.0.downsample.0`"] == ("its input", 3)
        assert isinstance(new.get_submodule("layer2.0.down"), SharedDownsample)
    elif name == "inception":
        assert shared == 1
        assert len({group for _, group in places.values()}) == 2
        assert rows[-1].name == "`last`"
    else:
        assert shared == 3


def resnet(name: str = "torchvision:resnet18") -> nn.Module:
    return zoo.create(name)


def test_the_stage_check_can_fail() -> None:
    """A selection that is not shared, or a border that does not wrap, is found, though the whole stays invariant."""
    new: Any = convert(resnet())
    x = images()
    broken = copy.deepcopy(new)
    broken.get_submodule("layer2.1.conv1").padding_mode = "zeros"
    assert shift_error(broken, x[:1], shifts=8).exact
    assert any("layer2_1_conv1" in p or "layer2.1.conv1" in p for p in check_stages(broken, Inputs.of(broken, x)))

    class Apart(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            down = create_downsample("ghs", 1)
            return down(a), down(b)

    assert check_stages(new, Inputs.of(new, x)) == []
    apart = copy.deepcopy(new)
    apart.delete_submodule("layer2.0.down")
    apart.add_submodule("layer2.0.down", Apart())
    assert shift_error(apart, x[:1], shifts=8).exact  # invariant, and silently wrong: hence `SharedDownsample`
    before, after = new(x), apart(x)
    assert not torch.allclose(before, after)


def test_maps_that_meet_without_a_common_selection_are_found() -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = create_downsample("ghs", 3), create_downsample("ghs", 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.first(x) + self.second(x.flip(1))  # type: ignore[no-any-return]

    one = Inputs.of(Apart(), images())
    found = check_stages(trace(Apart(), one).graph, one)
    assert found == ["`first` and `second` each make their own selection, but their maps meet again."]


@pytest.mark.parametrize("method", ["aps", "lps", "lpf", "align", "ghs-paper", "mixed", "lpf-adaptive"])
def test_other_methods(method: str) -> None:
    """Every method converts; those with parameters add keys and take none away; the law is reported and holds."""
    model = resnet()
    new = convert(model, method).eval()
    report = conversion_report(new)
    x = images()
    assert new(x).shape == (2, 10)
    assert set(model.state_dict()) <= set(new.state_dict())
    added = set(new.state_dict()) - set(model.state_dict())
    assert bool(added) == (method in ("lps", "mixed", "lpf-adaptive"))
    if report.law == "exact-invariant":
        assert_shift_invariant(new, x[:1], shifts=8)
    elif report.law == "equivariant":
        assert_shift_invariant(new, x[:1], shifts=8, tolerance=1e-4)
    else:
        assert not shift_error(new, x[:1], shifts=8).exact
    assert {"aps": "equivariant", "lps": "equivariant", "align": "exact-invariant", "ghs-paper": "exact-invariant"}.get(
        method, "none"
    ) == report.law


def test_align_leaves_the_network_as_it_is() -> None:
    model = resnet()
    new = convert(model, "align")
    assert new.get_submodule("conv1").stride == (2, 2)
    aligned = convert(model, "align", inner="lpf")
    assert any(type(m).__name__ == "BlurPool" for m in aligned.modules())
    assert_shift_invariant(aligned, images(1), shifts=8)


def test_methods_of_the_user() -> None:
    class Mine(Downsample):
        def __init__(self, channels: int, stride: Any, padding: str, ndim: int) -> None:
            super().__init__(stride, ndim)

        def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
            return F.avg_pool2d(x, self.stride, ceil_mode=True)

    new = convert(resnet(), Mine)
    assert conversion_report(new).method == "Mine"
    assert new(images()).shape == (2, 10)


class Depth(nn.Module):
    """Drops its branch at random in training: what must stay whole."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * torch.bernoulli(torch.full((x.shape[0], 1, 1, 1), 0.5))


def test_train_and_eval_act_as_in_the_source() -> None:
    """Dropout and stochastic depth follow the switch; with the same seed the strided conversion draws the same."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), Depth(), nn.Dropout2d(0.3), nn.Flatten(), nn.LazyLinear(4)
    )
    net(images())
    plain = zoo.create("plain")
    for model in (net, plain, zoo.create("torchvision:convnext_tiny", stochastic_depth_prob=0.5)):
        new = convert(model.eval(), "strided", padding=None, example=images())
        for mode in (True, False):
            for m in (model, new):
                m.train(mode)
                for part in m.modules():
                    if isinstance(part, nn.BatchNorm2d):
                        part.eval()  # it sees other positions now
            outs = []
            for m in (model, new):
                torch.manual_seed(5)
                outs.append(m(images()))
            assert torch.allclose(outs[0], outs[1], rtol=1e-3, atol=1e-4)
            torch.manual_seed(6)
            assert same_bits(new(images()), outs[1]) == (not mode)


def test_modes_survive_conversion() -> None:
    model = resnet().train()
    model.get_submodule("layer1").eval()
    new = convert(model)
    assert new.training
    assert not new.get_submodule("layer1.0.bn1").training
    assert new.get_submodule("layer2.0.bn1").training
    assert new.get_submodule("layer2.0.down").training
    assert not convert(model.eval()).get_submodule("layer2.0.bn1").training
    stats = model.get_buffer("bn1.running_mean").clone()
    convert(model.train())
    assert torch.equal(model.get_buffer("bn1.running_mean"), stats)  # conversion leaves statistics alone
    assert torch.equal(convert(model.train()).get_buffer("bn1.running_mean"), stats)


def test_unused_parameters_keep_their_keys() -> None:
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
            self.auxiliary = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor, wide: bool = False) -> Tensor:
            return self.conv(x).mean((2, 3)) if not wide else x

    model = Spare()
    assert set(convert(model).state_dict()) == set(model.state_dict())


def test_copies_and_pickles() -> None:
    new = convert(zoo.create("pre-activation"))
    x = images()
    for twin in (copy.deepcopy(new), pickle.loads(pickle.dumps(new))):
        assert same_bits(twin(x), new(x))
        assert conversion_report(twin).to_dict() == conversion_report(new).to_dict()


def test_other_dimensions() -> None:
    for ndim, (conv, norm, pool) in {
        1: (nn.Conv1d, nn.BatchNorm1d, nn.MaxPool1d),
        3: (nn.Conv3d, nn.BatchNorm3d, nn.AvgPool3d),
    }.items():
        net = nn.Sequential(conv(2, 4, 3, stride=2, padding=1), norm(4), nn.ReLU(), pool(2), nn.Flatten()).eval()
        x = torch.rand(2, 2, *[12, 8, 8][:ndim])
        strided = convert(net, "strided", padding=None, example=x)
        assert torch.allclose(strided(x), net(x), atol=1e-6)
        assert_shift_invariant(convert(net, example=x), x, shifts=16)


def test_subclasses_and_parametrizations_are_kept() -> None:
    class Scaled(nn.Conv2d):
        pass

    net = nn.Sequential(
        Scaled(3, 4, 3, stride=2, padding=1),
        nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 3, stride=2, padding="valid")),
        nn.Conv2d(4, 4, (3, 5), padding="same"),
    ).eval()
    new = convert(net)
    assert isinstance(new.get_submodule("0"), Scaled)
    assert set(new.state_dict()) == set(net.state_dict())
    assert_shift_invariant(new, images(1), shifts=16)
    assert torch.allclose(convert(net, "strided", padding=None)(images()), net(images()), atol=1e-5)


def test_an_example_in_any_memory_layout() -> None:
    """A picture permuted from (H, W, C) is channels-last in memory, its shifted copies are not; that is no mistake."""
    picture = torch.rand(32, 32, 3).permute(2, 0, 1)[None]
    new = convert(create_model("resnet20", "strided").eval(), example=picture)
    assert conversion_report(new).law == "exact-invariant"


def test_our_own_networks_convert_too() -> None:
    model = create_model("resnet20", "strided").eval()
    twin = create_model("resnet20", "ghs").eval()
    twin.load_state_dict(model.state_dict())
    new = convert(model, example=torch.rand(2, 3, 32, 32))
    x = torch.rand(2, 3, 32, 32)
    assert torch.allclose(new(x), twin(x), atol=1e-5)
    assert torch.allclose(convert(model, "strided", padding=None)(x), model(x), atol=1e-5)


def test_report() -> None:
    report = conversion_report(convert(zoo.create("plain")))
    text = str(report)
    assert "Fine-tune before use" in text
    assert "FLOPs per image" in text
    stored = report.to_dict()
    assert stored["method"] == "ghs"
    row = next(r for r in stored["replaced"] if r["name"] == "`conv2`")
    assert row["was"] == "convolution 3x3 stride 3"
    assert row["now"] == "GHS2d(stride=3)"
    assert row["after"] == "`hardswish`"
    assert row["flops_after"] == 9 * row["flops_before"] == 9 * 2 * 8 * 9 * 16 * 11 * 11
    assert report.flops_after > report.flops_before
    table = report.table()
    assert table.row_count == 2
    with pytest.raises(ValueError, match="must come from `convert`"):
        conversion_report(nn.ReLU())


class Slices(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=0.5)


class Decides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) if x.sum() > 0 else x


class TwoPaths(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return x * 2 if self.training else x


class Ladder(nn.Module):
    """Branches that meet after different strides: 4 in one step, 2 and 2 in the other."""

    def __init__(self) -> None:
        super().__init__()
        self.once = nn.Conv2d(3, 4, 5, stride=4, padding=2)
        self.first, self.second = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.once(x) + self.second(self.first(x))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """A weight per position, learnt: no shift moves it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(1, 1, 64, 64))
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x * self.weight)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU()), "nothing to convert: the network has no"),
        (nn.Sequential(nn.Conv2d(3, 3, 3, stride=2), Slices()), r"`interpolate` \(interpolate\) changes the size"),
        (nn.Sequential(nn.ReLU(), Decides()), r"while tracing `1` \(Decides\): .* control flow"),
        (Ladder(), "`once` .* `second` .* meet again, but do not come from one grid"),
        (Attention(), "`mul` does not move with its map"),
        (
            nn.Sequential(nn.Conv2d(3, 3, 3, stride=2), nn.MaxPool2d(2, return_indices=True)),
            "returns indices, which mean nothing at another size",
        ),
        (nn.Sequential(nn.Linear(7, 7), nn.Conv2d(1, 1, 1, stride=2)), "the network fails on inputs of shape"),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_says_where_and_what_to_do(model: nn.Module, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        convert(model.eval())


def test_the_rest_can_be_converted_without_strictness() -> None:
    net = nn.Sequential(nn.Conv2d(3, 3, 3, stride=2, padding=1), nn.ReLU(), Slices()).eval()
    new = convert(net, strict=False)
    report = conversion_report(new)
    assert any("interpolate" in line for line in report.not_converted)
    assert len(report.replaced) == 1
    assert "Not converted" in str(report)
    loose = convert(Attention().eval(), strict=False)
    assert conversion_report(loose).law == "none"
    assert any("meet again" in line for line in conversion_report(convert(Ladder().eval(), strict=False)).not_converted)
    with pytest.raises(ConversionError, match="nothing could be converted"):
        convert(nn.Sequential(nn.MaxPool2d(2, return_indices=True)).eval(), example=images(), strict=False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: convert(resnet(), "gsh"), "Did you mean 'ghs'"),
        (lambda: convert(resnet(), "ghs", padding="mirror"), "`padding` .='mirror'. must be one of"),
        (lambda: convert(resnet(), "ghs", order=3), "has no option `order`"),
        (lambda: convert(resnet(), example=torch.zeros(3)), "must be a batch of inputs"),
        (lambda: convert(resnet(), example=torch.zeros(1, 3, 8, 8, dtype=torch.int64)), "must be a real floating"),
    ],
)
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_without_circular_padding_no_law_is_claimed() -> None:
    for padding in (None, "zeros", "reflect", "replicate"):
        new = convert(resnet(), padding=padding)
        assert conversion_report(new).law == "none"
        assert new(images()).shape == (2, 10)


def test_a_convolution_that_does_not_keep_the_size_is_made_to_and_reported() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 5), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2), nn.AdaptiveAvgPool2d(1)).eval()
    new = convert(net)
    text = str(conversion_report(new))
    assert "These did not keep the size of the map, and now do: `0` (convolution 5x5, padding 0), `2` (conv" in text
    assert_shift_invariant(new, images(1), shifts=16)
    for size in (31, 40):
        assert_shift_invariant(new, images(1, size), shifts=16)
    flat = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.Flatten(), nn.Linear(4 * 31 * 31, 2))
    with pytest.raises(
        ConversionError, match=r"does not run: .* larger now where the original layers did not keep .*`0`"
    ):
        convert(flat)


def test_average_pooling_that_sticks_out_is_refused_where_it_has_no_counterpart() -> None:
    net = nn.Sequential(nn.AvgPool2d(2, ceil_mode=True)).eval()
    with pytest.raises(ConversionError, match="has a window that reaches past the border"):
        convert(net, "strided", padding=None, example=images(1, 7))
    assert torch.equal(convert(net, "strided", padding=None, example=images())(images()), net(images()))
    assert_shift_invariant(convert(net, example=images(1, 7)), images(1, 7))


def test_tracing_keeps_the_network() -> None:
    model = resnet()
    traced, *rest = trace(model, Inputs.of(model, images()))
    assert rest == [[], [], False]
    assert torch.equal(traced(images()), model(images()))
    assert type(traced).__name__ == "ResNet"


def test_converting_leaves_the_random_numbers_alone() -> None:
    """The checks draw from a generator of their own, also where the network draws in training."""
    model = zoo.create("plain")
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first = convert(model)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(4)
    assert conversion_report(convert(model)).to_dict() == conversion_report(first).to_dict()


class InPlace(nn.Module):
    """A shortcut that reads a map before an activation changes it in place, and a sum that reads it after."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.main = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
        self.short, self.last = nn.Conv2d(4, 4, 1, stride=2), nn.Conv2d(4, 4, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        short = self.short(x)
        main = self.main(F.relu(x, inplace=True))
        return main + short + self.last(x)  # type: ignore[no-any-return]


class InPlaceLater(nn.Module):
    """A concatenation that reads a map before an activation changes it in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.side = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Conv2d(12, 4, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        both = torch.cat([x, self.side(x)], 1)
        return self.last(torch.cat([both, x.relu_()], 1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [InPlace, InPlaceLater])
def test_maps_that_are_changed_in_place(make: type[nn.Module]) -> None:
    """Who reads a map before the change reads it unchanged in the converted network, though it may read it later."""

    class FirstPhase(Downsample):
        """Like `strided`, but with a selection that branches share."""

        def __init__(self, channels: int, stride: Any, padding: str, ndim: int) -> None:
            super().__init__(stride, ndim)

        def select(self, x: Tensor, *companions: Tensor) -> Tensor:
            return torch.zeros(len(x))

        def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
            return x[:, :, :: self.stride[0], :: self.stride[1]]

    torch.manual_seed(0)
    model = make().eval()
    x = images()
    with torch.no_grad():
        expected = model(x)
        for method in ("strided", FirstPhase):
            assert torch.allclose(convert(model, method, padding=None, example=x)(x), expected, atol=1e-5)
    assert_shift_invariant(convert(model, example=x), x[:1], shifts=8)


def test_branches_draw_their_random_numbers_in_the_order_of_the_source() -> None:
    """The converter sorts the operations no more than it must: with one seed dropout drops the same values."""

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Dropout(0.5))
            self.second = nn.Sequential(nn.Dropout(0.3), nn.Conv2d(3, 4, 3, padding=1))
            self.last = nn.Conv2d(8, 4, 3, stride=2, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.cat([self.first(x), self.second(x)], 1))  # type: ignore[no-any-return]

    model = Branches()
    outs = []
    for network in (model, convert(model, "strided", padding=None, example=images())):
        torch.manual_seed(0)
        outs.append(network.train()(images()))
    assert torch.allclose(outs[0], outs[1], atol=1e-5)


class Squeeze(nn.Module):
    """A mean over the map before the first downsampling, whose rounding depends on positions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x * x.mean((2, 3), keepdim=True)).mean((2, 3))  # type: ignore[no-any-return]


@pytest.mark.parametrize("model", [Squeeze(), zoo.create("plain")], ids=["mean over the map", "plain"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_bits_are_equal_in_every_dtype_and_layout_whatever_rounds(model: nn.Module, dtype: torch.dtype) -> None:
    """In channels-last memory, at batch 1, where convolutions round by position: the input is rolled first."""
    x = images(1).to(dtype).contiguous(memory_format=torch.channels_last)
    new = convert(model.to(dtype), example=x).eval()
    assert_shift_invariant(new, x, shifts=24)
    assert_shift_invariant(convert(model, example=x, front=False).eval(), x, shifts=4, tolerance=1e-4)
    report = conversion_report(new)
    assert report.law == "exact-invariant"
    assert "The input is rolled to its pivot first: RollToPivot(pivot_rule='patch', anchor='center')." in report.notes
    assert conversion_report(convert(model, example=x, front=False)).law == "equivariant"
    for arguments in ({"padding": None}, {"method": "aps"}):
        assert not any("rolled" in note for note in conversion_report(convert(model, example=x, **arguments)).notes)
    with pytest.raises(ValueError, match=r"`subpixel=True` needs a network that is invariant .* `padding='circular'`"):
        convert(model, padding=None, subpixel=True)
