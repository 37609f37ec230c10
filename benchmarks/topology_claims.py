"""Every figure of docs/claims/topology.md: `python benchmarks/topology_claims.py PART`, see `main`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure.run import simulate
from procure.topology.fat_tree import make_nodes
from procure.topology.interference import speed_up
from procure.topology.metrics import hops_of_jobs, utilization_while_waiting
from procure.topology.verify import verify

TREES = {"cab": (4, 18, 18), "pinot": (8, 18, 18)}
SCENARIOS = {"Cab 1×": ("cab", 1), "Cab 2×": ("cab", 2), "Cab 3×": ("cab", 3), "Pinot 3×": ("pinot", 3)}


def workload(
    n_system: int, multiple: int, seed: int, *, n_jobs: int = 3000, load: float = 1.3
) -> pd.DataFrame:
    """Capacity jobs as on Cab: 80 % of up to 18 nodes, the others log-uniform to 256, times a multiple.

    Run times log-uniform from 1 min to 24 h, requests one to three times that, at most 24 h; arrivals
    uniform over the time in which the system could do 1/load of the work.
    """
    rng = np.random.default_rng(seed)
    small = rng.integers(1, 19, n_jobs)
    large = np.exp(rng.uniform(np.log(19), np.log(257), n_jobs)).astype(np.int64)
    n_nodes = np.minimum(np.where(rng.random(n_jobs) < 0.8, small, large) * multiple, n_system)
    run = np.exp(rng.uniform(np.log(60), np.log(86_400), n_jobs)).astype(np.int64)
    request = np.minimum((run * rng.uniform(1, 3, n_jobs)).astype(np.int64) + 1, 86_400)
    span = int((run * n_nodes).sum() / n_system / load)
    return pd.DataFrame(
        {
            "job_id": [str(i) for i in range(n_jobs)],
            "submit_time": np.sort(rng.integers(0, span, n_jobs)),
            "run_time": run,
            "requested_time": request,
            "n_nodes": n_nodes,
            "cpus_per_node": 1,
        }
    )


def measured(jobs: pd.DataFrame, nodes: pd.DataFrame, policy: str, *, whole: bool = True) -> dict[str, float]:
    run = simulate(jobs, nodes, policy)
    schedule, n = run.schedule, len(nodes)
    busy = ((schedule["end_time"] - schedule["start_time"]) * schedule["n_nodes"]).sum()
    found = {
        "busy": 100 * (utilization_while_waiting(schedule, n) or 0),
        "mean": 100 * busy / n / run.metrics["makespan"],
        "makespan": run.metrics["makespan"] / 3600,
        "wait": run.metrics["mean_wait_time"] / 3600,
        "seconds": run.elapsed,
    }
    if whole:
        hops = hops_of_jobs(schedule, nodes)
        found["aph"] = hops.loc[hops["n_nodes"] > 1, "aph"].mean()
        if policy.startswith(("tiers", "isolated")):
            verdict = verify(schedule, nodes)
            assert verdict.isolated, verdict.first_conflicts[:3]
    return found


def interval(values: np.ndarray, seed: int = 0) -> str:
    """Mean and a 95 % bootstrap interval over the seeds."""
    rng = np.random.default_rng(seed)
    means = rng.choice(values, (4000, len(values))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():+.2f} ({low:+.2f} to {high:+.2f})"


def saturated(n_seeds: int, load: float) -> None:
    print(
        "| Scenario | Policy | Busy utilization, % | over the makespan, % | Makespan, h | Wait, h | APH | Kernel, s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    pairs = []
    for name, (tree, multiple) in SCENARIOS.items():
        nodes = make_nodes(*TREES[tree])
        rows = {policy: [] for policy in ("any", "compact", "tiers", "isolated")}
        for seed in range(n_seeds):
            jobs = workload(len(nodes), multiple, seed, load=load)
            for policy, found in rows.items():
                found.append(measured(jobs, nodes, policy))
        tables = {policy: pd.DataFrame(found) for policy, found in rows.items()}
        for policy, table in tables.items():
            mean = table.mean()
            print(
                f"| {name} | `{policy}` | {mean['busy']:.1f} | {mean['mean']:.1f} | {mean['makespan']:.1f} "
                f"| {mean['wait']:.2f} | {mean['aph']:.2f} | {mean['seconds']:.2f} |", flush=True
            )  # fmt: skip
        for one, other in (("any", "tiers"), ("isolated", "tiers"), ("any", "isolated")):
            first, second = tables[one], tables[other]
            length = (first["makespan"] / second["makespan"] - 1).to_numpy() * 100
            pairs.append(
                f"| {name} | `{one}` − `{other}` | {interval((first['busy'] - second['busy']).to_numpy())} "
                f"| {interval((first['mean'] - second['mean']).to_numpy())} | {interval(length)} |"
            )
    print("\n| Scenario | Difference | Busy utilization, points | over the makespan, points | Makespan, % |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(pairs))


def faster(n_seeds: int) -> None:
    policies = ("tiers", "isolated")
    print("| Scenario | Isolated jobs run shorter by | " + " | ".join(
        f"`{policy}`: makespan against `any`, % | wait, h" for policy in policies) + " | `any`: wait, h |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, (tree, multiple) in SCENARIOS.items():
        nodes = make_nodes(*TREES[tree])
        workloads = [workload(len(nodes), multiple, seed) for seed in range(n_seeds)]
        base = [measured(jobs, nodes, "any", whole=False) for jobs in workloads]
        for scenario in ("0%", "2%", "5%", "10%", "20%", "v1", "v2"):
            cells = []
            for policy in policies:
                own = [
                    measured(speed_up(jobs, scenario, seed), nodes, policy, whole=False)
                    for seed, jobs in enumerate(workloads)
                ]
                longer = [100 * (a["makespan"] / b["makespan"] - 1) for a, b in zip(own, base, strict=True)]
                cells += [interval(np.array(longer)), f"{np.mean([found['wait'] for found in own]):.2f}"]
            cells.append(f"{np.mean([found['wait'] for found in base]):.2f}")
            print(f"| {name} | {scenario} | {' | '.join(cells)} |", flush=True)


def speed() -> None:
    print("| Nodes | Policy | Jobs | Kernel, s | ms per job |")
    print("| --- | --- | --- | --- | --- |")
    for pods, leaves, per_leaf in (
        (2, 5, 10),
        (4, 10, 25),
        (8, 18, 18),
        (12, 29, 29),
        (22, 36, 40),
        (54, 43, 43),
    ):
        nodes = make_nodes(pods, leaves, per_leaf)
        n_jobs = 20_000 if len(nodes) < 5000 else 5000
        jobs = workload(len(nodes), max(1, round(len(nodes) / 1296)), 1, n_jobs=n_jobs, load=1.0)
        for policy in ("any", "compact", "tiers", "isolated"):
            found = simulate(jobs, nodes, policy).elapsed
            print(
                f"| {len(nodes):,} | `{policy}` | {n_jobs:,} | {found:.2f} | {1000 * found / n_jobs:.3f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["saturated", "unsaturated", "faster", "speed"])
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    began = time.perf_counter()
    if arguments.part == "saturated":
        saturated(arguments.seeds, 1.3)
    elif arguments.part == "unsaturated":
        saturated(arguments.seeds, 0.7)
    elif arguments.part == "faster":
        faster(arguments.seeds)
    else:
        speed()
    print(f"\n{Path(__file__).name} {arguments.part}: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
