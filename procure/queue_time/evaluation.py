"""Train and evaluate every method on the same splits, with naive baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.progress import silent
from procure.queue_time import rival
from procure.queue_time.baselines import guesses, with_errors
from procure.queue_time.booster import fit_plain
from procure.queue_time.distribution import Distribution
from procure.queue_time.experts import NAMES
from procure.queue_time.features import BACKLOG, site_features
from procure.queue_time.log import Outcomes, wait_times, without_starts
from procure.queue_time.metrics import HOURS, LEVELS, Forecast, beats, judge
from procure.queue_time.mixture import Stated
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.published import Published, best_k, sweep_k
from procure.queue_time.recent import PREFIX
from procure.queue_time.splits import Split, bursts, chronological, random_split, rolling
from procure.text import counted, duration
from procure.workload.clock import has_dates, local_times

Method = Literal["procure", "kmeans-gbt", "gbt"]
METHODS: tuple[str, ...] = (*get_args(Method), "rival")
"""What `evaluate` compares: the methods of a model file, and the simplest that comes close to ours."""
SPLITS = ("random", "chronological", "rolling")
COARSE_KS = (5, 10, 20, 40, 57, 80, 110, 150)
"""The numbers of groups among which an evaluation chooses on a validation part of its training rows."""

MONTHLY = {"max_rows": 30_000}
"""What a model that is trained again every month saves: older rows."""

HELD_BACK = 0.15
"""The share of the training rows on which a fitted rival's errors are learnt."""
Progress = Callable[[str], None]
Fitted = Callable[[np.ndarray], np.ndarray]
"""What a fitted rival says of rows by position, s."""


@dataclass
class Evaluation:
    """The result of an evaluation.

    ``rows`` is one row per split, method and deadline; ``forecasts`` by (split, method) with the test rows'
    positions, so that a report can draw from them; ``curves`` the validation RMSE over k, by split; ``stated`` what
    our model's mixture said of all rows from the cut on, by split.
    """

    jobs: pd.DataFrame
    features: pd.DataFrame
    wait: np.ndarray
    rows: list[dict] = field(default_factory=list)
    splits: dict[str, list[Split]] = field(default_factory=dict)
    forecasts: dict[tuple[str, str], tuple[np.ndarray, Forecast]] = field(default_factory=dict)
    curves: dict[str, pd.DataFrame] = field(default_factory=dict)
    stated: dict[str, tuple[np.ndarray, Stated]] = field(default_factory=dict)


