"""When will a draining machine be empty? `python benchmarks/forecast_empty.py LOG --nodes N [--cpus C --preset P]`.

A log is replayed under `easy:place=best`. Every six hours of its second half nothing more is to start: how long until
the last running job has ended? Told by *limits* (the longest that is left of the running jobs' requests: certain, and
what any centre has), by *last week* (what it took at the same hour a week before), by *ratios* (what is left of each
running job, drawn from the shares of their requests that ended jobs ran, of its user where 20 are known, given that it
runs still: the median of the last end, and its 90 % quantile). One JSON line each: mean absolute error, h, mean and
median of what was told, and how often the machine was empty by then.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from learn_weeks import machines, system

from procure.run import prepare, run_prepared
from procure.workload.importing import import_log

EVERY, WEEK, DRAWS, OWN = 6 * 3600, 604_800, 400, 20


def left(share: np.ndarray, elapsed: float, limit: float, rng: np.random.Generator) -> np.ndarray:
    """Draw what is left of a job, s, from the shares of jobs that ran longer than it has; its limit if none did."""
    longer = share[share * limit > elapsed]
    if not len(longer):
        return np.full(DRAWS, limit - elapsed)
    return rng.choice(longer, DRAWS) * limit - elapsed


def main() -> None:
    """Print the table of one log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--preset")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--machines")
    arguments = parser.parse_args()
    jobs = import_log(arguments.log, preset=arguments.preset).jobs.sort_values("submit_time", kind="stable")
    jobs, nodes = system(jobs.reset_index(drop=True), arguments.nodes, arguments.cpus, arguments.whole)
    ready = prepare(jobs, machines(arguments.machines) if arguments.machines else nodes)
    run, rng = run_prepared(ready, "easy:place=best"), np.random.default_rng(0)
    ran = run.start >= 0
    start, end, user = run.start[ran], run.end[ran], ready.user[ran]
    limit = np.where(ready.jobs.requested > 0, ready.jobs.requested, end.max())[ran].astype(float)
    share = np.minimum((end - start) / limit, 1.0)
    told: dict[str, list[float]] = {name: [] for name in ("limits", "last week", "ratios, median", "ratios, 90 %")}
    truth = []
    by_end = np.argsort(end, kind="stable")
    for now in range(int(ready.jobs.submit.max()) // 2, int(ready.jobs.submit.max()), EVERY):
        running = np.flatnonzero((start <= now) & (end > now))
        before = np.flatnonzero((start <= now - WEEK) & (end > now - WEEK))
        if not len(running):
            continue
        truth.append(float(end[running].max() - now))
        told["limits"].append(float((start + limit)[running].max() - now))
        told["last week"].append(float(end[before].max() - (now - WEEK)) if len(before) else 0.0)
        known = by_end[: np.searchsorted(end[by_end], now, "right")][-5000:]
        ends = np.zeros(DRAWS)
        for job in running:
            own = known[user[known] == user[job]]
            of = share[own if len(own) >= OWN else known]
            ends = np.maximum(ends, left(of, float(now - start[job]), float(limit[job]), rng))
        told["ratios, median"].append(float(np.median(ends)))
        told["ratios, 90 %"].append(float(np.quantile(ends, 0.9)))
    came = np.array(truth)
    for name, values in told.items():
        said = np.array(values)
        row = {"by": name, "n": len(came), "error_h": np.abs(said - came).mean() / 3600, "mean_h": said.mean() / 3600}
        row |= {
            "median_h": np.median(said) / 3600,
            "came_h": came.mean() / 3600,
            "empty_by_then": (came <= said).mean(),
        }
        print(json.dumps(row, default=float), flush=True)


if __name__ == "__main__":
    main()
