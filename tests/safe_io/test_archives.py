"""Archives: wanted members only, never their own paths, never beyond a limit."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from helpers.data_files import archive
from helpers.data_fixtures import server as server
from helpers.data_fixtures import small as small
from shiftproof.safe_io.archives import read_members

LIMIT = 2**20


def test_archives_are_never_unpacked_to_their_own_paths(tmp_path: Path) -> None:
    """Only regular files of the expected names are read; members that climb, link or are devices write nothing."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, kind in (("../evil", tarfile.REGTYPE), ("/wanted", tarfile.SYMTYPE), ("wanted", tarfile.CHRTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
        entry = tarfile.TarInfo("../../wanted")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"good"))
    path = tmp_path / "in" / "x.tar.gz"
    path.parent.mkdir()
    path.write_bytes(packed.getvalue())
    assert list(read_members(path, "x.tar.gz", ["wanted"], LIMIT)) == [("wanted", b"good")]
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["x.tar.gz"]


def test_broken_archives_are_named(tmp_path: Path) -> None:
    content = {"wanted": np.random.RandomState(0).bytes(5000)}
    for kind in ("tar.gz", "zip"):
        path = tmp_path / f"x.{kind}"
        whole = archive(content, kind)
        for wrong in (whole[:3000], b"", b"<html>not found</html>"):
            path.write_bytes(wrong)
            with pytest.raises(ValueError, match=f"x.{kind}: not a whole archive"):
                list(read_members(path, path.name, ["wanted"], LIMIT))
        path.write_bytes(whole)
        with pytest.raises(ValueError, match=f"x.{kind}: (wanted has 5,000|unpacks to more than 4,999) bytes, and no"):
            list(read_members(path, path.name, ["wanted"], 4999))
        assert dict(read_members(path, path.name, ["wanted"], LIMIT)) == content
