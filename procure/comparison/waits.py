"""Who waits, by class of job and of user: metrics, and logged beside simulated waits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance

from procure.errors import ArgumentError, TableError, argument
from procure.policies import catalog
from procure.run import Run
from procure.schemas import CLASSES, as_logged
from procure.simulator.metrics import METRIC_NAMES, Groups, Usage, as_record, measure, measure_groups
from procure.text import counted, duration, listed
from procure.workload.describe import class_of

SIZE_EDGES = (1, 4, 16, 64, 256)
"""Upper bounds, CPUs of all nodes, of the size classes; the last class is open."""


def size_class(jobs: pd.DataFrame) -> pd.Series:
    """Name each job's size class by the CPUs that it asks for on all nodes: ``1``, ``2-4``, …, ``>256``."""
    cpus = jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]
    names = [str(SIZE_EDGES[0])]
    names += [f"{low + 1}-{high}" for low, high in pairwise(SIZE_EDGES)]
    names.append(f">{SIZE_EDGES[-1]}")
    return pd.cut(cpus, [0, *SIZE_EDGES, np.inf], labels=names)


def user_class(jobs: pd.DataFrame) -> pd.Series:
    """Name each job's user class by what the user's jobs take: ``heavy``, ``medium`` or ``light``.

    Users stand in descending CPU-seconds; the users of the first half are heavy, those up
    to 90 % medium, the others light. Jobs without a user are one user.
    """
    work = jobs["run_time"] * jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]
    per_user = work.groupby(jobs["user"]).sum().sort_values(ascending=False, kind="stable")
    before = (per_user.cumsum() - per_user) / max(float(per_user.sum()), 1.0)
    names = ["heavy", "medium", "light"]
    of_user = pd.Series(np.searchsorted([0.5, 0.9], before, side="right"), index=per_user.index)
    return pd.Series(
        pd.Categorical.from_codes(jobs["user"].map(of_user).to_numpy(np.int64), names, ordered=True),
        index=jobs.index,
    )


def widest_wait(schedule: pd.DataFrame) -> float:
    """Return the mean wait, s, of the jobs that ran with at least the 95th percentile of CPUs; NaN if none ran."""
    ran = schedule[schedule["start_time"].notna()]
    if ran.empty:
        return float("nan")
    cpus = ran["cpus_per_node"].clip(lower=1) * ran["n_nodes"]
    wide = ran[cpus >= cpus.quantile(0.95)]
    return float((wide["start_time"].astype("int64") - wide["submit_time"]).mean())


def metrics_by(run: Run, nodes: pd.DataFrame, classes: pd.Series) -> pd.DataFrame:
    """Return every metric of a run on nodes for each class of jobs; ``classes`` has one per job of the table.

    A row per class that has a job: ``class``, then `procure.tables.METRICS` over its jobs alone. A class keeps its
    share of all nodes busy over the makespan of the whole run, so that the classes' utilizations add up to the run's;
    ``max_queue_depth`` is the most of its jobs that waited at once.
    """
    order = np.argsort(run.schedule["submit_time"].to_numpy(), kind="stable")
    schedule, killed = run.schedule.iloc[order], run.killed[order]
    submit = schedule["submit_time"].to_numpy(np.int64)
    first = submit[0]
    start, end = ((schedule[name] - first).fillna(-1).to_numpy(np.int64) for name in ("start_time", "end_time"))
    submit = submit - first
    asked = as_logged(schedule)[["cpus_per_node", "mem_mb_per_node", "gpus_per_node"]].to_numpy(np.float64)
    usage = asked * schedule[["n_nodes"]].to_numpy(np.float64)
    capacity = tuple(float(nodes[name].astype(float).sum()) for name in ("cpus", "mem_mb", "gpus"))
    span = int(run.metrics["makespan"] or 0)
    class_name = classes.to_numpy()[order]
    groups = np.array([class_of(schedule), pd.factorize(schedule["user"])[0]], np.int64)
    rows = []
    for name in classes.cat.categories:
        among = class_name == name
        if among.any():
            ran = among & (start >= 0)
            depth = _depth(submit[ran], start[ran]) if ran.any() else 0
            out = np.empty(len(METRIC_NAMES))
            columns = (submit[among], start[among], end[among], killed[among])
            measure(*columns, Usage(*np.ascontiguousarray(usage[among].T)), capacity, span, depth, 0, out)
            measure_groups(submit[among], start[among], Groups(*groups[:, among]), 0, out)
            rows.append({"class": name} | as_record(out))
    return pd.DataFrame(rows, columns=["class", *METRIC_NAMES])


