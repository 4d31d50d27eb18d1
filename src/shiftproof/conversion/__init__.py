"""The converter: a network from elsewhere, rebuilt with a downsampling method of choice."""

from shiftproof.conversion.capture import ConversionError
from shiftproof.conversion.converter import conversion_report, convert
from shiftproof.conversion.report import ConversionReport

__all__ = ["ConversionError", "ConversionReport", "conversion_report", "convert"]
