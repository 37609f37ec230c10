"""Which waiting job is served first, by weights that a log shows: a rule ``order`` each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.account.account import Account
from procure.account.choices import choice_sets
from procure.account.inferred import with_limits
from procure.account.layout import lay_out, with_outages
from procure.account.outages import columns_of
from procure.account.rules import number
from procure.account.usage import Usage, share_of
from procure.fitting.logit import fit_logit
from procure.simulator.seams import order
from procure.simulator.state import State
from procure.site.model import Rule

LEAST_CHOICES = 200
LEAST_DAYS = 4
CHANCE = 1e-3
"""Most probability that a weight as far from none is chance."""
MOST_PARTITIONS = 6
DAY = 86_400
NO_LIMIT = 30 * DAY
"""s that a job without a limit is taken to ask for."""
USE = 10.0
"""Recent use counts as log(1 + 10 × share of all CPUs)."""


def _static(jobs: pd.DataFrame, cpus: np.ndarray) -> dict[str, np.ndarray]:
    """Return what of the features never changes."""
    requested = jobs["requested_time"].to_numpy(np.float64)
    return {"size": np.log1p(cpus), "requested_time": np.log1p(np.where(requested > 0, requested, NO_LIMIT))}


def infer_order(log: pd.DataFrame, nodes: pd.DataFrame, account: Account) -> list[Rule]:
    """Infer the order in which waiting jobs are served: a conditional logit of whom each start crowded out.

    Parameters
    ----------
    log
        From `procure.account.layout.started_jobs`.
    nodes
        Node table.
    account
        Of the log: its limits, outages and pause hold jobs, not the order.

    Returns
    -------
    list of Rule
        A weight each: of the logarithms of seconds waited (age), CPUs (size) and seconds asked for, of the user's
        recent use, and of partitions; none where fewer than 200 choices on four days show any.
    """
    laid = with_limits(lay_out(log, nodes, part=True), account.limits)
    if account.outages:
        laid = with_outages(laid, *columns_of(account.outages))
    pause = np.full(len(log), account.pause, np.int64)
    laid = laid._replace(centre=laid.centre._replace(pause=pause))
    sets = choice_sets(laid, np.random.default_rng(0))
    day = sets.at // DAY
    if len(sets.at) < LEAST_CHOICES or len(np.unique(day)) < LEAST_DAYS:
        return []
    job = sets.job
    now = np.repeat(sets.at, np.diff(sets.first))
    columns = {"age": np.log1p(now - laid.log.submit[job])}
    columns |= {name: values[job] for name, values in _static(laid.jobs, laid.log.cpus).items()}
    columns["use"] = np.log1p(USE * sets.use)
    if "partition" in laid.jobs:
        text = laid.jobs["partition"].fillna("").astype(str).to_numpy()[job]
        names = pd.Series(text).value_counts().drop("", errors="ignore")
        # The most frequent one is what the others are beside.
        for name in names.index[1 : MOST_PARTITIONS + 1]:
            columns[f"partition {name}"] = (text == name).astype(np.float64)
    kept = {name: values for name, values in columns.items() if _differs(values, sets.first)}
    if not kept:
        return []
    found = fit_logit(np.stack(list(kept.values()), axis=1), sets.first, day)
    return [
        Rule(
            kind="order",
            subject=name,
            value=round(float(found.value[i]), 4),
            evidence=f"{len(sets.at):,} starts that crowded others out; 95 % interval by days {found.low[i]:.2g} to "
            f"{found.high[i]:.2g}; by chance {found.chance[i]:.1g}",
        )
        for i, name in enumerate(kept)
        if found.chance[i] < CHANCE and round(float(found.value[i]), 4)
    ]


def _differs(values: np.ndarray, first: np.ndarray) -> bool:
    """Say whether a feature differs within any set."""
    low, high = np.minimum.reduceat(values, first[:-1]), np.maximum.reduceat(values, first[:-1])
    return bool((high > low).any())


@order
class ByWeights(NamedTuple):
    """The job of the most weight."""

    fixed: np.ndarray  # float64[n_jobs], what its size, time and partition weigh
    age: float
    use: float
    user: np.ndarray  # int64[n_jobs]
    usage: Usage

    def score(self, state, job):
        """Return a job's score: the lowest is served first."""
        now = state.now[0]
        weight = self.fixed[job] + self.age * np.log1p(now - state.submit[job])
        if self.use != 0.0:
            weight += self.use * np.log1p(USE * share_of(self.usage, self.user[job], now))
        return -weight


def make_order(state: State, jobs: pd.DataFrame, rules: Iterable[Rule], usage: Usage) -> ByWeights | None:
    """Return the order of a run that the rules of a site make; None where there is none."""
    weights = {rule.subject: number(rule.value) for rule in rules if rule.kind == "order"}
    if not weights:
        return None
    table = pd.DataFrame({"requested_time": state.requested})
    fixed = np.zeros(len(state.submit))
    for name, values in _static(table, state.cpus * state.n_nodes).items():
        fixed += weights.get(name, 0.0) * values
    if "partition" in jobs:
        named = jobs["partition"].fillna("").astype(str)
        fixed += named.map(lambda one: weights.get(f"partition {one}", 0.0)).to_numpy(np.float64)
    age, use = float(weights.get("age", 0.0)), float(weights.get("use", 0.0))
    return ByWeights(fixed, age, use, np.asarray(state.user, np.int64), usage)
