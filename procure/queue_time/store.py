"""The model of a site: a fitted model, its last jobs and how it was trained; trained, continued, written and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import Archive, read_archive, write_archive
from procure.progress import silent, step
from procure.queue_time.booster import Booster
from procure.queue_time.features import NEEDED_SECONDS, picked, site_features
from procure.queue_time.log import UNKNOWN, Log, Outcomes, queue_jobs, read_jobs, wait_times
from procure.queue_time.mixture import Mixture
from procure.queue_time.model import QueueTimeModel, Settings
from procure.text import be, counted, roughly

SCHEMA = "procure-queue-time/11"
HISTORY, SPAN, MOST_HISTORY = 30_000, 8 * 86_400, 100_000
"""Last jobs that a model file keeps; more if the longest window of the features, in seconds, has more; the most."""
GROWN = 0.2
"""How many more waits are known when boosters are trained again, as a share of those that they learnt from: all
trainings before the last then learn from at most 1/0.2 = 5 rows for each of these, so that cost grows with the log."""
_KEPT = ("names", "most_waiting", "again_until")
_STATE, _COUNTS = ("experts", "ends", "counted"), ("share", "until")
"""What is written of a `QueueTimeModel`, and of its `mixture.Mixture` the arrays and numbers."""
_TEXT = ("job_id", "user", "partition", "gpu_type")
_NUMBER = tuple(
    (
        "submit_time requested_time run_time n_nodes cpus_per_node mem_mb_per_node gpus_per_node start_time end_time"
    ).split()
)


@dataclass
class SiteModel:
    """The content of a model file.

    ``about`` says when, on what and how it was trained, the site's partitions and largest job, the drift
    bounds and the trend's record; ``history`` is a job table of the last jobs.
    """

    model: QueueTimeModel
    about: dict[str, Any]
    history: pd.DataFrame

    @cached_property
    def laid_out(self) -> Log:
        """The history as arrays, made once."""
        return read_jobs(self.history)

    @property
    def seen(self) -> dict[str, float]:
        """The most of each resource that was in use before the history begins, of which features state shares.

        A job may have asked for more, which never ran: ``about["most"]`` is what may be asked for.
        """
        return dict(self.about.get("seen", self.about["most"]))  # a file of an older version knows that alone

    @property
    def grown(self) -> float:
        """How many waits became known since the boosters were trained, per wait that they learnt from."""
        return float(self.about["rows_since"] / self.about["trained_rows"])

    @cached_property
    def partitions(self) -> list[str]:
        """The partitions of the history, those of most jobs first."""
        return [str(name) for name in self.history["partition"].value_counts().index]


def recent(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the last jobs of a log in submission order: those that the next job's features need."""
    if "gpu_type" not in jobs.columns:
        jobs = jobs.assign(gpu_type="")
    submit = jobs["submit_time"].to_numpy()
    in_span = len(jobs) - int(np.searchsorted(submit, submit[-1] - SPAN)) if len(jobs) else 0
    return jobs.tail(min(max(HISTORY, in_span), MOST_HISTORY)).reset_index(drop=True)


def save(site: SiteModel, path: Path) -> None:
    """Write a model file, whole or not at all.

    Examples
    --------
    >>> import procure
    >>> from pathlib import Path
    >>> model = procure.train_queue(procure.read_log("ran.parquet").jobs)
    >>> procure.save_queue(model, Path("site.model"))
    """
    settings, arrays, boosters = _flat(site.model)
    head = {"schema": SCHEMA, "method": "procure", "settings": settings, "about": site.about}
    arrays |= {name: np.frombuffer(booster.content, np.uint8) for name, booster in boosters.items()}
    write_archive(path, Archive(head, arrays | _history_arrays(site.history)))


def load(path: Path) -> SiteModel:
    """Read a model file.

    Raises
    ------
    TableError
        No such file, a truncated or damaged one, or one of another schema.

    Examples
    --------
    >>> import procure
    >>> from pathlib import Path
    >>> procure.save_queue(procure.train_queue(procure.read_log("ran.parquet").jobs), Path("a.model"))
    >>> procure.load_queue(Path("a.model")).about["n_rows"] >= 100
    True
    """
    archive = read_archive(path, SCHEMA, "; `procure queue train` writes one")
    head, arrays = archive.head, archive.arrays
    try:
        model = _assemble(head, arrays, str(path))
        return SiteModel(model, head["about"], _history_frame(arrays))
    except TableError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError):
        raise TableError(f"{path}: not a whole model file, a part of it is missing; train it again") from None