def queue_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Keep the jobs whose time in the queue is known: started, ended without a start, or still pending.

    A job cancelled in the queue has not started; it stands there until it gives up. Where the log has
    ``eligible_time``, a job joins the queue then, as its ``submit_time`` says from here on: until it is held no more,
    its begin time has come and its dependency is met, it does not wait for room. A job that is not yet eligible is left
    out, and one that starts before it is submitted; `left_out` says so.

    Raises
    ------
    TableError
        No job has a start time.
    """
    if "start_time" not in jobs.columns or jobs["start_time"].isna().all():
        raise TableError("the log has no start times; waits cannot be learnt from it")
    if "end_time" not in jobs.columns:
        jobs = jobs.assign(end_time=(jobs["start_time"] + jobs["run_time"]).astype("Int64"))
    known = jobs["start_time"].notna() | jobs["end_time"].notna()
    if "state" in jobs.columns:
        known |= jobs["state"].astype(str).str.upper().isin(["PENDING", "PD"])
    kept = without_starts(jobs)[(known & ~_too_early(jobs) & ~_held(jobs)).to_numpy()]
    if "eligible_time" in kept.columns:
        at = kept["eligible_time"].astype("Int64").fillna(kept["submit_time"])
        left = kept["start_time"].fillna(kept["end_time"]).astype("Int64")
        joins = at.clip(lower=kept["submit_time"]).where(~(at > left).fillna(False), kept["submit_time"])
        kept = kept.assign(submit_time=joins.astype("int64"))
    return kept.sort_values("submit_time", kind="stable").reset_index(drop=True)


def _too_early(jobs: pd.DataFrame) -> pd.Series:
    return (jobs["start_time"] < jobs["submit_time"]).fillna(False).astype(bool)


def _held(jobs: pd.DataFrame) -> pd.Series:
    if "eligible_time" not in jobs.columns or jobs["eligible_time"].isna().all():
        return pd.Series(False, index=jobs.index)
    left = jobs[[name for name in ("start_time", "end_time") if name in jobs.columns]].notna().any(axis=1)
    return jobs["eligible_time"].isna() & ~left


def left_out(jobs: pd.DataFrame) -> list[str]:
    """Say what `queue_jobs` leaves out of a log, or counts from another moment, a sentence each."""
    found: list[str] = []
    if "start_time" not in jobs.columns:
        return found
    if n := int(_too_early(jobs).sum()):
        found.append(f"{counted(n, 'job')} left out: the start is before the submission")
    if n := int(_held(jobs).sum()):
        found.append(f"{counted(n, 'job')} left out: held, or waiting for a begin time or a dependency")
    if "eligible_time" in jobs.columns:
        n = int((jobs["eligible_time"] > jobs["submit_time"]).fillna(False).sum())
        if n:
            found.append(f"{counted(n, 'job')} could start only some time after submission: waits count from then")
    return found


def make_splits(
    name: str, jobs: pd.DataFrame, wait: np.ndarray, rows: np.ndarray, seed: int, cut: int | None
) -> list[Split]:
    """Make the splits of one name over the given rows; ``random`` makes a plain one and one by bursts."""
    submit = jobs["submit_time"].to_numpy()[rows]
    if name == "random":
        made = [
            random_split(len(rows), seed),
            random_split(len(rows), seed, bursts(jobs.iloc[rows])),
        ]
    elif name == "chronological":
        made = [chronological(submit, wait[rows], cut)]
    else:
        made = rolling(submit, wait[rows])
    return [Split(s.name, rows[s.train], rows[s.test], s.cut, s.label) for s in made]


def evaluate(
    jobs: pd.DataFrame,
    splits: Sequence[str] = ("chronological",),
    methods: Sequence[str] = METHODS,
    *,
    seed: int = 0,
    last: int | None = None,
    test_from: int | None = None,
    k: int | None = None,
    deadline: float | None = None,
    settings: Settings | None = None,
    every: float = 0,
    progress: Progress = silent,
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
        Number of groups of the published pipeline; None chooses on a validation part.
    deadline
        Seconds, in place of the training rows' mean wait.
    settings
        Of our model.
    every
        Seconds between updates of our model after its training, at which outcomes are learnt; 0 learns each as
        soon as it is known, infinity none. In rolling splits the boosters are trained again each month.
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
    if last is not None:
        rows = rows[rows >= len(jobs) - last]
    how = _How(seed, k, settings, every, progress)
    for name in splits:
        made = make_splits(name, jobs, found.wait, rows, seed, test_from)
        for split_name in dict.fromkeys(split.name for split in made):
            group = [split for split in made if split.name == split_name]
            found.splits[split_name] = group
            _evaluate_split(found, group, methods, deadline, how)
    return found


class _How(NamedTuple):
    """What `evaluate` was told of seeds and models."""

    seed: int
    k: int | None
    settings: Settings | None
    every: float
    progress: Progress


def _evaluate_split(
    found: Evaluation,
    group: list[Split],
    methods: Sequence[str],
    deadline: float | None,
    how: _How,
) -> None:
    name, k, seed = group[0].name, how.k, how.seed
    test = np.concatenate([split.test for split in group])
    wait, base = found.wait[test], found.wait[group[0].train]
    deadlines = {"mean": float(base.mean()) if deadline is None else float(deadline)}
    deadlines |= {f"{hours}h": hours * 3600.0 for hours in HOURS}
    forecasts: dict[str, Forecast] = {}
    for method in methods:
        if method == "kmeans-gbt" and k is None:
            train = group[0].train
            curve = sweep_k(found.features.iloc[train], found.wait[train], COARSE_KS, seed + 1)
            found.curves[name], k = curve, best_k(curve)
            how.progress(f"{name}: k = {k} on a validation part of the training rows")
        if method == "procure":
            forecasts[method] = _ours(found, group, list(deadlines.values()), how)
        elif method == "rival":
            five = np.concatenate([_rival(found, split, seed) for split in group])
            forecasts[method] = Forecast(five[:, 2], five, five[:, [0, -1]])
        else:
            forecasts[method] = _theirs(found, group, method, seed, k or 0, how.progress)
    naive = [_naive(found, split) for split in group]
    forecasts |= {guess: _joined([part[guess] for part in naive]) for guess in naive[0]}
    forecasts["hgb"] = _with_own_errors(found, group, _plain(found, seed))
    burst = bursts(found.jobs)[test]
    for method, forecast in forecasts.items():
        found.forecasts[name, method] = (test, forecast)
        head = {"split": name, "method": method}
        counts = {"n_train": len(group[-1].train), "n_test": len(test), "n_origins": len(group)}
        if method == "kmeans-gbt":
            counts["k"] = k or 0
        for row in judge(wait, forecast, deadlines, base, burst):
            label = {key: row.pop(key) for key in ("deadline_label", "deadline")}
            found.rows.append(head | label | counts | row)


def _naive(found: Evaluation, split: Split) -> dict[str, Forecast]:
    """Return what every naive rule says of the test rows, with the quantiles of its errors on the training rows."""
    said, before = (
        guesses(found.jobs, found.features, found.wait, split.train, rows) for rows in (split.test, split.train)
    )
    return {name: with_errors(one, before[name].point, found.wait[split.train]) for name, one in said.items()}


def _theirs(found: Evaluation, group: list[Split], method: str, seed: int, k: int, progress: Progress) -> Forecast:
    def fit(rows: np.ndarray) -> Fitted:
        published = Published(k if method == "kmeans-gbt" else 0, seed + 1)
        published.fit(found.features.iloc[rows], found.wait[rows])
        return lambda asked: published.predict(found.features.iloc[asked])

    for split in group:
        _say(split, method, progress)
    return _with_own_errors(found, group, fit)


def _with_own_errors(found: Evaluation, group: list[Split], fit: Callable[[np.ndarray], Fitted]) -> Forecast:
    """Return the points of a rival, fitted on training rows, with the quantiles of its errors on jobs unknown to it.

    Of these, of `_held_back`, the rival speaks after a fit on the others.
    """
    parts = []
    for split in group:
        early, late = _held_back(found, split)
        parts.append(with_errors(Forecast(fit(split.train)(split.test)), fit(early)(late), found.wait[late]))
    return _joined(parts)


def _held_back(found: Evaluation, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Divide training rows: all but the last `HELD_BACK` in order of submission, and these; else drawn."""
    order = np.random.default_rng(0).permutation(split.train)
    if split.cut is not None:
        order = split.train[np.argsort(found.jobs["submit_time"].to_numpy()[split.train], kind="stable")]
    early, late = np.split(order, [round((1 - HELD_BACK) * len(order))])
    return early, late


