"""By parts of a pixel a band-limited scene shows the same crop to a tolerance, by whole pixels the same bits."""

import pytest
import torch
from torch import nn

from helpers.scenes import band_limited, photograph, window
from shiftproof import Steady
from shiftproof.camera import subpixel
from shiftproof.camera.peaks import between, border, inner, rivals
from shiftproof.camera.score import grey, norm, score
from shiftproof.invariance import same_bits
from shiftproof.maps.shifts import fractional_shift

SIGMA = 4.0
SIZE, AT = (210, 210), (90, 90)
# of pixels in [0, 1], by the share of the Nyquist frequency that the scene reaches up to
TOLERANCE = {0.5: 1e-3, 0.7: 1e-3, 0.85: 2e-2}


@pytest.mark.parametrize("limit", TOLERANCE)
@pytest.mark.parametrize("name", ["astronaut", "coffee", "rocket"])
def test_parts_of_a_pixel_change_the_crop_little(name: str, limit: float) -> None:
    """Wherever the same peak wins, and far less than without."""
    scene = band_limited(photograph(name)[:, :396, :396], limit)
    steady, whole = (Steady(nn.Identity(), crop=150, subpixel=parts) for parts in (True, False))
    x = window(scene, AT, SIZE)
    held = 0
    for motion in [(0.5, 0.5), (0.3, -0.4), (2.25, 1.75), (-0.1, 0.9)]:
        y = window(fractional_shift(scene, motion, keep_nyquist=False), AT, SIZE)
        apart = (steady.corners(y) - steady.corners(x))[0, 0] - torch.tensor(motion)
        if apart.abs().max() < 1.6:
            error = (steady(x) - steady(y)).abs()
            assert error.max() < TOLERANCE[limit]
            assert error.max() < (whole(x) - whole(y)).abs().max() / 5
            held += 1
    assert held >= 3


@pytest.mark.parametrize("floats", [False, True])
def test_whole_pixels_change_no_bit(floats: bool) -> None:
    scene = photograph("coffee")
    steady = Steady(nn.Identity(), crop=150, subpixel=True)
    frames = [window(scene, at, SIZE) for at in [(60, 70), (61, 71), (58, 72)]]
    frames = [frame.float() / 255 if floats else frame for frame in frames]
    places = [steady.pivot(f)[0, 0] + torch.tensor(at) for f, at in zip(frames, [(60, 70), (61, 71), (58, 72)])]
    assert torch.equal(places[0], places[1])
    crops = [steady(frame) for frame in frames]
    assert crops[0].dtype == torch.float32
    assert same_bits(crops[0], crops[1])
    assert same_bits(crops[0], crops[2])


@pytest.mark.parametrize("at", [(0.0, 0.0), (0.37, -0.48), (-0.2, 0.5), (0.71, 0.4)])
def test_newton_finds_the_extremum(at: tuple[float, float]) -> None:
    """Of a Gaussian spot, bright or dark, or on a slope."""
    r = subpixel.reach(SIGMA)
    i = torch.arange(-r, r + 1, dtype=torch.float64)
    spot = torch.exp(-((i - at[0])[:, None].square() + (i - at[1]).square()) / (2 * 3.0**2))
    for f in (spot, 1 - spot, spot + 0.01 * i):  # the score of a slope is 0
        assert subpixel.refine(f[None], SIGMA) == pytest.approx(at, abs=1e-5)


def test_newton_gives_up_where_there_is_no_peak() -> None:
    r = subpixel.reach(SIGMA)
    i = torch.arange(-r, r + 1, dtype=torch.float64)
    saddle = torch.exp(-i.square() / 18)[:, None] - torch.exp(-i.square() / 18)
    assert subpixel.refine(saddle[None], SIGMA) == (0.0, 0.0)
    far = torch.exp(-((i - 3)[:, None].square() + i.square()) / 18)
    assert subpixel.refine(far[None], SIGMA) == (0.0, 0.0)


