"""Compare this commit's speed with another branch's: one table, the median CPU seconds of runs in turn.

`python benchmarks/branch.py main` checks both out into a temporary folder, compiles each once, and measures.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETUP = """
import time
import procure
jobs = procure.generate(seed=1, n_jobs=8000)
quotes = procure.read_quotes("quotes/example-2023.csv")
rules = procure.PackageRules(budget_usd=300_000, min_gpu_nodes=1, types_per_category=1)
packages = procure.expand_packages(quotes, rules)
nodes = procure.package_nodes(packages.iloc[0], quotes)
small = jobs.head(20)
"""
TASKS = {
    "import procure": ("import time", "import procure.run"),
    "list packages": (
        SETUP,
        "procure.expand_packages(quotes, rules.model_copy(update={'budget_usd': 500_000}))",
    ),
    "best fit, 8,000 jobs": (
        SETUP + "procure.simulate(small, nodes, 'best-fit')",
        "procure.simulate(jobs, nodes, 'best-fit')",
    ),
    "EASY, 8,000 jobs": (SETUP + "procure.simulate(small, nodes, 'easy')", "procure.simulate(jobs, nodes, 'easy')"),
}


def seconds(checkout: Path, setup: str, task: str) -> float:
    """Run a task in a process of its own; returns its CPU seconds without what prepares it."""
    script = f"{setup}\nbegan = time.process_time()\n{task}\nprint('took', time.process_time() - began)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{checkout.name}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.rpartition("took")[2])


def checked_out(revision: str, folder: Path) -> Path:
    """Lay out a revision's files in a folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise SystemExit(f"{revision}: no such branch or commit")
    subprocess.run(["tar", "xf", "-", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def compare(other: str, rounds: int) -> list[tuple[str, float, float]]:
    """Return for each task the median seconds of the other revision and of this commit."""
    with tempfile.TemporaryDirectory() as base:
        sides = [checked_out(other, Path(base, "other")), checked_out("HEAD", Path(base, "here"))]
        rows = []
        for name, (setup, task) in TASKS.items():
            for side in sides:
                seconds(side, setup, task)  # compiles
            took = [[seconds(side, setup, task) for side in sides] for _ in range(rounds)]
            rows.append((name, *(statistics.median(column) for column in zip(*took, strict=True))))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", default="main", help="a branch or commit")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print(f"{'CPU seconds':24}{asked.other:>12}{'HEAD':>12}{'ratio':>8}")
    for name, before, now in compare(asked.other, asked.rounds):
        print(f"{name:24}{before:12.3f}{now:12.3f}{now / before:8.2f}")
