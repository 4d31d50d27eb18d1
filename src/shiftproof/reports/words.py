"""Numbers as they appear in sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence


def percent(share: float) -> str:
    """A share as a percentage that never rounds to all or nothing: 100 % is all, 0 % is nothing.

    >>> percent(0.12), percent(1.0), percent(0.99999), percent(0.0002)
    ('12 %', '100 %', 'over 99.9 %', 'under 0.1 %')
    """
    if 0 < share < 0.001:
        return "under 0.1 %"
    if 0.999 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.3g} %"


def shift_text(shift: Sequence[float]) -> str:
    """A shift as (row, column)."""
    return f"({', '.join(f'{v:g}' for v in shift)})"
