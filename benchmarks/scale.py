"""A year of a national centre, in parts: what 10^5, 10^6 and 10^7 jobs on 5,000 nodes cost, command by command.

``python benchmarks/scale.py 100000 1000000 bestfit easy why`` writes an SWF log of each size at the same rate
(10^7 jobs a year, 0.6 of the CPUs), runs the commands on it one after the other, and prints a table: seconds by the
clock and of processor time, the most memory, and to which power of the jobs the processor time grew since the size
before; ``--plot scale.svg`` draws it. A command whose processor time passes LIMIT is ended and said so.

``python benchmarks/scale.py farm [RUNS]`` sweeps a week of 200,000 jobs with 2, 4 and 8 local workers, ``slurm [RUNS]``
a day of 30 jobs with 32 workers of one thread in a Slurm whose partitions are named cpu and gpu, and serially.
Overhead = 1 − seconds in kernels / (workers × seconds by the clock): of the whole sweep, with its plan, the start and
end of workers, and the result table; and while all are at work, between the first and the last receipts of as many
batches as there are workers, where what is left is Dask, the parts written, and waiting for the driver.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

import procure.sweep.connect as driver_connect
import procure.sweep.farm as driver
from procure.page.charts import image
from procure.study import load_plan, load_study
from procure.sweep import FarmOptions, read_results
from procure.workload.generate import generate, load_recipe

NODES, CPUS, YEAR, LIMIT = 5_000, 32, 10_000_000, 1_800
HEADER = f"; UnixStartTime: 1704067200\n; TimeZoneString: UTC\n; MaxNodes: {NODES}\n; MaxProcs: {NODES * CPUS}\n"
PACKAGES = 123_750
"""Of the study, about."""
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


def cost(*words: str) -> tuple[float, str]:
    """Run a command; return its processor time, s, and its cells of the table."""
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
    return spent, f"{time.monotonic() - began:,.0f} s | {spent:,.0f} s | {used.ru_maxrss / 1e6:.1f} GB{ended}"


def plot(found: dict[str, dict[int, float]], out: Path) -> None:
    """Draw processor time by size, both logarithmic, beside a line of cost in proportion."""
    rows = [{"command": name, "jobs": n, "s": each} for name, spent in found.items() for n, each in spent.items()]
    sizes, least = sorted({row["jobs"] for row in rows}), min(row["s"] for row in rows)
    rows += [{"command": "in proportion", "jobs": n, "s": least * n / sizes[0]} for n in sizes]
    spec = {
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "jobs", "type": "quantitative", "scale": {"type": "log"}},
            "y": {"field": "s", "type": "quantitative", "scale": {"type": "log"}, "title": "processor time (s)"},
            "color": {"field": "command", "type": "nominal"},
        },
    }
    out.write_bytes(image(spec, "svg"))


def commands(sizes: list[int], asked: list[str], out: Path | None) -> None:
    """Print a row for each size and command."""
    found: dict[str, dict[int, float]] = {}
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
        print("| Jobs | Command | Clock | Processor | Memory | Exponent |\n| --- | --- | --- | --- | --- | --- |")
        for n in sizes:
            write_log(Path(log), n)
            for name in dict.fromkeys(["import", *asked]):
                spent, cells = cost(*words[name].split())
                before = found.setdefault(name, {})
                power = "–"
                if before:
                    m = max(before)
                    power = f"{np.log(spent / before[m]) / np.log(n / m):.2f}"
                before[n] = spent
                print(f"| {n:,} | {name} | {cells} | {power} |", flush=True)
    if out is not None:
        plot(found, out)


class Watch:
    """Looks at the workers, children of this process, until it is closed: the most private memory of one."""

    def __init__(self) -> None:
        self.most, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(5):  # a look costs some 10 ms a worker
            for one in psutil.Process().children(recursive=True):
                try:
                    self.most = max(self.most, one.memory_full_info().uss)
                except psutil.Error:
                    continue

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def swept(folder: Path, workload: str, batch_size: int, sample: int, farm: str, n: int) -> pd.DataFrame:
    """Sweep with so many workers, print a row, and return the results."""
    folder.mkdir()
    quotes = Path(__file__).resolve().parent.parent / "quotes/example-2023.csv"
    (folder / "study.toml").write_text(
        f'quotes = "{quotes}"\n[packages]\nrules = "published"\nbudget_usd = 1_000_000\n'
        f'[[workloads]]\nname = "made"\n{workload}\n[sweep]\nsample = {sample}\nbatch_size = {batch_size}\n'
    )
    plan, came, run_tasks = load_plan(load_study(folder / "study.toml")), [], driver.run_tasks

    def timed(*given):
        for one in run_tasks(*given):
            if one is not None:
                came.append((time.perf_counter(), one[1].kernel_seconds))
            yield one

    driver.run_tasks, driver.n_local_workers = timed, lambda: n
    driver_connect.n_local_workers = lambda: n
    options = FarmOptions(jobs=n, memory="450 MB", walltime="0:30:00", partition="cpu,gpu", wait=300)
    watch, sent, used = Watch(), psutil.net_io_counters(pernic=True)["lo"].bytes_sent, time.process_time()
    began = time.perf_counter()
    try:
        done = driver.run_sweep(plan, farm, options=options)
    finally:
        watch.close()
        driver.run_tasks = run_tasks
    clock, used = time.perf_counter() - began, time.process_time() - used
    sent = psutil.net_io_counters(pernic=True)["lo"].bytes_sent - sent
    since, until = came[min(n, len(came)) - 1][0], came[-min(n, len(came))][0]
    busy = sum(max(0.0, min(at, until) - max(at - kernel, since)) for at, kernel in came)
    at_work = f"{1 - busy / (n * (until - since)):.1%} of {until - since:.0f} s" if until > since else "–"
    print(
        f"| {farm}, {n} | {done.n_computed:,} in {len(came):,} | {clock:.0f} s | {done.kernel_seconds:.0f} s | "
        f"{1 - done.kernel_seconds / (n * clock):.1%} | {at_work} | {watch.most / 1e6:.0f} MB | {used:.1f} s | "
        f"{1000 * used / len(came):.1f} ms | {len(came) / max(until - since, 1e-9):.0f} | {sent / 1e6:.1f} MB |",
        flush=True,
    )
    return read_results(plan.study)


def farms(kind: str, runs: int) -> None:
    """Print a row for each number of workers; tables that differ are an error."""
    print(
        "| Farm, workers | Runs, batches | Clock | In kernels | Overhead, all | While all are at work "
        "| Memory of a worker | Driver and scheduler | Of these a batch | Batches/s | Sent |\n" + "| --- " * 11 + "|"
    )
    size = 0 if kind == "farm" else 5  # as a study is cut that does not say; so small that 32 workers have enough
    cases = [("local", 2), ("local", 4), ("local", 8)] if kind == "farm" else [("serial", 1), ("slurm", 32)]
    first = None
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCALE_FOLDER")) as folder:
        week = Path(folder) / "week.parquet"
        if kind == "farm":
            generate(1, 200_000, load_recipe("campus").model_copy(update={"weeks": 1})).to_parquet(week)
        workload = f'jobs = "{week}"' if kind == "farm" else "generate = { n_jobs = 30 }"
        for farm, n in cases:
            found = swept(Path(folder) / f"{farm}{n}", workload, size, max(1, PACKAGES // runs), farm, n)
            first = found if first is None else first
            pd.testing.assert_frame_equal(found, first, check_exact=True)
    print("all tables are equal, value for value")


def main() -> None:
    """Measure what is asked."""
    words, out = sys.argv[1:], None
    if "--plot" in words:
        at = words.index("--plot")
        out = Path(words[at + 1])
        words = words[:at] + words[at + 2 :]
    sizes, asked = [int(one) for one in words if one.isdigit()], [one for one in words if one.isalpha()]
    if asked and asked[0] in ("farm", "slurm"):
        farms(asked[0], sizes[0] if sizes else 600 if asked[0] == "farm" else 6_000)
    else:
        commands(sizes, asked, out)


if __name__ == "__main__":
    main()
