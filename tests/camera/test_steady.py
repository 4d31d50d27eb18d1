"""Two windows of one scene that share a peak give the same bits, whatever the model; ties are decided by content."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from helpers.laws import effort
from helpers.scenes import photograph, spots, window
from shiftproof import Steady
from shiftproof.camera.score import grey, score, weights
from shiftproof.invariance import same_bits

PHOTOGRAPHS = ("astronaut", "camera", "chelsea", "coffee", "coins", "rocket")


def network(channels: int = 3) -> nn.Module:
    """As far from invariant as can be: strides, padding, a head for every position."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(channels, 8, 5, stride=3, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, padding=1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(5), nn.Flatten(), nn.Linear(200, 7)).eval()


def pairs(scene: Tensor, size: tuple[int, int], farthest: int, count: int, seed: int = 0) -> Iterator[Any]:
    """Random positions of a window in a scene, two at a time, at most `farthest` pixels apart on each axis."""
    g = torch.Generator().manual_seed(seed)
    most = torch.tensor(scene.shape[1:]) - torch.tensor(size)
    for _ in range(count):
        a = (torch.rand(2, generator=g) * (most + 1)).long()
        b = (a + torch.randint(-farthest, farthest + 1, (2,), generator=g)).clamp(min=torch.zeros(2).long(), max=most)
        yield tuple(a.tolist()), tuple(b.tolist())


def shared(steady: Steady, scene: Tensor, a: tuple[int, int], b: tuple[int, int], size: tuple[int, int]) -> bool:
    """Whether two windows see the same peaks and crops, by their places in the scene."""
    places = [
        torch.cat([steady.pivot(window(scene, at, size)), steady.corners(window(scene, at, size))], 1)
        + torch.tensor(at)
        for at in (a, b)
    ]
    return torch.equal(*places)


@pytest.mark.parametrize("region", ["frame", "center"])
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_the_same_peak_gives_the_same_bits(name: str, region: str) -> None:
    """On photographs, in 8 bits and in floats; and it happens often."""
    scene = photograph(name)
    size = (150, 140)
    steady = Steady(network(scene.shape[0]), crop=(112, 100), region=region)
    held = 0
    for a, b in pairs(scene, size, 6, 12):
        same = shared(steady, scene, a, b, size)
        x, y = (window(scene, at, size) for at in (a, b))
        with torch.no_grad():
            if same:
                assert same_bits(steady(x), steady(y))
                assert same_bits(steady(x.float() / 255), steady(y.float() / 255))
        held += same
    assert held >= 5


@given(st.data())
@effort(25, 2000)
def test_ties_are_decided_by_content(drawn: st.DataObject) -> None:
    """Scenes that repeat themselves, of few grey levels: all windows with the same spots in them show one crop."""
    tile = drawn.draw(st.integers(3, 9)), drawn.draw(st.integers(3, 9))
    levels = drawn.draw(st.integers(2, 4))
    g = torch.Generator().manual_seed(drawn.draw(st.integers(0, 999)))
    scene = torch.randint(0, levels, (1, *tile), generator=g, dtype=torch.uint8).repeat(1, 20, 20)[:, :60, :60] * 60
    a, b = (drawn.draw(st.tuples(st.integers(0, 12), st.integers(0, 12))) for _ in range(2))
    steady = Steady(nn.Identity(), crop=drawn.draw(st.integers(8, 30)), sigma=1.0)
    x, y = (window(scene, at, (48, 48)) for at in (a, b))
    if all((p - q) % n == 0 for p, q, n in zip(a, b, tile)):  # the windows are equal
        assert same_bits(steady(x), steady(y))
    if shared(steady, scene, a, b, (48, 48)):
        assert same_bits(steady(x), steady(y))


