"""Slow twins of what a fit counts and of what its trees predict."""

from __future__ import annotations

import numpy as np
import pandas as pd


def naive_features(jobs: pd.DataFrame, means: np.ndarray, capacity: int) -> list[dict[str, float]]:
    """Return what was seen as each job was submitted, each counted anew from the table (see `FEATURES`).

    Parameters
    ----------
    jobs
        By submission, with ``user submit_time start_time run_time requested_time`` and requests; dates are Unix s.
    means
        float64[n_jobs, 3].
    capacity
        CPUs.
    """
    rows = jobs.to_dict(orient="records")
    for row in rows:
        row["cpus"] = row["cpus_per_node"] * row["n_nodes"]
        row["end"] = row["start_time"] + row["run_time"]
    order = sorted(range(len(rows)), key=lambda i: (rows[i]["start_time"], i))
    found = []
    for i, row in enumerate(rows):
        now = row["submit_time"]
        earlier = rows[:i]
        waiting = [one for one in earlier if one["start_time"] >= now]  # starts of a moment follow its submissions
        running = [one for one in rows if one["start_time"] < now < one["end"]]
        mine = [[one for one in part if one["user"] == row["user"]] for part in (running, waiting)]
        started = [rows[k] for k in order if rows[k]["start_time"] < now]
        recent = 0.0
        for one in started:
            recent += 0.05 * (np.log1p(one["start_time"] - one["submit_time"]) - recent)
        last = [one for one in started if one["user"] == row["user"]][-1:]
        came = [one for one in earlier if one["user"] == row["user"]][-1:]
        first = rows[0]["submit_time"]
        requested = row["requested_time"] or 30 * 86_400
        found.append(
            {
                "log_requested_time": np.log1p(requested),
                "log_cpus": np.log1p(row["cpus"]),
                "share_of_cpus": row["cpus"] / capacity,
                "log_cpu_seconds": np.log1p(requested * row["cpus"]),
                "log_mem_mb_per_cpu": np.log1p(row["mem_mb_per_node"] / max(row["cpus_per_node"], 1)),
                "user_running_share": sum(one["cpus"] for one in mine[0]) / capacity,
                "user_running_jobs": len(mine[0]),
                "user_waiting_share": sum(one["cpus"] for one in mine[1]) / capacity,
                "user_waiting_jobs": len(mine[1]),
                "running_share": sum(one["cpus"] for one in running) / capacity,
                "waiting_share": sum(one["cpus"] for one in waiting) / capacity,
                "waiting_jobs": len(waiting),
                "hour": now % 86_400 / 3600,
                "hour_of_week": (now - 4 * 86_400) % 604_800 / 3600,
                "user_mean": means[i, 0],
                "partition_mean": means[i, 1],
                "account_mean": means[i, 2],
                "user_last_wait": np.log1p(last[0]["start_time"] - last[0]["submit_time"]) if last else 0.0,
                "log_since_users_start": np.log1p(now - (last[0]["start_time"] if last else first - 604_800)),
                "recent_wait": recent,
                "users_oldest_waits": np.log1p(now - mine[1][0]["submit_time"]) if mine[1] else 0.0,
                "log_since_users_submission": np.log1p(now - (came[0]["submit_time"] if came else first - 604_800)),
            }
        )
    return found


def naive_easy(jobs: pd.DataFrame, n_nodes: int, held: callable) -> list[int]:
    """Return when EASY starts jobs of whole nodes, second by second; ``held(row, now, rows)`` keeps one back."""
    rows = jobs.to_dict(orient="records")
    for row in rows:
        row["start"] = None
    now = -1
    while any(row["start"] is None for row in rows):
        now += 1
        while True:
            running = [r for r in rows if r["start"] is not None and r["start"] <= now < r["start"] + r["run_time"]]
            free = n_nodes - sum(r["n_nodes"] for r in running)
            queue = [r for r in rows if r["start"] is None and r["submit_time"] <= now and not held(r, now, rows)]
            if not queue:
                break
            head, room = queue[0], free
            chosen = head if head["n_nodes"] <= free else None
            if chosen is None:
                for one in sorted(running, key=lambda r: r["start"] + r["requested_time"]):
                    room += one["n_nodes"]
                    if room >= head["n_nodes"]:
                        shadow = one["start"] + one["requested_time"]
                        break
                same = [r for r in running if r["start"] + r["requested_time"] <= shadow]
                extra = free + sum(r["n_nodes"] for r in same) - head["n_nodes"]
                for one in queue[1:]:
                    in_time = now + one["requested_time"] <= shadow
                    if one["n_nodes"] <= free and (in_time or one["n_nodes"] <= extra):
                        chosen = one
                        break
            if chosen is None:
                break
            chosen["start"] = now
    return [row["start"] for row in rows]


def naive_away(jobs: pd.DataFrame, n_nodes: int, is_away: callable) -> list[int]:
    """Return when EASY starts jobs of whole nodes, second by second, if node ``n`` starts nothing while ``is_away``."""
    rows = jobs.to_dict(orient="records")
    now = -1
    while any("start" not in row for row in rows):
        now += 1
        there = {node for node in range(n_nodes) if not is_away(node, now)}
        while True:
            running = [r for r in rows if "start" in r and now < r["start"] + r["run_time"]]
            free = sorted(there - {node for r in running for node in r["on"]})
            queue = [r for r in rows if "start" not in r and r["submit_time"] <= now]
            if not queue:
                break
            head, room = queue[0], len(free)
            chosen = head if head["n_nodes"] <= room else None
            if chosen is None:
                ends = sorted({r["start"] + r["requested_time"] for r in running})
                after = [room + sum(len(there & r["on"]) for r in running if r["start"] + r["requested_time"] <= e)
                         for e in ends]  # fmt: skip
                found = [(e, n - head["n_nodes"]) for e, n in zip(ends, after, strict=True) if n >= head["n_nodes"]]
                shadow, extra = found[0] if found else (np.inf, 0)
                for one in queue[1:]:
                    if one["n_nodes"] <= room and (now + one["requested_time"] <= shadow or one["n_nodes"] <= extra):
                        chosen = one
                        break
            if chosen is None:
                break
            chosen["start"], chosen["on"] = now, set(free[: chosen["n_nodes"]])
    return [row["start"] for row in rows]
