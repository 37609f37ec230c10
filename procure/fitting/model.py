"""The limits of a run, from lines of ``site.toml``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from procure.account.inferred import RESOURCES
from procure.account.layout import OWNERS
from procure.account.rules import number
from procure.fitting.hold import Limits
from procure.site.model import Rule

FAR = 1 << 60


def limits_of(rules: Iterable[Rule], jobs: pd.DataFrame) -> Limits:
    """Return the limits of a run in which nothing runs, its jobs in order.

    A rule's subject is ``KIND NAME RESOURCE``; ``*`` as a name is every one.
    """
    rows, most, n = [], [np.zeros((len(RESOURCES), 0), np.int64)], 0
    for key in OWNERS:
        text = jobs[key].fillna("").astype(str) if key in jobs else pd.Series("", index=jobs.index)
        number_of, names = pd.factorize(text.where(text != ""))
        bounds = np.full((len(RESOURCES), len(names)), FAR, np.int64)
        for rule in rules:
            kind, _, rest = rule.subject.partition(" ")
            if rule.kind == "limit" and kind == key:
                name, _, resource = rest.rpartition(" ")
                bound = np.array([name in ("*", one) for one in names], bool)
                row = bounds[RESOURCES.index(resource)]
                row[bound] = np.minimum(row[bound], int(number(rule.value)))
        rows.append(np.where(number_of < 0, -1, number_of + n))
        most.append(bounds)
        n += len(names)
    bounds = np.concatenate(most, axis=1)
    return Limits(np.array(rows, np.int64), bounds, np.zeros_like(bounds))
