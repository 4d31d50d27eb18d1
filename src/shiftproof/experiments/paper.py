"""Numbers the paper prints, for comparison with ours. The only place where they are typed.

Percentages with their standard deviation over ten seeds where the paper gives one. Rows carry the names of our methods:
the paper's baseline is `strided`.
"""

from __future__ import annotations

Value = tuple[float, float | None]

# section 4.4: absolute difference between the downsampled cameraman image and its shifted version; neither the shift
# nor whether the difference is summed, averaged or maximised is stated
CAMERAMAN_AD = {"max": 2.77, "lpf": 0.70, "aps": 0.48, "ghs": 0.00}

_NETWORKS = ("resnet18", "resnet20", "resnet50", "resnet56")


def _row(*values: Value) -> dict[str, Value]:
    return dict(zip(_NETWORKS, values))


_ALL: Value = (100.0, 0.0)

# table 1: consistency on CIFAR-10
CONSISTENCY: dict[str, dict[str, Value]] = {
    "strided": _row((90.88, 0.16), (90.83, 0.14), (88.96, 0.14), (91.89, 0.31)),
    "lpf": _row((98.10, 0.12), (96.53, 0.13), (97.38, 0.20), (96.90, 0.19)),
    "aps": _row(_ALL, _ALL, _ALL, _ALL),
    "ghs": _row(_ALL, _ALL, _ALL, _ALL),
}
# table 2: accuracy on CIFAR-10
ACCURACY: dict[str, dict[str, Value]] = {
    "strided": _row((91.96, 0.31), (89.76, 0.26), (90.05, 0.18), (91.40, 0.20)),
    "lpf": _row((94.28, 0.29), (91.56, 0.30), (94.12, 0.32), (92.98, 0.23)),
    "aps": _row((94.48, 0.17), (91.75, 0.23), (94.07, 0.25), (92.93, 0.29)),
    "ghs": _row((95.54, 0.13), (91.72, 0.18), (94.40, 0.17), (93.13, 0.20)),
}
# table 3: CIFAR-100, ResNet-18: consistency, accuracy
CIFAR100: dict[str, tuple[float, float]] = {
    "strided": (84.35, 75.59),
    "lpf": (90.54, 76.85),
    "aps": (100.00, 77.12),
    "ghs": (100.00, 77.92),
}
# table 4: CIFAR-10, ResNet-18: consistency unflipped and flipped, accuracy unflipped and flipped
FLIPPED: dict[str, tuple[float, float, float, float]] = {
    "da": (97.84, 84.94, 94.22, 44.97),
    "lpf": (98.19, 89.21, 94.28, 46.21),
    "aps": (100.00, 100.00, 94.48, 47.55),
    "ghs": (100.00, 100.00, 95.02, 49.68),
}
# figure 5: CIFAR-10, ResNet-18, by the side of the erased square; read off the bars
ERASED_CONSISTENCY: dict[str, dict[int, float]] = {
    "da": {0: 97.9, 4: 97.1, 6: 96.6, 8: 95.2},
    "lpf": {0: 98.1, 4: 97.8, 6: 97.0, 8: 95.0},
    "aps": {0: 100, 4: 100, 6: 100, 8: 100},
    "ghs": {0: 100, 4: 100, 6: 100, 8: 100},
}
ERASED_ACCURACY: dict[str, dict[int, float]] = {
    "da": {0: 94.1, 4: 93.4, 6: 91.4, 8: 87.8},
    "lpf": {0: 94.2, 4: 93.5, 6: 91.5, 8: 88.6},
    "aps": {0: 94.7, 4: 93.7, 6: 91.7, 8: 89.5},
    "ghs": {0: 94.9, 4: 93.8, 6: 91.8, 8: 89.6},
}
# table 5: accuracy on MNIST-rot, E(2)-equivariant network
ROTATED: dict[str, float] = {"max": 96.69, "lpf": 97.85, "aps": 98.12, "ghs": 98.82}
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
    "figure2": "The text says orders 1 to 4, the caption 0 to 4; values in (-1, 1) fail for scales below 0.56.",
}
