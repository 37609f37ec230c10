"""Whether stated chances come true (docs/claims/forward.md): pooled over cells, with the replays of forward_cells.py.

python benchmarks/forward_chances.py --until 2021-05-05
python benchmarks/forward_chances.py --since 2021-05-05
python benchmarks/forward_chances.py --rules

Each cell is a cut, a budget, and nodes kept, or a cut of HPC2N or wagap. In each the rule that `recommend` uses
chooses, states its chances and its range, and what came judges them; so it does for each of the ten packages that it
puts first.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from forward_cells import ZONES
from forward_choice import DAY, HALVES, HORIZON, WARM_UP, _means
from scipy.stats import binom

from procure.models.intervals import SHARE
from procure.objectives.aggregate import REGRET_FLOOR, behind_on_past, class_shares, rank_shares
from procure.recommender.chances import DRAWS, NEAR, STATED, Drift, draw_periods, learn_drift
from procure.recommender.outlook import best_and_near
from procure.workload.clock import day_bounds
from procure.workload.past import N_PARTS, scenario_weights

LISTED = 10
EVEN = 0.05, 0.1, 0.15, 0.2, 0.3, 0.5
"""Shares of even chances, which nothing decides, that stated chances are mixed with."""


class Cell(NamedTuple):
    """What a rule knows at a cut, mean waits by class on the past, its parts and futures, s; and what came."""

    name: str
    centre: str
    past: np.ndarray  # float64[1 + parts, 1 + classes, packages]
    futures: np.ndarray  # float64[futures, 1 + classes, packages]
    came: np.ndarray  # float64[packages]


rules = "published"


def read_cell(folder: Path, path: Path, until: str | None) -> Cell:
    """Read one cell; Beocat's is judged until a day at most."""
    stem, _, cut, _ = path.name.split(".")
    centre = stem.split("-")[0]
    held, drawn = dict(np.load(folder / f"{stem}.replay.npz")), dict(np.load(path))
    at = round((day_bounds(cut, ZONES[centre])[0] - int(held["first"])) / DAY)
    end = held["waited"].shape[1]
    if until is not None and centre == "beocat":
        end = min(end, round((day_bounds(until, ZONES[centre])[0] - int(held["first"])) / DAY))
    held["waited"] = held["waited"][: drawn["waited"].shape[1]]
    edges = np.linspace(WARM_UP, at, N_PARTS + 1).round().astype(int)
    past = np.array([_means(held, a, b) for a, b in [(WARM_UP, at), *pairwise(edges)]])
    futures = np.stack([_of_future(*one) for one in zip(drawn["waited"], drawn["jobs"], strict=True)])
    return Cell(f"{stem}.{cut}", centre, past, futures, _means(held, at, min(at + HORIZON, end))[0])


def read_cells(
    folder: Path, kind: str, centres: list[str] | None = None, since: str | None = None, until: str | None = None
) -> list[Cell]:
    """Read the cells of some centres; ``since`` and ``until`` are of Beocat's cuts."""
    cells = []
    for path in sorted(folder.glob(f"*.{kind}.*.npz")):
        cut, centre = path.name.split(".")[2], path.name.split("-")[0]
        out = (until is not None and cut >= until) or (since is not None and cut < since)
        if (centres is None or centre in centres) and not (centre == "beocat" and out):
            cells.append(read_cell(folder, path, until))
    return cells


def figures(cell: Cell) -> dict[str, np.ndarray]:
    """Return what each rule orders the packages by."""
    on_past, weights = class_shares(cell.past), np.array(scenario_weights(1))
    shares = np.vstack([on_past, class_shares(cell.futures).mean(axis=0)])
    return {
        "recommended": np.average(shares, axis=0, weights=weights) + behind_on_past(cell.past[0, 0]),
        "past": cell.past[0, 0],
        "past and its parts": np.average(on_past, axis=0, weights=weights[:-1]),
        "futures": (rank_shares(cell.futures[:, 0]) ** 2).mean(axis=0),
        "futures-mean": cell.futures[:, 0].mean(axis=0),
    }


