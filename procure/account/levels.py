"""How many jobs, or CPUs, of each owner ran at once, and for how long."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.account.sweep import FAR

EXCEEDED = 0.02
"""Share of its time for which an owner may exceed what counts as its usual most."""


class Levels(NamedTuple):
    """How much of an amount ran at once, of each owner after each of its changes, and how long."""

    whose: np.ndarray  # int64[m]
    level: np.ndarray  # int64[m]
    lasted: np.ndarray  # int64[m], s


def levels(start: np.ndarray, end: np.ndarray, of: np.ndarray, *amounts: np.ndarray) -> list[Levels]:
    """Return the levels of all owners, of each amount; jobs of no length count nothing, nor do those of nobody (−1)."""
    kept = (end > start) & (of >= 0)
    at = np.concatenate([end[kept], start[kept]])  # of one moment, ends come before starts
    whose = np.concatenate([of[kept], of[kept]]).astype(np.int64)
    order = _by_owner(whose, at)
    at, whose = at[order], whose[order]
    # Each owner's changes add up to 0, so no level carries over to the next.
    lasted = np.append(np.where(whose[1:] == whose[:-1], np.diff(at), 0), 0)[: len(at)]
    changes = (np.concatenate([-amount[kept], amount[kept]]) for amount in amounts)
    return [Levels(whose, np.cumsum(change[order]), lasted) for change in changes]


def _by_owner(whose: np.ndarray, then: np.ndarray) -> np.ndarray:
    """Return the stable order by owner, then by another number."""
    span = int(np.ptp(then)) + 1 if len(then) else 1
    if (int(whose.max(initial=0)) + 1) * span < FAR:  # as one number, in a third of the time
        return np.argsort(whose * span + (then - then.min(initial=FAR)), kind="stable")
    return np.lexsort((then, whose))


def most_at_once(start: np.ndarray, end: np.ndarray, of: np.ndarray, amount: np.ndarray, n: int) -> np.ndarray:
    """Return the most of an amount that ran at once, of each of ``n`` owners."""
    found = np.zeros(n, np.int64)
    (some,) = levels(start, end, of, amount)
    np.maximum.at(found, some.whose, some.level)
    return found


def usual_most(some: Levels, n: int) -> np.ndarray:
    """Return the least level of each owner that it exceeds for at most 2 % of the time with anything running."""
    kept = (some.level > 0) & (some.lasted > 0)
    whose, level, lasted = (one[kept] for one in some)
    order = _by_owner(whose, -level)
    whose, level, lasted = whose[order], level[order], lasted[order]
    total = np.bincount(whose, lasted, minlength=n)
    before = np.cumsum(lasted) - lasted
    since = before - np.concatenate([[0], np.cumsum(total)])[whose]
    within = since <= EXCEEDED * total[whose]  # so long does it run above this level
    found = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(found, whose[within], level[within])
    return np.where(total > 0, found, 0)


def usual_of(start: np.ndarray, end: np.ndarray, of: np.ndarray, cpus: np.ndarray, n: int) -> np.ndarray:
    """Return the usual most jobs of each owner, and CPUs while several of its jobs run; of all where that never is.

    A job that runs alone shows no limit: one that is larger than its owner's may do so.
    """
    every, jobs, each = levels(start, end, of, cpus, np.minimum(cpus, 1), np.ones_like(cpus))
    several = usual_most(every._replace(lasted=every.lasted * (jobs.level > 1)), n)
    return np.stack([usual_most(each, n), np.where(several > 0, several, usual_most(every, n))])
