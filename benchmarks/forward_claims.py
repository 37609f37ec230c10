"""The figures of docs/claims/forward.md: buying as of a day in the past, races, and the test for saturation.

python benchmarks/forward_claims.py cell --data ../shared/data --budget 1000000 --cut 2021-05-05 --packages 200
python benchmarks/forward_claims.py cell --budget 1000000 --cut 2021-04-04 2021-04-18 2021-05-05 2021-05-19 --keep 20
python benchmarks/forward_claims.py wagap --data ../shared/data --budget 300000 --cut 2013-01-29
python benchmarks/forward_claims.py hpc2n --data ../shared/data --budget 1500000 --cut 2004-04-01 2005-04-01
python benchmarks/forward_claims.py race --data ../shared/data --packages 2000
python benchmarks/forward_claims.py odd-days --data ../shared/data --packages 100 --cut 2021-05-05
python benchmarks/forward_claims.py quarter --data ../shared/data --packages 300
python benchmarks/forward_claims.py quarter-study --data ../shared/data
python benchmarks/forward_claims.py plan --data ../shared/data --budget 1600000 --packages 8
python benchmarks/forward_claims.py saturation
python benchmarks/forward_claims.py embedded
python benchmarks/forward_claims.py cells --out results/forward
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest, ttest_rel

from procure import import_log, load_plan, load_study, simulate
from procure.evaluation.ranking import at_k, find_hits, order
from procure.objectives.aggregate import RANK_POWER
from procure.recommender import candidates
from procure.recommender.forward import forward
from procure.recommender.outlook import NEAR
from procure.recommender.parts import plan_purchases
from procure.recommender.race import as_it_is, by_rank, race, running_order
from procure.run import run_prepared
from procure.study.plan import read_past_jobs
from procure.sweep.results import load_results
from procure.sweep.runner import Bench, make_bench, simulate_batch
from procure.tables import write
from procure.workload import merge
from procure.workload.clock import day_bounds
from procure.workload.scale import cpu_seconds

QUOTES = Path(__file__).resolve().parent.parent / "quotes" / "example-2023.csv"
CHICAGO, PRAGUE, STOCKHOLM = "America/Chicago", "Europe/Prague", "Europe/Stockholm"
MONTHS = ("20210304", "20210404", "20210505")
ODD_DAYS = "odd-days"
WITHIN_REACH = (1.2, 1.8)
"""A cell is within reach of a target if who knows every other day of what came reaches it on the days between."""


def beocat(arguments: argparse.Namespace, months: tuple[str, ...] = MONTHS) -> Path:
    """Write a study of some months, with futures right after them; return its path."""
    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    logs = [arguments.data / "beocat_2021" / f"all_jobs_{month[:6]}.csv.xz" for month in months]
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
        f'quotes = "{QUOTES}"\n[packages]\nrules = "published"\nbudget_usd = {arguments.budget}\n{nodes}'
        f'[[workloads]]\nname = "beocat"\njobs = "beocat-{len(logs)}.parquet"\nwarm_up = "3d"\ntz = "{CHICAGO}"\n'
        f'[futures]\ntz = "{CHICAGO}"\nyears = 0.0\n'
    )
    return path


def cell(arguments: argparse.Namespace) -> None:
    """Buy on Beocat as of each cut."""
    _forward(beocat(arguments), arguments)


def wagap_study(arguments: argparse.Namespace) -> Path:
    """Write wagap's (MetaCentrum), without the jobs that ask for more CPUs than any quoted node has."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = arguments.data / "metacentrum_wagap_2013" / "wagap-2013_jan-feb.swf.xz"
    jobs = import_log(log, "swf", preset="metacentrum", skip_bad_rows=True).jobs
    write(jobs[jobs["cpus_per_node"] <= 64].reset_index(drop=True), arguments.out / "wagap.parquet")
    return _whole_nodes("wagap", PRAGUE, arguments)


