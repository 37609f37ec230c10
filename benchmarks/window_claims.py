"""Every figure of docs/claims/window.md: `python benchmarks/window_claims.py PART --data FILE`, see `main`.

FILE is the study's released instance, data_large_1800_40.txt.xz.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from hop_costs import cost_of_jobs
from scipy.optimize import linprog
from scipy.sparse import csr_array
from window_published import published_queue

from procure.page.svg import BLUE, GREY, ORANGE, figure
from procure.run import simulate
from procure.topology.fat_tree import FatTree, make_nodes
from procure.window.compare import collect_windows
from procure.window.network import read_network
from procure.window.policies import Windows
from procure.window.problem import Window
from procure.window.solve import make_solver, solve
from procure.workload.window_study import read_released

NODES = make_nodes(25, 4, 10)
LENGTH, N_WINDOWS = 60, 100
TABLE_3 = {
    "seq": (105_023.5, None), "sa-published, 500": (91_813.2, 0.76), "sa-published, 1000": (90_809.7, 1.55),
    "NSA-500": (89_588.7, 1.54), "exact": (83_092.3, 18.96),
}  # fmt: skip
FIGURE_6 = {
    10: (31352, 186),
    20: (31256, 198),
    30: (31011, 212),
    40: (30846, 226),
    50: (30680, 245),
    60: (30599, 259),
}


def epoch_windows(jobs: pd.DataFrame, seed: int) -> list[Window]:
    """The windows with jobs of several nodes among the first hundred, from an empty system, at a random job."""
    first = int(np.random.default_rng(seed).integers(0, len(jobs) - 600))
    parameters = Windows.model_validate({"length": LENGTH, "seed": seed})
    found = collect_windows(jobs.iloc[first : first + 600], NODES, parameters)
    return [w for w, at in zip(found.windows, found.closed_at, strict=True) if at <= N_WINDOWS * LENGTH]


def solved(windows: list[Window], method: str, steps: int = 0, **options) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cost (code), cost (paper) and CPU seconds of each window."""
    solver = make_solver(method)
    solve(windows[0], solver, steps=1)
    rows = []
    for i, window in enumerate(windows):
        began = time.process_time()
        found = solve(window, solver, seed=i, steps=steps, **options)
        rows.append((found.cost_code, found.cost_paper, time.process_time() - began))
    return tuple(np.array(rows, float).T)


def epochs(jobs: pd.DataFrame, n_epochs: int) -> None:
    """The published table beside ours, and what is asked of the ratios."""
    methods = [
        ("seq", 0), ("sa-published", 500), ("sa-published", 1000), ("sa", 500), ("sa", 1000),
        ("greedy", 0), ("exact", 0), ("lns", 0),
    ]  # fmt: skip
    by_method: dict[str, list] = {f"{m}, {s}" if s else m: [] for m, s in methods}
    n_windows, n_idle, n_jobs, worse = 0, [], [], 0
    for seed in range(n_epochs):
        windows = epoch_windows(jobs, seed)
        n_windows += len(windows)
        n_idle += [len(w.idle) for w in windows]
        n_jobs += [len(w.sizes) for w in windows]
        each = {name: solved(windows, m, s) for name, (m, s) in zip(by_method, methods, strict=True)}
        worse += int((each["lns"][0] > each["exact"][0]).sum())
        for name, found in each.items():
            by_method[name].append((found[0].sum() / N_WINDOWS, found[1].sum() / N_WINDOWS, found[2]))
    print(f"{n_epochs} epochs, {n_windows} windows solved, on average {np.mean(n_jobs):.2f} jobs of several nodes")
    print(f"and {np.mean(n_idle):.0f} idle nodes; windows in which lns costs more than exact: {worse}\n")
    code = {name: np.array([row[0] for row in rows]) for name, rows in by_method.items()}
    paper = {name: np.array([row[1] for row in rows]) for name, rows in by_method.items()}
    reference, reference_paper = code["sa-published, 1000"], paper["sa-published, 1000"]
    print("| Method | Cost, code | against SA-1000 as coded (sd) | Cost, paper | against SA-1000 as coded "
          "| CPU ms, mean | p95 | Published cost | s |")  # fmt: skip
    print("| --- " * 9 + "|")
    for name, rows in by_method.items():
        ms = 1000 * np.concatenate([row[2] for row in rows])
        ratio = code[name] / reference
        published = TABLE_3.get(name, (None, None))
        print(f"| `{name}` | {code[name].mean():,.0f} | {ratio.mean():.4f} ({ratio.std(ddof=1):.4f}) "
              f"| {paper[name].mean():,.0f} | {(paper[name] / reference_paper).mean():.4f} "
              f"| {ms.mean():.2f} | {np.quantile(ms, 0.95):.2f} "
              f"| {published[0] or '–'} | {published[1] or '–'} |")  # fmt: skip
    for a, b in (
        ("sa-published, 500", "seq"),
        ("sa-published, 1000", "seq"),
        ("exact", "sa-published, 1000"),
        ("lns", "exact"),
    ):
        ratio = code[a] / code[b]
        print(f"{a} / {b}: {ratio.mean():.4f}, sd {ratio.std(ddof=1):.4f}, {ratio.min():.4f} to {ratio.max():.4f}; "
              f"paper profile {(paper[a] / paper[b]).mean():.4f}")  # fmt: skip


