"""Several inputs, answers of every kind, towers, transformers; and whatever fails, fails as a `ConversionError`."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from helpers.tracers import quiet
from shiftproof.conversion import ConversionError, conversion_report, convert, converter
from shiftproof.conversion.example import Inputs
from shiftproof.invariance import same_bits
from shiftproof.tensors import leaves

pytestmark = quiet


def images(batch: int = 2, size: int = 32, seed: int = 1) -> Tensor:
    return torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(seed))


def stem() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.linear = stem(), stem(), nn.Linear(8, 5)


class TwoPictures(Net):
    """Two towers, which meet after two strides each."""

    def forward(self, left: Tensor, right: Tensor) -> Any:
        return self.linear((self.first(left) + self.second(right)).mean((2, 3)))


class PictureAndNumbers(Net):
    def forward(self, x: Tensor, scale: Tensor) -> Any:
        return self.linear(self.first(x).mean((2, 3)) * scale)


class NumbersFirst(Net):
    def forward(self, scale: Tensor, x: Tensor) -> Any:
        return self.linear(self.first(x).mean((2, 3)) * scale)


class Optional(Net):
    """Arguments that a dictionary names, leaves out, or sets to a value that is no tensor."""

    def forward(
        self, pixel_values: Tensor, mask: Tensor | None = None, twice: bool = False, scale: Tensor | None = None
    ) -> Any:
        maps = self.first(pixel_values)
        if mask is not None:
            maps = maps * mask
        out = self.linear(maps.mean((2, 3)))
        out = out if scale is None else out * scale
        return {"logits": 2 * out if twice else out, "parts": [out, out.sum(1)]}


class KeywordsOnly(Net):
    def forward(self, *, picture: Tensor) -> Any:
        return self.linear(self.first(picture).mean((2, 3)))


class AnyNumber(Net):
    def forward(self, *pictures: Tensor) -> Any:
        return self.linear(sum(self.first(p).mean((2, 3)) for p in pictures))


@dataclasses.dataclass
class Answer:
    logits: Tensor
    pooled: Tensor | None = None


class Pair(NamedTuple):
    logits: Tensor
    pooled: Tensor


class AnswersWithADataclass(Net):
    def forward(self, x: Tensor) -> Answer:
        pooled = self.first(x).mean((2, 3))
        return Answer(self.linear(pooled), pooled)


class AnswersWithAPair(Net):
    def forward(self, x: Tensor) -> Pair:
        pooled = self.first(x).mean((2, 3))
        return Pair(self.linear(pooled), pooled)


class Branches(Net):
    """Two towers from one picture: what lies between their strides is rolled alike."""

    def forward(self, x: Tensor) -> Any:
        return self.linear((self.first(x) * self.second(x)).mean((2, 3)))


class MakesZeros(Net):
    """A tensor made of the batch size, as a graph with a symbolic size has it."""

    def forward(self, x: Tensor) -> Any:
        state = torch.zeros(x.shape[0], 5, device=x.device)
        return state + self.linear(self.first(x).mean((2, 3)))


class ReusesAStride(nn.Module):
    """One convolution with a stride is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.conv, self.linear = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, 2, 1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Any:
        x = self.conv(self.conv(self.first(x)).relu())
        return self.linear(x.mean((2, 3)))


class Norms(nn.Module):
    """Over groups of channels and over all of them, before the first stride and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.groups, self.linear = nn.Conv2d(3, 8, 3, 1, 1), nn.GroupNorm(2, 8), nn.Linear(8, 5)
        self.patches, self.channels, self.down = nn.Conv2d(8, 8, 4, 4), nn.LayerNorm(8), nn.Conv2d(8, 8, 2, 2)

    def forward(self, x: Tensor) -> Any:
        x = self.patches(self.groups(self.conv(x)).relu())
        x = self.channels(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.linear(self.down(x).mean((2, 3)))


class Squeeze(Net):
    """Squeeze and excitation, with views made of sizes."""

    def forward(self, x: Tensor) -> Any:
        maps = self.first(x)
        b, c, _, _ = maps.size()
        weights = nn.functional.adaptive_avg_pool2d(maps, 1).view(b, c).sigmoid().view(b, c, 1, 1)
        return self.linear((maps * weights.expand_as(maps)).mean((2, 3)))


class Transformer(nn.Module):
    """A patch embedding, a class token, positions, one layer of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.linear = nn.Conv2d(3, 16, 8, 8), nn.Linear(16, 5)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(y.shape[0], -1, -1), y], 1) + self.positions
        return self.linear(self.layer(y)[:, 0])


CASES: list[tuple[type[nn.Module], Any]] = [
    (TwoPictures, (images(), images(seed=2))),
    (TwoPictures, {"right": images(), "left": images(seed=2)}),
    (PictureAndNumbers, (images(), torch.rand(2, 1))),
    (NumbersFirst, [torch.rand(2, 1), images()]),
    (Optional, {"pixel_values": images()}),
    (Optional, {"scale": torch.rand(2, 1), "pixel_values": images(), "twice": True}),
    (Optional, {"pixel_values": images(), "mask": torch.rand(2, 1, 8, 8).round()}),
    (KeywordsOnly, {"picture": images()}),
    (AnyNumber, (images(), images(seed=2))),
    *((kind, images()) for kind in (AnswersWithADataclass, AnswersWithAPair, Branches, MakesZeros, ReusesAStride)),
    *((kind, images()) for kind in (Norms, Squeeze, Transformer)),
]
each_case = pytest.mark.parametrize(("kind", "example"), CASES)


