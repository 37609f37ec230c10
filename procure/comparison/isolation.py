"""What isolation does to run times, and from which share on it is worth the nodes that it leaves empty."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from procure.errors import ArgumentError
from procure.progress import silent
from procure.run import simulate
from procure.text import Shown

SMALLEST = 5
"""Nodes from which on a job gains: smaller ones are left as they are."""
SHARES = ("0%", "5%", "10%", "20%", "30%")
COLUMNS = ("makespan", "mean_wait_time", "mean_turnaround_time")
MEASURES = ("makespan", "mean_turnaround_time")


def speed_up(jobs: pd.DataFrame, scenario: str, seed: int = 0) -> pd.DataFrame:
    """Return the workload with the run times that isolated jobs would have.

    Pollard et al. (SC18), section IV-B: jobs of more than four nodes run shorter, by a fixed share or by one that grows
    with the job. Requested times stay. The scenario is ``10%`` or any other fixed share of the run time; ``v1``: each
    job is put at random into a bin of 0–10, 0–20 or 0–30 %; or ``v2``: jobs of up to 128 nodes into 0–10 or 0–20 %,
    larger ones into 0–10, 10–20 or 10–30 %. Inside a bin the share grows linearly with the nodes, from the bin's lower
    end at 4 nodes to its upper end at 512 and above (the paper gives the upper end only).

    Raises
    ------
    ArgumentError
        An unknown scenario, or a share that is not at least 0 % and below 100 %.
    """
    n = jobs["n_nodes"].to_numpy(np.int64)
    random = np.random.default_rng(seed)
    fixed = re.fullmatch(r"(\d+(?:\.\d+)?)%", scenario)
    if fixed and float(fixed[1]) < 100:
        share = np.full(len(jobs), float(fixed[1]) / 100)
    elif scenario == "v1":
        share = _in_bins(n, np.array([(0, 0.1), (0, 0.2), (0, 0.3)])[random.integers(0, 3, len(jobs))])
    elif scenario == "v2":
        small = np.array([(0, 0.1), (0, 0.2)])[random.integers(0, 2, len(jobs))]
        large = np.array([(0, 0.1), (0.1, 0.2), (0.1, 0.3)])[random.integers(0, 3, len(jobs))]
        share = _in_bins(n, np.where((n > 128)[:, None], large, small))
    else:
        raise ArgumentError("scenario", f"scenario {scenario!r} is not known; known: 10%, v1, v2")
    run = jobs["run_time"].to_numpy(np.int64)
    shorter = np.maximum(np.rint(run * (1 - share)), np.minimum(run, 1)).astype(np.int64)
    return jobs.assign(run_time=np.where(n >= SMALLEST, shorter, run))


def _in_bins(n: np.ndarray, bins: np.ndarray) -> np.ndarray:
    low, high = bins[:, 0], bins[:, 1]
    return low + (high - low) * np.clip((n - 4) / 508, 0, 1)


@dataclass(frozen=True)
class Worth(Shown):
    """From which share of run time on isolation pays.

    Attributes
    ----------
    table
        A row per isolating policy and scenario: ``policy saved makespan mean_wait_time mean_turnaround_time`` (s), the
        first for the shared policy.
    break_even
        By policy and measure, the share of run time, in %, above which isolation is better, linear between the
        scenarios that are shares; None where none of them is enough. A measure that none of them changes, as the
        makespan of a log whose last job ends it, is left out.
    shared
        The policy that shares links.
    """

    table: pd.DataFrame
    break_even: dict[str, dict[str, float | None]]
    shared: str

    @property
    def title(self) -> str:
        """What was compared."""
        return f"isolation, if jobs of {SMALLEST} nodes or more then run shorter by a share, against {self.shared}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The decision, by policy and measure."""
        names = {"makespan": "the makespan", "mean_turnaround_time": "the mean time from submission to end"}
        return tuple(
            f"by {names[measure]}, {policy} is worth it "
            + ("at none of these shares" if share is None else f"if sharing costs jobs more than {share:.1f} %")
            for policy, of in self.break_even.items()
            for measure, share in of.items()
        )


def weigh_isolation(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    policies: Sequence[str] = ("isolated",),
    *,
    shared: str = "compact",
    scenarios: Sequence[str] = SHARES,
    seed: int = 0,
    progress: Callable[[str], None] = silent,
) -> Worth:
    """Simulate a shared policy as logged, and isolating ones with run times that are shorter by several shares.

    Parameters
    ----------
    scenarios
        As in `speed_up`; the break-even is read off those that are fixed shares.

    Raises
    ------
    ArgumentError
        A policy or scenario that is not known.
    TableError
        A bad table, or no tree.

    Examples
    --------
    >>> import procure
    >>> jobs, nodes = procure.read_log("wide.parquet").jobs, procure.fat_tree(2, 2, 4)
    >>> procure.weigh_isolation(jobs, nodes, scenarios=["0%", "10%"]).table["saved"].to_list()
    ['–', '0%', '10%']
    """
    cases = [(shared, "–", jobs)]
    cases += [(policy, each, speed_up(jobs, each, seed)) for policy in policies for each in scenarios]
    rows = []
    for policy, saved, table in cases:
        progress(f"{policy}, run times shorter by {saved}")
        run = simulate(table, nodes, policy)
        rows.append((policy, saved, *(float(run.metrics[name]) for name in COLUMNS)))
    found = pd.DataFrame(rows, columns=["policy", "saved", *COLUMNS])
    fixed = found[found["saved"].str.endswith("%")]
    shares = fixed["saved"].str.rstrip("%").astype(float)
    break_even = {
        policy: {measure: crossing(shares[part.index], part[measure] - found[measure][0]) for measure in MEASURES}
        for policy, part in fixed.groupby("policy", sort=False)
    }
    return Worth(found, break_even, shared)


def crossing(shares: Sequence[float], worse: Sequence[float]) -> float | None:
    """Return the share from which on nothing is worse, linear between the points; None where it stays worse."""
    points = sorted(zip(shares, worse, strict=True))
    bad = [i for i, (_, value) in enumerate(points) if value > 0]
    if not bad:
        return float(points[0][0])
    if bad[-1] + 1 == len(points):
        return None
    (low, above), (high, below) = points[bad[-1] : bad[-1] + 2]
    return float(low + (high - low) * above / (above - below))
