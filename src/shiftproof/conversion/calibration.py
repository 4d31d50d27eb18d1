"""Fit the statistics of batch norms to a conversion, from pictures without labels.

The statistics that come with trained weights are those of the training, with its augmentation. Estimated anew from
plain pictures they are others, in the source too, and it gets worse. So only what the conversion changed is taken from
the pictures: the difference between the maps of the converted network and those of the source.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof import checks, progress
from shiftproof.conversion.report import ConversionReport, attach_report, find_report
from shiftproof.tensors import leaves

_EVERY = 5  # one batch in so many is held out


class _Moments(NamedTuple):
    """Mean and variance of the maps that a norm sees, by channel."""

    mean: Tensor
    variance: Tensor


def calibrate(
    model: nn.Module,
    images: Tensor | Iterable[Any],
    source: nn.Module,
    *,
    momentum: float | None = None,
    batch_size: int = 100,
) -> nn.Module:
    r"""A copy of a converted network whose batch norms expect the maps that it has, from pictures without labels.

    .. math:: \mu \leftarrow \mu + (m - m_0), \quad v \leftarrow v \, \frac{s^2 + \epsilon}{s_0^2 + \epsilon}

    with m and s^2 the moments of the maps of `model` on the pictures, layer after layer as it is calibrated, and m_0
    and s_0^2 those of the maps of `source`, the network that it was converted from.

    * weights do not change, and neither does any guarantee: a batch norm treats all positions alike;
    * never worse: one batch in five is held out. Where the answers there are not closer to those of the source than
      before, in the mean square, the statistics are left as they were. `conversion_report` says which it was.

    `images`: inputs (N, C, H, W), or batches of them, such as a data loader gives; labels are ignored. A few hundred
    are enough.
    `momentum`: how much each batch counts against those before it; None: all batches alike.

    >>> net = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).eval()
    >>> from shiftproof.conversion import convert
    >>> new = calibrate(convert(net), torch.rand(100, 3, 16, 16), net)
    """
    if momentum is not None and not 0 < momentum <= 1:
        raise ValueError(f"`momentum` (={momentum}) must be above 0 and at most 1.")
    new = copy.deepcopy(model)
    norms, theirs = _norms(new), _norms(source)
    if not norms:
        raise ValueError("`model` has no batch norm with running statistics, so there is nothing to calibrate.")
    missing = [name for name in norms if name not in theirs]
    if missing:
        raise ValueError(
            f"`source` has no batch norm `{missing[0]}`: it must be the network that `model` was converted from."
        )
    batches = _batches(images, checks.integer("batch_size", batch_size))
    every = min(_EVERY, len(batches))
    held = batches[every - 1 :: every]
    used = [batch for i, batch in enumerate(batches) if i % every != every - 1] or batches
    with torch.no_grad(), _evaluating(source, new), progress.reporting("calibrating") as report:
        before = _distance(new, source, held)
        stored = {name: _Moments(m.running_mean.clone(), m.running_var.clone()) for name, m in norms.items()}
        total: dict[str, list[Tensor]] = {}
        for k, x in enumerate(used, start=1):
            _take_batch(new, source, x, stored, total, 1 / k if momentum is None or k == 1 else momentum)
            report("batches", k, len(used))
        after = _distance(new, source, held)
        better = after < before
        if not better:
            for name, m in norms.items():
                m.running_mean.copy_(stored[name].mean)
                m.running_var.copy_(stored[name].variance)
    _note(new, sum(len(x) for x in used), sum(len(x) for x in held), before, after)
    return new


def _take_batch(
    model: nn.Module,
    source: nn.Module,
    x: Tensor,
    stored: dict[str, _Moments],
    total: dict[str, list[Tensor]],
    weight: float,
) -> None:
    """Move the mean of all changes, and with it the norms, towards the changes that one batch shows."""
    expected: dict[str, list[_Moments]] = defaultdict(list)
    calls: dict[str, int] = defaultdict(int)

    def see(name: str, norm: Any, maps: Tensor) -> None:
        expected[name].append(_moments(maps))

    def fit(name: str, norm: Any, maps: Tensor) -> None:
        theirs, ours = expected[name][calls[name]], _moments(maps)
        change = [ours.mean - theirs.mean, ((ours.variance + norm.eps) / (theirs.variance + norm.eps)).log()]
        share = weight if calls[name] == 0 else 1 / (calls[name] + 1)  # a norm that is called again
        calls[name] += 1
        so_far = total.setdefault(name, [torch.zeros_like(c) for c in change])
        total[name] = [t + share * (c - t) for t, c in zip(so_far, change)]
        shift, ratio = total[name]
        norm.running_mean.copy_(stored[name].mean + shift)
        norm.running_var.copy_(stored[name].variance * ratio.exp())

    with _watching(source, see):
        source(x)
    with _watching(model, fit):  # each norm is fitted before it is used, so the next one sees calibrated maps
        model(x)


def _norms(model: nn.Module) -> dict[str, Any]:
    """The batch norms that have running statistics, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, _BatchNorm) and m.running_mean is not None}


