"""The figures of docs/claims/topology.md: `python benchmarks/topology_claims.py saturated|faster|check|jigsaw`."""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from hop_costs import utilization_while_waiting

from procure.comparison.isolation import speed_up
from procure.run import simulate
from procure.topology.fat_tree import make_nodes
from procure.topology.verify import hops_of_jobs, verify

TREES = {"cab": (4, 18, 18), "pinot": (8, 18, 18)}
SCENARIOS = {"Cab 1×": ("cab", 1), "Cab 2×": ("cab", 2), "Cab 3×": ("cab", 3), "Pinot 3×": ("pinot", 3)}


def workload(n_system: int, multiple: int, seed: int, *, n_jobs: int = 3000, load: float = 1.3) -> pd.DataFrame:
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


def saturated(n_seeds: int, load: float, scenarios: list[str]) -> None:
    print(
        "| Scenario | Policy | Busy utilization, % | over the makespan, % | Makespan, h | Wait, h | APH | Kernel, s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    pairs = []
    for name in scenarios:
        tree, multiple = SCENARIOS[name]
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


SHARES = (0, 5, 10, 20)


def faster(n_seeds: int, scenarios: list[str]) -> None:
    """What isolation costs and wins if isolated jobs run shorter by a share."""
    policies = ("tiers", "isolated")
    print("| Scenario | Isolated jobs run shorter by | " + " | ".join(
        f"`{policy}`: makespan against `any`, % | wait, h" for policy in policies) + " | `any`: wait, h |")  # fmt: skip
    print("| --- | --- | --- | --- | --- | --- | --- |")
    lines: dict[tuple[str, str], list[float]] = {}
    for name in scenarios:
        tree, multiple = SCENARIOS[name]
        nodes = make_nodes(*TREES[tree])
        workloads = [workload(len(nodes), multiple, seed) for seed in range(n_seeds)]
        base = [measured(jobs, nodes, "any", whole=False) for jobs in workloads]
        for scenario in (f"{share}%" for share in SHARES):
            cells = []
            for policy in policies:
                own = [
                    measured(speed_up(jobs, scenario, seed), nodes, policy, whole=False)
                    for seed, jobs in enumerate(workloads)
                ]
                longer = [100 * (a["makespan"] / b["makespan"] - 1) for a, b in zip(own, base, strict=True)]
                cells += [interval(np.array(longer)), f"{np.mean([found['wait'] for found in own]):.2f}"]
                lines.setdefault((name, policy), []).append(float(np.mean(longer)))
            cells.append(f"{np.mean([found['wait'] for found in base]):.2f}")
            print(f"| {name} | {scenario} | {' | '.join(cells)} |", flush=True)
    print("\nFrom which share on isolation no longer lengthens the makespan (linear between the points):")
    for (name, policy), values in lines.items():
        fixed = values[: len(SHARES)]
        crossing = np.interp(0, fixed[::-1], SHARES[::-1]) if min(fixed) <= 0 else np.nan
        print(f"| {name} | `{policy}` | {crossing:.1f} % |")


def check(n_allocations: int) -> None:
    """Random trees, tapered ones included, and random loads; `any` is what the verifier must find."""
    print("| Policy | Trees | Allocations | Shared links | Without a path | Links that are not there |")
    print("| --- | --- | --- | --- | --- | --- |")
    rng = np.random.default_rng(2)
    for policy in ("tiers", "isolated", "isolated, tapered", "tiers, uneven", "isolated, uneven", "any"):
        trees = done = shared = unrouted = unknown = 0
        while done < n_allocations:
            pods, leaves, per_leaf = (int(x) for x in rng.integers(2, 9, 3))
            nodes = make_nodes(pods, leaves, per_leaf)
            links = {"uplinks": rng.integers(1, per_leaf + 1), "spines": rng.integers(1, leaves + 1)}
            links = links if policy.endswith("tapered") else {}
            name = f"isolated:uplinks={links['uplinks']},spines={links['spines']}" if links else policy.split(",")[0]
            if policy.endswith("uneven"):
                nodes = nodes[rng.random(len(nodes)) < 0.85].reset_index(drop=True)
            jobs = workload(len(nodes), 1, trees, n_jobs=2000, load=rng.uniform(0.5, 2))
            size = np.exp(rng.uniform(0, np.log(len(nodes)), len(jobs))).astype(np.int64)
            verdict = verify(simulate(jobs.assign(n_nodes=size), nodes, name).schedule, nodes, **links)
            unknown += verdict.n_unknown_links
            trees, done = trees + 1, done + verdict.n_allocations
            shared, unrouted = shared + verdict.n_shared_links, unrouted + verdict.n_unrouted
        print(f"| `{policy}` | {trees} | {done:,} | {shared:,} | {unrouted} | {unknown} |", flush=True)


def jigsaw(n_seeds: int, n_jobs: int) -> None:
    """Jigsaw's published kind of load: exponential sizes of mean 16, 20 to 3,000 s, all at once, run times known."""
    print("| Tree | Policy | Busy utilization, % (each seed) | Kernel, s |\n| --- | --- | --- | --- |")
    uneven = make_nodes(16, 8, 8)
    uneven = uneven[np.random.default_rng(0).random(len(uneven)) < 0.97].reset_index(drop=True)
    for title, nodes in (("16 × 8 × 8", make_nodes(16, 8, 8)), (f"{len(uneven)} nodes of these", uneven)):
        for policy in ("isolated", "tiers", "any"):
            found = []
            for seed in range(n_seeds):
                rng = np.random.default_rng(seed)
                size = np.clip(np.rint(rng.exponential(16, n_jobs)), 1, len(nodes)).astype(np.int64)
                run = rng.integers(20, 3001, n_jobs)
                jobs = {"job_id": np.arange(n_jobs).astype(str), "submit_time": 0, "run_time": run, "n_nodes": size}
                table = pd.DataFrame(jobs | {"requested_time": run, "cpus_per_node": 1})
                found.append(measured(table, nodes, policy, whole=False))
            shown = " ".join(f"{each['busy']:.1f}" for each in found)
            mean = pd.DataFrame(found).mean()
            print(f"| {title} | `{policy}` | {mean['busy']:.1f} ({shown}) | {mean['seconds']:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["saturated", "faster", "check", "jigsaw"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--scenario", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--jobs", type=int, default=10_000, help="jigsaw: how many")
    parser.add_argument("--allocations", type=int, default=50_000, help="check: of each policy")
    given = parser.parse_args()
    if given.part == "saturated":
        saturated(given.seeds, 1.3, given.scenario)
    elif given.part == "faster":
        faster(given.seeds, given.scenario)
    elif given.part == "check":
        check(given.allocations)
    else:
        jigsaw(given.seeds, given.jobs)


if __name__ == "__main__":
    main()
