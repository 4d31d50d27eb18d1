"""Files made to do harm: bombs, traversals, code to be executed. By the name of a reader and of the attack.

Where something is to be executed, it leaves the file `executed` in the working folder.
"""

import gzip
import io
import json
import lzma
import os
import pickle
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from helpers.readers import (
    MEMBERS,
    TOML,
    UNPACKED,
    checkpoint_of,
    idx_bytes,
    program_records,
    tarred,
    torch_zip,
    whole_record,
    zipped,
)

GIGABYTES = 5  # more than the sandbox has


class Touch:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> Any:
        return self.call, self.arguments


# --- pickles, by themselves and inside torch's files


def _doubling() -> bytes:
    """A tuple of two equal tuples, sixty deep, as the key of a dictionary: hashing it takes for ever."""
    out = b"\x80\x02})"
    for i in range(60):
        out += b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86"
    return out + b"K\x01s."


PICKLES: dict[str, bytes] = {
    "method of a path": pickle.dumps(Touch(Path("executed").touch)),
    "eval": pickle.dumps(Touch(eval, "open('executed', 'w')"), 0),
    "exec": pickle.dumps({b"data": Touch(exec, "open('executed', 'w')"), b"labels": []}, 2),
    "system": pickle.dumps(Touch(os.system, "touch executed"), 4),
    "INST": b"(S'touch executed'\nios\nsystem\n.",
    "OBJ": b"(cos\nsystem\nS'touch executed'\no.",
    "NEWOBJ": b"\x80\x02cos\nsystem\nX\x0e\x00\x00\x00touch executed\x85\x81.",
    "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0etouch executed\x85R.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "memo at two thousand million": b"\x80\x02}r\xff\xff\xff\x7f.",
    "memo in digits": b"}p4294967295\n.",
    "key that doubles": _doubling(),
    "key that is deep": b"\x80\x02})" + b"\x85" * 300_000 + b"K\x01s.",
    "set that doubles": _doubling()[:-4].replace(b"}", b"(", 1) + b"\x91.",
    "list that is deep": b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "bytes without end": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b".",
    "text without end": b"\x80\x04X" + struct.pack("<I", 2**32 - 1) + b".",
    "array of bytes without end": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "frame without end": b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.",
    "number without end": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b".",
    "number of a million digits": b"I" + b"9" * 10**6 + b"\n.",
    "marks only": b"\x80\x02" + b"(" * 100_000,
    "nothing on the stack": b"\x80\x02R.",
    "attributes of a class": b"cnumpy\ndtype\n(N}Vshape\nI7\nstb.",
}


# --- archives


def _bomb(member: tarfile.TarInfo, size: int) -> bytes:
    """A .tar.gz file whose one member unpacks to `size` zeros: gz files may be strung together."""
    member.size = size
    zeros = gzip.compress(bytes(2**24))
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT)) + zeros * (size // 2**24)


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


def _traversal() -> bytes:
    """Links that lead out, then files through them; names that climb; devices."""
    out = io.BytesIO()
    content = bytes(3073)
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(_entry("out", tarfile.SYMTYPE, "/tmp"))
        archive.addfile(_entry("up", tarfile.SYMTYPE, ".."))
        archive.addfile(_entry(MEMBERS[1], tarfile.LNKTYPE, "/etc/passwd"))
        archive.addfile(_entry(f"x/{MEMBERS[1]}", tarfile.SYMTYPE, "/etc/passwd"))
        archive.addfile(_entry(f"y/{MEMBERS[1]}", tarfile.FIFOTYPE))
        archive.addfile(_entry(f"z/{MEMBERS[1]}", tarfile.CHRTYPE))
        for name in ("/executed", "../executed", "out/executed", "up/executed", f"../../{MEMBERS[0]}"):
            entry = _entry(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _sparse() -> bytes:
    """A GNU sparse file: 512 bytes that stand for 200 GB."""
    entry = _entry(MEMBERS[0])
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[156:157] = b"S"
    header[386:398] = header[398:410] = b"00000000000 "
    header[483:495] = b"3" + b"0" * 10 + b"\0"
    header[148:156] = b"        "
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header) + bytes(1024)


def _greedy_xz(content: bytes) -> bytes:
    """An .xz file that asks for a dictionary of 4 GiB."""
    packed = bytearray(lzma.compress(content, preset=0))
    end = 12 + 4 * (packed[12] + 1)  # the header of the first block
    at = packed.index(b"\x21\x01", 12, end)
    packed[at + 2] = 40
    packed[end - 4 : end] = struct.pack("<I", zlib.crc32(packed[12 : end - 4]))
    return bytes(packed)


def _greedy_zip() -> bytes:
    """A zip file whose member, in LZMA, asks for a dictionary of 4 GiB."""
    packed = bytearray(zipped({MEMBERS[0]: bytes(3073)}, zipfile.ZIP_LZMA))
    at = 30 + len(MEMBERS[0]) + 4  # behind the local header: version and length of the properties
    packed[at + 1 : at + 5] = b"\xff\xff\xff\xff"
    return bytes(packed)


def _twice(kind: str) -> bytes:
    """A name twice, and what stands behind it twice."""
    if kind == "zip":
        return _repeated_entry(zipped({MEMBERS[0]: bytes(3073)}), 2)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in ("a", "b"):
            entry = _entry(f"{folder}/{MEMBERS[0]}")
            entry.size = 3073
            archive.addfile(entry, io.BytesIO(bytes(3073)))
    return out.getvalue()


def _repeated_entry(content: bytes, times: int) -> bytes:
    """A zip file whose directory lists its one member many times, all of them the same bytes."""
    start, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entry = content[start:end]
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, times, times, len(entry) * times, start, 0)
    return content[:start] + entry * times + tail


