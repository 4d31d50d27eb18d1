"""Whoever passes something wrong is told which argument it was, in the words of the signature."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from shiftproof.ghs.functions import gauss_hermite, hermite, hermite_series
from shiftproof.ghs.moments import centroid_moments, condition_number, moments, reconstruct
from shiftproof.ghs.sampler import find_pivot
from shiftproof.ghs.sampling import ghs2d, max_centered_moments
from shiftproof.invariance import consistency, shift_error
from shiftproof.layers import GHS2d
from shiftproof.maps.padding import pad
from shiftproof.maps.polyphase import polyphase
from shiftproof.maps.shifts import circular_shift, cropped_shift, fractional_shift

X = torch.rand(1, 1, 4, 4)
BYTES = X.byte()
HERE = torch.zeros(1, 2, dtype=torch.int64)

WRONG: list[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    ("orders", hermite, (0.5, [0.0]), {}),
    ("order", hermite_series, (-1, 0.0), {}),
    ("orders", gauss_hermite, (0, [0.0]), {}),
    ("sigma", gauss_hermite, (2, [0.0]), {"sigma": -1.0}),
    ("derivative", gauss_hermite, (2, [0.0]), {"derivative": -1}),
    ("f", moments, (BYTES,), {}),
    ("f", moments, (X[0, 0, 0],), {}),
    ("f", moments, (X[:, :, :0],), {}),
    ("projection", moments, (X,), {"projection": "best"}),
    ("orders", moments, (X,), {"orders": 0}),
    ("sigma", moments, (X,), {"sigma": 0}),
    ("ndim", moments, (X,), {"ndim": 0}),
    ("a", reconstruct, (BYTES, 4), {}),
    ("a", reconstruct, (X[0, 0, 0], 4), {}),
    ("size", reconstruct, (X, 0), {}),
    ("sigma", reconstruct, (X, 4), {"sigma": "wide"}),
    ("ndim", reconstruct, (X, 4), {"ndim": 1.5}),
    ("size", condition_number, (0, 3), {}),
    ("orders", condition_number, (3, 0), {}),
    ("sigma", condition_number, (3, 3), {"sigma": float("nan")}),
    ("f", centroid_moments, (BYTES,), {}),
    ("f", centroid_moments, (X[0, 0, 0],), {}),
    ("orders", centroid_moments, (X,), {"orders": (1, 2, 3)}),
    ("sigma", centroid_moments, (X,), {"sigma": True}),
    ("ndim", centroid_moments, (X,), {"ndim": 0}),
    ("x", max_centered_moments, (BYTES,), {}),
    ("x", find_pivot, (BYTES,), {}),
    ("x", GHS2d().select, (X[0],), {}),
    ("x", max_centered_moments, (X[0],), {}),
    ("x", max_centered_moments, (X,), {"ndim": 1}),
    ("x", ghs2d, (BYTES,), {"selection": HERE}),
    ("anchor", ghs2d, (X,), {"anchor": "middle"}),
    ("stride", ghs2d, (X,), {"stride": 0}),
    ("output_size", ghs2d, (X,), {"output_size": 0}),
    ("output_size", ghs2d, (X,), {"output_size": 5}),
    ("selection", ghs2d, (X,), {"selection": HERE.float()}),
    ("selection", ghs2d, (X,), {"selection": HERE[:, :1]}),
    ("pivot_rule", ghs2d, (X,), {"pivot_rule": "first"}),
    ("kernel", ghs2d, (X,), {"kernel": "blur"}),
    ("ties", ghs2d, (X,), {"ties": "some"}),
    ("x", shift_error, (torch.sum, BYTES), {}),
    ("kind", shift_error, (torch.sum, X), {"kind": "spiral"}),
    ("shifts", shift_error, (torch.sum, X), {"shifts": "some"}),
    ("shifts", shift_error, (torch.sum, X), {"shifts": 0}),
    ("batch_size", shift_error, (torch.sum, X), {"batch_size": 0}),
    ("shifts", consistency, (torch.sum, X), {"shifts": [(1,)]}),
    ("shift", circular_shift, (X, 1), {}),
    ("shift", circular_shift, (X, (1.0, 2)), {}),
    ("dims", circular_shift, (X, (1, 1)), {"dims": (0, 0)}),
    ("border", cropped_shift, (X, (1, 1)), {"border": "mirror"}),
    ("x", fractional_shift, (BYTES, (0.5, 0.5)), {}),
    ("shift", fractional_shift, (X, 0.5), {}),
    ("stride", polyphase, (X, 0), {}),
    ("padding", pad, (X, [(1, 1)], "mirror"), {}),
]


@pytest.mark.parametrize(("name", "function", "arguments", "options"), WRONG)
def test_an_error_names_its_argument(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    """First of all, in backticks."""
    with pytest.raises((TypeError, ValueError), match=f"^`{name}` "):
        function(*arguments, **options)


def test_companions_are_counted() -> None:
    with pytest.raises(TypeError, match=r"^`companions\[1\]` "):
        find_pivot(X, X, BYTES)
    with pytest.raises(ValueError, match=r"^`companions\[0\]` "):
        find_pivot(X, torch.rand(1, 1, 4, 5))
