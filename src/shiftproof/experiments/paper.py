"""Numbers the paper prints, for comparison with ours. The only place where they are typed.

Percentages with their standard deviation over ten seeds where the paper gives one. Rows carry the names of our methods:
the paper's baseline is `strided`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Value = tuple[float, float | None]

# section 4.4: absolute difference between the downsampled cameraman image and its shifted version; neither the shift
# nor whether the difference is summed, averaged or maximised is stated
CAMERAMAN_AD = {"max": 2.77, "lpf": 0.70, "aps": 0.48, "ghs": 0.00}

NETWORKS = ("resnet18", "resnet20", "resnet50", "resnet56")
ERASED_SIZES = (0, 4, 6, 8)  # pixels on each side


def _columns(names: Iterable[str], **rows: Sequence[float | Value]) -> dict[str, dict[str, Value]]:
    """The numbers of each column by method, from the rows by method."""
    values = ([v if isinstance(v, tuple) else (v, None) for v in row] for row in rows.values())
    return {name: dict(zip(rows, column)) for name, column in zip(names, zip(*values))}


_ALL: Value = (100.0, 0.0)

# table 1: consistency on CIFAR-10
CONSISTENCY = _columns(
    NETWORKS,
    strided=[(90.88, 0.16), (90.83, 0.14), (88.96, 0.14), (91.89, 0.31)],
    lpf=[(98.10, 0.12), (96.53, 0.13), (97.38, 0.20), (96.90, 0.19)],
    aps=[_ALL] * 4,
    ghs=[_ALL] * 4,
)
# table 2: accuracy on CIFAR-10
ACCURACY = _columns(
    NETWORKS,
    strided=[(91.96, 0.31), (89.76, 0.26), (90.05, 0.18), (91.40, 0.20)],
    lpf=[(94.28, 0.29), (91.56, 0.30), (94.12, 0.32), (92.98, 0.23)],
    aps=[(94.48, 0.17), (91.75, 0.23), (94.07, 0.25), (92.93, 0.29)],
    ghs=[(95.54, 0.13), (91.72, 0.18), (94.40, 0.17), (93.13, 0.20)],
)
# table 3: CIFAR-100, ResNet-18
CIFAR100 = _columns(
    ("consistency", "accuracy"),
    strided=(84.35, 75.59),
    lpf=(90.54, 76.85),
    aps=(100.00, 77.12),
    ghs=(100.00, 77.92),
)
# table 4: CIFAR-10, ResNet-18, unflipped and flipped
FLIPPED = _columns(
    ("consistency", "consistency, flipped", "accuracy", "accuracy, flipped"),
    da=(97.84, 84.94, 94.22, 44.97),
    lpf=(98.19, 89.21, 94.28, 46.21),
    aps=(100.00, 100.00, 94.48, 47.55),
    ghs=(100.00, 100.00, 95.02, 49.68),
)
# figure 5: CIFAR-10, ResNet-18, by the side of the erased square; read off the bars
ERASED = {
    "consistency": _columns(
        map(str, ERASED_SIZES),
        da=(97.9, 97.1, 96.6, 95.2),
        lpf=(98.1, 97.8, 97.0, 95.0),
        aps=(100, 100, 100, 100),
        ghs=(100, 100, 100, 100),
    ),
    "accuracy": _columns(
        map(str, ERASED_SIZES),
        da=(94.1, 93.4, 91.4, 87.8),
        lpf=(94.2, 93.5, 91.5, 88.6),
        aps=(94.7, 93.7, 91.7, 89.5),
        ghs=(94.9, 93.8, 91.8, 89.6),
    ),
}
# table 5: accuracy on MNIST-rot, E(2)-equivariant network
ROTATED: dict[str, Value] = {"max": (96.69, None), "lpf": (97.85, None), "aps": (98.12, None), "ghs": (98.82, None)}
# table 6: milliseconds for 100 batches of 32 x 3 x 32 x 32 on an NVIDIA T4, with spread
TIMES: dict[str, tuple[float, float]] = {
    "max": (0.27, 0.10),
    "lpf": (0.41, 0.13),
    "aps": (2.56, 0.20),
    "ghs": (2.71, 0.12),
}

# where the paper disagrees with itself
DISAGREEMENTS = {
    "table2": "GHS with ResNet-18 is 95.54 in table 2, 95.02 in table 4 and 94.9 in figure 5.",
    "table4": "The paper's row is called LPS and carries LPF's accuracy of table 2 (94.28), so it stands beside LPF "
    "here. GHS with ResNet-18 is 95.02 in table 4, 95.54 in table 2 and 94.9 in figure 5.",
    "figure5": "GHS with ResNet-18 and nothing erased is 94.9 in figure 5, 95.54 in table 2 and 95.02 in table 4.",
}

# the same, and where the text and the tables do not fit together: for the page that goes through the claims
CONTRADICTIONS = (
    "GHS with ResNet-18 on CIFAR-10 has three accuracies: 95.54 in table 2, 95.02 in table 4, 94.9 in figure 5. The "
    "lead over APS (94.48) is 1.06 or 0.54 points, depending on the table.",
    'GHS "achieves the highest performance"; table 2 has APS ahead with ResNet-20 (91.75 against 91.72).',
    "Table 4 has a row LPS with the accuracy of LPF (94.28); LPS is described nowhere.",
    'The "vertical flip" of the reference code flips both axes, a rotation by 180 degrees.',
    "100 % consistency on MNIST-rot is claimed in the highlights; no table has it. Consistency between original and "
    "rotated images is announced and not reported.",
    "Consistency is measured with two shifts of up to three pixels for each batch, not with arbitrary ones.",
    "MNIST-rot officially has 12,000 images for training and 50,000 for testing; the paper has 10,000 and 2,000.",
    "The cameraman experiment states neither the shift nor whether differences are summed, averaged or maximised.",
    "Aliasing and noise are in the contributions; no experiment measures either.",
    "Ties of the maximum are called highly improbable; 8-bit pictures and maps after a ReLU have them.",
    "Eq. 3 has a misprint, the order of indices contradicts property 1, and the number of functions is open: see the "
    "mathematics.",
)
