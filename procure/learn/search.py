"""Direct search: a policy's numbers are tried on whole simulated days, and the better ones bred further."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from procure.errors import ArgumentError, TableError
from procure.learn.days import Day, known_at, on_day, quick_run, thinned
from procure.learn.features import (
    AGE,
    FEATURES,
    MARGIN,
    QUEUE_FEATURES,
    RECENT,
    REQUESTED,
    RUN_TIME,
    RUN_TIME_FEATURES,
)
from procure.learn.scores import PLACES
from procure.learn.store import TrainedPolicy
from procure.learn.weeks import FIGURES, MEAN_WAIT, P95, REFERENCE, SLOWDOWN, USERS, WEEK, WIDEST, figures_of
from procure.policies import catalog
from procure.policies.parameters import Parameters
from procure.policies.queue import Skipping
from procure.progress import silent
from procure.settings import MOST_PROCESSES, Count, Seed
from procure.workload.clock import day_bounds

CAUTION = 1.0
"""How much more a day counts on which a candidate is worse than the reference."""
KEPT = 0.9
"""Share of a day's jobs that a generation sees: other ones each time, so that no accident is learnt."""
BLOCKS = 3
"""A generation's days are simulated in so many blocks; after each, the worst quarter of the candidates ends."""
SPREAD = 0.3
"""Standard deviation of the numbers of the first generation."""
CHECK_EVERY = 10
"""Generations after which the centre of the search is judged on all days, whole."""


GUARDED, SLACK, GUARD = (P95, WIDEST), 0.0, 1.0
"""Inside EASY: waits whose means over the weeks must not grow; beyond ``SLACK``, a log ratio counts so much."""
PLACE = "best"
"""Where a job goes that is served inside EASY."""
PULL = 0.05
"""Inside EASY: how much the squared distance from where the search began counts against a candidate."""
FEWEST_AGE = 0.05
"""Inside EASY the weight of the age is at most minus this, so that every job is served first at last; a search begins
there, with half the weight on the request and half on what is recent."""
OBJECTIVES = {"slowdown": SLOWDOWN, "wait": MEAN_WAIT, "tail": P95, "users": USERS}
"""What is to be small: mean bounded slowdown, mean wait, its 95th percentile, or the mean over users of their waits."""
INSIDE = ("easy", "skip")
"""The order inside EASY, for weeks without a break; or whoever fits, for days from an empty system."""


