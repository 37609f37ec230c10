"""The slow twin of policy slurm: plain Python over lists, read beside Slurm's documentation.

Sections are of the pages at slurm.schedmd.com: *Scheduling Configuration Guide* (sched_config), *Multifactor Priority
Plugin* (priority_multifactor), *Fair Tree* (fair_tree), *Resource Limits* (resource_limits), *Advanced Resource
Reservation Guide* (reservations), *Consumable Resources* (cons_tres), *Topology Guide* (topology),
*Preemption* (preempt), and of the manual pages slurm.conf(5) and sacctmgr(1).
"""

from __future__ import annotations

import math
from itertools import pairwise

from procure.site.arrays import ALL_MEMORY, WHOLE, Layout
from procure.site.closed import DOWN, DRAINED
from procure.site.limits import ALONE, DIFFERENT, LICENSE, MINUTES, RUN_MINUTES, USED
from procure.site.model import Site

GROUPED = 30
"""s; running jobs that end within a growing window are taken away together when backfill looks for a start."""


LIMIT_CHECK = 30
"""s; so often Slurm looks for jobs that outlast their limits, or the grace time that they were left."""
BEFORE = 0.27
"""s; so much sooner backfill's periodic work begins than that of the main scheduler."""
BEYOND = 82
"""ms by which a job is over later than its run time after the moment of its start."""
HOPELESS = 3_000
"""So many rounds in which nothing runs, everything was submitted and nobody starts: what waits fits nowhere."""


