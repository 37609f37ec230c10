"""Read the event files of a published Slurm simulator's tutorials as job tables: one ``submit_batch_job`` a line."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd

from procure.files.read import as_utf8, read_bytes
from procure.workload.slurm import slurm_limit, slurm_memory_limit


def _options(text: str) -> dict[str, str]:
    words = text.split()
    found: dict[str, str] = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            found[name] = value or "1"
        elif word.startswith("-") and i + 1 < len(words) and re.match(r"[^-]|-\d", words[i + 1]):
            found[word] = words[i + 1]
    return found


def read_events(path: Path) -> pd.DataFrame:
    """Return the jobs of an event file; times in s after its own zero, memory in MB per node."""
    text = as_utf8(read_bytes(path)).decode()
    rows: list[dict[str, Any]] = []
    for line in text.splitlines():
        given = _options(line)
        if "-dt" not in given:
            continue
        tasks = int(given["-n"])
        per_node = int(given.get("--ntasks-per-node", 0))
        n_nodes = int(given.get("-N", 0)) or (-(-tasks // per_node) if per_node else 1)
        gres = re.match(r"gpu(?::([A-Za-z]\w*))?(?::(\d+))?", given.get("--gres", ""))
        limit = slurm_limit(given["-t"])
        took = math.ceil(float(given["-sim-walltime"]))
        rows.append(
            {
                "job_id": given["-J"],
                "user": given["--uid"],
                "account": given.get("-A", ""),
                "partition": given.get("-p", ""),
                "qos": given.get("-q", ""),
                "submit_time": math.floor(float(given["-dt"])),
                "requested_time": limit,
                "run_time": took if took >= 0 else limit,  # −1: until its limit
                "n_nodes": n_nodes,
                "cpus_per_node": -(-tasks // n_nodes),
                "mem_mb_per_node": slurm_memory_limit(given["--mem"]) if "--mem" in given else 0,
                "gpus_per_node": int(gres[2] or 1) if gres else 0,
                "gpu_type": (gres[1] or "") if gres else "",
                "constraint": given.get("--constraint", ""),
                "exclusive": "--exclusive" in given,
            }
        )
    jobs = pd.DataFrame(rows).sort_values("submit_time", kind="stable", ignore_index=True)
    return jobs.assign(submit_time=jobs["submit_time"] - jobs["submit_time"].min())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    read_events(options.events).to_csv(options.out, index=False)
