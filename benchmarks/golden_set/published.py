"""What reproduces published systems, beside the figures that their authors printed."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from math import comb

import numpy as np
import pandas as pd

import procure
from golden_set.base import Part, Place
from golden_set.doors import ROOT, answer, published_schedule, ranking, schedule
from golden_set.schedules import shown
from golden_set.tables import LOGS
from procure.coschedule.learner import regret
from procure.text import plain
from procure.workload import LogSettings
from procure.workload.studies import system, workflows

RELEASED = "synthetic/data_large_1800_40.txt.xz"
FCFS = [
    *((35077, 93), (35382, 207), (35509, 195), (35123, 36), (32324, 100)),
    *((35506, 399), (36387, 71), (33129, 4), (34388, 251), (36199, 298)),
]
BF = [
    *((35077, 93), (35354, 204), (35432, 195), (34904, 35), (32619, 97)),
    *((35415, 394), (36387, 71), (33129, 4), (34359, 250), (36249, 290)),
]
ZEWURA = {
    "ConsBF": (14977165, 90.989, 493.1645), "DL": (15074443, 92.642, 261.7794),
    "BestGap": (15223893, 92.284, 257.016), "Tabu": (15372390, 92.749, 238.4517),
}  # fmt: skip
LOMONOSOV = {
    "SmallestJF": (107108258, 99.027, 69.33852), "EASY": (107097817, 98.547, 151.0045),
    "PBS": (107099792, 99.131, 186.2868), "DL": (107098164, 98.89, 76.40185),
    "BestGap": (107098060, 98.965, 88.26473), "Tabu": (107098124, 99.051, 90.6587),
}  # fmt: skip
WINDOWS = ("seq", "greedy", "exact", "lns", "sa", "sa-published")
LEARNERS = ("share=0.5", "learner=paper", "learner=ips", "learner=ix", "learner=ucb", "learner=idle")


def cost_and_wait(plan: pd.DataFrame, nodes: pd.DataFrame) -> tuple[int, int]:
    """Return the published hop cost of a job, hops of 1, 3 and 5 counted as its program does, and its wait in s."""
    where = nodes.set_index("node_id")
    costs = []
    for text in plan["node_ids"]:
        mine = where.loc[text.split(",")]
        pods, leaves = (mine.groupby(by).size() for by in ("pod", ["pod", "leaf"]))
        hops = 5 * comb(len(mine), 2) - 2 * sum(comb(n, 2) for size in (pods, leaves) for n in size)
        costs.append(max(1000 * hops // len(mine), 1))
    waited = int((plan["start_time"] - plan["submit_time"]).sum())
    return sum(costs) // len(plan), waited // len(plan)


def released(place: Place, epoch: int) -> pd.DataFrame:
    """Read 300 jobs of the released instance; their users know how long they take."""
    names = ["job_id", "submit_time", "run_time", "n_nodes"]
    jobs = pd.read_csv(place.data / RELEASED, sep=r"\s+", names=names).iloc[300 * epoch :][:300]
    return jobs.assign(job_id=jobs["job_id"].astype(str), requested_time=jobs["run_time"], cpus_per_node=1)


def pairs(backfill: bool, place: Place) -> dict[str, object]:
    """Play the published queue: (cost, wait) of ten epochs."""
    nodes, printed = procure.fat_tree(25, 4, 10), BF if backfill else FCFS
    found = [cost_and_wait(published_schedule(released(place, i), nodes, backfill), nodes) for i in range(10)]
    return {"pairs": found, "as printed": sum(one == two for one, two in zip(found, printed, strict=True))}


def windows(place: Place) -> dict[str, object]:
    """Place windows of jobs on the published tree, 60 s apart; FCFS takes first nodes, or close ones."""
    nodes, jobs = procure.fat_tree(25, 4, 10), released(place, 0)
    policies = ("fcfs:exclusive=true", "closest", *(f"window:length=60,method={method}" for method in WINDOWS))
    return {policy: cost_and_wait(schedule(jobs, nodes, policy), nodes) for policy in policies}


def rankings(_: Place) -> dict[str, object]:
    """Rank the published criteria: the ratios, the eigenvector and its value."""
    found = {}
    for name, rows in (("table III", ZEWURA), ("table V", LOMONOSOV)):
        criteria = pd.DataFrame.from_dict(rows, orient="index", columns=["makespan", "usage", "slowdown"])
        ratios, score, value = ranking(criteria)
        found[name] = {"ratios": ratios.tolist(), "score": dict(zip(rows, score.tolist(), strict=True)), "value": value}
    return found


def forecast(place: Place) -> dict[str, object]:
    """Judge what recurs on wagap by each confidence."""
    rows = answer("forecast", "evaluate", place.data / LOGS["wagap"][0], "--set", "preset=metacentrum")
    keys = ("n_forecasts", "n_hits", "auc", "brier", "brier_constant")
    return {f"{row['period']} {row['confidence']}": {key: row[key] for key in keys} for row in rows}


def coschedule(cores: int, place: Place) -> dict[str, object]:
    """Run the study's 45 workflows: backfilling, fixed halves and each learner, under both forms of contention."""
    jobs, nodes = workflows(cores), system(cores)
    forms = [f"coschedule:{one},contention={form}" for form in ("share", "bandwidth") for one in LEARNERS]
    found = {}
    for policy in ("easy:exclusive=true", "first-fit", *forms):
        plan = schedule(jobs, nodes, policy, kill=False)
        work = (jobs["cpu_percent"] / 100 * jobs["run_time"] * jobs["n_nodes"] * 8).sum()
        cpu = 100 * work / cores / (plan["end_time"].max() - jobs["submit_time"].min())
        response = (plan["end_time"] - plan["submit_time"]).mean() / 3600
        found[policy] = {"plan": shown([plan]), "cpu_percent": cpu, "response_h": response}
    return found


