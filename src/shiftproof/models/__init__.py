"""Networks with a downsampling method of choice, their weights, and networks from files."""

from shiftproof.models.registry import create_model, models
from shiftproof.models.resnet import ResNet

__all__ = ["ResNet", "create_model", "models"]
