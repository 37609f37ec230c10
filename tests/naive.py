"""Slow twins: the rules as they are written down, with nothing clever, sharing no code with the product."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np


def best_fit(submit, duration, mem, cpus, gpus, types, node_mem, node_cpus, node_gpus, node_types):
    """Best-fit bin packing of single-node jobs: at each moment look at every (job, node) pair again.

    ``duration`` is int64[n_nodes, n_jobs]; jobs stand in queue order. Returns start, end, node (−1 for
    a job that fits no empty node) and the most jobs that waited after the decisions of a moment.
    """
    n_jobs, n_nodes = len(submit), len(node_mem)
    start = np.full(n_jobs, -1, np.int64)
    end = np.full(n_jobs, -1, np.int64)
    where = np.full(n_jobs, -1, np.int64)
    runnable = np.zeros(n_jobs, np.bool_)
    for j in range(n_jobs):
        for n in range(n_nodes):
            if (
                node_mem[n] >= mem[j]
                and node_cpus[n] >= cpus[j]
                and node_gpus[n] >= gpus[j]
                and (gpus[j] == 0 or node_types[n] & types[j] != 0)
            ):
                runnable[j] = True
    now = submit[0]
    deepest = 0
    while True:
        while True:
            best = np.inf
            best_job = best_node = -1
            for n in range(n_nodes):
                free_mem, free_cpus, free_gpus = node_mem[n], node_cpus[n], node_gpus[n]
                for j in range(n_jobs):
                    if where[j] == n and end[j] > now:
                        free_mem -= mem[j]
                        free_cpus -= cpus[j]
                        free_gpus -= gpus[j]
                for j in range(n_jobs):
                    if submit[j] > now or start[j] >= 0 or not runnable[j]:
                        continue
                    if free_mem < mem[j] or free_cpus < cpus[j] or free_gpus < gpus[j]:
                        continue
                    if gpus[j] > 0 and node_types[n] & types[j] == 0:
                        continue
                    total = 0.0
                    k = 0
                    if mem[j] > 0:
                        total += (free_mem - mem[j]) / node_mem[n]
                        k += 1
                    if cpus[j] > 0:
                        total += (free_cpus - cpus[j]) / node_cpus[n]
                        k += 1
                    if gpus[j] > 0:
                        total += (free_gpus - gpus[j]) / node_gpus[n]
                        k += 1
                    margin = total / max(k, 1)
                    if margin < best or (margin == best and (j < best_job or (j == best_job and n < best_node))):
                        best, best_job, best_node = margin, j, n
            if best_job < 0:
                break
            start[best_job] = now
            end[best_job] = now + duration[best_node, best_job]
            where[best_job] = best_node
        waiting = 0
        later = np.int64(-1)
        for j in range(n_jobs):
            if submit[j] <= now and start[j] < 0 and runnable[j]:
                waiting += 1
            for moment in (submit[j], end[j]):
                if moment > now and (later < 0 or moment < later):
                    later = moment
        deepest = max(deepest, waiting)
        if later < 0:
            return start, end, where, deepest
        now = later


def application_run_times(jobs, node, applications, logged):
    """How long each job runs on one node, s: a dict per job, and per application; fractions, one job at a time.

    ``node`` has ``processor`` and ``spec``; an application has ``column op texts share speed`` (``share`` None = none),
    its speeds times faster than in the log. ``logged`` is the log's SPEC number; None, there or here, is the ratio 1.
    """
    spec = Fraction(1) if logged is None or node["spec"] is None else Fraction(logged) / Fraction(node["spec"])
    found = []
    for job in jobs:
        owner, rest, ratio = None, Fraction(1), Fraction(0)
        for one in applications:
            value = str(job.get(one["column"], "")).lower()
            if value and any(t == value if one["op"] == "=" else t in value for t in one["texts"]):
                owner = one
        if owner is not None:
            faster = owner["speed"].get(node["processor"])
            ratio = spec if faster is None else 1 / Fraction(faster)
        else:
            for one in applications:
                if one["share"] is None or job.get(one["column"], ""):
                    continue
                faster = one["speed"].get(node["processor"])
                if faster is not None:
                    ratio += Fraction(one["share"]) / Fraction(faster)
                    rest -= Fraction(one["share"])
            ratio += rest * spec
        found.append(math.ceil(job["run_time"] * ratio))
    return found