def bounds(_: Place) -> dict[str, object]:
    """Set each learner's excess risk against its bound."""
    rows = json.loads(json.dumps(plain(regret(seeds=10).to_dict(orient="records"))))
    return {f"{row.pop('mode')} {row.pop('losses')} {row.pop('T')}": row for row in rows}


def cab(n_system: int, multiple: int) -> pd.DataFrame:
    """Make up jobs as on Cab, more than the system can run: most of up to 18 nodes, others log-uniform to 256."""
    rng, n = np.random.default_rng(1), 1500
    small, large = rng.integers(1, 19, n), np.exp(rng.uniform(np.log(19), np.log(257), n)).astype(np.int64)
    run = np.exp(rng.uniform(np.log(60), np.log(86_400), n)).astype(np.int64)
    size = np.minimum(np.where(rng.random(n) < 0.8, small, large) * multiple, n_system)
    submit = np.sort(rng.integers(0, int((run * size).sum() / n_system / 1.3), n))
    jobs = pd.DataFrame({"job_id": np.arange(n).astype(str), "submit_time": submit, "run_time": run, "n_nodes": size})
    return jobs.assign(requested_time=np.minimum(2 * run + 1, 86_400), cpus_per_node=1)


def trees(_: Place) -> dict[str, object]:
    """Start the published program's four jobs, and load two trees beyond what they can do."""
    four = pd.DataFrame({"job_id": list("1234"), "submit_time": 1, "n_nodes": [33, 33, 30, 1], "cpus_per_node": 1})
    four = four.assign(run_time=[360, 360, 57_600, 60], requested_time=[600, 600, 57_600, 60])
    found = {}
    for name, tree, jobs in (
        ("order of starts", (3, 4, 8), four), ("Cab 2x", (4, 18, 18), cab(1296, 2)),
        ("Pinot 3x", (8, 18, 18), cab(2592, 3)),
    ):  # fmt: skip
        nodes = procure.fat_tree(*tree)
        for policy in ("any", "compact", "tiers", "isolated"):
            plan = schedule(jobs, nodes, policy)
            busy = ((plan["end_time"] - plan["start_time"]) * plan["n_nodes"]).sum()
            hops, verdict = procure.count_hops(plan, nodes), procure.check_isolation(plan, nodes)
            found[f"{name} | {policy}"] = {
                "plan": shown([plan]), "starts": plan["start_time"].tolist() if jobs is four else None,
                "utilization": busy / len(nodes) / (plan["end_time"].max() - plan["submit_time"].min()),
                "aph": hops.loc[hops["n_nodes"] > 1, "aph"].mean(), "shared_links": verdict.n_shared_links,
            }  # fmt: skip
    return found


def rlscheduler(backfill: bool, place: Place) -> dict[str, object]:
    """Replay the public benchmark of learned scheduling: its rules as published, and procure's on the same jobs."""
    line = [sys.executable, ROOT / "benchmarks/rlscheduler.py", place.data / LOGS["Lublin"][0], "256", "--rules-only"]
    done = subprocess.run([*line, *["--backfill"] * backfill], capture_output=True, text=True, check=True)
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    keys = ("mean_bounded_slowdown", "first_10", "as_published")
    return {row["policy"]: {key: row[key] for key in keys if key in row} for row in rows}


def queue_time(name: str, place: Place) -> dict[str, object]:
    """Judge k-means with boosted trees, the published pipeline, on both kinds of split."""
    how = LogSettings(preset="metacentrum" if name == "wagap" else None)
    jobs = procure.read_log(place.data / LOGS[name][0], how, keep_unfinished="sacct").jobs
    rows = procure.evaluate_queue(jobs, ("random", "chronological"), ("kmeans-gbt",), k=57, last=8000).rows
    keys = "deadline n_train n_test k mae rmse deadline_accuracy majority_accuracy tp fp fn tn".split()
    rows = [row for row in rows if row["method"] == "kmeans-gbt" and row["deadline_label"] == "mean"]
    return {row["split"]: {key: row[key] for key in keys} for row in rows}


GOES = {"rlscheduler * | easy:order=random*": "a benchmark's rival", "rlscheduler * | untrained": "a benchmark's rival"}
PARTS = {
    **{f"topology {name}": Part(partial(pairs, name == "BF"), (RELEASED,)) for name in ("FCFS", "BF")},
    "topology windows": Part(windows, (RELEASED,)),
    "rankings": Part(rankings),
    "recurrence": Part(forecast, (LOGS["wagap"][0],)),
    **{f"coschedule {cores}": Part(partial(coschedule, cores)) for cores in (64, 128, 256)},
    "coschedule bounds": Part(bounds),
    "trees": Part(trees),
    **{
        f"rlscheduler {name}": Part(partial(rlscheduler, name == "backfill"), (LOGS["Lublin"][0],))
        for name in ("plain", "backfill")
    },
    **{f"queue time {name}": Part(partial(queue_time, name), (LOGS[name][0],)) for name in ("KTH", "wagap")},
}
