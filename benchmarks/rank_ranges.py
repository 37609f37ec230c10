"""Do the ranges of ranks hold? One day is resampled; the truth is the mean over many days of the same recipe.

    python benchmarks/rank_ranges.py --jobs 1500 --budget 150000 --days 10

Prints the share of packages whose true rank among the head lies in the stated range, and the share whose place in
the list does. By the resamples alone the first is above 90 % too, and the second is not.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from procure.evaluation.bootstrap import rank_confidence, rank_ranges
from procure.recommender.confidence import RESAMPLES, resample_bursts
from procure.study import Plan, load_plan, load_study
from procure.sweep.trial import simulate_packages
from procure.workload import generate

QUOTES = Path(__file__).resolve().parent.parent / "quotes" / "example-2023.csv"
TRUTH_FROM = 1000


def plan_of(n_jobs: int, budget: int) -> Plan:
    """Return the plan of a study of the example's quotes and the embedded day, of so many jobs."""
    path = Path(tempfile.mkdtemp()) / "ranges.toml"
    path.write_text(
        f'quotes = "{QUOTES}"\npackages = {{ rules = "published", budget_usd = {budget} }}\n'
        f'workloads = [{{ name = "day", generate = {{ seed = 1, n_jobs = {n_jobs} }} }}]\n',
        encoding="utf-8",
    )
    return load_plan(load_study(path))


def waits(plan: Plan, counts: np.ndarray, jobs: pd.DataFrame) -> np.ndarray:
    """Simulate packages on a day; NaN where a package leaves jobs out."""
    runs = simulate_packages(plan, counts, "day", "best-fit", jobs)
    return runs["mean_wait_time"].to_numpy(float, na_value=np.nan)


def covered(plan: Plan, counts: np.ndarray, n_jobs: int, days: int, n_truth: int, head: int) -> pd.DataFrame:
    """Give per day the share of true ranks and of places within the range, and its width, by both rules."""
    truth = np.mean([waits(plan, counts, generate(TRUTH_FROM + i, n_jobs)) for i in range(n_truth)], axis=0)
    rows = []
    for day in range(1, days + 1):
        jobs = generate(day, n_jobs)
        first = np.argsort(waits(plan, counts, jobs), kind="stable")[:head]
        drawn = np.stack([waits(plan, counts[first], resample_bursts(jobs, 100 * day + i)) for i in range(RESAMPLES)])
        true_rank = np.searchsorted(np.sort(truth[first]), truth[first]) + 1
        place = np.arange(1, len(first) + 1)
        alone = rank_confidence(drawn)[["rank_low", "rank_high"]].to_numpy().T
        for rule, (low, high) in (("resamples alone", alone), ("stated", rank_ranges(drawn))):
            held = [float(((low <= one) & (one <= high)).mean()) for one in (true_rank, place)]
            rows.append({"rule": rule, "truth": held[0], "place": held[1], "width": float((high - low + 1).mean())})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (
        ("jobs", 1500),
        ("budget", 150_000),
        ("days", 10),
        ("truth", 60),
        ("packages", 300),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    plan = plan_of(options.jobs, options.budget)
    counts = plan.packages[plan.types].to_numpy(np.int64)
    some = np.random.default_rng(0).choice(len(counts), min(options.packages, len(counts)), replace=False)
    able = simulate_packages(plan, counts[some], "day", "best-fit", generate(1, options.jobs))["n_unrunnable"] == 0
    found = covered(plan, counts[some][able.to_numpy()], options.jobs, options.days, options.truth, 30)
    print(found.groupby("rule", sort=False).mean().round(3))


if __name__ == "__main__":
    main()
