"""Train a site's model on its job log, and continue it with newer rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.progress import silent, step
from procure.queue_time.answer import bounds, drifts
from procure.queue_time.features import NEEDED_SECONDS, site_features
from procure.queue_time.log import UNKNOWN, Outcomes, queue_jobs, wait_times
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.store import GROWN, SiteModel, recent
from procure.text import be, counted, roughly

_KEYS = ["job_id", "submit_time"]
MOST_JOBS = 1_000_000
"""Jobs whose features training makes, 2 kB each. The boosters learn from `Settings.max_rows` of them, the last."""


def train(jobs: pd.DataFrame, settings: Settings | None = None) -> SiteModel:
    """Train a site's model on the last jobs of a log; on the last 15 % of the rows its experts are weighed.

    Parameters
    ----------
    jobs
        A checked job table with start times.
    settings
        Of the model.

    Examples
    --------
    >>> import procure
    >>> ran = procure.read_log("ran.parquet").jobs
    >>> procure.train_queue(ran).about["n_rows"] >= 100
    True
    """
    n_given, jobs = len(jobs), last_jobs(queue_jobs(jobs))
    of = f"the last {len(jobs):,} of {n_given:,}" if len(jobs) < n_given else f"{n_given:,}"
    with step(f"computing the features of {of} jobs"):
        features, wait = site_features(jobs), wait_times(jobs)
    rows = np.flatnonzero(~np.isnan(wait))
    if len(rows) < 100:
        known = f"{counted(len(rows), 'job')} with a start {be(len(rows))} too few to learn from"
        raise TableError(f"{known}; at least 100 are needed")
    outcomes, model = Outcomes.of(jobs), QueueTimeModel(settings or Settings())
    n_learnt = min(len(rows), model.settings.max_rows)
    with step(f"training on {n_learnt:,} jobs"):
        model.learn(features, outcomes, rows, _known_until(outcomes))
    about = _about(jobs, features, len(rows)) | {"trained_rows": n_learnt, "rows_since": 0}
    return SiteModel(model, about, recent(jobs))


def last_jobs(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the last `MOST_JOBS` of a log, and those that ran or waited when the first of these was submitted."""
    if len(jobs) <= MOST_JOBS:
        return jobs
    since = jobs["submit_time"].iloc[-MOST_JOBS]
    return jobs[(jobs["submit_time"] >= since) | (jobs["end_time"] >= since).fillna(True)].reset_index(drop=True)


def _about(jobs: pd.DataFrame, features: pd.DataFrame, n_rows: int) -> dict[str, Any]:
    seen = {name: float(features[f"{name}_in_use"].max()) for name in ("cpus", "mem", "gpus")}
    asked = zip(seen, ("cpus_per_node", "mem_mb_per_node", "gpus_per_node"), strict=True)
    most = {name: max(seen[name], float((jobs["n_nodes"] * jobs[each]).max())) for name, each in asked}
    starts = jobs["start_time"].dropna()
    end = int(max(jobs["submit_time"].max(), starts.max()))
    return {
        "n_rows": n_rows,
        "first": int(jobs["submit_time"].min()),
        "last": int(jobs["submit_time"].max()),
        "end": end,
        "trained_until": end,
        "partitions": sorted(set(jobs["partition"].astype(str))),
        "most": most,
        "seen": seen,
        "bounds": bounds(features),
    }


def _known_until(outcomes: Outcomes) -> float:
    """Return the moment after the last that a log tells of."""
    return float(max(outcomes.submit.max(), outcomes.left[outcomes.left < UNKNOWN].max(initial=0))) + 1