def _depth(submit: np.ndarray, start: np.ndarray) -> int:
    """Return how many wait at most, after what happens at a moment has happened."""
    moments, place = np.unique(np.concatenate([submit, start]), return_inverse=True)
    change = np.bincount(place[: len(submit)], minlength=len(moments))
    change = change - np.bincount(place[len(submit) :], minlength=len(moments))
    return int(np.cumsum(change).max())


def resource_usage(schedule: pd.DataFrame, total_cpus: int) -> float:
    """Return Σ active / Σ min(available, requested) CPUs over time: idle CPUs that nobody wants don't count.

    The usage of the published ranking, as a share; requested are those of queued and running jobs.
    """
    part = schedule.loc[schedule["start_time"].notna()]
    cpus = (part["cpus_per_node"] * part["n_nodes"]).to_numpy(np.int64)
    submit, start, end = (part[name].to_numpy(np.int64) for name in ("submit_time", "start_time", "end_time"))
    moments = np.concatenate([submit, start, end])
    wanted = np.concatenate([cpus, np.zeros_like(cpus), -cpus])
    active = np.concatenate([np.zeros_like(cpus), cpus, -cpus])
    order = np.argsort(moments, kind="stable")
    length = np.diff(moments[order])
    busy = float((np.cumsum(active[order])[:-1] * length).sum())
    possible = float((np.minimum(np.cumsum(wanted[order])[:-1], total_cpus) * length).sum())
    return busy / possible if possible > 0 else float("nan")


WITHIN = 600
"""s; a simulated wait counts as right within ten minutes of the logged one."""
NEAR, NEAR_S = 0.25, 600.0
"""A level may be read as a forecast where mean, median and 90th percentile are each off by at most this share of the
logged one, or by so many seconds."""
_BY = ("QOS", "partition")
_LITTLE = 0.01
"""Share of a wait below which a difference is none."""


def replay(jobs: pd.DataFrame, run: Run) -> pd.DataFrame:
    """Compare simulated with logged waits, per size class (``cpus``) and for all jobs, as `site_check` does."""
    frame = pair_waits(jobs, run.schedule).assign(size=np.asarray(size_class(jobs))).dropna()
    parts = [(str(name), part) for name, part in frame.groupby("size", observed=True)]
    return pd.DataFrame([{"cpus": name} | compare_pairs(part) for name, part in [*parts, ("all", frame)]])


