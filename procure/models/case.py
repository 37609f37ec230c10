"""What is known of each package before anything is learnt: what it holds and leaves out, and its wait if simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.aggregate import pooled_mean
from procure.packages.nodes import count_matrix, jobs_left_out
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
    wait = simulated_values(distinct, results, workload, policy)
    left_out = jobs_left_out(distinct, quotes, jobs, existing)
    return WorkloadWaits(workload, distinct, left_out, wait, len(jobs))


def simulated_values(
    distinct: pd.DataFrame, results: pd.DataFrame, workload: str, policy: str, column: str = "mean_wait_time"
) -> np.ndarray:
    """Return a result column per distinct package, NaN where there is no run of it that succeeded.

    Parameters and errors as for `make_case`.
    """
    rows = results[(results["workload"] == workload) & (results["policy"] == policy) & (results["status"] == "ok")]
    waits = rows.drop_duplicates("package_id", keep="last").set_index("package_id")[column]
    row_of = pd.Index(distinct["package_id"])
    unknown = waits.index.difference(row_of)
    if len(unknown):
        raise TableError(
            f"workload {workload}: {len(unknown)} simulated packages, such as {unknown[0]!r}, are not among "
            "the study's packages; the results are of other quotes or another budget"
        )
    if waits.empty:
        failed = results[(results["workload"] == workload) & (results["policy"] == policy)]
        if len(failed):
            raise TableError(
                f"workload {workload} under {policy}: all {len(failed):,} runs failed; the first: "
                f"{failed['package_id'].iloc[0]}: {failed['reason'].iloc[0]}"
            )
        raise TableError(f"workload {workload} under {policy}: no package was simulated; run: procure sweep")
    return waits.reindex(row_of).to_numpy(dtype="float64", na_value=np.nan)


def pool_workloads(cases: Sequence[WorkloadWaits]) -> WorkloadWaits:
    """Take several workloads as one: the mean wait over all their jobs, each as often as its workload weighs.

    A package's wait is known if it was simulated on every workload; jobs left out add up.
    """
    if len(cases) == 1:
        return cases[0]
    return WorkloadWaits(
        " + ".join(case.name for case in cases),
        cases[0].packages,
        np.sum([case.left_out for case in cases], axis=0),
        pooled_mean(
            np.array([case.wait for case in cases]),
            np.array([case.n_ran for case in cases]),
            np.array([case.weight for case in cases]),
        ),
        sum(case.n_jobs for case in cases),
        cases[0].column,
    )


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
        nodes = counts[:, among].sum(axis=1)
        columns[f"category:{category}:nodes"] = nodes
        for name in ("cpus", "mem_gb", "gpus"):
            amount = counts[:, among] @ quotes.loc[among, name].to_numpy(dtype="float64")
            columns[f"category:{category}:{name}"] = amount
            columns[f"category:{category}:{name}_per_node"] = amount / np.maximum(nodes, 1)
    return columns
