"""The result of a measurement as JSON, text, table, figure and page."""

import io
import json
import re
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from rich.console import Console

from helpers.small_networks import strided
from shiftproof.invariance import KINDS
from shiftproof.measurement.measure import measure
from shiftproof.reports.words import percent


def test_json_is_the_dictionary() -> None:
    """What is written is what is read; shifts not tried are null, a change that is not finite is "inf"."""
    result = measure(strided(), torch.rand(2, 3, 4, 4), shifts=2, labels=list("abcdefgh"))
    assert json.loads(result.to_json()) == result.to_dict()
    grid = result.to_dict()["kinds"]["circular"]["change_map"]
    assert sum(v is None for row in grid for v in row) == 14
    broken = measure(lambda x: x[:, :, 0, 0].log(), (torch.rand(1, 3, 4, 4) > 0.5).float(), kinds=["circular"])
    assert json.loads(broken.to_json())["kinds"]["circular"]["max"] == "inf"


def test_table_and_text_say_the_same() -> None:
    result = measure(strided(), torch.rand(2, 3, 8, 8))
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(result.table())
    table, text = console.export_text(), str(result)
    for kind in result.kinds.values():
        for cell in kind.row():
            assert cell in table
            assert cell in text
    assert result.headline() in text
    assert percent(0.99999) == "over 99.9 %"


def test_figure_marks_the_origin_and_is_written_whole(tmp_path: Path) -> None:
    """Two maps with colour bars for each kind, no shift in the middle of the circular ones; dots for a sample."""
    result = measure(strided(), torch.rand(2, 3, 8, 8))
    figure = result.figure(tmp_path / "new" / "map.png")
    assert len(figure.axes) == 2 * 3 * 2
    image: Any = figure.axes[0].images[0]
    assert list(image.get_extent()) == [-4.5, 3.5, 3.5, -4.5]
    assert image.get_array()[4, 4] == 1  # unshifted: every answer is kept
    with Image.open(tmp_path / "new" / "map.png") as picture:
        assert min(picture.size) > 600
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["map.png"]
    sparse = measure(strided(), torch.rand(1, 3, 8, 8), shifts=5, kinds=["circular"]).figure()
    dots: Any = sparse.axes[0].collections[0].get_offsets()
    assert not sparse.axes[0].images
    assert len(dots) == 5


def test_page_stands_alone_and_escapes() -> None:
    """No resource from anywhere, no script, names of files and classes as text; at most 12 thumbnails."""
    names = ["<script>alert(1)<.png"] * 14
    labels = [f"<b>{i}" for i in range(8)]
    html = measure(
        strided(), torch.rand(14, 3, 8, 8), shifts=9, names=names, labels=labels, kinds=["circular"]
    ).to_html()
    assert "<script" not in html
    assert "<b>0" not in html
    assert not re.search(r"https?://|url\(|@import|<link", html)
    assert set(re.findall(r'(?:src|srcset)="([^"]{10})', html)) == {"data:image"}
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert html.count("answer kept for") == 12
    assert "the 12 least steady of 14" in html
    assert "&lt;b&gt;" in html
    exact = measure(lambda x: x.amax((2, 3)), torch.randn(1, 3, 8, 8), kinds=["circular"]).to_html()
    assert "No shift changes a single bit." in exact
    near = measure(
        lambda x: torch.stack([x[:, 0, 0, 0] + 9, x[:, 0, 1, 1]], 1), torch.rand(1, 2, 8, 8), shifts=3, kinds=KINDS[:2]
    )
    steady = near.to_html()
    assert "the same answer, scores move by" in steady
    assert "Under cropped shifts it keeps its answer; its scores move by up to" in steady
