"""Scores do not depend on batches, and modes come back."""

import contextlib

import pytest
import torch
from torch import Tensor, nn

from helpers.known_classifiers import largest, unchanged
from shiftproof.evaluation.classifier import Classifier, evaluating


def test_normalises() -> None:
    """The model sees (x - mean) / std of every channel, and keeps no graph."""
    weight = torch.ones(1, requires_grad=True)
    f = Classifier(lambda x: x.mean((2, 3)) * weight, (0.5, 0.25), (0.5, 0.25))
    out = f(torch.tensor([1.0, 0.5]).view(1, 2, 1, 1).expand(1, 2, 4, 4))
    assert out.tolist() == [[1.0, 1.0]]
    assert not out.requires_grad
    with pytest.raises(ValueError, match="with C = 2"):
        f(torch.rand(1, 3, 4, 4))
    with pytest.raises(ValueError, match="one value per channel each"):
        Classifier(largest, (0.5,), (0.5, 0.5))
    with pytest.raises(ValueError, match="must be positive"):
        Classifier(largest, (0.5,), (0.0,))


@pytest.mark.parametrize("batch_size", [1, 4, 7, 100])
def test_batches(batch_size: int) -> None:
    """All calls have one shape, and scores do not depend on it."""
    images = torch.randint(0, 256, (10, 2, 3, 3), dtype=torch.uint8)
    shapes, heard = set(), []

    def f(x: Tensor) -> Tensor:
        shapes.add(tuple(x.shape))
        return largest(x)

    found = unchanged(f, 2, batch_size=batch_size, report=lambda *a: heard.append(a)).scores(images, name="n")
    assert torch.equal(found, largest(images.float() / 255))
    assert shapes == {(min(batch_size, 10), 2, 3, 3)}
    assert heard[-1] == ("n", 10, 10)


def test_changes_know_their_images() -> None:
    """A change is told which images it gets, and sees no copies."""
    images = torch.rand(10, 1, 2, 2)
    order = torch.arange(10.0)
    f = unchanged(largest, batch_size=4)
    found = f.scores(images, lambda x, where: x * 0 + order[where, None, None, None])
    assert found[:, 0].tolist() == order.tolist()


def test_refusals() -> None:
    with pytest.raises(ValueError, match="at least one image"):
        unchanged(largest).scores(torch.rand(0, 1, 2, 2))
    with pytest.raises(ValueError, match=r"must return scores \(3, classes\)"):
        unchanged(lambda x: x).scores(torch.rand(3, 1, 2, 2))


def test_modes_come_back() -> None:
    """Also those of parts, and after an error."""
    model = nn.Sequential(nn.Dropout(), nn.Dropout())
    model[1].eval()
    with evaluating(model):
        assert not any(m.training for m in model.modules())
    with contextlib.suppress(RuntimeError), evaluating(model):
        raise RuntimeError
    assert [m.training for m in model.modules()] == [True, True, False]
