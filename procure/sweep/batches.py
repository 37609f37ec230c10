"""Cut a study's runs into batches, and the batches into shards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from procure.study import Plan
from procure.text import file_name

MOST_BATCHES, MOST_IN_ALL = 250, 2500
"""Batches per workload and policy, and in all, into which a sweep is cut unless the study says otherwise:
each costs the driver up to 22 ms, so that all cost it less than a minute, however many workers there are."""


@dataclass(frozen=True)
class Batch:
    """Some runs of one workload under one policy; ``rows`` are rows of the plan's package table."""

    workload: str
    policy: str
    rows: np.ndarray

    @property
    def key(self) -> str:
        """A name for the batch's file: what it is, and a digest of the rows that it holds."""
        digest = hashlib.sha256(self.rows.astype("<i8").tobytes()).hexdigest()[:8]
        return f"{self.workload}.{file_name(self.policy)}.{int(self.rows[0]):09d}-{digest}"


def batches(plan: Plan, done: dict[tuple[str, str], np.ndarray], shard: tuple[int, int] | None = None) -> list[Batch]:
    """Cut the runs that are not done into batches, in a fixed order.

    Parameters
    ----------
    done
        Rows of the package table that have a result, by (workload, policy).
    shard
        Number and count, as in 7 of 32: only every 32nd batch of the whole study, from the eighth.
        Which runs a shard holds does not depend on what is done.
    """
    size = plan.study.sweep.batch_size or max(
        50, -(-len(plan.sampled_rows) // MOST_BATCHES), -(-plan.n_runs // MOST_IN_ALL)
    )
    cut = range(0, len(plan.sampled_rows), size)
    found = []
    for place, pair in enumerate(plan.pairs):
        rows = plan.sampled_rows
        if shard is not None:
            number, count = shard
            mine = [i for j, i in enumerate(cut, place * len(cut)) if j % count == number]
            rows = np.concatenate([rows[:0], *(rows[first : first + size] for first in mine)])
        todo = np.setdiff1d(rows, done.get(pair, rows[:0]))
        found += [Batch(*pair, todo[first : first + size]) for first in range(0, len(todo), size)]
    return found
