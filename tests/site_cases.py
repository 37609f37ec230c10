"""Random sites and jobs, one feature at a time, on which policy slurm must equal its slow twin."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.site.model import (
    Association,
    Latency,
    Limits,
    NodeEvent,
    Partition,
    Preemption,
    Priority,
    Qos,
    Reservation,
    Scheduler,
    Select,
    Site,
)
from procure.tables import JOB, NODE, check

FEATURES = (
    "priority", "partitions", "qos", "associations", "arrays", "dependencies", "reservations", "backfill",
    "constraints", "gpus", "whole", "all-memory", "events", "topology", "least-loaded", "basic", "preempt-qos",
    "preempt-partition", "failures", "grace", "slices", "large",
)  # fmt: skip
_USERS = {"u1": "a", "u2": "a", "u3": "b", "u4": "c"}


def site_case(feature: str, seed: int) -> tuple[Site, pd.DataFrame, pd.DataFrame]:
    """Return a site, its nodes and 40 jobs, or 80 on a large one, in which the feature decides much."""
    rng = np.random.default_rng([FEATURES.index(feature), seed])
    n_jobs, n_nodes = (80, int(rng.integers(63, 100))) if feature == "large" else (40, int(rng.integers(2, 8)))
    nodes = pd.DataFrame(
        {
            "node_id": [f"n{n}" for n in range(n_nodes)],
            "cpus": rng.choice([4, 8], n_nodes),
            "mem_mb": rng.choice([8000, 16000], n_nodes),
            "gpus": rng.choice([0, 2], n_nodes) if feature == "gpus" else 0,
            "features": rng.choice(["x", "y", "x,y"], n_nodes),
            "weight": rng.choice([1, 5], n_nodes),
            "leaf": np.arange(n_nodes) // 2,
        }
    )
    run = rng.choice([0, 3, 20, 50, 90], n_jobs)
    jobs = pd.DataFrame(
        {
            "job_id": [str(n) for n in range(n_jobs)],
            "user": rng.choice(list(_USERS), n_jobs),
            "submit_time": np.sort(rng.integers(0, 200, n_jobs)),
            "requested_time": rng.choice([60, 120, 600], n_jobs),
            "run_time": run,
            "n_nodes": rng.choice([1, 1, 1, 2], n_jobs),
            "cpus_per_node": rng.choice([1, 2, 4], n_jobs),
            "mem_mb_per_node": rng.choice([0, 1000, 7000], n_jobs),
        }
    )
    settings = {
        "enforce": ("limits",),
        "priority": Priority(
            weight_age=1000, weight_fair_share=5000, weight_job_size=500, weight_qos=800, weight_partition=700,
            max_age=300, calc_period=60, decay_half_life=int(rng.choice([0, 120])),
        ),
        "scheduler": Scheduler(
            bf_interval=int(rng.choice([10, 30])), bf_resolution=int(rng.choice([1, 30, 60])),
            sched_min_interval=float(rng.choice([2e-6, 5])), defer=bool(rng.random() < 0.2),
        ),
        "latency": Latency(
            job_end=float(rng.choice([0, 0.006, 0.5, 1.8])), pass_at_end=float(rng.choice([0, 0.3, 1])),
            clock=float(rng.choice([-3, -2.5, -2.013])),
        ),
        "select": Select(def_mem_per_cpu_mb=[None, 1500][rng.integers(2)]),
        "partitions": (Partition(name="p", nodes="ALL", default=True),),
        "associations": tuple(
            [Association(account=a, shares=s) for a, s in (("a", 5), ("b", 3), ("c", 1))]
            + [Association(account=a, user=u) for u, a in _USERS.items()]
        ),
        "qos": (Qos(name="normal"), Qos(name="high", priority=10)),
    }  # fmt: skip
    globals()[f"_{feature.replace('-', '_')}"](rng, settings, jobs, nodes)
    return Site(**settings), check(nodes, NODE), check(jobs, JOB)


def _priority(rng, settings, jobs, nodes):
    jobs["qos"] = rng.choice(["", "high"], len(jobs))
    flags = [(), ("no_fair_tree",), ("no_fair_tree", "incr_only"), ("accrue_always",)][rng.integers(4)]
    settings["priority"] = settings["priority"].model_copy(update={"flags": flags, "damping": int(rng.choice([1, 3]))})
    above = str(rng.choice(["root", "b"]))
    settings["associations"] = tuple(
        each.model_copy(update={"parent": above}) if (each.account, each.user) == ("c", "") else each
        for each in settings["associations"]
    )


def _basic(rng, settings, jobs, nodes):
    settings["priority"] = Priority(type="basic")
    jobs["nice"] = rng.choice([0, 0, 0, 7], len(jobs))


def _partitions(rng, settings, jobs, nodes):
    capped = [None, 2, 3][rng.integers(3)]
    half = ",".join(nodes["node_id"].iloc[: max(1, len(nodes) // 2)])
    settings["partitions"] += (
        Partition(name="short", nodes=half, max_time=120, priority_job_factor=5, max_cpus_per_node=capped),
        Partition(name="first", nodes="ALL", priority_tier=3),
    )
    jobs["partition"] = rng.choice(["", "short", "first", "short,p", "first,short,p"], len(jobs))
    jobs["job_id"] = [f"{n // 3}_{n % 3}" if n % 5 else str(n) for n in range(len(jobs))]


def _stopped(rng, settings):
    stops = bool(rng.random() < 0.4)
    settings["scheduler"] = settings["scheduler"].model_copy(update={"assoc_limit_stop": stops})


def _qos(rng, settings, jobs, nodes):
    _stopped(rng, settings)
    settings["qos"] += (
        Qos(name="few", limits=Limits(grp_jobs=2, grp_tres={"cpu": 6})),
        Qos(name="each", limits=Limits(max_jobs_per_user=1, max_tres_per_account={"cpu": 6})),
        Qos(name="part", limits=Limits(grp_tres={"node": 3}, grp_tres_run_mins={"cpu": 60})),
    )
    settings["partitions"] += (Partition(name="q", nodes="ALL", qos="part"),)
    jobs["partition"] = rng.choice(["", "q", "p,q"], len(jobs))
    jobs["qos"] = rng.choice(["", "few", "each"], len(jobs))


def _associations(rng, settings, jobs, nodes):
    _stopped(rng, settings)
    settings["priority"] = settings["priority"].model_copy(update={"decay_half_life": 120})
    limits = {"a": Limits(grp_tres={"cpu": 6, "mem": 9000}), "b": Limits(grp_jobs=1), "c": Limits(max_jobs=1)}
    more = {"u1": Limits(max_jobs=2), "u2": Limits(grp_tres_mins={"cpu": 6})}
    settings["associations"] = tuple(
        each.model_copy(update={"limits": (more if each.user else limits).get(each.user or each.account, Limits())})
        for each in settings["associations"]
    )


def _arrays(rng, settings, jobs, nodes):
    array = rng.integers(0, 6, len(jobs))
    count = [int((array[:n] == array[n]).sum()) for n in range(len(jobs))]
    jobs["job_id"] = [f"{a}_{k}" for a, k in zip(array, count, strict=True)]
    jobs["array_limit"] = np.array([0, 1, 2, 0, 3, 0])[array]


def _dependencies(rng, settings, jobs, nodes):
    kinds = ["", "afterok:", "afterany:", "after:", "afternotok:"]
    text = []
    for n in range(len(jobs)):
        kind = str(rng.choice(kinds)) if n else ""
        text.append(f"{kind}{rng.integers(0, n)}" if kind else "")
        if kind and rng.random() < 0.3:
            text[n] += f"?{rng.choice(kinds[1:])}{rng.integers(0, n)}"
    jobs["dependency"] = text
    jobs["begin_after"] = rng.choice([0, 0, 60], len(jobs))


def _reservations(rng, settings, jobs, nodes):
    first = int(jobs["submit_time"].iloc[0])
    settings["reservations"] = (
        Reservation(name="r", start=first + 60, end=first + int(rng.choice([150, 9000])), nodes="n0"),
        Reservation(name="m", start=first + 100, end=first + 400, nodes="n1", flags=("MAINT",)),
    )
    jobs["reservation"] = rng.choice(["", "", "", "r"], len(jobs))
    jobs["n_nodes"] = 1


def _backfill(rng, settings, jobs, nodes):
    settings["scheduler"] = Scheduler(
        bf_interval=10, bf_resolution=int(rng.choice([1, 30])), bf_max_job_user=int(rng.choice([0, 3])),
        bf_max_job_test=int(rng.choice([5, 100])), bf_max_job_part=int(rng.choice([0, 6])),
        bf_max_job_start=int(rng.choice([0, 2])), bf_window=int(rng.choice([300, 7200])),
        default_queue_depth=int(rng.choice([3, 100])), bf_min_age_reserve=int(rng.choice([0, 60])),
        bf_job_part_count_reserve=int(rng.choice([0, 2])), sched_interval=30,
    )  # fmt: skip
    jobs["n_nodes"] = rng.choice([1, 1, 2, len(nodes)], len(jobs))
    settings["licenses"] = {"a": 1}
    jobs["licenses"] = rng.choice(["", "", "a"], len(jobs))


def _constraints(rng, settings, jobs, nodes):
    texts = ["", "x", "y", "x&y", "x|y", "[x*1&y*1]", "[x|y]", "x&(y|x)"]
    jobs["constraint"] = rng.choice(texts, len(jobs))
    counted = jobs["constraint"] == "[x*1&y*1]"
    jobs.loc[counted, "n_nodes"] = rng.integers(1, 4, int(counted.sum()))


def _gpus(rng, settings, jobs, nodes):
    jobs["gpus_per_node"] = rng.choice([0, 0, 1, 2], len(jobs))
    jobs["gpu_type"] = rng.choice(["", "k"], len(jobs))
    nodes["gpu_type"] = rng.choice(["", "k", "l"], len(nodes))


def _slices(rng, settings, jobs, nodes):
    """Some nodes have two whole GPUs and three slices; jobs ask for either, or for any."""
    jobs["gpus_per_node"] = rng.choice([0, 1, 1, 2], len(jobs))
    jobs["gpu_type"] = rng.choice(["", "k", "k_1g.5gb"], len(jobs))
    jobs["exclusive"] = rng.choice(["", "", "", "1"], len(jobs))
    kinds = [(5, "2x k + 3x k_1g.5gb"), (2, "k"), (0, "")]
    picked = [kinds[i] for i in (0, *rng.integers(0, len(kinds), len(nodes) - 1))]
    nodes["gpus"], nodes["gpu_type"] = [n for n, _ in picked], [text for _, text in picked]


def _whole(rng, settings, jobs, nodes):
    if rng.random() < 0.4:
        settings["select"] = Select(consume="node")
    settings["partitions"] += (Partition(name="w", nodes="ALL", oversubscribe="exclusive"),)
    jobs["partition"] = rng.choice(["", "", "w"], len(jobs))
    jobs["exclusive"] = rng.choice(["", "", "1"], len(jobs))


def _all_memory(rng, settings, jobs, nodes):
    """All memory of nodes, or all of them, of unlike nodes that limits count once they are chosen."""
    _whole(rng, settings, jobs, nodes)
    jobs["all_memory"] = rng.choice(["", "", "True"], len(jobs))
    billed = {"cpu": 1.0, "mem": 0.001}
    settings["partitions"] = tuple(
        each.model_copy(update={"billing_weights": billed}) for each in settings["partitions"]
    )
    settings["qos"] = (Qos(name="normal", limits=Limits(grp_tres={"cpu": int(nodes["cpus"].max() * 2)})),)
    if rng.random() < 0.5:
        settings["qos"][0].limits.max_tres_per_job["cpu"] = int(nodes["cpus"].max() * 3 // 2)


def _large(rng, settings, jobs, nodes):
    """Nodes that jobs take whole, in several words of a set: they are counted."""
    settings["partitions"] = (Partition(name="w", nodes="ALL", default=True, oversubscribe="exclusive"),)
    settings["scheduler"] = Scheduler(
        bf_interval=60, bf_resolution=int(rng.choice([1, 60])), bf_window=int(rng.choice([1800, 86_400])),
        bf_max_job_user=int(rng.choice([0, 25])),
    )  # fmt: skip
    jobs["n_nodes"] = rng.choice([1, 1, 1, 1, 2, 3, 9, len(nodes) // 3], len(jobs))
    jobs["requested_time"] = rng.choice([60, 300, 900], len(jobs))
    jobs["run_time"] = (jobs["requested_time"] * rng.choice([0.05, 0.3, 0.8, 1], len(jobs))).astype(int)
    jobs["mem_mb_per_node"] = rng.choice(1000 * np.arange(1, rng.choice([2, 13]), 11), len(jobs))


def _events(rng, settings, jobs, nodes):
    first = int(jobs["submit_time"].iloc[0])
    settings["events"] = tuple(
        NodeEvent(nodes=name, start=first + int(rng.integers(0, 200)), end=first + int(rng.integers(200, 500)))
        for name in nodes["node_id"].iloc[::2]
    )


def _failures(rng, settings, jobs, nodes):
    """Nodes go down under jobs, some while they are drained; in every third case jobs end each other, too."""
    if rng.integers(3) == 0:
        _preempt_qos(rng, settings, jobs, nodes)
    else:
        settings["preemption"] = _preemption(rng, "none")
    first = int(jobs["submit_time"].iloc[0])
    settings["events"] = tuple(
        NodeEvent(
            nodes=str(rng.choice(nodes["node_id"])), start=(start := first + int(rng.integers(-10, 400))),
            end=start + int(rng.choice([1, 30, 200])), state=str(rng.choice(["down", "down", "drain"])),
        )
        for _ in range(int(rng.integers(2, 8)))
    )  # fmt: skip
    jobs["run_time"] = rng.choice([0, 3, 50, 90, 300], len(jobs))
    jobs["n_nodes"] = rng.choice([1, 1, 2], len(jobs))


def _topology(rng, settings, jobs, nodes):
    settings["select"] = Select(topology="tree")
    jobs["n_nodes"] = rng.choice([1, 2, 3], len(jobs))


def _least_loaded(rng, settings, jobs, nodes):
    settings["select"] = Select(lln=True)


def _preemption(rng, kind):
    return Preemption(
        type=kind, mode=str(rng.choice(["requeue", "cancel"])), requeue_delay=int(rng.choice([0, 20, 120])),
        reorder_count=int(rng.choice([0, 1, 3])), youngest_first=bool(rng.integers(2)),
        patience=int(rng.choice([5, 40])), strict_order=bool(rng.integers(4) == 0),
        exempt_time=int(rng.choice([0, 0, 15])), requeue=bool(rng.integers(4)),
    )  # fmt: skip


def _grace(rng, settings, jobs, nodes):
    """Jobs that give way go on for a while; their modes and partitions are those of the other cases."""
    if rng.integers(2):
        _preempt_qos(rng, settings, jobs, nodes)
        settings["qos"] = tuple(
            each.model_copy(update={"grace_time": int(rng.choice([0, 10, 45]))}) for each in settings["qos"]
        )
    else:
        _preempt_partition(rng, settings, jobs, nodes)
        settings["partitions"] = tuple(
            each.model_copy(update={"grace_time": int(rng.choice([0, 10, 45]))}) for each in settings["partitions"]
        )
    if rng.integers(3) == 0:
        _events(rng, settings, jobs, nodes)
        settings["events"] = tuple(each.model_copy(update={"state": "down"}) for each in settings["events"])


def _preempt_qos(rng, settings, jobs, nodes):
    settings["preemption"] = _preemption(rng, "qos")
    settings["qos"] = (
        Qos(name="normal", preempt=("low",)), Qos(name="low", preempt_mode="requeue", limits=Limits(grp_jobs=6)),
        Qos(name="part", exempt_time=int(rng.choice([0, 30]))),
        Qos(name="high", priority=10, preempt=("low", "normal")),
    )  # fmt: skip
    if rng.integers(3) == 0:
        settings["partitions"] += (Partition(name="q", nodes="ALL", qos="part"),)
        jobs["partition"] = rng.choice(["", "q"], len(jobs))
    if rng.integers(3) == 0:
        settings["scheduler"] = Scheduler(bf_interval=10, bf_min_age_reserve=30, bf_job_part_count_reserve=2)
    jobs["qos"] = rng.choice(["", "low", "low", "high"], len(jobs))
    jobs["run_time"] = rng.choice([0, 3, 50, 90], len(jobs))


def _preempt_partition(rng, settings, jobs, nodes):
    settings["preemption"] = _preemption(rng, "partition")
    half = ",".join(nodes["node_id"].iloc[: max(1, len(nodes) // 2)])
    settings["partitions"] += (
        Partition(name="owner", nodes=half, priority_tier=9, preempt_mode="off"),
        Partition(name="spare", nodes="ALL", priority_tier=0, preempt_mode="cancel"),
        Partition(name="whole", nodes="ALL", priority_tier=5, oversubscribe="exclusive"),
    )
    jobs["partition"] = rng.choice(["", "spare", "owner", "whole", "spare,owner", "whole,spare"], len(jobs))
    jobs["run_time"] = rng.choice([0, 3, 50, 90], len(jobs))
