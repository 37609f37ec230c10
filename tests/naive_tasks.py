"""Slow twins of the policies for jobs of tasks: dictionaries and brute force, sharing no code with the product.

A job is a dict of submit, run, est, limit (s), n (units: tasks, or nodes with ``most`` 1), cpus, mem, gpus, slices of
each unit, mem_node, gpus_node, slices_node on each node used, most (units on a node), lo and hi (nodes), whole, types.
What a job has stands in a dict of units by node row.
"""

from __future__ import annotations

import numpy as np

RES = ("cpus", "mem", "gpus", "slices")
NEVER = 10**15


def of_node(job, units):
    return {r: units * job[r] + job.get(f"{r}_node", 0) for r in RES}


def holds(job, node, free):
    """How many units a node holds, by trying."""
    if not node["types"] & job["types"] or (job["whole"] and any(free[r] != node[r] for r in RES)):
        return 0
    tried = (u for u in range(job["most"], 0, -1) if all(of_node(job, u)[r] <= free[r] for r in RES))
    return next(tried, 0)


def enough(job, held):
    """Whether some number of nodes that is allowed holds the job."""
    most = sorted((u for u in held.values() if u), reverse=True)
    return any(len(most) >= k and sum(most[:k]) >= job["n"] for k in range(job["lo"], job["hi"] + 1))


def in_rows(job, held, rows):
    """Fill the nodes as they come; None if they are too many."""
    left, used = job["n"], {}
    for n in rows:
        if left and held.get(n):
            used[n] = min(held[n], left - max(job["lo"] - len(used) - 1, 0))
            left -= used[n]
    return used if not left and len(used) <= job["hi"] else None


def most_first(job, held, tie):
    """Take the node that takes most of what is left, the least ``tie(node, units)`` of several; then the lower row."""
    left, used = job["n"], {}
    while left:
        may = left - max(job["lo"] - len(used) - 1, 0)
        takes = {n: min(u, may) for n, u in held.items() if u and n not in used}
        n = min(takes, key=lambda n: (-takes[n], tie(n, takes[n]), n))
        used[n] = takes[n]
        left -= used[n]
    assert job["lo"] <= len(used) <= job["hi"]
    return used


class Sim:
    def __init__(self, jobs, nodes, place="first", pool=False):
        self.jobs, self.nodes, self.place, self.pool = jobs, nodes, place, pool
        self.start, self.where, self.expected = ([x] * len(jobs) for x in (None, {}, None))
        self.now = 0

    def held(self, j, *frees):
        job = self.jobs[j]
        return {n: min(holds(job, node, free[n]) for free in frees) for n, node in enumerate(self.nodes)}

    def running(self):
        return [
            j for j, job in enumerate(self.jobs) if self.start[j] is not None and self.start[j] + job["run"] > self.now
        ]

    def free(self, holders):
        free = [dict(node) for node in self.nodes]
        for j in holders:
            self.take(free, j, self.where[j])
        return free

    def take(self, free, j, where):
        for n, units in where.items():
            for r in RES:
                free[n][r] = -1 if self.jobs[j]["whole"] else free[n][r] - of_node(self.jobs[j], units)[r]

    def waiting(self):
        return [
            j
            for j, job in enumerate(self.jobs)
            if job["submit"] <= self.now and self.start[j] is None and enough(job, self.held(j, self.nodes))
        ]

    def margin(self, j, n, units, free, of_all=False):
        job, node, terms = self.jobs[j], self.nodes[n], []
        asked = of_node(job, units)
        terms = [(free[n][r] - asked[r]) / node[r] for r in ("mem", "cpus") if (node[r] if of_all else asked[r]) > 0]
        pools = [r for r in ("gpus", "slices") if asked[r] > 0] or (["gpus", "slices"] if of_all else [])
        if total := sum(node[r] for r in pools):
            terms.append(sum(free[n][r] - asked[r] for r in pools) / total)
        return sum(terms) / len(terms) if terms else 0.0

    def placed(self, j, held, free):
        """Where a job goes of the nodes that hold units of it; None if there is no room."""
        job = self.jobs[j]
        if not enough(job, held):
            return None
        if self.place == "first":
            return in_rows(job, held, sorted(held)) or most_first(job, held, lambda n, units: 0)
        sign = 1 if self.place == "best" else -1
        return most_first(job, held, lambda n, units: sign * self.margin(j, n, units, free))

    def begin(self, j, where):
        self.start[j], self.where[j] = self.now, where
        self.expected[j] = min(self.now + self.jobs[j]["est"], NEVER)

    def correct(self):
        for j in self.running():
            while self.expected[j] <= self.now:
                raised = self.now + max(60, self.now - self.start[j])
                limit = self.start[j] + self.jobs[j]["limit"]
                self.expected[j] = min(raised, limit) if limit > self.now else raised

    def simulate(self, decide):
        self.now = -1
        while True:
            moments = [job["submit"] for job in self.jobs]
            moments += [s + job["run"] for s, job in zip(self.start, self.jobs, strict=True) if s is not None]
            later = [t for t in moments if t > self.now]
            if not later:
                return self.start, self.where
            self.now = min(later)
            self.correct()
            while (answer := decide(self)) is not None:
                self.begin(*answer)


