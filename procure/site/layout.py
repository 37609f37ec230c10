"""A site, its nodes and a job table as the arrays that the policy works on.

Everything that depends only on a job's request is decided here, once: which nodes it may use, which limits bind it,
what its priority is but for age and fair share, and whether it can ever start.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.simulator.arrays import gpu_fields, gpus_of, node_words, request_words, task_columns, with_tasks
from procure.simulator.tasks import GUARDS, enough
from procure.site.arrays import ALL_MEMORY, EACH_CPU, WHOLE, Layout, Nodes, Places, Requests
from procure.site.closed import closed_nodes
from procure.site.constraints import constraint_groups
from procure.site.fair_share import base_priority, fair_tree, job_size, usage_before
from procure.site.limits import exceeded, limit_rows, most_nodes
from procure.site.model import Site
from procure.site.names import Known
from procure.site.partitions import in_each_partition
from procure.site.preemption import preemption

_ALIKE = ("cpus", "mem_mb", "gpus", "gpu_type", "features", "weight")
NO_NODES = "no nodes of its partition and constraint hold it"
_MOST_TOGETHER = 4
"""Groups of a constraint of which it is found out whether enough nodes hold them together; more are rare."""
TOO_MANY_COUNTED = "its constraint counts more nodes than it asks for"


def lay_out(site: Site, nodes: pd.DataFrame, jobs: pd.DataFrame) -> Layout:
    """Lay a site and its jobs out.

    Parameters
    ----------
    site
        The rules.
    nodes
        Its node table, with features and weights.
    jobs
        A checked job table in queue order (by submission, then row).

    Raises
    ------
    TableError
        The site has no default partition for jobs that name none, or a constraint cannot be read.
    """
    first, n_jobs = int(jobs["submit_time"].iloc[0]), len(jobs)
    jobs, of_job = in_each_partition(jobs)
    known = Known(site, nodes, jobs, of_job)
    places, place_of = _places(known)
    whole, all_memory = known.whole(), known.all_memory()
    limit = known.limits_of_time()
    fields = gpu_fields(jobs, nodes)
    units, tasks = _units(known, jobs, fields)
    flexible, count, least = tasks.flexible > 0, units.n, tasks.least
    tasks = tasks._replace(node_mem=np.where(all_memory, 0, tasks.node_mem))
    n_cpus, memory, gpus = units.cpus, np.where(all_memory, 0, units.mem), units.gpus
    unit = {"node": "", "socket": "cpus_per_socket"}.get(site.select.consume, "threads_per_core")
    core = np.maximum(nodes[unit].fillna(1).to_numpy(np.int64), 1) if unit in nodes else np.ones(len(nodes), np.int64)
    counted = np.ones_like(core) if site.select.consume == "cpu" else core  # under CR_CPU cores only keep others off
    per_core = int(counted[0]) if (counted == counted[0]).all() else 1  # where nodes differ, each rounds up (`taken`)
    own_cores, step = known.own_cores(), np.maximum(task_columns(jobs)["cpus_per_task"], 1)
    of_task = np.where(own_cores == EACH_CPU, step * per_core, step + own_cores * (-step % per_core))
    of_tasks = np.where(own_cores > 0, n_cpus // step * of_task, n_cpus)
    n_cpus = np.where(flexible, n_cpus, -(-of_tasks // per_core) * per_core)
    more_memory = (n_cpus - units.cpus) * known.memory_per_cpu()
    memory = memory + np.where(flexible | all_memory | (own_cores == EACH_CPU), 0, more_memory)
    n_asked = -(-count * np.where(flexible, of_tasks, n_cpus) // per_core) * per_core
    widest = counted.max() if len(np.unique(counted)) > 1 else 1  # the most it may come to; `over_chosen` counts anew
    n_held = count * np.where(flexible, -(-of_tasks // per_core) * per_core, n_cpus)
    n_held = n_held if widest == 1 else count * n_cpus * np.where(own_cores > 0, widest, 1)
    n_held = np.where(whole, least * known.of_whole_nodes("cpus"), n_held + count * (-n_cpus % widest))
    amounts = {
        "jobs": np.ones(len(jobs)), "cpu": n_held.astype(float),
        "mem": (
            count * memory + least * np.where(all_memory, known.of_whole_nodes("mem_mb"), tasks.node_mem)
        ).astype(float),
        "node": least.astype(float), "gres/gpu": (count * gpus + least * units.node_gpus).astype(float),
    }  # fmt: skip
    amounts |= known.by_model(known.gpu_type, amounts["gres/gpu"])
    amounts["billing"] = known.billing(amounts | {"mem": amounts["mem"] * int(site.select.memory)})
    classes, class_of = known.classes()
    rows = limit_rows(site, classes, class_of, amounts, {"cpu": n_asked.astype(float)}, known.licenses)
    tree, association_of = fair_tree(site, known.account, known.user)
    billing, factor = amounts["billing"], known.usage_factor()
    per_cpu, per_mb = known.weight_of("cpu") * factor, known.weight_of("mem") * factor * int(site.select.memory)
    tree = tree._replace(usage=usage_before(site, tree, association_of, billing, factor, jobs))
    # Priority and limits go by the nodes asked for, places by those that tasks need (--ntasks-per-node).
    needed = np.maximum(least, -(-count // tasks.most))
    held = [len(nodes) if each.max_nodes is None else each.max_nodes for each in site.partitions]
    most = np.array([most_nodes(site, each) for each in classes], np.int64)[class_of]
    spread = np.minimum(tasks.spread, np.minimum(most, np.array(held, np.int64)[known.partition_of]))
    tasks = tasks._replace(least=needed, want=np.maximum(np.minimum(tasks.want, spread), needed), spread=spread)
    asked = amounts | {"cpu": (count * n_cpus).astype(float)}
    stated = amounts | {"cpu": (count * np.where(flexible, n_cpus, of_tasks)).astype(float)}
    grown = job_size(known, asked, limit)
    differs = np.bincount(np.repeat(np.arange(len(limit)), np.diff(rows.first)), rows.asked != rows.amount, len(limit))
    grows = (whole & ~all_memory) | ((flexible | (len(np.unique(counted)) > 1)) & (counted.max() > 1))
    grows = grows & ~all_memory & ((grown["per_size"] != 0) | (differs > 0))
    cpus = nodes["cpus"].to_numpy(np.int64).copy()
    cap, capped = _caps(known, cpus, whole)
    requests = Requests(
        submit=jobs["submit_time"].to_numpy(np.int64) - first,
        eligible=known.eligible(first),
        limit=limit,
        n_nodes=np.where(flexible, np.minimum(tasks.spread, len(nodes)), count),
        cpus=n_cpus,
        mem=memory * int(site.select.memory),
        **tasks._replace(node_mem=tasks.node_mem * int(site.select.memory))._asdict(),
        own_cores=own_cores,
        step=step,
        mem_per_cpu=known.memory_per_cpu() * int(site.select.memory),
        gpus=units.words,
        in_order=((units.gpus > 0) & (task_columns(jobs)["gpus_per_task"] == 0)).astype(np.int64),
        whole=WHOLE * whole + ALL_MEMORY * all_memory,
        partition=known.partition_of,
        tier=np.array([each.priority_tier for each in site.partitions], np.int64)[known.partition_of],
        cap=cap,
        lln=known.of_partition(lambda each: each.lln or site.select.lln),
        user=pd.factorize(np.array(known.user, object))[0].astype(np.int64),
        association=association_of,
        base=base_priority(known, asked, stated, limit),
        **grown,
        billing=billing * factor - amounts["cpu"] * per_cpu - amounts["mem"] * per_mb,
        per_cpu=per_cpu,
        per_mb=per_mb,
        grows=grows.astype(np.int64),
        place=place_of,
        reservation=known.reservation(),
        **known.arrays(),
        **known.dependencies(),
        **preemption(known),
    )
    node_gpus = node_words(nodes, fields).copy()
    node_mem = nodes["mem_mb"].to_numpy(np.int64).copy() if site.select.memory else np.zeros(len(nodes), np.int64)
    layout_nodes = Nodes(
        cpus,
        core,
        node_mem,
        node_gpus,
        nodes["weight"].fillna(1).to_numpy(np.int64) if "weight" in nodes else np.ones(len(nodes), np.int64),
        nodes.groupby([name for name in _ALIKE if name in nodes], sort=False, dropna=False).ngroup().to_numpy(np.int64),
        nodes["leaf"].fillna(-1).to_numpy(np.int64)
        if site.select.topology != "none" and "leaf" in nodes
        else np.zeros(len(nodes), np.int64),
        None if fields is None else GUARDS,
        np.stack([cpus, node_mem, node_gpus, *capped]),
    )
    # Slurm refuses by the CPUs asked for; a job whose whole nodes exceed a limit waits until others would not.
    asked = amounts | {"cpu": n_asked.astype(float)}
    why = _rejections(known, layout_nodes, requests, places, asked, classes, class_of)
    reasons, left = _refused(known, why)
    requests = requests._replace(**known.dependencies(left))
    refused = np.zeros(n_jobs, bool)
    for found in reasons.values():
        refused[found] = True
    return Layout(
        layout_nodes,
        requests,
        places,
        rows,
        tree,
        known.partition_nodes,
        closed_nodes(known, first),
        np.array([each.over for each in site.reservations] + [first], np.int64) - first,
        of_job,
        np.array([bool(each) for each in why]) | refused[of_job],
        refused,
        reasons,
    )


class Units(NamedTuple):
    """What jobs ask for in equal units, int64[n_jobs] each: nodes, or tasks that go wherever there is room."""

    n: np.ndarray
    cpus: np.ndarray
    mem: np.ndarray  # MB, the default where the job does not say
    gpus: np.ndarray
    words: np.ndarray  # GPUs, packed
    node_gpus: np.ndarray  # GPUs of each node beside


class TaskColumns(NamedTuple):
    """The fields of `Requests` by which tasks are placed."""

    flexible: np.ndarray
    units: np.ndarray
    least: np.ndarray
    want: np.ndarray
    spread: np.ndarray
    most: np.ndarray
    even: np.ndarray
    node_mem: np.ndarray
    node_gpus: np.ndarray


def _units(known: Known, jobs: pd.DataFrame, fields: Any) -> tuple[Units, TaskColumns]:
    """Return what jobs ask for in units; tasks of which each node must hold equally many are nodes."""
    of = task_columns(jobs)
    n_tasks, n_nodes = of["n_tasks"], jobs["n_nodes"].to_numpy(np.int64)
    of_tasks = n_tasks > 0
    cpus = np.where(of_tasks, of["cpus_per_task"], jobs["cpus_per_node"].to_numpy(np.int64))
    gpus = gpus_of(jobs)
    of_unit = np.where(of_tasks & (of["gpus_per_task"] == 0), gpus / np.maximum(n_tasks, 1), gpus)
    cpus = np.maximum(cpus, np.ceil(known.per_gpu("def_cpu_per_gpu", "cpu") * of_unit).astype(np.int64))
    of_gpus = np.ceil(known.per_gpu("def_mem_per_gpu_mb", "mem") * of_unit).astype(np.int64)
    memory = np.where(of_gpus > 0, of_gpus, known.memory(cpus))
    per_task = np.where(of_gpus > 0, of_gpus, of["mem_mb_per_task"])
    by_task = of_tasks & ((per_task > 0) | (known.memory_per_cpu() > 0))
    own = jobs.assign(
        mem_mb_per_task=np.where(by_task, np.where(per_task > 0, per_task, memory), 0),
        mem_mb_per_node=np.where(by_task, 0, memory),
        cpus_per_task=np.where(of_tasks, cpus, of["cpus_per_task"]),
    )
    words = request_words(jobs, fields)
    asked = np.stack([n_nodes, cpus, own["mem_mb_per_node"].to_numpy(np.int64), gpus, 0 * gpus, words])
    (n, cpus, mem, gpus, _, words), asks = with_tasks(own, asked)
    none = 0 * n
    if asks is None:
        return Units(n, cpus, mem, gpus, words.copy(), none), TaskColumns(none, n, n, n, n, none + 1, none, none, none)
    flexible = (asks.most > 1).astype(np.int64)
    least = np.where(flexible, asks.min_nodes, n)
    want = np.where(flexible & (of["max_nodes"] > 0), asks.max_nodes, least)
    even = flexible * (of["tasks_per_node"] > 0)
    return Units(n, cpus, mem, gpus, words.copy(), asks.node_gpus), TaskColumns(
        flexible, n, least, want, asks.max_nodes, asks.most, even, asks.node_mem, asks.node_words
    )


def _caps(known: Known, cpus: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return `Requests.cap` and the rows of `Nodes.totals` that it means.

    Where MaxCPUsPerNode leaves less than all CPUs, Slurm refuses jobs that take nodes whole.
    """
    row_of: list[int] = []
    rows: list[np.ndarray] = []
    for each in known.site.partitions:
        most = each.max_cpus_per_node
        row_of.append(0 if most is None else 3 + len(rows))
        rows += [] if most is None else [np.minimum(cpus, most), np.where(cpus > most, 0, cpus)]
    cap = np.array(row_of, np.int64)[known.partition_of]
    return cap + (whole & (cap > 0)), rows


