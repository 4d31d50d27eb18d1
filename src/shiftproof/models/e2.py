"""The rotation-equivariant network for MNIST-rot (Weiler and Cesa 2019, C16-regular E2SFCNN), on top of `e2cnn`.

A map is a stack of regular fields: 16 channels each, one per rotation by 22.5 degrees. A rotation of the image rotates
the map and permutes the channels inside every field. Block: convolution, inner batch norm, **downsample** (blocks 2 and
4), ELU. Only this module imports `e2cnn`: import it only to build the network.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from e2cnn import gspaces
from e2cnn.nn import EquivariantModule, FieldType, GeometricTensor, InnerBatchNorm, R2Conv
from torch import Tensor, nn

from shiftproof import checks
from shiftproof.layers import Downsample, make_front
from shiftproof.maps.padding import pad

GEOMETRIES = ("circular", "reference")
ROTATIONS = 16
KERNELS = (9, 7, 7, 7, 7, 5)
FIELDS = (24, 32, 36, 36, 64, 96)
PADDINGS = (0, 3, 3, 3, 3, 0)  # of the reference; `circular` keeps all sizes
POOLED = (1, 3)  # the blocks with a downsampling layer, counted from 0
HIDDEN = 96
DROPOUT = 0.3


def quarter_turns(x: Tensor, fields: FieldType, turns: int) -> Tensor:
    """Maps (B, C, H, W) rotated by `turns` times 90 degrees: pixels move counter-clockwise, channels are permuted.

    The same as `GeometricTensor.transform`, but in the dtype of `x`. For permutation representations.
    """
    order = fields.fibergroup.order()
    if order % 4:
        raise ValueError(f"`fields` has {order} rotations, which must be a multiple of 4 to hold those by 90 degrees.")
    matrix = torch.from_numpy(fields.representation(turns % 4 * order // 4))
    return x[:, matrix.argmax(1)].rot90(turns, (-2, -1))


def elu(x: Tensor) -> Tensor:
    """x where it is positive, e^x - 1 elsewhere; rounds alike at every position, unlike torch's own."""
    return torch.where(x > 0, x, x.clamp(max=0).expm1())


class SteerableConv(nn.Module):
    """e2cnn's convolution between fields of one type each, without its bias, which the batch norm after it would undo.

    A filter is a sum over e2cnn's basis, one coefficient per element and pair of fields; it is built in every call, so
    a checkpoint holds the coefficients only. They start from He's initialisation, generalised to fields as in
    `e2cnn.nn.init.generalized_he_init`. Padded by `shifts.pad` with `around` pixels on each side.
    """

    basis: Tensor

    def __init__(self, in_type: FieldType, out_type: FieldType, kernel_size: int, around: int, border: str) -> None:
        super().__init__()
        self.in_type, self.out_type, self.kernel_size = in_type, out_type, kernel_size
        self.around, self.border = around, border
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "indexing with dtype torch.uint8", UserWarning)
            pair = R2Conv(in_type.index_select([0]), out_type.index_select([0]), kernel_size, initialize=False)
        (block,) = pair.basisexpansion.children()
        self.register_buffer("basis", block.sampled_basis, persistent=False)  # (D, o, i, k * k)
        ends = [(a["in_irrep"], a["out_irrep_idx"]) for a in block.get_basis_info()]
        paths = Counter(ends)  # from one kind of input to one output
        kinds = Counter(output for _, output in paths)
        # 1 / variance = kinds of inputs * paths from inputs of that kind: every output has the same variance
        scale = torch.tensor([1 / math.sqrt(kinds[e[1]] * paths[e] * len(in_type)) for e in ends])
        self.weights = nn.Parameter(torch.randn(len(out_type), len(in_type), len(scale)) * scale)

    def filter(self) -> Tensor:
        """The filter that the coefficients stand for. (outputs, inputs, k, k)"""
        filters = torch.einsum("OId,doip->OoIip", self.weights, self.basis)
        return filters.reshape(self.out_type.size, self.in_type.size, self.kernel_size, self.kernel_size)

    def forward(self, x: GeometricTensor) -> GeometricTensor:
        """The convolution of the fields."""
        maps, around = x.tensor, self.around
        if self.border != "zeros":
            maps, around = pad(maps, [(around, around)] * 2, self.border), 0
        return GeometricTensor(F.conv2d(maps, self.filter(), padding=around), self.out_type)

    def extra_repr(self) -> str:
        """Fields, kernel and padding."""
        return (
            f"{len(self.in_type)}, {len(self.out_type)}, kernel_size={self.kernel_size}, padding={self.around}, "
            f"padding_mode={self.border!r}"
        )


