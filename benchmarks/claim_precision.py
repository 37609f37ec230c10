"""Measure how well ten per cent of the simulations find the best packages, on real days.

For each day: simulate every distinct package once (the truth, kept in --truth), then for each of the
ten ways to take every tenth package, learn from that sample, rank all packages that run every job,
and judge the ranking by the truth.

    python benchmarks/claim_precision.py LOG.csv.xz [LOG.csv.xz …] --day 2021-04-30 --day 2021-05-21
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure.evaluation.ranking import REGRET_FLOOR, evaluate, order
from procure.models import FEATURE_SETS, features, predict_packages
from procure.packages import PackageRules, expand_packages, read_quotes
from procure.packages.nodes import jobs_left_out
from procure.schemas import JOB
from procure.tables import check, write
from procure.workload import import_log, merge, slice_day

ROOT = Path(__file__).resolve().parent.parent
KS = (10, 50, 100, 500, 1000)


def read_days(logs: list[Path], days: list[str], tz: str, preset: str) -> dict[str, pd.DataFrame]:
    tables = [import_log(log, "csv", preset).jobs for log in logs]
    found = {}
    for day in days:
        parts = []
        for table in tables:
            try:
                parts.append(slice_day(table, day, tz))
            except ValueError:
                continue
        if not parts:
            raise SystemExit(f"no log holds a job of {day} ({tz})")
        found[day] = check(parts[0] if len(parts) == 1 else merge(parts), JOB)
    return found


def sweep_all(jobs: pd.DataFrame, day: str, quotes: Path, folder: Path, budget: float) -> pd.DataFrame:
    """Simulate every distinct package of one day, once; later calls read what is there."""
    from procure.study import load_study
    from procure.sweep import load_plan, read_results, run_sweep

    path = folder / f"{day}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(jobs, folder / f"jobs-{day}.parquet")
        study = folder / f"{day}.toml"
        study.write_text(
            f'name = "{day}"\nquotes = {json.dumps(str(quotes.resolve()))}\n[packages]\nrules = "published"\n'
            f"budget_usd = {budget}\n"
            f'[[workloads]]\nname = "{day}"\njobs = "jobs-{day}.parquet"\n[sweep]\nsample = 1\n'
        )
        plan = load_plan(load_study(study))
        began = time.perf_counter()
        run_sweep(plan, "local")
        print(f"{day}: swept {plan.n_runs:,} packages in {time.perf_counter() - began:.0f} s", flush=True)
        write(read_results(plan.study, plan), path)
    return pd.read_parquet(path)


def judge(
    predicted: np.ndarray, wait: np.ndarray, price: np.ndarray, sampled: np.ndarray, k: int = 50
) -> dict[str, float]:
    table = evaluate(predicted, wait, price, KS).set_index("k")
    top = order(predicted, price)[:k]
    bought = min(wait[top].min(), wait[sampled].min() if sampled.any() else np.inf)
    best = float(wait.min())
    return {f"precision@{n}": float(table.precision.get(n, np.nan)) for n in KS} | {
        "spearman": float(table.spearman.iloc[0]),
        "regret_share": (bought - best) / max(best, REGRET_FLOOR),
        "regret_of_top_k_alone": (wait[top].min() - best) / max(best, REGRET_FLOOR),
    }


def measure_day(
    packages: pd.DataFrame, quotes: pd.DataFrame, truth: pd.DataFrame, jobs: pd.DataFrame,
    feature_set: str, offsets: range,
) -> pd.DataFrame:  # fmt: skip
    wait = truth.set_index("package_id")["mean_wait_time"].reindex(packages["package_id"]).to_numpy(float)
    able = np.flatnonzero(jobs_left_out(packages, quotes, jobs) == 0)
    ranked, wait = packages.iloc[able], wait[able]
    x, price = features(ranked, quotes, feature_set), ranked["price_usd"].to_numpy(float)
    rows = []
    for offset in offsets:
        sampled = able % 10 == offset
        began = time.perf_counter()
        found = predict_packages(x, np.where(sampled, wait, np.nan))
        rows.append(
            {"offset": offset, "profile": found.model.profile_}
            | judge(found.wait, wait, price, sampled)
            | {"rmse_seconds": found.rmse_seconds, "rmse_relative": found.relative_rmse}
            | {"train_seconds": time.perf_counter() - began}
        )
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path, help="job logs in CSV")
    parser.add_argument("--preset", default="beocat")
    parser.add_argument("--day", action="append", required=True, help="local day, YYYY-MM-DD; repeat")
    parser.add_argument("--tz", default="America/Chicago")
    parser.add_argument("--quotes", type=Path, default=ROOT / "quotes" / "example-2023.csv")
    parser.add_argument("--budget", type=float, default=1_000_000, help="US$")
    parser.add_argument("--truth", type=Path, default=Path("results/claim_precision"))
    parser.add_argument("--offsets", type=int, default=10)
    parser.add_argument("--feature-set", action="append", choices=FEATURE_SETS)
    arguments = parser.parse_args()

    # The published study scales no run time: the ratio is 1.0 on every node.
    quotes = read_quotes(arguments.quotes)
    packages = expand_packages(quotes, PackageRules(rules="published", budget_usd=arguments.budget))
    packages = packages[packages["distinct"]].reset_index(drop=True)
    all_jobs = read_days(arguments.logs, arguments.day, arguments.tz, arguments.preset)
    pd.set_option("display.width", 200, "display.max_columns", 30)
    for day, jobs in all_jobs.items():
        truth = sweep_all(jobs, day, arguments.quotes, arguments.truth, arguments.budget)
        for feature_set in arguments.feature_set or FEATURE_SETS:
            table = measure_day(
                packages, quotes, truth, jobs, feature_set,
                range(arguments.offsets),
            )  # fmt: skip
            print(f"\n{day}, {len(jobs):,} jobs, {feature_set}")
            print(table.round(3).to_string(index=False))
            median = table.drop(columns=["offset", "profile"]).median()
            print("median  " + "  ".join(f"{name} {value:.3f}" for name, value in median.items()), flush=True)


if __name__ == "__main__":
    main()
