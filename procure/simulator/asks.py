"""What jobs of tasks ask for, read from a job table: equal units on nodes of which each may hold several."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

_DEFAULTS = {
    "n_tasks": 0,
    "cpus_per_task": 1,
    "mem_mb_per_task": 0,
    "gpus_per_task": 0,
    "tasks_per_node": 0,
    "min_nodes": 1,
    "max_nodes": 0,
    "exclusive": False,
}


class Asks(NamedTuple):
    """How units stand on nodes, int64 each, of jobs or of shapes. A job of nodes has one unit on each of its nodes."""

    most: np.ndarray  # units on one node at most
    min_nodes: np.ndarray
    max_nodes: np.ndarray  # at most as many as units
    node_mem: np.ndarray  # MB on each node that is used, beside those of its units
    node_gpus: np.ndarray  # likewise
    node_words: np.ndarray  # likewise, packed as `Jobs.words`
    whole: np.ndarray  # 1 = the nodes are taken whole


def task_columns(jobs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the columns of a job table that jobs of tasks need, int64[n_jobs] each, with what is missing filled in."""
    return {
        name: jobs[name].fillna(default).to_numpy(np.int64) if name in jobs else np.full(len(jobs), int(default))
        for name, default in _DEFAULTS.items()
    }


def gpus_of(jobs: pd.DataFrame) -> np.ndarray:
    """Return the GPUs that each job asks for per task or, where it asks for none so, per node: int64[n_jobs]."""
    gpus = jobs["gpus_per_node"].to_numpy(np.int64)
    if "n_tasks" not in jobs or "gpus_per_task" not in jobs:
        return gpus
    of = task_columns(jobs)
    return np.where(of["n_tasks"] > 0, np.maximum(gpus, of["gpus_per_task"]), gpus)


def with_tasks(jobs: pd.DataFrame, asked: np.ndarray) -> tuple[np.ndarray, Asks | None]:
    """Put the tasks of a job table into what its jobs ask for, where any job asks for them or takes its nodes whole.

    Tasks of which each node must hold equally many become a job of nodes, such as those that stand on one node.
    ``asked`` is int64[6, n_jobs] as for a job of nodes: nodes, CPUs, MB, GPUs, mask of types, packed GPUs; modified.
    """
    of = task_columns(jobs)
    n, tasks = of["n_tasks"], of["n_tasks"] > 0
    if not tasks.any() and not of["exclusive"].any():
        return asked, None
    per_task = tasks & (of["gpus_per_task"] > 0)
    units, _, mem, gpus, _, words = asked
    node_mem, node_gpus, node_words = (np.where(tasks, amount, 0) for amount in (mem, gpus, words))
    node_gpus, node_words = np.where(per_task, 0, node_gpus), np.where(per_task, 0, node_words)
    asked[0], asked[1] = np.where(tasks, n, units), np.where(tasks, of["cpus_per_task"], asked[1])
    asked[2] = np.where(tasks, of["mem_mb_per_task"], mem)
    asked[3], asked[5] = gpus - node_gpus, words - node_words
    most = np.where(tasks, np.minimum(np.where(of["tasks_per_node"] > 0, of["tasks_per_node"], n), n), 1)
    max_nodes = np.where(tasks & (of["max_nodes"] > 0), np.minimum(of["max_nodes"], asked[0]), asked[0])
    min_nodes = np.where(tasks, np.minimum(of["min_nodes"], n), 1)
    even = tasks & ((most * max_nodes == n) | (min_nodes == n))
    each = np.where(min_nodes == n, 1, most)
    even &= (words == gpus) | (asked[3] * each <= 1000)  # so many in one field of a packed word
    each = np.where(even, each, 1)
    for row, more in ((1, 0), (2, node_mem), (3, node_gpus), (5, node_words)):
        asked[row] = np.where(even, asked[row] * each + more, asked[row])
    asked[0] = np.where(even, asked[0] // each, asked[0])
    node_mem, node_gpus, node_words = (np.where(even, 0, amount) for amount in (node_mem, node_gpus, node_words))
    most, min_nodes = np.where(even, 1, most), np.where(even, 1, min_nodes)
    max_nodes = np.where(even, asked[0], max_nodes)
    if even[tasks].all() and not of["exclusive"].any():
        return asked, None
    return asked, Asks(most, min_nodes, max_nodes, node_mem, node_gpus, node_words, of["exclusive"])


def least_nodes(asked: np.ndarray, asks: Asks, held: np.ndarray, per_kind: np.ndarray) -> np.ndarray:
    """Return the fewest empty nodes that hold each shape, 0 where none do: int64[n_shapes].

    A shape asks for ``asked`` units, int64[n_shapes]; an empty node holds ``held`` of them, int64[n_shapes, n_kinds].
    """
    order = np.argsort(-held, axis=1, kind="stable")
    units, nodes = np.take_along_axis(held, order, axis=1), per_kind[order]
    before = np.cumsum(units * nodes, axis=1) - units * nodes
    lacking = np.maximum(asked[:, None] - before, 0)
    used = np.minimum(nodes, -(-lacking // np.maximum(units, 1)))
    used[units == 0] = 0
    fewest = np.maximum(used.sum(axis=1), asks.min_nodes)
    enough = ((units * nodes).sum(axis=1) >= asked) & (((units > 0) * nodes).sum(axis=1) >= asks.min_nodes)
    return np.where(enough & (fewest <= asks.max_nodes), fewest, 0)