@dataclass(frozen=True)
class Settings:
    """How to search.

    Attributes
    ----------
    inside
        One of `INSIDE`.
    objective
        One of `OBJECTIVES`; days from an empty system are searched for the mean wait only.
    generations
        How many; the same number and seed give the same policy.
    minutes
        Stop after so long even if there are generations left; then another machine may get less far.
    seed
        Of the search, the days of each generation and the jobs left out.
    n_hidden
        Hidden units of the network beside the linear part; 0 = linear only.
    population
        Candidates in a generation.
    days
        Days in a generation.
    processes
        That simulate.
    without
        Parts left out for an ablation: ``run_times`` (no history and no learning from ended jobs: the request
        stands for the run time), ``queue`` (no features of the queue), ``places`` (the first node that fits).

    Examples
    --------
    >>> import procure
    >>> procure.LearnSettings(generations=10, seed=7).population > 1
    True
    """

    generations: Annotated[
        Count,
        Field(
            description="search: generations of candidates after which it stops; the same number and seed give the "
            "same policy."
        ),
    ] = 150
    minutes: Annotated[float, Field(ge=0.01, description="Longest training time in minutes.")] = 10.0
    seed: Annotated[Seed, Field(description="The same seed gives the same policy.")] = 1
    n_hidden: int = 0
    population: int = 16
    days: int = 24
    processes: Annotated[int, Field(ge=1, le=MOST_PROCESSES, description="search: processes that simulate.")] = 2
    without: tuple[str, ...] = ()
    inside: Annotated[
        Literal["easy", "skip"],
        Field(
            description="search: easy = the order inside EASY, trained on weeks without a break; skip = whoever fits, "
            "trained on days from an empty system."
        ),
    ] = "easy"
    objective: Annotated[
        Literal["slowdown", "wait", "tail", "users"],
        Field(
            description="search inside easy: what is to be small: mean bounded slowdown, mean wait, its 95th "
            "percentile, or the mean of the users' mean waits."
        ),
    ] = "slowdown"


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    arrays
        See `procure.learn.store.TrainedPolicy`.
    objective
        Mean cautious log ratio to SJF on all training days.
    curve
        ``(generation, objective)`` each time that the centre was judged.
    n_simulations
        Days simulated.
    generations
        How many there were time for.
    untrained
        What was kept is the point from which the search began: nothing was learnt.
    """

    arrays: dict[str, np.ndarray]
    objective: float
    curve: list[tuple[int, float]]
    n_simulations: int
    generations: int
    untrained: bool = False


def objective_of(waits: np.ndarray, references: np.ndarray) -> float:
    """Return the mean over days of log(wait / reference), positive ones weighing 1 + `CAUTION` times.

    A minute is added to both, so that a day without waits is no infinity; no single day rules.
    """
    logs = np.log((waits + 60.0) / (references + 60.0))
    return float(np.where(logs > 0, (1.0 + CAUTION) * logs, logs).mean())


def weekly_objective(figures: np.ndarray, references: np.ndarray, objective: str) -> float:
    """Return the mean log ratio of what is to be small, and what the guarded waits grow by on the whole.

    No week rules by itself; in a single one the waits of two like policies differ by chance by a third and more.

    Parameters
    ----------
    figures, references
        float64[n_weeks, len(FIGURES)] of a candidate and of what it is held against.
    objective
        One of `OBJECTIVES`.
    """
    column = OBJECTIVES[objective]
    floor = 0.0 if column == SLOWDOWN else 60.0
    value = float(np.log((figures[:, column] + floor) / (references[:, column] + floor)).mean())
    for guarded in GUARDED:
        grown = math.log((figures[:, guarded].mean() + 60.0) / (references[:, guarded].mean() + 60.0))
        value += GUARD * max(grown - SLACK, 0.0)
    return value


def free_numbers(settings: Settings) -> tuple[np.ndarray, Callable[[np.ndarray], dict[str, np.ndarray]]]:
    """Return where a search begins, and how its numbers become a policy's arrays."""
    n_features, n_places = len(FEATURES), len(PLACES)
    allowed = np.ones(n_features, bool)
    if "queue" in settings.without:
        allowed[list(QUEUE_FEATURES)] = False
    if "run_times" in settings.without:
        allowed[list(RUN_TIME_FEATURES)] = False
    backfills = settings.inside == "easy"
    allowed[MARGIN] &= not backfills  # the nodes are chosen by the place
    columns = np.flatnonzero(allowed)
    places = 0 if backfills or "places" in settings.without else n_places
    hidden_shape = (settings.n_hidden, len(columns) + 2)
    begin = np.zeros(len(columns) + places + 1 + int(np.prod(hidden_shape)))
    first = {RUN_TIME: 1.0} if allowed[RUN_TIME] else {REQUESTED: 1.0}
    if backfills:
        first = {REQUESTED: 0.5, RECENT: 0.5} if allowed[RECENT] else {REQUESTED: 1.0}
        first |= {AGE: -FEWEST_AGE}
    for feature, weight in first.items():
        begin[np.flatnonzero(columns == feature)] = weight
    if places:
        begin[len(columns) + PLACES.index("imbalance")] = 1.0
    # Hidden units begin different from each other and without effect.
    units = np.zeros(hidden_shape)
    units[:, 1:-1] = 0.5 * np.random.default_rng(0).standard_normal((settings.n_hidden, len(columns)))
    begin[len(columns) + places + 1 :] = units.ravel()

    def arrays_of(numbers: np.ndarray) -> dict[str, np.ndarray]:
        weights, hidden = np.zeros(n_features), np.zeros((settings.n_hidden, n_features + 2))
        weights[columns] = numbers[: len(columns)]
        at = numbers[len(columns) :]
        costs = np.zeros(n_places)
        costs[:places] = at[:places]
        units = at[places + 1 :].reshape(hidden_shape)
        hidden[:, 0], hidden[:, -1] = units[:, 0], units[:, -1]
        hidden[:, 1 + columns] = units[:, 1:-1]
        if backfills:
            weights[AGE] = min(weights[AGE], -FEWEST_AGE)
            hidden[:, 1 + AGE] = 0.0
        trust = np.exp(np.clip(at[places : places + 1], -5.0, 5.0))
        return {"weights": weights, "hidden": hidden, "places": costs, "trust": trust}

    return begin, arrays_of


