"""The rule of choice by an inner backtest: which rule has chosen best at earlier cuts of the same log."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.objectives.aggregate import RANK_POWER, REGRET_FLOOR, behind_on_past, class_shares, rank_shares
from procure.recommender.candidates import Candidates, between
from procure.tables import with_clock_of
from procure.text import counted
from procure.workload.futures import HOUR, WEEK, Futures, draw_futures
from procure.workload.past import N_PARTS, scenario_weights

FIXED = "recommended"
"""The rule without an inner backtest, and where its evidence is not enough."""
MAX_CUTS = 6
"""Earlier cuts that are replayed: the latest, a week apart."""
MIN_CUTS = 4
"""With fewer earlier cuts the fixed rule stays."""
N_HALVES, MIN_AGREEING = 30, 0.5
"""A rule is chosen if it is better than the fixed one with all candidates, and in such a share of random halves of them
(chosen on cuts before 5 May, docs/claims/forward.md)."""
N_INNER, N_INNER_DRAWS = 40, 4
"""Candidates and futures of an earlier cut, at most."""


class EarlierCut(NamedTuple):
    """What the rules knew at an earlier cut, and what came after it.

    Mean waits by class, s: ``past`` float64[1 + parts, 1 + classes, packages], ``futures`` float64[futures,
    1 + classes, packages]; ``came``, of all jobs, float64[packages].
    """

    name: str
    past: np.ndarray
    futures: np.ndarray
    came: np.ndarray


class Evidence(NamedTuple):
    """What earlier cuts say of the rules.

    ``ratios`` are waits on each rule's choice over those on the best candidate: a row a cut, a column a rule.
    ``agreeing`` is the share of random halves of the candidates in which ``leader`` is better than the fixed rule.
    ``n_runs`` is what the replays took.
    """

    ratios: pd.DataFrame
    leader: str
    agreeing: float
    n_runs: int = 0

    @property
    def chosen(self) -> str:
        """The leader, where the evidence is enough; else the fixed rule."""
        return self.leader if len(self.ratios) >= MIN_CUTS and self.agreeing >= MIN_AGREEING else FIXED

    def sentence(self) -> str:
        """Say which rule is chosen, and from what."""
        mean = np.exp(np.log(self.ratios).mean()).sort_values(kind="stable")
        shown = ", ".join(f"{rule} {value:.2f}" for rule, value in mean.items())
        cuts = f"{counted(len(self.ratios), 'earlier cut')} of this log ({', '.join(self.ratios.index)})"
        text = f"at {cuts} the choice waited so many times the best (geometric mean): {shown}"
        if self.chosen != FIXED:
            return (
                f"{text}; chosen: {self.chosen}, ahead of {FIXED} in {self.agreeing:.0%} of random halves of packages"
            )
        if self.leader == FIXED:
            return f"{text}; chosen: {FIXED}"
        why = f"{self.leader} is ahead in {self.agreeing:.0%} of random halves of the packages, not {MIN_AGREEING:.0%}"
        if len(self.ratios) < MIN_CUTS:
            why = f"{MIN_CUTS} earlier cuts are needed"
        return f"{text}; chosen: {FIXED}, the fixed rule, for {why}"

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "rule": self.chosen,
            "leader": self.leader,
            "share_of_halves": self.agreeing,
            "n_runs": self.n_runs,
            "cuts": [{"cut": name, **row} for name, row in self.ratios.to_dict(orient="index").items()],
        }


def rule_figures(past: np.ndarray, futures: np.ndarray) -> dict[str, np.ndarray]:
    """Return what each rule orders packages by, the least first, float64[packages] each.

    Parameters
    ----------
    past, futures
        As in `EarlierCut`.
    """
    on_past, weights = class_shares(past), np.array(scenario_weights(1))
    every = np.vstack([on_past, class_shares(futures).mean(axis=0)])
    return {
        FIXED: np.average(every, axis=0, weights=weights) + behind_on_past(past[0, 0]),
        "past": past[0, 0],
        "past-and-parts": np.average(on_past, axis=0, weights=weights[:-1]),
        "futures": (rank_shares(futures[:, 0]) ** RANK_POWER).mean(axis=0),
        "futures-mean": futures[:, 0].mean(axis=0),
    }


def weigh_rules(cuts: Sequence[EarlierCut], seed: int = 1) -> Evidence:
    """Judge each rule's choice at earlier cuts by what came.

    Parameters
    ----------
    cuts
        One or more, of the same candidates.
    seed
        Of the random halves of the candidates.

    Notes
    -----
    The leader has the least geometric mean of the wait over the best candidate's, both at least a minute. A tie goes to
    the fixed rule. With few candidates who leads is a matter of which were drawn: so each random half of them, the same
    at every cut, chooses and is judged by itself, and the lead over the fixed rule must hold in most.
    """
    every = np.arange(len(cuts[0].came))
    ratios = pd.DataFrame([_ratios(cut, every) for cut in cuts], index=[cut.name for cut in cuts])
    mean = np.log(ratios).mean()
    leader = str(mean.index[int(np.argmin(mean.round(9)))])
    if leader == FIXED:
        return Evidence(ratios, leader, 1.0)
    rng, ahead = np.random.default_rng([seed, 3]), 0
    for _ in range(N_HALVES):
        half = rng.permutation(every)[: max(2, len(every) // 2)]
        log = np.log(pd.DataFrame([_ratios(cut, half) for cut in cuts]))
        ahead += bool((log[leader] - log[FIXED]).mean() < -1e-9)
    return Evidence(ratios, leader, ahead / N_HALVES)


def _ratios(cut: EarlierCut, rows: np.ndarray) -> dict[str, float]:
    """Return each rule's ratio at a cut, if only some packages are there."""
    came = np.maximum(cut.came[rows], REGRET_FLOOR)
    figures = rule_figures(cut.past[..., rows], cut.futures[..., rows])
    return {rule: float(came[figure.argmin()] / came.min()) for rule, figure in figures.items()}


