"""The study's experiment: 45 workflows on 64, 128 or 256 cores, with the profiles that it printed.

Souza, Pelckmans and Tordsson (2021), tables 2 and 3. What the study does not say is stated at `workflows`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import ArgumentError

CORES = (64, 128, 256)
PROFILES = {
    64: {
        "montage": (0.35, 45, 10),
        "blast": (0.71, 96, 44),
        "statistics": (0.69, 26, 5),
        "synthetic": (0.49, 99, 95),
    },
    128: {
        "montage": (0.32, 33, 7),
        "blast": (0.72, 95, 45),
        "statistics": (0.70, 16, 1),
        "synthetic": (0.50, 99, 93),
    },
    256: {
        "montage": (0.29, 21, 5),
        "blast": (0.70, 91, 42),
        "statistics": (0.72, 10, 1),
        "synthetic": (0.48, 92, 92),
    },
}
"""Table 2 under Slurm: run time in h, CPU % and memory %, by the cores of the system."""
SIZES = {
    "montage": (8, 16, 32, 64),
    "blast": (8, 16, 32, 64),
    "statistics": (8, 16, 32, 64),
    "synthetic": (16, 32, 64),
}
"""Cores that the workflows of one submission ask for."""
N_SUBMISSIONS = 3
GAP = 7200
"""Seconds from one submission of the 15 workflows to the next."""
SLACK = 1.1
"""The limit that a user asks for, times the run time alone."""
CORES_OF_NODE, MEM_MB_OF_NODE = 8, 30_832
"""Every size is a multiple of 8 cores; 185 GB for 48 cores, so much for 8."""
PUBLISHED = pd.DataFrame(
    [
        ("backfilling", 64, 3.5, 53, 4.4),
        ("backfilling", 128, 1.5, 45, 2.4),
        ("backfilling", 256, 0.5, 32, 1.4),
        ("static", 64, 1.7, 90, 4.8),
        ("static", 128, 0.8, 92, 2.8),
        ("static", 256, 0.3, 89, 2.0),
        ("learner", 64, 1.8, 82, 3.5),
        ("learner", 128, 1.0, 84, 2.0),
        ("learner", 256, 0.3, 83, 0.9),
    ],
    columns=["policy", "cores", "wait_h", "cpu_percent", "response_h"],
)
"""Table 3."""


def workflows(cores: int, *, gap: int = GAP, seed: int = 0) -> pd.DataFrame:
    """Return the study's 45 jobs for a system of ``cores`` cores.

    Known: sizes, run times, CPU and memory profiles. Set here, for the study does not say: the 15
    workflows are submitted at one moment in an order that the seed draws, and again ``gap`` s later,
    three times in all; every limit is 1.1 times the run time; a workflow draws as large a share of the
    memory bandwidth as it fills of the memory.

    Raises
    ------
    ArgumentError
        The study has no system of that size, or the gap is negative.
    """
    if cores not in CORES:
        raise ArgumentError("cores", f"{cores} was given; the study has {', '.join(map(str, CORES))}")
    if gap < 0:
        raise ArgumentError("gap", f"{gap} s was given; 0 or more is allowed")
    rng = np.random.default_rng(seed)
    kinds = [(name, size) for name, sizes in SIZES.items() for size in sizes]
    rows = []
    for submission in range(N_SUBMISSIONS):
        for i in rng.permutation(len(kinds)):
            name, size = kinds[i]
            hours, cpu, mem = PROFILES[cores][name]
            run_time = round(hours * 3600)
            rows.append(
                {
                    "job_id": f"{name}-{size}-{submission + 1}",
                    "user": name,
                    "submit_time": submission * gap,
                    "requested_time": int(run_time * SLACK),
                    "run_time": run_time,
                    "n_nodes": size // CORES_OF_NODE,
                    "cpus_per_node": CORES_OF_NODE,
                    "mem_mb_per_node": MEM_MB_OF_NODE * mem // 100,
                    "cpu_percent": float(cpu),
                    "mem_percent": float(mem),
                    "bandwidth_percent": float(mem),
                }
            )
    return pd.DataFrame(rows)


def system(cores: int) -> pd.DataFrame:
    """Return the node table of the system: core sets of 8, each of which a job takes whole or shares."""
    if cores not in CORES:
        raise ArgumentError("cores", f"{cores} was given; the study has {', '.join(map(str, CORES))}")
    n = cores // CORES_OF_NODE
    names = [f"set{i + 1:02d}" for i in range(n)]
    return pd.DataFrame({"node_id": names, "cpus": CORES_OF_NODE, "mem_mb": MEM_MB_OF_NODE, "gpus": 0})
