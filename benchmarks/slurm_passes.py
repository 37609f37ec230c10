"""Ask the slow twin of policy slurm, at each pass that a real Slurm's log tells of, what it would start.

At each pass the twin is given what really ran and waited, so that a difference is one of rules alone.

    python benchmarks/slurm_passes.py benchmarks/slurm_scenarios/backfill.toml runs/backfill-1
"""

from __future__ import annotations

import argparse
import collections
import copy
import csv
import datetime
import math
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
from slurm_agreement import read_run, site_of
from slurm_scenarios import load

from procure.site.layout import lay_out
from procure.workload.slurm_text import expand_nodes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from naive_slurm import NaiveSlurm

_ID = r"JobId=(\S+?)(?:\((\S+?)\))?"
_LINES = (
    ("submit", re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\S+)()()")),
    ("main", re.compile(r"Running job scheduler for (full|default)()()")),
    ("backfill", re.compile(r"_attempt_backfill: (beginning)()()")),
    ("start", re.compile(rf"sched: Allocate {_ID} NodeList=(\S+)")),
    ("start", re.compile(rf"_start_job: Started {_ID} in \S+ on (\S+)")),
    ("end", re.compile(rf"_job_complete: {_ID} done()")),
    ("end", re.compile(rf"Time limit exhausted for {_ID}()$")),
    ("preempted", re.compile(rf"preempted {_ID} has been (requeued|killed)")),
    ("grace", re.compile(rf"preemption grace time for {_ID} to (reclaim)")),
    ("failed", re.compile(rf"requeue job {_ID} due to failure of node (\S+)")),
    ("priorities", re.compile(r"init: Priority (MULTIFACTOR) plugin loaded()()")),
)
_KEPT = (
    "waiting", "running", "start", "end", "free", "n_on", "used", "run_until", "charged", "array_running", "on_nodes",
    "ready", "preempted_at", "ending", "restarts", "lost", "ended_by",
    "until", "grace_end", "bound", "cores", "paused", "suspended",
)  # fmt: skip
_NEVER = 2**50


