"""Whether two versions of the code give the same schedules, start for start and node for node.

    python benchmarks/schedules.py record OUT.json [--data ../shared/data] [--policies NAME,NAME …]
    python benchmarks/schedules.py compare BEFORE.json AFTER.json

Each policy runs on generated cases as the tests have them (pools, shared nodes, crowds, trees) and, with ``--data``, on
parts of real logs. Kept are a digest of each schedule and the kernel's processor seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

from policies_speed import generated, node_table
from policy_cases import ON_TREE, crowded_case, pool_case, shared_case, with_tree
from topology_claims import TREES, workload

from procure import run as procure_run
from procure.policies import catalog
from procure.run import simulate
from procure.topology.fat_tree import make_nodes
from procure.workload import generate, import_log

procure_run.time.perf_counter = time.process_time

VARIED = (
    "fcfs:fit=best", "sjf:fit=worst", "wfp3:exclusive=true", "priority:weight_size=2,max_age=4000", "f1:last_two=true",
    "first-fit:exclusive=true,fit=best", "easy:fit=best", "easy:fit=worst,order=largest", "easy:exclusive=true",
    "easy:order=wfp3", "easy:queue_order=sjf", "easy:queue_order=wfp3,order=smallest", "easy:order=priority",
    "easy:queue_order=priority,order=unicef,fit=best", "easy:last_two=true,queue_order=sjf", "easy:depth=2",
    "easy:depth=5,order=sjf", "easy:depth=3,queue_order=wfp3", "easy-by-time:order=lcfs", "conservative:order=sjf",
    "conservative:order=wfp3", "conservative:last_two=true", "conservative:exclusive=true",
    "forecast:confidence=weekly", "forecast:control=exact", "forecast:control=shuffled,seed=3",
)  # fmt: skip
VARIED_ON_TREE = (
    "any:queue_depth=3", "any:slowdown=0.5", "compact:slowdown=1,exponent=0.5", "tiers:hold_reserved_links=true",
    "tiers:queue_depth=5", "isolated:hold_reserved_links=true", "isolated:uplinks=2,spines=1,bound=50",
    "closest:queue=fcfs", "closest:slowdown=0.5", "window:method=greedy",
)  # fmt: skip
NAMES = catalog.names()
SLOW = {"best-gap": 500, "tabu": 60, "earliest-gap": 1500, "best-fit-of-node": 6000, "conservative": 6000}
"""How many jobs of a log the slow ones get."""


def flat() -> list[str]:
    return [name for name in NAMES if name not in ON_TREE] + list(VARIED)


def on_tree() -> list[str]:
    return [name for name in NAMES if name in ON_TREE] + list(VARIED_ON_TREE)


def cases(n: int) -> Iterator[tuple[str, list[str], pd.DataFrame, pd.DataFrame, bool]]:
    for seed in range(n):
        kill = bool(seed % 2)
        for case in (pool_case, shared_case, crowded_case):
            jobs, nodes = case(np.random.default_rng(seed), kill=kill)
            yield f"{case.__name__} {seed}", flat(), jobs, nodes, kill
        jobs, nodes = pool_case(np.random.default_rng(seed), 40, kill=kill)
        yield f"tree {seed}", on_tree(), jobs, with_tree(nodes), kill


def kinds(*rows: tuple[int, int, int, int]) -> pd.DataFrame:
    every = [row[1:] for row in rows for _ in range(row[0])]
    return node_table(len(every)).assign(**pd.DataFrame(every, columns=["cpus", "mem_mb", "gpus"]))


def made() -> Iterator[tuple[str, list[str], pd.DataFrame, pd.DataFrame, bool]]:
    few = kinds((12, 64, 256_000, 0), (2, 24, 1_024_000, 0), (2, 64, 512_000, 8))
    yield "embedded day, few nodes", flat(), generate(1, n_jobs=4000), few, True
    yield "generated pool", flat(), generated(4000, 100, 5, 1.1), node_table(100), True
    for name, multiple in (("cab", 1), ("pinot", 3)):
        nodes = make_nodes(*TREES[name])
        yield f"{name} {multiple}x", on_tree(), workload(len(nodes), multiple, 1, n_jobs=800), nodes, True


def logs(folder: Path) -> Iterator[tuple[str, list[str], pd.DataFrame, pd.DataFrame, bool]]:
    swf = {
        "HPC2N": (240, "HPC2N-2002-2.1-cln"),
        "KTH": (100, "KTH-SP2-1996-2.1-cln"),
        "BLUE": (1152, "SDSC-BLUE-2000-4.2-cln"),
    }
    for name, (n_nodes, file) in swf.items():
        jobs = import_log(folder / f"pwa/{file}.swf.xz", "swf").jobs.iloc[10_000:16_000].reset_index(drop=True)
        yield name, flat(), jobs, node_table(n_nodes), name != "BLUE"
    kth = import_log(folder / "pwa/KTH-SP2-1996-2.1-cln.swf.xz", "swf").jobs.iloc[:2500]
    yield "KTH on a tree", on_tree(), kth, make_nodes(4, 5, 5), True
    beocat = import_log(folder / "beocat_2021/all_jobs_202104.csv.xz", "csv", preset="beocat").jobs
    day = (beocat["submit_time"] - 18_000) // 86_400 == pd.Timestamp("2021-05-04").timestamp() // 86_400
    small = kinds((24, 64, 256_000, 0), (3, 24, 1_024_000, 0), (3, 64, 512_000, 8))
    yield "Beocat 2021-05-04", flat(), beocat[day].reset_index(drop=True), small, True
    wagap = import_log(folder / "metacentrum_wagap_2013/wagap-2013_jan-feb.swf.xz", "swf", preset="metacentrum").jobs
    yield "wagap", flat(), wagap, kinds((12, 80, 500_000, 0), (48, 12, 90_000, 0)), True


def record(out: Path, data: Path | None, n_cases: int, only: list[str]) -> None:
    found = json.loads(out.read_text()) if out.exists() else {}

    def run(name: str, policies: list[str], jobs: pd.DataFrame, nodes: pd.DataFrame, kill: bool) -> None:
        for policy in policies:
            if (only and policy not in only) or f"{name} | {policy}" in found:
                continue
            some = jobs.iloc[: SLOW.get(policy.partition(":")[0], len(jobs))]
            try:
                ran = simulate(some, nodes, policy, kill_at_limit=kill, fast_lane=False)
            except procure_run.TableError as error:
                found[f"{name} | {policy}"] = [f"refused: {error}"[:80], 0.0]
                continue
            columns = [c for c in ("start_time", "end_time", "node_ids", "links") if c in ran.schedule]
            text = ran.schedule[columns].to_csv(index=False).encode()
            found[f"{name} | {policy}"] = [hashlib.sha256(text).hexdigest()[:16], round(ran.elapsed, 4)]

    for one in (*cases(n_cases), *made()):
        run(*one)
    out.write_text(json.dumps(found, indent=0))
    for one in logs(data) if data else ():
        run(*one)
        out.write_text(json.dumps(found, indent=0))
        print(one[0], len(found), flush=True)


def compare(before: Path, after: Path) -> None:
    old, new = json.loads(before.read_text()), json.loads(after.read_text())
    differ = [key for key in old if key in new and old[key][0] != new[key][0]]
    print(f"{len(old.keys() & new.keys())} schedules compared, {len(differ)} differ")
    for key in differ[:40]:
        print("differs:", key, old[key], new[key])
    seconds: dict[str, list[float]] = {}
    for key in old.keys() & new.keys():
        if old[key][1] > 0.05:
            total = seconds.setdefault(key.partition(" | ")[2], [0.0, 0.0])
            total[0], total[1] = total[0] + old[key][1], total[1] + new[key][1]
    for policy, (was, now) in sorted(seconds.items()):
        print(f"{policy}: {was:.2f} s before, {now:.2f} s after, {now / was:.2f} ×")
    sys.exit(bool(differ))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record")
    one.add_argument("out", type=Path)
    one.add_argument("--data", type=Path)
    one.add_argument("--cases", type=int, default=60, help="generated cases of each kind")
    one.add_argument("--policies", nargs="*", default=[])
    two = commands.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "record":
        record(options.out, options.data, options.cases, options.policies)
    else:
        compare(options.before, options.after)


if __name__ == "__main__":
    main()
