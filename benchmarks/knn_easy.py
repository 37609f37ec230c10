"""EASY with run times from like jobs: `python benchmarks/knn_easy.py LOG [--preset P] [--nodes N --cpus C --whole]`.

The log is cut at 60 % of its jobs by submission. Run times of the rest come from the k nearest jobs of the first part
(same user first; then processors, request, hour), from what had ended by each submission (`last two` of the user), or
are exact; EASY plans with them, or is only ordered by them. Mean wait and bounded slowdown of the rest, one JSON line
each, in one run of the whole with the queue carried over.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
from learn_weeks import machines, system
from sklearn.neighbors import KNeighborsRegressor

from procure.learn.days import Day, quick_run
from procure.learn.policy import expected_before
from procure.learn.search import Settings, candidate_of, free_numbers
from procure.learn.weeks import FIGURES, figures_of
from procure.run import prepare, run_prepared
from procure.workload.importing import import_log

NEIGHBOURS = 5
OTHER_USER = 100.0
"""How far apart two users are, in units of the other columns; farther than any jobs of one."""


def columns(jobs: pd.DataFrame) -> np.ndarray:
    """Return what neighbours are near by, float64[n, 4]: user, processors, request (decades), hour (days)."""
    user = pd.factorize(jobs["user"])[0] * OTHER_USER
    cpus = np.log10(jobs["n_nodes"] * jobs["cpus_per_node"].clip(lower=1))
    return np.column_stack(
        [user, cpus, np.log10(jobs["requested_time"].clip(lower=1)), (jobs["submit_time"] % 86_400) / 86_400]
    )


def main() -> None:
    """Print the table of one log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log")
    parser.add_argument("--preset")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--machines", help="a node table instead (.csv), or as `learn_weeks.py` takes it")
    arguments = parser.parse_args()
    jobs = import_log(arguments.log, preset=arguments.preset).jobs.sort_values("submit_time", kind="stable")
    jobs, nodes = system(jobs.reset_index(drop=True), arguments.nodes, arguments.cpus, arguments.whole)
    if arguments.machines:
        nodes = machines(arguments.machines)
    cut = int(0.6 * len(jobs))
    known, seen = np.log(jobs["run_time"].clip(lower=1).to_numpy(float)), columns(jobs)
    asked = jobs["requested_time"].where(jobs["requested_time"] > 0, jobs["run_time"].max()).to_numpy(np.int64)

    def expected(k: int, mean: bool, own_user: bool) -> np.ndarray:
        """Return run times of the second part by k neighbours, of logarithms unless ``mean``, any user or the same."""
        of = known if not mean else np.exp(known)
        rows = seen if own_user else seen[:, 1:]
        told = KNeighborsRegressor(k).fit(rows[:cut], of[:cut]).predict(rows)
        found = np.minimum(np.ceil(told if mean else np.exp(told)).astype(np.int64), asked).clip(1)
        found[:cut] = asked[:cut]
        return found

    guessed = expected(NEIGHBOURS, False, True)
    ready = prepare(jobs, nodes)
    counts = ready.jobs.row >= cut
    exact = jobs["run_time"].clip(lower=1).to_numpy(np.int64)
    both = "easy:order=sjf,queue_order=sjf,place=best"
    tried = [
        (policy, None) for policy in ("easy", "easy:place=best", "easy:order=sjf,place=best", both, "easy-last-two")
    ]
    tried += [(both + ",last_two=true", None)]
    tried += [(policy, guessed) for policy in ("easy", "easy:place=best", "easy:order=sjf,place=best", both)]
    tried += [(policy, exact) for policy in ("easy", "easy:place=best", both)]
    names = {id(guessed): " + kNN", id(exact): " + exact", id(None): ""}
    variants = {(k, mean, own): expected(k, mean, own) for k in (1, 5, 20) for mean in (0, 1) for own in (0, 1)}
    for (k, mean, own), told in variants.items():
        names[id(told)] = f" + kNN, {k}, {'mean' if mean else 'log'}, {'own user' if own else 'any user'}"
        tried.append(("easy", told))
    for policy, estimates in tried:
        given = None if estimates is None else estimates[ready.jobs.row]
        run = run_prepared(ready, policy, estimates=given)
        row(policy + names[id(estimates)], figures_of(ready, run.start, run.end, counts))
    begin, arrays_of = free_numbers(Settings())
    day = Day("", ready, expected_before(ready.jobs, None), 0.0)
    start, end = quick_run(day, candidate_of(day, arrays_of(begin), "easy"))
    row("easy:order=learned, untrained", figures_of(ready, start, end, counts))


def row(name: str, figures: np.ndarray) -> None:
    """Print a policy's line."""
    print(json.dumps({"policy": name} | dict(zip(FIGURES, figures.tolist(), strict=True))), flush=True)


if __name__ == "__main__":
    main()
