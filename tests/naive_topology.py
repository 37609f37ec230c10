"""Slow twins of the allocators: who can be placed on a small tree at all, by the rules as they are printed."""

from __future__ import annotations

from itertools import combinations, product


def free_of(fabric, shape):
    """What is free, as sets: nodes per leaf, uplinks per leaf, spine links per (pod, switch)."""
    idle = fabric.leaf_idle.tolist()
    uplinks = [{i for i in range(shape.uplinks) if int(m) >> i & 1} for m in fabric.uplinks]
    spines = [{k for k in range(shape.spines) if int(m) >> k & 1} for m in fabric.spines]
    return idle, uplinks, spines


def tiers_can(n, fabric, shape):
    """T1, T2, T3, counting what is idle on allowed leaves."""
    idle, uplinks, spines = free_of(fabric, shape)
    allowed = [len(links) == int(mask).bit_count() for links, mask in zip(uplinks, shape.leaf_links, strict=True)]
    pods = [range(p * shape.leaves, (p + 1) * shape.leaves) for p in range(shape.pods)]
    if n <= shape.nodes:
        return any(count >= n for count in idle)
    room = [sum(idle[leaf] for leaf in pod if allowed[leaf]) for pod in pods]
    if n <= max(sum(shape.here[leaf * shape.nodes : (leaf + 1) * shape.nodes].sum() for leaf in pod) for pod in pods):
        return any(each >= n for each in room)
    untouched = [
        all(len(spines[p * shape.uplinks + i]) == shape.spines for i in range(shape.uplinks)) for p in range(shape.pods)
    ]
    return n <= sum(each for each, free in zip(room, untouched, strict=True) if free)


def isolated_can(n, fabric, shape):
    """One leaf, one pod or several pods by Jigsaw's conditions, in a tree with as many links as nodes."""
    idle, uplinks, spines = free_of(fabric, shape)
    if any(count >= n for count in idle):
        return True
    pods = [range(p * shape.leaves, (p + 1) * shape.leaves) for p in range(shape.pods)]
    return any(_one_pod(n, pod, idle, uplinks, shape) for pod in pods) or _pods(n, pods, idle, uplinks, spines, shape)


def _one_pod(n, pod, idle, uplinks, shape):
    for per_leaf in range(1, shape.nodes + 1):
        count, rest = divmod(n, per_leaf)
        able = [leaf for leaf in pod if idle[leaf] >= per_leaf]
        for leaves in combinations(able, count) if count else ():
            common = set.intersection(*(uplinks[leaf] for leaf in leaves))
            if len(common) < per_leaf:
                continue
            if rest == 0:
                return True
            for leaf in pod:
                if leaf not in leaves and idle[leaf] >= rest and len(common & uplinks[leaf]) >= rest:
                    return True
    return False


def _pods(n, pods, idle, uplinks, spines, shape):
    whole = [
        [leaf for leaf in pod if idle[leaf] == shape.nodes and len(uplinks[leaf]) == shape.uplinks] for pod in pods
    ]
    n_whole, rest = divmod(n, shape.nodes)
    for per_pod in range(1, shape.leaves + 1):
        count, more = divmod(n_whole, per_pod)
        for chosen in combinations(range(shape.pods), count) if count else ():
            if any(len(whole[p]) < per_pod for p in chosen):
                continue
            common = [set.intersection(*(spines[p * shape.uplinks + i] for p in chosen)) for i in range(shape.uplinks)]
            if any(len(links) < per_pod for links in common):
                continue
            if not more and not rest:
                return True
            others = [p for p in range(shape.pods) if p not in chosen]
            if any(_further(p, more, rest, pods, whole, common, idle, uplinks, spines, shape) for p in others):
                return True
    return False


def _further(p, more, rest, pods, whole, common, idle, uplinks, spines, shape):
    """Whether a pod holds ``more`` whole leaves and ``rest`` nodes, with links that are part of the common ones."""
    if len(whole[p]) < more:
        return False
    free = [len(common[i] & spines[p * shape.uplinks + i]) for i in range(shape.uplinks)]
    if min(free) < more:
        return False
    if rest == 0:
        return True
    for leaf, leaves in product(pods[p], combinations(whole[p], more)):
        able = {i for i in uplinks[leaf] if free[i] >= more + 1}
        if leaf not in leaves and idle[leaf] >= rest and len(able) >= rest:
            return True
    return False


