"""How far procure's starts are from a real Slurm's, and how far one run of Slurm is from another."""

from __future__ import annotations

import csv
import itertools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, spearmanr
from slurm_scenarios import jobs_of, load, write_configuration

from procure.run import simulate
from procure.site.model import NodeEvent, Reservation, Site
from procure.site.store import write_site
from procure.site.understand import read_slurm
from procure.tables import JOB, check
from procure.workload.slurm import expand_nodes

WITHIN = 10
RIVALS = ("easy", "best-fit")
MEASURES = ("within", "tau", "rank", "same_kind")


class RealRun(NamedTuple):
    """What one run on a real Slurm did."""

    jobs: pd.DataFrame  # checked job table, run_time as accounting has it
    start: pd.Series  # by job_id, Unix s
    nodes: pd.Series  # by job_id, node names with commas
    load: float  # of the machine, over one minute, when it began


class Starts(NamedTuple):
    """Starts and waits by job_id, and the kinds of the nodes."""

    start: pd.Series
    wait: pd.Series
    kinds: pd.Series


def read_run(folder: Path, scenario: dict[str, Any]) -> RealRun:
    """Read what accounting kept of a run, as the jobs of its scenario: their submissions and the time they took."""
    first = int((folder / "first").read_text())
    rows: dict[str, list[dict[str, str]]] = {}  # of a job that was requeued, its runs
    with (folder / "sacct.psv").open() as file:
        for row in csv.DictReader(file, delimiter="|"):
            task = row["JobID"].partition("_")[2]
            rows.setdefault(f"{row['JobName']}_{task}" if task.isdigit() else row["JobName"], []).append(row)
    found = []
    for job in jobs_of(scenario).to_dict("records"):
        tasks = [f"{job['job_id']}_{n}" for n in range(job["array"])] if job.get("array") else [job["job_id"]]
        for name in tasks:
            runs = [row for row in rows.get(name, []) if row["Start"].isdigit()]
            if not runs:
                continue
            row = runs[-1]
            ended = row["End"].isdigit() and row["State"] in ("COMPLETED", "TIMEOUT", "FAILED")
            took = job["run_time"]  # as submitted, or what it took if it was ended before
            if ended and row["State"] != "COMPLETED":
                took = int(row["ElapsedRaw"])
            found.append(
                job
                | {"job_id": name, "submit_time": int(runs[0]["Submit"]), "run_time": took}
                | {"start": int(row["Start"]), "on": ",".join(expand_nodes(row["NodeList"]))}
            )
    frame = pd.DataFrame(found).sort_values("submit_time", kind="stable", ignore_index=True)
    by_name = frame.set_index("job_id")
    jobs = check(frame.drop(columns=["start", "on", "array"], errors="ignore"), JOB)
    load_file = folder / "load.txt"
    busy = float(load_file.read_text().split()[0]) if load_file.exists() else float("nan")
    assert first <= int(frame["submit_time"].min()) + 5
    return RealRun(jobs, by_name["start"], by_name["on"], busy)


def site_of(scenario: dict[str, Any], first: int) -> tuple[Site, pd.DataFrame]:
    """Return the site of a scenario whose first second was ``first``."""
    with tempfile.TemporaryDirectory() as folder:
        read = read_slurm(write_configuration(scenario, Path(folder)))
    reservations = tuple(
        Reservation(
            name=each["name"], nodes=each["nodes"], start=first + each["start"], end=first + each["end"],
            users=tuple(each.get("users", ())), flags=tuple(each.get("flags", ())),
        )
        for each in scenario.get("reservations", [])
    )  # fmt: skip
    events = tuple(
        NodeEvent(
            nodes=each["nodes"], start=first + each["start"], state=each["state"],
            end=first + each["end"] if "end" in each else None,
        )
        for each in scenario.get("events", [])
    )  # fmt: skip
    return read.rules.model_copy(update={"reservations": reservations, "events": events}), read.nodes


def starts(jobs: pd.DataFrame, start: pd.Series, on: pd.Series, kind: dict[str, str]) -> Starts:
    """Lay starts out for comparison; times after the first submission."""
    submit = jobs.set_index("job_id")["submit_time"]
    first = int(submit.min())
    kinds = on.map(lambda text: " ".join(sorted(kind.get(n, "") for n in filter(None, str(text).split(",")))))
    return Starts(start - first, start - submit, kinds)


