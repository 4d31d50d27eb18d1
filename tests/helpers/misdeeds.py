"""What a reader must not do, done: the sandbox has to notice."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path


def nothing(path: Path) -> None:
    (path.parent / "mine").write_text("inside the folder")


def writes_outside(path: Path) -> None:
    (path.parent.parent / "outside").write_text("x")


def makes_a_link(path: Path) -> None:
    (path.parent.parent / "link").symlink_to(path)


def starts_a_program(path: Path) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def calls_the_shell(path: Path) -> None:
    os.system("true")


def connects(path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", 9))


def takes_memory(path: Path) -> None:
    bytes(2**33)


def hides_that_it_took_memory(path: Path) -> None:
    try:
        bytes(2**33)
    except MemoryError as error:
        raise ValueError(f"{path}: broken") from error


def crashes(path: Path) -> None:
    ctypes.string_at(0)


def hangs(path: Path) -> None:
    time.sleep(1000)


def raises_another_error(path: Path) -> None:
    raise KeyError(str(path))


def names_no_file(path: Path) -> None:
    raise ValueError("broken")