def compare(cells: list[Cell], more: list[dict[str, np.ndarray]] | None = None) -> pd.DataFrame:
    """Return each rule's ratio to hindsight's best in each cell, over all candidates and as a mean over halves.

    ``more``: what further rules order the packages of each cell by.
    """
    rows = []
    for cell, others in zip(cells, more or [{} for _ in cells], strict=True):
        came, rng = np.maximum(cell.came, REGRET_FLOOR), np.random.default_rng(0)
        for i in range(1 + HALVES):
            some = np.arange(len(came)) if not i else rng.permutation(len(came))[: len(came) // 2]
            mine = cell._replace(past=cell.past[..., some], futures=cell.futures[..., some])
            found = figures(mine) | {rule: figure[some] for rule, figure in others.items()}
            for rule, figure in found.items():
                ratio = came[some[figure.argmin()]] / came[some].min()
                rows.append((cell.name, cell.centre, rule, "all" if not i else "halves", np.log(ratio)))
    table = pd.DataFrame(rows, columns=["cell", "centre", "rule", "of", "log"])
    return table.groupby(["cell", "centre", "rule", "of"], sort=False, as_index=False)["log"].mean()


def say_rules(table: pd.DataFrame) -> None:
    """Print the geometric mean, median and worst of each rule by centre."""
    for (centre, of), some in table.groupby(["centre", "of"], sort=False):
        by_rule = some.groupby("rule", sort=False)["log"]
        shown = np.exp(pd.DataFrame({"mean": by_rule.mean(), "median": by_rule.median(), "worst": by_rule.max()}))
        print(f"{centre}, {some['cell'].nunique()} cells, {of}", shown.round(2).to_string(), sep="\n")


def judge(cell: Cell, drift: Drift | None) -> list[dict[str, object]]:
    """Return a row for each of the packages that the rule puts first."""
    past, futures, came = cell.past, cell.futures, cell.came
    order = np.argsort(figures(cell)["recommended"], kind="stable")[:LISTED]
    waits = futures[:, 0]
    used = learn_drift(past[1:, 0], waits) if drift is None else drift
    look = draw_periods(waits, past[0, 0], order, used)
    best, near = look.best_and_near(order)
    low, high = look.ranges(order, np.full(len(order), np.nan))
    even = [one.mean() for one in look.best_and_near(np.arange(len(came)))]
    shares = [one.mean(axis=0) for one in best_and_near(waits, order)]
    level = np.maximum(came, REGRET_FLOOR)
    old = np.quantile(waits[:, order], (0.2, 0.8), axis=0)
    return [
        {
            "cell": cell.name, "centre": cell.centre, "rank": i + 1, "best": best[i], "near": near[i],
            "is_best": level[row] <= level.min() * (1 + 1e-9), "is_near": level[row] <= level.min() * (1 + NEAR),
            "held": low[i] <= came[row] <= high[i], "factor": max(high[i], 1) / max(low[i], 1),
            "old_factor": max(old[1, i], 1) / max(old[0, i], 1), "ratio": level[row] / level.min(), "apart": used.apart,
            "even_best": even[0], "even_near": even[1], "futures_best": shares[0][i], "futures_near": shares[1][i],
            "came": came[row], "low": low[i], "high": high[i],
        }
        for i, row in enumerate(order)
    ]  # fmt: skip


def _of_future(waited: np.ndarray, jobs: np.ndarray) -> np.ndarray:
    by_class = np.divide(waited, jobs, out=np.full(waited.shape, np.nan), where=jobs > 0)
    return np.column_stack([waited.sum(axis=1) / max(jobs.sum(), 1), by_class]).T


def say(rows: pd.DataFrame) -> None:
    """Print what was stated and what came true, of the first package and of the first ten."""
    for name, some in (("first package", rows[rows["rank"] == 1]), (f"first {LISTED}", rows)):
        print(f"{name}: {len(some)} in {some['cell'].nunique()} cells; range of {SHARE:.0%} held "
              f"{some['held'].mean():.0%}, a factor of {some['factor'].median():.1f} at the median "
              f"(20 % to 80 % of the futures: {some['old_factor'].median():.1f})")  # fmt: skip
        for what in ("best", "near"):
            stated = some[what]
            print(f"  {what}: stated {stated.mean():.0%}, true {some[f'is_{what}'].mean():.0%}")
            for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 1.01)):
                mine = some[(stated >= low) & (stated < high)]
                if len(mine):
                    print(f"    {low:.0%} to {min(high, 1):.0%}: {len(mine)} stated {mine[what].mean():.0%}, true "
                          f"{mine[f'is_{what}'].mean():.0%}")  # fmt: skip
    both = rows.melt(["cell", "rank"], ["best", "near"], value_name="stated")
    both["true"] = rows[["is_best", "is_near"]].to_numpy(dtype=bool).T.ravel()
    say_middle(both[both["stated"].between(0.4, 0.6)])


