"""What may happen to a picture, and what may not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shiftproof.data.perturbations import (
    camera_view,
    erase,
    erasure_places,
    gaussian_noise,
    half_turn,
    move_camera,
    rotate,
    vertical_flip,
)
from shiftproof.maps.shifts import cropped_shift

FILL = (0.1, 0.2, 0.3)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(st.integers(0, 7), st.integers(0, 2**32 - 1), st.sampled_from([None, 2]))
def test_erasure_changes_its_square_and_nothing_else(patch: int, seed: int, batch: int | None) -> None:
    """k x k pixels of every image become the fill value; all others keep their bits."""
    x = torch.rand(5, 3, 7, 9, generator=generator(seed)) + 1
    places = erasure_places(5, (7, 9), patch, generator(seed), batch)
    y = erase(x, patch, places, FILL)
    for before, after, (row, column) in zip(x, y, places.tolist()):
        expected = before.clone()
        expected[:, row : row + patch, column : column + patch] = torch.tensor(FILL)[:, None, None]
        assert torch.equal(after, expected)
        assert int((before != after).sum()) == 3 * patch * patch


def test_places_of_the_reference() -> None:
    """One place per batch, rows and columns from {0 .. 28 - k} on 32 pixels, all of which occur."""
    places = erasure_places(4000, (32, 32), 8, generator(), batch=4)
    assert places.shape == (4000, 2)
    assert torch.equal(places[::4], places[3::4])
    for axis in (0, 1):
        assert set(places[:, axis].tolist()) == set(range(21))
    assert erasure_places(10, (32, 32), 8, generator(), batch=4).shape == (10, 2)


def test_places_per_image() -> None:
    """Anywhere inside: {0 .. size - k}, each image its own; a patch as large as the image has one place."""
    places = erasure_places(4000, (32, 16), 8, generator())
    assert set(places[:, 0].tolist()) == set(range(25))
    assert set(places[:, 1].tolist()) == set(range(9))
    assert erasure_places(3, (8, 8), 8, generator()).tolist() == [[0, 0]] * 3
    assert erasure_places(3, (8, 8), 8, generator(), batch=2).tolist() == [[0, 0]] * 3


def test_flips() -> None:
    """A vertical flip reverses rows; with the columns reversed as well it is a half turn."""
    x = torch.arange(6.0).view(1, 1, 2, 3)
    assert vertical_flip(x).flatten().tolist() == [3, 4, 5, 0, 1, 2]
    assert half_turn(x).flatten().tolist() == [5, 4, 3, 2, 1, 0]
    assert torch.equal(half_turn(x), torch.rot90(x, 2, (-2, -1)))


def test_quarter_turns_only_move_pixels() -> None:
    """Multiples of 90 degrees are rot90, bit for bit, also among other angles."""
    x = torch.rand(6, 3, 8, 8)
    degrees = torch.tensor([0.0, 90.0, 180.0, 270.0, -90.0, 450.0])
    y = rotate(x, degrees, FILL)
    for before, after, k in zip(x, y, (0, 1, 2, 3, 3, 1)):
        assert torch.equal(after, torch.rot90(before, k, (-2, -1)))
    mixed = rotate(x, torch.tensor([0.0, 90.0, 10.0, 20.0, 30.0, 180.0]), FILL)
    assert torch.equal(mixed[1], y[1])
    assert torch.equal(mixed[5], torch.rot90(x[5], 2, (-2, -1)))
    assert x.data_ptr() != rotate(x, torch.zeros(6), FILL).data_ptr()


def test_interpolation_turns_the_same_way() -> None:
    """Close to a quarter turn the interpolated image is close to the exact one; each angle goes to its image."""
    x = torch.rand(2, 1, 8, 8, dtype=torch.float64)
    y = rotate(x, torch.tensor([90.0 + 1e-7, 180.0 + 1e-7]), (0.0,))
    torch.testing.assert_close(y[0], torch.rot90(x[0], 1, (-2, -1)), atol=1e-6, rtol=0)
    torch.testing.assert_close(y[1], torch.rot90(x[1], 2, (-2, -1)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_rotation_there_and_back(size: tuple[int, int]) -> None:
    """Two opposite rotations undo each other inside, up to the blur of interpolation, also where sides differ."""
    i, j = (torch.linspace(0, 3, n)[:, None] if axis == 0 else torch.linspace(0, 3, n) for axis, n in enumerate(size))
    x = (0.5 + 0.25 * torch.sin(i) + 0.25 * torch.cos(2 * j))[None, None]
    angle = torch.tensor([25.0])
    back = rotate(rotate(x, angle, (0.5,)), -angle, (0.5,))
    middle = (slice(None), slice(None), slice(8, -8), slice(8, -8))
    torch.testing.assert_close(back[middle], x[middle], atol=5e-3, rtol=0)
    assert (rotate(x, angle, (0.5,)) - x)[middle].abs().max() > 0.05


def test_fill_comes_in_at_the_corners() -> None:
    """A constant image of the fill value stays what it is; a corner of another becomes the fill value."""
    x = torch.tensor(FILL).view(1, 3, 1, 1).expand(1, 3, 9, 9)
    torch.testing.assert_close(rotate(x, torch.tensor([33.0]), FILL), x)
    torch.testing.assert_close(rotate(x + 1, torch.tensor([45.0]), FILL)[0, :, 0, 0], torch.tensor(FILL))


def test_a_side_is_no_multiple_of_the_other() -> None:
    """A quarter turn of an oblong image keeps its shape: the middle square is turned."""
    x = torch.rand(1, 1, 6, 10, dtype=torch.float64)
    y = rotate(x, torch.tensor([90.0]), (0.0,))
    assert y.shape == x.shape
    torch.testing.assert_close(y[0, 0, :, 2:8], torch.rot90(x[0, 0, :, 2:8]))


def test_noise() -> None:
    """Independent, of the given deviation, equal for equal seeds and only for them."""
    x = torch.full((4, 3, 64, 64), 0.5)
    y = gaussian_noise(x, 0.1, generator())
    assert float((y - x).std()) == pytest.approx(0.1, rel=0.02)
    assert abs(float((y - x).mean())) < 2e-3
    assert torch.equal(y, gaussian_noise(x, 0.1, generator()))
    assert not torch.equal(y, gaussian_noise(x, 0.1, generator(1)))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=4), st.booleans())
def test_camera_moves_each_image_its_own_way(shifts: list[tuple[int, int]], reflect: bool) -> None:
    """The same bits as `cropped_shift`, image by image and channel by channel."""
    x = torch.rand(len(shifts), 2, 6, 7, generator=generator())
    y = move_camera(x, torch.tensor(shifts), "reflect" if reflect else "fill", FILL[:2])
    for before, after, shift in zip(x, y, shifts):
        for channel in (0, 1):
            border = "reflect" if reflect else "zeros"
            expected = cropped_shift(before[channel], shift, border=border, value=FILL[channel])
            assert torch.equal(after[channel], expected)


def test_bad_arguments() -> None:
    x = torch.rand(1, 3, 6, 6)
    place = torch.zeros(1, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"`patch` \(=7\) must fit into the image"):
        erase(x, 7, place, FILL)
    with pytest.raises(ValueError, match=r"`fill` .* must have one value per channel \(3\)"):
        erase(x, 2, place, (0.0,))
    with pytest.raises(ValueError, match="must be one of 'fill', 'reflect'"):
        move_camera(x, place, "mirror", FILL)
    with pytest.raises(ValueError, match=r"`sigma` \(=0.0\) must be positive"):
        gaussian_noise(x, 0.0, generator())
    with pytest.raises(TypeError, match="must be a real floating tensor"):
        gaussian_noise(x.byte(), 0.1, generator())


@pytest.mark.parametrize("border", ["fill", "reflect"])
def test_a_view_inside_the_picture_is_a_part_of_it(border: str) -> None:
    """And where it reaches beyond, it is what a camera sees that has moved there."""
    x = torch.rand(4, 3, 9, 8, generator=generator())
    corner = torch.tensor([[0, 0], [2, 1], [4, 3], [1, 3]])
    for picture, (row, column), seen in zip(x, corner.tolist(), camera_view(x, corner, (5, 5), border)):
        assert torch.equal(seen, picture[:, row : row + 5, column : column + 5])
    beyond = torch.tensor([[-2, 1], [6, 5], [0, -1], [3, 3]])
    moved = move_camera(x, -beyond, border, FILL)
    assert torch.equal(camera_view(x, beyond, (5, 5), border, FILL), moved[:, :, :5, :5])