def test_of_equal_peaks_the_same_one_wins_wherever_the_window_is() -> None:
    """Their scores are equal, and a mark out of their reach decides; without one, the crops do."""
    steady = Steady(nn.Identity(), crop=16)
    places = [(30, 32), (30, 66), (68, 34)]
    for marks in [(0,), (1,), (2,), (0, 1), ()]:
        scene = spots(*places, marks=marks)
        scores = steady.peaks(scene[None])
        assert (scores == scores.max()).sum() == 3
        windows = [(at, window(scene, at, (88, 88))) for at in [(0, 0), (0, 5), (3, 9), (9, 2)]]
        winners = {tuple((steady.pivot(x)[0, 0] + torch.tensor(at)).tolist()) for at, x in windows}
        crops = [steady(x) for _, x in windows]
        assert len(winners) == 1 or all(torch.equal(crop, crops[0]) for crop in crops)
        assert len(winners) == 1 or not marks


def test_where_a_scene_repeats_itself_every_window_shows_one_crop() -> None:
    """Two kinds of spots have equal scores; what is out of their reach chooses the kind."""
    tile = torch.zeros(3, 24, 48, dtype=torch.uint8)
    tile[:, 12, 12], tile[:, 12, 36], tile[0, 18, 36] = 200, 200, 5
    scene = tile.repeat(1, 5, 3)
    steady = Steady(nn.Identity(), crop=20, sigma=1.0, region="center")
    crops = [steady(window(scene, (i, j), (60, 80))) for i in range(0, 24, 5) for j in range(0, 48, 5)]
    assert all(torch.equal(crop, crops[0]) for crop in crops)


def test_a_maximum_that_is_shared_by_neighbours_is_no_peak() -> None:
    """Of a spot of two by two pixels no pixel is the middle."""
    scene = spots((70, 70)) // 2
    scene[:, 30:32, 30:32] = 255
    scores = score(grey(scene[None]), 1.0)[0]
    assert scores.max() == scores[30 - 4, 30 - 4] == scores[31 - 4, 31 - 4]
    pivot = Steady(nn.Identity(), crop=16, sigma=1.0).pivot(scene[None])[0, 0]
    assert (pivot - 70).abs().max() < 8


def test_the_crop_is_on_the_lattice_of_the_peak() -> None:
    """Just one of the crops that lie a whole number of positions from the one around the peak is in the frame."""
    scene = spots((50, 50))
    steady = Steady(nn.Identity(), crop=40)
    for at in [(2, 10), (7, 8), (22, 30), (1, 31)]:
        corner = steady.corners(window(scene, at, (66, 60)))[0, 0] + torch.tensor(at)
        assert ((corner - (50 - 20)) % torch.tensor([27, 21]) == 0).all()
    around = Steady(nn.Identity(), crop=40, region="center")
    assert around.corners(window(scene, (20, 20), (66, 60))).tolist() == [[[10, 10]]]


def test_without_a_peak_the_middle_is_shown() -> None:
    flat = torch.full((2, 3, 64, 60), 7, dtype=torch.uint8)
    steady = Steady(nn.Identity(), crop=40, views=2)
    assert steady.pivot(flat).tolist() == [[[-1, -1], [-1, -1]]] * 2
    assert steady.corners(flat).tolist() == [[[12, 10], [12, 10]]] * 2
    assert steady(flat).shape == (2, 3, 40, 40)
    plateau = flat.clone()
    plateau[:, :, 20:44, 20:40] = 200  # its score has peaks: the corners differ in nothing but their position
    assert steady.pivot(plateau).min() > 0


def test_views_are_averaged() -> None:
    """Over the best peaks, best first; a frame with fewer peaks gives the same ones again."""
    scene = photograph("coffee")
    x = torch.cat([window(scene, at, (120, 120)) for at in [(0, 0), (99, 120)]])
    one, three = Steady(network(), crop=64), Steady(network(), crop=64, views=3)
    with torch.no_grad():
        assert torch.equal(three.pivot(x)[:, :1], one.pivot(x))
        assert torch.equal(three.crops(x)[::3], one.crops(x))
        assert torch.equal(three(x), three.model(three.crops(x)).view(2, 3, 7).mean(1))
    lone = window(spots((50, 50)), (0, 0), (100, 100))
    several = Steady(lambda crops: {"scores": crops.mean((2, 3))}, crop=64, views=3)
    assert several.pivot(lone)[0, 0].tolist() == [50, 50]
    assert several(lone)["scores"].shape == (1, 3)


