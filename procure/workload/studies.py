"""Workloads of two studies: random jobs of a topology study, and 45 workflows of a co-scheduling one.

Souza, Pelckmans and Tordsson (2021), tables 2 and 3. What the study does not say is stated at `workflows`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import ArgumentError

MOST_JOBS = 1_000_000
GAPS, RUN_TIMES, SIZES = (5, 30), (10, 1800), (1, 40)
"""Seconds between submissions, run times in seconds, nodes: uniform whole numbers, both ends included."""

CORES = (64, 128, 256)
PROFILES = {
    "montage": ((0.35, 45, 10), (0.32, 33, 7), (0.29, 21, 5)),
    "blast": ((0.71, 96, 44), (0.72, 95, 45), (0.70, 91, 42)),
    "statistics": ((0.69, 26, 5), (0.70, 16, 1), (0.72, 10, 1)),
    "synthetic": ((0.49, 99, 95), (0.50, 99, 93), (0.48, 92, 92)),
}
"""Table 2 under Slurm: run time in h, CPU % and memory %, for each of `CORES` of the system."""
WORKFLOWS = [(name, size) for name in PROFILES for size in (8, 16, 32, 64) if (name, size) != ("synthetic", 8)]
"""The workflows of one submission, and the cores that each asks for."""
N_SUBMISSIONS = 3
GAP = 7200
"""Seconds from one submission of the 15 workflows to the next."""
SLACK = 1.1
"""The limit that a user asks for, times the run time alone."""
CORES_OF_NODE, MEM_MB_OF_NODE = 8, 30_832
"""Every size is a multiple of 8 cores; 185 GB for 48 cores, so much for 8."""


def generate_jobs(n_jobs: int, seed: int) -> pd.DataFrame:
    """Make up jobs as the topology study's generator: gaps, then run times, then nodes, from one random stream.

    Run times are known: ``requested_time`` is ``run_time``.

    Raises
    ------
    ArgumentError
        No jobs, more than a million, or a negative seed.
    """
    if not 1 <= n_jobs <= MOST_JOBS:
        raise ArgumentError("jobs", f"{n_jobs} jobs; 1 to {MOST_JOBS:,} are made up")
    if seed < 0:
        raise ArgumentError("seed", f"the seed is {seed}; at least 0 is needed")
    rng = np.random.default_rng(seed)
    gaps, run_time, n_nodes = (rng.integers(low, high, n_jobs, endpoint=True) for low, high in (GAPS, RUN_TIMES, SIZES))
    ids = {"job_id": np.arange(1, n_jobs + 1).astype(str), "user": "user", "submit_time": np.cumsum(gaps)}
    asked = {"requested_time": run_time, "run_time": run_time, "n_nodes": n_nodes, "cpus_per_node": 1}
    return pd.DataFrame(ids | asked)


def workflows(cores: int, *, gap: int = GAP, seed: int = 0) -> pd.DataFrame:
    """Return the co-scheduling study's 45 jobs for a system of ``cores`` cores.

    Known: sizes, run times, CPU and memory profiles. Set here, for the study does not say: the 15
    workflows are submitted at one moment in an order that the seed draws, and again ``gap`` s later,
    three times in all; every limit is 1.1 times the run time; a workflow draws as large a share of the
    memory bandwidth as it fills of the memory.

    Raises
    ------
    ArgumentError
        The study has no system of that size, or the gap is negative.
    """
    at = _place(cores)
    if gap < 0:
        raise ArgumentError("gap", f"{gap} s was given; 0 or more is allowed")
    rng = np.random.default_rng(seed)
    rows = [
        (f"{name}-{size}-{n + 1}", name, n * gap, size // CORES_OF_NODE, *PROFILES[name][at])
        for n in range(N_SUBMISSIONS)
        for name, size in (WORKFLOWS[i] for i in rng.permutation(len(WORKFLOWS)))
    ]
    drawn = pd.DataFrame(rows, columns=["job_id", "user", "submit_time", "n_nodes", "hours", "cpu", "mem"])
    run_time, mem = (drawn["hours"] * 3600).round().astype(int), drawn["mem"]
    asked = {"requested_time": (run_time * SLACK).astype(int), "run_time": run_time, "n_nodes": drawn["n_nodes"]}
    asked |= {"cpus_per_node": CORES_OF_NODE, "mem_mb_per_node": MEM_MB_OF_NODE * mem // 100}
    used = {"cpu_percent": drawn["cpu"] * 1.0, "mem_percent": mem * 1.0, "bandwidth_percent": mem * 1.0}
    return drawn[["job_id", "user", "submit_time"]].assign(**asked, **used)


def system(cores: int) -> pd.DataFrame:
    """Return the node table of the system: core sets of 8, each of which a job takes whole or shares."""
    _place(cores)
    names = [f"set{i + 1:02d}" for i in range(cores // CORES_OF_NODE)]
    return pd.DataFrame({"node_id": names, "cpus": CORES_OF_NODE, "mem_mb": MEM_MB_OF_NODE, "gpus": 0})


def _place(cores: int) -> int:
    if cores not in CORES:
        raise ArgumentError("cores", f"{cores} was given; the study has {', '.join(map(str, CORES))}")
    return CORES.index(cores)
