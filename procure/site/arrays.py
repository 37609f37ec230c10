"""What policy slurm works on, as arrays: nodes, what jobs ask for, where they may go, and what binds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from procure.site.fair_share import Tree
from procure.site.limits import LimitRows

EACH_CPU = 2
"""Each CPU that a job asks for is a core of its own (--hint=nomultithread, --threads-per-core=1)."""


WHOLE, ALL_MEMORY = 1, 2
"""A job takes its nodes whole; or it takes all memory of them, so that they hold no other, and counts for its CPUs."""


class Nodes(NamedTuple):
    """The nodes, in table order."""

    cpus: np.ndarray  # int64[n_nodes]
    core: np.ndarray  # int64[n_nodes], CPUs of a core where jobs take whole ones, else 1
    mem: np.ndarray  # int64[n_nodes], MB; 0 throughout where memory is not allocated
    gpus: np.ndarray  # int64[n_nodes]; packed as `procure.simulator.state.State` says
    weight: np.ndarray  # int64[n_nodes]
    line: np.ndarray  # int64[n_nodes], nodes that are alike, as those of one line of slurm.conf
    leaf: np.ndarray  # int64[n_nodes]; 0 throughout without a topology
    guards: int | None  # likewise
    totals: np.ndarray  # int64[3 + n_caps, n_nodes]: CPUs, MB, GPUs, and the CPUs within each MaxCPUsPerNode


class Requests(NamedTuple):
    """What the jobs ask for, in queue order; times in seconds after the first submission."""

    submit: np.ndarray  # int64[n_jobs]
    eligible: np.ndarray  # int64[n_jobs]
    limit: np.ndarray  # int64[n_jobs], s
    n_nodes: np.ndarray  # int64[n_jobs]
    cpus: np.ndarray  # int64[n_jobs], per node
    mem: np.ndarray  # int64[n_jobs], MB per node
    flexible: np.ndarray  # int64[n_jobs], 1 = its tasks go wherever there is room; n_nodes is the most nodes then
    units: np.ndarray  # int64[n_jobs], its tasks, or its nodes; CPUs, memory and GPUs are of one
    least: np.ndarray  # int64[n_jobs], nodes at least
    want: np.ndarray  # int64[n_jobs], nodes that it gets where there are so many
    spread: np.ndarray  # int64[n_jobs], nodes at most
    most: np.ndarray  # int64[n_jobs], tasks on a node at most
    even: np.ndarray  # int64[n_jobs], 1 = a node has room for that many, or none (--ntasks-per-node)
    node_mem: np.ndarray  # int64[n_jobs], MB of each node beside that of its tasks
    node_gpus: np.ndarray  # int64[n_jobs], GPUs likewise
    own_cores: np.ndarray  # int64[n_jobs], 1 = each task takes cores of its own, `EACH_CPU` = each CPU does
    step: np.ndarray  # int64[n_jobs], CPUs of a task
    mem_per_cpu: np.ndarray  # int64[n_jobs], MB; 0 = its memory is per node
    gpus: np.ndarray  # int64[n_jobs], per node, packed likewise
    in_order: np.ndarray  # int64[n_jobs], 1 = it asks for GPUs of each node, so that the first nodes are taken
    whole: np.ndarray  # int64[n_jobs], `WHOLE` or `ALL_MEMORY`; 0 = it leaves others what it does not take
    partition: np.ndarray  # int64[n_jobs]
    tier: np.ndarray  # int64[n_jobs], of its partition
    cap: np.ndarray  # int64[n_jobs], row of `Nodes.totals` that its CPUs count in, too (MaxCPUsPerNode); 0 = in none
    lln: np.ndarray  # int64[n_jobs], 1 = the least loaded nodes first
    user: np.ndarray  # int64[n_jobs]
    association: np.ndarray  # int64[n_jobs], row of the fair-share tree
    base: np.ndarray  # float64[n_jobs], priority without age and fair share
    size: np.ndarray  # float64[n_jobs], CPUs that the size of the job counts in `base`
    per_size: np.ndarray  # float64[n_jobs], priority of each CPU beyond these
    grows: np.ndarray  # int64[n_jobs], 1 = it may get more CPUs than it asks for, and priority or a limit counts them
    billing: np.ndarray  # float64[n_jobs], what counts as usage each second beside the CPUs and memory that it holds
    per_cpu: np.ndarray  # float64[n_jobs], what each CPU counts for
    per_mb: np.ndarray  # float64[n_jobs], likewise
    place: np.ndarray  # int64[n_jobs], row of `Places`
    reservation: np.ndarray  # int64[n_jobs]; −1 = none
    array: np.ndarray  # int64[n_jobs], number of its array; −1 = none
    array_limit: np.ndarray  # int64[n_arrays], tasks that may run at once; 0 = any number
    on_first: np.ndarray  # int64[n_jobs + 1]
    on: np.ndarray  # int64[…], jobs that job j waits for: on[on_first[j]:on_first[j + 1]]
    on_start: np.ndarray  # int64[…], 1 = only for the start of that job
    on_either: np.ndarray  # int64[…], number of the alternative, in order: one of which all has happened will do
    rank: np.ndarray  # int64[n_jobs], row and column of `preempts`
    preempts: np.ndarray  # int64[n_ranks, n_ranks], how a row's job ends a column's: 0 = not
    yields: np.ndarray  # int64[n_jobs], the job with the lowest gives way first, of equals the one on the fewest nodes
    exempt: np.ndarray  # int64[n_jobs], s that the job runs before it may be ended
    grace: np.ndarray  # int64[n_jobs], s that the job goes on when it gives way and is to be ended
    again: np.ndarray  # int64[n_jobs], 1 = the job waits again if it is ended for another
    requeue: np.ndarray  # int64[n_jobs], 1 = the job waits again if a node goes down under it


class Places(NamedTuple):
    """Which nodes jobs may use: one row per partition and constraint that occurs.

    A constraint with counts, ``[a*2&b*1]``, has several groups of nodes, of each of which so many are taken; of
    ``[a|b]`` the groups are alternatives, each with the count −1.
    """

    first: np.ndarray  # int64[n_places + 1], groups of place p: first[p] … first[p + 1]
    nodes: np.ndarray  # bool[n_groups, n_nodes]
    wanted: np.ndarray  # int64[n_groups]; 0 = all that the job asks for
    reach: np.ndarray  # bool[n_groups, n_nodes], nodes of the partition with the features, whatever their GPUs
    counted: np.ndarray  # bool[n_groups], the constraint counts nodes of this group; false also of what it leaves open


class Layout(NamedTuple):
    """All of it."""

    nodes: Nodes
    jobs: Requests
    places: Places
    limits: LimitRows
    tree: Tree
    partition_nodes: np.ndarray  # bool[n_partitions, n_nodes]
    closed: np.ndarray  # int64[n_closed, 4]: start, end, node, and the reservation or `DRAINED` or `DOWN`
    reservation_end: np.ndarray  # int64[n_reservations + 1], s after the first submission
    job: np.ndarray  # int64[n_rows], job of each row: behind the jobs stand those for further partitions that they name
    rejected: np.ndarray  # bool[n_rows], can never start
    refused: np.ndarray  # bool[n_jobs], nor in another partition that it names
    reasons: dict[str, np.ndarray]  # of the refused, by reason: rows in queue order
