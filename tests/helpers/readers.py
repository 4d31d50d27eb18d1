"""Everything that reads a file: how it is called, what must hold of what it returns, and whole files to damage.

The functions run in the sandbox. They raise AssertionError where a value comes back that is not what the file says.
"""

import functools
import gzip
import io
import json
import os
import pickle
import struct
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torch import nn

from shiftproof.data import folders, formats, sources, store
from shiftproof.experiments import records
from shiftproof.models.export import save_model
from shiftproof.models.loading import load_weights
from shiftproof.models.predictor import load_predictor
from shiftproof.safe_io import archives, pictures
from shiftproof.training import checkpoint, config, journal, runs

Wrap = Callable[[bytes], bytes]
ROOT = Path(__file__).parents[2]
MEMBERS = ("data_batch_1.bin", "test_batch.bin")
UNPACKED = 2**26  # bytes: the limit of the store, lowered, so that what holds it can be seen to hold


# --- what is called, and what must hold


def cifar(path: Path) -> None:
    content = path.read_bytes()
    images, labels = formats.cifar(content, path, 10)
    rows = np.concatenate([labels.astype(np.uint8)[:, None], images.reshape(len(labels), -1)], axis=1)
    assert rows.tobytes() == content


def cifar_pickle(path: Path) -> None:
    binary = formats.cifar_from_pickle(path.read_bytes(), path, 10)
    assert not binary or len(formats.cifar(binary, path, 10)[1]) == len(binary) // 3073


def idx(path: Path) -> None:
    content = path.read_bytes()
    array = formats.idx(content, path, 3)
    assert struct.pack(">BBBB3I", 0, 0, 8, 3, *array.shape) + array.tobytes() == content


def idx_gz(path: Path) -> None:
    formats.LARGEST_FILE = UNPACKED
    content = formats.idx_from_gzip(path.read_bytes(), path, 3)
    assert len(content) <= UNPACKED


def amat(path: Path) -> None:
    with path.open(encoding="latin1") as lines:
        images, labels = formats.amat(lines, path, 2)
    with path.open(encoding="latin1") as lines:
        rows = [[float(v) for v in line.split()] for line in lines if line.strip()]
    expected = np.array(rows, np.float32)
    assert (labels == expected[:, -1]).all()
    assert (images.reshape(2, -1) == np.rint(expected[:, :-1] * 255)).all()


def archive(path: Path) -> None:
    found = list(archives.read_members(path, path.name, MEMBERS, UNPACKED))
    assert {name for name, _ in found} <= set(MEMBERS)
    assert len(found) <= len(MEMBERS)
    assert sum(len(content) for _, content in found) <= UNPACKED


def into_store(path: Path) -> None:
    """As `shiftproof data import` does it, with small files whose sums are known."""
    files = tuple(sources.File(name, 3073, store.md5(_member(name))) for name in MEMBERS)
    source = sources.Source("set", 2, files, ())
    store.add(path.parent / "store", source, path, path.name)
    for file in files:
        here = store.location(path.parent / "store", source, file)
        assert not here.exists() or here.read_bytes() == _member(file.name)


def picture(path: Path) -> None:
    seen = pictures.read_picture(path)
    assert seen.dim() == 3
    assert len(seen) == 3
    assert bool(((seen >= 0) & (seen <= 1)).all())


def picture_of_a_set(path: Path) -> None:
    images = folders.read_images([path])
    assert images.dtype == torch.uint8
    assert images.dim() == 4


def picture_with_ghostscript(path: Path) -> None:
    """Where Pillow would find the interpreter of PostScript that it calls."""
    script = path.with_name("gs")
    script.write_text(f"#!/bin/sh\ntouch {path.with_name('executed')}\n")
    script.chmod(0o755)
    with mock.patch.dict(os.environ, {"PATH": str(path.parent)}):
        reader = picture if path.suffix == ".png" else picture_of_a_set
        reader(path)


def toml(path: Path) -> None:
    found = config.configure("smoke", file=path)
    assert config.from_dict(found.to_dict()) == found


def record(path: Path) -> None:
    found = records.read(path)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def run_config(path: Path) -> None:
    found = runs.read_config(path.parent)
    assert found is not None
    assert config.from_dict(found.to_dict()) == found


def run_result(path: Path) -> None:
    assert isinstance(runs.read_result(path.parent), dict)


