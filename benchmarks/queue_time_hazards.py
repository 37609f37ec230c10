"""Hold the chance of a start by a deadline against hazards, and against the queue played forward with drawn run times.

python benchmarks/queue_time_hazards.py LOG [--preset NAME] [--seeds 3]

Each alone, not in the mixture. The chance booster learns from pairs of a job and a deadline whether it had started by
then; the hazard booster whether it started by a deadline of those that still waited at the one before, from as many
pairs. The queue is played forward at each submission by `procure.queue_time.replay`, with run times guessed once and
drawn from how far earlier guesses were off. ``before`` is judged on the last 15 % of the training part, ``after`` on
the last 20 % of the log, which is what `procure queue evaluate` judges.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

from procure.queue_time import metrics
from procure.queue_time.booster import LEAFWISE, MAX_BIN, fit_booster, fit_chances, predict
from procure.queue_time.calibrate import GRID, five
from procure.queue_time.evaluation import make_splits, queue_jobs
from procure.queue_time.events import NEVER
from procure.queue_time.features import BACKLOG, site_features
from procure.queue_time.log import Log, read_jobs, wait_times
from procure.queue_time.model import Settings, _deadlines, _pairs
from procure.queue_time.recent import PREFIX
from procure.queue_time.replay import UNKNOWN_RUN, Requests, _replay_all, _used_share
from procure.workload import import_log

SETTINGS = Settings()
BOOSTING: dict[str, object] = LEAFWISE | {
    "max_bin": MAX_BIN, "eta": SETTINGS.eta, "colsample_bytree": SETTINGS.colsample, "subsample": SETTINGS.subsample,
    "reg_lambda": SETTINGS.reg_lambda, "max_leaves": SETTINGS.leaves, "min_child_weight": 2 * SETTINGS.least_weight,
}  # fmt: skip
LAST = 300
"""The last jobs that ended, from which a draw takes how far a guess of the run time was off."""


def judged(matrix: np.ndarray, wait: np.ndarray, train: np.ndarray, test: np.ndarray, seed: int) -> dict[str, object]:
    """Fit both boosters on some rows, and judge them and their mean, on a log scale, on others."""
    deadlines = _deadlines(wait[train], SETTINGS.n_deadlines)
    longest = float(wait[train].max())
    rows, deadline = _pairs(len(train), deadlines, SETTINGS.max_pairs, seed)
    by_then = fit_chances(
        _paired(matrix[train[rows]], deadline), wait[train[rows]] <= deadline, SETTINGS.rounds, seed, **BOOSTING
    )
    rows, at = _waiting(wait[train], deadlines, seed)
    started = (wait[train[rows]] <= deadlines[at]).astype(float)
    hazard = fit_booster(
        _paired(matrix[train[rows]], deadlines[at]),
        started,
        SETTINGS.rounds,
        seed,
        **(BOOSTING | {"objective": "binary:logistic"}),
    )
    each = [[predict(booster, _paired(matrix[test], one)) for one in deadlines] for booster in (by_then, hazard)]
    chances = {
        "chance": np.maximum.accumulate(each[0], axis=0),
        "hazard": 1 - np.cumprod(1 - np.array(each[1]), axis=0),
    }
    curves = {name: _curve(one.T, deadlines, longest) for name, one in chances.items()}
    curves["mean of both"] = (curves["chance"] + curves["hazard"]) / 2
    return {name: losses(wait[test], np.expm1(curve)) for name, curve in curves.items()}


def losses(wait: np.ndarray, curve: np.ndarray) -> dict[str, float]:
    """Return mean error and pinball loss of curves (n, len(GRID)), s."""
    said = five(curve)
    return {"mae": float(np.abs(wait - said[:, 2]).mean()), "pinball": metrics.pinball(wait, said)}


def played_forward(log: Log, capacity: np.ndarray, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Play the queue forward at every submission: with guessed run times (n,), and drawn ones (n, draws), s."""
    limit = np.where(log.limit > 0, log.limit, UNKNOWN_RUN).astype(np.int64)
    usual, ended = _used_share(log), np.flatnonzero((log.start < NEVER) & (log.end < NEVER))
    share = np.ones(log.n)
    ran = ended[log.limit[ended] > 0]
    share[ran] = np.minimum((log.end[ran] - log.start[ran]) / log.limit[ran], 1.0)
    off = (share + 1e-4) / (usual + 1e-4)
    ends = ended[np.argsort(log.end[ended], kind="stable")]
    begun = np.flatnonzero(log.start < NEVER)
    starts = begun[np.argsort(log.start[begun], kind="stable")]
    known, rng = np.searchsorted(log.end[ends], log.submit), np.random.default_rng(seed)

    def play(used: np.ndarray) -> np.ndarray:
        guess = np.maximum(np.rint(limit * used), 1).astype(np.int64)
        asked = Requests(log.start, log.cpus.astype(np.int64), limit, guess)
        moments = (log.submit.astype(np.int64), log.left, log.end)
        return np.asarray(_replay_all(asked, moments, np.maximum(capacity, 1).astype(np.int64), starts, ends))

    drawn = []
    for _ in range(draws):
        other = ends[np.clip(known - 1 - rng.integers(0, LAST, log.n), 0, len(ends) - 1)]
        drawn.append(play(np.clip(usual * np.where(known > 50, off[other], 1.0), 0, 1)))
    return play(usual), np.column_stack(drawn)


