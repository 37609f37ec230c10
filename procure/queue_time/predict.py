"""When will this job start? Predict from one request or batch script, a model, and the queue as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.progress import track
from procure.queue_time.distribution import GRID, Distribution, quantiles_at
from procure.queue_time.features import features_of
from procure.queue_time.log import NEVER, Log, read_jobs
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.store import SiteModel
from procure.text import nearest
from procure.workload.asked import Unreadable, amount, asked_for, script_options
from procure.workload.slurm import array_tasks, slurm_limit


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
    gpu_type: str = ""

    @property
    def amounts(self) -> dict[str, Any]:
        """What the whole job takes, whole CPUs and GPUs on each node, as `log.Log.asking` reads it."""
        cpus, gpus = -(-self.cpus // self.nodes), -(-self.gpus // self.nodes)
        return {
            "nodes": self.nodes, "cpus": self.nodes * cpus, "mem": self.nodes * self.mem_mb,
            "gpus": self.nodes * gpus, "limit": self.requested_time, "user": self.user, "partition": self.partition,
            "model": self.gpu_type if self.gpus else "",
        }  # fmt: skip

    @property
    def kind(self) -> tuple[Any, ...]:
        """What two jobs have in common of which the later one does not start first."""
        return tuple(self.amounts.values())

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
            str(getattr(job, "gpu_type", "")),
        )


def check_request(site: SiteModel, request: Request, state: pd.DataFrame | None = None) -> None:
    """Refuse a request that this site cannot run or does not know, from its log or from the queue as it is."""
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


def can_run(site: SiteModel, request: Request, state: pd.DataFrame | None = None) -> bool:
    """Return whether `check_request` refuses nothing."""
    try:
        check_request(site, request, state)
    except TableError:
        return False
    return True


def moment_of(site: SiteModel, state: pd.DataFrame | None = None) -> int:
    """Return the Unix second just after what is known last: of the queue, else of the model's history."""
    if state is None or state.empty:
        return int(site.about["end"]) + 1
    known = (state["submit_time"], state["start_time"].dropna())
    return max(int(times.max()) for times in known if len(times)) + 1


class Situation(NamedTuple):
    """Jobs that come to the queue as it is, each without the others."""

    requests: list[Request]  # one without a partition goes to the most used one
    now: int  # Unix seconds
    log: Log  # all jobs that are known
    ask: Log  # the jobs as questions to it
    features: pd.DataFrame  # at their submission, a row each


def situation(
    site: SiteModel,
    requests: Sequence[Request],
    state: pd.DataFrame | None = None,
    now: int | None = None,
    log: Log | None = None,
) -> Situation:
    """Put jobs that are submitted now into the queue.

    ``state`` is the queue now, of `state.read_state`; without it the end of the model's history, which stands for the
    recent past, is now. ``now`` is `moment_of` by default; ``log`` has all jobs that are known, if they are laid out.
    """
    now = moment_of(site, state) if now is None else now
    if log is None:
        log = site.laid_out if state is None else read_jobs(_known(site, state))
    placed = [replace(one, partition=partition_of(site, one.partition)) for one in requests]
    ask = log.asking(now, [one.amounts for one in placed])
    return Situation(placed, now, log, ask, features_of(log, ask, site.seen))


def knows_partitions(site: SiteModel) -> bool:
    """Return whether any job of the model's log was in a named partition; if none was, it knows one queue."""
    return any(site.about["partitions"])


def partition_of(site: SiteModel, asked: str) -> str:
    """Return the partition, known to the model, of a job that asks for one or (empty) for none."""
    return (asked or usual_partition(site)) if knows_partitions(site) else ""


def usual_partition(site: SiteModel) -> str:
    """Return the partition of most of the jobs that the model keeps."""
    return next(iter(site.partitions), "")


def _known(site: SiteModel, state: pd.DataFrame) -> pd.DataFrame:
    """Return the jobs of the model's history that have ended, and those of a state, one queue if it knows but one."""
    state = state if knows_partitions(site) else state.assign(partition="")
    history = site.history
    history = history[history["end_time"].notna() & ~history["job_id"].isin(state["job_id"])]
    return pd.concat([history, state], ignore_index=True)


def rest(model: QueueTimeModel, submitted: pd.DataFrame, now: pd.DataFrame, waited: float) -> Distribution:
    """Return the distribution of what remains for a job that waits already.

    Three views meet: its own distribution given that it has not started yet, that of a job like it which comes now
    in its place of the queue, and its own as if the wait so far told nothing. Each quantile is the mean of theirs on a
    log scale. Who has waited longer than all waits known goes by the first alone. ``submitted`` and ``now`` are one row
    of features each: of its submission, and of one like it that comes now, nobody behind it counted.
    """
    own = model.distribution(submitted)
    given = own.after(waited, model.usual)
    if waited > model.usual[-1]:
        return given
    views = [given.curve, model.distribution(now).curve, own.curve]
    return Distribution(np.expm1(np.log1p(views).mean(axis=0)))