def front_point(jobs: pd.DataFrame, policy) -> tuple[float, float]:
    """Mean cost of a job and mean wait over the ten epochs of 300 jobs of the published figure."""
    rows = []
    for epoch in range(10):
        part = jobs.iloc[300 * epoch : 300 * (epoch + 1)]
        options = {} if isinstance(policy, str) else {"options": {"exclusive": 1}}
        schedule = simulate(part, NODES, policy() if callable(policy) else policy, **options).schedule
        waits = (schedule["start_time"] - schedule["submit_time"]).to_numpy(float)
        rows.append((cost_of_jobs(schedule, NODES).mean(), waits.mean()))
    return tuple(np.mean(rows, axis=0))


def front(jobs: pd.DataFrame, plot: Path | None, lengths: list[int]) -> None:
    """Cost against wait, ours and as published."""
    points = {
        "published FCFS, reproduced": front_point(jobs, lambda: published_queue(False)),
        "published BF, reproduced": front_point(jobs, lambda: published_queue(True)),
        "`easy:exclusive=true`": front_point(jobs, "easy:exclusive=true"),
        "`closest:queue=fcfs`": front_point(jobs, "closest:queue=fcfs"),
        "`closest`": front_point(jobs, "closest"),
    }
    for length in lengths:
        points[f"`window:method=lns,length={length}`"] = front_point(jobs, f"window:method=lns,length={length}")
    print("| Policy | Cost per job (code) | Wait, s | Published network at this length |")
    print("| --- | --- | --- | --- |")
    for name, (cost, wait) in points.items():
        length = int(name.split("=")[-1].strip("`")) if "length" in name else 0
        other = "{:,} at {} s".format(*FIGURE_6[length]) if length in FIGURE_6 else "–"
        print(f"| {name} | {cost:,.1f} | {wait:.1f} | {other} |")
    if plot is None:
        return
    made, axes = figure(7.2, 4.0)
    network = np.array(list(FIGURE_6.values()), float)
    axes.plot(network[:, 1], network[:, 0], "o-", color=GREY, label="published: network, windows of 10–60 s")
    queues = np.array(list(points.values()))[:2]
    axes.plot(queues[:, 1], queues[:, 0], "s", color=GREY, label="published: FCFS, BF (reproduced)")
    ours = np.array([points[f"`window:method=lns,length={n}`"] for n in lengths])
    axes.plot(ours[:, 1], ours[:, 0], "o-", color=BLUE, label="window:method=lns, 1–60 s")
    simple = np.array([points["`closest:queue=fcfs`"], points["`closest`"]])
    axes.plot(simple[:, 1], simple[:, 0], "D", color=ORANGE, label="closest, FCFS and EASY")
    axes.set_xlabel("mean wait (s)")
    axes.set_ylabel("mean cost of a job (code)")
    axes.legend(fontsize=8)
    made.savefig(plot, format="svg", metadata={"Date": None, "Creator": None})


