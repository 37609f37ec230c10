"""Patterns and their confidence: what recurs, how surely, with what was known at the time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.forecast.confidence import MODES
from procure.forecast.evaluation import evaluate
from procure.schemas import JOB
from procure.tables import check

DAY, HOUR = 86_400, 3600
MONDAY = 1_767_571_200  # 2026-01-05 00:00 UTC


def job_table(submit, user="a", cpus=1, run=600, limit=3600):
    n = len(submit)
    frame = {"job_id": [f"j{i}" for i in range(n)], "user": user, "submit_time": submit, "run_time": run}
    return check(pd.DataFrame(frame | {"cpus_per_node": cpus, "requested_time": limit}), JOB)


def habits(seed=0, days=40, n_users=12):
    """Users of whom each comes every day about one time, with a chance of his own, in bursts of one to three jobs."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        often, hour = rng.choice([0.15, 0.9]), rng.uniform(0, 24)
        for day in range(days):
            if rng.random() < often:
                begin = MONDAY + day * DAY + hour * HOUR + rng.normal(0, 1500)
                rows += [(int(begin) + 60 * k, f"u{user}") for k in range(rng.integers(1, 4))]
    rows.sort()
    return job_table([row[0] for row in rows], user=[row[1] for row in rows])


def test_forecasts_that_all_failed_are_judged_without_a_ranking():
    """Where no forecast came true, base rate and Brier score are there, the AUC is not, and a note says why."""
    jobs = job_table([MONDAY + DAY * day for day in range(10)], user=[f"u{day}" for day in range(10)])
    found = evaluate(jobs)
    rows = found.table[found.table["period"] == "day"]
    assert rows["confidence"].tolist() == list(MODES) and (rows["n_forecasts"] > 0).all()
    assert (rows["base_rate"] == 0.0).all() and rows["auc"].isna().all() and rows["brier"].notna().all()
    assert any("there is nothing to rank" in note for note in found.notes)
