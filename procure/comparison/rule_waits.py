"""Who waits how long before and after a rule is changed: by class of job, QOS and partition, and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, argument
from procure.policies import catalog
from procure.schemas import CLASSES
from procure.text import counted, duration
from procure.workload.classes import class_of

_BY = (("qos", "QOS"), ("partition", "partition"))
_LITTLE = 0.01
"""Share of a wait below which a difference is none."""


def with_rules(policy: str, rules: Sequence[str]) -> str:
    """Return the label of a policy whose centre's rules are changed, see `procure.site.change`.

    Raises
    ------
    ArgumentError
        The policy goes by no centre's rules, or a change cannot be read.
    """
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
    """Compare the waits of two schedules of the same jobs.

    Parameters
    ----------
    before, after
        Job tables with simulated starts, rows alike. A wait begins at ``eligible_time`` where that is known.

    Returns
    -------
    pandas.DataFrame
        A row for all jobs and for each class, QOS and partition of which there are several: ``class n_jobs
        n_compared mean_before mean_after p95_before p95_after unstarted_before unstarted_after``; waits in s, of the
        ``n_compared`` jobs that started in both.
    """
    since = before["submit_time"].astype("Int64")
    if "eligible_time" in before:
        since = before["eligible_time"].astype("Int64").fillna(since)
    waits = pd.DataFrame(
        {
            name: (one["start_time"].astype("Int64") - since).astype("Float64").to_numpy(np.float64, na_value=np.nan)
            for name, one in (("before", before), ("after", after))
        }
    ).clip(lower=0)
    parts = [("all", np.ones(len(before), bool))]
    for column, word in _BY:
        names = before[column].fillna("").to_numpy(object) if column in before else np.array([], object)
        values = sorted(set(names.tolist()))
        if len(values) > 1:
            parts += [(f"{word} {name or '(none)'}", names == name) for name in values]
    classes = class_of(before)
    if len(np.unique(classes)) > 1:
        parts += [(f"class {CLASSES[n]}", classes == n) for n in np.unique(classes)]
    return pd.DataFrame([{"class": name} | _row(waits[rows]) for name, rows in parts])


def _row(part: pd.DataFrame) -> dict[str, float]:
    both = part.dropna()

    def quantile(values: pd.Series) -> float:
        return float(values.quantile(0.95)) if len(values) else np.nan

    return {
        "n_jobs": len(part),
        "n_compared": len(both),
        "mean_before": both["before"].mean(),
        "mean_after": both["after"].mean(),
        "p95_before": quantile(both["before"]),
        "p95_after": quantile(both["after"]),
        "unstarted_before": int(part["before"].isna().sum()),
        "unstarted_after": int(part["after"].isna().sum()),
    }


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
