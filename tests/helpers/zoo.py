"""Networks from elsewhere and three of our own, for the converter's tests."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers.laws import stir

# torchvision's wheel looks for two compiled operators that the CPU build of torch does not have; pytest may import
# this file twice, and a namespace can be defined once
if not hasattr(torch.ops.torchvision, "nms"):
    _operators: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for _name in ("nms", "qnms"):
        _operators.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import timm as timm
import torchvision


class Plain(nn.Module):
    """Convolutions, functional pooling and dropout, a flattened head: the network of a tutorial."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 5, padding=2)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 11 * 11, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, ceil_mode=True)
        x = F.hardswish(self.norm(self.conv2(x)))
        x = F.dropout(x, 0.5, training=self.training)
        return self.fc(x.flatten(1))  # type: ignore[no-any-return]


class PreActivation(nn.Module):
    """Residual blocks with norm and activation first; one shortcut subsamples by a slice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(c) for c in (8, 16, 16, 16, 16))
        self.convs = nn.ModuleList(
            [
                nn.Conv2d(8, 16, 3, stride=2, padding=1),
                nn.Conv2d(16, 16, 3, padding=2, dilation=2),
                nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=4),
                nn.Conv2d(16, 16, 3, padding=1),
            ]
        )
        self.shortcut = nn.Conv2d(8, 16, 1, stride=2)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        h = self.norms[0](x).relu()
        y = self.convs[1](self.norms[1](self.convs[0](h)).relu())
        x = y + self.shortcut(h)
        h = self.norms[2](x).relu()
        y = self.convs[3](self.norms[3](self.convs[2](h)).relu())
        x = y + x[:, :, ::2, ::2]
        return self.head(self.norms[4](x).relu().mean((2, 3)))  # type: ignore[no-any-return]


class Inception(nn.Module):
    """Branches of different depth that end in a concatenation, all with a stride."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.short = nn.Sequential(nn.Conv2d(8, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.long = nn.Sequential(
            nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 5, padding=2), nn.ReLU(),
            nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Hardswish(),
        )  # fmt: skip
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.mean = nn.Sequential(nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), nn.Conv2d(8, 4, 1))
        self.last = nn.Conv2d(24, 10, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.cat([self.short(x), self.long(x), self.pool(x), self.mean(x)], 1)
        return F.adaptive_avg_pool2d(self.last(x), 1).flatten(1)


OWN: dict[str, Callable[[], nn.Module]] = {"plain": Plain, "pre-activation": PreActivation, "inception": Inception}
FAMILIES = {
    "torchvision": [
        "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "vgg16_bn", "mobilenet_v2", "mobilenet_v3_small",
        "efficientnet_b0", "densenet121", "regnet_y_400mf", "convnext_tiny", "shufflenet_v2_x1_0", "squeezenet1_1",
    ],
    "timm": [
        "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "vgg16_bn", "mobilenetv2_100",
        "mobilenetv3_small_100", "efficientnet_b0", "densenet121", "regnety_004", "convnext_tiny",
    ],
}  # fmt: skip
NAMES = [*OWN, *(f"{library}:{name}" for library, names in FAMILIES.items() for name in names)]


def create(name: str, **options: Any) -> nn.Module:
    """A network with ten classes in evaluation mode, its statistics off their defaults, nothing initialised to zero."""
    torch.manual_seed(0)
    library, _, name = name.rpartition(":")
    if library == "timm":
        model: nn.Module = timm.create_model(name, num_classes=10, **options)
    elif library == "torchvision":
        model = getattr(torchvision.models, name)(weights=None, num_classes=10, **options)
    else:
        model = OWN[name]()
    stir(model)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
    for key, parameter in model.named_parameters():
        if key.endswith(("gamma", "layer_scale")):  # ConvNeXt starts with branches that hardly count
            nn.init.uniform_(parameter, 0.5, 1.5)
    return model.eval()