def test_the_certificate_of_motion_is_kept_and_sharp() -> None:
    """Up to what it says, the peak and the crop stay; one pixel further they do not."""
    scene = photograph("astronaut")
    steady = Steady(nn.Identity(), crop=96)
    at, size = (200, 210), (126, 120)
    found = steady.certificate(window(scene, at, size))[0]
    spot = steady.pivot(window(scene, at, size))[0, 0] + torch.tensor(at)
    layout = steady.layout(window(scene, at, size))
    for ways in [(0, 0), (-found.up, 0), (found.down, found.right), (-found.up, -found.left)]:
        peak = (int(spot[0]) - at[0] - ways[0], int(spot[1]) - at[1] - ways[1])
        moved = (at[0] + ways[0], at[1] + ways[1])
        corner = layout.corner(peak)
        before = layout.corner((int(spot[0]) - at[0], int(spot[1]) - at[1]))
        assert all(a <= p < b for a, b, p in zip(layout.first, layout.stop, peak))
        assert (corner[0] + moved[0], corner[1] + moved[1]) == (before[0] + at[0], before[1] + at[1])
    for axis, far in ((0, -found.up - 1), (0, found.down + 1), (1, -found.left - 1), (1, found.right + 1)):
        peak_ = [int(spot[0]) - at[0], int(spot[1]) - at[1]]
        peak_[axis] -= far
        inside = all(a <= p < b for a, b, p in zip(layout.first, layout.stop, peak_))
        corner = layout.corner((peak_[0], peak_[1]))
        before = layout.corner((int(spot[0]) - at[0], int(spot[1]) - at[1]))
        assert not inside or corner[axis] + far != before[axis]


def test_the_certificate_of_noise_is_kept_and_sharp() -> None:
    """The worst noise raises the second spot by the signs of the stencil, and lowers the first."""
    scene = torch.full((3, 60, 60), 100, dtype=torch.uint8)
    scene[:, 20, 20], scene[:, 40, 36] = 255, 190
    steady = Steady(nn.Identity(), crop=40, sigma=1.0)
    found = steady.certificate(scene[None])[0]
    assert found.gap == pytest.approx(1 - 90 / 155)
    assert found.noise > 3
    h, curved = (torch.tensor([*w[:0:-1], *w]) for w in weights(1.0))
    signs = (torch.outer(h, curved) + torch.outer(curved, h)).sign()  # the spots are where it is negative
    reach = len(h) // 2
    worst = torch.zeros(60, 60)
    for sign, (row, column) in ((-1, (20, 20)), (1, (40, 36))):
        worst[row - reach : row + reach + 1, column - reach : column + reach + 1] = sign * signs
    for amplitude, winner in ((math.ceil(found.noise) - 1, [20, 20]), (math.floor(found.noise) + 1, [40, 36])):
        noisy = (scene + worst * -amplitude).clamp(0, 255).to(torch.uint8)
        assert steady.pivot(noisy[None])[0, 0].tolist() == winner


def test_stability_is_what_searching_every_window_finds() -> None:
    """On a photograph, and on a scene that repeats itself, where ties are searched one by one."""
    busy = photograph("coins")[:, 100:146, 100:146]
    tie_rich = torch.randint(0, 2, (1, 5, 7), dtype=torch.uint8).repeat(1, 10, 8)[:, :46, :46] * 90
    for scene in (busy, tie_rich, torch.zeros_like(busy)):
        steady = Steady(nn.Identity(), crop=24, sigma=1.0)
        size = (40, 38)
        every = [
            steady.corners(window(scene, (i, j), size))[0, 0] + torch.tensor((i, j)) for i in range(7) for j in range(9)
        ]
        corners = torch.stack(every).view(7, 9, 2)
        assert torch.equal(steady.corners_in_scene(scene, size), corners)
        same = (corners[1:, :-2] == corners[:-1, 2:]).all(-1).double().mean()
        assert steady.stability(scene, size, (1, -2)) == float(same)


