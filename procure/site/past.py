"""What Slurm's database keeps of before: nodes that were down, reservations that have ended, jobs that others ended."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from procure.site.conf import Configuration, Record
from procure.site.model import NodeEvent, NotUnderstood, Site, gaps_of
from procure.site.nodes import closed_as
from procure.text import counted
from procure.workload.clock import from_local
from procure.workload.slurm import expand_nodes


def unix_seconds(text: str, tz: str | None) -> int:
    """Return a time that Slurm prints by the clock of a zone, UTC without, as Unix s."""
    if text.isdecimal():
        return int(text)
    if not text[:1].isdecimal():  # "now" and "today" are times to pandas
        raise ValueError("no time")
    local = np.array([pd.Timestamp(text).timestamp()], np.int64)
    return int(from_local(local, tz)[0])


def past_events(
    rows: list[dict[str, str]], found: Configuration, tz: str | None, unknown: list[NotUnderstood]
) -> list[NodeEvent]:
    """Return when nodes were down or drained, as `sacctmgr show event` says; what is not used goes to ``unknown``."""
    known = {name for record in found.nodes for name in expand_nodes(record["nodename"])}
    events: list[NodeEvent] = []
    n_unused = 0
    for row in rows:
        if not row.get("nodename"):
            continue  # of the cluster itself
        state = closed_as({"state": row.get("state", "").replace(" ", "+")})
        end = row.get("timeend", "Unknown")
        try:
            begin, until = unix_seconds(row["timestart"], tz), None if end == "Unknown" else unix_seconds(end, tz)
        except (KeyError, ValueError):
            state = None
        if state is None or not set(expand_nodes(row["nodename"])) <= known:
            n_unused += 1
            continue
        reason = row.get("reason", "")
        events.append(NodeEvent(nodes=row["nodename"], start=begin, end=until, state=state, reason=reason))
    of, unused = "sacctmgr show event", "of a node that is not in the table, of a state other than down, drain or fail"
    clock = "their times are taken as UTC; state the zone of the clock where sacctmgr ran with --tz"
    unknown += gaps_of([(n_unused, of, counted(n_unused, "row"), f"not used: {unused}, or undated"),
                        (events and tz is None, of, counted(len(events), "row"), clock)])  # fmt: skip
    return events


_AGAIN = ("HOURLY", "DAILY", "WEEKLY", "WEEKDAY", "WEEKEND")


def past_reservations(
    rows: list[Record], found: Configuration, nodes: pd.DataFrame, unknown: list[NotUnderstood]
) -> list[Record]:
    """Return, as scontrol shows them, those of the database that it no longer shows; marks those of part of a node.

    The times of one that came again are NAME, NAME~1, NAME~2 …
    """
    cpus = nodes.set_index("node_id")[["cpus", "threads_per_core"]]
    shown = {record["reservationname"]: record for record in found.reservations}
    past: dict[str, Record] = {}
    for row in rows:
        name, same = row["name"], shown.get(row["name"], {})
        if set(_AGAIN) & set(same.get("flags", "").split(",")) or same.get("starttime") == row["timestart"]:
            continue
        if not row.get("nodename"):
            effect = "no nodes are in the table: print it with format=Cluster,Name,Start,End,NodeNames,Flags,TRES"
            unknown.append(NotUnderstood(setting=f"reservation {name}", where=row["_where"], effect=effect))
            continue
        n = sum(each["name"] == name for each in past.values()) + (name in shown)
        there = [one for one in expand_nodes(row["nodename"]) if one in cpus.index]
        past[f"{name}~{n}" if n else name] = {
            "name": name, "starttime": row["timestart"], "endtime": row["timeend"], "nodes": ",".join(there),
            "flags": ",".join(word for word in row.get("flags", "").split(",") if word not in _AGAIN),
            "tres": row.get("tres", ""), "_where": row["_where"],
        }  # fmt: skip
    records = [{"reservationname": name, **record} for name, record in past.items()]
    for record in (*found.reservations, *records):
        of = cpus[cpus.index.isin(expand_nodes(record.get("nodes", "")))]
        counted_cpus = re.search(r"\bcpu=(\d+)", record.get("tres", ""))
        few = counted_cpus and int(counted_cpus[1]) < of["cpus"].sum()
        if record.get("corecnt", "").isdecimal():
            few = int(record["corecnt"]) < (of["cpus"] // of["threads_per_core"]).sum()
        if few:
            record["coreids"] = "some"
    return records


def as_never_ended(jobs: pd.DataFrame, rules: Site) -> tuple[pd.DataFrame, str]:
    """Return a log's jobs as if none had been ended for another or with its node, since policy slurm does so itself.

    An earlier run of a job that was requeued (JOBID~1, …) is left out, and the run behind it waits since its
    submission. A job that was over runs to its limit, unless it is ended again: nobody knows how long it would have.

    Parameters
    ----------
    jobs
        Checked job table, with the column ``state``.
    rules
        Jobs that others ended count where these let jobs do so, those of failed nodes where nodes are down.

    Returns
    -------
    tuple
        The jobs, and a sentence on what became of them; empty if nothing did.
    """
    ended = ["PREEMPTED"] * (rules.preemption.type != "none")
    ended += ["NODE_FAIL"] * any(one.state == "down" for one in rules.events)
    cut = jobs["state"].isin(ended) if "state" in jobs else pd.Series(False, jobs.index)
    earlier = cut & jobs["job_id"].str.contains(r"~\d+$")
    over = cut & ~earlier
    if not cut.any():
        return jobs, ""
    job = jobs["job_id"].str.replace(r"~\d+$", "", regex=True)
    kept = (~earlier).astype(int)
    before = kept.groupby(job).cumsum() - kept  # runs of the job that are kept, before this one
    since = {
        name: jobs.groupby([job, before])[name].transform("min")
        for name in ("submit_time", "eligible_time")
        if name in jobs
    }
    place = pd.Series(np.arange(len(jobs)), jobs.index).groupby([job, before]).transform("min")  # that of its first run
    until = jobs["run_time"].where(~over, jobs[["run_time", "requested_time"]].max(axis=1))
    table = jobs.assign(**since, run_time=until)[~earlier]
    if {"start_time", "end_time"} <= set(jobs):  # what a job used up counts in fair shares, though the run is left out
        runs = jobs.assign(held_time=jobs["end_time"] - jobs["start_time"])[earlier].groupby(job)
        table = table.assign(held_time=job.map(runs["held_time"].sum()), held_until=job.map(runs["end_time"].max()))
        table[["held_time", "held_until"]] = table[["held_time", "held_until"]].fillna(0)
    table = table.loc[place[~earlier].sort_values().index]
    n_runs, n_jobs = (int(each.sum()) for each in (earlier, over))
    said = f"{counted(n_runs, 'run')} before a requeue left out, {counted(n_jobs, 'job')} run to the limit"
    return table, f"the site's rules end jobs anew: {said} that others or a failed node ended"
