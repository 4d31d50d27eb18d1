"""The converter on random networks: the original again, the law, or an error that says where."""

import re

import pytest
import torch
from hypothesis import given, note
from hypothesis import strategies as st
from torch import nn

from helpers import tally
from helpers.graphs import SIZE, Graph, Step, build, graphs, images, source
from helpers.laws import effort
from shiftproof.conversion import ConversionError, conversion_report, convert
from shiftproof.invariance import assert_shift_invariant, shift_error

SECTION = "Networks: random graphs, converted"
pytestmark = pytest.mark.counted
FUNCTIONS = {"add", "mul", "cat", "mean", "flatten", "relu", "gelu", "hardswish", "tanh"}
METHODS = ["ghs", "ghs", "ghs", "ghs-paper", "align", "aps", "lps", "lpf", "lpf-adaptive", "max", "avg", "mixed"]


def converted(
    graph: Graph, method: str, padding: str | None, placement: str = "after"
) -> tuple[nn.Module, nn.Module | None]:
    """A network and what became of it; None where it was refused, by name of a place."""
    note(source(graph))
    model = build(graph)
    try:
        return model, convert(model, method, padding, placement=placement, example=images(2)).eval()
    except ConversionError as error:
        refusal = str(error)
    names = {re.sub(r"_\d+$", "", name) for name in re.findall(r"`([\w.]+)`", refusal)}
    assert names & ({name for name, _ in model.named_modules()} | FUNCTIONS), refusal
    tally.count(SECTION, "refused, with the place", of=f"`{method}`")
    return model, None


@effort(40, 600)
@given(graphs)
def test_strided_conversion_is_the_source(graph: Graph) -> None:
    """Strides moved after norms and activations, nothing else changed: the same values, to rounding."""
    model, new = converted(graph, "strided", None)
    if new is None:
        return
    x = images(2)
    with torch.no_grad():
        expected, found = model(x), new(x)
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))
    assert set(new.state_dict()) == set(model.state_dict())
    tally.count(SECTION, "converted", of="`strided`")


@effort(60, 1200)
@given(graphs, st.sampled_from(METHODS), st.sampled_from(["after", "before"]))
def test_converted_graphs_keep_their_law(graph: Graph, method: str, placement: str) -> None:
    """What is claimed to be invariant has the same bits under every shift; no key is lost."""
    placement = placement if method in ("ghs", "ghs-paper", "aps") else "after"
    model, new = converted(graph, method, "circular", placement)
    if new is None:
        return
    before, after = set(model.state_dict()), set(new.state_dict())
    assert before == after if method.startswith("ghs") or method == "align" else before <= after
    report = conversion_report(new)
    with torch.no_grad():  # without its own padding a map became smaller; with a wrap it does not, and that is said
        assert new(images(2)).shape == model(images(2)).shape or report.size_changed
    if report.law == "exact-invariant":
        assert_shift_invariant(new, images(), batch_size=SIZE[0] * SIZE[1])
        tally.count(SECTION, "shifts compared, bit for bit", SIZE[0] * SIZE[1])
    else:
        assert method not in ("ghs", "ghs-paper", "align")
    tally.count(SECTION, "converted", of=f"`{method}`" + (", before strides" if placement == "before" else ""))


GOOD = Graph((Step("block", kernel=5, stride=2), Step("max pool", stride=2), Step("cat", back=1)), "flatten")


def test_a_graph_is_a_program() -> None:
    """What is printed is what runs, and nothing in it is idle."""
    text = source(GOOD)
    assert "nn.Conv2d(2, 4, 5, stride=2, padding=2)" in text
    assert "v3 + v2" not in text
    assert build(GOOD)(images(2)).shape == (2, 3)
    assert len(build(Graph((Step("conv"), Step("relu", back=1)), "map")).state_dict()) == 0


MET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 1, stride=3)
        self.pool = nn.MaxPool2d(2, stride=1)
        self.main, self.short = nn.Conv2d(4, 4, 1, stride=3), nn.Conv2d(4, 4, 1, stride=3)
    def forward(self, x):
        x = self.pool(self.first(x))
        return self.main(x.relu()) + self.short(x)
"""


def test_maps_that_are_single_values_in_the_source_share_a_selection() -> None:
    """Found by a graph: with a wrap in place of a missing padding they have 2 x 2 pixels, and meet."""
    namespace: dict[str, type[nn.Module]] = {"nn": nn}  # type: ignore[dict-item]
    exec(MET, namespace)
    model = namespace["Net"]().eval()
    assert model(images()).shape[2:] == (1, 1)
    new = convert(model, example=images(2))
    assert new(images()).shape[2:] == (2, 2)
    assert_shift_invariant(new, images(), batch_size=SIZE[0] * SIZE[1])


def test_a_norm_over_the_map_before_the_first_downsampling() -> None:
    """Its rounding depends on positions, which the front makes harmless; weights that do so are named."""

    def network(norm: nn.Module) -> nn.Module:
        return nn.Sequential(norm, nn.Conv2d(2, 4, 1, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    assert_shift_invariant(convert(network(nn.GroupNorm(1, 2)), example=images(2)), images())
    assert_shift_invariant(
        convert(network(nn.GroupNorm(1, 2)), example=images(2), front=False), images(), tolerance=1e-5
    )
    norm = nn.LayerNorm([2, *SIZE])
    nn.init.normal_(norm.weight)
    with pytest.raises(ConversionError, match=r"`0` does not move with its map"):
        convert(network(norm), example=images(2))


def test_a_norm_over_a_single_value_stays_after_the_downsampling() -> None:
    """Found by a graph: of a map of one value it seems to look at each position alone."""
    model = nn.Sequential(nn.Conv2d(2, 4, 1, stride=12), nn.GroupNorm(1, 4), nn.Flatten(), nn.Linear(4, 3))
    new = convert(model, "strided", padding=None, example=images(2))
    assert torch.allclose(new(images(2)), model(images(2)), atol=1e-6)


def test_pooling_that_leaves_a_rest_is_reported() -> None:
    """Found by a graph: windows of 2 every 3 pixels leave the last ones out, where a method rounds up."""
    new = convert(nn.Sequential(nn.MaxPool2d(2, 3)), example=images(2))
    assert new(images()).shape[2:] == (4, 4)
    assert "`0`" in conversion_report(new).size_changed[0]
    with pytest.raises(ConversionError, match=r"larger now where the original layers did not keep their size .`0`"):
        convert(nn.Sequential(nn.MaxPool2d(2, 3), nn.Flatten(), nn.Linear(24, 3)), example=images(2))


def test_the_law_can_fail() -> None:
    """The source itself is not invariant, and the comparison sees it; with a front anything would pass."""
    model = build(GOOD)
    assert not shift_error(model, images()).exact
    assert shift_error(convert(model, example=images(2)), images()).exact
    new = convert(model, example=images(2), front=False)
    assert_shift_invariant(new, images(), tolerance=1e-5)
    new.get_submodule("layer0").padding_mode = "zeros"  # type: ignore[assignment]
    with pytest.raises(AssertionError):
        assert_shift_invariant(new, images(), tolerance=1e-5, batch_size=SIZE[0] * SIZE[1])