def continue_training(
    site: SiteModel, jobs: pd.DataFrame, *, now: float | None = None, note: Callable[[str], None] = silent
) -> SiteModel:
    """Continue a model from a newer log.

    The jobs after those seen, if any, join the history, from which the next features are made; what became of jobs
    that waited is filled in; our model's mixture learns from both.

    Parameters
    ----------
    site, jobs
        The model; a checked job table that follows its log.
    now
        The time, of a service that continues its model every hour: what happened since the last time is learnt then,
        from what was stated until then, as `evaluation.evaluate` does between two updates.
    note
        Called with what was done and with warnings of drift.

    Examples
    --------
    >>> import procure
    >>> ran = procure.read_log("ran.parquet").jobs
    >>> model = procure.train_queue(ran.iloc[:300])
    >>> procure.update_queue(model, ran).about["n_rows"] > 300
    True
    """
    jobs = queue_jobs(jobs)
    unended = site.history[site.history["end_time"].isna()]
    if jobs["submit_time"].max() < site.about["last"] and not _among(jobs, unended).any():
        raise TableError(
            "the log ends before the model's own does and has no job that waited or ran then; nothing to continue with"
        )
    gap = int(jobs["submit_time"].min()) - int(site.about["end"])
    if gap > NEEDED_SECONDS:
        raise TableError(
            f"the log begins {roughly(gap)} after the model's ends: what came between is not known; give the log from "
            "then on, or train anew on it"
        )
    joined = _joined(site.history, jobs, (jobs["submit_time"] > site.about["last"]).to_numpy())
    fresh = np.flatnonzero(joined["submit_time"] > site.about["last"])
    features = site_features(joined, site.seen)
    _learn_more(site.model, joined, features, fresh, now)
    told, known = (table[~np.isnan(wait_times(table))] for table in (site.history, joined))
    n_known = int((~_among(known, told)).sum())
    about = _about(joined, features, site.about["n_rows"] + n_known)
    about["rows_since"] = site.about["rows_since"] + n_known
    about |= {name: site.about[name] for name in ("first", "bounds", "trained_until", "trained_rows")}
    for kind, before in (("most", site.about["most"]), ("seen", site.seen)):
        about[kind] = {name: max(value, before[name]) for name, value in about[kind].items()}
    about["partitions"] = sorted({*about["partitions"], *site.about["partitions"]})
    made = SiteModel(site.model, about, recent(joined))
    if made.grown >= GROWN:
        note(f"{made.grown:.0%} more waits are known than the boosters learnt from; train anew on the whole log")
    for text in drifts(about["bounds"], features):
        note(f"careful: {text}")
    note(f"{len(fresh):,} newer jobs")
    return made


def _among(jobs: pd.DataFrame, others: pd.DataFrame) -> np.ndarray:
    """Return which jobs are in another table, too, (n,) bool: ids may come again after years."""
    one, other = (pd.MultiIndex.from_frame(table[_KEYS].astype({"job_id": str})) for table in (jobs, others))
    return np.asarray(one.isin(other))


def _joined(history: pd.DataFrame, jobs: pd.DataFrame, new: np.ndarray) -> pd.DataFrame:
    """Return the history, its rows as the newer log has them where it does, and the new rows.

    A job that had not ended is the same under its id alone: it may have become eligible again.
    """
    moved = history["end_time"].isna() & history["job_id"].isin(jobs["job_id"]) & ~_among(history, jobs)
    new = new | jobs["job_id"].isin(history.loc[moved, "job_id"]).to_numpy()
    history = history[~moved]
    joined = pd.concat([history, jobs[new | _among(jobs, history)]], ignore_index=True)
    joined = joined[~joined.astype({"job_id": str}).duplicated(_KEYS, keep="last")]
    return joined.sort_values("submit_time", kind="stable").reset_index(drop=True)


def _learn_more(
    model: QueueTimeModel, joined: pd.DataFrame, features: pd.DataFrame, fresh: np.ndarray, moment: float | None
) -> None:
    """Let a model's mixture see what became of the jobs it followed, and the new jobs."""
    outcomes = Outcomes.of(joined)
    now = dict(zip(zip(outcomes.name, outcomes.submit, strict=True), range(len(outcomes)), strict=True))
    followed = model.mixture.jobs
    for position, key in enumerate(zip(followed.name, followed.submit, strict=True)):
        if key in now:
            followed.left[position] = outcomes.left[now[key]]
            followed.started[position] = outcomes.started[now[key]]
    until, every = _known_until(outcomes), 0.0
    if moment is not None and moment > model.mixture.until:
        until, every = moment, moment - model.mixture.until
    raw = model.experts_in_time(features, outcomes, fresh, model.mixture.until, every)
    model.mixture.roll(outcomes.take(fresh), raw, model.beyond(features.iloc[fresh]), model.top, until, every)
    if every:
        model.train_again(features, outcomes, until)
