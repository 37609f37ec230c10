"""Slow twins of the queue policies: dictionaries and dense time, sharing no code with the product.

A job is a dict of submit, run, est (s; a large number where unknown), n, cpus, mem, gpus, types; a node
a dict of cpus, mem, gpus, types. Both may have slices, a second pool of GPUs. Jobs stand in queue order.
Every twin returns (start, nodes) per job, (None, ()) for one that never ran.
"""

from __future__ import annotations

import numpy as np

RES = ("cpus", "mem", "gpus", "slices")
NEVER = 10**15


def suits(job, node, free):
    return all(free.get(r, 0) >= job.get(r, 0) for r in RES) and node["types"] & job["types"] != 0


class Sim:
    def __init__(self, jobs, nodes, pool=False):
        self.jobs, self.nodes, self.pool = jobs, nodes, pool
        self.start = [None] * len(jobs)
        self.where = [()] * len(jobs)
        self.expected = [None] * len(jobs)
        self.now = 0

    def empty_fits(self, job):
        return sum(suits(job, node, node) for node in self.nodes) >= job["n"]

    def running(self):
        return [
            j for j, job in enumerate(self.jobs) if self.start[j] is not None and self.start[j] + job["run"] > self.now
        ]

    def free(self, holders):
        free = [dict(node) for node in self.nodes]
        for j in holders:
            for n in self.where[j]:
                for r in RES:
                    free[n][r] = free[n].get(r, 0) - self.jobs[j].get(r, 0)
        return free

    def waiting(self):
        return [
            j
            for j, job in enumerate(self.jobs)
            if job["submit"] <= self.now and self.start[j] is None and self.empty_fits(job)
        ]

    def fitting(self, j, *frees):
        return [n for n, node in enumerate(self.nodes) if all(suits(self.jobs[j], node, free[n]) for free in frees)]

    def begin(self, j, nodes):
        assert len(nodes) == self.jobs[j]["n"]
        self.start[j], self.where[j] = self.now, tuple(nodes)
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
            while True:
                answer = decide(self)
                if answer is None:
                    break
                self.begin(*answer)


def strict(key):
    def decide(sim):
        queue = sorted(sim.waiting(), key=lambda j: (key(sim, j), j))
        if queue:
            nodes = sim.fitting(queue[0], sim.free(sim.running()))
            if len(nodes) >= sim.jobs[queue[0]]["n"]:
                return queue[0], nodes[: sim.jobs[queue[0]]["n"]]
        return None

    return decide


def skipping(key):
    def decide(sim):
        for j in sorted(sim.waiting(), key=lambda j: (key(sim, j), j)):
            nodes = sim.fitting(j, sim.free(sim.running()))
            if len(nodes) >= sim.jobs[j]["n"]:
                return j, nodes[: sim.jobs[j]["n"]]
        return None

    return decide


def best_fit(of_node=False):
    """Start the job that leaves the least of its nodes, on average over them; a margin as written in the design."""

    def margin(job, node, free):
        counted = [r for r in ("mem", "cpus") if (node[r] if of_node else job[r]) > 0]
        terms = [(free[r] - job[r]) / node[r] for r in counted]
        pools = [r for r in ("gpus", "slices") if job.get(r, 0) > 0]
        if not pools and of_node:  # a job without GPUs leaves all pools together
            pools = ["gpus", "slices"]
        if of := sum(node.get(r, 0) for r in pools):
            terms.append(sum(free.get(r, 0) - job.get(r, 0) for r in pools) / of)
        return sum(terms) / len(terms) if terms else 0.0

    def decide(sim):
        free, offers = sim.free(sim.running()), []
        for j in sim.waiting():
            job = sim.jobs[j]
            margins = sorted((margin(job, sim.nodes[n], free[n]), n) for n in sim.fitting(j, free))[: job["n"]]
            if len(margins) == job["n"]:
                mean = sum(left for left, _ in margins) / job["n"]
                offers.append((mean, j, sorted(n for _, n in margins)))
        return min(offers)[1:] if offers else None

    return decide


def easy(backfill_key=lambda sim, j: 0, by_time_only=False, queue_key=lambda sim, j: 0, keep=False):
    kept = set()

    def decide(sim):
        queue = sorted(sim.waiting(), key=lambda j: (j not in kept, queue_key(sim, j), j))
        if not queue:
            return None
        if keep and queue[0] not in kept:
            kept.clear()
            kept.add(queue[0])
        head, want = queue[0], sim.jobs[queue[0]]["n"]
        free = sim.free(sim.running())
        nodes = sim.fitting(head, free)
        if len(nodes) >= want:
            return head, nodes[:want]
        for shadow in sorted({sim.expected[j] for j in sim.running()}):
            then = sim.free([j for j in sim.running() if sim.expected[j] > shadow])
            if len(sim.fitting(head, then)) >= want:
                break
        extra = len(sim.fitting(head, then)) - want
        for n in sim.fitting(head, then)[-want:]:
            for r in RES:
                then[n][r] -= sim.jobs[head][r]
        for j in sorted(queue[1:], key=lambda j: (backfill_key(sim, j), j)):
            job, end = sim.jobs[j], min(sim.now + sim.jobs[j]["est"], NEVER)
            nodes = sim.fitting(j, free)
            if by_time_only:
                if end >= shadow:
                    continue
            elif end > shadow:
                if not sim.pool:
                    nodes = sim.fitting(j, free, then)
                elif job["n"] > extra:
                    continue
            if len(nodes) >= job["n"]:
                return j, nodes[: job["n"]]
        return None

    return decide


