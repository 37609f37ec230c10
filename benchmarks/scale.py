"""A year of a national centre, in parts: what 10^5, 10^6 and 10^7 jobs on 5,000 nodes cost, command by command.

``python benchmarks/scale.py 100000 1000000 bestfit easy why`` writes an SWF log of each size at the same rate
(10^7 jobs a year, 0.6 of the CPUs), runs the commands on it one after the other, and prints a table: seconds by the
clock and of processor time, and the most memory. A command whose processor time passes LIMIT is ended and said so.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

NODES, CPUS, YEAR, LIMIT = 5_000, 32, 10_000_000, 1_800
HEADER = f"; UnixStartTime: 1704067200\n; TimeZoneString: UTC\n; MaxNodes: {NODES}\n; MaxProcs: {NODES * CPUS}\n"
STEP = 500_000
"""Jobs that are drawn at a time."""


def draw(rng: np.random.Generator, first: int, n: int, since: float) -> pd.DataFrame:
    """Return rows of SWF: runs lognormal around 50 minutes, up to three days; 1 to 256 processors, most at most 16."""
    submit = (since + np.cumsum(rng.exponential(365 * 86_400 / YEAR, n))).astype(int)
    run = np.minimum(np.exp(rng.normal(np.log(3_000), 1.6, n)), 3 * 86_400).astype(int) + 1
    wide = 2 ** rng.integers(0, 9, n)
    processors = np.where(rng.random(n) < 0.6, np.minimum(wide, 16), wide)
    limit = np.maximum(np.minimum((run * rng.uniform(1, 4, n) // 3_600 + 1) * 3_600, 3 * 86_400).astype(int), run)
    wait, user = rng.exponential(600, n).astype(int), rng.zipf(1.4, n) % 800
    memory = rng.integers(1, 4_000, n) * 1_024
    fields = [np.arange(first, first + n), submit, wait, run, processors, -1, memory, processors, limit, memory]
    return pd.DataFrame(dict(enumerate([*fields, 1, user, user % 40, -1, 1, -1, -1, -1])))


def write_log(path: Path, n: int) -> None:
    """Write a log of ``n`` jobs."""
    rng, since = np.random.default_rng(1), 0.0
    with path.open("w") as out:
        out.write(HEADER)
        for first in range(1, n + 1, STEP):
            rows = draw(rng, first, min(STEP, n + 1 - first), since)
            since = float(rows[1].iloc[-1])
            rows.to_csv(out, sep=" ", header=False, index=False)


def cost(*words: str) -> str:
    """Run a command; return its cells of the table."""
    began = time.monotonic()
    run = subprocess.Popen(
        [str(Path(sys.executable).with_name("procure")), *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT)),
    )
    _, status, used = os.wait4(run.pid, 0)
    ended = "" if status == 0 else f" | ended with {os.waitstatus_to_exitcode(status)}"
    spent = used.ru_utime + used.ru_stime
    return f"{time.monotonic() - began:,.0f} s | {spent:,.0f} s | {used.ru_maxrss / 1e6:.1f} GB{ended}"


def main() -> None:
    """Print a row for each size and command."""
    sizes, asked = [int(one) for one in sys.argv[1:] if one.isdigit()], [one for one in sys.argv[1:] if one.isalpha()]
    with tempfile.TemporaryDirectory() as folder:
        log, jobs, nodes = (str(Path(folder) / name) for name in ("log.swf", "jobs.parquet", "nodes.csv"))
        names = [f"n{i:04d}" for i in range(NODES)]
        table = {"node_id": names, "kind": "node", "cpus": CPUS, "mem_mb": 256_000, "gpus": 0}
        pd.DataFrame(table).to_csv(nodes, index=False)
        words = {
            "import": f"workload import {log} --log-format swf --set cpus_per_node={CPUS} --out {jobs}",
            "bestfit": f"simulate --jobs {jobs} --nodes {nodes} --format json",
            "easy": f"simulate --jobs {jobs} --nodes {nodes} --policy easy --format json",
            "why": f"site why {jobs} --nodes {nodes}",
        }
        if unknown := set(asked) - set(words):
            sys.exit(f"scale.py: {', '.join(sorted(unknown))} is not measured; sizes and {', '.join(words)} are")
        print("| Jobs | Command | Clock | Processor | Memory |\n| --- | --- | --- | --- | --- |")
        for n in sizes:
            write_log(Path(log), n)
            for name in dict.fromkeys(["import", *asked]):
                print(f"| {n:,} | {name} | {cost(*words[name].split())} |", flush=True)


if __name__ == "__main__":
    main()
