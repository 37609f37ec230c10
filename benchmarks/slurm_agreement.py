"""How far procure's starts are from a real Slurm's, and how far one run of Slurm is from another."""

from __future__ import annotations

import csv
import datetime
import itertools
import math
import re
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
from procure.site.work import BEFORE
from procure.tables import JOB, check
from procure.workload.slurm_text import expand_nodes

CLOCKS = (-1.39, -1.56, -1.69, -1.93, -2.21)
"""s before the first submission at which Slurm's periodic work began: of 63 runs of 21 scenarios a tenth began later,
three tenths … nine (`chances`, as the next three). Where a run's log is left out, all count alike."""
LASTS = (82, 0.49)
"""ms from the end of a `sleep` that began at the moment of its pass to the end of its job, log-normal: the median of
these runs, and the standard deviation of the logarithm that their quartiles have (58 and 112)."""
KNOWN = 34
"""ms from the second of a submission until Slurm knows the job, the median of these runs."""
BACKFILL_LATE = 1.001
"""s that a second of backfill's interval takes, the mean of these runs."""
LONGEST = 7200
"""s; no run takes so long."""
_ID = r"JobId=(\S+?)(?:\((\S+?)\))?"
_LOGGED = (
    ("backfill_clock", re.compile(r"sched: Backfill scheduler plugin loaded()()")),
    ("clock", re.compile(r"Priority MULTIFACTOR plugin loaded()()")),
    ("pass", re.compile(r"Running job scheduler for()()")),
    ("backfill", re.compile(r"_attempt_backfill: beginning()()")),
    ("submit", re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\d+)()")),
    ("start", re.compile(rf"sched: Allocate {_ID} ")),
    ("start", re.compile(rf"_start_job: Started {_ID} ")),
    ("end", re.compile(rf"_job_complete: {_ID} done")),
)
AT_ONCE, PERIOD = 0.12, 3.0
"""s: a pass that comes so soon after an end is that end's; and between two periodic passes (``batch_sched_delay``)."""
POLL = 1.0025
"""s from one look of Slurm at what is due to the next."""
WITHIN = 10
RIVALS = ("easy", "best-fit")
MEASURES = ("within", "tau", "rank", "same_kind")


class RealRun(NamedTuple):
    """What one run on a real Slurm did."""

    jobs: pd.DataFrame  # checked job table, run_time as accounting has it
    start: pd.Series  # by job_id, Unix s
    nodes: pd.Series  # by job_id, node names with commas
    load: float  # of the machine, over one minute, when it began
    sleeps: pd.Series  # by job_id, s: run time as submitted, or what it took if it was ended before


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
            took = int(row["ElapsedRaw"]) if ended else job["run_time"]  # without the time that it was suspended
            found.append(
                job
                | {"job_id": name, "submit_time": int(runs[0]["Submit"]), "run_time": took}
                | {"start": int(row["Start"]), "on": ",".join(expand_nodes(row["NodeList"]))}
                | {"sleep": job["run_time"] if row["State"] == "COMPLETED" else took}
            )
    frame = pd.DataFrame(found).sort_values("submit_time", kind="stable", ignore_index=True)
    by_name = frame.set_index("job_id")
    jobs = check(frame.drop(columns=["start", "on", "sleep", "array"], errors="ignore"), JOB)
    load_file = folder / "load.txt"
    busy = float(load_file.read_text().split()[0]) if load_file.exists() else float("nan")
    assert first <= int(frame["submit_time"].min()) + 5
    return RealRun(jobs, by_name["start"], by_name["on"], busy, by_name["sleep"])