class FieldDownsample(EquivariantModule):  # type: ignore[misc]
    """A downsampling layer on fields, with one selection for all channels.

    With `ghs` it is the position of the maximum over all channels, which does not change if channels are permuted:

    * rotations by 90 degrees commute with it, up to rounding, on maps of odd size with one maximum and a centre anchor;
    * they do not on even sizes, where no pixel is the centre, or with a corner anchor.

    Shape: (B, C, H, W) -> (B, C, ceil(H/stride), ceil(W/stride)), fields of the same type.
    """

    def __init__(self, layer: Downsample, in_type: FieldType) -> None:
        super().__init__()
        for kind in in_type.representations:
            if "pointwise" not in kind.supported_nonlinearities:
                raise ValueError(
                    f"`in_type` holds fields of type {kind.name!r}, whose channels are not permuted by rotations: a "
                    f"maximum over channels has no meaning there. Use regular, quotient or trivial fields."
                )
        self.layer = layer
        self.in_type = self.out_type = in_type

    def forward(self, x: GeometricTensor) -> GeometricTensor:
        """The fields, downsampled."""
        return GeometricTensor(self.layer(x.tensor), self.out_type)

    def evaluate_output_shape(self, input_shape: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
        """The shape of the output for an input of the given shape."""
        batch, channels, *sizes = input_shape
        height, width = (-(-n // s) for n, s in zip(sizes, self.layer.stride))
        return batch, channels, height, width

    def check_equivariance(
        self, atol: float = 1e-5, rtol: float = 1e-5, size: int = 21, dtype: torch.dtype = torch.float32
    ) -> list[tuple[int, float]]:
        """The largest error of each rotation by 90, 180 and 270 degrees on random maps; an AssertionError if too large.

        The error is the difference between rotating before and after the layer.
        """
        x = torch.randn(3, self.in_type.size, size, size, generator=torch.Generator().manual_seed(0), dtype=dtype)
        with torch.no_grad():
            y = self.layer(x)
            errors = []
            for turns in (1, 2, 3):
                before = self.layer(quarter_turns(x, self.in_type, turns))
                after = quarter_turns(y, self.out_type, turns)
                errors.append((turns * ROTATIONS // 4, float((before - after).abs().max())))
                if not torch.allclose(before, after, rtol, atol):
                    raise AssertionError(
                        f"{self.layer} does not commute with a rotation of {size} x {size} maps by {90 * turns} "
                        f"degrees: the largest error is {errors[-1][1]:.1e}."
                    )
        return errors


class E2Block(nn.Module):
    """Convolution, inner batch norm, a downsampling layer if there is one, ELU."""

    def __init__(self, conv: SteerableConv, layer: Downsample | None) -> None:
        super().__init__()
        self.conv = conv
        self.norm = InnerBatchNorm(conv.out_type)
        self.pool = None if layer is None else FieldDownsample(layer, conv.out_type)

    def forward(self, x: GeometricTensor) -> GeometricTensor:
        """(B, C, H, W) -> fields of the type of the convolution."""
        x = self.norm(self.conv(x))
        if self.pool is not None:
            x = self.pool(x)
        return GeometricTensor(elu(x.tensor), x.type)


class E2SFCNN(nn.Module):
    """The network; `make(channels, stride)` gives its downsampling layers, `width` scales the number of fields.

    `geometry="reference"` is the original (paddings 0, 3, 3, 3, 3, 0 with zeros), without a guarantee for shifts;
    `"circular"` wraps around and keeps the size in every convolution. At the end the maximum over rotations, then over
    positions, then two layers of 96 and the classifier, with dropout 0.3 before each.

    * `ghs`, circular, evaluation mode: logits are equal for every circular shift, bit for bit;
    * `ghs`, either geometry, evaluation mode: a rotation of the image by 90 degrees keeps the logits, up to
      rounding, if the maps that are pooled have odd sizes: images of 29 x 29 (29 and 15, reference 21 and 11);
      circular also on even sizes, where a rotation about the pivot is one about the centre and a shift, which does not
      change what follows.
    """

    def __init__(
        self,
        make: Callable[[int, int], Downsample],
        *,
        num_classes: int = 10,
        in_channels: int = 1,
        width: float = 1.0,
        geometry: str = "circular",
        front: bool | None = None,
        subpixel: bool = False,
    ) -> None:
        super().__init__()
        self.geometry = checks.choice("geometry", geometry, GEOMETRIES)
        self.width = checks.positive("width", width)
        # the last filter fits into the map, and what the first convolution takes
        self.smallest = 4 * (KERNELS[-1] - 1) + 1 + (KERNELS[0] - 1 if geometry == "reference" else 0)
        padding = "circular" if geometry == "circular" else "zeros"
        self.front, _ = make_front(make(in_channels, 2), padding, front, subpixel)
        space = gspaces.Rot2dOnR2(ROTATIONS)
        fields = self.in_type = FieldType(space, [space.trivial_repr] * in_channels)
        self.blocks = nn.ModuleList()
        for i, (kernel, count, around) in enumerate(zip(KERNELS, FIELDS, PADDINGS)):
            border = "zeros"
            if geometry == "circular":  # after the pooling too: GHS centres the pivot, not the digit
                around, border = kernel // 2, "circular"
            outputs = FieldType(space, [space.regular_repr] * max(1, round(width * count)))
            layer = make(outputs.size, 2).split()[1] if i in POOLED else None
            if layer is not None and i < POOLED[-1] and geometry == "circular":
                layer = layer.staying()  # beside borders only the pivot in the center keeps the logits of rotations
            conv = SteerableConv(fields, outputs, kernel, around, border)
            self.blocks.append(E2Block(conv, layer))
            fields = outputs
        head: list[nn.Module] = []
        features = len(fields)
        for _ in range(2):
            head += [nn.Dropout(DROPOUT), nn.Linear(features, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ELU()]
            features = HIDDEN
        self.head = nn.Sequential(*head, nn.Dropout(DROPOUT), nn.Linear(features, num_classes))

    def decay_share(self, name: str) -> float:
        """The share of L1 and L2 regularisation of a parameter: filters 1, hidden layers 0.1, all else none."""
        owner, _, kind = name.rpartition(".")
        module = self.get_submodule(owner)
        if isinstance(module, SteerableConv) and kind == "weights":
            return 1.0
        return 0.1 if isinstance(module, nn.Linear) and module is not self.head[-1] and kind == "weight" else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, num_classes)."""
        checks.maps("x", x, 2)
        if x.shape[1] != self.in_type.size or min(x.shape[2:]) < self.smallest:
            raise ValueError(
                f"`x` (shape {tuple(x.shape)}) must have {self.in_type.size} channels and at least {self.smallest} x "
                f"{self.smallest} pixels: this is what the network was built for, in geometry {self.geometry!r}."
            )
        if self.front is not None:
            x = self.front(x)
        fields = GeometricTensor(x, self.in_type)
        for block in self.blocks:
            fields = block(fields)
        # the maximum over rotations (group pooling) and over positions; ELU is monotonic and may come before it
        out: Tensor = self.head(fields.tensor.unflatten(1, (-1, ROTATIONS)).amax((2, 3, 4)))
        return out
