"""Small workloads of multi-node jobs, for the tests of the policies."""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd

from procure.policies import catalog


def few(n: int) -> int:
    """Return a fifth of ``n`` random cases in plain Python, where each takes long; all compiled (`make test-slow`)."""
    return max(2, n // 5) if numba.config.DISABLE_JIT else n


def job_table(**columns) -> pd.DataFrame:
    n = len(columns["submit_time"])
    defaults = {"job_id": [f"j{i}" for i in range(n)], "requested_time": 0, "cpus_per_node": 1, "n_nodes": 1}
    return pd.DataFrame(defaults | columns, index=range(n))


def node_table(n: int, **columns) -> pd.DataFrame:
    defaults = {"node_id": [f"n{i}" for i in range(n)], "cpus": 1, "mem_mb": 1000, "gpus": 0, "gpu_type": ""}
    return pd.DataFrame(defaults | columns, index=range(n))


def pool_case(rng: np.random.Generator, n_jobs: int = 14, kill: bool = True):
    """Whole nodes, all alike; run times within the request if ``kill``."""
    n_nodes = int(rng.integers(1, 7))
    run = rng.choice([0, 1, 2, 3, 5, 9, 17], n_jobs)
    request = np.maximum(run + rng.choice([0, 0, 1, 4, 12], n_jobs), 1)
    if not kill:
        request = rng.choice([1, 2, 4, 8], n_jobs)
    jobs = job_table(
        submit_time=500 + np.sort(rng.integers(0, rng.choice([1, 10, 50]), n_jobs)),
        run_time=run,
        requested_time=request,
        n_nodes=rng.integers(1, n_nodes + 2, n_jobs),
        user=rng.choice(["a", "b", "c"], n_jobs),
    )
    return jobs, node_table(n_nodes)


def queueing_jobs(rng: np.random.Generator, n_nodes: int, n_jobs: int) -> pd.DataFrame:
    """A workload of whole nodes that queues, with early ends and jobs of no time."""
    run = rng.choice([0, 1, 3, 7, 20], n_jobs)
    submit = np.sort(rng.integers(0, 60, n_jobs))
    return job_table(
        submit_time=submit - submit[0],
        run_time=run,
        n_nodes=np.minimum(rng.integers(1, n_nodes + 1, n_jobs), rng.integers(1, n_nodes + 1, n_jobs)),
        requested_time=np.maximum(run + rng.choice([0, 0, 2, 9], n_jobs), 1),
    )


def shared_case(rng: np.random.Generator, n_jobs: int = 12, kill: bool = True):
    """Nodes of several kinds that jobs share, with GPUs of two types."""
    jobs, _ = pool_case(rng, n_jobs, kill)
    n_nodes = int(rng.integers(1, 6))
    jobs = jobs.assign(
        n_nodes=rng.integers(1, n_nodes + 1, n_jobs),
        cpus_per_node=rng.choice([0, 1, 1, 2, 3, 5], n_jobs),
        mem_mb_per_node=rng.choice([0, 100, 400, 1000], n_jobs),
        gpus_per_node=rng.choice([0, 0, 0, 1], n_jobs),
        gpu_type=rng.choice(["", "a100", "v100"], n_jobs),
    )
    nodes = node_table(
        n_nodes,
        cpus=rng.choice([1, 4, 5], n_nodes),
        mem_mb=rng.choice([400, 1000], n_nodes),
        gpus=rng.choice([0, 1, 2], n_nodes),
        gpu_type=rng.choice(["", "a100", "v100"], n_nodes),
    )
    return jobs, nodes


SLICE = "a100_1g.5gb"


def sliced_case(rng: np.random.Generator, n_jobs: int = 14, kill: bool = True):
    """As `shared_case` on nodes of which some have whole GPUs and slices of others; jobs ask for either, or for any."""
    jobs, nodes = shared_case(rng, n_jobs, kill)
    jobs = jobs.assign(
        gpus_per_node=rng.choice([0, 1, 1, 2], n_jobs),
        gpu_type=rng.choice(["", "a100", SLICE, "v100|A100", f"v100|{SLICE}"], n_jobs),
    )
    kinds = [(0, ""), (2, "a100"), (5, f"2x A100 + 3x {SLICE}"), (5, f"3 x a100+2x{SLICE.upper()}"), (1, "t4")]
    picked = [kinds[i] for i in (2, *rng.integers(0, len(kinds) - 1, len(nodes) - 1))]
    return jobs, nodes.assign(gpus=[n for n, _ in picked], gpu_type=[text for _, text in picked])


def plainly(name: str):
    """Parameters of a policy of the catalog that is called from Python at each decision."""
    spec = catalog.spec(name)

    class Plainly(type(spec.parameters)):
        def make(self, state):
            policy = super().make(state)
            return lambda state: policy(state)

    return lambda: Plainly(**dict(spec.parameters))


ON_TREE = ("any", "compact", "tiers", "isolated", "closest", "window")


def with_tree(nodes: pd.DataFrame) -> pd.DataFrame:
    """Two nodes on a leaf and two leaves in a pod, where the number of nodes allows."""
    leaf = np.arange(len(nodes)) // (1 if len(nodes) % 2 else 2)
    return nodes.assign(leaf=leaf, pod=leaf // (1 if (leaf[-1] + 1) % 2 else 2))


def case_for(policy: str, case):
    """The case, or for a policy that needs a tree and whole, equal nodes a pool on one."""
    if policy not in ON_TREE:
        return case

    def tree_case(rng, **options):
        jobs, nodes = pool_case(rng, **options)
        return jobs, with_tree(nodes)

    return tree_case


def crowded_case(rng: np.random.Generator, n_jobs: int = 24, kill: bool = True):
    """Few requests, many jobs of each at few moments: what deciding by lines of equal jobs must get right.

    Half of the cases are pools. Nodes of unlike kinds are shared, jobs take several nodes, name GPU types
    and ask for nothing; run times are zero, end early or, unless ``kill``, outlast their estimate.
    """
    pooled = bool(rng.integers(2))
    n_nodes, n_shapes = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    kind = rng.integers(0, n_shapes, n_jobs)

    def of_shape(values):
        return rng.choice(values, n_shapes)[kind]

    request = of_shape([2, 4, 9]) if rng.integers(2) else rng.choice([2, 4, 9], n_jobs)
    run = np.minimum(rng.choice([0, 1, 2, 4, 9], n_jobs), request) if kill else rng.choice([0, 1, 3, 7], n_jobs)
    moments = np.sort(rng.integers(0, 40, 5))
    jobs = job_table(
        submit_time=500 + np.sort(rng.choice(moments, n_jobs)),
        run_time=run,
        requested_time=request,
        n_nodes=of_shape(np.arange(1, n_nodes + 1)) if pooled else of_shape([1, 1, 1, 2]),
        user=rng.choice(["a", "b", "c"], n_jobs),
    )
    if pooled:
        return jobs, node_table(n_nodes)
    gpus = of_shape([0, 0, 1])
    jobs = jobs.assign(
        cpus_per_node=of_shape([0, 1, 1, 2, 3]),
        mem_mb_per_node=of_shape([0, 100, 300, 600]),
        gpus_per_node=gpus,
        gpu_type=np.where(gpus > 0, of_shape(["", "a100", "v100"]), ""),
    )
    nodes = node_table(
        n_nodes,
        cpus=rng.choice([2, 4, 5], n_nodes),
        mem_mb=rng.choice([600, 1000], n_nodes),
        gpus=rng.choice([0, 1, 2], n_nodes),
        gpu_type=rng.choice(["", "a100", "v100"], n_nodes),
    )
    return jobs, nodes


def tasks_case(rng: np.random.Generator, jobs, nodes):
    """Give rows of a job table tasks, some whole nodes; the first row's tasks may stand anywhere."""
    n = len(jobs)
    tasks = rng.choice([0, 0, 1, 2, 3, 5, 8], n)
    tasks[0] = 3
    mem, gpus = rng.choice([0, 0, 100, 300], n), rng.choice([0, 0, 0, 1, 2], n)
    lo = np.minimum(rng.choice([1, 1, 1, 2, 3], n), np.maximum(tasks, 1))
    hi, most = rng.choice([0, 0, 0, 1, 2, 3], n), rng.choice([0, 0, 0, 1, 2, 4], n)
    hi = np.where(hi > 0, np.maximum(hi, lo), 0)
    most = np.where((hi > 0) & (most * hi < tasks), 0, most)
    lo[0], hi[0], most[0], mem[0], gpus[0] = 1, 0, 0, 0, 0
    return jobs.assign(
        n_tasks=tasks,
        cpus_per_task=rng.choice([1, 1, 1, 2, 3], n),
        mem_mb_per_task=np.where(tasks > 0, mem, 0),
        mem_mb_per_node=np.where((tasks > 0) & (mem > 0), 0, jobs.get("mem_mb_per_node", 0)),
        gpus_per_task=np.where(tasks > 0, gpus, 0),
        gpus_per_node=np.where((tasks > 0) & (gpus > 0), 0, jobs.get("gpus_per_node", 0)),
        tasks_per_node=most,
        min_nodes=lo,
        max_nodes=hi,
        exclusive=rng.random(n) < 0.1,
    ), nodes


def unit_case(rng: np.random.Generator, jobs, nodes):
    """Let all jobs ask for tasks of one kind on any nodes: only how many are free counts."""
    cpus, mem = rng.choice([1, 1, 2]), rng.choice([0, 0, 100])
    nodes = nodes.assign(cpus=rng.choice([1, 3, 4, 8], len(nodes)))
    return jobs.assign(
        n_tasks=rng.choice([1, 1, 2, 3, 5, 8], len(jobs)),
        cpus_per_task=cpus,
        mem_mb_per_task=mem,
        mem_mb_per_node=0,
        gpus_per_node=0,
        gpus_per_task=0,
        exclusive=False,
        min_nodes=1,
        max_nodes=0,
        tasks_per_node=0,
    ), nodes


def as_dicts(jobs: pd.DataFrame, nodes: pd.DataFrame, kill: bool = True):
    """The same in units for `naive_tasks`; submission times are sorted already."""
    bits = {"": -1, "a100": 1, "v100": 2, SLICE: 4, "v100|a100": 3, f"v100|{SLICE}": 6}
    first = int(jobs["submit_time"].min())
    rows = []
    optional = ("mem_mb_per_node", "gpus_per_node", "due_time", "n_tasks", "gpus_per_task", "exclusive")
    defaults = dict.fromkeys(optional, 0) | {"gpu_type": ""}
    for job in [defaults | row for row in jobs.to_dict("records")]:
        limit, run, n_nodes, n = (int(job[name]) for name in ("requested_time", "run_time", "n_nodes", "n_tasks"))
        pool = "slices" if SLICE in job["gpu_type"] else "gpus"
        gpus = max(int(job["gpus_per_node"]), int(job["gpus_per_task"]))
        made = {
            "submit": int(job["submit_time"]) - first,
            "run": min(run, limit) if kill and limit else run,
            "limit": limit,
            "est": limit or 10**15,
            "due": int(job["due_time"]),
            "n": n_nodes,
            "cpus": int(job["cpus_per_node"]),
            "mem": int(job["mem_mb_per_node"]),
            "gpus": 0,
            "slices": 0,
            pool: gpus,
            "types": bits[job["gpu_type"].lower()] if gpus else -1,
            "most": 1,
            "lo": n_nodes,
            "hi": n_nodes,
            "whole": bool(job["exclusive"]),
        }
        if n:
            made |= {
                "n": n,
                "cpus": int(job["cpus_per_task"]),
                "mem": int(job["mem_mb_per_task"]),
                pool: int(job["gpus_per_task"]),
                "mem_node": made["mem"],
                f"{pool}_node": int(job["gpus_per_node"]),
                "most": int(job["tasks_per_node"]) or n,
                "lo": int(job["min_nodes"]),
                "hi": min(int(job["max_nodes"]) or n, n),
            }
        rows.append(made)
    servers = []
    for n in nodes.to_dict("records"):
        parts = n["gpu_type"].lower().replace(" ", "").split("+")
        mixed = [part.split("x", 1) for part in parts if len(parts) > 1]
        slices = sum(int(count) for count, model in mixed if model == SLICE)
        servers.append(
            {
                "cpus": int(n["cpus"]),
                "mem": int(n["mem_mb"]),
                "gpus": int(n["gpus"]) - slices,
                "slices": slices,
                "types": sum(bits[model] for _, model in mixed) if mixed else bits[n["gpu_type"]],
            }
        )
    return rows, servers


def as_found(start, where):
    """What a slow twin gave, as `found` has it."""
    return start, [tuple(f"n{n}" for n in sorted(nodes)) for nodes in where]


def fitting(state, job):
    """Rows of the nodes that hold a job's share of a node now."""
    fits = (state.free_cpus >= state.cpus[job]) & (state.free_mem >= state.mem[job])
    fits &= (state.free_gpus >= state.gpus[job]) & (state.node_types & state.types[job] != 0)
    return np.flatnonzero(fits)


def found(run, jobs: pd.DataFrame):
    """Start (s after the first submission, None) and node names per job."""
    first = int(jobs["submit_time"].min())
    start = [None if pd.isna(s) else int(s) - first for s in run.schedule["start_time"]]
    return start, [tuple(text.split(",")) if text else () for text in run.schedule["node_ids"]]
