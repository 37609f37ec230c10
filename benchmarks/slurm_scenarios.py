"""Run one scenario file on a real Slurm and in procure, and say how far apart the two are.

A scenario is a TOML file: Slurm's configuration as text, and classes of jobs that are drawn with a seed. Jobs are
sleeps. Real runs need a lab that a starter script has started (munge, MariaDB, slurmdbd, slurmctld, slurmd on one
machine, with its files in a folder of its own); its daemons are started again with the scenario's configuration.

    python benchmarks/slurm_scenarios.py real benchmarks/slurm_scenarios/qos.toml --lab /tmp/lab1 --out runs/qos-1
    python benchmarks/slurm_scenarios.py compare benchmarks/slurm_scenarios/qos.toml runs/qos-*

`compare` prints a row: in each cell one run of Slurm against another, then procure, EASY and best fit against the
runs, each a mean over all of them.
Jobs and site are those of the scenario file; `slurm_road.py` goes an administrator's road.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from slurm_events import read_events

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
_MORE = {
    "reservation": "",
    "licenses": "",
    "nice": 0,
    "begin_after": 0,
    "array": 0,
    "array_limit": 0,
    "dependency": "",
}
_DEFAULTS: dict[str, Any] = {
    "user": "", "account": "", "partition": "", "qos": "", "n_nodes": 1, "cpus_per_node": 1, "mem_mb_per_node": 0,
    "gpus_per_node": 0, "gpu_type": "", "constraint": "", "reservation": "", "exclusive": "", "licenses": "",
    "nice": 0, "begin_after": 0, "options": "",
}  # fmt: skip


def jobs_of(scenario: dict[str, Any]) -> pd.DataFrame:
    """Draw the jobs of a scenario in order of submission; times in seconds after the first."""
    if "event_file" in scenario:
        found = read_events(SHARED / scenario["event_file"])
        found["run_time"] = np.ceil(found["run_time"] * scenario.get("sleep_scale", 1)).astype(int)
        return found.assign(**{name: found.get(name, value) for name, value in _MORE.items()})
    draw = random.Random(scenario.get("seed", 1))
    rows: list[dict[str, Any]] = []
    for number, kind in enumerate(scenario["jobs"]):
        times = sorted(draw.randint(*kind["submit"]) for _ in range(kind["n"]))
        before: dict[str, str] = {}
        for i, submit in enumerate(times):
            row = {name: _drawn(kind.get(name, default), draw) for name, default in _DEFAULTS.items()}
            row |= {"job_id": f"{number}-{i}", "submit_time": submit}
            row |= {"run_time": draw.randint(*kind["sleep"])}
            needed = -(-row["run_time"] // 60) * 60
            row["requested_time"] = max(60 * _drawn(kind.get("limit", 1), draw), needed)
            row |= {
                "array": kind.get("array", 0),
                "array_limit": kind.get("array_limit", 0),
                "dependency": "",
            }
            owner = row["user"]
            if kind.get("after") and owner in before and draw.random() < kind["after_share"]:
                row["dependency"] = f"{kind['after']}:{before[owner]}"
            before[owner] = row["job_id"]
            rows.append(row)
    return pd.DataFrame(rows).sort_values("submit_time", kind="stable", ignore_index=True)


def _drawn(value: Any, draw: random.Random) -> Any:
    return draw.choice(value) if isinstance(value, list) else value


def load(path: Path) -> dict[str, Any]:
    """Read a scenario file; a folder of a centre's files that it names stands under `SHARED`."""
    scenario = tomllib.loads(path.read_text()) | {"name": path.stem}
    if "site" in scenario:
        folder = SHARED / scenario["site"]
        keys = {
            "conf": "slurm.conf",
            "gres": "gres.conf",
            "topology": "topology.conf",
            "accounting": "sacctmgr.script",
        }
        scenario |= {key: (folder / name).read_text() for key, name in keys.items() if (folder / name).exists()}
    return scenario


def write_configuration(scenario: dict[str, Any], folder: Path) -> Path:
    """Write the configuration of a scenario as a centre has it."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, key in (
        ("slurm.conf", "conf"), ("gres.conf", "gres"), ("topology.conf", "topology"), ("sacctmgr.script", "accounting"),
    ):  # fmt: skip
        if scenario.get(key):
            (folder / file).write_text(scenario[key])
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    real = commands.add_parser("real")
    real.add_argument("scenario", type=Path)
    real.add_argument("--lab", type=Path, required=True)
    real.add_argument("--out", type=Path, required=True)
    compared = commands.add_parser("compare")
    compared.add_argument("scenario", type=Path)
    compared.add_argument("runs", type=Path, nargs="+")
    compared.add_argument("--no-head", action="store_true")
    options = parser.parse_args()
    if options.command == "compare":
        from slurm_agreement import HEAD, as_markdown, compare

        row = compare(options.scenario, [run for run in options.runs if (run / "sacct.psv").exists()])
        print(as_markdown(row) if options.no_head else f"{HEAD}\n{as_markdown(row)}")
    if options.command == "real":
        from slurm_lab_run import run_for_real

        run_for_real(load(options.scenario), options.lab, options.out)


if __name__ == "__main__":
    main()
