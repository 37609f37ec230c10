"""What isolation does to run times: the scenarios of the published evaluation, as changes of a workload."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from procure.errors import ArgumentError

SMALLEST = 5
"""Nodes from which on a job gains: smaller ones are left as they are."""


def speed_up(jobs: pd.DataFrame, scenario: str, seed: int = 0) -> pd.DataFrame:
    """Return the workload with the run times that isolated jobs would have.

    Pollard et al. (SC18), section IV-B: jobs of more than four nodes run shorter, by a fixed share
    or by one that grows with the job. Requested times stay.

    Parameters
    ----------
    jobs
        A checked job table; it is not modified.
    scenario
        ``5%``, ``10%`` or any other fixed share of the run time; ``v1``: each job is put at random
        into a bin of 0–10, 0–20 or 0–30 %; ``v2``: jobs of up to 128 nodes into 0–10 or 0–20 %, larger ones
        into 0–10, 10–20 or 10–30 %. Inside a bin the share grows linearly with the nodes, from the
        bin's lower end at 4 nodes to its upper end at 512 and above (the paper gives the upper end
        only).
    seed
        Of the bins.

    Raises
    ------
    ArgumentError
        An unknown scenario, or a share that is not at least 0 % and below 100 %.
    """
    n = jobs["n_nodes"].to_numpy(np.int64)
    random = np.random.default_rng(seed)
    fixed = re.fullmatch(r"(\d+(?:\.\d+)?)%", scenario)
    if fixed and float(fixed[1]) < 100:
        share = np.full(len(jobs), float(fixed[1]) / 100)
    elif scenario == "v1":
        share = _in_bins(n, np.array([(0, 0.1), (0, 0.2), (0, 0.3)])[random.integers(0, 3, len(jobs))])
    elif scenario == "v2":
        small = np.array([(0, 0.1), (0, 0.2)])[random.integers(0, 2, len(jobs))]
        large = np.array([(0, 0.1), (0.1, 0.2), (0.1, 0.3)])[random.integers(0, 3, len(jobs))]
        share = _in_bins(n, np.where((n > 128)[:, None], large, small))
    else:
        raise ArgumentError("scenario", f"scenario {scenario!r} is not known; known: 10%, v1, v2")
    run = jobs["run_time"].to_numpy(np.int64)
    shorter = np.maximum(np.rint(run * (1 - share)), np.minimum(run, 1)).astype(np.int64)
    return jobs.assign(run_time=np.where(n >= SMALLEST, shorter, run))


def _in_bins(n: np.ndarray, bins: np.ndarray) -> np.ndarray:
    low, high = bins[:, 0], bins[:, 1]
    return low + (high - low) * np.clip((n - 4) / 508, 0, 1)
