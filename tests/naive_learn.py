"""Slow twin of a learned order under which whoever fits starts: every figure anew at each decision, no counters."""

from __future__ import annotations

import math

from procure.learn.features import NO_LIMIT
from procure.simulator.state import WAIT, waiting

SPAN = math.log(100.0)


class Twin:
    """The order as `docs/how-to/learn.md` states it, on any trained arrays."""

    def __init__(self, arrays, prior):
        self.arrays, self.prior, self.ended = arrays, prior, {}

    def __call__(self, state):
        now = int(state.now[0])
        for job in state.ended[: state.n_ended[0]].tolist():
            self.ended.setdefault(job, now)
        queue = list(waiting(state))
        best = None
        for job in queue:
            nodes = self.nodes(state, job)
            if nodes is None:
                continue
            first = min(other for other in queue if self.alike(state, other) == self.alike(state, job))
            if first != job:
                continue
            key = (self.score(state, job, queue), job)
            if best is None or key < best[0]:
                best = (key, job, nodes)
        return (WAIT, []) if best is None else (best[1], best[2])

    @staticmethod
    def alike(state, job):
        names = ("n_nodes", "cpus", "mem", "gpus", "types", "requested", "user")
        return tuple(int(getattr(state, name)[job]) for name in names)

    def nodes(self, state, job):
        able = [
            n
            for n in range(len(state.free_cpus))
            if all(getattr(state, f"free_{r}")[n] >= getattr(state, r)[job] for r in ("cpus", "mem", "gpus"))
            and state.node_types[n] & state.types[job]
        ]
        wanted = int(state.n_nodes[job])
        return None if len(able) < wanted else able[:wanted]

    def expected(self, state, job):
        now, mine = int(state.now[0]), self.alike(state, job)
        kin = [j for j in range(len(state.submit)) if state.start[j] >= 0 and self.alike(state, j) == mine]
        run = sum(self.ended.get(j, now) - int(state.start[j]) for j in kin)
        n_ended = sum(j in self.ended for j in kin)
        trust = float(self.arrays["trust"][0])
        first = min(j for j in range(len(state.submit)) if self.alike(state, j) == mine)
        limit = float(state.requested[job]) or float(NO_LIMIT)
        return min((trust * self.prior[first] + run) / (trust + n_ended), limit), n_ended

    def recent(self, state, job, which):
        """Log of what runs of its class, else of its user, came to: the last counts 0.3, the rest what is left."""
        least = 10.0 if which else 1.0
        known = {}
        for other, end in self.ended.items():
            run = max(end - int(state.start[other]), least)
            value = 1.0 / run if which else math.log(run)
            user, mine = ("user", int(state.user[other])), ("class", self.alike(state, other))
            begins = known.get(user, value) if len(set(state.user.tolist())) > 1 else value
            known[mine] = known.get(mine, begins) + 0.3 * (value - known.get(mine, begins))
            known[user] = known.get(user, value) + 0.3 * (value - known.get(user, value))
        limit = max(float(state.requested[job]) or float(NO_LIMIT), least)
        of_user = ("user", int(state.user[job])) if len(set(state.user.tolist())) > 1 else None
        value = known.get(("class", self.alike(state, job)), known.get(of_user))
        if value is None:
            first = min(j for j in range(len(state.submit)) if self.alike(state, j) == self.alike(state, job))
            return math.log(min(max(self.prior[first], least), limit))
        return min(-math.log(value) if which else value, math.log(limit))

    def score(self, state, job, queue):
        now = int(state.now[0])
        run, n_ended = self.expected(state, job)
        asked = [
            int(getattr(state, r)[job]) * int(state.n_nodes[job]) / max(float(getattr(state, f"total_{r}").sum()), 1.0)
            for r in ("cpus", "mem", "gpus")
        ]
        able = [
            all(getattr(state, f"total_{r}")[n] >= getattr(state, r)[job] for r in ("cpus", "mem", "gpus"))
            and bool(state.node_types[n] & state.types[job])
            for n in range(len(state.free_cpus))
        ]
        limit = float(state.requested[job]) or float(NO_LIMIT)
        run_time = math.log(max(run, 1.0) / 3600.0) / SPAN
        share = math.log10(max(*asked, 1e-4)) / 2.0 + 1.0
        length = math.log10(1.0 + len(queue)) / 3.0
        free = [
            sum(max(int(x), 0) for x in getattr(state, f"free_{r}")) / int(getattr(state, f"total_{r}").sum())
            for r in ("cpus", "mem")
        ]
        n_alike = sum(self.alike(state, other) == self.alike(state, job) for other in queue)
        free = (free[0] + free[1]) / 2.0
        row = [
            run_time,
            math.log(max(limit, 1.0) / 3600.0) / SPAN,
            share,
            1.0 - sum(able) / len(able),
            math.log((60.0 + now - int(state.submit[job])) / 3600.0) / SPAN,
            math.log(1.0 * n_alike) / SPAN,
            math.log(1.0 + n_ended) / SPAN,
            length * run_time,
            length * share,
            free * run_time,
            free * share,
            (self.recent(state, job, 0) - math.log(3600.0)) / SPAN,
            (self.recent(state, job, 1) - math.log(3600.0)) / SPAN,
            math.log(1.0 + sum(int(state.user[other]) == int(state.user[job]) for other in queue)) / SPAN,
        ]
        total = 0.0
        for weight, value in zip(self.arrays["weights"], row, strict=True):
            total += weight * value
        return total
