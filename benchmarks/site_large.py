"""Measure policy slurm beside EASY on thousands of nodes that jobs take whole; all is made up here.

python benchmarks/site_large.py 300 1000 2000 week
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import procure
from procure.tables import JOB, NODE, check, read

CONFIGURATION = """ClusterName=large
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/multifactor
PriorityWeightAge=500
PriorityWeightJobSize=100
SchedulerType=sched/backfill
SchedulerParameters=bf_window=5760,bf_max_job_test=1000,bf_continue,defer,default_queue_depth=256
NodeName=n[0001-5278] CPUs=256 Sockets=2 CoresPerSocket=64 ThreadsPerCore=2 RealMemory=257400 Weight=500
NodeName=n[5279-5862] CPUs=256 Sockets=2 CoresPerSocket=64 ThreadsPerCore=2 RealMemory=515450 Weight=1000
PartitionName=standard Nodes=ALL Default=YES MaxTime=1-00:00:00 OverSubscribe=EXCLUSIVE
"""
WEEK = 7 * 86_400


def jobs_of(what: str) -> pd.DataFrame:
    """Draw so many jobs of 1 to 512 nodes, one every 20 s; or a week of 20,000 smaller ones that fill the nodes."""
    n, rng = 20_000 if what == "week" else int(what), np.random.default_rng(1)
    submit = np.sort(rng.integers(0, WEEK if what == "week" else 20 * n, n))
    nodes = 2 ** rng.integers(0, 10, n) if what != "week" else np.minimum(2 ** (rng.geometric(0.4, n) - 1), 1024)
    limit = rng.choice([1_800, 3_600, 14_400, 43_200, 86_400], n, p=[0.15, 0.2, 0.25, 0.2, 0.2])
    run = np.maximum(60, (limit * rng.beta(1.2, 1.5, n)).astype(int))
    return check(
        pd.DataFrame({
            "job_id": np.arange(n).astype(str), "user": [f"u{i}" for i in rng.integers(0, 60, n)], "n_nodes": nodes,
            "submit_time": 1_700_000_000 + submit, "requested_time": limit, "run_time": run, "cpus_per_node": 256,
            "mem_mb_per_node": 1_000, "partition": "standard",
        }),
        JOB,
    )  # fmt: skip


def main() -> None:
    """Print the processor time of both policies, and a digest of the starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="so many jobs, or week")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "slurm.conf").write_text(CONFIGURATION)
        site = Path(folder) / "site"
        subprocess.run([Path(sys.executable).with_name("procure"), "site", "read", folder, "--out", site], check=True)
        nodes, policies = read(site / "nodes.csv", NODE), ("easy", f"slurm:site={site}")
        for what in ("20", *parser.parse_args().what):  # the first compiles
            jobs = jobs_of(what)
            for policy in policies:
                began = time.process_time()
                done = procure.simulate(jobs, nodes, policy)
                took = time.process_time() - began
                starts = hashlib.sha256(done.schedule["start_time"].to_numpy("float64").tobytes()).hexdigest()[:12]
                wait = done.metrics["mean_wait_time"]
                print(
                    f"{what}, {policy.partition(':')[0]}: {took:.1f} s, mean wait {wait:,.0f} s, {starts}", flush=True
                )


if __name__ == "__main__":
    main()
