"""Exported programs (`.pt2`) from strangers: what torch's loader would execute is refused before it sees the file.

`torch.export.load` is not made for untrusted files. It unpickles weights, constants and example inputs that ask for it,
loads compiled libraries, evaluates the strings that describe sizes and guards, and writes names of inputs into Python
code. A program needs none of that: here it is tensors as raw bytes and a graph as JSON, whose every string is a plain
word, arithmetic, or an operator of a known library.
"""

from __future__ import annotations

import ast
import functools
import io
import json
import re
from pathlib import Path
from typing import Any

import torch

import shiftproof.layers  # noqa: F401  (registers the operators that exported networks may call)

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
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Constant)
_FUNCTIONS = {
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "floor", "ceiling"),
    *("Equality", "Unequality", "LessThan", "GreaterThan", "StrictLessThan", "StrictGreaterThan", "And", "Or", "Not"),
    *("FloorDiv", "CleanDiv", "CeilDiv", "IntTrueDiv", "FloatTrueDiv", "PythonMod", "ModularIndexing", "Identity"),
    *("PowByNatural", "FloatPow", "ToFloat", "CeilToInt", "FloorToInt", "TruncToInt", "TruncToFloat", "RoundToInt"),
}


def load_program(path: Path) -> torch.export.ExportedProgram:
    """The program in a `.pt2` file; nothing in the file is unpickled or evaluated. Every flaw is a `ValueError`."""
    data = path.read_bytes()
    try:
        from torch.export.pt2_archive._package import PT2ArchiveReader, load_pt2
    except ImportError as error:
        raise ValueError(f"{path}: this torch ({torch.__version__}) is too old to read it; 2.9 can.") from error
    try:
        _vet(PT2ArchiveReader(io.BytesIO(data)))
        return load_pt2(io.BytesIO(data)).exported_programs["model"]
    except _RefusedError as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # torch has many, most of them internal
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"{path}: no exported program that can be read ({reason[:200]})") from error


class _RefusedError(Exception):
    """The file asks for something that a program does not need."""


def _vet(reader: Any) -> None:
    for name in reader.get_file_names():
        if not _RECORDS.fullmatch(name):
            raise _RefusedError(f"holds {name!r}, which is no part of a plain exported program.")
    for name in _CONFIGURATIONS:
        for entry in json.loads(reader.read_bytes(name))["config"].values():
            if entry["use_pickle"] or not re.fullmatch(r"(weight|tensor)_\d+", entry["path_name"]):
                raise _RefusedError("holds pickled objects, which could execute anything. Export plain tensors.")
    try:
        torch.load(io.BytesIO(reader.read_bytes("data/sample_inputs/model.pt")), weights_only=True)
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
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, RecursionError, ValueError) as error:
        raise _RefusedError(f"the size {text[:80]!r} is not arithmetic.") from error
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        plain = isinstance(node, (*_ARITHMETIC, ast.operator, ast.unaryop, ast.cmpop, ast.Load))
        if isinstance(node, ast.Name):
            plain = node.id in _FUNCTIONS if id(node) in functions else bool(_SYMBOL.fullmatch(node.id))
        elif isinstance(node, ast.Constant):
            plain = isinstance(node.value, (int, float)) or bool(_SYMBOL.fullmatch(str(node.value)))
        if not plain:
            raise _RefusedError(f"the size {text[:80]!r} is not arithmetic.")


def _tree(text: str) -> None:
    """Nested tuples, lists and dictionaries; torch imports the modules of other containers."""
    pending = [json.loads(text)[1]] if text else []
    while pending:
        node = pending.pop()
        if node["type"] not in _TREES or "__enum__" in str(node["context"]):
            raise _RefusedError(f"its inputs or outputs are a {node['type']!r}; plain containers are read here.")
        pending += node["children_spec"]


_CHECKS = {"expr_str": _size, "in_spec": _tree, "out_spec": _tree, "target": _operator, "as_operator": _operator}
