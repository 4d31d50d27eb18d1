"""The law of every downsampling method, on uses that nobody thought of."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import Phase, find, given, reject, settings
from torch import Tensor

from helpers import tally
from helpers.cases import OPTIONS, TAME, Case, cases, options_of
from helpers.laws import TOLERANCE, effort
from shiftproof.ghs import ties
from shiftproof.ghs.backend import native
from shiftproof.invariance import same_bits
from shiftproof.layers import (
    APS,
    LPS,
    AdaptiveBlurPool,
    Downsample,
    create_downsample,
    front,
    methods,
    polyphase,
    registry,
)
from shiftproof.layers.ghs import GHSBase
from shiftproof.layers.pooling import MaxPool, Strided, subsample
from shiftproof.maps.polyphase import polyphase as components
from shiftproof.maps.shifts import circular_shift
from shiftproof.tensors import wide

SECTION = "Layers: the law of every method"
pytestmark = pytest.mark.counted
REFUSALS = (
    "`gain='unit'` cannot keep a constant here",
    "`projection='least-squares'` is hopeless here",
    "`projection='least-squares'` fits a number of functions",
    "must be at most the grid size",
    "must lie inside (0, 1) to be learnt",
)
QUICK = settings(max_examples=500, phases=[Phase.generate], derandomize=True, database=None)


def answer(layer: Downsample, x: Tensor, selection: Tensor | None = None) -> Tensor:
    """The maps alone, where a layer hands out its pivot too."""
    out: Tensor | tuple[Tensor, Tensor] = layer(x, selection)
    return out[0] if isinstance(out, tuple) else out


def same(a: Tensor, b: Tensor) -> bool:
    """Bit for bit, but one NaN is as good as another: torch makes different ones with and without gradients."""
    return same_bits(a.masked_fill(a.isnan(), torch.nan), b.masked_fill(b.isnan(), torch.nan))


def close(a: Tensor, b: Tensor, bound: float) -> bool:
    a, b = a.double(), b.double()
    return bool(((a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= bound)).all())


def moved_components(layer: Downsample, selection: Tensor, shift: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What becomes of polyphase components (B,) when the map is shifted: their numbers (B,), their shifts (B, n)."""
    stride = torch.tensor(layer.stride)
    place = torch.stack(torch.unravel_index(selection, layer.stride), -1) + torch.tensor(shift)
    number = torch.zeros_like(selection)
    for k, s in zip((place % stride).unbind(-1), layer.stride):
        number = number * s + k
    return number, place.div(stride, rounding_mode="floor")


def rolled_by(layer: GHSBase, selection: Tensor, found: Tensor, sizes: Sequence[int]) -> Tensor:
    """How many samples further a sample is found after the pivot has moved, by its place in the map. (B, n)"""
    before, after = layer.frame(selection, sizes), layer.frame(found, sizes)
    steps = (before.offset + found - selection - after.offset) / torch.tensor(before.step, dtype=torch.float64)
    whole = steps.round()
    assert ((steps - whole).abs() < 1e-9).all()
    return whole.long()


def decided(layer: Downsample, x: Tensor) -> Tensor:
    """Whether one component is better than the others, by more than rounding. (B,) booleans"""
    assert isinstance(layer, APS | LPS)
    dense = layer.dense(x)
    if isinstance(layer, LPS):
        scores = layer.logits(dense).double()
    else:
        parts = components(dense, layer.stride, layer.ndim).to(wide(x.dtype)).transpose(1, 2).flatten(2).abs()
        norms = {"l1": parts.sum(2), "l2": parts.square().sum(2), "li": parts.amax(2)}[layer.criterion[:2]].double()
        scores = -norms if layer.criterion.endswith("min") else norms
    if scores.shape[1] == 1:
        return torch.ones(len(x), dtype=torch.bool)
    best, second = scores.topk(2).values.unbind(1)
    return best - second > 10 * TOLERANCE[x.dtype] * scores.abs().amax(1)