class Conservative:
    """Promises over dense time: one entry per second, up to a horizon beyond which all is free."""

    def __init__(self, horizon):
        self.horizon = horizon
        self.promise = {}
        self.at = {}
        self.believed = None

    def room(self, sim, besides):
        """Per second: idle nodes in a pool, else free amounts per node."""
        times = range(sim.now, sim.now + self.horizon)
        out = []
        for t in times:
            holders = [j for j in sim.running() if sim.expected[j] > t]
            free = sim.free(holders)
            planned = [
                j for j, s in self.promise.items() if j != besides and s is not None and s <= t < s + sim.jobs[j]["est"]
            ]
            if sim.pool:
                held = sum(sim.jobs[j]["n"] for j in holders + planned)
                out.append(len(sim.nodes) - held)
            else:
                for j in planned:
                    for n in self.at[j]:
                        for r in RES:
                            free[n][r] -= sim.jobs[j][r]
                out.append(free)
        return out

    def earliest(self, sim, j, before=None):
        room, job = self.room(sim, j), sim.jobs[j]
        for i in range(self.horizon - job["est"]):
            t = sim.now + i
            if before is not None and t >= before:
                return None, ()
            window = room[i : i + job["est"]]
            if sim.pool:
                if min(window) >= job["n"]:
                    return t, ()
            else:
                nodes = sim.fitting(j, *window)
                if len(nodes) >= job["n"]:
                    return t, nodes[: job["n"]]
        raise AssertionError("the horizon is too near")

    def __call__(self, sim):
        queue = sim.waiting()
        for j in list(self.promise):
            if j not in queue:
                del self.promise[j]
        ended = self.believed is not None and any(
            self.believed[j] is not None and self.believed[j] > sim.now and j not in sim.running()
            for j in range(len(sim.jobs))
        )
        corrected = self.believed is not None and any(
            self.believed[j] is not None and self.believed[j] != sim.expected[j] for j in range(len(sim.jobs))
        )
        corrected = corrected or any(
            e is not None and e < sim.now and j not in sim.running() for j, e in enumerate(self.believed or [])
        )
        self.believed = [
            None if s is None or (s + job["run"] <= sim.now) else e
            for s, e, job in zip(sim.start, sim.expected, sim.jobs, strict=True)
        ]
        if corrected:
            self.promise = {}
        moved = ended and not corrected
        while moved:
            moved = False
            for j in queue:
                if j in self.promise and self.promise[j] > sim.now:
                    t, nodes = self.earliest(sim, j, self.promise[j])
                    if t is not None:
                        self.promise[j], self.at[j], moved = t, nodes, True
        for j in queue:
            if j not in self.promise:
                self.promise[j], self.at[j] = self.earliest(sim, j)
        for j in queue:
            if self.promise[j] == sim.now:
                nodes = self.at[j]
                if sim.pool:
                    nodes = sim.fitting(j, sim.free(sim.running()))[: sim.jobs[j]["n"]]
                self.believed[j] = sim.now + sim.jobs[j]["est"]
                return j, nodes
        return None


class SwiftConservative(Conservative):
    """The same for a thousand jobs: what is free in every second is kept, and changes by what is promised anew."""

    def __init__(self, horizon):
        super().__init__(horizon)
        self.held, self.free = {}, None

    def follow(self, sim, besides):
        """Bring the amounts up to who runs and who is promised what, but for one job."""
        if self.free is None:
            amounts = [[len(sim.nodes)]] if sim.pool else [[node[r] for r in RES] for node in sim.nodes]
            self.free = np.array([amounts] * self.horizon)
        held = {j: (sim.start[j], sim.expected[j], sim.where[j]) for j in sim.running()}
        for j, start in self.promise.items():
            if j != besides and start is not None:
                held[j] = start, start + sim.jobs[j]["est"], self.at[j]
        for sign, before, after in ((1, self.held, held), (-1, held, self.held)):
            for j, place in before.items():
                if after.get(j) != place:
                    start, end, nodes = place
                    job = sim.jobs[j]
                    if sim.pool:
                        self.free[start:end] += sign * job["n"]
                    else:
                        self.free[start:end, list(nodes)] += sign * np.array([job[r] for r in RES])
        self.held = held

    def earliest(self, sim, j, before=None):
        self.follow(sim, j)
        job = sim.jobs[j]
        until = self.horizon if before is None else before + job["est"]
        free = self.free[sim.now : until]
        if sim.pool:
            short, wanted = free[:, :, 0] < job["n"], 1
        else:
            types = np.array([node["types"] for node in sim.nodes])
            short = (free < [job[r] for r in RES]).any(axis=2) | ((types & job["types"]) == 0)
            wanted = job["n"]
        so_far = np.vstack([np.zeros((1, short.shape[1]), int), short.cumsum(axis=0)])
        holds = so_far[job["est"] :] == so_far[: -job["est"]]
        enough = holds.sum(axis=1) >= wanted
        t = int(np.argmax(enough))
        if before is not None and (not enough[t] or sim.now + t >= before):
            return None, ()
        assert enough[t], "the horizon is too near"
        return sim.now + t, () if sim.pool else np.flatnonzero(holds[t])[:wanted].tolist()


