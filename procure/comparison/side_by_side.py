"""Simulate one workload under several policies, rank them, and say which is better and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from procure.comparison.waits import metrics_by, replay, resource_usage, size_class, user_class, widest_wait
from procure.errors import ArgumentError, TableError
from procure.policies import catalog
from procure.policies.catalog import label
from procure.policies.parameters import Parameters
from procure.progress import silent
from procure.run import Run, simulate
from procure.schemas import JOB, NODE
from procure.settings import MOST_LISTED
from procure.tables import as_table
from procure.text import Shown, counted, limit_note, nearest

CAP = 1e6
"""Stands for the infinite ratio where one policy is nowhere worse than another."""

PUBLISHED_WEIGHTS = {"makespan": 0.5, "slowdown": 1.5, "usage": 1.0}
"""The sums of Table I's rows: 1 for each criterion to which this one is preferred, 0.5 where neither is. Slowdown is
preferred to usage and usage to makespan; makespan and slowdown are alike."""


class Ranking(NamedTuple):
    """``score`` per policy, higher is better, of unit length; ``ratios`` the matrix; ``value`` its eigenvalue."""

    score: pd.Series
    ratios: pd.DataFrame
    value: float


def rank(criteria: pd.DataFrame, weights: Mapping[str, float], higher_is_better: set[str]) -> Ranking:
    """Rank policies, a row each, by several criteria, a column each, of which some are maximised.

    Only the policies compared may stand there: the relative estimates depend on the set. With r these estimates (1 =
    best of the set, 0 = worst; a criterion in which all are equal counts for nothing) and S_ij = Σ_c w_c max(0, r_ic −
    r_jc), the ratios are S_ij / S_ji, at most `CAP`, 1 where neither is better, and the score is their principal right
    eigenvector.
    """
    values = criteria.to_numpy(dtype=float)
    sign = np.array([1.0 if name in higher_is_better else -1.0 for name in criteria.columns])
    signed = values * sign
    span = np.ptp(signed, axis=0)
    relative = (signed - signed.min(axis=0)) / np.where(span > 0, span, 1.0)
    weight = np.array([weights[name] for name in criteria.columns])
    better = (np.maximum(0.0, relative[:, None, :] - relative[None, :, :]) * weight).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = better / better.T
    ratios = np.clip(np.where(np.isnan(ratios), 1.0, ratios), 1.0 / CAP, CAP)
    eigenvalues, vectors = np.linalg.eig(ratios)
    principal = int(np.argmax(eigenvalues.real))
    score = np.abs(vectors[:, principal].real)
    return Ranking(
        pd.Series(score / np.linalg.norm(score), index=criteria.index, name="score"),
        pd.DataFrame(ratios, index=criteria.index, columns=criteria.index),
        float(eigenvalues[principal].real),
    )


SLICES = {"day": 86_400, "week": 604_800, "month": 2_592_000}
"""Length of a slice, s; a month is 30 days. Slices begin with the first submission."""
FEWEST_JOBS = 10
"""A slice with fewer jobs says nothing and is left out."""
N_RESAMPLES = 10_000
FEWEST_PAIRS = 6
"""Of fewer pairs Wilcoxon's test cannot reach 5 %, and a bootstrap interval covers far less than it says."""


def check_length(length: str) -> None:
    """Raise if the length is not one of `SLICES`."""
    if length not in SLICES:
        raise TableError(f"slices of {length!r} are not known; {nearest(length, SLICES)}")


