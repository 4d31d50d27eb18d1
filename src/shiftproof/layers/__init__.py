"""Downsampling layers: one protocol, one registry."""

from shiftproof.layers.base import LAWS, Downsample, create_downsample, methods, register_method
from shiftproof.layers.blur import BlurPool, blur_pool
from shiftproof.layers.ghs import GHS1d, GHS2d, GHS3d
from shiftproof.layers.polyphase import APS, polyphase_pool, select_component
from shiftproof.layers.pooling import MaxPool, max_pool

__all__ = [
    "APS",
    "LAWS",
    "BlurPool",
    "Downsample",
    "GHS1d",
    "GHS2d",
    "GHS3d",
    "MaxPool",
    "blur_pool",
    "create_downsample",
    "max_pool",
    "methods",
    "polyphase_pool",
    "register_method",
    "select_component",
]
