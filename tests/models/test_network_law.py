"""A whole stack of layers: bit-exact with GHS, flatten and all."""

import pytest
import torch
from torch import Tensor, nn

from helpers.laws import stir
from shiftproof.invariance import assert_shift_invariant, shift_error
from shiftproof.layers import create_downsample


def stack(method: str, size: int = 32) -> nn.Sequential:
    """conv(circular)-BN-ReLU-downsample, twice, then flatten and a linear head: no global pooling anywhere."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (8, 16):
        layers += [nn.Conv2d(channels, width, 3, padding=1, padding_mode="circular"), nn.BatchNorm2d(width), nn.ReLU()]
        layers.append(create_downsample(method, channels=width))
        channels = width
    layers += [nn.Flatten(), nn.Linear(channels * (size // 4) ** 2, 10)]
    model = nn.Sequential(*layers).eval()
    stir(model)
    return model


def image() -> Tensor:
    """One random and one 8-bit image."""
    x = torch.rand(2, 3, 32, 32)
    x[1] = (x[1] * 300).clamp(max=255).round() / 255
    return x


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("method", ["ghs", "ghs-paper"])
def test_ghs_stack_is_bit_exact_over_all_1024_shifts(method: str, layout: torch.memory_format) -> None:
    model = stack(method).to(memory_format=layout)  # type: ignore[call-overload]
    x = image().contiguous(memory_format=layout)
    assert_shift_invariant(model, x, batch_size=128)
    assert shift_error(model, x, batch_size=128).max == 0.0


@pytest.mark.parametrize("method", ["aps", "lpf", "max"])
def test_other_stacks_are_not(method: str) -> None:
    """APS is equivariant only, which a flattened head does not forgive."""
    with pytest.raises(AssertionError, match="not invariant to circular shifts"):
        assert_shift_invariant(stack(method), image(), shifts=16, tolerance=1e-4)
