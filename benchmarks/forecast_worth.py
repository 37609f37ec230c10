"""Where can holding nodes for known jobs pay? `python benchmarks/forecast_worth.py [--days 60] [--seeds 2]`.

A made-up centre of 64 nodes: a background of jobs that come at random, and one burst a day at about nine. What varies
is how busy the background is, how wide the daily job is (share of the nodes), how long it runs, and how far from nine
it comes (standard deviation). One JSON line each: bounded slowdown and waits under EASY, and as ratios to it under
`forecast` with learnt and with exact forecasts, and where the daily job is `first` in the queue when it comes (it alone
has a due date, under `edf`): a priority, which needs no forecast.
"""

from __future__ import annotations

import argparse
import itertools
import json

import numpy as np
import pandas as pd

from procure.learn.weeks import FLOOR
from procure.run import prepare, run_prepared

N_NODES, DAY = 64, 86_400
POLICIES = {
    "easy": "easy:place=best",
    "learnt": "forecast:place=best,confidence=hazard",
    "exact": "forecast:place=best,control=exact",
    "first": "easy:place=best,order=edf,queue_order=edf",
}


def centre(load: float, width: float, run: int, spread: float, days: int, seed: int) -> pd.DataFrame:
    """Return the jobs of a made-up centre; requests are twice the run times."""
    rng = np.random.default_rng(seed)
    sizes = 2 ** rng.integers(0, 5, 200 * days)
    runs = np.maximum(rng.lognormal(np.log(3600.0), 1.5, len(sizes)), 10.0).astype(int)
    work = np.cumsum(sizes * np.minimum(runs, 2 * DAY))
    n = int(np.searchsorted(work, load * N_NODES * DAY * days))
    n = min(n, len(sizes) - 1)
    rows = {
        "submit_time": np.sort(rng.integers(0, DAY * days, n)),
        "n_nodes": sizes[:n],
        "run_time": np.minimum(runs[:n], 2 * DAY),
        "user": rng.integers(0, 40, n).astype(str),
    }
    daily = {
        "submit_time": (np.arange(days) * DAY + 9 * 3600 + spread * rng.standard_normal(days)).astype(int).clip(0),
        "n_nodes": max(1, int(width * N_NODES)),
        "run_time": run,
        "user": "daily",
        "due_time": 0,
    }
    jobs = pd.concat([pd.DataFrame(rows), pd.DataFrame(daily)]).sort_values("submit_time", kind="stable")
    jobs = jobs.assign(job_id=np.arange(len(jobs)), requested_time=2 * jobs["run_time"], cpus_per_node=1)
    return jobs.assign(mem_mb_per_node=0).reset_index(drop=True)


def figures(jobs: pd.DataFrame, policy: str) -> np.ndarray:
    """Return the mean bounded slowdown of all, and the mean wait, s, of the daily jobs and of the others."""
    nodes = pd.DataFrame({"node_id": [f"n{i}" for i in range(N_NODES)], "cpus": 1, "mem_mb": 1, "gpus": 0})
    ready = prepare(jobs, nodes)
    found = run_prepared(ready, policy)
    wait, run = found.start - ready.jobs.submit, found.end - found.start
    daily = jobs["user"].to_numpy()[ready.jobs.row] == "daily"
    slowdown = np.maximum((wait + run) / np.maximum(run, FLOOR), 1.0)
    return np.array([slowdown.mean(), wait[daily].mean(), wait[~daily].mean()])


def main() -> None:
    """Print the grid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    grid = itertools.product((0.5, 0.7, 0.85), (0.25, 0.75), (30, 3600), (0.0, 1800.0))
    for load, width, run, spread in grid:
        seeds = range(given.seeds)
        jobs = [centre(load, width, run, spread, given.days, seed) for seed in seeds]
        found = {name: np.mean([figures(one, policy) for one in jobs], axis=0) for name, policy in POLICIES.items()}
        row: dict[str, object] = {"load": load, "width": width, "run": run, "spread": spread}
        row["easy"] = found["easy"].round(1).tolist()
        for name in ("learnt", "exact", "first"):
            row[name] = (found[name] / np.maximum(found["easy"], 1e-9)).round(3).tolist()
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
