"""Whether a rule chosen by an inner backtest chooses better, and whether targets are kept (docs/claims/forward.md).

python benchmarks/forward_backtest.py simulate --budget 700000 1000000 1500000 2000000 --keep 0 20
python benchmarks/forward_backtest.py rules --cut 2021-05-05 2021-05-19
python benchmarks/forward_backtest.py seeds --cut 2021-05-05 2021-05-19
python benchmarks/forward_backtest.py weekly --cut 2021-03-31 2021-04-07 2021-04-14 2021-04-21 2021-04-28 2021-05-05
python benchmarks/forward_backtest.py targets --cut 2021-05-05

Beocat; one replay of the whole log a package gives what came after every cut. ``simulate`` also replays what was before
each cut by itself, for later jobs may overtake those that still wait, and draws futures at it and at earlier ones, a
week apart (`--every`), that the inner backtest has; what is there is not simulated again. ``rules`` lets the inner
backtest choose as of each cut, of which nothing is tuned. ``seeds`` says how far the choices of several seeds of the
futures are apart; ``weekly`` compares the rules, and what they state, on some cuts. ``targets`` buys the package that
the recommended rule puts first of those that keep a target in nine of ten futures, and looks whether it kept it.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise
from pathlib import Path

import forward_claims as claims
import numpy as np
import pandas as pd
from forward_cells import field_of
from forward_chances import Cell, compare, judge, say, say_rules
from forward_choice import BOUNDS, DAY, HORIZON, WARM_UP, _means, replay

from procure import load_study
from procure.objectives.aggregate import REGRET_FLOOR, pooled_mean
from procure.recommender import candidates
from procure.recommender.earlier_cuts import FIXED, EarlierCut, rule_figures, weigh_rules
from procure.schemas import CLASSES
from procure.workload.clock import day_bounds
from procure.workload.days import split_days
from procure.workload.futures import draw_futures
from procure.workload.past import N_PARTS

KNOWN = "2021-03-28"
"""Candidates run what is known before it."""
LIMITS = {"1 h": 3600, "4 h": 4 * 3600, "12 h": 12 * 3600, "24 h": 24 * 3600}
Held = dict[str, np.ndarray]


def earlier(cut: str, every: int) -> list[str]:
    """Return the earlier cuts, some weeks apart, from three weeks after the log begins on."""
    days = [pd.Timestamp(cut) - pd.Timedelta(weeks=every * i) for i in range(1, 7)]
    return [f"{day:%Y-%m-%d}" for day in sorted(days) if day >= pd.Timestamp(KNOWN)]


def simulate(path: Path, arguments: argparse.Namespace) -> None:
    """Replay the log and the futures of every cut on a cell's candidates; the cuts asked for have more futures."""
    began, file = time.process_time(), path.with_suffix(".npz")
    held: Held = dict(np.load(file)) if file.exists() else {}
    field, jobs = field_of(path, claims.CHICAGO, KNOWN, arguments.packages)
    settings = load_study(path).futures
    if "waited" not in held:
        first = int(jobs["submit_time"].min())
        days = 1 + (int(jobs["submit_time"].max()) - first) // DAY
        held |= replay(field, jobs, days) | {"first": np.array(first)}
        np.savez_compressed(file, **held)
    if "by day" not in held:
        by_day = split_days(jobs, claims.CHICAGO)
        packages = field.plan.packages
        held |= {
            "by day": np.array([field.judge(day, 0)["mean_wait_time"] for day in by_day.values()], dtype="float64"),
            "jobs by day": np.array([len(day) for day in by_day.values()]), "names of days": np.array(list(by_day)),
            "per cpu": (packages["price_usd"] / packages["total_cpus"]).to_numpy("float64"),
            "cpus": packages["total_cpus"].to_numpy("float64"), "counts": field.counts,
        }  # fmt: skip
        np.savez_compressed(file, **held)
    wanted = {(cut, arguments.seed): arguments.draws for cut in arguments.cut}
    if arguments.seed == 1:
        inner = [cut for asked in arguments.cut for cut in earlier(asked, arguments.every)]
        wanted |= {(cut, 1): arguments.inner_draws for cut in inner if (cut, 1) not in wanted}
    for (cut, seed), draws in wanted.items():
        key = f"{cut} {seed}"
        before = candidates.between(jobs, 0, day_bounds(cut, claims.CHICAGO)[0])
        before.attrs = dict(jobs.attrs)
        if f"waited before {cut}" not in held:
            alone = replay(field, before, day_of(held, cut))
            held |= {f"waited before {cut}": alone["waited"], f"jobs before {cut}": alone["jobs"]}
            np.savez_compressed(file, **held)
        if f"futures {key}" in held:
            continue
        asked = settings.model_copy(update={"years": 0.0, "draws": draws, "seed": seed})
        drawn = [replay(field, one, HORIZON) for one in draw_futures(before, asked)]
        held[f"futures {key}"] = np.array([_means(one, 0, HORIZON) for one in drawn])
        held[f"over {key}"] = np.array([_shares(one, 0, HORIZON) for one in drawn])
        np.savez_compressed(file, **held)
    print(f"{path.stem}: {len(field.ids)} packages, {time.process_time() - began:.0f} s CPU", flush=True)


