"""Loss and accuracy on held-out images."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from shiftproof.data.batches import in_order, normalise
from shiftproof.data.sets import Dataset, Images
from shiftproof.training.distributed import World

_BATCH = 250  # images


def validate(
    model: nn.Module,
    images: Images,
    dataset: Dataset,
    form: torch.memory_format,
    world: World,
    autocast: Callable[[], contextlib.AbstractContextManager[Any]],
) -> dict[str, Any]:
    """Loss and accuracy of a network, over all processes; a loss that is not finite is None."""
    model.eval()
    sums = [0.0, 0.0]
    with torch.no_grad():
        for x, labels in in_order(images, _BATCH, rank=world.rank, world=world.size):
            labels = labels.to(world.device)
            with autocast():
                scores = model(normalise(x.to(world.device), dataset.mean, dataset.std, form)).float()
            sums[0] += float(F.cross_entropy(scores, labels, reduction="sum"))
            sums[1] += float((scores.argmax(1) == labels).sum())
    loss, right = (v / len(images.labels) for v in world.total(sums))
    return {"validation_loss": loss if math.isfinite(loss) else None, "validation_accuracy": right}
