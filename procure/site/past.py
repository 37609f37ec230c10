"""What Slurm's database keeps of before: nodes that were down or drained, and reservations that have ended."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from procure.site.conf import Configuration, Record
from procure.site.model import NodeEvent, NotUnderstood, gaps_of
from procure.site.nodes import CLOSED_STATES
from procure.text import counted
from procure.workload.clock import from_local
from procure.workload.slurm_text import expand_nodes


def unix_seconds(text: str, tz: str | None) -> int:
    """Return a time that Slurm prints by the clock of a zone, UTC without, as Unix s."""
    if text.isdecimal():
        return int(text)
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
        words = {word.strip("*~#$@!%^-") for word in row.get("state", "").lower().replace(" ", "+").split("+")}
        state = next((kind for word, kind in CLOSED_STATES if word in words), None)
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