def _liar() -> bytes:
    """A zip file that says 100 bytes where there are many."""
    out = bytearray(zipped({MEMBERS[0]: bytes(10**7)}))
    at = out.index(b"PK\x01\x02") + 24
    out[at : at + 4] = struct.pack("<I", 100)
    return bytes(out)


# --- pictures


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _png(width: int, height: int, depth: int = 1, extra: bytes = b"", rows: int | None = None) -> bytes:
    """A black picture of any size; `rows` of it are there."""
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    row = b"\0" + bytes((width * depth + 7) // 8)
    body = zlib.compress(row * (height if rows is None else rows), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + extra + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 10 10
%%EndComments
(executed) (w) file closefile
showpage
"""


# --- networks


def _constant(dims: list[int]) -> bytes:
    """An ONNX network of 200 bytes with a constant of any size."""
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["large"]),
        helper.make_node("ReduceMean", ["large"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["x", "mean"], ["y"]),
    ]
    shape = helper.make_tensor("shape", TensorProto.INT64, [len(dims)], dims)
    return _onnx(nodes, [shape])


def _external(location: str) -> bytes:
    """An ONNX network whose weights stand in another file."""
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1, 3, 8, 8], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": "0", "length": "768"}.items():
        weight.external_data.add(key=key, value=value)
    return _onnx([helper.make_node("Add", ["x", "w"], ["y"])], [weight])


def _onnx(nodes: list[onnx.NodeProto], weights: list[TensorProto]) -> bytes:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _program(name: str, change: Callable[[bytes], bytes], kind: int = zipfile.ZIP_STORED) -> bytes:
    """An exported program with one of its records changed; the others as they were."""
    records = program_records()
    (full,) = (n for n in records if n.endswith(name))
    return zipped(records | {full: change(records[full])}, kind)


def _size(text: str) -> bytes:
    """An exported program with another size in its graph."""

    def change(content: bytes) -> bytes:
        tree = json.loads(content)
        symbol = next(iter(tree["graph_module"]["graph"]["tensor_values"].values()))
        symbol["sizes"][0] = {"as_expr": {"expr_str": text, "hint": None}}
        return json.dumps(tree).encode()

    return _program("models/model.json", change)


def _record(old: bytes, new: bytes) -> bytes:
    content = whole_record()
    assert old in content
    return content.replace(old, new, 1)


ATTACKS: dict[str, dict[str, Callable[[], bytes]]] = {
    "cifar pickle": {name: lambda c=content: c for name, content in PICKLES.items()},  # type: ignore[misc]
    "weights, torch": {
        **{f"pickle: {name}": lambda c=content: torch_zip(c) for name, content in PICKLES.items()},  # type: ignore[misc]
        **{f"bare pickle: {name}": lambda c=content: c for name, content in PICKLES.items()},  # type: ignore[misc]
        "bomb": lambda: _packed_weights(10**8),
    },
    "idx, packed": {
        "more than it says": lambda: gzip.compress(idx_bytes() + bytes(10**7)),
        "promises too much": lambda: gzip.compress(struct.pack(">BBBB3I", 0, 0, 8, 3, *[2**32 - 1] * 3) + bytes(10**6)),
        "promises what overflows": lambda: gzip.compress(struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**31, 4)),
    },
    "idx": {"oversize": lambda: struct.pack(">BBBB3I", 0, 0, 8, 3, *[2**32 - 1] * 3)},
    "amat": {
        "one line": lambda: b"0.5 " * 10**6,
        "not numbers": lambda: b"0x1p3 1_0 " * 400 + b"\n",
        "blanks of other alphabets": lambda: b"\x85\xa0\x1c\n" * 100,
    },
    "tar.gz": {
        "a large member": lambda: _bomb(_entry(MEMBERS[0]), 2 * UNPACKED),
        "a large member nobody wants": lambda: _bomb(_entry("other"), GIGABYTES * 2**30),
        "a large header": lambda: _bomb(_entry("./pax", tarfile.XHDTYPE), GIGABYTES * 2**30),
        "a large name": lambda: _bomb(_entry("././@LongLink", tarfile.GNUTYPE_LONGNAME), GIGABYTES * 2**30),
        "xz that is greedy": lambda: _greedy_xz(tarred({MEMBERS[0]: bytes(3073)}, "w")),
    },
    "tar": {
        "sparse": _sparse,
        "a name twice": lambda: _twice("tar"),
        "traversal": _traversal,
        "pax header without sense": lambda: _entry("x", tarfile.XHDTYPE).tobuf()[:124] + b"00000000777\0" + bytes(2000),
    },
    "archive into the store": {"traversal": _traversal, "a name twice": lambda: _twice("tar")},
    "zip": {
        "a large member": lambda: zipped({MEMBERS[0]: bytes(2 * UNPACKED)}),
        "lies about its size": _liar,
        "greedy": _greedy_zip,
        "a name twice": lambda: _twice("zip"),
        "a name sixty thousand times": lambda: _repeated_entry(zipped({MEMBERS[0]: bytes(10**6)}), 60000),
        "traversal": lambda: zipped(
            dict.fromkeys(("/executed", "../executed", "..\\executed", f"../{MEMBERS[0]}"), b"x")
        ),
    },
    "png to measure": {
        "as large as Pillow allows": lambda: _png(9400, 9400),
        "larger": lambda: _png(60000, 60000, rows=1),
        "largest": lambda: _png(2**31 - 1, 2**31 - 1, rows=1),
        "text that unpacks": lambda: _png(4, 4, extra=_chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**26), 1))),
        "profile that unpacks": lambda: _png(4, 4, extra=_chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(2**26), 1))),
        "16 bits": lambda: _png(9400, 9400, 16),
    },
    "png of a set": {
        "as large as Pillow allows": lambda: _png(9400, 9400),
        "larger": lambda: _png(60000, 60000, rows=1),
        "16 bits": lambda: _png(9400, 9400, 16),
    },
    "bmp to measure": {"oversize": lambda: b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, 2**30, 2**30, 1, 24, 0)},
    "ppm to measure": {"oversize": lambda: b"P6 999999999 999999999 255\n"},
    "picture with Ghostscript": {"program": lambda: EPS},
    "picture of a set with Ghostscript": {"program": lambda: EPS},
    "configuration": {
        "deep": lambda: b"a = " + b"[" * 20000,
        "deep tables": lambda: b"a = " + b"{b=" * 5000,
        "long key": lambda: b".".join([b"a"] * 400000) + b" = 1",
        "digits": lambda: b"optim.lr = " + b"9" * 5000,
        "not text": lambda: TOML + b'x = "\xff\xfe"',
        "large": lambda: b"#" * 10**8,
        "infinite": lambda: b"optim.lr = inf",
        "list for a table": lambda: b"[[model]]\nname = 'resnet20'",
        "number for a table": lambda: b"model = 5",
        "number for options": lambda: b"model.options = 5",
        "mixed list": lambda: b"optim.milestones = [1, 'x', [2]]",
        "date": lambda: b"run.seed = 1979-05-27",
        "dots in a key": lambda: b'"optim.lr" = 0.5\noptim."lr" = 3',
    },
    "record": {
        "not a number": lambda: _record(b'"value": 0.5', b'"value": NaN'),
        "infinite": lambda: _record(b'"value": 0.5', b'"value": 1e999'),
        "deep": lambda: _record(b'"settings": {', b'"settings": {"a": ' + b"[" * 900 + b"]" * 900 + b", "),
        "deep where it does not belong": lambda: _record(b'"seed": 0', b'"seed": ' + b"[" * 900 + b"]" * 900),
        "twice": lambda: _record(b'"value": 0.5', b'"value": 0.5, "value": 0.9'),
        "digits": lambda: _record(b'"value": 0.5', b'"value": ' + b"9" * 5000),
        "not text": lambda: _record(b'"value": 0.5', b'"value": "\xff"'),
        "half a pair": lambda: _record(b'"value": 0.5', b'"value": "\\ud800"'),
    },
    "settings of a run": {
        "deep": lambda: b"[" * 900 + b"]" * 900,
        "a list": lambda: b"[]",
        "infinite": lambda: b'{"optim": {"lr": 1e999}}',
    },
    "result of a run": {"deep": lambda: b"[" * 10**6, "a list": lambda: b"[]", "not text": lambda: b"\xff\xfe"},
    "log of a run": {
        "deep": lambda: b'{"step": 1}\n' + b"[" * 10**6 + b"\n",
        "not a number": lambda: b'{"step": NaN}\n{"step": null}\n{"step": "1"}\n[]\n',
        "other line ends": lambda: b'{"step": 1, "x": "\xe2\x80\xa8"}\n{"step": 1}\x85{"step": 2}',
    },
    "checkpoint": {
        "a list": lambda: checkpoint_of(b"[1]"),
        "nothing": lambda: checkpoint_of(b"null"),
        "deep": lambda: checkpoint_of(b"[" * 10**5),
        "not a number": lambda: checkpoint_of(b'{"epoch": NaN}'),
        "a header without end": lambda: struct.pack("<Q", 2**62) + b"{}",
        "a pickle": lambda: PICKLES["method of a path"],
    },
    "weights, safetensors": {
        "a tensor without end": lambda: _header({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
        "sizes that overflow": lambda: _header({"w": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}),
        "offsets that cross": lambda: _header({"w": {"dtype": "F32", "shape": [4], "data_offsets": [16, 0]}}),
        "deep": lambda: _header(b'{"a":' + b"[" * 10**5),
    },
    "exported program": {
        "packed records": lambda: _program("weight_0", lambda c: bytes(4 * 10**8), zipfile.ZIP_DEFLATED),
        "a deep graph": lambda: _program("models/model.json", lambda c: b"[" * 10**6),
        "a size that takes for ever": lambda: _size("9**9**9**9"),
        "a size that takes for ever, in words": lambda: _size("Pow(Integer(10), Integer(10**12))"),
        "a power of powers": lambda: _size("Pow(Pow(Pow(Integer(9), Integer(99)), Integer(99)), Integer(99999))"),
        "a shift": lambda: _size("1 << 99999999999"),
        "examples that double": lambda: _program("sample_inputs/model.pt", lambda c: torch_zip(_doubling())),
        "a config that is a list": lambda: _program("model_weights_config.json", lambda c: b"[]"),
    },
    "onnx": {
        "a constant of 5 GB": lambda: _constant([GIGABYTES * 2**28]),
        "weights elsewhere": lambda: _external("../../../../../../etc/passwd"),
        "weights without end": lambda: _external("/dev/zero"),
    },
}


def _header(header: Any) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


def _packed_weights(numbers: int) -> bytes:
    """A file of torch.save whose one storage, packed, unpacks to zeros."""
    pickled = (
        b"\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
        + _integer(numbers)
        + b"tQK\x00"
        + _integer(numbers)
        + b"\x85K\x01\x85"
        b"\x89ccollections\nOrderedDict\n)RtRs."
    )
    members = {"x/data.pkl": pickled, "x/byteorder": b"little", "x/data/0": bytes(4 * numbers), "x/version": b"3\n"}
    return zipped(members)


def _integer(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)
