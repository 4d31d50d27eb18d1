"""Options written down in full: what means the same resolves to the same, and makes the same layer."""

import functools
import sys
import types
from typing import Any

import pytest

from shiftproof import GHS2d
from shiftproof.ghs import pivots
from shiftproof.ghs.kernel import Hermite, Local
from shiftproof.layers import create_downsample, methods, registry, resolve_options


@pytest.mark.parametrize("method", methods())
def test_resolved_options_make_the_same_layer(method: str) -> None:
    full = resolve_options(method)
    assert repr(create_downsample(method, 8, **full)) == repr(create_downsample(method, 8))
    assert resolve_options(method, full) == full


def test_a_kernel_has_one_text() -> None:
    """However it is given: as an object, as a text with spaces, as a text without its defaults."""
    given = ["local(order=4)", " Local( order = 4, width=1 )", Local(4)]
    assert {resolve_options("ghs", {"kernel": kernel})["kernel"] for kernel in given} == {"local(order=4, width=1.0)"}
    assert resolve_options("ghs", {"kernel": "hermite"}) == resolve_options("ghs", {"kernel": Hermite()})


def test_a_function_has_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one by which it can be imported; what has none, or another function's, is refused."""

    def score_max(x: Any) -> Any:
        return x.amin(1)

    assert resolve_options("ghs", {"pivot_rule": pivots.score_max})["pivot_rule"] == "shiftproof.ghs.pivots.score_max"
    same_name = types.FunctionType(score_max.__code__, globals(), "score_max")
    same_name.__module__, same_name.__qualname__ = "shiftproof.ghs.pivots", "score_max"
    in_main = types.FunctionType(score_max.__code__, globals(), "score_max")
    in_main.__module__, in_main.__qualname__ = "__main__", "score_max"
    monkeypatch.setattr(sys.modules["__main__"], "score_max", in_main, raising=False)
    for rule in (lambda x: x.amax(1), score_max, same_name, in_main, functools.partial(pivots.score_max)):
        with pytest.raises(
            ValueError, match=r"^`pivot_rule` \(=.*\) must be a function that can be imported by its name"
        ):
            resolve_options("ghs", {"pivot_rule": rule})


def test_a_default_without_a_text_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method of one's own may have a function as a default; the name of a function would make another layer."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))

    @registry.register_method("mine")
    def mine(channels: int, stride: int, padding: str, ndim: int, power: float = 2.0, rule: Any = abs) -> GHS2d:
        assert callable(rule)
        return GHS2d(stride)

    assert resolve_options("mine") == {"power": 2.0}
    create_downsample("mine", 8, **resolve_options("mine"))
