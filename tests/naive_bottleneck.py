"""What waiting jobs lacked, moment by moment in plain NumPy: the slow twin of the bottleneck kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from procure.explanation.bottleneck import CAUSES

_CELLS = 4_000_000
"""How many (moment, request, node) combinations are examined at once."""


def book(changes, totals, requests, seconds, by_shape):
    """Do as `procure.explanation.bottleneck_kernel.book`."""
    moments, comes, goes, taken = changes
    asked, needed, able, any_type = requests
    gaps, fragmented = np.append(np.diff(moments), 0), 0.0
    for at, shape, waiting, free in _situations(len(moments), comes, goes, taken, totals, len(asked)):
        weight = waiting * gaps[at]
        parts, apart = _lacked(free, totals, asked[shape], needed[shape], able[shape], any_type[shape])
        np.add.at(seconds, at, parts * weight[:, None])
        np.add.at(by_shape, shape, parts * weight[:, None])
        fragmented += float(weight[apart].sum())
    return fragmented


def _situations(
    n_moments: int, comes: np.ndarray, goes: np.ndarray, taken: np.ndarray, totals: np.ndarray, n_shapes: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield pieces of (moment, request, how many wait, free resources of all nodes) where any job waits."""
    step = max(1, _CELLS // max(1, len(totals) * 30))
    free, waiting = totals.copy(), np.zeros(n_shapes)
    at, node, took = taken[:, 0].astype(int), taken[:, 1].astype(int), taken[:, 2:]
    for first in range(0, n_moments, step):
        n = min(step, n_moments - first)
        queue = np.zeros((n, n_shapes))
        for when, sign in ((comes, 1), (goes, -1)):
            here = when[(when[:, 0] >= first) & (when[:, 0] < first + n)]
            np.add.at(queue, (here[:, 0] - first, here[:, 1]), sign)
        queue = np.cumsum(queue, axis=0) + waiting
        low, high = np.searchsorted(at, [first, first + n])
        change = np.zeros((n, *totals.shape))
        np.add.at(change, (at[low:high] - first, node[low:high]), took[low:high])
        frees = free - np.cumsum(change, axis=0)
        waiting, free = queue[-1], frees[-1]
        row, shape = np.nonzero(queue)
        for piece in range(0, len(row), max(1, _CELLS // len(totals))):
            some = slice(piece, piece + max(1, _CELLS // len(totals)))
            r, s = row[some], shape[some]
            yield r + first, s, queue[r, s], frees[r]


def _lacked(
    free: np.ndarray, totals: np.ndarray, asked: np.ndarray, needed: np.ndarray, able: np.ndarray, any_type: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Apply the rule to waiting requests.

    Parameters
    ----------
    free
        Shape (requests, nodes, 3): CPUs, MB, GPUs.
    totals
        Shape (nodes, 3).
    asked
        Shape (requests, 3), per node.
    needed
        Nodes per request.
    able, any_type
        Which nodes could hold it when empty, shape (requests, nodes); the latter whatever their GPU type.

    Returns
    -------
    parts : numpy.ndarray
        Shape (requests, causes); each row sums to 1.
    fragmented : numpy.ndarray
        Whether enough was free in total, bool[requests].
    """
    # One resource at a time: a reduction over an axis of three is several times slower.
    resources = range(3)
    short = [free[:, :, i] < asked[:, None, i] for i in resources]
    n_short = np.add(*(one.astype(np.int8) for one in short[:2])) + short[2]
    parts = np.zeros((len(asked), len(CAUSES)))
    fits_now = n_short == 0
    held = (fits_now & able).sum(axis=1) >= needed
    typed = ~held & ((fits_now & any_type).sum(axis=1) >= needed)
    missing = np.zeros(able.shape)
    for i in resources:
        missing += np.where(short[i], (asked[:, None, i] - free[:, :, i]) / np.maximum(totals[:, i], 1), 0.0)
    distance = np.where(able & ~fits_now, 4.0 * n_short + missing / np.maximum(n_short, 1), np.inf)
    nearest = distance.argmin(axis=1)
    there = np.column_stack([one[np.arange(len(asked)), nearest] for one in short])
    parts[:, :3] = there / np.maximum(there.sum(axis=1, keepdims=True), 1)
    parts[held | typed] = 0.0
    parts[typed, CAUSES.index("gpu_type")] = 1.0
    parts[held, CAUSES.index("policy")] = 1.0
    enough = np.ones(len(asked), dtype=bool)
    for i in resources:
        enough &= np.where(able, free[:, :, i], 0.0).sum(axis=1) >= asked[:, i] * needed
    return parts, enough & ~held & ~typed