def mips(jobs: pd.DataFrame, n: int, limit: float) -> None:
    """The three exact methods on the same windows of at least four jobs."""
    windows = [w for seed in range(100, 110) for w in epoch_windows(jobs, seed) if len(w.sizes) >= 4]
    windows = [windows[i] for i in np.linspace(0, len(windows) - 1, n).round().astype(int)]
    print(f"{n} windows, {np.mean([len(w.idle) for w in windows]):.0f} idle nodes")
    print("| Method | CPU s, mean | most | proved optimal | costs more than `exact` |\n| --- | --- | --- | --- | --- |")
    best = np.array([solve(w, "exact").cost_code for w in windows])
    for method in ("exact", "mip", "mip-published"):
        rows = []
        for window, least in zip(windows, best, strict=True):
            began = time.process_time()
            try:
                found = solve(window, method, time_limit=limit)
                rows.append((time.process_time() - began, found.optimal, found.cost_code > least))
            except ValueError:  # nothing within the limit
                rows.append((time.process_time() - began, False, True))
        seconds, optimal, above = np.array(rows, float).T
        print(
            f"| `{method}` | {seconds.mean():.3f} | {seconds.max():.3f} | {optimal.sum():.0f} of {n} "
            f"| {above.sum():.0f} |"
        )


