"""What waiting jobs lacked: a schedule is replayed, and at every moment each waiting job is held against the nodes.

The rule, for a job that waits at some moment:

1. If as many nodes as it needs have everything free, the **policy** holds it back (order, reservation).
2. Else, if it names a GPU type and as many nodes would have everything free were any type good
   enough, it lacks the **GPU type**.
3. Else look at the nearest node: among those that could hold it when empty and cannot now, the one that is short
   of the fewest resources, then of the smallest share of its totals, then the first. What is short there (**CPUs**,
   **memory**, **GPUs**, in equal parts if several) is what the job lacks.

The job's waiting time up to the next moment is booked under that. In addition, time counts as **fragmented** if in
each resource the nodes that could hold the job have enough free in total, but no single node has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.files.kernels import njit
from procure.packages.nodes import fits, request_shapes, shape_of
from procure.schemas import REQUEST, as_logged

WORDS = {
    "cpus": "CPUs", "memory": "memory", "gpus": "GPUs", "gpu_type": "the right GPU type",
    "policy": "held back by the policy",
}  # fmt: skip
CAUSES = tuple(WORDS)


@dataclass(frozen=True)
class Bottleneck:
    """What waiting jobs lacked in one run.

    ``seconds`` are waiting job-seconds by cause, in the order of `CAUSES`; ``fragmented_seconds`` those in which enough
    was free in total, but on no single node; ``cumulative`` the job-seconds by cause up to each of ``moments`` (Unix
    s), float64[moments, causes]. ``shapes`` are requests, those that waited most first: the request, ``n_jobs``,
    ``n_able`` (nodes that can hold it when empty), ``waited_seconds``, ``lacked`` (the cause with most of them).
    ``n_unrunnable`` jobs fit no nodes: set aside, they never wait.
    """

    seconds: dict[str, float]
    fragmented_seconds: float
    moments: np.ndarray
    cumulative: np.ndarray
    shapes: pd.DataFrame
    n_unrunnable: int

    @property
    def total_seconds(self) -> float:
        """All waiting job-seconds: the sum of the waits of all jobs."""
        return float(sum(self.seconds.values()))

    def share(self, cause: str) -> float:
        """Return the part of all waiting booked under a cause; 0 where no job waited."""
        return self.seconds[cause] / self.total_seconds if self.total_seconds else 0.0

    def over_time(self, n_bins: int = 48) -> pd.DataFrame:
        """Return the mean number of jobs that wait for each cause: ``begin`` (Unix s), ``seconds``, `CAUSES`."""
        edges = np.linspace(self.moments[0], self.moments[-1], n_bins + 1)
        width = max((edges[-1] - edges[0]) / n_bins, 1e-9)
        table = pd.DataFrame({"begin": edges[:-1].astype(np.int64), "seconds": width})
        for i, cause in enumerate(CAUSES):
            table[cause] = np.diff(np.interp(edges, self.moments, self.cumulative[:, i])) / width
        return table


def find_bottleneck(schedule: pd.DataFrame, nodes: pd.DataFrame) -> Bottleneck:
    """Replay a schedule of `procure.run.simulate` on its nodes; book each waiting second by what the job lacked."""
    ran = schedule["start_time"].notna().to_numpy()
    jobs = schedule[ran].reset_index(drop=True)
    shapes = request_shapes(jobs)
    submit, start, end = (jobs[name].to_numpy(dtype=np.int64) for name in ("submit_time", "start_time", "end_time"))
    moments = np.unique(np.concatenate([submit, start, end])) if len(jobs) else np.zeros(1, np.int64)
    able = np.ascontiguousarray(fits(nodes, shapes).T)
    any_type = np.ascontiguousarray(fits(nodes.assign(gpu_type=""), shapes).T)
    asked = as_logged(shapes)[REQUEST[1:4]].to_numpy(dtype=np.float64)
    totals = nodes[["cpus", "mem_mb", "gpus"]].to_numpy(dtype=np.float64)
    request = shape_of(jobs, shapes)
    seconds, by_shape = (np.zeros((len(rows), len(CAUSES))) for rows in (moments, shapes))
    comes, goes = (_by_moment(moments, when, request) for when in (submit, start))
    requests = Requests(asked, shapes["n_nodes"].to_numpy(np.int64), able, any_type)
    changes = Changes(moments, comes, goes, _taken(jobs, nodes, moments))
    fragmented = book(changes, totals, requests, seconds, by_shape)
    cumulative = np.vstack([np.zeros(len(CAUSES)), np.cumsum(seconds, axis=0)[:-1]])
    by_cause = dict(zip(CAUSES, seconds.sum(axis=0).tolist(), strict=True))
    worst = _worst_shapes(shapes, able, by_shape)
    return Bottleneck(by_cause, fragmented, moments, cumulative, worst, int((~ran).sum()))


def _by_moment(moments: np.ndarray, when: np.ndarray, request: np.ndarray) -> np.ndarray:
    """Return the moment and the request of each job, int64[jobs, 2], by moment."""
    at = np.searchsorted(moments, when)
    order = np.argsort(at, kind="stable")
    return np.column_stack([at, request])[order].astype(np.int64)


def _worst_shapes(shapes: pd.DataFrame, able: np.ndarray, by_shape: np.ndarray) -> pd.DataFrame:
    lacked = [CAUSES[i] for i in by_shape.argmax(axis=1)]
    table = shapes.assign(n_able=able.sum(axis=1), waited_seconds=by_shape.sum(axis=1), lacked=lacked)
    table = table[table["waited_seconds"] > 0]
    return table.sort_values("waited_seconds", ascending=False, kind="stable", ignore_index=True)


def _taken(jobs: pd.DataFrame, nodes: pd.DataFrame, moments: np.ndarray) -> np.ndarray:
    """Return what changes when: moment, node, and CPUs, MB, GPUs taken (given back: negative), by moment."""
    row_of = pd.Series(np.arange(len(nodes)), index=nodes["node_id"].astype(str))
    lists = jobs["node_ids"].astype(str).str.split(",")
    job = np.repeat(np.arange(len(jobs)), lists.str.len().to_numpy(dtype=np.int64))
    node = row_of.loc[lists.explode().to_numpy()].to_numpy() if len(jobs) else np.zeros(0, np.int64)
    took = as_logged(jobs)[REQUEST[1:4]].to_numpy(dtype=np.float64)[job]
    when = [np.searchsorted(moments, jobs[name].to_numpy(dtype=np.int64))[job] for name in ("start_time", "end_time")]
    at = np.concatenate(when)
    by_moment = np.argsort(at, kind="stable")
    return np.column_stack([at, np.tile(node, 2), np.concatenate([took, -took])])[by_moment]


N_CAUSES = len(CAUSES)
GPU_TYPE, POLICY = 3, 4
"""Columns of the causes; before these, CPUs, memory and GPUs."""


class Requests(NamedTuple):
    """Requests that jobs share, in rows."""

    asked: np.ndarray  # float64[requests, 3], CPUs, MB, GPUs per node
    needed: np.ndarray  # int64[requests], nodes
    able: np.ndarray  # bool[requests, nodes], which nodes could hold it when empty
    any_type: np.ndarray  # bool[requests, nodes], the same whatever their GPU type


class Changes(NamedTuple):
    """What happens when."""

    moments: np.ndarray  # int64[moments], Unix s, ascending
    comes: np.ndarray  # int64[jobs, 2], moment and request of each job that begins to wait, by moment
    goes: np.ndarray  # int64[jobs, 2], the same of each that starts
    taken: np.ndarray  # float64[changes, 5], moment, node, and CPUs, MB, GPUs taken there (given back: negative)


@njit(cache=True, error_model="numpy")
def book(changes, totals, requests, seconds, by_shape):
    """Walk through all moments and book what each waiting request lacks until the next.

    ``totals`` are float64[nodes, 3]; waiting job-seconds are added to ``seconds``, float64[moments, causes], and
    ``by_shape``, float64[requests, causes]. Returns those in which enough was free in total, but on no single node.
    """
    moments, comes, goes, taken = changes
    asked = requests.asked
    free, waiting = totals.copy(), np.zeros(len(asked))
    parts, seen = np.zeros((len(asked), N_CAUSES)), np.full(len(asked), -1)
    apart = np.zeros(len(asked), np.bool_)
    fragmented, state, came, gone, changed = 0.0, 0, 0, 0, 0
    for at in range(len(moments) - 1):
        while came < len(comes) and comes[came, 0] == at:
            waiting[comes[came, 1]] += 1
            came += 1
        while gone < len(goes) and goes[gone, 0] == at:
            waiting[goes[gone, 1]] -= 1
            gone += 1
        while changed < len(taken) and taken[changed, 0] == at:
            for i in range(3):
                free[int(taken[changed, 1]), i] -= taken[changed, 2 + i]
            changed += 1
            state += 1
        gap = moments[at + 1] - moments[at]
        for shape in range(len(asked)):
            if waiting[shape] == 0:
                continue
            if seen[shape] != state:  # as long as nothing starts or ends, the same is lacking
                seen[shape] = state
                apart[shape] = find_lacked(free, totals, requests, shape, parts[shape])
            weight = waiting[shape] * gap
            for i in range(N_CAUSES):
                seconds[at, i] += parts[shape, i] * weight
                by_shape[shape, i] += parts[shape, i] * weight
            if apart[shape]:
                fragmented += weight
    return fragmented


@njit(cache=True, error_model="numpy")
def find_lacked(free, totals, requests, shape, parts):
    """Apply the rule to one request: fill ``parts``, float64[causes]; return whether it is fragmented.

    ``free`` and ``totals`` are float64[nodes, 3]: CPUs, MB, GPUs; ``shape`` says which of the requests. The sum is 1.
    """
    asked, needed = requests.asked[shape], requests.needed[shape]
    able, any_type = requests.able[shape], requests.any_type[shape]
    parts[:] = 0.0
    n_fit, n_typed, nearest, least = 0, 0, 0, np.inf
    in_all = np.zeros(3)
    for node in range(len(free)):
        n_short, missing = 0, 0.0
        for i in range(3):
            if free[node, i] < asked[i]:
                n_short += 1
                missing += (asked[i] - free[node, i]) / max(totals[node, i], 1.0)
            if able[node]:
                in_all[i] += free[node, i]
        if n_short == 0:
            n_fit += able[node]
            n_typed += any_type[node]
        elif able[node]:
            distance = 4.0 * n_short + missing / n_short
            if distance < least:
                nearest, least = node, distance
    if n_fit >= needed:
        parts[POLICY] = 1.0
        return False
    if n_typed >= needed:
        parts[GPU_TYPE] = 1.0
        return False
    n_short = 0
    for i in range(3):
        n_short += free[nearest, i] < asked[i]
    enough = True
    for i in range(3):
        if free[nearest, i] < asked[i]:
            parts[i] = 1.0 / n_short
        enough &= in_all[i] >= asked[i] * needed
    return enough
