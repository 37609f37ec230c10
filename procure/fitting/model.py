"""What a fit keeps: rules as lines of ``site.toml``, and the learned rest as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.account.inferred import RESOURCES
from procure.account.layout import OWNERS
from procure.account.rules import number
from procure.fitting.hold import Limits
from procure.fitting.trees import Trees, no_trees
from procure.site.model import Rule

FAR = 1 << 60
KEYS = ("user", "partition", "account")


class Rest(NamedTuple):
    """The learned rest: trees that predict log(1 + hold), and what they were told of users, partitions and accounts."""

    trees: Trees
    low: np.ndarray  # float64[n_features], the range of each feature in the training part
    high: np.ndarray
    names: tuple[np.ndarray, np.ndarray, np.ndarray]  # str, of users, partitions, accounts
    means: tuple[np.ndarray, np.ndarray, np.ndarray]  # float64, mean log(1 + wait), drawn to that of all
    mean: float
    recent: float  # log(1 + wait) at the end of the training part
    scale: float
    longest: float  # log(1 + s), no hold is longer

    def means_of(self, jobs: pd.DataFrame) -> np.ndarray:
        """Return float64[n_jobs, 3]: the mean of each job's user, partition and account; of all where unknown."""
        found = np.full((len(jobs), 3), self.mean)
        for i, key in enumerate(KEYS):
            if key in jobs and len(self.names[i]):
                known = pd.Series(self.means[i], index=self.names[i])
                found[:, i] = jobs[key].fillna("").astype(str).map(known).fillna(self.mean).to_numpy(np.float64)
        return found


def no_rest() -> Rest:
    """Return a rest that holds nobody."""
    none = np.zeros(0)
    names = (np.zeros(0, str),) * 3
    return Rest(no_trees(), none, none, names, (none, none, none), 0.0, 0.0, 0.0, 0.0)


def limits_of(rules: Iterable[Rule], jobs: pd.DataFrame) -> Limits:
    """Return the limits of a run in which nothing runs; a rule's subject is ``KIND NAME RESOURCE``.

    Parameters
    ----------
    jobs
        In the order of the run; ``*`` as a name is every one.
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