def made(kind: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return kind().eval()


@each_case
def test_the_graph_is_the_network(kind: type[nn.Module], example: Any) -> None:
    """Strides moved, nothing else changed: the same answers of the same kind, for other batches too."""
    model = made(kind)
    graph, inputs = convert(model, "strided", None, example=example), Inputs.of(model, example)
    with torch.no_grad():
        for given in (inputs, inputs.one_more()):
            expected, found = given.call(model), given.run(graph)
            assert type(found) is type(expected)
            pairs = list(zip(leaves(found), leaves(expected), strict=True))
            assert all(torch.allclose(a, b, 1e-4, 1e-5) for a, b in pairs)


@each_case
@pytest.mark.parametrize("placement", ["after", "before"])
def test_it_converts_to_an_invariant_one(kind: type[nn.Module], example: Any, placement: str) -> None:
    """Bit for bit, if the maps move together; what is no map stays."""
    model = made(kind)
    if isinstance(example, dict) and "mask" in example:
        with pytest.raises(ConversionError, match="would not be exact-invariant"):  # it lies still
            convert(model, example=example, placement=placement)
        return
    new, inputs = convert(model, example=example, placement=placement), Inputs.of(model, example)
    assert conversion_report(new).law == "exact-invariant"
    with torch.no_grad():
        pairs = zip(leaves(inputs.run(new)), leaves(inputs.shifted((5, 22)).run(new)), strict=True)
        assert all(same_bits(a, b) for a, b in pairs)


def test_inputs_keep_their_names() -> None:
    """In the order of the source, whatever the order in the dictionary."""
    left, right = images(), images(seed=2)
    model = made(TwoPictures)
    new: Any = convert(model, example={"right": right, "left": left})
    with torch.no_grad():
        assert torch.equal(new(left=left, right=right), new(left, right))
        assert not torch.equal(new(left, right), new(right, left))


def test_two_pictures_must_move_together() -> None:
    """The guarantee is that of one scene: with one picture moved alone, the answer changes."""
    left, right = images(), images(seed=2)
    new: Any = convert(made(TwoPictures), example=(left, right))
    with torch.no_grad():
        assert not torch.equal(new(left.roll(5, 3), right), new(left, right))


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"image": images()}, "unexpected keyword argument"),
        (({"image": images()},), "dict of inputs as one argument. Wrap the network in a module"),
        ((torch.rand(2, 5), torch.rand(2, 4)), r"`example` \(shape \(2, 5\), \(2, 4\)\) must be a batch"),
        ("picture", "`example` must be a torch.Tensor, not str"),
        ((), "`example` must be a torch.Tensor, not tuple"),
    ],
)
def test_examples_that_do_not_fit(example: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        convert(made(Branches), example=example)


class RunsForever(Net):
    def forward(self, x: Tensor) -> Any:
        return self.forward(self.first(x).mean((2, 3))[:, :3, None, None]) if x.dim() else x


class EndsEarly(Net):
    def forward(self, x: Tensor) -> Any:
        return next(iter([])) if isinstance(x, torch.fx.Proxy) else self.linear(self.first(x).mean((2, 3)))


class Insists(Net):
    def forward(self, x: Tensor) -> Any:
        if isinstance(x, torch.fx.Proxy):
            raise AssertionError
        return self.linear(self.first(x).mean((2, 3)))


class UsesNumpy(Net):
    def forward(self, x: Tensor) -> Any:
        return self.linear(torch.from_numpy(self.first(x).detach().numpy()).mean((2, 3)))


def scripted() -> nn.Module:
    return torch.jit.script(stem())


def with_hooks() -> nn.Module:
    model = stem()
    torch.nn.utils.weight_norm(model[0])
    model[0](images())
    return model


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of TorchScript and weight_norm
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (RunsForever, r"the network fails on inputs .* Choose inputs that fit"),
        (EndsEarly, "while tracing the forward pass of EndsEarly: StopIteration"),
        (Insists, "while tracing the forward pass of Insists: AssertionError"),
        (UsesNumpy, "while tracing the forward pass of UsesNumpy: .*array"),
        (scripted, "is compiled by TorchScript. Convert the Python network"),
        (with_hooks, "the network cannot be copied: .* `torch.nn.utils.parametrizations`"),
    ],
)
def test_whatever_fails_is_a_conversion_error(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        convert(made(make), example=images())


@pytest.mark.parametrize("error", [TypeError("no"), RecursionError(), AssertionError(), StopIteration(), KeyError("k")])
def test_a_mistake_of_the_converter_says_so(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(converter, "make_plan", fails)
    with pytest.raises(ConversionError, match=f"the converter failed: {type(error).__name__}.* please report it"):
        convert(made(Branches), example=images())
