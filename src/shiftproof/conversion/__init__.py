"""The converter: an existing network, rebuilt with another downsampling method."""

from shiftproof.conversion.calibration import calibrate
from shiftproof.conversion.converter import conversion_report, convert
from shiftproof.conversion.error import ConversionError
from shiftproof.conversion.report import ConversionReport

__all__ = ["ConversionError", "ConversionReport", "calibrate", "conversion_report", "convert"]