def _flat(model: QueueTimeModel) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, Booster]]:
    """Return what a model is of: settings, arrays, boosters."""
    mixture = model.mixture
    arrays = {"usual": model.usual, "deadlines": model.deadlines}
    arrays |= {f"mixture_{name}": getattr(mixture, name) for name in _STATE}
    arrays |= {f"jobs_{name}": values for name, values in vars(mixture.jobs).items()}
    settings = asdict(model.settings) | {name: getattr(model, name) for name in _KEPT}
    settings["mixture"] = {name: getattr(mixture, name) for name in _COUNTS}
    return settings, arrays, {f"booster_{name}": booster for name, booster in model.boosters.items()}


def _assemble(head: Mapping[str, Any], arrays: Mapping[str, np.ndarray], source: str) -> QueueTimeModel:
    settings = dict(head["settings"])

    def boosters(prefix: str) -> dict[str, Booster]:
        names = (name for name in arrays if name.startswith(prefix))
        return {name.removeprefix(prefix): Booster.from_bytes(arrays[name].tobytes(), source) for name in names}

    if head["method"] != "procure":
        raise TableError(f"{source}: the method {head['method']!r:.40} has no model files any more; train it again")
    counts, kept = settings.pop("mixture"), {name: settings.pop(name) for name in _KEPT}
    ours = QueueTimeModel(Settings(**settings), deadlines=arrays["deadlines"], usual=arrays["usual"], **kept)
    ours.boosters = boosters("booster_")
    state: dict[str, Any] = {name: arrays[f"mixture_{name}"] for name in _STATE}
    state |= {name: float(counts[name]) for name in _COUNTS}
    ours.mixture = Mixture(Outcomes(*(arrays[f"jobs_{one.name}"] for one in fields(Outcomes))), **state)
    return ours


def _history_arrays(history: pd.DataFrame) -> dict[str, np.ndarray]:
    texts = {f"history_{name}": history[name].astype(str).to_numpy(dtype="U") for name in _TEXT}
    whole = history[list(_NUMBER)].astype("Int64").fillna(-(2**62)).astype(np.int64)
    return texts | {f"history_{name}": whole[name].to_numpy() for name in _NUMBER}


def _history_frame(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    columns: dict[str, Any] = {name: arrays[f"history_{name}"].astype(object) for name in _TEXT}
    columns |= {name: pd.Series(arrays[f"history_{name}"]) for name in _NUMBER}
    for name in ("start_time", "end_time"):
        columns[name] = columns[name].astype("Int64").where(columns[name] > -(2**62))
    return pd.DataFrame(columns)


SLACK = 0.25
"""A load is unlike those of the training from so far beyond their range, as a share of it."""
WATCHED = {
    "queue_depth": "jobs in the queue",
    "cpus_in_use": "CPUs in use",
    "queued_cpu_seconds": "CPU-seconds in the queue",
    "submitted_24h": "submissions in 24 hours",
}
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


def bounds(features: pd.DataFrame) -> dict[str, list[float]]:
    """Keep the 0.5th and 99.5th percentile of each watched load in the training window."""
    return {name: np.quantile(features[name].to_numpy(dtype=float), [0.005, 0.995]).tolist() for name in WATCHED}


def drifts(known: dict[str, list[float]], features: pd.DataFrame) -> list[str]:
    """Return which loads of the last row of features lie outside `bounds`, a line each."""
    names = [name for name in WATCHED if name in known]
    lines = []
    for name, value in zip(names, picked(features, names)[-1].tolist(), strict=True):
        low, high = known[name]
        if not low - SLACK * (high - low) <= value <= high + SLACK * (high - low):
            lines.append(f"{WATCHED[name]} {value:,.0f} now, {low:,.0f} to {high:,.0f} in training")
    return lines


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
