"""What a workload asks of packages, without simulation: which jobs they run, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from procure.packages.runnable import fits, node_types, request_shapes, shape_of
from procure.schemas import NODE
from procure.tables import check

RunTimes = Callable[[Any, str, str], np.ndarray]
"""How long each job runs on a node of a speed, GPU model and kind: int64[n_jobs], s, in table order."""
_CHUNK = 1 << 11


@dataclass(frozen=True, eq=False)
class WorkloadDemand:
    """A workload as the costs of packages see it; made by `work_of`.

    A *kind* of node is a quoted type, or existing nodes that are alike, which stand last. Jobs that the same kinds can
    hold, on as many nodes, are a *group*.
    """

    jobs: pd.DataFrame
    able: np.ndarray  # bool[n_kinds, n_groups], whether a node holds its share of a job
    needed: np.ndarray  # int64[n_groups], nodes that a job needs
    group: np.ndarray  # int64[n_jobs], in table order
    run_times: np.ndarray  # int64[n_speeds, n_jobs], s
    speed: np.ndarray  # int64[n_kinds], row of the run times
    cpus: np.ndarray  # float64[n_kinds], of one node
    gpus: np.ndarray  # float64[n_kinds], of one node
    n_own: np.ndarray  # int64[n_existing_kinds], nodes of each of the last kinds

    @cached_property
    def seconds(self) -> float:
        """From the first submission to the last; of jobs of one moment their longest run time as logged."""
        if self.jobs.empty:
            return 1.0
        return float(np.ptp(self.jobs["submit_time"]) or max(1, self.jobs["run_time"].max()))

    @cached_property
    def n_jobs(self) -> np.ndarray:
        """Jobs of each group, int64[n_groups]."""
        return np.bincount(self.group, minlength=len(self.needed))

    @cached_property
    def cpu_seconds(self) -> np.ndarray:
        """What the jobs of each group ask for with each row of run times, float64[n_speeds × n_groups]."""
        return self._seconds_of("cpus").ravel()

    def _seconds_of(self, what: str) -> np.ndarray:
        asked = (self.jobs["n_nodes"] * self.jobs[f"{what}_per_node"]).to_numpy(dtype="float64")
        return np.stack([np.bincount(self.group, run * asked, len(self.needed)) for run in self.run_times])

    @cached_property
    def _sets(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each set of kinds that holds some group's jobs, fewest kinds first; and the groups that no other kind holds.

        float64[n_kinds] and float64[n_groups], of zeros and ones.
        """
        sets = np.unique(self.able.T, axis=0)[::-1]
        sets = sets[np.argsort(sets.sum(axis=1), kind="stable")]
        return [
            (one.astype("float64"), (~self.able | one[:, np.newaxis]).all(axis=0).astype("float64")) for one in sets
        ]

    def on(self, counts: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Say which part of the jobs packages run, and how fast, some packages at a time.

        Nothing of a group for whose jobs a package has too few nodes; else all of it, or as much as the CPUs and GPUs
        of the nodes that can hold them get done while the log lasts: jobs that can run on some kinds only share what
        nodes of these kinds get done, the fewest kinds first, each served by the same part.

        Of ``counts``, int64[n_packages, n_types], it yields which packages; the share of the jobs of each group that
        runs, float64[n, n_groups]; and that by rows of run times, float64[n, n_speeds × n_groups], a node's part in a
        job being that of its CPUs in all nodes that can hold it.
        """
        able, n_speeds = self.able.astype("float64"), len(self.run_times)
        asked = [self._seconds_of(what) / self.seconds for what in ("cpus", "gpus")]
        for start in range(0, len(counts), _CHUNK):
            rows = slice(start, start + _CHUNK)
            own = np.broadcast_to(self.n_own, (len(counts[rows]), len(self.n_own)))
            nodes = np.concatenate([counts[rows], own], axis=1).astype("float64")
            cpus, gpus = nodes * self.cpus, nodes * self.gpus
            held = cpus @ able
            runs = nodes @ able >= self.needed
            # A kind without CPUs holds only jobs that ask for none, and those have no CPU-seconds.
            per_cpu = runs / np.maximum(held, 1e-300)
            share = [cpus[:, self.speed == k] @ able[self.speed == k] * per_cpu for k in range(n_speeds)]
            demand = [sum(part * each for part, each in zip(share, of, strict=True)) for of in asked]
            served = runs.astype("float64")
            for kinds, within in self._sets:
                for has, needs in ((cpus @ kinds, demand[0]), (gpus @ kinds, demand[1])):
                    wanted = np.einsum("pg,pg,g->p", served, needs, within)
                    over = np.flatnonzero(wanted > has)
                    part = 1 - np.outer(1 - has[over] / wanted[over], within)
                    served[over] *= part
            yield rows, served, np.concatenate([part * served for part in share], axis=1)


def work_of(
    jobs: pd.DataFrame,
    quotes: pd.DataFrame,
    existing: pd.DataFrame | None = None,
    run_times: RunTimes | None = None,
) -> WorkloadDemand:
    """Lay a workload out for the costs of packages, which ``existing`` nodes are added to.

    ``run_times`` are asked once for each speed, GPU model and kind that differ; None: as logged on every node.
    """
    own = pd.DataFrame() if existing is None else check(existing, NODE)
    types = node_types(quotes).assign(kind=quotes["name"].to_numpy(), speed=quotes.get("spec_rate", np.nan), n=1)
    n_types = len(types)
    if len(own):
        columns = ["cpus", "mem_mb", "gpus", "gpu_type", "kind", "speed"]
        own = own.assign(speed=own.get("speed", np.nan))
        alike = own.groupby(columns, sort=False, dropna=False, observed=True).size().rename("n").reset_index()
        types = pd.concat([types, alike], ignore_index=True)
    shapes = request_shapes(jobs)
    able = fits(types, shapes)
    questions, which = np.unique(np.column_stack([able.T, shapes["n_nodes"]]), axis=0, return_inverse=True)
    found: dict[bytes, int] = {}
    speed = np.zeros(len(types), dtype="int64")
    logged = jobs["run_time"].to_numpy(dtype="int64")
    known: dict[tuple[str, str, str], int] = {}
    for row, one in enumerate(types.itertuples()):
        model = str(one.gpu_type).casefold() if one.gpus > 0 else ""
        key = (str(one.speed), model, str(one.kind) if "kind_speeds" in jobs else "")
        if key not in known:
            took = logged if run_times is None else run_times(one.speed, *key[1:])
            known[key] = found.setdefault(np.asarray(took, dtype="int64").tobytes(), len(found))
        speed[row] = known[key]
    return WorkloadDemand(
        jobs,
        questions[:, :-1].T.astype(bool),
        questions[:, -1].astype("int64"),
        which.ravel()[shape_of(jobs, shapes)].astype("int64"),
        np.stack([np.frombuffer(row, dtype="int64") for row in found]),
        speed,
        types["cpus"].to_numpy(dtype="float64"),
        types["gpus"].to_numpy(dtype="float64"),
        types["n"].to_numpy(dtype="int64")[n_types:],
    )
