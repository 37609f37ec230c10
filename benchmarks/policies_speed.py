"""How fast the policies are: jobs per second of one core, on real and on generated workloads.

    python benchmarks/policies_speed.py embedded POLICY [N_JOBS]  the embedded day, 100 shared nodes; a JSON line
    python benchmarks/policies_speed.py hpc2n LOG.swf.xz          FCFS, EASY, conservative; 240 nodes
    python benchmarks/policies_speed.py beocat LOG.csv.xz NODES.csv    best fit, three resources
    python benchmarks/policies_speed.py plain                     a policy in plain Python, 100 nodes
    python benchmarks/policies_speed.py scale OUT.svg             EASY up to 1,000,000 jobs, 10,000 nodes
    python benchmarks/policies_speed.py growth OUT.svg [LIMIT [AXIS …]]   against jobs, nodes, queue, shapes
    python benchmarks/policies_speed.py crowd                     plans on eight overloaded shared nodes and in a pool
    python benchmarks/policies_speed.py slowdown LOG.swf.xz PROCESSORS NODES    bounded slowdowns of EASY
    python benchmarks/policies_speed.py study RESULTS.parquet     whether EASY and best fit choose alike

Prints seconds of the processor's time: on a busy computer the wall clock measures the other programs.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure import run as procure_run
from procure.run import simulate
from procure.simulator.state import WAIT
from procure.workload import generate, import_log

procure_run.time.perf_counter = time.process_time  # what `Run.elapsed` is measured with


def node_table(n: int, **columns) -> pd.DataFrame:
    return pd.DataFrame({"node_id": [f"n{i}" for i in range(n)], "cpus": 1, "mem_mb": 10**7} | columns)


def timed(name: str, jobs: pd.DataFrame, nodes: pd.DataFrame, policy) -> float:
    simulate(jobs.head(50), nodes, policy)  # compiles
    began = time.process_time()
    run = simulate(jobs, nodes, policy)
    whole = time.process_time() - began
    print(
        f"{name}: {len(jobs):,} jobs, kernel {run.elapsed:.3f} s = {len(jobs) / run.elapsed:,.0f} jobs/s; "
        f"with tables {whole:.2f} s; mean wait {run.metrics['mean_wait_time']:,.1f} s",
        flush=True,
    )
    return run.elapsed


def embedded(policy: str, n_jobs: str = "16000", repeats: int = 5) -> None:
    """Print the least kernel seconds of some runs: of a busy computer, the least is nearest to the idle one's."""
    count = int(n_jobs)
    jobs = generate(1) if count == 16_000 else generate(1, n_jobs=count)
    kinds = ((88, 64, 256_000, 0), (6, 24, 1_024_000, 0), (6, 64, 512_000, 8))
    rows = [kind[1:] for kind in kinds for _ in range(max(1, kind[0] * count // 16_000))]
    nodes = node_table(len(rows)).assign(**pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus"]))
    runs = [simulate(jobs, nodes, policy, fast_lane=False) for _ in range(repeats)]
    seconds = min(run.elapsed for run in runs)
    found = {
        "policy": policy,
        "n_jobs": len(jobs),
        "n_nodes": len(nodes),
        "kernel_seconds": seconds,
        "jobs_per_second": len(jobs) / seconds,
        "mean_wait_time": runs[0].metrics["mean_wait_time"],
    }
    print(json.dumps(found))


def hpc2n(log: str) -> None:
    jobs = import_log(log, "swf").jobs
    for policy in ("fcfs", "easy", "conservative", "sjf", "easy-sjf"):
        timed(policy, jobs, node_table(240), policy)


def beocat(log: str, machines: str) -> None:
    jobs = import_log(log, "csv", preset="beocat").jobs
    given = pd.read_csv(machines)
    nodes = pd.DataFrame(
        {
            "node_id": given["MachineName"],
            "cpus": given["TotalCPUs"],
            "mem_mb": given["TotalMemory"] // 1000,
            "gpus": given["TotalGPUs"],
        }
    )
    for policy in ("best-fit", "easy", "fcfs"):
        timed(policy, jobs, nodes, policy)


def first_fit(state):
    """First fit as a newcomer would write it."""
    end = len(state.submit)
    job = int(state.next_waiting[end])
    while job != end:
        nodes = np.flatnonzero((state.free_cpus >= state.cpus[job]) & (state.free_mem >= state.mem[job]))
        if len(nodes) >= state.n_nodes[job]:
            return job, nodes[: state.n_nodes[job]]
        job = int(state.next_waiting[job])
    return WAIT, []


def generated(n_jobs: int, n_nodes: int, mean_size: float, load: float, seed: int = 1) -> pd.DataFrame:
    """Multi-node jobs that together need ``load`` of the nodes."""
    rng = np.random.default_rng(seed)
    size = np.minimum(np.ceil(rng.exponential(mean_size, n_jobs)), n_nodes).astype(np.int64)
    run = np.ceil(rng.exponential(3600, n_jobs)).astype(np.int64)
    gap = size.mean() * 3600 / (load * n_nodes)
    return pd.DataFrame(
        {
            "job_id": np.arange(n_jobs).astype(str),
            "submit_time": np.cumsum(rng.exponential(gap, n_jobs)).astype(np.int64),
            "run_time": run,
            "requested_time": run * rng.integers(1, 5, n_jobs),
            "n_nodes": size,
            "cpus_per_node": 1,
        }
    )


def plain() -> None:
    jobs = generated(5_000, 100, 2, 0.85)
    n_answers = 0

    def counted(state):
        nonlocal n_answers
        n_answers += 1
        return first_fit(state)

    simulate(jobs, node_table(100), counted)
    n_decisions = n_answers
    elapsed = timed("plain Python", jobs, node_table(100), first_fit)
    print(f"{n_decisions / elapsed:,.0f} decisions/s, {len(jobs) / elapsed:,.0f} of them starts")


def scale(out: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    sizes, counts = (10_000, 30_000, 100_000, 300_000, 1_000_000), (100, 300, 1_000, 3_000, 10_000)
    by_jobs = [timed(f"10,000 nodes, {n:,}", generated(n, 10_000, 20, 1.0), node_table(10_000), "easy") for n in sizes]
    by_nodes = [timed(f"{n:,} nodes", generated(100_000, n, 20, 1.0), node_table(n), "easy") for n in counts]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory {peak:.2f} GB")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True)
    left.loglog(sizes, by_jobs, "o-")
    left.set(xlabel="jobs (10,000 nodes)", ylabel="kernel seconds, EASY", title=f"peak memory {peak:.2f} GB")
    right.loglog(counts, by_nodes, "o-")
    right.set(xlabel="nodes (100,000 jobs)")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


AXES = {
    "jobs": (1_000, 10_000, 100_000, 1_000_000),
    "nodes": (10, 100, 1_000, 10_000),
    "queue": (10, 100, 1_000, 10_000),
    "shapes": (10, 100, 1_000, 10_000),
}
GROWING = ("easy", "easy:exclusive=true", "conservative", "conservative:exclusive=true")
BASE = {"jobs": 20_000, "nodes": 100, "queue": 100, "shapes": 100}


def growing(jobs: int, nodes: int, queue: int, shapes: int, exclusive: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Jobs of some shapes on nodes of 64 CPUs: ``queue`` more than fit come at once, the rest as fast as they end."""
    rng = np.random.default_rng(1)
    cpus = rng.integers(1, 33, shapes)
    mem = np.maximum(1, rng.permutation(250_000)[:shapes])
    shape = rng.integers(0, shapes, jobs)
    share = 1.0 if exclusive else np.maximum(cpus / 64, mem / 500_000)[shape].mean()
    run = np.ceil(rng.exponential(3600, jobs)).astype(np.int64)
    at_once = min(jobs, queue + int(nodes / share))
    submit = np.zeros(jobs, np.int64)
    submit[at_once:] = np.cumsum(rng.exponential(3600 * share / nodes, jobs - at_once)).astype(np.int64)
    columns = {
        "job_id": np.arange(jobs).astype(str), "submit_time": submit, "run_time": run,
        "requested_time": run * rng.integers(1, 5, jobs), "cpus_per_node": cpus[shape], "mem_mb_per_node": mem[shape],
    }  # fmt: skip
    return pd.DataFrame(columns), node_table(nodes, cpus=64, mem_mb=500_000)


def within(limit: float, policy: str, jobs: pd.DataFrame, nodes: pd.DataFrame) -> tuple[float, int] | None:
    """Simulate in a process of its own; None if it takes more than so many seconds of the processor.

    Looked at from outside: with a limit of the system's own, its clock counts in steps of 4 ms.
    """

    def child(pipe) -> None:
        run = simulate(jobs, nodes, policy)
        pipe.send((run.elapsed, run.metrics["max_queue_depth"]))

    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(there,))
    process.start()
    while not here.poll(0.2):
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > limit:
            process.kill()
            return None
    found = here.recv()
    process.join()
    return found


def growth(out: str, limit: str = "60", *axes: str) -> None:
    """Plot kernel seconds and print them as a table; a run that takes more than the limit ends its series."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    for policy in GROWING:  # compiles
        simulate(*growing(50, 4, 1, 4, False), policy)
    chosen = axes or tuple(AXES)
    figure, panels = plt.subplots(1, len(chosen), figsize=(3.25 * len(chosen), 3.5), sharey=True, squeeze=False)
    for panel, axis in zip(panels[0], chosen, strict=True):
        for policy in GROWING:
            done, took, cells = [], [], []
            for size in AXES[axis]:
                jobs, nodes = growing(**{**BASE, axis: size}, exclusive="exclusive" in policy)
                found = within(float(limit), policy, jobs, nodes)
                if found is None:
                    cells.append(f"over {limit} s")
                    break
                done.append(size)
                took.append(found[0])
                cells.append(f"{found[0]:.3g} ({found[1]:,})")
                print(f"{axis} {size:,}: {policy} {cells[-1]}", file=sys.stderr, flush=True)
            power = np.polyfit(np.log(done[-3:]), np.log(took[-3:]), 1)[0] if len(done) > 1 else float("nan")
            print("|", axis, "|", policy, "|", " | ".join(cells), "|", f"{power:.2f}", "|", flush=True)
            name = policy.replace(":exclusive=true", ", exclusive")
            panel.loglog(done, took, "o-", label=f"{name}: {power:.2f}")
        panel.set(xlabel=axis)
        panel.legend(fontsize=6, title="exponent over the last three", title_fontsize=6)
    panels[0][0].set(ylabel="kernel seconds")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def crowd() -> None:
    """Plans where the queue is long: everything comes at once."""
    kinds = ((6, 64, 256_000, 0), (1, 24, 1_024_000, 0), (1, 64, 512_000, 8))
    rows = [kind[1:] for kind in kinds for _ in range(kind[0])]
    eight = node_table(8).assign(**pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus"]))
    two = eight.iloc[[0, 7]].reset_index(drop=True)
    cases = [("conservative", 600, eight), ("best-gap", 100, two), ("tabu", 100, two)]
    for policy, n_jobs, nodes in cases:
        jobs = generate(1, n_jobs=n_jobs)
        jobs["submit_time"] = jobs["submit_time"] // 50
        timed(f"{policy}, {len(nodes)} shared nodes", jobs, nodes, policy)
    for policy, load in (("best-gap", 100.0), ("tabu", 1.2)):
        timed(f"{policy}, a pool of 100", generated(2_000, 100, 8, load), node_table(100), policy)
    for depth in (2, 10, 100):
        embedded(f"easy:depth={depth}", repeats=1)


def slowdown(log: str, processors: str, per_node: str = "1") -> None:
    """Print the average bounded slowdown (floor 10 s) of EASY, with requested and with exact run times."""
    jobs = import_log(log, "swf").jobs
    size = int(per_node)
    if size > 1:
        jobs = jobs.assign(n_nodes=-(-jobs["n_nodes"] * jobs["cpus_per_node"] // size), cpus_per_node=size)
    nodes = node_table(int(processors) // size).assign(cpus=size)
    exact = simulate(jobs, nodes, "easy", estimates=np.maximum(1, jobs["run_time"].to_numpy(np.int64)))
    for name, run in (("EASY", simulate(jobs, nodes, "easy")), ("EASY, exact run times", exact)):
        print(f"{name}: {len(jobs):,} jobs, average bounded slowdown {run.metrics['mean_bounded_slowdown']:.1f}")


def study(results: str) -> None:
    """Print whether EASY and best fit choose alike, of the packages that run every job."""
    table = pd.read_parquet(results)
    waits = table.pivot_table("mean_wait_time", "package_id", "policy")
    lacking = table.groupby("package_id")["n_unrunnable"].max()
    waits = waits[lacking[waits.index] == 0]
    print(f"{len(waits):,} of {len(lacking):,} packages run every job; rank correlation of their mean waits "
          f"{waits['easy'].corr(waits['best-fit'], method='spearman'):.4f}")  # fmt: skip
    for k in (1, 10, 50, 100):
        best = [set(waits[policy].nsmallest(k).index) for policy in ("easy", "best-fit")]
        print(f"best {k}: {len(best[0] & best[1])} in common")
    for policy in ("easy", "best-fit"):
        chosen = waits.loc[waits[policy].idxmin()]
        print(
            f"{policy} chooses {chosen.name}: "
            f"{chosen['easy']:,.0f} s under EASY, {chosen['best-fit']:,.0f} s under best fit"
        )


if __name__ == "__main__":
    what, *arguments = sys.argv[1:] or ["help"]
    commands = {
        "embedded": embedded, "hpc2n": hpc2n, "beocat": beocat, "plain": plain, "scale": scale, "growth": growth,
        "crowd": crowd, "slowdown": slowdown, "study": study,
    }  # fmt: skip
    if what in commands:
        commands[what](*arguments)
    else:
        print(__doc__)
