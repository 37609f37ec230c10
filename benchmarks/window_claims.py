"""The figures of docs/claims/window.md: `python benchmarks/window_claims.py epochs|front --data FILE`.

FILE is the study's released instance, data_large_1800_40.txt.xz.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from hop_costs import cost_of_jobs
from window_published import published_queue

from procure.run import simulate
from procure.schemas import JOB
from procure.tables import check
from procure.topology.fat_tree import make_nodes
from procure.window.policies import Windows
from procure.window.problem import Window
from procure.window.solve import solve
from procure.window.train import collect_windows

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
    solve(windows[0], method, steps=1)
    rows = []
    for i, window in enumerate(windows):
        began = time.process_time()
        found = solve(window, method, seed=i, steps=steps, **options)
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


def front(jobs: pd.DataFrame, lengths: list[int]) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("epochs", "front"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lengths", default="1,2,5,10,20,30,40,50,60")
    given = parser.parse_args()
    jobs = pd.read_csv(
        given.data, sep=r"\s+", names=["job_id", "submit_time", "run_time", "n_nodes"], dtype={"job_id": str}
    )
    jobs = check(jobs.assign(requested_time=jobs["run_time"], cpus_per_node=1), JOB)
    jobs = jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    if given.part == "epochs":
        epochs(jobs, given.epochs)
    else:
        front(jobs, [int(n) for n in given.lengths.split(",")])


if __name__ == "__main__":
    main()
