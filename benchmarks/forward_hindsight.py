"""Buy on Beocat from 4,000 packages that run every job, and judge against the best in hindsight, found exactly.

python benchmarks/forward_hindsight.py --data ../shared/data --budget 1000000 --keep 0 --cut 2021-04-04 2021-05-05
python benchmarks/forward_claims.py cells --out results/forward-4000

A replay does not look ahead: what has been waited until a moment is the same whatever is submitted after it. So the
first days of a month give a lower bound of a package's total wait over the month, and where that is above `NEAR_BEST`
times the total of another package, the rest need not be replayed. So are found, exactly: the best of all, the share
that is near it, the best of the odd and of the even days, and the best of the past.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import forward_claims as claims
import numpy as np
import pandas as pd

from procure import load_plan, load_study
from procure.objectives.aggregate import REGRET_FLOOR
from procure.recommender import candidates, choosing
from procure.recommender import forward as rules
from procure.recommender.race import by_rank
from procure.run import run_prepared
from procure.study.plan import read_past_jobs
from procure.sweep.runner import Bench
from procure.workload.clock import day_bounds
from procure.workload.futures import draw_futures

DAY = 86_400
N_SAMPLE, N_HEAD = 40, 10
"""Replayed to the end first: so many packages, which tell after how many days to stop; then so many by the bounds."""


class Hindsight:
    """Total waits of packages over the odd and the even days of some jobs, s; or lower bounds of them."""

    def __init__(self, field: candidates.Candidates, jobs: pd.DataFrame, warm_up: int, by_parity: bool) -> None:
        self.field, self.jobs, self.warm_up, self.by_parity = field, jobs, warm_up, by_parity
        self.first = int(jobs["submit_time"].min())
        self.whole = self.lay_out(None)
        self.n_days = -(-int(self.whole.ready.jobs.submit[-1] - warm_up) // DAY)
        self.total = np.zeros((len(field.ids), 2))
        self.is_exact = np.zeros(len(field.ids), dtype=bool)
        self.replayed = 0.0  # in whole replays

    def lay_out(self, days: int | None) -> Bench:
        """Lay out the jobs of the first days after the warm-up; None = all."""
        jobs = self.jobs
        if days is not None:
            jobs = candidates.between(jobs, self.first, self.first + self.warm_up + days * DAY)
            jobs.attrs = dict(self.jobs.attrs)
        return self.field.lay_out(jobs, self.warm_up)

    def waits(self, bench: Bench, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Replay a package; return submissions and starts of the jobs that count, s after the first submission."""
        ready, n = bench.ready, bench.n_existing
        nodes = np.concatenate([np.arange(n), np.repeat(np.arange(n, len(ready.kind_of)), self.field.counts[row])])
        mine = {name: getattr(ready, name)[nodes] for name in ("kind_of", "leaf", "pod")}
        start, submit = run_prepared(replace(ready, **mine), bench.policy).start, ready.jobs.submit
        counts = submit >= ready.counts_from
        return submit[counts], start[counts]

    def until(self, submit: np.ndarray, start: np.ndarray, days: int) -> np.ndarray:
        """Return what has been waited by the end of some days, by jobs of odd and of even days, s."""
        at = self.warm_up + days * DAY
        wait = np.where(submit < at, np.minimum(start, at) - submit, 0)
        odd = (submit - self.warm_up) // DAY % 2 == 1
        return np.array([wait[odd].sum(), wait[~odd].sum()], dtype="float64")

    def to_the_end(self, rows: np.ndarray) -> None:
        """Replay some packages on all jobs."""
        for row in rows[~self.is_exact[rows]]:
            submit, start = self.waits(self.whole, row)
            odd = (submit - self.warm_up) // DAY % 2 == 1
            wait = start - submit
            self.total[row] = wait[odd].sum(), wait[~odd].sum()
            self.is_exact[row] = True
            self.replayed += 1

    def may_be_best(self, total: np.ndarray) -> np.ndarray:
        """Return which of some bounds are not beaten yet by a total that is known."""
        known = self.total[self.is_exact]
        floor = REGRET_FLOOR * self.whole.ready.n_counted
        near = max(floor, known.sum(axis=1).min()) * (rules.NEAR_BEST if self.by_parity else 1.0)
        found = total.sum(axis=1) <= near
        return found | (total <= known.min(axis=0)).any(axis=1) if self.by_parity else found

    def find(self, first: np.ndarray, rows: np.ndarray) -> Hindsight:
        """Replay packages until none that is not replayed to its end may be the best; the ``first`` wholly."""
        self.to_the_end(first)
        sample = rows[:N_SAMPLE]
        bounds = np.zeros((self.n_days, len(sample), 2))
        for i, row in enumerate(sample):
            submit, start = self.waits(self.whole, row)
            bounds[:, i] = [self.until(submit, start, days) for days in range(self.n_days)]
        self.to_the_end(sample)
        alive = np.array([self.may_be_best(one).mean() for one in bounds])
        share = (np.arange(self.n_days) * DAY + self.warm_up) / (self.n_days * DAY + self.warm_up)
        share[0] = 0.0  # to stop after no day is not to stop
        cost = share[:, None] + alive[:, None] * share[None, :] + alive[None, :]
        cost = np.where(share[:, None] < share[None, :], cost, np.inf)
        stops = np.unravel_index(int(cost.argmin()), cost.shape) if cost.min() < 1 else ()
        for days in (int(one) for one in stops if one):
            rows = rows[~self.is_exact[rows]]
            bench = self.lay_out(days)
            for row in rows:
                self.total[row] = self.until(*self.waits(bench, row), days)
            self.replayed += len(rows) * float(share[days])
            self.to_the_end(rows[np.argsort(self.total[rows].sum(axis=1), kind="stable")][:N_HEAD])
            rows = rows[self.may_be_best(self.total[rows])]
        self.to_the_end(rows)
        return self

    def mean(self) -> np.ndarray:
        """Return mean waits, s; lower bounds where a package is not replayed to its end."""
        return self.total.sum(axis=1) / self.whole.ready.n_counted

    def odd_days_ratio(self) -> tuple[float, float]:
        """Return the ratio on the even days of the best of the odd ones, and the other way round."""
        submit = self.whole.ready.jobs.submit
        odd = (submit - self.warm_up) // DAY % 2 == 1
        counts = submit >= self.whole.ready.counts_from
        total = np.where(self.is_exact[:, None], self.total, np.inf)
        wait = (total / [(counts & odd).sum(), (counts & ~odd).sum()]).T
        return tuple(candidates.ratio_of(b, int(a.argmin())) for a, b in (wait, wait[::-1]))


