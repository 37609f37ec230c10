"""How the rule over futures was chosen (docs/claims/forward.md): every rule on the same simulated waits.

python benchmarks/forward_rules.py simulate --data ../shared/data --budget 1000000 --keep 0 20
python benchmarks/forward_rules.py table
python benchmarks/forward_rules.py ranges
python benchmarks/forward_rules.py turnover --data ../shared/data

``simulate`` keeps, for each cell, the waits of all candidates on all futures, on the past and on its days, and on
what came until 2021-05-05 (no rule was chosen by what came later); ``table`` lets the rules choose among random
halves of the candidates; ``ranges`` says for how many candidates what came lay between two quantiles over the
futures, ``turnover`` which of Beocat's requests come and go. wagap and HPC2N: ``--centre wagap --budget 300000 --cut
2013-01-29``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import forward_claims as claims
import numpy as np
import pandas as pd
from scipy.stats import rankdata

from procure import load_plan, load_study
from procure.objectives.aggregate import REGRET_FLOOR, aggregate, pooled_mean, pooled_shares, rank_shares
from procure.recommender import candidates
from procure.recommender.race import features_of, predict_waits
from procure.study.plan import read_past_jobs
from procure.workload.clock import day_bounds
from procure.workload.days import split_days
from procure.workload.futures import WEEK, draw_futures
from procure.workload.scale import cpu_seconds, owners

NOT_LOOKED_AT = day_bounds("2021-05-05", claims.CHICAGO)[0]
HALVES = 40
Cell = dict[str, np.ndarray]


def _demand(jobs: pd.DataFrame) -> np.ndarray:
    """Return what jobs ask for over their run times: CPU-, MB- and GPU-seconds."""
    held = jobs["run_time"] * jobs["n_nodes"]
    return np.array([float((held * jobs[f"{of}_per_node"]).sum()) for of in ("cpus", "mem_mb", "gpus")])


def simulate(path: Path, cut: str, n: int, spread: dict[str, float], out: Path) -> None:
    """Simulate all candidates of a study as of a cut, and keep their waits."""
    began, study = time.process_time(), load_study(path)
    jobs, warm_up = read_past_jobs(study, lambda text: None), study.workloads[0].warm_up
    settings = study.futures.model_copy(update={"years": 0.0} | spread)
    at = day_bounds(cut, settings.tz)[0]
    until = min(at + settings.length, NOT_LOOKED_AT)
    plain = load_plan(study.model_copy(update={"futures": None}))
    plan = replace(plain, workloads={study.workloads[0].name: jobs})
    field = candidates.draw_candidates(plan, study.simulate.policies[0], candidates.between(jobs, 0, until), n, seed=1)
    before, after = candidates.between(jobs, 0, at), candidates.between(jobs, at - warm_up, until)
    before.attrs, after.attrs = dict(jobs.attrs), dict(jobs.attrs)
    every = np.arange(len(field.ids))
    futures = [field.runs(field.lay_out(one, warm_up), every) for one in draw_futures(before, settings)]
    days = list(split_days(before, settings.tz or "UTC").values())
    packages = field.plan.packages
    totals = packages[["total_cpus", "total_mem_gb", "total_gpus"]].to_numpy(dtype="float64")
    existing = field.plan.existing
    had = [0.0, 0.0, 0.0] if existing is None else [existing[c].sum() for c in ("cpus", "mem_mb", "gpus")]
    np.savez_compressed(
        out,
        came=field.wait(field.lay_out(after, warm_up), every),
        past=field.wait(field.lay_out(before, warm_up), every),
        futures=np.array([one["mean_wait_time"].fillna(0.0) for one in futures], dtype="float64"),
        saturated=np.array([one["saturated"] for one in futures], dtype="float64"),
        days=np.array([field.wait(field.lay_out(day), every) for day in days]),
        jobs_of_days=np.array([float(len(day)) for day in days]),
        counts=field.counts,
        capacity=totals * [1, 1000, 1] + np.array(had, dtype="float64"),
        demand=np.array([_demand(one) / settings.length for one in draw_futures(before, settings)]),
        price=packages["price_usd"].to_numpy(dtype="float64"),
    )
    print(f"{out.name}: {len(every)} packages, {time.process_time() - began:.1f} s CPU", flush=True)


def _smooth(cell: Cell, wait: np.ndarray) -> np.ndarray:
    """Return waits as the race's model of nodes and totals gives them."""
    features = features_of(cell["counts"], cell["capacity"])
    return predict_waits(features, np.arange(len(features)), np.maximum(wait, REGRET_FLOOR))


