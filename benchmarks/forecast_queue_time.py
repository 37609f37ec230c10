"""Do expected arrivals of the next 1, 4 and 12 hours help the queue-time model?

python benchmarks/forecast_queue_time.py LOG [--preset P] [--tz ZONE] [--last N] [--seeds N]

The log is cut as `procure queue evaluate --split chronological` cuts it; its training rows are cut again the same
way, and a booster of three quantiles, with the settings of the model's, learns the earlier part without and with the
features (`inner`); then all training rows (`test`). The features are kept only if the inner validation gains.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import pandas as pd

from procure.forecast.boosted import boosted
from procure.forecast.confidence import make_forecasts
from procure.forecast.periods import Patterns, PatternSettings
from procure.queue_time.booster import LEAFWISE, fit_quantiles, predict
from procure.queue_time.evaluation import queue_jobs
from procure.queue_time.features import site_features
from procure.queue_time.log import wait_times
from procure.queue_time.model import Settings
from procure.queue_time.recent import PREFIX
from procure.queue_time.splits import Split, chronological
from procure.workload import import_log

HOUR = 3600
HOURS = (1, 4, 12)
LEVELS = np.array([0.05, 0.5, 0.95])
COUNTED = HOUR
"""s of a burst whose jobs are counted: over before any forecast of it is less than `HOURS` away."""


def arrivals(jobs: pd.DataFrame, tz: str | None) -> pd.DataFrame:
    """Return, per job in order of submission, the bursts and CPUs expected within the next `HOURS`, float32.

    A forecast counts from the moment that it lies so near until its time, or until a like burst came.
    """
    patterns = Patterns(PatternSettings(tz=tz))
    burst = patterns.extend(jobs)
    submit = jobs["submit_time"].to_numpy(np.int64)
    cpus = (jobs["cpus_per_node"].clip(lower=1) * jobs["n_nodes"]).to_numpy(np.float64)
    counted = submit - patterns.bursts.start[burst] <= COUNTED
    width = np.bincount(burst, cpus * counted, len(patterns.bursts.key))
    columns = {}
    for name in ("day", "week"):
        f = make_forecasts(patterns, name)
        sure, again = boosted(patterns, f), patterns.bursts.again[f.layer]
        over = np.where(f.came, np.minimum(again, f.expected), f.expected)
        for hours in HOURS:
            near = np.maximum(f.expected - hours * HOUR, f.issued + 1)
            for what, weight in (("bursts", sure), ("cpus", sure * width[f.burst])):
                change = np.zeros(len(submit) + 1)
                some = near < over
                np.add.at(change, np.searchsorted(submit, near[some]), weight[some])
                np.add.at(change, np.searchsorted(submit, over[some]), -weight[some])
                columns[f"{name}_{what}_{hours}h"] = np.cumsum(change)[:-1].astype(np.float32)
    return pd.DataFrame(columns)


def judged(matrix: np.ndarray, wait: np.ndarray, split: Split, seed: int) -> tuple[float, float]:
    """Return the pinball loss over `LEVELS` and the mean absolute error of the median, s."""
    chosen = Settings()
    settings = LEAFWISE | {
        "eta": chosen.eta, "colsample_bytree": chosen.colsample,
        "subsample": chosen.subsample, "reg_lambda": chosen.reg_lambda, "min_child_weight": chosen.least_weight,
    }  # fmt: skip
    target = np.sqrt(wait[split.train])
    booster = fit_quantiles(matrix[split.train], target, LEVELS, chosen.rounds, seed, **settings)
    found = np.sort(predict(booster, matrix[split.test]).reshape(-1, len(LEVELS)), axis=1).clip(min=0) ** 2
    truth = wait[split.test]
    loss = [np.mean(np.maximum(q * (truth - v), (q - 1) * (truth - v))) for q, v in zip(LEVELS, found.T, strict=True)]
    return float(np.mean(loss)), float(np.abs(found[:, 1] - truth).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--preset")
    parser.add_argument("--tz")
    parser.add_argument("--last", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    jobs = queue_jobs(import_log(given.log, preset=given.preset).jobs)
    features, wait, submit = site_features(jobs), wait_times(jobs), jobs["submit_time"].to_numpy()
    own = features[[name for name in features if not name.startswith(PREFIX)]].to_numpy(np.float32)
    both = np.column_stack([own, arrivals(jobs, given.tz).to_numpy()])
    rows = np.flatnonzero(~np.isnan(wait))[-(given.last or len(wait)) :]
    outer = _of_rows(chronological(submit[rows], wait[rows]), rows)
    inner = _of_rows(chronological(submit[outer.train], wait[outer.train]), outer.train)
    for name, split in (("inner", inner), ("test", outer)):
        began = time.process_time()
        values = np.array(
            [[judged(m, wait, split, seed) for m in (own, both)] for seed in range(given.seeds)]
        )  # seed, without or with, pinball or error
        ratio = values[:, 1] / values[:, 0]
        print(
            json.dumps(
                {
                    "split": name, "n_train": len(split.train), "n_test": len(split.test),
                    "pinball": values[:, :, 0].mean(0).round(1).tolist(),
                    "mae": values[:, :, 1].mean(0).round(1).tolist(),
                    "pinball_with_to_without": ratio[:, 0].round(4).tolist(),
                    "mae_with_to_without": ratio[:, 1].round(4).tolist(),
                    "cpu_seconds": round(time.process_time() - began, 1),
                }
            ),
            flush=True,
        )  # fmt: skip


def _of_rows(split: Split, rows: np.ndarray) -> Split:
    return Split(split.name, rows[split.train], rows[split.test], split.cut)


if __name__ == "__main__":
    main()
