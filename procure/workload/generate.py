"""A workload made up from a recipe, the same for the same seed; two recipes are embedded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from procure.errors import TableError
from procure.schemas import JOB
from procure.settings import Count, NaturalInt, PositiveInt, Settings, read_toml, validated
from procure.tables import check, with_clock
from procure.text import nearest
from procure.workload.campus import DAY, Campus, Drawn, amounts, draw_campus, quotas, submissions

DEFAULT_RECIPE = Path(__file__).with_name("default.toml")
"""The recipe of a day in the shape of a published one, which `generate` makes if no other is named."""

RECIPES = {"published-day": DEFAULT_RECIPE, "campus": Path(__file__).with_name("campus.toml")}
"""The embedded recipes by name."""

MOST_JOBS = 1_000_000
"""A made-up day has at most this many jobs: sixty times the default, and half a minute's work."""


Share = Annotated[float, Field(ge=0)]


class Runs(Settings):
    """A share of the jobs whose run time lies between ``low`` and ``high`` times their limit."""

    share: Share
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)


class Bursts(Settings):
    """How jobs bunch: sizes of bursts, how a burst is submitted, and at what hour it begins."""

    median_jobs: float = Field(gt=0)
    spread: float = Field(ge=0)
    max_jobs: PositiveInt
    array_share: float = Field(ge=0, le=1)
    gap: float = Field(gt=0)
    by_hour: tuple[Share, ...] = Field(min_length=24, max_length=24)


class Recipe(Settings):
    """What a generated workload is made of.

    ``shapes`` are (CPUs, GB, GPUs, jobs), ``limits`` (seconds, share); ``first_second`` is the Unix
    time at which the day begins.
    """

    name: str
    meaning: str = ""
    n_jobs: PositiveInt
    first_second: int = Field(ge=0, le=2**40)
    n_users: Count
    shapes: tuple[tuple[PositiveInt, float, NaturalInt, Share], ...] = Field(min_length=1)
    limits: tuple[tuple[NaturalInt, Share], ...] = Field(min_length=1)
    runs: tuple[Runs, ...] = Field(min_length=1)
    bursts: Bursts


def load_recipe(path: str | Path = DEFAULT_RECIPE) -> Recipe | Campus:
    """Read an embedded recipe by its name (`RECIPES`), or one from a TOML file; with ``kinds``, it is one of weeks.

    Raises
    ------
    TableError
        The file is missing, not TOML, or not a legal recipe.
    """
    text = str(path)
    if text not in RECIPES and not text.endswith(".toml"):
        raise TableError(f"{text!r} is no recipe, which is a .toml file or an embedded one; {nearest(text, RECIPES)}")
    return _embedded(text) if text in RECIPES else _read_recipe(Path(path))


@cache
def _embedded(name: str) -> Recipe | Campus:
    return _read_recipe(RECIPES[name])


def _read_recipe(path: Path) -> Recipe | Campus:
    table = read_toml(path)
    return validated(Campus, table, str(path)) if "kinds" in table else validated(Recipe, table, str(path))


@cache
def recipe_jobs(name: str) -> int:
    """Return how many jobs an embedded recipe makes by default."""
    return load_recipe(name).n_jobs


def generate(seed: int, n_jobs: int | None = None, recipe: Recipe | Campus | str | None = None) -> pd.DataFrame:
    """Return a workload made up from a recipe: a day, or some weeks of sessions.

    Of a day, what jobs ask for follows the recipe's table exactly (by largest remainders if ``n_jobs`` differs from
    the recipe's); which user submits what, when, with which limit and run time is drawn. Of weeks, each kind of user
    has its share of the jobs exactly, and all else is drawn; with fewer jobs, as many weeks have less load.

    Parameters
    ----------
    seed
        The same seed gives the same table.
    n_jobs
        How many jobs; None is the recipe's number.
    recipe
        From `load_recipe`, or what it takes; None is ``published-day``, shaped like the day of the procurement
        study's Table 3.3.

    Returns
    -------
    pandas.DataFrame
        A job table in order of submission, single-node jobs, run times within limits.

    Raises
    ------
    TableError
        ``n_jobs`` is below 1 or above `MOST_JOBS`, the seed negative, or the recipe not known.

    Examples
    --------
    >>> import procure
    >>> procure.generate(seed=1, n_jobs=3)["n_nodes"].to_list()
    [1, 1, 1]
    """
    recipe = load_recipe(recipe or DEFAULT_RECIPE) if recipe is None or isinstance(recipe, str) else recipe
    n_jobs = recipe.n_jobs if n_jobs is None else n_jobs
    if not 1 <= n_jobs <= MOST_JOBS:
        raise TableError(
            f"n_jobs is {n_jobs:,}; a day of 1 to {MOST_JOBS:,} jobs can be made up, and `procure workload slice` "
            "puts several together"
        )
    if seed < 0:
        raise TableError(f"the seed is {seed}; a seed is 0 or more")
    rng = np.random.default_rng(seed)
    drawn = draw_campus(recipe, n_jobs, rng) if isinstance(recipe, Campus) else _draw_day(recipe, n_jobs, rng)
    frame = pd.DataFrame(
        {
            "user": pd.Series(drawn.user).map("user{:02d}".format),
            "submit_time": recipe.first_second + drawn.submit,
            "requested_time": drawn.limit,
            "run_time": drawn.run,
            "cpus_per_node": drawn.cpus,
            "mem_mb_per_node": drawn.mem_mb,
            "gpus_per_node": drawn.gpus,
        }
    ).sort_values("submit_time", kind="stable", ignore_index=True)
    frame.insert(0, "job_id", [f"{i}" for i in range(1, n_jobs + 1)])
    return with_clock(check(frame, JOB, f"workload {recipe.name}"), "unix")


