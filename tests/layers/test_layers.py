"""Max pooling, LPF and APS, the protocol they share with GHS, and the registry."""

from typing import Any

import kornia
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shiftproof
from helpers.laws import all_shifts, at, blur_oracle, max_oracle
from helpers.zoo import timm
from shiftproof.invariance import assert_shift_equivariant, assert_shift_invariant
from shiftproof.layers import (
    APS,
    BlurPool,
    Downsample,
    GHS2d,
    MaxPool,
    PaddedDownsample,
    blur_pool,
    create_downsample,
    max_pool,
    methods,
    polyphase_pool,
    register_method,
    registry,
    select_component,
)
from shiftproof.maps.shifts import circular_shift

PADDINGS = ["circular", "reflect", "replicate", "zeros"]


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("stride", "kernel"), [(2, 2), (3, 3), (2, 3), (1, 2), (2, 5), (3, 2)])
def test_max_pooling_is_its_definition(stride: int, kernel: int, padding: str) -> None:
    for sizes in ((6, 6), (5, 7), (1, 2), (7,), (3, 4, 2)):
        x = torch.randn(2, 2, *sizes)
        y = max_pool(x, stride, kernel, padding, ndim=len(sizes))
        assert torch.equal(y, max_oracle(x, stride, kernel, padding))


def test_max_pooling_is_torchs_at_divisible_sizes() -> None:
    x = torch.randn(2, 3, 8, 6)
    assert torch.equal(MaxPool()(x), F.max_pool2d(x, 2))
    assert torch.equal(MaxPool(kernel_size=3, padding="zeros")(x), F.max_pool2d(x, 3, 2, 1))


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("stride", "taps"), [(2, 1), (2, 2), (2, 3), (1, 3), (3, 4), (2, 5), (4, 7)])
def test_blur_is_its_definition(stride: int, taps: int, padding: str) -> None:
    for sizes in ((6, 6), (5, 7), (1, 2), (7,), (3, 4, 2)):
        x = torch.randn(2, 2, *sizes, dtype=torch.float64)
        y = blur_pool(x, stride, taps, padding, ndim=len(sizes))
        assert torch.allclose(y, blur_oracle(x, stride, taps, padding), atol=1e-13)


@pytest.mark.parametrize(("stride", "taps"), [(2, 3), (2, 5), (1, 3), (2, 7)])
def test_blur_is_kornias(stride: int, taps: int) -> None:
    """kornia pads with zeros and weights by Pascal's triangle."""
    x = torch.randn(2, 3, 12, 10)
    theirs = kornia.filters.blur_pool2d(x, taps, stride)
    assert torch.allclose(blur_pool(x, stride, taps, "zeros"), theirs, atol=1e-6)
    module = kornia.filters.BlurPool2D(taps, stride)
    assert torch.allclose(BlurPool(stride=stride, taps=taps, padding="zeros")(x), module(x), atol=1e-6)


@pytest.mark.parametrize("taps", [3, 5, 7])
@pytest.mark.parametrize("padding", ["reflect", "circular", "replicate", "zeros"])
def test_blur_is_timms(taps: int, padding: str) -> None:
    """At stride 2; at larger ones timm pads more than its filter needs, and its grid lies elsewhere."""
    x = torch.randn(2, 3, 12, 16)
    mode = "constant" if padding == "zeros" else padding
    theirs = timm.layers.blur_pool.BlurPool2d(3, filt_size=taps, stride=2, pad_mode=mode)(x)
    assert torch.allclose(BlurPool(taps=taps, padding=padding)(x), theirs, atol=1e-6)


@pytest.mark.parametrize("criterion", ["l1", "l2", "linf", "l1min", "l2min"])
@pytest.mark.parametrize(("sizes", "stride"), [((6, 4), 2), ((6, 9), 3), ((5, 7), 2), ((8,), 2), ((4, 2, 4), 2)])
def test_aps_keeps_the_component_of_largest_norm(criterion: str, sizes: tuple[int, ...], stride: int) -> None:
    """Against a loop over components; sizes that do not divide are padded at the end."""
    x = torch.randn(3, 2, *sizes, dtype=torch.float64)
    layer = APS(stride=stride, ndim=len(sizes), criterion=criterion)
    padded = x
    for axis, m in enumerate(sizes, start=2):
        extra = -m % stride
        padded = torch.cat([padded, padded.narrow(axis, 0, extra)], axis) if extra else padded
    blurred = blur_pool(x, 1, 3, "circular", ndim=len(sizes))
    for axis, m in enumerate(sizes, start=2):
        extra = -m % stride
        blurred = torch.cat([blurred, blurred.narrow(axis, 0, extra)], axis) if extra else blurred
    y, selection = layer(x), layer.select(x)
    for b in range(3):
        norms = []
        for k in all_shifts((stride,) * len(sizes)):
            part = at(padded[b], [slice(o, None, stride) for o in k])
            size = {"l1": part.abs().sum(), "l2": part.square().sum(), "li": part.abs().max()}[criterion[:2]]
            norms.append(-size if criterion.endswith("min") else size)
        best = int(torch.stack(norms).argmax())
        assert int(selection[b]) == best
        k = list(all_shifts((stride,) * len(sizes)))[best]
        expected = at(blurred[b], [slice(o, None, stride) for o in k])
        assert torch.allclose(y[b], expected, atol=1e-13)


