"""The tab Layer on the page: its controls, and what happens when they are used."""

from __future__ import annotations

from typing import Any

import gradio as gr
from torch import Tensor

from shiftproof.app import layer, panels
from shiftproof.app.samples import SAMPLES, sample
from shiftproof.app.uploads import take_picture
from shiftproof.ghs.kernel import TAPERS
from shiftproof.ghs.pivots import PIVOT_RULES
from shiftproof.ghs.sampling import ANCHORS
from shiftproof.layers import methods
from shiftproof.safe_io.pictures import fit

OWN = "your picture"
SIZES = (32, 64, 128)
SIZE = 64
STRIDES = 1, 8
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
STAGE: dict[str, Any] = {"elem_classes": "stage", "apply_default_css": False}


def build(blocks: gr.Blocks) -> None:
    """The tab; its first view is drawn when the page is loaded."""
    own = gr.State(None)
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=270, elem_classes="controls"):
            stage = gr.HTML(js_on_load="window.shiftproof.stage(element, 'layer')", **STAGE, elem_id="layer-stage")
            rows = gr.Slider(**reach("circular", SIZE), value=0, label="Rows", elem_id="layer-rows", buttons=[])
            columns = gr.Slider(
                **reach("circular", SIZE), value=0, label="Columns", elem_id="layer-columns", buttons=[]
            )
            kind = gr.Radio(list(layer.KINDS), value="circular", label="Shift", elem_id="layer-kind")
            back = gr.Button("Back to no shift", size="sm", elem_id="layer-back")
            picture = gr.Dropdown(list(SAMPLES), value="camera", label="Picture", elem_id="layer-picture")
            file = gr.UploadButton("Upload a picture of your own", size="sm", elem_id="layer-upload")
            message = gr.HTML(elem_id="layer-message", visible=False)
            size = gr.Radio(SIZES, value=SIZE, label="Pixels on each side", elem_id="layer-size")
        with gr.Column(scale=3, min_width=300, elem_classes="view"):
            chosen = gr.Dropdown(
                methods(), value=list(layer.METHODS), multiselect=True, label="Methods", elem_id="layer-methods"
            )
            view = gr.HTML(elem_id="layer-view", apply_default_css=False)
            with gr.Accordion("Inside GHS: parameters, matrix and functions", open=False, elem_id="layer-parameters"):
                usual = layer.Settings()
                with gr.Row():
                    stride = gr.Slider(*STRIDES, value=usual.stride, step=1, label="Stride", buttons=[])
                    free: dict[str, Any] = {"allow_custom_value": True, "min_width": 110}
                    orders = gr.Dropdown(["N", "2N", "4N", "M"], value=usual.orders, label="Orders", **free)
                    words = ["band", "1.5*band", "0.5*band", "rule"]
                    sigma = gr.Dropdown(words, value=usual.sigma, label="Sigma", **free)
                    taper = gr.Dropdown(list(TAPERS), value=usual.taper, label="Taper", min_width=110)
                    anchor = gr.Radio(list(ANCHORS), value=usual.anchor, label="Anchor", min_width=180)
                    pivot = gr.Radio(list(PIVOT_RULES), value=usual.pivot_rule, label="Pivot", min_width=240)
                inside = gr.HTML(elem_id="layer-inside", apply_default_css=False)

    settings: list[Any] = [stride, orders, sigma, taper, anchor, pivot]
    seen = [picture, own, size, kind, rows, columns, chosen, *settings]
    drawn = [stage, view]
    gr.on(
        [blocks.load, picture.input, size.change, kind.change, rows.change, columns.change, chosen.change]
        + [control.change for control in settings],
        show,
        seen,
        drawn,
        trigger_mode="always_last",
        **QUIET,
    )
    gr.on(
        [blocks.load, size.change, *(control.change for control in settings)],
        show_inside,
        [size, *settings],
        inside,
        trigger_mode="always_last",
        **QUIET,
    )
    gr.on([size.change, kind.change], fit_sliders, [kind, size, rows, columns], [rows, columns], **QUIET)
    back.click(show_unmoved, seen, [rows, columns, *drawn], **QUIET)
    file.upload(receive, [file, *seen], [own, picture, message, *drawn], concurrency_limit=1, **QUIET)


def show(
    picture: str,
    own: Tensor | None,
    size: int,
    kind: str,
    rows: float,
    columns: float,
    chosen: list[str],
    *settings: Any,
) -> tuple[str, str]:
    """The picture and the panels for the state of the controls."""
    image = fit(own if picture == OWN and own is not None else sample(picture), (size, size))[None]
    shift = bounded(kind, size, rows, columns)
    found = layer.compare(image, shift, layer.KINDS[kind], chosen, settled(*settings))
    return panels.stage(found, shift, kind, picture), panels.methods(found)


def show_unmoved(
    picture: str, own: Tensor | None, size: int, kind: str, rows: float, columns: float, *others: Any
) -> tuple[Any, ...]:
    """The sliders at no shift, and what is shown there."""
    return 0, 0, *show(picture, own, size, kind, 0, 0, *others)


def show_inside(size: int, *settings: Any) -> str:
    """The matrix and the functions of GHS for the state of the controls."""
    try:
        return panels.inner(layer.inside(size, settled(*settings)))
    except (ValueError, TypeError) as error:
        return panels.notice(str(error))


def settled(stride: float | None, *others: Any) -> layer.Settings:
    """The settings, the stride within its reach: its field is empty between one number and the next."""
    least, most = STRIDES
    return layer.Settings(round(min(max(stride or layer.Settings().stride, least), most)), *others)


def reach(kind: str, size: int) -> dict[str, Any]:
    """How far the sliders go: every circular shift once, half the picture for cropped ones, little below a pixel.

    >>> reach("circular", 32)
    {'minimum': -16, 'maximum': 15, 'step': 1}
    """
    if kind == "sub-pixel":
        return {"minimum": -layer.REACH, "maximum": layer.REACH, "step": 0.125}
    half = size // 2
    return {"minimum": -half, "maximum": size - 1 - half if kind == "circular" else half, "step": 1}


def bounded(kind: str, size: int, *values: float | None) -> tuple[float, float]:
    """What the sliders say, within their reach: somebody may have typed anything, or nothing."""
    limits = reach(kind, size)
    rows, columns = (min(max(v or 0, limits["minimum"]), limits["maximum"]) for v in values)
    return (rows, columns) if kind == "sub-pixel" else (round(rows), round(columns))


def fit_sliders(kind: str, size: int, *values: float) -> list[Any]:
    """The sliders with the reach that the kind of shift and the size give them."""
    return [gr.Slider(value=v, **reach(kind, size)) for v in bounded(kind, size, *values)]


def receive(file: str | None, picture: str, own: Tensor | None, *others: Any) -> tuple[Any, ...]:
    """An upload: it becomes the picture of this visitor and is shown, or a sentence says why not."""
    own, picture, words = read(file, picture, own)
    choices = gr.Dropdown(choices=[*SAMPLES, *([OWN] if own is not None else [])], value=picture)
    return own, choices, gr.HTML(words, visible=bool(words)), *show(picture, own, *others)


def read(file: str | None, picture: str, own: Tensor | None) -> tuple[Tensor | None, str, str]:
    """What becomes of an upload: the visitor's own picture, the name of the one to show, and what went wrong."""
    if file is None:
        return own, picture, ""
    try:
        return take_picture(file), OWN, ""
    except ValueError as error:
        return own, picture, panels.notice(str(error))