def _draw_day(recipe: Recipe, n_jobs: int, rng: np.random.Generator) -> Drawn:
    shape, size = _bursts(recipe, n_jobs, rng)
    limit = _limits(recipe, size, n_jobs, rng)
    user = _users(recipe, shape, rng)
    burst = np.repeat(np.arange(len(size)), size)
    submit = _submissions(recipe.bursts, size, rng)
    run = _run_times(recipe, limit[burst], rng)
    return Drawn(user[burst], submit, limit[burst], run, *amounts(recipe.shapes, shape[burst]))


def _bursts(recipe: Recipe, n_jobs: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Cut each shape's jobs into bursts; return the shape and the size of each burst."""
    counts = quotas(np.array([row[3] for row in recipe.shapes]), n_jobs)
    bursts = recipe.bursts
    shapes: list[int] = []
    sizes: list[int] = []
    for shape, left in enumerate(counts):
        while left > 0:
            drawn = np.exp(rng.normal(np.log(bursts.median_jobs), bursts.spread))
            size = int(min(np.ceil(drawn), bursts.max_jobs, left))
            shapes.append(shape)
            sizes.append(size)
            left -= size
    return np.array(shapes), np.array(sizes)


def _limits(recipe: Recipe, size: np.ndarray, n_jobs: int, rng: np.random.Generator) -> np.ndarray:
    """Give each burst a time limit so that the recipe's shares of the jobs are met closely.

    The largest bursts choose first, among the limits that still have room for all their jobs.
    """
    seconds = np.array([row[0] for row in recipe.limits], dtype=np.int64)
    left = quotas(np.array([row[1] for row in recipe.limits]), n_jobs).astype(np.float64)
    chosen = np.empty(len(size), dtype=np.int64)
    for burst in np.argsort(-size, kind="stable"):
        room = np.where(left >= size[burst], left, 0.0)
        pick = int(rng.choice(len(left), p=room / room.sum()) if room.any() else np.argmax(left))
        left[pick] -= size[burst]
        chosen[burst] = seconds[pick]
    return chosen


def _users(recipe: Recipe, shape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Give each burst a user: one of three users of its shape, some users being far busier than others."""
    busy = 1.0 / np.arange(1, recipe.n_users + 1)
    owners = rng.choice(recipe.n_users, size=(len(recipe.shapes), 3), p=busy / busy.sum())
    return owners[shape, rng.integers(0, 3, len(shape))]


def _submissions(bursts: Bursts, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return each job's second of the day."""
    weights = np.array(bursts.by_hour)
    hour = rng.choice(24, size=len(size), p=weights / weights.sum())
    begin = hour * 3600 + rng.integers(0, 3600, len(size))
    return submissions(begin, size, bursts.array_share, bursts.gap, DAY, rng)


def _run_times(recipe: Recipe, limit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw run times: kinds in exact shares, and within a kind evenly spread over its range."""
    counts = quotas(np.array([kind.share for kind in recipe.runs]), len(limit))
    fractions = [
        kind.low + (kind.high - kind.low) * (np.arange(n) + rng.random(n)) / max(n, 1)
        for kind, n in zip(recipe.runs, counts, strict=True)
    ]
    fraction = rng.permutation(np.concatenate(fractions))
    return np.minimum(np.ceil(fraction * limit).astype(np.int64), limit)
