"""Measure what the farm and the store cost: `python benchmarks/farm_overhead.py [--data ../shared/data]`."""

from __future__ import annotations

import argparse
import platform
import resource
import tempfile
import time
from contextlib import closing
from pathlib import Path

import procure.sweep.connect as jobqueue
from procure.study import load_study
from procure.sweep import load_plan, run_sweep
from procure.sweep.batches import batches
from procure.sweep.farm import run_tasks
from procure.sweep.protocol import FarmOptions, Receipt, n_local_workers

ROOT = Path(__file__).resolve().parent.parent
CORES = 1000


def make_plan(folder: Path, workloads: str, sample: int = 1):
    """Write and load a study of the published question."""
    folder.mkdir()
    path = folder / "study.toml"
    path.write_text(
        f'quotes = "{ROOT}/quotes/example-2023.csv"\n[packages]\nrules = "published"\nbudget_usd = 1_000_000\n'
        f"{workloads}\n[sweep]\nsample = {sample}\n"
    )
    return load_plan(load_study(path))


def generated(n_workloads: int, n_jobs: int) -> str:
    """Workloads of a study file, a seed each."""
    return "\n".join(
        f'[[workloads]]\nname = "day{seed}"\ngenerate = {{ seed = {seed}, n_jobs = {n_jobs} }}'
        for seed in range(1, n_workloads + 1)
    )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def million(folder: Path) -> None:
    """More than a million runs of 20 jobs: planned, computed on local workers, compacted, resumed."""
    began = time.perf_counter()
    plan = make_plan(folder, generated(9, 20))
    n_batches = len(batches(plan, {}))
    print(f"| {plan.n_runs:,} runs planned in {n_batches:,} batches | {time.perf_counter() - began:.1f} s |")
    done = run_sweep(plan, "local")
    files = [path for path in plan.study.folder.rglob("*") if path.is_file()]
    print(
        f"| … computed, {done.n_workers} workers | {done.seconds:.0f} s, {done.n_computed / done.seconds:,.0f} runs/s |"
    )
    print(f"| … kernel | {done.kernel_seconds:.0f} s; the rest {_rest(done) * 1e6:.0f} µs per run |")
    print(f"| … driver and scheduler, peak memory | {peak_mb():,.0f} MB |")
    print(f"| … files in the folder | {len(files)} |")
    began = time.perf_counter()
    plan = load_plan(load_study(plan.study.path))
    again = run_sweep(plan, "local")
    assert again.n_computed == 0
    print(f"| … finished study started again | {time.perf_counter() - began:.1f} s |")


def _rest(done) -> float:
    """Worker seconds per run that are not spent in the simulation."""
    return (done.seconds * done.n_workers - done.kernel_seconds) / done.n_computed


def day(folder: Path, workloads: str, name: str, sample: int) -> None:
    """Every n-th package on one day, serially and on local workers: what is not kernel."""
    folder.mkdir()
    for farm in ("serial", "local"):
        plan = make_plan(folder / farm, workloads, sample)
        done = run_sweep(plan, farm)
        share = done.seconds * done.n_workers / done.kernel_seconds - 1
        print(
            f"| {name}, {farm}, {done.n_workers} workers: {done.n_computed:,} runs | "
            f"{done.seconds:.1f} s; kernel {done.kernel_seconds:.1f} s; "
            f"all else {share:.1%} of it, {_rest(done) * 1e6:.0f} µs per run |"
        )


class Naps:
    """Batches that sleep as long as a batch of runs takes, so that more workers than cores mean something."""

    def __init__(self, n: int, seconds: float) -> None:
        self.left, self.seconds = n, seconds

    def take(self):
        self.left -= 1
        return self.left if self.left >= 0 else None

    def key(self, batch):
        return "nap"

    def shared(self, key):
        return self.seconds

    def arguments(self, batch):
        return ()


def nap(seconds: float) -> Receipt:
    time.sleep(seconds)
    return Receipt(1, seconds)


def scaling(seconds: float, per_worker: int) -> None:
    """Fit T = start + batches × seconds / workers + batches × s, where s is the driver's work per batch."""
    for n_workers in (1, 2, 4, 8):
        jobqueue.n_local_workers = lambda n=n_workers: n
        n = per_worker * n_workers
        with closing(run_tasks("local", nap, Naps(n, seconds), FarmOptions(jobs=n_workers))) as receipts:
            ended = [time.perf_counter() for given in receipts if given is not None]
        # From the first receipt to the last: without the start of the workers.
        took, ideal = ended[-1] - ended[0], (per_worker - 1) * seconds
        print(f"| {n_workers} workers, {n} batches of {seconds:.1f} s | {took:.1f} s, ideal {ideal:.1f} s |")
    jobqueue.n_local_workers = n_local_workers
    with closing(run_tasks("local", nap, Naps(3000, 0.0), FarmOptions(jobs=2))) as receipts:
        ended = [time.perf_counter() for given in receipts if given is not None]
    cost = (ended[-1] - ended[0]) / len(ended)
    print(f"| 3,000 empty batches, 2 workers: the driver's work per batch, s | {cost * 1000:.2f} ms |")
    least = CORES * cost
    print(f"| {CORES:,} workers are busy if a batch takes more than {CORES:,} × s | {least:.1f} s |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of real logs")
    parser.add_argument("--only", choices=("million", "day", "exhaustive", "tiny", "scaling"))
    options = parser.parse_args()
    jobs = generated(1, 16_000)
    if options.data:
        log = (options.data / "beocat_2021/all_jobs_202103.csv.xz").resolve()
        jobs = f'[[workloads]]\nname = "day"\njobs = "{log}"\npreset = "beocat"\n'
        jobs += 'day = 2021-03-16\ntz = "America/Chicago"'
    print(
        f"{platform.processor() or platform.machine()}, {n_local_workers()} cores, Python {platform.python_version()}\n"
    )
    print("| What | Figure |\n| --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "million"):
            million(folder / "million")
        if options.only in (None, "day"):
            day(folder / "day", jobs, "Beocat 2021-03-16" if options.data else "the embedded day", sample=3)
        if options.only == "exhaustive":
            day(folder / "day", jobs, "Beocat 2021-03-16" if options.data else "the embedded day", sample=1)
        if options.only in (None, "tiny"):
            day(folder / "tiny", generated(1, 20), "a day of 20 jobs", sample=1)
        if options.only in (None, "scaling"):
            scaling(0.3, 40)


if __name__ == "__main__":
    main()