def test_equal_peaks_and_floats_are_found_like_bytes() -> None:
    scene = photograph("rocket")[None, :, 100:260, 200:360]
    steady = Steady(nn.Identity(), crop=64)
    assert torch.equal(steady.pivot(scene), steady.pivot(scene.float() / 255))
    assert torch.equal(steady(scene), steady(scene.float() / 255))
    grey = scene[:, :1]
    assert torch.equal(steady.pivot(grey), steady.pivot(grey.expand(-1, 3, -1, -1)))


def test_transform_and_gradient() -> None:
    frames = photograph("rocket")[None, :, 100:260, 200:360].double().div(255).requires_grad_()
    steady = Steady(lambda x: x.mean((2, 3)), crop=64, transform=lambda x: x * 2)
    steady(frames).sum().backward()
    assert frames.grad is not None
    assert (frames.grad != 0).sum() == 3 * 64 * 64
    assert torch.allclose(frames.grad.max(), torch.tensor(2 / 64**2).double())


def test_no_frames_give_no_crops() -> None:
    none = torch.zeros(0, 3, 80, 80, dtype=torch.uint8)
    steady = Steady(nn.Identity(), crop=64)
    assert steady(none).shape == (0, 3, 64, 64)
    assert steady.pivot(none).shape == (0, 1, 2)


def test_repr_says_what_was_chosen() -> None:
    text = repr(Steady(nn.Identity(), crop=64, sticky=True))
    assert "crop=(64, 64), views=1, region='frame', sigma=4, sticky=True" in text


FRAMES = torch.zeros(1, 3, 80, 80, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("options", "frames", "words"),
    [
        ({"crop": 0}, FRAMES, r"^`crop` \(=0\) must be at least 1"),
        ({"crop": (1, 2, 3)}, FRAMES, r"^`crop` .* one entry per axis"),
        ({"views": 0}, FRAMES, r"^`views` \(=0\) must be at least 1"),
        ({"region": "edge"}, FRAMES, r"^`region` \(='edge'\) must be one of 'frame', 'center'"),
        ({"sigma": -1.0}, FRAMES, r"^`sigma` \(=-1.0\) must be positive"),
        ({"crop": 81}, FRAMES, r"^`frames` \(80 x 80 pixels\) must be at least 81 x 81 for crops of 81 x 81"),
        ({"crop": 8, "sigma": 20.0}, FRAMES, r"^`frames` \(80 x 80 pixels\) must be at least 145 x 145"),
        ({"crop": 8}, FRAMES[0], r"^`frames` \(shape \(3, 80, 80\)\) .* `frames\[None\]`"),
        ({"crop": 8}, FRAMES[:, :2], r"^`frames` \(shape \(1, 2, 80, 80\)\) must be .* 1 or 3 channels"),
        ({"crop": 8}, FRAMES.float() - 3, r"^`frames` \(from -3 to -3\) must be .* `transform`"),
        ({"crop": 8}, FRAMES.float() + torch.nan, r"^`frames` \(from nan to nan\)"),
    ],
)
def test_errors_name_the_argument(options: dict[str, Any], frames: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Steady(nn.Identity(), **options)(frames)


@pytest.mark.parametrize("frames", ["frames", FRAMES.int()])
def test_frames_of_another_kind(frames: Any) -> None:
    with pytest.raises(TypeError, match=r"^`frames` "):
        Steady(nn.Identity(), crop=8)(frames)


def test_a_motion_beyond_the_scene() -> None:
    steady = Steady(nn.Identity(), crop=40)
    with pytest.raises(ValueError, match=r"^`motion` \(=\(9, 0\)\) must be smaller than the 9 x 9 positions"):
        steady.stability(FRAMES[0], 72, (9, 0))
    with pytest.raises(ValueError, match=r"^`scene` \(shape \(3, 80, 80\)\) must be .* a window of 90 x 90"):
        steady.stability(FRAMES[0], 90)