def told(run: RealRun, folder: Path, site: Site) -> Site:
    """Return the site of a run with what the run's log tells of Slurm's clocks and of its chances, to the ms.

    That is when its periodic work began and at which moment of each second it came (each look at what is due takes
    Slurm a little more than a second), when jobs were submitted, how much longer than accounting says each took from
    the pass that started it to its end, and whose end brought a pass at once.
    """
    began, logged = int(run.jobs["submit_time"].min()), _logged(folder)
    at_first: dict[tuple[str, str], float] = {}
    at_last: dict[tuple[str, str], float] = {}
    for at, what, job in logged:
        at_first.setdefault((what, job), at)
        at_last[what, job] = at
    at_first.setdefault(("clock", ""), at_first["backfill_clock", ""] + BEFORE)  # no plugin of priorities
    found: dict[str, Any] = {what: at_first[what, ""] - began for what in ("clock", "backfill_clock")}
    number_of, first_of = _numbers(folder)
    passes = np.array([at for at, what, _ in logged if what == "pass"])
    ending = np.array([at for at, what, _ in logged if what == "end"])
    last = np.searchsorted(ending, passes) - 1
    soon = (last >= 0) & (passes - ending[last] <= AT_ONCE)
    extra = soon & (np.diff(passes, prepend=-np.inf) < PERIOD - AT_ONCE)
    reporting = {ending[i] for i in last[extra]}
    found["moments"] = _moments(passes[~extra], soon[~extra], at_first["clock", ""], began)
    backfills = [at for at, what, _ in logged if what == "backfill"]
    found["backfill_moments"] = _backfill_moments(backfills, began, site.scheduler.bf_interval)
    jobs = run.jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    begins = np.sort(np.concatenate([passes, backfills]))
    beyond, submitted, reported = [], [], []
    for name, submit, took in zip(jobs["job_id"], jobs["submit_time"], jobs["run_time"], strict=True):
        start, end = (at_last.get((what, number_of[name]), 0.0) for what in ("start", "end"))
        ran = took + 0.5
        if start and end:
            stopped = math.floor(end) - int(run.start[name]) - took  # 1 is another second of accounting
            ran = end - begins[np.searchsorted(begins, start, side="right") - 1] - (stopped if stopped > 1 else 0)
        beyond.append(math.floor((ran - took) * 1000))
        reported.append(end in reporting)
        submitted.append(min(max(round((at_first.get(("submit", first_of[name]), 0) - submit) * 1000), 0), 999))
    found |= {"end_moments": tuple(beyond), "submit_moments": tuple(submitted)}
    if site.latency.pass_at_end < 1:  # else as the site's epilog has it
        found["reported_ends"] = tuple(reported)
    latency = site.latency.model_copy(update=found)
    return site.model_copy(update={"latency": latency})


