"""The tab Your model: its controls and their events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from shiftproof.app import your_model
from shiftproof.app.drawing import notice
from shiftproof.app.layer_comparison import KINDS
from shiftproof.app.layer_tab import QUIET
from shiftproof.app.uploads import FILE_BYTES, PICTURES, take_pictures
from shiftproof.layers import methods
from shiftproof.reports import html_page

HINT = (
    '<p class="soft">Choose a network that takes pictures (B, C, H, W) and returns scores (B, classes). It is measured '
    "on this machine, then deleted. Files are read as data: no Python code in them is run.</p>"
)
_SOURCES = ("a file", "timm, by name")


def build() -> None:
    """The tab."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=270, elem_classes="controls"):
            source = gr.Radio(list(_SOURCES), value=_SOURCES[0], label="Network", elem_id="own-source")
            label = f"model.pt2 or model.onnx, up to {FILE_BYTES >> 20} MiB"
            model = gr.File(label=label, height=150, elem_id="own-model")
            with gr.Column(visible=False) as by_name:
                if not your_model.has_timm():
                    gr.HTML(html_page.notes(["timm is not installed. Install it with `pip install timm`."]))
                name = gr.Textbox("timm:resnet18", label="Name", max_lines=1, elem_id="own-name")
                weights = gr.File(label="Weights (.safetensors or .pt), optional", height=150)
                method = gr.Dropdown(methods(), value="ghs", label="Convert to", elem_id="own-method")
            label = f"Up to {PICTURES} pictures; default: samples"
            files = gr.File(label=label, file_count="multiple", height=150, elem_id="own-pictures")
            with gr.Accordion("How to measure", open=False):
                least, most = your_model.SIZES
                label = "Size in pixels, if the network takes any"
                size = gr.Slider(least, most, value=your_model.SIZE, step=1, label=label, buttons=[])
                imagenet = gr.Checkbox(False, label="Normalise for ImageNet")
                reach = gr.Slider(
                    1, your_model.FARTHEST, value=your_model.REACH, step=1, label="Largest shift in pixels", buttons=[]
                )
                kinds = gr.CheckboxGroup(list(KINDS), value=["circular"], label="Kinds of shift")
            start = gr.Button("Measure", variant="primary", elem_id="own-start")
        with gr.Column(scale=3, min_width=300, elem_classes="view"):
            view = gr.HTML(HINT, elem_id="own-view", apply_default_css=False, min_height=200)

    source.change(
        lambda source: [gr.update(visible=source == _SOURCES[0]), gr.update(visible=source == _SOURCES[1])],
        source,
        [model, by_name],
        **QUIET,
    )
    start.click(
        measure,
        [source, model, name, weights, method, files, size, imagenet, reach, kinds],
        [view, model, weights, files],
        concurrency_limit=1,
        concurrency_id="sweep",
        show_progress_on=view,
        api_visibility="private",
    )


def measure(
    source: str,
    model: str | None,
    name: str,
    weights: str | None,
    method: str,
    files: list[str] | None,
    size: int,
    imagenet: bool,
    reach: int,
    kinds: list[str],
) -> list[Any]:
    """The measurement as HTML, or a message about what is wrong. The uploaded files are deleted."""
    progress = gr.Progress()

    def report(share: float, text: str) -> None:
        progress(share, desc=text)

    try:
        pictures = take_pictures(files) if files else your_model.sample_pictures()
        if not kinds:
            raise ValueError("Choose at least one kind of shift.")
        request = your_model.Request(pictures, int(size), imagenet, int(reach), [KINDS[kind] for kind in kinds])
        if source == _SOURCES[1]:
            html = your_model.measure_timm(name, None if weights is None else Path(weights), method, request, report)
        elif model is None:
            raise ValueError("Choose a network first: a file such as model.pt2 or model.onnx.")
        else:
            html = your_model.measure_file(Path(model), request, report)
    except ValueError as error:
        html = notice(str(error))
    finally:
        for file in (model, weights):
            if file is not None:
                Path(file).unlink(missing_ok=True)
    return [html, None, None, None]
