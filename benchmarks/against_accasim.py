"""Jobs per second beside AccaSim 1.1.3, another simulator in Python, on the same log and machine.

    python -m venv /tmp/accasim && /tmp/accasim/bin/pip install accasim==1.1.3
    python benchmarks/against_accasim.py /tmp/accasim LOG.swf[.xz] PROCESSORS [N_JOBS]

AccaSim runs in its own environment and gets back a name that today's Python has moved, which its import
needs (`collections.Mapping`); nothing of it is changed on the disk. Seconds are processor time, of AccaSim
from the start of the simulation to its end, in which it also reads the log; of procure the kernel, and with
checking and laying out the tables. A job without a requested time asks for
its run time.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure import run as procure_run
from procure.run import simulate
from procure.workload import import_log

procure_run.time.perf_counter = time.process_time

OTHER = """
import collections, collections.abc, json, sys, time
collections.Mapping = collections.abc.Mapping
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling, FirstInFirstOut, ShortestJobFirst
from accasim.base.simulator_class import Simulator
kind = {"fifo": FirstInFirstOut, "sjf": ShortestJobFirst, "easy": EASYBackfilling}[sys.argv[3]]
simulator = Simulator(sys.argv[1], sys.argv[2], kind(FirstFit()), scheduling_output=True,
                      statistics_output=False, show_statistics=False, RESULTS_FOLDER_NAME="out")
began = time.process_time()
files = simulator.start_simulation()
print(json.dumps({"seconds": time.process_time() - began, "n": simulator.dispatched_jobs}))
"""


def read_lines(log: Path, n_jobs: int | None) -> str:
    text = (lzma.open if log.suffix == ".xz" else open)(log, "rt").read()
    lines = [line for line in text.splitlines() if line and not line.startswith(";")]
    return "\n".join(lines[:n_jobs]) + "\n"


def accasim(venv: Path, folder: Path, policy: str) -> dict:
    found = subprocess.run(
        [venv / "bin/python", "-c", OTHER, "jobs.swf", "system.json", policy],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        sys.exit(found.stdout[-1000:] + found.stderr[-2000:])
    return json.loads(found.stdout.strip().splitlines()[-1])


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    venv, log, processors = Path(sys.argv[1]).absolute(), Path(sys.argv[2]), int(sys.argv[3])
    n_jobs = int(sys.argv[4]) if len(sys.argv) > 4 else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "jobs.swf").write_text(read_lines(log, n_jobs))
        system = {
            "equivalence": {"processor": {"core": 1}},
            "groups": {"g0": {"core": 1}},
            "resources": {"g0": processors},
        }
        (folder / "system.json").write_text(json.dumps(system))
        jobs = import_log(folder / "jobs.swf", "swf", shape="as-logged").jobs
        unlimited = jobs["requested_time"] == 0
        jobs["requested_time"] = jobs["requested_time"].where(~unlimited, jobs["run_time"].clip(lower=1))
        nodes = pd.DataFrame({"node_id": [f"n{i}" for i in range(processors)], "cpus": 1, "mem_mb": np.int64(10**7)})
        print(f"{log.name}: {len(jobs):,} jobs, {processors} processors")
        for ours, theirs in (("fcfs", "fifo"), ("sjf", "sjf"), ("easy", "easy")):
            simulate(jobs.head(20), nodes, ours)
            began = time.process_time()
            run = simulate(jobs, nodes, ours)
            whole = time.process_time() - began
            other = accasim(venv, folder, theirs)
            print(
                f"{theirs}: procure kernel {run.elapsed:.3f} s = {len(jobs) / run.elapsed:,.0f} jobs/s, with tables "
                f"{whole:.2f} s = {len(jobs) / whole:,.0f} jobs/s; AccaSim {other['seconds']:.1f} s, {other['n']:,} "
                f"jobs = {other['n'] / other['seconds']:,.0f} jobs/s: {other['seconds'] / run.elapsed:,.0f} times "
                f"the kernel, {other['seconds'] / whole:,.0f} times with tables; "
                f"mean wait {run.metrics['mean_wait_time']:,.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
