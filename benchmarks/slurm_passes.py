"""Ask policy slurm, at each pass that a real controller's log tells of, what it would start.

At each pass it is given what really ran and waited, so that a difference is one of rules alone: no chance of an earlier
pass is carried on. Runs as `slurm_road.py` leaves them.

    NUMBA_DISABLE_JIT=1 python benchmarks/slurm_passes.py runs/cores-1 --show
"""

from __future__ import annotations

import argparse
import collections
import copy
import datetime
import math
import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from procure.run import simulate
from procure.site import events, order, plan
from procure.site.layout import lay_out
from procure.site.past import as_never_ended
from procure.site.policy import Slurm
from procure.site.store import read_site
from procure.site.work import (
    IN_BACKFILL,
    LAST_CALC,
    MOMENT,
    N_CHANGES,
    N_QUEUE,
    N_STARTS,
    N_VICTIMS,
    NOW,
    SORTED,
    WORD,
    own_of,
)
from procure.tables import JOB, read
from procure.workload.slurm import expand_nodes

_ID = r"JobId=(\S+?)(?:\((\S+?)\))?"
_LINES = (
    ("submit", re.compile(r"_slurm_rpc_submit_batch_job: JobId=(\S+)()()")),
    ("main", re.compile(r"Running job scheduler for (full|default)()()")),
    ("backfill", re.compile(r"_attempt_backfill: (beginning)()()")),
    ("start", re.compile(rf"sched: Allocate {_ID} NodeList=(\S+)")),
    ("start", re.compile(rf"_start_job: Started {_ID} in \S+ on (\S+)")),
    ("end", re.compile(rf"_job_complete: {_ID} done()")),
    ("end", re.compile(rf"Time limit exhausted for {_ID}()$")),
    ("gave way", re.compile(rf"preempted {_ID} has been (?:requeued|killed)()")),
    ("planned", re.compile(rf"_dump_job_sched: {_ID} to start at .* on nodes (\S+)")),
    ("priorities", re.compile(r"init: Priority MULTIFACTOR plugin (loaded)()()")),
)


def read_log(path: Path) -> list[tuple[float, str, tuple[str, ...]]]:
    """Return what happened: Unix seconds, what, and its words."""
    found = []
    for line in filter(lambda line: line.startswith("["), path.read_text(errors="replace").splitlines()):
        for what, pattern in _LINES:
            if match := pattern.search(line):
                at = datetime.datetime.fromisoformat(line[1 : line.index("]")] + "+00:00").timestamp()
                found.append((at, what, match.groups()))
    return sorted(found, key=lambda each: each[0])


class _Seen(Exception):
    """The policy has been made."""


