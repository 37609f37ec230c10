"""Slow twins of the forecast room: the same answers, in the plainest way."""

from __future__ import annotations

import math

DAY = 86_400


class HeldPool:
    """EASY in a pool that goes around nodes held for expected jobs: functions of time instead of a profile.

    A job is a dict of submit, run, est (at least run), n and key; a forecast one of issued, moment, tolerance,
    sure, came (None = never), key, job and copies. Both stand in order, of submission and of issue.
    """

    def __init__(self, jobs, forecasts, n_nodes, a, b, eta):
        self.jobs, self.n_nodes, self.a, self.b, self.eta = jobs, n_nodes, a, b, eta
        self.forecasts = [dict(f) for f in forecasts]
        self.start = [None] * len(jobs)
        self.runs, self.seen_ends = {}, set()
        self.paces, self.losses = {}, {}
        self.capacity = n_nodes
        self.open, self.coming = [], list(self.forecasts)

    def follow(self, now):
        for j in sorted(range(len(self.jobs)), key=lambda j: (self.end(j), j)):
            if self.end(j) <= now and j not in self.seen_ends:
                self.seen_ends.add(j)
                key, run = self.jobs[j]["key"], self.jobs[j]["run"]
                self.runs.setdefault(key, []).append(run)
                self.paces.setdefault(key, []).append(1 / max(10, run))
                self.paces.setdefault("all", []).append(1 / max(10, run))
                wait = self.start[j] - self.jobs[j]["submit"]
                self.losses.setdefault(key, []).append(wait * (1 / max(10, run)))
                self.losses.setdefault("all", []).append(wait * (1 / max(10, run)))
        closed = [f for f in self.open if f["moment"] + f["tolerance"] < now]
        self.open = [f for f in self.open if f["moment"] + f["tolerance"] >= now]
        for f in closed:
            self.learn(f)
        while self.coming and self.coming[0]["issued"] <= now:
            f = self.coming.pop(0)
            if f["moment"] + f["tolerance"] < now:
                self.learn(f)
                continue
            runs = self.runs.get(f["key"], [])
            usual = sum(runs) // len(runs) if runs else DAY
            f["length"] = max(1, min(usual, self.jobs[f["job"]]["est"]))
            for other in self.open:
                near = abs(other["moment"] - f["moment"]) <= max(other["tolerance"], f["tolerance"])
                if other["key"] == f["key"] and other["copies"] > 0 and near:
                    (f if other["sure"] >= f["sure"] else other)["copies"] = 0
            self.open.append(f)

    def learn(self, f):
        if f["came"] is not None and f["sure"] < self.a:
            self.a = max(0.0, self.a - self.eta)
        elif f["came"] is None and f["sure"] >= self.b:
            self.b = min(1.0, self.b + self.eta)
            self.a = min(self.a + self.eta, self.b)

    def end(self, j):
        return math.inf if self.start[j] is None else self.start[j] + self.jobs[j]["run"]

    def running(self, now):
        return [j for j, s in enumerate(self.start) if s is not None and self.end(j) > now]

    def width(self, j):
        return self.jobs[j]["n"]

    def a_second(self, j):
        """The slowdown that a second's wait adds to a job, as far as jobs of its key tell."""
        if not (every := self.paces.get("all")):
            return 1 / 10
        own = self.paces.get(self.jobs[j]["key"], [])
        return (sum(own) + sum(every) / len(every)) / (len(own) + 1)

    def outweighs(self, f, j, now):
        """Whether nodes are held for a forecast against a waiting job."""
        waiting = [k for k, s in enumerate(self.start) if s is None and self.jobs[k]["submit"] <= now]
        waiting = [k for k in waiting if self.fits_at_all(k)]
        if f["copies"] <= 0 or f["sure"] < self.b or j == waiting[0]:
            return False
        width = self.width(f["job"])
        n = min(f["copies"], max(1, self.width(j) // width))
        queue = sum(self.a_second(k) for k in waiting)
        cost = self.a_second(j) + queue * (n * width / self.capacity)
        until = f["moment"] + f["tolerance"] + f["length"]
        return n * self.saved(f) > cost * (until - now)

    def saved(self, f):
        lost = self.losses.get(f["key"], [])
        return f["sure"] * sum(lost) / (len(lost) + 1)

    def kept_clear(self, f):
        every = self.losses.get("all", [])
        return f["copies"] > 0 and f["sure"] >= self.a and self.saved(f) * len(every) > sum(every)

    def fits_at_all(self, j):
        return self.jobs[j]["n"] <= self.n_nodes

    def blocks(self, now):
        """(from, until, nodes) of running jobs."""
        return [(now, self.start[j] + self.jobs[j]["est"], self.jobs[j]["n"]) for j in self.running(now)]

    def held_against(self, j, blocks, now):
        """Add to (from, until, nodes) what is held against a job."""
        found, met = list(blocks), self.met_by(j)
        for f in self.open:
            if self.outweighs(f, j, now):
                begin, n, held = max(now, f["moment"] - f["tolerance"]), self.jobs[f["job"]]["n"], 0
                until = f["moment"] + f["tolerance"] + f["length"]
                while held < f["copies"] - (f is met) and self.room(found, begin, until) >= n:
                    found.append((begin, until, n))
                    held += 1
        return found

    def room(self, blocks, begin, until):
        moments = {begin} | {low for low, _, _ in blocks if begin < low < until}
        return min(self.n_nodes - sum(n for low, high, n in blocks if low <= t < high) for t in moments)

    def met_by(self, j):
        job = self.jobs[j]
        fits = [
            f
            for f in self.open
            if f["key"] == job["key"] and f["copies"] > 0 and f["job"] != j and job["submit"] > f["issued"]
            if abs(job["submit"] - f["moment"]) <= f["tolerance"]
        ]
        return max(fits, key=lambda f: f["sure"]) if fits else None

    def decide(self, now):
        waiting = [j for j, s in enumerate(self.start) if s is None and self.jobs[j]["submit"] <= now]
        waiting = [j for j in waiting if self.jobs[j]["n"] <= self.n_nodes]

        def starts(j, blocks):
            return self.room(blocks, now, now + self.jobs[j]["est"]) >= self.jobs[j]["n"]

        if not waiting:
            return None
        head, *others = waiting
        job, blocks = self.jobs[head], self.blocks(now)
        for begin in sorted({now} | {high for _, high, _ in blocks if high > now}):
            if self.room(blocks, begin, begin + job["est"]) >= job["n"]:
                break
        if begin == now:
            return head
        blocks.append((begin, begin + job["est"], job["n"]))
        return next((j for j in others if starts(j, self.held_against(j, blocks, now))), None)

    def simulate(self):
        now = -1
        while True:
            moments = [job["submit"] for job in self.jobs] + [self.end(j) for j in self.running(now)]
            if any(s is None and 0 <= job["submit"] <= now for s, job in zip(self.start, self.jobs, strict=True)):
                surest = [f for f in self.open if f["copies"] > 0 and f["sure"] >= self.b]
                moments += [f["moment"] + f["tolerance"] + 1 for f in surest]
            later = [t for t in moments if t > now]
            if not later:
                return self.start
            now = min(later)
            self.follow(now)
            while (j := self.decide(now)) is not None:
                f = self.met_by(j)
                self.start[j] = now
                if f is not None:
                    f["copies"] -= 1


class HeldNodes(HeldPool):
    """The same on shared nodes of any kind: what is free on each node is a function of time.

    A job has cpus, mem, gpus and types (bits) besides, a node the same; every job fits on the empty nodes.
    """

    def __init__(self, jobs, nodes, forecasts, a, b, eta):
        super().__init__(jobs, forecasts, len(nodes), a, b, eta)
        self.nodes = nodes
        self.where = [()] * len(jobs)

        self.capacity = sum(max(1, node["cpus"]) for node in nodes)

    def width(self, j):
        return self.jobs[j]["n"] * max(1, self.jobs[j]["cpus"])

    def fits_at_all(self, j):
        return True

    def blocks(self, now):
        """(from, until, job, node) of running jobs."""
        running = self.running(now)
        return [(now, self.start[j] + self.jobs[j]["est"], j, n) for j in running for n in self.where[j]]

    def held_against(self, j, blocks, now, hard=True):
        """Add what is held against a job, or else what it keeps clear of if it can."""
        found, met = list(blocks), self.met_by(j)
        for f in self.open:
            held = self.outweighs(f, j, now)
            if held if hard else not held and self.kept_clear(f):
                self.hold(f, found, now, f["copies"] - (f is met))
        return found

    def hold(self, f, blocks, now, wanted):
        """Add to ``blocks`` the highest nodes with room for each expected job."""
        j, held = f["job"], 0
        begin, until = max(now, f["moment"] - f["tolerance"]), f["moment"] + f["tolerance"] + f["length"]
        while held < wanted and len(nodes := self.fitting(j, blocks, begin, until)) >= self.jobs[j]["n"]:
            blocks += [(begin, until, j, n) for n in nodes[-self.jobs[j]["n"] :]]
            held += 1

    def fitting(self, j, blocks, begin, until):
        """The nodes that have room for a job throughout."""
        job, found = self.jobs[j], []
        for n, node in enumerate(self.nodes):
            own = [block for block in blocks if block[3] == n]
            moments = {begin} | {block[0] for block in own if begin < block[0] < until}
            if node["types"] & job["types"] and all(
                node[r] - sum(self.jobs[k][r] for low, high, k, _ in own if low <= t < high) >= job[r]
                for t in moments
                for r in ("cpus", "mem", "gpus")
            ):
                found.append(n)
        return found

    def decide(self, now):
        waiting = [j for j, s in enumerate(self.start) if s is None and self.jobs[j]["submit"] <= now]
        if not waiting:
            return None

        def nodes_for(j, blocks):
            nodes = self.fitting(j, blocks, now, now + self.jobs[j]["est"])
            return tuple(nodes[: self.jobs[j]["n"]]) if len(nodes) >= self.jobs[j]["n"] else None

        def begin(j, nodes):
            self.where[j] = nodes
            return j

        head, *others = waiting
        job, blocks = self.jobs[head], self.blocks(now)
        if nodes_for(head, blocks):
            others = [head]
        else:
            for start in sorted({high for _, high, _, _ in blocks if high > now}):
                nodes = self.fitting(head, blocks, start, start + job["est"])
                if len(nodes) >= job["n"]:
                    blocks += [(start, start + job["est"], head, n) for n in nodes[-job["n"] :]]
                    break
        for j in others:
            hard = self.held_against(j, blocks, now)
            if nodes := nodes_for(j, hard):
                return begin(j, nodes_for(j, self.held_against(j, hard, now, hard=False)) or nodes)
        return None
