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
_PIECES = 5.0
"""As many pieces of evidence for the base rate are added where outcomes are known to share a fate."""


def recalibrated(
    chance: np.ndarray, earlier: np.ndarray, came: np.ndarray, age: np.ndarray, piece: np.ndarray | None = None
) -> np.ndarray:
    """Return chances half-way, in the logit, to the isotonic line through earlier ones.

    With ``piece`` they then move to the base rate, by a share of 5 / (5 + pieces of evidence for such a chance): a
    hundred like forecasts of one user's day say little more than one. Pieces are counted as Kish's effective number.

    Parameters
    ----------
    chance
        float64[n] in [0, 1].
    earlier, came
        float64[m], what was stated before and came of it (0 or 1), in the order in which that became known.
    age
        float64[m], periods from when that became known to when the last of them did.
    piece
        int64[m], not negative, below 2^40: outcomes with one number share a fate.

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
    squares = np.zeros(len(first) - 1) if piece is None else _squares(weight[order], piece[order], first)
    stated, seen, n, squares = pooled(np.column_stack([*sums, squares])).T
    middle = stated / n
    line = np.interp(chance, middle, (seen + _DOUBT * middle) / (n + _DOUBT))
    moved = np.asarray(expit((_odds(chance) + _odds(line)) / 2))
    if piece is None:
        return moved
    base, pieces = seen.sum() / n.sum(), np.interp(chance, middle, n**2 / squares)
    return np.asarray(base + (moved - base) * pieces / (pieces + _PIECES))


def _squares(weight: np.ndarray, piece: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return, per block, the sum of the squared weights of its pieces."""
    block = np.repeat(np.arange(len(first) - 1), np.diff(first))
    key, member = np.unique((block << 40) + piece, return_inverse=True)
    return np.bincount(key >> 40, np.bincount(member, weight) ** 2, len(first) - 1)


def pooled(blocks: np.ndarray) -> np.ndarray:
    """Pool neighbouring blocks until the observed shares rise.

    Parameters
    ----------
    blocks
        float64[k, 3 or more]: the sum of what was stated and of what came, and how many, a row each, all by weight;
        what stands behind these is summed, too.

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
