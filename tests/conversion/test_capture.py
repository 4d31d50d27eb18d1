"""Networks as people write them: sizes as numbers, modules made on the way, other paths in training."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.laws import stir
from helpers.tracers import quiet
from shiftproof.conversion import ConversionError, conversion_report, convert
from shiftproof.invariance import assert_shift_invariant

pytestmark = quiet


def images(batch: int = 2, size: int = 32) -> Tensor:
    return torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """A stem with a stride and a head; what is between them, and how it pools, differs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.linear = nn.Linear(8, 5)

    def features(self, x: Tensor) -> Tensor:
        return F.relu(self.conv2(F.relu(self.bn1(self.conv1(x)))))  # (B, 8, 8, 8) of 32 pixels

    def forward(self, x: Tensor) -> Any:
        return self.linear(self.features(x).mean((2, 3)))


class PoolsByItsSize(Net):
    """As in many repositories for CIFAR-10."""

    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        x = F.avg_pool2d(x, x.size(3))
        return self.linear(x.view(x.size(0), -1))


class PoolsByShape(Net):
    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        x = F.avg_pool2d(x, kernel_size=x.shape[2:])
        return self.linear(x.view(-1, int(x.shape[1])))


class PoolsByNumber(Net):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(8)

    def forward(self, x: Tensor) -> Any:
        return self.linear(self.pool(self.features(x)).squeeze(-1).squeeze(-1))


class MakesModules(Net):
    def forward(self, x: Tensor) -> Any:
        x = nn.ReLU()(self.features(x))
        return self.linear(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())(x))


