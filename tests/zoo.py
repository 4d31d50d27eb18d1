"""Networks from elsewhere and three of our own, for the converter's tests."""

from typing import Any

import torch
from torch import Tensor, nn

# torchvision's wheel looks for two compiled operators that the CPU build of torch does not have
_operators = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _operators.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
