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

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.packages.runnable import REQUEST, fits, request_shapes, shape_of

CAUSES = ("cpus", "memory", "gpus", "gpu_type", "policy")
WORDS = {
    "cpus": "CPUs", "memory": "memory", "gpus": "GPUs", "gpu_type": "the right GPU type",
    "policy": "held back by the policy",
}  # fmt: skip
_CELLS = 4_000_000
"""How many (moment, request, node) combinations are examined at once."""


@dataclass(frozen=True)
class Bottleneck:
    """What waiting jobs lacked in one run.

    Attributes
    ----------
    seconds
        Waiting job-seconds by cause, in the order of `CAUSES`.
    fragmented_seconds
        Those in which enough was free in total, but on no single node.
    moments, cumulative
        Unix s, int64[moments], and the job-seconds by cause up to each, float64[moments, causes].
    shapes
        Requests by waiting job-seconds, most first: the request, ``n_jobs``, ``n_able`` (nodes that can hold it
        when empty), ``waited_seconds``, ``lacked`` (the cause with most of them).
    n_unrunnable
        Jobs that no nodes can hold: set aside, they never wait.
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
    """Replay a schedule and book every waiting second under what the job lacked.

    Parameters
    ----------
    schedule
        A job table with ``start_time``, ``end_time`` and ``node_ids``, as `procure.run.simulate` returns.
    nodes
        The node table that it ran on.
    """
    ran = schedule["start_time"].notna().to_numpy()
    jobs = schedule[ran].reset_index(drop=True)
    shapes = request_shapes(jobs)
    submit, start, end = (
        jobs[name].to_numpy(dtype=np.int64) for name in ("submit_time", "start_time", "end_time")
    )
    moments = np.unique(np.concatenate([submit, start, end])) if len(jobs) else np.zeros(1, np.int64)
    able = fits(nodes, shapes).T
    any_type = fits(nodes.assign(gpu_type=""), shapes).T
    asked = shapes[REQUEST[1:4]].to_numpy(dtype=np.float64)
    totals = nodes[["cpus", "mem_mb", "gpus"]].to_numpy(dtype=np.float64)
    seconds = np.zeros((len(moments), len(CAUSES)))
    by_shape, fragmented = np.zeros((len(shapes), len(CAUSES))), 0.0
    gaps = np.append(np.diff(moments), 0)
    needed = shapes["n_nodes"].to_numpy()
    for at, shape, waiting, free in _situations(
        moments, submit, start, shape_of(jobs, shapes), _taken(jobs, nodes, moments), totals
    ):
        weight = waiting * gaps[at]
        parts, apart = _lacked(free, totals, asked[shape], needed[shape], able[shape], any_type[shape])
        np.add.at(seconds, at, parts * weight[:, None])
        np.add.at(by_shape, shape, parts * weight[:, None])
        fragmented += float(weight[apart].sum())
    cumulative = np.vstack([np.zeros(len(CAUSES)), np.cumsum(seconds, axis=0)[:-1]])
    return Bottleneck(
        dict(zip(CAUSES, seconds.sum(axis=0).tolist(), strict=True)),
        fragmented,
        moments,
        cumulative,
        _worst_shapes(shapes, able, by_shape),
        int((~ran).sum()),
    )


def _worst_shapes(shapes: pd.DataFrame, able: np.ndarray, by_shape: np.ndarray) -> pd.DataFrame:
    table = shapes.assign(
        n_able=able.sum(axis=1),
        waited_seconds=by_shape.sum(axis=1),
        lacked=[CAUSES[i] for i in by_shape.argmax(axis=1)] if len(shapes) else [],
    )
    table = table[table["waited_seconds"] > 0]
    return table.sort_values("waited_seconds", ascending=False, kind="stable", ignore_index=True)


def _taken(jobs: pd.DataFrame, nodes: pd.DataFrame, moments: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what changes when: moment, node, and CPUs, MB, GPUs taken (given back: negative), by moment."""
    row_of = pd.Series(np.arange(len(nodes)), index=nodes["node_id"].astype(str))
    lists = jobs["node_ids"].astype(str).str.split(",")
    job = np.repeat(np.arange(len(jobs)), lists.str.len().to_numpy(dtype=np.int64))
    node = row_of.loc[lists.explode().to_numpy()].to_numpy() if len(jobs) else np.zeros(0, np.int64)
    took = jobs[REQUEST[1:4]].to_numpy(dtype=np.float64)[job]
    when = [
        np.searchsorted(moments, jobs[name].to_numpy(dtype=np.int64))[job]
        for name in ("start_time", "end_time")
    ]
    at = np.concatenate(when)
    by_moment = np.argsort(at, kind="stable")
    return at[by_moment], np.tile(node, 2)[by_moment], np.concatenate([took, -took])[by_moment]