def follows(case: Case, layer: Downsample, x: Tensor, expected: Tensor, shift: tuple[int, ...]) -> str | None:
    """Hold the output of a shifted map to the law of its layer: how it was compared, None where nothing is claimed."""
    axes, divisible = range(2, x.dim()), not any(n % s for n, s in zip(case.sizes, layer.stride))
    # or a few of the smallest steps, which is all the precision that denormal numbers have
    bound = TOLERANCE[x.dtype] * float(x.double().nan_to_num(0, 0, 0).abs().max()) if x.numel() else 0.0
    bound += 8 * torch.finfo(x.dtype).smallest_normal * torch.finfo(x.dtype).eps

    def moved(shift: Sequence[int]) -> Tensor:
        return case.lay(circular_shift(x, shift, axes)).requires_grad_(case.grad)

    if layer.law == "exact-invariant":
        assert same_bits(answer(layer, moved(shift)), expected), f"shift {shift}"
        return "bit for bit"
    selection = layer.select(case.lay(x))
    if isinstance(layer, GHSBase) and layer.padding != "circular":
        return None
    if isinstance(layer, GHSBase):
        assert selection is not None
        # a tie rule may decide by place; the pivot it found may still be moved along
        along = torch.where(selection < 0, -1, (selection + torch.tensor(shift)) % torch.tensor(case.sizes))
        found = layer.select(moved(shift)) if layer.exact else along
        if layer.anchor == "stay":
            expected = circular_shift(expected, rolled_by(layer, selection, found, case.sizes), axes)
        assert same_bits(answer(layer, moved(shift), found), expected), f"shift {shift}"
        return "bit for bit" + ("" if layer.exact else " with the pivot moved along")
    if layer.law == "equivariant" and divisible:
        assert selection is not None
        numbers, amounts = moved_components(layer, selection, shift)
        assert close(answer(layer, moved(shift), numbers), circular_shift(expected, amounts, axes), bound), (
            f"shift {shift}"
        )
        chosen, clear = layer.select(moved(shift)), decided(layer, case.lay(x))
        assert chosen is not None
        assert torch.equal(chosen[clear], numbers[clear]), f"shift {shift}"
        return "to rounding"
    # torch's convolutions in bfloat16 may let an infinity spoil more than its window, here and there
    sound = bool(x.isfinite().all()) or not isinstance(layer, AdaptiveBlurPool)
    if (
        layer.law == "none"
        and not layer.selects
        and divisible
        and getattr(layer, "padding", "circular") == "circular"
        and sound
    ):
        steps = [d * s % n for d, s, n in zip(shift, layer.stride, case.sizes)]
        there = circular_shift(expected, [d // s for d, s in zip(steps, layer.stride)], axes)
        bound = 0.0 if isinstance(layer, Strided | MaxPool) else bound
        assert close(answer(layer, moved(steps)), there, bound), f"shift {steps}"
        return "by multiples of the stride"
    return None


def check(case: Case) -> None:
    """What every method promises, and its own law."""
    with mock.patch.object(native, "library", native.library if case.compiled else None):
        try:
            layer, x = case.layer(), case.maps()
            given = case.lay(x).requires_grad_(case.grad)
            y = answer(layer, given)
        except ValueError as error:
            if not any(words in str(error) for words in REFUSALS):
                raise
            tally.count(SECTION, "options refused, with the reason", of=f"`{case.method}`")
            reject()
        _promises(case, layer, x, given, y)
        for shift in case.shifts():
            how = follows(case, layer, x, y.detach(), shift)
            if how is not None and len(x):
                tally.count(SECTION, f"shifts {how}", of=f"`{case.method}`")
    dtype = str(case.dtype).removeprefix("torch.")
    tally.count(SECTION, "cases", of=f"`{case.method}`")
    for what in (f"{len(case.sizes)}-D", dtype, f"{case.layout} in memory"):
        tally.count(SECTION, f"cases, {what}")
    for b in range(case.shape[0]):
        tally.count(SECTION, f"samples, {case.kind(b)}")


def _promises(case: Case, layer: Downsample, x: Tensor, given: Tensor, y: Tensor) -> None:
    counts = case.options.get("output_size") or tuple(-(-n // s) for n, s in zip(case.sizes, layer.stride))
    counts = counts if isinstance(counts, tuple) else (counts,) * layer.ndim
    assert (y.shape, y.dtype, y.device) == ((*case.shape[:2], *counts), x.dtype, x.device)
    if case.grad:
        (gradient,) = torch.autograd.grad(y, given, torch.ones_like(y))
        assert gradient.shape == x.shape
        assert all(g.isfinite().all() for b, g in enumerate(gradient) if case.kind(b) in TAME), "gradients"
    expected = y.detach()
    assert same_bits(given.detach(), x), "the input was changed"
    assert same(answer(layer, case.lay(x).requires_grad_(not case.grad)), expected), "gradients change the result"
    assert same(answer(layer, given, layer.select(given)), expected), "`select` decides otherwise"
    if layer.exact:
        assert expected[x.isnan().flatten(1).any(1)].isnan().all(), "no pivot, no answer"
    if case.shape[0] > 1 and case.layout != "one sample":
        keep = case.seed % case.shape[0]
        alone = torch.full_like(x, torch.nan)
        alone[keep] = x[keep]
        assert same(answer(layer, case.lay(alone))[keep], expected[keep]), "samples notice each other"


@pytest.mark.parametrize("method", methods())
def test_law(method: str) -> None:
    """Equal bits for every shift, or what else the method claims; and shape, dtype, gradients, samples kept apart."""
    weight = 2 if create_downsample(method, 1).exact else 1

    @effort(weight * 45, weight * 1200)
    @given(cases(method))
    def law(case: Case) -> None:
        check(case)

    law()


def without_values(method: str) -> set[str]:
    """The options of a method that no case has; one that hands options on says to whom by the name `inner`."""
    names = set(options_of(method))
    hidden = {"**"} if registry._registry[method].passes_on and "inner" not in names else set()
    return (names | hidden) - set(OPTIONS)


@pytest.mark.parametrize("method", methods())
def test_every_option_is_drawn(method: str) -> None:
    """A new option has to be entered in `OPTIONS`, with the values it may take."""
    assert not without_values(method)
    seen: set[str] = set()

    @settings(QUICK, max_examples=100)
    @given(cases(method))
    def look(case: Case) -> None:
        seen.update(case.options)

    look()
    assert seen >= set(options_of(method))


def test_no_option_is_stale_and_a_new_one_is_noticed() -> None:
    assert set(OPTIONS) == {name for method in methods() for name in options_of(method)}
    with mock.patch.dict(registry._registry):
        registry.register_method("of-test")(lambda channels, stride, padding, ndim, strength=1.0: Strided())
        registry.register_method("of-test-too")(lambda channels, **options: Strided())
        assert without_values("of-test") == {"strength"}
        assert without_values("of-test-too") == {"**"}


def unsigned(out: Tensor, pivot: Tensor) -> Tensor:
    return out.masked_fill((pivot[:, 0] < 0).view(-1, *[1] * (out.dim() - 1)), torch.nan)


def strided(change: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda self, x, selection=None: subsample(change(x), self.stride, self.ndim)


# what is done -> (method, whose attribute, which, what takes its place, the law that notices)
MUTATIONS: dict[str, tuple[str, Any, str, Callable[..., Any], str]] = {
    "ties broken by place": ("ghs", ties, "_resolve", lambda tied, index, *maps: index, "shift"),
    "zeros with their sign": ("align", front, "mark_absent", unsigned, "shift"),
    "always one component": ("aps", polyphase, "select_component", lambda x, *_: x.new_zeros(len(x)).long(), "shift"),
    "a mirror": ("strided", Strided, "forward", strided(lambda x: x.flip(2)), "shift"),
    "a mean over samples": ("strided", Strided, "forward", strided(lambda x: x - x.mean(0)), "samples notice"),
    "in place": ("strided", Strided, "forward", strided(lambda x: x.detach().copy_(x + 1)), "the input was changed"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_law_can_fail(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative controls: a method that is broken on purpose is caught, by the law it breaks."""
    method, owner, attribute, wrong, law = MUTATIONS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    monkeypatch.delenv(tally.FOLDER, raising=False)  # what is broken does not count

    def caught(case: Case) -> bool:
        try:
            check(replace(case, grad=False))
        except AssertionError as error:
            return str(error).startswith(law)
        return False

    find(cases(method), caught, settings=QUICK)
