"""A workload made up from a recipe, the same for the same seed: a day, or weeks of kinds of users and their sessions.

Two recipes are embedded; a recipe with ``kinds`` is one of weeks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import AfterValidator, Field, field_validator, model_validator

from procure.errors import TableError
from procure.schemas import JOB
from procure.settings import Count, Name, NaturalInt, PositiveInt, Settings, read_toml, validated
from procure.tables import check, with_clock
from procure.text import nearest

DAY, HOUR = 86_400, 3600
WEEK = 7 * DAY
DEFAULT_RECIPE = Path(__file__).with_name("default.toml")
"""The recipe of a day in the shape of a published one, which `generate` makes if no other is named."""
RECIPES = {"published-day": DEFAULT_RECIPE, "campus": Path(__file__).with_name("campus.toml")}
"""The embedded recipes by name."""
MOST_JOBS = 10_000_000
"""A made-up workload has at most this many jobs, a national centre's year: half a minute's work."""


def _some(weights: tuple[float, ...]) -> tuple[float, ...]:
    if not sum(weights) > 0:
        raise ValueError("all are 0; at least one must be above 0")
    return weights


Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Part = Annotated[float, Field(ge=0, le=1)]
Weights = Annotated[tuple[Share, ...], AfterValidator(_some)]
ByHour = Annotated[Weights, Field(min_length=24, max_length=24)]
Spread = Annotated[float, Field(ge=0, le=3)]


class Runs(Settings):
    """A share of the jobs whose run time lies between ``low`` and ``high`` times their limit."""

    share: Share
    low: Part
    high: Part


class Bursts(Settings):
    """How jobs bunch: sizes of bursts, how a burst is submitted, and at what hour it begins."""

    median_jobs: float = Field(gt=0)
    spread: float = Field(ge=0)
    max_jobs: PositiveInt
    array_share: Part
    gap: float = Field(gt=0)
    by_hour: tuple[Share, ...] = Field(min_length=24, max_length=24)


class _Common(Settings):
    """``first_second`` is the Unix time of the beginning, of weeks a Monday at midnight (UTC)."""

    name: str
    meaning: str = ""
    n_jobs: PositiveInt
    first_second: int = Field(ge=0, le=2**40)


class Recipe(_Common):
    """What a made-up day is made of; ``shapes`` are (CPUs, GB, GPUs, jobs), ``limits`` (seconds, share)."""

    n_users: Count
    shapes: tuple[tuple[PositiveInt, float, NaturalInt, Share], ...] = Field(min_length=1)
    limits: tuple[tuple[NaturalInt, Share], ...] = Field(min_length=1)
    runs: tuple[Runs, ...] = Field(min_length=1)
    bursts: Bursts


class Kind(Settings):
    """Users of one kind. Spreads are standard deviations of a logarithm, times are in seconds.

    Attributes
    ----------
    share
        Of the jobs, in any unit.
    requests
        What is asked for: (CPUs, GB, GPUs, weight); each user has ``requests_per_user`` of them.
    median_run, users_spread, run_spread
        Run times: the median over users, how users' own medians differ, and how jobs do within a user and request.
    overestimate
        Median ratio of the limit that a user asks for to the user's median run time.
    burst, burst_spread, max_burst, array_share, gap
        Jobs submitted together: median, spread and maximum, which share is an array (in one second) and, for
        scripts, the mean time from job to job.
    bursts_per_session, pause
        Bursts of a session, at least one, and seconds between them, both on average.
    by_hour
        Chance of a session to begin in each hour of the day, in any unit.
    """

    name: Name
    n_users: Count
    share: Share
    requests: tuple[tuple[PositiveInt, Annotated[float, Field(gt=0, le=1e6)], NaturalInt, Share], ...] = Field(
        min_length=1
    )
    requests_per_user: Annotated[int, Field(ge=1, le=1000)] = 2
    median_run: float = Field(gt=0)
    users_spread: Spread = 0.5
    run_spread: Spread = 0.6
    overestimate: float = Field(default=3.0, ge=1)
    burst: float = Field(gt=0)
    burst_spread: Spread = 1.0
    max_burst: PositiveInt = 500
    array_share: Part = 0.5
    gap: float = Field(default=3.0, gt=0)
    bursts_per_session: float = Field(default=2.0, ge=1)
    pause: float = Field(default=1800.0, gt=0)
    by_hour: ByHour

    @field_validator("requests")
    @classmethod
    def _some_asked_for(cls, requests: tuple[tuple[int, float, int, float], ...]) -> Any:
        _some(tuple(row[3] for row in requests))
        return requests


class Campus(_Common):
    """What some weeks of a university system are made of.

    Attributes
    ----------
    by_weekday
        How many sessions begin on each day of the week, Monday first, in any unit.
    week_spread
        How a user's sessions differ from week to week: campaigns, holidays.
    failed_share, failed_within
        Which share of the jobs fails, and within how many seconds of its start at most.
    limits
        The time limits that users choose from, s, ascending.
    """

    weeks: Annotated[int, Field(ge=1, le=520)]
    by_weekday: Weights = Field(min_length=7, max_length=7)
    week_spread: Spread = 0.8
    failed_share: Part
    failed_within: PositiveInt
    limits: tuple[PositiveInt, ...] = Field(min_length=1)
    kinds: tuple[Kind, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Campus:
        if list(self.limits) != sorted(set(self.limits)):
            raise ValueError("limits must ascend")
        _some(tuple(kind.share for kind in self.kinds))
        return self


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
    table = read_toml(RECIPES.get(text, Path(path)))
    return validated(Campus, table, text) if "kinds" in table else validated(Recipe, table, text)


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
    drawn = _draw_weeks(recipe, n_jobs, rng) if isinstance(recipe, Campus) else _draw_day(recipe, n_jobs, rng)
    frame = drawn.sort_values("submit_time", kind="stable", ignore_index=True)
    frame["user"] = frame["user"].map("user{:02d}".format)
    frame["submit_time"] += recipe.first_second
    frame.insert(0, "job_id", [f"{i}" for i in range(1, n_jobs + 1)])
    return with_clock(check(frame, JOB, f"workload {recipe.name}"), "unix")


def _quotas(weights: Sequence[float], total: int) -> np.ndarray:
    """Share ``total`` out by weight in whole numbers, largest remainders first, ties to the earlier."""
    exact = np.array(weights) / np.array(weights).sum() * total
    counts = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def _submissions(
    begin: np.ndarray, size: np.ndarray, array_share: float, gap: float, end: int, rng: np.random.Generator
) -> np.ndarray:
    """Return each job's second, burst by burst: its burst's beginning, and for scripts the gaps since."""
    burst = np.repeat(np.arange(len(size)), size)
    script = rng.random(len(size)) >= array_share
    since = np.cumsum(np.where(script[burst], rng.poisson(gap, len(burst)), 0))
    first = np.cumsum(size) - size
    return np.minimum(begin[burst] + since - since[first][burst], end - 1)


def _jobs(
    times: tuple[np.ndarray, ...], requests: Sequence[tuple[int, float, int, float]], row: np.ndarray
) -> pd.DataFrame:
    """Lay out jobs that ask for these rows of (CPUs, GB, GPUs, weight).

    ``times`` are their users' numbers, submissions since the recipe's first second, limits and run times.
    """
    cpus, mem_gb, gpus, _ = (np.array(column)[row] for column in zip(*requests, strict=True))
    found = dict(zip(("user", "submit_time", "requested_time", "run_time"), times, strict=True))
    found |= {"cpus_per_node": cpus, "mem_mb_per_node": np.ceil(mem_gb * 1000), "gpus_per_node": gpus}
    return pd.DataFrame(found).astype(np.int64)


def _draw_day(recipe: Recipe, n_jobs: int, rng: np.random.Generator) -> pd.DataFrame:
    bursts = recipe.bursts
    cut: list[tuple[int, int]] = []  # each shape's jobs into bursts: the shape, and the size
    for shape, left in enumerate(_quotas([row[3] for row in recipe.shapes], n_jobs)):
        while left > 0:
            drawn = np.exp(rng.normal(np.log(bursts.median_jobs), bursts.spread))
            cut.append((shape, int(min(np.ceil(drawn), bursts.max_jobs, left))))
            left -= cut[-1][1]
    shape, size = np.array(cut).T
    limit = _limits(recipe, size, n_jobs, rng)
    # One of three users of its shape, some users being far busier than others.
    busy = 1.0 / np.arange(1, recipe.n_users + 1)
    owners = rng.choice(recipe.n_users, size=(len(recipe.shapes), 3), p=busy / busy.sum())
    user = owners[shape, rng.integers(0, 3, len(shape))]
    burst = np.repeat(np.arange(len(size)), size)
    weights = np.array(bursts.by_hour)
    hour = rng.choice(24, size=len(size), p=weights / weights.sum())
    begin = hour * HOUR + rng.integers(0, HOUR, len(size))
    submit = _submissions(begin, size, bursts.array_share, bursts.gap, DAY, rng)
    run = _run_times(recipe, limit[burst], rng)
    return _jobs((user[burst], submit, limit[burst], run), recipe.shapes, shape[burst])


def _limits(recipe: Recipe, size: np.ndarray, n_jobs: int, rng: np.random.Generator) -> np.ndarray:
    """Give each burst a time limit so that the recipe's shares of the jobs are met closely.

    The largest bursts choose first, among the limits that still have room for all their jobs.
    """
    seconds = np.array([row[0] for row in recipe.limits], dtype=np.int64)
    left = _quotas([row[1] for row in recipe.limits], n_jobs).astype(np.float64)
    chosen = np.empty(len(size), dtype=np.int64)
    for burst in np.argsort(-size, kind="stable"):
        room = np.where(left >= size[burst], left, 0.0)
        pick = int(rng.choice(len(left), p=room / room.sum()) if room.any() else np.argmax(left))
        left[pick] -= size[burst]
        chosen[burst] = seconds[pick]
    return chosen


def _run_times(recipe: Recipe, limit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw run times: kinds in exact shares, and within a kind evenly spread over its range."""
    counts = _quotas([kind.share for kind in recipe.runs], len(limit))
    fractions = [
        kind.low + (kind.high - kind.low) * (np.arange(n) + rng.random(n)) / max(n, 1)
        for kind, n in zip(recipe.runs, counts, strict=True)
    ]
    fraction = rng.permutation(np.concatenate(fractions))
    return np.minimum(np.ceil(fraction * limit).astype(np.int64), limit)