def test_peaks_are_ranked_by_their_height_between_pixels() -> None:
    """Of two spots the brighter one wins, though it lies between pixels and the score of its pixel is smaller."""
    i = torch.arange(120, dtype=torch.float64)

    def spot(row: float, column: float, height: float) -> torch.Tensor:
        return height * torch.exp(-((i[:, None] - row).square() + (i - column).square()) / 18)

    scene = (spot(40, 40, 0.5) + spot(80.45, 80.45, 0.505)).expand(1, 1, 120, 120)
    assert Steady(nn.Identity(), crop=40).pivot(scene).tolist() == [[[40, 40]]]
    ((peak,),) = Steady(nn.Identity(), crop=40, subpixel=True).pivot(scene).tolist()
    assert peak == [80, 80]


def test_whole_positions_are_kept_by_the_interpolation() -> None:
    block = torch.rand(3, 30, 40, dtype=torch.float64)
    m = subpixel.MARGIN
    assert torch.allclose(subpixel.resample(block, (0.0, 0.0)), block[:, m:-m, m:-m], atol=1e-12)
    flat = torch.ones(3, 30, 40, dtype=torch.float64)
    assert torch.allclose(subpixel.resample(flat, (0.3, -0.5)), flat[:, m:-m, m:-m], atol=1e-12)


def test_the_fraction_says_where_a_pixel_is_read() -> None:
    """At i + fraction, on waves."""
    i = torch.arange(40, dtype=torch.float64)
    wave = torch.cos(0.5 * i)[None, :, None].expand(1, 40, 40)
    m = subpixel.MARGIN
    expected = torch.cos(0.5 * (i[m:-m] + 0.3))[None, :, None].expand(1, 28, 28)
    assert torch.allclose(subpixel.resample(wave, (0.3, 0.0)), expected, atol=1e-3)
    assert torch.allclose(subpixel.resample(wave.mT, (0.0, 0.3)), expected.mT, atol=1e-3)


def test_heights_between_pixels() -> None:
    """The parabola's, for a peak; and nowhere do they move by more than 1.5 times what the scores move by."""
    row = torch.tensor([0.0, 2.0, 5.0, 4.0, 0.0])
    scores = torch.outer(torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0]), row)[None]
    columns = (4.0 - 2.0) ** 2 / (8 * (10 - 4 - 2))
    assert float(between(scores)) == pytest.approx(5 + columns)
    for _ in range(200):
        s = torch.rand(1, 5, 5, dtype=torch.float64) * 1000
        change = (torch.rand(1, 5, 5, dtype=torch.float64) - 0.5) * 20
        assert (between(s + change) - between(s)).abs() <= 15 + 1e-9


def test_the_certificate_of_noise_counts_how_far_heights_move() -> None:
    """Of the worst small change of the scores, which reaches the bound that the certificate divides by."""
    moved = 0.0
    for _ in range(200):
        s = (torch.rand(1, 5, 5, dtype=torch.float64) * 1000).requires_grad_()
        (slope,) = torch.autograd.grad(between(s).sum(), s)
        moved = max(moved, float(slope.abs().sum()))
    assert moved == pytest.approx(1.5)
    scene = photograph("coffee")[None, :, 100:190, 100:190]
    steady = Steady(nn.Identity(), crop=50, sigma=1.5, subpixel=True)
    layout, edge, scores = steady.layout(scene), border(1.5), score(grey(scene), 1.5)
    own, beside, height = (
        layout.counted(t, edge)[0].double() for t in (inner(scores), rivals(scores), between(scores))
    )
    winner = int((height * (own > beside)).argmax())
    room = torch.maximum((height.flatten()[winner] - height) / moved, beside - own).flatten()
    room[winner] = (own - beside).flatten()[winner]
    assert steady.certificate(scene)[0].noise == pytest.approx(float(room.min()) / (2 * norm(1.5)))


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_of_noise_holds_between_pixels(seed: int) -> None:
    scene = torch.full((1, 3, 60, 60), 100, dtype=torch.uint8)
    scene[:, :, 20, 20], scene[:, :, 40, 36] = 255, 190
    steady = Steady(nn.Identity(), crop=30, sigma=1.5, subpixel=True)
    found = steady.certificate(scene)[0]
    assert 1 < found.noise <= Steady(nn.Identity(), crop=30, sigma=1.5).certificate(scene)[0].noise
    amplitude = int(found.noise)
    noise = torch.randint(-amplitude, amplitude + 1, scene.shape, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(steady.pivot((scene.int() + noise).to(torch.uint8)), steady.pivot(scene))