class NaiveSlurm:
    """One run: jobs, nodes and the clock in plain lists."""

    def __init__(self, site: Site, layout: Layout, durations, began: int = 0) -> None:
        self.rules, self.site, self.layout, self.began = site.scheduler, site, layout, began
        jobs = layout.jobs
        self.jobs = {name: getattr(jobs, name).tolist() for name in jobs._fields}
        self.n_jobs, self.n_nodes = len(layout.refused), len(layout.nodes.cpus)
        n_rows, self.job_of = len(jobs.submit), layout.job.tolist()
        self.rows = [[row for row, of in enumerate(self.job_of) if of == job] for job in range(self.n_jobs)]
        self.durations = [int(durations[job]) for job in self.job_of]
        self.start, self.end = [-1] * n_rows, [-1] * n_rows
        self.on_nodes: list[list[int]] = [[] for _ in range(n_rows)]
        self.waiting: list[int] = []
        self.running: list[int] = []
        self.totals = [layout.nodes.cpus.tolist(), layout.nodes.mem.tolist()]
        self.requests = [self.jobs["cpus"], self.jobs["mem"]]
        packed = layout.nodes.guards is not None
        for pool in range(4 if packed else 1):
            for columns, words in ((self.totals, layout.nodes.gpus), (self.requests, jobs.gpus)):
                columns.append([word // 65536**pool % 65536 if packed else word for word in words.tolist()])
        self.n_pools = len(self.totals)
        for row, most in enumerate(layout.nodes.totals[3:].tolist(), 3):
            self.totals.append(most)
            of_job = zip(self.jobs["cpus"], self.jobs["cap"], strict=True)
            self.requests.append([n if cap == row else 0 for n, cap in of_job])
        self.free = [list(column) for column in self.totals]
        self.n_on, self.billed = [0] * self.n_nodes, [0.0] * n_rows
        self.used = [0.0] * len(layout.limits.bound)
        self.seconds_left = [0.0] * len(layout.limits.bound)
        self.spent = [0.0] * len(layout.limits.bound)
        self.amount = [float(amount) for amount in layout.limits.amount]
        self.usage = layout.tree.usage.tolist()
        self.fair_share = [1.0] * len(layout.tree.path)
        self.priority = [0] * n_rows
        self.charged = [0] * n_rows
        self.array_running = [0] * len(jobs.array_limit)
        self.accrues = [-1] * n_rows
        self.ready = list(self.jobs["eligible"])
        self.preempted_at: list[int | None] = [None] * n_rows
        self.ending: list[int] = []
        self.ended_by = [""] * self.n_jobs
        self.would_get = [0] * n_rows
        self.kept_by_limit: dict[tuple, bool] = {}
        self.restarts, self.lost = [0] * self.n_jobs, [0] * self.n_jobs
        self.until = [-1] * n_rows
        self.grace_end: dict[int, int] = {}
        latency = site.latency
        backfill_clock = latency.clock - BEFORE
        started = math.floor(latency.clock)
        self.asked, self.asked_from = True, started  # the nodes have just registered
        self.reported = False
        self.moment = 0
        share = 0.0 if site.scheduler.defer else latency.pass_at_end
        self.reports = [math.fmod(n * (math.sqrt(5) - 1) / 2, 1) < share for n in range(1, n_rows + 1)]
        self.main_at, self.backfill_at = (math.floor(one % 1 * 1000) for one in (latency.clock, backfill_clock))
        self.bound: set[int] = set()
        self.begun_at = [0] * n_rows
        self.just_begun: set[int] = set()
        self.n_submitted = 0
        self.last_pass = self.last_schedule = self.last_full = self.last_calc = self.now = started
        self.last_backfill = math.floor(backfill_clock)
        self.in_backfill = False
        self.use_of_accounts = self.parts_of_use()
        self.compute_fair_share()

    # ------------------------------------------------------------------ the clock
    def run(self):
        n_idle, submit = 0, self.jobs["submit"]
        changes = sorted({t for *times, _, what in self.layout.closed.tolist() if what < 0 for t in times})
        while self.n_submitted < self.n_jobs or self.waiting or self.running:
            n_before = self.n_submitted
            times = [self.end[job] for job in self.running if self.end[job] > self.now]
            for job in self.running:
                at = self.over_at(job) if job in self.bound else self.free_at(job)
                times.append(max(at // 1000, self.now + 1))
            if self.running:
                times += [start for start, *_ in self.failures() if start > self.now][:1]
            if self.grace_end:
                times.append(self.now + LIMIT_CHECK - (self.now - self.clock) % LIMIT_CHECK)
            if n_before < self.n_jobs:
                times.append(submit[n_before])
            if self.waiting:
                times += [t for t in changes if t > self.now][:1]
                times.append(self.last_full + self.rules.sched_interval)
                if self.asked:
                    times.append(max(self.last_schedule + self.rules.batch_sched_delay, self.asked_from))
                if self.reported:
                    times.append(self.last_pass + math.ceil(self.rules.sched_min_interval - 1e-3))
                if self.rules.backfill:
                    times.append(self.last_backfill + self.rules.bf_interval)
            times.append(self.last_calc + self.site.priority.calc_period)
            if n_before < self.n_jobs and not self.running and not self.any_may_start():
                times = [submit[n_before]]  # until then nothing that happens would start a job
            now = self.now = max(self.now + 1, min(times)) if n_before else max(0, min(times))
            idle = not self.running and n_before == self.n_jobs
            n_idle = n_idle + 1 if idle else 0
            if idle and (not self.any_may_start() or n_idle > HOPELESS):
                break
            self.catch_up()
            if now in changes:
                self.ask(now)
            self.fail_nodes()
            self.end_graces()
            self.schedule_if_due()
        ran = [self.as_row(job) for job in range(self.n_jobs)]
        return tuple([column[row] for row in ran] for column in (self.start, self.end, self.on_nodes))

    def as_row(self, job: int) -> int:
        """sbatch, --partition: of several the one offering the earliest start runs it; here, the row that it ran as."""
        return next((row for row in self.rows[self.job_of[job]] if self.start[row] >= 0), job)

    def enter(self, job: int) -> None:
        for row in self.rows[job]:
            if not self.layout.rejected[row]:
                self.waiting.append(row)
                self.set_priority(row)

    def note_tried(self, job: int, nodes) -> None:
        """priority_multifactor, Job Size Factor: of what a job got when tried; limits likewise."""
        if nodes is not None and self.jobs["grows"][job]:
            self.would_get[job] = sum(self.taken(job, node)[0] for node in nodes)

    def if_empty(self, job: int, closed):
        """Return the nodes that a job would get if nothing ran."""
        return self.choose(job, closed, [list(each) for each in self.totals], [0] * self.n_nodes)

    @property
    def clock(self) -> int:
        """The second in which the periodic work began."""
        return math.floor(self.site.latency.clock)

    def moment_of(self, what: str, second: int) -> int | None:
        """Return at how many ms of a second main scheduler or backfill comes: each time more than 1 s later."""
        first, period = {"main": (self.main_at, 1.0037), "backfill": (self.backfill_at, 1.0012)}[what]
        n = math.ceil(((second - self.clock) * 1000 - first) / (1000 * period) - 1e-9)
        ms = math.floor(first + n * 1000 * period - (second - self.clock) * 1000 + 1e-6)
        return ms if ms < 1000 else None

    def come(self, what: str, second: int) -> int:
        return second if self.moment_of(what, second) is not None else second + 1

    def catch_up(self) -> None:
        """Let the passes come that were due while nothing waited that they could start, one after another."""
        rules = self.rules
        while True:
            full = asked = self.come("main", self.last_full + rules.sched_interval)
            if self.asked:
                asked = self.come("main", max(self.last_schedule + rules.batch_sched_delay, self.asked_from))
            if min(full, asked) >= self.now:
                break
            self.last_schedule = self.last_pass = min(full, asked)
            self.last_full = full if full <= asked else self.last_full
            self.asked = self.reported = False
        backfill = self.come("backfill", self.last_backfill + rules.bf_interval)
        if backfill < self.now:
            self.last_backfill = backfill

    def any_may_start(self) -> bool:
        """Say whether a waiting job is eligible, or will be when its begin time comes."""
        return any(self.ready[job] > self.now or self.eligible(job) for job in self.waiting)

    def see(self, at: int) -> None:
        """Take in what ends and is submitted up to a moment, ms, and compute priorities when that is due."""
        period = self.site.priority.calc_period
        while (calc := self.last_calc + period) * 1000 + self.main_at <= at:
            self.take_in(calc * 1000 + self.main_at)
            self.decay(calc)
        self.take_in(at)

    def ask(self, second: int) -> None:
        """Ask for a pass of the main scheduler, which may see it from a second on."""
        self.asked_from = self.asked_from if self.asked else second
        self.asked = True

    def take_in(self, at: int) -> None:
        moment = self.moment_of("main", self.now)
        may_see = self.now + (moment is not None and at > self.now * 1000 + moment)
        left = [job for job in self.running if self.over_at(job) <= at and job not in self.just_begun]
        for job in [job for job in left if job in self.bound]:
            self.unbind(job)
            if not self.reports[job]:
                self.ask(may_see)
        for job in [job for job in left if self.free_at(job) <= at]:
            self.finish(job, self.over_at(job) // 1000)
            if self.reports[job]:
                self.reported = True
            else:
                self.ask(may_see)
        while self.n_submitted < self.n_jobs and self.jobs["submit"][self.n_submitted] * 1000 <= at:
            self.enter(self.n_submitted)
            for row in self.rows[self.n_submitted]:  # a job that is submitted is tried: limits first, then as if idle
                if not self.layout.rejected[row] and not self.note_barred(row):
                    self.note_tried(row, self.if_empty(row, set()))
            self.ask(may_see)
            self.n_submitted += 1

    def over_at(self, job: int) -> int:
        """Return when a job is over, ms: limits count it no longer."""
        return self.end[job] * 1000 + BEYOND + self.begun_at[job]

    def free_at(self, job: int) -> int:
        """Return when the nodes of a job are free, ms."""
        return self.over_at(job) + round(self.site.latency.job_end * 1000)

    def schedule_if_due(self) -> None:
        """Run the passes that are due; when jobs were ended for others, a further one comes at once."""
        self.passes()
        while self.ending:
            for job in self.ending:
                self.stop(job, "preempted", bool(self.jobs["again"][job]))
            self.ending = []
            self.last_schedule = self.now - self.rules.batch_sched_delay
            self.ask(self.now)
            self.passes()

    def passes(self) -> None:
        """slurm.conf, SchedulerParameters: sched_interval, batch_sched_delay, sched_min_interval, bf_interval.

        In the order of their moments within the second, each with what is known by then.
        """
        now, rules = self.now, self.rules
        self.just_begun = set()
        both = [(self.moment_of(what, now), what) for what in ("main", "backfill")]
        steps = [(moment, what) for moment, what in both if moment is not None]
        for moment, what in [*sorted(steps, key=lambda step: step[0]), (999, "")]:
            self.passes_at_once(now * 1000 + moment)
            self.moment = moment
            full = what == "main" and now - self.last_full >= rules.sched_interval
            asked = what == "main" and self.asked and now - self.last_schedule >= rules.batch_sched_delay
            if not self.ending and (full or asked):
                self.last_full = now if full else self.last_full
                self.last_schedule = self.last_pass = now
                self.asked = self.reported = False
                self.main(full=full)
            elif not self.ending:
                self.pass_at_once()
            if not self.ending and what == "backfill":
                self.backfill_if_due()
            if self.ending:
                break
        self.just_begun = set()

    def passes_at_once(self, until: int) -> None:
        """slurm.conf, Epilog: a node reports the end of a job by a message of its own, and the main scheduler runs."""
        while not self.ending:
            reported = [self.free_at(job) for job in self.running if self.reports[job] and job not in self.just_begun]
            if min(reported, default=until + 1) > until:
                self.see(until)
                return
            self.see(min(reported))
            self.moment = max(min(reported) - self.now * 1000, 0)
            self.pass_at_once()

    def pass_at_once(self) -> None:
        if self.reported and self.now - self.last_pass >= math.ceil(self.rules.sched_min_interval - 1e-3):
            self.last_pass, self.reported = self.now, False
            self.main(full=False)

    def backfill_is_due(self) -> bool:
        return self.rules.backfill and self.now - self.last_backfill >= self.rules.bf_interval

    def backfill_if_due(self) -> None:
        if self.backfill_is_due():
            self.last_backfill = self.now
            if self.waiting:
                self.in_backfill = True
                self.backfill()
                self.in_backfill = False

    def failures(self) -> list[tuple[int, int]]:
        """Return when which nodes go down."""
        return sorted((start, node) for start, _, node, what in self.layout.closed.tolist() if what == DOWN)

    def fail_nodes(self) -> None:
        """slurm.conf, JobRequeue: jobs are requeued after node failure, or end with the state NODE_FAIL."""
        down = {node for start, node in self.failures() if start == self.now}
        for job in [job for job in self.running if self.end[job] > self.now and down & set(self.on_nodes[job])]:
            self.stop(job, "node_fail", self.site.preemption.requeue)
            self.ask(self.now)

    def end_graces(self) -> None:
        """preempt, GraceTime: the job is ended "upon reaching its new end time", when limits are looked at next."""
        if (self.now - self.clock) % LIMIT_CHECK == 0:
            for job in [job for job, until in self.grace_end.items() if until <= self.now < self.end[job]]:
                self.stop(job, "preempted", bool(self.jobs["again"][job]))
                self.ask(self.now)

    def stop(self, job: int, why: str, again: bool) -> None:
        """preempt, PreemptMode: the job is over, or waits again for as long as AuthInfo's cred_expire at least."""
        began, self.end[job] = self.start[job], self.now
        self.finish(job, self.now)
        first = self.job_of[job]
        if not again:
            self.ended_by[first] = why
        else:
            self.restarts[first] += 1
            self.lost[first] += self.now - began
            self.start[job] = self.end[job] = -1
            self.on_nodes[job] = []
            for row in self.rows[first]:
                self.accrues[row] = -1
                self.ready[row] = self.now + self.site.preemption.requeue_delay + 1
            self.enter(first)

    def finish(self, job: int, until: int) -> None:
        self.running.remove(job)
        self.grace_end.pop(job, None)
        self.charge(job, until)
        if job in self.bound:
            self.unbind(job)
        for node in self.on_nodes[job]:
            for free, asked in zip(self.free, self.taken(job, node), strict=True):
                free[node] += asked
            self.n_on[node] -= 1
        if self.jobs["array"][job] >= 0:
            self.array_running[self.jobs["array"][job]] -= 1

    def unbind(self, job: int) -> None:
        """resource_limits: a job counts no longer."""
        self.bound.remove(job)
        limits = self.layout.limits
        for i in range(limits.first[job], limits.first[job + 1]):
            row, amount = limits.row[i], self.amount[i]
            self.used[row] -= amount
            self.seconds_left[row] -= amount * (self.jobs["limit"][job] - (self.charged[job] - self.start[job]))

    def taken(self, job: int, node: int):
        if self.jobs["whole"][job]:
            return [column[node] for column in self.totals]
        return [column[job] for column in self.requests]

    # ------------------------------------------------------------------ order
    def charge(self, job: int, until: int) -> None:
        """priority_multifactor, Fair-share: usage of running jobs is added, decayed, at each calculation."""
        half_life = self.site.priority.decay_half_life
        factor = 1 - 0.693 / half_life if half_life else 1.0
        delta = until - max(self.start[job], self.charged[job])
        self.charged[job] = until
        if delta <= 0:
            return
        amount = delta * factor**delta * self.billed[job]
        row = self.jobs["association"][job]
        while row >= 0:
            self.usage[row] += amount
            row = self.layout.tree.parent[row]
        limits = self.layout.limits
        for i in range(limits.first[job], limits.first[job + 1]):
            left = 1.0 if limits.lasting[limits.row[i]] else factor**delta
            self.spent[limits.row[i]] += delta * left * self.amount[i] / 60
            self.seconds_left[limits.row[i]] -= delta * self.amount[i] if job in self.bound else 0

    def decay(self, at: int) -> None:
        """priority_multifactor: PriorityDecayHalfLife, PriorityCalcPeriod."""
        self.use_of_accounts = self.parts_of_use()
        delta = at - self.last_calc
        self.last_calc = at
        half_life = self.site.priority.decay_half_life
        kept = (1 - 0.693 / half_life) ** delta if half_life else 1.0
        self.usage = [used * kept for used in self.usage]
        lasting = self.layout.limits.lasting
        self.spent = [used if lasting[row] else used * kept for row, used in enumerate(self.spent)]
        for job in self.running:
            if self.start[job] < at:
                self.charge(job, at)
        self.compute_fair_share()
        for job in self.waiting:
            self.set_priority(job)

    def parts_of_use(self) -> list[float]:
        total = sum(used for row, used in enumerate(self.usage) if self.layout.tree.parent[row] < 0)
        return [used / total if total > 0 else 0.0 for used in self.usage]

    def classic_share(self, path: list[int]) -> float:
        """classic_fair_share: F = 2**(-Ue/S/d); Ue of a child = U + (Ue of its parent - U) * its part of the shares."""
        share = self.layout.tree.share
        rows = [row for row in path if row >= 0]
        parts = [*(self.use_of_accounts[row] for row in rows[:-1]), self.parts_of_use()[rows[-1]]]
        use, shares = parts[0], 1.0
        for row, part in zip(rows, parts, strict=True):
            if share[row] >= 0:
                use, shares = part + (use - part) * share[row], shares * share[row]
        return 2.0 ** (-use / shares / self.site.priority.damping) if shares > 0 else 0.0

    def compute_fair_share(self) -> None:
        """fair_tree: rank users by Level FS, from the root down; equal paths are ties."""
        tree = self.layout.tree
        if "no_fair_tree" in self.site.priority.flags:
            self.fair_share = [self.classic_share(path) for path in tree.path.tolist()]
            return
        level = [0.0] * len(tree.parent)
        for row, above in enumerate(tree.parent):
            siblings = sum(self.usage[n] for n in range(len(level)) if tree.parent[n] == above)
            total = siblings if above < 0 else self.usage[above]
            used = self.usage[row] / total if total > 0 else 0.0
            share = tree.share[row]
            if share < 0:
                level[row] = math.inf
            elif share == 0:
                level[row] = 0.0
            else:
                level[row] = share / used if used > 0 else math.inf
        keys = []
        for path in tree.path.tolist():
            keys.append([level[row] if row >= 0 else math.inf for row in path])
        n = len(keys)
        self.fair_share = [(n - sum(other > key for other in keys)) / n for key in keys]

    def set_priority(self, job: int) -> None:
        """priority_multifactor, Age Factor: how long the job has been "sitting in the queue, eligible to run"."""
        rules = self.site.priority
        if rules.type == "basic":
            self.priority[job] = int(self.jobs["base"][job])
            return
        age = 0.0
        if self.eligible(job):
            self.note_eligible(job)
        if "accrue_always" in rules.flags and self.accrues[job] < 0:
            self.accrues[job] = self.now
        if self.accrues[job] >= 0:
            age = min(max(self.now - self.accrues[job], 0) / rules.max_age, 1.0)
        share = self.fair_share[self.layout.tree.user_of[self.jobs["association"][job]]]
        value = rules.weight_age * age + rules.weight_fair_share * share + self.jobs["base"][job]
        value += self.jobs["per_size"][job] * max(self.would_get[job] - self.jobs["size"][job], 0.0)
        least = self.priority[job] if "incr_only" in rules.flags else 1
        self.priority[job] = max(int(max(value, 1.0)), least)

    def note_eligible(self, job: int) -> None:
        """A dependency is seen to be met when a pass lists the jobs (sacct's Eligible), or priorities are computed."""
        if self.accrues[job] < 0:
            self.accrues[job] = max(self.ready[job], self.now if self.depends(job) else 0)

    def depends(self, job: int) -> bool:
        return self.jobs["on_first"][job] < self.jobs["on_first"][job + 1]

    def eligible(self, job: int) -> bool:
        reservation = self.jobs["reservation"][job]
        over = reservation >= 0 and self.layout.reservation_end[reservation] <= self.now
        if self.ready[job] > self.now or over:
            return False
        alternatives: dict[int, list[bool]] = {}
        for i in range(self.jobs["on_first"][job], self.jobs["on_first"][job + 1]):
            other = self.jobs["on"][i]
            row = self.as_row(other)
            begun, over = self.start[row] >= 0, self.end[row] >= 0 and row not in self.running
            happened = self.layout.refused[other] or (begun if self.jobs["on_start"][i] else over)
            alternatives.setdefault(self.jobs["on_either"][i], []).append(happened)
        return not alternatives or any(map(all, alternatives.values()))

    def place_in_turn(self, row: int) -> tuple[int, int, int]:
        """An array is one entry of the queue for each partition that it names."""
        job, array = self.job_of[row], self.jobs["array"][row]
        tasks = [one for one in range(self.n_jobs) if array >= 0 and self.jobs["array"][one] == array]
        head = tasks[0] if any(len(self.rows[one]) > 1 for one in tasks) else job
        return head, self.rows[job].index(row), row

    def queue(self) -> list[int]:
        """sched_config: reservations first, then the partition's tier, priority, submission."""

        def key(job):
            jobs = self.jobs
            return (
                jobs["reservation"][job] < 0,
                -jobs["tier"][job],
                -self.priority[job],
                jobs["submit"][job],
                *self.place_in_turn(job),
            )

        ordered = sorted((job for job in self.waiting if self.eligible(job)), key=key)
        for job in ordered:
            self.note_eligible(job)
        found: list[int] = []
        while ordered:
            free = (job for job in ordered if not any(self.ranks_above(other, job) for other in ordered))
            found.append(next(free, ordered[0]))
            ordered.remove(found[-1])
        return found

    # ------------------------------------------------------------------ preemption
    def ranks_above(self, job: int, other: int) -> bool:
        """sched_config, the order of jobs: those that can preempt come before those that they can."""
        return bool(self.jobs["preempts"][self.jobs["rank"][job]][self.jobs["rank"][other]])

    def prey(self, job: int) -> list[int]:
        """preempt, Preemption Design and Operation: who may be ended, by QOS or partition and size, or by youth."""
        jobs, nodes = self.jobs, self.layout.partition_nodes[self.jobs["partition"][job]]
        found = [
            other
            for other in self.running
            if self.ranks_above(job, other)
            and other not in self.ending
            and self.start[other] < self.now < self.end[other]
            and self.now >= self.start[other] + jobs["exempt"][other]
            and any(nodes[node] for node in self.on_nodes[other])
        ]
        if self.site.preemption.youngest_first:
            return sorted(found, key=lambda other: (-self.start[other], other))
        return sorted(found, key=lambda other: (jobs["yields"][other], len(self.on_nodes[other]), other))

    def how(self, job: int, other: int) -> int:
        """preempt, PreemptMode: what a waiting job does with a running one."""
        return int(self.jobs["preempts"][self.jobs["rank"][job]][self.jobs["rank"][other]])

    def without(self, gone: list[int]):
        """Return what is free, and how many jobs are on each node, without some running jobs."""
        free, n_on = [list(column) for column in self.free], list(self.n_on)
        for job in gone:
            for node in self.on_nodes[job]:
                for column, asked in zip(free, self.taken(job, node), strict=False):
                    column[node] += asked
                n_on[node] -= 1
        return free, n_on

    def find(self, job, closed, gone, group=None):
        return self.choose(job, closed, *self.without(gone), group)

    def preempt(self, job: int, closed: set[int]) -> None:
        """preempt, Preemption Design and Operation: end one after the other until the job fits, then reorder them.

        slurm.conf: PreemptParameters reorder_count and strict_order. A job that has ended others does not end more for
        as long as KillWait and MessageTimeout.
        """
        prey, rules, last = self.prey(job), self.site.preemption, self.preempted_at[job]
        if not prey or (last is not None and self.now - last < rules.patience):
            return
        nodes, n_gone = None, 0
        for attempt in range(min(rules.reorder_count + 2, len(prey))):
            if attempt:
                gets = set(nodes or [])
                needed, before, behind = prey[n_gone - 1], prey[: n_gone - 1], prey[n_gone:]
                if not rules.strict_order:
                    before.sort(key=lambda other: -len(set(self.on_nodes[other]) & gets))
                    n_sharing = sum(bool(set(self.on_nodes[other]) & gets) for other in before)
                    behind = before[n_sharing:] + behind
                    before = before[:n_sharing]
                prey = [needed, *before, *behind]
            for n_gone in range(1, len(prey) + 1):
                nodes = self.find(job, closed, prey[:n_gone])
                if nodes is not None:
                    break
            if nodes is None:
                return
        self.preempted_at[job] = self.now
        for other in prey[:n_gone]:
            if set(self.on_nodes[other]) & set(nodes or []) and self.grace_is_over(other):
                self.ending.append(other)

    def grace_is_over(self, job: int) -> bool:
        """preempt, GraceTime: the job's "end time is set to the current time plus GraceTime"."""
        if self.jobs["grace"][job] and job not in self.grace_end:
            self.until[job] = self.grace_end[job] = min(self.until[job], self.now + self.jobs["grace"][job])
        return self.grace_end.get(job, 0) <= self.now

    # ------------------------------------------------------------------ hold-back
    def array_full(self, job: int) -> bool:
        """sbatch, --array: "the number of simultaneously running tasks from this job array"."""
        array = self.jobs["array"][job]
        most = self.layout.jobs.array_limit[array] if array >= 0 else 0
        return bool(most and self.array_running[array] >= most)

    def barred(self, job: int) -> bool:
        """acct_policy, before nodes are looked for: limits of jobs and what was used so far."""
        return self.exceeds(job, self.early(job, licenses=False), self.layout.limits.asked)

    def record(self, job: int) -> tuple:
        """Slurm has one record of the waiting tasks of an array."""
        array = self.jobs["array"][job]
        return ("array", array) if array >= 0 else ("job", self.job_of[job])

    def note_barred(self, job: int) -> bool:
        """squeue, REASON: that a limit keeps a job is known once it was tried."""
        self.kept_by_limit[self.record(job)] = found = self.barred(job)
        return found

    def unlicensed(self, job: int) -> bool:
        return self.exceeds(job, self.early(job, licenses=True), self.layout.limits.asked)

    def early(self, job: int, licenses: bool) -> list[int]:
        limits = self.layout.limits
        return [i for i in self.rows_of(job, late=False) if (limits.kind[limits.row[i]] == LICENSE) == licenses]

    def rows_of(self, job: int, late: bool) -> list[int]:
        """Return a job's limits: those on TRES are compared once nodes were chosen, the others before."""
        limits = self.layout.limits
        mine = [i for i in range(limits.first[job], limits.first[job + 1]) if limits.binds[i]]
        return [i for i in mine if bool(limits.late[limits.row[i]]) == late]

    def over_asked(self, job: int) -> bool:
        limits, got = self.layout.limits, self.would_get[job]
        amounts = limits.asked.tolist()
        for i in range(limits.first[job], limits.first[job + 1]):
            if got and limits.asked[i] != limits.amount[i]:
                amounts[i] = float(got)
        return self.exceeds(job, self.rows_of(job, late=True), amounts)

    def exceeds(self, job: int, rows, amounts) -> bool:
        """Say whether a job would exceed one of the limits on sums if it counted for so much.

        acct_policy: minutes count whole, and those left of running jobs as when priorities were last computed.
        """
        limits = self.layout.limits
        limit = self.jobs["limit"][job]
        for i in rows:
            row, amount, bound = limits.row[i], float(amounts[i]), limits.bound[limits.row[i]]
            if limits.kind[row] == DIFFERENT:
                continue
            used = 0.0 if limits.kind[row] == ALONE else self.used[row]
            minutes = math.floor(self.seconds_left[row] / 60 + 1e-6) + amount * limit / 60
            if limits.kind[row] == RUN_MINUTES:
                value = minutes
            elif limits.kind[row] == MINUTES:
                value = math.floor(self.spent[row]) + minutes
            elif limits.kind[row] == USED:
                if math.floor(self.spent[row]) >= bound:
                    return True
                continue
            else:
                value = used + amount
            if value > bound:
                return True
        return False

    # ------------------------------------------------------------------ plan
    def closed_nodes(self, job: int, begin: int, limit: int) -> set[int]:
        """reservations: nodes that are set aside in the time that the job may take; drained and down nodes."""
        mine = self.jobs["reservation"][job]
        closed = set()
        for start, end, node, what in self.layout.closed.tolist():
            if what in (DRAINED, DOWN):
                if start <= self.now < end:
                    closed.add(node)
            elif what != mine and start < begin + limit and begin < end:
                closed.add(node)
        if mine >= 0:
            inside = {
                node for start, end, node, what in self.layout.closed.tolist() if what == mine and start <= begin < end
            }
            closed |= set(range(self.n_nodes)) - inside
        return closed

    def main(self, full: bool) -> None:
        """sched_config, main scheduler: in order, and the first job of a partition that finds no nodes blocks it.

        slurm.conf, assoc_limit_stop: so does one that a limit keeps; of a limit on jobs only until that is its reason.
        """
        rules = self.rules
        blocked_partitions, blocked_reservations = set(), set()
        down = (DRAINED, DOWN)
        blocked_nodes = {n for t, u, n, what in self.layout.closed.tolist() if what in down and t <= self.now < u}
        rejected, depth = None, 0
        in_partition: dict[int, int] = {}
        for job in self.queue():
            array, partition, reservation = (self.jobs[name][job] for name in ("array", "partition", "reservation"))
            if (array >= 0 and (array, partition) == rejected) or job not in self.waiting:
                continue
            rejected = array, partition
            if self.array_full(job):
                continue
            if rules.partition_job_depth:
                in_partition[partition] = in_partition.get(partition, 0) + 1
                if in_partition[partition] > rules.partition_job_depth:
                    continue
            depth += 1
            if not full and depth > rules.default_queue_depth + 1:
                break
            if reservation >= 0:
                if reservation in blocked_reservations:
                    continue
            elif partition in blocked_partitions:
                continue
            if self.kept_by_limit.get(self.record(job)) and self.note_barred(job):
                continue
            mine = {n for n in range(self.n_nodes) if self.layout.partition_nodes[partition, n]}
            if len(mine - blocked_nodes) < self.jobs["least"][job]:
                blocked_partitions.add(partition)
                blocked_nodes |= mine
                continue
            if self.unlicensed(job):
                continue
            nodes, closed, over = None, set(), self.note_barred(job)
            if not over:
                closed = self.closed_nodes(job, self.now, self.jobs["limit"][job]) | blocked_nodes
                nodes = self.find(job, closed, [])
                over = self.over_chosen(job, nodes)
            if nodes is not None and not over:
                self.begin(job, nodes)
                rejected = None
                continue
            self.note_tried(job, nodes)
            if over and not rules.assoc_limit_stop:
                continue
            if nodes is None and not over and not self.waits_for_others(job, closed):
                continue
            if not over:
                self.preempt(job, closed)
            if reservation >= 0:
                blocked_reservations.add(reservation)
            elif not self.may_overtake(job):
                blocked_partitions.add(partition)
                blocked_nodes |= mine

    def waits_for_others(self, job: int, closed: set[int]) -> bool:
        """node_scheduler: "nodes busy", or the job's nodes are not available, and it blocks nobody."""
        places, place = self.layout.places, self.jobs["place"][job]
        groups = range(places.first[place], places.first[place + 1])
        mine = {n for n in range(self.n_nodes) if any(places.reach[g, n] for g in groups)} - closed
        whole = self.jobs["whole"]
        for other in self.running:
            if mine & set(self.on_nodes[other]) and WHOLE in (whole[job], whole[other]):
                return True
        return self.if_empty(job, closed) is not None

    def over_chosen(self, job: int, nodes) -> bool:
        """acct_policy: a limit on nodes counts different ones, when they have been chosen; all are new if none were.

        All CPUs of nodes that the job takes whole count from then on.
        """
        limits = self.layout.limits
        whole = [i for i in range(limits.first[job], limits.first[job + 1]) if limits.amount[i] != limits.asked[i]]
        for i in whole if nodes is not None else ():
            self.amount[i] = float(sum(self.totals[0][node] for node in nodes))
        if self.over_asked(job) if nodes is None else self.exceeds(job, self.rows_of(job, late=True), self.amount):
            return True
        of = {other: limits.row[limits.first[other] : limits.first[other + 1]].tolist() for other in [job, *self.bound]}
        for row in [limits.row[i] for i in self.rows_of(job, late=True)]:
            if limits.kind[row] == DIFFERENT:
                on = {node for other in self.bound if row in of[other] for node in self.on_nodes[other]}
                more = len(set(nodes) - on) if nodes is not None else self.jobs["n_nodes"][job]
                if len(on) + more > limits.bound[row]:
                    return True
        return False

    def first_over(self, job: int, nodes, barred: bool) -> int:
        """Return the first limit that a job would exceed, QOS first."""
        limits = self.layout.limits
        for i in self.early(job, licenses=False) if barred else ():
            if self.exceeds(job, [i], limits.asked):
                return limits.row[i]
        for i in self.rows_of(job, late=True):
            row = limits.row[i]
            of = [other for other in self.bound if row in limits.row[limits.first[other] : limits.first[other + 1]]]
            on = {node for other in of for node in self.on_nodes[other]}
            different = limits.kind[row] == DIFFERENT and len(on | set(nodes)) > limits.bound[row]
            if different or self.exceeds(job, [i], self.amount):
                return row
        raise AssertionError(job)

    def may_overtake(self, job: int) -> bool:
        """slurm.conf: bf_min_age_reserve and bf_min_prio_reserve; such a job reserves nothing."""
        rules = self.rules
        young = self.now - self.ready[job] < rules.bf_min_age_reserve
        return young or self.priority[job] < rules.bf_min_prio_reserve

    def backfill(self) -> None:
        """sched_config, backfill: every job in order gets the earliest start that delays no job before it."""
        rules, window_end = self.rules, self.floor(self.now + self.rules.bf_window)
        space = [(self.floor(self.now), window_end, frozenset())]  # (begin, end, nodes that are promised)
        counts: dict[tuple, int] = {}
        until: dict[int, int] = {}
        tried = started = 0
        rejected, array_reserved = None, {}
        queue = self.queue()
        for job in queue if not rules.assoc_limit_stop else ():
            self.note_barred(job)
        for job in queue:
            if tried >= rules.bf_max_job_test:
                break
            array, partition = self.jobs["array"][job], self.jobs["partition"][job]
            if (array >= 0 and (array, partition) == rejected) or job not in self.waiting:
                continue
            if self.array_full(job) or (not rules.assoc_limit_stop and self.barred(job)):
                continue
            if array >= 0 and array_reserved.get(array, 0) >= rules.bf_max_job_array_resv:
                continue
            rejected = array, partition
            if self.over_backfill_limits(job, counts) or self.unlicensed(job):  # who lacks licences is counted
                continue
            only_now = self.may_overtake(job)
            tried += 1
            limits = self.layout.limits
            rows = limits.row[limits.first[job] : limits.first[job + 1]].tolist()
            qos = [self.layout.limits.of_qos[row] for row in rows]
            since = max([self.now, *(until[each] for each in qos if each in until and rules.assoc_limit_stop)])
            found = self.earliest(job, space, only_now, since)
            if found is None:
                continue
            start, nodes, now, closed = found
            self.note_tried(job, nodes)
            barred = start <= self.now and (self.note_barred if rules.assoc_limit_stop else self.barred)(job)
            if closed is not None and (barred or self.over_chosen(job, None)):
                continue
            if closed is not None:
                self.preempt(job, closed)
            if now and (barred or self.over_chosen(job, nodes)):
                if not rules.assoc_limit_stop or only_now:
                    continue
                start, now = self.later or self.now + 500, False
                if (row := self.layout.limits.of_qos[self.first_over(job, nodes, barred)]) >= 0:
                    until[row] = max(until.get(row, 0), start)
                if start > self.now + rules.bf_window:
                    continue
                if self.clash(space, start, self.jobs["limit"][job], nodes):
                    found = self.earliest(job, space, False, start)
                    if found is None:
                        continue
                    start, nodes = found[:2]
            if now:
                self.begin(job, nodes)
                if self.jobs["whole"][job] == WHOLE:  # Slurm 22.05 sets such nodes aside in its table as well
                    self.promise(space, self.now, self.now + self.jobs["limit"][job], nodes)
                started += 1
                rejected = None
                if rules.bf_max_job_start and started >= rules.bf_max_job_start:
                    break
                continue
            if only_now or (not rules.assoc_limit_stop and self.over_chosen(job, None)):
                continue
            if rules.bf_job_part_count_reserve:
                key = ("reserved", self.jobs["partition"][job])
                if counts.get(key, 0) >= rules.bf_job_part_count_reserve:
                    continue
                counts[key] = counts.get(key, 0) + 1
            rejected = None
            if array >= 0:
                array_reserved[array] = array_reserved.get(array, 0) + 1
            self.promise(space, start, start + self.jobs["limit"][job], nodes)

    def over_backfill_limits(self, job: int, counts: dict[tuple, int]) -> bool:
        """slurm.conf: bf_max_job_user, bf_max_job_part, bf_max_job_assoc, bf_max_job_user_part."""
        rules, jobs = self.rules, self.jobs
        user, partition = jobs["user"][job], jobs["partition"][job]
        keys = [
            (("both", user, partition), rules.bf_max_job_user_part),
            (("partition", partition), rules.bf_max_job_part),
            (("association", jobs["association"][job]), rules.bf_max_job_assoc),
            (("user", user), rules.bf_max_job_user),
        ]
        keys = [(key, most) for key, most in keys if most]
        if any(counts.get(key, 0) >= most for key, most in keys):
            return True
        for key, _ in keys:
            counts[key] = counts.get(key, 0) + 1
        return False

    def floor(self, at: int) -> int:
        """slurm.conf: bf_resolution, of the clock's own seconds."""
        return (at + self.began) // self.rules.bf_resolution * self.rules.bf_resolution - self.began

    def clash(self, space, start, limit, nodes) -> list[int]:
        """Return when promises of any of the nodes end that overlap with a time."""
        floored, reserved = self.floor(start), self.floor(start + limit)
        return [
            until for begin, until, promised in space if until > floored and begin < reserved and promised & set(nodes)
        ]

    def earliest(self, job, space, only_now, since):
        """Find a start, its nodes and whether it is now: at each change of the promises, when running jobs leave.

        Reservations are known beforehand; when nodes go down, are drained or come back is not. A start that would come
        later than a reservation ends, rounded up to bf_resolution, is looked for again from then on.
        """
        limit, later = self.jobs["limit"][job], since
        ends = [row[1] for row in self.layout.closed.tolist() if row[3] not in (DRAINED, DOWN)]
        while True:
            at, later = later, 0
            end = max(at, self.now) + limit
            closed = self.closed_nodes(job, at, limit)
            partition = self.layout.partition_nodes[self.jobs["partition"][job]]
            mine = {node for node in range(self.n_nodes) if partition[node]} - closed
            for i, (begin, until, promised) in enumerate(space):
                if until > at and i + 1 < len(space) and not later and (promised - space[i + 1][2]) & mine:
                    later = until
                if until <= at:
                    continue
                if begin > end:
                    if later:
                        break
                    continue
                closed = closed | promised
            over = min((-self.floor(-t) + 1 for t in ends if t >= at), default=0)
            if over and (not later or over < later) and over < space[-1][1]:
                later = over
            found = self.when_running_leave(job, closed, only_now)
            if found is None:
                if later and not only_now:
                    continue
                return None
            start, nodes = found
            start = max(start, at)
            if start <= self.now:
                self.later = later
                chosen = self.find(job, closed, [])
                if chosen is None:
                    return self.now, nodes, False, closed
                return self.now, chosen, True, None
            if only_now:
                return None
            if later and start > later:
                continue
            if start > self.now + self.rules.bf_window:
                return None
            if clash := self.clash(space, start, limit, nodes):
                later = start if start > at else max(clash[0], at + 1)
                if later >= space[-1][1]:
                    return None
                continue
            return start, nodes, False, None

    def when_running_leave(self, job, closed, only_now):
        """Find a start; where a constraint counts nodes, of each group all nodes that the job asks for.

        sbatch(1), --constraint, Multiple Counts, does not say so; a real Slurm 22.05 was seen to.
        """
        places, place = self.layout.places, self.jobs["place"][job]
        groups = [g for g in range(places.first[place], places.first[place + 1]) if places.counted[g]]
        if not groups:
            return self.when_group_leaves(job, closed, only_now, None)
        found = [self.when_group_leaves(job, closed, only_now, group) for group in groups]
        if None in found:
            return None
        return max(start for start, _ in found), sorted({node for _, nodes in found for node in nodes})

    def when_group_leaves(self, job, closed, only_now, group):
        """Take running jobs away in the order of their limits, those that end close together at once.

        slurm.conf: bf_window_linear, "the precision starts at 30 seconds and that time interval doubles". A job that
        holds no open node that this one may use is passed over; the next is then taken away whenever it ends.
        """
        places, place = self.layout.places, self.jobs["place"][job]
        groups = range(places.first[place], places.first[place + 1]) if group is None else [group]
        usable = {n for n in range(self.n_nodes) if any(places.reach[g, n] for g in groups)} - set(closed)
        nodes = self.find(job, closed, [], group)
        if nodes is not None:
            return self.now, nodes
        prey = self.prey(job)
        gone = list(prey)
        if prey:
            nodes = self.find(job, closed, gone, group)
            if nodes is not None:
                return self.now, nodes
        if only_now:
            return None
        order = sorted(self.running, key=lambda j: (self.until[j], j))
        order = [j for j in order if j not in prey and j not in self.ending]
        window, first_end, last, i = GROUPED, None, -1, 0
        while i < len(order):
            while True:
                other = order[i]
                i += 1
                if set(self.on_nodes[other]) & usable:
                    last, ends = other, self.until[other]
                    if first_end is None:
                        first_end = ends + window - (ends + self.began) % window
                    gone.append(last)
                    if self.site.select.consume == "node":  # select/linear takes one after the other away
                        break
                    if i < len(order) and self.until[order[i]] > first_end + window:
                        break
                if i == len(order):
                    break
            if last < 0:
                return None
            while True:
                window *= 2
                if i == len(order):
                    break
                if self.until[order[i]] <= first_end + window:
                    break
            nodes = self.find(job, closed, gone, group)
            if nodes is not None:
                ends = self.until[last]
                return (ends if ends > self.now else self.now + 1), nodes
        return None

    def promise(self, space, start, end, nodes) -> None:
        """Set whole nodes aside from the start to the end, both rounded down to bf_resolution."""
        begin = max(self.floor(start), space[0][0])
        until = max(self.floor(end), begin + self.rules.bf_resolution)
        pieces = []
        for first, last, promised in space:
            cuts = sorted({first, last, *(t for t in (begin, until) if first < t < last)})
            for low, high in pairwise(cuts):
                inside = begin <= low and high <= until
                pieces.append((low, high, promised | set(nodes) if inside else promised))
        space[:] = pieces

    # ------------------------------------------------------------------ place
    def choose(self, job, closed, free, n_on, only=None):
        """cons_tres: the lowest weight, the run of neighbours with the fewest free CPUs, of it the first nodes.

        A job that asks for one node more, and for no GPU of each node, takes the fullest of that run: seen of a
        real Slurm.
        """
        places = self.layout.places
        place = self.jobs["place"][job]
        groups = range(places.first[place], places.first[place + 1]) if only is None else [only]
        taken: list[int] = []
        for group in groups:
            count = places.wanted[group] if only is None else 0
            usable = [
                node
                for node in range(self.n_nodes)
                if places.nodes[group, node]
                and node not in closed
                and node not in taken
                and self.holds(job, node, free, n_on)
            ]
            found = self.pick(job, usable, self.jobs["n_nodes"][job] if count <= 0 else count, free)
            if count < 0:
                if found is not None:
                    return found
                continue
            if found is None:
                return None
            taken += found
        return sorted(taken) if taken else None

    def holds(self, job, node, free, n_on) -> bool:
        if self.jobs["whole"][job]:
            return n_on[node] == 0 and self.enough(self.totals, job, node)
        return self.enough(free, job, node)

    def enough(self, columns, job, node) -> bool:
        return all(column[node] >= asked[job] for column, asked in zip(columns, self.requests, strict=True))

    def pick(self, job, usable, n, free):
        if len(usable) < n:
            return None
        weight, leaf = self.weights(job), self.layout.nodes.leaf
        if self.jobs["lln"][job]:
            order = sorted(usable, key=lambda node: (weight[node], -free[0][node] / self.totals[0][node], node))
            return sorted(order[:n])
        if len(set(leaf.tolist())) > 1:
            return self.pick_leaf(job, usable, n)
        if self.site.select.consume == "node":
            return self.pick_whole(job, usable, n, weight)
        per_cpu = self.jobs["mem_per_cpu"][job]
        cap = self.jobs["cap"][job]
        cpus = free[self.n_pools + cap - 3 if cap else 0]
        left = {node: min(free[0][node], cpus[node]) for node in usable}
        left = {node: min(n, free[1][node] // per_cpu) if per_cpu else n for node, n in left.items()}
        left = {node: n - n % self.jobs["step"][job] for node, n in left.items()}
        runs: list[list[int]] = []
        for node in usable:
            if runs and runs[-1][-1] == node - 1 and weight[node] == weight[runs[-1][0]]:
                runs[-1].append(node)
            else:
                runs.append([node])
        taken: list[int] = []
        while len(taken) < n:
            need = n - len(taken)

            def fit(run, need=need):
                cpus = sum(left[node] for node in run)
                enough = len(run) >= need and cpus >= need * self.jobs["cpus"][job]
                return (weight[run[0]], not enough, cpus if enough else -cpus, run[0])

            best = min(runs, key=fit)
            fullest = need == 1 and not self.jobs["in_order"][job]
            taken += sorted(best, key=lambda node: (left[node] if fullest else 0, node))[:need]
            runs.remove(best)
        return sorted(taken)

    def pick_whole(self, job, usable, n, weight):
        """select/linear: of the lightest nodes that are enough the run of neighbours with the fewest CPUs that will do.

        Backfill looks at nodes of all weights at once.
        """
        cap = self.jobs["cap"][job]
        capped = self.totals[self.n_pools + cap - 3 if cap else 0]
        cpus = [min(both) for both in zip(self.totals[0], capped, strict=True)]
        bounds = [max(weight)] if self.in_backfill else sorted({weight[node] for node in usable})
        for bound in bounds:
            left, taken = [node for node in usable if weight[node] <= bound], []
            if len(left) < n:
                continue
            while len(taken) < n:
                free = [node for node in left if node not in taken]
                runs = [[free[0]]]
                for node in free[1:]:
                    runs[-1].append(node) if node == runs[-1][-1] + 1 else runs.append([node])
                lacking = n - len(taken)
                more = n * self.jobs["cpus"][job] - sum(cpus[node] for node in taken)
                size = [sum(cpus[node] for node in run) for run in runs]
                fits = [len(r) >= lacking and s >= more for r, s in zip(runs, size, strict=True)]
                order = range(len(runs))
                best = min(order, key=lambda i: (not fits[i], size[i] if fits[i] else -size[i], i))
                taken += runs[best][:lacking]
            return sorted(taken)

    def weights(self, job) -> list[int]:
        """node_scheduler: of nodes that are alike, those weigh one more that the job's group, if it has some, has not.

        That is where it may have so many different ones, by the first limit that says so.
        """
        limits, weight, line = self.layout.limits, self.layout.nodes.weight.tolist(), self.layout.nodes.line.tolist()
        of = {other: limits.row[limits.first[other] : limits.first[other + 1]].tolist() for other in [job, *self.bound]}
        mine = [limits.row[i] for i in self.rows_of(job, late=True)]
        row = next((row for row in mine if limits.kind[row] == DIFFERENT), None)
        if row is None:
            return weight
        on = {node for other in self.bound if row in of[other] for node in self.on_nodes[other]}
        lines = {line[node] for node in on}
        return [weight[node] + (node not in on and line[node] in lines) for node in range(self.n_nodes)]

    def pick_leaf(self, job, usable, n):
        """topology: the leaf switch that holds the job with the fewest nodes left, else the fewest leaves.

        node_scheduler: nodes of a lower weight are all taken first; then come the leaves that these are of.
        """
        leaf, weight = self.layout.nodes.leaf, self.weights(job)
        last = sorted(weight[node] for node in usable)[n - 1]
        taken = [node for node in usable if weight[node] < last]
        by_leaf: dict[int, list[int]] = {}
        for node in usable:
            if weight[node] == last:
                by_leaf.setdefault(int(leaf[node]), []).append(node)
        for each in sorted({int(leaf[node]) for node in taken} & by_leaf.keys()):
            taken += by_leaf.pop(each)[: n - len(taken)]
        while len(taken) < n:
            need = n - len(taken)
            sizes = {k: len(nodes) for k, nodes in by_leaf.items()}
            best = min(sizes, key=lambda k: (sizes[k] < need, sizes[k] if sizes[k] >= need else -sizes[k], k))
            taken += by_leaf.pop(best)[:need]
        return sorted(taken)

    def begin(self, job, nodes) -> None:
        self.waiting = [row for row in self.waiting if self.job_of[row] != self.job_of[job]]
        self.running.append(job)
        self.start[job], self.end[job] = self.now, self.now + self.durations[job]
        self.charged[job], self.begun_at[job] = self.now, self.moment
        self.just_begun.add(job)
        self.bound.add(job)
        self.until[job] = self.now + self.jobs["limit"][job]
        self.preempted_at[job] = None
        self.on_nodes[job] = nodes
        limits = self.layout.limits
        for i in range(limits.first[job], limits.first[job + 1]):
            row, amount = limits.row[i], self.amount[i]
            self.used[row] += amount
            self.seconds_left[row] += amount * self.jobs["limit"][job]
        memory, cpus = len(nodes) * self.jobs["mem"][job], sum(self.taken(job, node)[0] for node in nodes)
        if self.jobs["whole"][job]:
            memory += (cpus - len(nodes) * self.jobs["cpus"][job]) * self.jobs["mem_per_cpu"][job]
        if self.jobs["whole"][job] == ALL_MEMORY:
            memory, cpus = sum(self.totals[1][node] for node in nodes), len(nodes) * self.jobs["cpus"][job]
        billed = cpus * self.jobs["per_cpu"][job] + memory * self.jobs["per_mb"][job]
        self.billed[job] = self.jobs["billing"][job] + billed
        for node in nodes:
            for free, asked in zip(self.free, self.taken(job, node), strict=True):
                free[node] -= asked
            self.n_on[node] += 1
        if self.jobs["array"][job] >= 0:
            self.array_running[self.jobs["array"][job]] += 1