def _paired(rows: np.ndarray, deadline: np.ndarray | float) -> np.ndarray:
    return np.column_stack([rows, np.broadcast_to(np.log1p(deadline), len(rows)).astype(np.float32)])


def _waiting(wait: np.ndarray, deadlines: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and the deadlines before which they still waited at the one before, at most `Settings.max_pairs`."""
    rows, at = np.nonzero(wait[:, None] > np.concatenate([[-1.0], deadlines[:-1]]))
    some = np.random.default_rng(seed).permutation(len(rows))[: SETTINGS.max_pairs]
    return rows[some], at[some]


def _curve(chance: np.ndarray, deadlines: np.ndarray, longest: float) -> np.ndarray:
    """Return the quantiles at `GRID` as log(1 + s) of chances (n, k), as `QueueTimeModel` reads them."""
    edges = np.log1p(np.append(deadlines, 2 * longest + 3600))
    levels = np.column_stack([chance, np.ones(len(chance))])
    curve = np.array([np.interp(GRID, one, edges, left=edges[0]) for one in levels])
    curve[:, -1] = edges[-1]
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--preset")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=12)
    arguments = parser.parse_args()
    jobs: pd.DataFrame = queue_jobs(import_log(arguments.log, preset=arguments.preset).jobs)
    table, wait, submit = site_features(jobs), wait_times(jobs), jobs["submit_time"].to_numpy()
    names = [name for name in table.columns if not name.startswith(PREFIX) and name != BACKLOG]
    matrix = table[names].to_numpy(dtype=np.float32)
    [split] = make_splits("chronological", jobs, wait, np.flatnonzero(~np.isnan(wait)), 0, None)
    train = split.train[np.argsort(submit[split.train], kind="stable")]
    first = submit[train[int(0.85 * len(train))]]
    early, late = train[submit[train] + wait[train] < first], train[submit[train] >= first]
    for seed in range(arguments.seeds):
        for part, rows, test in (("before", early, late), ("after", train, split.test)):
            print(json.dumps({"part": part, "seed": seed} | judged(matrix, wait, rows, test, seed)), flush=True)
    guessed, drawn = played_forward(read_jobs(jobs), table["capacity_seen"].to_numpy(), arguments.draws, 0)
    for part, test in (("before", late), ("after", split.test)):
        said = {"guessed": guessed[test, None], "drawn": drawn[test]}
        curves = {name: np.expm1(np.quantile(np.log1p(one), GRID, axis=1).T) for name, one in said.items()}
        row = {name: losses(wait[test], curve) for name, curve in curves.items()}
        print(json.dumps({"part": part} | row), flush=True)


if __name__ == "__main__":
    main()
