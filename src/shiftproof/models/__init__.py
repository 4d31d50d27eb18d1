"""Networks with a downsampling method of choice, and the converter for networks from elsewhere."""

from shiftproof.models.registry import create_model, models
from shiftproof.models.resnet import ResNet

__all__ = ["ResNet", "create_model", "models"]
