"""Measures of motion: what each counts, on answers that are known, and that crops show real content."""

import pytest
import torch
from torch import Tensor

from helpers.known_classifiers import Largest, dataset, largest, unchanged
from shiftproof.evaluation import motion
from shiftproof.evaluation.statistics import hits, proportion
from shiftproof.evaluation.suite import evaluate

SCORES = torch.eye(4)  # picture i gets answer i


def test_crop_consistency_counts_equal_answers() -> None:
    assert motion.crop_consistency(SCORES, SCORES[[0, 1, 3, 2]] * 7) == proportion(0.5, 4)


def test_flips_are_counted_from_step_to_step() -> None:
    """Over streams; of one stream, over its steps."""
    answers = torch.tensor([[0, 1], [0, 2], [1, 2], [1, 1]])
    assert motion.flip_rate(answers).value == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert motion.flip_rate(answers).n == 2
    assert motion.flip_rate(answers[:, :1]) == proportion(1 / 3, 3)


def test_jitter_is_that_of_the_answers_probability() -> None:
    odds = torch.tensor([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]])
    scores = odds.log()[:, None]
    assert motion.confidence_jitter(scores).value == pytest.approx((0.3 + 0.4) / 2)


def test_one_wrong_shift_is_enough() -> None:
    answers = torch.tensor([[0, 1, 2], [0, 1, 0], [0, 1, 2]])
    assert motion.worst_shift_accuracy(answers, torch.arange(3)) == proportion(2 / 3, 3)


def test_segmentations_are_compared_where_both_windows_see() -> None:
    """A map that moves with its scene agrees entirely, whatever comes in; around the edges it does not."""
    scene = torch.randint(0, 9, (1, 30, 30))
    before = scene[:, 5:25, 5:25]
    for row, column in [(0, 0), (3, -2), (-4, 5), (19, 0)]:
        after = scene.roll((-row, -column), (1, 2))[:, 5:25, 5:25]
        moved = torch.tensor([[row, column]])
        assert motion.segmentation_consistency(before, after, moved).value == 1
        assert motion.segmentation_consistency(before, before.roll((-row, -column), (1, 2)), moved, True).value == 1
        if (row, column) != (0, 0):
            assert motion.segmentation_consistency(before, after, -moved).value < 0.3
            assert motion.segmentation_consistency(before, after, moved, True).value < 1
    with pytest.raises(ValueError, match=r"^`motion` \(=\(20, 0\)\) must be smaller than the maps \(20, 20\)"):
        motion.segmentation_consistency(before, before, torch.tensor([[20, 0]]))


def test_boxes_are_matched_one_to_one() -> None:
    """Those that overlap most come first; what overlaps less than half has no partner."""
    before = torch.tensor([[10.0, 10, 30, 30], [12, 12, 32, 32], [60, 60, 70, 70]])
    after = torch.tensor([[8.0, 5, 28, 25], [10, 8, 30, 28], [90, 90, 99, 99]])
    moved = (2, 5)
    assert motion.match_boxes(before, after, moved).tolist() == [[0, 0], [1, 1]]
    apart, paired = motion.box_jitter(before, after, moved)
    assert apart.tolist() == [0.0, 1.0]
    assert paired.tolist() == [True, True, False, True, True, False]
    none = torch.zeros(0, 4)
    assert motion.box_jitter(none, after, moved)[0].shape == (0,)
    assert motion.match_boxes(before, none).shape == (0, 2)


def test_overlap_of_boxes() -> None:
    a = torch.tensor([[0.0, 0, 2, 2]])
    b = torch.tensor([[0.0, 0, 2, 2], [1, 1, 3, 3], [2, 2, 3, 3]])
    assert motion.box_overlap(a, b)[0].tolist() == pytest.approx([1, 1 / 7, 0])


class Positions:
    """A classifier that sees only where its crop lies: pictures hold their columns. It keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return torch.nn.functional.one_hot((x[:, 0, 0, 0] * 255).round().long() % 2, 2).float()


def test_crops_show_real_content_and_move_by_one_pixel() -> None:
    """Pictures without a black pixel; the walk changes row and column by one in every step, inside the picture."""
    rows, columns = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    picture = torch.stack([rows + 100, columns + 100]).to(torch.uint8)
    images, f = picture.expand(40, 2, 32, 32).contiguous(), Positions()
    found = motion.measure_motion(unchanged(f, 2), images, torch.zeros(40, dtype=torch.int64))
    assert all(seen.shape == (40, 2, 28, 28) and float(seen.min()) >= 100 / 255 for seen in f.seen)
    corners = torch.stack([(seen[:, :, 0, 0] * 255).round().long() - 100 for seen in f.seen])
    assert set(corners[:2].flatten().tolist()) == {0, 1, 2, 3, 4}
    assert set((corners[3:] - corners[2:-1]).abs().flatten().tolist()) == {1}
    assert found["flips"]["value"] == 1
    assert found["crops"] == hits((corners[0, :, 0] - corners[1, :, 0]) % 2 == 0).to_dict()
    assert found["size"] == [28, 28]
    assert found["accuracy"] == hits(corners[0, :, 0] % 2 == 0).to_dict()


def test_paths_are_followed_on_so_many_pictures() -> None:
    found = motion.measure_motion(
        unchanged(largest, 3), dataset(9, size=16).test.images, torch.zeros(9).long(), paths=4
    )
    assert found["flips"]["n"] == 4
    assert found["crops"]["n"] == 9


def test_motion_is_a_part_of_the_evaluation() -> None:
    found = evaluate(Largest(), dataset(6, size=16), parts=["motion"])["motion"]
    assert set(found) == {"crops", "accuracy", "flips", "jitter", "size", "steps"}