def agreement(one: Starts, other: Starts) -> dict[str, float]:
    """Compare two runs of the same jobs; jobs that started in only one of them are left out."""
    both = one.start.dropna().index.intersection(other.start.dropna().index)
    a, b = one.start[both].to_numpy(float), other.start[both].to_numpy(float)
    waits = one.wait[both].to_numpy(float), other.wait[both].to_numpy(float)
    return {
        "within": float((abs(a - b) <= WITHIN).mean()),
        "tau": float(kendalltau(a, b)[0]),
        "rank": float(spearmanr(*waits)[0]),
        "same_kind": float((one.kinds[both] == other.kinds[both]).mean()),
    }


def _waits(found: Starts) -> dict[str, float]:
    waits = found.wait.dropna().to_numpy(float)
    return {"mean": float(waits.mean()), "p95": float(np.quantile(waits, 0.95))}


def _mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return pd.DataFrame(rows).mean().to_dict() if rows else {}


def simulated(run: RealRun, site: Site, nodes: pd.DataFrame, policy: str, kind: dict[str, str]) -> Starts:
    """Simulate the jobs of a real run under policy slurm or another."""
    with tempfile.TemporaryDirectory() as folder:
        if policy == "slurm":
            write_site(site, nodes, folder)
            policy = f"slurm:site={folder}"
        schedule = simulate(run.jobs, nodes, policy, kill_at_limit=False).schedule.set_index("job_id")
    return starts(run.jobs, schedule["start_time"].astype("Float64").astype(float), schedule["node_ids"], kind)


def compare(scenario_file: Path, folders: list[Path]) -> dict[str, Any]:
    """Return one row: Slurm against itself, and procure, EASY and best fit against each run of Slurm, as means."""
    scenario = load(scenario_file)
    real: list[Starts] = []
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in ("slurm", "procure", *RIVALS)}
    loads, n_jobs = [], 0
    for folder in folders:
        run = read_run(folder, scenario)
        site, nodes = site_of(scenario, int((folder / "first").read_text()))
        columns = [c for c in ("cpus", "mem_mb", "gpus", "gpu_type", "features") if c in nodes]
        kind = dict(zip(nodes["node_id"], nodes[columns].astype(str).agg("/".join, axis=1), strict=True))
        mine = starts(run.jobs, run.start.astype(float), run.nodes, kind)
        real.append(mine)
        loads.append(run.load)
        n_jobs = max(n_jobs, len(run.jobs))
        for name, policy in (("procure", "slurm"), *zip(RIVALS, RIVALS, strict=True)):
            found = simulated(run, site, nodes, policy, kind)
            rows[name].append(agreement(mine, found) | _waits(found))
    rows["slurm"] = [agreement(a, b) for a, b in itertools.combinations(real, 2)]
    waits = _mean([_waits(each) for each in real])
    row: dict[str, Any] = {"scenario": scenario["name"], "n_jobs": n_jobs, "runs": len(folders)}
    row["load"] = float(np.nanmean(loads)) if not np.isnan(loads).all() else float("nan")
    for name, each in rows.items():
        means = _mean(each)
        row |= {f"{measure} {name}": means.get(measure, float("nan")) for measure in MEASURES}
        source = waits if name == "slurm" else means
        row |= {f"{what} {name}": source.get(what, float("nan")) for what in ("mean", "p95")}
    return row


def as_markdown(row: dict[str, Any]) -> str:
    """Write a row for people: Slurm / procure / EASY / best fit."""
    names = ("slurm", "procure", *RIVALS)

    def cell(measure: str, digits: int, shown: tuple[str, ...] = names) -> str:
        values = [row[f"{measure} {name}"] for name in shown]
        return " / ".join("–" if np.isnan(v) else f"{v:.{digits}f}" for v in values)

    cells = [row["scenario"], row["n_jobs"], row["runs"], f"{row['load']:.0f}"]
    cells += [cell("within", 2), cell("tau", 2), cell("rank", 2), cell("mean", 0), cell("p95", 0)]
    cells += [cell("same_kind", 2, ("slurm", "procure"))]
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| Scenario | Jobs | Runs | Load | Within 10 s | Kendall's tau | Rank correlation of waits | Mean wait, s | p95, s "
    "| Same kind of node |\n"
    "| --- | --: | --: | --: | --- | --- | --- | --- | --- | --- |"
)