def _moments(x: Tensor) -> _Moments:
    """Over the batch and all positions, in float64. (B, C, ...) -> (C,)"""
    flat = x.movedim(1, 0).flatten(1).double()
    variance, mean = torch.var_mean(flat, 1, correction=0)
    return _Moments(mean, variance)


@contextmanager
def _watching(model: nn.Module, see: Callable[[str, Any, Tensor], None]) -> Iterator[None]:
    """Call `see` with each batch norm of a network, and what it is given."""
    with ExitStack() as stack:
        for name, norm in _norms(model).items():
            handle = norm.register_forward_pre_hook(lambda m, inputs, name=name: see(name, m, inputs[0]))
            stack.callback(handle.remove)
        yield


@contextmanager
def _evaluating(*models: nn.Module) -> Iterator[None]:
    modes = [(m, m.training) for model in models for m in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for m, training in modes:
            m.training = training


def _batches(images: Tensor | Iterable[Any], size: int) -> list[Tensor]:
    """Batches of inputs, without labels."""
    given = torch.split(images, size) if isinstance(images, Tensor) else images
    batches = [batch[0] if isinstance(batch, (tuple, list)) else batch for batch in given]
    for batch in batches:
        checks.floating("images", batch)
    if not sum(len(batch) for batch in batches):
        raise ValueError("`images` are none: give a few hundred inputs such as the network will see.")
    if len(batches) == 1 and len(batches[0]) > 1:  # some to learn from, some to judge by
        batches = list(batches[0].tensor_split(min(_EVERY, len(batches[0]))))
    return batches


def _distance(model: nn.Module, source: nn.Module, batches: list[Tensor]) -> float:
    """The mean square of the difference between the answers of two networks, relative to those of the source."""
    difference = size = 0.0
    for x in batches:
        pairs = zip(*(leaves(network(x)) for network in (model, source)))
        for ours, theirs in pairs:
            if isinstance(ours, Tensor) and ours.is_floating_point() and ours.shape == theirs.shape:
                difference += float((ours - theirs).double().square().sum())
                size += float(theirs.double().square().sum())
    return difference / size if size else math.nan


def _note(model: nn.Module, used: int, held: int, before: float, after: float) -> None:
    """Say in the report of a conversion, if there is one, what the calibration did."""
    report = find_report(model)
    if report is None:
        return
    words = "it is taken back" if not after < before else "it is kept"
    note = (
        f"Batch norms calibrated on {used} pictures: on {held} others the answers differ from those of the source by "
        f"{math.sqrt(after):.3f} of their size, {math.sqrt(before):.3f} before; {words}."
    )
    notes = [n for n in report.notes if not n.startswith("Batch norms calibrated")]
    attach_report(model, ConversionReport(**{**vars(report), "notes": [*notes, note]}))
