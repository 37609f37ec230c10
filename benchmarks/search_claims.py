"""Measure `procure search` against the exhaustive truth of real days.

Every distinct package of each day is simulated once (the truth, kept in --truth); then searches of many seeds ask that
table instead of the simulator, the published rule and a passive sample beside them.

    python benchmarks/search_claims.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from claim_precision import ROOT, read_days, sweep_all

from procure.evaluation.ranking import REGRET_FLOOR, find_hits, order
from procure.explorer.observations import Observations
from procure.explorer.propose import Candidates, Proposer, make_proposer, spread
from procure.explorer.run import Progress, Rules, run_rounds
from procure.models import Surrogate, features
from procure.packages import PackageRules, read_quotes
from procure.packages.nodes import package_ids
from procure.packages.space import Space, make_space, package_table

DAYS = ("2021-04-30", "2021-05-21", "2021-05-26", "2021-06-02")
BUDGETS = (250, 1237)
STABLE = 5


class Truth:
    """The exhaustive table of one day, asked as a simulator is."""

    def __init__(self, space: Space, listed: np.ndarray, table: pd.DataFrame) -> None:
        ids = package_ids(listed, space.quotes["name"].tolist())
        found = table.set_index("package_id").reindex(ids)
        self.space, self.listed = space, listed
        self.wait = found["mean_wait_time"].to_numpy(float)
        self.left_out = found["n_unrunnable"].to_numpy(np.int64)
        self._row = {counts.tobytes(): row for row, counts in enumerate(listed)}
        self.ranked = np.flatnonzero(self.left_out == self.left_out.min())
        self.best = float(self.wait[self.ranked].min())
        self.threshold = find_hits(self.wait[self.ranked]).threshold

    def rows(self, counts: np.ndarray) -> np.ndarray:
        return np.array([self._row[each.tobytes()] for each in counts], dtype=np.int64)

    def regret(self, wait: float) -> float:
        return (wait - self.best) / max(self.best, REGRET_FLOOR)

    def precision(self, rows: np.ndarray) -> float:
        hits = (self.left_out[rows] == self.left_out.min()) & (self.wait[rows] <= self.threshold)
        return float(hits.sum()) / 50


class ByChance(Proposer):
    """Packages drawn at random from those that run every job."""

    def propose(self, known: Observations, number: int, n: int) -> np.ndarray:
        """Return the first n of a fresh draw that are not known."""
        drawn = self.candidates.draw(n + len(known), np.random.default_rng([self._seed, 1 + number]))
        return drawn[~known.has(drawn)][:n]


class ByExchange(Proposer):
    """Hill climbing: the neighbours of the best known package, or of the next best once these are used up."""

    def propose(self, known: Observations, number: int, n: int) -> np.ndarray:
        """Return neighbours of the best packages, or at first packages of all combinations of types."""
        rng = np.random.default_rng([self._seed, 1 + number])
        if len(known.order()) == 0:
            return spread(self.candidates.draw(20_000, rng), known, rng)[:n]
        found = known.counts[:0]
        for row in known.order():
            near = self.candidates.near(known.counts[[row]], 4 * n, rng)
            near = near[~known.has(near)]
            near = near[rng.permutation(len(near))]
            found = np.unique(np.concatenate([found, near[: n - len(found)]]), axis=0)
            if len(found) >= n:
                break
        return found


BASELINES = {"greedy": ByExchange, "random": ByChance}


def one_search(truth: Truth, method: str, seed: int, budget: int) -> dict[str, float]:
    """Search once with the largest budget; a smaller one is its beginning."""
    field = Candidates(truth.space, lambda counts: truth.left_out[truth.rows(counts)], seed, truth.listed)
    known, stable = Observations(truth.space), budget

    def on_round(progress: Progress) -> None:
        nonlocal stable
        if progress.n_unchanged >= STABLE and stable == budget:
            stable = len(known)

    began = time.perf_counter()
    baseline = BASELINES.get(method)
    run_rounds(
        known, field, baseline(field, seed) if baseline else make_proposer(method, field, seed, budget),
        lambda counts: truth.wait[truth.rows(counts)], Rules(budget, stable_rounds=0), on_round=on_round,
    )  # fmt: skip
    found: dict[str, float] = {"seconds": time.perf_counter() - began, "stable_at": stable}
    able = np.where(known.left_out == truth.left_out.min(), known.value, np.inf)
    for n in sorted({*(b for b in BUDGETS if b < budget), budget, stable}):
        name = "stable" if n == stable and n not in (*BUDGETS, budget) else str(n)
        found[f"regret@{name}"] = truth.regret(float(able[:n].min()))
        rows = truth.rows(known.counts[:n])
        head = rows[np.lexsort((known.cents[:n], known.value[:n], known.left_out[:n]))][:50]
        found[f"precision@{name}"] = truth.precision(head)
    return found


def passive(truth: Truth, seed: int, budget: int) -> dict[str, float]:
    """A random sample, composition features, the predicted first 50 simulated too: the same budget."""
    rng = np.random.default_rng(seed)
    sample = rng.permutation(truth.ranked)[: budget - 50]
    table = package_table(truth.listed[truth.ranked], truth.space)
    x, place = features(table, truth.space.quotes).to_numpy(), np.searchsorted(truth.ranked, np.sort(sample))
    began = time.perf_counter()
    predicted = Surrogate(seed=seed).fit(x[place], truth.wait[np.sort(sample)]).predict(x)
    ranking = truth.ranked[order(predicted, table["price_usd"].to_numpy())]
    new = ranking[~np.isin(ranking, sample)][:50]
    bought = min(truth.wait[sample].min(), truth.wait[new].min())
    return {
        f"regret@{budget}": truth.regret(float(bought)),
        f"precision@{budget}": truth.precision(ranking[:50]),
        "seconds": time.perf_counter() - began,
    }


def repeated(name: str, day: str, once: Callable[[int], dict[str, float]], seeds: int) -> pd.DataFrame:
    table = pd.DataFrame([once(seed) for seed in range(seeds)])
    print(f"{day} {name}", flush=True)
    for column in table.columns:
        values = table[column].to_numpy(float)
        text = f"median {np.nanmedian(values):.4f}  least {np.nanmin(values):.4f}  most {np.nanmax(values):.4f}"
        if column.startswith("regret"):
            text += "  " + "  ".join(f"≤ {x:.0%}: {(values[~np.isnan(values)] <= x).mean():.0%}" for x in (0.01, 0.05))
        print(f"    {column:15s} {text}", flush=True)
    return table


def measure_days(arguments: argparse.Namespace) -> None:
    quotes = ROOT / "quotes" / "example-2023.csv"
    space = make_space(read_quotes(quotes), PackageRules(rules="published", budget_usd=1_000_000))
    listed = space.listed()
    assert listed is not None
    days = arguments.day or list(DAYS)
    missing = [day for day in days if not (arguments.truth / f"{day}.parquet").exists()]
    logs = sorted((arguments.data / "beocat_2021").glob("*.csv.xz"))
    jobs = read_days(logs, missing, "America/Chicago", "beocat") if missing else {}
    for day in days:
        truth = Truth(space, listed, sweep_all(jobs.get(day), day, quotes, arguments.truth, 1_000_000))
        print(f"\n{day}: {len(truth.ranked):,} packages run every job, the best waits {truth.best:,.2f} s")
        repeated("model", day, lambda seed: one_search(truth, "model", seed, max(BUDGETS)), arguments.seeds)  # noqa: B023
        if arguments.baselines:
            repeated("passive", day, lambda seed: passive(truth, seed, 1237), arguments.seeds)  # noqa: B023
            for method, budget, n in (("every-tenth", 12_375, 1), ("greedy", 1237, 5), ("random", 1237, 20)):
                repeated(method, day, lambda seed: one_search(truth, method, seed, budget), n)  # noqa: B023


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--truth", type=Path, default=Path("results/claim_precision"))
    parser.add_argument("--day", action="append", help="local day, YYYY-MM-DD; repeat")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--no-baselines", dest="baselines", action="store_false")
    arguments = parser.parse_args()
    measure_days(arguments)


if __name__ == "__main__":
    main()
