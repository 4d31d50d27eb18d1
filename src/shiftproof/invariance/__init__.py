"""The one measure of shift error: tests, evaluation and reports all use it."""

from shiftproof.invariance.assertions import assert_shift_equivariant, assert_shift_invariant
from shiftproof.invariance.measure import Consistency, ShiftError, consistency, same_bits, shift_error, survey
from shiftproof.invariance.trials import KINDS, Shift, Shifts, copy_of

__all__ = [
    "KINDS",
    "Consistency",
    "Shift",
    "ShiftError",
    "Shifts",
    "assert_shift_equivariant",
    "assert_shift_invariant",
    "consistency",
    "copy_of",
    "same_bits",
    "shift_error",
    "survey",
]
