"""The learned rest: boosted trees of the hold that each job of a log met, from what was seen as it was submitted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xgboost

from procure.fitting.model import KEYS, Rest
from procure.fitting.policy import make_watch
from procure.fitting.trees import of_booster
from procure.fitting.watch import FEATURES, see

PRIOR = 10
"""Jobs that the mean of all counts for in that of a user, partition or account."""
SETTINGS = {
    "max_depth": 5, "eta": 0.04, "subsample": 0.7, "tree_method": "hist", "nthread": 1, "seed": 0,
    "objective": "reg:squarederror",
}  # fmt: skip
N_TREES = 300


class LogArrays(NamedTuple):
    """A log as `procure.fitting.policy.make_watch` takes it, by submission."""

    user: np.ndarray
    submit: np.ndarray
    requested: np.ndarray
    n_nodes: np.ndarray
    cpus: np.ndarray
    mem: np.ndarray


def waits_of(jobs: pd.DataFrame) -> np.ndarray:
    """Return how long each job waited, s, from its submission."""
    return np.maximum((jobs["start_time"] - jobs["submit_time"]).to_numpy(np.int64), 0)


def features_of(jobs: pd.DataFrame, means: np.ndarray, capacity: int) -> np.ndarray:
    """Return what was seen as each job of a log was submitted: float64[n_jobs, n_features].

    Parameters
    ----------
    jobs
        From `procure.account.layout.started_jobs`.
    means
        float64[n_jobs, 3], as `Rest.means_of`.
    capacity
        CPUs of the centre.
    """
    origin = int(jobs["submit_time"].min())
    submit, start = (jobs[name].to_numpy(np.int64) - origin for name in ("submit_time", "start_time"))
    arrays = LogArrays(
        pd.factorize(jobs["user"].fillna(""))[0].astype(np.int64),
        submit,
        *(jobs[name].to_numpy(np.int64) for name in ("requested_time", "n_nodes", "cpus_per_node", "mem_mb_per_node")),
    )
    watch = make_watch(arrays, means, float(max(capacity, 1)), origin)
    n = len(jobs)
    end = start + jobs["run_time"].to_numpy(np.int64)
    # At one moment ends come first, then submissions, then starts; a job of no length ends after it starts.
    at = np.concatenate([end, submit, start])
    kind = np.repeat([0, 2, 1], n)
    turn = np.concatenate([np.where(end > start, 0, 3), np.full(n, 1), np.full(n, 2)])
    job = np.tile(np.arange(n), 3)
    order = np.lexsort((job, turn, at))
    rows = np.zeros((n, len(FEATURES)))
    see(watch, at[order].astype(np.int64), kind[order].astype(np.int64), job[order], rows)
    return rows


def learn_rest(jobs: pd.DataFrame, capacity: int, target: np.ndarray, scale: float) -> Rest:
    """Learn the rest from a log.

    Parameters
    ----------
    jobs
        From `procure.account.layout.started_jobs`.
    capacity
        CPUs of the centre.
    target
        int64[n_jobs], s: what the trees predict the logarithm of.
    scale
        By which the policy multiplies what they predict.
    """
    log_target, log_wait = np.log1p(target), np.log1p(waits_of(jobs))
    mean = float(log_wait.mean())
    before = np.full((len(jobs), 3), mean)
    names: list[np.ndarray] = []
    means: list[np.ndarray] = []
    for i, key in enumerate(KEYS):
        given = jobs[key].fillna("").astype(str) if key in jobs else pd.Series("", index=jobs.index)
        number, distinct = pd.factorize(given)
        n_before = pd.Series(1, index=jobs.index).groupby(number).cumsum().to_numpy() - 1
        sum_before = pd.Series(log_wait, index=jobs.index).groupby(number).cumsum().to_numpy() - log_wait
        before[:, i] = (sum_before + PRIOR * mean) / (n_before + PRIOR)
        count = np.bincount(number, minlength=len(distinct))
        total = np.bincount(number, log_wait, minlength=len(distinct))
        names.append(np.array(distinct, str))
        means.append((total + PRIOR * mean) / (count + PRIOR))
    rows = features_of(jobs, before, capacity)
    data = xgboost.DMatrix(rows.astype(np.float32), label=log_target)
    least = max(5, min(50, len(jobs) // 500))
    booster = xgboost.train(SETTINGS | {"min_child_weight": least}, data, num_boost_round=N_TREES)
    return Rest(
        of_booster(booster),
        rows.min(0),
        rows.max(0),
        tuple(names),  # type: ignore[arg-type]
        tuple(means),  # type: ignore[arg-type]
        mean,
        float(log_wait[-200:].mean()),
        scale,
        float(log_target.max()),
    )
