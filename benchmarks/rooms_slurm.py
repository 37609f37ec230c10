"""Slurm's tree plugin beside `compact` on a real Slurm: `python benchmarks/rooms_slurm.py tree`, on a lab that runs.

Compares the nodes that Slurm gave each job with those that `compact` takes of the same idle nodes. ``SLURM_CONF`` names
the slurm.conf of the lab, which we may change (root): the script writes topology.conf beside it, restarts slurmctld and
puts slurm.conf back.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure.site.network import attach, read_slurm_topology
from procure.tables import NODE, check
from procure.topology.compact import allocate_compact
from procure.topology.fabric import empty_fabric, empty_grant
from procure.topology.fat_tree import FatTree
from procure.topology.metrics import average_hops
from procure.workload.read_schedule import names_of, read_schedule

CONF = Path(os.environ.get("SLURM_CONF", "slurm.conf"))


def call(*words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=os.environ | {"SLURM_TIME_FORMAT": "%s"}
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def restart() -> None:
    pid = Path(re.search(r"SlurmctldPidFile=(\S+)", CONF.read_text())[1])
    os.kill(int(pid.read_text()), signal.SIGTERM)
    time.sleep(3)
    subprocess.run(["/usr/sbin/slurmctld"], check=True)
    time.sleep(5)
    call("scontrol", "reconfigure")
    time.sleep(5)


def nodes_of_lab() -> list[str]:
    return sorted(set(call("sinfo", "-Nh", "-o", "%N").split()), key=lambda name: (len(name), name))


def write_tree(pods: int, leaves: int) -> Path:
    """Hang the lab's nodes on a tree, the last leaf one short where they do not divide."""
    parts = np.array_split(nodes_of_lab(), pods * leaves)
    lines = [f"SwitchName=s{i} Nodes={','.join(part)}" for i, part in enumerate(parts)]
    lines += [f"SwitchName=p{p} Switches=s[{p * leaves}-{(p + 1) * leaves - 1}]" for p in range(pods)]
    lines.append(f"SwitchName=top Switches=p[0-{pods - 1}]")
    path = CONF.with_name("topology.conf")
    path.write_text("\n".join(lines) + "\n")
    return path


def tree(n_jobs: int, topology: Path) -> None:
    rng = np.random.default_rng(1)
    n_nodes = len(nodes_of_lab())
    ids = []
    for _ in range(n_jobs):
        n = int(min(n_nodes, rng.choice([1, 1, 2, 2, 3, 4, 5, 6, 8])))
        ids.append(call("sbatch", "--parsable", "--mem=10", "-N", str(n), "--ntasks-per-node=1", "-t", "5", "-o",
                        "/dev/null", "--wrap", f"sleep {rng.integers(3, 25)}").strip())  # fmt: skip
        time.sleep(float(rng.uniform(0, 1.0)))
    while call("squeue", "-h", "-o", "%i").split():
        time.sleep(2)
    time.sleep(8)
    log = Path("/tmp/rooms_slurm.psv")
    log.write_text(call("sacct", "-XPj", ",".join(ids), "-o", "JobID,Start,End,NodeList"))
    beside(read_schedule(log), topology)


def beside(schedule: pd.DataFrame, topology: Path) -> None:
    """At each start: hops between the nodes that Slurm gave, and between those of `compact` on the same idle nodes.

    A job that began in the same second as another may have been placed before or after it; the order of job numbers
    is taken, which is that of equal priorities.
    """
    network = read_slurm_topology(topology)
    nodes = attach(check(network.nodes[["node_id"]].assign(cpus=1, mem_mb=1), NODE), network)
    table = FatTree.from_nodes(nodes)
    place = {nodes["node_id"][row]: at for at, row in enumerate(table.rows) if row >= 0}
    rows, shape, grant = [], table.shape, empty_grant(table.shape)
    schedule = schedule.assign(number=schedule["job_id"].astype(int)).sort_values(["start_time", "number"])
    jobs = [([place[name] for name in names_of(job.node_ids)], job) for job in schedule.itertuples()]
    for places, job in jobs:
        fabric = empty_fabric(shape)
        for held, other in jobs:
            before = (other.start_time, other.number) < (job.start_time, job.number)
            if before and other.end_time > job.start_time:
                fabric.idle[held] = 0
        on_leaf = fabric.idle.reshape(-1, shape.nodes).sum(axis=1)
        fabric.leaf_idle[:], fabric.pod_idle[:] = on_leaf, on_leaf.reshape(shape.pods, -1).sum(axis=1)
        if len(places) > 1 and allocate_compact(shape, fabric, len(places), grant):
            mine = grant.nodes[: len(places)]
            first = np.flatnonzero(fabric.idle)[: len(places)]
            hops = [
                average_hops(at // shape.nodes, at // shape.nodes // shape.leaves)
                for at in map(np.array, (places, mine, first))
            ]
            switches = [len(set((np.array(at) // shape.nodes).tolist())) for at in (places, mine, first)]
            rows.append((len(places), *hops, *switches))
    found = pd.DataFrame(rows, columns=["n", "slurm", "compact", "first", "s_slurm", "s_compact", "s_first"])
    print("| Jobs of several nodes | Nodes by | Mean hops (APH) | Leaf switches |\n| --- | --- | --- | --- |")
    for name, shown in (("slurm", "Slurm's tree plugin"), ("compact", "`compact`"), ("first", "the first idle nodes")):
        print(f"| {len(found)} | {shown} | {found[name].mean():.3f} | {found['s_' + name].mean():.3f} |")
    better, worse = (found["compact"] < found["slurm"] - 1e-9).sum(), (found["compact"] > found["slurm"] + 1e-9).sum()
    print(f"`compact` has fewer hops in {better}, more in {worse}, as many in {len(found) - better - worse}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("tree",))
    parser.add_argument("--jobs", type=int, default=80)
    given = parser.parse_args()
    before = CONF.read_text()
    try:
        topology = write_tree(2, 2)
        CONF.write_text(before + "TopologyPlugin=topology/tree\n")
        restart()
        tree(given.jobs, topology)
    finally:
        CONF.write_text(before)


if __name__ == "__main__":
    main()
