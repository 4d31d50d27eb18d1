"""Batch norms fitted to a conversion from pictures without labels."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import shiftproof as sp
from helpers import zoo
from helpers.tracers import quiet

pytestmark = quiet


def images(count: int, size: int = 32) -> Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def small() -> nn.Sequential:
    """Two convolutions with batch norms, whose statistics are those of an augmented training: not of the pictures."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 8, 3, 2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    for norm in net:
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
            nn.init.uniform_(norm.running_var, 0.5, 2.0)  # type: ignore[arg-type]
    return net.eval()


def statistics(net: nn.Module) -> list[Tensor]:
    return [t for name, t in net.state_dict().items() if "running" in name]


@torch.no_grad()
def test_what_a_change_did_to_the_maps_is_undone() -> None:
    """The oracle: a constant added to every map of a layer, before each norm, disappears altogether."""
    source = small()
    changed = copy.deepcopy(source)
    for i in (0, 3):
        changed.get_parameter(f"{i}.bias").add_(torch.randn(8)[: 6 if i == 0 else 8])
    x = images(60)
    assert not torch.allclose(changed(x), source(x), atol=1e-2)
    fitted = sp.calibrate(changed, x, source, batch_size=10)
    assert torch.allclose(fitted(x), source(x), atol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(fitted.parameters(), changed.parameters()))


@torch.no_grad()
def test_a_larger_variance_is_followed_by_its_ratio() -> None:
    source = small()
    changed = copy.deepcopy(source)
    changed.get_parameter("0.weight").mul_(3)
    fitted = sp.calibrate(changed, images(60), source)
    assert torch.allclose(fitted.get_buffer("1.running_var"), 9 * source.get_buffer("1.running_var"), rtol=1e-3)


@torch.no_grad()
def test_a_network_that_is_its_source_stays_as_it_is() -> None:
    """Whatever the pictures look like: they need not have the statistics of the training."""
    source = small()
    fitted = sp.calibrate(sp.convert(source, "strided", padding=None, example=images(2)), 5 * images(40) + 3, source)
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(statistics(fitted), statistics(source)))


@pytest.mark.parametrize("placement", ["after", "before"])
def test_a_converted_network_comes_closer_to_its_source(placement: str) -> None:
    """On pictures that it has not seen, with the same bits for every shift; the model given is not changed."""
    source = zoo.create("torchvision:resnet18")
    model = sp.convert(source, "ghs", placement=placement)
    before = copy.deepcopy(model.state_dict())
    fitted = sp.calibrate(model, images(20, 64), source, batch_size=5)
    assert all(torch.equal(model.state_dict()[k], v) for k, v in before.items())
    others = torch.rand(6, 3, 64, 64, generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        near, far = ((m(others) - source(others)).square().mean() for m in (fitted, model))
    assert near < far
    sp.assert_shift_invariant(fitted, others[:1], shifts=16)
    note = sp.conversion_report(fitted).notes[-1]
    assert note.startswith("Batch norms calibrated on 15 pictures: on 5 others")
    assert note.endswith("it is kept.")
    twice = sp.calibrate(fitted, images(20, 64), source, batch_size=5)
    assert sum("calibrated" in n for n in sp.conversion_report(twice).notes) == 1


def test_what_does_not_help_is_taken_back() -> None:
    """Judged by the last batch, which the others know nothing of."""
    source = small()
    model = sp.convert(source, "ghs", padding=None, placement="before", example=images(2))
    batches = [100 * images(4), 100 * images(4), -50 * images(4), 100 * images(4), images(4)]
    fitted = sp.calibrate(model, batches, source)
    assert sp.conversion_report(fitted).notes[-1].endswith("it is taken back.")
    assert all(torch.equal(a, b) for a, b in zip(statistics(fitted), statistics(model)))


def test_loaders_momentum_and_modes() -> None:
    """Labels are ignored; all modules have the mode they had; momentum forgets early batches."""
    source = small().train()
    model = sp.convert(small(), "ghs", example=images(2)).train()
    loader = DataLoader(TensorDataset(images(30), torch.zeros(30)), batch_size=6)
    fitted = sp.calibrate(model, loader, source)
    assert source.training
    assert fitted.training
    same = sp.calibrate(model, images(30), source, batch_size=6)
    assert all(torch.equal(a, b) for a, b in zip(statistics(fitted), statistics(same)))
    other = sp.calibrate(model, images(30), source, batch_size=6, momentum=0.9)
    assert not all(torch.equal(a, b) for a, b in zip(statistics(other), statistics(same)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sp.calibrate(nn.Conv2d(3, 3, 3), images(4), small()), "no batch norm with running statistics"),
        (lambda: sp.calibrate(small(), images(4), nn.Conv2d(3, 3, 3)), "`source` has no batch norm `1`: it must be"),
        (lambda: sp.calibrate(small(), images(0), small()), "`images` are none: give a few hundred"),
        (lambda: sp.calibrate(small(), images(4).long(), small()), "`images`"),
        (lambda: sp.calibrate(small(), images(4), small(), momentum=0.0), "`momentum` .=0.0. must be above 0"),
        (lambda: sp.calibrate(small(), images(4), small(), batch_size=0), "`batch_size`"),
    ],
)
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()
