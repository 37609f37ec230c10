"""Weeks of a university system, made up: kinds of users, their sessions at the desk, and what they run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field, field_validator, model_validator

from procure.settings import Count, Name, NaturalInt, PositiveInt, Settings

DAY, HOUR, MINUTE = 86_400, 3600, 60
WEEK = 7 * DAY


def _some(weights: tuple[float, ...]) -> tuple[float, ...]:
    if not sum(weights) > 0:
        raise ValueError("all are 0; at least one must be above 0")
    return weights


Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Weights = Annotated[tuple[Share, ...], AfterValidator(_some)]
Spread = Annotated[float, Field(ge=0, le=3)]


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
    array_share: float = Field(default=0.5, ge=0, le=1)
    gap: float = Field(default=3.0, gt=0)
    bursts_per_session: float = Field(default=2.0, ge=1)
    pause: float = Field(default=1800.0, gt=0)
    by_hour: Weights = Field(min_length=24, max_length=24)

    @field_validator("requests")
    @classmethod
    def _some_asked_for(cls, requests: tuple[tuple[int, float, int, float], ...]) -> Any:
        _some(tuple(row[3] for row in requests))
        return requests


class Campus(Settings):
    """What some weeks of a university system are made of.

    Attributes
    ----------
    first_second
        Unix time at which the first week begins, a Monday at midnight (UTC).
    by_weekday
        How many sessions begin on each day of the week, Monday first, in any unit.
    week_spread
        How a user's sessions differ from week to week: campaigns, holidays.
    failed_share, failed_within
        Which share of the jobs fails, and within how many seconds of its start at most.
    limits
        The time limits that users choose from, s, ascending.
    """

    name: str
    meaning: str = ""
    n_jobs: PositiveInt
    first_second: int = Field(ge=0, le=2**40)
    weeks: Annotated[int, Field(ge=1, le=520)]
    by_weekday: Weights = Field(min_length=7, max_length=7)
    week_spread: Spread = 0.8
    failed_share: float = Field(ge=0, le=1)
    failed_within: PositiveInt
    limits: tuple[PositiveInt, ...] = Field(min_length=1)
    kinds: tuple[Kind, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Campus:
        if list(self.limits) != sorted(set(self.limits)):
            raise ValueError("limits must ascend")
        _some(tuple(kind.share for kind in self.kinds))
        return self


class Drawn(NamedTuple):
    """Jobs as they were drawn, int64[n_jobs] each; ``submit`` counts from the recipe's first second."""

    user: np.ndarray
    submit: np.ndarray
    limit: np.ndarray
    run: np.ndarray
    cpus: np.ndarray
    mem_mb: np.ndarray
    gpus: np.ndarray


class _Bursts(NamedTuple):
    user: np.ndarray  # int64[n_bursts], of the kind's users
    choice: np.ndarray  # int64[n_bursts], which of the user's requests
    begin: np.ndarray  # int64[n_bursts], s
    size: np.ndarray  # int64[n_bursts]


def quotas(weights: np.ndarray, total: int) -> np.ndarray:
    """Share ``total`` out by weight in whole numbers, largest remainders first, ties to the earlier."""
    exact = weights / weights.sum() * total
    counts = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def submissions(
    begin: np.ndarray, size: np.ndarray, array_share: float, gap: float, end: int, rng: np.random.Generator
) -> np.ndarray:
    """Return each job's second, burst by burst: its burst's beginning, and for scripts the gaps since."""
    burst = np.repeat(np.arange(len(size)), size)
    script = rng.random(len(size)) >= array_share
    since = np.cumsum(np.where(script[burst], rng.poisson(gap, len(burst)), 0))
    first = np.cumsum(size) - size
    return np.minimum(begin[burst] + since - since[first][burst], end - 1)


def amounts(requests: Sequence[tuple[int, float, int, float]], row: np.ndarray) -> list[np.ndarray]:
    """Return the CPUs, MB and GPUs, int64 each, of jobs that ask for these rows of (CPUs, GB, GPUs, weight)."""
    cpus, mem_gb, gpus, _ = (np.array(column)[row] for column in zip(*requests, strict=True))
    return [one.astype(np.int64) for one in (cpus, np.ceil(mem_gb * 1000), gpus)]


def draw_campus(recipe: Campus, n_jobs: int, rng: np.random.Generator) -> Drawn:
    """Draw the jobs of some weeks, kind by kind; each kind has its share of the jobs exactly."""
    counts = quotas(np.array([kind.share for kind in recipe.kinds]), n_jobs)
    drawn, first_user = [], 1
    for kind, count in zip(recipe.kinds, counts, strict=True):
        one = _of_kind(recipe, kind, int(count), rng)
        drawn.append(one._replace(user=one.user + first_user))
        first_user += kind.n_users
    return Drawn(*(np.concatenate(column) for column in zip(*drawn, strict=True)))


def _of_kind(recipe: Campus, kind: Kind, n_jobs: int, rng: np.random.Generator) -> Drawn:
    request, median, limit = _habits(recipe, kind, rng)
    bursts = _bursts(recipe, kind, n_jobs, rng)
    burst = np.repeat(np.arange(len(bursts.size)), bursts.size)
    user, choice = bursts.user[burst], bursts.choice[burst]
    submit = submissions(bursts.begin, bursts.size, kind.array_share, kind.gap, recipe.weeks * WEEK, rng)
    run = np.exp(np.log(median[user, choice]) + kind.run_spread * rng.standard_normal(n_jobs))
    failed = rng.random(n_jobs) < recipe.failed_share
    run = np.where(failed, rng.integers(0, recipe.failed_within + 1, n_jobs), np.ceil(run)).astype(np.int64)
    asked = limit[user, choice]
    return Drawn(user, submit, asked, np.minimum(run, asked), *amounts(kind.requests, request[user, choice]))


def _habits(recipe: Campus, kind: Kind, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each user's requests, median run times and limits, each of shape (users, requests per user).

    Requests are dealt out in the shares of their weights, and medians are evenly spaced quantiles, so that the load
    of few users depends little on the seed.
    """
    shape = (kind.n_users, kind.requests_per_user)
    n = kind.n_users * kind.requests_per_user
    dealt = np.repeat(np.arange(len(kind.requests)), quotas(np.array([row[3] for row in kind.requests]), n))
    even = np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])
    median = kind.median_run * np.exp(kind.users_spread * rng.permutation(even))
    wanted = median * np.maximum(kind.overestimate * np.exp(0.4 * rng.permutation(even)), 1.0)
    limits = np.array(recipe.limits, dtype=np.int64)
    limit = limits[np.minimum(np.searchsorted(limits, wanted), len(limits) - 1)]
    return rng.permutation(dealt).reshape(shape), median.reshape(shape), limit.reshape(shape)


def _bursts(recipe: Campus, kind: Kind, n_jobs: int, rng: np.random.Generator) -> _Bursts:
    """Draw sessions, and bursts in them, until the kind has its jobs."""
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
    return _Bursts(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)
