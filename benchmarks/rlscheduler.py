"""The public benchmark of learned batch scheduling: `python benchmarks/rlscheduler.py LOG PROCESSORS --backfill`.

Zhang, Dai, He, Bao and Xie, "RLScheduler: an automated HPC batch job scheduler using reinforcement learning" (SC
2020), and the tables of its repository: the mean bounded slowdown (10 s) of sequences of 1,024 jobs drawn from a log
(SWF), each from an empty system. One JSON line per policy.

Rows `published …` replay that program's rules: a job that was chosen is kept to until it fits, beside it jobs
overtake in queue order if they end, by their requests, before it is expected to begin; one event at a time. Its
WFP3 and UNICEP count waits from −1 (a job that waits has no start yet), so they are other rules than their names
say; `… as named` are the rules with the wait so far. Rows `easy…` are procure's EASY on the same jobs, which chooses
anew whenever something changes. `learned` is its order trained by `procure.learn.search` on sequences that share no job
with those it is judged on: the log is cut into folds, and each sequence is judged by the policy of the other folds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import struct
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from learn_weeks import RandomOrder
from numba import njit

from procure.learn.features import expected_before
from procure.learn.order import at_hand
from procure.learn.search import Settings, arrays_of, search, start_of_search
from procure.learn.store import TrainedPolicy
from procure.learn.weeks import SLOWDOWN, Period, figures_of
from procure.policies.catalog import label
from procure.run import Prepared, prepare, run_prepared

LENGTH, FLOOR = 1024, 10.0
RULES = ("fcfs", "sjf", "f1", "wfp3", "unicep", "wfp3 as named", "unicep as named")
FCFS, SJF, F1, WFP3, UNICEP, WFP3_NAMED, UNICEP_NAMED = range(7)
PUBLISHED = {
    ("lublin_256", True): {"fcfs": 235.82, "wfp3": 133.87, "unicep": 307.23, "sjf": 73.31, "f1": 75.07, "rl": 58.64},
    ("lublin_256", False): {
        "fcfs": 7273.77,
        "wfp3": 19753.53,
        "unicep": 22274.74,
        "sjf": 277.35,
        "f1": 258.37,
        "rl": 254.67,
    },
    ("HPC2N", True): {"fcfs": 127.38, "wfp3": 97.39, "unicep": 175.12, "sjf": 122.04, "f1": 71.95, "rl": 86.14},
    ("HPC2N", False): {"fcfs": 297.18, "wfp3": 426.99, "unicep": 609.77, "sjf": 157.71, "f1": 118.01, "rl": 117.01},
}  # the repository's table
RIVALS = (
    "easy",
    "easy:order=sjf",
    "easy:order=unicef",
    "easy:order=f1",
    "easy:order=sjf,queue_order=sjf",
    "easy:order=unicef,queue_order=unicef",
    "easy:order=f1,queue_order=f1",
    RandomOrder(),
    "easy:queue_order=sjf,keep=true,by_time_only=true",
    "conservative",
)
N_RESAMPLES = 10_000


def read_swf(path: str) -> pd.DataFrame:
    """Read a log as the published program does: without runs of 0 s, −1 s as 10 s, an absent request as the run."""
    raw = pd.read_csv(path, sep=r"\s+", comment=";", header=None).sort_values(0, kind="stable")
    run = raw[3].where(raw[3] >= 0, 10)
    request = raw[8].where(raw[8] != -1, raw[3])
    table = pd.DataFrame({"job": raw[0], "submit": raw[1], "run": run, "request": request})
    table = table.assign(procs=raw[[4, 7]].max(axis=1), user=raw[11])
    return table[table["run"] > 0].astype(np.int64).reset_index(drop=True)


def starts(n_jobs: int, n: int, seed: int) -> list[int]:
    """Draw where sequences begin, as Gym 0.1x drew from a seed: NumPy's old generator, seeded with a digest."""
    digest = hashlib.sha512(str(seed).encode()).digest()[:8]
    rng = np.random.RandomState(list(struct.unpack("<2I", digest)))
    return [int(rng.randint(LENGTH, n_jobs - LENGTH - 1)) for _ in range(n)]


