"""Ablations of the recommender: the share simulated, the days used, the features.

    python benchmarks/ablations.py pipelines/ablation-embedded.toml
    python benchmarks/ablations.py --data ../shared/data --day 2021-04-30 --day 2021-05-26

The study is swept exhaustively where that was not done yet; ``--data`` makes one of real days. Tables (CSV) and one
figure (SVG) for each ablation go to ``--out``. Every figure is judged on the packages that run every job,
against their simulated waits: a hit is among the best 5 %, regret is relative to max(best, 60 s).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from procure.evaluation.ranking import REGRET_FLOOR, at_k, find_hits, order
from procure.models import Case, features, make_case, predict_packages
from procure.models.fluid import backlog_waits
from procure.page.svg import PALETTE, figure
from procure.schemas import JOB
from procure.study import load_study
from procure.sweep import Plan, load_plan, read_results, run_sweep
from procure.tables import check, write
from procure.workload import import_log, slice_day

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
FEATURE_SHARES = (0.002, 0.01)
K = 50


def main() -> None:
    """Run the ablations that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, nargs="?", default=Path("pipelines/ablation-embedded.toml"))
    parser.add_argument("--data", type=Path, help="folder of real logs: a study of --day is made from them")
    parser.add_argument("--day", action="append", default=[], help="only these workloads")
    parser.add_argument("--only", choices=("share", "days", "features"), action="append", default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=float, default=1.0, help="largest share simulated")
    parser.add_argument("--out", type=Path, default=Path("results/ablations"))
    given = parser.parse_args()
    study = real_days(given.data, given.day, given.out) if given.data else given.study
    plan = load_plan(load_study(study))
    names = [name for name in plan.workloads if not given.day or name in given.day]
    results = _results(plan)
    policy = plan.study.simulate.policies[0]
    cases = [
        make_case(plan.packages, plan.quotes, plan.workloads[name], results, name, policy, plan.existing)
        for name in names
    ]
    given.out.mkdir(parents=True, exist_ok=True)
    shares = [share for share in SHARES if share <= given.most]
    asked = given.only or ["share", "days", "features"]
    for name, rows in (
        ("share", lambda: by_share(plan, cases, shares, given.seeds)),
        ("days", lambda: by_days(cases, 20 * given.seeds)),
        ("features", lambda: by_features(plan, cases, given.seeds)),
    ):
        if name in asked:
            table = pd.DataFrame(rows())
            table.to_csv(given.out / f"{name}.csv", index=False)
            keys = {"share": ["share"], "days": ["days"], "features": ["share", "features"]}[name]
            print(summary(table, keys).to_string(), flush=True)
            draw(name, table, given.out / f"ablation-{name}.svg")


def real_days(data: Path, days: list[str], out: Path) -> Path:
    """Write job tables of real days and an exhaustive study of them; return the study file."""
    folder = out / "days"
    folder.mkdir(parents=True, exist_ok=True)
    logs = [import_log(path, "csv", "beocat").jobs for path in sorted((data / "beocat_2021").glob("all_jobs_*.csv.xz"))]
    lines = [
        f'name = "ablation-days"\nquotes = "{Path("quotes/example-2023.csv").resolve()}"',
        "[packages]\nbudget_usd = 1_000_000",
    ]
    for day in days:
        parts = [slice_day(log, day, "America/Chicago") for log in logs if _holds(log, day)]
        write(check(pd.concat(parts, ignore_index=True), JOB), folder / f"{day}.parquet")
        lines.append(f'[[workloads]]\nname = "{day}"\njobs = "{day}.parquet"')
    path = folder / "ablation-days.toml"
    path.write_text("\n".join([*lines, "[sweep]\nsample = 1\n"]), encoding="utf-8")
    return path


def _holds(log: pd.DataFrame, day: str) -> bool:
    begin = int(pd.Timestamp(day, tz="America/Chicago").timestamp())
    return bool(log["submit_time"].between(begin, begin + 86_399).any())


def _results(plan: Plan) -> pd.DataFrame:
    if not (plan.study.folder / "results.parquet").exists():
        run_sweep(plan, "serial")
    return read_results(plan.study, plan)


def judged(case: Case, x: np.ndarray, share: float, seed: int, hit_share: float = 0.05) -> dict[str, object] | None:
    """Simulate a random share of the packages that run every job, learn from them, and judge the list."""
    able = np.flatnonzero(case.runs_all & case.simulated)
    wait, price = case.wait[able], case.packages["price_usd"].to_numpy(dtype="float64")[able]
    n = round(share * len(able))
    if n < 20:
        return None
    known = np.random.default_rng(seed).permutation(len(able))[:n]
    seen = np.full(len(able), np.nan)
    seen[known] = wait[known]
    began = time.perf_counter()
    found = predict_packages(x, seen, seed=seed)
    ranking, best = order(found.wait, price), float(wait.min())
    bought = min(float(wait[known].min()), float(wait[ranking[:K]].min()))
    return {
        "day": case.name,
        "share": share,
        "n_simulated": n,
        "seed": seed,
        "precision": at_k(ranking, wait, find_hits(wait, hit_share), K).precision,
        "regret_first": (float(wait[ranking[0]]) - best) / max(best, REGRET_FLOOR),
        "regret_bought": (bought - best) / max(best, REGRET_FLOOR),
        "seconds": time.perf_counter() - began,
    }


