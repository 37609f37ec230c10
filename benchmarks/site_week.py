"""A week of a centre under policy slurm: seconds, constraints checked independently, waits by QOS and partition.

The centre's configuration and jobs are a folder with slurm.conf, gres.conf, topology.conf, sacctmgr.script and an event
file, as the published Slurm simulator's tutorials have them; they hold requests and run times, no logged starts.

    python benchmarks/site_week.py ../shared/data/ubccr_slurm/week --events workload_week.events.xz --more 20
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from slurm_events import read_events

from procure.run import simulate
from procure.site.policy import Slurm, rejections
from procure.site.store import write_site
from procure.site.understand import read_slurm
from procure.tables import JOB, NODE, check


def read_centre(folder: Path, events: str) -> tuple:
    """Return the site's rules, its nodes and its jobs."""
    with tempfile.TemporaryDirectory() as copy:
        for name in ("slurm.conf", "gres.conf", "topology.conf", "sacctmgr.script"):
            if (folder / name).exists():
                shutil.copy(folder / name, copy)
        site = read_slurm(copy)
    return site.rules, site.nodes, check(read_events(folder / events), JOB)


def allowed(constraint: str, features: set[str]) -> bool:
    """Say whether a node with these features satisfies a constraint of and, or and parentheses; no code is shared."""
    words = re.findall(r"[^&|()\[\],\s*]+|[&|()]", re.sub(r"[\[\]]|\*\d+", "", constraint.replace(",", "&")))
    text = "".join({"&": " and ", "|": " or "}.get(w, w if w in "()" else str(w in features)) for w in words)
    return bool(eval(text)) if text else True  # of True, False, and, or, parentheses only


def broken_constraints(schedule: pd.DataFrame, nodes: pd.DataFrame) -> int:
    """Count the jobs on a node that their constraint excludes, job by job, in plain Python."""
    of = {
        name: set(filter(None, text.split(","))) for name, text in zip(nodes["node_id"], nodes["features"], strict=True)
    }
    broken = 0
    for text, where in zip(schedule["constraint"], schedule["node_ids"], strict=True):
        if isinstance(text, str) and text and isinstance(where, str) and where:
            broken += not all(allowed(text.strip('"'), of[name]) for name in where.split(","))
    return broken


def kinds_of(nodes: pd.DataFrame) -> pd.Series:
    """Name each node's kind by what it has."""
    columns = [c for c in ("cpus", "mem_mb", "gpus", "features") if c in nodes]
    return nodes[columns].astype(str).agg(" / ".join, axis=1)


def with_more(nodes: pd.DataFrame, n: int) -> pd.DataFrame:
    """Add so many nodes like the first of each kind."""
    kinds = kinds_of(nodes)
    rows = [nodes]
    for number, (_, same) in enumerate(nodes.groupby(kinds, sort=True)):
        rows.append(pd.concat([same.iloc[[0]]] * n).assign(node_id=[f"new{number}-{k}" for k in range(n)]))
    return pd.concat(rows, ignore_index=True)


def joined(rules, nodes: pd.DataFrame, more: pd.DataFrame):
    """Let the added nodes join every partition that holds a node of their kind."""
    old = dict(zip(nodes["node_id"], kinds_of(nodes), strict=True))
    from procure.site.store import node_list

    partitions = []
    new = more[~more["node_id"].isin(nodes["node_id"])]
    for each in rules.partitions:
        members = node_list(each.nodes, nodes)
        kinds = {old[name] for name in members}
        names = new["node_id"][kinds_of(new).isin(kinds)].tolist()
        partitions.append(each.model_copy(update={"nodes": ",".join([*members, *names])}))
    return rules.model_copy(update={"partitions": tuple(partitions)})


def report(schedule: pd.DataFrame, nodes: pd.DataFrame, elapsed: float, title: str) -> pd.Series:
    """Print seconds, constraints, utilization and waits; returns CPU-hours by kind."""
    ran = schedule[schedule["start_time"].notna()]
    wait = (ran["start_time"] - ran["submit_time"]).astype(float)
    cpu_s = (ran["end_time"] - ran["start_time"]).astype(float) * ran["n_nodes"] * ran["cpus_per_node"]
    first, last = ran["submit_time"].min(), ran["submit_time"].max()
    inside = (ran["end_time"].clip(upper=last) - ran["start_time"]).clip(lower=0).astype(float)
    used = (inside * ran["n_nodes"] * ran["cpus_per_node"]).sum() / (nodes["cpus"].sum() * float(last - first))
    print(
        f"{title}: {len(ran):,} of {len(schedule):,} jobs ran, kernel {elapsed:.2f} s, CPUs used until the last "
        f"submission {used:.1%}, jobs on a node that their constraint excludes: "
        f"{broken_constraints(schedule, nodes)}, mean wait {wait.mean():,.0f} s, p95 {wait.quantile(0.95):,.0f} s"
    )
    for column in ("qos", "partition"):
        table = pd.DataFrame(
            {
                "jobs": wait.groupby(ran[column]).size(),
                "mean": wait.groupby(ran[column]).mean(),
                "p95": wait.groupby(ran[column]).quantile(0.95),
                "cpu_h": cpu_s.groupby(ran[column]).sum() / 3600,
            }
        )
        print(table.round(0).to_string())
    kind = dict(zip(nodes["node_id"], kinds_of(nodes), strict=True))
    share = cpu_s / ran["n_nodes"]
    rows = [(kind[n], s) for text, s in zip(ran["node_ids"], share, strict=True) for n in text.split(",")]
    return pd.DataFrame(rows, columns=["kind", "s"]).groupby("kind")["s"].sum() / 3600


def main() -> None:
    """Run the week under slurm, EASY and best fit, as it is and with more nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", default="workload_week.events.xz")
    parser.add_argument("--more", type=int, default=0)
    options = parser.parse_args()
    rules, nodes, jobs = read_centre(options.folder, options.events)
    for each in rules.not_understood:
        print("not understood:", each.setting, each.value, "-", each.effect)
    shares: dict[str, pd.Series] = {}
    for more in dict.fromkeys((0, options.more)):
        here = check(with_more(nodes, more), NODE) if more else nodes
        site = joined(rules, nodes, here) if more else rules
        with tempfile.TemporaryDirectory() as folder:
            write_site(site, here, folder)
            policy = f"slurm:site={folder}"
            simulate(jobs.head(50), here, policy)  # so that nothing is compiled or loaded in the measured run
            began = time.process_time()
            run = simulate(jobs, here, policy, kill_at_limit=False)
            print(f"processor time with reading, layout and schedule: {time.process_time() - began:.1f} s")
            title = f"slurm, {len(here)} nodes"
            shares[title] = report(run.schedule, here, run.elapsed, title)
            for why, ids in rejections(Slurm(site=folder), run.schedule, here).items():
                print(f"  set aside: {len(ids)} jobs: {why}")
        for rival in ("easy", "best-fit"):
            run = simulate(jobs, here, rival, kill_at_limit=False)
            title = f"{rival}, {len(here)} nodes"
            shares[title] = report(run.schedule, here, run.elapsed, title)
    table = pd.DataFrame(shares)
    print("CPU-hours by kind of node")
    print(table.round(0).to_string())
    print(np.round(table / table.sum(), 3).to_string())


if __name__ == "__main__":
    main()
