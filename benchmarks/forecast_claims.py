"""The figures of docs/claims/forecast.md that are not a row of `procure forecast evaluate`.

python benchmarks/forecast_claims.py patterns                        seconds and memory for 730,000 jobs
python benchmarks/forecast_claims.py schedule LOG --cpus N [--days D]      one run per policy, compared week by week
python benchmarks/forecast_claims.py schedule WAGAP --wagap                on 20 x 80 and 48 x 12 CPUs
    --policies easy,conservative,smallest-first,best-gap,tabu,forecast     ranks those of Tables III and V anew

``--days D`` takes the log's first D days.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

import numpy as np
import pandas as pd
from queue_time_claims import busy_year

from procure.comparison.side_by_side import PUBLISHED_WEIGHTS, paired_tests, rank
from procure.comparison.waits import resource_usage
from procure.forecast.periods import find_patterns
from procure.run import simulate
from procure.schemas import JOB
from procure.tables import read
from procure.workload import import_log

POLICIES = "easy,forecast"
WEEK = 604_800
TABLES = {
    "III": ["conservative", "forecast", "best-gap", "tabu"],
    "V": ["smallest-first", "easy", "forecast", "best-gap", "tabu"],
}
"""The policies of the published tables that are here (PBS Pro is not); those of a run are ranked."""


def patterns() -> dict[str, object]:
    jobs = busy_year(730_000)
    find_patterns(jobs.iloc[::100])  # compiles
    began = time.process_time()
    found = find_patterns(jobs)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "n_jobs": len(found.jobs), "n_keys": len(found.keys), "n_bursts": len(found.bursts.key),
        "cpu_seconds": seconds, "peak_gb": peak,
    }  # fmt: skip


def schedule(arguments: argparse.Namespace) -> dict[str, object]:
    jobs, nodes = _on_nodes(_log(arguments), arguments)
    rows, weekly = {}, {}
    for policy in arguments.policies.split(","):
        policy = policy.replace(";", ",")
        began = time.process_time()
        run = simulate(jobs, nodes, policy)
        done = run.schedule.dropna(subset=["start_time"])
        took = (done["end_time"] - done["start_time"]).clip(lower=1).astype(float)
        slowdown = (done["end_time"] - done["submit_time"]).astype(float) / took
        bounded = np.maximum(1, (done["end_time"] - done["submit_time"]).astype(float) / took.clip(lower=10))
        week = (done["submit_time"] - done["submit_time"].min()) // WEEK
        rows[policy] = {
            "makespan": run.metrics["makespan"], "slowdown": slowdown.mean(), "bounded_slowdown": bounded.mean(),
            "usage": resource_usage(run.schedule, int(nodes["cpus"].sum())), "mean_wait": run.metrics["mean_wait_time"],
            "cpu_seconds": time.process_time() - began,
        }  # fmt: skip
        weekly[policy] = bounded.groupby(week).mean()
        print(policy, rows[policy], weekly[policy].round(2).tolist(), file=sys.stderr, flush=True)
    table = pd.DataFrame(rows).T
    criteria = table[["makespan", "slowdown", "usage"]].astype(float)
    table["score"] = rank(criteria, PUBLISHED_WEIGHTS, {"usage"}).score
    tables = {}
    for name, chosen in TABLES.items():
        among = criteria[criteria.index.isin(chosen)]
        tables[name] = rank(among, PUBLISHED_WEIGHTS, {"usage"}).score.round(4).to_dict() if len(among) > 1 else {}
    values = pd.DataFrame(weekly)
    tests = paired_tests(values, values.columns[0])
    better = {p: int((values[p] < values.iloc[:, 0]).sum()) for p in values.columns[1:]}
    return {
        "n_jobs": len(jobs), "n_weeks": len(values), "table": table.round(4).to_dict("index"),
        "weekly_bounded_slowdown": tests.round(4).to_dict("records"), "weeks_better": better, "tables": tables,
    }  # fmt: skip


def _on_nodes(jobs: pd.DataFrame, arguments: argparse.Namespace) -> tuple[pd.DataFrame, pd.DataFrame]:
    jobs = jobs.assign(mem_mb_per_node=0, gpus_per_node=0)
    if arguments.wagap:
        cpus = [80] * 20 + [12] * 48
    else:
        cpus = [1] * arguments.cpus
        jobs = jobs.assign(n_nodes=jobs["n_nodes"] * jobs["cpus_per_node"].clip(lower=1), cpus_per_node=1)
    return jobs, pd.DataFrame({"node_id": [f"n{i}" for i in range(len(cpus))], "cpus": cpus, "mem_mb": 1, "gpus": 0})


def _log(arguments: argparse.Namespace) -> pd.DataFrame:
    """Read the log, or its first ``--days``."""
    log = arguments.log
    jobs = (
        read(log, JOB) if log.endswith(".parquet") else import_log(log, preset=arguments.preset, shape="as-logged").jobs
    )
    if not arguments.days:
        return jobs
    return jobs[jobs["submit_time"] < jobs["submit_time"].min() + arguments.days * 86_400].reset_index(drop=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("patterns", "schedule"))
    parser.add_argument("log", nargs="?")
    parser.add_argument("--preset")
    parser.add_argument("--cpus", type=int, default=100)
    parser.add_argument("--wagap", action="store_true")
    parser.add_argument("--days", type=float, default=0)
    parser.add_argument("--policies", default=POLICIES, help="separated by commas; within a policy, write ;")
    given = parser.parse_args()
    if given.command == "schedule" and not given.log:
        parser.error("schedule needs a log")
    print(json.dumps(patterns() if given.command == "patterns" else schedule(given), indent=1, default=float))


if __name__ == "__main__":
    main()
