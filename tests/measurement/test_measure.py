"""`measure`: the numbers are those of `survey`, for any shifts, and wrong arguments are named."""

import importlib
import re
from typing import Any

import pytest
import torch

import shiftproof as sp
from helpers.known_classifiers import corner
from helpers.small_networks import strided
from shiftproof.invariance import survey
from shiftproof.measurement.measure import measure
from shiftproof.testing import assert_steady


def test_an_invariant_network_measures_as_exact() -> None:
    """GHS: not a bit changes under any circular shift; every shift was tried; the network keeps its mode."""
    network = sp.create_model("resnet20", "ghs", num_classes=4).train()
    frozen: Any = network.layer1
    frozen.eval()
    result = measure(network, torch.rand(1, 3, 8, 8))
    circular = result.kinds["circular"]
    assert circular.exact
    assert (circular.max, circular.mean, circular.pairs, circular.reference) == (0.0, 0.0, 1.0, 1.0)
    assert len(circular.shifts) == 64
    assert result.headline() == "This network gives the same output for every circular shift, bit for bit."
    assert not result.kinds["cropped"].exact
    assert list(result.kinds) == ["circular", "cropped", "fractional"]
    assert network.training
    assert not frozen.training


def test_numbers_of_all_images_are_those_of_survey() -> None:
    """A strided network is not exact; results of single images are combined into those of all."""
    network, x = strided(), torch.rand(5, 3, 9, 8)
    result = measure(network, x, batch_size=16)
    for kind, found in result.kinds.items():
        error, agreement = survey(network, x, "all", kind)
        assert not found.exact
        assert found.max == pytest.approx(error.max, rel=1e-4)
        assert found.mean == pytest.approx(error.mean, rel=1e-4)
        assert found.pairs == pytest.approx(agreement.pairs)
        assert found.reference == pytest.approx(agreement.reference)
        assert torch.allclose(found.change_map, error.map, rtol=1e-3, atol=1e-6)
        assert torch.allclose(found.kept_map, agreement.map)
        assert torch.allclose(found.kept_map.flatten(), found.kept)
    assert re.match(
        r"This network changes its answer for \d.* % of picture-shift pairs, under circular shifts\.", result.headline()
    )


def test_the_worst_shift_of_an_image_is_one_that_changes_its_answer() -> None:
    """Before and after are the answers at that shift, and no shift that changes the answer moves the scores further."""
    network, x = strided(), torch.rand(6, 3, 8, 8)
    for i, image in enumerate(measure(network, x, kinds=["circular"], names=list("abcdef")).kinds["circular"].images):
        every = torch.cat([x[i : i + 1].roll((r, c), (2, 3)) for r in range(8) for c in range(8)])
        with torch.no_grad():
            scores = network(every)
        answers = scores.argmax(1)
        row, column = (int(v) for v in image.shift)
        assert (image.before, image.after) == (int(answers[0]), int(answers[8 * row + column]))
        assert image.kept == pytest.approx(float((answers == answers[0]).double().mean()))
        candidates = answers != answers[0] if image.kept < 1 else answers >= 0
        assert image.change == pytest.approx(float((scores - scores[0]).abs().amax(1)[candidates].max()), rel=1e-4)
        assert image.name == "abcdef"[i]


def test_shifts_are_sampled_where_all_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says how many were tried, of how many; a list or a number of shifts is taken as it is."""
    module = importlib.import_module("shiftproof.measurement.measure")
    monkeypatch.setattr(module, "EXHAUSTIVE_PIXELS", 1000)
    monkeypatch.setattr(module, "SAMPLE", 7)
    network, x = strided(), torch.rand(1, 3, 8, 8)
    result = measure(network, x, kinds=["circular"])
    assert "7 of 64" in str(result)
    assert "under the 7 circular shifts tried" in result.headline()
    assert int(result.kinds["circular"].change_map.isfinite().sum()) == 7
    assert len(measure(network, x, shifts=3, kinds=["cropped"]).kinds["cropped"].shifts) == 3
    assert measure(network, x, shifts=[(1, 2)], kinds=["circular"]).kinds["circular"].shifts == [(1, 2)]
    assert "all 64" in str(measure(network, x, shifts="all", kinds=["circular"]))
    assert measure(network, x, seed=1).to_json() == measure(network, x, seed=1).to_json()
    assert measure(network, x, seed=1).to_json() != measure(network, x, seed=2).to_json()


def test_progress_ends_at_the_end() -> None:
    seen: list[tuple[float, int]] = []
    measure(strided(), torch.rand(2, 3, 4, 4), report=lambda *now: seen.append(now))
    assert seen == sorted(seen)
    assert seen[-1] == (6, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"images": torch.rand(3, 8, 8)}, r"Add the batch axis with `images\[None\]`"),
        ({"images": torch.rand(0, 3, 8, 8)}, "at least one image"),
        ({"kinds": ["circle"]}, "Did you mean 'circular'"),
        ({"kinds": []}, "`kinds` must name at least one"),
        ({"names": ["one"]}, "`names` (1) must have one entry per image (2)"),
        ({"labels": ["one"]}, "`labels` (1) must have one entry per class (8)"),
        ({"shifts": 0}, "`shifts` (=0) must be at least 1"),
        ({"model": lambda x: x}, "must return scores"),
    ],
)
def test_measure_says_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"model": strided(), "images": torch.rand(2, 3, 8, 8)} | arguments
    with pytest.raises(ValueError, match=message if "\\" in message else re.escape(message)):
        measure(given.pop("model"), given.pop("images"), **given)


def test_what_falls_short_is_named() -> None:
    """The kind, the share, the picture that is least steady, and what its answer becomes."""
    images = torch.zeros(2, 1, 8, 8)
    images[1, 0, 0, 0] = 1  # `corner` sees it until it moves
    with pytest.raises(AssertionError, match=r"^under cropped shifts .* of picture-shift pairs .*, and 90 % must; "):
        assert_steady(corner, images, 0.9, kinds=["cropped"])
    with pytest.raises(AssertionError, match=r"of image 1 .* instead of class 1\.$"):
        assert_steady(corner, images, 0.9, kinds=["cropped"])
    kept = assert_steady(corner, images, 0.5, kinds=["cropped"]).kinds["cropped"].reference
    assert assert_steady(corner, images, kept, kinds=["cropped"]).failures(kept) == []
    assert len(assert_steady(corner, images, 0.1).failures(1.0)) >= 1
    with pytest.raises(ValueError, match=r"^`at_least` \(=99\) must be a share"):
        assert_steady(corner, images, 99)