def _places(known: Known) -> tuple[Places, np.ndarray]:
    """Number the combinations of partition and constraint, and find the nodes of each."""
    features = [set(filter(None, text.split(","))) for text in known.features]
    texts = known.text("constraint")
    nodes = known.jobs["n_nodes"].tolist()
    n_counted = [n if "*" in text else 0 for n, text in zip(nodes, texts, strict=True)]
    keys = list(zip(known.partition_of.tolist(), texts, known.gpu_type, n_counted, strict=True))
    number: dict[tuple[int, str, str, int], int] = {}
    of_job = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
    first, masks, reach, counts, counted = [0], [], [], [], []
    for partition, text, gpu_type, n_nodes in number:
        base = known.partition_nodes[partition] & known.has_gpu_type(gpu_type)
        groups = constraint_groups(text, features) if text else [(np.ones(len(base), bool), 0)]
        if n_nodes:  # what is not counted may be any node (sbatch(1), Multiple Counts)
            groups = [each for each in groups if each[1] > 0]
            rest = n_nodes - sum(count for _, count in groups)
            groups += [(np.ones(len(base), bool), rest)] if rest > 0 else []
            n_named = len(groups) - (rest > 0)
        for i, (mask, count) in enumerate(groups):
            masks.append(base & mask)
            reach.append(known.partition_nodes[partition] & mask)
            counts.append(count)
            counted.append(n_nodes > 0 and i < n_named)
        first.append(len(masks))
    places = Places(
        np.array(first, np.int64), np.array(masks, bool), np.array(counts, np.int64), np.array(reach, bool),
        np.array(counted, bool),
    )  # fmt: skip
    return places, of_job


