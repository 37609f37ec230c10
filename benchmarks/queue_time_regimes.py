"""Make logs whose waits change for good at a moment, by simulating the queue: what a model that adapts must notice.

python benchmarks/queue_time_regimes.py LOG.swf --nodes 100 --last 10000 --regime emptied

The last jobs of a log, one CPU to a node, are queued by our simulator. At 85 % of the jobs something changes; the
queue is simulated again under the new conditions from three days before, and jobs submitted after the change
start when that says. Each table is then judged as `procure queue evaluate --split chronological` does.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from queue_time_claims import RIVALS, judge_adaptation

from procure.queue_time.evaluation import evaluate
from procure.run import simulate
from procure.workload import import_log

LEAD = 3 * 86_400
"""Seconds before the change from which the new conditions are simulated, so that their queue has filled."""
REGIMES = ("emptied", "doubled", "closed", "flood", "drained", "half", "policy", "bursts")


def changed(jobs: pd.DataFrame, nodes: int, regime: str, seed: int = 0) -> pd.DataFrame:
    """Return a job table with start times in which the regime changes at 85 % of the jobs.

    Parameters
    ----------
    jobs
        A job table; its waits are replaced.
    nodes
        How many nodes of one CPU there are.
    regime
        ``emptied`` four in five jobs stay away; ``doubled`` twice the nodes; ``closed`` one of two partitions
        closes and its users move to the other; ``flood`` one user submits 10,000 jobs of a CPU within an hour;
        ``drained`` the same with twice the nodes from then on, so that the backlog drains faster than any before;
        ``half`` half of the users leave; ``policy`` shortest job first in place of first come, first served;
        ``bursts`` of `long_bursts`, nothing of which changes.
    """
    if regime == "bursts":
        return long_bursts(jobs, nodes, seed)
    rng = np.random.default_rng(seed)
    jobs = jobs.assign(partition="batch").sort_values("submit_time", kind="stable").reset_index(drop=True)
    change = int(jobs["submit_time"].iloc[int(0.85 * len(jobs))])
    users = jobs["user"].unique()
    some = set(rng.choice(users, len(users) // 2, replace=False))
    late = jobs["submit_time"] >= change - LEAD
    after, policy, new_nodes, old_policy = jobs[late], "easy", nodes, "easy"
    old = jobs
    if regime == "emptied":
        after = after[rng.random(len(after)) < 0.2]
    elif regime == "doubled":
        new_nodes = 2 * nodes
    elif regime == "closed":
        old = jobs.assign(partition=np.where(jobs["user"].isin(some), "small", "batch"))
    elif regime in ("flood", "drained"):
        new_nodes = 2 * nodes if regime == "drained" else nodes
        one = after.iloc[[0]].assign(user="flood", run_time=600, requested_time=1200, n_nodes=1)
        flood = pd.concat([one] * 10_000, ignore_index=True)
        flood["submit_time"] = change + np.sort(rng.integers(0, 3600, len(flood)))
        flood["job_id"] = [f"flood{i}" for i in range(len(flood))]
        after = pd.concat([after, flood]).sort_values("submit_time", kind="stable")
    elif regime == "half":
        after = after[~after["user"].isin(some)]
    elif regime == "policy":
        old_policy, policy = "fcfs", "sjf"
    before = _queued(old, nodes, old_policy)
    then = _queued(after, new_nodes, policy)
    parts = [before[before["submit_time"] < change], then[then["submit_time"] >= change]]
    return pd.concat(parts).sort_values("submit_time", kind="stable").reset_index(drop=True)


def long_bursts(jobs: pd.DataFrame, nodes: int, seed: int = 0) -> pd.DataFrame:
    """Return a job table in which all jobs lie in few bursts that last for days.

    The users are joined to four. Their jobs, in order, are cut into runs of 400 to 1,200, each of one user. The runs
    begin one after the other, evenly spread over the time in which the nodes, 90 % busy, could run all jobs; a run's
    jobs follow each other after exponential pauses, at most 59 minutes, so that it lasts for two days on average.
    Requests and run times stay; the queue is simulated under EASY.
    """
    rng = np.random.default_rng(seed)
    jobs = jobs.assign(partition="batch").sort_values("submit_time", kind="stable").reset_index(drop=True)
    user = (pd.factorize(jobs["user"])[0] % 4).astype(str)
    runs = []
    for rows in pd.Series(user).groupby(user).indices.values():
        cuts = np.cumsum(rng.integers(400, 1200, len(rows) // 400 + 1))
        runs += np.split(rows, cuts[cuts < len(rows)])
    runs.sort(key=lambda run: run[0])
    work = float((jobs["run_time"] * jobs["n_nodes"].clip(upper=nodes)).sum())
    begin = np.linspace(0, work / (0.9 * nodes), len(runs), endpoint=False).astype(int)
    submit = np.zeros(len(jobs), np.int64)
    for run, first in zip(runs, begin, strict=True):
        pauses = np.minimum(rng.exponential(2 * 86_400 / len(run), len(run)), 3540).astype(int)
        submit[run] = first + np.cumsum(pauses) - pauses[0]
    jobs = jobs.assign(submit_time=submit + int(jobs["submit_time"].min()), user=user)
    return _queued(jobs.sort_values("submit_time", kind="stable").reset_index(drop=True), nodes, "easy")


def _queued(jobs: pd.DataFrame, nodes: int, policy: str) -> pd.DataFrame:
    """Queue each partition's jobs on its own share of the nodes."""
    parts = []
    for _, part in jobs.groupby("partition", sort=True):
        own = nodes if len(set(jobs["partition"])) == 1 else nodes // 2
        part = part.assign(n_nodes=part["n_nodes"].clip(upper=own)).reset_index(drop=True)
        system = pd.DataFrame({"node_id": [f"n{i}" for i in range(own)], "cpus": 1, "mem_mb": 10**7})
        ran = simulate(part.drop(columns=["start_time", "end_time"]), system, policy).schedule
        start, end = ran["start_time"].to_numpy(), ran["end_time"].to_numpy()
        parts.append(part.assign(start_time=start, end_time=end, run_time=end - start))
    return pd.concat(parts, ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--nodes", type=int, default=90)
    parser.add_argument("--last", type=int, default=10_000)
    parser.add_argument("--regime", choices=REGIMES, action="append")
    arguments = parser.parse_args()
    jobs, nodes = import_log(arguments.log, shape="as-logged").jobs, arguments.nodes
    for name in arguments.regime or REGIMES:
        table = changed(jobs.tail(arguments.last), nodes, name)
        found = evaluate(table, ["chronological"], RIVALS, k=57)
        print(json.dumps({"regime": name} | judge_adaptation(found, "chronological"), default=float), flush=True)


if __name__ == "__main__":
    main()
