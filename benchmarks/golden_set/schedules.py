"""The schedules of every policy: digests of starts and ends and of the nodes, and the seconds waited in all."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pandas as pd

import procure
from golden_set.base import Part, Place, digest
from golden_set.doors import ROOT, policy_labels, schedule
from golden_set.tables import LOGS, log

sys.path.append(str(ROOT / "tests"))
from policy_cases import ON_TREE, crowded_case, pool_case, shared_case, sliced_case, with_tree

TRAINED = ("rules", "learned", "slurm")
"""Policies that need a folder or a file: sections slurm and commands."""
VARIED = (
    "fcfs:fit=best", "sjf:fit=worst", "wfp3:exclusive=true", "priority:weight_size=2,max_age=4000", "f1:last_two=true",
    "first-fit:exclusive=true,fit=best", "easy:place=best", "easy:place=worst,order=largest", "easy:exclusive=true",
    "easy:order=wfp3", "easy:queue_order=sjf", "easy:queue_order=wfp3,order=smallest", "easy:order=priority",
    "easy:order=sjf,queue_order=sjf,place=best", "easy:queue_order=priority,order=unicef,place=best",
    "easy:last_two=true,queue_order=sjf", "easy:keep=true,queue_order=sjf", "easy:queue_depth=4",
    "easy:by_time_only=true,order=f1", "easy:depth=2", "easy:depth=5,order=sjf", "easy:depth=3,queue_order=wfp3",
    "easy:order=random,queue_order=random", "easy-by-time:order=lcfs", "conservative:order=sjf",
    "conservative:order=wfp3", "conservative:last_two=true", "conservative:exclusive=true",
    "forecast:confidence=hazard",
)  # fmt: skip
VARIED_ON_TREE = (
    "any:queue_depth=3", "tiers:hold_reserved_links=true",
    "tiers:queue_depth=5", "isolated:hold_reserved_links=true", "isolated:uplinks=2,spines=1,bound=50",
    "closest:queue=fcfs", *(f"window:method={m}" for m in ("seq", "greedy", "exact", "sa")),
    "window:method=sa-published", "window:length=60,solve_time=2", "easy:place=closest", "easy:place=isolated",
)  # fmt: skip
GOES = {
    "* | easy:order=random*": "a benchmark's rival",
}
SLOW = {"best-gap": 400, "tabu": 60, "earliest-gap": 1200, "best-fit-of-node": 3000, "conservative": 3000}
"""How many jobs of a log the slow ones get."""
N_CASES = 12


def labels(on_tree: bool) -> list[str]:
    names = [name for name in policy_labels() if name not in TRAINED and (name in ON_TREE) == on_tree]
    return [*names, *(VARIED_ON_TREE if on_tree else VARIED)]


def shown(runs: list[pd.DataFrame | None]) -> str:
    """Say what came of some schedules, in one line."""
    if all(one is None for one in runs):
        return "refused"
    whole = pd.concat([one for one in runs if one is not None], ignore_index=True)
    nodes = [whole[name] for name in ("node_ids", "links") if name in whole]
    waited = int((whole["start_time"] - whole["submit_time"]).sum())
    starts = digest(whole["start_time"], whole["end_time"])
    return f"starts {starts} nodes {digest(*nodes)} ran {whole['start_time'].count()} waited {waited} s"


def run(jobs: pd.DataFrame, nodes: pd.DataFrame, kill: bool = True, on_tree: bool = False) -> dict[str, object]:
    """Simulate under every label."""
    found = {}
    for label in labels(on_tree):
        some = jobs.iloc[: SLOW.get(label.partition(":")[0], len(jobs))]
        found[label] = shown([schedule(some, nodes, label, kill)])
    return found


def cases(make, on_tree: bool, _: Place) -> dict[str, object]:
    """Simulate small random cases under every label; every other one ends jobs at their limit."""
    drawn = [(make(np.random.default_rng(seed), kill=bool(seed % 2)), bool(seed % 2)) for seed in range(N_CASES)]
    if on_tree:
        drawn = [((jobs, with_tree(nodes)), kill) for (jobs, nodes), kill in drawn]
    return {
        label: shown([schedule(jobs, nodes, label, kill) for (jobs, nodes), kill in drawn]) for label in labels(on_tree)
    }


def servers(*kinds: tuple[int, int, int, int], gpu_type: str = "") -> pd.DataFrame:
    """Return nodes of (count, CPUs, MB, GPUs)."""
    rows = [kind[1:] for kind in kinds for _ in range(kind[0])]
    nodes = pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus"])
    return nodes.assign(node_id=[f"n{i}" for i in range(len(rows))], gpu_type=np.where(nodes["gpus"] > 0, gpu_type, ""))


def embedded(_: Place) -> dict[str, object]:
    """Simulate part of the published day on few nodes."""
    return run(
        procure.generate(1, n_jobs=3000), servers((9, 64, 256_000, 0), (2, 24, 1_024_000, 0), (2, 64, 512_000, 8))
    )


def kth(place: Place) -> dict[str, object]:
    """Simulate half a year of whole nodes."""
    jobs = log(place, "KTH").iloc[10_000:14_000].reset_index(drop=True)
    return run(jobs, servers((100, 1, 10_000_000, 0)), kill=False)


def wagap(place: Place) -> dict[str, object]:
    """Simulate months on two kinds of shared nodes."""
    return run(log(place, "wagap").iloc[:5000], servers((12, 80, 500_000, 0), (48, 12, 90_000, 0)))


def helios(place: Place) -> dict[str, object]:
    """Simulate GPU jobs; each CPU-heavy node's share is bounded, and wide jobs take nodes of eight GPUs."""
    raw = pd.read_csv(place.data / HELIOS).iloc[:4000]
    n_nodes = np.maximum(-(-raw["gpu_num"] // 8), 1)
    jobs = pd.DataFrame({"job_id": raw["u_id"].astype(str), "user": raw["user"].astype(str), "n_nodes": n_nodes})
    jobs = jobs.assign(
        submit_time=raw["interval"].cumsum().astype(int) // 4, run_time=raw["run_time"].astype(int),
        requested_time=(raw["run_time"].astype(int) // 3600 + 1) * 3600,
        cpus_per_node=(raw["cpu_num"] // n_nodes).clip(1, 48),
        gpus_per_node=-(-raw["gpu_num"] // n_nodes), gpu_type=np.where(raw["user"] % 3 == 0, "v100", ""),
    )  # fmt: skip
    return run(jobs, servers((6, 48, 256_000, 0), (10, 48, 256_000, 8), gpu_type="V100"))


def tree(place: Place) -> dict[str, object]:
    """Simulate KTH's jobs on a fat-tree."""
    return run(log(place, "KTH").iloc[:2000], procure.fat_tree(4, 5, 5), on_tree=True)


HELIOS = "gpu_jobs/dirlab_helios_data_training.csv.xz"
PARTS = {
    "embedded": Part(embedded),
    "KTH": Part(kth, (LOGS["KTH"][0],)),
    "wagap": Part(wagap, (LOGS["wagap"][0],)),
    "helios": Part(helios, (HELIOS,)),
    "KTH on a tree": Part(tree, (LOGS["KTH"][0],)),
    **{
        make.__name__.replace("_", " "): Part(partial(cases, make, False))
        for make in (pool_case, shared_case, crowded_case, sliced_case)
    },
    "tree case": Part(partial(cases, pool_case, True)),
}
