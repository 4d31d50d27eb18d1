"""The tab Network on the page: its controls, and what happens when they are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr
from torch import Tensor

from shiftproof.app import network, network_panels
from shiftproof.app.layer import move
from shiftproof.app.layer_tab import OWN, QUIET, STAGE, read
from shiftproof.app.network import Library, Network, Sweep
from shiftproof.reports import html_page

SHOWN = 4  # networks that are chosen at first


@dataclass(frozen=True)
class Result:
    """What was computed for one visitor: the picture (1, C, H, W), and the sweep of each network."""

    name: str
    image: Tensor
    pairs: list[tuple[Network, Sweep]]


class Tab:
    """The networks behind the tab. Sweeps of pictures that everybody has are computed once and kept."""

    def __init__(self, library: Library, data_dir: Path | None) -> None:
        self.library, self.data_dir = library, data_dir
        self.kept: dict[tuple[Network, str], Sweep] = {}

    def networks(self, family: str) -> list[Network]:
        """Those of a family."""
        return self.library.families[family]

    def pictures(self, family: str, own: Tensor | None) -> list[str]:
        """The names of the pictures to choose from."""
        names = list(network.pictures(self.networks(family)[0], self.data_dir))
        return names + ([OWN] if own is not None else [])

    def compute(
        self, family: str, picture: str, own: Tensor | None, chosen: list[str], report: Callable[..., object]
    ) -> Result:
        """All shifts of a picture through the chosen networks."""
        every = self.networks(family)
        members = [n for n in every if n.name in chosen]
        if chosen and not members:  # those of another family, which the page had not yet replaced
            members = every[:SHOWN]
        mine = picture == OWN and own is not None
        offered = network.pictures(every[0], self.data_dir)
        if not mine and picture not in offered:
            picture = next(iter(offered))
        image = network.fitted(own, every[0]) if mine and own is not None else offered[picture]
        pairs = []
        for k, member in enumerate(members):

            def progress(done: int, total: int, k: int = k, name: str = member.name) -> None:
                report((k + done / total) / len(members), desc=f"{name}: {total:,} shifts")

            found = None if mine else self.kept.get((member, picture))
            if found is None:
                found = network.sweep(member, image, progress)
                if not mine:
                    self.kept[member, picture] = found
            pairs.append((member, found))
        return Result(picture, image, pairs)


def build(tab: gr.Tab, library: Library, data_dir: Path | None) -> None:
    """The tab; nothing is computed before it is opened."""
    if not library.families:
        gr.HTML(html_page.notes(["No trained network is at hand. `make demo` trains some, `--runs` names others."]))
        return
    behind = Tab(library, data_dir)
    families = list(library.families)
    names = [n.name for n in behind.networks(families[0])]
    own, result = gr.State(None), gr.State(None)
    with gr.Row(equal_height=False):
        with gr.Column(scale=1, min_width=270, elem_classes="controls"):
            stage = gr.HTML(js_on_load="window.shiftproof.stage(element, 'network')", **STAGE, elem_id="network-stage")
            rows = gr.Slider(-16, 15, value=0, step=1, label="Rows", elem_id="network-rows", buttons=[])
            columns = gr.Slider(-16, 15, value=0, step=1, label="Columns", elem_id="network-columns", buttons=[])
            with gr.Row():
                worst = gr.Button("Worst shift", variant="primary", size="sm", min_width=100, elem_id="network-worst")
                back = gr.Button("No shift", size="sm", min_width=100, elem_id="network-back")
            picture = gr.Dropdown([], label="Picture", elem_id="network-picture")
            file = gr.UploadButton("Upload a picture of your own", size="sm", elem_id="network-upload")
            message = gr.HTML(elem_id="network-message", visible=False)
        with gr.Column(scale=3, min_width=300, elem_classes="view"):
            with gr.Row():
                family = gr.Dropdown(families, value=families[0], label="Trained on", elem_id="network-family")
                chosen = gr.CheckboxGroup(names, value=names[:SHOWN], label="Networks", elem_id="network-chosen")
                path = gr.Radio(
                    list(network.PATHS), value=network.PATHS[0], label="Path along the", elem_id="network-path"
                )
            view = gr.HTML(elem_id="network-view", min_height=200, apply_default_css=False)
            gr.HTML(
                html_page.notes(
                    [
                        "Shifts are circular. Click into a map to go there. A network knows its own classes only, "
                        "whatever the picture shows.",
                        *library.problems,
                    ]
                )
            )

    # Each answer is one event: a second one that begins where the first ends may be lost on the way to a slow browser.

    def enter(
        family: str,
        own: Tensor | None,
        path: str,
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> list[Any]:
        members = behind.networks(family)
        names, choices = [n.name for n in members], behind.pictures(family, own)
        step = network.step_of(members[0])
        limits = [network.axis(n, step) for n in members[0].size[1:]]
        found = behind.compute(family, choices[0], own, names[:SHOWN], progress)
        return [
            gr.CheckboxGroup(choices=names, value=names[:SHOWN]),
            gr.Dropdown(choices=choices, value=choices[0]),
            *(gr.Slider(minimum=axis[0], maximum=axis[-1], step=step, value=0) for axis in limits),
            found,
            *show(found, 0, 0, path),
        ]

    def open_tab(
        result: Result | None,
        family: str,
        own: Tensor | None,
        path: str,
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> list[Any]:
        # opened before, or for the first time
        return [gr.skip()] * 7 if result is not None else enter(family, own, path, progress)

    def compute(
        family: str,
        picture: str,
        own: Tensor | None,
        chosen: list[str],
        rows: float,
        columns: float,
        path: str,
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> list[Any]:
        found = behind.compute(family, picture, own, chosen, progress)
        return [found, *show(found, rows, columns, path)]

    def receive(
        file: str | None,
        family: str,
        picture: str,
        own: Tensor | None,
        chosen: list[str],
        rows: float,
        columns: float,
        path: str,
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> list[Any]:
        own, picture, words = read(file, picture, own)
        choices = gr.Dropdown(choices=behind.pictures(family, own), value=picture)
        given = [own, choices, gr.HTML(words, visible=bool(words))]
        if file is None or words:
            return given + [gr.skip()] * 3
        return given + compute(family, picture, own, chosen, rows, columns, path, progress)

    asked, shift, drawn = [family, picture, own, chosen], [rows, columns, path], [stage, view]
    heavy: dict[str, Any] = {
        "show_progress_on": view,
        "concurrency_limit": 1,
        "concurrency_id": "sweep",
        "api_visibility": "private",
    }
    whole = [chosen, picture, rows, columns, result, *drawn]
    tab.select(open_tab, [result, family, own, path], whole, **heavy)
    family.input(enter, [family, own, path], whole, **heavy)
    gr.on([picture.input, chosen.input], compute, [*asked, *shift], [result, *drawn], **heavy)
    file.upload(receive, [file, *asked, *shift], [own, picture, message, result, *drawn], **heavy)
    seen, moved = [result, *shift], [rows, columns, *drawn]
    gr.on([rows.change, columns.change, path.change], show, seen, drawn, trigger_mode="always_last", **QUIET)
    worst.click(lambda result, path: at(result, *find_worst(result), path), [result, path], moved, **QUIET)
    back.click(lambda result, path: at(result, 0, 0, path), [result, path], moved, **QUIET)


def show(result: Result | None, rows: float, columns: float, path: str) -> tuple[str, str]:
    """The picture and the panels for the state of the controls."""
    if result is None:
        return "", ""
    height, width = result.image.shape[2:]
    shift = (_bounded(rows, height), _bounded(columns, width))
    moved = move(result.image, shift, "circular")[0]
    return network_panels.stage(moved, shift, result.name), network_panels.networks(result.pairs, shift, path)


def at(result: Result | None, rows: float, columns: float, path: str) -> tuple[Any, ...]:
    """The sliders at a shift, and what is shown there."""
    return rows, columns, *show(result, rows, columns, path)


def _bounded(value: float | None, size: int) -> int:
    """What a slider says, within its reach: somebody may have typed anything, or nothing."""
    return round(min(max(value or 0, -(size // 2)), size - 1 - size // 2))


def find_worst(result: Result | None) -> tuple[float, float]:
    """The shift that does the most harm to any of the networks: to an answer, else to a score."""
    if result is None or not result.pairs:
        return 0, 0
    return max(sweep.worst() for _, sweep in result.pairs)[2]
