"""What each table of results shows: its title, columns and notes, and where in a record its numbers are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from shiftproof.experiments import catalogue, paper
from shiftproof.experiments.records import AGREEMENT, FIRST_AGREEMENT
from shiftproof.reports import pretrained_table
from shiftproof.reports.kernel_choice import ALIASED, SCORE
from shiftproof.reports.table import OURS, Column, Layout

METHOD_LABELS = {
    "strided": "Baseline (strided)",
    "da": "Baseline, shifted in training (DA)",
    "align": "Align the input once",
    "max": "Max pooling",
    "lpf": "LPF-3",
    "aps": "APS-3",
    "lps": "LPS",
    "avg": "Average pooling",
    "mixed": "Mixed pooling",
    "stochastic": "Stochastic pooling",
    "lpf-adaptive": "Adaptive LPF-3",
    "ghs-paper": "GHS of the paper",
    "ghs": "GHS",
}
NETWORK_LABELS = {f"{of}resnet{n}": f"ResNet-{n}" for n in (8, 18, 20, 50, 56) for of in ("", "cifar:")}

APS = ("consistency", "aps_protocol")
AGREE = ("consistency", "agreement")
CHANGE = ("consistency", "all_pairs", "largest_change")
CLEAN = ("accuracy", "clean")
MOVED = ("accuracy", "cropped", "black")


def _by_network(path: tuple[str, ...], numbers: Mapping[str, Mapping[str, paper.Value]]) -> list[Column]:
    """One column for each network of the paper."""
    return [Column(NETWORK_LABELS[m], path, printed=printed, model=m) for m, printed in numbers.items()]


# what the paper does not report: all pairs of shifts, the largest change, a camera that moved
_ALL_SHIFTS = [
    Column("accuracy, %", CLEAN),
    Column("accuracy, random circular shift, %", ("accuracy", "circular")),
    Column("two random shifts agree, %", AGREEMENT, earlier=FIRST_AGREEMENT),
    Column("largest change of a logit", CHANGE, 1.0, 3),
    Column("accuracy, camera moved, %", MOVED),
    Column(
        "two moves of the camera agree, %",
        (*AGREE, "cropped", "black"),
        earlier=("consistency", "cropped", "black", "pairs"),
    ),
    Column(
        "answer kept, half a pixel, %",
        (*AGREE, "fractional", "1/2"),
        earlier=("consistency", "fractional", "1/2", "reference"),
    ),
]
_NOISY = ("robustness", "noise")
_NOISE = (*_NOISY, "0.05", "accuracy")
_TURN, _FLIP = ("robustness", "half_turn"), ("robustness", "vertical_flip")
_WORST, _MOVES = ("adversarial",), {"half": "half pixels", "fractional": "eighths", "crop": "crops"}
_ERASED = ("robustness", "erasure", "per_batch")

TABLES = {
    "table1": Layout(
        "Table 1. Classification consistency on CIFAR-10, %",
        _by_network(APS, paper.CONSISTENCY),
        ["Measured as in the reference code of APS: two circular shifts per batch from {{-3 .. 2}} on each axis."],
    ),
    "table2": Layout(
        "Table 2. Classification accuracy on CIFAR-10, %",
        _by_network(CLEAN, paper.ACCURACY),
        [paper.DISAGREEMENTS["table2"]],
    ),
    "shifts": Layout(
        "Every shift, CIFAR-10, {network}",
        _ALL_SHIFTS,
        [
            "Agreement is over {images} test images, the largest change over all 1,024 circular shifts of 32 or 64 of "
            "them. Camera moved: up to 4 pixels each way, with black coming in; half a pixel: circularly, by the shift "
            "theorem."
        ],
    ),
    "table3": Layout(
        "Table 3. Consistency and accuracy on CIFAR-100, {network}, %",
        [
            Column("consistency", APS, printed=paper.CIFAR100["consistency"]),
            Column("accuracy", CLEAN, printed=paper.CIFAR100["accuracy"]),
        ],
    ),
    "table4": Layout(
        "Table 4. Flipped CIFAR-10, {network}, %",
        [
            Column("consistency", APS, printed=paper.FLIPPED["consistency"]),
            Column("accuracy", CLEAN, printed=paper.FLIPPED["accuracy"]),
            Column(
                "consistency, rotated by 180°", (*_TURN, "consistency"), printed=paper.FLIPPED["consistency, flipped"]
            ),
            Column("accuracy, rotated by 180°", (*_TURN, "accuracy"), printed=paper.FLIPPED["accuracy, flipped"]),
            Column("consistency, flipped vertically", (*_FLIP, "consistency")),
            Column("accuracy, flipped vertically", (*_FLIP, "accuracy")),
        ],
        [
            'The reference code\'s "vertical flip" flips both axes, a rotation by 180 degrees: compare its numbers '
            "there.",
            paper.DISAGREEMENTS["table4"],
        ],
    ),
    "figure5": Layout(
        "Figure 5. Erased squares, CIFAR-10, {network}, %",
        [
            Column(f"{what}, {size} px", (*_ERASED, size, what), printed=printed)
            for what, numbers in paper.ERASED.items()
            for size, printed in numbers.items()
        ],
        [paper.DISAGREEMENTS["figure5"]],
    ),
    "noise": Layout(
        "Noise, CIFAR-10, {network}",
        [
            Column(f"{what}, {sigma}, %", (*_NOISY, str(sigma), what), optional=sigma > 0.1)  # which came later
            for what in ("accuracy", "agreement")
            for sigma in catalogue.SIGMAS
        ],
        [
            "White noise of this standard deviation, where pixels lie in [0, 1]. Agreement: with the answer to the "
            "image without noise."
        ],
    ),
    "readings": Layout(
        "Readings of the paper, CIFAR-10, {network}",
        [
            *_ALL_SHIFTS[:4],
            Column(ALIASED, ("aliasing", "aliased"), 1.0, 4),
            Column("R: commutation", ("aliasing", "matrix", "commutation"), 1.0),
            Column("images with ties, input", ("consistency", "ties", "input"), 1.0, 4),
            Column("images with ties, any layer", ("consistency", "ties", "any"), 1.0, 4),
        ],
        [
            "Orders: M, the only reading in which the printed sizes of the matrices multiply. Sigma: the N of Eq. 24 "
            "is the highest order, not the number of functions. Ties: decided by the sum over 3 x 3, then 5 x 5 "
            "pixels. Images with ties: the share of those in which several positions share the largest value, in the "
            "input, or there or where a layer looks for its pivot."
        ],
    ),
    "heads": Layout(
        "With and without global pooling, CIFAR-10, {network}",
        _ALL_SHIFTS[:5],
        [
            'Flatten: the linear head sees every position of the last maps. The paper: GHS "eliminates the need for '
            'global pooling".'
        ],
        (*OURS, *(f"{label}, flatten" for label in OURS)),
    ),
    "related": Layout(
        "Related work, CIFAR-10, {network}",
        [*_ALL_SHIFTS[:5], Column(ALIASED, ("aliasing", "aliased"), 1.0, 4)],
        ["Every pooling method that the paper names."],
    ),
    "table5": Layout(
        "Table 5. MNIST-rot, E(2)-equivariant network",
        [
            Column("accuracy, %", CLEAN, printed=paper.ROTATED),
            Column("accuracy, camera moved, %", MOVED),
            Column("accuracy, rotated again, %", ("robustness", "rotation", "accuracy")),
            Column("agreement, rotated again, %", ("robustness", "rotation", "agreement")),
            Column("consistency, %", APS),
            Column("two random shifts agree, %", AGREEMENT, earlier=FIRST_AGREEMENT),
            Column("largest change of a logit", CHANGE, 1.0, 3),
            Column("accuracy, 50,000 images, %", ("accuracy", "benchmark"), optional=True),
        ],
        [
            "Data: {sources}. The paper's split is 10,000 / 2,000. Rotated again: each test digit by a random angle, "
            "bilinear. Camera moved: up to 3 pixels each way, with black coming in."
        ],
    ),
    "ablation": Layout(
        "Ablation",
        [
            Column("accuracy, %", CLEAN),
            Column("camera moved, %", MOVED),
            Column("noise 0.05, %", _NOISE),
            Column("two shifts agree, %", AGREEMENT, earlier=FIRST_AGREEMENT),
            Column("half a pixel, %", ("accuracy", "fractional", "1/2")),
            Column(ALIASED, ("aliasing", "aliased"), 1.0, 3),
            Column("R: smallest gain", ("aliasing", "matrix", "constant", "0"), 1.0),
            Column("R: largest gain", ("aliasing", "matrix", "constant", "1"), 1.0),
            Column("R: kept", ("aliasing", "matrix", "kept"), 1.0),
            Column("R: leaked", ("aliasing", "matrix", "leaked"), 1.0),
            Column("R: commutation", ("aliasing", "matrix", "commutation"), 1.0),
        ],
        [
            "{network}, 10,000 training images, 8 epochs in batches of 64, judged on the 5,000 held out. Cut off: the "
            "series of 4N functions ends at the output's Nyquist limit "
            "(`Hermite(taper='none'), grid='periodic', pivot_rule='max'`); below it, one change each. GHS, ...: one "
            "change against the default, which was chosen with ResNet-20 on held-out images of CIFAR-100. Camera "
            "moved, noise, half a pixel: the accuracy in that case. R: properties of the matrix of 32 -> 16: gain of "
            "a constant, smallest gain below and largest above the output's Nyquist limit, how far a shift of the "
            "input by the stride is from a shift of the output."
        ],
    ),
    "kernels": Layout(
        "The local kernel, held-out images of CIFAR-10, {network}",
        [
            Column(SCORE, CLEAN, more=(("accuracy", "cropped", "reflect"), _NOISE)),
            Column("accuracy, %", CLEAN),
            Column("camera moved, %", ("accuracy", "cropped", "reflect")),
            Column("noise 0.05, %", _NOISE),
            Column("loss in training", ("final", "loss"), 1.0, 3, part="training"),
            Column(ALIASED, ("aliasing", "aliased"), 1.0, 4),
            Column("kept energy", ("aliasing", "kept"), 1.0, 3),
        ],
        [
            "10,000 training images, 8 epochs in batches of 64, judged on the 5,000 held out. Score: the mean of the "
            "three accuracies after it. Camera moved: by up to 4 pixels each way, the gap filled by reflection. Cut "
            "off: the series of 4N functions that ends at the output's Nyquist limit. Order, width: "
            "`Local(order, width)`. The rule is in the mathematics, and was written before the first run."
        ],
    ),
    "subpixel": Layout(
        "Parts of a pixel, CIFAR-10, {network}",
        [
            Column("accuracy, %", (*_WORST, "integer", "unshifted")),
            Column("worst integer shift, %", (*_WORST, "integer", "accuracy")),
            Column("worst half pixel, %", (*_WORST, "half", "accuracy")),
            Column("worst eighth, %", (*_WORST, "fractional", "accuracy")),
            Column("middle crop, %", (*_WORST, "crop", "unshifted")),
            Column("worst crop, %", (*_WORST, "crop", "accuracy")),
            *(Column(f"two {w} agree, %", (*_WORST, g, "pairs")) for g, w in _MOVES.items()),
            *(Column(f"largest change, {w}", (*_WORST, g, "largest_change"), 1.0, 3) for g, w in _MOVES.items()),
        ],
        [
            "Worst: the share of 1,000 test images that are right under every shift of a grid, as in Michaeli et al. "
            "(2023), on grids of our own: circular shifts on both axes by 0 to 3 pixels; by multiples of 1/2 below 4 "
            "pixels; by multiples of 1/8 below 1 pixel; the 25 crops of 28 x 28 pixels, where pixels leave and enter. "
            "Further whole and half pixels repeat these in this network. Eighths beyond the first pixel do so only "
            "with APS and GHS.",
            "Front: `subpixel=True`, which needs a network that is invariant without it. Weights: those of the "
            "package, as they are, or trained for one more epoch (learning rate 0.1), with the front or without.",
        ],
        (OURS[0], "GHS, front"),
    ),
    "pretrained": pretrained_table.LAYOUT,
    "digits": Layout(
        "Bundled digits, {network}",
        _ALL_SHIFTS,
        [
            "1,797 digits of 8 x 8 pixels, a fifth of them for testing. Agreement is over {images} of these, the "
            "largest change over all 64 circular shifts. Camera moved: up to one pixel each way, with black coming in."
        ],
    ),
}
TABLES["rotated28"] = dataclasses.replace(
    TABLES["table5"],
    title="MNIST-rot at 28 x 28 pixels, E(2)-equivariant network",
    notes=[
        *TABLES["table5"].notes,
        "The digits as they are. In table 5 they are padded to 29 x 29, which gives rotations by 90 degrees a pixel to "
        "turn about; but 2 does not divide 29, so APS promises nothing there.",
    ],
)
