"""Seconds of policies, and bounded slowdowns of EASY beside published ones.

    python benchmarks/policies_speed.py embedded POLICY [N_JOBS]  the embedded day, 100 shared nodes; a JSON line
    python benchmarks/policies_speed.py slowdown LOG.swf.xz PROCESSORS [CPUS_PER_NODE]    bounded slowdowns of EASY

Prints seconds of the processor's time: on a busy computer the wall clock measures the other programs.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pandas as pd

from procure import run as procure_run
from procure.run import simulate
from procure.workload import generate, import_log

procure_run.time.perf_counter = time.process_time  # what `Run.elapsed` is measured with


def node_table(n: int, **columns) -> pd.DataFrame:
    return pd.DataFrame({"node_id": [f"n{i}" for i in range(n)], "cpus": 1, "mem_mb": 10**7} | columns)


def embedded(policy: str, n_jobs: str = "16000", repeats: int = 5) -> None:
    """Print the least kernel seconds of some runs: of a busy computer, the least is nearest to the idle one's."""
    count = int(n_jobs)
    jobs = generate(1) if count == 16_000 else generate(1, n_jobs=count)
    kinds = ((88, 64, 256_000, 0), (6, 24, 1_024_000, 0), (6, 64, 512_000, 8))
    rows = [kind[1:] for kind in kinds for _ in range(max(1, kind[0] * count // 16_000))]
    nodes = node_table(len(rows)).assign(**pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus"]))
    runs = [simulate(jobs, nodes, policy, fast_lane=False) for _ in range(repeats)]
    seconds = min(run.elapsed for run in runs)
    found = {
        "policy": policy,
        "n_jobs": len(jobs),
        "n_nodes": len(nodes),
        "kernel_seconds": seconds,
        "jobs_per_second": len(jobs) / seconds,
        "mean_wait_time": runs[0].metrics["mean_wait_time"],
    }
    print(json.dumps(found))


def generated(n_jobs: int, n_nodes: int, mean_size: float, load: float, seed: int = 1) -> pd.DataFrame:
    """Multi-node jobs that together need ``load`` of the nodes."""
    rng = np.random.default_rng(seed)
    size = np.minimum(np.ceil(rng.exponential(mean_size, n_jobs)), n_nodes).astype(np.int64)
    run = np.ceil(rng.exponential(3600, n_jobs)).astype(np.int64)
    gap = size.mean() * 3600 / (load * n_nodes)
    return pd.DataFrame(
        {
            "job_id": np.arange(n_jobs).astype(str),
            "submit_time": np.cumsum(rng.exponential(gap, n_jobs)).astype(np.int64),
            "run_time": run,
            "requested_time": run * rng.integers(1, 5, n_jobs),
            "n_nodes": size,
            "cpus_per_node": 1,
        }
    )


def slowdown(log: str, processors: str, per_node: str = "1") -> None:
    """Print the average bounded slowdown (floor 10 s) of EASY, with requested and with exact run times."""
    jobs = import_log(log, "swf", shape="as-logged").jobs
    size = int(per_node)
    if size > 1:
        jobs = jobs.assign(n_nodes=-(-jobs["n_nodes"] * jobs["cpus_per_node"] // size), cpus_per_node=size)
    nodes = node_table(int(processors) // size).assign(cpus=size)
    exact = simulate(jobs, nodes, "easy", estimates=np.maximum(1, jobs["run_time"].to_numpy(np.int64)))
    for name, run in (("EASY", simulate(jobs, nodes, "easy")), ("EASY, exact run times", exact)):
        print(f"{name}: {len(jobs):,} jobs, average bounded slowdown {run.metrics['mean_bounded_slowdown']:.1f}")


if __name__ == "__main__":
    what, *arguments = sys.argv[1:] or ["help"]
    commands = {"embedded": embedded, "slowdown": slowdown}
    if what in commands:
        commands[what](*arguments)
    else:
        print(__doc__)