def queue(key, skip):
    """Serve in an order; who does not fit blocks the others, or is skipped."""

    def decide(sim):
        for j in sorted(sim.waiting(), key=lambda j: (key(sim.jobs[j], j), j)):
            free = sim.free(sim.running())
            where = sim.placed(j, sim.held(j, free), free)
            if where is not None:
                return j, where
            if not skip:
                return None
        return None

    return decide


def best_fit(of_all=False):
    def decide(sim):
        free, offers = sim.free(sim.running()), []
        for j in sim.waiting():
            held = sim.held(j, free)
            if enough(sim.jobs[j], held):
                where = most_first(sim.jobs[j], held, lambda n, u, j=j: sim.margin(j, n, u, free, of_all))
                mean = sum(sim.margin(j, n, u, free, of_all) for n, u in where.items()) / len(where)
                offers.append((mean, j, where))
        return min(offers, key=lambda offer: offer[:2])[1:] if offers else None

    return decide


def easy(key=lambda job, j: 0, by_time_only=False, head_key=lambda job, j: 0, keep=False, reach=None):
    kept = set()

    def decide(sim):
        waiting = sim.waiting()
        queue = sorted(waiting, key=lambda j: (j not in kept, head_key(sim.jobs[j], j), j))
        if not queue:
            return None
        if keep and queue[0] not in kept:
            kept.clear()
            kept.add(queue[0])
        head = queue[0]
        free = sim.free(sim.running())
        where = sim.placed(head, sim.held(head, free), free)
        if where is not None:
            return head, where
        for shadow in sorted({sim.expected[j] for j in sim.running()}):
            then = sim.free([j for j in sim.running() if sim.expected[j] > shadow])
            if enough(sim.jobs[head], sim.held(head, then)):
                break
        held = sim.held(head, then)
        extra = sum(holds(sim.jobs[head] | {"most": 99}, *pair) for pair in zip(sim.nodes, then, strict=True))
        extra -= sim.jobs[head]["n"]
        highest = in_rows(sim.jobs[head], held, sorted(held, reverse=True))
        sim.take(then, head, highest or most_first(sim.jobs[head], held, lambda n, units: -n))
        for j in sorted(queue[1:], key=lambda j: (key(sim.jobs[j], j), j)):
            if reach and j not in waiting[:reach]:
                continue
            end = min(sim.now + sim.jobs[j]["est"], NEVER)
            late = end >= shadow + (not by_time_only)
            if late and (by_time_only or (sim.pool and sim.jobs[j]["n"] > extra)):
                continue
            held = sim.held(j, free, then) if late and not sim.pool else sim.held(j, free)
            where = sim.placed(j, held, free)
            if where is not None:
                return j, where
        return None

    return decide