@pytest.mark.parametrize("taps", [1, 2, 3, 5])
@pytest.mark.parametrize(("sizes", "stride"), [((8, 6), 2), ((9, 6), 3), ((8, 4), (4, 2))])
def test_aps_is_equivariant(sizes: tuple[int, int], stride: Any, taps: int) -> None:
    """At sizes divisible by the stride the output moves with the input."""
    x = torch.randn(3, 2, *sizes, dtype=torch.float64)
    assert_shift_equivariant(APS(stride=stride, taps=taps), x, tolerance=1e-12)
    if stride == 2:  # neighbouring components share their maxima, and few pixels would tie
        assert_shift_equivariant(APS(stride=stride, taps=taps, dense_max=2), x, tolerance=1e-12)


def test_aps_breaks_on_ties() -> None:
    """Two equal components: the first is taken whatever the shift."""
    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, 0, 0] = x[0, 0, 1, 1] = 1.0
    x[0, 0, 0, 2] = x[0, 0, 3, 3] = 0.5
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_shift_equivariant(APS(taps=1), x)


def test_aps_breaks_at_sizes_that_do_not_divide() -> None:
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_shift_equivariant(APS(), torch.randn(1, 2, 7, 7), tolerance=1e-3)


def test_aps_selects_before_the_blur() -> None:
    x = torch.randn(4, 3, 8, 8)
    assert torch.equal(APS(taps=5).select(x), select_component(x))


def test_dense_maximum_comes_first() -> None:
    """`dense_max` replaces max pooling: a maximum at stride 1, then the method."""
    x = torch.randn(2, 3, 6, 8)
    dense = max_oracle(x, 1, 2, "circular")
    assert torch.allclose(BlurPool(dense_max=2)(x), blur_pool(dense), atol=1e-6)
    layer = APS(dense_max=2)
    assert torch.equal(layer.select(x), select_component(dense))
    assert torch.allclose(layer(x), polyphase_pool(blur_pool(dense, 1), select_component(dense)), atol=1e-6)
    zeros = BlurPool(dense_max=2, padding="zeros", taps=1)(-x.abs())
    assert torch.equal(zeros, max_oracle(-x.abs(), 1, 2, "zeros")[:, :, ::2, ::2])


@pytest.mark.parametrize("layer", [MaxPool(), BlurPool(), APS()], ids=["max", "lpf", "aps"])
def test_negative_control(layer: nn.Module) -> None:
    """Methods without exact invariance fail the tester."""
    with pytest.raises(AssertionError, match="not invariant to circular shifts"):
        assert_shift_invariant(layer, torch.randn(2, 3, 8, 8), tolerance=1e-3)


def test_a_method_that_gives_up_its_law_says_so() -> None:
    assert GHS2d().law == GHS2d.paper().law == "exact-invariant"
    assert GHS2d(anchor="stay").law == "exact-equivariant"
    assert GHS2d(ties="first").law == GHS2d(ties="window").law == "none"


def test_methods_may_take_any_option() -> None:
    seen = {}

    def factory(**options: Any) -> Downsample:
        seen.update(options)
        return MaxPool()

    create_downsample(factory, channels=2, anything=1)
    assert seen == {"channels": 2, "stride": 2, "padding": "circular", "ndim": 2, "anything": 1}


