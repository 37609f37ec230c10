"""What would help the recommended rule on weekly cuts (docs/claims/forward.md), on the replays of forward_backtest.py.

python benchmarks/forward_variants.py --until 2021-05-05 --cut 2021-03-31 2021-04-07 2021-04-14 2021-04-21 2021-04-28
python benchmarks/forward_variants.py --cut 2021-05-05 2021-05-12 2021-05-19

Each variant chooses in each cell among all candidates and among random halves of them; then what is stated with other
spreads of periods.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from forward_backtest import at_cut, day_of, some_of
from forward_chances import Cell, judge, say

from procure.objectives.aggregate import CLASS_SHARE, REGRET_FLOOR, rank_shares
from procure.recommender.chances import STATED, Drift, learn_drift
from procure.recommender.earlier_cuts import FIXED, EarlierCut, rule_figures
from procure.workload.past import scenario_weights

HALVES = 12
CAP = 2.0
DRIFTS = (STATED, Drift(0.45, 0.5), Drift(0.3, 0.85), Drift(0.3, 0.5))
Score = Callable[[np.ndarray], np.ndarray]


def _log(waits: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(waits, REGRET_FLOOR))


def _squares(waits: np.ndarray) -> np.ndarray:
    return rank_shares(waits) ** 2


def _over_best(waits: np.ndarray) -> np.ndarray:
    off = _log(waits) - _log(waits).min(axis=1, keepdims=True)
    return (np.minimum(off, CAP) / CAP) ** 2


def _scored(cut: EarlierCut, score: Score, share: float) -> np.ndarray:
    """Return the weighted mean of a score over the past, its parts and futures; classes count a share."""

    def of(waits: np.ndarray) -> np.ndarray:
        none = np.isnan(waits).all(axis=2, keepdims=True)
        known = np.where(none, 0.0, waits)
        each = np.stack([score(known[:, i]) for i in range(waits.shape[1])])
        return (1 - share) * each[0] + share * each[1:].mean(axis=0)

    every = np.vstack([of(cut.past), of(cut.futures).mean(axis=0)])
    return np.average(every, axis=0, weights=scenario_weights(1))


def variants(cut: EarlierCut) -> dict[str, np.ndarray]:
    """Return what each variant orders the packages by."""
    found = rule_figures(cut.past, cut.futures) | {
        "without classes": _scored(cut, _squares, 0.0),
        "mean logarithm, no classes": _scored(cut, _log, 0.0),
        "squared logarithm over the best, at most 2": _scored(cut, _over_best, CLASS_SHARE),
    }
    past = np.maximum(cut.past[0, 0], REGRET_FLOOR)
    for most in (1.25, 1.5, 2.0):
        found[f"past at most {most:g} times the least"] = found[FIXED] + 10 * (past > most * past.min())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/forward-backtest"))
    parser.add_argument("--cut", nargs="+", required=True)
    parser.add_argument("--until", help="judge until this day at most")
    arguments = parser.parse_args()
    rows, cells = [], []
    for file in sorted(arguments.out.glob("beocat-*.npz")):
        held = dict(np.load(file))
        for name in (one for one in arguments.cut if f"futures {one} 1" in held):
            cut = at_cut(held, name, None if arguments.until is None else day_of(held, arguments.until))
            cells.append(Cell(f"{file.stem}.{name}", "beocat", cut.past, cut.futures, cut.came))
            rng, n = np.random.default_rng(0), len(cut.came)
            for i in range(1 + HALVES):
                mine = some_of(cut, rng.permutation(n)[: n // 2] if i else np.arange(n))
                came = np.maximum(mine.came, REGRET_FLOOR)
                for rule, figure in variants(mine).items():
                    log = np.log(came[figure.argmin()] / came.min())
                    rows.append((cells[-1].name, rule, "halves" if i else "all", log))
    table = pd.DataFrame(rows, columns=["cell", "rule", "of", "log"])
    by_cell = table.groupby(["cell", "rule", "of"], sort=False, as_index=False)["log"].mean()
    log = by_cell.groupby(["rule", "of"], sort=False)["log"]
    found = np.exp(pd.DataFrame({"mean": log.mean(), "median": log.median(), "worst": log.max()}))
    for of in ("all", "halves"):
        print(f"{len(cells)} cells, {of}", found.xs(of, level="of").round(2).to_string(), sep="\n")
    for drift in DRIFTS:
        print(f"level {drift.level}, apart {drift.apart}")
        stated = []
        for one in cells:
            apart = learn_drift(one.past[1:, 0], one.futures[:, 0]).apart * drift.apart / STATED.apart
            stated += judge(one, Drift(drift.level, apart))
        say(pd.DataFrame(stated))


if __name__ == "__main__":
    main()