class Plans:
    """When and where jobs are planned, as a list of what holds what from when until when."""

    def earliest(self, sim, j, held, before=NEVER, place="first"):
        """Return the earliest start beside ``held``, a list of (start, end, job, where), and where; None if not before.

        What is free grows only where something ends.
        """
        for start in sorted({sim.now} | {end for _, end, _, _ in held if end > sim.now}):
            if start >= before:
                break
            end = start + sim.jobs[j]["est"]
            moments = {start} | {t for one in held for t in one[:2] if start < t < end}
            frees = [self.free(sim, held, t) for t in moments]
            if sim.pool:  # any units will do, and not the same ones are named in advance
                where = {} if min(self.idle(sim, j, held, t) for t in moments) >= sim.jobs[j]["n"] else None
                if where is not None and start == sim.now:
                    free = sim.free(sim.running())
                    where = sim.placed(j, sim.held(j, free), free)
            else:
                where = sim.placed(j, sim.held(j, *frees), frees[0])
            if where is not None:
                return start, where
        return None

    def free(self, sim, held, moment):
        free = [dict(node) for node in sim.nodes]
        for start, end, j, where in held:
            if start <= moment < end:
                sim.take(free, j, where)
        return free

    def idle(self, sim, j, held, moment):
        units = sum(holds(sim.jobs[j] | {"most": 99}, node, node) for node in sim.nodes)
        return units - sum(sim.jobs[k]["n"] for start, end, k, _ in held if start <= moment < end)

    def running(self, sim):
        return [(sim.start[j], sim.expected[j], j, sim.where[j]) for j in sim.running()]

    def lay(self, sim, order):
        """Plan jobs one behind the other; returns start and where by job."""
        held, found = self.running(sim), {}
        for j in order:
            found[j] = start, where = self.earliest(sim, j, held)
            held.append((start, start + sim.jobs[j]["est"], j, where))
        return found


class Reserving(Plans):
    """EASY whose first ``depth`` jobs hold reservations."""

    def __init__(self, depth, key=lambda job, j: 0):
        self.depth, self.key = depth, key

    def __call__(self, sim):
        queue = sim.waiting()
        first = queue[: self.depth]
        for i, j in enumerate(first):
            start, where = self.lay(sim, first[: i + 1])[j]
            if start == sim.now:
                return j, where
        for j in sorted(queue[self.depth :], key=lambda j: (self.key(sim.jobs[j], j), j)):
            start, where = self.lay(sim, [*first, j])[j]
            if start == sim.now:
                return j, where
        return None


class EarliestGap(Plans):
    """All waiting jobs planned anew, in the order of submission."""

    def __call__(self, sim):
        planned = self.lay(sim, sim.waiting())
        return next(((j, where) for j, (start, where) in planned.items() if start == sim.now), None)


class BestGap(Plans):
    """A new job is put where the expected bounded slowdowns are least, of the last 20 places; ties go to the back."""

    order: tuple = ()

    def slowdowns(self, sim, order):
        total = 0.0
        for j, (start, _) in self.lay(sim, order).items():
            run = float(sim.jobs[j]["est"])
            total += max(1.0, (start - sim.jobs[j]["submit"] + run) / max(run, 10.0))
        return total

    def __call__(self, sim):
        self.order = [j for j in self.order if sim.start[j] is None]
        for j in sim.waiting():
            if j not in self.order:
                places = range(len(self.order), max(-1, len(self.order) - 20), -1)
                tried = [[*self.order[:place], j, *self.order[place:]] for place in places]
                self.order = min(tried, key=lambda order: self.slowdowns(sim, order))
        planned = self.lay(sim, self.order)
        return next(((j, planned[j][1]) for j in sim.waiting() if planned[j][0] == sim.now), None)