def untold(run: RealRun, site: Site, seed: int) -> tuple[RealRun, Site]:
    """Return a run as it was submitted, without what its log tells: as one more run that this laboratory might make.

    What is chance in it is drawn: when Slurm began before the first submission, how much later than its sleep each job
    ends, and whose end brings a pass at once.
    """
    random, clock = np.random.default_rng(seed), CLOCKS[seed % len(CLOCKS)]
    jobs = run.jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    jobs["run_time"] = run.sleeps[jobs["job_id"]].to_numpy()
    looks = clock + POLL * np.arange(LONGEST)
    moments = np.full(LONGEST, -1)
    seen = (looks >= 0) & (looks < LONGEST)
    moments[np.floor(looks[seen]).astype(int)] = np.floor(looks[seen] % 1 * 1000)
    interval, backfill_clock = site.scheduler.bf_interval, clock - BEFORE
    backfills = backfill_clock + interval * BACKFILL_LATE * np.arange(1, LONGEST // interval)
    lasts = LASTS[0] * np.exp(LASTS[1] * random.standard_normal(len(jobs)))
    found: dict[str, Any] = {"clock": clock, "backfill_clock": backfill_clock, "moments": tuple(moments.tolist())}
    found["backfill_moments"] = _backfill_moments(backfills.tolist(), 0, interval)
    found |= {"end_moments": tuple(lasts.round().astype(int).tolist()), "submit_moments": (KNOWN,) * len(jobs)}
    if site.latency.pass_at_end < 1:
        found["reported_ends"] = tuple((random.random(len(jobs)) < site.latency.pass_at_end).tolist())
    latency = site.latency.model_copy(update=found)
    return run._replace(jobs=check(jobs, JOB)), site.model_copy(update={"latency": latency})


def chances(runs: list[tuple[dict[str, Any], Path]]) -> dict[str, list[float]]:
    """Return what is chance in runs, given with their scenarios, by the logs of all: the constants of `untold`."""
    clocks, ends, known, reported, late = [], [], [], [], []
    for scenario, folder in runs:
        run = read_run(folder, scenario)
        site = site_of(scenario, int((folder / "first").read_text()))[0]
        latency = told(run, folder, site).latency
        jobs = run.jobs.sort_values("submit_time", kind="stable")
        clocks.append(latency.clock)
        ends += ((jobs["run_time"] - run.sleeps[jobs["job_id"]].to_numpy()) * 1000 + latency.end_moments).tolist()
        known += latency.submit_moments
        reported += latency.reported_ends
        backfills = np.diff([at for at, what, _ in _logged(folder) if what == "backfill"])
        late += (backfills / site.scheduler.bf_interval)[backfills < site.scheduler.bf_interval + 1].tolist()
    return {
        "clock, s": np.quantile(clocks, (0.9, 0.7, 0.5, 0.3, 0.1)).round(2).tolist(),
        "end after its sleep, ms": np.quantile(ends, (0.25, 0.5, 0.75)).round().tolist(),
        "known, ms": [float(np.median(known))],
        "reported ends": [round(float(np.mean(reported)), 3)],
        "backfill, s per s": [round(float(np.mean(late)), 4)],
    }


def _numbers(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return Slurm's number of each job, and the number that its submission had."""
    own, submitted = {}, {}
    with (folder / "sacct.psv").open() as file:
        for row in csv.DictReader(file, delimiter="|"):
            array, _, task = row["JobID"].partition("_")
            name = f"{row['JobName']}_{task}" if task.isdigit() else row["JobName"]
            own[name], submitted[name] = row["JobIDRaw"], array
    return own, submitted


def _moments(passes: np.ndarray, soon: np.ndarray, clock: float, began: int) -> tuple[int, ...]:
    """Return at which ms the periodic work came within each second; −1 = in none of this second.

    A pass that comes soon after an end may be that end's.
    """
    known = [(clock, clock % 1)]  # when, and at which moment, which grows beyond a second as the work gets late
    doubtful: tuple[float, float] | None = None
    for at, is_soon in zip(passes, soon, strict=True):
        for since in filter(None, (known[-1], doubtful)):
            n = round((at - since[0]) / POLL)
            more = at - since[0] - n
            least, most = (-0.01, 0.005) if is_soon else (-0.03, 0.02)
            if n >= 2 and least <= more <= most + 0.004 * n:
                known += [doubtful] if doubtful is since else []
                known.append((at, since[1] + more))
                doubtful = None
                break
        else:
            if is_soon:
                continue
            n = round((at - known[-1][0]) / POLL)
            doubtful = (at, known[-1][1] + at - known[-1][0] - n)
    left_out = []
    for (before, a), (at, b) in itertools.pairwise(known):
        for k in range(math.floor(a) + 1, math.floor(b) + 1):
            second = math.floor(before) + (3 if math.floor(at) > math.floor(before) + 3 else 1)
            if at - before > PERIOD + 2:
                second = math.floor(before + (at - before) * (k - a) / (b - a))
            left_out.append(second - began)
    seconds = np.arange(math.ceil(known[-1][0]) - began + 1)
    moment = np.interp(seconds + began + 0.5, *zip(*known, strict=True))
    moment -= np.searchsorted(np.array(left_out), seconds, side="right")
    found = np.clip(np.round(moment * 1000), 0, 999).astype(int)
    for at, _ in known[1:]:
        found[math.floor(at) - began] = math.floor(at % 1 * 1000)
    found[[second for second in left_out if second >= 0]] = -1
    return tuple(found.tolist())


def _backfill_moments(passes: list[float], began: int, interval: int) -> tuple[int, ...]:
    """Return the same of backfill: it comes a second later now and then."""
    found: list[int] = []
    for before, at in itertools.pairwise([passes[0], *passes]):
        found += [math.floor(at % 1 * 1000)] * (math.floor(at) - began + 1 - len(found))
        if math.floor(at) - math.floor(before) == interval + 1:
            found[math.floor(before) - began + interval] = -1
    return tuple(found)


def _logged(folder: Path) -> list[tuple[float, str, str]]:
    """Return what a run's log says of `_LOGGED`: Unix s, what, and the job's number."""
    found = []
    for line in (folder / "slurmctld.log").read_text(errors="replace").splitlines():
        for what, pattern in _LOGGED:
            match = pattern.search(line) if line.startswith("[") else None
            if match:
                at = datetime.datetime.fromisoformat(line[1 : line.index("]")]).timestamp()
                found.append((at, what, match[2] or match[1]))
    return sorted(found)


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
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in ("slurm", "procure", "as read", *RIVALS, "known")}
    drawn: list[tuple[int, Starts]] = []
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
        for seed in range(len(CLOCKS)):
            found = simulated(*untold(run, site, seed), nodes, "slurm", kind)
            rows["procure"].append(agreement(mine, found) | _waits(found))
            drawn.append((len(real) - 1, found))
        found = simulated(untold(run, site, 0)[0], site, nodes, "slurm", kind)
        rows["as read"].append(agreement(mine, found) | _waits(found))
        found = simulated(run, told(run, folder, site), nodes, "slurm", kind)
        rows["known"].append(agreement(mine, found) | _waits(found))
        for policy in RIVALS:
            found = simulated(run, site, nodes, policy, kind)
            rows[policy].append(agreement(mine, found) | _waits(found))
    rows["slurm"] = [agreement(a, b) for a, b in itertools.combinations(real, 2)]
    near = [[_near(one, real[:i] + real[i + 1 :]) for i, one in each] for each in (enumerate(real), drawn)]
    n_near = " ".join(f"{sum(each)} of {len(each)}" for each in near) if len(real) > 2 else "–"
    waits = _mean([_waits(each) for each in real])
    row: dict[str, Any] = {"scenario": scenario["name"], "n_jobs": n_jobs, "runs": len(folders), "n_near": n_near}
    row["load"] = float(np.nanmean(loads)) if not np.isnan(loads).all() else float("nan")
    for name, each in rows.items():
        means = _mean(each)
        row |= {f"{measure} {name}": means.get(measure, float("nan")) for measure in MEASURES}
        source = waits if name == "slurm" else means
        row |= {f"{what} {name}": source.get(what, float("nan")) for what in ("mean", "p95")}
    return row


def _near(one: Starts, others: list[Starts]) -> bool:
    """Say whether a run is as near to the others as they are to each other, or at most 0.03 below in each measure."""
    to = _mean([agreement(one, other) for other in others])
    among = _mean([agreement(a, b) for a, b in itertools.combinations(others, 2)])
    return all(to[measure] >= value - 0.03 for measure, value in among.items() if measure != "same_kind")


def as_markdown(row: dict[str, Any]) -> str:
    """Write a row for people: Slurm / procure with the log / EASY / best fit in each cell, then without the log."""
    names = ("slurm", "known", *RIVALS)

    def cell(measure: str, digits: int, shown: tuple[str, ...] = names) -> str:
        values = [row[f"{measure} {name}"] for name in shown]
        return " / ".join("–" if np.isnan(v) else f"{v:.{digits}f}" for v in values)

    cells = [row["scenario"], row["n_jobs"], row["runs"], f"{row['load']:.0f}"]
    cells += [cell("within", 2), cell("tau", 2), cell("rank", 2), cell("mean", 0), cell("p95", 0)]
    cells += [cell("same_kind", 2, ("slurm", "known"))]
    alone = [("within", 2), ("tau", 2), ("rank", 2), ("mean", 0), ("p95", 0)]
    cells += [" / ".join(cell(what, digits, (name,)) for what, digits in alone) for name in ("procure", "as read")]
    cells += [row["n_near"]]
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = (
    "| Scenario | Jobs | Runs | Load | Within 10 s | Kendall's tau | Rank correlation of waits | Mean wait, s | p95, s "
    "| Same kind of node | Drawn | As read | As near |\n"
    "| --- | --: | --: | --: | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)
