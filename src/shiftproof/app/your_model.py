"""The computation for the tab Your model: measure a network from a file, or one of timm before and after conversion."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch
from torch import Tensor, nn

from shiftproof.app.sample_pictures import match_channels, sample
from shiftproof.app.uploads import hide_paths
from shiftproof.conversion import ConversionReport, conversion_report, convert
from shiftproof.evaluation.classifier import IMAGENET, Classifier
from shiftproof.invariance import Shift
from shiftproof.measurement.kind_result import KindResult
from shiftproof.measurement.measure import measure
from shiftproof.measurement.result import Measurement
from shiftproof.models.export import FORMATS
from shiftproof.models.predictor import Predictor, load_predictor
from shiftproof.reports import html_page
from shiftproof.safe_io.pictures import fit

SIZE = 64  # of pictures, if the network takes any size
SIZES = (16, 256)
REACH, FARTHEST = 4, 16  # the largest shift in pixels: default, and upper limit
SAMPLES = ("camera", "astronaut", "cat", "coffee")
_TIMM = re.compile(r"timm:[\w.]+", re.ASCII)
ShowProgress = Callable[[float, str], object]  # (share done, what is being done)


@dataclass(frozen=True)
class Request:
    """What to measure: pictures (3, H, W) by name, their size and normalisation, the kinds of shift.

    All shifts by whole pixels up to `reach` each way are tried, and all fractional shifts by eighths of a pixel.
    """

    pictures: Sequence[tuple[str, Tensor]]
    size: int = SIZE
    imagenet: bool = False
    reach: int = REACH
    kinds: Sequence[str] = ("circular",)


def sample_pictures() -> list[tuple[str, Tensor]]:
    """The pictures to measure if the user gives none."""
    return [(name, sample(name)) for name in SAMPLES]


def has_timm() -> bool:
    """Whether timm is installed."""
    return importlib.util.find_spec("timm") is not None


def measure_file(path: Path, request: Request, progress: ShowProgress) -> str:
    """The measurement of an exported program or an ONNX file, as HTML."""
    try:
        if not path.name.lower().endswith(FORMATS):
            raise ValueError(f"{path.name}: must be an exported program (.pt2) or an ONNX file (.onnx).")
        result = _measure(load_predictor(str(path)), path.name, request, progress)
    except ModuleNotFoundError as error:
        raise ValueError(f"{path.name} needs {error.name}: install it with `pip install {error.name}`.") from None
    except (ValueError, OSError) as error:
        raise ValueError(hide_paths(error, path)) from None
    parts = [f"{f'<h3>{escape(heading)}</h3>' if heading else ''}{html}" for heading, html in result.sections()]
    return f'<div class="measure">{"".join(parts)}</div>'


def measure_timm(name: str, weights: Path | None, method: str, request: Request, progress: ShowProgress) -> str:
    """The measurement of a network of timm before and after conversion to a method, as HTML.

    Without a file of weights the network keeps its random ones: nothing is downloaded. Only code of timm is run.
    """
    name = name.strip()
    if not _TIMM.fullmatch(name):
        raise ValueError(f"{name!r} must be `timm:NAME`, such as timm:resnet18.")
    if not has_timm():
        raise ValueError(f"{name} needs timm: install it with `pip install timm`.")
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            source = load_predictor(name, weights)
        new = _convert(source, method, _batch(source, request))
        converted = dataclasses.replace(source, function=new)
        words = f"{name}, converted to {method}"
        results = [
            _measure(source, name, request, lambda share, what: progress(0.4 * share, what)),
            _measure(converted, words, request, lambda share, what: progress(0.4 + 0.6 * share, what)),
        ]
    except (ValueError, OSError) as error:
        raise ValueError(hide_paths(error, *([weights] if weights else []))) from None
    notes = [] if weights else ["The weights are random: no file was given, and nothing is downloaded."]
    return _before_and_after(results, conversion_report(new), notes)


def _convert(source: Predictor, method: str, pictures: Tensor) -> nn.Module:
    model = source.function
    assert isinstance(model, nn.Module)
    try:
        return convert(model, method, example=pictures.repeat(2, 1, 1, 1)[:2]).eval()
    except Exception as error:  # tracing and running a network can raise anything
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{source.source} cannot be converted: {reason}") from error


def _measure(predictor: Predictor, name: str, request: Request, progress: ShowProgress) -> Measurement:
    batch = _batch(predictor, request)
    channels = batch.shape[1]
    normalise = request.imagenet and channels == 3
    mean, std = (IMAGENET["mean"], IMAGENET["std"]) if normalise else ((0.0,) * channels, (1.0,) * channels)
    kinds: dict[str, KindResult] = {}
    for k, kind in enumerate(request.kinds):

        def report(done: float, total: int, k: int = k) -> None:
            progress((k + done / total) / len(request.kinds), f"measuring {name}")

        result = measure(
            Classifier(predictor, mean, std),
            batch,
            shifts="all" if kind == "fractional" else _shifts_around(request.reach, batch.shape[2:]),
            kinds=[kind],
            names=[word for word, _ in request.pictures],
            report=report,
        )
        kinds |= result.kinds
    about = {"network": name, **result.about, "normalisation": "ImageNet's" if normalise else "none, pixels in [0, 1]"}
    return dataclasses.replace(result, kinds=kinds, about=about)


def _shifts_around(reach: int, sizes: Sequence[int]) -> list[Shift]:
    """All circular shifts up to `reach` pixels each way, without duplicates."""
    axes = [sorted({v % n for v in range(-reach, reach + 1)}) for n in sizes]
    return [tuple((v + n // 2) % n - n // 2 for v, n in zip(s, sizes)) for s in itertools.product(*axes)]


def _batch(predictor: Predictor, request: Request) -> Tensor:
    """The pictures with the size and the channels of the network. (B, C, H, W)"""
    low, high = SIZES
    if not low <= request.size <= high:
        raise ValueError(f"`size` (={request.size}) must be from {low} to {high} pixels.")
    size = predictor.size or (request.size, request.size)
    return torch.stack([fit(match_channels(picture, predictor.channels or 3), size) for _, picture in request.pictures])


def _before_and_after(results: Sequence[Measurement], report: ConversionReport, notes: Sequence[str]) -> str:
    """Both headlines side by side, then the numbers and maps of each; the rest is folded away."""
    leads, details = [], []
    for word, result in zip(("Before conversion", "After conversion"), results):
        (_, lead), *rest = result.sections()
        leads.append(f'<section class="half"><p class="over">{word}</p>{lead}</section>')
        details += [
            f"<details{' open' if k < 2 else ''}><summary>{word}: {escape(heading.lower())}</summary>{html}</details>"
            for k, (heading, html) in enumerate(rest)
        ]
    rows = [[r.name, r.was, r.now, r.after] for r in report.replaced]
    below = html_page.notes([*report.lines(), *notes])
    table = html_page.table(("where", "before", "now", "after"), rows)
    details.append(f"<details><summary>What was replaced</summary>{table}{below}</details>")
    return f'<div class="measure"><div class="halves">{"".join(leads)}</div>{"".join(details)}</div>'