def hpc2n_study(arguments: argparse.Namespace) -> Path:
    """Write HPC2N's by whole nodes, from a quarter before the cut to 28 days after it.

    Each two processors that a job had are a node of 24 CPUs, with their memory.
    """
    arguments.out.mkdir(parents=True, exist_ok=True)
    jobs = import_log(arguments.data / "pwa" / "HPC2N-2002-2.1-cln.swf.xz", "swf", skip_bad_rows=True).jobs
    attrs, mem = dict(jobs.attrs), 2 * jobs["mem_mb_per_node"]
    jobs = jobs.assign(n_nodes=-(-jobs["n_nodes"] // 2), cpus_per_node=24, mem_mb_per_node=mem)
    at = day_bounds(arguments.cut[0], STOCKHOLM)[0]
    near = jobs[jobs["submit_time"].between(at - 91 * 86_400, at + 28 * 86_400)].reset_index(drop=True)
    near.attrs = attrs
    write(near, arguments.out / "hpc2n.parquet")
    return _whole_nodes("hpc2n", STOCKHOLM, arguments)


def _whole_nodes(centre: str, tz: str, arguments: argparse.Namespace) -> Path:
    path = arguments.out / f"{centre}-{arguments.budget}.toml"
    path.write_text(
        f'quotes = "{QUOTES}"\n[packages]\nrules = "published"\nbudget_usd = {arguments.budget}\nmin_gpu_nodes = 0\n'
        f'[[workloads]]\nname = "{centre}"\njobs = "{centre}.parquet"\nwarm_up = "3d"\ntz = "{tz}"\n'
        f'[futures]\ntz = "{tz}"\n'
    )
    return path


def wagap(arguments: argparse.Namespace) -> None:
    """Buy for wagap as of each cut."""
    _forward(wagap_study(arguments), arguments)


def hpc2n(arguments: argparse.Namespace) -> None:
    """Buy for HPC2N as of each cut."""
    for cut in arguments.cut:
        one = argparse.Namespace(**vars(arguments) | {"cut": [cut]})
        _forward(hpc2n_study(one), one)


def _forward(path: Path, arguments: argparse.Namespace) -> None:
    began = time.process_time()
    for cut in arguments.cut:
        found = forward(path, [cut], n_packages=arguments.packages, runs=arguments.runs, note=print)
        print(found.summary())
        print(f"{time.process_time() - began:.1f} s CPU")
        found.table.to_csv(path.with_suffix(f".{cut}.csv"), index=False)


def cells(arguments: argparse.Namespace) -> None:
    """Put together what the cells before have written: ratios by rule, what was stated, and what is luck."""
    paths = [path for path in sorted(arguments.out.rglob("*.csv")) if "." in path.stem]
    odd = [pd.read_csv(path) for path in paths if ODD_DAYS in path.name]
    paths = [path for path in paths if ODD_DAYS not in path.name]
    known = pd.concat(odd).set_index("cell")["odd_days_ratio"] if odd else pd.Series(dtype="float64")
    for centre in sorted({path.stem.split("-")[0] for path in paths}):
        mine = [path for path in paths if path.stem.startswith(centre)]
        rows = pd.concat([pd.read_csv(path).assign(cell=path.stem) for path in mine])
        _put_together(centre, rows)
        _tell_luck(rows, known)


def _put_together(centre: str, rows: pd.DataFrame) -> None:
    ratio = rows.pivot_table(index="cell", columns="rule", values="ratio")
    print(centre, ratio.round(2).to_string(), sep="\n\n", end="\n\n")
    cut = ratio.index.str.split(".").str[-1]
    # The last cut of Beocat's has half a month after it, of another load.
    for some in ("", *sorted(set(cut)), *([f"not {max(cut)}"] if len(set(cut)) > 1 else [])):
        of = ratio[cut == some if some in cut else cut != some.removeprefix("not ")]
        no_worse = of.ge(of["futures"] - 1e-9, axis=0).where(of.notna()).astype("float64")
        shown = pd.DataFrame({"median": of.median(), "worst": of.max()})
        shown["futures no worse, %"] = 100 * no_worse.mean()
        print(f"{some or 'all'}: {len(of)} cells", shown.sort_values("median").round(2).T.to_string(), sep="\n")
    for rule in [name for name in ("futures", "futures-mean") if name in ratio]:
        ours = rows[rows["rule"] == rule].set_index("cell")
        inside = ours["mean_wait_time"].between(ours["low_wait_time"], ours["high_wait_time"])
        spans = ours["high_wait_time"] / ours["low_wait_time"]
        print(
            f"{rule}, {len(ours)} cells: the stated 90 % range held the wait in {inside.sum()}, and spans a factor of "
            f"{spans.median():.1f} (median)"
        )
        for chance, most in (("best_chance", 1 + 1e-9), ("near_chance", 1 + NEAR)):
            true = int((ours["ratio"] <= most).sum())
            low, high = binomtest(true, len(ours)).proportion_ci(0.9)
            print(f"  {chance}: stated {ours[chance].mean():.2f} on average; true in {true} of {len(ours)} "
                  f"({true / len(ours):.2f}; 90 % interval {low:.2f} to {high:.2f})")  # fmt: skip


def _tell_luck(rows: pd.DataFrame, known: pd.Series) -> None:
    """Say in which cells the targets are within reach of who knows half of what came, and how futures do there."""
    past = rows[rows["rule"] == "past"].set_index("cell")
    told = past.get("rank_correlation", pd.Series(dtype="float64"))  # no such column where not all ran to the end
    ours = rows[rows["rule"] == "futures"].set_index("cell").assign(told=told, odd_days_ratio=known)
    names = ["n_judged", "share_saturated", "share_near_best", "told", "halves_correlation", "halves_ratio"]
    ours = ours.reindex(columns=[*ours.columns, *(name for name in names if name not in ours)])
    print(ours[["ratio", "odd_days_ratio", *names]].dropna(axis=1, how="all").round(4).to_string())
    if ours["odd_days_ratio"].notna().any():
        print(f"odd days: {ours['odd_days_ratio'].median():.2f} (median), {ours['odd_days_ratio'].max():.2f} (worst); "
          f"futures do no worse in {(ours['ratio'] <= ours['odd_days_ratio'] + 1e-9).sum()}")  # fmt: skip
    for what in (name for name in ("halves_ratio", "odd_days_ratio") if ours[name].notna().any()):
        for target in WITHIN_REACH:
            of = ours["ratio"][ours[what] <= target]
            print(f"{what} at most {target}: {len(of)} of {ours[what].notna().sum()} cells, futures there "
                  f"{of.median():.2f} (median), {of.max():.2f} (worst), at most {target} in {(of <= target).sum()}; "
                  f"elsewhere {ours['ratio'][ours[what] > target].median():.2f}")  # fmt: skip


def races(arguments: argparse.Namespace) -> None:
    """Simulate packages on all futures of Beocat's first month, and race them in five orders with fewer runs."""
    path = beocat(arguments, MONTHS[:1])
    # The spread that futures had when the race was measured first; all are simulated, so it changes little.
    path.write_text(path.read_text() + "class_spread = 0.3\nuser_spread = 1.0\n")
    study = load_study(path)
    plan = load_plan(study)
    plain = load_plan(study.model_copy(update={"futures": None}))
    field = candidates.draw_candidates(plain, "best-fit", read_past_jobs(study, print), arguments.packages, seed=1)
    kept, began = path.with_suffix(f".{len(field.ids)}.npy"), time.process_time()
    if not kept.exists():
        benches = [make_bench(plan, name, "best-fit") for name in plan.workloads]
        every = np.arange(len(field.ids))
        np.save(kept, np.array([field.wait(bench, every) for bench in benches]))
        print(f"{time.process_time() - began:.0f} s CPU")
    wait, features = np.load(kept), field.features
    load = running_order(np.array([cpu_seconds(jobs).sum() for jobs in plan.workloads.values()]))
    for name, score, power in (("mean wait", as_it_is, 1), ("rank", by_rank, RANK_POWER)):
        scores = score(wait)
        figure = scores.mean(axis=0)
        for share in (0.025, 0.05, 0.1):
            for seed in range(5):
                order = np.random.default_rng(seed).permutation(wait.shape[1])
                mine = wait[:, order]
                found = race(
                    lambda i, rows, of=mine: of[i, rows],
                    features[order],
                    load,
                    int(share * wait.size),
                    score=score,
                )
                first = order[found.order[0]]
                worse = ttest_rel(scores[:, first], scores[:, figure.argmin()], alternative="greater").pvalue
                print(
                    f"{name}: {found.n_runs:,} runs of {wait.size:,}, {len(found.finished)} packages on all futures: "
                    f"choice rank {1 + (figure < figure[first]).sum()}, "
                    f"{(figure[first] / figure.min()) ** (1 / power):.3f} of the least; worse by the paired t-test: "
                    f"p = {worse:.2f}"
                )


def _wait_by_days(bench: Bench, package: np.ndarray, counts: np.ndarray, odd: np.ndarray) -> tuple[float, float]:
    """Replay one package; return the mean waits of the jobs submitted on odd and on even days, s."""
    ready, n = bench.ready, bench.n_existing
    rows = np.concatenate([np.arange(n), np.repeat(np.arange(n, len(ready.kind_of)), package)])
    nodes = {name: getattr(ready, name)[rows] for name in ("kind_of", "leaf", "pod")}
    wait = run_prepared(replace(ready, **nodes), bench.policy).start - ready.jobs.submit
    return float(wait[counts & odd].mean()), float(wait[counts & ~odd].mean())


def odd_days(arguments: argparse.Namespace) -> None:
    """Choose with knowledge of every other day of what came, and judge on the days between, both ways."""
    path = beocat(arguments)
    study = load_study(path)
    jobs, warm_up = read_past_jobs(study, print), study.workloads[0].warm_up
    plain = load_plan(study.model_copy(update={"futures": None}))
    rows = []
    for cut in arguments.cut:
        at = day_bounds(cut, CHICAGO)[0]
        until = at + study.futures.length
        seen = candidates.between(jobs, 0, until)
        field = candidates.draw_candidates(plain, "best-fit", seen, arguments.packages, seed=1)
        after = candidates.between(jobs, at - warm_up, until)
        after.attrs = dict(jobs.attrs)
        bench = field.lay_out(after, warm_up)
        submit = bench.ready.jobs.submit
        counts = submit >= bench.ready.counts_from
        odd = (submit - bench.ready.counts_from) // 86_400 % 2 == 1
        waits = np.array([_wait_by_days(bench, one, counts, odd) for one in field.counts]).T
        ratios = [candidates.ratio_of(b, int(a.argmin())) for a, b in (waits, waits[::-1])]
        rows.append({"cell": f"{path.stem}.{cut}", "odd_days_ratio": float(np.sqrt(np.prod(ratios)))})
        print(f"{cut}: {len(field.ids)} packages, the best of the odd days on the even ones and the other way round: "
              f"{ratios[0]:.2f}, {ratios[1]:.2f} times the best", flush=True)  # fmt: skip
    pd.DataFrame(rows).to_csv(path.with_suffix(f".{ODD_DAYS}.csv"), index=False)


def quarter(arguments: argparse.Namespace) -> None:
    """Simulate some of the packages of a study of Beocat's three months, and say what every tenth would take."""
    path = beocat(arguments)
    study = load_study(path).model_copy(update={"futures": None})
    began = time.process_time()
    plan = load_plan(study)
    ready = time.process_time() - began
    distinct = plan.packages[plan.packages["distinct"].to_numpy(dtype=bool)]
    chosen = distinct.iloc[:: len(distinct) // arguments.packages]
    counts = np.ascontiguousarray(chosen[plan.types].to_numpy(np.int64))
    bench = make_bench(plan, "beocat", study.simulate.policies[0])
    began = time.process_time()
    rows, _ = simulate_batch(bench, chosen["package_id"].tolist(), counts)
    each = (time.process_time() - began) / len(chosen)
    saturated = rows["saturated"].to_numpy(dtype="float64")
    print(
        f"{len(plan.workloads['beocat']):,} jobs, {len(chosen)} of {len(distinct):,} packages, {saturated.mean():.0%} "
        f"saturate: {ready:.1f} s CPU to begin, {each:.3f} s a package; every tenth: {each * len(distinct) / 10:.0f} s"
    )


def quarter_study(arguments: argparse.Namespace) -> None:
    """Run the study of Beocat's three months from beginning to end, on the local farm; each step's time."""
    path = beocat(arguments)
    path.write_text(path.read_text().split("[futures]")[0] + f"[sweep]\nsample = {arguments.every}\n")
    for step in ("sweep", "train", "evaluate", "recommend", "report"):
        clock, used = time.perf_counter(), _used_by_children()
        subprocess.run(
            [sys.executable, "-m", "procure.cli.main", step, str(path)], check=True, stdout=subprocess.DEVNULL
        )
        print(f"{step}: {_used_by_children() - used:.0f} s CPU, {time.perf_counter() - clock:.0f} s", flush=True)


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def parts(arguments: argparse.Namespace) -> None:
    """Buy for Beocat over four years, all now or in parts: load grows by 15 % and prices fall by 10 % a year."""
    path = beocat(arguments)
    path.write_text(path.read_text().replace("years = 0.0", "years = 4.0\ngrowth = 1.15"))
    began = time.process_time()
    found = plan_purchases(
        path,
        4,
        arguments.budget / 4,
        price_fall=0.1,
        candidates=arguments.packages,
        beam=2,
        draws=2,
        note=print,
    )
    print(found.summary())
    print(f"{time.process_time() - began:.1f} s CPU")


def saturation(arguments: argparse.Namespace) -> None:
    """Put the test to queues with Poisson arrivals and exponential run times on ten CPUs."""
    node = pd.DataFrame({"node_id": ["n"], "cpus": [10], "mem_mb": [1000]})
    for load in (0.5, 0.8, 0.9, 0.95, 1.0, 1.02, 1.05, 1.2):
        n = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            submit = np.cumsum(rng.exponential(60 / load, 20_000)).astype(int)
            run = np.ceil(rng.exponential(600, 20_000)).astype(int)
            jobs = pd.DataFrame({"job_id": np.arange(20_000).astype(str), "submit_time": submit, "run_time": run})
            n += simulate(jobs.assign(cpus_per_node=1), node).metrics["saturated"]
        print(f"load {load}: {n} of 20 saturated")


def embedded(arguments: argparse.Namespace) -> None:
    """Judge the rules that do not simulate on pipelines/example.toml, after `make sweep`."""
    case = load_results(QUOTES.parent.parent / "pipelines" / "example.toml").cases[0]
    judged = np.flatnonzero(case.runs_all & ~np.isnan(case.wait))
    packages, wait = case.packages.iloc[judged], case.wait[judged]
    price = packages["price_usd"].to_numpy(dtype="float64")
    figures = {"cheapest-per-cpu": price / packages["total_cpus"]} | {
        f"most-{name}": -packages[f"total_{name}"] for name in ("cpus", "mem_gb", "gpus")
    }
    hits = find_hits(wait)
    print(f"{len(judged)} packages that run every job, {hits.n_real} hits, best {wait.min():.0f} s")
    for rule, figure in figures.items():
        ranking = order(figure.to_numpy(dtype="float64"), price)
        print(f"{rule}: precision@50 {at_k(ranking, wait, hits, 50).precision:.2f}, the first waits "
              f"{wait[ranking[0]] / wait.min():.1f} times as long as the best")  # fmt: skip


WHAT = {
    "cell": cell, "wagap": wagap, "hpc2n": hpc2n, "cells": cells, "race": races, "odd-days": odd_days,
    "quarter": quarter, "quarter-study": quarter_study, "plan": parts,
    "saturation": saturation, "embedded": embedded,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(WHAT))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward"))
    parser.add_argument("--budget", type=int, default=1_000_000)
    parser.add_argument("--keep", type=int, default=0, help="this many of Beocat's largest nodes are kept")
    parser.add_argument("--cut", nargs="+", default=["2021-05-05"])
    parser.add_argument("--packages", type=int, default=200)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--every", type=int, default=10, help="one package of so many is simulated")
    arguments = parser.parse_args()
    WHAT[arguments.what](arguments)


if __name__ == "__main__":
    main()
