"""What comes from outside: pinned and hashed, under licences one can live with, and never over the network unasked."""

import pkgutil
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import shiftproof
from helpers import tally

ROOT = Path(__file__).parents[2]
SECTION = "Supply chain"
pytestmark = pytest.mark.counted
LICENCES = runpy.run_path(str(ROOT / "tools" / "licences.py"))

# the Mozilla Public License 2.0 asks something only of those who change these files; none is imported by the package
MOZILLA = {"certifi", "orjson", "tqdm", "shtab"}
MOZILLA_TOOLS = {"hypothesis", "pathspec"}


def pins(file: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text(), flags=re.M)
    return {re.sub("[-_.]+", "-", name).lower(): version for name, version in found}


def test_the_development_set_is_pinned_and_hashed() -> None:
    """One version each, in both files; the wheel of torch alone differs by platform."""
    wanted = pins("constraints.txt")
    hashed = pins("requirements.txt")
    assert hashed == {name: version for name, version in wanted.items() if name != "torch"}
    blocks = re.findall(r"^[\w.-]+==.*(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)+$", _requirements(), flags=re.M)
    assert len(blocks) == len(hashed)
    assert "://" not in _requirements()
    tally.count(SECTION, "distributions pinned and hash-checked", len(hashed))


def _requirements() -> str:
    return (ROOT / "requirements.txt").read_text()


def test_nothing_is_needed_that_is_not_pinned() -> None:
    """What the package's metadata ask for, and what those ask for: all of it has a pin."""
    assert LICENCES["needed"]("dev") <= pins("constraints.txt").keys()


def test_licences() -> None:
    """Permissive, or named above with a reason."""
    rows = LICENCES["licences"]()
    assert {row.name for row in rows if row.extra == "" and not row.permissive} == set()
    assert {row.name for row in rows if row.extra != "dev" and not row.permissive} <= MOZILLA
    others = [row for row in rows if not row.permissive]
    assert {row.name for row in others} <= MOZILLA | MOZILLA_TOOLS
    assert all("MPL" in row.terms for row in others)
    tally.count(SECTION, "distributions under a permissive licence", len(rows) - len(others))
    tally.count(SECTION, "distributions under the Mozilla Public License", len(others))


@pytest.mark.parametrize(
    "terms", ["GPL-3.0-only", "MIT AND GPL-2.0-or-later", "MIT OR LGPL-3.0", "unknown", "", "MITX"]
)
def test_other_licences_are_noticed(terms: str) -> None:
    assert not LICENCES["Licence"]("x", "1", terms, "").permissive


def _modules() -> list[str]:
    found = pkgutil.walk_packages(shiftproof.__path__, "shiftproof.")
    return sorted(m.name for m in found if not m.name.endswith(("__main__", "._native")))


COUNTING = """
import importlib, sys, torch
library = torch.library.Library("torchvision", "DEF")  # see helpers.zoo: torchmetrics imports torchvision
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
used = []
def note(event, _):
    if event.startswith("socket.") and event != "socket.__new__":
        used.append(event)
sys.addaudithook(note)
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*used)
"""


def test_imports_touch_no_socket() -> None:
    """Every module of the package, with everything that comes with it: no name looked up, nothing connected."""
    modules = _modules()
    done = subprocess.run([sys.executable, "-c", COUNTING, *modules], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    tally.count(SECTION, "modules imported without a use of sockets", len(modules))


ASKING = {
    "connection": 'socket.create_connection(("192.0.2.1", 80), timeout=1)',
    "connection, version 6": 'socket.create_connection(("2001:db8::1", 80), timeout=1)',
    "message": 'with socket.socket(type=socket.SOCK_DGRAM) as s: s.sendto(b"x", ("192.0.2.1", 53))',
    "name": 'socket.getaddrinfo("example.org", 80)',
    "old name": 'socket.gethostbyname("example.org")',
}


@pytest.mark.parametrize("code", ASKING.values(), ids=ASKING)
def test_the_network_is_forbidden(code: str) -> None:
    """Here, and in every Python process started from here."""
    with pytest.raises(PermissionError, match="do without the network"):
        exec(code, {"socket": socket})
    done = subprocess.run([sys.executable, "-c", f"import socket\n{code}"], capture_output=True, text=True, check=False)
    assert "PermissionError: the tests do without the network" in done.stderr


def test_this_machine_is_allowed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
        socket.create_connection(("localhost", server.getsockname()[1])).close()
