"""Whether the first choice stays first when the jobs change: what would change the answer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.objectives.aggregate import regrets
from procure.packages.ids import package_ids
from procure.progress import track
from procure.recommender.changes import Changes, asks_gpus, jobs_of
from procure.sweep.results import StudyResults
from procure.sweep.trial import try_everywhere

HEAD = 10
GROWTHS = (0.7, 1.3, 2.0)
GPU_JOBS = 2.0


def waits_under_loads(results: StudyResults, counts: np.ndarray, seed: int = 1) -> pd.DataFrame:
    """Simulate the head of a list under other loads.

    Parameters
    ----------
    results
        The study, a case per workload that counts, and which policy decides.
    counts
        int64[n_packages, n_types], best first; the first `HEAD` are tried.
    seed
        Chooses the bursts that are added or left out.

    Returns
    -------
    pandas.DataFrame
        Mean waits, s: a row per situation, whose name is the index, and a column per package, in the order given.
    """
    plan, cases, counts = results.plan, results.cases, counts[:HEAD]
    situations = {load_name(growth): Changes(growth=growth, seed=seed) for growth in GROWTHS}
    if any(asks_gpus(plan.workloads[case.name]) for case in cases):
        situations[f"with {GPU_JOBS:g} times the GPU jobs"] = Changes(gpu_jobs=GPU_JOBS, seed=seed)
    waits = []
    for changes in track(situations.values(), "trying other loads", "load"):
        jobs = {case.name: jobs_of(plan, case, changes) for case in cases}
        waits.append(try_everywhere(results, counts, jobs=jobs)["mean_wait_time"])
    return pd.DataFrame(np.array(waits), index=list(situations), columns=package_ids(counts, plan.types))


def load_name(growth: float) -> str:
    """Name the situation of another load, as `waits_under_loads` does."""
    return f"with {growth:g} times the load"


def stability(waits: pd.DataFrame) -> pd.DataFrame:
    """Say whether the first package stays first under other loads.

    Parameters
    ----------
    waits
        From `waits_under_loads`.

    Returns
    -------
    pandas.DataFrame
        A row per situation: ``situation``, ``mean_wait_time`` of the first package, s, its ``rank`` among
        these, the ``leader``, and ``regret_seconds``: how much shorter jobs wait on the leader.
    """
    held = waits.to_numpy()
    first = held[:, 0]
    return pd.DataFrame(
        {
            "situation": waits.index,
            "mean_wait_time": first,
            "rank": (held < first[:, None]).sum(axis=1) + 1,
            "leader": waits.columns[held.argmin(axis=1)],
            "regret_seconds": first - held.min(axis=1),
        }
    )


def most_robust(waits: pd.DataFrame) -> tuple[int, np.ndarray]:
    """Find the package that is never far behind the best one, whatever the load.

    Parameters
    ----------
    waits
        Mean waits, s, a row per situation and a column per package.

    Returns
    -------
    place : int
        The column whose greatest excess is least; of equals, the first.
    excess : numpy.ndarray
        Of each package, the most by which its jobs wait longer than the best package's in any situation, as a share
        of the best one's wait, of at least `REGRET_FLOOR`.
    """
    held = waits.to_numpy()
    excess = regrets(held).max(axis=0)
    return int(excess.argmin()), excess