def _shares(waits: Held, low: int, high: int) -> np.ndarray:
    """Return shares of jobs that wait longer than each bound, float64[bounds, 1 + classes, packages]."""
    over, jobs = waits["over"][:, :, low:high].sum(axis=2), waits["jobs"][low:high].sum(axis=0)
    by_class = np.divide(over, jobs, out=np.full(over.shape, np.nan), where=jobs > 0)
    return np.concatenate([over.sum(axis=2, keepdims=True) / jobs.sum(), by_class], axis=2).transpose(1, 2, 0)


def at_cut(held: Held, cut: str, end: int | None = None, seed: int = 1, known: str | None = None) -> EarlierCut:
    """Return what is known at a cut, and what came until a day of the log, of an earlier cut as known later."""
    day = day_of(held, cut)
    before = {name: held[f"{name} before {cut}"] for name in ("waited", "jobs")}
    after = held if known is None else {name: held[f"{name} before {known}"] for name in ("waited", "jobs")}
    end = after["waited"].shape[1] if end is None else end
    edges = np.linspace(WARM_UP, day, N_PARTS + 1).round().astype(int)
    past = np.array([_means(before, a, b) for a, b in [(WARM_UP, day), *pairwise(edges)]])
    return EarlierCut(cut, past, held[f"futures {cut} {seed}"], _means(after, day, min(day + HORIZON, end))[0])


def day_of(held: Held, cut: str) -> int:
    """Return the day of the log on which a cut is."""
    return round((day_bounds(cut, claims.CHICAGO)[0] - int(held["first"])) / DAY)


def some_of(cut: EarlierCut, rows: np.ndarray) -> EarlierCut:
    """Return a cut with some of its packages."""
    return EarlierCut(cut.name, cut.past[..., rows], cut.futures[..., rows], cut.came[rows])