def in_slices(jobs: pd.DataFrame, length: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """Cut a workload by submission time into one of `SLICES`; each slice will start from an empty system."""
    check_length(length)
    number = (jobs["submit_time"] - jobs["submit_time"].min()) // SLICES[length]
    for place, part in jobs.groupby(number, sort=True):
        if len(part) >= FEWEST_JOBS:
            yield f"{length} {int(place) + 1}", part.reset_index(drop=True)


def paired_tests(values: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Compare every policy with a baseline over the same parts of a workload.

    ``values`` are of one metric: a row per part, a column per policy; rows with a gap are left out. Per other policy:
    ``n``, the mean difference policy − baseline, its 95 % bootstrap interval ``low`` to ``high`` (pairs are resampled),
    the p-values of the paired t-test and of Wilcoxon's signed-rank test; NaN where undefined (fewer than `FEWEST_PAIRS`
    parts, or no difference).
    """
    from scipy import stats

    complete = values.dropna()
    rng = np.random.default_rng(0)
    rows = []
    for policy in complete.columns.drop(baseline):
        difference = (complete[policy] - complete[baseline]).to_numpy()
        n = len(difference)
        row = {"policy": policy, "baseline": baseline, "n": n}
        row |= dict.fromkeys(("difference", "low", "high", "p_t", "p_wilcoxon"), np.nan)
        if n:
            row["difference"] = difference.mean()
        if n >= FEWEST_PAIRS:
            means = difference[rng.integers(0, n, (N_RESAMPLES, n))].mean(axis=1)
            row["low"], row["high"] = np.quantile(means, [0.025, 0.975])
            if np.any(difference != 0):
                row["p_wilcoxon"] = stats.wilcoxon(difference).pvalue
                if np.ptp(difference) > 0:
                    row["p_t"] = stats.ttest_1samp(difference, 0.0).pvalue
        rows.append(row)
    return pd.DataFrame(rows)


AnyPolicy: TypeAlias = "str | Parameters | Callable"
ORACLE = "@oracle"
"""After a policy's name: on the workload whose requests are its run times."""
TESTED = ("mean_wait_time", "mean_bounded_slowdown")
"""The metrics that the paired tests look at."""
_SHOWN = (
    *("policy", "rank", "score", "mean_wait_time", "mean_bounded_slowdown", "p95_wait_time", "max_wait_time"),
    *("widest_wait_time", "makespan", "utilization_cpu"),
    *("n_completed", "n_unrunnable", "n_killed", "elapsed"),
)


@dataclass(frozen=True)
class Comparison(Shown):
    """What a comparison gave, one row per policy in the order given unless said otherwise.

    Attributes
    ----------
    table
        ``policy``, the metrics of a run on the whole workload, ``widest_wait_time`` (the mean wait of the jobs with
        at least the 95th percentile of CPUs, s), ``resource_usage``, ``elapsed``
        (kernel seconds), ``score`` and ``rank`` of the multi-criteria ranking (1 = best).
    by_size, by_user
        Every metric per policy and class, as `procure.comparison.waits.metrics_by` says.
    parts
        A row per slice (``part``) and policy, if there are slices.
    tests
        Paired tests per metric against the first policy, if there are slices.
    fidelity
        Per policy and size class, if a replay was asked for.
    limits
        Whether jobs ended at their limit, and how many were cut under each policy.
    caveat
        What the paired tests can tell.
    on_tree
        Whether the nodes stand in a network, where allocators are compared by the nodes that they keep busy.
    """

    table: pd.DataFrame
    ranking: Ranking
    by_size: pd.DataFrame
    by_user: pd.DataFrame
    parts: pd.DataFrame = field(default_factory=pd.DataFrame)
    tests: pd.DataFrame = field(default_factory=pd.DataFrame)
    fidelity: pd.DataFrame = field(default_factory=pd.DataFrame)
    limits: str = ""
    caveat: str = ""
    on_tree: bool = False

    title = "side by side"

    @property
    def notes(self) -> list[str]:
        """Whether jobs were cut, and what the tests can tell."""
        return [self.limits, *([f"paired tests: {self.caveat}"] if self.caveat else [])]

    def shown(self) -> pd.DataFrame:
        """Return the columns of the table that people read first; in a network also the share of busy nodes."""
        return self.table[[*_SHOWN, *(["utilization_nodes"] if self.on_tree else [])]]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a record per policy, as ``procure compare --format json`` prints them."""
        frames = {name: getattr(self, name) for name in ("by_size", "by_user", "tests", "fidelity")}
        records = []
        for row in self.table.to_dict(orient="records"):
            for key, frame in frames.items():
                if not frame.empty:
                    own = frame.loc[frame["policy"] == row["policy"]].drop(columns="policy")
                    row[key] = own.to_dict(orient="records")
            records.append(row)
        return records


def run_policy(policy: AnyPolicy, jobs: pd.DataFrame, nodes: pd.DataFrame, options: Mapping[str, Any]) -> Run:
    """Simulate under a policy, whose name may end in ``@oracle``; options as in `procure.run.simulate`."""
    if isinstance(policy, str) and policy.endswith(ORACLE):
        jobs, policy = jobs.assign(requested_time=jobs["run_time"].clip(lower=1)), policy.removesuffix(ORACLE)
    return simulate(jobs, nodes, policy, **options)


def check_policies(policies: Sequence[AnyPolicy]) -> list[str]:
    """Return the policies' labels; raise unless there is at least one, each is known, and none is repeated."""
    if isinstance(policies, str):
        raise TableError(f"policies are a list, such as [{policies!r}]; a text was given")
    if len(policies) > MOST_LISTED:
        raise TableError(f"{len(policies):,} policies were given; at most {MOST_LISTED:,} are compared")
    labels = [
        catalog.spec(one.removesuffix(ORACLE)).label + (ORACLE if one.endswith(ORACLE) else "")
        if isinstance(one, str)
        else label(one)
        for one in policies
    ]
    if len(set(labels)) < len(labels) or not labels:
        raise TableError("name at least one policy, and each only once")
    return labels


def compare(
    jobs: pd.DataFrame | str | Path,
    nodes: pd.DataFrame | str | Path,
    policies: Sequence[AnyPolicy],
    *,
    slices: str | None = None,
    continuous: bool = False,
    with_replay: bool = False,
    options: Mapping[str, Any] | None = None,
    progress: Callable[[str], None] = silent,
) -> Comparison:
    """Compare policies on a workload.

    Parameters
    ----------
    jobs, nodes
        Job and node tables, or their files.
    policies
        Each once: ``NAME`` or ``NAME:key=value,key=value``, where ``sjf@oracle`` is sjf with run times as requests;
        the parameters of a policy; or a callable of the policy protocol, called by its name.
    slices
        ``day``, ``week`` or ``month``: repeat on each slice, from an empty system.
    continuous
        With ``slices``: nothing begins empty; each slice is the jobs submitted in it, of the run of the whole.
    with_replay
        Compare the waits with the logged ones as well.
    options
        Keyword arguments of `procure.run.simulate`.
    progress
        Called with a line of progress for each simulation.

    Raises
    ------
    TableError
        An unknown or repeated policy, a bad table, or a replay of a log without start times.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=50)
    >>> nodes = procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> procure.compare(jobs, nodes, ["fcfs", "easy"]).table["policy"].to_list()
    ['fcfs', 'easy']
    """
    if continuous and slices is None:
        raise ArgumentError("continuous", "continuous needs slices")
    options, jobs, nodes = options or {}, as_table(jobs, JOB), as_table(nodes, NODE)
    labels = check_policies(policies)
    # Of a policy that is named the label is the whole name, defaults left out.
    named = {name: name if isinstance(one, str) else one for name, one in zip(labels, policies, strict=True)}
    runs = {}
    for name, policy in named.items():
        progress(f"{name} on {len(jobs):,} jobs")
        runs[name] = run_policy(policy, jobs, nodes, options)
    table, ranking = _table(runs, int(nodes["cpus"].astype(int).sum()))
    repeated = pd.DataFrame()
    if slices is not None:
        repeated = (
            _cut(jobs, runs, nodes, slices) if continuous else _parts(jobs, named, nodes, slices, options, progress)
        )
        if repeated.empty:
            raise TableError(f"no {slices} of the workload has {FEWEST_JOBS} jobs")
    tests, caveat = _tests(repeated, labels[0])
    killed = {name: int(run.metrics["n_killed"]) for name, run in runs.items()}
    sizes, users = size_class(jobs), user_class(jobs)
    return Comparison(
        table,
        ranking,
        _stacked({name: metrics_by(run, nodes, sizes) for name, run in runs.items()}),
        _stacked({name: metrics_by(run, nodes, users) for name, run in runs.items()}),
        repeated,
        tests,
        _stacked({name: replay(jobs, run) for name, run in runs.items()}) if with_replay else pd.DataFrame(),
        limit_note(options.get("kill_at_limit", True), killed, len(jobs)),
        caveat,
        "leaf" in nodes and bool(nodes["leaf"].notna().any()),
    )


def _table(runs: Mapping[str, Run], total_cpus: int) -> tuple[pd.DataFrame, Ranking]:
    table = pd.DataFrame(
        [
            {"policy": name}
            | run.metrics
            | {"widest_wait_time": widest_wait(run.schedule)}
            | {"resource_usage": resource_usage(run.schedule, total_cpus), "elapsed": run.elapsed}
            for name, run in runs.items()
        ]
    )
    of = {"makespan": "makespan", "slowdown": "mean_bounded_slowdown", "usage": "resource_usage"}
    criteria = pd.DataFrame({name: table[column] for name, column in of.items()}).astype(float)
    ranking = rank(criteria.set_axis(table["policy"]), PUBLISHED_WEIGHTS, {"usage"})
    table["score"] = ranking.score.to_numpy()
    table["rank"] = table["score"].round(12).rank(ascending=False, method="min").astype(int)
    return table, ranking


def _stacked(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([frame.assign(policy=name) for name, frame in frames.items()], ignore_index=True)


def _cut(jobs: pd.DataFrame, runs: Mapping[str, Run], nodes: pd.DataFrame, length: str) -> pd.DataFrame:
    """Return the metrics of the jobs of each slice of the whole run."""
    begin = int(jobs["submit_time"].min())
    number = pd.Series(pd.Categorical((jobs["submit_time"] - begin) // SLICES[length] + 1), index=jobs.index)
    frames = []
    for name, run in runs.items():
        found = metrics_by(run, nodes, number)
        found = found[found["n_jobs"] >= FEWEST_JOBS]
        part = [f"{length} {int(one)}" for one in found["class"]]
        frames.append(found.drop(columns="class").assign(part=part, policy=name))
    return pd.concat(frames, ignore_index=True)


def _parts(
    jobs: pd.DataFrame,
    policies: Mapping[str, AnyPolicy],
    nodes: pd.DataFrame,
    length: str,
    options: Mapping[str, Any],
    progress: Callable[[str], None],
) -> pd.DataFrame:
    """Return the metrics of each slice, run from an empty system."""
    rows = []
    for part, piece in in_slices(jobs, length):
        progress(f"{part}: {len(piece):,} jobs")
        for name, policy in policies.items():
            rows.append({"part": part, "policy": name} | run_policy(policy, piece, nodes, options).metrics)
    return pd.DataFrame(rows)


def _tests(repeated: pd.DataFrame, baseline: str) -> tuple[pd.DataFrame, str]:
    if repeated.empty:
        return pd.DataFrame(), ""
    tests = []
    n_parts = repeated["part"].nunique()
    for metric in TESTED:
        values = repeated.astype({metric: float}).pivot_table(index="part", columns="policy", values=metric)
        tests.append(paired_tests(values, baseline).assign(metric=metric))
    if n_parts < FEWEST_PAIRS:
        caveat = f"no intervals or p values: {counted(n_parts, 'slice')} are too few, {FEWEST_PAIRS} are needed"
    else:
        caveat = "not corrected for several comparisons"
    return pd.concat(tests, ignore_index=True), caveat