def _tightness(cell: Cell) -> np.ndarray:
    """Return the mean over the futures of the load of a package's scarcest resource."""
    load = cell["demand"][:, None, :] / np.maximum(cell["capacity"], 1.0)[None]
    return load.max(axis=2).mean(axis=0)


def _log(wait: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(wait, REGRET_FLOOR))


def _over_best(wait: np.ndarray) -> np.ndarray:
    return _log(wait) - _log(wait).min(axis=1, keepdims=True)


def _worst(scores: np.ndarray, share: float) -> np.ndarray:
    """Return the mean of the worst share of each column."""
    return np.sort(scores, axis=0)[-max(1, round(share * len(scores))) :].mean(axis=0)


def _heavier(cell: Cell) -> np.ndarray:
    """Return the futures of the heavier half by CPU-seconds."""
    return np.argsort(cell["demand"][:, 0])[len(cell["demand"]) // 2 :]


def _power_mean(power: float, cell: Cell) -> np.ndarray:
    return (rank_shares(cell["futures"]) ** power).mean(axis=0)


def _least_mean(cell: Cell, within: float) -> np.ndarray:
    """Return the mean wait of the packages that ``rank`` puts so near to the first, infinity for the others."""
    figure = aggregate(cell["futures"], "rank")
    return np.where(figure <= (1 + within) * figure.min(), cell["futures"].mean(axis=0), np.inf)


RULES: dict[str, Callable[[Cell], np.ndarray]] = {
    **{f"ranks, power mean, {power}": partial(_power_mean, power) for power in (1, 2, 3, 4, 6, 8, 12)},
    "largest rank": lambda c: rank_shares(c["futures"]).max(axis=0),
    "mean of the worst half of the ranks": lambda c: _worst(rank_shares(c["futures"]), 0.5),
    "mean of the worst fifth of the ranks": lambda c: _worst(rank_shares(c["futures"]), 0.2),
    "rank, of the smoothed waits": lambda c: aggregate(_smooth(c, c["futures"]), "rank"),
    "rank, waits and smoothed waits": lambda c: (
        aggregate(c["futures"], "rank") + aggregate(_smooth(c, c["futures"]), "rank")
    ),
    "rank, the past as one more future": lambda c: aggregate(np.vstack([c["futures"], c["past"]]), "rank"),
    "rank, the past as five more futures": lambda c: aggregate(
        np.vstack([c["futures"], np.repeat(c["past"][None], 5, axis=0)]), "rank"
    ),
    "rank, heavier half of the futures": lambda c: aggregate(c["futures"][_heavier(c)], "rank"),
    "rank, least chance to saturate first": lambda c: (
        c["saturated"].mean(axis=0) + 1e-3 * aggregate(c["futures"], "rank")
    ),
    "rank, tightest third left out": lambda c: (
        aggregate(c["futures"], "rank") + (_tightness(c) > np.quantile(_tightness(c), 2 / 3))
    ),
    "rank + rank of the tightness": lambda c: (
        aggregate(c["futures"], "rank") + 0.5 * rankdata(_tightness(c)) / len(_tightness(c))
    ),
    "least tightness, no simulation": _tightness,
    "rank, of those within 10 % of the least the least mean wait": lambda c: _least_mean(c, 0.1),
    "rank, futures weighted by how far waits differ there": lambda c: pooled_shares(
        rank_shares(c["futures"]), _log(c["futures"]).std(axis=1, keepdims=True)
    ),
    "logarithm over the best there, at most 1, mean": lambda c: np.minimum(_over_best(c["futures"]), 1).mean(axis=0),
    "mean of the logarithm": lambda c: _log(c["futures"]).mean(axis=0),
    "logarithm, mean of the worst half": lambda c: _worst(_log(c["futures"]), 0.5),
    "ratio to the best, at most e to the 5": lambda c: np.exp(np.minimum(_over_best(c["futures"]), 5)).mean(axis=0),
    "largest ratio to the best": lambda c: _over_best(c["futures"]).max(axis=0),
    "median wait": lambda c: np.median(c["futures"], axis=0),
    "mean wait (`futures-mean`)": lambda c: c["futures"].mean(axis=0),
    "mean of the worst fifth of the waits (`cvar`)": lambda c: _worst(c["futures"], 0.2),
    "past": lambda c: c["past"],
    "past, smoothed": lambda c: _smooth(c, c["past"][None])[0],
    "mean day": lambda c: pooled_mean(c["days"], c["jobs_of_days"][:, None]),
    "worst day": lambda c: c["days"].max(axis=0),
    "cheapest per CPU": lambda c: c["price"] / c["capacity"][:, 0],
}


def table(folder: Path) -> pd.DataFrame:
    """Return the ratio of what each rule chooses among random halves of the candidates: geometric means."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob("*.npz")):
        cell: Cell = dict(np.load(path, allow_pickle=False))
        came, rng = np.maximum(cell["came"], REGRET_FLOOR), np.random.default_rng(0)
        halves = [rng.permutation(len(came))[: len(came) // 2] for _ in range(HALVES)]
        for name, rule in RULES.items():
            logs = []
            for half in halves:
                figure = rule(_of(cell, half))
                logs.append(np.log(came[half][figure.argmin()] / came[half].min()))
            found.setdefault(path.stem, {})[name] = float(np.exp(np.mean(logs)))
    ratio = pd.DataFrame(found)
    shown = ratio.assign(mean=np.exp(np.log(ratio).mean(axis=1)), worst=ratio.max(axis=1))
    return shown.sort_values("mean")


def ranges(folder: Path) -> pd.DataFrame:
    """Return the share of candidates whose wait on what came lay between two quantiles of those on the futures."""
    held: dict[str, dict[str, float]] = {}
    for path in sorted(folder.glob("*.npz")):
        cell = np.load(path, allow_pickle=False)
        for share in (0.1, 0.15, 0.2, 0.25, 0.3):
            low, high = np.quantile(cell["futures"], (share, 1 - share), axis=0)
            inside = (cell["came"] >= low) & (cell["came"] <= high)
            held.setdefault(path.stem, {})[f"{share:.0%} to {1 - share:.0%}"] = float(inside.mean())
    found = pd.DataFrame(held)
    return found.assign(mean=found.mean(axis=1))


def turnover(path: Path) -> str:
    """Say which of the requests that make 95 % of eight weeks' load come in one half of these only, but for 2 %."""
    jobs = read_past_jobs(load_study(path), lambda text: None)
    since = jobs["submit_time"] - jobs["submit_time"].min()
    some = jobs[since < 8 * WEEK]
    table = pd.DataFrame({"load": cpu_seconds(some), "of": owners(some), "first": since[some.index] < 4 * WEEK})
    halves = table.pivot_table("load", "of", "first", "sum", fill_value=0.0)
    by_size = halves.sum(axis=1).sort_values(ascending=False)
    most = by_size.index[by_size.cumsum() <= 0.95 * by_size.sum()]
    first = halves.loc[most, True] / by_size[most]
    return (
        f"{len(most)} of {len(by_size)} requests make 95 % of the load; {(first < 0.02).mean():.0%} come in the second "
        f"four weeks only, {(first > 0.98).mean():.0%} in the first only"
    )


def _of(cell: Cell, some: np.ndarray) -> Cell:
    """Return a cell with some of its candidates."""
    n = len(cell["came"])
    return {
        name: value[some] if len(value) == n and name in ("came", "past", "counts", "capacity", "price")
        else value[:, some] if name in ("futures", "saturated", "days") else value
        for name, value in cell.items()
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulate", "table", "ranges", "turnover"])
    parser.add_argument("--centre", choices=["beocat", "wagap", "hpc2n"], default="beocat")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward-rules"))
    parser.add_argument("--budget", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--keep", type=int, nargs="+", default=[0])
    parser.add_argument("--cut", nargs="+", default=["2021-04-04", "2021-04-18"])
    parser.add_argument("--class-spread", type=float)
    parser.add_argument("--user-spread", type=float)
    parser.add_argument("--packages", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.what == "turnover":
        print(turnover(claims.beocat(argparse.Namespace(**vars(arguments) | {"budget": 1_000_000, "keep": 0}))))
        return
    if arguments.what != "simulate":
        shown = table(arguments.out) if arguments.what == "table" else ranges(arguments.out)
        print(shown.round(2).to_string())
        return
    spread = {
        name: value for name in ("class_spread", "user_spread") if (value := getattr(arguments, name)) is not None
    }
    write_study = {"beocat": claims.beocat, "wagap": claims.wagap_study, "hpc2n": claims.hpc2n_study}
    for budget in arguments.budget:
        for keep in arguments.keep:
            one = argparse.Namespace(**vars(arguments) | {"budget": budget, "keep": keep})
            for cut in arguments.cut:
                one.cut = [cut]
                path = write_study[arguments.centre](one)
                simulate(path, cut, arguments.packages, spread, path.with_suffix(f".{cut}.npz"))


if __name__ == "__main__":
    main()