def check_conditions(grant, shape):
    """A grant's links obey the conditions of an isolated job with full bandwidth (as many links as nodes)."""
    nodes = grant.nodes[: grant.n[0]].tolist()
    per_leaf = {
        leaf: sum(place // shape.nodes == leaf for place in nodes) for leaf in {i // shape.nodes for i in nodes}
    }
    masks = {leaf: int(m) for leaf, m in enumerate(grant.uplinks) if m}
    if len(per_leaf) == 1:
        assert not masks and not grant.spines.any()
        return
    assert set(masks) == set(per_leaf)
    assert all(masks[leaf].bit_count() == n for leaf, n in per_leaf.items())
    largest = max(per_leaf, key=per_leaf.get)
    smaller = [leaf for leaf, n in per_leaf.items() if n < per_leaf[largest]]
    assert len(smaller) <= 1
    assert all(masks[leaf] == masks[largest] for leaf in masks if leaf not in smaller)
    assert all(masks[leaf] & ~masks[largest] == 0 for leaf in smaller)
    per_pod = {}
    for leaf in per_leaf:
        per_pod.setdefault(leaf // shape.leaves, []).append(leaf)
    held = {(s // shape.uplinks, s % shape.uplinks): int(m) for s, m in enumerate(grant.spines) if m}
    if len(per_pod) == 1:
        assert not held
        return
    sizes = {pod: sum(per_leaf[leaf] for leaf in leaves) for pod, leaves in per_pod.items()}
    full = max(sizes, key=sizes.get)
    further = [pod for pod, n in sizes.items() if n < sizes[full]]
    assert len(further) <= 1 and all(leaf // shape.leaves in further for leaf in smaller)
    for i in range(shape.uplinks):
        for pod, leaves in per_pod.items():
            below = sum(masks[leaf] >> i & 1 for leaf in leaves)
            assert held.get((pod, i), 0).bit_count() == below
            assert held.get((pod, i), 0) & ~held[full, i] == 0
            assert pod in further or held[pod, i] == held[full, i]


class SlowEasy:
    """EASY on an allocator, told plainly: nothing is remembered between decisions but the reservation.

    ``allocate(sets, n)`` gives what a job would hold, or None; ``take`` and ``give`` change the sets,
    ``copy`` copies them. With ``counts`` only the number of reserved nodes counts; with ``hold`` reserved
    links are held before the reservation begins.
    """

    def __init__(self, allocate, take, give, copy, everything, queue_depth, counts, hold):
        self.allocate, self.take, self.give, self.copy = allocate, take, give, copy
        self.free, self.queue_depth, self.counts, self.hold = everything, queue_depth, counts, hold
        self.reservation = None

    def run(self, jobs):
        """Jobs are dicts of submit, run, limit and n in queue order; returns starts and what each held."""
        waiting, running, start, places = [], [], {}, {}
        pending = list(range(len(jobs)))
        while pending or running:
            now = min([jobs[j]["submit"] for j in pending[:1]] + [start[j] + jobs[j]["run"] for j in running])
            waiting += [j for j in pending if jobs[j]["submit"] == now]
            pending = [j for j in pending if jobs[j]["submit"] > now]
            for j in [j for j in running if start[j] + jobs[j]["run"] == now]:
                self.give(self.free, places[j])
                running.remove(j)
                self.reservation = None
            while waiting:
                j = self._next(now, jobs, waiting, running, start, places)
                if j is None:
                    break
                start[j] = now
                waiting.remove(j)
                self.take(self.free, places[j])
                if jobs[j]["run"] == 0:
                    self.give(self.free, places[j])
                    self.reservation = None
                else:
                    running.append(j)
        return start, places

    def _next(self, now, jobs, waiting, running, start, places):
        head = waiting[0]
        if self.reservation is None or self.reservation[0] != head:
            places[head] = self.allocate(self.free, jobs[head]["n"])
            if places[head] is not None:
                return head
            self.reservation = (head, *self._reserve(jobs[head]["n"], jobs, running, start, places))
        _, shadow, reserved, extra = self.reservation
        for j in waiting[1 : self.queue_depth]:
            n, across = jobs[j]["n"], now + jobs[j]["limit"] > shadow
            view = self.copy(self.free)
            if not self.counts and (across or self.hold):
                self.take(view, reserved if across else (set(), *reserved[1:]))
            if self.counts and across and n > extra:
                continue
            places[j] = self.allocate(view, n)
            if places[j] is not None:
                if across:
                    self.reservation = (head, shadow, reserved, extra - n)
                return j
        return None

    def _reserve(self, n, jobs, running, start, places):
        ahead = self.copy(self.free)
        for end in sorted({start[j] + jobs[j]["limit"] for j in running}):
            for j in running:
                if start[j] + jobs[j]["limit"] == end:
                    self.give(ahead, places[j])
            found = self.allocate(ahead, n)
            if found is not None:
                return end, found, len(ahead[0]) - n
        raise AssertionError("an empty tree holds every job")
