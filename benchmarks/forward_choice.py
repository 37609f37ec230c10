"""How the recommended rule was chosen, and what it gave (docs/claims/forward.md): Beocat, one replay for all cuts.

python benchmarks/forward_choice.py simulate --data ../shared/data --budget 700000 1000000 1500000 2000000 --keep 0 20
python benchmarks/forward_choice.py table --cut 2021-04-04 2021-04-18 --until 2021-05-05
python benchmarks/forward_choice.py table --cut 2021-05-05 2021-05-19

A replay does not look ahead, so one of the whole log gives, by the day of submission, the past of every cut and what
came after it. ``simulate`` keeps for each package the waiting and the jobs of each day and class, and likewise of a few
futures drawn at each ``--cut``; ``table`` lets the rules choose as of each cut. Candidates run what is known before
`KNOWN`; a job that one cannot run waits to the end of the log. Days are 24 hours from the first submission.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from procure import import_log, load_plan, load_study
from procure.objectives.aggregate import REGRET_FLOOR, class_shares, rank_shares
from procure.recommender import candidates
from procure.run import run_prepared
from procure.schemas import CLASSES
from procure.study.plan import read_past_jobs
from procure.tables import write
from procure.workload import merge
from procure.workload.classes import class_of
from procure.workload.clock import day_bounds
from procure.workload.futures import draw_futures
from procure.workload.past import N_PARTS, scenario_weights

QUOTES = Path(__file__).resolve().parent.parent / "quotes" / "example-2023.csv"
CHICAGO, MONTHS = "America/Chicago", ("202103", "202104", "202105")
DAY, WARM_UP, HORIZON = 86_400, 3, 28
KNOWN = "2021-03-28"
HALVES = 30
GUARDS = (1.25, 1.5, 2.0)
"""A package is chosen among those that wait at most so many times the least on the past."""
BOUNDS = (900, 3600, 4 * 3600, 12 * 3600, 24 * 3600)
Waits = dict[str, np.ndarray]


def beocat(arguments: argparse.Namespace) -> Path:
    """Write a study of Beocat's three months, with futures right after them; return its path."""
    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    logs = [arguments.data / "beocat_2021" / f"all_jobs_{month}.csv.xz" for month in MONTHS]
    write(
        merge([import_log(log, "csv", preset="beocat").jobs for log in logs]),
        folder / f"beocat-{len(logs)}.parquet",
    )
    nodes = ""
    if arguments.keep:
        had = pd.read_csv(arguments.data / "beocat_2021" / "beocat.csv")
        had = had.sort_values(["TotalCPUs", "TotalMemory"], ascending=False, kind="stable").head(arguments.keep)
        table = {"node_id": had.MachineName, "kind": "kept", "cpus": had.TotalCPUs}
        table |= {"mem_mb": had.TotalMemory // 1000, "gpus": had.TotalGPUs}
        pd.DataFrame(table).to_csv(folder / "kept.csv", index=False)
        nodes = 'existing_nodes = "kept.csv"\n'
    path = folder / f"beocat-{arguments.budget}-{arguments.keep}.toml"
    path.write_text(
        f'quotes = "{QUOTES}"\n[packages]\nbudget_usd = {arguments.budget}\n{nodes}'
        f'[[workloads]]\nname = "beocat"\njobs = "beocat-{len(logs)}.parquet"\nwarm_up = "3d"\ntz = "{CHICAGO}"\n'
        f'[futures]\ntz = "{CHICAGO}"\nyears = 0.0\n'
    )
    return path


def replay(field: candidates.Candidates, jobs: pd.DataFrame, n_days: int) -> Waits:
    """Replay jobs on every package: s waited, float64[packages, days, classes], and jobs, int64[days, classes].

    And how many jobs of each day and class waited longer than each of `BOUNDS`, int32[packages, bounds, days, classes].
    """
    bench = field.lay_out(jobs)
    ready, n = bench.ready, bench.n_existing
    submit = ready.jobs.submit
    key = np.minimum(submit // DAY, n_days - 1) * len(CLASSES) + class_of(jobs)[ready.jobs.row]
    shape = n_days, len(CLASSES)
    waited = np.empty((len(field.ids), *shape))
    over = np.empty((len(field.ids), len(BOUNDS), *shape), dtype=np.int32)
    for row, package in enumerate(field.counts):
        nodes = np.concatenate([np.arange(n), np.repeat(np.arange(n, len(ready.kind_of)), package)])
        mine = {name: getattr(ready, name)[nodes] for name in ("kind_of", "leaf", "pod")}
        start = run_prepared(replace(ready, **mine), bench.policy).start
        wait = np.where(start >= 0, start, submit[-1]) - submit
        waited[row] = np.bincount(key, wait, n_days * len(CLASSES)).reshape(shape)
        for i, bound in enumerate(BOUNDS):
            over[row, i] = np.bincount(key[wait > bound], minlength=n_days * len(CLASSES)).reshape(shape)
    return {"waited": waited, "over": over, "jobs": np.bincount(key, minlength=n_days * len(CLASSES)).reshape(shape)}


def simulate(path: Path, cuts: list[str], n: int, n_second: int, draws: int) -> None:
    """Replay the whole log on a study's candidates, and at each cut some futures on the first of them."""
    began, study = time.process_time(), load_study(path)
    jobs = read_past_jobs(study, lambda text: None)
    name, zone = study.workloads[0].name, CHICAGO
    plan = replace(load_plan(study.model_copy(update={"futures": None})), workloads={name: jobs})
    known = candidates.between(jobs, 0, day_bounds(KNOWN, zone)[0])
    field = candidates.draw_candidates(plan, study.simulate.policies[0], known, n, seed=1)
    first = int(jobs["submit_time"].min())
    days = 1 + (int(jobs["submit_time"].max()) - first) // DAY
    found = replay(field, jobs, days) | {"first": np.array(first)}
    few = candidates.Candidates(field.plan, field.policy, field.ids[:n_second], field.counts[:n_second])
    for cut in cuts:
        before = candidates.between(jobs, 0, day_bounds(cut, zone)[0])
        before.attrs = dict(jobs.attrs)
        asked = study.futures.model_copy(update={"years": 0.0, "draws": draws})
        drawn = [replay(few, one, HORIZON) for one in draw_futures(before, asked)]
        found |= {f"futures {cut}": np.array([_means(one, 0, HORIZON) for one in drawn])}
    np.savez_compressed(path.with_suffix(".npz"), **found)
    print(f"{path.stem}: {len(field.ids)} packages, {time.process_time() - began:.0f} s CPU", flush=True)


def _means(waits: Waits, low: int, high: int) -> np.ndarray:
    """Return mean waits over some days, s, of all jobs and of each class, float64[1 + classes, packages]."""
    waited, jobs = waits["waited"][:, low:high].sum(axis=1), waits["jobs"][low:high].sum(axis=0)
    by_class = np.divide(waited, jobs, out=np.full(waited.shape, np.nan), where=jobs > 0)
    return np.column_stack([waited.sum(axis=1) / jobs.sum(), by_class]).T


def choose(waits: Waits, cut: int, futures: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the figure by which each rule chooses as of a day of the log, float64[packages] each."""
    edges = np.linspace(WARM_UP, cut, N_PARTS + 1).round().astype(int)
    past = np.array([_means(waits, a, b) for a, b in [(WARM_UP, cut), *pairwise(edges)]])
    weights, shares = np.array(scenario_weights(1)), class_shares(past)
    found = {
        "past": past[0, 0],
        "past and its parts, by rank": np.average(rank_shares(past[:, 0]) ** 2, axis=0, weights=weights[:-1]),
        "past and its parts, by class": np.average(shares, axis=0, weights=weights[:-1]),
    }
    if futures is not None:
        found["recommended"] = np.average(
            np.vstack([shares, class_shares(futures).mean(axis=0)]), axis=0, weights=weights
        )
        least = np.maximum(past[0, 0], REGRET_FLOOR)
        for most in GUARDS:
            found[f"recommended, past within {most:g}"] = found["recommended"] + 10 * (least > most * least.min())
        found["futures"] = (rank_shares(futures[:, 0]) ** 2).mean(axis=0)
        found["futures-mean"] = futures[:, 0].mean(axis=0)
    return found


def judge(folder: Path, cuts: list[str], until: str | None, with_futures: bool) -> pd.DataFrame:
    """Return a row for each rule and cell: the ratio of all candidates, and the mean over random halves."""
    rows = []
    for path in sorted(folder.glob("*.npz")):
        held: Waits = dict(np.load(path))
        end = held["waited"].shape[1]
        end = end if until is None else (day_bounds(until, CHICAGO)[0] - int(held["first"])) // DAY
        for text in cuts:
            cut = round((day_bounds(text, CHICAGO)[0] - int(held["first"])) / DAY)
            futures = held.get(f"futures {text}") if with_futures else None
            n = len(held["waited"]) if futures is None else futures.shape[2]
            came = np.maximum(_means(held, cut, min(cut + HORIZON, end))[0], REGRET_FLOOR)
            rng = np.random.default_rng(0)
            for i in range(1 + HALVES):
                some = np.arange(n) if not i else rng.permutation(n)[: n // 2]
                mine = {"waited": held["waited"][some], "jobs": held["jobs"]}
                figures = choose(mine, cut, None if futures is None else futures[:, :, some])
                odd = np.arange(cut, min(cut + HORIZON, end))
                halves = [
                    held["waited"][some][:, odd[k::2]].sum(axis=(1, 2)) / held["jobs"][odd[k::2]].sum() for k in (0, 1)
                ]
                for rule, figure in figures.items():
                    ratio = came[some[figure.argmin()]] / came[some].min()
                    rows.append((f"{path.stem}.{text}", rule, i, ratio))
                known = np.maximum(halves, REGRET_FLOOR)
                ratio = float(np.sqrt(np.prod([b[a.argmin()] / b.min() for a, b in (known, known[::-1])])))
                rows.append((f"{path.stem}.{text}", "knows every other day", i, ratio))
    return pd.DataFrame(rows, columns=["cell", "rule", "half", "ratio"])


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return median, geometric mean and worst by rule, over cells with all candidates and with random halves."""
    rows = rows.assign(log=np.log(rows["ratio"]))
    all_, halves = (
        rows[rows["half"] == 0],
        rows[rows["half"] > 0].groupby(["rule", "cell"], as_index=False)["log"].mean(),
    )
    found = pd.DataFrame(
        {
            "cells": all_.groupby("rule")["cell"].nunique(),
            "median": np.exp(all_.groupby("rule")["log"].median()),
            "mean": np.exp(all_.groupby("rule")["log"].mean()),
            "worst": np.exp(all_.groupby("rule")["log"].max()),
            "halves: median": np.exp(halves.groupby("rule")["log"].median()),
            "mean of halves": np.exp(halves.groupby("rule")["log"].mean()),
            "worst of halves": np.exp(halves.groupby("rule")["log"].max()),
        }
    )
    return found.sort_values("mean of halves").round(3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulate", "table"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward-choice"))
    parser.add_argument("--budget", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--keep", type=int, nargs="+", default=[0])
    parser.add_argument("--cut", nargs="+", default=["2021-04-04", "2021-04-18", "2021-05-05", "2021-05-19"])
    parser.add_argument("--until")
    parser.add_argument("--packages", type=int, default=120)
    parser.add_argument("--on-futures", type=int, default=80)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--no-futures", action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "table":
        rows = judge(arguments.out, arguments.cut, arguments.until, not arguments.no_futures)
        all_ = rows[rows["half"] == 0].pivot_table(index="cell", columns="rule", values="ratio")
        print(all_.round(2).to_string(), table(rows).to_string(), sep="\n\n")
        return
    for budget in arguments.budget:
        for keep in arguments.keep:
            one = argparse.Namespace(**vars(arguments) | {"budget": budget, "keep": keep})
            simulate(beocat(one), arguments.cut, arguments.packages, arguments.on_futures, arguments.draws)


if __name__ == "__main__":
    main()
