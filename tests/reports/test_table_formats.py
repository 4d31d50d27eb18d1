"""Tables as Markdown and HTML; every column fits on paper."""

import json
import shutil
from pathlib import Path

import pytest

from helpers.made_up_records import index, record
from shiftproof.experiments import catalogue
from shiftproof.experiments.records import RecordIndex
from shiftproof.reports import html_page, paper_tables, table_formats
from shiftproof.reports.table import Cell, Table

ROOT = Path(__file__).parents[2]


def test_markdown_links_to_records_and_html_escapes() -> None:
    """Markdown links to the records, HTML escapes, and both say what was not run."""
    run = record(catalogue.configs("table2", "laptop", methods=["ghs"], seeds=[0])[0], 0.9)
    table = paper_tables.make("table2", index(run), "laptop")
    text = table_formats.to_markdown(table, "records")
    assert "| GHS [1](records/0.json) |" in text
    assert "paper 91.72 ± 0.18<br>90.00 (n=1)" in text
    assert "not run" in text
    odd = Table(
        "x", "<b>", ("a & b, %",), (("<i>", (Cell(values=(1.0,), files=('"<',)),)), ("j", (Cell(values=(2.0,)),)))
    )
    page = table_formats.to_html(odd)
    assert "<i>" not in page
    assert "a &amp; b" in page
    assert "<strong>2.00 (n=1)</strong>" in page
    assert json.loads(json.dumps(table.to_dict()))["rows"][-1]["cells"][1]["values"] == [90.0]


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser here")
def test_no_column_is_lost_on_paper() -> None:
    """Every table of the results, on A4 with the margins of the page: none is wider than the sheet."""
    from playwright.sync_api import sync_playwright

    found = RecordIndex.read([ROOT / "results" / "records"])
    made = paper_tables.make_all(found, "laptop")
    text = html_page.page("results", [(table.title, table_formats.to_html(table)) for table in made])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        sheet = browser.new_page(viewport={"width": 680, "height": 1000})
        sheet.emulate_media(media="print")
        sheet.set_content(text)
        wide = sheet.evaluate("[...document.querySelectorAll('table')].map(t => t.scrollWidth)")
        browser.close()
    assert len(wide) == len(made)
    assert max(wide) <= 680
