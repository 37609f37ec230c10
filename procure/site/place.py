"""Where a job goes under policy slurm: kernels over sets of nodes. The slow twin is `NaiveSlurm.choose`."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.simulator.pools import enough_gpus
from procure.site.layout import EACH_CPU
from procure.site.sets import list_choice
from procure.site.work import WORD


@part
def _of_task(own, job, node):
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

    Its tasks on a node take whole cores, with the memory of each CPU of these but for threads left idle on purpose.
    """
    jobs, nodes = own.jobs, own.nodes
    if what > 2 and what != jobs.cap[job]:
        return 0
    more = 0
    if (jobs.flexible[job] or own.rules.uneven) and not jobs.whole[job]:
        more = units * (_of_task(own, job, node) - jobs.cpus[job])
        more += -(units * jobs.cpus[job] + more) % nodes.core[node]
    if what == 0 or what > 2:
        return nodes.totals[what, node] if jobs.whole[job] else units * jobs.cpus[job] + more
    if what == 1:
        per_cpu = jobs.mem[job] // max(jobs.cpus[job], 1) if jobs.flexible[job] else jobs.mem_per_cpu[job]
        more *= jobs.own_cores[job] != EACH_CPU
        mem = units * jobs.mem[job] + more * per_cpu + jobs.node_mem[job]
        return nodes.mem[node] if jobs.whole[job] else mem
    return nodes.gpus[node] if jobs.whole[job] else units * jobs.gpus[job] + jobs.node_gpus[job]


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
    n = cpus // nodes.core[node] * nodes.core[node] // _of_task(own, job, node)
    if jobs.mem[job] > 0:
        n = min(n, (mem - jobs.node_mem[job]) // jobs.mem[job])
        while n > 0 and not jobs.whole[job] and taken(own, job, node, 1, n) > mem:
            n -= 1
    while n > 0 and not enough_gpus(gpus, n * jobs.gpus[job], nodes.guards):
        n -= 1
    return 0 if jobs.even[job] and n < min(jobs.most[job], jobs.units[job]) else n


@part
def _weigh(own, job):
    """Lay what nodes weigh for a job: one more where a limit on different nodes would count one more, as in Slurm.

    That is of nodes that are alike of which the group has some; so it stays on its own.
    """
    work, line, here, place = own.work, own.nodes.line, own.work.run_done, own.limits.nodes_of[job]
    if work.jobs_on.shape[0] == 0:
        return
    for node in range(line.size):
        work.weight[node], here[node] = own.nodes.weight[node], 0
    if place >= 0:
        for node in range(line.size):
            here[line[node]] |= work.jobs_on[place, node] > 0
        for node in range(line.size):
            work.weight[node] += here[line[node]] and work.jobs_on[place, node] == 0


@part
def _runs_of_tasks(own, job, n_usable):
    """List the runs of neighbours (under LLN each node) that are usable, and the room of each; returns how many."""
    usable, weight, room = own.work.usable, own.work.weight, own.work.run_left
    first, units, n_runs = own.work.run_first, own.work.run_done, 0
    for i in range(n_usable):
        apart = own.jobs.lln[job] or i == 0 or usable[i] != usable[i - 1] + 1
        if apart or weight[usable[i]] != weight[usable[i - 1]]:
            first[n_runs], units[n_runs] = i, 0
            n_runs += 1
        units[n_runs - 1] += room[i]
    first[n_runs] = n_usable
    return n_runs


@part
def _best_run(own, job, n_runs, left, nodes_left, free):
    """Return the run of the lowest weight with the least room that is enough, else with the most; −1 = none is left.

    Under LLN, the node that is the least loaded.
    """
    usable, weight = own.work.usable, own.work.weight
    first, units, best, best_enough = own.work.run_first, own.work.run_done, -1, False
    for run in range(n_runs):
        if units[run] < 0:
            continue
        if own.jobs.lln[job]:
            if best < 0 or _less_loaded(own, free, usable[first[run]], usable[first[best]]):
                best = run
            continue
        enough = units[run] >= left and first[run + 1] - first[run] >= nodes_left
        if best < 0 or _better(
            weight[usable[first[run]]], enough, units[run], weight[usable[first[best]]], best_enough, units[best]
        ):
            best, best_enough = run, enough
    return best


@part
def _only_node(own, job, run, left, nodes_left):
    """Return the place of the fullest node of a run that has room for all that is left, if one will do; else −1."""
    room, most, only = own.work.run_left, own.jobs.most[job], -1
    if nodes_left > 1:
        return only
    for i in range(own.work.run_first[run], own.work.run_first[run + 1]):
        if min(room[i], most) >= left and (only < 0 or room[i] < room[only]):
            only = i
    return only


@part
def _spread(own, job, n_usable, free):
    """Take usable nodes for a job's tasks as `_eval_nodes` of select/cons_tres does; returns how many, 0 = none."""
    work, jobs = own.work, own.jobs
    left, wanted, n = jobs.units[job], jobs.want[job], 0
    n_runs = _runs_of_tasks(own, job, n_usable)
    while left > 0 or n < wanted:
        run = _best_run(own, job, n_runs, left, jobs.least[job] - n, free)
        if run < 0:
            break
        work.run_done[run] = -1
        only = _only_node(own, job, run, left, wanted - n)
        for i in range(work.run_first[run], work.run_first[run + 1]):
            if (left <= 0 and n >= wanted) or n == jobs.spread[job] or (only >= 0 and i != only):
                continue
            units = min(work.run_left[i], jobs.most[job])  # of --ntasks-per-node all, though the last has fewer tasks
            if not jobs.even[job]:
                few = max(left - max(jobs.least[job] - n - 1, 0), 1)
                each = _of_task(own, job, work.usable[i])
                few += (-few * each % own.nodes.core[work.usable[i]]) // each  # whole cores
                units = min(units, few)
            if units <= 0 or (n + 1 == jobs.spread[job] and units < left):
                continue
            work.chosen[n], work.chosen_units[n] = work.usable[i], units
            left -= units
            n += 1
    return n if left <= 0 and n >= jobs.least[job] else 0


@part
def _deal(own, job, n):
    """Give each of the chosen nodes a task in turn as long as it has room: the fullest ones, last first, give back."""
    units, more = own.work.chosen_units, -own.jobs.units[job]
    for i in range(n):
        more += units[i]
    for _ in range(more if n > 0 else 0):
        fullest = 0
        for i in range(1, n):
            if units[i] >= units[fullest]:
                fullest = i
        units[fullest] -= 1


@part
def _pick_tasks(own, job, n_usable, free, n_on):
    """Take nodes for the tasks of a job; where those that were taken are too many, without the smallest ones."""
    work, n = own.work, 0
    _weigh(own, job)
    for i in range(n_usable):
        work.run_left[i] = room_on(own, job, work.usable[i], free, n_on)
    while n == 0 and n_usable > 0:
        n = _spread(own, job, n_usable, free)
        smallest, kept = work.run_left[0], 0
        for i in range(n_usable):
            smallest = min(smallest, work.run_left[i])
        for i in range(n_usable):
            if n == 0 and work.run_left[i] > smallest:
                work.usable[kept], work.run_left[kept] = work.usable[i], work.run_left[i]
                kept += 1
        n_usable = kept
    for i in range(1, n):
        node, units, j = work.chosen[i], work.chosen_units[i], i
        while j > 0 and work.chosen[j - 1] > node:
            work.chosen[j], work.chosen_units[j] = work.chosen[j - 1], work.chosen_units[j - 1]
            j -= 1
        work.chosen[j], work.chosen_units[j] = node, units
    if not own.jobs.even[job]:
        _deal(own, job, n)
    for i in range(n):
        work.in_choice[work.chosen[i] // WORD] |= 1 << (work.chosen[i] % WORD)
    return n


@part
def _take(own, node, n_chosen):
    own.work.chosen[n_chosen] = node
    own.work.in_choice[node // WORD] |= 1 << (node % WORD)


@part
def _pick_least_loaded(own, n_usable, n, n_chosen, free):
    """Take the nodes of the lowest weight with the largest share of free CPUs, ties by row."""
    usable, done = own.work.usable, own.work.run_done
    for i in range(n_usable):
        done[i] = 0
    for k in range(n):
        best = -1
        for i in range(n_usable):
            if not done[i] and (best < 0 or _less_loaded(own, free, usable[i], usable[best])):
                best = i
        done[best] = 1
        _take(own, usable[best], n_chosen + k)


@part
def _less_loaded(own, free, a, b):
    """Say whether of two nodes the first is taken under LLN: by weight, then by the share of its CPUs that is free."""
    nodes, weight = own.nodes, own.work.weight
    if weight[a] != weight[b]:
        return weight[a] < weight[b]
    return free[0, a] * nodes.cpus[b] > free[0, b] * nodes.cpus[a]


@part
def _better(weight, enough, size, best_weight, best_enough, best_size):
    """Say whether a set of nodes is taken before the best so far: the smallest that is enough, else the largest."""
    if weight != best_weight:
        return weight < best_weight
    if enough != best_enough:
        return enough
    return size < best_size if enough else size > best_size


@part
def _take_of_run(own, first, end, n_chosen, fullest):
    """Take nodes of a run: the first ones, or the one with the fewest CPUs left (in ``run_left``), ties by row."""
    usable, left = own.work.usable, own.work.run_left
    if not fullest:
        for i in range(first, end):
            _take(own, usable[i], n_chosen + i - first)
        return
    best = first
    for i in range(first + 1, end):
        if left[i] < left[best]:
            best = i
    _take(own, usable[best], n_chosen)


@part
def _sooner(own, a, b):
    """Say whether a run of neighbours is taken before another where none is enough: by weight, size and row."""
    cpus, weight, first = own.work.run_done, own.work.weight, own.work.run_first
    x, y = weight[own.work.usable[first[a]]], weight[own.work.usable[first[b]]]
    return x < y or (x == y and (cpus[a] > cpus[b] or (cpus[a] == cpus[b] and a < b)))


@part
def _sink(own, run, place, n):
    """Put a run into a heap of so many, at a place or below it, so that each stands before those below it."""
    heap = own.work.run_heap
    while 2 * place + 1 < n:
        below = 2 * place + 1
        if below + 1 < n and _sooner(own, heap[below + 1], heap[below]):
            below += 1
        if not _sooner(own, heap[below], run):
            break
        heap[place], place = heap[below], below
    heap[place] = run


@part
def _pick_runs(own, job, n_usable, n, n_chosen, free):
    """Take the run of neighbours of the lowest weight with the fewest CPUs left that holds the job, else the most.

    Of it, who asks for one node more and for no GPU of each node takes the fullest node, others the first ones.
    """
    usable, weighs, asked, per_cpu = own.work.usable, own.work.weight, own.jobs.cpus[job], own.jobs.mem_per_cpu[job]
    step = own.jobs.step[job]
    first, cpus, left = own.work.run_first, own.work.run_done, own.work.run_left
    n_runs, before, weight, total, heap = 0, -2, 0, 0, own.work.run_heap
    for i in range(n_usable):
        node = usable[i]
        if node != before + 1 or weighs[node] != weight:
            if n_runs > 0:
                cpus[n_runs - 1] = total
            first[n_runs], weight, total = i, weighs[node], 0
            n_runs += 1
        before = node
        left[i] = cpus_of(own, job, node, free)
        if per_cpu > 0:  # CPUs without memory are none
            left[i] = min(left[i], free[1, node] // per_cpu)
        if step > 1:  # nor are those that make no task
            left[i] -= left[i] % step
        total += left[i]
    cpus[n_runs - 1] = total
    first[n_runs] = n_usable
    for run in range(n_runs - 1, -1, -1):
        _sink(own, run, run, n_runs)
    taken, n_left = 0, n_runs
    while taken < n:
        need, best, found = n - taken, heap[0], False
        weight = weighs[usable[first[best]]]
        for run in range(n_runs if cpus[best] >= need * asked else 0):  # else no run of this weight is enough
            enough = first[run + 1] - first[run] >= need and cpus[run] >= need * asked
            if enough and weighs[usable[first[run]]] == weight and (not found or cpus[run] < cpus[best]):
                best, found = run, True
        cpus[best] = -1
        n_left -= 1
        _sink(own, heap[n_left], 0, n_left)
        n_here, fullest = min(need, first[best + 1] - first[best]), need == 1 and own.jobs.in_order[job] == 0
        end = first[best + 1] if fullest else first[best] + n_here
        _take_of_run(own, first[best], end, n_chosen + taken, fullest)
        taken += n_here


@part
def _pick_leaves(own, n_usable, n, n_chosen):
    """Take the leaf switch that holds the job with the fewest nodes left, else the fullest first; light nodes first."""
    usable, weight, leaf_of = own.work.usable, own.work.weight, own.tables.leaf_of
    done, sizes = own.work.run_done, own.work.run_first
    for leaf in range(own.rules.tree):
        sizes[leaf] = 0
    for i in range(n_usable):
        done[i] = 0
        sizes[leaf_of[usable[i]]] += 1
    taken = 0
    while taken < n:
        need, best = n - taken, -1
        for leaf in range(own.rules.tree):
            size = sizes[leaf]
            if size > 0 and (best < 0 or _better(0, size >= need, size, 0, sizes[best] >= need, sizes[best])):
                best = leaf
        for _ in range(min(need, sizes[best])):
            light = -1
            for i in range(n_usable):
                if done[i] or leaf_of[usable[i]] != best:
                    continue
                if light < 0 or weight[usable[i]] < weight[usable[light]]:
                    light = i
            done[light] = 1
            _take(own, usable[light], n_chosen + taken)
            taken += 1
        sizes[best] = 0


@part
def pick(own, job, n_usable, n, n_chosen, free):
    """Take so many of the nodes in ``usable``, by the site's rule; they then stand in ``chosen`` behind others."""
    _weigh(own, job)
    if own.jobs.lln[job]:
        _pick_least_loaded(own, n_usable, n, n_chosen, free)
    elif own.rules.tree:
        _pick_leaves(own, n_usable, n, n_chosen)
    else:
        _pick_runs(own, job, n_usable, n, n_chosen, free)


@part
def _list_usable(own, job, group, closed, free, n_on):
    """List in ``usable`` the open nodes of a group that hold a job and are not in its choice; returns how many."""
    work, words = own.work, own.tables.group_words
    n_usable = 0
    for word in range(closed.size):
        bits = words[group, word] & ~closed[word] & ~work.in_choice[word]
        node = word * WORD
        while bits:
            if bits & 1 and holds(own, job, node, free, n_on):
                work.usable[n_usable] = node
                n_usable += 1
            bits >>= 1
            node += 1
    return n_usable


@part
def choose_of(own, job, closed, free, n_on, group):
    """Find all nodes that a job asks for in one of the groups of its constraint; returns how many, 0 = too few."""
    work, n = own.work, own.jobs.n_nodes[job]
    for word in range(closed.size):
        work.in_choice[word] = 0
    n_usable = _list_usable(own, job, group, closed, free, n_on)
    if own.jobs.flexible[job]:
        return _pick_tasks(own, job, n_usable, free, n_on)
    if n_usable < n:
        return 0
    pick(own, job, n_usable, n, 0, free)
    list_choice(own)
    return n


@part
def choose(own, job, closed, free, n_on):
    """Find nodes for a job outside a set of closed nodes; they then stand in ``chosen``, in order.

    Returns
    -------
    int
        How many; 0 = there are none.
    """
    work, places, jobs = own.work, own.places, own.jobs
    place, n_chosen = jobs.place[job], 0
    for word in range(closed.size):
        work.in_choice[word] = 0
    for group in range(places.first[place], places.first[place + 1]):
        count = places.wanted[group]
        n = jobs.n_nodes[job] if count <= 0 else count
        n_usable = _list_usable(own, job, group, closed, free, n_on)
        if jobs.flexible[job]:
            n_chosen = _pick_tasks(own, job, n_usable, free, n_on)
            if n_chosen > 0 or count >= 0:
                return n_chosen
            continue
        if n_usable < n:
            if count < 0:
                continue
            return 0
        pick(own, job, n_usable, n, n_chosen, free)
        n_chosen += n
        if count < 0:
            break
    list_choice(own)
    return n_chosen


@part
def find(own, job, closed, free, n_on, group):
    """Find nodes for a job; with ``group`` < 0 those of all groups of its constraint.

    Returns
    -------
    int
        How many nodes stand in ``chosen``; 0 = there are none.
    """
    if group < 0:
        return choose(own, job, closed, free, n_on)
    return choose_of(own, job, closed, free, n_on, group)


@part
def find_now(own, job, closed, group):
    """Find nodes while all that runs is there."""
    return find(own, job, closed, own.work.free, own.work.n_on, group)
