"""The slow twin of the account: at each event everything is counted anew from the tables."""

from __future__ import annotations

from itertools import pairwise

import pandas as pd

FAR = 1 << 60
AMOUNTS = (("cpus", "cpus_per_node"), ("mem_mb", "mem_mb_per_node"), ("gpus", "gpus_per_node"))
CAUSES = (
    *("not_eligible", "above_limit", "full", "fragmentation", "memory", "gpus"),
    *("reserved", "outage", "pause", "unexplained"),
)


def naive_account(
    jobs: pd.DataFrame,
    nodes: pd.DataFrame,
    max_jobs: dict[str, int] | None = None,
    outages: tuple[tuple[str, int, int, int], ...] = (),
    pause: int = 0,
) -> list[dict[str, int]]:
    """Return seconds by cause of each job in order of submission.

    Parameters
    ----------
    jobs
        With ``user submit_time eligible_time start_time run_time requested_time partition node_ids`` and requests;
        ``held_cpus_per_node`` and ``exclusive`` where there are any.
    nodes
        Their nodes; a partition's are those on which its jobs ran.
    max_jobs
        The most jobs of each user at once.
    outages
        ``(node, CPUs, begin, end)``, s.
    """
    rows = jobs.sort_values("submit_time", kind="stable").to_dict(orient="records")
    for row in rows:
        row["nodes"] = [name for name in row["node_ids"].split(",") if name]
        row["end"] = row["start_time"] + row["run_time"]
        row["until"] = row["start_time"] + (row["requested_time"] or FAR)
        row["seconds"] = dict.fromkeys(CAUSES, 0)
        row["stretch"] = 0
    used_by: dict[str, set[str]] = {}
    for row in rows:
        used_by.setdefault(row["partition"], set()).update(row["nodes"])
    table = {one["node_id"]: one for one in nodes.to_dict(orient="records")}
    largest = sorted((node["cpus"] for node in table.values()), reverse=True)
    for row in rows:
        held = max(row["cpus_per_node"], row.get("held_cpus_per_node", 0))
        held = max(row["cpus_per_node"], min(held, largest[min(row["n_nodes"], len(largest)) - 1]))
        had = sum(table[name]["cpus"] for name in row["nodes"])
        row["whole"] = bool(row.get("exclusive")) or (
            held > row["cpus_per_node"] and 0 < had <= held * row["n_nodes"] and bool(row["nodes"])
        )
        if row["whole"] and row["nodes"]:
            held = max(had // row["n_nodes"], row["cpus_per_node"])
        elif row["whole"] and largest[0] == largest[-1]:
            held = max(held, largest[0])
        row["held"] = held
        least = row["cpus_per_node"] if row["whole"] else held
        row["may_use"] = [
            name
            for name, node in table.items()
            if name in used_by[row["partition"]]
            and node["cpus"] >= least
            and node["mem_mb"] >= row["mem_mb_per_node"]
            and node["gpus"] >= row["gpus_per_node"]
        ]
        if len(row["may_use"]) < row["n_nodes"]:
            row["may_use"] = list(table)
        row["take"] = {name: node["cpus"] if row["whole"] else held for name, node in table.items()}
    moments = sorted(
        {row[name] for row in rows for name in ("submit_time", "eligible_time", "start_time", "end")}
        | {moment for one in outages for moment in one[2:]}
    )
    for now, following in pairwise(moments):
        for row in rows:
            if row["start_time"] == now < row["end"] and not row["nodes"]:
                others = [one for one in rows if one["start_time"] <= now < one["end"] and one is not row]
                free = {
                    name: table[name]["cpus"] - sum(one["take"][name] for one in others if name in one["nodes"])
                    for name in row["may_use"]
                }
                row["nodes"] = sorted(free, key=lambda name: -free[name])[: row["n_nodes"]]
        running = [row for row in rows if row["start_time"] <= now < row["end"]]
        waiting = [row for row in rows if row["submit_time"] <= now < row["start_time"]]
        free = {
            name: [
                node["cpus"] - sum(row["take"][name] for row in running if name in row["nodes"]),
                *(
                    node[total] - sum(row[asked] for row in running if name in row["nodes"])
                    for total, asked in AMOUNTS[1:]
                ),
            ]
            for name, node in table.items()
        }
        gone = {name: sum(cpus for n, cpus, a, b in outages if n == name and a <= now < b) for name in table}
        head = None
        for row in waiting:
            causes = _causes(row, now, running, free, gone, max_jobs or {})
            no_room = {"full", "fragmentation", "memory", "gpus"} & set(causes)
            if head is not None and not no_room and head["partition"] == row["partition"]:
                shadow, extra = _shadow(head, running, free)
                if now + (row["requested_time"] or FAR) > shadow and _cpus(row) > extra:
                    causes.append("reserved")
            if head is None and no_room and not {"not_eligible", "above_limit"} & set(causes):
                head = row
            lasted = following - now
            if causes:
                row["seconds"][min(causes, key=CAUSES.index)] += lasted
                row["stretch"] = 0
            else:
                paused = min(lasted, max(0, pause - row["stretch"]))
                row["seconds"]["pause"] += paused
                row["seconds"]["unexplained"] += lasted - paused
                row["stretch"] += lasted
    return [row["seconds"] for row in rows]


def _cpus(row: dict) -> int:
    return row["held"] * row["n_nodes"]


def _causes(row, now, running, free, gone, max_jobs) -> list[str]:
    found = []
    if now < row["eligible_time"]:
        found.append("not_eligible")
    if sum(other["user"] == row["user"] for other in running) >= max_jobs.get(row["user"], FAR):
        found.append("above_limit")
    room = {name: free[name] for name in row["may_use"]}
    n = row["n_nodes"]
    enough = [sum(max(0, one[i]) for one in room.values()) for i in (0, 2)]
    by_cpus = [name for name, one in room.items() if one[0] >= row["take"][name]]
    by_mem = [name for name in by_cpus if room[name][1] >= row["mem_mb_per_node"]]
    by_gpus = [name for name in by_mem if room[name][2] >= row["gpus_per_node"]]
    there = [name for name in by_gpus if room[name][0] - gone[name] >= row["take"][name]]
    if enough[0] < n * min(row["take"][name] for name in row["may_use"]) or enough[1] < n * row["gpus_per_node"]:
        found.append("full")
    elif len(by_cpus) < n:
        found.append("fragmentation")
    elif len(by_mem) < n:
        found.append("memory")
    elif len(by_gpus) < n:
        found.append("gpus")
    elif len(there) < n:
        found.append("outage")
    return found


def _shadow(head, running, free) -> tuple[int, int]:
    room = sum(max(0, free[name][0]) for name in head["may_use"])
    for row in sorted(running, key=lambda row: min(row["until"], FAR)):
        if row["partition"] == head["partition"]:
            room += _cpus(row)
            if room >= _cpus(head):
                return min(row["until"], FAR), room - _cpus(head)
    return FAR, 0
