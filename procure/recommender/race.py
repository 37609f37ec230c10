"""A race of packages over futures: those that are out get no more runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from procure.objectives.aggregate import rank_shares

Simulate = Callable[[int, np.ndarray], np.ndarray]
"""From a future and rows of packages to their mean waits on it, s."""

Score = Callable[[np.ndarray], np.ndarray]
"""From waits on some futures, float64[futures, packages], to scores of the same shape; the least mean wins."""

OUT = 0.95
"""A package is out if it is worse than the leader by a one-sided paired t-test at this level."""
FEWEST_KEPT = 10
"""So many run on every future, so that the choice is among packages that are known wholly."""
MOST_SCREENS = 4
"""On at most so many futures all packages run; what more runs there are let more packages run on all."""


def as_it_is(wait: np.ndarray) -> np.ndarray:
    """Score packages by their waits."""
    return wait


def by_rank(wait: np.ndarray) -> np.ndarray:
    """Score packages as the objective ``rank`` does: by the squares of the shares that are better."""
    return rank_shares(wait) ** 2


@dataclass(frozen=True)
class Race:
    """What a race gave.

    Attributes
    ----------
    wait
        Mean wait of each package on each future, s, float64[futures, packages]; NaN where it did not run.
    order
        Rows, best first: those that ran on more futures first, and among these by their mean score over them.
    n_runs
        How many runs it took.
    """

    wait: np.ndarray
    order: np.ndarray
    n_runs: int

    @property
    def finished(self) -> np.ndarray:
        """Rows of the packages that ran on every future, best first."""
        return self.order[~np.isnan(self.wait[:, self.order]).any(axis=0)]

    @property
    def screens(self) -> np.ndarray:
        """The futures that every package ran on."""
        return np.flatnonzero(~np.isnan(self.wait).any(axis=1))


def sizes(n_packages: int, n_futures: int, runs: int, kept: int = FEWEST_KEPT) -> np.ndarray:
    """Return how many packages may run on the first, second … future, so that all take at most ``runs`` runs.

    All run on the first few, which take about half of the runs, and as many as the others allow on the rest, but
    ``kept`` at least.
    """
    if runs >= n_packages * n_futures:
        return np.full(n_futures, n_packages)
    kept = min(kept, n_packages)
    affordable = (runs - kept * n_futures) // max(n_packages - kept, 1)
    screens = max(1, min(round(runs / n_packages / 2), MOST_SCREENS, affordable, n_futures))
    left = max(kept, (runs - screens * n_packages) // max(n_futures - screens, 1))
    return np.where(np.arange(n_futures) < screens, n_packages, min(left, n_packages))


def race(
    simulate: Simulate,
    n_packages: int,
    futures: np.ndarray,
    runs: int,
    kept: int = FEWEST_KEPT,
    score: Score = as_it_is,
    note: Callable[[int, int], None] = lambda done, total: None,
) -> Race:
    """Race packages over futures, the same futures for all of them.

    Parameters
    ----------
    simulate
        Simulates some packages on a future.
    futures
        The futures in the order in which they are run.
    runs
        The budget, package × future. If it does not hold even the first future for all packages and the others
        for those kept, it is exceeded by that.
    kept
        So many run on every future.
    score
        What packages are compared by.
    note
        Called with the runs done and the budget.

    Notes
    -----
    After each future, a package is out if the mean of its score less the leader's (the least mean so far) is above
    0 by a one-sided paired t-test at 95 %, from three futures on; and of the others only as many go on as the budget
    allows, by their means. (Birattari et al. 2002, A racing algorithm for configuring metaheuristics, GECCO.)
    On Beocat's weeks before May, a cut at one place lost less than one after every future.
    """
    wait = np.full((int(futures.max()) + 1, n_packages), np.nan)
    alive, n_runs = np.arange(n_packages), 0
    for k, (future, most) in enumerate(
        zip(futures, sizes(n_packages, len(futures), runs, kept), strict=True)
    ):
        alive = _still_in(score(wait[np.ix_(futures[:k], alive)]), alive, int(most), kept) if k else alive
        wait[future, alive] = simulate(int(future), alive)
        n_runs += len(alive)
        note(n_runs, runs)
    n_seen = (~np.isnan(wait[futures])).sum(axis=0)
    order = np.empty(0, np.int64)
    for n in np.unique(n_seen)[::-1]:
        rows = np.flatnonzero(n_seen == n)
        mean = score(wait[np.ix_(futures[:n], rows)]).mean(axis=0)
        order = np.append(order, rows[np.argsort(mean, kind="stable")])
    return Race(wait, order, n_runs)


def _still_in(scores: np.ndarray, alive: np.ndarray, most: int, kept: int) -> np.ndarray:
    """Return the rows that go on, best first."""
    mean = scores.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    if len(scores) >= 3:
        gap = scores - scores[:, order[:1]]
        error = gap.std(axis=0, ddof=1) / np.sqrt(len(scores))
        out = gap.mean(axis=0) > stdtrit(len(scores) - 1, OUT) * error
        out[order[: min(kept, most)]] = False
        order = order[~out[order]]
    return alive[order[:most]]


def running_order(loads: np.ndarray) -> np.ndarray:
    """Return the order in which futures are run: by load the middle one, those at 3/4, 1/4, 9/10, then the others."""
    by_load = np.argsort(loads, kind="stable")
    last = len(loads) - 1
    first = [by_load[len(loads) // 2], *(by_load[int(share * last)] for share in (0.75, 0.25, 0.9))]
    return np.array(list(dict.fromkeys([*first, *by_load])))