def rules(files: list[Path], arguments: argparse.Namespace) -> None:
    """Choose by the inner backtest as of each cut of each cell; compare with each rule."""
    rows = []
    for file in files:
        held: Held = dict(np.load(file))
        for name in arguments.cut:
            if f"futures {name} {arguments.seed}" not in held:
                continue
            if any(f"waited before {one}" not in held for one in (name, *earlier(name, arguments.every))):
                print(f"{file.stem}, {name}: not simulated yet")
                continue
            end = None if arguments.until is None else day_of(held, arguments.until)
            cut = at_cut(held, name, end, arguments.seed)
            cut = cut._replace(futures=cut.futures[: arguments.futures])
            inner = [at_cut(held, one, known=name) for one in earlier(name, arguments.every)]
            rng = np.random.default_rng(0)
            for i in range(1 + arguments.halves):
                n = len(cut.came)
                some = np.arange(n) if not i else rng.permutation(n)[: n // 2]
                mine, came = some_of(cut, some), np.maximum(cut.came[some], REGRET_FLOOR)
                evidence = weigh_rules([some_of(one, some) for one in inner])
                log = {
                    rule: np.log(came[figure.argmin()] / came.min())
                    for rule, figure in rule_figures(mine.past, mine.futures).items()
                }
                log |= {"by-backtest": log[evidence.chosen], "leader, whatever its lead": log[evidence.leader]}
                rows.append({"cell": file.stem, "cut": name, "half": i, "chosen": evidence.chosen} | log)
                if not i:
                    print(f"{file.stem}, {name}: {evidence.sentence()}")
    table = pd.DataFrame(rows)
    names = list(table.columns[4:])
    print(table.loc[table["half"] > 0, "chosen"].value_counts().to_string())
    for title, some in (
        ("all candidates", table[table["half"] == 0]),
        ("halves", table[table["half"] > 0].groupby(["cell", "cut"])[names].mean()),
    ):
        found = np.exp(pd.DataFrame({"mean": some[names].mean(), "median": some[names].median(),
                                     "worst": some[names].max()}))  # fmt: skip
        print(f"{title}, {len(some)} cells", found.round(2).to_string(), sep="\n")


def seeds(files: list[Path], arguments: argparse.Namespace) -> None:
    """Compare what each rule chooses with several seeds of the futures: waits over the least of them."""
    rows = []
    for file in files:
        held: Held = dict(np.load(file))
        for name in arguments.cut:
            there = [seed for seed in arguments.seeds if f"futures {name} {seed}" in held]
            if len(there) < len(arguments.seeds):
                continue
            cuts = [at_cut(held, name, seed=seed) for seed in there]
            n = min(arguments.futures or 1000, *(len(cut.futures) for cut in cuts))
            came = np.maximum(cuts[0].came, REGRET_FLOOR)
            for rule in rule_figures(cuts[0].past, cuts[0].futures):
                waits = np.array([
                    came[rule_figures(cut.past, cut.futures[:n])[rule].argmin()] for cut in cuts
                ])  # fmt: skip
                pooled = np.concatenate([cut.futures[:n] for cut in cuts])
                of_all = came[rule_figures(cuts[0].past, pooled)[rule].argmin()]
                rows.append({"cell": file.stem, "cut": name, "rule": rule, "futures": n,
                             "apart": waits.max() / waits.min(), "ratio": np.exp(np.log(waits / came.min()).mean()),
                             "all seeds' futures": of_all / came.min(), "worst": waits.max() / came.min(),
                             "random": np.exp(np.log(came / came.min()).mean())})  # fmt: skip
    table = pd.DataFrame(rows)
    print(table[table["rule"] == FIXED].round(2).to_string(index=False))
    for title, some in [("all cuts", table), *table.groupby("cut")]:
        found = some.groupby("rule", sort=False).agg(
            cells=("apart", "size"), apart_median=("apart", "median"), apart_worst=("apart", "max"),
            within_10=("apart", lambda one: (one <= 1.1).mean()), ratio_mean=("ratio", _geometric),
            worst=("worst", "max"), pooled_mean=("all seeds' futures", _geometric), random_mean=("random", _geometric),
        )  # fmt: skip
        print(title, found.round(2).to_string(), sep="\n")


def _geometric(ratios: pd.Series) -> float:
    return float(np.exp(np.log(ratios).mean()))


def weekly(files: list[Path], arguments: argparse.Namespace) -> None:
    """Compare the rules, and what they state, on some cuts of every cell, each judged by 28 days."""
    cells, trivial = [], []
    for file in files:
        held: Held = dict(np.load(file))
        for name in arguments.cut:
            if f"waited before {name}" in held and f"futures {name} 1" in held:
                cut = at_cut(held, name)
                futures = cut.futures[: arguments.futures]
                cells.append(Cell(f"{file.stem}.{name}", "beocat", cut.past, futures, cut.came))
                trivial.append(without_futures(held, name))
    table = compare(cells, trivial)
    random = [
        float(np.log(np.maximum(one.came, REGRET_FLOOR) / max(one.came.min(), REGRET_FLOOR)).mean()) for one in cells
    ]
    say_rules(table)
    print(f"a random candidate: {np.exp(np.mean(random)):.2f}")
    say(pd.DataFrame([row for cell in cells for row in judge(cell, None)]))


def without_futures(held: Held, cut: str) -> dict[str, np.ndarray]:
    """Return what the mean day, each day before the cut from an empty system, and rules without runs order by."""
    before = held["names of days"] < cut
    mean_day = pooled_mean(held["by day"][before], held["jobs by day"][before].astype("float64")[:, None])
    return {"mean day": mean_day, "cheapest per CPU": held["per cpu"], "most CPUs": -held["cpus"]}


def targets(files: list[Path], arguments: argparse.Namespace) -> None:
    """Buy by a target in nine of ten futures as of each cut, and look whether it is kept."""
    rows, stated = [], []
    for file in files:
        held: Held = dict(np.load(file))
        for name in arguments.cut:
            day, cut = day_of(held, name), at_cut(held, name)
            order = rule_figures(cut.past, cut.futures)[FIXED]
            came = _shares(held, day, min(day + HORIZON, held["waited"].shape[1]))
            drawn = held[f"over {name} 1"]
            for limit, seconds in LIMITS.items():
                i = BOUNDS.index(seconds)
                for j, job_class in enumerate(("all", *CLASSES)):
                    chance = (drawn[:, i, j] <= 0.05).mean(axis=0)
                    kept = came[i, j] <= 0.05
                    keeping = chance >= 0.9 - 1e-9
                    pick = int(np.where(keeping, order, order + 10).argmin())
                    _, budget, keep = file.stem.split("-")
                    rows.append(
                        {"budget": int(budget), "nodes kept": int(keep), "cut": name, "class": job_class,
                         "target": f"p95 <= {limit}", "packages that state it": int(keeping.sum()),
                         "chance": chance[pick], "kept": bool(kept[pick]), "could": int(kept.sum()),
                         "of": len(kept)}
                    )  # fmt: skip
                    stated.append(pd.DataFrame({"class": job_class, "chance": chance, "kept": kept}))
    table = pd.DataFrame(rows)
    bought = table[table["packages that state it"] > 0]
    print(table.to_string(index=False))
    print("a target that some package keeps in nine of ten futures, bought so: kept, by class and budget")
    print(bought.pivot_table(index=["target", "class"], columns="budget", values="kept",
                             aggfunc=lambda some: f"{int(some.sum())} of {len(some)}").to_string())  # fmt: skip
    every = pd.concat(stated)
    bins = pd.cut(every["chance"], [-0.01, 0.05, 0.35, 0.65, 0.89, 1.0])
    print("every package: in so many of the futures kept, and kept by what came")
    print(every.groupby(bins, observed=True)["kept"].agg(["mean", "size"]).round(2).to_string())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulate", "rules", "seeds", "weekly", "targets"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward-backtest"))
    parser.add_argument("--budget", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--keep", type=int, nargs="+", default=[0])
    parser.add_argument("--cut", nargs="+", default=["2021-05-05"])
    parser.add_argument("--every", type=int, default=1, help="weeks between earlier cuts")
    parser.add_argument("--packages", type=int, default=32)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--inner-draws", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the futures of the cuts asked for")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="to compare, of the same")
    parser.add_argument("--halves", type=int, default=8, help="random halves of the candidates that choose, too")
    parser.add_argument("--until", help="judge until this day at most")
    parser.add_argument("--futures", type=int, help="take the first so many futures of a cut")
    arguments = parser.parse_args()
    if arguments.what == "simulate":
        for budget in arguments.budget:
            for keep in arguments.keep:
                one = argparse.Namespace(**vars(arguments) | {"budget": budget, "keep": keep})
                simulate(claims.beocat(one), arguments)
        return
    files = sorted(arguments.out.glob("beocat-*.npz"))
    {"rules": rules, "seeds": seeds, "weekly": weekly, "targets": targets}[arguments.what](files, arguments)


if __name__ == "__main__":
    main()