def _draw_weeks(recipe: Campus, n_jobs: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw the jobs of some weeks, kind by kind; each kind has its share of the jobs exactly."""
    drawn, first_user = [], 1
    for kind, count in zip(recipe.kinds, _quotas([kind.share for kind in recipe.kinds], n_jobs), strict=True):
        drawn.append(_of_kind(recipe, kind, int(count), first_user, rng))
        first_user += kind.n_users
    return pd.concat(drawn, ignore_index=True)


def _of_kind(recipe: Campus, kind: Kind, n_jobs: int, first_user: int, rng: np.random.Generator) -> pd.DataFrame:
    request, median, limit = _habits(recipe, kind, rng)
    users, choices, begin, size = _sessions(recipe, kind, n_jobs, rng)
    burst = np.repeat(np.arange(len(size)), size)
    user, choice = users[burst], choices[burst]
    submit = _submissions(begin, size, kind.array_share, kind.gap, recipe.weeks * WEEK, rng)
    run = np.exp(np.log(median[user, choice]) + kind.run_spread * rng.standard_normal(n_jobs))
    failed = rng.random(n_jobs) < recipe.failed_share
    run = np.where(failed, rng.integers(0, recipe.failed_within + 1, n_jobs), np.ceil(run)).astype(np.int64)
    asked = limit[user, choice]
    return _jobs((first_user + user, submit, asked, np.minimum(run, asked)), kind.requests, request[user, choice])


def _habits(recipe: Campus, kind: Kind, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each user's requests, median run times and limits, each of shape (users, requests per user).

    Requests are dealt out in the shares of their weights, and medians are evenly spaced quantiles, so that the load
    of few users depends little on the seed.
    """
    shape = (kind.n_users, kind.requests_per_user)
    n = kind.n_users * kind.requests_per_user
    dealt = np.repeat(np.arange(len(kind.requests)), _quotas([row[3] for row in kind.requests], n))
    even = np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])
    median = kind.median_run * np.exp(kind.users_spread * rng.permutation(even))
    wanted = median * np.maximum(kind.overestimate * np.exp(0.4 * rng.permutation(even)), 1.0)
    limits = np.array(recipe.limits, dtype=np.int64)
    limit = limits[np.minimum(np.searchsorted(limits, wanted), len(limits) - 1)]
    return rng.permutation(dealt).reshape(shape), median.reshape(shape), limit.reshape(shape)


