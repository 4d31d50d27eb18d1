"""Aliasing of a downsampling layer: what it makes of waves that its output is too coarse to represent.

A plane wave of (u, v) whole cycles per map, cos(2 pi (u i + v j) / M + phase), has one frequency. N output samples
per axis represent frequencies below N/2, the Nyquist limit; higher ones that survive appear as other frequencies.
Letters: M input and N output size, W waves, P phases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from shiftproof import checks
from shiftproof.evaluation.matrix import measure_matrix
from shiftproof.layers import create_downsample
from shiftproof.layers.ghs import GHSBase

Wave = tuple[int, int]
_CHUNK = 256  # waves at a time


def all_waves(size: int) -> list[Wave]:
    """Every wave (u, v) of a `size` x `size` map once, without the constant: (u, v) and (-u, -v) are the same wave."""
    waves = []
    for u in range(size // 2 + 1):
        own_mirror = u == 0 or 2 * u == size
        lowest = 0 if own_mirror else -((size - 1) // 2)
        waves += [(u, v) for v in range(lowest, size // 2 + 1) if (u, v) != (0, 0)]
    return waves


def plane_waves(waves: list[Wave], size: int, phases: int) -> Tensor:
    """cos(2 pi (u i + v j) / M + phase) for each wave, at `phases` angles over half a turn. (W, P, M, M)

    * the mean square over pixels and phases is 1/2, also at the limit of the map.
    """
    i = torch.arange(size)
    u, v = torch.tensor(waves).T[:, :, None, None]
    turn = (u * i[:, None] + v * i) % size  # (W, M, M): equal angles are equal numbers
    # a quarter step off, so that no wave is sampled at its zeros only
    phase = (torch.arange(phases, dtype=torch.float64) + 0.25) * (math.pi / phases)
    cycle = torch.arange(size, dtype=torch.float64) * (2 * math.pi / size)
    return torch.cos(cycle + phase[:, None])[:, turn].movedim(0, 1)


def surviving_energy(
    layer: Callable[[Tensor], Tensor], waves: list[Wave], size: int = 32, phases: int = 4
) -> tuple[dict[str, Tensor], int]:
    """How much of each wave a layer lets through, and the output size N.

    All are energies per pixel in units of the wave's own, averaged over phases, (W,):

    * `energy`: of the whole output;
    * `constant`: of its mean alone, which is zero for the wave itself;
    * `in_place`: of its wave of (u, v) cycles per map, the frequency of the input, where that is below N/2.
    """
    parts = []
    for start in range(0, len(waves), _CHUNK):
        some = waves[start : start + _CHUNK]
        with torch.no_grad():
            y = layer(plane_waves(some, size, phases).reshape(-1, 1, size, size))
        n = y.shape[-1]
        # (W, P, N, N); by Parseval its sum is the energy per pixel
        power = torch.fft.fft2(y.view(len(some), phases, n, n)).abs().square().mean(1) / n**4
        u, v = torch.tensor(some).T
        row = torch.arange(len(some))
        in_place = 2 * power[row, u % n, v % n]  # and as much at (-u, -v)
        parts.append(torch.stack([power.sum((1, 2)), power[:, 0, 0], in_place]) / 0.5)
    energy, constant, in_place = torch.cat(parts, 1)
    return {"energy": energy, "constant": constant, "in_place": in_place}, n


def measure_aliasing(
    method: str, options: Mapping[str, Any] | None = None, *, size: int = 32, phases: int = 4, seed: int = 0
) -> dict[str, Any]:
    """Aliasing of a downsampling method at stride 2, on all waves of a `size` x `size` map.

    * `aliased`: energy that survives of waves above the output's Nyquist limit (on either axis), averaged over them;
      `aliased_constant`: the part of it that became constant brightness;
    * `kept`: energy that survives of waves below it; `kept_in_place`: the part that kept its frequency (None if
      the output grid is not that of the periodic map: then frequencies fall between the waves of the output);
    * `axis`, `diagonal`: `energy` and `constant` over `frequencies`, in cycles per map, along one axis (the mean of
      both) and along both (the mean of both diagonals). The energy can exceed 1 if a method is not linear;
    * `matrix`: for Gaussian-Hermite Sampling, the result of `measure_matrix`.

    A method with weights has its initial ones, drawn with `seed`.
    """
    size = checks.integer("size", size, minimum=4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = create_downsample(method, channels=1, **(options or {})).double().eval()
    waves = all_waves(size)
    found, n = surviving_energy(layer, waves, size, checks.integer("phases", phases, minimum=2))
    highest = torch.tensor(waves).abs().amax(1)
    above, below = 2 * highest > n, 2 * highest < n
    sampling = layer.sampling if isinstance(layer, GHSBase) else None
    shifted_grid = sampling is not None and sampling.grid == "inclusive"
    place = {wave: i for i, wave in enumerate(waves)}
    steps = range(1, size // 2 + 1)
    along = {
        "axis": [[place[0, k], place[k, 0]] for k in steps],
        "diagonal": [[place[k, k], place.get((k, -k), place[k, k])] for k in steps],
    }
    return {
        "method": method,
        "size": size,
        "output": n,
        "waves": len(waves),
        "phases": phases,
        "aliased": float(found["energy"][above].mean()),
        "aliased_constant": float(found["constant"][above].mean()),
        "kept": float(found["energy"][below].mean()),
        "kept_in_place": None if shifted_grid else float(found["in_place"][below].mean()),
        "frequencies": list(steps),
        "matrix": measure_matrix(sampling.kernel, size, n, sampling.grid) if sampling else None,
        **{
            name: {part: found[part][torch.tensor(where)].mean(1).tolist() for part in ("energy", "constant")}
            for name, where in along.items()
        },
    }
