"""Limits at their latest level: a limit that was raised or lowered holds later jobs at what it is now."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from procure.account.account import Account, account_waits
from procure.site.model import Rule, Site

TAILS = (0.5, 0.25)
"""Shares of the jobs, the last ones, in which limits are looked for again: the shortest with one has its level."""
FEWEST = 200
"""Jobs that a tail needs."""


class Level(NamedTuple):
    """A limit, and what of the log shows it."""

    kind: str
    rule: Rule


def latest_limits(log: pd.DataFrame, nodes: pd.DataFrame, account: Account, site: Site | None = None) -> list[Level]:
    """Return the limits of users, accounts and partitions, each at the level that the latest part of a log shows.

    What a limit counts is as the largest part shows it that shows one.

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
            of_tail = account if share == 1 else account_waits(_tail(log, n), nodes, site)
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
                if before is None or before.rule.subject == subject:
                    found[one.kind, name] = Level(one.kind, rule)
    return list(found.values())


def _tail(log: pd.DataFrame, n: int) -> pd.DataFrame:
    """Return the last jobs, and the earlier ones that ran beside them, which then wait for nothing."""
    first, last = log.iloc[:-n], log.iloc[-n:]
    beside = first[first["start_time"] + first["run_time"] > last["submit_time"].iloc[0]]
    beside = beside.assign(submit_time=beside["start_time"])
    return pd.concat([beside, last]).sort_values("submit_time", kind="stable", ignore_index=True)
