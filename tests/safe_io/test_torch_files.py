"""Torch's files from anyone: what honest ones hold, and nothing executed or unpacked from others."""

import io
import json
import pickletools
import re
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.hostile import PICKLES
from helpers.programs import PATHLIB, pickled, rewritten
from helpers.readers import torch_zip, zipped
from helpers.small_networks import write_networks
from shiftproof.models.predictor import load_predictor
from shiftproof.safe_io import torch_files
from shiftproof.safe_io.torch_files import load_plain, load_program


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_networks(tmp_path_factory.mktemp("networks"))


def saved(value: Any, new: bool = True) -> bytes:
    out = io.BytesIO()
    torch.save(value, out, _use_new_zipfile_serialization=new)
    return out.getvalue()


@pytest.mark.parametrize("new", [True, False])
def test_tensors_and_plain_values_come_back(new: bool) -> None:
    """In the format of today and in that of torch before 1.6; views and shared tensors included."""
    base = torch.arange(12.0).view(3, 4)
    types = (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.complex64)
    value = {
        "state_dict": OrderedDict({f"{kind}": base.to(kind) for kind in types} | {"view": base[1:, ::2], "base": base}),
        "nothing": torch.zeros(0, 3),
        "plain": [1, 2.5, None, True, "text", (3, (4,))],
    }
    found = load_plain(io.BytesIO(saved(value, new)))
    assert found["plain"] == value["plain"]
    assert found["nothing"].shape == (0, 3)
    for name, tensor in value["state_dict"].items():  # type: ignore[attr-defined]
        assert found["state_dict"][name].dtype == tensor.dtype
        assert torch.equal(found["state_dict"][name], tensor)
    adam = torch.optim.Adam(nn.Linear(2, 2).parameters())
    assert load_plain(io.BytesIO(saved(adam.state_dict(), new))) == adam.state_dict()


