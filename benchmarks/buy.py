"""Measure `procure buy`: minutes and questions on a real month, and the objections to a purchase that waits long.

python benchmarks/buy.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openpyxl

import procure
from procure.offers.template import write_template
from procure.tables import write
from procure.workload import LogSettings

ROOT = Path(__file__).resolve().parent.parent
MONTH = [("Std", "compute", 64, 256, 0, 9000), ("Big", "bigmem", 64, 1024, 0, 18000),
         ("Fat", "bigmem", 64, 2048, 0, 31000), ("GPU", "gpu", 64, 512, 4, 52000)]  # fmt: skip
WIDE = [("Small", "compute", 8, 32, 0, 2500), ("Medium", "compute", 16, 64, 0, 3200),
        ("Big", "bigmem", 32, 256, 0, 7000), ("GPU", "gpu", 16, 64, 1, 9000)]  # fmt: skip


def sheet(path: Path, rows: list[tuple[object, ...]]) -> Path:
    """Fill the template as a vendor does."""
    write_template(path)
    book = openpyxl.load_workbook(path)
    for row in rows:
        book["Servers"].append(row)
    book.save(path)
    return path


def call(folder: Path, *words: object) -> tuple[int, str, str, float]:
    """Run a command in a folder; return its code, what it printed, and the seconds."""
    began = time.perf_counter()
    command = [str(Path(sys.executable).with_name("procure")), *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=dict(os.environ))
    return done.returncode, done.stdout, done.stderr, time.perf_counter() - began


def month(data: Path, folder: Path) -> None:
    """Buy for a month of Beocat; then the same again, and asked for less money."""
    sheet(folder / "offers.xlsx", MONTH)
    log = data / "beocat_2021" / "all_jobs_202103.csv.xz"
    words = ("buy", "--jobs", log, "--quotes", "offers.xlsx", "--budget", 1_000_000)
    for name, more in (
        ("buy", words),
        ("buy again", ("buy", "study.toml")),
        ("ask", ("ask", "study.toml", "--budget", "800k")),
    ):
        code, out, err, took = call(folder, *more)
        print(f"month, {name}: exit {code}, {took:.0f} s", flush=True)
        print(
            out if name == "buy" else "",
            err if code else "",
            *(line for line in err.splitlines() if line.endswith(" s)")),
            sep="\n",
        )


def wide(data: Path, folder: Path) -> None:
    """Buy for two months of HPC2N, with and without a GPU node that no job asks for."""
    sheet(folder / "offers.xlsx", WIDE)
    log = data / "pwa" / "HPC2N-2002-2.1-cln.swf.xz"
    code, _, err, _ = call(folder, "buy", "--jobs", log, "--quotes", "offers.xlsx", "--budget", 300_000)
    print(f"wide, first question: exit {code}: {err.splitlines()[-1]}")
    jobs = procure.read_log(log, LogSettings(format="swf", cpus_per_node=2)).jobs
    write(procure.merge([jobs[jobs["submit_time"].between(1_080_777_600, 1_086_048_000)]]), folder / "jobs.parquet")
    words = ("buy", "--jobs", "jobs.parquet", "--quotes", "offers.xlsx", "--budget", 300_000, "--format", "json")
    print("wide, free:", *objected(call(folder, *words)), sep="\n  ")
    study = folder / "study.toml"
    study.write_text(study.read_text().replace("# min_gpu_nodes", "min_gpu_nodes"))
    print("wide, one GPU node forced:", *objected(call(folder, "buy", study, "--format", "json")), sep="\n  ")


def objected(done: tuple[int, str, str, float]) -> list[str]:
    """Return what was bought, and what speaks against it."""
    code, out, err, took = done
    if code:
        return [err]
    document = json.loads(out)
    first = document["recommendation"]
    head = f"{took:.0f} s: {first['package_id']}, mean wait {first['mean_wait_time']:,.0f} s"
    return [head, *(f"{one['name']}: {one['sentence']}" for one in document["objections"])]


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    data = parser.parse_args().data.resolve()
    for measure in (month, wide):
        with tempfile.TemporaryDirectory() as folder:
            measure(data, Path(folder))


if __name__ == "__main__":
    main()
