"""Measure how well a purchase holds on many days: the hardest days of a log, every tenth package, and the truth.

Chooses the days of the logs on which jobs wait longest, simulates every tenth package on each and judges
models by hits on more than N days; with --truth simulates every package and judges the choice by that.
Results are kept in --folder; a second call computes only what is missing.

    python benchmarks/many_days.py --data ../shared/data [--truth]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure.evaluation.many_days import (
    days_of,
    hit_days,
    normalised_wait,
    predict_all_days,
    threshold_sweep,
    threshold_table,
)
from procure.models import features
from procure.study import load_study
from procure.sweep import load_plan, read_results, run_sweep
from procure.sweep.choose_days import probe_days
from procure.sweep.results import StudyResults, load_results
from procure.tables import write
from procure.workload import day_table, import_log, merge, split_days
from procure.workload.parts import choose, without_quiet

ROOT = Path(__file__).resolve().parent.parent
SHARE = 0.1


def study_file(folder: Path, name: str, days: list[str], sample: int) -> Path:
    quotes = json.dumps(str(ROOT / "quotes/example-2023.csv"))
    text = f'name = "{name}"\nquotes = {quotes}\nresults = "results"\n'
    text += '[packages]\nrules = "published"\nbudget_usd = 1_000_000\n'
    text += "".join(f'[[workloads]]\nname = "{day}"\njobs = "jobs-{day}.parquet"\n' for day in days)
    path = folder / f"{name}.toml"
    path.write_text(text + f"[sweep]\nsample = {sample}\n[evaluate]\nhit_share = {SHARE}\n")
    return path


def choose_days(data: Path, folder: Path, n: int) -> list[str]:
    logs = [data / f"beocat_2021/all_jobs_2021{month:02d}.csv.xz" for month in (3, 4, 5)]
    log = merge([import_log(path, "csv", "beocat").jobs for path in logs])
    parts = split_days(log, "America/Chicago")
    table = day_table(parts)
    (folder / "probe").mkdir(parents=True, exist_ok=True)
    write(parts[table["day"].iloc[0]], folder / f"jobs-{table['day'].iloc[0]}.parquet")
    any_day = load_study(study_file(folder, "any", [table["day"].iloc[0]], 10))
    table["median_wait"] = probe_days(any_day, parts, folder / "probe").to_numpy()
    able, quiet = without_quiet(table)
    days = choose(able, "hardest", n=n)["day"].tolist()
    for day in days:
        write(parts[day], folder / f"jobs-{day}.parquet")
    chosen = table[table["day"].isin(days)]["median_wait"]
    print(f"{len(table)} days with jobs; {len(quiet)} left out, median mean wait under 60 s: {', '.join(quiet)}")
    print(f"{len(days)} chosen, median mean wait {chosen.min():,.0f} to {chosen.max():,.0f} s: {', '.join(days)}\n")
    return days


def sweep(path: Path) -> None:
    plan = load_plan(load_study(path))
    began = time.perf_counter()
    summary = run_sweep(plan, "local")
    if summary.n_computed:
        took = time.perf_counter() - began
        rate = f"{summary.n_computed / took:,.0f} runs/s, {summary.n_workers} workers"
        print(f"{path.stem}: {summary.n_computed:,} runs in {took:,.1f} s, {rate}\n", flush=True)


def true_waits(path: Path, loaded: StudyResults) -> np.ndarray:
    rows = read_results(load_study(path))
    ids = loaded.cases[0].packages["package_id"]
    by_day = {name: part.set_index("package_id")["mean_wait_time"] for name, part in rows.groupby("workload")}
    return np.array([by_day[case.name].reindex(ids).to_numpy(dtype="float64") for case in loaded.cases])


def print_thresholds(loaded: StudyResults, rule: str, truth: np.ndarray | None) -> None:
    packages = loaded.cases[0].packages
    sample = days_of(loaded.cases, rule)
    judged = sample if truth is None else days_of(loaded.cases, rule, truth)
    x = features(packages, loaded.plan.quotes).to_numpy()
    scores = {("composition", label): predict_all_days(sample, x, label, SHARE) for label in ("normalised", "hit-days")}
    scores["truth", "normalised"] = normalised_wait(judged)
    counted = hit_days(judged, SHARE)
    table = threshold_table(scores, counted, packages, [6, 16])
    table = table[~table["model"].isin(["random", "cheapest-per-cpu"]) & (table["n_hits"] > 0)]
    print_markdown(table.drop(columns="n_ranked"), f"rule {rule}, {int((counted >= 0).sum()):,} packages judged")
    rows = threshold_sweep(scores, counted, packages, len(loaded.cases))
    rows = rows[rows["n_hits"] > 0].assign(who=rows["model"] + " " + rows["feature_set"])
    wide = rows.pivot_table(index=["threshold", "n_hits"], columns="who", values="precision").reset_index()
    print_markdown(wide, f"rule {rule}: precision@50 as the threshold rises")


def print_markdown(table: pd.DataFrame, title: str) -> None:
    print(f"{title}\n\n| {' | '.join(map(str, table.columns))} |\n|{' --- |' * len(table.columns)}")
    for row in table.itertuples(index=False):
        cells = (f"{v:.3f}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else str(v) for v in row)
        print(f"| {' | '.join(cells)} |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of real logs")
    parser.add_argument("--folder", type=Path, default=ROOT / "results/many_days", help="where to keep results")
    parser.add_argument("-n", type=int, default=25, help="how many days")
    parser.add_argument("--truth", action="store_true", help="simulate every package on every day too")
    options = parser.parse_args()
    days = choose_days(options.data, options.folder, options.n)
    year = study_file(options.folder, "year", days, 10)
    sweep(year)
    loaded, truth = load_results(year), None
    if options.truth:
        exhaustive = study_file(options.folder, "truth25", days, 1)
        sweep(exhaustive)
        truth = true_waits(exhaustive, loaded)
    for rule in ("runs-all", "published"):
        print_thresholds(loaded, rule, None)
    if truth is not None:
        print("judged by all packages, of which every tenth was learnt from\n")
        print_thresholds(loaded, "runs-all", truth)


if __name__ == "__main__":
    main()
