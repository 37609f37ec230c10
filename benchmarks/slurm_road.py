"""Follow an administrator's road from a real Slurm to a replay, and say how far the replay is from what Slurm did.

What `slurm_scenarios.py real` collected of each run (`procure site read` and its commands) becomes a site folder, a job
table and a schedule by procure's own commands alone; a second run of Slurm says how far Slurm is from itself.

    python benchmarks/slurm_road.py runs/tasks-1 runs/tasks-2 runs/tasks-3
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from slurm_agreement import agreement, starts

from procure.tables import JOB, read

POLICIES = ("slurm", "easy", "best-fit")


def procure(*words: str) -> str:
    """Run a command of procure and return what it prints."""
    done = subprocess.run([Path(sys.executable).with_name("procure"), *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"procure {' '.join(words)}: {done.stderr}")
    return done.stdout


def road(run: Path, shape: str) -> tuple[pd.DataFrame, dict[str, object], dict[str, pd.DataFrame]]:
    """Return the jobs of a run as imported, what the import says, and a schedule for each policy."""
    collected, site, jobs = run / "collected", run / "site", run / "jobs.parquet"
    procure("site", "read", str(collected), "--out", str(site))
    told = procure("workload", "import", str(collected / "jobs.psv"), "--out", str(jobs), "--format", "json")
    found = {}
    for policy in POLICIES:
        out = run / f"{policy}-{shape}.parquet"
        words = ["simulate", "--jobs", str(jobs), "--site", str(site), "--policy", policy, "--out", str(out)]
        procure(*words, "--shape", shape, "--no-kill-at-limit")
        found[policy] = pd.read_parquet(out)
    return read(jobs, JOB), json.loads(told), found


def _named(run: Path, table: pd.DataFrame) -> pd.Series:
    """Return the scenario's name of each job, with its task's: other runs give the same job another number."""
    header, *rows = [line.split("|") for line in (run / "sacct.psv").read_text().splitlines()]
    names = {row[header.index("JobID")]: row[header.index("JobName")] for row in rows}
    task = table["job_id"].str.extract("(_.*)")[0].fillna("")
    return table["job_id"].map(names) + task


def _last_runs(run: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Return the last run of each job, waiting since its first submission; those before (JOBID~1, …) are left out."""
    job = table["job_id"].str.replace(r"~\d+$", "", regex=True)
    table = table.assign(submit_time=table.groupby(job)["submit_time"].transform("min"), job_id=_named(run, table))
    return table[table["job_id"].notna()].set_index("job_id", drop=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--shape", default="tasks")
    options = parser.parse_args()
    real, rows, waits = [], [], []
    for run in options.runs:
        jobs, told, found = road(run, options.shape)
        jobs = _last_runs(run, jobs)
        mine = starts(jobs, jobs["start_time"].astype(float), jobs["node_ids"], {})
        real.append(mine)
        waits.append(float(mine.wait.mean()))
        print(f"{run}: {told['n_kept']} jobs of {told['n_read']} rows, asked {told['shape']}, {told['dropped']}")
        for policy, table in found.items():
            table = _last_runs(run, table)
            other = starts(jobs, table["start_time"].astype("Float64").astype(float), table["node_ids"], {})
            lost = int(other.start.isna().sum())
            rows.append({"who": policy, **agreement(mine, other), "mean": float(other.wait.mean()), "lost": lost})
    for a, b in itertools.combinations(real, 2):
        rows.append({"who": "Slurm itself", **agreement(a, b), "mean": float(np.mean(waits)), "lost": 0})
    table = pd.DataFrame(rows).drop(columns="same_kind").groupby("who", sort=False).mean()
    print(f"Slurm's mean wait: {np.mean(waits):.1f} s\n{table.round(3).to_string()}")


if __name__ == "__main__":
    main()