def site_check(jobs: pd.DataFrame, run: Run, policy: str = "slurm") -> pd.DataFrame:
    """Compare simulated with logged waits by class, size, partition, QOS, and of all jobs.

    One row per class: ``policy class n_jobs logged_mean simulated_mean logged_median simulated_median logged_p90
    simulated_p90 mean_error rank_correlation share_within distance verdict``; waits in s, from ``eligible_time`` where
    that is known, ``mean_error`` of absolute differences, ``distance`` the Wasserstein distance of log(1 + wait).

    Raises
    ------
    TableError
        The log holds no start times, or no job that started there starts in the simulation.
    """
    frame = pair_waits(jobs, run.schedule)
    if frame.dropna().empty:
        raise TableError(f"policy {policy}: no job of the log starts under these rules, so that nothing is compared")
    frame["kind"] = np.array([f"class {name}" for name in CLASSES])[class_of(jobs)]
    frame["size"] = size_class(jobs).astype(str) + " CPUs"
    for name in ("partition", "qos"):
        if name in jobs and len(jobs[name].unique()) > 1:
            frame[name] = name + " " + jobs[name].replace("", "(none)")
    frame = frame.dropna(subset=["logged", "simulated"])
    parts = [("all", frame)]
    for name in frame.columns.drop(["logged", "simulated"]):
        parts += [(str(value), part) for value, part in frame.groupby(name, observed=True)]
    found = pd.DataFrame([{"policy": policy, "class": name} | compare_pairs(part) for name, part in parts])
    return found.assign(verdict=np.where(is_near(found), "forecast", "no forecast"))


def is_near(found: pd.DataFrame) -> pd.Series:
    """Say of each row of `compare_pairs` whether its simulated waits may be read as a forecast, see `NEAR`."""
    near = pd.Series(True, index=found.index)
    for name in ("mean", "median", "p90"):
        logged = found[f"logged_{name}"]
        near &= (found[f"simulated_{name}"] - logged).abs() <= np.maximum(NEAR * logged, NEAR_S)
    return near


def verdict(found: pd.DataFrame) -> str:
    """Say in a sentence for which classes of jobs the waits of one policy's `site_check` may be read as a forecast."""
    near, policy = is_near(found), found["policy"].iloc[0]
    far = found.loc[~near, "class"].tolist()
    if near.iloc[0]:
        but = f", but for {listed(far)}" if far else ""
        return f"{policy}: these waits may be read as a forecast{but}"
    of = found.iloc[0]
    return (
        f"{policy}: these waits are no forecast, as all jobs waited {duration(of['logged_mean'])} on average and wait "
        f"{duration(of['simulated_mean'])} here; `procure site why` says what held them, and what the log does not tell"
    )


def pair_waits(jobs: pd.DataFrame, schedule: pd.DataFrame) -> pd.DataFrame:
    """Return ``logged`` and ``simulated`` waits of each job, s, NaN where it has none; refuse a log without starts."""
    if "start_time" not in jobs or jobs["start_time"].notna().sum() == 0:
        raise TableError("the jobs have no start_time: their logged waits are not known, so there is nothing to check")
    return pd.DataFrame({"logged": waits_of(jobs, jobs), "simulated": waits_of(jobs, schedule)})


def waits_of(jobs: pd.DataFrame, schedule: pd.DataFrame) -> np.ndarray:
    """Return the wait of each job in a schedule, s, from ``eligible_time`` where that is known; NaN = none."""
    since = jobs["submit_time"].astype("Int64")
    if "eligible_time" in jobs:
        since = jobs["eligible_time"].astype("Int64").fillna(since)
    wait = (schedule["start_time"].astype("Int64") - since).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    return np.maximum(wait, 0)


def compare_pairs(part: pd.DataFrame) -> dict[str, float]:
    """Return how far simulated waits are from logged ones, the figures of `site_check`; of jobs that have both."""
    logged, simulated = part["logged"], part["simulated"]
    varied = logged.std() > 0 and simulated.std() > 0
    return {
        "n_jobs": len(part),
        "logged_mean": logged.mean(),
        "simulated_mean": simulated.mean(),
        "logged_median": logged.median(),
        "simulated_median": simulated.median(),
        "logged_p90": logged.quantile(0.9),
        "simulated_p90": simulated.quantile(0.9),
        "mean_error": (logged - simulated).abs().mean(),
        "rank_correlation": logged.corr(simulated, method="spearman") if varied else np.nan,
        "share_within": ((logged - simulated).abs() <= WITHIN).mean(),
        "distance": float(wasserstein_distance(np.log1p(logged), np.log1p(simulated))) if len(part) else np.nan,
    }


