"""What waiting jobs lacked, moment by moment and request by request: the slow twin of the bottleneck kernel."""

from __future__ import annotations

import numpy as np

from procure.explanation.bottleneck import CAUSES


def book(changes, totals, requests, seconds, by_shape):
    """Do as `procure.explanation.bottleneck.book`."""
    moments, comes, goes, taken = changes
    free, waiting, fragmented = totals.copy(), [0] * len(by_shape), 0.0
    for at, gap in enumerate(np.append(np.diff(moments), 0)):
        for when, sign in ((comes, 1), (goes, -1)):
            for shape in when[when[:, 0] == at, 1].tolist():
                waiting[shape] += sign
        for _, node, *took in taken[taken[:, 0] == at].tolist():
            free[int(node)] -= took
        for shape, n in enumerate(waiting):
            if n:
                parts, apart = lacked(free, totals, *(one[shape] for one in requests))
                seconds[at] += parts * (n * gap)
                by_shape[shape] += parts * (n * gap)
                fragmented += float(n * gap * apart)
    return fragmented


def lacked(free, totals, asked, needed, able, any_type):
    """Return a waiting request's parts by cause, which sum to 1, and whether enough was free in total.

    ``able`` says which nodes could hold it when empty, ``any_type`` whatever their GPU type.
    """
    parts, short = np.zeros(len(CAUSES)), free < asked
    n_short = short.sum(axis=1)
    for nodes, cause in ((able, "policy"), (any_type, "gpu_type")):
        if (nodes & (n_short == 0)).sum() >= needed:
            parts[CAUSES.index(cause)] = 1.0
            return parts, False
    missing = np.zeros(len(free))
    for i in range(3):
        missing += np.where(short[:, i], (asked[i] - free[:, i]) / np.maximum(totals[:, i], 1), 0.0)
    distance = np.where(able & (n_short > 0), 4.0 * n_short + missing / np.maximum(n_short, 1), np.inf)
    nearest = short[distance.argmin()]
    parts[:3] = nearest / max(nearest.sum(), 1)
    return parts, all(np.where(able, free[:, i], 0.0).sum() >= asked[i] * needed for i in range(3))