def search(
    days: Sequence[Day],
    settings: Settings | None = None,
    progress: Callable[[int, float], None] = silent,
) -> Found:
    """Search for the policy with the least objective over days, by covariance-matrix adaptation.

    Hansen and Ostermeier (2001), by the library ``cma``. All candidates of a generation see the same days
    with the same jobs left out; what is returned is the centre of the search at its best check on all days. Inside
    EASY, where such a check is half chance, it is the mean of the centres of the last half of the generations.

    Parameters
    ----------
    days
        From `procure.learn.days.lay_out_days`.
    progress
        Called with the generation and the objective of the best centre so far.

    Raises
    ------
    ArgumentError
        A setting that cannot be.
    TableError
        The extra ``learn`` is not installed.
    """
    try:
        import cma  # takes a second to import
    except ImportError:
        raise TableError("the search for a policy needs cma: pip install 'procure-hpc[learn]'") from None
    settings = settings or Settings()
    _check(settings)
    begin, arrays_of = free_numbers(settings)
    options = {"seed": settings.seed, "popsize": settings.population, "verbose": -9, "verb_log": 0}
    strategy = cma.CMAEvolutionStrategy(begin, SPREAD, options | {"maxiter": settings.generations, "tolfun": 0})
    rng = np.random.default_rng(settings.seed)
    began, backfills = time.monotonic(), settings.inside == "easy"
    with _workers(days, settings) as figures_under:
        whole: list[tuple[int, Any]] = [(i, None) for i in range(len(days))]
        references = figures_under([None], whole)[0]

        def judged(numbers: np.ndarray) -> float:
            return _objective(figures_under([arrays_of(numbers)], whole)[0], references, settings)

        best, least, n_simulations, generation = begin, judged(begin), 2 * len(days), 0
        curve, centres = [(0, least)], []
        while generation < settings.generations and time.monotonic() - began < 60 * settings.minutes:
            generation += 1
            asked = strategy.ask()
            chosen = rng.permutation(len(days))[: settings.days]
            seeds = rng.integers(0, 2**31, len(chosen)).tolist()
            parts = [(int(i), None if backfills else seed) for i, seed in zip(chosen, seeds, strict=True)]
            values, simulated = _race([arrays_of(numbers) for numbers in asked], parts, figures_under, settings)
            if backfills:
                values = [
                    value + PULL * float(((x - begin) ** 2).sum()) for value, x in zip(values, asked, strict=True)
                ]
            strategy.tell(asked, values)
            centres.append(strategy.mean.copy())
            n_simulations += simulated
            if generation % CHECK_EVERY == 0 or generation == settings.generations:
                centre = np.mean(centres[len(centres) // 2 :], axis=0) if backfills else strategy.mean.copy()
                value = judged(centre)
                n_simulations += len(days)
                if value < least or (backfills and value < curve[0][1]):
                    best, least = centre, value
                curve.append((generation, value))
                progress(generation, least)
    return Found(arrays_of(best), least, curve, n_simulations, generation, best is begin)


def _objective(figures: np.ndarray, references: np.ndarray, settings: Settings) -> float:
    if settings.inside == "easy":
        return weekly_objective(figures, references, settings.objective)
    return objective_of(figures[:, MEAN_WAIT], references[:, MEAN_WAIT])


def _check(settings: Settings) -> None:
    wrong = {
        "generations": settings.generations < 1,
        "minutes": not settings.minutes > 0,
        "population": settings.population < 4,
        "processes": settings.processes < 1,
        "days": settings.days < BLOCKS,
        "n_hidden": settings.n_hidden < 0,
        "inside": settings.inside not in INSIDE,
        "objective": settings.objective not in OBJECTIVES,
        "without": not set(settings.without) <= {"run_times", "queue", "places"},
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ArgumentError(name, f"{name}: {getattr(settings, name)!r} was given")


SJF = Skipping.model_validate({"order": "sjf"})
Candidate = dict[str, np.ndarray] | None
"""A policy's arrays; None = what it is held against."""
FiguresUnder = Callable[[Sequence[Candidate], list[tuple[int, Any]]], np.ndarray]
"""Figures [candidate, day, figure] of candidates on days given by (number, seed of the jobs left out)."""


def _race(
    candidates: list[dict[str, np.ndarray]], parts: list, figures_under: FiguresUnder, settings: Settings
) -> tuple[list[float], int]:
    """Return the objective of each candidate, and how many days were simulated.

    After each block of days a quarter of the candidates ends, those that are worst so far; they rank
    behind all that went on, in the order of when and how badly they ended.
    """
    size = -(-len(parts) // BLOCKS)
    going = list(range(len(candidates)))
    figures = np.full((len(candidates), len(parts), len(FIGURES)), np.nan)
    values = np.zeros(len(candidates))
    reference = np.empty(figures.shape[1:])
    simulated = 0
    for block in range(BLOCKS):
        columns = slice(block * size, min((block + 1) * size, len(parts)))
        found = figures_under([None, *(candidates[i] for i in going)], parts[columns])
        reference[columns], figures[going, columns] = found[0], found[1:]
        simulated += found.shape[0] * found.shape[1]
        for i in going:
            values[i] = _objective(figures[i, : columns.stop], reference[: columns.stop], settings)
        if columns.stop == len(parts):
            break
        ranked = sorted(going, key=lambda i: (values[i], i))
        keep = len(ranked) - len(candidates) // 4
        for i in ranked[keep:]:
            values[i] += 1000.0 * (BLOCKS - block)
        going = sorted(ranked[:keep])
    return values.tolist(), simulated


_DAYS: list[Day] = []


def _take(days: list[Day]) -> None:
    _DAYS[:] = days


def _figures(candidates: Sequence[Candidate], days: Sequence[Day], inside: str, part: tuple[int, Any]) -> np.ndarray:
    """Return the figures of candidates on one day or week, float64[n_candidates, len(FIGURES)]."""
    number, seed = part
    day = (days or _DAYS)[number]
    if seed is not None:
        keep = np.random.default_rng(seed).random(day.n_jobs) < KEPT
        keep[0] = keep[-1] = True
        day = thinned(day, keep)
    return np.array([figures_of(day.ready, *quick_run(day, candidate_of(day, each, inside))) for each in candidates])


def candidate_of(day: Day, arrays: Candidate, inside: str) -> Parameters:
    """Return the policy of a candidate on a day or week; without arrays, what it is held against."""
    if arrays is not None:
        return on_day(day, TrainedPolicy("search", arrays, None, {"inside": inside, "place": PLACE}))
    return SJF if inside == "skip" else catalog.spec(REFERENCE).parameters


@contextmanager
def _workers(days: Sequence[Day], settings: Settings) -> Iterator[FiguresUnder]:
    """Give a function that simulates candidates on days, in this process or in several; the figures are the same."""
    inside = settings.inside
    if settings.processes == 1:
        yield lambda candidates, parts: np.stack([_figures(candidates, days, inside, part) for part in parts], axis=1)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(settings.processes, context, initializer=_take, initargs=(list(days),)) as pool:
        yield lambda candidates, parts: np.stack(
            list(pool.map(partial(_figures, candidates, (), inside), parts)), axis=1
        )


def train_by_search(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: Sequence[Day],
    tz: str,
    settings: Settings | None = None,
    progress: Callable[[int, float], None] = silent,
) -> TrainedPolicy:
    """Search over days of a log, and return a policy that knows the run times up to the last of them.

    Parameters
    ----------
    jobs, nodes
        The tables from which the days were laid out.
    days, settings, progress
        As `search` takes them.
    tz
        The days' time zone.
    """
    settings = settings or Settings()
    found = search(days, settings, progress)
    _, end = day_bounds(days[-1].name, tz)
    backfills = settings.inside == "easy"
    trained = {
        "inside": settings.inside,
        "reference": REFERENCE if backfills else "sjf",
        "judged_on": settings.objective if backfills else "wait",
        "objective": found.objective,
        "untrained": found.untrained,
        "n_simulations": found.n_simulations,
        "generations": found.generations,
        "seed": settings.seed,
        "n_hidden": settings.n_hidden,
        "population": settings.population,
        "without": list(settings.without),
        "n_jobs": sum(day.ready.n_counted for day in days),
        "nodes": len(nodes),
        "cpus": int(nodes["cpus"].sum()),
        "tz": tz,
        "days": [day.name for day in days],
        "curve": [list(point) for point in found.curve],
    }
    if backfills:
        trained |= {"queue_order": "learned", "place": PLACE}
        end += WEEK - 86_400
    return TrainedPolicy("search", found.arrays, known_at(jobs, end), trained)
