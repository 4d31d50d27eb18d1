"""Residual networks (He et al. 2016) with a downsampling method of choice.

A block that downsamples: convolution (stride 1), batch norm, ReLU, **downsample**, then the rest of the main
branch; the shortcut: **downsample with the same selection**, 1 x 1 convolution, batch norm. The parameters have the
same names as in torchvision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn

from shiftproof import checks
from shiftproof.layers import Downsample, conv, make_front, max_pool

HEADS = ("pool", "flatten")
STEMS = ("cifar", "imagenet")
Make = Callable[[int, int], Downsample]  # (channels, stride) -> layer


class _Block(nn.Module):
    """What both kinds of block share: the shortcut, and one selection for both branches."""

    expansion = 1

    def __init__(self, channels: int, outputs: int, stride: int, make: Make, reduced: int, share: bool) -> None:
        super().__init__()
        self.share = share
        self.down: Downsample | None = None
        self.skip_down: Downsample | None = None
        self.in_convolution = 1  # the stride of the convolutions themselves
        if stride > 1:
            down = make(reduced, stride)
            if down.in_convolution:
                self.in_convolution = stride
            else:
                self.down = down
                # a layer that selects serves both branches; others depend on the channels
                self.skip_down = None if share and down.selects else make(channels, stride)
        self.downsample: nn.Module | None = None
        if stride > 1 or channels != outputs:
            self.downsample = nn.Sequential(
                conv(channels, outputs, 1, self.in_convolution, bias=False), nn.BatchNorm2d(outputs)
            )
        self.relu = nn.ReLU()

    def _reduce(self, main: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both branches downsampled and aligned by one selection: that of the main branch, ties broken by `x`."""
        if self.down is None:
            return main, x
        if self.skip_down is None:
            selection = self.down.select(main, x)
            return self.down(main, selection), self.down(x, selection)
        return self.down(main), self.skip_down(x)

    def _join(self, main: Tensor, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.relu(main + shortcut)
        return out


class BasicBlock(_Block):
    """Two 3 x 3 convolutions; the downsampling is between them."""

    def __init__(self, channels: int, width: int, stride: int, make: Make, padding: str, share: bool) -> None:
        super().__init__(channels, width, stride, make, width, share)
        self.conv1 = conv(channels, width, 3, self.in_convolution, padding=padding, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, padding=padding, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, width, ceil(H/stride), ceil(W/stride))."""
        main, x = self._reduce(self.relu(self.bn1(self.conv1(x))), x)
        return self._join(self.bn2(self.conv2(main)), x)


class Bottleneck(_Block):
    """1 x 1, 3 x 3 and 1 x 1 convolution; the downsampling is before the last."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int, make: Make, padding: str, share: bool) -> None:
        super().__init__(channels, 4 * width, stride, make, width, share)
        self.conv1 = conv(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, self.in_convolution, padding=padding, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 4 * width, ceil(H/stride), ceil(W/stride))."""
        main = self.relu(self.bn1(self.conv1(x)))
        main, x = self._reduce(self.relu(self.bn2(self.conv2(main))), x)
        return self._join(self.bn3(self.conv3(main)), x)


class Stem(nn.Module):
    """The second downsampling of ImageNet networks: a 3 x 3 maximum at stride 1, then the method."""

    def __init__(self, channels: int, make: Make, padding: str) -> None:
        super().__init__()
        self.padding = padding
        down = make(channels, 2)
        self.down = None if down.in_convolution else down

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, ceil(H/2), ceil(W/2))."""
        if self.down is None:
            return max_pool(x, 2, 3, self.padding)
        out: Tensor = self.down(max_pool(x, 1, 3, self.padding))
        return out


class ResNet(nn.Module):
    """A residual network; `make(channels, stride)` gives its downsampling layers.

    * with `ghs` and circular padding, in evaluation mode: logits are equal, bit for bit, for every circular shift of
      the input, at any input size. The `front` (`make_front`) makes the bits equal; without it they are to rounding;
    * any input size with `head="pool"`; with `head="flatten"` the one given as `size`.

    With `share=False`, for ablation, each branch of a block makes its own selection: still invariant, but the maps that
    are added are not aligned.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: Sequence[int],
        widths: Sequence[int],
        make: Make,
        *,
        num_classes: int = 10,
        in_channels: int = 3,
        padding: str = "circular",
        stem: str = "cifar",
        head: str = "pool",
        size: int | Sequence[int] = 32,
        share: bool = True,
        front: bool | None = None,
        subpixel: bool = False,
    ) -> None:
        super().__init__()
        checks.choice("stem", stem, STEMS)
        checks.choice("head", head, HEADS)
        self.front, _ = make_front(make(in_channels, 2), padding, front, subpixel)
        last: Make = lambda channels, stride: make(channels, stride).split()[1]  # noqa: E731
        inner: Make = lambda channels, stride: last(channels, stride).staying()  # noqa: E731
        reductions = len(depths) - 1
        width = widths[0]
        self.stem_down: nn.Module | None = None
        self.maxpool: nn.Module | None = None
        if stem == "imagenet":
            reductions += 2
            down = inner(width, 2)
            self.conv1 = conv(in_channels, width, 7, 2 if down.in_convolution else 1, padding=padding, bias=False)
            self.stem_down = None if down.in_convolution else down
            self.maxpool = Stem(width, inner, padding)
        else:
            self.conv1 = conv(in_channels, width, 3, padding=padding, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        channels = width
        self.stages = []
        for i, (depth, width) in enumerate(zip(depths, widths)):
            blocks = []
            for j in range(depth):
                stride = 2 if i > 0 and j == 0 else 1
                ends = padding == "circular" and i == len(depths) - 1  # after which maps are the same for every shift
                blocks.append(block(channels, width, stride, last if ends else inner, padding, share))
                channels = block.expansion * width
            self.stages.append(f"layer{i + 1}")
            self.add_module(self.stages[-1], nn.Sequential(*blocks))
        self.head = head
        self.size = checks.per_axis("size", size, 2)
        # halving `reductions` times, rounded up each time, is dividing once, rounded up
        positions = math.prod(-(-n // 2**reductions) for n in self.size) if head == "flatten" else 1
        self.fc = nn.Linear(channels * positions, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """The maps before the head."""
        if self.front is not None:
            x = self.front(x)
        x = self.relu(self.bn1(self.conv1(x)))
        for layer in (self.stem_down, self.maxpool):
            x = x if layer is None else layer(x)
        for name in self.stages:
            x = self.get_submodule(name)(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, num_classes)."""
        if self.head == "flatten" and x.shape[2:] != self.size:
            raise ValueError(
                f"`x` (shape {tuple(x.shape)}) must have the size {self.size} that this network with `head='flatten'` "
                f"was built for: set `size`, or use `head='pool'` for any size."
            )
        x = self.features(x)
        x = x.flatten(1) if self.head == "flatten" else x.mean((2, 3))
        out: Tensor = self.fc(x)
        return out


RESNETS = {
    "resnet8": partial(ResNet, BasicBlock, (1, 1, 1), (16, 32, 64)),
    "resnet18": partial(ResNet, BasicBlock, (2, 2, 2, 2), (64, 128, 256, 512)),
    "resnet20": partial(ResNet, BasicBlock, (3, 3, 3), (16, 32, 64)),
    "resnet50": partial(ResNet, Bottleneck, (3, 4, 6, 3), (64, 128, 256, 512)),
    "resnet56": partial(ResNet, BasicBlock, (9, 9, 9), (16, 32, 64)),
}
