"""Downsampling layers: one protocol, one registry."""

from shiftproof.layers.adaptive import AdaptiveBlurPool, filter_pool
from shiftproof.layers.align import Align
from shiftproof.layers.base import LAWS, Downsample, PaddedDownsample
from shiftproof.layers.blur import BlurPool, blur_pool
from shiftproof.layers.convolution import conv
from shiftproof.layers.front import RollFirst, RollToPivot, make_front, roll_to_pivot
from shiftproof.layers.ghs import GHS1d, GHS2d, GHS3d
from shiftproof.layers.ghs_up import GHSUp1d, GHSUp2d, GHSUp3d
from shiftproof.layers.polyphase import APS, LPS, polyphase_pool, select_component
from shiftproof.layers.pooling import (
    AvgPool,
    MaxPool,
    MixedPool,
    StochasticPool,
    Strided,
    avg_pool,
    max_pool,
    mixed_pool,
    stochastic_pool,
    subsample,
)
from shiftproof.layers.registry import create_downsample, methods, register_method, resolve_options

__all__ = [
    "APS",
    "LAWS",
    "LPS",
    "AdaptiveBlurPool",
    "Align",
    "AvgPool",
    "BlurPool",
    "Downsample",
    "GHS1d",
    "GHS2d",
    "GHS3d",
    "GHSUp1d",
    "GHSUp2d",
    "GHSUp3d",
    "MaxPool",
    "MixedPool",
    "PaddedDownsample",
    "RollFirst",
    "RollToPivot",
    "StochasticPool",
    "Strided",
    "avg_pool",
    "blur_pool",
    "conv",
    "create_downsample",
    "filter_pool",
    "make_front",
    "max_pool",
    "methods",
    "mixed_pool",
    "polyphase_pool",
    "register_method",
    "resolve_options",
    "roll_to_pivot",
    "select_component",
    "stochastic_pool",
    "subsample",
]
