"""Whether the first choice stays first when the jobs change: what would change the answer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.models.case import mean_over
from procure.packages.ids import package_ids
from procure.progress import track
from procure.recommender.changes import Changes, asks_gpus, jobs_of
from procure.sweep.results import StudyResults
from procure.sweep.trial import try_counts

HEAD = 10
GROWTHS = (0.7, 1.3, 2.0)
GPU_JOBS = 2.0


def stability(results: StudyResults, counts: np.ndarray, seed: int = 1) -> pd.DataFrame:
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
        A row per situation: ``situation``, ``mean_wait_time`` of the first package, s, its ``rank`` among
        these, the ``leader``, and ``regret_seconds``: how much shorter jobs wait on the leader.
    """
    plan, cases, counts = results.plan, results.cases, counts[:HEAD]
    situations = [
        (f"with {growth:g} times the load", Changes(growth=growth, seed=seed)) for growth in GROWTHS
    ]
    if any(asks_gpus(plan.workloads[case.name]) for case in cases):
        situations.append((f"with {GPU_JOBS:g} times the GPU jobs", Changes(gpu_jobs=GPU_JOBS, seed=seed)))
    names, rows = package_ids(counts, plan.types), []
    for name, changes in track(situations, "trying other loads", "load"):
        runs = [
            try_counts(plan, counts, one.name, results.policy, jobs_of(plan, one, changes)) for one in cases
        ]
        wait = mean_over(cases, runs)
        leader = int(np.argmin(wait))
        rows.append(
            {
                "situation": name,
                "mean_wait_time": float(wait[0]),
                "rank": int((wait < wait[0]).sum()) + 1,
                "leader": names[leader],
                "regret_seconds": float(wait[0] - wait[leader]),
            }
        )
    return pd.DataFrame(rows)