@pytest.mark.parametrize("wrap", [torch_zip, bytes])
@pytest.mark.parametrize("name", PICKLES)
def test_hostile_weights_execute_nothing(
    name: str, wrap: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the pickle is that stands in a file of weights: it is refused, or harmless."""
    monkeypatch.chdir(tmp_path)
    if name == "list that is deep" and wrap is torch_zip:
        assert isinstance(load_plain(io.BytesIO(wrap(PICKLES[name]))), list)
    else:
        with pytest.raises(Exception, match=r".") as refusal:
            load_plain(io.BytesIO(wrap(PICKLES[name])))
        assert not isinstance(refusal.value, (MemoryError, RecursionError))
    assert not list(tmp_path.iterdir())


def test_every_pickle_of_the_old_format_is_looked_through() -> None:
    """A file of torch before 1.6 has several in a row: the last one may be the hostile one."""
    whole = saved({"w": torch.zeros(2)}, new=False)
    stream = io.BytesIO(whole)
    ends = []
    for _ in range(5):
        list(pickletools.genops(stream))
        ends.append(stream.tell())
    for start, end in zip([0, *ends], ends):
        with pytest.raises(ValueError, match="takes too long to look up"):
            load_plain(io.BytesIO(whole[:start] + PICKLES["key that doubles"] + whole[end:]))


def test_records_are_stored_once_and_unpacked() -> None:
    """Packed ones could unpack to anything, and several could share their bytes."""
    with zipfile.ZipFile(io.BytesIO(saved({"w": torch.zeros(2)}))) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    assert torch.equal(load_plain(io.BytesIO(zipped(records, zipfile.ZIP_STORED)))["w"], torch.zeros(2))
    with pytest.raises(Exception, match="holds compressed records, which could unpack to anything"):
        load_plain(io.BytesIO(zipped(records, zipfile.ZIP_DEFLATED)))
    out = io.BytesIO(zipped(records, zipfile.ZIP_STORED))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr(next(iter(records)), b"again")
    out.seek(0)
    with pytest.raises(Exception, match="holds records that overlap or occur twice"):
        load_plain(out)


class Free(nn.Module):
    """Arithmetic on its sizes, as an exported program writes it down."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[2:]
        return x[:, :, : height // 2, : width - 1].mean((2, 3)) * (height * width)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_an_honest_program_gives_the_same_numbers(tmp_path: Path) -> None:
    """Free sizes, and arithmetic on them, included."""
    free = torch.export.Dim.DYNAMIC
    program = torch.export.export(Free(), (torch.rand(2, 3, 8, 8),), dynamic_shapes=({2: free, 3: free},))
    torch.export.save(program, tmp_path / "model.pt2")
    assert b"FloorDiv(" in (tmp_path / "model.pt2").read_bytes()
    read = load_program(tmp_path / "model.pt2").module(check_guards=False)
    for length in (4, 8, 33):
        x = torch.rand(2, 3, length, length)
        assert torch.equal(read(x), Free()(x))


def in_graph(old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    def change(records: dict[str, bytes]) -> None:
        before = records["models/model.json"].decode()
        assert old in before
        records["models/model.json"] = before.replace(old, new).encode()

    return change


def in_weights(records: dict[str, bytes]) -> None:
    records["data/weights/weight_0"] = pickled()
    name = "data/weights/model_weights_config.json"
    records[name] = records[name].replace(b'"use_pickle": false', b'"use_pickle": true')


def in_constants(records: dict[str, bytes]) -> None:
    records["data/constants/opaque_obj_0"] = pickled()
    entry = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": False, "tensor_meta": None}
    records["data/constants/model_constants_config.json"] = json.dumps({"config": {"o": entry}}).encode()


ATTACKS: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "example": (lambda r: r.update({"data/sample_inputs/model.pt": pickled()}), "example inputs are not plain tensors"),
    "weights": (in_weights, "pickled objects"),
    "constants": (in_constants, "opaque_obj_0"),
    "legacy": (lambda r: r.update({"data/weights/model.pt": pickled()}), "no part of a plain exported program"),
    "library": (lambda r: r.update({"data/aotinductor/m/x.so": b""}), "no part of a plain exported program"),
    "size": (in_graph("Symbol('", f"{PATHLIB} or Symbol('"), "is not arithmetic"),
    "function": (in_graph("torch.ops.aten.relu.default", "torch.os.mkdir"), "calls 'torch.os.mkdir'"),
    "saver": (in_graph("torch.ops.aten.relu.default", "torch.ops.aten.save.default"), "calls 'torch.ops.aten.save"),
    "nothing": (in_graph("torch.ops.aten.relu.default", "torch.ops.aten.x.y"), "calls 'torch.ops.aten.x.y'"),
    "name": (in_graph('"name": "input"', f'"name": "input, _={PATHLIB}"'), "more than a name"),
    "container": (in_graph("builtins.tuple", "collections.defaultdict"), "plain containers"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_programs_execute_nothing(
    attack: str, networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever torch would unpickle, evaluate, import, call or write into code is refused by name of the file."""
    monkeypatch.chdir(tmp_path)
    change, message = ATTACKS[attack]
    rewritten(networks / "model.pt2", tmp_path / "hostile.pt2", change)
    for load in (load_program, lambda path: load_predictor(str(path))):
        with pytest.raises(ValueError, match=re.escape(message)) as refusal:
            load(Path("hostile.pt2"))
        assert str(refusal.value).startswith("hostile.pt2: ")
    assert [p.name for p in tmp_path.iterdir()] == ["hostile.pt2"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Mul(Integer(2), Symbol('s0', positive=True, integer=True))", True),
        ("FloorDiv(Add(Symbol('s77', integer=True), Integer(-1)), Integer(2))", True),
        ("Max(Integer(1), Symbol('u0', integer=True))", True),
        ("Pow(Symbol('s0', integer=True), Integer(2))", True),
        ("__import__('os')", False),
        ("Symbol('s0').__class__", False),
        ("[x for x in (1, 2)]", False),
        ("lambda: 1", False),
        ("Integer('9 ** 9')", False),
        ("open('executed', 'w')", False),
        ("Pow(Integer(9), Integer(10 ** 9))", False),
        ("Pow(Pow(Pow(Integer(9), Integer(60)), Integer(60)), Integer(60))", False),
        ("Add(" * 4000 + ")" * 4000, False),
        ("Add(Integer(1), Integer(" + "9" * 10**5 + "))", False),
    ],
)
def test_a_size_is_arithmetic(text: str, plain: bool) -> None:
    """Torch evaluates the string: only sums, products and the like of numbers and symbols get there."""
    if plain:
        torch_files._size(text)
    else:
        with pytest.raises(torch_files._RefusedError, match="is not arithmetic"):
            torch_files._size(text)


def test_a_torch_that_is_too_old_is_named(networks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.export.pt2_archive._package", None)
    with pytest.raises(ValueError, match=r"model\.pt2: this torch \(.*\) is too old to read it; install 2\.9"):
        load_program(networks / "model.pt2")
