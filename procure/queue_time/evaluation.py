"""Train and evaluate every method on the same splits, with naive baselines and a rival that fits on a page.

What stays in our model is to be ahead of the rival on every log. Two boosters of five quantiles, of the wait and of its
square root, the quantiles of the partition's last week and the last like job with the quantiles of its errors are
averaged, each by its pinball loss of late to the minus eighth. Each level of the average is then moved by the quantile
of its own errors of late (rolling conformal).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from procure.progress import silent
from procure.queue_time.booster import MAX_BIN, Published, fit_plain
from procure.queue_time.distribution import Distribution
from procure.queue_time.features import BACKLOG, site_features
from procure.queue_time.log import Outcomes, Split, bursts, chronological, queue_jobs, random_split, wait_times
from procure.queue_time.mixture import Stated, guess
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.view import RECENT_LEVELS, RECENT_PREFIX, recent_columns
from procure.text import counted, duration

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
"""The quantiles over which the pinball loss is averaged."""
HOURS = (1, 4, 8, 12)
"""The deadlines that are shown beside the mean wait, in hours."""


@dataclass(frozen=True)
class Forecast:
    """The predictions of a method for some jobs.

    ``point`` is (n,) seconds; ``quantiles`` (n, 5) at `LEVELS`, ``interval`` (n, 2) the ends of the one of nine in ten
    and ``chances`` by deadline in seconds, (n,) probabilities of a start by then, all None for a point method;
    ``about`` is added to its rows.
    """

    point: np.ndarray
    quantiles: np.ndarray | None = None
    interval: np.ndarray | None = None
    chances: dict[float, np.ndarray] | None = None
    about: dict[str, int] = field(default_factory=dict)


def pinball(wait: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Average the pinball loss over `LEVELS`, (n,) seconds."""
    over = wait[:, None] - quantiles
    return np.asarray(np.maximum(LEVELS * over, (LEVELS - 1) * over).mean(axis=1))


def by_burst(value: np.ndarray, burst: np.ndarray) -> np.ndarray:
    """Return the mean of values (n,) over the rows of each burst, in the order of their numbers."""
    _, number, size = np.unique(burst, return_inverse=True, return_counts=True)
    return np.asarray(np.bincount(number, value) / size)


def within_2x(wait: np.ndarray, point: np.ndarray) -> float:
    """Return the share with max(predicted, 1 s) / max(wait, 1 s) in [1/2, 2]."""
    ratio = np.maximum(point, 1) / np.maximum(wait, 1)
    return float(((ratio >= 0.5) & (ratio <= 2)).mean())


def covered(wait: np.ndarray, interval: np.ndarray) -> np.ndarray:
    """Return which waits lie in the 90 % interval (n, 2), whose ends are rounded outward to whole seconds."""
    return (wait >= np.floor(interval[:, 0])) & (wait <= np.ceil(interval[:, 1]))


def confusion(wait: np.ndarray, point: np.ndarray, deadline: float) -> dict[str, float]:
    """Judge a deadline: positive = starts by it. Recall is TP/(TP+FN); a ratio over nothing is NaN."""
    predicted, happened = point <= deadline, wait <= deadline
    tp, fp = int((predicted & happened).sum()), int((predicted & ~happened).sum())
    fn, tn = int((~predicted & happened).sum()), int((~predicted & ~happened).sum())

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole else float("nan")

    return {"tp": tp, "fp": fp, "fn": fn, "tn": tn} | {
        "accuracy": ratio(tp + tn, len(wait)),
        "precision": ratio(tp, tp + fp),
        "recall": ratio(tp, tp + fn),
        "f1": ratio(2 * tp, 2 * tp + fp + fn),
    }


def brier(chance: np.ndarray, happened: np.ndarray) -> float:
    """Return the mean squared difference of chance and outcome."""
    return float(np.mean((chance - happened) ** 2))


def _quantiles(forecast: Forecast) -> np.ndarray:
    """Return a forecast's quantiles at `LEVELS`; a number without known errors is stated at each."""
    return np.repeat(forecast.point[:, None], len(LEVELS), 1) if forecast.quantiles is None else forecast.quantiles


def beats(wait: np.ndarray, one: Forecast, other: Forecast, burst: np.ndarray) -> float:
    """Return in which share of 500 draws of as many bursts, with replacement, a forecast has less pinball loss."""
    loss = pinball(wait, _quantiles(one)) - pinball(wait, _quantiles(other))
    sums = np.bincount(np.unique(burst, return_inverse=True)[1], loss)
    rng = np.random.default_rng(0)
    return float(np.mean([rng.choice(sums, len(sums)).sum() < 0 for _ in range(500)]))


