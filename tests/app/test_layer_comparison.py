"""What the tab Layer computes and shows, without a browser."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from shiftproof.app import layer_comparison, layer_panels, layer_tab
from shiftproof.app.ghs_options import DRAWN, Settings, look_inside
from shiftproof.app.layer_comparison import compare, move
from shiftproof.ghs.kernel import GHS
from shiftproof.ghs.matrix import sampling_matrix
from shiftproof.layers import Downsample, create_downsample, methods, register_method, registry


def picture(size: int = 24) -> Tensor:
    return torch.rand(1, 3, size, size)


@pytest.mark.parametrize("kind", ["circular", "cropped", "fractional"])
def test_panels_carry_the_measure(kind: str) -> None:
    """AD is the sum of absolute differences of the two outputs; equal bits are those of the measure."""
    image, shift = picture(), ((1.0, -2.0) if kind != "fractional" else (0.5, 0.25))
    found = compare(image, shift, kind, ["max", "lpf", "ghs"], Settings())
    moved = move(image, shift, kind)
    assert torch.equal(found.moved, moved[0])
    for result in found.results:
        made = create_downsample(result.method, 3)
        change = (made(moved) - made(image)).abs()
        assert torch.equal(result.output, made(moved)[0])
        assert result.total == pytest.approx(float(change.sum()), rel=1e-5)
        assert result.mean == pytest.approx(float(change.mean()), rel=1e-5)
        assert result.largest == pytest.approx(float(change.max()), rel=1e-5)
        assert torch.allclose(result.difference, (made(moved) - made(image))[0].mean(0))
        assert result.exact == (result.method == "ghs" and kind == "circular")


def test_every_registered_method_has_a_panel() -> None:
    """Also those with weights, whose numbers stay the same from one view to the next."""
    image = picture()
    first, again = (compare(image, (5, 7), "circular", methods(), Settings()) for _ in range(2))
    assert [result.method for result in first.results] == methods()
    for a, b in zip(first.results, again.results):
        assert a.problem is None
        assert (a.total, a.exact) == (b.total, b.exact)
        assert a.exact == (a.law == "exact-invariant")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))

    @register_method("moody")
    class Moody(Downsample):
        def __init__(self, channels: int, stride: int, padding: str, ndim: int) -> None:
            super().__init__(stride, ndim)

        def forward(self, x: Tensor, selection: Tensor | None = None) -> Tensor:
            raise RuntimeError("not <today>")

    yield "moody"
    layer_comparison._layer.cache_clear()


def test_a_method_that_fails_says_so_in_its_own_panel(failing: str) -> None:
    found = compare(picture(), (1, 1), "circular", [failing, "max"], Settings())
    html = layer_panels.methods(found)
    assert "not &lt;today&gt;" in html
    assert found.results[1].problem is None


def test_the_ring_is_where_the_pivot_of_ghs_is() -> None:
    """At the largest value, wherever the picture is moved. An index of APS draws no ring."""
    image = picture()
    where = divmod(int(image.amax(1).argmax()), 24)
    found = compare(image, (3, 5), "circular", ["aps", "ghs"], Settings())
    assert found.pivot == ((where[0] + 3) % 24, (where[1] + 5) % 24)
    assert 'class="ring"' in layer_panels.moved_picture(found, (3, 5), "circular", "a picture")
    assert compare(image, (3, 5), "circular", ["max"], Settings()).pivot is None


def test_options_are_for_ghs_and_the_stride_is_for_all() -> None:
    settings = Settings(3, "7", "0.5", "none", "corner", "energy")
    image = picture()
    ghs, strided = compare(image, (0, 0), "circular", ["ghs", "strided"], settings).results
    kernel = "hermite(orders=7, sigma=0.5, taper=none)"
    layer = create_downsample("ghs", 3, 3, kernel=kernel, grid="periodic", anchor="corner", pivot_rule="energy")
    assert torch.equal(ghs.output, layer(image)[0])
    assert strided.output.shape == (3, 8, 8)


def test_inside_is_the_matrix_of_the_layer() -> None:
    found = look_inside(24, Settings())
    assert np.array_equal(found.matrix, sampling_matrix(24, 12, GHS))
    assert found.orders == 48
    assert found.functions.shape == (DRAWN, len(found.x))
    html = layer_panels.inside_ghs(found)
    assert "12 samples from 24 pixels" in html
    assert "the first 5; order <i>p</i> has the weight 2<sup>&minus;<i>p</i>/48</sup>" in html
    assert "the first 5 of 48" in layer_panels.inside_ghs(look_inside(24, Settings(taper="none")))
    assert "all 2" in layer_panels.inside_ghs(look_inside(24, Settings(orders="2", sigma="rule", taper="none")))
    with pytest.raises(ValueError, match="48,000 functions here; the page computes up to 4,096"):
        look_inside(24, Settings(orders="4000N"))
    (result,) = compare(picture(), (0, 0), "circular", ["ghs"], Settings(orders="4000N")).results
    assert result.problem is not None


@pytest.mark.parametrize(("typed", "stride"), [(None, 2), (0, 2), (-3, 1), (3.0, 3), (99, 8)])
def test_a_half_typed_stride_is_limited(typed: float | None, stride: int) -> None:
    assert layer_tab.read_settings(typed, "N") == Settings(stride, "N")
