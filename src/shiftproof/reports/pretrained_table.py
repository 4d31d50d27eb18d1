"""The table of networks that others trained: what a conversion costs them, and what wins it back."""

from __future__ import annotations

from dataclasses import replace

from shiftproof.experiments import paper
from shiftproof.reports.table import Column, Layout

_METHODS = {"strided": "strided", "LPF-3": "lpf", "APS-3": "aps", "GHS after": "ghs"}


def _columns(network: str) -> list[Column]:
    """Those of one network."""
    printed = {f"{label}, circular, 2 epochs": paper.ACCURACY[network][method] for label, method in _METHODS.items()}
    columns = [
        Column("accuracy, %", ("accuracy", "clean"), printed=printed),
        Column("consistency, %", ("consistency", "aps_protocol")),
        Column("largest change", ("consistency", "all_pairs", "largest_change"), 1.0, 3),
        Column("camera moved, %", ("accuracy", "cropped", "black")),
        Column("two moves of the camera agree, %", ("consistency", "agreement", "cropped", "black")),
        Column("MFLOPs", ("efficiency", "flops"), 1e-6, 1),
    ]
    label = network.replace("resnet", "ResNet-")
    return [replace(c, title=f"{label}: {c.title}", model=f"cifar:{network}") for c in columns]


LAYOUT = Layout(
    "Networks that others trained, converted, CIFAR-10",
    [column for network in ("resnet20", "resnet56") for column in _columns(network)],
    [
        "Public weights (`cifar:resnet20` and `cifar:resnet56`, trained on all 50,000 images by Y. Idelbayev) with the "
        "source's strides, or converted: after or before the strides, with the source's padding (keep) or circular. As "
        "they are; with batch norms calibrated on 1,000 training images without labels; fine-tuned for two epochs with "
        "flips and crops. The paper's numbers are those of networks trained from scratch, with circular padding.",
        "Consistency: as in table 1, on all test images. Largest change: of a logit, over all circular shifts of 100 "
        "images. Camera moved: up to 4 pixels each way, with black coming in. Only circular padding gives a guarantee.",
    ],
    subjects=[f"GHS {placement}, circular, 2 epochs" for placement in ("after", "before")],
)