def judge(
    wait: np.ndarray, forecast: Forecast, deadlines: dict[str, float], base: np.ndarray, burst: np.ndarray | None = None
) -> list[dict]:
    """Measure a forecast of waits (n,): one row per deadline, s by label.

    ``base`` are the training rows' waits, whose share by each deadline is the base rate's chance; ``burst`` (n,) is the
    number of each job's burst, without which each job is one.
    """
    point = forecast.point
    quantiles, interval = _quantiles(forecast), forecast.interval
    error = np.abs(point - wait)
    inside = None if interval is None else covered(wait, interval)
    burst = np.arange(len(wait)) if burst is None else burst
    common = {
        "mae": float(error.mean()),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "within_2x": within_2x(wait, point),
        "pinball": float(pinball(wait, quantiles).mean()),
        "coverage_90": None if inside is None else float(inside.mean()),
        "coverage_90_by_burst": None if inside is None else float(by_burst(inside, burst).mean()),
        "median_width_90": None if interval is None else float(np.median(interval[:, 1] - interval[:, 0])),
    }
    rows = []
    for label, deadline in deadlines.items():
        did = wait <= deadline
        matrix = confusion(wait, point, deadline)
        chance = (forecast.chances or {}).get(deadline)
        rows.append(
            {"deadline_label": label, "deadline": deadline}
            | common
            | {
                "deadline_accuracy": matrix.pop("accuracy"),
                "majority_accuracy": float(max(did.mean(), 1 - did.mean())),
                "brier": None if chance is None else brier(chance, did),
                "brier_base": brier(np.full(len(wait), (base <= deadline).mean()), did),
            }
            | matrix
        )
    return rows


WINDOW, _RENEWED, _POWER = 500, 50, 8
"""Known waits that are looked at, jobs after which they are looked at anew, and the power of the loss."""
SHRINK = 100
"""The known waits that speak for a level as it is."""
_WEEK = [recent_columns("week")[int(np.searchsorted(RECENT_LEVELS, level))] for level in LEVELS]


def rival_views(
    features: pd.DataFrame, wait: np.ndarray, fitted: np.ndarray, asked: np.ndarray, seed: int
) -> np.ndarray:
    """Return what each of four views says of rows, fitted on others: (n, 4, 5) quantiles at `LEVELS`, s."""
    own = [name for name in features.columns if not name.startswith(RECENT_PREFIX) and name != BACKLOG]
    matrix, known, rows = features[own].to_numpy(dtype=np.float32), wait[fitted], features.iloc[asked]
    seconds, roots = (
        fit_plain(matrix[fitted], target, seed, LEVELS, max_bin=MAX_BIN) for target in (known, np.sqrt(known))
    )
    week = np.expm1(rows[_WEEK].to_numpy(dtype=float))
    last, before = (guess(features.iloc[at], "last_like", float(np.median(known))) for at in (asked, fitted))
    errors = np.quantile(np.log1p(known) - np.log1p(before), LEVELS)
    found = [
        seconds.predict(matrix[asked]),
        np.maximum(roots.predict(matrix[asked]), 0) ** 2,
        np.where(np.isnan(week), np.quantile(known, LEVELS), week),
        np.expm1(np.log1p(last)[:, None] + errors),
    ]
    return np.maximum(np.sort(np.stack(found, axis=1), axis=2), 0.0)


def rival_average(said: np.ndarray, submit: np.ndarray, wait: np.ndarray, first: int) -> np.ndarray:
    """Average views (n, 4, 5) of jobs in the order of submission, and correct the levels; return those from ``first``.

    A wait, s, counts from its job's start on; those of the jobs before ``first`` are known when that one comes.
    """
    mixed, stated = np.empty((len(said), len(LEVELS))), np.empty((len(said), len(LEVELS)))
    over = wait[:, None, None] - said
    loss = np.maximum(LEVELS * over, (LEVELS - 1) * over).mean(axis=2)
    for begin in range(0, len(said), _RENEWED):
        rows = slice(begin, begin + _RENEWED)
        known = np.flatnonzero(submit[:begin] + wait[:begin] < submit[begin])[-WINDOW:]
        cost = loss[known].mean(axis=0) if len(known) else np.ones(said.shape[1])
        weight = (np.maximum(cost, 1e-9) / max(cost.min(), 1e-9)) ** -_POWER
        mixed[rows] = np.tensordot(said[rows], weight / weight.sum(), (1, 0))
        shift = np.zeros(len(LEVELS))
        if len(known):
            off = np.log1p(wait[known])[:, None] - np.log1p(mixed[known])
            shift = np.diag(np.quantile(off, LEVELS, axis=0)) * len(known) / (len(known) + SHRINK)
        stated[rows] = np.sort(np.expm1(np.log1p(mixed[rows]) + shift), axis=1)
    return np.maximum(stated[first:], 0.0)