def _rejections(
    known: Known,
    nodes: Nodes,
    jobs: Requests,
    places: Places,
    amounts: dict[str, np.ndarray],
    classes: list[tuple[str, ...]],
    class_of: np.ndarray,
) -> list[str]:
    """Say of each row why it can never start in its partition; empty = it may."""
    found: list[str] = []
    settled: dict[tuple, str] = {}
    # A node must have the memory, even where jobs do not take it away from each other.
    memory, most = known.jobs["mem_mb_per_node"].to_numpy(np.int64), known.nodes["mem_mb"].max()
    if "mem_mb_per_task" in known.jobs:
        memory = np.maximum(memory, known.jobs["mem_mb_per_task"].to_numpy(np.int64))
    for job in range(len(jobs.n_nodes)):
        asked = (jobs.cpus[job], jobs.mem[job], jobs.gpus[job], jobs.n_nodes[job], jobs.limit[job], memory[job] > most)
        names = (
            known.given_partition[job],
            known.given_account[job],
            known.given_qos[job],
            known.given_reservation[job],
            *known.licenses[job].items(),
            *known.asked[:, job],
        )
        tasks = (jobs.units[job], jobs.least[job], jobs.spread[job], jobs.most[job], jobs.node_mem[job])
        reserved = (known.time_of[job], known.reservation_over[job])
        key = (*asked, *tasks, jobs.node_gpus[job], jobs.place[job], class_of[job], *names, *reserved)
        if key not in settled:
            why = known.refusal(job)
            wanted = places.wanted[places.first[jobs.place[job]] : places.first[jobs.place[job] + 1]]
            if not why and wanted.sum() > jobs.n_nodes[job]:
                why = TOO_MANY_COUNTED
            if not why and (memory[job] > most or not _fits(nodes, places, jobs, job)):
                why = NO_NODES
            if not why:
                of_job = {name: each[job] for name, each in amounts.items()}
                why = exceeded(known.site, classes[class_of[job]], of_job, int(jobs.least[job]), int(asked[4]))
            settled[key] = why
        found.append(settled[key])
    return found