def with_rules(policy: str, rules: Sequence[str]) -> str:
    """Return the label of a policy whose centre's rules are changed, see `procure.site.change`."""
    name, given = catalog.split(policy)
    if "change" not in catalog.model_of(name, given).model_fields:
        raise ArgumentError(
            "rules", f"policy {policy} goes by no centre's rules, so that none can be changed; policy slurm does"
        )
    written = [given["change"]] if "change" in given else []
    if not all(rule.strip() for rule in rules):
        raise ArgumentError("rules", "'' was given; write SETTING=VALUE or, for example, qos NAME GrpTRES=cpu=200")
    with argument("rules"):
        return catalog.spec(name, given | {"change": ";".join([*written, *rules]).replace(",", "+")}).label


def rule_waits(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Compare the waits of two schedules of the same jobs, which begin at ``eligible_time`` where that is known.

    A row for all jobs and for each class, QOS and partition of which there are several: ``class n_jobs n_compared
    mean_before mean_after p95_before p95_after unstarted_before unstarted_after``; waits in s, of the ``n_compared``
    jobs that started in both.
    """
    waits = pd.DataFrame({"before": waits_of(before, before), "after": waits_of(before, after)})
    parts = [("all", waits)]
    named = {word: before[word.lower()].fillna("").replace("", "(none)") for word in _BY if word.lower() in before}
    for word, names in (named | {"class": pd.Categorical.from_codes(class_of(before), CLASSES)}).items():
        groups = waits.groupby(np.asarray(names, object) if word in _BY else names, observed=True)
        parts += [(f"{word} {name}", part) for name, part in groups] if groups.ngroups > 1 else []
    rows = []
    for name, part in parts:
        both = part.dropna()
        row: dict[str, object] = {"class": name, "n_jobs": len(part), "n_compared": len(both)}
        row |= {f"mean_{when}": both[when].mean() for when in waits}
        row |= {f"p95_{when}": both[when].quantile(0.95) for when in waits}
        rows.append(row | {f"unstarted_{when}": int(part[when].isna().sum()) for when in waits})
    return pd.DataFrame(rows)


def conclude(waits: pd.DataFrame, rules: Sequence[str]) -> str:
    """Say in one sentence what changed rules do: for all jobs, for whom most is won, for whom most is lost."""
    named = f"with rule {'; '.join(rules)}" if len(rules) == 1 else f"with rules {'; '.join(rules)}"
    every, parts = waits.iloc[0], waits.iloc[1:]
    moved = parts["mean_after"] - parts["mean_before"]
    least = np.maximum(_LITTLE * parts["mean_before"], 1.0)
    if not every["n_compared"]:
        return f"{named} no job starts that starts without, so that no waits can be compared"
    clauses = [f"jobs wait {_change(every)}"]
    for places, rank in ((np.flatnonzero(moved < -least), 1), (np.flatnonzero(moved > least), -1)):
        if len(places):
            one = parts.iloc[places[np.argmin(rank * moved.to_numpy()[places])]]
            word = "most is won by" if rank > 0 else "most is lost by"
            clauses.append(f"{word} {one['class']} ({counted(int(one['n_compared']), 'job')}): {_change(one)}")
    if len(clauses) == 1:
        clauses.append("no class, QOS or partition waits much longer or shorter")
    lost = int(every["unstarted_after"] - every["unstarted_before"])
    if lost:
        more = "more" if lost > 0 else "fewer"
        clauses.append(f"{abs(lost):,} {more} {'job never starts' if abs(lost) == 1 else 'jobs never start'}")
    return f"{named} {'; '.join(clauses)}"


def _change(row: pd.Series) -> str:
    before, after = row["mean_before"], row["mean_after"]
    if not before - after or abs(after - before) <= max(_LITTLE * before, 1.0):
        return f"{duration(after)} in the mean, as before"
    return f"{duration(after)} in the mean instead of {duration(before)}"
