"""The figures of docs/claims/coschedule.md: `python benchmarks/coschedule_claims.py regret|study|log`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from procure.coschedule.learner import regret
from procure.run import simulate
from procure.workload.importing import import_log
from procure.workload.studies import CORES, PROFILES, system, workflows

STUDY = (
    "easy:exclusive=true", "first-fit", "coschedule:share=0.5", "coschedule:learner=paper", "coschedule:learner=ips",
    "coschedule:learner=ix", "coschedule:learner=ucb", "coschedule:learner=ucb,step=0.125", "coschedule",
)  # fmt: skip
FORMS = ("share", "bandwidth")


def with_parameters(policy: str, **more: object) -> str:
    if not policy.startswith("coschedule"):
        return policy
    words = ",".join(f"{key}={value}" for key, value in more.items())
    return f"{policy},{words}" if ":" in policy else f"{policy}:{words}"


def held(schedule: pd.DataFrame, cpus: int) -> float:
    """CPU-seconds during which at least one job holds them: the union of the jobs' times on each node."""
    rows = schedule.assign(node=schedule["node_ids"].str.split(",")).explode("node").sort_values("start_time")
    total = 0
    for _, part in rows.groupby("node"):
        until = -(10**18)
        for start, end in zip(part["start_time"], part["end_time"], strict=True):
            total += max(0, end - max(start, until))
            until = max(until, end)
    return float(total * cpus)


def one_study(cores: int, policy: str, seed: int, gap: int) -> dict[str, float]:
    jobs, nodes = workflows(cores, gap=gap, seed=seed), system(cores)
    found = simulate(jobs, nodes, with_parameters(policy, seed=seed), kill_at_limit=False)
    table = found.schedule
    work = (jobs["cpu_percent"] / 100 * jobs["run_time"] * jobs["n_nodes"] * jobs["cpus_per_node"]).sum()
    longer = 100 * ((table["end_time"] - table["start_time"]) / jobs["run_time"] - 1)
    makespan = found.metrics["makespan"]
    return {
        "wait": found.metrics["mean_wait_time"] / 3600, "cpu": 100 * work / cores / makespan,
        "cpu_held": 100 * work / held(table, 8), "response": found.metrics["mean_turnaround_time"] / 3600,
        "makespan": makespan / 3600, "longer": longer.mean(), "longest": longer.max(),
        "guests": float(table["began_as_guest"].sum()) if "began_as_guest" in table else 0.0,
        "ceiling": 100 * work / cores / (2 * gap + jobs["run_time"].max()),
    }  # fmt: skip


def study(seeds: range, gap: int, worse: float, policies: tuple[str, ...] = STUDY) -> None:
    print(
        "| Cores | Contention | Policy | Wait, h | × backfilling's | CPU, % of all cores | of held cores "
        "| Response, h | Makespan, h | Run time longer by, % | worst job | Guests |"
    )
    print("|" + " --- |" * 12)
    for cores in CORES:
        base = np.nan
        for form in FORMS:
            for policy in policies:
                if not policy.startswith("coschedule") and form != FORMS[0]:
                    continue
                name = with_parameters(policy, contention=form, worse=worse)
                mean = pd.DataFrame([one_study(cores, name, seed, gap) for seed in seeds])
                worst = mean["longest"].max()
                mean = mean.mean()
                base = mean["wait"] if policy == STUDY[0] else base
                shown = form if policy.startswith("coschedule") else "–"
                cells = [
                    f"{mean['wait']:.2f}", f"{mean['wait'] / base:.2f}", f"{mean['cpu']:.1f}",
                    f"{mean['cpu_held']:.1f}",
                    f"{mean['response']:.2f}", f"{mean['makespan']:.2f}", f"{mean['longer']:.1f}", f"{worst:.1f}",
                    f"{mean['guests']:.0f}",
                ]  # fmt: skip
                print(f"| {cores} | {shown} | `{policy}` | " + " | ".join(cells) + " |", flush=True)
        print(f"The most that {cores} cores could do, if the last submission's longest job never waited: "
              f"{mean['ceiling']:.1f} % of all cores", file=sys.stderr)  # fmt: skip