def _refused(known: Known, why: list[str]) -> tuple[dict[str, np.ndarray], list[list[list[tuple[str, int]]]]]:
    """Return the jobs that can never start, by reason, each has one; and the dependencies that may be satisfied."""
    found: dict[str, list[int]] = {}
    taken = {int(job) for job, reason in zip(known.job, why, strict=True) if not reason}
    for job, reason in enumerate(why[: known.n_jobs]):
        if job not in taken:
            found.setdefault(reason, []).append(job)
    rejected = {job for rows in found.values() for job in rows}
    hopeless, left = known.never_satisfied(rejected | set(known.failing().tolist()))
    if new := [job for job in hopeless if job < known.n_jobs and job not in rejected]:
        found["a dependency that is never satisfied"] = new
    return {why: np.array(rows, np.int64) for why, rows in found.items()}, left


def _fits(nodes: Nodes, places: Places, jobs: Requests, job: int) -> bool:
    """Say whether the empty nodes hold a job."""
    if jobs.flexible[job]:
        return _tasks_fit(nodes, places, jobs, job)
    holds = (nodes.totals[jobs.cap[job]] >= jobs.cpus[job]) & (nodes.mem >= jobs.mem[job])
    holds &= enough(nodes.gpus, jobs.gpus[job], nodes.guards)
    groups = range(places.first[jobs.place[job]], places.first[jobs.place[job] + 1])
    sets = [holds & places.nodes[g] for g in groups]
    wanted = [int(jobs.n_nodes[job] if places.wanted[g] <= 0 else places.wanted[g]) for g in groups]
    if places.wanted[groups[0]] < 0:
        return any(one.sum() >= n for one, n in zip(sets, wanted, strict=True))
    # A node counts for one group only: all groups that want some of the same nodes must find enough of them.
    return all(
        np.any([sets[i] for i in some], axis=0).sum() >= sum(wanted[i] for i in some)
        for n in range(1, 1 + min(len(sets), _MOST_TOGETHER))
        for some in itertools.combinations(range(len(sets)), n)
    )


