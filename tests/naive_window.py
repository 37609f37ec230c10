"""Slow twins of `procure.window`: costs pair by pair, starts one by one, annealing with lists, windows by the clock."""

from __future__ import annotations

import math
from itertools import combinations, permutations, product

import numpy as np


def pair_hops(a, b, tree, hops):
    """Hops between two places."""
    if a // tree.nodes == b // tree.nodes:
        return hops[0]
    in_pod = tree.nodes * tree.leaves
    return hops[1] if a // in_pod == b // in_pod else hops[2]


def cost(places, tree, profile="code"):
    """The printed formula and the program's, pair by pair."""
    n = len(places)
    if profile == "paper":
        pairs = permutations(places, 2)
        return 1000 * sum(pair_hops(a, b, tree, (2, 4, 6)) for a, b in pairs) / n
    return max(1000 * sum(pair_hops(a, b, tree, (1, 3, 5)) for a, b in combinations(places, 2)) // n, 1)


def total(places, tree):
    return sum(cost(list(each), tree) for each in places)


def static_places(window, starts):
    """The static model (SCAS): a job gets the node at its start and the next ones of a line that stays as it is.

    None if two jobs would hold one node.
    """
    n = len(window.idle)
    places = [
        window.idle[(start + np.arange(size)) % n] for start, size in zip(starts, window.sizes.tolist(), strict=True)
    ]
    return places if len(np.unique(np.concatenate(places))) == int(window.sizes.sum()) else None


def static_optimum(window):
    """Every way to give each job a start."""
    every = product(range(len(window.idle)), repeat=len(window.sizes))
    return min(total(places, window.tree) for starts in every if (places := static_places(window, starts)))


def best_places(free, n, tree):
    """The start along the free places, cyclic, that costs least by the unrounded sum; ties: the first."""
    found = []
    for start in range(len(free)):
        places = [free[(start + i) % len(free)] for i in range(n)]
        hops = sum(pair_hops(a, b, tree, (1, 3, 5)) for a, b in combinations(places, 2))
        found.append((hops, start, places))
    return min(found)[2]


class Lehmer:
    """Park and Miller's random numbers."""

    def __init__(self, seed):
        self.state = 1 + (seed % 2147483647 * 69621 + 1) % 2147483646
        for _ in range(3):
            self.below(2)

    def below(self, n):
        self.state = self.state * 48271 % 2147483647
        return self.state * n // 2147483647

    def share(self):
        self.below(1)
        return self.state / 2147483647


def free_places(window, places):
    held = {place for each in places if each is not None for place in each}
    return [place for place in window.idle.tolist() if place not in held]


def slow_sa(window, steps, highest, rollback, seed):
    """Annealing as described; returns each job's places."""
    rng, sizes, tree = Lehmer(seed), window.sizes.tolist(), window.tree
    places, at = [], 0
    for n in sizes:
        places.append(window.idle[at : at + n].tolist())
        at += n
    kept, energy = list(places), total(places, tree)
    best, answer = energy, list(places)
    for t in range(steps):
        temperature = highest * math.exp(-math.log(highest / 2.5) * t / steps)
        n = 1 + rng.below(2)
        removed = set(range(len(sizes))) if n >= len(sizes) else set()
        while len(removed) < min(n, len(sizes)):
            removed.add(rng.below(len(sizes)))
        for job in removed:
            places[job] = None
        for job in sorted(removed):
            free = free_places(window, places)
            start = rng.below(min(len(free), 100))
            places[job] = [free[(start + i) % len(free)] for i in range(sizes[job])]
        new = total(places, tree)
        if new < best:
            best, answer = new, list(places)
        if new <= energy or rng.share() < math.exp((energy - new) / temperature):
            energy, kept = new, list(places)
        elif rollback:
            places = list(kept)
    return answer


def slow_greedy(window):
    places = [None] * len(window.sizes)
    for job in sorted(range(len(places)), key=lambda job: (-window.sizes[job], job)):
        places[job] = best_places(free_places(window, places), int(window.sizes[job]), window.tree)
    return places


def slow_lns(window, begin, steps, seed):
    """Large-neighbourhood search from a placement; returns each job's places."""
    rng, sizes, tree = Lehmer(seed), window.sizes.tolist(), window.tree
    places = [list(each) for each in begin]
    kept, energy = list(places), total(places, tree)
    best, answer = energy, list(places)
    order = list(range(len(sizes)))
    for t in range(steps):
        n = 1 + rng.below(min(len(sizes), 4))
        for i in range(n):
            other = i + rng.below(len(sizes) - i)
            order[i], order[other] = order[other], order[i]
            places[order[i]] = None
        for job in order[:n]:
            places[job] = best_places(free_places(window, places), sizes[job], tree)
        new = total(places, tree)
        if new < best:
            best, answer = new, list(places)
        temperature = 300.0 * math.exp(-math.log(300.0) * t / steps)
        if new <= energy or rng.share() < math.exp((energy - new) / temperature):
            energy, kept = new, list(places)
        else:
            places = list(kept)
    return answer


def slow_windows(jobs, n_nodes, length, most_jobs, place, delay):
    """Windows second by second; ``place(idle, jobs, number)`` places those of several nodes.

    ``jobs`` are (submission, run time, nodes) by submission, the first at 0; ``delay(n)`` is how long
    the solver takes for n jobs. Returns start and places of each job.
    """
    start, places, periods = [None] * len(jobs), [None] * len(jobs), [0] * len(jobs)
    queue, admitted, number, plan, news = [], 0, 0, [], False
    busy_until = {}  # place -> end
    t, closed_at = 0, -1
    while None in start or plan:
        for end in set(busy_until.values()):
            if end <= t:
                news = True
        busy_until = {place: end for place, end in busy_until.items() if end > t}
        again = True
        while again:
            again = False
            if plan and t >= plan[0]:
                for job, own in plan[1]:
                    if own is None:  # of one node: the first that is idle now
                        own = [next(p for p in range(n_nodes) if p not in busy_until)]
                    start[job], places[job] = t, sorted(own)
                    if jobs[job][1] > 0:
                        busy_until |= dict.fromkeys(own, t + jobs[job][1])
                    else:
                        news = True
                plan = []
            if plan or t % length or closed_at == t:
                continue
            closed_at = t
            while admitted < len(jobs) and jobs[admitted][0] < t:
                queue.append(admitted)
                admitted, news = admitted + 1, True
            if not news:
                continue
            news = False
            idle = [p for p in range(n_nodes) if p not in busy_until]
            left, picked, alone = len(idle), [], []
            for job in sorted(queue, key=lambda job: (-periods[job], jobs[job][2], job)):
                if jobs[job][2] > left or (jobs[job][2] > 1 and len(picked) == most_jobs):
                    break
                left -= jobs[job][2]
                (picked if jobs[job][2] > 1 else alone).append(job)
            queue = [job for job in queue if job not in picked + alone]
            for job in queue:
                periods[job] += 1
            if picked or alone:
                number += 1
                own = place(idle, [jobs[job][2] for job in picked], number) if picked else []
                todo = [*zip(picked, own, strict=True), *((job, None) for job in alone)]
                plan, again = (t + delay(len(todo)), todo), True
        t += 1
    return start, places


def as_windows(rng, tree, n_jobs, most_size, n_idle):
    """A random line of idle nodes and sizes that fit."""
    idle = np.sort(rng.choice(len(tree), n_idle, replace=False))
    sizes = []
    for _ in range(n_jobs):
        room = n_idle - sum(sizes)
        if room < 1:
            break
        sizes.append(int(rng.integers(1, min(most_size, room) + 1)))
    return idle, sizes
