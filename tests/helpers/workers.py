"""Runs for the workers of a sweep, which import them by name."""

import os
import time
from pathlib import Path
from typing import Any


def dies_once(config: Any, folder: Path) -> dict[str, Any]:
    """The second run kills its worker the first time."""
    if config == 1 and not (folder / "died").exists():
        (folder / "died").touch()
        time.sleep(1.0)  # the other one is done by then
        os._exit(9)
    return {"run": config}


def is_stopped(config: Any, folder: Path) -> dict[str, Any]:
    """The first two runs hear Ctrl-C."""
    (folder / str(config)).write_text(str(os.getpid()))
    if config < 2:
        raise KeyboardInterrupt
    return {}
