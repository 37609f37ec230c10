"""The replay of the queue goes on as the simulator's EASY does, and knows nothing of what comes later."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.queue_time.features import site_features
from procure.queue_time.replay import Requests, replay_queue
from procure.run import simulate
from procure.schemas import JOB, NODE
from procure.tables import check
from tests.test_queue_time_features import random_jobs


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_a_replay_equals_the_simulators_easy(seed: int) -> None:
    """Running jobs with their remaining times and the queue behind them: the last job starts when EASY starts it."""
    rng = np.random.default_rng(seed)
    capacity, n = int(rng.integers(2, 12)), int(rng.integers(1, 14))
    cpus, limit = rng.integers(1, capacity + 1, n), rng.integers(5, 60, n)
    guess = np.array([rng.integers(1, most + 1) for most in limit])
    n_running = int(np.searchsorted(np.cumsum(cpus[:-1]), capacity, side="right"))
    start = np.full(n, 1000)
    start[:n_running] = 1000 - np.array([rng.integers(0, most) for most in guess[:n_running]], dtype=int)
    rows = np.arange(n)
    said = replay_queue(1000, rows[:n_running], rows[n_running:], Requests(start, cpus, limit, guess), capacity)
    left = np.where(rows < n_running, start - 1000, 0)
    jobs = pd.DataFrame(
        {
            "job_id": rows.astype(str), "user": "u", "submit_time": 0, "requested_time": limit + left,
            "run_time": guess + left, "n_nodes": cpus, "cpus_per_node": 1,
        }
    )  # fmt: skip
    nodes = pd.DataFrame({"node_id": np.arange(capacity).astype(str), "cpus": 1, "mem_mb": 1})
    schedule = simulate(check(jobs, JOB), check(nodes, NODE), "easy").schedule
    assert said == schedule["start_time"].iloc[-1]


def test_the_feature_is_zero_in_an_empty_system_and_waits_for_a_full_one() -> None:
    """Nothing runs, no wait; all four CPUs ever seen are taken by a job that is guessed to use its whole limit."""
    times = {"submit_time": [0, 101, 201], "start_time": [0, 101, 300], "end_time": [100, 300, 400]}
    jobs = pd.DataFrame({"job_id": list("abc"), "user": "u", "requested_time": 100, "run_time": 100, **times})
    jobs["cpus_per_node"] = [4, 4, 2]
    jobs.loc[1, "requested_time"] = 400
    assert site_features(check(jobs, JOB), replay=True)["replay_wait"].tolist() == [0.0, 0.0, 300.0]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(5, 55))
def test_nothing_later_changes_a_replay(seed: int, at: int) -> None:
    """Starts and ends from a submission on, and later rows, may be anything."""
    jobs = random_jobs(seed)
    now = int(jobs["submit_time"].iloc[at])
    before = site_features(jobs, replay=True)["replay_wait"].iloc[at]
    changed = jobs.iloc[: at + 1].copy()
    for name in ("start_time", "end_time"):
        later = (changed[name] >= now).fillna(False).to_numpy(dtype=bool)
        changed.loc[later, name] = now + 77
    assert site_features(changed, replay=True)["replay_wait"].iloc[at] == before
