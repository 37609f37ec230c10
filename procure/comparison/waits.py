"""Waits side by side: of a log and of its simulation, and before and after a rule is changed, class by class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance

from procure.comparison.classes import size_class
from procure.errors import ArgumentError, TableError, argument
from procure.policies import catalog
from procure.run import Run
from procure.schemas import CLASSES
from procure.text import counted, duration, listed
from procure.workload.classes import class_of

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
