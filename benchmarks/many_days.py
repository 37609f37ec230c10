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
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.evaluation.many_days import (
    Days,
    days_of,
    hit_days,
    normalised_wait,
    predict_all_days,
    robust_choices,
    threshold_sweep,
    threshold_table,
)
from procure.evaluation.ranking import REGRET_FLOOR, evaluate, order
from procure.models import features, together
from procure.objectives.aggregate import aggregate
from procure.study import load_study
from procure.sweep import load_plan, read_results, run_sweep
from procure.sweep.probe import probe_days
from procure.sweep.results import RUNS_ALL, StudyResults, load_results
from procure.tables import write
from procure.workload import day_table, import_log, merge, split_days
from procure.workload.days import hardest, without_quiet

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
    days = hardest(able, n)["day"].tolist()
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


def single_days(loaded: StudyResults, truth: np.ndarray | None) -> None:
    """Each day's own model: on that day against the truth, and over all days by hits on more than 6."""
    packages = loaded.cases[0].packages
    price = packages["price_usd"].to_numpy(dtype="float64")
    counted = hit_days(days_of(loaded.cases), SHARE)
    rows = []
    for i, case in enumerate(loaded.cases):
        found = loaded.learn_if_possible(case, "composition", RUNS_ALL)
        overall = threshold_table({("composition", "day"): found.wait}, counted, packages, [6], (50,))
        row = {"day": case.name, "precision@50 > 6 days": float(overall["precision"].iloc[0])}
        if truth is not None:
            row |= against_truth(found.wait, truth[i], case.runs_all, case.simulated, price)
        rows.append(row)
    table = pd.DataFrame(rows)
    numbers = table.drop(columns="day")
    for name, figures in (
        ("median", numbers.median()),
        ("worst", pd.concat([numbers.iloc[:, :2].min(), numbers.iloc[:, 2:].max()])),
    ):
        table = pd.concat([table, pd.DataFrame([{"day": name} | figures.to_dict()])], ignore_index=True)
    print_markdown(table, "each day's own model of every tenth package")


def against_truth(
    predicted: np.ndarray, wait: np.ndarray, able: np.ndarray, simulated: np.ndarray, price: np.ndarray
) -> dict[str, float]:
    rows = np.flatnonzero(able)
    judged = evaluate(predicted[rows], wait[rows], price[rows], (50,), SHARE).set_index("k")
    top = rows[order(predicted[rows], price[rows])[:50]]
    best, held = float(wait[rows].min()), float(wait[rows][simulated[rows]].min())
    floor = max(best, REGRET_FLOOR)
    return {
        "precision@50": float(judged["precision"][50]),
        "regret of the first 50": (float(wait[top].min()) - best) / floor,
        "regret with the sample": (min(held, float(wait[top].min())) - best) / floor,
        "regret of the sample": (held - best) / floor,
    }


def all_days(loaded: StudyResults, truth: np.ndarray) -> None:
    """The mean over all jobs of all days, and the robust choices, from every tenth package, against the truth."""
    whole = together(loaded.cases)
    price = whole.packages["price_usd"].to_numpy(dtype="float64")
    true = together([replace(case, wait=wait) for case, wait in zip(loaded.cases, truth, strict=True)])
    found = loaded.learn(whole, "composition")
    row = {"over": "all jobs of all days"} | against_truth(
        found.wait, true.wait, whole.runs_all, whole.simulated, price
    )
    print_markdown(pd.DataFrame([row]), "one model of the mean wait over all jobs")
    sample, exhaustive = days_of(loaded.cases), days_of(loaded.cases, truth=truth)
    print_markdown(robust_choices(sample, whole.packages, hit_days(sample, SHARE)), "choices from the sample")
    print_markdown(robust_choices(exhaustive, whole.packages, hit_days(exhaustive, SHARE)), "choices from the truth")
    print_markdown(choice_regrets(sample, exhaustive, whole.runs_all), "what the sample's choices lose")


def choice_regrets(sample: Days, truth: Days, able: np.ndarray) -> pd.DataFrame:
    """How much worse each choice from the sample is than the best of all, by its own measure."""
    rows = []
    best = truth.wait[:, able].min(axis=1)
    for how in ("mean", "worst", "cvar", "regret-max"):
        weights = truth.weight[:, None] * truth.n_jobs if how == "mean" else truth.weight
        value = aggregate(truth.wait, how, weights, best=best)
        mine, all_of_them = value[able & sample.simulated].min(), value[able].min()
        floor = 1e-9 if how == "regret-max" else REGRET_FLOOR
        rows.append((how, mine, all_of_them, (mine - all_of_them) / max(all_of_them, floor)))
    return pd.DataFrame(rows, columns=["choice", "best of the sample", "best of all", "loss"])


def other_samples(loaded: StudyResults, truth: np.ndarray) -> None:
    """Six other ways to take every tenth package, each judged out of fold."""
    packages = loaded.cases[0].packages
    x = features(packages, loaded.plan.quotes).to_numpy()
    rows = []
    for offset in range(1, 7):
        wait = np.full_like(truth, np.nan)
        wait[:, offset::10] = truth[:, offset::10]
        days = days_of(loaded.cases, truth=wait)
        scores = {("composition", m): predict_all_days(days, x, m, SHARE) for m in ("normalised", "hit-days")}
        table = threshold_table(scores, hit_days(days, SHARE), packages, (6, 8, 10), (50,))
        table = table[(table["k"] == 50) & (table["feature_set"] != "none")]
        rows.append(table[["threshold", "model", "n_hits", "precision"]].assign(offset=offset))
    print_markdown(pd.concat(rows), "precision@50 with other samples of every tenth package")


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
        all_days(loaded, truth)
        other_samples(loaded, truth)
    single_days(loaded, truth)


if __name__ == "__main__":
    main()
