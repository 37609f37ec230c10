"""The compiled pass of the mixture: go through submissions and news in the order of time, and learn.

It stands apart from `mixture`, which imports it only to learn: a question waits for no import of Numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.files.kernels import njit
from procure.queue_time.calibrate import EVERY, GRID
from procure.queue_time.experts import BY_OPEN, IS_MOVED, IS_POINT, MIDDLE, N_ERRORS, RATES, SPREAD

RATE_OF_PACES, SHARE, DELAY = 0.1, 0.01, 10.0
"""The rate at which the paces are weighed by what their weights lost; the share of all weight that returns to its
start after an outcome; and the unresolved forecasts at which all of them are halved."""
MOST_DELAY = 400
"""The most unresolved forecasts that count: jobs that are passed over for weeks would stop all learning."""
MOST_LOSS = 100.0
"""The most that one outcome counts, as a multiple of the mixture's usual loss."""
MEMORY = 0.95
"""What is left of the usual loss after an outcome."""
_LOSS_LEVELS = np.clip(GRID, 0.005, 0.995)


class Jobs(NamedTuple):
    """Jobs in the order of submission; those behind the ones that were stated before have experts."""

    submit: np.ndarray  # float64[n], Unix s
    rank: np.ndarray  # int64[n], the place in its burst, from 1
    open_rank: np.ndarray  # int64[n], the place among those of it that still waited
    raw: np.ndarray  # [m, K, G], what the experts say of the last m jobs
    top: float  # the longest log wait that an expert may be moved to
    most_weight: float  # the most that one expert counts


class News(NamedTuple):
    """What becomes known of waits, by time."""

    time: np.ndarray  # float64, Unix s
    row: np.ndarray  # int64, the job
    begin: np.ndarray  # float64, s, the ages between which it waited
    end: np.ndarray
    kind: np.ndarray  # int64: 0 it waits on, 1 it starts, 2 it gives up


class Learnt(NamedTuple):
    """What a mixture has learnt, K experts with G levels at P paces; the arrays are written to."""

    prior: np.ndarray  # float64[K]
    weights: np.ndarray  # float64[P, K]
    paces: np.ndarray  # float64[P]
    errors: np.ndarray  # float64[K, N_ERRORS]
    moved: np.ndarray  # float64[K, G]
    scale: np.ndarray  # float64[G]
    n_errors: int
    seen: float
    waiting: int  # jobs whose outcome is not known


class Told(NamedTuple):
    """What is stated of each job: experts as they were moved, log curves, weights; written to."""

    spread: np.ndarray  # [n, K, G]
    curve: np.ndarray  # [n, G]
    weights: np.ndarray  # [n, K]


@njit(cache=True)
def roll(jobs: Jobs, news: News, learnt: Learnt, told: Told) -> tuple[int, float]:
    """Go through submissions and news in the order of time; return ``n_errors`` and ``seen`` as they are then."""
    n_errors, seen, waiting = learnt.n_errors, learnt.seen, learnt.waiting
    n_jobs, n_news, at_news = len(jobs.submit), len(news.time), 0
    first = n_jobs - len(jobs.raw)
    for job in range(first, n_jobs + 1):
        now = jobs.submit[job] if job < n_jobs else np.inf
        while at_news < n_news and news.time[at_news] < now:
            one, kind, end = news.row[at_news], news.kind[at_news], news.end[at_news]
            delay = DELAY / (DELAY + min(waiting, MOST_DELAY))
            slow = delay / np.sqrt(jobs.rank[one]), delay / np.sqrt(jobs.open_rank[one])
            outcome = (news.begin[at_news], end, kind)
            seen = _learn(told.spread[one], told.curve[one], outcome, slow, learnt, seen)
            if kind != 0:
                waiting -= 1
            if kind == 1:
                for expert in range(len(learnt.prior)):
                    error = np.log1p(end) - float(told.spread[one, expert, MIDDLE])
                    learnt.errors[expert, n_errors % N_ERRORS] = error
                n_errors += 1
                if n_errors % EVERY == 0:
                    learnt.moved[:] = _offsets(learnt.errors, n_errors)
            at_news += 1
        if job < n_jobs:
            told.weights[job] = capped((learnt.paces.reshape(-1, 1) * learnt.weights).sum(axis=0), jobs.most_weight)
            _combine(
                jobs.raw[job - first], told.weights[job], learnt.moved, jobs.top, told.spread[job], told.curve[job]
            )
            waiting += 1
    return n_errors, seen


