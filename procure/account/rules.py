"""The rules of a site that say of themselves how they bind: pauses and closed hours, as arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from procure.account.layout import LENGTHS
from procure.site.model import Rule


def number(value: object) -> float:
    """Return a rule's value as a number."""
    return float(str(value))


def closed_hours(rules: Iterable[Rule]) -> tuple[np.ndarray, np.ndarray]:
    """Return which hours of the local week are closed to which jobs; the subject of a rule is ``over S``, or empty.

    Returns
    -------
    tuple
        The ends of the classes of requested time, s, those of `LENGTHS` and of the rules; and bool[n_classes + 1, 168].
    """
    given = [rule for rule in rules if rule.kind == "closed_hours" and isinstance(rule.value, tuple)]
    longer = [int(rule.subject.rpartition(" ")[2] or 0) if rule.subject else 0 for rule in given]
    lengths = np.array(sorted({*LENGTHS, *(one for one in longer if one > 0)}), np.int64)
    found = np.zeros((len(lengths) + 1, 168), bool)
    for rule, least in zip(given, longer, strict=True):
        first = int(np.searchsorted(lengths, least, side="right")) if least else 0
        for hour in rule.value if isinstance(rule.value, tuple) else ():
            found[first:, int(number(hour)) % 168] = True
    return lengths, found


def pauses_of(rules: Iterable[Rule], jobs: pd.DataFrame) -> np.ndarray:
    """Return how long after its submission each job starts at the earliest, int64[n_jobs], s.

    A rule ``pause`` without a subject is everybody's; of one with ``user``, ``partition`` or ``account`` and a name
    the more special stands above it.
    """
    found = np.zeros(len(jobs), np.int64)
    pauses = [rule for rule in rules if rule.kind == "pause"]
    for rule in pauses:
        if not rule.subject:
            found[:] = int(number(rule.value))
    for key in ("partition", "account", "user"):
        known = {
            rule.subject.partition(" ")[2]: int(number(rule.value))
            for rule in pauses
            if rule.subject.partition(" ")[0] == key
        }
        if known and key in jobs:
            own = jobs[key].fillna("").astype(str).map(known)
            found = np.where(own.notna(), own.fillna(0), found).astype(np.int64)
    return found