def _sessions(recipe: Campus, kind: Kind, n_jobs: int, rng: np.random.Generator) -> np.ndarray:
    """Draw sessions, and bursts in them, until the kind has its jobs: user, request, beginning (s), size of bursts."""
    busy = np.exp(recipe.week_spread * rng.standard_normal((kind.n_users, recipe.weeks))).ravel()
    weekday, hour = (np.array(w) / np.sum(w) for w in (recipe.by_weekday, kind.by_hour))
    rows: list[tuple[int, int, int, int]] = []
    left = n_jobs
    while left > 0:
        user, week = divmod(int(rng.choice(len(busy), p=busy / busy.sum())), recipe.weeks)
        at = week * WEEK + int(rng.choice(7, p=weekday)) * DAY + int(rng.choice(24, p=hour)) * HOUR
        at += int(rng.integers(HOUR))
        for _ in range(1 + int(rng.poisson(kind.bursts_per_session - 1))):
            size = int(np.ceil(np.exp(rng.normal(np.log(kind.burst), kind.burst_spread))))
            size = min(size, kind.max_burst, left)
            rows.append((user, int(rng.integers(kind.requests_per_user)), at, size))
            at += int(rng.exponential(kind.pause))
            left -= size
            if not left:
                break
    return np.array(rows, dtype=np.int64).reshape(-1, 4).T
