"""Limits at their latest level: a limit that was raised or lowered holds later jobs at what it is now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.account.account import Account, account_part
from procure.account.held import held_cpus
from procure.account.layout import levels, usual_most
from procure.site.model import Rule, Site

TAILS = (0.5, 0.25)
"""Shares of the jobs, the last ones, in which limits are looked for again: the level is that of the shortest with one
that counts the same, or with another where the former is exceeded."""
FEWEST = 200
"""Jobs that a tail needs."""


class Level(NamedTuple):
    """A limit, and what of the log shows it."""

    kind: str
    rule: Rule


def latest_limits(log: pd.DataFrame, nodes: pd.DataFrame, account: Account, site: Site | None = None) -> list[Level]:
    """Return the limits of users, accounts and partitions, each at the level that the latest part of a log shows.

    What a limit counts is as the largest part shows it that shows one, unless its owner runs beyond that limit in a
    later part, which shows one that counts something else.

    Parameters
    ----------
    log
        From `procure.account.layout.started_jobs`, by submission.
    nodes
        Node table.
    account
        That of the whole log.
    site
        As `account_waits` takes it.
    """
    found: dict[tuple[str, str], Level] = {}
    for share in (1.0, *TAILS):
        n = int(share * len(log))
        if n >= FEWEST:
            part = log if share == 1 else _tail(log, n)
            of_tail = account if share == 1 else account_part(part, nodes, site)
            for one in of_tail.limits:
                name = of_tail.names[one.owner]
                where = "" if share == 1 else f", in the last {share:.0%} of the jobs"
                evidence = (
                    f"{one.n_jobs:,} of {one.n_with_room:,} jobs that waited over half an hour with room did so "
                    f"at this most{where}; by chance {one.chance:.1g}"
                )
                subject = f"{one.kind} {name} {one.resource}"
                rule = Rule(kind="limit", subject=subject, value=one.value, evidence=evidence)
                # An owner that is at its most throughout a part does not show there what its limit counts.
                before = found.get((one.kind, name))
                if before is None or before.rule.subject == subject or _exceeded(part, before.rule, one.kind, name):
                    found[one.kind, name] = Level(one.kind, rule)
    return list(found.values())


def _exceeded(jobs: pd.DataFrame, limit: Rule, kind: str, name: str) -> bool:
    """Say whether an owner ran beyond a limit, but for exceptions; not known of what remains of requested times."""
    own = jobs[jobs[kind].fillna("").astype(str) == name]
    cpus = own["n_nodes"].to_numpy(np.int64) * held_cpus(own)
    amounts = {"jobs": np.ones_like(cpus), "cpus": cpus, "cpu_seconds": cpus * own["requested_time"].to_numpy(np.int64)}
    amount = amounts.get(limit.subject.rpartition(" ")[2])
    if amount is None:
        return False
    start = own["start_time"].to_numpy(np.int64)
    some = levels(start, start + own["run_time"].to_numpy(np.int64), np.zeros(len(own), np.int64), amount)
    return bool(usual_most(some, 1)[0] > limit.value)


def _tail(log: pd.DataFrame, n: int) -> pd.DataFrame:
    """Return the last jobs, and the earlier ones that ran beside them, which then wait for nothing."""
    first, last = log.iloc[:-n], log.iloc[-n:]
    beside = first[first["start_time"] + first["run_time"] > last["submit_time"].iloc[0]]
    beside = beside.assign(submit_time=beside["start_time"])
    return pd.concat([beside, last]).sort_values("submit_time", kind="stable", ignore_index=True)
