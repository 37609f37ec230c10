"""Which GPUs to buy, with and without the GPUs' speeds: `python benchmarks/gpu_models.py --data FOLDER`.

15,000 jobs of a GPU centre (``gpu_jobs/dirlab_helios_data_training.csv.xz`` of the folder: users, GPUs, CPUs, nodes,
run times; submissions are the cumulated intervals), taken to ask for one model, `LOGGED`. On offer are two others and a
node without GPUs, at made-up prices: the dear GPU costs 2.5 times the cheap one. The study is simulated with the dear
GPU at several speeds against the cheap one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import procure
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.tables import JOB, check, write

LOGGED = "v100"
CHEAP, DEAR = 60_000, 150_000
SPEEDS = (1.0, 2.0, 2.5, 3.0, 4.0)
QUOTES = f"""name,category,cpus,mem_gb,gpus,gpu_type,price_usd,max_count
Cpu,compute,64,512,0,,12000,20
Cheap,gpu,48,512,8,cheap,{CHEAP},
Dear,gpu,48,512,8,dear,{DEAR},
"""
STUDY = """name = "gpus"
quotes = "quotes.csv"
[packages]
rules = "published"
budget_usd = {budget}
[[workloads]]
name = "log"
jobs = "jobs.parquet"
[sweep]
sample = 1
[gpu_models]
v100 = {{ runs_on = ["cheap", "dear"], speed = {{ dear = {speed} }} }}
"""


def jobs_of(path: Path) -> pd.DataFrame:
    """Read the log as a job table; jobs of more GPUs than a node has are spread over nodes of eight."""
    log = pd.read_csv(path)
    gpus = log["gpu_num"].to_numpy(np.int64)
    nodes = np.maximum(np.ceil(gpus / 8), 1).astype(np.int64)
    cpus = np.maximum(log["cpu_num"].to_numpy(np.int64) // nodes, 1)
    table = pd.DataFrame(
        {
            "job_id": np.arange(len(log)).astype(str), "user": log["user"].astype(str),
            "submit_time": log["interval"].cumsum().astype(np.int64), "run_time": log["run_time"].astype(np.int64),
            "n_nodes": nodes, "cpus_per_node": np.minimum(cpus, 48), "gpus_per_node": np.ceil(gpus / nodes).astype(int),
            "gpu_type": np.where(gpus > 0, LOGGED, ""),
        }
    )  # fmt: skip
    return check(table, JOB)


def chosen(folder: Path, speed: float, budget: int) -> pd.DataFrame:
    """Simulate every package; return ``package_id mean_wait_time``, best first."""
    path = folder / "study.toml"
    path.write_text(STUDY.format(budget=budget, speed=speed).replace('"gpus"', f'"gpus-{speed:g}"'))
    run_sweep(load_plan(load_study(path)), "serial")
    return procure.recommend(path, k=1, resamples=0).ranking[["package_id", "mean_wait_time", "jobs_left_out"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--budget", type=int, default=1_500_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "quotes.csv").write_text(QUOTES)
        jobs = jobs_of(asked.data / "gpu_jobs" / "dirlab_helios_data_training.csv.xz")
        write(jobs, folder / "jobs.parquet")
        plain = chosen(folder, 1.0, asked.budget).iloc[0]
        for speed in SPEEDS:
            table = chosen(folder, speed, asked.budget)
            waits = table.set_index("package_id")["mean_wait_time"]
            best = table.iloc[0]
            print(json.dumps({
                "dear_times_faster": speed, "best": best["package_id"], "mean_wait_s": round(best["mean_wait_time"]),
                "best_without_speeds": plain["package_id"], "it_waits_s": round(waits[plain["package_id"]]),
                "n_packages": len(table),
            }))  # fmt: skip


if __name__ == "__main__":
    main()
