"""Torch's files from anyone: what its loaders would execute, or unpack without end, is refused first.

Weights are read with `weights_only=True`, by an unpickler that knows only tensors; `load_plain` adds the limits that
it lacks. `torch.export.load` is not made for untrusted files: it unpickles weights, constants and example inputs, loads
compiled libraries, evaluates the strings that describe sizes and guards, and writes names of inputs into Python code.
A program needs none of that. Here it is tensors as raw bytes and a graph as JSON, and every string in the graph is a
plain word, arithmetic, or an operator of a known library.

Operators must be registered before a program is loaded: import `shiftproof.layers` for those of this package.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import re
import zipfile
from pathlib import Path
from typing import IO, Any

import torch

from shiftproof import checks
from shiftproof.safe_io import pickles

_RECORDS = re.compile(
    r"(\.data/)?version|\.data/serialization_id|\.format_version|\.storage_alignment|archive_(format|version)|byteorder"
    r"|models/model\.json|data/sample_inputs/model\.pt"
    r"|data/(weights|constants)/(model_\w+_config\.json|weight_\d+|tensor_\d+)|extra/.*"
)
_CONFIGURATIONS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_WORD = re.compile(r"[\w.]*|-Infinity", re.ASCII)
_SYMBOLIC = re.compile(
    r"_operator\.(eq|ne|le|ge|lt|gt|neg|pos|and_|or_|not_|mul|add|sub|floordiv|truediv|mod|pow|lshift|rshift|getitem)"
    r"|math\.(trunc|ceil|floor|sqrt)|torch\._?sym_[a-z]+"
    r"|torch\.ops\.higher_order\.(cond|while_loop|wrap_with_set_grad_enabled|wrap_with_autocast)"
)
_TENSOR = re.compile(r"torch\.ops\.(aten|prims|shiftproof|torchvision|quantized_decomposed)\.\w+\.\w+", re.ASCII)
_FILES = re.compile(r"torch\.ops\.aten\.(save|from_file)\.")
# strings that are shown or passed on, never evaluated; guards are those of sizes, which are checked without them
_INERT = {
    *("as_string", "as_strings", "torch_version", "guards_code"),
    *("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node"),
}
_SYMBOL = re.compile(r"[a-z]+\d+")
_TREES = {None, "builtins.tuple", "builtins.list", "builtins.dict"}
_ARITHMETIC = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Constant),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
)
_POWERS = ("Pow", "PowByNatural", "FloatPow")
_LARGEST_DEGREE = 64
_LONGEST_SIZE = 10_000  # characters
_FUNCTIONS = {
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "floor", "ceiling"),
    *("Equality", "Unequality", "LessThan", "GreaterThan", "StrictLessThan", "StrictGreaterThan", "And", "Or", "Not"),
    *("FloorDiv", "CleanDiv", "CeilDiv", "IntTrueDiv", "FloatTrueDiv", "PythonMod", "ModularIndexing", "Identity"),
    *("PowByNatural", "FloatPow", "ToFloat", "CeilToInt", "FloorToInt", "TruncToInt", "TruncToFloat", "RoundToInt"),
}


def load_plain(file: IO[bytes]) -> Any:
    """What `torch.save` wrote, if it is made of tensors and plain values; compressed records are refused."""
    if file.read(4) == b"PK\x03\x04":
        for stream in _stored(file):
            pickles.vet(stream)
    else:  # before torch 1.6: pickles in a row, then the bytes of the tensors
        file.seek(0)
        for _ in range(5):
            pickles.vet(file)
    file.seek(0)
    return torch.load(file, map_location="cpu", weights_only=True)


def _stored(file: IO[bytes]) -> list[io.BytesIO]:
    """The pickles in a zip archive as torch writes it: records uncompressed, each name once."""
    length = file.seek(0, io.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        records = archive.infolist()
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise _RefusedError("holds compressed records, which could unpack to anything.")
        if len(set(archive.namelist())) < len(records) or sum(record.file_size for record in records) > length:
            raise _RefusedError("holds records that overlap or occur twice.")
        return [io.BytesIO(archive.read(record)) for record in records if record.filename.endswith(".pkl")]


def load_program(path: Path) -> torch.export.ExportedProgram:
    """The program in a `.pt2` file; nothing in the file is unpickled or evaluated. Every flaw is a `ValueError`."""
    data = path.read_bytes()
    try:
        from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2
    except ImportError as error:
        raise ValueError(f"{path}: this torch ({torch.__version__}) is too old to read it; install 2.9.") from error
    try:
        _stored(io.BytesIO(data))
        _vet(PT2ArchiveReader(io.BytesIO(data)))
        return load_pt2(io.BytesIO(data)).exported_programs["model"]
    except _RefusedError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # torch has many, most of them internal
        raise ValueError(f"{path}: no exported program that can be read ({checks.one_line(error)})") from error


class _RefusedError(Exception):
    """The file asks for something that no program needs."""


def _vet(reader: Any) -> None:
    for name in reader.get_file_names():
        if not _RECORDS.fullmatch(name):
            raise _RefusedError(f"holds {name!r}, which is no part of a plain exported program.")
    for name in _CONFIGURATIONS:
        for entry in json.loads(reader.read_bytes(name))["config"].values():
            if entry["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", entry["path_name"]):
                raise _RefusedError("holds pickled objects, which could execute anything. Export plain tensors.")
    try:
        load_plain(io.BytesIO(reader.read_bytes("data/sample_inputs/model.pt")))
    except Exception as error:
        raise _RefusedError("its example inputs are not plain tensors, and could execute anything.") from error
    _walk("", json.loads(reader.read_bytes("models/model.json")))


def _walk(key: str, value: Any) -> None:
    """Check every string below `value`, and every key."""
    if isinstance(value, dict):
        for name, part in value.items():
            _word(name)
            _walk(name, part)
    elif isinstance(value, list):
        for part in value:
            _walk(key, part)
    elif isinstance(value, str) and key not in _INERT:
        _CHECKS.get(key, _word)(value)


def _word(text: str) -> None:
    if not _WORD.fullmatch(text):
        raise _RefusedError(f"the name {text[:80]!r} is more than a name.")


def _operator(text: str) -> None:
    known = bool(_SYMBOLIC.fullmatch(text))
    if _TENSOR.fullmatch(text) and not _FILES.match(text):
        found = functools.reduce(lambda a, b: getattr(a, b, None), text.split(".")[1:], torch)  # type: ignore[arg-type, return-value]
        known = isinstance(found, torch._ops.OpOverload)
    if not known:
        raise _RefusedError(f"calls {text[:80]!r}, which is not an operator of torch, torchvision or shiftproof.")


def _size(text: str) -> None:
    """Arithmetic on symbols, as in Mul(Integer(2), Symbol('s0', integer=True)); torch evaluates the string."""
    try:
        if len(text) > _LONGEST_SIZE:
            raise ValueError("it is too long")
        tree = ast.parse(text, mode="eval")
        nodes = list(ast.walk(tree))
        if _degree(tree) > _LARGEST_DEGREE:
            raise ValueError("it would take for ever")
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        raise _RefusedError(f"the size {text[:80]!r} is not arithmetic.") from error
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        plain = isinstance(node, (*_ARITHMETIC, ast.unaryop, ast.cmpop, ast.Load))
        if isinstance(node, ast.Name):
            plain = node.id in _FUNCTIONS if id(node) in functions else bool(_SYMBOL.fullmatch(node.id))
        elif isinstance(node, ast.Constant):
            plain = isinstance(node.value, (int, float)) or bool(_SYMBOL.fullmatch(str(node.value)))
        if not plain:
            raise _RefusedError(f"the size {text[:80]!r} is not arithmetic.")


def _degree(node: ast.AST) -> int:
    """The highest power of a symbol or number; exponents must be numbers."""
    degree = max(map(_degree, ast.iter_child_nodes(node)), default=1)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _POWERS:
        exponent = node.args[1].args[0] if isinstance(node.args[1], ast.Call) else node.args[1]
        degree *= max(1, abs(int(ast.literal_eval(exponent))))
    return degree


def _tree(text: str) -> None:
    """Nested tuples, lists and dictionaries; torch imports the modules of other containers."""
    pending = [json.loads(text)[1]] if text else []
    while pending:
        node = pending.pop()
        if node["type"] not in _TREES or "__enum__" in str(node["context"]):
            raise _RefusedError(f"its inputs or outputs are a {node['type']!r}; plain containers are read here.")
        pending += node["children_spec"]


_CHECKS = {"expr_str": _size, "in_spec": _tree, "out_spec": _tree, "target": _operator, "as_operator": _operator}
