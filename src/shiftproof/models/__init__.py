"""Networks with a downsampling method of choice, and the converter for networks from elsewhere."""

from shiftproof.models.conversion import conversion_report, convert
from shiftproof.models.registry import create_model, models
from shiftproof.models.report import ConversionReport
from shiftproof.models.resnet import ResNet
from shiftproof.models.tracing import ConversionError

__all__ = [
    "ConversionError",
    "ConversionReport",
    "ResNet",
    "conversion_report",
    "convert",
    "create_model",
    "models",
]
