"""Altered files through every reader: each is read or refused in a sentence, never a traceback, a crash or a hang.

    python benchmarks/fuzz_readers.py --n 10000 --seed 1

Alters small files of every kind that procure reads: bytes anywhere, cells, lines, and of model files also what stands
behind the digest, which is then made right again. They are read in a process of its own, which may take 30 s of
processor time for a file and 4 GB; a file at which it ends is a fault. `--keep` names a folder for files at fault.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from procure.errors import TableError
from procure.files import Archive, read_archive, write_archive
from procure.learn.features import RunTimes
from procure.learn.store import SCHEMA as POLICY
from procure.learn.store import UNTRAINED, read_policy, write_policy
from procure.models import surrogate
from procure.packages import read_quotes
from procure.queue_time import store
from procure.queue_time.model import Settings
from procure.queue_time.store import train
from procure.site.network import read_slurm_topology
from procure.study import load_study
from procure.study.existing import read_existing
from procure.sweep.parts import SCHEMA as RESULT
from procure.sweep.parts import PartError, read_part, write_part
from procure.tables import write
from procure.window.solve import FEATURES, POSITIONS, Network, read_network, write_network
from procure.window.solve import SCHEMA as NETWORK
from procure.workload import generate, import_log, read_log

ROWS = np.random.default_rng(1).random((60, 4)).astype(np.float32)
FEW_TREES = Settings(rounds=4, holdout=0.2)
SECONDS, MEMORY = 30, 4 * 10**9
LONGEST = 3000
"""Characters of an error; what is wrong is shown cut."""

QUOTES = """name,category,cpus,mem_gb,gpus,price_usd,spec_rate,vendor,valid_until
Small,compute,8,32,0,"$5,000",4.5,A,
Big,bigmem,16,512.5,0,9000,5.25,B,2031-05-04
Gpu,gpu,16,64.5,2,15000.50,6,"C, D",
"""
JOBS = "job_id,user,submit_time,requested_time,run_time,n_nodes,cpus_per_node,mem_mb_per_node,node_ids\n" + "".join(
    f'{n},"u{n % 3}",{1_600_000_000 + 60 * n},3600,{n * 7},1,{n % 8 + 1},1000,"n1,n2"\n' for n in range(20)
)
NODES = "node_id,kind,cpus,mem_mb,gpus,gpu_type,speed,leaf,pod\na,x,4,1000,1,a100,5.5,0,0\nb,x,8,2000,0,,,0,0\n"
SLURM_NODES = "".join(
    f"NodeName=c{n} Arch=x86_64 CoresPerSocket=4 CPUEfctv=8 CPUTot=8 RealMemory=16000 MemSpecLimit=1000\n"
    "   Gres=gpu:a100:2(S:0-1) State=IDLE+DRAIN Partitions=batch CfgTRES=cpu=8,mem=16000M,gres/gpu=2\n\n"
    for n in range(5)
)
TOPOLOGY = "SwitchName=s0 Nodes=c[0-3,8]\nSwitchName=s1 Nodes=c[4-7],g1\nSwitchName=top Switches=s[0-1]\n"
SWF = "; UnixStartTime: 1600000000\n; Queue: 1 express\n" + "".join(
    f"{n} {n * 60} 5 {n * 7} 4 -1 -1 4 3600 2048 1 1 1 1 1 1 -1 -1{{}}\n" for n in range(1, 20)
)
SACCT = (
    "JobID|User|Account|Partition|State|Submit|Eligible|Start|End|Elapsed|Timelimit|NNodes|ReqCPUS|ReqMem|ReqTRES|NodeList|Priority\n"
    + "".join(
        f"{n}|u{n % 3}|a|batch|COMPLETED|2021-05-04T0{n % 9}:00:00|2021-05-04T0{n % 9}:00:01|2021-05-04T0{n % 9}:05:00|"
        f"2021-05-04T1{n % 9}:05:00|10:00:00|1-00:00:00|2|8|16G|cpu=8,mem=16G,node=2,gres/gpu=1|c[1-2]|{n}\n"
        for n in range(1, 20)
    )
    + "40_[1-9%2]|u|a|batch|PENDING|2021-05-04T08:00:00|Unknown|Unknown|Unknown|00:00:00|UNLIMITED|1|1|4Gc|cpu=1||3\n"
)
CSV = "Job Id;Owner;When;Took;Cores\n" + "".join(f"{n};u;{1_600_000_000 + n};{n}.5;4\n" for n in range(1, 20))
COLUMNS = {"job_id": "Job Id", "submit_time": "When", "run_time": "Took", "cpus_per_node": "Cores"}
STUDY = """name = "small"
quotes = "QUOTES"
[packages]
rules = "published"
budget_usd = "$90,000"
types_per_category = 1
[[workloads]]
name = "day"
generate = { seed = 3, n_jobs = 150 }
logged_speed = "5"
warm_up = "1h"
[simulate]
policies = ["best-fit", { name = "easy", depth = 4 }]
[sweep]
sample = 3
[evaluate]
k = [10, 50]
[recommend]
objective = "mean-wait"
constraints = ["p95_wait<=4h", "price_usd <= $80,000"]
[costs]
years = 4
"""


@dataclass(frozen=True)
class Kind:
    """A kind of file: its ending, its reader, and for model files the schema behind the digest."""

    suffix: str
    read: Callable[[Path], Any]
    schema: str = ""


KINDS = {
    "quotes": Kind(".csv", read_quotes),
    "quotes-parquet": Kind(".parquet", read_quotes),
    "jobs": Kind(".csv", read_log),
    "jobs-parquet": Kind(".parquet", read_log),
    "nodes": Kind(".csv", read_existing),
    "nodes-slurm": Kind(".txt", read_existing),
    "topology": Kind(".conf", read_slurm_topology),
    "swf": Kind(".swf", lambda path: import_log(path, "swf")),
    "swf-metacentrum": Kind(".swf", lambda path: import_log(path, preset="metacentrum")),
    "sacct": Kind(".txt", lambda path: import_log(path, "sacct", tz="Europe/Berlin", keep_unfinished=True)),
    "csv": Kind(".csv", lambda path: import_log(path, "csv", columns=COLUMNS, clock="unix")),
    "study": Kind(".toml", load_study),
    "results": Kind(".parquet", lambda path: read_part(path, {})),
    "surrogate-xgboost": Kind(
        ".zip",
        lambda path: surrogate.from_archive(read_archive(path, surrogate.SCHEMA), str(path)).predict(ROWS),
        surrogate.SCHEMA,
    ),
    "site": Kind(".model", store.load, store.SCHEMA),
    "policy": Kind(".policy", read_policy, POLICY),
    "network": Kind(".network", read_network, NETWORK),
}


def whole_files(folder: Path) -> dict[str, Path]:
    """Write a file of each kind that is read as it is; return their paths."""
    paths = {name: folder / f"{name}{kind.suffix}" for name, kind in KINDS.items()}
    texts = {
        "quotes": QUOTES, "jobs": JOBS, "nodes": NODES, "nodes-slurm": SLURM_NODES, "topology": TOPOLOGY,
        "swf": SWF.replace("{}", ""), "swf-metacentrum": SWF.replace("{}", " {1,1,2} short"), "sacct": SACCT,
        "csv": CSV,
        "study": STUDY.replace("QUOTES", str(paths["quotes"])),
    }  # fmt: skip
    for name, text in texts.items():
        paths[name].write_text(text)
    write(read_quotes(paths["quotes"]), paths["quotes-parquet"])
    write(read_log(paths["jobs"]).jobs, paths["jobs-parquet"])
    row = {f.name: "ok" if f.type == "string" else 1 for f in RESULT}
    write_part(paths["results"], RESULT.empty_table().from_pylist([row] * 9, RESULT), '{"quotes": "x"}', 1.5)
    target = ROWS.sum(axis=1).astype(np.float64)
    write_archive(paths["surrogate-xgboost"], surrogate.Surrogate(1).fit(ROWS, target * 100).archive())
    jobs = generate(1, n_jobs=300)
    waited = jobs.assign(start_time=jobs["submit_time"] + np.arange(300) % 50)
    waited["end_time"] = waited["start_time"] + waited["run_time"]
    store.save(train(waited, settings=FEW_TREES), paths["site"])
    write_policy(paths["policy"], replace(UNTRAINED, history=RunTimes().fit(jobs), trained={"nodes": 5}))
    rng, sizes = np.random.default_rng(1), (POSITIONS * FEATURES, 16, POSITIONS)
    weights = [(rng.normal(0, 0.1, (a, b)).astype("f4"), np.zeros(b, "f4")) for a, b in pairwise(sizes)]
    write_network(paths["network"], Network((3, 2, 10), 40, tuple(weights), {"seed": 1}))
    return paths


NASTY = (
    "", "-1", "0", "1e999", "nan", "9" * 400, "-" + "9" * 30, "=1+1", "\x00", "\ufeff", '"', "'", "[", "]", "{", "}",
    "a" * 5000, "\x1b[31m", ";", "|", ",", "1,2", "0x10", "True", "2021-02-30", "١٢", "\r", "1" * 19, "a.b.c", "..",
    "c[1-99999999]",
)  # fmt: skip
VALUES = (None, -1, 0, 1e308, float("nan"), "x" * 1000, "", [], {}, True, 10**30, [[1]], {"a": None}, "1")


def altered_bytes(content: bytes, rng: random.Random) -> bytes:
    """Change a byte or a few, cut, double or empty a stretch."""
    changed = bytearray(content)
    at = rng.randrange(len(content))
    match rng.randrange(6):
        case 0:
            del changed[at:]
        case 1:
            del changed[at : at + rng.randrange(1, 64)]
        case 2:
            changed[at:at] = content[at : at + 16]
        case _:
            for _ in range(rng.choice((1, 1, 4))):
                changed[rng.randrange(len(changed))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return bytes(changed)


def altered_text(content: bytes, rng: random.Random) -> bytes:
    """Replace some words, or drop, double or swap lines."""
    lines = content.decode().splitlines(keepends=True)
    at = rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines[at:at] = [lines[at]] * rng.choice((1, 2, 500))
        case 2:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case _:
            words = re.split(r"([\s,;|=\[\]{}]+)", "".join(lines))
            for _ in range(rng.choice((1, 1, 3))):
                words[2 * rng.randrange(len(words) // 2 + 1)] = rng.choice(NASTY)
            lines = words
    return "".join(lines).encode("utf-8", "surrogatepass")


def altered_archive(archive: Archive, rng: random.Random) -> Archive:
    """Change a value of the head or an array.

    Not the bytes of trees, whose digest would match: XGBoost trusts them, and some end its process.
    """
    head, arrays = json.loads(json.dumps(dict(archive.head))), dict(archive.arrays)
    if arrays and rng.random() < 0.3:
        name = rng.choice(sorted(arrays))
        arrays[name] = _altered_array(arrays[name], rng)
    else:
        place: Any = head
        keys = [key for key in place if key != "schema"]
        while True:
            key = rng.choice(keys)
            inner = place[key]
            if not (isinstance(inner, dict | list) and inner) or rng.random() < 0.3:
                break
            place, keys = inner, list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if rng.random() < 0.2:
            del place[key]
        else:
            place[key] = rng.choice(VALUES)
    return Archive(head, arrays, archive.trees)


def _altered_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    other = [
        array.ravel()[:0], array.ravel()[: array.size // 2], array[..., None], array.astype(str), np.array(1.0),
        np.full(array.shape, np.nan), np.full(array.shape, -1, np.int64), np.full(array.shape, 2**62, np.int64),
    ]  # fmt: skip
    if array.size and array.dtype.kind in "iufb" and rng.random() < 0.6:
        content = bytearray(np.ascontiguousarray(array).tobytes())
        for _ in range(rng.choice((1, 8))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        return np.frombuffer(bytes(content), array.dtype).reshape(array.shape)
    return rng.choice(other)


def alter(kind: Kind, path: Path, out: Path, rng: random.Random) -> None:
    """Write an altered copy of a whole file."""
    content = path.read_bytes()
    if kind.schema and rng.random() < 0.6:
        write_archive(out, altered_archive(read_archive(path, kind.schema), rng))
    elif kind.schema or kind.suffix == ".parquet" or rng.random() < 0.3:
        out.write_bytes(altered_bytes(content, rng))
    else:
        out.write_bytes(altered_text(content, rng))


def read_all(folder: Path, script: str | Path = __file__) -> dict[str, str]:
    """Read every file of a folder; return by name ``read``, ``refused``, or what went wrong."""
    said: dict[str, str] = {}
    names = sorted(path.name for path in folder.iterdir())
    while left := [name for name in names if name not in said]:
        done = subprocess.run(
            [sys.executable, str(script), "--read", str(folder), left[0]],
            capture_output=True,
            text=True,
            check=False,
        )
        said |= dict(json.loads(line) for line in done.stdout.splitlines())
        if done.returncode or left[0] not in said:
            culprit = next((name for name in left if name not in said), left[-1])
            said[culprit] = f"the process ended with {done.returncode}: {done.stderr[-300:]}"
    return said


def _read(folder: Path, first: str) -> None:
    """Read the files of a folder from one on, a line of JSON for each: what `read_all` starts."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, -1))
    for path in sorted(path for path in folder.iterdir() if path.name >= first):
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, -1))
        try:
            KINDS[path.name.partition("~")[0]].read(path)
            text = "read"
        except (TableError, PartError) as error:
            text = "refused" if len(str(error)) <= LONGEST else f"an error of {len(str(error)):,} characters"
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:300]
        print(json.dumps([path.name, text]), flush=True)


