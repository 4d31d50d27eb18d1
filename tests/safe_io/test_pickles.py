"""Pickles are looked through before they are read: honest ones pass, endless ones are refused, no object is made."""

import collections
import contextlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import tally
from helpers.hostile import PICKLES
from helpers.laws import effort
from shiftproof.safe_io import pickles

keys = st.recursive(st.one_of(st.integers(), st.text(), st.binary()), lambda k: st.lists(k, max_size=3).map(tuple))
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), keys),
    lambda v: st.one_of(st.lists(v, max_size=4), st.dictionaries(keys, v, max_size=4)),
)


@effort(60, 3000)
@given(value=plain, protocol=st.integers(0, 5))
def test_honest_pickles_pass(value: Any, protocol: int) -> None:
    """Whatever Python's own pickler writes of plain values, shared ones included."""
    for content in (value, [value, value, (value, value)]):
        stream = io.BytesIO(pickle.dumps(content, protocol) + b"rest")
        pickles.vet(stream)
        assert stream.read() == b"rest"
    tally.count("Files: damaged and hostile", "honest pickles that must pass")


def test_honest_objects_pass() -> None:
    named = collections.OrderedDict((f"layer{i}", np.arange(i)) for i in range(50))
    betas = (0.9, 0.999)
    for protocol in range(6):
        pickles.vet(
            io.BytesIO(pickle.dumps({"state": named, "groups": [{"betas": betas} for _ in range(50)]}, protocol))
        )
        pickles.vet(io.BytesIO(pickle.dumps({(i, (i, betas)): {i} for i in range(500)}, protocol)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("memo at two thousand million", "at place 2147483647"),
        ("memo in digits", "at place 4294967295"),
        ("key that doubles", "takes too long"),
        ("key that is deep", "takes too long"),
        ("set that doubles", "takes too long"),
        ("marks only", "pickle exhausted"),
    ],
)
def test_endless_pickles_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pickles.vet(io.BytesIO(PICKLES[name]))


def test_a_key_hidden_in_a_list_is_found() -> None:
    """OrderedDict([(key, 1)]) hashes what stands in a list, which may be filled after it was remembered."""
    doubled = b""
    for i in range(1, 60):
        doubled += b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86"
    attack = b"\x80\x02]q\x00)" + doubled + b"K\x01\x86a0ccollections\nOrderedDict\nh\x00\x85R."
    with pytest.raises(ValueError, match="takes too long"):
        pickles.vet(io.BytesIO(attack))


def test_too_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickles, "LONGEST", 100)
    with pytest.raises(ValueError, match="more than 100 instructions"):
        pickles.vet(io.BytesIO(pickle.dumps(list(range(200)))))


@pytest.mark.parametrize("name", PICKLES)
def test_nothing_is_executed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pickle names is neither looked up nor called; some are refused, the others are left to the unpickler."""
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(ValueError, LookupError):
        pickles.vet(io.BytesIO(PICKLES[name]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("length", range(0, 40, 3))
def test_a_pickle_that_is_cut_short_is_refused(length: int) -> None:
    whole = pickle.dumps({"weight": [1.5, 2.5], "name": "a network", "sizes": (3, 4)}, 2)
    assert length < len(whole)
    with pytest.raises(ValueError):
        pickles.vet(io.BytesIO(whole[:length]))


def test_the_budget_grows_with_the_pickle() -> None:
    """Ten thousand keys of three parts each are honest; one key of ten thousand parts is not."""
    pickles.vet(io.BytesIO(pickle.dumps({(i, str(i), (i,)): 0 for i in range(10**4)})))
    key: Any = ()
    for _ in range(14):
        key = (key, key)  # 2^14 parts, written in 14 instructions
    with pytest.raises(ValueError, match="takes too long to look up"):
        pickles.vet(io.BytesIO(pickle.dumps({key: 0})))