@njit(cache=True)
def _score(rule, submit, request, procs, now):
    if rule == FCFS:
        return float(submit)
    if rule == SJF:
        return float(request)
    if rule == F1:
        return math.log10(request if request > 0 else 0.1) * procs + 870.0 * math.log10(submit if submit > 0 else 0.1)
    wait = float(now - submit) if rule >= WFP3_NAMED else -1.0 - submit
    if rule in (WFP3, WFP3_NAMED):
        return -((wait / request) ** 3) * procs
    return -(wait + 1e-15) / (math.log2(procs + 1e-15) * request)


@njit(cache=True)
def published(rule, jobs, total, backfill):
    """Replay one sequence under a rule of the published program; returns the start of each job, s.

    Parameters
    ----------
    jobs
        int64[n, 4]: submission, run time, request, s, and processors.
    """
    n = len(jobs)
    start = np.full(n, -1, np.int64)
    waits = np.zeros(n, np.bool_)
    runs = np.zeros(n, np.bool_)
    now, arrived, free, left = jobs[0, 0], 0, total, n
    chosen, shadow = -1, 0
    while left:
        if chosen < 0 and waits.any():
            least = np.inf
            for j in range(arrived):
                if waits[j]:
                    value = _score(rule, jobs[j, 0], jobs[j, 2], jobs[j, 3], now)
                    if value < least:
                        chosen, least = j, value
            shadow = now
            if jobs[chosen, 3] > free:
                ends = np.flatnonzero(runs)
                room = free
                for j in ends[np.argsort(start[ends] + jobs[ends, 2], kind="mergesort")]:
                    room += jobs[j, 3]
                    shadow = start[j] + jobs[j, 2]
                    if room >= jobs[chosen, 3]:
                        break
        if chosen >= 0 and jobs[chosen, 3] <= free:
            start[chosen], waits[chosen], runs[chosen] = now, False, True
            free -= jobs[chosen, 3]
            left -= 1
            chosen = -1
            continue
        for j in range(arrived if backfill and chosen >= 0 else 0):
            if waits[j] and jobs[j, 3] <= free and now + jobs[j, 2] < shadow:
                start[j], waits[j], runs[j] = now, False, True
                free -= jobs[j, 3]
                left -= 1
        if not left:
            break
        soonest, end = -1, np.int64(1) << 60
        for j in range(arrived):
            if runs[j] and start[j] + jobs[j, 1] < end:
                soonest, end = j, start[j] + jobs[j, 1]
        if arrived < n and jobs[arrived, 0] <= end:
            now = max(now, jobs[arrived, 0])
            waits[arrived] = True
            arrived += 1
        else:
            now = max(now, end)
            runs[soonest] = False
            free += jobs[soonest, 3]
    return start


def slowdown(jobs: np.ndarray, start: np.ndarray) -> float:
    """Return the mean bounded slowdown of a sequence."""
    spent = start - jobs[:, 0] + jobs[:, 1]
    return float(np.maximum(spent / np.maximum(jobs[:, 1], FLOOR), 1.0).mean())


def sequence(log: pd.DataFrame, at: int, nodes: pd.DataFrame) -> Period:
    """Lay a sequence out for procure: processors are nodes; jobs run to their end, as in the published program."""
    part = log.iloc[at : at + LENGTH].reset_index(drop=True)
    table = pd.DataFrame({"job_id": part["job"].astype(str), "submit_time": part["submit"], "run_time": part["run"]})
    table = table.assign(
        requested_time=part["request"].clip(lower=1), n_nodes=part["procs"], user=part["user"].astype(str)
    )
    ready = prepare(table.assign(cpus_per_node=1), nodes, kill_at_limit=False)
    return Period(str(at), ready, expected_before(ready.jobs, None))


def of(ready: Prepared, start: np.ndarray, end: np.ndarray) -> float:
    """Return the mean bounded slowdown of a run."""
    return float(figures_of(ready, start, end)[SLOWDOWN])