class CountsChannels(Net):
    """Numbers made of sizes, loops and decisions over them."""

    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        batch, channels, height, width = x.size()
        if height != width or len(x.shape) != 4:
            raise ValueError("only squares")
        halves = [x[:, int(channels) // 2 * k : int(channels) // 2 * (k + 1)] for k in range(2)]
        x = torch.cat(halves[::-1], 1)
        for _ in range(int(height) // 4):
            x = x * 0.9
        return self.linear(x.reshape(batch, channels, -1).mean(2))


class LambdaShortcut(Net):
    """The shortcut without weights of ResNets for CIFAR-10."""

    def __init__(self) -> None:
        super().__init__()
        self.shortcut: Callable[[Tensor], Tensor] = lambda x: F.pad(
            x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 3), "constant", 0
        )

    def forward(self, x: Tensor) -> Any:
        y = F.relu(self.bn1(self.conv1(x))) + self.shortcut(x)
        return self.linear(F.adaptive_avg_pool2d(F.relu(self.conv2(y)), (1, 1)).flatten(1))


class InPlaceOperations(Net):
    def forward(self, x: Tensor) -> Any:
        x = self.conv2(self.bn1(self.conv1(x)).relu_())
        x *= 2
        x += 1
        x.clamp_(-3, 3)
        return self.linear(x.mean((-2, -1)))


class OptionalInput(Net):
    def forward(
        self, x: Tensor, mask: Tensor | None = None, scale: float = 2.0, sizes: tuple[int, int] = (1, 1)
    ) -> Any:
        x = self.features(x) * scale
        if mask is not None:
            x = x * mask
        return self.linear(F.adaptive_avg_pool2d(x, sizes).flatten(1))


class AnswersWithADictionary(Net):
    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        return {"scores": self.linear(x.mean((2, 3))), "strength": x.amax((1, 2, 3))}


def scores(answer: Any) -> Tensor:
    found: Tensor = answer["scores"] if isinstance(answer, dict) else answer
    return found


def made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    model = kind()
    stir(model)
    return model.eval()


KINDS = [PoolsByItsSize, PoolsByShape, PoolsByNumber, MakesModules, CountsChannels, LambdaShortcut, InPlaceOperations]
every_kind = pytest.mark.parametrize("kind", [*KINDS, OptionalInput, AnswersWithADictionary])


@every_kind
def test_the_graph_is_the_network(kind: type[nn.Module]) -> None:
    """Strides moved, nothing else changed: the same answers, for other batches too; the same keys."""
    model = made(kind)
    new = convert(model, "strided", padding=None, example=images())
    assert set(new.state_dict()) == set(model.state_dict())
    with torch.no_grad():
        for batch in (1, 2, 5):
            expected = scores(model(images(batch)))
            assert torch.allclose(scores(new(images(batch))), expected, rtol=1e-4, atol=1e-5)


@every_kind
@pytest.mark.parametrize("placement", ["after", "before"])
def test_it_converts_to_an_invariant_one(kind: type[nn.Module], placement: str) -> None:
    new = convert(made(kind), "ghs", placement=placement, example=images())
    assert conversion_report(new).law == "exact-invariant"
    assert_shift_invariant(lambda x: scores(new(x)), images(1), shifts=32)


def test_numbers_made_of_sizes_are_said() -> None:
    """Where the graph fits one size; a size that stays in the graph is no number."""
    notes = conversion_report(convert(made(CountsChannels), example=images())).notes
    assert "The code makes Python numbers of sizes: this network takes inputs of 32 x 32 pixels alone." in notes
    new = convert(made(PoolsByItsSize), example=images())
    assert not any("Python numbers" in note for note in conversion_report(new).notes)


class Trains(Net):
    """Two paths, with convolutions on both: an auxiliary head in training."""

    def __init__(self) -> None:
        super().__init__()
        self.auxiliary = nn.Conv2d(8, 5, 1)

    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        if self.training:
            return self.linear(x.mean((2, 3))), self.auxiliary(x).mean((2, 3))
        return self.linear(x.mean((2, 3)))


def test_a_switch_that_changes_nothing_is_no_other_path() -> None:
    """Modules made in forward have the same names in both recordings."""

    class Switch(MakesModules):
        def forward(self, x: Tensor) -> Any:
            if self.training:
                self.calls = 1
            return super().forward(x)

    assert not any("in training" in note for note in conversion_report(convert(made(Switch), example=images())).notes)


def test_the_path_of_evaluation_is_recorded_and_said() -> None:
    model = made(Trains)
    new = convert(model, example=images())
    assert_shift_invariant(new, images(1), shifts=16)
    assert set(new.state_dict()) == set(model.state_dict())
    assert any(note.startswith("The network does something else in training") for note in conversion_report(new).notes)
    assert isinstance(new.train()(images()), Tensor)


class LooksAtValues(Net):
    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        return self.linear(x.mean((2, 3))) if x.mean().item() > 0 else x


class CountsValues(Net):
    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        return self.linear(x.mean((2, 3))) * int((x > 0).sum())


class ListsValues(Net):
    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        return self.linear(x.mean((2, 3))) * float(x.mean((1, 2, 3)).tolist()[0])


class MakesWeights(Net):
    def forward(self, x: Tensor) -> Any:
        return self.linear(nn.Conv2d(8, 8, 1)(self.features(x)).mean((2, 3)))


class CountsImages(Net):
    def forward(self, x: Tensor) -> Any:
        x = self.features(x)
        return self.linear(x.view(int(x.shape[0]), 8, -1).mean(2))


def test_a_batch_size_that_became_a_number_is_found() -> None:
    for batch in (1, 2):
        with pytest.raises(ConversionError, match="fits one batch size only: its code makes a Python number of it"):
            convert(made(CountsImages), example=images(batch))


@pytest.mark.parametrize("kind", [LooksAtValues, CountsValues, ListsValues, MakesWeights])
def test_what_depends_on_values_is_refused(kind: type[nn.Module]) -> None:
    """A graph would keep the decision for one input; weights made on every call are other ones each time."""
    with pytest.raises(ConversionError, match="while tracing the forward pass of"):
        convert(made(kind), example=images())