class Conservative(Plans):
    """Promises that are kept, moved forward when a job ends early, and made anew when one outlasts its estimate."""

    def __init__(self):
        self.promise, self.believed = {}, {}

    def held(self, sim, but):
        planned = ((s, s + sim.jobs[j]["est"], j, where) for j, (s, where) in self.promise.items() if j != but)
        return [*self.running(sim), *planned]

    def __call__(self, sim):
        queue, now = sim.waiting(), sim.now
        self.promise = {j: promise for j, promise in self.promise.items() if j in queue}
        over = {j for j in self.believed if j not in sim.running()}
        late = any(sim.expected[j] != end for j, end in self.believed.items() if j not in over)
        if late or any(self.believed[j] < now for j in over):
            self.promise = {}
        moved = any(self.believed[j] > now for j in over)
        self.believed = {j: sim.expected[j] for j in sim.running()}
        while moved:
            moved = False
            for j in queue:
                if j in self.promise and self.promise[j][0] > now:
                    found = self.earliest(sim, j, self.held(sim, j), self.promise[j][0])
                    if found:
                        self.promise[j], moved = found, True
        for j in queue:
            if j not in self.promise:
                self.promise[j] = self.earliest(sim, j, self.held(sim, j))
        for j in queue:
            if self.promise[j][0] == now:
                self.believed[j] = now + sim.jobs[j]["est"]
                if sim.pool:
                    free = sim.free(sim.running())
                    return j, sim.placed(j, sim.held(j, free), free)
                return j, self.promise[j][1]
        return None


def tasks_case(rng: np.random.Generator, jobs, nodes):
    """Give rows of a job table tasks, some whole nodes; the first row's tasks may stand anywhere."""
    n = len(jobs)
    tasks = rng.choice([0, 0, 1, 2, 3, 5, 8], n)
    tasks[0] = 3
    mem, gpus = rng.choice([0, 0, 100, 300], n), rng.choice([0, 0, 0, 1, 2], n)
    lo = np.minimum(rng.choice([1, 1, 1, 2, 3], n), np.maximum(tasks, 1))
    hi, most = rng.choice([0, 0, 0, 1, 2, 3], n), rng.choice([0, 0, 0, 1, 2, 4], n)
    hi = np.where(hi > 0, np.maximum(hi, lo), 0)
    most = np.where((hi > 0) & (most * hi < tasks), 0, most)
    lo[0], hi[0], most[0], mem[0], gpus[0] = 1, 0, 0, 0, 0
    return jobs.assign(
        n_tasks=tasks,
        cpus_per_task=rng.choice([1, 1, 1, 2, 3], n),
        mem_mb_per_task=np.where(tasks > 0, mem, 0),
        mem_mb_per_node=np.where((tasks > 0) & (mem > 0), 0, jobs.get("mem_mb_per_node", 0)),
        gpus_per_task=np.where(tasks > 0, gpus, 0),
        gpus_per_node=np.where((tasks > 0) & (gpus > 0), 0, jobs.get("gpus_per_node", 0)),
        tasks_per_node=most,
        min_nodes=lo,
        max_nodes=hi,
        exclusive=rng.random(n) < 0.1,
    ), nodes


def unit_case(rng: np.random.Generator, jobs, nodes):
    """Let all jobs ask for tasks of one kind on any nodes: only how many are free counts."""
    cpus, mem = rng.choice([1, 1, 2]), rng.choice([0, 0, 100])
    nodes = nodes.assign(cpus=rng.choice([1, 3, 4, 8], len(nodes)))
    return jobs.assign(
        n_tasks=rng.choice([1, 1, 2, 3, 5, 8], len(jobs)),
        cpus_per_task=cpus,
        mem_mb_per_task=mem,
        mem_mb_per_node=0,
        gpus_per_node=0,
        gpus_per_task=0,
        exclusive=False,
        min_nodes=1,
        max_nodes=0,
        tasks_per_node=0,
    ), nodes


def with_tasks(row, job):
    """Turn a job of nodes of `policy_cases.as_dicts` into units, by its row of the table."""
    n, pool = int(row["n_tasks"]), "slices" if job["slices"] else "gpus"
    whole = bool(row["exclusive"])
    if not n:
        return job | {"most": 1, "lo": job["n"], "hi": job["n"], "whole": whole}
    return job | {
        "n": n,
        "cpus": int(row["cpus_per_task"]),
        "mem": int(row["mem_mb_per_task"]),
        "gpus": 0,
        "slices": 0,
        pool: int(row["gpus_per_task"]),
        "mem_node": job["mem"],
        f"{pool}_node": int(row["gpus_per_node"]),
        "most": int(row["tasks_per_node"]) or n,
        "lo": int(row["min_nodes"]),
        "hi": min(int(row["max_nodes"]) or n, n),
        "whole": whole,
    }
