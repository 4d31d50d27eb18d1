"""The page as gradio blocks: a header, three tabs, and the theme."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import gradio as gr

from shiftproof.app import layer_tab, network_tab, your_model_tab
from shiftproof.app.networks import Library

WAITING = 1024  # events that may wait, a few for each visitor; others get a 503, and the page says that it is busy
HEAD = (
    '<div id="head"><h1>shiftproof</h1><p>Drag a picture and watch how each layer and each network responds: '
    "most change their output when it moves by one pixel, some do not change a single bit.</p></div>"
)
FONT = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "DejaVu Sans Mono", "monospace")
ACCENT = gr.themes.Color("#eef7fb", "#d6ecf5", "#aedaeb", "#7cc3de", "#43a9d6", "#1b8abb", "#0b6e99", "#095878",
                         "#08455e", "#063547", "#04222e")  # fmt: skip


def build(library: Library, data_dir: Path | None = None) -> Any:
    """The page with all its events."""
    with gr.Blocks(title="shiftproof", analytics_enabled=False, fill_width=True, delete_cache=(600, 3600)) as blocks:
        gr.HTML(HEAD)
        with gr.Tabs():
            with gr.Tab("Layer", id="layer"):
                layer_tab.build(blocks)
            with gr.Tab("Network", id="network") as tab:
                network_tab.build(tab, library, data_dir)
            with gr.Tab("Your model", id="own"):
                your_model_tab.build()
    blocks.queue(api_open=False, max_size=WAITING, default_concurrency_limit=4)
    return blocks


def theme() -> Any:
    """The colours of the reports, and fonts that every system has."""
    base = gr.themes.Base(
        font=FONT,
        font_mono=MONO,
        spacing_size="sm",
        radius_size="md",
        neutral_hue=gr.themes.colors.slate,
        primary_hue=ACCENT,
    )
    return base.set(
        body_background_fill="#ffffff",
        body_background_fill_dark="#16191d",
        background_fill_primary_dark="#16191d",
        background_fill_secondary_dark="#1f242a",
        block_background_fill_dark="#16191d",
        input_background_fill_dark="#1f242a",
        border_color_primary_dark="#363d45",
        block_border_color_dark="#363d45",
        button_secondary_background_fill_dark="#2a3037",
        button_secondary_background_fill_hover_dark="#363d45",
        checkbox_label_background_fill_dark="#2a3037",
        checkbox_label_background_fill_hover_dark="#363d45",
        slider_color="*primary_600",
        slider_color_dark="*primary_400",
        checkbox_background_color_selected="*primary_600",
        checkbox_border_color_selected="*primary_600",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_dark="*primary_600",
        button_primary_text_color="#ffffff",
        block_label_text_size="*text_sm",
        block_title_text_size="*text_sm",
        block_title_text_weight="500",
    )


def asset(name: str) -> str:
    """The text of a file in this folder."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
