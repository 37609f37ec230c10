"""Direct search: the weights of an order are tried on whole simulated weeks, and the better ones bred further."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from procure.errors import ArgumentError, need
from procure.learn.features import AGE, FEATURES, RECENT, REQUESTED, known_at
from procure.learn.order import NAME, PLACE, at_hand
from procure.learn.store import SEARCHED, TrainedPolicy
from procure.learn.weeks import (
    P95,
    REFERENCE,
    SLOWDOWN,
    WEEK,
    WIDEST,
    DayFilter,
    Period,
    figures_of,
    lay_out,
)
from procure.progress import silent
from procure.run import run_prepared
from procure.settings import MOST_PROCESSES, Count, Seed
from procure.text import counted
from procure.workload.clock import day_bounds

BLOCKS = 3
"""A generation's weeks are simulated in so many blocks; after each, the worst quarter of the candidates ends."""
SPREAD = 0.3
"""Standard deviation of the numbers of the first generation."""
CHECK_EVERY = 10
"""Generations after which the centre of the search is judged on all weeks."""
GUARDED = (P95, WIDEST)
"""Waits whose means over the weeks must not grow: what they grow by, as a log ratio, counts against a candidate."""
PULL = 0.05
"""How much the squared distance from where the search began counts against a candidate."""
FEWEST_AGE = 0.05
"""The weight of the age is at most minus this, so that every job is served first at last; a search begins there, with
half the weight on the request and half on what is recent."""


@dataclass(frozen=True)
class Settings:
    """How to search: fields without a description are candidates, and weeks, in a generation.

    Examples
    --------
    >>> import procure
    >>> procure.LearnSettings(generations=10, seed=7).population > 1
    True
    """

    REMOVED: ClassVar = {"objective": "the mean bounded slowdown is what a search makes small"}
    generations: Annotated[
        Count,
        Field(description="search: generations of candidates; the same number and seed give the same policy."),
    ] = 150
    minutes: Annotated[float, Field(ge=0.01, description="Longest training time in minutes.")] = 10.0
    seed: Annotated[Seed, Field(description="The same seed gives the same policy.")] = 1
    processes: Annotated[int, Field(ge=1, le=MOST_PROCESSES, description="search: processes that simulate.")] = 2
    population: int = 16
    weeks: int = 24


def weekly_objective(figures: np.ndarray, references: np.ndarray) -> float:
    """Return the mean log ratio of the mean bounded slowdown, and what the guarded waits grow by on the whole.

    No week rules by itself; in a single one the waits of two like policies differ by chance by a third and more.
    The figures, float64[n_weeks, len(FIGURES)], are of a candidate and of what it is held against.
    """
    value = float(np.log(figures[:, SLOWDOWN] / references[:, SLOWDOWN]).mean())
    for guarded in GUARDED:
        grown = math.log((figures[:, guarded].mean() + 60.0) / (references[:, guarded].mean() + 60.0))
        value += max(grown, 0.0)
    return value


def start_of_search() -> np.ndarray:
    """Return the numbers from which a search begins: a weight per feature, and the logarithm of the trust."""
    begin = np.zeros(len(FEATURES) + 1)
    begin[[REQUESTED, RECENT, AGE]] = 0.5, 0.5, -FEWEST_AGE
    return begin


