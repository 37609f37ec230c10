"""The slow twin of the policy `rules`: EASY second by second, with jobs kept back and nodes away."""

from __future__ import annotations

import numpy as np
import pandas as pd


def never(*about: object) -> bool:
    return False


def naive_easy(jobs: pd.DataFrame, n_nodes: int, held=never, is_away=never) -> list[int]:
    """Return when EASY starts jobs of whole nodes, second by second.

    ``held(row, now, rows)`` keeps a job back, and node ``n`` starts nothing while ``is_away(n, now)``.
    """
    rows = jobs.to_dict(orient="records")
    now = -1
    while any("start" not in row for row in rows):
        now += 1
        there = {node for node in range(n_nodes) if not is_away(node, now)}
        while True:
            running = [r for r in rows if "start" in r and now < r["start"] + r["run_time"]]
            free = sorted(there - {node for r in running for node in r["on"]})
            queue = [r for r in rows if "start" not in r and r["submit_time"] <= now and not held(r, now, rows)]
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
