"""When will this job start? Predict from one request, a model, and the queue as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.progress import track
from procure.queue_time.calibrate import GRID
from procure.queue_time.distribution import Distribution
from procure.queue_time.features import features_of
from procure.queue_time.log import Log, read_jobs
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.store import SiteModel
from procure.text import counted, nearest, roughly


@dataclass(frozen=True)
class Request:
    """What a job asks for; memory in MB per node, time in seconds, 0 = no limit.

    Examples
    --------
    >>> import procure
    >>> procure.QueueRequest(cpus=16, requested_time=8 * 3600).nodes
    1
    """

    cpus: int
    requested_time: int
    mem_mb: int = 0
    gpus: int = 0
    nodes: int = 1
    partition: str = ""
    user: str = ""

    @classmethod
    def of(cls, job: Any) -> Request:
        """Return what a row of a job table asks for."""
        return cls(
            int(job.n_nodes * job.cpus_per_node),
            int(job.requested_time),
            int(job.mem_mb_per_node),
            int(job.n_nodes * job.gpus_per_node),
            int(job.n_nodes),
            str(job.partition),
            str(job.user),
        )


def check_request(site: SiteModel, request: Request, state: pd.DataFrame | None = None) -> None:
    """Refuse a request that this site cannot run or does not know, from its log or from the queue as it is.

    Raises
    ------
    TableError
        A job larger than anything seen on the site, a negative amount, or an unknown partition.
    """
    for name, value, unit in (
        ("cpus", request.cpus, "CPUs"),
        ("mem", request.mem_mb * request.nodes, "MB"),
        ("gpus", request.gpus, "GPUs"),
    ):
        most = site.about["most"][name]
        if value < 0:
            raise TableError(f"{value} {unit} was asked for; an amount cannot be negative")
        if value > most and (name != "mem" or most > 0):
            raise TableError(f"the job asks for {value:,} {unit}; the most seen on this site is {most:,.0f}")
    if request.cpus < 1 or request.nodes < 1 or request.requested_time < 0:
        raise TableError("a job needs at least 1 CPU, 1 node and a time limit that is not negative")
    known = [*site.about["partitions"], *([] if state is None else state["partition"].unique())]
    if request.partition and request.partition not in known:
        raise TableError(f"unknown partition {request.partition!r}; {nearest(request.partition, known)}")


def moment_of(site: SiteModel, state: pd.DataFrame | None = None) -> int:
    """Return the Unix second just after what is known last: of the queue, else of the model's history."""
    if state is None or state.empty:
        return int(site.about["end"]) + 1
    known = (state["submit_time"], state["start_time"].dropna())
    return max(int(times.max()) for times in known if len(times)) + 1


@dataclass(frozen=True)
class Situation:
    """A job in the queue as it is.

    Attributes
    ----------
    request, now
        What it asks for, and Unix seconds.
    table, row
        All jobs that are known at its submission or now, and the place of this one among them.
    log
        The table laid out for the features.
    features
        Of this job at its submission; one row.
    """

    request: Request
    now: int
    table: pd.DataFrame
    row: int
    log: Log
    features: pd.DataFrame


