"""The tab Layer: its controls and their events."""

from __future__ import annotations

from typing import Any

import gradio as gr
from torch import Tensor

from shiftproof.app import layer_panels
from shiftproof.app.drawing import notice
from shiftproof.app.ghs_options import CHOICES, Settings, look_inside
from shiftproof.app.layer_comparison import KINDS, METHODS, REACH, compare
from shiftproof.app.sample_pictures import SAMPLES, sample
from shiftproof.app.uploads import take_picture
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
            limits = slider_range("circular", SIZE)
            rows = gr.Slider(**limits, value=0, label="Rows", elem_id="layer-rows", buttons=[])
            columns = gr.Slider(**limits, value=0, label="Columns", elem_id="layer-columns", buttons=[])
            kind = gr.Radio(list(KINDS), value="circular", label="Shift", elem_id="layer-kind")
            back = gr.Button("Reset the shift", size="sm", elem_id="layer-back")
            picture = gr.Dropdown(list(SAMPLES), value="camera", label="Picture", elem_id="layer-picture")
            file = gr.UploadButton("Upload your own picture", size="sm", elem_id="layer-upload")
            message = gr.HTML(elem_id="layer-message", visible=False)
            size = gr.Radio(SIZES, value=SIZE, label="Size in pixels", elem_id="layer-size")
        with gr.Column(scale=3, min_width=300, elem_classes="view"):
            chosen = gr.Dropdown(
                methods(), value=list(METHODS), multiselect=True, label="Methods", elem_id="layer-methods"
            )
            view = gr.HTML(elem_id="layer-view", apply_default_css=False)
            with gr.Accordion("Inside GHS: parameters, matrix and functions", open=False, elem_id="layer-parameters"):
                settings = _controls()
                inside = gr.HTML(elem_id="layer-inside", apply_default_css=False)

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


def _controls() -> list[Any]:
    """A control for each field of `Settings`, in the same order."""
    default = Settings()
    typed: dict[str, Any] = {"allow_custom_value": True, "min_width": 110}
    with gr.Row():
        return [
            gr.Slider(*STRIDES, value=default.stride, step=1, label="Stride", buttons=[]),
            gr.Dropdown(CHOICES["orders"], value=default.orders, label="Orders", **typed),
            gr.Dropdown(CHOICES["sigma"], value=default.sigma, label="Sigma", **typed),
            gr.Dropdown(CHOICES["taper"], value=default.taper, label="Taper", min_width=110),
            gr.Radio(CHOICES["anchor"], value=default.anchor, label="Anchor", min_width=180),
            gr.Radio(CHOICES["pivot_rule"], value=default.pivot_rule, label="Pivot rule", min_width=240),
        ]


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
    """The moved picture and the panels for the values of the controls."""
    image = fit(own if picture == OWN and own is not None else sample(picture), (size, size))[None]
    shift = bounded(kind, size, rows), bounded(kind, size, columns)
    found = compare(image, shift, KINDS[kind], chosen, read_settings(*settings))
    return layer_panels.moved_picture(found, shift, kind, picture), layer_panels.methods(found)


def show_unmoved(
    picture: str, own: Tensor | None, size: int, kind: str, rows: float, columns: float, *others: Any
) -> tuple[Any, ...]:
    """Both sliders at 0, and the view without a shift."""
    return 0, 0, *show(picture, own, size, kind, 0, 0, *others)


def show_inside(size: int, *settings: Any) -> str:
    """The matrix and the functions of GHS for the values of the controls."""
    try:
        return layer_panels.inside_ghs(look_inside(size, read_settings(*settings)))
    except (ValueError, TypeError) as error:
        return notice(str(error))


def read_settings(stride: float | None, *others: Any) -> Settings:
    """The settings, with the stride limited to `STRIDES`: its field may be empty while the user types."""
    least, most = STRIDES
    return Settings(round(min(max(stride or Settings().stride, least), most)), *others)


def slider_range(kind: str, size: int) -> dict[str, Any]:
    """The range of the sliders: each circular shift once, cropped ones up to half the picture, fractions of a pixel.

    >>> slider_range("circular", 32)
    {'minimum': -16, 'maximum': 15, 'step': 1}
    """
    if kind == "sub-pixel":
        return {"minimum": -REACH, "maximum": REACH, "step": 0.125}
    half = size // 2
    return {"minimum": -half, "maximum": size - 1 - half if kind == "circular" else half, "step": 1}


def bounded(kind: str, size: int, value: float | None) -> float:
    """The value of a slider, limited to its range: the user may type any number, or none."""
    limits = slider_range(kind, size)
    value = min(max(value or 0, limits["minimum"]), limits["maximum"])
    return value if kind == "sub-pixel" else round(value)


def fit_sliders(kind: str, size: int, *values: float) -> list[Any]:
    """The sliders with the range for this kind of shift and this size."""
    return [gr.Slider(value=bounded(kind, size, v), **slider_range(kind, size)) for v in values]


def receive(file: str | None, picture: str, own: Tensor | None, *others: Any) -> tuple[Any, ...]:
    """Show an uploaded picture, or a message that says why it cannot be shown."""
    own, picture, problem = read_upload(file, picture, own)
    choices = gr.Dropdown(choices=[*SAMPLES, *([OWN] if own is not None else [])], value=picture)
    return own, choices, gr.HTML(problem, visible=bool(problem)), *show(picture, own, *others)


def read_upload(file: str | None, picture: str, own: Tensor | None) -> tuple[Tensor | None, str, str]:
    """The user's own picture, the name of the picture to show, and the problem with the upload, if any."""
    if file is None:
        return own, picture, ""
    try:
        return take_picture(file), OWN, ""
    except ValueError as error:
        return own, picture, notice(str(error))