def fuzz(n: int, seed: int, keep: Path | None = None) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Alter ``n`` files in turn of every kind and read them; count by kind and outcome, and list the faults."""
    rng, counts, faults = random.Random(seed), Counter(), []
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch, "whole")
        whole.mkdir()
        paths = whole_files(whole)
        for name, kind in KINDS.items():
            kind.read(paths[name])
        for begin in range(0, n, 1000):
            folder = Path(scratch, "altered")
            folder.mkdir()
            for number in range(begin, min(begin + 1000, n)):
                name = list(KINDS)[number % len(KINDS)]
                alter(KINDS[name], paths[name], folder / f"{name}~{number:06}{KINDS[name].suffix}", rng)
            for name, text in read_all(folder).items():
                outcome = text if text in ("read", "refused") else "fault"
                counts[name.partition("~")[0], outcome] += 1
                if outcome == "fault":
                    faults.append(f"{name}: {text}")
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        shutil.copy(folder / name, keep)
            shutil.rmtree(folder)
    return counts, faults


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        _read(Path(given.read[0]), given.read[1])
        return
    counts, faults = fuzz(given.n, given.seed, given.keep)
    print("| Reader | Altered | One error | Read | Anything else |\n| --- | ---: | ---: | ---: | ---: |")
    for name in KINDS:
        each = [counts[name, outcome] for outcome in ("refused", "read", "fault")]
        print(f"| {name} | {sum(each):,} | {each[0]:,} | {each[1]:,} | {each[2]:,} |")
    print(*faults, sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