def say_scores(rows: pd.DataFrame) -> None:
    """Print the logarithmic score of what is stated, less is better, and of what could be stated instead."""
    what, low = ("best", "near"), 0.5 / DRAWS
    stated, even, futures = (rows[[f"{of}{one}" for one in what]].to_numpy() for of in ("", "even_", "futures_"))
    mixed = {f"{share:.0%} of it even": (1 - share) * stated + share * even for share in EVEN}
    true = rows[["is_best", "is_near"]].to_numpy(dtype=bool)
    scores = {}
    for name, one in {"stated": stated, **mixed, "even": even, "shares of futures": futures}.items():
        chance = np.where(true, one, 1 - one).clip(low, 1 - low)
        by_cell = pd.Series(-np.log(chance).mean(axis=1)).groupby(rows["cell"].to_numpy()).mean()
        middle = (one >= 0.4) & (one <= 0.6)
        scores[name] = by_cell
        print(f"  {name}: {by_cell.mean():.4f}, below stated in {(by_cell < scores['stated']).sum()} of {len(by_cell)} "
              f"cells; of {middle.sum()} of 40 to 60 % {true[middle].sum()} true")  # fmt: skip


def say_middle(middle: pd.DataFrame) -> None:
    """Print how many statements of 40 to 60 % came true, and how many of fair ones would: a cell's stand together."""
    n, stated, true = middle["cell"].nunique(), middle["stated"].mean(), middle["true"].astype(float)
    print(f"best and near, 40 to 60 % stated: {len(middle)} in {n} cells, {int(true.sum())} true ({true.mean():.0%}); "
          f"a mean over cells {true.groupby(middle['cell']).mean().mean():.0%}")  # fmt: skip
    if n:
        low, high = binom.interval(0.95, n, stated) / np.array(n)
        print(f"  {stated:.0%} stated: of {n} independent cells {low:.0%} to {high:.0%} would be true (95 %)")
        by_log = middle.assign(log=middle["cell"].str.split("-").str[0]).groupby("log")["true"].agg(["size", "sum"])
        print("  " + "; ".join(f"{log}: {size}, {right} true" for log, size, right in by_log.itertuples()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/forward-cells"))
    parser.add_argument("--kind", default="learnt")
    parser.add_argument("--until", help="only cuts before this day, judged until then")
    parser.add_argument("--since", help="only cuts from this day on")
    parser.add_argument("--centre", nargs="+", help="instead of all")
    parser.add_argument("--drift", type=float, nargs=2, help=f"instead of what is learnt; stated: {STATED}")
    parser.add_argument("--rules", action="store_true", help="compare the rules' choices instead")
    arguments = parser.parse_args()
    drift = None if arguments.drift is None else Drift(*arguments.drift)
    cells = read_cells(arguments.out, arguments.kind, arguments.centre, arguments.since, arguments.until)
    if arguments.rules:
        say_rules(compare(cells))
        return
    table = pd.DataFrame([row for cell in cells for row in judge(cell, drift)])
    hidden = ["centre", "rank", *(f"{of}_{one}" for of in ("even", "futures") for one in ("best", "near"))]
    print(table[table["rank"] == 1].drop(columns=hidden).round(2).to_string())
    say(table)
    by_centre = list(table.groupby("centre", sort=False))
    for name, some in [("all", table), *by_centre] if len(by_centre) > 1 else by_centre:
        print(f"logarithmic score, {name}, {some['cell'].nunique()} cells:")
        say_scores(some)


if __name__ == "__main__":
    main()