class Led:
    """Policy slurm, led through the log of a run."""

    def __init__(self, run: Path) -> None:
        """Lay the run out as `procure simulate --site` does."""
        site = read_site(run / "site")
        table, _ = as_never_ended(read(run / "jobs.parquet", JOB), site.rules)
        made = Slurm._made
        Slurm._made = lambda policy, *given: self._keep(policy, *given)
        try:
            simulate(table, site.nodes, Slurm(site=str(run / "site")), kill_at_limit=False)
        except _Seen:
            pass
        finally:
            Slurm._made = made
        self.first = int(table["submit_time"].min())
        self.counts: collections.Counter[str] = collections.Counter()
        self.names = self.nodes["node_id"].tolist()
        self.row = {name: n for n, name in enumerate(self.names)}
        self.ids = [re.sub("~.*", "", name) for name in self.jobs["job_id"]]
        self.job_of = {name: n for n, name in enumerate(self.ids)}
        header, *rows = [line.split("|") for line in (run / "collected/jobs.psv").read_text().splitlines()]
        for row in [dict(zip(header, each, strict=False)) for each in rows]:
            self.job_of.setdefault(row.get("JobIDRaw", ""), self.job_of.get(row["JobID"], -1))
        self.leaving: list[tuple[float, int]] = []
        self.open: tuple[str, float, dict[int, list[int]]] | None = None
        self.units: dict[int, list[int]] = {}
        self.started: dict[int, list[int]] = {}
        self.planned: dict[int, list[int]] = {}
        self.gave_way: list[int] = []
        self.victims: list[int] = []
        self.shown: list[str] = []
        order.note_use(self.own, False)
        order.fair_shares(self.own)

    def _keep(self, policy: Slurm, state: object, jobs: pd.DataFrame, nodes: pd.DataFrame, began: int) -> None:
        site = policy.rules(jobs, nodes)
        self.own, self.jobs, self.nodes = own_of(site, lay_out(site, nodes, jobs), began), jobs, nodes
        raise _Seen

    def until(self, at: float) -> None:
        """Let end what ends, and compute priorities, up to a moment."""
        now, period = self.own.work.now, self.own.rules.calc_period
        while now[LAST_CALC] + period + self.phase <= at:
            calc = int(now[LAST_CALC]) + period
            self._end(calc + self.phase)
            now[NOW] = calc
            order.decay(self.own, calc)
        self._end(at)

    def _end(self, at: float) -> None:
        for when, job in [each for each in self.leaving if each[0] <= at]:
            self.own.work.now[NOW] = math.floor(when)
            events._finish(self.own, job, int(self.own.work.ended[job]))
            self.own.work.now[N_CHANGES] += 1
        self.leaving = [each for each in self.leaving if each[0] > at]

    def ask(self, kind: str, full: bool, at: float) -> None:
        """Note what the policy would start in a pass; its own state stays, but for what the pass learns of jobs."""
        work = self.own.work
        own = self.own._replace(work=type(work)(*map(copy.deepcopy, work)))
        now = own.work.now
        now[NOW], now[MOMENT], now[N_STARTS], now[SORTED] = math.floor(at), at % 1 * 1000, 0, 0
        now[N_CHANGES] += 1
        now[IN_BACKFILL] = int(kind == "backfill")
        if kind == "main":
            plan.main_pass(own, full)
        else:
            plan.backfill(own)
        for name in ("barred", "accrues", "would_get"):
            getattr(work, name)[:] = getattr(own.work, name)
        starts = own.work.starts[: now[N_STARTS]].tolist()
        first, held = own.node_first, own.work.n_held
        self.open = kind, at, {job: own.work.on[first[job] : first[job] + held[job]].tolist() for job in starts}
        self.victims = own.work.victims[: now[N_VICTIMS]].tolist()
        self.units = {job: own.work.units[first[job] : first[job] + held[job]].tolist() for job in starts}

    def close(self) -> None:
        """Compare the open pass with what Slurm started in it, and start that."""
        if self.open is None:
            return
        (kind, at, mine), self.open, own, work = self.open, None, self.own, self.own.work
        theirs, self.started = self.started, {}
        gave_way, self.gave_way = self.gave_way, []
        both = [job for job in theirs if job in mine]
        self.counts += collections.Counter(
            {
                f"{kind} passes": 1, f"{kind} passes alike": int(set(mine) == set(theirs)),
                f"{kind} starts": len(theirs), f"{kind} starts alike": len(both), f"{kind} own starts": len(mine),
                f"{kind} same nodes": sum(mine[job] == theirs[job] for job in both),
                "gave way": len(gave_way), "gave way alike": len({*gave_way} & {*self.victims}),
                "own gave way": len(self.victims),
            }
        )  # fmt: skip
        self._show(at, kind, mine, theirs)
        self._show(at, f"{kind}, gave way", self.victims, gave_way)
        for job, nodes in self.planned.items():
            if own.jobs.whole[job] == 1:
                work.would_get[job] = sum(int(own.nodes.cpus[node]) for node in nodes)
        self.planned = {}
        work.now[NOW], work.now[MOMENT] = math.floor(at), at % 1 * 1000
        for job, nodes in theirs.items():
            closed = np.full(work.closed.size, (1 << WORD) - 1)
            for node in nodes:
                closed[node // WORD] &= ~(1 << node % WORD)
            n = plan.find_now(own, job, closed, -1)
            if job in mine and sorted(mine[job]) == sorted(nodes):  # as dealt out among all nodes, not these alone
                n = len(nodes)
                work.chosen[:n], work.chosen_units[:n] = mine[job], self.units[job]
            elif sorted(work.chosen[:n].tolist()) != sorted(nodes):
                self.counts["starts that do not fit"] += 1
                n = len(nodes)
                work.chosen[:n], work.chosen_units[:n] = nodes, 1
            plan.over_chosen(own, job, n)
            plan.begin(own, job, n)
        plan._drop_begun(own)
        work.now[N_STARTS] = 0
        work.now[N_CHANGES] += 1
        for job in gave_way:
            work.victims[0], work.now[N_VICTIMS] = job, 1
            events.clear_away(own)

    def _show(self, at: float, what: str, mine: Collection[int], theirs: Collection[int]) -> None:
        if set(mine) != set(theirs):
            more, less = (
                [self.ids[job] for job in some if job not in other] for some, other in ((mine, theirs), (theirs, mine))
            )
            self.shown.append(
                f"{at:9.3f} {what}: the policy alone {' '.join(more) or '-'}, Slurm alone {' '.join(less) or '-'}"
            )

    def lead(self, log: list[tuple[float, str, tuple[str, ...]]]) -> None:
        """Go through a log."""
        work = self.own.work
        loaded = next((at for at, what, _ in log if what == "priorities"), self.first) - self.first
        self.phase = loaded % 1
        work.now[LAST_CALC] = (
            math.floor(loaded) + math.floor(max(-loaded, 0) / self.own.rules.calc_period) * self.own.rules.calc_period
        )
        for seconds, what, words in log:
            at = seconds - self.first
            job = self.job_of.get(words[1] or words[0], self.job_of.get(words[0], -1))
            if what == "start" and job >= 0 and work.begun[job] < 0:
                self.started[job] = [self.row[name] for name in expand_nodes(words[2])]
            elif what == "gave way" and job >= 0 and work.begun[job] >= 0 > work.ended[job]:
                self.gave_way.append(job)
            elif what == "planned" and job >= 0:
                self.planned[job] = [self.row[name] for name in expand_nodes(words[2])]
            elif what in ("main", "backfill", "submit", "end"):
                self.close()
                self.until(at)
                work.now[NOW] = math.floor(at)
            if what in ("main", "backfill"):
                self.ask(what, words[0] == "full", at)
            elif what == "submit":
                waiting = set(work.queue[: work.now[N_QUEUE]].tolist())
                for task in [n for n, name in enumerate(self.ids) if name.split("_")[0] == words[0].split("_")[0]]:
                    if work.begun[task] < 0 and task not in waiting and self.job_of[self.ids[task]] == task:
                        order.enqueue(self.own, task)
                        plan.try_submitted(self.own, task)
            elif what == "end" and job >= 0 and work.begun[job] >= 0 > work.ended[job]:
                work.ended[job] = math.floor(at)
                events._unbind(self.own, job)
                self.leaving.append((at + self.own.tables.late / 1000, job))
        self.close()


def main() -> None:
    """Print the counts of each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--show", action="store_true", help="print each pass that differs")
    options = parser.parse_args()
    rows = {}
    for run in options.runs:
        led = Led(run)
        led.lead(read_log(run / "slurmctld.log"))
        rows[run.name] = dict(led.counts)
        print("\n".join([f"{run.name}: {each}" for each in led.shown] if options.show else []), end="\n" * options.show)
    table = pd.DataFrame(rows).T.fillna(0).astype(int)
    print(pd.concat([table, table.sum().to_frame("all").T]).to_string())


if __name__ == "__main__":
    main()
