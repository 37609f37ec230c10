"""Slow twins of what a fit counts and of what its trees predict."""

from __future__ import annotations

import numpy as np
import pandas as pd


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
