"""`Steady`: a network that looks at the crop of a frame which a peak of the scene chooses."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from shiftproof import checks
from shiftproof.camera import subpixel
from shiftproof.camera.certificate import Certificate, certify
from shiftproof.camera.layout import REGIONS, Choice, Layout, Position, plan_layout
from shiftproof.camera.peaks import best_peaks, border, peak_scores
from shiftproof.camera.score import grey
from shiftproof.camera.stability import corners_in_scene, same_crops
from shiftproof.camera.stream import Stream

SIGMA = 4.0  # chosen by `benchmarks/camera.py`


class Steady(nn.Module):
    """A model that keeps its answer when the camera moves: it sees the crop that a peak of the scene chooses.

    A peak is a strict local maximum of a score of a few pixels, a second-order Gaussian-Hermite derivative in whole
    numbers; the best one is the pivot of the frame. In the scene, the crops of a pivot lie on a lattice with as many
    pixels between them as a crop has positions in the frame; just one of them lies in the frame. So

    * two windows of one scene, any whole number of pixels apart, that share the pivot and the crop it chooses give the
      **same bits**, whatever the model: a CNN, a transformer, an ONNX session wrapped as a function. Content decides
      ties. `certificate` says how far the camera may move;
    * the pivot of a frame of 8 bits is the same on every device. Floats must lie in [0, 1], and are rounded to 8 bits
      to find it.

    Equal bits are for equal batch sizes: some kernels round differently in another batch.

    `crop`: the size of the model's input, or (height, width).
    `views`: the answer is the mean of those for the best peaks, so that one that leaves changes it by 1/views.
    `subpixel`: locate the peak between pixels and resample the crop so that it lies on one: then the answers agree
    under motion by parts of a pixel as well, as far as the scene is band-limited.
    `region`: peaks count in the whole `"frame"`, or in the `"center"` only, where each crop lies around its peak.
    `sticky`: frames are one stream, in order. A peak is kept while it is there, and the crop keeps its place beside it,
    from the middle of the frame on. `reset()` before another stream; streams in parallel take a `Steady` each.
    `transform`: maps the crops, floats in [0, 1], to the model's input, such as a normalisation.
    `sigma`: the scale of the score, in pixels.

    A frame without a peak gets the crop in its middle, and `pivot` says so.

    Shape: (B, C, H, W) with 1 or 3 channels -> what the model returns for (B * views, C, *crop), averaged over views.

    >>> scene = torch.randint(0, 256, (1, 3, 90, 90), dtype=torch.uint8)
    >>> steady = Steady(nn.Conv2d(3, 8, 3, stride=2), crop=32)
    >>> torch.equal(steady(scene[:, :, :80, :80]), steady(scene[:, :, 1:81, 2:82]))
    True
    """

    def __init__(
        self,
        model: Callable[[Tensor], Any],
        crop: int | Sequence[int] = 224,
        *,
        views: int = 1,
        subpixel: bool = False,
        region: str = "frame",
        sticky: bool = False,
        transform: Callable[[Tensor], Tensor] | None = None,
        sigma: float = SIGMA,
    ) -> None:
        super().__init__()
        self.model, self.transform = model, transform
        height, width = checks.per_axis("crop", crop, 2)
        self.crop = (height, width)
        self.views = checks.integer("views", views)
        self.subpixel, self.sticky = subpixel, sticky
        self.region = checks.choice("region", region, REGIONS)
        self.sigma = checks.positive("sigma", sigma)
        self._stream = Stream()

    def forward(self, frames: Tensor) -> Any:
        """The answers of the model."""
        crops = self.crops(frames)
        out = self.model(crops if self.transform is None else self.transform(crops))
        if self.views == 1:
            return out
        return pytree.tree_map_only(Tensor, lambda y: y.unflatten(0, (-1, self.views)).mean(1), out)

    def crops(self, frames: Tensor) -> Tensor:
        """What the model sees, in [0, 1]: the crops of each frame, best peak first. (B * views, C, *crop)"""
        layout, choices = self._choose(frames, self.sticky)
        views = [(frame, *view) for frame, choice in zip(frames, choices) for view in self._all(choice)]
        parts = [self._cut(frame, layout, peak, corner) for frame, peak, corner in views]
        out = torch.stack(parts) if parts else frames.new_empty((0, frames.shape[1], *self.crop))
        return out if out.is_floating_point() else out.float() / 255

    def pivot(self, frames: Tensor) -> Tensor:
        """The best peaks of each frame as (row, column), -1 where there are fewer. (B, views, 2)"""
        missing = [(-1, -1)] * self.views
        found = [[peak or missing[0] for peak, _ in choice] for choice in self._choose(frames)[1]]
        return torch.tensor([(peaks + missing)[: self.views] for peaks in found]).view(-1, self.views, 2)

    def corners(self, frames: Tensor) -> Tensor:
        """The upper left corners of the crops of each frame, without parts of a pixel. (B, views, 2)"""
        rows = [[corner for _, corner in self._all(choice)] for choice in self._choose(frames)[1]]
        return torch.tensor(rows).view(-1, self.views, 2)

    def certificate(self, frames: Tensor) -> list[Certificate]:
        """How far each frame may move, and how much noise it may get, before its best peak or the crop changes."""
        layout, choices = self._choose(frames)
        return [certify(f, layout, self.sigma, self.subpixel, *choice[0]) for f, choice in zip(grey(frames), choices)]

    def stability(self, scene: Tensor, window: int | Sequence[int], motion: Position = (1, 1)) -> float:
        """The share of the positions of a window in a scene (C, H, W) at which it keeps its crop after a `motion`.

        Exact, for the first view: all positions count from which the motion stays inside the scene.
        """
        return same_crops(self.corners_in_scene(scene, window), motion)

    def corners_in_scene(self, scene: Tensor, window: int | Sequence[int]) -> Tensor:
        """The corner, in a scene (C, H, W), of the crop of a window at each of its positions. (U, V, 2)"""
        size = checks.per_axis("window", window, 2)
        if scene.dim() != 3 or any(n < m for n, m in zip(scene.shape[1:], size)):
            raise ValueError(
                f"`scene` (shape {tuple(scene.shape)}) must be (C, H, W) and hold a window of {size[0]} x {size[1]}."
            )

        def frame(at: Position) -> Tensor:
            return _window(scene, at, (size[0], size[1]))[None]

        def tied(at: Position) -> Position:
            return self._choose(frame(at))[1][0][0][1]

        edge, layout = border(self.sigma), self.layout(frame((0, 0)))
        positions = (scene.shape[1] - size[0] + 1, scene.shape[2] - size[1] + 1)
        return corners_in_scene(
            peak_scores(grey(scene[None]), self.sigma, self.subpixel)[0], layout, edge, positions, tied
        )

    def reset(self) -> None:
        """Forget the stream."""
        self._stream = Stream()

    def layout(self, frames: Tensor) -> Layout:
        """Where peaks count in these frames, and where crops may lie."""
        height, width = _check(frames).shape[2:]
        edge, margin = border(self.sigma), 0
        if self.subpixel:
            edge, margin = max(edge, subpixel.reach(self.sigma)), subpixel.MARGIN
        return plan_layout((height, width), self.crop, self.region, edge, margin)

    def peaks(self, frames: Tensor) -> Tensor:
        """The scores of the peaks that count, and 0 elsewhere. (B, C, H, W) -> (B, n, m)"""
        return self.layout(frames).counted(peak_scores(grey(frames), self.sigma, self.subpixel), border(self.sigma))

    def content(self, frame: Tensor, peak: Position, layout: Layout) -> bytes:
        """What decides between peaks of one score: what is seen around them, then their crops."""
        edge = border(self.sigma)
        around = _window(frame, (peak[0] - edge, peak[1] - edge), (2 * edge + 1, 2 * edge + 1))
        return b"".join(_digest(part) for part in (around, _window(frame, layout.corner(peak), self.crop)))

    def _choose(self, frames: Tensor, track: bool = False) -> tuple[Layout, list[Choice]]:
        """The peaks of each frame, each with the corner of its crop; of a stream, those that are kept."""
        layout, scores = self.layout(frames), self.peaks(frames)

        def best(sample: slice) -> list[Choice]:
            def content(i: int, place: Position) -> bytes:
                return self.content(frames[sample][i], layout.in_frame(place), layout)

            found = best_peaks(scores[sample], self.views, content)
            peaks = [[layout.in_frame(place) for place in places] for places in found]
            return [[(p, layout.corner(p)) for p in listed] or [(None, layout.center)] for listed in peaks]

        if not track:
            return layout, best(slice(None))
        advance = self._stream.advance
        return layout, [
            advance(b, s, layout, border(self.sigma), self.views, lambda i=i: best(slice(i, i + 1))[0])  # type: ignore[misc]
            for i, (b, s) in enumerate(zip(grey(frames), scores))
        ]

    def _all(self, choice: Choice) -> Choice:
        """One entry for each view: a frame with fewer peaks gives the same ones again."""
        return [choice[k % len(choice)] for k in range(self.views)]

    def _cut(self, frame: Tensor, layout: Layout, peak: Position | None, corner: Position) -> Tensor:
        """The crop at a corner; with `subpixel` resampled so that the peak lies on a pixel."""
        if not self.subpixel or peak is None:
            return _window(frame, corner, self.crop)
        r, m = subpixel.reach(self.sigma), subpixel.MARGIN
        exact = subpixel.refine(_window(frame, (peak[0] - r, peak[1] - r), (2 * r + 1, 2 * r + 1)), self.sigma)
        whole = [math.floor(v + 0.5) for v in exact]
        moved = (corner[0] + whole[0], corner[1] + whole[1])
        if not layout.holds(moved):
            moved = layout.corner((peak[0] + whole[0], peak[1] + whole[1]))
        block = _window(frame, (moved[0] - m, moved[1] - m), (self.crop[0] + 2 * m, self.crop[1] + 2 * m))
        block = block if block.is_floating_point() else block.float() / 255
        return subpixel.resample(block, (exact[0] - whole[0], exact[1] - whole[1]))

    def extra_repr(self) -> str:
        """What was chosen."""
        words = [f"crop={self.crop}", f"views={self.views}", f"region={self.region!r}", f"sigma={self.sigma:g}"]
        return ", ".join(words + [f"{k}=True" for k in ("subpixel", "sticky") if getattr(self, k)])


def _check(frames: Tensor) -> Tensor:
    """Frames of 8 bits, or floats in [0, 1]."""
    if not isinstance(frames, Tensor):
        raise TypeError(f"`frames` must be a torch.Tensor, not {type(frames).__name__}.")
    if frames.dim() != 4 or frames.shape[1] not in (1, 3):
        remedy = " Add the batch axis with `frames[None]`." if frames.dim() == 3 else ""
        raise ValueError(f"`frames` (shape {tuple(frames.shape)}) must be (B, C, H, W) with 1 or 3 channels.{remedy}")
    if frames.dtype != torch.uint8:
        low, high = checks.floating("frames", frames).detach().aminmax() if frames.numel() else (0.0, 1.0)
        if not 0 <= low <= high <= 1:
            raise ValueError(
                f"`frames` (from {float(low):.3g} to {float(high):.3g}) must be 8-bit pixels or lie in [0, 1]: pass "
                "them before normalisation, and normalise the crops with `transform`."
            )
    return frames


def _window(frame: Tensor, corner: Position, size: Position) -> Tensor:
    """A part of a frame (C, H, W)."""
    return frame[:, corner[0] : corner[0] + size[0], corner[1] : corner[1] + size[1]]


def _digest(pixels: Tensor) -> bytes:
    """A number that stands for the bits of some pixels."""
    return hashlib.blake2b(pixels.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes()).digest()
