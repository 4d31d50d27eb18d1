"""Networks with a downsampling method of choice, their weights, and networks from elsewhere."""

from shiftproof.models.loading import load_model
from shiftproof.models.registry import create_model, models
from shiftproof.models.resnet import ResNet

__all__ = ["ResNet", "create_model", "load_model", "models"]