def transport_bound(window: Window) -> float:
    """A bound below the cost of every allocation, contiguous or not.

    A node of a job of n nodes saves at most 1000 (min(n, r) − 1) / n on a leaf with r idle nodes, and
    as much in a pod with r; which nodes go where is a transportation problem for each of the two.
    """
    n = window.sizes.astype(float)
    saved = 0.0
    for size in (window.tree.nodes, window.tree.nodes * window.tree.leaves):
        room, many = np.unique(np.unique(window.idle // size, return_counts=True)[1], return_counts=True)
        value = 1000 * (np.minimum(n[:, None], room) - 1) / n[:, None]
        cell = np.arange(value.size)
        rows = csr_array((np.ones(value.size), (cell // len(room), cell)))
        columns = csr_array((np.ones(value.size), (cell % len(room), cell)))
        found = linprog(-value.ravel(), A_ub=columns, b_ub=room * many, A_eq=rows, b_eq=n)
        saved -= found.fun
    return float((2500 * (n - 1)).sum() - saved - len(n))


def large(n: int) -> None:
    """10,000 nodes, windows of 50 jobs."""
    tree = FatTree(25, 20, 20, uplinks=1, spines=1)
    windows = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        busy = np.zeros(len(tree), bool)
        share = rng.uniform(0.5, 0.85)
        while busy.mean() < share:
            busy[(rng.integers(len(tree)) + np.arange(rng.integers(1, 41))) % len(tree)] = True
        idle = np.flatnonzero(~busy)
        windows.append(Window(tree, idle, tuple(map(str, range(50))), rng.integers(2, 41, 50)))
    print(f"{n} windows, {np.mean([len(w.idle) for w in windows]):.0f} idle nodes")
    bound = np.array([transport_bound(w) for w in windows])
    print("| Method | Cost (code) | above the bound, % | CPU ms, mean | p95 |\n| --- | --- | --- | --- | --- |")
    for method, steps in (
        ("seq", 0),
        ("sa-published", 1000),
        ("sa", 1000),
        ("greedy", 0),
        ("lns", 0),
        ("lns", 3000),
    ):
        code, _, seconds = solved(windows, method, steps)
        name = f"{method}, {steps}" if steps else method
        print(f"| `{name}` | {code.mean():,.0f} | {100 * (code / bound - 1).mean():.1f} "
              f"| {1000 * seconds.mean():.1f} | {1000 * np.quantile(seconds, 0.95):.1f} |")  # fmt: skip
    print(f"| bound, any nodes | {bound.mean():,.0f} | 0 | | |")


def solvers(n: int, limit: float) -> None:
    """The exact methods and the search on large windows: cost over the best, CPU time, and what is proved."""
    print("| Nodes, jobs | Method | Cost over the least found, % | CPU s, mean | most | proved optimal |")
    print("| --- | --- | --- | --- | --- | --- |")
    for shape, n_jobs in (((10, 10, 10), 5), ((10, 10, 10), 10), ((10, 10, 10), 20), ((25, 20, 20), 10)):
        tree, windows = FatTree(*shape, uplinks=1, spines=1), []
        for seed in range(n):
            rng = np.random.default_rng(seed)
            busy = np.zeros(len(tree), bool)
            while busy.mean() < 0.7:
                busy[(rng.integers(len(tree)) + np.arange(rng.integers(1, 41))) % len(tree)] = True
            windows.append(
                Window(tree, np.flatnonzero(~busy), tuple(map(str, range(n_jobs))), rng.integers(2, 25, n_jobs))
            )
        found: dict[str, list[tuple[float, float, bool]]] = {}
        for method in ("compact", "greedy", "lns", "exact", "mip", "cp-sat"):
            solve(Window(FatTree(1, 2, 4, uplinks=1, spines=1), np.arange(6), ("a", "b"), [2, 3]), method)  # compiles
            for window in windows:
                began = time.process_time()
                try:
                    one = solve(window, method, time_limit=limit)
                    row = (float(one.cost_code), time.process_time() - began, one.optimal)
                except ValueError:  # nothing within the limit
                    row = (np.nan, time.process_time() - began, False)
                found.setdefault(method, []).append(row)
        least = np.nanmin([[row[0] for row in rows] for rows in found.values()], axis=0)
        for method, rows in found.items():
            cost, seconds, optimal = np.array(rows, float).T
            above = 100 * np.nanmean(cost / least - 1)
            times = f"{seconds.mean():.3f} | {seconds.max():.3f}"
            print(
                f"| {len(tree):,}, {n_jobs} | `{method}` | {above:.2f} | {times} | {optimal.sum():.0f} of {n} |",
                flush=True,
            )


def contention(jobs: pd.DataFrame) -> None:
    """The same jobs where shared links slow jobs down; nobody is killed at a limit."""
    print("| Slowdown | Policy | Run time against the log, × | Wait, s | Cost per job (code) |")
    print("| --- | --- | --- | --- | --- |")
    for slowdown in (0.0, 0.1, 0.3, 1.0):
        for name in ("any", "closest", "window:method=lns,length=1", "window:method=lns,length=10"):
            rows = []
            policy = f"{name}{',' if ':' in name else ':'}slowdown={slowdown}"
            for epoch in range(10):
                part = jobs.iloc[300 * epoch : 300 * (epoch + 1)]
                s = simulate(part, NODES, policy, kill_at_limit=False).schedule
                took = (s["end_time"] - s["start_time"]).to_numpy(float)
                wait = (s["start_time"] - s["submit_time"]).to_numpy(float)
                rows.append((took.mean() / part["run_time"].mean(), wait.mean(), cost_of_jobs(s, NODES).mean()))
            took, wait, cost = np.mean(rows, axis=0)
            shown = "easy (`any`)" if name == "any" else f"`{name}`"
            print(f"| {slowdown} | {shown} | {took:.4f} | {wait:.1f} | {cost:,.0f} |")


def neural(jobs: pd.DataFrame, net: str, n_epochs: int) -> None:
    """The network's search against annealing at equal CPU time, on the first epochs."""
    windows = [w for seed in range(n_epochs) for w in epoch_windows(jobs, seed)]
    print(f"{n_epochs} epochs, {len(windows)} windows")
    print("| Method | Cost of a window (code) | CPU ms, mean |\n| --- | --- | --- |")
    print(f"the network: {read_network(net).training}")
    found = {f"neural, {steps}": solved(windows, f"neural:{net}", steps) for steps in (50, 500)}
    per_step = solved(windows, "sa", 2000)[2].mean() / 2000
    for name, (_, _, seconds) in list(found.items()):
        steps = max(1, round(seconds.mean() / per_step))
        found[f"sa, {steps} (as long as {name})"] = solved(windows, "sa", steps)
    for name in ("sa-published", "sa", "greedy", "exact", "lns"):
        found[name] = solved(windows, name)
    for name, (code, _, seconds) in found.items():
        print(f"| `{name}` | {code.mean():,.0f} | {1000 * seconds.mean():.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("epochs", "front", "mips", "large", "solvers", "contention", "neural"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--windows", type=int, default=14)
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--lengths", default="1,2,5,10,20,30,40,50,60")
    parser.add_argument("--net", default="net.zip")
    given = parser.parse_args()
    if given.part == "large":
        return large(given.windows)
    if given.part == "solvers":
        return solvers(given.windows, given.time_limit)
    jobs = read_released(given.data)
    if given.part == "epochs":
        return epochs(jobs, given.epochs)
    if given.part == "front":
        return front(jobs, given.plot, [int(n) for n in given.lengths.split(",")])
    if given.part == "mips":
        return mips(jobs, given.windows, given.time_limit)
    if given.part == "contention":
        return contention(jobs)
    return neural(jobs, given.net, given.epochs)


if __name__ == "__main__":
    main()
