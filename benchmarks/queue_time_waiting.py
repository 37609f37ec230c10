"""Judge what is said of jobs that wait already: does it count that they have waited?

python benchmarks/queue_time_waiting.py LOG.swf --last 28000 --moments 400

A model learns from the first 80 % of the jobs. Then pending jobs are met as somebody meets them who looks at the
queue at a random moment: each with a chance in proportion to its wait, at a moment drawn evenly from it. What is
known at that moment is the log up to it. Predicted is the rest of the wait, s.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from procure.queue_time import training
from procure.queue_time.distribution import Distribution
from procure.queue_time.features import site_features
from procure.queue_time.log import without_starts
from procure.queue_time.metrics import LEVELS, covered
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.predict import rest
from procure.workload import import_log

KNOWN = 30_000
"""So many jobs before the moment are known, as a model file keeps them."""


def known_at(jobs: pd.DataFrame, now: int) -> pd.DataFrame:
    """Return a log as it stands at a moment: no later submission, start or end."""
    known = jobs[jobs["submit_time"] <= now].tail(KNOWN).copy()
    known["start_time"] = known["start_time"].mask((known["start_time"] > now).fillna(False))
    known["end_time"] = known["end_time"].mask((known["end_time"] > now).fillna(False))
    return known.reset_index(drop=True)


def rests(jobs: pd.DataFrame, moments: int, members: int, seed: int) -> pd.DataFrame:
    """Predict the rest of waits at random moments: a row each with ``truth``, ``waited`` and a distribution by way."""
    cut = int(0.8 * len(jobs))
    past = known_at(jobs, int(jobs["submit_time"].iloc[cut]) - 1).assign(state="")
    past.loc[past["start_time"].isna(), "state"] = "PENDING"
    site = training.train(past, settings=Settings(members=members))
    assert isinstance(site.model, QueueTimeModel)
    rng = np.random.default_rng(seed)
    wait = (jobs["start_time"] - jobs["submit_time"]).astype("float64").fillna(0).to_numpy(copy=True)
    wait[:cut] = 0
    rows = []
    for i in rng.choice(len(jobs), moments, replace=False, p=wait / wait.sum()):
        job, waited = jobs.iloc[i], int(rng.uniform(0, wait[i]))
        table = known_at(jobs, int(job["submit_time"]) + waited)
        me = np.flatnonzero(table["job_id"] == job["job_id"])[-1:]
        now = int(job["submit_time"]) + waited
        behind = table["start_time"].isna() & (table["submit_time"] > job["submit_time"])
        others = table[~behind & (table["job_id"] != job["job_id"])]
        again = pd.concat([others, table.iloc[me].assign(submit_time=now)], ignore_index=True)
        first = site_features(table, site.about["most"], asked=me)
        fresh = site_features(again, site.about["most"], asked=np.array([len(others)]))
        ways = {
            "at submission": site.model.distribution(first),
            "like one that comes now in its place": site.model.distribution(fresh),
            "at submission, given the wait": site.model.distribution(first).after(waited, site.model.usual),
            "mean of three, as `queue watch` says": rest(site.model, first, fresh, waited),
        }
        row = {"waited": waited, "truth": wait[i] - waited}
        rows.append(row | ways)
    return pd.DataFrame(rows)


def judge(found: pd.DataFrame) -> pd.DataFrame:
    """Return mean and median absolute error, pinball loss and coverage by way, and coverage beyond 12 h."""
    truth, long = found["truth"].to_numpy(), (found["waited"] > 12 * 3600).to_numpy()
    judged = []
    for way in found.columns[2:]:
        said = Distribution(np.concatenate([one.curve for one in found[way]]))
        stated = said.quantile(LEVELS)
        error = truth[:, None] - stated
        inside = covered(truth, said.interval())
        factor = np.abs(np.log1p(truth) - np.log1p(stated[:, 2]))
        judged.append(
            {
                "way": way, "n": len(truth), "mae": np.abs(error[:, 2]).mean(),
                "typical_factor": np.exp(np.median(factor)),
                "pinball": np.maximum(LEVELS * error, (LEVELS - 1) * error).mean(), "coverage_90": inside.mean(),
                "n_over_12h": int(long.sum()), "coverage_90_over_12h": inside[long].mean() if long.any() else np.nan,
            }
        )  # fmt: skip
    return pd.DataFrame(judged)


def main() -> None:
    """Read the options, judge, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--format", default=None)
    parser.add_argument("--preset", default=None)
    parser.add_argument("--last", type=int, default=28_000)
    parser.add_argument("--moments", type=int, default=400)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    jobs = without_starts(import_log(given.log, given.format, given.preset).jobs)
    jobs = jobs.sort_values("submit_time", kind="stable").tail(given.last).reset_index(drop=True)
    found = judge(rests(jobs, given.moments, given.members, given.seed))
    print(found.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