def trained_elsewhere(log: pd.DataFrame, nodes: pd.DataFrame, arguments: argparse.Namespace) -> list[TrainedPolicy]:
    """Train a policy per fold on sequences that hold no job of it, nor of a sequence that begins in it."""
    bounds = np.linspace(0, len(log), arguments.folds + 1).astype(int)
    found = []
    for low, high in pairwise(bounds):
        able = np.arange(LENGTH, len(log) - LENGTH - 1)
        able = able[(able + LENGTH <= low) | (able >= high + LENGTH)]
        if not len(able):
            raise SystemExit(f"{len(log):,} jobs are too few for {arguments.folds} folds")
        chosen = np.random.default_rng(low).choice(able, arguments.train)
        days = [sequence(log, int(at), nodes) for at in np.sort(chosen)]
        settings = Settings(generations=arguments.generations, processes=1, minutes=1e4, weeks=arguments.train)
        began = time.process_time()
        found.append(search(days, settings))
        line = {"fold": [int(low), int(high)], "cpu_s": round(time.process_time() - began, 1)}
        print(json.dumps({"trained": line}), file=sys.stderr, flush=True)
    return found


def print_row(name: str, values: np.ndarray, first: int, given: dict) -> None:
    """Print a policy's line: over the published sequences, and over all with an interval."""
    n = len(values)
    draws = np.random.default_rng(0).integers(0, n, (N_RESAMPLES, n))
    row = {"policy": name, "mean_bounded_slowdown": values.mean(), "n_sequences": n}
    row["interval"] = np.quantile(values[draws].mean(axis=1), [0.025, 0.975]).tolist()
    row[f"first_{first}"] = values[:first].mean()
    if name.removeprefix("published ") in given:
        row["as_published"] = given[name.removeprefix("published ")]
    print(json.dumps(row, default=float), flush=True)


def main() -> None:
    """Print the table of one log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("processors", type=int)
    parser.add_argument("--per-node", type=int, default=1, help="processors of a node, which a job takes whole")
    parser.add_argument("--backfill", action="store_true")
    parser.add_argument("--sequences", type=int, default=40, help="drawn; the first ten are the published ones")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--train", type=int, default=24, help="sequences that a policy is trained on")
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--rules-only", action="store_true", help="nothing is trained")
    arguments = parser.parse_args()
    if not Path(arguments.log).is_file():
        parser.error(f"{arguments.log}: no such file; give a log in the Standard Workload Format (SWF)")
    if not 1 <= arguments.per_node <= arguments.processors:
        parser.error(f"{arguments.processors} processors in nodes of {arguments.per_node}: at least one node is needed")
    log = read_swf(arguments.log)
    log = log[log["procs"] <= arguments.processors].reset_index(drop=True)
    log, n_nodes = log.assign(procs=-(-log["procs"] // arguments.per_node)), arguments.processors // arguments.per_node
    drawn = starts(len(log), max(arguments.sequences, 10), arguments.seed)
    plain = log[["submit", "run", "request", "procs"]].to_numpy(np.int64)
    given = next((v for (k, b), v in PUBLISHED.items() if k in arguments.log and b == arguments.backfill), {})
    row = partial(print_row, first=10, given=given)
    for rule, name in enumerate(RULES):
        parts = [plain[at : at + LENGTH] for at in drawn]
        values = [slowdown(part, published(rule, part, n_nodes, arguments.backfill)) for part in parts]
        row(f"published {name}", np.array(values))
    if not arguments.backfill:
        return
    nodes = pd.DataFrame({"node_id": [f"n{i}" for i in range(n_nodes)], "cpus": 1, "mem_mb": 1, "gpus": 0})
    days = [sequence(log, at, nodes) for at in drawn]
    for policy in RIVALS:
        runs = [run_prepared(day.ready, policy) for day in days]
        row(label(policy), np.array([of(day.ready, one.start, one.end) for day, one in zip(days, runs, strict=True)]))
    by_policy = {"untrained": [TrainedPolicy("search", arrays_of(start_of_search()))] * arguments.folds}
    if not arguments.rules_only:
        by_policy["learned"] = trained_elsewhere(log, nodes, arguments)
    bounds = np.linspace(0, len(log), arguments.folds + 1).astype(int)
    for name, trained in by_policy.items():
        values = []
        for at, day in zip(drawn, days, strict=True):
            mine = trained[int(np.searchsorted(bounds, at, side="right")) - 1]
            run = run_prepared(day.ready, at_hand(mine, day))
            values.append(of(day.ready, run.start, run.end))
        row(name, np.array(values))


if __name__ == "__main__":
    main()