def profiled(jobs: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Give each user one of the study's four kinds of workflow (64 cores), each as likely, for all jobs."""
    rng = np.random.default_rng(seed)
    users = sorted(jobs["user"].unique())
    kind = dict(zip(users, rng.integers(0, 4, len(users)), strict=True))
    profiles = np.array([profile[1:] for profile in (each[0] for each in PROFILES.values())], dtype=float)
    of = profiles[jobs["user"].map(kind).to_numpy()]
    return jobs.assign(cpu_percent=of[:, 0], mem_percent=of[:, 1], bandwidth_percent=of[:, 1], mem_mb_per_node=0)


LOGS = {
    "kth": ("pwa/KTH-SP2-1996-2.1-cln.swf.xz", {"cpus_per_node": 1}, [1] * 100),
    "wagap": ("metacentrum_wagap_2013/wagap-2013_jan-feb.swf.xz", {"preset": "metacentrum"}, [80] * 20 + [12] * 48),
}  # fmt: skip
"""File, how it is read, and the CPUs of each node."""


def logs(folder: Path, name: str, n_jobs: int, seeds: int) -> None:
    """The first jobs of a log, profiles drawn per user; with and without guests."""
    file, how, cpus = LOGS[name]
    jobs = import_log(folder / file, format="swf", shape="as-logged", **how).jobs.head(n_jobs)
    nodes = pd.DataFrame({"node_id": [f"n{i:03d}" for i in range(len(cpus))], "cpus": cpus, "mem_mb": 1})
    print(
        "| Policy | Contention | Mean wait, h | Bounded slowdown | CPUs held, % | CPU used, % of all "
        "| Makespan, d | Run time longer by, % | Guests | Kernel, s |"
    )
    print("|" + " --- |" * 10)
    easy = "easy:exclusive=true" if max(cpus) == 1 else "easy"
    cases = [(easy, "share", 1.0), ("first-fit", "share", 1.0)]
    for learner in ("idle", "ucb"):
        cases += [(f"coschedule:learner={learner}", form, worse) for form in FORMS for worse in (1.0, 2.0)]
        cases.append((f"coschedule:learner={learner},progress=limit", "share", 1.0))
    cases += [("coschedule:share=0.5", form, 1.0) for form in FORMS]
    for policy, form, worse in cases:
        rows = []
        for seed in range(seeds):
            table = profiled(jobs, seed)
            name = with_parameters(policy, contention=form, worse=worse, seed=seed)
            found = simulate(table, nodes, name, kill_at_limit=False)
            schedule, makespan = found.schedule, found.metrics["makespan"]
            n_cpus = table["n_nodes"] * table["cpus_per_node"]
            work = (table["cpu_percent"] / 100 * table["run_time"] * n_cpus).sum()
            took = schedule["end_time"] - schedule["start_time"]
            longer = 100 * (took.sum() / table["run_time"].sum() - 1)
            as_guest = schedule.get("guest_time", 0)
            holding = ((took - as_guest) * n_cpus).sum()
            rows.append([
                found.metrics["mean_wait_time"] / 3600, found.metrics["mean_bounded_slowdown"],
                100 * holding / sum(cpus) / makespan, 100 * work / sum(cpus) / makespan, makespan / 86_400, longer,
                schedule["began_as_guest"].sum() if "began_as_guest" in schedule else 0, found.elapsed,
            ])  # fmt: skip
        wait, slow, holds, used, span, longer, guests, kernel = np.mean(rows, axis=0)
        shown = "–" if not policy.startswith("coschedule") else form + ("" if worse == 1 else ", twice as bad")
        print(f"| `{policy}` | {shown} | {wait:.2f} | {slow:.1f} | {holds:.1f} | {used:.1f} | {span:.1f} "
              f"| {longer:.1f} | {guests:,.0f} | {kernel:.1f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("regret", "study", "log"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="of the study")
    parser.add_argument("--gap", type=int, default=7200)
    parser.add_argument("--worse", type=float, default=1.0)
    parser.add_argument("--policies", default=";".join(STUDY), help="separated by semicolons")
    parser.add_argument("--jobs", type=int, default=28_000)
    parser.add_argument("--log", choices=LOGS, default="kth")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args()
    if given.part == "regret":
        print(regret(seeds=30).to_string())
    elif given.part == "study":
        seeds = range(given.first_seed, given.first_seed + given.seeds)
        study(seeds, given.gap, given.worse, tuple(given.policies.split(";")))
    else:
        logs(given.data, given.log, given.jobs, given.seeds)


if __name__ == "__main__":
    main()
