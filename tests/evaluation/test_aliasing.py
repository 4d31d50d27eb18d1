"""What layers make of waves."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from shiftproof.evaluation.aliasing import all_waves, measure_aliasing, plane_waves, surviving_energy
from shiftproof.layers import methods


@pytest.mark.parametrize("size", [7, 8])
def test_waves_are_a_basis(size: int) -> None:
    """Each wave once: cosines and sines of all, and the constant, are as many as pixels, and orthogonal."""
    waves = all_waves(size)
    both = [{(u % size, v % size), (-u % size, -v % size)} for u, v in waves]
    assert sum(len(pair) for pair in both) == len(set.union(*both)) == size * size - 1
    x = plane_waves(waves, size, 2)
    torch.testing.assert_close(x.square().mean((1, 2, 3)), torch.full((len(waves),), 0.5, dtype=torch.float64))
    power = torch.fft.fft2(x[:, 0]).abs() > 1e-9
    assert power.sum((1, 2)).le(2).all()


def test_strided_keeps_everything() -> None:
    """Subsampling filters nothing: all energy survives, above the limit too."""
    found = measure_aliasing("strided", size=16)
    assert found["aliased"] == pytest.approx(1)
    assert found["kept"] == pytest.approx(found["kept_in_place"]) == pytest.approx(1)
    assert found["axis"]["energy"] == pytest.approx([1] * 8)
    assert found["axis"]["constant"] == pytest.approx([0] * 7 + [1])  # the fastest wave becomes brightness


def test_a_filter_has_the_gain_of_its_formula() -> None:
    """The mean of two pixels passes cos^2(pi k / M) of the energy; the binomial filter of three its square."""
    gain = [math.cos(math.pi * k / 16) ** 2 for k in range(1, 9)]
    found = measure_aliasing("avg", size=16)
    assert found["axis"]["energy"] == pytest.approx(gain)
    by_wave = {(u, v): (math.cos(math.pi * u / 16) * math.cos(math.pi * v / 16)) ** 2 for u, v in all_waves(16)}
    above = [g for (u, v), g in by_wave.items() if max(u, abs(v)) > 4]
    below = [g for (u, v), g in by_wave.items() if max(u, abs(v)) < 4]
    assert found["aliased"] == pytest.approx(sum(above) / len(above))
    assert found["kept"] == pytest.approx(sum(below) / len(below))
    assert measure_aliasing("lpf", size=16)["axis"]["energy"] == pytest.approx([g**2 for g in gain])
    assert measure_aliasing("lpf", size=16)["diagonal"]["energy"] == pytest.approx([g**4 for g in gain])


def test_order_of_methods() -> None:
    """GHS can let less of the energy above the limit through than others; cut off, it keeps more of what is below.

    By default it lets through about as much as the filter of three taps.
    """
    found = {m: measure_aliasing(m, size=16) for m in ("max", "avg", "lpf", "aps", "ghs-paper", "ghs")}
    assert 0.5 < found.pop("ghs")["aliased"] / found["lpf"]["aliased"] < 2
    ours, cut = (
        measure_aliasing("ghs", o, size=16)
        for o in ({"kernel": "hermite(sigma=1.5*band)"}, {"kernel": "hermite(taper=none)"})
    )
    assert cut["aliased"] < ours["aliased"] < 0.001
    assert cut["kept_in_place"] > 0.95
    assert found["ghs-paper"].pop("kept_in_place") is None
    for other in found.values():
        assert ours["aliased"] < other["aliased"]
        assert cut["kept_in_place"] > other.get("kept_in_place", 0)
    assert min(cut["axis"]["energy"][:3]) > 0.9
    for curve in (cut["axis"]["energy"], ours["axis"]["energy"]):
        assert max(curve[4:]) < 0.01


def test_the_constant_of_max_pooling() -> None:
    """Fast waves become brightness; leaving that out, less energy is left than came."""
    found = measure_aliasing("max", size=16)
    assert found["aliased"] > found["aliased_constant"] > 1
    assert found["aliased"] - found["aliased_constant"] < 0.5


@pytest.mark.parametrize("method", methods())
def test_every_method(method: str) -> None:
    """JSON can hold it; equal for equal seeds; the caller's random numbers are untouched."""
    before = torch.get_rng_state()
    found = measure_aliasing(method, size=8)
    assert torch.equal(before, torch.get_rng_state())
    assert json.loads(json.dumps(found, allow_nan=False)) == found == measure_aliasing(method, size=8)
    assert (found["output"], found["frequencies"]) == (4, [1, 2, 3, 4])


def test_chunks_do_not_matter() -> None:
    """Waves are measured one by one as they are together."""
    waves = all_waves(8)
    together, n = surviving_energy(nn.AvgPool2d(2), waves, 8)
    alone = [surviving_energy(nn.AvgPool2d(2), [w], 8)[0]["energy"] for w in waves]
    torch.testing.assert_close(together["energy"], torch.cat(alone))
    assert n == 4


def test_drawn(tmp_path: Path) -> None:
    from shiftproof.reports import figures

    curves = {m: measure_aliasing(m, size=8) for m in ("max", "ghs")}
    assert figures.aliasing(tmp_path / "a.png", curves).stat().st_size > 10_000
