"""What produced a result: the machine, the versions, the commit."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import shiftproof
from shiftproof.ghs.backend import native


def machine() -> dict[str, Any]:
    """The hardware and the versions, which affect speed and rounding."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "kernels": native.library is not None,
    }


@functools.cache
def code() -> dict[str, Any]:
    """The version of the package. In a git checkout also the commit, and whether files differ from it.

    The result is cached, so a long run records the state at its start even if files change later.
    """
    home = Path(__file__).parent
    # the package may be installed inside the checkout of another project, whose commit is not ours
    ours = _git(home, "ls-files", "--error-unmatch", Path(__file__).name) is not None
    commit = _git(home, "rev-parse", "HEAD") if ours else None
    changed = None if commit is None else bool(_git(home, "status", "--porcelain", "--untracked-files=no", ":/src"))
    return {"version": shiftproof.__version__, "commit": commit, "changed": changed}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor()
    )
