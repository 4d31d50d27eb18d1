"""The store: where it is, and nothing wrong gets out of it."""

from pathlib import Path
from typing import Any

import platformdirs
import pytest
from platformdirs import macos, unix, windows

from helpers.data_files import Sets, put
from helpers.data_fixtures import small as small
from shiftproof.data import load_dataset, store


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The argument, then the environment, then the platform's cache folder."""
    monkeypatch.setenv("SHIFTPROOF_DATA", str(tmp_path / "named"))
    assert store.data_root(tmp_path) == tmp_path
    assert store.data_root() == tmp_path / "named"
    monkeypatch.delenv("SHIFTPROOF_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(windows, "get_win_folder", lambda _: str(tmp_path / "local"))
    folders = {unix.Unix: ".cache", macos.MacOS: "Library/Caches", windows.Windows: "local"}
    for platform, folder in folders.items():
        monkeypatch.setattr(platformdirs, "PlatformDirs", platform)
        assert store.data_root() == tmp_path / folder / "shiftproof"
    monkeypatch.setattr(platformdirs, "PlatformDirs", unix.Unix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert store.data_root() == tmp_path / "cache" / "shiftproof"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c[:-1], "t10k-labels-idx1-ubyte: 17 bytes where t10k-labels-idx1-ubyte has 18"),
        (lambda c: c[:-1] + b"\0", "t10k-labels-idx1-ubyte: md5"),
        (lambda c: None, "t10k-labels-idx1-ubyte: missing. Run `shiftproof data get mnist`"),
    ],
)
def test_files_are_verified_before_use(change: Any, message: str, small: Sets, tmp_path: Path) -> None:
    """Truncated, changed, missing: the error names the file and the command that mends it."""
    put(tmp_path, "mnist", small["mnist"])
    path = tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    changed = change(path.read_bytes())
    path.unlink()
    if changed is not None:
        path.write_bytes(changed)
    with pytest.raises(ValueError) as caught:
        load_dataset("mnist", tmp_path)
    assert message in str(caught.value)
    assert "`shiftproof data get mnist`" in str(caught.value)
    assert str(path) in str(caught.value)
