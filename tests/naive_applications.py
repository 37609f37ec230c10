"""The slow twin of run times by application: fractions, one job at a time, sharing no code with the product."""

from __future__ import annotations

import math
from fractions import Fraction


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
