"""What policy slurm costs beside EASY: processor time of the loop on the embedded day, without and with a queue.

python benchmarks/site_cost.py
"""

from __future__ import annotations

import time

import pandas as pd

import procure
import procure.run as runs
from procure.tables import NODE, check

JOBS = 16_000
NODES = (275, 135)
"""Hardly a job waits; jobs wait for hours."""


def main() -> None:
    """Print a line per number of nodes."""
    taken: list[float] = []
    drive = runs.drive

    def timed(*arguments: object, **more: object) -> None:
        began = time.process_time()
        drive(*arguments, **more)  # type: ignore[arg-type]
        taken.append(time.process_time() - began)

    runs.drive = timed  # type: ignore[assignment]
    jobs = procure.generate(seed=1, n_jobs=JOBS)
    for n in NODES:
        rows = {"node_id": [f"n{i}" for i in range(n)], "kind": "node", "cpus": 64, "mem_mb": 512_000}
        nodes = check(pd.DataFrame(rows).assign(gpus=int(jobs["gpus_per_node"].max())), NODE)
        told = []
        for policy in ("conservative", "slurm", "easy"):
            procure.simulate(jobs.head(50), nodes, policy)  # compiles
            wait = procure.simulate(jobs, nodes, policy).metrics["mean_wait_time"]
            told.append(f"{policy} {taken[-1]:.2f} s, mean wait {wait:,.0f} s")
        print(f"{n} nodes: {'; '.join(told)}; {taken[-3] / taken[-1]:.1f} times")


if __name__ == "__main__":
    main()
