"""The compiled pass of the mixture: go through submissions and news in the order of time, and learn.

It stands apart from `mixture`, which imports it only to learn: a question waits for no import of Numba.
"""

from __future__ import annotations

import numpy as np

from procure.files.kernels import njit
from procure.queue_time.calibrate import EVERY, GRID
from procure.queue_time.experts import MIDDLE, N_ERRORS, RATES, SPREAD

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


@njit(cache=True)
def roll(
    submit: np.ndarray, raw: np.ndarray, is_point: np.ndarray, is_moved: np.ndarray, time: np.ndarray, row: np.ndarray,
    begin: np.ndarray, end: np.ndarray, kind: np.ndarray, rank: np.ndarray, prior: np.ndarray, weights: np.ndarray,
    paces: np.ndarray, errors: np.ndarray, n_errors: int, moved: np.ndarray, scale: np.ndarray, seen: float,
    first: int, waiting: int, spread: np.ndarray, curve: np.ndarray, said: np.ndarray, top: float,
) -> tuple[int, float]:  # fmt: skip
    """Go through submissions and news in the order of time."""
    news = 0
    for job in range(first, len(submit) + 1):
        now = submit[job] if job < len(submit) else np.inf
        while news < len(time) and time[news] < now:
            one, over = row[news], kind[news] != 0
            seen = _learn(
                spread[one],
                curve[one],
                begin[news],
                end[news],
                kind[news] == 1,
                over,
                waiting,
                rank[one],
                weights,
                paces,
                prior,
                scale,
                seen,
            )
            if over:
                waiting -= 1
            if kind[news] == 1:
                for expert in range(len(prior)):
                    errors[expert, n_errors % N_ERRORS] = np.log1p(end[news]) - float(spread[one, expert, MIDDLE])
                n_errors += 1
                if n_errors % EVERY == 0:
                    moved[:] = _offsets(errors, n_errors)
            news += 1
        if job < len(submit):
            at = slice(job, job + 1)
            said[job] = (paces.reshape(-1, 1) * weights).sum(axis=0)
            _combine(
                raw[job - first : job - first + 1],
                said[at],
                moved,
                is_point,
                is_moved,
                top,
                spread[at],
                curve[at],
            )
            waiting += 1
    return n_errors, seen


@njit(cache=True)
def _learn(
    spread: np.ndarray,
    curve: np.ndarray,
    begin: float,
    end: float,
    started: bool,
    over: bool,
    waiting: int,
    rank: int,
    weights: np.ndarray,
    paces: np.ndarray,
    prior: np.ndarray,
    scale: np.ndarray,
    seen: float,
) -> float:
    """Move the weights by what a job's wait from one age to another, and perhaps its start, costs each expert."""
    slow = DELAY / (DELAY + min(waiting, MOST_DELAY)) / np.sqrt(rank)
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
    share = SHARE * slow if over else 0.0
    costs = (weights * losses).sum(axis=1)
    for pace in range(len(paces)):
        _shift(weights[pace], losses, RATES[pace] * slow, share, prior)
    _shift(paces, costs, RATE_OF_PACES * slow, share, np.full(len(paces), 1 / len(paces)))
    return seen


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
    raw: np.ndarray,
    weights: np.ndarray,
    moved: np.ndarray,
    is_point: np.ndarray,
    is_moved: np.ndarray,
    top: float,
    spread: np.ndarray,
    curve: np.ndarray,
) -> None:
    """Spread the point experts of each row, move others, and average the middle third of the weight at each level."""
    n_experts, n_levels = raw.shape[1], raw.shape[2]
    for row in range(len(raw)):
        for k in range(n_experts):
            for g in range(n_levels):
                z = float(raw[row, k, g])
                if is_moved[k]:
                    z += moved[k, MIDDLE]
                if is_point[k]:
                    off = moved[k, g] - (moved[k, MIDDLE] if is_moved[k] else 0.0)
                    z += min(off, 0.0) if g < MIDDLE else (max(off, 0.0) if g > MIDDLE else 0.0)
                if is_point[k] or is_moved[k]:
                    z = min(max(z, 0.0), top)
                spread[row, k, g] = z
        for g in range(n_levels):
            order = np.argsort(spread[row, :, g])
            below, total = 0.0, 0.0
            for k in order:
                inside = min(below + weights[row, k], 2 / 3) - max(below, 1 / 3)
                if inside > 0:
                    total += inside * spread[row, k, g]
                below += weights[row, k]
            curve[row, g] = max(3 * total, curve[row, g - 1]) if g else 0.0
        curve[row, n_levels - 1] = max(curve[row, n_levels - 1], top)
