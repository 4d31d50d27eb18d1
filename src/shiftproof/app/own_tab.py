"""The tab Your model on the page: its controls, and what happens when they are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr

from shiftproof.app import own, panels
from shiftproof.app.layer import KINDS
from shiftproof.app.uploads import FILE_BYTES, PICTURES, take_pictures
from shiftproof.layers import methods
from shiftproof.reports import html_page

_WAYS = ("a file", "timm, by name")


def build() -> None:
    """The tab."""
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=270, elem_classes="controls"):
            way = gr.Radio(list(_WAYS), value=_WAYS[0], label="Network", elem_id="own-way")
            model = gr.File(
                label=f"model.pt2 or model.onnx, up to {FILE_BYTES >> 20} MiB", height=150, elem_id="own-model"
            )
            with gr.Column(visible=False) as by_name:
                if not own.has_timm():
                    gr.HTML(html_page.notes(["timm is not installed here: `pip install timm`."]))
                name = gr.Textbox("timm:resnet18", label="Name", max_lines=1, elem_id="own-name")
                weights = gr.File(label="Weights (.safetensors or .pt), optional", height=150)
                method = gr.Dropdown(methods(), value="ghs", label="Converted to", elem_id="own-method")
            files = gr.File(
                label=f"Pictures, up to {PICTURES}; without any: bundled ones",
                file_count="multiple",
                height=150,
                elem_id="own-pictures",
            )
            with gr.Accordion("How to measure", open=False):
                size = gr.Slider(
                    *own.SIZES,
                    value=own.SIZE,
                    step=1,
                    label="Pixels on each side, if the network takes any",
                    buttons=[],
                )
                imagenet = gr.Checkbox(False, label="Normalise as for ImageNet")
                reach = gr.Slider(
                    1, own.FARTHEST, value=own.REACH, step=1, label="Shifts up to, pixels each way", buttons=[]
                )
                kinds = gr.CheckboxGroup(list(KINDS), value=["circular"], label="Kinds of shift")
            start = gr.Button("Measure", variant="primary", elem_id="own-start")
        with gr.Column(scale=3, min_width=300, elem_classes="view"):
            view = gr.HTML(
                '<p class="soft">Give a network that takes pictures (B, C, H, W) and returns scores (B, classes). '
                "It is measured here, on your machine, and forgotten. Files are data: nothing inside of them is run "
                "as Python code.</p>",
                elem_id="own-view",
                apply_default_css=False,
                min_height=200,
            )

    way.change(
        lambda way: [gr.update(visible=way == _WAYS[0]), gr.update(visible=way == _WAYS[1])],
        way,
        [model, by_name],
        show_progress="hidden",
        api_visibility="private",
    )
    start.click(
        measure,
        [way, model, name, weights, method, files, size, imagenet, reach, kinds],
        [view, model, weights, files],
        concurrency_limit=1,
        concurrency_id="sweep",
        show_progress_on=view,
        api_visibility="private",
    )


def measure(
    way: str,
    model: str | None,
    name: str,
    weights: str | None,
    method: str,
    files: list[str] | None,
    size: int,
    imagenet: bool,
    reach: int,
    kinds: list[str],
    progress: gr.Progress = gr.Progress(),  # noqa: B008
) -> list[Any]:
    """The measure as HTML, or a sentence about what is wrong; the files are gone afterwards."""

    def report(share: float, words: str) -> None:
        progress(share, desc=words)

    try:
        pictures = take_pictures(files) if files else own.bundled()
        if not kinds:
            raise ValueError("Choose at least one kind of shift.")
        request = own.Request(pictures, int(size), imagenet, int(reach), [KINDS[kind] for kind in kinds])
        if way == _WAYS[1]:
            html = own.measure_timm(name, None if weights is None else Path(weights), method, request, report)
        elif model is None:
            raise ValueError("Choose a network first: a file model.pt2 or model.onnx.")
        else:
            html = own.measure_file(Path(model), request, report)
    except ValueError as error:
        html = panels.notice(str(error))
    finally:
        for file in (model, weights):
            if file is not None:
                Path(file).unlink(missing_ok=True)
    return [html, None, None, None]