def buy(path: Path, cut: str, n: int, runs: int) -> None:
    """Let each rule choose as of a cut, and judge the choices."""
    began, study = time.process_time(), load_study(path)
    jobs, warm_up = read_past_jobs(study, print), study.workloads[0].warm_up
    name, length = study.workloads[0].name, study.futures.length
    plan = replace(load_plan(study.model_copy(update={"futures": None})), workloads={name: jobs})
    at = day_bounds(cut, claims.CHICAGO)[0]
    field = candidates.draw_candidates(plan, "best-fit", candidates.between(jobs, 0, at + length), n, seed=1)
    before, after = candidates.between(jobs, 0, at), candidates.between(jobs, at - warm_up, at + length)
    before.attrs, after.attrs = dict(jobs.attrs), dict(jobs.attrs)
    settings = study.futures.model_copy(update={"years": 0.0})
    chosen = choosing.by_futures(
        field, list(draw_futures(before, settings)), warm_up, runs, print, {"futures": by_rank}
    )
    raced, futures_took = chosen[0].raced, time.process_time() - began
    some = np.arange(len(field.ids))[:runs]
    past = Hindsight(field, before, warm_up, by_parity=False).find(some[:0], some)
    waited = np.where(past.is_exact, past.mean(), np.inf)
    chosen.append(choosing.Choice("past", int(waited.argmin()), len(some)))
    past_took = time.process_time() - began
    chosen += [*choosing.by_days(field, before, settings.tz, runs), *choosing.naive(field)]
    days_took = time.process_time() - began
    came = Hindsight(field, after, warm_up, by_parity=True)
    came.find(np.array(list(dict.fromkeys(one.row for one in chosen))), np.arange(len(field.ids)))
    table = judge(cut, field, came, chosen)
    ratios = came.odd_days_ratio()
    table.to_csv(path.with_suffix(f".{cut}.csv"), index=False)
    np.savez_compressed(
        path.with_suffix(f".{cut}.npz"), wait=raced.wait, filled=raced.filled, total=came.total,
        is_exact=came.is_exact, counts=field.counts,
    )  # fmt: skip
    odd = {"cell": f"{path.stem}.{cut}", "odd_days_ratio": float(np.sqrt(np.prod(ratios)))}
    pd.DataFrame([odd]).to_csv(path.with_suffix(f".{cut}.{claims.ODD_DAYS}.csv"), index=False)
    print(table[["rule", "package_id", "mean_wait_time", "ratio", "n_runs"]].round(2).to_string(index=False))
    took = [
        futures_took,
        past_took - futures_took,
        days_took - past_took,
        time.process_time() - began - days_took,
    ]
    print(f"{path.stem}.{cut}: {len(field.ids):,} packages; {past.replayed:.0f} replays of the past and "
          f"{came.replayed:.0f} of what came; the best waits {table['best_mean_wait_time'][0]:.0f} s, "
          f"{table['share_near_best'][0]:.2%} near it; odd days {ratios[0]:.2f}, {ratios[1]:.2f}; CPU of futures, "
          f"past, days, hindsight: {np.round(took)} s", flush=True)  # fmt: skip