def by_share(plan: Plan, cases: list[Case], shares: list[float], seeds: int) -> Iterator[dict[str, object]]:
    """Yield the judgement of each share; above 10 % one seed is enough, and slow."""
    for case in cases:
        able = np.flatnonzero(case.runs_all & case.simulated)
        x = features(case.packages.iloc[able], plan.quotes).to_numpy()
        for share in shares:
            for seed in range(1, 1 + (seeds if share <= 0.1 else 1)):
                row = judged(case, x, share, seed)
                if row is not None:
                    print(row, flush=True)
                    yield row


def by_features(plan: Plan, cases: list[Case], seeds: int) -> Iterator[dict[str, object]]:
    """Yield the judgement of each feature set, at small shares, where features matter."""
    for case in cases:
        able = np.flatnonzero(case.runs_all & case.simulated)
        packages = case.packages.iloc[able]
        every = features(packages, plan.quotes)
        backlog = backlog_waits(packages, plan.quotes, plan.workloads[case.name], plan.existing)
        begins = {
            "totals": ("total_",),
            "types": ("type:",),
            "categories": ("category:",),
            "thresholds": ("nodes_",),
        }
        sets = {name: every[[c for c in every if c.startswith(how)]] for name, how in begins.items()}
        sets |= {"composition": every, "composition + backlog": every.assign(backlog=np.log(backlog + 60))}
        for name, x in sets.items():
            for share in FEATURE_SHARES:
                for seed in range(1, 1 + seeds):
                    row = judged(case, x.to_numpy(), share, seed)
                    if row is not None:
                        print(name, row, flush=True)
                        yield {"features": name, **row}


def by_days(cases: list[Case], draws: int) -> Iterator[dict[str, object]]:
    """Choose by the mean wait on some days, judge on a third that is held out: no model, every package simulated."""
    wait = np.stack([np.where(case.runs_all, case.wait, np.nan) for case in cases])
    wait = wait[:, ~np.isnan(wait).any(axis=0)]
    n_jobs = np.array([case.n_jobs for case in cases], dtype="float64")
    rng = np.random.default_rng(1)
    held = max(1, len(cases) // 3)
    for draw in range(draws):
        shuffled = rng.permutation(len(cases))
        for n in [n for n in (1, 2, 3, 4, 5, 8, 12, 17, 25) if n <= len(cases) - held]:
            used, others = (
                (wait[some] * n_jobs[some, None]).sum(axis=0) / n_jobs[some].sum()
                for some in (shuffled[held : held + n], shuffled[:held])
            )
            ranking, best = np.argsort(used, kind="stable"), float(others.min())
            yield {
                "days": n,
                "draw": draw,
                "n_packages": wait.shape[1],
                "precision": at_k(ranking, others, find_hits(others), K).precision,
                "regret_first": (float(others[ranking[0]]) - best) / max(best, REGRET_FLOOR),
                "regret_bought": (float(others[ranking[:K]].min()) - best) / max(best, REGRET_FLOOR),
            }


def summary(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return median and range over days, seeds and draws."""
    grouped = table.groupby(keys, sort=False)[["precision", "regret_first", "regret_bought"]]
    return grouped.agg(["median", "min", "max"]).round(3)


def draw(name: str, table: pd.DataFrame, path: Path) -> None:
    """Draw precision@50 and regret side by side, medians with the range from the 10 % to the 90 % quantile."""
    made, axes = figure(7.2, 3.0, 2)
    if name == "features":
        _draw_features(axes, table)
    else:
        along, label = {"share": ("share", "share of the packages simulated"), "days": ("days", "days used")}[name]
        for one, column in zip(axes, ("precision", "regret_first"), strict=True):
            groups = table.groupby(along)[column]
            x = np.array(sorted(table[along].unique()), dtype="float64")
            one.plot(x, groups.median(), color=PALETTE[0], marker="o", markersize=3, label="median")
            one.fill_between(x, groups.quantile(0.1), groups.quantile(0.9), color=PALETTE[0], alpha=0.2, linewidth=0)
            if column == "regret_first" and name == "share":
                one.plot(x, table.groupby(along)["regret_bought"].median(), color=PALETTE[1], linestyle="--",
                         label="best of the sample and the first 50")  # fmt: skip
                one.legend(frameon=False, fontsize=8)
            one.set_xscale("log")
            one.set_xlabel(label)
            if name == "share":
                one.xaxis.set_major_formatter(lambda value, _: f"{value:.1%}" if value < 0.01 else f"{value:.0%}")
            else:
                one.set_xticks(x, [f"{value:.0f}" for value in x])
                one.minorticks_off()
    axes[0].set_ylim(0, 1.03)
    axes[0].set_ylabel("precision@50")
    axes[1].set_ylabel("regret of the first")
    axes[1].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes[1].set_ylim(0)
    made.savefig(path, metadata={"Date": None, "Creator": None})


def _draw_features(axes: np.ndarray, table: pd.DataFrame) -> None:
    names = list(table["features"].unique())
    for i, share in enumerate(sorted(table["share"].unique())):
        groups = table[table["share"] == share].groupby("features", sort=False)
        place = np.arange(len(names)) + (i - 0.5) * 0.38
        for one, column in zip(axes, ("precision", "regret_first"), strict=True):
            one.bar(
                place,
                groups[column].median().reindex(names),
                width=0.36,
                color=PALETTE[i],
                label=f"{share:.1%} simulated",
            )
            one.set_xticks(np.arange(len(names)), names, rotation=35, ha="right")
    axes[1].legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    main()
