"""Other ways to learn `boosted`, chosen by first halves of each log's time, judged on second ones.

python benchmarks/forecast_trials.py LOG TRIAL... --keep FOLDER [--preset P] [--tz ZONE] [--periods day,week,month]

A trial is one of `TRIALS`, in quotes. Printed per period: Brier gain (%), worst tenth (points) and AUC of the first
half, the second half and all, for the model's chances as they are; recalibrated on what came of the whole period;
or of shorter lags, too (the last 5,000 or 20,000 outcomes); or mixed with the hazard and the key's share lately.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import xgboost
from forecast_claims import _log
from scipy.special import expit, logit

from procure.forecast import boosted, calibration
from procure.forecast.boosted import recalibrated_daily
from procure.forecast.confidence import Forecasts, hazard, make_forecasts
from procure.forecast.evaluation import judge
from procure.forecast.features import _weekday, features
from procure.forecast.known import NEVER, Known, since_last
from procure.forecast.periods import DAY, PERIODS, Patterns, PatternSettings, find_patterns
from procure.workload.clock import from_local

GROWTH = 1.15
"""Fewer fits than `boosted` makes, for all trials alike."""
MOST = 20_000


def trial(
    patterns: Patterns,
    f: Forecasts,
    *,
    lags: bool = False,
    extra: bool = False,
    half_life: float = 0,
    sizes: float = 0,
    every: int = 10_000,
) -> tuple:
    """Return the model's chances for every lag, learnt another way; when each is known; what came; how many lags."""
    base = features(patterns, f)
    rows = base.to_numpy()
    if extra:
        rows = np.column_stack([rows, *more(patterns, f)]).astype(np.float32)
    then = list(base).index("weekday_then")
    b = patterns.bursts
    period, tolerance = list(PERIODS.values())[f.layer], int(patterns.settings.tolerance[f.layer])
    days = period // DAY
    used = sorted({-(-days * k // 4) for k in (1, 2, 3)} | {days}) if lags and days > 1 else [days]
    by_clock = Known(b.key, b.local)
    events, came, known = [], [], []
    for lag in used:
        if lag == days:
            at, hit = f.known, f.came
        else:
            at = from_local(b.local + lag * DAY, patterns.settings.tz) + tolerance + 1
            at = np.where(at <= patterns.last, at, NEVER)
            n = by_clock.until(b.key, b.local + lag * DAY + tolerance, b.local + lag * DAY - tolerance)[0]
            hit = n > 0
        events.append(np.column_stack([f.burst, np.full(len(f.burst), lag)]))
        came.append(hit)
        known.append(at)
    events, came, known = np.concatenate(events), np.concatenate(came).astype(float), np.concatenate(known)
    user_day = f.user * 100_000 + (f.issued - patterns.first) // DAY
    size = np.unique_counts(user_day).counts[np.unique_inverse(user_day).inverse_indices].astype(float)

    def matrix(chosen: np.ndarray) -> np.ndarray:
        who, lag = events[chosen].T
        part = rows[who]
        if len(used) > 1:
            part[:, then] = _weekday(b.local[who] + lag * DAY)
            part = np.column_stack([part, lag.astype(np.float32)])
        return part

    by_known = np.argsort(known, kind="stable")
    ordered = known[by_known]
    stated = np.tile(hazard(f), len(used))
    model, n_fitted, fitted = None, 0, -(10**6)
    day = (f.issued - patterns.first) // DAY
    for number in np.unique(day).tolist():
        low, high = np.searchsorted(day, [number, number + 1]).tolist()
        now = patterns.first + number * DAY
        n_known = int(np.searchsorted(ordered, now, "right"))
        latest = by_known[max(0, n_known - MOST * min(len(used), 2)) : n_known]
        due = n_known >= GROWTH * n_fitted or number >= fitted + every
        if due and n_known >= boosted.FEWEST and 10 <= came[latest].sum() < len(latest):
            weight = np.ones(len(latest))
            if half_life:
                weight *= 0.5 ** ((now - known[latest]) / period / half_life)
            if sizes:
                weight *= size[events[latest, 0]] ** -sizes
            weight /= weight.mean()
            data = xgboost.QuantileDMatrix(matrix(latest), came[latest], weight=weight, nthread=1)
            mean = float(np.average(came[latest], weights=weight))
            model = xgboost.train(boosted._SETTINGS | {"seed": 0, "base_score": mean}, data, boosted._ROUNDS)
            n_fitted, fitted = n_known, number
        if model is not None:
            for k in range(len(used)):
                at = matrix(np.arange(len(f.burst) * k + low, len(f.burst) * k + high))
                stated[len(f.burst) * k + low : len(f.burst) * k + high] = model.inplace_predict(at)
    return stated, known, came, len(used)


def recalibrated_lags(
    patterns: Patterns, f: Forecasts, stated: np.ndarray, known: np.ndarray, came: np.ndarray, window: int
) -> np.ndarray:
    """Return the full lag's chances, recalibrated on what came of all lags by then."""
    n = len(f.burst)
    raw = stated[-n:]
    found, period = raw.copy(), list(PERIODS.values())[f.layer]
    by_known = np.argsort(known, kind="stable")
    ordered = known[by_known]
    day = (f.issued - patterns.first) // DAY
    for number in np.unique(day).tolist():
        low, high = np.searchsorted(day, [number, number + 1]).tolist()
        n_known = int(np.searchsorted(ordered, patterns.first + number * DAY, "right"))
        latest = by_known[max(0, n_known - 5000 * window) : n_known]
        moment = known[latest]
        age = (moment.max(initial=0) - moment) / period
        calibration.WINDOW = 5000 * window
        found[low:high] = calibration.recalibrated(raw[low:high], stated[latest], came[latest], age)
        calibration.WINDOW = 5000
    return found


def more(patterns: Patterns, f: Forecasts) -> list[np.ndarray]:
    """Return further columns: shares of hits lately, in this layer and the shorter ones; and the time covered."""
    b, found = patterns.bursts, []
    one = np.zeros(len(f.burst), np.int64)
    for layer in range(f.layer + 1):
        g = make_forecasts(patterns, list(PERIODS)[layer])
        came = g.came.astype(float)

        def share(group, prior, days, g=g, came=came):
            n, hits = Known(group, g.known, came).until(group, f.issued, f.issued - days * DAY)
            return (hits + 4 * prior) / (n + 4)

        overall = share(one, 0.2, 28)
        user = share(f.user, overall, 28)
        found += [overall, share(one, 0.2, 7), user, share(f.key, user, 28)]
        if layer < f.layer:
            user = share(f.user, overall, 10_000)
            found += [user, share(f.key, user, 10_000)]
    tolerance = int(patterns.settings.tolerance[f.layer])
    for group in (f.key, f.user):
        fresh = since_last(group, b.start, 2 * tolerance).astype(float)
        covered = Known(group, b.start, fresh)
        found += [
            covered.until(group, b.start - 1, b.start - days * DAY)[1] / (days * DAY) for days in (7, 30, 90)
        ]
        by_clock = Known(group, b.local)
        for n in (1, 2):
            before = b.local - n * list(PERIODS.values())[f.layer]
            found.append(by_clock.until(group, before + tolerance, before - tolerance)[0])
    return found


def stacked(patterns: Patterns, f: Forecasts, raw: np.ndarray) -> np.ndarray:
    """Mix model, hazard and key's share lately, in the logit, by weights learnt from what each midnight knows."""
    came = f.came.astype(float)
    one = np.zeros(len(came), np.int64)
    n, hits = Known(one, f.known, came).until(one, f.issued, f.issued - 28 * DAY)
    overall = (hits + 2) / (n + 10)
    n, hits = Known(f.key, f.known, came).until(f.key, f.issued, f.issued - 28 * DAY)
    of_key = (hits + 4 * overall) / (n + 4)
    columns = [np.ones(len(raw)), odds(raw), odds(hazard(f)) - odds(raw), odds(of_key) - odds(raw)]
    x = np.column_stack(columns)
    start = np.zeros(x.shape[1])
    start[1] = 1
    ridge = np.array([5.0, 50, 50, 50])
    found, period = raw.copy(), list(PERIODS.values())[f.layer]
    for today, known in boosted._days(patterns, f):
        known = known[-5000:]
        if len(known) < 200:
            continue
        moment = f.known[known]
        weight = 0.5 ** np.minimum((moment.max() - moment) / period / 8, 30)
        beta = start.copy()
        for _ in range(4):
            p = expit(x[known] @ beta)
            gradient = x[known].T @ (weight * (came[known] - p)) - ridge * (beta - start)
            hessian = (x[known].T * (weight * p * (1 - p))) @ x[known] + np.diag(ridge)
            beta += np.linalg.solve(hessian, gradient)
        found[today] = expit(x[today] @ beta)
    return found


def odds(chance: np.ndarray) -> np.ndarray:
    return logit(np.clip(chance, 1e-3, 1 - 1e-3))


TRIALS: dict[str, dict] = {
    "before": {},
    "lags": {"lags": True},
    "extra": {"extra": True},
    "lags, extra": {"lags": True, "extra": True},
    "lags, extra, weekly": {"lags": True, "extra": True, "every": 7},
    "weights": {"half_life": 8, "sizes": 0.5},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", nargs=1)
    parser.add_argument("trial", nargs="+", choices=TRIALS)
    parser.add_argument("--preset")
    parser.add_argument("--tz")
    parser.add_argument("--keep", required=True, help="folder for the models' chances")
    parser.add_argument("--periods", default="day,week,month")
    arguments = parser.parse_args()
    patterns = find_patterns(_log(arguments), PatternSettings(tz=arguments.tz))
    log = Path(arguments.log[0]).name[:6]
    for period in set(patterns.layers()) & set(arguments.periods.split(",")):
        f = make_forecasts(patterns, period)
        judged = (f.known < NEVER) & (f.issued >= patterns.first + 2 * PERIODS[period])
        first = f.issued < (patterns.first + patterns.last) / 2
        for name in arguments.trial:
            path = Path(arguments.keep) / f"{log}-{period}-{name}.npz"
            if path.exists():
                with np.load(path, allow_pickle=False) as kept:
                    stated, known, came, n_lags = (
                        kept[what] for what in ("stated", "known", "came", "n_lags")
                    )
            else:
                stated, known, came, n_lags = trial(patterns, f, **TRIALS[name])
                path.parent.mkdir(exist_ok=True)
                np.savez_compressed(path, stated=stated, known=known, came=came, n_lags=n_lags)
            raw = stated[-len(f.burst) :]
            shown = {"raw": raw, "recalibrated": recalibrated_daily(patterns, f, raw)}
            if n_lags > 1:
                for most in (1, 4):
                    found = recalibrated_lags(patterns, f, stated, known, came, most)
                    shown[f"recalibrated by lags, {most * 5000}"] = found
            shown["mixed"] = stacked(patterns, f, raw)
            for after, sure in shown.items():
                print(f"{log} {period}, {name}, {after}:", *_judged(sure, f, judged, first), flush=True)


def _judged(sure: np.ndarray, f: Forecasts, judged: np.ndarray, first: np.ndarray) -> list[tuple]:
    found = []
    for rows in (judged & first, judged & ~first, judged):
        if 0 < f.came[rows].sum() < rows.sum():
            v = judge(sure[rows], f.came[rows])
            found.append(
                (
                    round(100 * v["brier_gain"], 2),
                    round(100 * v["worst_tenth"], 1),
                    round(v["auc"], 3),
                )
            )
    return found


if __name__ == "__main__":
    main()
