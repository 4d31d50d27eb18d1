"""The scores of a network over all shifts of a picture, and their panels."""

import pytest
import torch
from torch import Tensor, nn

from shiftproof.app import drawing, network_panels, networks
from shiftproof.app.shift_scores import PATHS, SHIFTS, ShiftScores, axis_shifts, grid_step, score_shifts
from shiftproof.invariance import shift_error


def small(name: str = "small", size: tuple[int, int, int] = (1, 6, 8), seed: int = 0) -> networks.Network:
    """A small strided network with random weights."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(size[0], 4, 3, 2, 1, padding_mode="circular"), nn.ReLU(), nn.AdaptiveMaxPool2d(1))
    head = nn.Sequential(model, nn.Flatten(), nn.Linear(4, 3, bias=False)).eval()

    def scores(x: Tensor) -> Tensor:
        with torch.no_grad():
            return 20 * head(x)  # type: ignore[no-any-return]

    return networks.Network(name, scores, ("a", "b", "c"), size, "digits")


def test_every_shift_has_its_scores() -> None:
    """Each place of the grid has the scores of the shifted picture; the error is that of `shift_error`."""
    net, image = small(), torch.rand(1, 1, 6, 8)
    steps: list[tuple[int, int]] = []
    found = score_shifts(net, image, lambda done, total: steps.append((done, total)))
    assert found.rows == [-3, -2, -1, 0, 1, 2]
    assert found.columns == [-4, -3, -2, -1, 0, 1, 2, 3]
    for r, row in enumerate(found.rows):
        for c, column in enumerate(found.columns):
            assert torch.allclose(found.scores[r, c], net.scores(image.roll((row, column), (2, 3)))[0], atol=1e-5)
    error = shift_error(net.scores, image)
    assert found.error.max == pytest.approx(error.max, rel=1e-5)
    assert found.changes[3, 4] == 0
    assert steps[-1] == (48, 48)
    assert found.place((-3, 3)) == (0, 7)
    answer, share = found.probability(3, 4)
    assert answer == found.answer
    assert share == pytest.approx(float(net.scores(image).softmax(1).max()), rel=1e-4)


def test_the_worst_shift_changes_the_answer_if_any_does() -> None:
    """Among those it changes the scores most; of equal shifts the smallest counts."""
    flips = 0
    for seed in range(12):
        net, image = small(seed=seed), torch.rand(1, 1, 6, 8)
        found = score_shifts(net, image)
        changed, change, (row, column) = found.worst()
        r, c = found.place((row, column))
        assert float(found.changes[r, c]) == pytest.approx(change, rel=1e-5)
        kept = found.answers == found.answer
        assert changed == (not bool(kept.all()))
        assert changed == bool(found.answers[r, c] != found.answer)
        among = found.changes[~kept] if changed else found.changes
        assert change == float(among.max())
        flips += changed
    assert 0 < flips < 12
    still = ShiftScores([-1, 0], [-1, 0], torch.ones(2, 2, 3), torch.ones(3), found.error, 1.0)
    object.__setattr__(still.error, "changes", torch.zeros(4))
    assert still.worst() == (False, 0.0, (0, 0))


def test_paths_go_through_the_place() -> None:
    found = score_shifts(small(), torch.rand(1, 1, 6, 8))
    place = (2, 5)
    row, column, diagonal = (found.path(place, path) for path in PATHS)
    assert [len(p) for p in (row, column, diagonal)] == [8, 6, 8]
    assert all(place in p for p in (row, column, diagonal))
    assert {r for r, _ in row} == {2}
    assert {c for _, c in column} == {5}
    assert diagonal[5] == place
    assert diagonal[6] == (3, 6)


def test_many_shifts_are_tried_in_odd_steps() -> None:
    """At most `SHIFTS` of them, including no shift; odd steps, because a stride of 2 does not notice even ones."""
    for size in (8, 32, 33, 64, 224):
        step = grid_step(small(size=(3, size, size)))
        axis = axis_shifts(size, step)
        assert step % 2 == 1
        assert len(axis) ** 2 <= SHIFTS
        assert 0 in axis
        assert len({v % size for v in axis}) == len(axis)
        assert (step == 1) == (size <= 32)


def test_panels_of_networks_say_what_changed() -> None:
    """All heat maps have the same scale; a changed answer is shown with the original one."""
    image = torch.rand(1, 1, 6, 8)
    nets = [small(name, seed=seed) for seed, name in enumerate(("<one>", "two"))]
    pairs = [(net, score_shifts(net, image)) for net in nets]
    html = network_panels.panels(pairs, (0, 0), "row")
    assert "&lt;one&gt;" in html
    assert html.count(f">{max(s.error.max for _, s in pairs):.2f}</span></p>") == 2
    pairs = [(net, score_shifts(net, image)) for net in (small(seed=k) for k in range(12))]
    changed = next((net, scores) for net, scores in pairs if scores.worst()[0])
    shift = changed[1].worst()[2]
    assert f"was {'abc'[changed[1].answer]}" in network_panels.panels([changed], shift, "diagonal")
    assert 'data-pixels="8"' in drawing.draggable(image[0], (1, 0), "x")
