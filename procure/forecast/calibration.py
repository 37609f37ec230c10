"""Recalibration: move stated chances towards what came of like ones, as far as it was known by then."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

BLOCK = 300
"""Known forecasts in a block, of which one share is taken; fewer follow accidents."""
WINDOW = 5_000
"""The last known outcomes that are looked at, times the lags, of all lags together."""
HALF_LIFE = 8.0
"""Periods after which an outcome counts half: habits change."""
_FEWEST = 200
"""Of fewer the stated chances stand."""
_DOUBT = 30.0
"""As many forecasts as stated are added to each block."""


def recalibrated(chance: np.ndarray, earlier: np.ndarray, came: np.ndarray, age: np.ndarray) -> np.ndarray:
    """Return chances half-way, in the logit, to the isotonic line through earlier ones.

    Parameters
    ----------
    chance
        float64[n] in [0, 1].
    earlier, came
        float64[m], what was stated before and came of it (0 or 1), in the order in which that became known.
    age
        float64[m], periods from when that became known to when the last of them did.

    Returns
    -------
    numpy.ndarray
        float64[n]; as given where fewer than 200 earlier ones are known.
    """
    if len(earlier) < _FEWEST:
        return chance
    order = np.argsort(earlier, kind="stable")
    first = np.linspace(0, len(order), max(1, len(order) // BLOCK) + 1).astype(np.int64)
    weight = 0.5 ** np.minimum(age / HALF_LIFE, 30)  # never nothing, so that each block has a mean
    sums = [np.add.reduceat(values[order], first[:-1]) for values in (weight * earlier, weight * came, weight)]
    stated, seen, n = pooled(np.column_stack(sums)).T
    middle = stated / n
    line = np.interp(chance, middle, (seen + _DOUBT * middle) / (n + _DOUBT))
    return np.asarray(expit((_odds(chance) + _odds(line)) / 2))


def pooled(blocks: np.ndarray) -> np.ndarray:
    """Pool neighbouring blocks until the observed shares rise.

    Parameters
    ----------
    blocks
        float64[k, 3]: the sum of what was stated and of what came, and how many, a row each, all by weight.

    Returns
    -------
    numpy.ndarray
        The same of the pooled blocks.
    """
    found: list[np.ndarray] = []
    for block in blocks:
        found.append(block)
        while len(found) > 1 and found[-2][1] * found[-1][2] >= found[-1][1] * found[-2][2]:
            last = found.pop()
            found[-1] = found[-1] + last
    return np.array(found)


def _odds(chance: np.ndarray) -> np.ndarray:
    return np.asarray(logit(np.clip(chance, 1e-3, 1 - 1e-3)))