def widened(said: Distribution, doubt: np.ndarray | float) -> Distribution:
    """Widen each distribution: scale the tail probability by 1 − its ``doubt``; the median stays.

    With 0.5 the 90 % interval is what was the 95 % interval.
    """
    doubt = np.broadcast_to(np.minimum(doubt, 0.9), len(said.curve))[:, None]
    below = GRID < 0.5
    outside = 2 * np.where(below, GRID, 1 - GRID)  # what is beyond an interval that reaches to this level
    moved = outside * (1 - doubt + doubt * outside) / 2
    levels = np.where(below, moved, 1 - moved)
    return Distribution(np.where(doubt > 0, quantiles_at(said.curve, levels), said.curve))


def pending_waits(
    site: SiteModel,
    state: pd.DataFrame,
    user: str,
    now: int | None = None,
    most: int | None = None,
    job_id: str | None = None,
) -> pd.DataFrame:
    """Predict when a user's pending jobs start, given how long each has waited.

    All of them, the first ``most``, or the one of a ``job_id``: ``job_id cpus requested_time partition waited`` and
    what `Distribution.summary` says, s from now, a row per job in order of submission. A job is never stated to start
    before one of the same request that was submitted before it: each of its quantiles is at least that of the other.
    """
    now = moment_of(site, state) if now is None else now
    table = _known(site, state)
    log = read_jobs(table)
    waits, submit = (log.left == NEVER) & (log.submit <= now - log.origin), log.submit + log.origin
    names = table["job_id"].astype(str).to_numpy()[log.order]
    mine = waits & (table["user"] == user).to_numpy()[log.order] & (names == (job_id or names))
    looked_at = np.flatnonzero(mine)[:most]
    submitted = features_of(log, log.take(log.order[looked_at]), site.seen)
    rows, curves, soonest = [], list[np.ndarray](), dict[tuple[Any, ...], np.ndarray]()
    for place, row in enumerate(track(looked_at.tolist(), "looking at pending jobs", "job")):
        waited = max(now - int(submit[row]), 0)
        request = Request.of(next(table.iloc[[log.order[row]]].itertuples()))
        others = log.without(waits & (submit > submit[row]) | (np.arange(log.n) == row))
        fresh = situation(site, [request], now=now, log=others)
        curve = rest(site.model, submitted.iloc[[place]], fresh.features, waited).curve
        curve = soonest[request.kind] = np.maximum(curve, soonest.get(request.kind, 0.0))
        about = {"job_id": names[row], "cpus": request.cpus, "requested_time": request.requested_time}
        rows.append(about | {"partition": request.partition, "waited": waited})
        curves.append(curve)
    return pd.DataFrame(rows).assign(**Distribution(np.concatenate(curves)).summary()) if rows else pd.DataFrame()


class Script(NamedTuple):
    """What the job of a batch script asks for."""

    request: Request  # its ``partition`` and ``user`` are empty where the script does not say
    notes: tuple[str, ...]  # sentences on what a forecast counts from, or does not look at


def read_script(path: Path) -> Script:
    """Read the #SBATCH lines of a batch script, up to its first command, as sbatch does."""
    if not path.is_file():
        raise TableError(f"{path}: no such file; a batch script with #SBATCH lines is needed")
    try:
        found = script_options(path.read_text(encoding="utf-8", errors="replace"))
    except Unreadable as error:
        raise TableError(f"{path}, line {error.name}: {error}") from None
    given = {name: text for name, (text, _) in found.items()}
    if not given.keys() - {"hetjob"}:
        raise TableError(f"{path}: no #SBATCH line before the first command; give --cpus and --time instead")
    try:
        return Script(_request(given), _notes(given))
    except Unreadable as error:
        text, line = found[error.name]
        raise TableError(f"{path}, line {line}: --{error.name}={text} {error}") from None


def _request(given: dict[str, str]) -> Request:
    """Return the request: tasks that go anywhere count as on the fewest nodes that they may have."""
    asked = asked_for(given)
    nodes = max(asked.min_nodes, -(-asked.n_tasks // asked.tasks_per_node) if asked.tasks_per_node else 1)
    on_each = -(-asked.n_tasks // nodes)
    memory = on_each * asked.mem_mb_per_task or max(asked.mem_mb_per_node, 0)
    gpus = asked.n_tasks * asked.gpus_per_task or nodes * asked.gpus_per_node
    limit, partition = amount(given, "time", slurm_limit), given.get("partition", "").split(",")[0]
    cpus = asked.n_tasks * asked.cpus_per_task
    return Request(cpus, limit, memory, gpus, nodes, partition, gpu_type=asked.gpu_type)


def _notes(given: dict[str, str]) -> tuple[str, ...]:
    dependency, begin = given.get("dependency"), given.get("begin")
    tasks, _, at_once = given.get("array", "").partition("%")
    n = len(array_tasks(f"1_[{tasks}]"))
    limit = f", and at most {at_once} of them run at once: later ones wait for earlier ones to end" if at_once else ""
    rows = (
        (dependency, f"the wait counts from when its dependency is met ({dependency}): until then it is held"),
        (begin, f"the wait counts from its begin time, {begin}"),
        (tasks, f"the forecast is of the first of {n:,} array tasks{limit}"),
        (
            "hetjob" in given,
            "only the first component of the heterogeneous job is looked at; all of them start together",
        ),
        (
            not given.get("time"),
            "the script has no --time: the partition's own limit is not known here, none is assumed",
        ),
    )
    return tuple(text for holds, text in rows if holds)