def arrays_of(numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of the policy that a search's numbers stand for."""
    weights = numbers[:-1].copy()
    weights[AGE] = min(weights[AGE], -FEWEST_AGE)
    return {"weights": weights, "trust": np.exp(np.clip(numbers[-1:], -5.0, 5.0))}


def search(
    weeks: Sequence[Period], settings: Settings | None = None, progress: Callable[[int, float], None] = silent
) -> TrainedPolicy:
    """Search for the policy with the least objective over weeks, by covariance-matrix adaptation.

    Hansen and Ostermeier (2001), by the library ``cma``. All candidates of a generation see the same weeks. A check
    of one centre is half chance, so what is kept is the mean of the centres of the last half of the generations. The
    policy has no history yet; ``progress`` gets the generation and the objective of the best centre so far.
    """
    cma = need("cma", "learn")
    settings = settings or Settings()
    _check(settings)
    begin, began = start_of_search(), time.monotonic()
    options = {"seed": settings.seed, "popsize": settings.population, "verbose": -9, "verb_log": 0}
    strategy = cma.CMAEvolutionStrategy(begin, SPREAD, options | {"maxiter": settings.generations, "tolfun": 0})
    rng = np.random.default_rng(settings.seed)
    runs = [run_prepared(week.ready, REFERENCE) for week in weeks]
    references = np.array([figures_of(week.ready, run.start, run.end) for week, run in zip(weeks, runs, strict=True)])
    with ThreadPoolExecutor(settings.processes) as pool:  # the compiled loop holds no lock

        def figures_under(asked: Sequence[np.ndarray], chosen: np.ndarray) -> np.ndarray:
            candidates = [TrainedPolicy(SEARCHED, arrays_of(numbers)) for numbers in asked]
            return np.stack(list(pool.map(partial(_figures, candidates), [weeks[i] for i in chosen])), axis=1)

        def judged(numbers: np.ndarray) -> float:
            figures = figures_under([numbers], np.arange(len(weeks)))[0]
            return weekly_objective(figures, references)

        best, least, n_simulations, generation = begin, judged(begin), 2 * len(weeks), 0
        curve, centres = [[0, least]], []
        while generation < settings.generations and time.monotonic() - began < 60 * settings.minutes:
            generation += 1
            asked = strategy.ask()
            chosen = rng.permutation(len(weeks))[: settings.weeks]
            rng.integers(0, 2**31, len(chosen))  # of no use since days are whole; the published figures drew them
            values, simulated = _race(asked, chosen, references[chosen], figures_under)
            pulls = [PULL * float(((numbers - begin) ** 2).sum()) for numbers in asked]
            strategy.tell(asked, [value + pull for value, pull in zip(values, pulls, strict=True)])
            centres.append(strategy.mean.copy())
            n_simulations += simulated
            if generation % CHECK_EVERY == 0 or generation == settings.generations:
                centre = np.mean(centres[len(centres) // 2 :], axis=0)
                curve.append([generation, judged(centre)])
                n_simulations += len(weeks)
                if curve[-1][1] < curve[0][1]:
                    best, least = centre, curve[-1][1]
                progress(generation, least)
    record = {"objective": least, "untrained": best is begin, "n_simulations": n_simulations, "curve": curve}
    return TrainedPolicy(SEARCHED, arrays_of(best), None, record | {"generations": generation})


def _check(settings: Settings) -> None:
    for name, fewest in {"generations": 1, "population": 4, "processes": 1, "weeks": BLOCKS, "minutes": 0.01}.items():
        if not (value := getattr(settings, name)) >= fewest:
            raise ArgumentError(name, f"{name}: {value!r} was given; it must be at least {fewest}")


def _figures(candidates: Sequence[TrainedPolicy], week: Period) -> np.ndarray:
    """Return the figures of candidates on one week, float64[n_candidates, len(FIGURES)]."""
    runs = [run_prepared(week.ready, at_hand(each, week)) for each in candidates]
    return np.array([figures_of(week.ready, run.start, run.end) for run in runs])


def _race(
    asked: Sequence[np.ndarray],
    chosen: np.ndarray,
    references: np.ndarray,
    figures_under: Callable[[Sequence[np.ndarray], np.ndarray], np.ndarray],
) -> tuple[list[float], int]:
    """Return the objective of each candidate on the chosen weeks, and how many weeks were simulated.

    After each block of weeks a quarter of the candidates ends, those that are worst so far; they rank
    behind all that went on, in the order of when and how badly they ended.
    """
    size, simulated = -(-len(chosen) // BLOCKS), 0
    going = list(range(len(asked)))
    figures, values = np.full((len(asked), *references.shape), np.nan), np.zeros(len(asked))
    for block in range(BLOCKS):
        stop = min((block + 1) * size, len(chosen))
        part = slice(block * size, stop)
        figures[going, part] = figures_under([asked[i] for i in going], chosen[part])
        simulated += len(going) * (stop - block * size)
        for i in going:
            values[i] = weekly_objective(figures[i, :stop], references[:stop])
        if stop == len(chosen):
            break
        going.sort(key=lambda i: (values[i], i))
        keep = len(going) - len(asked) // 4
        for i in going[keep:]:
            values[i] += 1000.0 * (BLOCKS - block)
        going = going[:keep]
    return values.tolist(), simulated


def learn_policy(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    days: DayFilter | None = None,
    settings: Settings | None = None,
    *,
    note: Callable[[str], None] = silent,
) -> TrainedPolicy:
    """Train a policy: weeks without a break are simulated under thousands of candidates.

    Parameters
    ----------
    jobs, nodes
        Tables; the jobs with Unix times.
    days
        On which weeks to train.
    note
        Called with what is being done.

    Returns
    -------
    TrainedPolicy
        `procure.write_policy` keeps it for ``--policy learned:file=FILE``.

    Raises
    ------
    TableError
        No such week.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=300)
    >>> days = procure.DayFilter(min_jobs=10, min_wait=0)
    >>> settings = procure.LearnSettings(generations=1, population=4, processes=1)
    >>> nodes = procure.fat_tree(1, 1, 4, cpus=64, mem_mb=512_000)
    >>> procure.learn_policy(jobs, nodes, days, settings).method
    'search'
    """
    days, settings, began = days or DayFilter(), settings or Settings(), time.perf_counter()

    def say(generation: int, objective: float) -> None:
        seconds = time.perf_counter() - began
        note(f"generation {generation}, {seconds:.0f} s: best objective {objective:.4f}")

    note(f"simulating the weeks under {REFERENCE}")
    weeks = lay_out(jobs, nodes, days)
    note(f"training on {counted(len(weeks), 'week')}, {weeks[0].name} to {weeks[-1].name}")
    found = search(weeks, settings, say)
    about = {
        "reference": REFERENCE,
        "seed": settings.seed,
        "n_jobs": sum(week.ready.n_counted for week in weeks),
        "nodes": len(nodes),
        "cpus": int(nodes["cpus"].sum()),
        "tz": days.tz,
        "weeks": [week.name for week in weeks],
        "queue_order": NAME,
        "place": PLACE,
    }
    end = day_bounds(weeks[-1].name, days.tz)[1] + WEEK - 86_400
    return replace(found, history=known_at(jobs, end), trained=dict(found.trained) | about)