@njit(cache=True)
def _learn(
    spread: np.ndarray,
    curve: np.ndarray,
    outcome: tuple[float, float, int],
    slow: tuple[float, float],
    learnt: Learnt,
    seen: float,
) -> float:
    """Move the weights by what a job's wait from one age to another, and perhaps its start, costs each expert."""
    begin, end, kind = outcome
    started, over = kind == 1, kind != 0
    weights, paces, prior, scale = learnt.weights, learnt.paces, learnt.prior, learnt.scale
    n_levels = len(scale)
    if over:
        seen = MEMORY * seen + 1
    for g in range(n_levels):
        loss = _loss(_LOSS_LEVELS[g], np.expm1(curve[g]), begin, end, started)
        scale[g] = (MEMORY if over else 1.0) * scale[g] + loss
    losses = np.zeros(len(prior))
    for k in range(len(prior)):
        for g in range(1, n_levels - 1):
            loss = _loss(_LOSS_LEVELS[g], np.expm1(float(spread[k, g])), begin, end, started)
            losses[k] += min(loss / (scale[g] / seen + 1e-9), MOST_LOSS) / (n_levels - 2)
    costs = (weights * losses).sum(axis=1)
    for pace in range(len(paces)):
        by = slow[1] if BY_OPEN[pace] else slow[0]
        _shift(weights[pace], losses, RATES[pace] * by, SHARE * by if over else 0.0, prior)
    share = SHARE * slow[0] if over else 0.0
    _shift(paces, costs, RATE_OF_PACES * slow[0], share, np.full(len(paces), 1 / len(paces)))
    return seen


@njit(cache=True)
def capped(weights: np.ndarray, most: float) -> np.ndarray:
    """Return weights none of which is above ``most``: what is beyond it goes to the others in proportion to theirs."""
    over = weights > most
    while over.any() and (~over).any():
        rest = weights[~over].sum()
        weights = np.where(over, most, weights * (1 - most * over.sum()) / max(rest, 1e-12))
        if (weights <= most + 1e-9).all():
            break
        over = weights >= most
    return weights


@njit(cache=True)
def _shift(weights: np.ndarray, losses: np.ndarray, rate: float, share: float, prior: np.ndarray) -> None:
    """Weigh by losses exponentially; a share of the weight returns to where it began."""
    weights *= np.exp(-rate * (losses - losses.min()))
    weights *= (1 - share) / weights.sum()
    weights += share * prior


@njit(cache=True)
def _loss(level: float, quantile: float, begin: float, end: float, started: bool) -> float:
    """Return the pinball loss that accrues while a job waits from one age to another; if it starts there, all."""
    loss = level * (max(end - quantile, 0.0) - max(begin - quantile, 0.0))
    return loss + (1 - level) * max(quantile - end, 0.0) if started else loss


@njit(cache=True)
def _offsets(errors: np.ndarray, n_errors: int) -> np.ndarray:
    """Return the quantiles at `GRID` of each expert's recent log errors, (K, G); a usual spread before there are 20."""
    n_experts, n_levels = len(errors), len(SPREAD)
    found = np.empty((n_experts, n_levels))
    n = min(n_errors, errors.shape[1])
    for k in range(n_experts):
        if n < 20:
            found[k] = SPREAD
            continue
        kept = np.sort(errors[k, :n])
        for g in range(n_levels):
            place = min(max(_LOSS_LEVELS[g] * (n + 1) - 1, 0.0), n - 1.0)
            low = int(place)
            high = min(low + 1, n - 1)
            found[k, g] = kept[low] + (place - low) * (kept[high] - kept[low])
    return found


@njit(cache=True)
def _combine(
    raw: np.ndarray, weights: np.ndarray, moved: np.ndarray, top: float, spread: np.ndarray, curve: np.ndarray
) -> None:
    """Spread a job's point experts, move others, and average the middle third of the weight at each level."""
    n_experts, n_levels = raw.shape
    for k in range(n_experts):
        for g in range(n_levels):
            z = float(raw[k, g])
            if IS_MOVED[k]:
                z += moved[k, MIDDLE]
            if IS_POINT[k]:
                off = moved[k, g] - (moved[k, MIDDLE] if IS_MOVED[k] else 0.0)
                z += min(off, 0.0) if g < MIDDLE else (max(off, 0.0) if g > MIDDLE else 0.0)
            if IS_POINT[k] or IS_MOVED[k]:
                z = min(max(z, 0.0), top)
            spread[k, g] = z
    for g in range(n_levels):
        order = np.argsort(spread[:, g])
        below, total = 0.0, 0.0
        for k in order:
            inside = min(below + weights[k], 2 / 3) - max(below, 1 / 3)
            if inside > 0:
                total += inside * spread[k, g]
            below += weights[k]
        curve[g] = max(3 * total, curve[g - 1]) if g else 0.0
    curve[n_levels - 1] = max(curve[n_levels - 1], top)
