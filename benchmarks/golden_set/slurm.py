"""Policy slurm on a centre's week and on every scenario that a real Slurm has run, from the configuration as read."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pandas as pd
import slurm_scenarios
from slurm_events import read_events

from golden_set.base import Part, Place
from golden_set.doors import ROOT, command, schedule
from golden_set.schedules import shown

SCENARIOS = {
    path.stem: path
    for path in sorted((ROOT / "benchmarks/slurm_scenarios").glob("*.toml"))
    if "options = " not in path.read_text()  # command lines, which only the real Slurm and the import read
}
FIRST = 1_600_000_000
"""Unix s of the first second of a scenario."""
WEEK = "ubccr_slurm/week"
GOES = {"suspend | *": "partitions that suspend jobs may come to be refused by name"}


def run(configuration: Path, jobs: pd.DataFrame, more: str = "") -> dict[str, object]:
    """Simulate jobs under a configuration, with reservations and events as a site folder has them."""
    site = configuration.parent / "site"
    command("site", "read", configuration, "--out", site)
    with (site / "site.toml").open("a") as file:
        file.write(more)
    nodes = pd.read_csv(site / "nodes.csv", keep_default_na=False)
    return {"slurm": shown([schedule(jobs, nodes, f"slurm:site={site}", kill=False)])}


def week(place: Place) -> dict[str, object]:
    """Simulate the week."""
    folder = place.folder / "week"
    folder.mkdir()
    for name in ("slurm.conf", "gres.conf", "topology.conf", "sacctmgr.script"):
        shutil.copyfile(place.data / WEEK / name, folder / name)
    return run(folder, read_events(place.data / WEEK / "workload_week.events.xz"))


def scenario(name: str, place: Place) -> dict[str, object]:
    """Simulate a scenario: the tasks of an array are jobs, and times begin at `FIRST`."""
    slurm_scenarios.SHARED = place.data
    read = slurm_scenarios.load(SCENARIOS[name])
    rows = slurm_scenarios.jobs_of(read).assign(submit_time=lambda jobs: jobs["submit_time"] + FIRST).to_dict("records")
    jobs = pd.DataFrame(
        row | {"job_id": f"{row['job_id']}_{task}" if row["array"] else row["job_id"]}
        for row in rows
        for task in range(row["array"] or 1)
    )
    more = "".join(
        f"\n[[{kind}]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in each.items())
        for kind in ("reservations", "events")
        for each in (moved(one) for one in read.get(kind, []))
    )
    conf = slurm_scenarios.write_configuration(read, place.folder / "conf")
    return run(conf, jobs.drop(columns="array"), more)


def moved(one: dict) -> dict:
    return one | {key: one[key] + FIRST for key in ("start", "end") if key in one}


PARTS = {
    "week": Part(week, (f"{WEEK}/slurm.conf",)),
    **{
        name: Part(partial(scenario, name), ("ubccr_slurm/micro/slurm.conf",) if name.startswith("micro") else ())
        for name in SCENARIOS
    },
}
