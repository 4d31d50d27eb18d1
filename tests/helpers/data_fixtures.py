"""Data sets of a handful of images, and a server on this machine."""

import dataclasses
from collections.abc import Iterator

import pytest

from helpers.data_files import IMAGES, Server, Sets, md5, small_files
from shiftproof.data import rotated
from shiftproof.data.sources import SOURCES


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Sets:
    """The catalogue with small files, none of which can be had: no address, no npm."""
    contents = small_files()
    rows = [2, 3]
    for name, files in contents.items():
        source = SOURCES[name]
        new = tuple(
            dataclasses.replace(file, rows=rows[i])
            if file.rows
            else dataclasses.replace(file, size=len(files[file.name]), md5=md5(files[file.name]))
            for i, file in enumerate(source.files)
        )
        downloads = tuple(dataclasses.replace(item, urls=()) for item in source.downloads)
        changed = dataclasses.replace(source, images=IMAGES[name], files=new, downloads=downloads)
        monkeypatch.setitem(SOURCES, name, changed)
    monkeypatch.setattr(rotated, "TRAIN", 15)
    monkeypatch.setattr(rotated, "TEST", 8)
    monkeypatch.setenv("PATH", "")
    return contents
