"""Pictures, heat maps and charts."""

import numpy as np

from helpers.app_pictures import as_pixels
from shiftproof.app import drawing


def test_differences_that_are_not_zero_are_seen() -> None:
    """Only zero is transparent; the colour shows the sign; values beyond the scale are clipped."""
    shown = as_pixels(drawing.signed(np.array([[0.0, 1e-9, -0.1, 5.0]]), 0.25))[0]
    assert shown[0, 3] == 0
    assert shown[1, 3] == 1
    assert tuple(shown[1, :3]) == drawing.POSITIVE
    assert tuple(shown[2, :3]) == drawing.NEGATIVE
    assert 90 < shown[2, 3] < 110
    assert shown[3, 3] == 255


def test_nan_is_transparent_in_heat_maps() -> None:
    shown = as_pixels(drawing.heat(np.array([[0.0, 1.0, np.nan, np.inf]]), 1.0))[0]
    assert shown[:, 3].tolist() == [255, 255, 0, 255]
    light = shown[:, :3].astype(int).sum(1)
    assert light[0] < light[1] == light[3]
    assert (as_pixels(drawing.heat(np.zeros((2, 2)), 0.0))[..., 3] == 255).all()


def test_text_from_outside_is_escaped() -> None:
    assert "<b>" not in drawing.legend(["<b>"]) + drawing.notice("<b>")
    assert drawing.difference(0.0001, False).count("1.0e-04") == 1
