"""What a job takes of a node under policy slurm, and whether a node has room for it: kernels."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.simulator.tasks import enough_gpus
from procure.site.arrays import EACH_CPU


@part
def of_task(own, job, node):
    """Return the CPUs of a task on a node, of whole cores where it shares none or asks for a thread of each.

    A job of nodes has all its tasks on one in place of it, where nodes differ in the threads of a core.
    """
    cpus, core = max(own.jobs.cpus[job], 1), own.nodes.core[node]
    if own.jobs.own_cores[job] == EACH_CPU:
        return cpus * core
    step = cpus if own.jobs.flexible[job] else own.jobs.step[job]
    return cpus + own.jobs.own_cores[job] * (cpus // step) * (-step % core)


@part
def taken(own, job, node, what, units):
    """Return what so many units of a job take of a node: 0 CPUs, 1 MB, 2 GPUs, the next CPUs within a MaxCPUsPerNode.

    Its tasks on a node take whole cores, with the memory of each CPU of these but for threads left idle on purpose or
    under CR_CPU.
    """
    jobs, nodes = own.jobs, own.nodes
    if what > 2 and what != jobs.cap[job]:
        return 0
    more = 0
    if (jobs.flexible[job] or own.rules.uneven) and not jobs.whole[job]:
        more = units * (of_task(own, job, node) - jobs.cpus[job])
        more += -(units * jobs.cpus[job] + more) % nodes.core[node]
    if what == 0 or what > 2:
        return nodes.totals[what, node] if jobs.whole[job] else units * jobs.cpus[job] + more
    if what == 1:
        more *= jobs.own_cores[job] != EACH_CPU and own.rules.cores_count
        mem = units * jobs.mem[job] + more * jobs.mem_per_cpu[job] + jobs.node_mem[job]
        return nodes.mem[node] if jobs.whole[job] else mem
    return nodes.gpus[node] if jobs.whole[job] else units * jobs.gpus[job] + jobs.node_gpus[job]


@part
def counted(own, job, node, units):
    """Return the CPUs of so many units of a job on a node that limits, priorities and usage count."""
    if own.rules.cores_count or own.jobs.whole[job]:
        return taken(own, job, node, 0, units)
    return units * own.jobs.cpus[job]


@part
def cpus_of(own, job, node, free):
    """Return the CPUs of a node that a job may take of those that are free."""
    return min(free[0, node], free[own.jobs.cap[job], node])


@part
def holds(own, job, node, free, n_on):
    """Say whether a node has room for a job's share."""
    jobs, nodes = own.jobs, own.nodes
    if jobs.flexible[job]:
        return room_on(own, job, node, free, n_on) > 0
    if jobs.whole[job]:
        return (
            n_on[node] == 0
            and cpus_of(own, job, node, nodes.totals) >= jobs.cpus[job]
            and nodes.mem[node] >= jobs.mem[job]
            and enough_gpus(nodes.gpus[node], jobs.gpus[job], nodes.guards)
        )
    cpus, mem = jobs.cpus[job], jobs.mem[job]
    if own.rules.uneven:
        cpus, mem = taken(own, job, node, 0, 1), taken(own, job, node, 1, 1)
    return (
        cpus_of(own, job, node, free) >= cpus
        and free[1, node] >= mem
        and enough_gpus(free[2, node], jobs.gpus[job], nodes.guards)
    )


@part
def room_on(own, job, node, free, n_on):
    """Return how many tasks a node has room for, though the job has fewer; 0 if it wants more of them on each node."""
    jobs, nodes = own.jobs, own.nodes
    cpus, mem, gpus = cpus_of(own, job, node, free), free[1, node], free[2, node]
    if jobs.whole[job]:
        if n_on[node] > 0:
            return 0
        cpus, mem, gpus = cpus_of(own, job, node, nodes.totals), nodes.mem[node], nodes.gpus[node]
    if mem < jobs.node_mem[job] or not enough_gpus(gpus, jobs.node_gpus[job], nodes.guards):
        return 0
    n = cpus // nodes.core[node] * nodes.core[node] // of_task(own, job, node)
    if jobs.mem[job] > 0:
        n = min(n, (mem - jobs.node_mem[job]) // jobs.mem[job])
        while n > 0 and not jobs.whole[job] and taken(own, job, node, 1, n) > mem:
            n -= 1
    while n > 0 and not enough_gpus(gpus, n * jobs.gpus[job], nodes.guards):
        n -= 1
    return 0 if jobs.even[job] and n < min(jobs.most[job], jobs.units[job]) else n
