"""The tab Your model, without the page: a network from a file, or timm's by name, measured on somebody's pictures."""

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

from shiftproof.app.samples import in_colours, sample
from shiftproof.app.uploads import plain
from shiftproof.evaluation.classifier import Classifier
from shiftproof.invariance import Shifts
from shiftproof.models import ConversionError, ConversionReport, conversion_report, convert
from shiftproof.models.files import FORMATS
from shiftproof.models.programs import Predictor, load_predictor
from shiftproof.reports import measure_page, page
from shiftproof.reports.measure import IMAGENET, measure
from shiftproof.reports.measurement import KindResult, Measurement
from shiftproof.reports.pictures import fit

SIZE = 64  # of pictures, where the network takes any
SIZES = (16, 256)
REACH, FARTHEST = 4, 16  # pixels of the shifts that are tried, each way
BUNDLED = ("camera", "astronaut", "cat", "coffee")
_TIMM = re.compile(r"timm:[\w.]+", re.ASCII)
Progress = Callable[[float, str], object]  # (share done, what is being done)


@dataclass(frozen=True)
class Request:
    """What to measure: pictures (3, H, W) by name, their size and normalisation, the kinds of shift.

    Every shift by whole pixels up to `reach` each way is tried; of fractional ones all multiples of 1/8 of a pixel.
    """

    pictures: Sequence[tuple[str, Tensor]]
    size: int = SIZE
    imagenet: bool = False
    reach: int = REACH
    kinds: Sequence[str] = ("circular",)


def bundled() -> list[tuple[str, Tensor]]:
    """The pictures that are measured where nobody gives any."""
    return [(name, sample(name)) for name in BUNDLED]


def has_timm() -> bool:
    """Whether timm is installed."""
    return importlib.util.find_spec("timm") is not None


def measure_file(path: Path, request: Request, progress: Progress | None = None) -> str:
    """The measure of an exported program or an ONNX file, as HTML; the file is deleted whatever comes of it."""
    try:
        if not path.name.lower().endswith(FORMATS):
            raise ValueError(f"{path.name}: must be an exported program (.pt2) or an ONNX file (.onnx).")
        predictor = load_predictor(str(path))
        result = _measure(predictor, path.name, request, progress, 0.0, 1.0)
    except ModuleNotFoundError as error:
        raise ValueError(f"{path.name} needs {error.name}: install it with `pip install {error.name}`.") from None
    except (ValueError, OSError) as error:
        raise ValueError(plain(error, path)) from None
    finally:
        path.unlink(missing_ok=True)
    return _html(measure_page.sections(result))


def measure_timm(
    name: str, weights: Path | None, method: str, request: Request, progress: Progress | None = None
) -> str:
    """The measure of a network of timm's before and after conversion to a method, as HTML; `weights` are deleted.

    Without weights it has those it was drawn with: nothing is downloaded. Other Python code than timm's is not run.
    """
    try:
        name = name.strip()
        if not _TIMM.fullmatch(name):
            raise ValueError(f"{name!r} must be `timm:NAME`, such as timm:resnet18.")
        if not has_timm():
            raise ValueError(f"{name} needs timm: install it with `pip install timm`.")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            before = load_predictor(name, weights)
        source = before.function
        assert isinstance(source, nn.Module)
        example = _batch(before, request)
        try:
            new = convert(source, method, example=example.repeat(2, 1, 1, 1)[:2])
        except ConversionError as error:
            raise ValueError(f"{name} cannot be converted: {error}") from None
        results = [
            _measure(before, name, request, progress, 0.0, 0.4),
            _measure(
                dataclasses.replace(before, function=new.eval()),
                f"{name}, converted to {method}",
                request,
                progress,
                0.4,
                1.0,
            ),
        ]
    except (ValueError, OSError) as error:
        raise ValueError(plain(error, *([weights] if weights else []))) from None
    finally:
        if weights is not None:
            weights.unlink(missing_ok=True)
    return _before_and_after(results, conversion_report(new), trained=weights is not None)


def _measure(
    predictor: Predictor, name: str, request: Request, progress: Progress | None, start: float, end: float
) -> Measurement:
    batch = _batch(predictor, request)
    channels = batch.shape[1]
    ready = request.imagenet and channels == 3
    mean, std = (IMAGENET["mean"], IMAGENET["std"]) if ready else ((0.0,) * channels, (1.0,) * channels)

    kinds: dict[str, KindResult] = {}
    for k, kind in enumerate(request.kinds):

        def report(done: float, total: int, k: int = k) -> None:
            if progress is not None:
                share = (k + done / total) / len(request.kinds)
                progress(start + (end - start) * share, f"measuring {name}")

        result = measure(
            Classifier(predictor, mean, std),
            batch,
            shifts="all" if kind == "fractional" else _around(request.reach, batch.shape[2:]),
            kinds=[kind],
            names=[word for word, _ in request.pictures],
            report=report,
        )
        kinds |= result.kinds
    about = {"network": name, **result.about, "normalisation": "ImageNet's" if ready else "none, pixels in [0, 1]"}
    return dataclasses.replace(result, kinds=kinds, about=about)


def _around(reach: int, sizes: Sequence[int]) -> Shifts:
    """Every shift by up to `reach` pixels each way, each once."""
    axes = [sorted({v % n for v in range(-reach, reach + 1)}) for n in sizes]
    return [tuple((v + n // 2) % n - n // 2 for v, n in zip(s, sizes)) for s in itertools.product(*axes)]


def _batch(predictor: Predictor, request: Request) -> Tensor:
    """The pictures in the size and colours of the network. (B, C, H, W)"""
    low, high = SIZES
    if not low <= request.size <= high:
        raise ValueError(f"`size` (={request.size}) must be from {low} to {high} pixels here.")
    size = predictor.size or (request.size, request.size)
    return torch.stack([fit(in_colours(picture, predictor.channels or 3), size) for _, picture in request.pictures])


def _before_and_after(results: Sequence[Measurement], report: ConversionReport, trained: bool) -> str:
    head = ("where", "was", "is", "behind")
    rows = [[r.name, r.was, r.now, r.after] for r in report.replaced]
    notes = [line for line in report.lines() if "fine-tuning" not in line]
    if not trained:
        notes.append("Its weights are random: none were given, and none are downloaded. Shifts matter all the same.")
    else:
        notes.append("The weights were trained without the new layers: they want fine-tuning.")
    replaced = page.table(head, rows) + "".join(f'<p class="soft">{escape(note)}</p>' for note in notes)
    parts = []
    for word, result in zip(("Before conversion", "After conversion"), results):
        (_, lead), *rest = measure_page.sections(result)
        parts.append(f'<section class="half"><p class="over">{word}</p>{lead}</section>')
        parts.append("".join(f"<details{_open(k)}><summary>{word}: {heading.lower()}</summary>{html}</details>"
                             for k, (heading, html) in enumerate(rest)))  # fmt: skip
    leads, details = parts[::2], parts[1::2]
    what = f"<details><summary>What was replaced</summary>{replaced}</details>"
    return f'<div class="measure"><div class="halves">{"".join(leads)}</div>{"".join(details)}{what}</div>'


def _open(k: int) -> str:
    """Numbers and heat maps are seen at once, the rest on request."""
    return " open" if k < 2 else ""


def _html(sections: Sequence[tuple[str, str]]) -> str:
    body = "".join(
        f"<section>{f'<h3>{escape(heading)}</h3>' if heading else ''}{html}</section>" for heading, html in sections
    )
    return f'<div class="measure">{body}</div>'