class Gaps:
    """Schedule-based policies over dense time: what every node has free in every second up to a horizon.

    ``best`` inserts a new job where the expected slowdowns are least; ``rounds`` moves jobs on from there.
    """

    def __init__(self, horizon, best=False, rounds=0):
        self.horizon, self.best, self.rounds = horizon, best, rounds
        self.order, self.n_searches = [], 0

    def plan(self, sim, order):
        """Return (start, nodes) of each job in an order, and the sum of the expected bounded slowdowns."""
        free = np.array([[[node[r] for r in RES] for node in sim.nodes]] * self.horizon)
        for j in sim.running():
            for n in sim.where[j]:
                free[: sim.expected[j] - sim.now, n] -= [sim.jobs[j][r] for r in RES]
        types = np.array([node["types"] for node in sim.nodes])
        idle = np.full(self.horizon, len(sim.nodes))
        for j in sim.running():
            idle[: sim.expected[j] - sim.now] -= sim.jobs[j]["n"]
        found, total = {}, 0.0
        for j in order:
            job = sim.jobs[j]
            if sim.pool:  # any idle nodes will do, and not the same ones are named in advance
                short = (idle < job["n"])[:, None]
            else:
                asked = np.array([job[r] for r in RES])
                short = (free < asked).any(axis=2) | ((types & job["types"]) == 0)
            so_far = np.vstack([np.zeros((1, short.shape[1]), int), short.cumsum(axis=0)])
            holds = so_far[job["est"] :] == so_far[: -job["est"]]
            wanted = 1 if sim.pool else job["n"]
            t = int(np.argmax(holds.sum(axis=1) >= wanted))
            nodes = np.flatnonzero(holds[t])[:wanted]
            assert len(nodes) == wanted, "the horizon is too near"
            if sim.pool:
                idle[t : t + job["est"]] -= job["n"]
            else:
                free[t : t + job["est"], nodes] -= asked
            found[j] = sim.now + t, nodes.tolist()
            total += max(1.0, (sim.now + t - job["submit"] + float(job["est"])) / max(float(job["est"]), 10.0))
        return found, total

    def inserted(self, sim, order, j):
        """Return the order with a job at the best of the last 20 places; ties go to the back."""
        places = range(len(order), max(-1, len(order) - 20), -1)
        tried = [[*order[:place], j, *order[place:]] for place in places]
        return min(tried, key=lambda order: self.plan(sim, order)[1])

    def search(self, sim):
        self.n_searches += 1
        rng, tabu = np.random.default_rng(self.n_searches), []
        order, least = self.order, self.plan(sim, self.order)[1]
        for _ in range(self.rounds):
            j = order[int(rng.integers(len(order)))]
            if j in tabu:
                continue
            tabu = [*tabu, j][-max(1, min(10, len(order) // 2)) :]
            moved = self.inserted(sim, [other for other in order if other != j], j)
            if self.plan(sim, moved)[1] < least:
                order, least = moved, self.plan(sim, moved)[1]
        self.order = order

    def __call__(self, sim):
        queue = sim.waiting()
        if not queue:
            return None
        self.order = [j for j in self.order if sim.start[j] is None]
        for j in queue:
            if j not in self.order:
                self.order = self.inserted(sim, self.order, j) if self.best else [*self.order, j]
        if self.rounds and len(queue) > 1:
            self.search(sim)
        found, _ = self.plan(sim, self.order)
        for j in queue:
            start, nodes = found[j]
            if start == sim.now:
                return self.answer(sim, j, nodes)
        return None

    def answer(self, sim, j, nodes):
        return j, sim.fitting(j, sim.free(sim.running()))[: sim.jobs[j]["n"]] if sim.pool else nodes


class Reserving(Gaps):
    """EASY whose first ``depth`` jobs hold reservations, over dense time."""

    def __init__(self, horizon, depth, backfill_key=lambda sim, j: 0, queue_key=lambda sim, j: 0):
        super().__init__(horizon)
        self.depth, self.backfill_key, self.queue_key = depth, backfill_key, queue_key

    def __call__(self, sim):
        queue = sorted(sim.waiting(), key=lambda j: (self.queue_key(sim, j), j))
        first = queue[: self.depth]
        behind = sorted(queue[self.depth :], key=lambda j: (self.backfill_key(sim, j), j))
        for i, j in enumerate(queue[: self.depth]):
            start, nodes = self.plan(sim, first[: i + 1])[0][j]
            if start == sim.now:
                return self.answer(sim, j, nodes)
        for j in behind:
            start, nodes = self.plan(sim, [*first, j])[0][j]
            if start == sim.now:
                return self.answer(sim, j, nodes)
        return None
