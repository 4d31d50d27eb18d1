"""The metrics of torchmetrics give what the functions give, in one piece or in several."""

import pytest
import torch

from helpers import zoo  # noqa: F401  (lets torchvision be imported, which torchmetrics does)

# isort: split
from torchmetrics import MetricCollection

from shiftproof.evaluation import metrics, motion
from shiftproof.maps.shifts import fractional_shift

A, B = torch.randn(2, 30, 5, generator=torch.Generator().manual_seed(0)).unbind()


def values(found: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: float(value) for name, value in found.items()}


def test_crop_consistency() -> None:
    metric = metrics.CropConsistency()
    for part in (slice(0, 10), slice(10, 30)):
        metric.update(A[part], B[part])
    assert values(metric.compute()) == pytest.approx(motion.crop_consistency(A, B).to_dict())


def test_flip_rate_goes_on_where_the_stream_was() -> None:
    metric = metrics.FlipRate()
    for part in (slice(0, 1), slice(1, 12), slice(12, 30)):
        metric.update(A[part])
    assert values(metric.compute()) == pytest.approx(motion.flip_rate(A.argmax(1)[:, None]).to_dict())
    metric.reset_stream()
    metric.update(B[:4])
    assert values(metric.compute())["n"] == 29 + 3
    metric.reset()
    metric.update(A)
    assert values(metric.compute())["n"] == 29


def test_worst_shift_accuracy() -> None:
    labels = A.argmax(1)
    mixed = torch.where(torch.arange(30)[:, None] < 12, B, A)
    metric = metrics.WorstShiftAccuracy()
    for part in (slice(0, 7), slice(7, 30)):
        metric.update(torch.stack([A, mixed])[:, part], labels[part])
    expected = motion.worst_shift_accuracy(torch.stack([A, mixed]).argmax(2), labels)
    assert values(metric.compute()) == pytest.approx(expected.to_dict())


def test_fractional_consistency() -> None:
    pictures = torch.rand(20, 3, 8, 8)

    def model(x: torch.Tensor) -> torch.Tensor:
        return x[:, :, 0, 0]

    metric = metrics.FractionalConsistency(shift=(0.5, 0.25))
    metric.update(model, pictures)
    expected = motion.crop_consistency(model(pictures), model(fractional_shift(pictures, (0.5, 0.25))))
    assert 0 < expected.value < 1
    assert values(metric.compute()) == pytest.approx(expected.to_dict())


@pytest.mark.parametrize("circular", [False, True])
def test_segmentation_consistency(circular: bool) -> None:
    before, after = torch.randint(0, 2, (2, 6, 9, 9)).unbind()
    moved = torch.randint(-3, 4, (6, 2))
    metric = metrics.SegmentationShiftConsistency(circular=circular)
    metric.update(before[:2], after[:2], moved[:2])
    metric.update(before[2:], after[2:], moved[2:])
    expected = motion.segmentation_consistency(before, after, moved, circular)
    assert values(metric.compute()) == pytest.approx(expected.to_dict())


def test_box_jitter() -> None:
    before = torch.tensor([[10.0, 10, 30, 30], [60, 60, 70, 70]])
    metric = metrics.BoxJitter()
    metric.update(before, before + torch.tensor([3.0, 0, 3, 0]))
    metric.update(before, before[:1] - torch.tensor([1.0, 2, 1, 2]), (1, 2))
    found = values(metric.compute())
    assert found["value"] == pytest.approx(2)
    assert found["n"] == 3
    assert found["paired"] == pytest.approx(6 / 7)


def test_metrics_work_in_collections() -> None:
    together = MetricCollection({"crops": metrics.CropConsistency()}, prefix="moved_")
    together.update(A, A)
    assert {float(v) for name, v in together.compute().items() if name.endswith("value")} == {1.0}
