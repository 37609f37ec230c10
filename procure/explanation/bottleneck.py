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

import numpy as np
import pandas as pd

from procure.explanation.bottleneck_kernel import Changes, Requests, book
from procure.packages.nodes import fits, request_shapes, shape_of
from procure.schemas import REQUEST, as_logged

CAUSES = ("cpus", "memory", "gpus", "gpu_type", "policy")
WORDS = {
    "cpus": "CPUs",
    "memory": "memory",
    "gpus": "GPUs",
    "gpu_type": "the right GPU type",
    "policy": "held back by the policy",
}


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
    seconds = np.zeros((len(moments), len(CAUSES)))
    by_shape = np.zeros((len(shapes), len(CAUSES)))
    changes = Changes(
        moments,
        _by_moment(moments, submit, request),
        _by_moment(moments, start, request),
        _taken(jobs, nodes, moments),
    )
    requests = Requests(asked, shapes["n_nodes"].to_numpy(np.int64), able, any_type)
    fragmented = book(changes, totals, requests, seconds, by_shape)
    cumulative = np.vstack([np.zeros(len(CAUSES)), np.cumsum(seconds, axis=0)[:-1]])
    return Bottleneck(
        dict(zip(CAUSES, seconds.sum(axis=0).tolist(), strict=True)),
        fragmented,
        moments,
        cumulative,
        _worst_shapes(shapes, able, by_shape),
        int((~ran).sum()),
    )


def _by_moment(moments: np.ndarray, when: np.ndarray, request: np.ndarray) -> np.ndarray:
    """Return the moment and the request of each job, int64[jobs, 2], by moment."""
    at = np.searchsorted(moments, when)
    order = np.argsort(at, kind="stable")
    return np.column_stack([at, request])[order].astype(np.int64)


def _worst_shapes(shapes: pd.DataFrame, able: np.ndarray, by_shape: np.ndarray) -> pd.DataFrame:
    table = shapes.assign(
        n_able=able.sum(axis=1),
        waited_seconds=by_shape.sum(axis=1),
        lacked=[CAUSES[i] for i in by_shape.argmax(axis=1)] if len(shapes) else [],
    )
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
