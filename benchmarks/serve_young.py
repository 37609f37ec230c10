"""A service's first hours: 150 jobs to learn from, then a surge, replayed with what a young model adds or without.

python benchmarks/serve_young.py
python benchmarks/serve_young.py --before       # as it was
python benchmarks/serve_young.py --log LOG.swf.xz --first 300 --every 900
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import procure
from procure.schemas import JOB
from procure.serve import keeper, ledger
from procure.serve.collector import Collector
from procure.serve.settings import Place, Service, Source
from procure.tables import check

ROWS = 150
"""Jobs to learn from."""


def surge(seed: int, cpus: int = 32) -> pd.DataFrame:
    """Return 150 jobs at ease, then 300 within ten minutes, through one queue in order."""
    rng, n = np.random.default_rng(seed), 450
    calm, rush = rng.integers(0, 900, ROWS), rng.integers(0, 600, n - ROWS)
    submit = np.concatenate([np.sort(calm), 1500 + np.sort(rush)]) + 1_600_000_000
    size, limit = rng.integers(1, 17, n), rng.choice([120, 600, 1800], n)
    run = np.minimum(np.maximum(rng.exponential(14, n).astype(int), 1), limit)
    run[:ROWS] = run[:ROWS] // 2 + 1
    free, start, at = np.full(cpus, submit[0]), np.empty(n, np.int64), submit[0]
    for row in range(n):
        taken = np.argsort(free, kind="stable")[: size[row]]
        start[row] = at = max(at, submit[row], int(free[taken].max()))
        free[taken] = at + run[row]
    own = {"job_id": [str(1000 + row) for row in range(n)], "user": rng.choice(["a", "b", "c"], n), "partition": "cpu"}
    own |= {"submit_time": submit, "requested_time": limit, "run_time": run, "cpus_per_node": size}
    own |= {"start_time": pd.array(start, dtype="Int64"), "end_time": pd.array(start + run, dtype="Int64")}
    return check(pd.DataFrame(own).assign(mem_mb_per_node=100, gpus_per_node=0, state="COMPLETED"), JOB)


def judge(rows: np.ndarray) -> str:
    """Say how forecasts held, of (n, 6) wait, ends, median, last five, week's median."""
    wait, low, high = rows[:, 0], rows[:, 1], rows[:, 2]
    score = high - low + 20 * np.maximum(low - wait, 0) + 20 * np.maximum(wait - high, 0)
    errors = ", ".join(f"{np.abs(wait - rows[:, place]).mean():.0f}" for place in (3, 4, 5))
    missed = f"{(wait < low).mean():.3f} below, {(wait > high).mean():.3f} above"
    return (
        f"{len(rows)} jobs: {((wait >= low) & (wait <= high)).mean():.3f} within 90 % ({missed}), width "
        f"{(high - low).mean():.0f} s, interval score {score.mean():.0f} s; off by {errors} s (median, last five, week)"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--log", type=Path)
    options.add_argument("--first", type=int, default=300, help="Jobs of a log after those to learn from.")
    options.add_argument("--every", type=int, default=30, help="Seconds between two looks.")
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--before", action="store_true", help="Without what a young model adds.")
    given = options.parse_args()
    if given.before:
        ledger.careful = lambda site, table, moments, curve: curve
        keeper.Keeper._hurries = lambda self: False  # type: ignore[method-assign]
        keeper.AGAIN_YOUNG = keeper.AGAIN
    log = surge(given.seed) if given.log is None else procure.read_log(given.log).jobs
    log = log.sort_values("submit_time", kind="stable").head(ROWS + given.first + 1).reset_index(drop=True)
    with tempfile.TemporaryDirectory() as name:
        log.to_parquet(Path(name) / "log.parquet")
        share = (ROWS + 0.5) / len(log)
        source = {"kind": "replay", "log": Path("log.parquet"), "speed": 0, "every": given.every, "train_share": share}
        collector = Collector(Place(Path(name), Service(source=Source(**source))))
        collector.tick()
        while collector.origin.pause() >= 0:
            collector.tick()
        query = "select wait, lower_90, upper_90, median, last_five, week_median from forecasts where wait is not null"
        rows = np.array(collector.store.rows(f"{query} and source != 'late' order by submit_time"), dtype=float)
        print("the first third:", judge(rows[: len(rows) // 3]))
        print("all:", judge(rows))
        collector.close()


if __name__ == "__main__":
    main()
