import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

# before torch is imported: see the Makefile
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# one thread for each worker and for every process that its tests start; where a test asks for two, they do not spin
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings

from helpers.tally import pytest_addoption as pytest_addoption
from helpers.tally import pytest_configure as pytest_configure
from helpers.tally import pytest_terminal_summary as pytest_terminal_summary

settings.register_profile("test", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", parent=settings.get_profile("test"), max_examples=5000)
settings.register_profile("zoo", parent=settings.get_profile("test"))
# a mutant is killed by the first example that fails: no search for the smallest one
settings.register_profile(
    "mutants",
    parent=settings.get_profile("test"),
    max_examples=25,
    phases=(Phase.explicit, Phase.generate),
    derandomize=True,
    database=None,
)
settings.load_profile(os.environ.get("SHIFTPROOF_PROFILE", "test"))

# without the network, in this process and in all that it starts
OFFLINE = Path(__file__).parent / "offline"
os.environ["PYTHONPATH"] = os.pathsep.join([str(OFFLINE), *filter(None, [os.environ.get("PYTHONPATH")])])
runpy.run_path(str(OFFLINE / "sitecustomize.py"))

# and without the data sets that somebody may have on this machine: the app would show their pictures
_NO_DATA = tempfile.TemporaryDirectory(prefix="shiftproof-data-")
os.environ["SHIFTPROOF_DATA"] = _NO_DATA.name


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests are for `make soak`, large networks for `make zoo`, all else for `make test`."""
    profile = os.environ.get("SHIFTPROOF_PROFILE")
    if profile in ("soak", "zoo"):
        config.hook.pytest_deselected(items=[item for item in items if not _is_for(item, profile)])
        items[:] = [item for item in items if _is_for(item, profile)]
        return
    for item in items:
        for word, command in (("slow", "soak"), ("zoo", "zoo")):
            if word in item.keywords:
                item.add_marker(pytest.mark.skip(reason=f"runs in `make {command}`"))


def _is_for(item: pytest.Item, profile: str) -> bool:
    """`soak` takes what is slow, draws its examples, or counts what it tries: what gains from more time."""
    if not isinstance(item, pytest.Function) or profile == "zoo" or "zoo" in item.keywords:
        return profile == "zoo" and "zoo" in item.keywords
    return "slow" in item.keywords or "counted" in item.keywords or is_hypothesis_test(item.obj)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built as `make docs` builds it; once for all workers."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    folder = place / "site"
    with FileLock(place / "site.lock"):
        if not (folder / "sitemap.xml").exists():  # written last
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
            done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder
