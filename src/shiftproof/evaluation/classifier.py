"""A network as the measures use it: pictures in [0, 1] to scores, in batches that all have the same shape."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from shiftproof import checks

ProgressCallback = Callable[[str, int, int], object]  # (what, done, total)
Change = Callable[[Tensor, slice], Tensor]  # (images, their places in the data set) -> changed images
IMAGENET: dict[str, tuple[float, ...]] = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


class Classifier:
    """Images (B, C, H, W) in [0, 1] to scores (B, classes): model((x - mean) / std), without gradients.

    Images go to the device of the model. The caller puts the model in evaluation mode (`evaluating`). `batch_size` is
    how many images the measures put through the model at a time; `report` hears of their progress.
    """

    def __init__(
        self,
        model: Callable[[Tensor], Tensor],
        mean: Sequence[float],
        std: Sequence[float],
        batch_size: int = 250,
        report: ProgressCallback | None = None,
    ) -> None:
        if len(mean) != len(std):
            raise ValueError(f"`mean` (={tuple(mean)}) and `std` (={tuple(std)}) must have one value per channel each.")
        self.model, self.report = model, report or (lambda *_: None)
        self.batch_size = checks.integer("batch_size", batch_size)
        self.mean, self.std = tuple(float(v) for v in mean), tuple(checks.positive("std", v) for v in std)
        first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
        self.device = torch.device("cpu") if first is None else first.device

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of a batch."""
        with torch.no_grad():
            return self.model(self.normalised(x))

    def normalised(self, x: Tensor) -> Tensor:
        """(x - mean) / std, on the device of the model."""
        if x.dim() != 4 or x.shape[1] != len(self.mean):
            raise ValueError(f"`x` (shape {tuple(x.shape)}) must be images (B, C, H, W) with C = {len(self.mean)}.")
        x = x.to(self.device)
        mean, std = (torch.tensor(v, dtype=x.dtype, device=x.device).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return (x - mean) / std

    def scores(self, images: Tensor, change: Change | None = None, name: str = "scores") -> Tensor:
        """Scores of all images, 8-bit or in [0, 1], each batch changed first. (N, C, H, W) -> (N, classes), on the CPU

        Every call has the same shape, because rounding may depend on it: the last batch is filled up with copies whose
        scores are discarded.
        """
        count = images.shape[0]
        if count == 0:
            raise ValueError("`images` must hold at least one image.")
        size = min(self.batch_size, count)
        out = []
        for start in range(0, count, size):
            where = slice(start, min(start + size, count))
            x = pixels(images[where])
            if change is not None:
                x = change(x, where)
            missing = size - x.shape[0]
            found = self(torch.cat([x, x[-1:].expand(missing, -1, -1, -1)]) if missing else x)
            if found.dim() != 2 or found.shape[0] != size:
                raise ValueError(
                    f"the model must return scores ({size}, classes), not a tensor of shape {tuple(found.shape)}."
                )
            out.append(found[: size - missing].detach().float().cpu())
            self.report(name, where.stop, count)
        return torch.cat(out)


@contextlib.contextmanager
def evaluating(model: object) -> Iterator[None]:
    """A network in evaluation mode; afterwards every module has the mode it had before.

    Nothing happens to other functions, and to exported programs: they have one mode, and their `eval` is an error.
    """
    if not isinstance(model, nn.Module) or "eval" in vars(model):
        yield
        return
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def pixels(images: Tensor) -> Tensor:
    """8-bit images as floats in [0, 1]; floats unchanged."""
    return images if images.is_floating_point() else images.float() / 255
