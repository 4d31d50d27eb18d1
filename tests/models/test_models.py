"""The residual networks: their parameters, their wiring, their laws; every block on its own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers import zoo
from helpers.laws import stir
from shiftproof import create_model
from shiftproof.invariance import assert_shift_equivariant, assert_shift_invariant, same_bits, shift_error
from shiftproof.layers import Downsample, GHS2d, methods
from shiftproof.models import models, pretrained
from shiftproof.models.resnet import BasicBlock, Bottleneck

PARAMETERS = {
    "resnet8": 78_042,
    "resnet18": 11_173_962,
    "resnet20": 272_474,
    "resnet50": 23_520_842,
    "resnet56": 855_770,
}


def ready(model: nn.Module) -> Any:
    """In evaluation mode, with statistics off their defaults."""
    stir(model)
    return model.eval()


def images(*size: int, batch: int = 2) -> Tensor:
    """One random and one 8-bit image."""
    x = torch.rand(batch, 3, *size)
    x[-1] = (x[-1] * 300).clamp(max=255).round() / 255
    return x


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(name: str) -> None:
    for method in ("ghs", "strided", "aps"):
        model = create_model(name, method)
        assert sum(p.numel() for p in model.parameters()) == PARAMETERS[name]
    assert set(PARAMETERS) | {"e2"} == set(models())  # e2: see test_e2.py


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("size", [(32, 32), (30, 30), (31, 31), (33, 33), (28, 36)])
def test_ghs_network_is_bit_exact_under_all_shifts(size: tuple[int, int], layout: torch.memory_format) -> None:
    model = ready(create_model("resnet20", "ghs")).to(memory_format=layout)
    assert_shift_invariant(model, images(*size).contiguous(memory_format=layout), batch_size=128)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet56"])
def test_larger_networks_are_bit_exact(name: str) -> None:
    model = ready(create_model(name, "ghs"))
    assert_shift_invariant(model, images(32, 32, batch=1), shifts=24, batch_size=12)


@pytest.mark.zoo
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet56"])
def test_larger_networks_are_bit_exact_under_all_shifts(name: str) -> None:
    assert_shift_invariant(ready(create_model(name, "ghs")), images(32, 32), batch_size=64)


@pytest.mark.parametrize("head", ["pool", "flatten"])
@pytest.mark.parametrize("method", ["ghs", "ghs-paper", "align"])
def test_exact_methods_and_heads(method: str, head: str) -> None:
    """The law does not need global pooling."""
    model = ready(create_model("resnet20", method, head=head))
    assert_shift_invariant(model, images(32, 32), shifts=64, batch_size=64)


@pytest.mark.parametrize("method", ["aps", "lps"])
def test_polyphase_networks(method: str) -> None:
    """To rounding at sizes that divide; not otherwise, and not with a flattened head."""
    model = ready(create_model("resnet20", method))
    x = torch.rand(2, 3, 32, 32)
    assert_shift_invariant(model, x, shifts=64, tolerance=1e-5)
    assert shift_error(model, torch.rand(1, 3, 30, 30), shifts=16).max > 1e-3
    flat = ready(create_model("resnet20", method, head="flatten"))
    assert shift_error(flat, x, shifts=16).max > 1e-3


@pytest.mark.parametrize("method", ["strided", "max", "avg", "lpf", "lpf-adaptive", "mixed", "stochastic"])
def test_other_networks_have_no_law(method: str) -> None:
    assert shift_error(ready(create_model("resnet20", method)), images(32, 32), shifts=16).max > 1e-3


@pytest.mark.parametrize("method", methods())
def test_every_method_trains(method: str) -> None:
    """One step in training mode: a gradient for every parameter."""
    model: Any = create_model("resnet20", method, num_classes=7, in_channels=2).train()
    out = model(torch.rand(4, 2, 16, 12))
    assert out.shape == (4, 7)
    torch.nn.functional.cross_entropy(out, torch.arange(4)).backward()  # type: ignore[no-untyped-call]
    for key, p in model.named_parameters():
        assert p.grad is not None, key
        assert p.grad.isfinite().all(), key


def blocks(model: nn.Module) -> dict[str, Any]:
    return {k: m for k, m in model.named_modules() if isinstance(m, (BasicBlock, Bottleneck)) and m.down is not None}


@pytest.mark.parametrize("name", ["resnet20", "resnet50"])
def test_every_downsampling_block_on_its_own(name: str) -> None:
    """Fed with shifted feature maps, all stay in place but the last, which ends the movement."""
    model = ready(create_model(name, "ghs"))
    *earlier, last = blocks(model).values()
    for block in (*earlier, last):
        channels = block.conv1.in_channels
        maps = torch.randn(2, channels, 8, 8).relu()
        maps[1] = maps[1].round()
        if block is last:
            assert_shift_invariant(block, maps, batch_size=64)
        else:  # the convolutions after the roll may round by position
            assert_shift_equivariant(block, maps, batch_size=64, tolerance=1e-5)
            with pytest.raises(AssertionError, match="not invariant"):
                assert_shift_invariant(block, maps, batch_size=64, tolerance=1e-3)


def test_a_dead_main_branch_does_not_break_the_law() -> None:
    """Where the main branch is zero everywhere, the shortcut decides where the pivot is."""
    block: Any = BasicBlock(3, 3, 2, lambda c, s: GHS2d(s), "circular", share=True).eval()
    nn.init.constant_(block.bn1.bias, -100.0)
    assert_shift_invariant(block, torch.randn(2, 3, 6, 8))


def identity(block: Any) -> Any:
    """Both branches pass on what they get."""
    for module in block.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.dirac_(module.weight)
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 0.0
    return block.eval()


@pytest.mark.parametrize("share", [True, False])
def test_with_identity_branches_a_block_returns_twice_the_samples(share: bool) -> None:
    """Exactly 2 GHS(x); and separate pivots fail this, as they must."""
    make: Callable[[int, int], Downsample] = lambda c, s: GHS2d(s)  # noqa: E731
    x = 5 + torch.rand(4, 6, 8, 8)
    block = identity(BasicBlock(6, 6, 2, make, "circular", share))
    assert same_bits(block(x), 2 * GHS2d()(x))  # equal maps have equal pivots, shared or not
    # a main branch that inverts its map has its pivot elsewhere
    block.conv1.weight.data = block.conv1.weight.data.flip(0)
    block.bn1.weight.data.mul_(-1)
    block.bn1.bias.data.fill_(12.0)
    main = 12 - x.flip(1)
    pivot = GHS2d().select(main, x)
    together = GHS2d()(main, pivot) + GHS2d()(x, pivot)
    assert torch.allclose(block(x), together, atol=1e-5) == share


@pytest.mark.parametrize(
    ("name", "stem", "expected"),
    [
        ("resnet20", "cifar", ["layer2.0.down", "layer3.0.down"]),
        ("resnet18", "cifar", ["layer2.0.down", "layer3.0.down", "layer4.0.down"]),
        ("resnet18", "imagenet", ["layer2.0.down", "layer3.0.down", "layer4.0.down", "maxpool.down", "stem_down"]),
        ("resnet50", "imagenet", ["layer2.0.down", "layer3.0.down", "layer4.0.down", "maxpool.down", "stem_down"]),
    ],
)
def test_number_and_places_of_the_layers(name: str, stem: str, expected: list[str]) -> None:
    model = create_model(name, "ghs", stem=stem)
    assert sorted(k for k, m in model.named_modules() if isinstance(m, Downsample)) == expected
    for block in blocks(model).values():
        seen: list[tuple[str, int]] = []
        for part in ("conv1", "conv2", "down"):
            getattr(block, part).register_forward_hook(
                lambda m, i, o, part=part, seen=seen: seen.append((part, o.shape[-1]))
            )
        block(torch.rand(1, block.conv1.in_channels, 8, 8))
        if isinstance(block, BasicBlock):  # conv1 on the large map, then both branches, then conv2 on the small one
            assert seen == [("conv1", 8), ("down", 4), ("down", 4), ("conv2", 4)]
        else:
            assert seen == [("conv1", 8), ("conv2", 8), ("down", 4), ("down", 4)]


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_no_convolution_has_a_stride_or_a_border(stem: str) -> None:
    for name in ("resnet18", "resnet50"):
        for module in create_model(name, "ghs", stem=stem).modules():
            if isinstance(module, nn.Conv2d):
                assert module.stride == (1, 1)
                assert module.padding_mode == "circular"
    convolutions = [m for m in create_model("resnet20", "strided").modules() if isinstance(m, nn.Conv2d)]
    assert sum(m.stride != (1, 1) for m in convolutions) == 4  # two blocks, main branch and shortcut


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_imagenet_network_is_torchvisions(name: str) -> None:
    """Strided, zero padding: the same keys, the same output; so its weights can be loaded."""
    theirs = zoo.create(f"torchvision:{name}")
    ours = create_model(name, "strided", stem="imagenet", padding="zeros").eval()
    ours.load_state_dict(theirs.state_dict())
    x = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(ours(x), theirs(x), atol=1e-5)
    ghs = ready(create_model(name, "ghs", stem="imagenet"))
    ghs.load_state_dict(theirs.state_dict())
    assert_shift_invariant(ghs, x[:1], shifts=8, batch_size=8)


def test_align_rolls_the_input_once() -> None:
    model: Any = create_model("resnet20", "align", inner="lpf", taps=5)
    assert model.front.pivot_rule == "max"
    inside = [m for m in model.modules() if isinstance(m, Downsample)]
    assert {type(m).__name__ for m in inside} == {"BlurPool"}
    assert_shift_invariant(ready(model), images(32, 32), shifts=16)


@pytest.mark.parametrize("padding", ["zeros", "reflect", "replicate"])
def test_padding_modes(padding: str) -> None:
    model = ready(create_model("resnet20", "lpf", padding=padding))
    assert model(images(32, 32)).shape == (2, 10)
    assert model.conv1.padding_mode == padding
    assert shift_error(ready(create_model("resnet20", "ghs", padding=padding)), images(32, 32), shifts=16).max > 1e-4


def test_flattened_head_takes_one_size() -> None:
    model: Any = create_model("resnet20", head="flatten", size=(30, 20))
    assert model.fc.in_features == 64 * 8 * 5
    assert model(torch.rand(1, 3, 30, 20)).shape == (1, 10)
    with pytest.raises(ValueError, match=r"must have the size \(30, 20\) .* or use `head='pool'`"):
        model(torch.rand(1, 3, 32, 32))
    stem: Any = create_model("resnet18", head="flatten", size=64, stem="imagenet")
    assert stem(torch.rand(1, 3, 64, 64)).shape == (1, 10)


def test_initialisation_is_kaiming_fan_out() -> None:
    weight = create_model("resnet18").get_parameter("layer3.1.conv2.weight").detach()
    assert float(weight.std()) == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: create_model("resnet21"), "must be one of 'resnet8', .* Did you mean 'resnet20'?"),
        (lambda: create_model("vgg"), r"must be one of [^?]*\.$"),
        (lambda: create_model("resnet20", "gsh"), "Did you mean 'ghs'?"),
        (lambda: create_model("resnet20", num_classes=0), "`num_classes` .=0. must be at least 1"),
        (lambda: create_model("resnet20", head="mean"), "`head` .='mean'. must be one of 'pool', 'flatten'"),
        (lambda: create_model("resnet20", stem="big"), "`stem` .='big'. must be one of 'cifar', 'imagenet'"),
        (lambda: create_model("resnet20", "lpf", tap=3), "has no option `tap`"),
        (lambda: create_model("resnet20", padding="mirror"), "`padding` .='mirror'. must be one of"),
    ],
)
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("name", pretrained.available())
def test_weights_that_come_with_the_package(name: str) -> None:
    """They fit their network, which knows something and keeps the law of its method."""
    network, _, rest = name.partition("-")
    method, _, dataset = rest.rpartition("-")
    model = create_model(network, method, weights=dataset).eval()
    fresh = create_model(network, method)
    assert not torch.equal(next(model.parameters()), next(fresh.parameters()))
    if method in ("ghs", "ghs-paper", "align"):
        assert shift_error(model, torch.rand(1, 3, 32, 32), 16).exact


def test_weights_that_do_not_come_with_it() -> None:
    with pytest.raises(ValueError, match="no weights 'resnet56-ghs-cifar10' come with the package; there are"):
        create_model("resnet56", "ghs", weights="cifar10")
    with pytest.raises(ValueError, match="do not fit this network"):
        create_model("resnet20", "ghs", 7, weights="cifar10")
