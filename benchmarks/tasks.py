"""What a node's size does to waits where jobs keep their logged nodes, and where they ask for tasks of one CPU.

    python benchmarks/tasks.py sizes DATA [JOBS]    EASY on as many CPUs in nodes of four sizes; JOBS of each log
    python benchmarks/tasks.py speed [REPEATS]      processor seconds of jobs of tasks beside those of jobs of nodes
    python benchmarks/tasks.py purchase DATA        what is bought with either shape, for two logs

Prints seconds of the processor's time: on a busy computer the wall clock measures the other programs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from buy import call, sheet
from slurm_events import read_events

from procure import run as procure_run
from procure.run import simulate
from procure.schemas import as_logged
from procure.tables import write
from procure.workload import generate, import_log

procure_run.time.perf_counter = time.process_time  # what `Run.elapsed` is measured with
LOGS = {
    "HPC2N-2002-2.1-cln": (2, ((120, 2), (30, 8), (10, 24), (4, 60))),
    "KTH-SP2-1996-2.1-cln": (1, ((100, 1), (25, 4), (10, 10), (4, 25))),
    "SDSC-BLUE-2000-4.2-cln": (8, ((144, 8), (72, 16), (36, 32), (18, 64))),
}
"""CPUs per node of the logged system, and the nodes (count, CPUs) that are tried, its own first."""


def node_table(n: int, cpus: int) -> pd.DataFrame:
    """Return ``n`` nodes of so many CPUs, with memory for every job."""
    return pd.DataFrame({"node_id": [f"n{i}" for i in range(n)], "cpus": cpus, "mem_mb": 10**9})


def sizes(data: str, first: str = "40000") -> None:
    """Print jobs that fit nowhere and the mean wait of the rest, as logged and as tasks."""
    print("log,nodes,shape,left out,mean wait s,kernel s")
    for name, (per_node, tried) in LOGS.items():
        log = import_log(Path(data) / f"pwa/{name}.swf.xz", "swf", cpus_per_node=per_node, shape="tasks").jobs
        log = log.head(int(first)).assign(mem_mb_per_task=0, mem_mb_per_node=0)
        for n, cpus in tried:
            for shape, jobs in (("as-logged", as_logged(log)), ("tasks", log)):
                run = simulate(jobs, node_table(n, cpus), "easy")
                left, wait = run.metrics["n_unrunnable"], run.metrics["mean_wait_time"]
                print(f"{name},{n} x {cpus},{shape},{left:,},{wait:,.0f},{run.elapsed:.2f}", flush=True)


def speed(repeats: str = "5") -> None:
    """Print the least processor seconds of the same jobs of several nodes, and as tasks that may stand anywhere."""
    rng = np.random.default_rng(1)
    jobs = generate(1, n_jobs=4000)
    jobs = jobs.assign(gpus_per_node=0, n_nodes=rng.choice([1, 2, 4, 8], len(jobs)))
    jobs = jobs.assign(cpus_per_node=np.minimum(jobs["cpus_per_node"], 16), mem_mb_per_node=0)
    jobs["mem_mb_per_node"] = jobs["cpus_per_node"] * rng.choice([1000, 4000], len(jobs))
    tasks = jobs.assign(n_tasks=jobs["n_nodes"] * jobs["cpus_per_node"], mem_mb_per_node=0)
    tasks["mem_mb_per_task"] = jobs["mem_mb_per_node"] // jobs["cpus_per_node"]
    nodes = node_table(60, 64).assign(mem_mb=256_000)
    for policy in ("best-fit", "easy", "easy:place=best", "first-fit", "conservative"):
        for name, table in (("nodes", jobs), ("tasks", tasks)):
            runs = [simulate(table, nodes, policy, fast_lane=False) for _ in range(int(repeats))]
            wait = runs[0].metrics["mean_wait_time"]
            print(f"{policy}, as {name}: {min(run.elapsed for run in runs):.3f} s, mean wait {wait:,.0f} s", flush=True)


OFFERS = {
    "hpc2n": (50_000, [(8, 8, 2000), (16, 16, 3600), (32, 32, 6600), (64, 64, 12_400)]),
    "week": (2_900_000, [(32, 192, 7000), (64, 384, 13_000), (128, 768, 25_500)]),
}
"""The budget in US$, and CPUs, memory in GB and US$ of each node that is offered."""


def purchase(data: str, *names: str) -> None:
    """Print what `buy` buys for jobs as tasks and as logged, and what it says that the shape decides."""
    hpc2n = import_log(Path(data) / "pwa/HPC2N-2002-2.1-cln.swf.xz", "swf", cpus_per_node=2, shape="tasks").jobs
    week = read_events(Path(data) / "ubccr_slurm/week/workload_week.events.xz")
    week = week[week["gpus_per_node"] == 0].assign(constraint="", partition="", qos="", account="")
    jobs = {
        "hpc2n": hpc2n[hpc2n["submit_time"].between(1_080_777_600, 1_086_048_000)],
        "week": week.assign(exclusive=week["exclusive"] | (week["cpus_per_node"] >= 32)),  # whole nodes of its system
    }
    for name in names or OFFERS:
        budget, offers = OFFERS[name]
        with tempfile.TemporaryDirectory() as text:
            folder = Path(text)
            sheet(folder / "offers.xlsx", [(f"C{n}", "compute", n, mem, 0, usd) for n, mem, usd in offers])
            write(jobs[name].reset_index(drop=True), folder / "jobs.parquet")
            words = ("buy", "--jobs", "jobs.parquet", "--quotes", "offers.xlsx", "--budget", budget)
            for more in (words, ("buy", "study.toml")):
                code, out, err, _ = call(folder, *more, "--format", "json")
                first = json.loads(out)["recommendation"] if not code else err
                print(name, json.dumps(first), flush=True)
                study = (folder / "study.toml").read_text()
                (folder / "study.toml").write_text(study.replace("[[workloads]]", '[[workloads]]\nshape = "as-logged"'))


if __name__ == "__main__":
    what, *arguments = sys.argv[1:] or ["help"]
    commands = {"sizes": sizes, "speed": speed, "purchase": purchase}
    if what in commands:
        commands[what](*arguments)
    else:
        print(__doc__)
