"""The example study, with the tables of the published one by their numbers, and the year by every 250th package."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

import procure
from golden_set.base import Part, Place, table
from golden_set.doors import ROOT, answer, command

TOTALS = ["total_mem_gb", "total_cpus", "total_gpus"]


def study(place: Place, name: str, sample: int) -> Path:
    """Copy a study to a place of its own, and sweep it."""
    text = (ROOT / "pipelines" / f"{name}.toml").read_text().replace("sample = 10 ", f"sample = {sample} ")
    text = text.replace("../quotes", str(ROOT / "quotes")).replace('"../results"', json.dumps(str(place.folder)))
    path = place.folder / f"{name}.toml"
    path.write_text(text.replace("sample = 10\n", f"sample = {sample}\n"))
    command("sweep", path, "--farm", "local" if place.workers == 1 else "serial")
    return path


def packages(place: Place) -> dict[str, object]:
    """List quotes and packages, and describe the jobs: tables 3.1 to 3.3."""
    jobs, every = place.folder / "jobs.parquet", place.folder / "packages.parquet"
    command("workload", "generate", "--recipe", "campus", "--out", jobs)
    counts = answer("packages", ROOT / "pipelines/example.toml", "--out", every)
    counts.pop("out")
    return {
        "3.1 quotes": table(procure.read_quotes(ROOT / "quotes/example-2023.csv").drop(columns="source")),
        "3.2 packages": counts,
        "3.2 columns": table(pd.read_parquet(every).sort_values("package_id")),
        "3.3 jobs": jobs_of(answer("workload", "describe", jobs)),
    }


def jobs_of(said: dict) -> dict[str, object]:
    """Keep the numbers of a description."""
    return {key: value for key, value in said.items() if not isinstance(value, str)}


def example(place: Place) -> dict[str, object]:
    """Sweep, judge and recommend as `make sweep` does."""
    path = study(place, "example", 10)
    results = pd.read_parquet(place.folder / "example/results.parquet").sort_values("package_id")
    every = procure.load_plan(procure.load_study(path)).packages.set_index("package_id")
    joined = results.join(every[TOTALS], on="package_id")
    found = {"results": table(results.drop(columns="schema_version"))}
    found["3.4 correlations"] = joined[TOTALS].corrwith(joined["mean_wait_time"]).to_dict()
    for rule in ("runs-all", "published"):
        for row in answer("evaluate", path, "--rule", rule):
            key = f"3.5 {rule} {row['feature_set']} {row['model']} at {row['k']}"
            found[key] = {
                name: row[name] for name in ("n_ranked", "n_hits", "precision", "recall", "f1", "regret_share")
            }
    top = answer("recommend", path, "-k", 50, "--rule", "published")
    found["first by published"] = [[row["package_id"], row["mean_wait_time"]] for row in top[:5]]
    top = answer("recommend", path, "-k", 50)
    found["3.6 nodes of the top 50"] = (
        pd.DataFrame([row["counts"] for row in top]).sum().astype(int).sort_index().to_dict()
    )
    for row in top:
        found[f"top {row['rank']}"] = [row[name] for name in ("package_id", "mean_wait_time", "price_usd", "simulated")]
    command("report", path, "-k", 5, "--out", place.folder / "r.html", "--bill", place.folder / "bill.csv")
    bill = pd.read_csv(place.folder / "bill.csv")
    for row in bill[["type", "count", "line_total_usd"]].itertuples(index=False):
        found[f"bill {row.type}"] = [int(row.count), f"{row.line_total_usd:.2f}"]
    return found


def days(place: Place) -> dict[str, object]:
    """Count hits over N of 25 days: tables 3.7 to 3.9, and precision at 50 by the threshold."""
    path = study(place, "year", 250)
    said = answer("evaluate", path, *(word for n in (6, 16, 20) for word in ("--hit-threshold", n)))
    figures = ("n_hits", "precision", "recall")
    found = {
        f"{where} over {row['threshold']} {row['feature_set']} {row['model']} at {row['k']}": [row[f] for f in figures]
        for where in ("hits", "sweep")
        for row in said[where]
        if row["feature_set"] != "none"
    }
    return found | {f"choice {row['choice']}": [row["package_id"], row["hit_days"]] for row in said["choices"]}


PARTS = {"example": Part(example), "25 days": Part(days), "packages": Part(packages)}
