"""The tab Network: its controls and their events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from torch import Tensor

from shiftproof.app import network_panels, networks
from shiftproof.app.drawing import draggable
from shiftproof.app.layer_comparison import move
from shiftproof.app.layer_tab import OWN, QUIET, STAGE, bounded, read_upload
from shiftproof.app.networks import Library, Network
from shiftproof.app.shift_scores import PATHS, ShiftScores, axis_shifts, grid_step, score_shifts
from shiftproof.reports import html_page

SHOWN = 4  # networks selected at first
HINT = "Shifts are circular. Click on a map to go to that shift. A network knows only its own classes."


@dataclass(frozen=True)
class Result:
    """What was computed for one visitor: the picture (1, C, H, W), and the scores of each network."""

    name: str
    image: Tensor
    pairs: list[tuple[Network, ShiftScores]]


class ScoreCache:
    """Scores of the networks over all shifts. Those for pictures that are not uploads are computed once and kept."""

    def __init__(self, library: Library, data_dir: Path | None) -> None:
        self.families, self.data_dir = library.families, data_dir
        self.kept: dict[tuple[Network, str], ShiftScores] = {}

    def pictures(self, family: str, own: Tensor | None) -> list[str]:
        """The names of the pictures to choose from."""
        names = list(networks.pictures(self.families[family][0], self.data_dir))
        return names + ([OWN] if own is not None else [])

    def compute(self, family: str, picture: str, own: Tensor | None, chosen: list[str]) -> Result:
        """The scores of the chosen networks for all shifts of a picture."""
        every = self.families[family]
        members = [n for n in every if n.name in chosen]
        if chosen and not members:  # names of another family, which the page has not replaced yet
            members = every[:SHOWN]
        uploaded = own if picture == OWN else None
        offered = networks.pictures(every[0], self.data_dir)
        if uploaded is None and picture not in offered:
            picture = next(iter(offered))
        image = offered[picture] if uploaded is None else networks.fitted(uploaded, every[0])
        pairs, progress = [], gr.Progress()
        for k, member in enumerate(members):

            def report(done: int, total: int, k: int = k, name: str = member.name) -> None:
                progress((k + done / total) / len(members), desc=f"{name}: {total:,} shifts")

            found = None if uploaded is not None else self.kept.get((member, picture))
            if found is None:
                found = score_shifts(member, image, report)
                if uploaded is None:
                    self.kept[member, picture] = found
            pairs.append((member, found))
        return Result(picture, image, pairs)


def build(tab: gr.Tab, library: Library, data_dir: Path | None) -> None:
    """The tab; nothing is computed before the user opens it."""
    if not library.families:
        gr.HTML(html_page.notes(["There is no trained network. `make demo` trains some; `--runs DIR` shows others."]))
        return
    cache = ScoreCache(library, data_dir)
    families = list(library.families)
    names = [n.name for n in library.families[families[0]]]
    own, result = gr.State(None), gr.State(None)
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=270, elem_classes="controls"):
            stage = gr.HTML(js_on_load="window.shiftproof.stage(element, 'network')", **STAGE, elem_id="network-stage")
            rows = gr.Slider(-16, 15, value=0, step=1, label="Rows", elem_id="network-rows", buttons=[])
            columns = gr.Slider(-16, 15, value=0, step=1, label="Columns", elem_id="network-columns", buttons=[])
            with gr.Row():
                worst = gr.Button("Worst shift", variant="primary", size="sm", min_width=100, elem_id="network-worst")
                back = gr.Button("Reset", size="sm", min_width=100, elem_id="network-back")
            picture = gr.Dropdown([], label="Picture", elem_id="network-picture")
            file = gr.UploadButton("Upload your own picture", size="sm", elem_id="network-upload")
            message = gr.HTML(elem_id="network-message", visible=False)
        with gr.Column(scale=3, min_width=300, elem_classes="view"):
            with gr.Row():
                family = gr.Dropdown(families, value=families[0], label="Trained on", elem_id="network-family")
                chosen = gr.CheckboxGroup(names, value=names[:SHOWN], label="Networks", elem_id="network-chosen")
                path = gr.Radio(list(PATHS), value=PATHS[0], label="Path along the", elem_id="network-path")
            view = gr.HTML(elem_id="network-view", min_height=200, apply_default_css=False)
            gr.HTML(html_page.notes([HINT, *library.problems]))

    # Each action is a single event: a slow browser may lose an event that is chained to another one.

    def change_family(family: str, own: Tensor | None, path: str) -> list[Any]:
        members = library.families[family]
        names, choices = [n.name for n in members], cache.pictures(family, own)
        step = grid_step(members[0])
        limits = [axis_shifts(n, step) for n in members[0].size[1:]]
        found = cache.compute(family, choices[0], own, names[:SHOWN])
        return [
            gr.CheckboxGroup(choices=names, value=names[:SHOWN]),
            gr.Dropdown(choices=choices, value=choices[0]),
            *(gr.Slider(minimum=axis[0], maximum=axis[-1], step=step, value=0) for axis in limits),
            found,
            *show(found, 0, 0, path),
        ]

    def open_tab(result: Result | None, *values: Any) -> list[Any]:
        # nothing to do if the tab was open before
        return [gr.skip()] * 7 if result is not None else change_family(*values)

    def compute(family: str, picture: str, own: Tensor | None, chosen: list[str], *shift: Any) -> list[Any]:
        found = cache.compute(family, picture, own, chosen)
        return [found, *show(found, *shift)]

    def receive(
        file: str | None, family: str, picture: str, own: Tensor | None, chosen: list[str], *shift: Any
    ) -> list[Any]:
        own, picture, problem = read_upload(file, picture, own)
        choices = gr.Dropdown(choices=cache.pictures(family, own), value=picture)
        given = [own, choices, gr.HTML(problem, visible=bool(problem))]
        if file is None or problem:
            return given + [gr.skip()] * 3
        return given + compute(family, picture, own, chosen, *shift)

    asked, shift, drawn = [family, picture, own, chosen], [rows, columns, path], [stage, view]
    heavy: dict[str, Any] = {
        "show_progress_on": view,
        "concurrency_limit": 1,
        "concurrency_id": "sweep",
        "api_visibility": "private",
    }
    whole = [chosen, picture, rows, columns, result, *drawn]
    tab.select(open_tab, [result, family, own, path], whole, **heavy)
    family.input(change_family, [family, own, path], whole, **heavy)
    gr.on([picture.input, chosen.input], compute, [*asked, *shift], [result, *drawn], **heavy)
    file.upload(receive, [file, *asked, *shift], [own, picture, message, result, *drawn], **heavy)
    seen, moved = [result, *shift], [rows, columns, *drawn]
    gr.on([rows.change, columns.change, path.change], show, seen, drawn, trigger_mode="always_last", **QUIET)
    worst.click(lambda result, path: show_at(result, *find_worst(result), path), [result, path], moved, **QUIET)
    back.click(lambda result, path: show_at(result, 0, 0, path), [result, path], moved, **QUIET)


def show(result: Result | None, rows: float, columns: float, path: str) -> tuple[str, str]:
    """The moved picture and the panels for the values of the controls."""
    if result is None:
        return "", ""
    height, width = result.image.shape[2:]
    shift = bounded("circular", height, rows), bounded("circular", width, columns)
    moved = move(result.image, shift, "circular")[0]
    return draggable(moved, shift, result.name), network_panels.panels(result.pairs, shift, path)


def show_at(result: Result | None, rows: float, columns: float, path: str) -> tuple[Any, ...]:
    """The sliders at a shift, and the view there."""
    return rows, columns, *show(result, rows, columns, path)


def find_worst(result: Result | None) -> tuple[float, float]:
    """The worst shift of any of the networks: a changed answer is worse than a changed score."""
    if result is None or not result.pairs:
        return 0, 0
    return max(scores.worst() for _, scores in result.pairs)[2]