def read_log(path: Path, first: int, period: int = 0) -> list[tuple[float, str, tuple[str, ...]]]:
    """Return what happened: seconds after ``first``, what, and its words.

    The log does not say when priorities are computed: every ``period`` from the moment when their plugin was loaded (in
    a run with ``DebugFlags=Priority``, which says it, to within 4 ms).
    """
    found = []
    for line in path.read_text(errors="replace").splitlines():
        for what, pattern in _LINES:
            match = pattern.search(line)
            if match and line.startswith("["):
                at = datetime.datetime.fromisoformat(line[1 : line.index("]")]).timestamp() - first
                found.append((at, what, match.groups()))
    if period and found:
        loaded = next((at for at, what, _ in found if what == "priorities"), math.inf)  # not with priority/basic
        n_later = int(max(found[-1][0] - loaded, 0) // period)
        found += [(loaded + n * period, "priorities", ()) for n in range(1, n_later + 1)]
    return sorted(found, key=lambda each: each[0])


class Passes:
    """The twin, led through the log of a real run."""

    def __init__(self, twin: NaiveSlurm, job_of: dict[str, int], node_names: list[str]) -> None:
        """Begin with an empty system."""
        self.twin, self.job_of = twin, job_of
        self.row = {name: n for n, name in enumerate(node_names)}
        self.counts: collections.Counter[str] = collections.Counter()
        self.open: tuple[str, float, dict[int, list[int]], set[int]] | None = None
        self.actual: dict[int, list[int]] = {}
        self.ended: list[int] = []
        self.graces: list[int] = []

    def compute_priorities(self, at: float, first: bool) -> None:
        """Compute priorities at a moment of the log."""
        self.close()
        self.twin.now = math.floor(at)
        if first:
            self.twin.last_calc = self.twin.now
        else:
            self.twin.decay(self.twin.now)

    def begin_pass(self, kind: str, full: bool, at: float) -> None:
        """Note what the twin would start, and leave its state as it was."""
        self.close()
        twin = self.twin
        twin.now = math.floor(at)
        self.graces = []
        kept = {name: copy.deepcopy(getattr(twin, name)) for name in _KEPT}
        if kind == "main":
            twin.main(full=full)
        else:
            twin.backfill()
        started = [job for job in range(twin.n_jobs) if twin.start[job] >= 0 and kept["start"][job] < 0]
        gives_way = set(twin.ending) | (set(twin.grace_end) - set(kept["grace_end"]))
        self.open = (kind, at, {job: sorted(twin.on_nodes[job]) for job in started}, gives_way)
        self.actual = {}
        for name, value in kept.items():
            setattr(twin, name, value)

    def close(self) -> None:
        """Compare the open pass with what Slurm started in it, and start that."""
        if self.open is None:
            return
        kind, at, expected, ending = self.open
        self.counts[f"{kind} passes"] += 1
        self.counts[f"{kind} passes alike"] += set(expected) == set(self.actual)
        self.counts[f"{kind} starts"] += len(self.actual)
        self.counts[f"{kind} starts alike"] += len(set(expected) & set(self.actual))
        self.counts[f"{kind} starts alike, same nodes"] += sum(
            expected.get(job) == nodes for job, nodes in self.actual.items()
        )
        gave_way = set(self.ended) | set(self.graces)
        self.counts[f"{kind} preempted"] += len(gave_way)
        self.counts[f"{kind} preempted alike"] += len(ending & gave_way)
        now, self.twin.now = self.twin.now, math.floor(at)
        for job, nodes in self.actual.items():
            if self.twin.suspends:  # so that it takes the CPUs that it may
                self.twin.find(job, set(range(self.twin.n_nodes)) - set(nodes), [], [])
            self.twin.begin(job, nodes)
            self.twin.end[job] = _NEVER
        for job in self.graces:
            self.twin.grace_is_over(job)
        for job in self.ended:
            self.twin.stop(job, "preempted", bool(self.twin.jobs["again"][job]))
        self.ended = []
        self.twin.now, self.open = now, None

    def take(self, at: float, what: str, words: tuple[str, ...]) -> None:
        """Take one line of the log in."""
        twin = self.twin
        if what in ("main", "backfill"):
            self.begin_pass(what, words[0] == "full", at)
            return
        if what == "priorities":
            self.compute_priorities(at, first=bool(words))
            return
        job = self.job_of.get(words[1] or words[0], self.job_of.get(words[0]))
        if what == "submit":
            tasks = [row for name, row in self.job_of.items() if name.split("_")[0] == words[0]]
            for row in dict.fromkeys(tasks):
                if row not in twin.waiting and twin.start[row] < 0 and not twin.layout.rejected[row]:
                    twin.waiting.append(row)
                    twin.now = math.floor(at)
                    twin.set_priority(row)
        elif what == "start" and job is not None and twin.start[job] < 0:
            self.actual[job] = sorted(self.row[name] for name in expand_nodes(words[2]))
        elif what == "preempted" and job in twin.running:
            self.ended.append(job)
        elif what == "failed" and job in twin.running:
            self.close()
            twin.now = math.floor(at)
            twin.stop(job, "node_fail", True)
        elif what == "grace" and job in twin.running:
            self.graces.append(job)
        elif what == "end":
            self.close()
            if job in twin.running:
                twin.paused.pop(job, None)
                twin.end[job] = twin.now = math.floor(at)
                twin.finish(job, twin.now)
                twin.take_turns()


def passes(scenario: dict[str, Any], folder: Path) -> pd.Series:
    """Return how many passes and starts there were, and in how many the twin agrees."""
    run = read_run(folder, scenario)
    began = int(run.jobs["submit_time"].min())
    site, nodes = site_of(scenario, int((folder / "first").read_text()))
    ordered = run.jobs.sort_values("submit_time", kind="stable", ignore_index=True)
    twin = NaiveSlurm(site, lay_out(site, nodes, ordered), ordered["run_time"], began)
    row_of = {name: row for row, name in enumerate(ordered["job_id"])}
    job_of: dict[str, int] = {}
    with (folder / "sacct.psv").open() as file:
        for row in csv.DictReader(file, delimiter="|"):
            task = row["JobID"].partition("_")[2]
            name = f"{row['JobName']}_{task}" if task.isdigit() else row["JobName"]
            if name in row_of:
                job_of[row["JobIDRaw"]] = job_of[row["JobID"]] = row_of[name]
    led = Passes(twin, job_of, nodes["node_id"].tolist())
    for at, what, words in read_log(folder / "slurmctld.log", began, site.priority.calc_period):
        led.take(at, what, words)
    led.close()
    return pd.Series(led.counts)


def main() -> None:
    """Print the counts of each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    for folder in options.runs:
        print(folder.name)
        print(passes(load(options.scenario), folder).to_string())


if __name__ == "__main__":
    main()
