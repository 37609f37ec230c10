"""Slow twins of the policies: dictionaries and brute force, sharing no code with the product.

A job is a dict of submit, run, est, limit (s), n (units: tasks, or nodes with ``most`` 1), cpus, mem, gpus, slices of
each unit, mem_node, gpus_node, slices_node on each node used, most (units on a node), lo and hi (nodes), whole, types.
What a job has stands in a dict of units by node row. An order is ``key(sim, j)``, a hold-back ``admits(sim, j)``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

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
        self.took = [job["run"] for job in jobs]
        self.now = self.deepest = 0
        self.able = [enough(job, self.held(j, nodes)) for j, job in enumerate(jobs)]

    def is_pool(self):
        """Whether any job that can run fits any node, and no node holds two: then only counts matter."""
        able = [job for job, is_able in zip(self.jobs, self.able, strict=True) if is_able]
        return (
            bool(able)
            and all(holds(job, node, node) for job in able for node in self.nodes)
            and 2 * min(job["cpus"] for job in able) > max(node["cpus"] for node in self.nodes)
        )

    def held(self, j, *frees):
        job = self.jobs[j]
        return {n: min(holds(job, node, free[n]) for free in frees) for n, node in enumerate(self.nodes)}

    def running(self):
        return [j for j, start in enumerate(self.start) if start is not None and start + self.took[j] > self.now]

    def free(self, holders=None):
        """Return what is free beside some jobs; by default those that run."""
        free = [dict(node) for node in self.nodes]
        for j in self.running() if holders is None else holders:
            self.take(free, j, self.where[j])
        return free

    def take(self, free, j, where):
        for n, units in where.items():
            for r in RES:
                free[n][r] = -1 if self.jobs[j]["whole"] else free[n][r] - of_node(self.jobs[j], units)[r]

    def waiting(self):
        return [
            j for j, job in enumerate(self.jobs) if job["submit"] <= self.now and self.start[j] is None and self.able[j]
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
        if self.place in ("first", "last-rows"):
            rows = sorted(held, reverse=self.place == "last-rows")
            return in_rows(job, held, rows) or most_first(job, held, lambda n, units: 0)
        sign = 1 if self.place == "best" else -1
        return most_first(job, held, lambda n, units: sign * self.margin(j, n, units, free))

    def begin(self, j, where):
        self.start[j], self.where[j] = self.now, where
        if "runs" in self.jobs[j]:  # by node
            self.took[j] = max(self.jobs[j]["runs"][n] for n in where)
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
            moments += [s + took for s, took in zip(self.start, self.took, strict=True) if s is not None]
            later = [t for t in moments if t > self.now]
            if not later:
                return self.start, self.where
            self.now = min(later)
            self.correct()
            while (answer := decide(self)) is not None:
                self.begin(*answer)
            self.deepest = max(self.deepest, len(self.waiting()))


def as_submitted(sim, j):
    return 0


def everybody(sim, j):
    return True


def one_each(users):
    """Each user runs one job at a time."""
    return lambda sim, j: users[j] not in {users[other] for other in sim.running()}


def queue(key=as_submitted, skip=False, admits=everybody):
    """Serve in an order; who does not fit blocks the others, or is skipped."""

    def decide(sim):
        free = sim.free()
        for j in sorted(filter(lambda j: admits(sim, j), sim.waiting()), key=lambda j: (key(sim, j), j)):
            where = sim.placed(j, sim.held(j, free), free)
            if where is not None:
                return j, where
            if not skip:
                return None
        return None

    return decide


def best_fit(of_all=False):
    """Start the job that leaves the least of its nodes, on average over them; a margin as written in the design."""

    def decide(sim):
        free, offers = sim.free(), []
        for j in sim.waiting():
            held = sim.held(j, free)
            if enough(sim.jobs[j], held):
                where = most_first(sim.jobs[j], held, lambda n, u, j=j: sim.margin(j, n, u, free, of_all))
                mean = sum(sim.margin(j, n, u, free, of_all) for n, u in where.items()) / len(where)
                offers.append((mean, j, where))
        return min(offers, key=lambda offer: offer[:2])[1:] if offers else None

    return decide


def easy(key=as_submitted, by_time_only=False, head_key=as_submitted, keep=False, reach=None, admits=everybody):
    """``head_key`` orders who holds the reservation, ``key`` who starts beside it."""
    kept = set()

    def decide(sim):
        reached = sim.waiting()[:reach]
        waiting = [j for j in sim.waiting() if admits(sim, j)]
        queue = sorted(waiting, key=lambda j: (j not in kept, head_key(sim, j), j))
        if not queue:
            return None
        if keep and queue[0] not in kept:
            kept.clear()
            kept.add(queue[0])
        head = queue[0]
        free = sim.free()
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
        for j in sorted(queue[1:], key=lambda j: (key(sim, j), j)):
            end = min(sim.now + sim.jobs[j]["est"], NEVER)
            late = end >= shadow + (not by_time_only)
            if j not in reached or (late and (by_time_only or (sim.pool and sim.jobs[j]["n"] > extra))):
                continue
            held = sim.held(j, free, then) if late and not sim.pool else sim.held(j, free)
            where = sim.placed(j, held, free)
            if where is not None:
                return j, where
        return None

    return decide


class Plans:
    """When and where jobs are planned: what is free on every node in every second up to a horizon."""

    def __init__(self, horizon=600):
        self.horizon = horizon

    def laid(self, sim, held):
        """Return what is free beside ``held``, (start, end, job, where) each, and in a pool how many units."""
        free = np.repeat([[[node[r] for r in RES] for node in sim.nodes]], self.horizon, axis=0)
        taken = np.zeros(self.horizon, np.int64)
        for one in held:
            self.add(sim, free, taken, *one)
        return free, taken

    def add(self, sim, free, taken, start, end, j, where):
        span = slice(max(start - sim.now, 0), min(end - sim.now, self.horizon))
        taken[span] += sim.jobs[j]["n"]
        for n, units in where.items():
            free[span, n] -= NEVER if sim.jobs[j]["whole"] else [of_node(sim.jobs[j], units)[r] for r in RES]

    def units(self, sim, j, free):
        """Return how many units of a job each node holds in every second."""
        job, found = sim.jobs[j], np.full(free.shape[:2], sim.jobs[j]["most"])
        for r, name in enumerate(RES):
            if r and not job[name] and not job.get(f"{name}_node"):
                continue  # where a node is held whole, its CPUs say so
            left = free[:, :, r] - job.get(f"{name}_node", 0)
            found = np.where(left < 0, 0, found if not job[name] else np.minimum(found, left // job[name]))
        if job["whole"]:
            found *= (free == [[node[r] for r in RES] for node in sim.nodes]).all(axis=2)
        return found.clip(0) * [node["types"] & job["types"] != 0 for node in sim.nodes]

    def earliest(self, sim, j, laid, before=NEVER):
        """Return the earliest start beside what is laid, and where; None if not before."""
        job, (free, taken) = sim.jobs[j], laid
        if sim.pool:  # any units will do, and not the same ones are named in advance
            units = sum(holds(job | {"most": 99}, node, node) for node in sim.nodes) - taken[:, None]
        else:
            units = self.units(sim, j, free)
        units = sliding_window_view(units, job["est"], axis=0).min(axis=2)
        for t in np.flatnonzero(units.sum(axis=1) >= job["n"]).tolist():
            if sim.now + t >= before:
                return None
            if sim.pool:
                return sim.now + t, sim.placed(j, sim.held(j, sim.free()), None) if t == 0 else {}
            where = sim.placed(j, dict(enumerate(units[t].tolist())), None)
            if where is not None:
                return sim.now + t, where
        assert before < NEVER, "the horizon is too near"
        return None

    def running(self, sim):
        return [(sim.start[j], sim.expected[j], j, sim.where[j]) for j in sim.running()]

    def lay(self, sim, order):
        """Plan jobs one behind the other; returns start and where by job."""
        laid, found = self.laid(sim, self.running(sim)), {}
        for j in order:
            found[j] = start, where = self.earliest(sim, j, laid)
            self.add(sim, *laid, start, start + sim.jobs[j]["est"], j, where)
        return found


class Reserving(Plans):
    """EASY whose first ``depth`` jobs hold reservations."""

    def __init__(self, depth, key=as_submitted, head_key=as_submitted, horizon=600):
        super().__init__(horizon)
        self.depth, self.key, self.head_key = depth, key, head_key

    def __call__(self, sim):
        queue = sorted(sim.waiting(), key=lambda j: (self.head_key(sim, j), j))
        first = queue[: self.depth]
        behind = sorted(queue[self.depth :], key=lambda j: (self.key(sim, j), j))
        for order in [*(first[: i + 1] for i in range(len(first))), *([*first, j] for j in behind)]:
            start, where = self.lay(sim, order)[order[-1]]
            if start == sim.now:
                return order[-1], where
        return None


class Gaps(Plans):
    """All waiting jobs planned anew: in the order of submission, or a new one at the ``best`` of the last 20 places.

    That is where the expected bounded slowdowns are least; ties go to the back. ``rounds`` moves jobs on from there.
    """

    def __init__(self, best=False, rounds=0, horizon=600):
        super().__init__(horizon)
        self.best, self.rounds, self.order, self.n_searches = best, rounds, [], 0

    def slowdowns(self, sim, order):
        total = 0.0
        for j, (start, _) in self.lay(sim, order).items():
            run = float(sim.jobs[j]["est"])
            total += max(1.0, (start - sim.jobs[j]["submit"] + run) / max(run, 10.0))
        return total

    def inserted(self, sim, order, j):
        places = range(len(order), max(-1, len(order) - 20), -1)
        return min(([*order[:at], j, *order[at:]] for at in places), key=lambda order: self.slowdowns(sim, order))

    def search(self, sim):
        self.n_searches += 1
        rng, tabu = np.random.default_rng(self.n_searches), []
        order, least = self.order, self.slowdowns(sim, self.order)
        for _ in range(self.rounds):
            j = order[int(rng.integers(len(order)))]
            if j in tabu:
                continue
            tabu = [*tabu, j][-max(1, min(10, len(order) // 2)) :]
            moved = self.inserted(sim, [other for other in order if other != j], j)
            if (value := self.slowdowns(sim, moved)) < least:
                order, least = moved, value
        self.order = order

    def __call__(self, sim):
        queue = sim.waiting()
        self.order = [j for j in self.order if sim.start[j] is None]
        for j in queue:
            if j not in self.order:
                self.order = self.inserted(sim, self.order, j) if self.best else [*self.order, j]
        if self.rounds and len(queue) > 1:
            self.search(sim)
        planned = self.lay(sim, self.order)
        return next(((j, planned[j][1]) for j in queue if planned[j][0] == sim.now), None)


class Conservative(Plans):
    """Promises that are kept, moved forward when a job ends early, and made anew when one outlasts its estimate."""

    def __init__(self, horizon=600):
        super().__init__(horizon)
        self.promise, self.believed = {}, {}

    def beside(self, sim, but):
        planned = ((s, s + sim.jobs[j]["est"], j, where) for j, (s, where) in self.promise.items() if j != but)
        return self.laid(sim, [*self.running(sim), *planned])

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
                    found = self.earliest(sim, j, self.beside(sim, j), self.promise[j][0])
                    if found:
                        self.promise[j], moved = found, True
        for j in queue:
            if j not in self.promise:
                self.promise[j] = self.earliest(sim, j, self.beside(sim, j))
        for j in queue:
            start, where = self.promise[j]
            if start == now:
                self.believed[j] = now + sim.jobs[j]["est"]
                return j, sim.placed(j, sim.held(j, sim.free()), None) if sim.pool else where
        return None


def size(sim, j):
    return max(sim.jobs[j]["cpus"], 1) * sim.jobs[j]["n"]


def largest(sim, j):
    return -size(sim, j)


def last(sim, j):
    return -j


def estimate(sim, j):
    return sim.jobs[j]["est"]


def wfp3(sim, j):
    ratio = float(sim.now - sim.jobs[j]["submit"]) / estimate(sim, j)
    return -(ratio * ratio * ratio) * size(sim, j)


def unicef(sim, j):
    return -float(sim.now - sim.jobs[j]["submit"]) / (max(math.log2(size(sim, j)), 1.0) * estimate(sim, j))


def f3(sim, j):
    submitted = math.log10(max(float(sim.jobs[j]["submit"]), 1.0))
    return float(estimate(sim, j)) * size(sim, j) + 6_860_000.0 * submitted


def age_and_size(sim, j):
    age = float(sim.now - sim.jobs[j]["submit"])
    return -(min(1.0, age / 20.0) + 0.0 + 2.0 * (sim.jobs[j]["n"] / len(sim.nodes)))


PRIORITY = "weight_fair_share=0,weight_size=2,max_age=20"
TWINS = {
    "fcfs": queue,
    "lcfs": lambda: queue(last),
    "edf": lambda: queue(lambda sim, j: sim.jobs[j]["due"]),
    "f3": lambda: queue(f3),
    "wfp3": lambda: queue(wfp3),
    "unicef": lambda: queue(unicef),
    f"priority:{PRIORITY}": lambda: queue(age_and_size),
    "first-fit": lambda: queue(skip=True),
    "sjf": lambda: queue(estimate, True),
    "smallest-first": lambda: queue(size, True),
    "largest-first": lambda: queue(largest, True),
    "best-fit": best_fit,
    "best-fit-of-node": lambda: best_fit(True),
    "easy": easy,
    "easy-sjf": lambda: easy(estimate),
    "easy-by-time": lambda: easy(by_time_only=True),
    "easy:order=lcfs": lambda: easy(last),
    "easy:order=largest": lambda: easy(largest),
    "easy:order=wfp3": lambda: easy(wfp3),
    "easy:order=sjf,queue_order=unicef": lambda: easy(estimate, head_key=unicef),
    "easy:queue_order=smallest": lambda: easy(head_key=size),
    "easy:queue_order=sjf,keep=true": lambda: easy(head_key=estimate, keep=True),
    "easy:order=sjf,queue_order=unicef,keep=true,by_time_only=true": lambda: easy(estimate, True, unicef, True),
    f"easy:order=priority,{PRIORITY}": lambda: easy(age_and_size),
    "easy:queue_depth=3": lambda: easy(reach=3),
}
"""By policy."""
PLANS = {
    "conservative": Conservative,
    "earliest-gap": Gaps,
    "best-gap": lambda **how: Gaps(True, **how),
    "tabu:rounds=0": lambda **how: Gaps(True, **how),
    "tabu:rounds=3": lambda **how: Gaps(True, 3, **how),
    "easy:depth=2": lambda **how: Reserving(2, **how),
    "easy:depth=3": lambda **how: Reserving(3, **how),
    "easy:depth=2,order=sjf": lambda **how: Reserving(2, estimate, **how),
    "easy:depth=3,order=sjf": lambda **how: Reserving(3, estimate, **how),
    "easy:depth=2,order=wfp3,queue_order=sjf": lambda **how: Reserving(2, wfp3, estimate, **how),
}
"""By policy that plans ahead; each takes a horizon, s."""
