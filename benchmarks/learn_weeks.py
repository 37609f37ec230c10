"""Learning on weeks without a break, by log: `python benchmarks/learn_weeks.py LOG --nodes N --cpus C TRAIN JUDGE`.

LOG is one file, or several with commas between, put together without repeated jobs.
Trains as `procure learn train` does on the span TRAIN (``FIRST..LAST``), and judges on JUDGE as `procure learn
evaluate` does, beside a random order, too.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.learn.judge import evaluate_policy
from procure.learn.search import Settings, arrays_of, learn_policy, start_of_search
from procure.learn.store import TrainedPolicy
from procure.learn.weeks import DayFilter
from procure.policies.catalog import label
from procure.policies.easy import Easy
from procure.policies.names import RIVALS
from procure.simulator.seams import order
from procure.tables import JOB, read
from procure.workload.importing import import_log


@order
class Shuffled(NamedTuple):
    """Anybody first."""

    rank: np.ndarray  # float64[n_jobs]

    def score(self, state, job):
        return self.rank[job]

    def alike(self, state) -> None:
        return


class RandomOrder(Easy):
    """EASY in an order that is drawn, once for all: whoever gains on it has learnt something."""

    def make_order(self, state, name: str) -> Any:
        return Shuffled(np.random.default_rng(0).random(len(state.submit)))


def system(jobs: pd.DataFrame, nodes: int, cpus: int, whole: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a log and its system; with ``whole``, jobs take whole nodes of so many CPUs, and nothing else counts."""
    table = pd.DataFrame({"node_id": [f"n{i}" for i in range(nodes)], "cpus": cpus, "mem_mb": 512_000, "gpus": 0})
    if not whole:
        table.loc[:1, "gpus"] = 8
        return jobs, table
    asked = jobs["n_nodes"] * jobs["cpus_per_node"].clip(lower=1)
    taken = {"n_nodes": -(-asked // cpus), "cpus_per_node": cpus, "mem_mb_per_node": 0, "gpus_per_node": 0}
    return jobs.assign(**taken), table


def read_logs(paths: str, preset: str | None) -> pd.DataFrame:
    """Read logs, or job tables, into one; a job that an earlier one holds is left out."""
    parts = [
        read(path, JOB) if path.endswith(".parquet") else import_log(path, preset=preset, shape="as-logged").jobs
        for path in paths.split(",")
    ]
    return pd.concat(parts, ignore_index=True).drop_duplicates("job_id", ignore_index=True)


def machines(text: str) -> pd.DataFrame:
    """Return a node table of ``20x80x512000,48x12x90000`` (number × CPUs × MB), or read it from a file."""
    if text.endswith(".csv"):
        return pd.read_csv(text)
    rows = []
    for kind in text.split(","):
        number, cpus, mem_mb = map(int, kind.split("x"))
        rows += [{"cpus": cpus, "mem_mb": mem_mb, "gpus": 0}] * number
    return pd.DataFrame(rows).assign(node_id=[f"n{i}" for i in range(len(rows))])


def main() -> None:
    """Print the table of one log as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("train")
    parser.add_argument("judge")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--cpus", type=int, default=1, help="of a node")
    parser.add_argument("--whole", action="store_true", help="jobs take whole nodes")
    parser.add_argument(
        "--machines", help="a node table instead (.csv), or number x CPUs x MB of each kind with commas"
    )
    parser.add_argument("--preset")
    parser.add_argument("--tz", default="UTC")
    parser.add_argument("--generations", type=int, default=Settings.generations)
    parser.add_argument("--untrained", action="store_true", help="judge the start of a search; TRAIN does not count")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    jobs = read_logs(arguments.log, arguments.preset)
    jobs, nodes = system(jobs, arguments.nodes, arguments.cpus, arguments.whole)
    if arguments.machines:
        nodes = machines(arguments.machines)
    rivals: list[object] = [*RIVALS, RandomOrder(place="best")]
    if arguments.untrained:
        start = TrainedPolicy("search", arrays_of(start_of_search()))
        found = evaluate_policy(start, jobs, nodes, DayFilter(arguments.judge, arguments.tz), rivals=rivals)
        print("\n".join(json.dumps(row, default=float) for row in found.policies.to_dict("records")), found.notes[0])
        return
    train = DayFilter(arguments.train, arguments.tz, min_jobs=50, min_wait=60.0)
    for seed in range(1, arguments.seeds + 1):
        settings = Settings(generations=arguments.generations, seed=seed, processes=1, minutes=1e4)
        began = time.process_time()
        trained = learn_policy(jobs, nodes, train, settings)
        seconds = time.process_time() - began
        found = evaluate_policy(trained, jobs, nodes, DayFilter(arguments.judge, arguments.tz), rivals=rivals)
        rivals = [one for one in rivals if label(one) == found.best_rival]  # the others once
        for row in found.policies.to_dict("records"):
            if row["policy"] == "learned":
                row |= {
                    "variant": "learned",
                    "seed": seed,
                    "cpu_s": round(seconds, 1),
                    "n_weeks": len(trained.trained["weeks"]),
                }
                row |= {"untrained": trained.trained["untrained"], "objective": trained.trained["objective"]}
                row |= {"weights": [round(float(w), 3) for w in trained.arrays["weights"]]}
            print(json.dumps(row, default=float), flush=True)
        print(found.notes[0], flush=True)


if __name__ == "__main__":
    main()