def run_log(path: Path) -> None:
    log = journal.Journal(path.parent, 3, 1, tensorboard=False)
    log.close()
    for line in path.read_text().splitlines():
        assert float(json.loads(line)["step"]) <= 3


def run_checkpoint(path: Path) -> None:
    tensors, state = checkpoint.read_tensors(path)
    assert isinstance(state, dict)
    assert all(isinstance(t, torch.Tensor) for t in tensors.values())


def weights(path: Path) -> None:
    assert all(isinstance(v, torch.Tensor) and isinstance(k, str) for k, v in load_weights(path).items())


def network(path: Path) -> None:
    predictor = load_predictor(str(path))
    assert predictor.channels in (None, 1, 3)
    assert predictor.batch[0] >= 1


# --- whole files


def _member(name: str) -> bytes:
    return bytes([MEMBERS.index(name)]) + bytes(range(256)) * 12


def tarred(members: dict[str, bytes], mode: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def zipped(members: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return out.getvalue()


def idx_bytes() -> bytes:
    return struct.pack(">BBBB3I", 0, 0, 8, 3, 2, 3, 4) + bytes(range(24))


def _tar(mode: str) -> bytes:
    return tarred({f"set/{name}": _member(name) for name in MEMBERS}, mode)


def _pictures(kind: str) -> list[tuple[bytes, Wrap]]:
    modes = {"PNG": ("RGB", "P", "LA", "I;16"), "GIF": ("P",), "TIFF": ("RGB", "I;16", "CMYK"), "PPM": ("RGB", "1")}
    seeds: list[tuple[bytes, Wrap]] = [(_drawn(kind, mode), plain) for mode in modes.get(kind, ("RGB",))]
    return [*seeds, (_drawn(kind), png)] if kind == "PNG" else seeds


def _settings() -> bytes:
    return json.dumps(config.configure("smoke").to_dict()).encode()


def _cifar_batch(protocol: int) -> bytes:
    rows = np.arange(3 * 3072, dtype=np.uint8).reshape(3, 3072)
    return pickle.dumps({b"data": rows, b"labels": [1, 9, 0], b"filenames": [b"a", b"b", b"c"]}, protocol)


def _drawn(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    values = np.random.RandomState(0).randint(0, 256, (9, 7, 3)).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(values).convert(mode).save(out, kind, **options)
    return out.getvalue()


def png(content: bytes) -> bytes:
    """A PNG file with the sums of its chunks made right."""
    out, at = content[:8], 8
    while at + 8 <= len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        body = content[at + 4 : at + 8 + length]
        out += content[at : at + 4] + body + struct.pack(">I", zlib.crc32(body))
        at += 12 + length
    return out


TOML = b"""
[model]
method = "ghs"
options = { order = 3 }
[optim]
lr = 0.05
milestones = [1, 2]
[run]
precision = "bf16"
"""


def whole_record() -> bytes:
    path = sorted((ROOT / "results" / "records").glob("*.json"))[0]
    found = json.loads(path.read_text())
    found["metrics"] = {"accuracy": {"clean": {"value": 0.5, "low": 0.4, "high": 0.6}}}
    return json.dumps(found).encode()


def _safetensors(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(range(64))


def _tensors() -> dict[str, torch.Tensor]:
    return {"weight": torch.arange(12.0).view(3, 4), "count": torch.tensor(4)}


def checkpoint_of(state: bytes) -> bytes:
    """A checkpoint whose state is any text, with a digest that fits."""
    from safetensors.torch import save

    text = state.decode("utf-8", "replace")
    header = json.dumps({"digest": checkpoint.tensor_digest(_tensors(), text), "state": text})
    return save(_tensors(), {"shiftproof": header})


def _torch_file(**options: Any) -> bytes:
    out = io.BytesIO()
    torch.save({"state_dict": _tensors(), "epoch": 3, "betas": (0.9, 0.99)}, out, **options)
    return out.getvalue()


def torch_zip(pickled: bytes) -> bytes:
    """A file of torch.save around any pickle."""
    with zipfile.ZipFile(io.BytesIO(_torch_file())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in members if name.endswith("data.pkl"))
    return zipped(members | {name: pickled}, zipfile.ZIP_STORED)


def _data_pkl() -> bytes:
    with zipfile.ZipFile(io.BytesIO(_torch_file())) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))


@functools.cache
def exported() -> dict[str, bytes]:
    """A small network as an exported program and as ONNX."""
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("model.pt2", "model.onnx"):
            save_model(model, torch.rand(2, 3, 8, 8), Path(folder) / name)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def program_records() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(exported()["model.pt2"])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _program_with(name: str) -> tuple[bytes, Wrap]:
    """One record of an exported program, and what packs it again."""
    (full,) = (n for n in program_records() if n.endswith(name))
    return program_records()[full], lambda c: zipped(program_records() | {full: c}, zipfile.ZIP_STORED)


def plain(content: bytes) -> bytes:
    return content


@dataclass(frozen=True)
class Reader:
    """A name, the function, the name its file has, and whole files: what is damaged, and what wraps it afterwards."""

    name: str
    function: Callable[[Path], None]
    file: str
    seeds: Callable[[], list[tuple[bytes, Wrap]]]
    cost: int = 1  # how many times as long as usual a case takes
    memory: int = 300 * 2**20  # bytes that a file may take while it is read


READERS = {
    reader.name: reader
    for reader in (
        Reader("cifar binary", cifar, "data_batch_1.bin", lambda: [(_member(MEMBERS[0]) * 2, plain)]),
        Reader("cifar pickle", cifar_pickle, "data_batch_1", lambda: [(_cifar_batch(p), plain) for p in (0, 2, 4)]),
        Reader("idx", idx, "t10k-images-idx3-ubyte", lambda: [(idx_bytes(), plain)]),
        Reader(
            "idx, packed",
            idx_gz,
            "images.gz",
            lambda: [(gzip.compress(idx_bytes()), plain), (idx_bytes(), gzip.compress)],
        ),
        Reader("amat", amat, "x.amat", lambda: [(((b"0.25 " * 784 + b"3\n") * 2), plain)]),
        Reader(
            "tar.gz", archive, "x.tar.gz", lambda: [(_tar("w:gz"), plain), (_tar("w"), lambda c: gzip.compress(c, 1))]
        ),
        Reader("tar", archive, "x.tar", lambda: [(_tar("w"), plain)]),
        Reader("zip", archive, "x.zip", lambda: [(zipped({n: _member(n) for n in MEMBERS}), plain)]),
        Reader("archive into the store", into_store, "x.tar", lambda: [(_tar("w"), plain)]),
        *(
            # a picture may have 89 million pixels, with three colours, as bytes and as float32
            Reader(f"{kind.lower()} {use}", function, f"x.{kind.lower()}", partial(_pictures, kind), memory=2**31)
            for kind in ("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP", "PPM")
            for use, function in (("to measure", picture), ("of a set", picture_of_a_set))
        ),
        Reader("picture with Ghostscript", picture_with_ghostscript, "x.png", lambda: _pictures("PNG")),
        Reader("picture of a set with Ghostscript", picture_with_ghostscript, "x.jpg", lambda: _pictures("JPEG")),
        Reader("configuration", toml, "mine.toml", lambda: [(TOML, plain)]),
        Reader("record", record, "record.json", lambda: [(whole_record(), plain)]),
        Reader("settings of a run", run_config, "config.json", lambda: [(_settings(), plain)]),
        Reader("result of a run", run_result, "result.json", lambda: [(b'{"best": {"epoch": 1}}', plain)]),
        Reader(
            "log of a run", run_log, "log.jsonl", lambda: [(b'{"event": "epoch", "step": 1, "loss": 0.5}\n' * 4, plain)]
        ),
        Reader(
            "checkpoint",
            run_checkpoint,
            "step-1.safetensors",
            lambda: [(checkpoint_of(b'{"epoch": 3}'), plain), (b'{"epoch": 3, "best": [0.5]}', checkpoint_of)],
        ),
        Reader(
            "weights, safetensors",
            weights,
            "x.safetensors",
            lambda: [
                (_safetensors(b'{"w":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]}}'), plain),
                (b'{"w":{"dtype":"F32","shape":[4,4],"data_offsets":[0,64]}}', _safetensors),
            ],
        ),
        Reader(
            "weights, torch",
            weights,
            "x.pt",
            lambda: [
                (_torch_file(), plain),
                (_data_pkl(), torch_zip),
                (_torch_file(_use_new_zipfile_serialization=False), plain),
            ],
        ),
        Reader(
            "exported program",
            network,
            "x.pt2",
            lambda: [
                (exported()["model.pt2"], plain),
                _program_with("models/model.json"),
                _program_with("model_weights_config.json"),
            ],
            cost=3,
        ),
        Reader("onnx", network, "x.onnx", lambda: [(exported()["model.onnx"], plain)], cost=4),
    )
}
