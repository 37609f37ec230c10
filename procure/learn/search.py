"""Direct search: a policy's numbers are tried on whole simulated days, and the better ones bred further."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from procure.errors import ArgumentError, TableError
from procure.learn.days import Day, known_at, on_day, quick_wait, thinned
from procure.learn.features import FEATURES, QUEUE_FEATURES
from procure.learn.scores import PLACES
from procure.learn.store import TrainedPolicy
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
CHECK_EVERY = 10
"""Generations after which the centre of the search is judged on all days, whole."""


@dataclass(frozen=True)
class Settings:
    """How to search.

    Attributes
    ----------
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
        Field(description="search: simulations after which it stops; the same number and seed give the same policy."),
    ] = 150
    minutes: Annotated[float, Field(ge=0.01, description="Longest training time in minutes.")] = 10.0
    seed: Annotated[Seed, Field(description="The same seed gives the same policy.")] = 1
    n_hidden: int = 0
    population: int = 16
    days: int = 24
    processes: Annotated[int, Field(ge=1, le=MOST_PROCESSES, description="search: processes that simulate.")] = 2
    without: tuple[str, ...] = ()


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
    """

    arrays: dict[str, np.ndarray]
    objective: float
    curve: list[tuple[int, float]]
    n_simulations: int
    generations: int


def objective_of(waits: np.ndarray, references: np.ndarray) -> float:
    """Return the mean over days of log(wait / reference), positive ones weighing 1 + `CAUTION` times.

    A minute is added to both, so that a day without waits is no infinity; no single day rules.
    """
    logs = np.log((waits + 60.0) / (references + 60.0))
    return float(np.where(logs > 0, (1.0 + CAUTION) * logs, logs).mean())


def free_numbers(settings: Settings) -> tuple[np.ndarray, Callable[[np.ndarray], dict[str, np.ndarray]]]:
    """Return where a search begins, and how its numbers become a policy's arrays."""
    n_features, n_places = len(FEATURES), len(PLACES)
    allowed = np.ones(n_features, bool)
    if "queue" in settings.without:
        allowed[list(QUEUE_FEATURES)] = False
    if "run_times" in settings.without:
        allowed[[FEATURES.index(name) for name in ("run_time", "known", "queue_run_time", "free_run_time")]] = False
    columns = np.flatnonzero(allowed)
    places = 0 if "places" in settings.without else n_places
    hidden_shape = (settings.n_hidden, len(columns) + 2)
    begin = np.zeros(len(columns) + places + 1 + int(np.prod(hidden_shape)))
    begin[np.flatnonzero(columns == FEATURES.index("requested" if not allowed[0] else "run_time"))] = 1.0
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
    with the same jobs left out; what is returned is the centre of the search at its best check on all days.

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
    strategy = cma.CMAEvolutionStrategy(begin, 0.3, options | {"maxiter": settings.generations, "tolfun": 0})
    rng = np.random.default_rng(settings.seed)
    began = time.monotonic()
    with _workers(days, settings.processes) as waits_of:
        whole = [(i, None) for i in range(len(days))]
        references = np.array([day.reference for day in days])

        def judged(numbers: np.ndarray) -> float:
            return objective_of(waits_of([arrays_of(numbers)], whole)[0], references)

        best, least, n_simulations, generation = begin, judged(begin), len(days), 0
        curve = [(0, least)]
        while generation < settings.generations and time.monotonic() - began < 60 * settings.minutes:
            generation += 1
            asked = strategy.ask()
            chosen = rng.permutation(len(days))[: settings.days]
            parts = [(int(i), int(seed)) for i, seed in zip(chosen, rng.integers(0, 2**31, len(chosen)), strict=True)]
            values, simulated = _race([arrays_of(numbers) for numbers in asked], parts, waits_of)
            strategy.tell(asked, values)
            n_simulations += simulated
            if generation % CHECK_EVERY == 0 or generation == settings.generations:
                value = judged(strategy.mean)
                n_simulations += len(days)
                if value < least:
                    best, least = strategy.mean.copy(), value
                curve.append((generation, value))
                progress(generation, least)
    return Found(arrays_of(best), least, curve, n_simulations, generation)


def _check(settings: Settings) -> None:
    wrong = {
        "generations": settings.generations < 1,
        "minutes": not settings.minutes > 0,
        "population": settings.population < 4,
        "processes": settings.processes < 1,
        "days": settings.days < BLOCKS,
        "n_hidden": settings.n_hidden < 0,
        "without": not set(settings.without) <= {"run_times", "queue", "places"},
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ArgumentError(name, f"{name}: {getattr(settings, name)!r} was given")


SJF = Skipping.model_validate({"order": "sjf"})
Waits = Callable[[list[dict[str, np.ndarray] | None], list[tuple[int, Any]]], np.ndarray]
"""Mean waits [candidate, day] of candidates (None = SJF) on days given by (number, seed of the jobs left out)."""


def _race(candidates: list[dict[str, np.ndarray]], parts: list, waits_of: Waits) -> tuple[list[float], int]:
    """Return the objective of each candidate, and how many days were simulated.

    After each block of days a quarter of the candidates ends, those that are worst so far; they rank
    behind all that went on, in the order of when and how badly they ended.
    """
    size = -(-len(parts) // BLOCKS)
    going = list(range(len(candidates)))
    waits = np.full((len(candidates), len(parts)), np.nan)
    values = np.zeros(len(candidates))
    reference = np.empty(len(parts))
    simulated = 0
    for block in range(BLOCKS):
        columns = slice(block * size, min((block + 1) * size, len(parts)))
        found = waits_of([None, *(candidates[i] for i in going)], parts[columns])
        reference[columns], waits[going, columns] = found[0], found[1:]
        simulated += found.size
        for i in going:
            values[i] = objective_of(waits[i, : columns.stop], reference[: columns.stop])
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


def _waits(candidates: list[dict[str, np.ndarray] | None], days: Sequence[Day], part: tuple[int, Any]) -> np.ndarray:
    """Return the mean waits of candidates on one day, float64[n_candidates]."""
    number, seed = part
    day = (days or _DAYS)[number]
    if seed is not None:
        keep = np.random.default_rng(seed).random(day.n_jobs) < KEPT
        keep[0] = True
        day = thinned(day, keep)
    found = []
    for arrays in candidates:
        if arrays is None:
            found.append(quick_wait(day, SJF))
        else:
            found.append(quick_wait(day, on_day(day, TrainedPolicy("search", arrays))))
    return np.array(found)


@contextmanager
def _workers(days: Sequence[Day], processes: int) -> Iterator[Waits]:
    """Give a function that simulates candidates on days, in this process or in several; the waits are the same."""
    if processes == 1:
        yield lambda candidates, parts: np.stack([_waits(candidates, days, part) for part in parts], axis=1)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=_take, initargs=(list(days),)) as pool:
        yield lambda candidates, parts: np.stack(list(pool.map(partial(_waits, candidates, ()), parts)), axis=1)


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
    trained = {
        "reference": "sjf",
        "objective": found.objective,
        "n_simulations": found.n_simulations,
        "generations": found.generations,
        "seed": settings.seed,
        "n_hidden": settings.n_hidden,
        "population": settings.population,
        "without": list(settings.without),
        "n_jobs": sum(day.n_jobs for day in days),
        "nodes": len(nodes),
        "cpus": int(nodes["cpus"].sum()),
        "tz": tz,
        "days": [day.name for day in days],
        "curve": [list(point) for point in found.curve],
    }
    return TrainedPolicy("search", found.arrays, known_at(jobs, end), trained)
