"""A folder belongs to one process at a time."""

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import filelock
import pytest

from shiftproof.safe_io.locks import BusyError, locked_folder

HOLD = """
import sys, time
from pathlib import Path
from shiftproof.safe_io.locks import locked_folder
with locked_folder(Path(sys.argv[1]), 0):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_belongs_to_one_process(tmp_path: Path) -> None:
    """A second one is refused in words; the lock of a killed process is free."""
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(BusyError, match="run: another process is at work there; wait for it, or choose another"),
            locked_folder(folder, 0),
        ):
            pass
        other.kill()
    with locked_folder(folder, 0):
        pass


def test_a_folder_is_locked_once(tmp_path: Path) -> None:
    with (
        locked_folder(tmp_path / "run", 0),
        pytest.raises(OSError, match="another process is at work there"),
        locked_folder(tmp_path / "run", 0),
    ):
        pass
    with locked_folder(tmp_path / "run", 0):
        pass


@pytest.mark.parametrize("error", [NotImplementedError(), OSError(errno.ENOLCK, "No locks available")])
def test_a_file_system_without_locks(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a folder is used without one."""

    def acquire(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    with locked_folder(tmp_path / "run", 0):
        assert (tmp_path / "run").is_dir()


def test_what_can_be_known_before_is_said_before(tmp_path: Path) -> None:
    """Too little space, or a place that cannot be written: an error at once; leftovers of a kill are cleared."""
    with pytest.raises(OSError, match="are needed for checkpoints"), locked_folder(tmp_path / "run", 2**62):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(OSError), locked_folder(tmp_path / "file" / "run", 0):
        pass
    left = tmp_path / "run" / "checkpoints" / ".step-1.safetensors.77.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    with locked_folder(tmp_path / "run", 0):
        assert not left.exists()
