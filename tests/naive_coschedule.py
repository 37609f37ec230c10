"""The slow twin of co-scheduling: its own clock, second by second, with lists and dictionaries."""

from __future__ import annotations

import math

import numpy as np

from procure.coschedule.learner import (
    EDGES,
    IN_DANGER,
    TRUST,
    choose,
    happiness,
    learn,
    make_learner,
    mood_of,
    projected_loss,
)
from procure.coschedule.sharing import IDLE, Contention, paces_of
from procure.simulator.state import PACE_ONE


class Twin:
    """One run; jobs are dictionaries in queue order, nodes a list of (cpus, mem)."""

    def __init__(
        self,
        jobs,
        nodes,
        *,
        learner="idle",
        progress="reported",
        share=0.0,
        interval=60,
        step=0.25,
        tolerance=0.1,
        admit=0.02,
        contention="share",
        overhead=0.02,
        severity=1.0,
        worse=1.0,
        seed=0,
    ):
        self.jobs, self.nodes = jobs, nodes
        self.idle, self.progress = learner == "idle" and not share, progress
        self.learner = make_learner("ucb" if learner == "idle" else learner, seed, step=step, trust=TRUST)
        self.believed_work = {}
        self.by_mean, self.share, self.interval = learner == "ucb", share, interval
        self.quotas = [0.0, share] if share else [0.0, IDLE] if self.idle else self.learner.experts.quotas.tolist()
        form = int(contention == "bandwidth")
        self.real = Contention(form, overhead * worse, severity * worse)
        self.believed = Contention(form, overhead, severity)
        self.tolerance, self.admit = tolerance, admit
        self.queue, self.owners = [], []
        self.running = {}  # job: {"nodes", "donor", "pace", "left", "quota", "context"}
        self.start, self.end, self.placed = {}, {}, {}
        self.now, self.next, self.wake = 0, 0, -1

    def run(self):
        n_submitted, cursor_end = 0, 10**5
        for self.now in range(cursor_end):
            ended = []
            for job in sorted(self.running):
                self.running[job]["left"] -= self.running[job]["pace"] if self.now > self.start[job] else 0
                if self.running[job]["left"] <= 0:
                    ended.append(job)
            while n_submitted < len(self.jobs) and self.jobs[n_submitted]["submit"] == self.now:
                self.queue.append(n_submitted)
                n_submitted += 1
            fresh = n_submitted > 0 and self.jobs[n_submitted - 1]["submit"] == self.now
            if not (ended or fresh or self.wake == self.now):
                continue
            self.moment(ended)
            if n_submitted == len(self.jobs) and not self.running and not self.queue:
                return self.start, self.end, self.placed
        raise AssertionError("the twin did not come to an end")

    def moment(self, ended):
        self.settle(ended)
        if self.now >= self.next:
            self.choose_anew()
            self.next = (self.now // self.interval + 1) * self.interval
        self.take_back()
        while self.start_some():
            pass
        self.wake = self.next if any(each["donor"] is not None for each in self.running.values()) else -1

    def start_some(self):
        """Walk the queue once; true if a job of no time ended, after which the walk begins anew."""
        for job in list(self.queue):
            found = self.on_free(job) or self.inside(job)
            if not found:
                continue
            nodes, donor, quota, context, expected = found
            self.queue.remove(job)
            self.believed_work[job] = self.work_now(job)
            self.start[job], self.placed[job] = self.now, nodes
            self.running[job] = {
                "nodes": nodes, "donor": donor, "pace": PACE_ONE, "left": self.jobs[job]["run"] * PACE_ONE,
                "quota": quota, "context": context, "expected": expected,
            }  # fmt: skip
            if donor is None:
                self.owners.append(job)
            else:
                self.set_paces(donor)
            if self.jobs[job]["run"] == 0:
                self.settle([job])
                return True
        return False

    def guests(self, donor):
        found = [job for job, each in self.running.items() if each["donor"] == donor]
        return sorted(found, key=lambda job: self.running[donor]["nodes"].index(self.running[job]["nodes"][0]))

    def mem_left(self, node):
        return self.nodes[node][1] - sum(
            self.jobs[job]["mem"] for job, each in self.running.items() if node in each["nodes"]
        )

    def on_free(self, job):
        wanted = self.jobs[job]
        fit = []
        for node, (cpus, _) in enumerate(self.nodes):
            held = sum(self.jobs[o]["cpus"] for o in self.owners if node in self.running[o]["nodes"])
            if cpus - held >= wanted["cpus"] and self.mem_left(node) >= wanted["mem"]:
                fit.append(node)
        return (fit[: wanted["n"]], None, 0.0, None, 0.0) if len(fit) >= wanted["n"] else None

    def inside(self, job):
        wanted = self.jobs[job]
        if math.isnan(wanted["cpu"]) or wanted["cpus"] == 0:
            return None
        for donor in self.owners:
            host = self.jobs[donor]
            if host["n"] < wanted["n"] or host["cpus"] < wanted["cpus"] or math.isnan(host["cpu"]):
                continue
            taken = {node for guest in self.guests(donor) for node in self.running[guest]["nodes"]}
            fit = [
                node for node in self.running[donor]["nodes"]
                if node not in taken and self.mem_left(node) >= wanted["mem"]
            ]  # fmt: skip
            if len(fit) < wanted["n"]:
                continue
            quota, *chosen = self.welcome(job, donor)
            if quota > 0:
                return fit[: wanted["n"]], donor, quota, *chosen
        return None

    def welcome(self, job, donor):
        if self.share:
            return self.share, None, 0.0
        context = self.look(donor, job)
        if context[-1] == IN_DANGER:
            return 0.0, None, 0.0
        expected = self.expect(self.believed, donor, job)
        if self.idle:
            return IDLE if expected[1] <= self.admit else 0.0, context, 0.0
        level = choose(self.learner, context, expected)
        if self.by_mean and level > 0:
            cell = int(context[-1]) * 4**5 + int(
                "".join(map(str, context[:5])), 4
            )  # the metrics are the digits of a number to the base 4
            tried = self.learner.tried[cell, level]
            mean = expected[level] + self.learner.sums[cell, level] / (TRUST + tried)
            if mean > self.admit:
                return 0.0, None, 0.0
        return self.quotas[level], context, float(expected[level])

    def settle(self, ended):
        for job in ended:
            each = self.running[job]
            self.end[job] = self.now
            guests = self.guests(job)
            del self.running[job]
            if each["donor"] is not None:
                self.set_paces(each["donor"])
                continue
            self.owners.remove(job)
            for guest in guests:
                self.running[guest].update(donor=None, pace=PACE_ONE)
                self.owners.append(guest)

    def paces(self, model, donor, guest, quota):
        a, b = self.jobs[donor], self.jobs[guest]
        return paces_of(model, quota, b["cpus"] / a["cpus"], (a["cpu"], a["band"]), (b["cpu"], b["band"]))

    def set_paces(self, donor):
        least = PACE_ONE
        for guest in self.guests(donor):
            one, other = self.paces(self.real, donor, guest, self.running[guest]["quota"])
            least = min(least, int(one * PACE_ONE))
            self.running[guest]["pace"] = int(other * PACE_ONE)
        self.running[donor]["pace"] = least

    def work_now(self, job):
        """What a job that would start now is believed to need."""
        run, limit = self.jobs[job]["run"], self.jobs[job]["limit"]
        return run if self.progress == "reported" or not limit else limit

    def left(self, job):
        done = 0.0
        if job in self.running:
            done = (self.jobs[job]["run"] * PACE_ONE - self.running[job]["left"]) / PACE_ONE
        run = self.believed_work[job] if job in self.running else self.work_now(job)
        limit = run * (1.0 + self.tolerance)
        if self.jobs[job]["limit"]:
            limit = min(limit, float(self.jobs[job]["limit"]))
        elapsed = self.now - self.start[job] if job in self.running else 0
        return max(limit, 1.0), limit - elapsed, run - done

    def look(self, donor, guest):
        a, b = self.jobs[donor], self.jobs[guest]
        limit, limit_left, work_left = self.left(donor)
        values = (a["cpu"], a["mem_share"], b["cpu"], b["mem_share"], a["cpu"] + b["cpu"], 1.0 - limit_left / limit)
        mood = mood_of(happiness(limit_left, self.running[donor]["pace"] / PACE_ONE, work_left))
        return np.array([*((edges < value).sum() for edges, value in zip(EDGES, values, strict=True)), mood])

    def expect(self, model, donor, guest):
        found = []
        for quota in self.quotas:
            one, other = self.paces(model, donor, guest, quota)
            limit, limit_left, work_left = self.left(donor)
            own = projected_loss(limit, limit_left, one, work_left)
            limit, limit_left, work_left = self.left(guest)
            margin = limit * self.admit / (1.0 + self.admit)
            theirs = projected_loss(limit - margin, limit_left - margin, other, work_left)
            found.append(max(0.5 + 0.5 * own if own > 0 else 0.0, 0.5 * theirs))
        return np.array(found)

    def choose_anew(self):
        if self.share:
            return
        for donor in self.owners:
            for guest in self.guests(donor):
                each = self.running[guest]
                if self.idle:
                    each["quota"] = 0.0 if self.look(donor, guest)[-1] == IN_DANGER else IDLE
                    continue
                losses = self.expect(self.real, donor, guest)
                learn(self.learner, each["context"], self.quotas.index(each["quota"]), losses, each["expected"])
                each["context"] = self.look(donor, guest)
                expected = self.expect(self.believed, donor, guest)
                level = choose(self.learner, each["context"], expected)
                each.update(quota=self.quotas[level], expected=float(expected[level]))
            self.set_paces(donor)

    def take_back(self):
        for donor in [] if self.share else self.owners:
            _, limit_left, work_left = self.left(donor)
            pace = self.running[donor]["pace"]
            if pace < PACE_ONE and happiness(limit_left, pace / PACE_ONE, work_left) < 1.0:
                for guest in self.guests(donor):
                    self.running[guest]["quota"] = 0.0
                self.set_paces(donor)
