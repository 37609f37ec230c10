"""Jobs that name several partitions, of which the one that takes a job first runs it (sbatch(1), --partition)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.site.bought import texts


def in_each_partition(jobs: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Put jobs that name several partitions into a table once more for each further one, behind all jobs.

    Returns
    -------
    (pandas.DataFrame, numpy.ndarray)
        The table, of which each row names one partition, and the job of each row: int64[n_rows].
    """
    of_job, given = np.arange(len(jobs)), texts(jobs, "partition")
    if "partitions" not in jobs and not any("," in name for name in given):
        return jobs, of_job
    named = (
        # A job that was moved to another since it was submitted is there.
        text.split(",") if not name or name in text.split(",") else name.split(",")
        for name, text in zip(given, texts(jobs, "partitions"), strict=True)
    )
    lists = [list(dict.fromkeys(each)) for each in named]
    more = [(n, name) for n, each in enumerate(lists) for name in each[1:]]
    of_job = np.append(of_job, [n for n, _ in more])
    names = [each[0] for each in lists] + [name for _, name in more]
    return jobs.iloc[of_job].assign(partition=names).reset_index(drop=True), of_job
