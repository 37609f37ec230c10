"""Simulate one workload under several policies, and say which is better and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from procure.comparison import parts
from procure.comparison.classes import metrics_by, resource_usage, size_class, user_class, widest_wait
from procure.comparison.ranking import PUBLISHED_WEIGHTS, Ranking, rank
from procure.comparison.waits import replay
from procure.errors import ArgumentError, TableError
from procure.policies import catalog
from procure.policies.catalog import label
from procure.policies.parameters import Parameters
from procure.progress import silent
from procure.run import Run, simulate
from procure.schemas import JOB, NODE
from procure.settings import MOST_LISTED
from procure.tables import as_table
from procure.text import Shown, counted, limit_note

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
        Every metric per policy and class, as `procure.comparison.classes.metrics_by` says.
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
            raise TableError(f"no {slices} of the workload has {parts.FEWEST_JOBS} jobs")
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
    criteria = pd.DataFrame(
        {
            "makespan": table["makespan"],
            "slowdown": table["mean_bounded_slowdown"],
            "usage": table["resource_usage"],
        }
    ).astype(float)
    ranking = rank(criteria.set_axis(table["policy"]), PUBLISHED_WEIGHTS, {"usage"})
    table["score"] = ranking.score.to_numpy()
    table["rank"] = table["score"].round(12).rank(ascending=False, method="min").astype(int)
    return table, ranking


def _stacked(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([frame.assign(policy=name) for name, frame in frames.items()], ignore_index=True)


def _cut(jobs: pd.DataFrame, runs: Mapping[str, Run], nodes: pd.DataFrame, length: str) -> pd.DataFrame:
    """Return the metrics of the jobs of each slice of the whole run."""
    begin = int(jobs["submit_time"].min())
    number = pd.Series(pd.Categorical((jobs["submit_time"] - begin) // parts.SLICES[length] + 1), index=jobs.index)
    frames = []
    for name, run in runs.items():
        found = metrics_by(run, nodes, number)
        found = found[found["n_jobs"] >= parts.FEWEST_JOBS]
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
    for part, piece in parts.slices(jobs, length):
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
        tests.append(parts.paired_tests(values, baseline).assign(metric=metric))
    if n_parts < parts.FEWEST_PAIRS:
        caveat = f"no intervals or p values: {counted(n_parts, 'slice')} are too few, {parts.FEWEST_PAIRS} are needed"
    else:
        caveat = "not corrected for several comparisons"
    return pd.concat(tests, ignore_index=True), caveat