def judge(cut: str, field: candidates.Candidates, came: Hindsight, chosen: list[choosing.Choice]) -> pd.DataFrame:
    """Return rows as `procure.recommender.forward` does; what needs all packages to the end is missing."""
    wait = np.where(came.is_exact, came.mean(), np.inf)
    best = int(wait.argmin())
    near = (np.maximum(wait, REGRET_FLOOR) <= rules.NEAR_BEST * max(wait[best], REGRET_FLOOR)).mean()
    rows = np.array([one.row for one in chosen])
    runs = field.runs(came.whole, rows)
    if not np.allclose(runs["mean_wait_time"], wait[rows]):
        raise SystemExit("the sweep's kernel and this replay differ")
    stated = np.array([one.stated for one in chosen]).T
    return pd.DataFrame(
        {
            "cut": cut, "rule": [one.rule for one in chosen], "package_id": field.ids[rows],
            "mean_wait_time": wait[rows], "best_package_id": field.ids[best], "best_mean_wait_time": wait[best],
            "ratio": [candidates.ratio_of(wait, row) for row in rows], "n_judged": len(wait),
            "n_runs": [one.n_runs for one in chosen], "saturated": runs["saturated"].to_numpy(),
            "best_chance": stated[0], "near_chance": stated[1], "low_wait_time": stated[2],
            "high_wait_time": stated[3],
            "share_near_best": near,
        }
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("results/forward-4000"))
    parser.add_argument("--budget", type=int, default=1_000_000)
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--cut", nargs="+", default=["2021-04-04", "2021-05-05"])
    parser.add_argument("--packages", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=1500)
    arguments = parser.parse_args()
    path = claims.beocat(arguments)
    for cut in arguments.cut:
        if path.with_suffix(f".{cut}.csv").exists():
            print(f"{path.stem}.{cut} is there already")
            continue
        buy(path, cut, arguments.packages, arguments.runs)


if __name__ == "__main__":
    main()
