"""What jobs are told apart by: with a GPU, with much memory, on several nodes, and others."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.schemas import as_logged

MEMORY_MB_PER_CPU = 8_000


def class_of(jobs: pd.DataFrame) -> np.ndarray:
    """Return the class of each job, a place in `procure.schemas.CLASSES`, int64[n_jobs].

    The first that holds: with a GPU; more than 8 GB per CPU; several nodes; others.
    """
    jobs = as_logged(jobs)
    per_cpu = jobs["mem_mb_per_node"] / np.maximum(jobs["cpus_per_node"], 1)
    rules = [jobs["gpus_per_node"] > 0, per_cpu > MEMORY_MB_PER_CPU, jobs["n_nodes"] > 1]
    return np.select([rule.to_numpy() for rule in rules], [0, 1, 2], 3)
