"""What switching idle nodes off saves, by a rule of thumb and at most by any forecast: docs/claims/forecast.md.

    python benchmarks/forecast_shutdown.py LOG --nodes 240 [--cpus 1] [--whole]

The log is replayed under EASY with best fit, which leaves nodes empty where it can. The rule of thumb switches a node
off after it has been idle for `--patience`, and the job that comes next waits while it boots. Perfect foresight
switches off at once in every gap that is worth it, and boots in time: no job waits. What any forecast can bring beyond
the rule lies between the two, so both are reckoned on the gaps of the one schedule: that a job which waits for a
boot delays others behind it is left out.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
from learn_weeks import system

import procure
from procure.workload.importing import import_log

BUSY, IDLE, OFF = 400.0, 160.0, 10.0
"""Watts of a node that runs a job, of one that runs none, and of one that is switched off."""


def gaps_of(schedule: pd.DataFrame, n_nodes: int, patience: int) -> tuple[np.ndarray, float, int]:
    """Return the idle times of all nodes between jobs, s, for how long nodes ran any job, s in all, and who waits.

    Those are the jobs of which a node had been idle for ``patience`` or more when they began.
    """
    ran = schedule.dropna(subset=["start_time"])
    each = ran.assign(node=ran["node_ids"].str.split(",")).explode("node")
    first, last = int(ran["start_time"].min()), int(ran["end_time"].max())
    gaps, busy, wait = [], 0.0, set()
    for _, rows in each.sort_values("start_time").groupby("node"):
        start = rows["start_time"].to_numpy(np.int64)
        end = np.maximum.accumulate(rows["end_time"].to_numpy(np.int64))
        before = np.concatenate([[first], end])
        free = np.maximum(np.concatenate([start, [last]]) - before, 0)
        gaps.append(free)
        wait.update(rows["job_id"].to_numpy()[free[:-1] > patience])
        busy += (last - first) - free.sum()
    never = n_nodes - each["node"].nunique()
    return np.concatenate([*gaps, np.full(never, last - first)]), busy, len(wait)


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--patience", type=int, default=1800, help="s of idleness after which the rule switches off")
    parser.add_argument("--boot", type=int, default=300, help="s that a boot takes, at the watts of a busy node")
    arguments = parser.parse_args()
    jobs, nodes = system(import_log(arguments.log).jobs, arguments.nodes, arguments.cpus, arguments.whole)
    run = procure.simulate(jobs, nodes, "easy:place=best")
    gaps, busy, n_wait = gaps_of(run.schedule, arguments.nodes, arguments.patience)
    boot = arguments.boot
    whole = busy * BUSY + gaps.sum() * IDLE
    off = np.maximum(gaps - arguments.patience, 0)
    by_rule = off * (IDLE - OFF) - (off > 0) * boot * (BUSY - OFF)
    worth = np.maximum((gaps - boot) * (IDLE - OFF) - boot * (BUSY - IDLE), 0)
    n_jobs = int(run.schedule["start_time"].notna().sum())
    found = {
        "log": arguments.log.rpartition("/")[2],
        "idle_share_of_energy": gaps.sum() * IDLE / whole,
        "saved_by_rule": by_rule.sum() / whole,
        "saved_by_foresight": worth.sum() / whole,
        "boots": int((off > 0).sum()),
        "jobs_that_wait_for_a_boot": n_wait / n_jobs,
        "added_mean_wait": n_wait * boot / n_jobs,
        "mean_wait": run.metrics["mean_wait_time"],
    }
    print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in found.items()}))


if __name__ == "__main__":
    main()
