"""Time the parts of the main job: `python benchmarks/main_job.py [--data ../shared/data]`."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from procure import PackageRules, expand_packages, generate, import_log, package_nodes, read_quotes, slice_day
from procure.run import prepare
from procure.schemas import JOB
from procure.simulator.fast_lane import best_fit_schedule, check_fast_lane
from procure.tables import check

ROOT = Path(__file__).resolve().parent.parent


def one_run(jobs: pd.DataFrame, nodes: pd.DataFrame) -> Callable[[], float]:
    """Return a function that runs the fast lane once and says how many seconds it took."""
    ready = prepare(jobs, nodes, kill_at_limit=False)
    bits = check_fast_lane(ready.jobs, ready.kinds, ready.durations.took)
    n_jobs = len(jobs)
    room = np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int64), np.empty(n_jobs, np.int32)

    def run() -> float:
        began = time.perf_counter()
        best_fit_schedule(ready.jobs, ready.kinds, ready.fits, ready.kind_of, ready.durations.took, bits, *room)
        return time.perf_counter() - began

    return run


def plain_nodes(*kinds: tuple[int, int, int, int]) -> pd.DataFrame:
    """Nodes from (count, CPUs, MB, GPUs)."""
    rows = [kind[1:] for kind in kinds for _ in range(kind[0])]
    frame = pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus"])
    return frame.assign(node_id=[f"n{i}" for i in range(len(rows))])


def many_shapes(n_jobs: int = 16_000) -> pd.DataFrame:
    """As many jobs as request shapes, all submitted at once."""
    rng = np.random.default_rng(1)
    shape = rng.permutation(64 * 4_000)[:n_jobs]
    columns = {
        "job_id": np.arange(n_jobs).astype(str),
        "submit_time": 0,
        "run_time": rng.integers(1, 20_000, n_jobs),
        "cpus_per_node": shape % 64 + 1,
        "mem_mb_per_node": shape // 64 * 60 + 1,
    }
    return check(pd.DataFrame(columns), JOB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of real logs")
    parser.add_argument("--packages", type=int, default=200, help="packages sampled for the single runs")
    options = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}\n")
    print("| What | Figure |\n| --- | --- |")

    quotes, rules = read_quotes(ROOT / "quotes/example-2023.csv"), PackageRules(rules="published", budget_usd=1_000_000)
    expand_packages(quotes, rules)
    began = time.perf_counter()
    packages = expand_packages(quotes, rules)
    took = time.perf_counter() - began
    distinct = packages[packages["distinct"]]
    print(f"| {len(packages):,} packages, {len(distinct):,} distinct, warm call | {took:.2f} s |")

    sampled = distinct.iloc[np.random.default_rng(0).choice(len(distinct), options.packages, replace=False)]
    workloads = {"the embedded day": generate(1)}
    if options.data:
        log = options.data / "beocat_2021/all_jobs_2021{:02d}.csv.xz"
        months = {m: import_log(str(log).format(m), "csv", "beocat").jobs for m in (3, 4, 5)}
        for month, day in ((3, "2021-03-16"), (4, "2021-05-04"), (4, "2021-04-30"), (5, "2021-06-02")):
            workloads[f"Beocat {day}"] = slice_day(months[month], day, "America/Chicago")
    for name, jobs in workloads.items():
        runs = [one_run(jobs, package_nodes(row, quotes)) for _, row in sampled.iterrows()]
        runs[0]()
        took = np.array([min(run() for _ in range(3)) for run in runs]) * 1000
        print(
            f"| one run, {name}, {len(jobs):,} jobs, {len(runs)} packages | "
            f"median {np.median(took):.2f} ms, mean {took.mean():.2f} ms, most {took.max():.2f} ms |"
        )
    hundred = plain_nodes((88, 64, 256_000, 0), (6, 24, 1_024_000, 0), (6, 64, 512_000, 8))
    worst = {"16,000 jobs of 16,000 shapes at once": many_shapes()}
    if options.data:
        worst["the three Beocat files"] = pd.concat(months.values(), ignore_index=True)
    for name, jobs in worst.items():
        run = one_run(jobs, hundred)
        print(f"| {name}: {len(jobs):,} jobs, 100 nodes | {min(run(), run()):.3f} s |")


if __name__ == "__main__":
    main()
