"""shiftproof: convolutional networks that give the same answer when their input moves."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shiftproof.camera.steady import Steady as Steady
    from shiftproof.conversion import ConversionError as ConversionError
    from shiftproof.conversion import calibrate as calibrate
    from shiftproof.conversion import conversion_report as conversion_report
    from shiftproof.conversion import convert as convert
    from shiftproof.ghs.frame import Frame as Frame
    from shiftproof.ghs.functions import gauss_hermite as gauss_hermite
    from shiftproof.ghs.kernel import Hermite as Hermite
    from shiftproof.ghs.kernel import Local as Local
    from shiftproof.ghs.moments import moments as moments
    from shiftproof.ghs.moments import reconstruct as reconstruct
    from shiftproof.ghs.sampling import ghs2d as ghs2d
    from shiftproof.ghs.upsampling import upsample as upsample
    from shiftproof.invariance import assert_shift_equivariant as assert_shift_equivariant
    from shiftproof.invariance import assert_shift_invariant as assert_shift_invariant
    from shiftproof.invariance import consistency as consistency
    from shiftproof.invariance import shift_error as shift_error
    from shiftproof.layers import GHS1d as GHS1d
    from shiftproof.layers import GHS2d as GHS2d
    from shiftproof.layers import GHS3d as GHS3d
    from shiftproof.layers import GHSUp1d as GHSUp1d
    from shiftproof.layers import GHSUp2d as GHSUp2d
    from shiftproof.layers import GHSUp3d as GHSUp3d
    from shiftproof.layers import RollFirst as RollFirst
    from shiftproof.layers import RollToPivot as RollToPivot
    from shiftproof.layers import create_downsample as create_downsample
    from shiftproof.layers import register_method as register_method
    from shiftproof.maps.shifts import circular_shift as circular_shift
    from shiftproof.measurement.measure import measure as measure
    from shiftproof.models import create_model as create_model
    from shiftproof.models import load_model as load_model
    from shiftproof.training.finetuning import finetune as finetune

__version__ = "0.1.0"

# where each public name lives; nothing is imported before it is used
_HOMES = {
    "ConversionError": "conversion",
    "Frame": "ghs.frame",
    "GHS1d": "layers",
    "GHS2d": "layers",
    "GHS3d": "layers",
    "GHSUp1d": "layers",
    "GHSUp2d": "layers",
    "GHSUp3d": "layers",
    "Hermite": "ghs.kernel",
    "Local": "ghs.kernel",
    "RollFirst": "layers",
    "RollToPivot": "layers",
    "Steady": "camera.steady",
    "assert_shift_equivariant": "invariance",
    "assert_shift_invariant": "invariance",
    "calibrate": "conversion",
    "circular_shift": "maps.shifts",
    "consistency": "invariance",
    "conversion_report": "conversion",
    "convert": "conversion",
    "create_downsample": "layers",
    "create_model": "models",
    "finetune": "training.finetuning",
    "gauss_hermite": "ghs.functions",
    "ghs2d": "ghs.sampling",
    "load_model": "models",
    "measure": "measurement.measure",
    "moments": "ghs.moments",
    "reconstruct": "ghs.moments",
    "register_method": "layers",
    "shift_error": "invariance",
    "upsample": "ghs.upsampling",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'shiftproof' has no attribute {name!r}")
    value = getattr(import_module(f"shiftproof.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
