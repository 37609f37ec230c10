"""Judge the first recommendation by each objective against results of every package.

    procure sweep STUDY.toml                      # a sample, e.g. every tenth package on many days
    procure sweep TRUTH.toml                      # the same days and quotes, sample = 1
    python benchmarks/objectives.py STUDY.toml results/TRUTH/results.parquet

Every objective that comes from simulation is learnt from the sample, the head of its list confirmed, and the
first package looked up among all packages that run every job on every day. The regret is divided by the best
value, but by no less than 60 s where that is a wait; of regret-max it is the difference. Last, the front of
wait against price is compared with the true one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure.models.case import simulated_values
from procure.objectives import OBJECTIVES
from procure.objectives.aggregate import REGRET_FLOOR
from procure.objectives.pareto import front
from procure.recommender import Criteria, StudyResults, load_results
from procure.recommender.recommender import recommend
from procure.recommender.values import PackageValues

RESULT = [one for one in OBJECTIVES.values() if one.source == "result"]
AXES = (OBJECTIVES["mean-wait"], OBJECTIVES["price"])


def truth_of(loaded: StudyResults, path: Path) -> PackageValues:
    columns = Criteria(axes=tuple(RESULT)).result_columns
    held = ["package_id", "workload", "policy", "status", "reason", *columns]
    results = pd.read_parquet(path, columns=held)
    packages = loaded.cases[0].packages
    values = {
        column: np.array([simulated_values(packages, results, one.name, loaded.policy, column) for one in loaded.cases])
        for column in columns
    }
    return PackageValues(loaded.cases, values)


def judge(loaded: StudyResults, truth: PackageValues, name: str, k: int) -> str:
    began, objective = time.perf_counter(), OBJECTIVES[name]
    found = recommend(loaded, objective=name, k=k, resamples=0)
    taken = time.perf_counter() - began
    values, _ = truth.value(objective)
    able = truth.whole.runs_all
    rows = found.ranking["row"].to_numpy()[: found.k]
    best, first = values[able].min(), values[rows[0]]
    scale = 1.0 if objective.unit == "share" else max(best, REGRET_FLOOR if objective.unit == "s" else 0.0)
    among = np.sort(values[able])[min(k, int(able.sum())) - 1]
    near = int((values[able] <= best * 1.05).sum())
    return (
        f"{name:12} {best:>12,.3f} {first:>12,.3f} {(first - best) / scale:>8.2%} "
        f"{int((values[able] < first).sum()) + 1:>6,} {(values[rows] <= among).mean():>8.2f} {near:>10,} "
        f"{found.n_verified:>10,} {taken:>8,.0f}"
    )


def compare_fronts(loaded: StudyResults, truth: PackageValues) -> str:
    found = recommend(loaded, pareto=[axis.name for axis in AXES])
    assert found.front is not None
    rows = np.flatnonzero(truth.whole.runs_all)
    points = np.column_stack([truth.value(axis)[0][rows] for axis in AXES])
    real = rows[front(points)]
    here = np.isin(real, found.front["row"])
    kept = np.isin(found.front["row"], real)
    waits, prices = (truth.value(axis)[0] for axis in AXES)
    mine = found.front["row"].to_numpy()
    # For each package of the true front: the least wait at no higher price on the front that was found.
    there = [waits[mine[prices[mine] <= prices[row]]].min(initial=np.inf) for row in real]
    lost = (np.array(there) - waits[real]) / np.maximum(waits[real], REGRET_FLOOR)
    return (
        f"front of wait against price: {len(real)} packages; found {here.sum()} of them among {len(mine)} "
        f"({kept.sum()} truly on it); at the price of each true one, the wait found is longer by "
        f"{np.median(lost):.1%} (median), {np.quantile(lost, 0.9):.1%} (90 %)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--objective", nargs="*", default=[one.name for one in RESULT])
    parser.add_argument("-k", type=int, default=50)
    asked = parser.parse_args()
    loaded = load_results(asked.study)
    truth = truth_of(loaded, asked.truth)
    n_able, n_known = int(truth.whole.runs_all.sum()), int((truth.simulated & truth.whole.runs_all).sum())
    print(f"{len(loaded.cases)} workloads; {n_known:,} of {n_able:,} packages that run every job are in the truth")
    print(f"objective            best        first   regret   rank  prec@{asked.k}  within 5%  simulated  seconds")
    for name in asked.objective:
        print(judge(loaded, truth, name, asked.k), flush=True)
    print(compare_fronts(loaded, truth))


if __name__ == "__main__":
    main()