def _joined(parts: list[Forecast]) -> Forecast:
    point, five = (np.concatenate([getattr(part, of) for part in parts]) for of in ("point", "quantiles"))
    return Forecast(point, five)


def _plain(found: Evaluation, seed: int) -> Callable[[np.ndarray], Fitted]:
    """Return what fits a plain booster of the median on our features, set as libraries do."""
    own = [name for name in found.features.columns if not name.startswith(PREFIX) and name != BACKLOG]
    matrix = found.features[own].to_numpy(dtype=np.float32)

    def fit(rows: np.ndarray) -> Fitted:
        booster = fit_plain(matrix[rows], found.wait[rows], seed, np.array([0.5]))
        return lambda asked: np.maximum(booster.predict(matrix[asked]).ravel(), 0.0)

    return fit


def _rival(found: Evaluation, split: Split, seed: int) -> np.ndarray:
    """Return the quantiles (n, 5) of `rival`, which looks at waits before the cut alone where the split is drawn."""
    early, late = _held_back(found, split)
    pairs = ((early, late), (split.train, split.test))
    said = [rival.views(found.features, found.wait, fitted, asked, seed) for fitted, asked in pairs]
    rows, submit = np.concatenate([late, split.test]), found.jobs["submit_time"].to_numpy(dtype=float)
    moment = submit[rows] if split.cut is not None else np.where(np.arange(len(rows)) < len(late), -np.inf, 0.0)
    return rival.average(np.concatenate(said), moment, found.wait[rows], len(late))