def _tasks_fit(nodes: Nodes, places: Places, jobs: Requests, job: int) -> bool:
    """Say whether as many empty nodes as it may have, of one group, hold the tasks of a job."""
    cpus, own = max(int(jobs.cpus[job]), 1), jobs.own_cores[job]
    each = cpus * nodes.core if own == EACH_CPU else cpus + own * (-cpus % nodes.core)
    room = np.minimum(nodes.totals[jobs.cap[job]] // nodes.core * nodes.core // each, jobs.most[job])
    left = nodes.mem - jobs.node_mem[job]
    room = np.where(left < 0, 0, np.minimum(room, left // jobs.mem[job]) if jobs.mem[job] else room)
    room *= enough(nodes.gpus, jobs.node_gpus[job], nodes.guards)
    for n in range(int(room.max(initial=0)), 0, -1) if jobs.gpus[job] else ():
        room = np.where((room == n) & ~enough(nodes.gpus, n * jobs.gpus[job], nodes.guards), n - 1, room)
    room *= (room >= min(jobs.most[job], jobs.units[job])) if jobs.even[job] else 1
    for group in range(places.first[jobs.place[job]], places.first[jobs.place[job] + 1]):
        held = np.sort(room[places.nodes[group]])[::-1][: jobs.spread[job]]
        if held.sum() >= jobs.units[job] and (held > 0).sum() >= jobs.least[job]:
            return True
    return False