def earlier_moments(first: int, cut: int, most: int = MAX_CUTS) -> list[int]:
    """Return earlier cuts, s, each a week before the next: three weeks or more of the log before, one or more after."""
    found = [cut - WEEK * i for i in range(1, most + 1)]
    return sorted(at for at in found if at - first >= 3 * WEEK - HOUR)


def replay_earlier(
    bench: Candidates,
    jobs: pd.DataFrame,
    settings: Futures,
    warm_up: int,
    named: Sequence[tuple[str, int]],
    seed: int = 1,
) -> Evidence | None:
    """Replay earlier cuts of the jobs before a cut, and weigh the rules by them; None where no cut can be replayed.

    At each the jobs before it are replayed, since later ones may overtake those that still wait, and futures drawn from
    them, with the study's settings, `N_INNER_DRAWS` at most. One replay of all jobs a package gives what came after.

    Parameters
    ----------
    bench
        The candidates; the first `N_INNER` of them take part.
    jobs
        Those before the cut.
    settings
        Of the futures; each cut is judged over their length at most.
    warm_up
        s from the first submission, and of each future, that are not counted.
    named
        The earlier cuts, from `earlier_moments`, with what they are called.
    seed
        Of the random halves.
    """
    rows = np.arange(min(N_INNER, len(bench.ids)))
    if len(rows) < 2 or not named:
        return None
    first, end = int(jobs["submit_time"].min()), int(jobs["submit_time"].max()) + 1
    settings = settings.model_copy(update={"draws": min(settings.draws, N_INNER_DRAWS)})
    after = [(at - first, min(at + settings.length, end) - first) for _, at in named]
    came = bench.waits_between(bench.lay_out(jobs, warm_up), rows, after)[:, 0]
    found, n_runs = [], len(rows)
    for (name, at), later in zip(named, came, strict=True):
        before = between(jobs, first, at)
        with_clock_of(jobs, before)
        try:
            drawn = list(draw_futures(before, settings))
        except TableError:  # too few whole weeks
            continue
        edges = [warm_up + (at - first - warm_up) * i // N_PARTS for i in range(N_PARTS + 1)]
        past = bench.waits_between(bench.lay_out(before, warm_up), rows, [(warm_up, at - first), *pairwise(edges)])
        futures = np.array([bench.waits_by_class(bench.lay_out(one, warm_up), rows) for one in drawn])
        n_runs += (1 + futures.shape[0]) * len(rows)
        if not (np.isnan(past[:, 0]).any() or np.isnan(later).any() or np.isnan(futures[:, 0]).any()):
            found.append(EarlierCut(name, past, futures, later))
    return weigh_rules(found, seed)._replace(n_runs=n_runs) if found else None
