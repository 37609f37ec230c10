"""The slow twin of the composed scheduler: who is next, who is held back, how far ahead, and where, as plain functions.

On the dictionaries of `naive_policies.Sim`; shares no code with the product. An order is ``key(sim, j)``, a hold-back
``admits(sim, j)``, a place ``pick(sim, j, nodes)``, which keeps as many as the job asks for.
"""

from __future__ import annotations

from naive_policies import NEVER, RES
from policy_cases import as_dicts


def first(sim, j, nodes):
    return nodes[: sim.jobs[j]["n"]]


def last(sim, j, nodes):
    return nodes[-sim.jobs[j]["n"] :]


def by_margin(sign):
    """Best fit (1) or worst fit (−1): the mean share that is left of what the job asks for; ties to the lower row."""

    def pick(sim, j, nodes):
        job, free = sim.jobs[j], sim.free(sim.running())

        def margin(n):
            asked = [r for r in ("mem", "cpus", "gpus", "slices") if job.get(r, 0) > 0]
            left = sum((free[n][r] - job[r]) / sim.nodes[n][r] for r in asked)
            return left / len(asked) if asked else 0.0

        return sorted(sorted(nodes, key=lambda n: (sign * margin(n), n))[: job["n"]])

    return pick


def everybody(sim, j):
    return True


def one_each(users):
    """Each user runs one job at a time."""
    return lambda sim, j: users[j] not in {users[other] for other in sim.running()}


class Scheduler:
    """``plan`` is strict, skipping or easy; ``queue_key`` orders who holds EASY's reservation."""

    def __init__(self, plan, key, admits=everybody, pick=first, queue_key=lambda sim, j: 0, depth=0):
        self.plan, self.key, self.admits, self.pick = plan, key, admits, pick
        self.queue_key, self.depth = queue_key, depth

    def __call__(self, sim):
        looked_at = sim.waiting()[: self.depth or None]
        queue = [j for j in sim.waiting() if self.admits(sim, j)]
        if self.plan != "easy":
            for j in sorted(queue, key=lambda j: (self.key(sim, j), j)):
                nodes = sim.fitting(j, sim.free(sim.running()))
                if len(nodes) >= sim.jobs[j]["n"]:
                    return j, self.pick(sim, j, nodes)
                if self.plan == "strict":
                    break
            return None
        if not queue:
            return None
        head = min(queue, key=lambda j: (self.queue_key(sim, j), j))
        free = sim.free(sim.running())
        nodes = sim.fitting(head, free)
        if len(nodes) >= sim.jobs[head]["n"]:
            return head, self.pick(sim, head, nodes)
        shadow, then, extra = self.reservation(sim, head)
        for j in sorted(queue, key=lambda j: (self.key(sim, j), j)):
            job, nodes = sim.jobs[j], sim.fitting(j, free)
            if j == head or j not in looked_at:
                continue
            if min(sim.now + job["est"], NEVER) > shadow:
                if sim.pool and job["n"] > extra:
                    continue
                if not sim.pool:
                    nodes = sim.fitting(j, free, then)
            if len(nodes) >= job["n"]:
                return j, self.pick(sim, j, nodes)
        return None

    def reservation(self, sim, head):
        """Return when the head can start, what is free then beside it, and how many idle nodes that is in a pool."""
        wanted = sim.jobs[head]["n"]
        for shadow in sorted({sim.expected[j] for j in sim.running()}):
            then = sim.free([j for j in sim.running() if sim.expected[j] > shadow])
            if len(sim.fitting(head, then)) >= wanted:
                break
        extra = len(sim.fitting(head, then)) - wanted
        for n in sim.fitting(head, then)[-wanted:]:
            for r in RES:
                then[n][r] -= sim.jobs[head][r]
        return shadow, then, extra


def schedule(sim_class, jobs, nodes, decide, kill, pool):
    """Return start times and the names of nodes of a job table under a twin."""
    rows, servers = as_dicts(jobs, nodes, kill)
    start, where = sim_class(rows, servers, pool=pool).simulate(decide)
    return start, [tuple(f"n{n}" for n in nodes) for nodes in where]