def _ours(found: Evaluation, group: list[Split], deadlines: list[float], how: _How) -> Forecast:
    """Judge the product as it is used: boosters from before each cut, a mixture that learns as outcomes come in."""
    name, outcomes = group[0].name, Outcomes.of(found.jobs)
    monthly = MONTHLY if name == "rolling" else {}
    chosen = how.settings or Settings(seed=how.seed, **monthly)  # type: ignore[arg-type]
    if group[0].cut is None:
        return _at_random(found, group[0], chosen, deadlines, how.progress)
    rows: list[np.ndarray] = []
    parts: list[Stated] = []
    mixture = None
    cuts = [float(split.cut or 0) for split in group] + [float(outcomes.submit[group[-1].test[-1]] + 1)]
    for split, cut, ends in zip(group, cuts[:-1], cuts[1:], strict=True):
        _say(split, "procure", how.progress)
        own = chosen if mixture is None else replace(chosen, holdout=0.0)  # it goes on with the first one's mixture
        model = QueueTimeModel(own).learn(found.features, outcomes, split.train, cut)
        mixture = mixture or model.mixture
        asked = np.flatnonzero((outcomes.submit >= cut) & (outcomes.submit < ends))
        since = mixture.until
        raw = model.experts_in_time(lambda rows: found.features.iloc[rows], outcomes, asked, since, how.every)
        beyond = model.beyond(found.features.iloc[asked])
        parts.append(mixture.roll(outcomes.take(asked), raw, beyond, model.top, ends, how.every))
        rows.append(asked)
    stated = Stated(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Stated)))
    found.stated[name] = (np.concatenate(rows), stated)
    at = np.searchsorted(found.stated[name][0], np.concatenate([split.test for split in group]))
    said = Distribution(stated.curve[at])
    return _read(said, deadlines)


def _at_random(
    found: Evaluation, split: Split, settings: Settings, deadlines: list[float], progress: Progress
) -> Forecast:
    """Judge the boosters alone: in a random split nothing is before or after."""
    _say(split, "procure", progress)
    train, submit = split.train, found.jobs["submit_time"].to_numpy()
    model = QueueTimeModel(settings).fit(found.features.iloc[train], found.wait[train], submit[train])
    said = Distribution(model.curve(found.features.iloc[split.test]))
    return _read(said, deadlines)


def _read(said: Distribution, deadlines: list[float]) -> Forecast:
    quantiles = said.quantile(LEVELS)
    chances = {deadline: said.chance(deadline) for deadline in deadlines}
    return Forecast(quantiles[:, 2], quantiles, said.interval(), chances, said.mean())


def _say(split: Split, method: str, progress: Progress) -> None:
    progress(f"{split.name} {split.label}: {method}, {len(split.train):,} rows to train on".replace("  ", " "))


