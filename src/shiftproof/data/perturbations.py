"""Perturbations of pictures: a patch erased, a flip, a rotation, noise, a camera that moves.

All functions are pure and take float batches (B, C, H, W) in [0, 1]. A `fill` is one value per channel; the mean of
the data is what a network sees as 0 after normalisation.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof import checks
from shiftproof.maps.padding import pad
from shiftproof.maps.shifts import circular_shift

BORDERS = ("fill", "reflect")
_MARGIN = 4  # pixels that the reference keeps free below and right of its patches


def erase(x: Tensor, patch: int, place: Tensor, fill: Sequence[float]) -> Tensor:
    """Overwrite one `patch` x `patch` square per image with `fill`; `place` (B, 2) is its upper left corner."""
    checks.maps("x", x, 2)
    patch = checks.integer("patch", patch, minimum=0)
    if patch > min(x.shape[2:]):
        raise ValueError(f"`patch` (={patch}) must fit into the image ({x.shape[2]} x {x.shape[3]}).")
    place = place.to(x.device)
    rows, columns = (
        (i >= place[:, axis, None]) & (i < place[:, axis, None] + patch)  # (B, size)
        for axis, i in enumerate(torch.arange(n, device=x.device) for n in x.shape[2:])
    )
    inside = rows[:, None, :, None] & columns[:, None, None, :]  # (B, 1, H, W)
    return torch.where(inside, _filling(x, fill), x)


def erasure_places(
    count: int, size: Sequence[int], patch: int, generator: torch.Generator, batch: int | None = None
) -> Tensor:
    """Places for `erase`, (count, 2).

    With a `batch`, as in the reference code: one place for every `batch` images in a row, drawn from
    {0 .. size - 4 - patch} on each axis ({0 .. 28 - patch} on 32 pixels), so that the last four rows and columns are
    never touched. Without it, one place per image, anywhere inside.
    """
    margin, draws = (0, count) if batch is None else (_MARGIN, -(-count // batch))
    highest = [max(0, n - margin - patch) for n in size]
    drawn = torch.stack([torch.randint(0, h + 1, (draws,), generator=generator) for h in highest], 1)
    return drawn if batch is None else drawn.repeat_interleave(batch, 0)[:count]


def vertical_flip(x: Tensor) -> Tensor:
    """Mirror top and bottom."""
    return x.flip(-2)


def half_turn(x: Tensor) -> Tensor:
    """Rotation by 180 degrees: both axes reversed. The reference code calls this a vertical flip."""
    return x.flip((-2, -1))


def rotate(x: Tensor, degrees: Tensor, fill: Sequence[float]) -> Tensor:
    """Rotate each image about its centre, counter-clockwise, by its own angle; `fill` enters at the corners.

    * multiples of 90 degrees only move pixels (90 and 270 where the image is square): no arithmetic;
    * other angles are interpolated bilinearly.
    """
    checks.maps("x", x, 2)
    degrees = degrees.to(x.device, torch.float64)
    square = x.shape[2] == x.shape[3]
    quarters = (degrees / 90).round().long() % 4
    exact = (degrees % 90 == 0) & (square | (quarters % 2 == 0))
    out = rotate_bilinear(x, degrees.deg2rad(), _filling(x, fill)) if not bool(exact.all()) else x.clone()
    for k in range(4):
        mine = exact & (quarters == k)
        if bool(mine.any()):
            out[mine] = torch.rot90(x[mine], k, (-2, -1))
    return out


def rotate_bilinear(x: Tensor, angle: Tensor, fill: Tensor) -> Tensor:
    """Rotate by `angle` radians: each output pixel is sampled where it came from, in coordinates from -1 to 1."""
    cos, sin, none = angle.cos(), angle.sin(), torch.zeros_like(angle)
    aspect = x.shape[2] / x.shape[3]
    theta = torch.stack([torch.stack([cos, -sin * aspect, none], 1), torch.stack([sin / aspect, cos, none], 1)], 1)
    grid = F.affine_grid(theta.to(x.dtype), list(x.shape), align_corners=False)
    return F.grid_sample(x - fill, grid, align_corners=False) + fill  # outside it is 0, plus `fill`


def gaussian_noise(x: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """Add independent noise of standard deviation `sigma` (the range of `x` is 1); nothing is clipped."""
    checks.floating("x", x)
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return x + checks.positive("sigma", sigma) * noise.to(x.device)


def move_camera(x: Tensor, shift: Tensor, border: str, fill: Sequence[float]) -> Tensor:
    """`shifts.cropped_shift` with one shift (row, column) per image, (B, 2), and a `fill` per channel.

    `border`: `"fill"`, or `"reflect"` about the outermost pixel.
    """
    return camera_view(x, -shift, x.shape[2:], border, fill)


def camera_view(
    x: Tensor,
    corner: Tensor,
    size: Sequence[int],
    border: str = "fill",
    fill: Sequence[float] | None = None,
) -> Tensor:
    """What a window of a `size` shows of each picture, with its upper left corner at `corner` (B, 2).

    Inside the picture all of it is real; beyond, there is the `fill`, 0 by default, or with the `border` `"reflect"`
    the mirror image about the outermost pixel. (B, C, H, W) -> (B, C, *size)
    """
    checks.maps("x", x, 2)
    checks.choice("border", border, BORDERS)
    height, width = size
    beyond = [0, 0]  # pixels that the window reaches over the picture
    for axis, (n, m) in enumerate(zip(x.shape[2:], size)):
        if len(corner):
            beyond[axis] = max(0, -int(corner[:, axis].min()), int(corner[:, axis].max()) + m - n)
    rows, columns = beyond
    if not any(beyond):
        canvas = x
    elif border == "reflect":
        canvas = pad(x, [(rows, rows), (columns, columns)], "reflect")
    else:
        shape = (*x.shape[:2], x.shape[2] + 2 * rows, x.shape[3] + 2 * columns)
        canvas = _filling(x, (0.0,) * x.shape[1] if fill is None else fill).expand(shape).clone()
        canvas[:, :, rows : rows + x.shape[2], columns : columns + x.shape[3]] = x
    # on the wider canvas, what wraps around stays outside the part that is kept
    return circular_shift(canvas, -corner - torch.tensor(beyond))[:, :, :height, :width].contiguous()


def _filling(x: Tensor, fill: Sequence[float]) -> Tensor:
    """`fill` as (1, C, 1, 1)."""
    if len(fill) != x.shape[1]:
        raise ValueError(f"`fill` (={checks.shown(fill)}) must have one value per channel ({x.shape[1]}).")
    return torch.tensor(fill, dtype=x.dtype, device=x.device).view(1, -1, 1, 1)
