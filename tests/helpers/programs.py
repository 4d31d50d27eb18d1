"""Exported programs with some of their records changed, and an object that leaves a file behind."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

PATHLIB = "__import__('pathlib').Path('executed').touch()"


class Hostile:
    """Leaves a file behind where it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path("executed").touch, ())


def pickled() -> bytes:
    buffer = io.BytesIO()
    torch.save(Hostile(), buffer)
    return buffer.getvalue()


def rewritten(source: Path, target: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """A copy of an exported program with some of its records changed."""
    from torch.export.pt2_archive._package import PT2ArchiveReader

    reader = PT2ArchiveReader(str(source))
    skip = (".data/", "byteorder")  # the writer makes them itself
    records = {n: reader.read_bytes(n) for n in reader.get_file_names() if not n.startswith(skip)}
    change(records)
    writer = torch._C.PyTorchFileWriter(str(target))
    for name, content in records.items():
        writer.write_record(name, content, len(content))
    writer.write_end_of_file()
