"""How a package is chosen at a cut: by the rule of `recommend`, by futures, by the past, by its days, without runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from procure.objectives.aggregate import class_shares, pooled_mean
from procure.recommender.candidates import Candidates
from procure.recommender.chances import STATED, draw_periods, learn_drift
from procure.recommender.earlier_cuts import Evidence
from procure.recommender.heats import two_heats
from procure.recommender.learning import Note
from procure.recommender.race import Race, Score, as_it_is, by_rank, race, running_order
from procure.workload.clock import has_dates
from procure.workload.days import split_days
from procure.workload.futures import Futures, draw_futures
from procure.workload.past import N_PARTS, scenario_weights
from procure.workload.scale import cpu_seconds

N_HARDEST, N_PROBED = 5, 50
RULES = (
    "recommended", "by-backtest", "futures", "futures-mean", "past", "past-and-parts",
    "mean-day", "worst-day", "hardest-days", "cheapest-per-cpu", "most-cpus", "most-memory", "existing-mix",
)  # fmt: skip
"""How a package is chosen at a cut; see `procure.recommender.forward.forward`."""
SCORES: dict[str, Score] = {"futures": by_rank, "futures-mean": as_it_is}
"""By what the rules over futures race."""


@dataclass(frozen=True)
class Choice:
    """What a rule chose: a row of the candidates, after so many runs.

    ``figure`` is what it ordered ``rows`` by; ``stated`` are its chances to be the best and near it, and the 90 % range
    of its wait, s. ``of`` is the rule whose choice it is, where the rule only chooses among rules.
    """

    rule: str
    row: int
    n_runs: int = 0
    rows: np.ndarray | None = None
    figure: np.ndarray | None = None
    stated: tuple[float, float, float, float] = (np.nan, np.nan, np.nan, np.nan)
    raced: Race | None = None
    of: str = ""


def simulating(
    bench: Candidates, jobs: pd.DataFrame, settings: Futures, warm_up: int, runs: int, note: Note
) -> list[Choice]:
    """Choose by the rules that simulate."""
    every, futures = np.arange(len(bench.ids)), list(draw_futures(jobs, settings))
    parts = bench.past_by_part(bench.lay_out(jobs, warm_up), every[:runs])
    found = [_recommended(bench, parts, futures, warm_up, runs)]
    found += by_futures(bench, futures, warm_up, runs, note)
    past = bench.wait(bench.lay_out(jobs, warm_up), every[:runs])
    found.append(Choice("past", int(past.argmin()), len(past), every[:runs], past))
    both = np.average(class_shares(parts), axis=0, weights=scenario_weights(1)[:-1])
    found.append(Choice("past-and-parts", int(both.argmin()), len(past), every[:runs], both))
    return [*found, *by_days(bench, jobs, settings.tz, runs)] if has_dates(jobs) else found


def with_backtest(chosen: list[Choice], evidence: Evidence) -> list[Choice]:
    """Add the choice of the rule that earlier cuts say, after the recommended one; it takes their runs, too."""
    of = next(one for one in chosen if one.rule == evidence.chosen)
    return [chosen[0], replace(of, rule="by-backtest", of=of.rule, n_runs=of.n_runs + evidence.n_runs), *chosen[1:]]


def _recommended(bench: Candidates, parts: np.ndarray, futures: list[pd.DataFrame], warm_up: int, runs: int) -> Choice:
    """Choose by ``rank-by-class`` over the past, its parts and the futures, in two heats."""
    first = np.arange(min(parts.shape[-1], max(2, runs // 2)))
    past = parts[..., first]
    laid_out = [bench.lay_out(one, warm_up) for one in futures]
    heats = two_heats(
        past,
        np.array([*scenario_weights(1)]),
        lambda rows: np.array([bench.waits_by_class(one, rows) for one in laid_out]),
        min(len(first), max(2, (runs - len(first)) // len(futures))),
    )
    stated = _stated(heats.wait[1 + N_PARTS :], heats.wait[: 1 + N_PARTS], 0)
    n_runs = len(first) + len(heats.rows) * len(futures)
    return Choice("recommended", int(heats.rows[0]), n_runs, heats.rows, heats.figure, stated)


def _stated(futures: np.ndarray, past: np.ndarray | None, row: int) -> tuple[float, float, float, float]:
    """Return the chances of a package to be the best and near it, and the 90 % range of its wait.

    ``past`` holds the waits on the past, and on its parts below, where they were simulated.
    """
    rows = np.array([row])
    drift = STATED if past is None else learn_drift(past[1:], futures)
    look = draw_periods(futures, None if past is None else past[0], rows, drift)
    best, near = look.best_and_near(rows)
    every = futures[:, row] if past is None else np.append(futures[:, row], past[0, row])
    low, high = look.ranges(rows, np.array([every.mean()]))
    return float(best[0]), float(near[0]), float(low[0]), float(high[0])


def _raced(rule: str, raced: Race) -> Choice:
    rows = raced.finished
    stated = _stated(raced.filled, None, int(rows[0]))
    return Choice(rule, int(rows[0]), raced.n_runs, rows, raced.figure[rows], stated, raced)


def by_days(bench: Candidates, jobs: pd.DataFrame, tz: str | None, runs: int) -> list[Choice]:
    """Choose by the past's days, each from an empty system."""
    every, found = np.arange(len(bench.ids)), []
    by_day = split_days(jobs, tz or "UTC").values()
    days, weight = [bench.lay_out(day) for day in by_day], np.array([float(len(day)) for day in by_day])
    some = every[: max(1, runs // len(days))]
    waits = np.array([bench.wait(day, some) for day in days])
    for rule, figure in (("mean-day", pooled_mean(waits, weight[:, None])), ("worst-day", waits.max(axis=0))):
        found.append(Choice(rule, int(some[figure.argmin()]), waits.size, some, figure))
    probed = every[: min(N_PROBED, max(1, runs // (2 * len(days))))]
    probe = np.array([np.median(bench.wait(day, probed)) for day in days])
    hard = np.argsort(-probe, kind="stable")[:N_HARDEST]
    left = every[: max(1, (runs - len(probed) * len(days)) // len(hard))]
    figure = pooled_mean(np.array([bench.wait(days[i], left) for i in hard]), weight[hard, None])
    n_runs = len(probed) * len(days) + len(left) * len(hard)
    return [*found, Choice("hardest-days", int(left[figure.argmin()]), n_runs, left, figure)]


def by_futures(
    bench: Candidates,
    futures: list[pd.DataFrame],
    warm_up: int,
    runs: int,
    note: Note,
    scores: Mapping[str, Score] = SCORES,
) -> list[Choice]:
    """Choose by each score over the futures; what several run is simulated once, and counts for each."""
    known = np.full((len(futures), len(bench.ids)), np.nan)
    laid_out = [bench.lay_out(future, warm_up) for future in futures]

    def simulate(future: int, rows: np.ndarray) -> np.ndarray:
        new = rows[np.isnan(known[future, rows])]
        if len(new):
            known[future, new] = bench.wait(laid_out[future], new)
        return known[future, rows]

    order = running_order(np.array([cpu_seconds(one).sum() for one in futures]))
    found = []
    for rule, score in scores.items():
        found.append(_raced(rule, race(simulate, bench.features, order, runs, score=score)))
    note(f"futures: {int((~np.isnan(known)).sum()):,} runs")
    return found


def naive(bench: Candidates) -> list[Choice]:
    """Choose by the rules that do not simulate; ties go to the earlier package."""
    packages, existing = bench.plan.packages, bench.plan.existing
    cpus, mem, gpus = (packages[f"total_{name}"].to_numpy(dtype="float64") for name in ("cpus", "mem_gb", "gpus"))
    figures = {
        "cheapest-per-cpu": packages["price_usd"].to_numpy() / cpus,
        "most-cpus": -cpus,
        "most-memory": -mem,
    }
    if existing is not None and len(existing):
        had = [float(existing[name].sum()) for name in ("cpus", "mem_mb", "gpus")]
        per_cpu = np.log((mem * 1000 + 1) / cpus) - np.log((had[1] + 1) / had[0])
        figures["existing-mix"] = np.abs(per_cpu) + np.abs(np.log((gpus + 1) / cpus) - np.log((had[2] + 1) / had[0]))
    return [Choice(rule, int(figure.argmin())) for rule, figure in figures.items()]