METHODS = ("procure", "kmeans-gbt", "gbt", "rival")
"""What `evaluate` compares: ours, the published ones, and the simplest that comes close to ours."""
SPLITS = ("random", "chronological")
HELD_BACK = 0.15
"""The share of the training rows on which the rival's errors are learnt."""
FEW_BURSTS = 30
"""Fewer bursts in the test part cannot tell two good methods apart."""


@dataclass
class Evaluation:
    """The result of an evaluation.

    ``rows`` is one row per split, method and deadline; ``forecasts`` of the test rows by (split, method);
    ``stated`` what our mixture said of all rows from the cut on, by split.
    """

    jobs: pd.DataFrame
    features: pd.DataFrame
    wait: np.ndarray
    rows: list[dict] = field(default_factory=list)
    splits: dict[str, Split] = field(default_factory=dict)
    forecasts: dict[tuple[str, str], tuple[np.ndarray, Forecast]] = field(default_factory=dict)
    stated: dict[str, tuple[np.ndarray, Stated]] = field(default_factory=dict)


def evaluate(
    jobs: pd.DataFrame,
    splits: Sequence[str] = ("chronological",),
    methods: Sequence[str] = METHODS,
    *,
    seed: int = 0,
    last: int | None = None,
    test_from: int | None = None,
    k: int = 57,
    settings: Settings | None = None,
    every: float = 0,
    progress: Callable[[str], None] = silent,
) -> Evaluation:
    """Evaluate methods on a job table.

    Parameters
    ----------
    jobs
        A checked job table with start times.
    splits, methods
        Among `SPLITS` and `METHODS`; the naive baselines are always added.
    seed
        Of splits and models.
    last
        Number of last jobs to train and test on; features still see the whole log.
    test_from
        Unix seconds from which jobs are test rows, for the chronological split.
    k
        Number of groups of the published pipeline; 57 is the published one.
    settings
        Of our model.
    every
        Seconds between updates of our model after its training, at which outcomes are learnt; 0 learns each as
        soon as it is known, infinity none.
    progress
        Called with a sentence at each step.

    Examples
    --------
    >>> import procure
    >>> ran = procure.read_log("ran.parquet").jobs
    >>> procure.evaluate_queue(ran, ["chronological"], ["gbt"]).rows[0]["method"]
    'gbt'
    """
    jobs = queue_jobs(jobs)
    progress(f"features of {len(jobs):,} jobs")
    found = Evaluation(jobs, site_features(jobs), wait_times(jobs))
    rows = np.flatnonzero(~np.isnan(found.wait))
    rows = rows if last is None else rows[rows >= len(jobs) - last]
    made: list[Split] = []
    for name in splits:
        if name == "random":
            made += [random_split(len(rows), seed), random_split(len(rows), seed, bursts(jobs.iloc[rows]))]
        else:
            made.append(chronological(jobs["submit_time"].to_numpy()[rows], found.wait[rows], test_from))
    for one in made:
        split = found.splits[one.name] = Split(one.name, rows[one.train], rows[one.test], one.cut)
        said: dict[str, Forecast] = {}
        for method in methods:
            progress(f"{split.name}: {method}, {len(split.train):,} rows to train on")
            if method == "procure":
                said[method] = _ours(found, split, settings or Settings(seed=seed), every)
            elif method == "rival":
                said[method] = _rival(found, split, seed)
            else:
                published = Published(k if method == "kmeans-gbt" else 0, seed + 1)
                published.fit(found.features.iloc[split.train], found.wait[split.train])
                said[method] = Forecast(published.predict(found.features.iloc[split.test]), about={"k": published.k})
        _judge(found, split, said | _naive(found, split))
    return found


def _deadlines(found: Evaluation, split: Split) -> dict[str, float]:
    mean = {"mean": float(found.wait[split.train].mean())}
    return mean | {f"{hours}h": hours * 3600.0 for hours in HOURS}


def _judge(found: Evaluation, split: Split, said: dict[str, Forecast]) -> None:
    burst, counts = bursts(found.jobs)[split.test], {"n_train": len(split.train), "n_test": len(split.test)}
    for method, forecast in said.items():
        found.forecasts[split.name, method] = (split.test, forecast)
        head = {"split": split.name, "method": method}
        rows = judge(found.wait[split.test], forecast, _deadlines(found, split), found.wait[split.train], burst)
        for row in rows:
            label = {key: row.pop(key) for key in ("deadline_label", "deadline")}
            found.rows.append(head | label | counts | forecast.about | row)


