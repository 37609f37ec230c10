"""The rules of a site that say of themselves how they bind, as arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from procure.site.model import Rule


def number(value: object) -> float:
    """Return a rule's value as a number."""
    return float(str(value))


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