def situation(
    site: SiteModel, request: Request, state: pd.DataFrame | None = None, now: int | None = None
) -> Situation:
    """Put a job that is submitted now into the queue.

    Parameters
    ----------
    site
        The model, whose history stands for the recent past.
    request
        The job; without a partition it goes to the most used one.
    state
        The queue now, from `state.read_state`; without it the end of the model's history is now.
    now
        Unix seconds; by default `moment_of`.
    """
    now = moment_of(site, state) if now is None else now
    history = _known(site, state)
    history = history[history["submit_time"] <= now]
    request = replace(request, partition=request.partition or usual_partition(site))
    job = {
        "job_id": "?",
        "user": request.user,
        "partition": request.partition,
        "submit_time": now,
        "requested_time": request.requested_time,
        "run_time": 0,
        "n_nodes": request.nodes,
        "cpus_per_node": -(-request.cpus // request.nodes),
        "mem_mb_per_node": request.mem_mb,
        "gpus_per_node": -(-request.gpus // request.nodes),
    }
    table = pd.concat([history, pd.DataFrame([job])], ignore_index=True)
    row, log = len(table) - 1, read_jobs(table)
    return Situation(request, now, table, row, log, _features(site, log, np.array([row])))


def features_instead(site: SiteModel, here: Situation, request: Request) -> pd.DataFrame:
    """Return the features of another request of the same user in the same partition and queue; one row."""
    nodes, cpus, gpus = request.nodes, -(-request.cpus // request.nodes), -(-request.gpus // request.nodes)
    amounts = {"nodes": nodes, "cpus": nodes * cpus, "mem": nodes * request.mem_mb, "gpus": nodes * gpus}
    log = here.log.asking(here.row, **amounts, limit=request.requested_time)
    return _features(site, log, np.array([here.row]))


def usual_partition(site: SiteModel) -> str:
    """Return the partition of most of the jobs that the model keeps."""
    return str(next(iter(site.history["partition"].value_counts().index), ""))


def _known(site: SiteModel, state: pd.DataFrame | None) -> pd.DataFrame:
    """Return the model's history; with a state, its jobs that have ended, and those of the state."""
    if state is None:
        return site.history
    history = site.history
    history = history[history["end_time"].notna() & ~history["job_id"].isin(state["job_id"])]
    return pd.concat([history, state], ignore_index=True)


def _features(site: SiteModel, log: Log, rows: np.ndarray) -> pd.DataFrame:
    return features_of(log, rows, site.about["most"], site.about.get("replay", False))


def forecast(
    site: SiteModel, features: pd.DataFrame, deadline: float | None = None, doubt: float = 0.0
) -> dict[str, float | None]:
    """Predict when a job that is submitted now starts: seconds from now.

    Parameters
    ----------
    site, features
        The model, and one row of features.
    deadline
        Seconds from now; None = no chance is asked for.
    doubt
        Of `cautions.Caution`, in all: how much wider than stated the distribution is made.

    Returns
    -------
    dict
        ``median, lower_50, upper_50, lower_90, upper_90, p_before_deadline``, intervals by
        `calibrate.interval_levels`; a point method knows only the first.
    """
    if not isinstance(site.model, QueueTimeModel):
        point = max(float(site.model.predict(features)[0]), 0.0)
        empty: dict[str, float | None] = dict.fromkeys(("lower_50", "upper_50", "lower_90", "upper_90"))
        return {"median": point} | empty | {"p_before_deadline": None}
    said = site.model.distribution(features)
    return _read(widened(said, doubt) if doubt else said, deadline)


def _read(said: Distribution, deadline: float | None = None) -> dict[str, float | None]:
    """Read what is stated of one job off its distribution."""
    values: dict[str, float | None] = {"median": float(said.quantile(0.5)[0])}
    for share in (50, 90):
        values[f"lower_{share}"], values[f"upper_{share}"] = said.interval(share / 100)[0].tolist()
    chance = None if deadline is None else float(said.chance(deadline)[0])
    return values | {"p_before_deadline": chance}


def rest(model: QueueTimeModel, submitted: pd.DataFrame, now: pd.DataFrame, waited: float) -> Distribution:
    """Return the distribution of what remains for a job that waits already.

    Three views meet: its own distribution given that it has not started yet, that of a job like it which comes now
    in its place of the queue, and its own as if the wait so far told nothing. Each quantile is the mean of theirs on a
    log scale. Who has waited longer than all waits known goes by the first alone.

    Parameters
    ----------
    model
        The model.
    submitted, now
        One row of features each: of its submission, and of one like it that comes now, nobody behind it counted.
    waited
        Seconds.
    """
    own = model.distribution(submitted)
    given = own.after(waited, model.usual)
    if waited > model.usual[-1]:
        return given
    views = [given.curve, model.distribution(now).curve, own.curve]
    return Distribution(np.expm1(np.log1p(views).mean(axis=0)))


def widened(said: Distribution, doubt: float) -> Distribution:
    """Widen each distribution: scale the tail probability by 1 − ``doubt``; the median stays.

    With 0.5 the 90 % interval is what was the 95 % interval.
    """
    keep = 1 - min(doubt, 0.9)
    below = GRID < 0.5
    outside = 2 * np.where(below, GRID, 1 - GRID)  # what is beyond an interval that reaches to this level
    moved = outside * (keep + (1 - keep) * outside) / 2
    return Distribution(said.quantile(np.where(below, moved, 1 - moved)))


def what_if(
    site: SiteModel,
    request: Request,
    state: pd.DataFrame | None = None,
    deadline: float | None = None,
    now: int | None = None,
    doubt: Callable[[Request, Situation], float] = lambda asked, here: 0.0,
) -> pd.DataFrame:
    """Rank the same work in other sizes, times and partitions by its expected start.

    Sizes keep CPUs × time; the soonest median is first. ``doubt`` tells how much wider than stated each forecast is
    made, see `answer.doubt_in`.
    """
    choices = [request]
    for factor in (0.25, 0.5, 2, 4):
        cpus = max(1, round(request.cpus * factor))
        time = max(60, round(request.requested_time * request.cpus / cpus)) if request.requested_time else 0
        choices.append(replace(request, cpus=cpus, nodes=min(request.nodes, cpus), requested_time=time))
    if request.requested_time:
        choices += [replace(request, requested_time=max(60, request.requested_time // d)) for d in (2, 4)]
    counts = site.history["partition"].value_counts()
    choices += [
        replace(request, partition=str(name))
        for name in counts.index[:6]
        if name and name != (request.partition or usual_partition(site))
    ]
    rows = []
    for choice in dict.fromkeys(choices):
        try:
            check_request(site, choice, state)
        except TableError:
            continue
        here = situation(site, choice, state, now)
        expected = forecast(site, here.features, deadline, doubt(choice, here))
        asked = {"cpus": choice.cpus, "requested_time": choice.requested_time, "partition": choice.partition}
        rows.append(asked | expected | {"as_asked": choice == request})
    return pd.DataFrame(rows).sort_values(["median", "upper_90"], kind="stable", ignore_index=True)


def conclude(choices: pd.DataFrame) -> str:
    """Say in a sentence which of the ways of `what_if` to take.

    Another way is worth naming where it cuts the median wait by a fifth, a minute or more.
    """
    asked = choices[choices["as_asked"]].iloc[0]
    best = choices.iloc[0]
    when = roughly(best["median"])
    when = when if when == "at once" else f"in about {when}"
    saved = asked["median"] - best["median"]
    if saved < max(60, 0.2 * asked["median"]):
        return f"Ask as you did: no other way to do the same work is expected to start much sooner than {when}."
    less = best["cpus"] * best["requested_time"] < 0.9 * asked["cpus"] * asked["requested_time"]
    limit = f" for {roughly(best['requested_time'])}" if best["requested_time"] else ""
    limit += ", if your job ends by then" if less else ""
    where = f" in {best['partition']}" if best["partition"] != asked["partition"] else ""
    sure = "" if best["upper_90"] is None or best["upper_90"] < asked["median"] else ", though not surely so"
    return (
        f"Ask for {counted(int(best['cpus']), 'CPU')}{where}{limit}: expected to start {when}, {roughly(saved)} sooner "
        f"than as asked{sure}."
    )


def pending_waits(
    site: SiteModel, state: pd.DataFrame, user: str, now: int | None = None, most: int | None = None
) -> pd.DataFrame:
    """Predict when a user's pending jobs start, given how long each has waited: the first ``most`` of them, or all.

    Returns
    -------
    pandas.DataFrame
        ``job_id cpus requested_time partition waited`` and what `forecast` returns, s from now; a row per job, in
        order of submission.
    """
    now = moment_of(site, state) if now is None else now
    table = _known(site, state)
    waits = (table["start_time"].isna() & table["end_time"].isna()).to_numpy()
    submit = table["submit_time"].to_numpy()
    mine = np.flatnonzero(waits & (table["user"] == user).to_numpy())
    mine = mine[np.argsort(submit[mine], kind="stable")][:most]
    submitted = _features(site, read_jobs(table), mine)
    rows = []
    for place, row in enumerate(track(mine.tolist(), "looking at pending jobs", "job")):
        job, waited = next(table.iloc[[row]].itertuples()), max(now - int(submit[row]), 0)
        others, last = _in_its_place(table, row, waits & (submit > submit[row]), now)
        fresh = _features(site, read_jobs(others), last)
        request = Request.of(job)
        about = {
            "job_id": str(job.job_id),
            "cpus": request.cpus,
            "requested_time": request.requested_time,
            "partition": request.partition,
            "waited": waited,
        }
        if isinstance(site.model, QueueTimeModel):
            rows.append(about | _read(rest(site.model, submitted.iloc[[place]], fresh, waited)))
        else:
            rows.append(about | forecast(site, fresh))
    return pd.DataFrame(rows)


def _in_its_place(table: pd.DataFrame, row: int, behind: np.ndarray, now: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a job table in which a waiting job comes now and nobody waits behind it, and its place, the last."""
    others = table[~behind & (np.arange(len(table)) != row) & (table["submit_time"] <= now).to_numpy()]
    again = table.iloc[[row]].assign(submit_time=now)
    return pd.concat([others, again], ignore_index=True), np.array([len(others)])
