"""Measure how far the ranges that procure states can be trusted, against exhaustive simulation.

    procure sweep TRUTH.toml
    python benchmarks/how_sure.py TRUTH.toml

The study must be swept exhaustively (``sample = 1``). Every ``--sample``-th distinct package is taken as simulated,
per day; all others that run every job are unseen and judged.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from procure.models import WorkloadWaits, features, make_case, predict_packages
from procure.study import load_study
from procure.sweep import Plan, load_plan, read_results

HEAD = 500


def coverage(low: np.ndarray, high: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of truths that lie within their range."""
    return float(np.mean((low <= truth) & (truth <= high)))


def main() -> None:
    """Print coverage per day."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--sample", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    plan = load_plan(load_study(given.study))
    results, policy = read_results(plan.study, plan), plan.study.simulate.policies[0]
    cases = [
        make_case(plan.packages, plan.quotes, jobs, results, name, policy, plan.existing)
        for name, jobs in plan.workloads.items()
    ]
    unseen_packages(plan, cases, given.sample, given.seed)


def unseen_packages(plan: Plan, cases: list[WorkloadWaits], sample: int, seed: int) -> None:
    """Judge ranges of the packages outside the sample, day by day."""
    rows = []
    for case in cases:
        able = np.flatnonzero(case.runs_all & case.simulated)
        wait = case.wait[able]
        known = np.arange(len(case.wait))[able] % sample == 0
        x = features(case.packages.iloc[able], plan.quotes)
        found = predict_packages(x, np.where(known, wait, np.nan), seed=seed)
        new = ~known
        low, high = found.errors.interval(found.wait[new])
        truth, guess = wait[new], found.wait[new]
        errors = np.sort(found.errors.ratio)
        flat = errors[[int(0.05 * len(errors)), int(0.95 * len(errors))]]
        head, tail = np.argsort(guess, kind="stable")[:HEAD], guess > np.quantile(guess, 0.9)
        best = guess <= np.quantile(guess, 0.05)
        one_range = ((guess + 1) * flat[0] - 1, (guess + 1) * flat[1] - 1)
        rows.append(
            {
                "day": case.name,
                "learnt": int(known.sum()),
                "unseen": int(new.sum()),
                "coverage": coverage(low, high, truth),
                "best 5 %": coverage(low[best], high[best], truth[best]),
                f"first {HEAD}": coverage(low[head], high[head], truth[head]),
                "last 10 %": coverage(low[tail], high[tail], truth[tail]),
                "one range for all": coverage(*one_range, truth),
                "its best 5 %": coverage(one_range[0][best], one_range[1][best], truth[best]),
                "high / low": float(np.median((high + 1) / (low + 1))),
            }
        )
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    print(table.round(3).to_string(index=False))
    print(table.drop(columns="day").agg(["mean", "min", "max"]).round(3).to_string())


if __name__ == "__main__":
    main()