def _situations(
    moments: np.ndarray,
    submit: np.ndarray,
    start: np.ndarray,
    request: np.ndarray,
    taken: tuple[np.ndarray, ...],
    totals: np.ndarray,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield pieces of (moment, request, how many wait, free resources of all nodes) where any job waits."""
    n_shapes = int(request.max(initial=-1)) + 1
    comes, goes = np.searchsorted(moments, submit), np.searchsorted(moments, start)
    step = max(1, _CELLS // max(1, len(totals) * 30))
    free, waiting = totals.copy(), np.zeros(n_shapes)
    at, node, took = taken
    for first in range(0, len(moments), step):
        n = min(step, len(moments) - first)
        queue = np.zeros((n, n_shapes))
        for when, sign in ((comes, 1), (goes, -1)):
            here = (when >= first) & (when < first + n)
            np.add.at(queue, (when[here] - first, request[here]), sign)
        queue = np.cumsum(queue, axis=0) + waiting
        low, high = np.searchsorted(at, [first, first + n])
        change = np.zeros((n, *totals.shape))
        np.add.at(change, (at[low:high] - first, node[low:high]), took[low:high])
        frees = free - np.cumsum(change, axis=0)
        waiting, free = queue[-1], frees[-1]
        row, shape = np.nonzero(queue)
        for piece in range(0, len(row), max(1, _CELLS // len(totals))):
            some = slice(piece, piece + max(1, _CELLS // len(totals)))
            r, s = row[some], shape[some]
            yield r + first, s, queue[r, s], frees[r]


def _lacked(
    free: np.ndarray,
    totals: np.ndarray,
    asked: np.ndarray,
    needed: np.ndarray,
    able: np.ndarray,
    any_type: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Apply the rule to waiting requests.

    Parameters
    ----------
    free
        Shape (requests, nodes, 3): CPUs, MB, GPUs.
    totals
        Shape (nodes, 3).
    asked
        Shape (requests, 3), per node.
    needed
        Nodes per request.
    able, any_type
        Which nodes could hold it when empty, shape (requests, nodes); the latter whatever their GPU type.

    Returns
    -------
    parts : numpy.ndarray
        Shape (requests, causes); each row sums to 1.
    fragmented : numpy.ndarray
        Whether enough was free in total, bool[requests].
    """
    # One resource at a time: a reduction over an axis of three is several times slower.
    resources = range(3)
    short = [free[:, :, i] < asked[:, None, i] for i in resources]
    n_short = np.add(*(one.astype(np.int8) for one in short[:2])) + short[2]
    parts = np.zeros((len(asked), len(CAUSES)))
    fits_now = n_short == 0
    held = (fits_now & able).sum(axis=1) >= needed
    typed = ~held & ((fits_now & any_type).sum(axis=1) >= needed)
    missing = np.zeros(able.shape)
    for i in resources:
        missing += np.where(short[i], (asked[:, None, i] - free[:, :, i]) / np.maximum(totals[:, i], 1), 0.0)
    distance = np.where(able & ~fits_now, 4.0 * n_short + missing / np.maximum(n_short, 1), np.inf)
    nearest = distance.argmin(axis=1)
    there = np.column_stack([one[np.arange(len(asked)), nearest] for one in short])
    parts[:, :3] = there / np.maximum(there.sum(axis=1, keepdims=True), 1)
    parts[held | typed] = 0.0
    parts[typed, CAUSES.index("gpu_type")] = 1.0
    parts[held, CAUSES.index("policy")] = 1.0
    enough = np.ones(len(asked), dtype=bool)
    for i in resources:
        enough &= np.where(able, free[:, :, i], 0.0).sum(axis=1) >= asked[:, i] * needed
    return parts, enough & ~held & ~typed
