"""A race of packages over futures: those that are out get no more runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

Simulate = Callable[[int, np.ndarray], np.ndarray]
"""From a future and rows of packages to their mean waits on it, s."""

OUT = 0.95
"""A package is out if it is worse than the leader by a one-sided paired t-test at this level."""
FEWEST_KEPT = 10
"""So many run on every future, so that the choice is among packages that are known wholly."""


@dataclass(frozen=True)
class Race:
    """What a race gave.

    Attributes
    ----------
    wait
        Mean wait of each package on each future, s, float64[futures, packages]; NaN where it did not run.
    order
        Rows, best first: those that ran on more futures first, and among these by their mean over them.
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


def sizes(n_packages: int, n_futures: int, runs: int, kept: int = FEWEST_KEPT) -> np.ndarray:
    """Return how many packages may run on the first, second … future, so that all take at most ``runs`` runs.

    All run on the first, and on each further one the same share of those before, but ``kept`` at least.
    """
    low, high = 0.0, 1.0
    kept = min(kept, n_packages)

    def plan(share: float) -> np.ndarray:
        return np.maximum(np.floor(n_packages * share ** np.arange(n_futures)), kept).astype(np.int64)

    if plan(1.0).sum() <= runs:
        return plan(1.0)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if plan(middle).sum() <= runs else (low, middle)
    return plan(low)


def race(
    simulate: Simulate,
    n_packages: int,
    futures: np.ndarray,
    runs: int,
    kept: int = FEWEST_KEPT,
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
    note
        Called with the runs done and the budget.

    Notes
    -----
    After each future, a package is out if the mean of its differences from the leader (the lowest mean so far) over
    the futures that both have run on is above 0 by a one-sided paired t-test at 95 %, from three futures on; and of
    the others only as many go on as the budget allows, by their means. (Birattari et al. 2002, A racing algorithm for
    configuring metaheuristics, GECCO; Karnin, Koren and Somekh 2013, Almost optimal exploration, ICML, for halving.)
    """
    wait = np.full((int(futures.max()) + 1, n_packages), np.nan)
    alive, n_runs = np.arange(n_packages), 0
    for k, (future, most) in enumerate(
        zip(futures, sizes(n_packages, len(futures), runs, kept), strict=True)
    ):
        alive = _still_in(wait[futures[:k]], alive, int(most), kept) if k else alive
        wait[future, alive] = simulate(int(future), alive)
        n_runs += len(alive)
        note(n_runs, runs)
    seen = ~np.isnan(wait[futures])
    mean = np.where(seen, wait[futures], 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return Race(wait, np.lexsort((mean, -seen.sum(axis=0))), n_runs)


def _still_in(wait: np.ndarray, alive: np.ndarray, most: int, kept: int) -> np.ndarray:
    """Return the rows that go on, best first."""
    mine = wait[:, alive]
    mean = mine.mean(axis=0)
    order = np.argsort(mean, kind="stable")
    if len(mine) >= 3:
        gap = mine - mine[:, order[:1]]
        error = gap.std(axis=0, ddof=1) / np.sqrt(len(mine))
        out = gap.mean(axis=0) > stdtrit(len(mine) - 1, OUT) * error
        out[order[: min(kept, most)]] = False
        order = order[~out[order]]
    return alive[order[:most]]


def running_order(loads: np.ndarray) -> np.ndarray:
    """Return the order in which futures are run: first the one whose load is nearest the mean, then as drawn."""
    first = int(np.abs(loads - loads.mean()).argmin())
    return np.concatenate([[first], np.delete(np.arange(len(loads)), first)])
