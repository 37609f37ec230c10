"""Train and evaluate every method on the same splits, with naive baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from procure.progress import silent
from procure.queue_time import rival
from procure.queue_time.distribution import Distribution
from procure.queue_time.experts import guess
from procure.queue_time.features import site_features
from procure.queue_time.log import Outcomes, queue_jobs, wait_times
from procure.queue_time.metrics import HOURS, LEVELS, Forecast, beats, judge
from procure.queue_time.mixture import Stated
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.published import Published
from procure.queue_time.splits import Split, bursts, chronological, random_split
from procure.text import counted, duration

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
    """Return what `rival` says, which looks at waits before the cut alone where the split is drawn."""
    submit = found.jobs["submit_time"].to_numpy(dtype=float)
    order = np.random.default_rng(0).permutation(split.train)
    if split.cut is not None:
        order = split.train[np.argsort(submit[split.train], kind="stable")]
    early, late = np.split(order, [round((1 - HELD_BACK) * len(order))])
    pairs = ((early, late), (split.train, split.test))
    said = [rival.views(found.features, found.wait, fitted, asked, seed) for fitted, asked in pairs]
    rows = np.concatenate([late, split.test])
    moment = submit[rows] if split.cut is not None else np.where(np.arange(len(rows)) < len(late), -np.inf, 0.0)
    five = rival.average(np.concatenate(said), moment, found.wait[rows], len(late))
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