def test_repr_says_what_the_layer_does() -> None:
    assert repr(MaxPool(stride=3, kernel_size=4)) == "MaxPool(stride=3, padding='circular', kernel_size=4)"
    assert (
        repr(BlurPool(stride=(2, 1), dense_max=2)) == "BlurPool(stride=(2, 1), padding='circular', taps=3, dense_max=2)"
    )
    assert repr(APS(ndim=1)) == "APS(stride=2, ndim=1, padding='circular', taps=3, criterion='l2')"
    assert repr(APS(dense_max=3)).endswith("taps=3, dense_max=3, criterion='l2')")
    assert repr(GHS2d(output_size=4, ties="first", return_selection=True)) == (
        "GHS2d(output_size=(4, 4), ties='first', return_selection=True)"
    )


def test_registering_a_method() -> None:
    """One decorator, and the method is known by name everywhere."""

    @register_method("mean-of-test")
    class Mean(PaddedDownsample):
        def __init__(self, channels: int, stride: int, padding: str, ndim: int = 2, gain: float = 1.0) -> None:
            super().__init__(stride, ndim, padding)
            self.gain = gain

        def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
            return self.gain * F.avg_pool2d(x, self.stride, ceil_mode=True)

    try:
        assert "mean-of-test" in methods()
        layer = shiftproof.create_downsample("mean-of-test", channels=2, gain=2.0)
        assert layer(torch.ones(1, 2, 4, 4)).eq(2).all()
        assert layer.select(torch.ones(1, 2, 4, 4)) is None
        assert repr(layer) == "Mean(stride=2, padding='circular')"
        register_method("mean-of-test")(Mean)  # the same again is harmless
        with pytest.raises(ValueError, match=r"is taken by .*Mean: choose another"):
            register_method("mean-of-test")(APS)
        with pytest.raises(TypeError, match=r"method 'mean-of-test' has no option `gian`; its options are gain\."):
            create_downsample("mean-of-test", channels=2, gian=2.0)
        assert isinstance(create_downsample(Mean, channels=2), Mean)
    finally:
        del registry._registry["mean-of-test"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: create_downsample("gsh", channels=3), "must be one of .*'max', .* Did you mean 'ghs'?"),
        (lambda: create_downsample("xyz", channels=3), r"must be one of [^?]*\.$"),
        (lambda: create_downsample(3, channels=3), "must be a name or a callable, not int"),  # type: ignore[arg-type]
        (lambda: create_downsample("lpf", channels=0), r"`channels` \(=0\) must be at least 1"),
        (lambda: create_downsample("lpf", channels=3, padding="mirror"), "must be one of 'zeros', 'replicate'"),
        (lambda: create_downsample("lpf", channels=3, tap=3), "its options are taps, dense_max"),
        (
            lambda: create_downsample("ghs", channels=3, order=3),
            "has no option `order`; its options are output_size, kernel",
        ),
        (lambda: create_downsample("ghs", channels=3, ndim=4), r"`ndim` \(=4\) must be 1, 2 or 3"),
        (lambda: create_downsample("max", channels=3, ndim=4), r"`ndim` \(=4\) must be 1, 2 or 3"),
        (lambda: create_downsample("lpf", channels=3, ndim=4), r"`ndim` \(=4\) must be 1, 2 or 3"),
        (lambda: create_downsample("aps", channels=3, ndim=4), r"`ndim` \(=4\) must be 1, 2 or 3"),
        (lambda: blur_pool(torch.ones(1, 1, 2, 2, 2, 2), ndim=4), r"`ndim` \(=4\) must be 1, 2 or 3"),
        (lambda: max_pool(torch.ones(1, 1, 2, 2, 2, 2), ndim=4), r"`ndim` \(=4\) must be 1, 2 or 3"),
        (lambda: APS(criterion="l3"), "must be one of 'l1', 'l2', 'linf', 'l1min', 'l2min'"),
        (lambda: BlurPool(taps=0), r"`taps` \(=0\) must be at least 1"),
        (lambda: MaxPool()(torch.ones(3, 8, 8)), "Add the batch axis"),
        (lambda: APS()(torch.ones(2, 1, 4, 4), torch.zeros(3, dtype=torch.int64)), r"must have the shape \(2,\)"),
        (lambda: register_method(APS), "use `@register_method"),  # type: ignore[arg-type]
        (lambda: max_pool(torch.ones(1, 1, 3, 3), padding="mirror"), "`padding` .='mirror'. must be one of"),
    ],
)
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_one_shift_of_the_input_is_one_of_the_output() -> None:
    """The polyphase split of a shifted map is a permuted, shifted split: what APS rests on."""
    x = torch.randn(1, 1, 6, 6)
    layer = APS(taps=1)
    moved = layer(circular_shift(x, (2, 4)))
    assert torch.equal(moved, circular_shift(layer(x), (1, 2)))