def _naive(found: Evaluation, split: Split) -> dict[str, Forecast]:
    """Make every guess that needs no model, with the quantiles of its errors on the training rows.

    They are ``zero``, ``mean``, ``median`` (per partition), ``last_like``, ``partition_5`` (mean of the last five
    waits), ``recent`` (median of the week's starts in the partition) and, where the job table has the scheduler's own
    estimate at submission as ``slurm_wait``, ``slurm``. Errors are ratios of 1 + seconds, of what is below 0 as of 0.
    """
    jobs, known = found.jobs, found.wait[split.train]
    middle = float(np.median(known))
    medians = pd.Series(known).groupby(jobs["partition"].to_numpy()[split.train]).median()

    def filled(values: pd.Series) -> np.ndarray:
        return pd.to_numeric(values, errors="coerce").fillna(middle).to_numpy(dtype=float)

    points = {
        "zero": np.zeros(len(jobs)),
        "mean": np.full(len(jobs), known.mean()),
        "median": filled(jobs["partition"].map(medians)),
    }
    for name, column in (("last_like", "last_like"), ("partition_5", "partition_5"), ("recent", "week")):
        points[name] = guess(found.features, column, middle)
    if "slurm_wait" in jobs.columns:
        points["slurm"] = filled(jobs["slurm_wait"])
    said = {}
    for name, point in points.items():
        errors = np.quantile(np.log1p(known) - np.log1p(np.maximum(point[split.train], 0.0)), LEVELS)
        five = np.expm1(np.log1p(np.maximum(point[split.test], 0.0))[:, None] + errors)
        said[name] = Forecast(point[split.test], np.maximum(five, 0.0))
    return said


def _rival(found: Evaluation, split: Split, seed: int) -> Forecast:
    """Return what the rival says, which looks at waits before the cut alone where the split is drawn."""
    submit = found.jobs["submit_time"].to_numpy(dtype=float)
    order = np.random.default_rng(0).permutation(split.train)
    if split.cut is not None:
        order = split.train[np.argsort(submit[split.train], kind="stable")]
    early, late = np.split(order, [round((1 - HELD_BACK) * len(order))])
    pairs = ((early, late), (split.train, split.test))
    said = [rival_views(found.features, found.wait, fitted, asked, seed) for fitted, asked in pairs]
    rows = np.concatenate([late, split.test])
    moment = submit[rows] if split.cut is not None else np.where(np.arange(len(rows)) < len(late), -np.inf, 0.0)
    five = rival_average(np.concatenate(said), moment, found.wait[rows], len(late))
    return Forecast(five[:, 2], five, five[:, [0, -1]])


def _ours(found: Evaluation, split: Split, settings: Settings, every: float) -> Forecast:
    """Judge the product as it is used: boosters from before the cut, a mixture that learns as outcomes come in.

    In a random split nothing is before or after: the boosters are judged alone.
    """
    model, outcomes = QueueTimeModel(settings), Outcomes.of(found.jobs)
    if split.cut is None:
        model.fit(found.features.iloc[split.train], found.wait[split.train], outcomes.submit[split.train])
        said = Distribution(model.curve(found.features.iloc[split.test]))
    else:
        model.learn(found.features, outcomes, split.train, split.cut)
        asked = np.flatnonzero((outcomes.submit >= split.cut) & (outcomes.submit <= outcomes.submit[split.test[-1]]))
        until = model.mixture.until
        raw = model.experts_in_time(found.features, outcomes, asked, until, every)
        beyond = model.beyond(found.features.iloc[asked])
        end = float(outcomes.submit[split.test[-1]] + 1)
        stated = model.mixture.roll(outcomes.take(asked), raw, beyond, model.top, end, every)
        found.stated[split.name] = asked, stated
        said = Distribution(stated.curve[np.searchsorted(asked, split.test)])
    quantiles, deadlines = said.quantile(LEVELS), _deadlines(found, split).values()
    chances = {deadline: said.chance(deadline) for deadline in deadlines}
    return Forecast(quantiles[:, 2], quantiles, said.interval(), chances)


def verdict(found: Evaluation) -> str:
    """Say in a sentence a split how ours compares with the best other method, and whether bursts tell them apart."""
    said = []
    for split in found.splits:
        table = pd.DataFrame([row for row in found.rows if row["split"] == split])
        loss = table.groupby("method")["pinball"].first().sort_values(kind="stable")
        if "procure" not in loss or len(loss) < 2:
            said.append(f"{split}: {loss.index[0]} has the least pinball loss, {duration(loss.iloc[0])}.")
            continue
        best = loss.drop("procure").index[0]
        (rows, ours), (_, theirs) = (found.forecasts[split, method] for method in ("procure", best))
        burst = bursts(found.jobs)[rows]
        n, share = len(np.unique(burst)), beats(found.wait[rows], ours, theirs, burst)
        luck = f"it is less in {share:.0%} of draws of the {n:,} bursts"
        few = f"{counted(n, 'burst')} cannot tell whether that is luck"
        said.append(
            f"{split}: procure's pinball loss is {duration(loss['procure'])}, that of {best}, the best other, "
            f"{duration(loss[best])}; {few if n < FEW_BURSTS else luck}."
        )
    return "\n".join(said)
