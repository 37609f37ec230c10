"""What is known of each package before any learning: what it holds and leaves out, its wait, its backlog of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files.kernels import njit
from procure.objectives.aggregate import pooled_mean
from procure.packages.nodes import count_matrix, fits, jobs_left_out, node_types, request_shapes, shape_of
from procure.schemas import as_logged
from procure.text import nearest


@dataclass(frozen=True)
class WorkloadWaits:
    """One workload under one policy, or several workloads together.

    ``weight`` is what it counts where several are taken together by mean; ``packages`` are distinct, in package-table
    order, ``left_out`` the jobs that each cannot run, int64. ``wait`` is the result column that ``column`` names, such
    as the mean wait over the jobs that ran, s; NaN where the package was not simulated. ``class_jobs`` are the jobs of
    each class; empty = not known, and each counts like all jobs.
    """

    name: str
    packages: pd.DataFrame
    left_out: np.ndarray
    wait: np.ndarray
    n_jobs: int
    column: str = "mean_wait_time"
    weight: float = 1.0
    class_jobs: Mapping[str, int] = field(default_factory=dict)

    @property
    def runs_all(self) -> np.ndarray:
        """Which packages run every job: the ranked set."""
        return self.left_out == 0

    @property
    def n_ran(self) -> np.ndarray:
        """How many jobs each package runs."""
        return np.maximum(self.n_jobs - self.left_out, 0)

    @property
    def simulated(self) -> np.ndarray:
        """Which packages were simulated."""
        return ~np.isnan(self.wait)


def make_case(
    packages: pd.DataFrame,
    quotes: pd.DataFrame,
    jobs: pd.DataFrame,
    results: pd.DataFrame,
    workload: str,
    policy: str,
    existing: pd.DataFrame | None = None,
) -> WorkloadWaits:
    """Join the distinct packages of a package table with the results of one workload and policy.

    Failed runs count as not simulated; that no run succeeded, or that one's package is not in the table, is an error.
    """
    distinct = packages[packages["distinct"].to_numpy(dtype=bool)].reset_index(drop=True)
    every = results[(results["workload"] == workload) & (results["policy"] == policy)]
    rows = every[every["status"] == "ok"]
    waits = rows.drop_duplicates("package_id", keep="last").set_index("package_id")["mean_wait_time"]
    row_of = pd.Index(distinct["package_id"])
    if len(unknown := waits.index.difference(row_of)):
        such = f"{len(unknown)} simulated packages, such as {unknown[0]!r}, are not among the study's packages"
        raise TableError(f"workload {workload}: {such}; the results are of other quotes or another budget")
    if waits.empty:
        why = "no package was simulated; run: procure sweep"
        for one in every.head(1).itertuples():
            why = f"all {len(every):,} runs failed; the first: {one.package_id}: {one.reason}"
        raise TableError(f"workload {workload} under {policy}: {why}")
    wait = waits.reindex(row_of).to_numpy(dtype="float64", na_value=np.nan)
    return WorkloadWaits(workload, distinct, jobs_left_out(distinct, quotes, jobs, existing), wait, len(jobs))


def pool_workloads(cases: Sequence[WorkloadWaits]) -> WorkloadWaits:
    """Take several workloads as one: the mean wait over all their jobs, each as often as its workload weighs.

    A package's wait is known if it was simulated on every workload; jobs left out add up.
    """
    if len(cases) == 1:
        return cases[0]
    waits, ran, weights = (np.array([getattr(case, name) for case in cases]) for name in ("wait", "n_ran", "weight"))
    left_out = np.sum([case.left_out for case in cases], axis=0)
    name, n_jobs = " + ".join(case.name for case in cases), sum(case.n_jobs for case in cases)
    return WorkloadWaits(name, cases[0].packages, left_out, pooled_mean(waits, ran, weights), n_jobs, cases[0].column)


FEATURE_SETS = ("composition", "totals")
"""Names that `features` knows."""


def features(packages: pd.DataFrame, quotes: pd.DataFrame, feature_set: str = "composition") -> pd.DataFrame:
    """Describe packages by numbers that a model can learn from, float64, a row per package; no prices.

    ``totals``: ``total_mem_gb``, ``total_cpus``, ``total_gpus``, the published three (Hutchison 2024, section 3.4.5).
    ``composition``: these, the count of each type, and of each category the nodes, CPUs, memory and GPUs and their
    means per node; and for every CPU count, memory size and GPU count that some type has, how many nodes have at least
    as much, which decides how many jobs of a given request fit. Another feature set is an error.
    """
    if feature_set not in FEATURE_SETS:
        raise TableError(f"feature set {feature_set!r} is unknown; {nearest(feature_set, FEATURE_SETS)}")
    counts = count_matrix(packages, quotes)
    holds = {name: quotes[name].to_numpy(dtype="float64") for name in ("mem_gb", "cpus", "gpus")}
    columns = {f"total_{name}": counts @ has for name, has in holds.items()}
    if feature_set == "composition":
        columns |= {f"type:{name}": counts[:, i] for i, name in enumerate(quotes["name"])}
        columns |= _categories(counts, quotes)
        for name in ("cpus", "mem_gb", "gpus"):
            for level in np.unique(holds[name])[1:]:
                columns[f"nodes_{name}_from_{level:g}"] = counts[:, holds[name] >= level].sum(axis=1)
    return pd.DataFrame(columns, index=packages.index).astype("float64")


def _categories(counts: np.ndarray, quotes: pd.DataFrame) -> dict[str, np.ndarray]:
    columns = {"total_nodes": counts.sum(axis=1)}
    for category in quotes["category"].unique():
        among = (quotes["category"] == category).to_numpy()
        columns[f"category:{category}:nodes"] = nodes = counts[:, among].sum(axis=1)
        for name in ("cpus", "mem_gb", "gpus"):
            amount = counts[:, among] @ quotes.loc[among, name].to_numpy(dtype="float64")
            columns[f"category:{category}:{name}"] = amount
            columns[f"category:{category}:{name}_per_node"] = amount / np.maximum(nodes, 1)
    return columns


STEP = 600
"""Seconds; work and jobs are counted per so long an interval."""
_RESOURCES = {"cpus": "cpus_per_node", "mem_mb": "mem_mb_per_node", "gpus": "gpus_per_node"}


def backlog_waits(
    packages: pd.DataFrame, quotes: pd.DataFrame, jobs: pd.DataFrame, existing: pd.DataFrame | None = None
) -> np.ndarray:
    """Estimate each package's mean wait, s, float64[packages], as if work were a fluid.

    Jobs are grouped by the node types that can hold them. For each group and each resource (CPUs, memory, GPUs), the
    work of all jobs that fit nowhere else (resource × run time, as logged) flows in as it is submitted and is drained
    by the nodes that can hold the group, ``existing`` ones among them; the backlog, the work just submitted included,
    divided by the rate at which it drains, is the delay. A job's delay is the largest of the three; the result is their
    mean. No simulated wait: jobs that share nodes or overtake each other wait otherwise. It follows them in order and,
    roughly, in scale from day to day.
    """
    shapes = request_shapes(jobs)
    types = node_types(quotes)
    if existing is not None and len(existing):
        types = pd.concat([types, existing[types.columns]], ignore_index=True)
    able = fits(types, shapes)
    groups, group_of = np.unique(able.T, axis=0, return_inverse=True)
    of_job = group_of.ravel()[shape_of(jobs, shapes)]
    submit = jobs["submit_time"].to_numpy()
    slot = (submit - submit.min()) // STEP
    n_slots = int(slot.max()) + 1
    counts = count_matrix(packages, quotes)
    counts = np.hstack([counts, np.ones((len(counts), len(types) - len(quotes)), dtype=np.int64)])
    holds = types[list(_RESOURCES)].to_numpy(dtype="float64")
    found = np.zeros(len(counts))
    for number, group in enumerate(groups):
        nowhere_else = np.array([not (other & ~group).any() for other in groups])[of_job]
        n_jobs = np.bincount(slot[of_job == number], minlength=n_slots)
        found += _waited(counts @ (holds * group[:, None]), _inflow(jobs, nowhere_else, slot, n_slots), n_jobs)
    return found / len(jobs)


def _inflow(jobs: pd.DataFrame, chosen: np.ndarray, slot: np.ndarray, n_slots: int) -> np.ndarray:
    """Return the work of the chosen jobs, resource × seconds, float64[resources, slots]."""
    jobs = as_logged(jobs)[chosen]
    seconds = (jobs["run_time"] * jobs["n_nodes"]).to_numpy(dtype="float64")
    asked = (jobs[name].to_numpy(dtype="float64") for name in _RESOURCES.values())
    return np.array([np.bincount(slot[chosen], one * seconds, n_slots) for one in asked])


@njit(cache=True, error_model="numpy")
def _waited(rates, work, n_jobs):
    """Add up delays of jobs, s, float64[packages], of a group that arrive by slot, as work flows in and is drained.

    ``rates`` are float64[packages, resources], ``work`` float64[resources, slots], ``n_jobs`` int64[slots].
    """
    total = np.zeros(len(rates))
    left = np.zeros(len(work))
    for package in range(len(rates)):
        left[:] = 0.0
        for slot in range(len(n_jobs)):
            delay = 0.0
            for i in range(len(work)):
                rate, behind = rates[package, i], left[i] + work[i, slot]
                # A package without any such node cannot run these jobs at all; they are not waited for.
                if rate > 0:
                    delay = max(delay, behind / rate)
                left[i] = max(behind - rate * STEP, 0.0)
            total[package] += n_jobs[slot] * delay
    return total