def coverage_by(
    jobs: pd.DataFrame, rows: np.ndarray, covered: np.ndarray, period: str = "W", tz: str | None = None
) -> pd.DataFrame:
    """Return the share of covered waits by week (``W``) or month (``M``) of submission: ``period, n, coverage``.

    Weeks and months begin by the clock of the zone ``tz``; None = UTC. Of a log without dates, they are seven and
    thirty days from its first submission.
    """
    submit, n_days = jobs["submit_time"].iloc[rows], 7 if period == "W" else 30
    dated = has_dates(jobs)
    part = (
        local_times(submit, tz).to_period(period).astype(str)
        if dated
        else ((submit - jobs["submit_time"].min()) // (86_400 * n_days)).to_numpy()
    )
    frame = pd.DataFrame({"period": part, "covered": covered})
    grouped = frame.groupby("period")["covered"].agg(n="size", coverage="mean").reset_index()
    if not dated:
        grouped["period"] = [f"days {n_days * i}–{n_days * (i + 1) - 1}" for i in grouped["period"]]
    return grouped


def weights_by_month(found: Evaluation, split: str) -> dict[str, dict[str, float]]:
    """Return the mixture's mean weight of each expert by month of submission (UTC)."""
    rows, stated = found.stated[split]
    moment = pd.to_datetime(found.jobs["submit_time"].to_numpy()[rows], unit="s")
    table = pd.DataFrame(stated.weights, columns=list(NAMES)).groupby(moment.to_period("M").astype(str)).mean()
    return {
        str(month): {name: round(float(value), 4) for name, value in row.items()} for month, row in table.iterrows()
    }


FEW_BURSTS = 30
"""Fewer bursts in the test part cannot tell two good methods apart."""


def verdict(found: Evaluation) -> str:
    """Say in a sentence a split how ours compares with the best other method, and whether bursts tell them apart."""
    said = []
    for split in found.splits:
        own = {method: (rows, one) for (name, method), (rows, one) in found.forecasts.items() if name == split}
        table = pd.DataFrame([row for row in found.rows if row["split"] == split]).groupby("method").first()
        loss, error = (table[name].sort_values(kind="stable") for name in ("pinball", "mae"))
        if "procure" not in own or len(loss) < 2:
            said.append(f"{split}: {error.index[0]} has the least error, {duration(error.iloc[0])} on average.")
            continue
        rows, ours = own["procure"]
        best, nearest_ = loss.drop("procure").index[0], error.drop("procure").index[0]
        burst = bursts(found.jobs)[rows]
        words = (
            f"{split}: procure's pinball loss is {duration(loss['procure'])}, that of {best}, the best other, "
            f"{duration(loss[best])}; its mean error {duration(error['procure'])}, that of {nearest_} "
            f"{duration(error[nearest_])}. Its 90 % interval held {table.loc['procure', 'coverage_90']:.0%} of the "
            f"waits, {table.loc['procure', 'coverage_90_by_burst']:.0%} by burst. "
        )
        words += _told_apart(beats(found.wait[rows], ours, own[best][1], burst), best, len(np.unique(burst)))
        if split in found.stated:
            mean = found.stated[split][1].weights.mean(axis=0)
            top = [f"{NAMES[i]} {mean[i]:.0%}" for i in np.argsort(-mean, kind="stable")[:3]]
            words += f" It went by {', '.join(top)}."
        said.append(words)
    return "\n".join(said)


def _told_apart(share: float, best: str, n: int) -> str:
    """Say what draws of the test part's bursts tell of two methods; ``share`` of them are for ours."""
    if n < FEW_BURSTS:
        return f"The jobs judged lie in {counted(n, 'burst')}, too few to tell whether that is luck."
    if 0.05 <= share <= 0.95:
        return f"Which of the two is better is a matter of which of the {n:,} bursts came: by pinball loss they tie."
    better, often = ("procure", share) if share > 0.5 else (best, 1 - share)
    return f"Over draws of the {n:,} bursts {better} has less loss in {often:.0%}."
