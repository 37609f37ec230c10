"""Which nodes the tasks of a job get under policy slurm, and how many each: kernels."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.needs import of_task, room_on
from procure.site.work import IN_BACKFILL, WORD


@part
def weigh(own, job):
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
            if best < 0 or less_loaded(own, free, usable[first[run]], usable[first[best]]):
                best = run
            continue
        enough = units[run] >= left and first[run + 1] - first[run] >= nodes_left
        if best < 0 or better(
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
def _units(own, job, i, left, more_nodes):
    """Return how many of a job's tasks that are left a usable node takes: a core less for each node still to come."""
    node, jobs = own.work.usable[i], own.jobs
    units = min(own.work.run_left[i], jobs.most[job])  # of --ntasks-per-node all, though the last has fewer tasks
    if jobs.even[job]:
        return units
    each = of_task(own, job, node)
    return min(units, max((left * each - max(more_nodes, 0) * own.nodes.core[node]) // each, 1))


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
            units = _units(own, job, i, left, jobs.least[job] - n - 1)
            if units <= 0 or (n + 1 == jobs.spread[job] and units < left):
                continue
            work.chosen[n], work.chosen_units[n] = work.usable[i], units
            left -= units
            n += 1
    return n if left <= 0 and n >= jobs.least[job] else 0


@part
def _heaviest(own, job, n_usable, left, wanted):
    """Return the weight up to which the usable nodes, in groups of one weight, are enough; else that of the last."""
    usable, weight, room = own.work.usable, own.work.weight, own.work.run_left
    bound = weight[usable[0]]
    for i in range(n_usable):
        bound = min(bound, weight[usable[i]])
    while True:
        n, units, after = 0, 0, -1
        for i in range(n_usable):
            if weight[usable[i]] <= bound:
                n += 1
                units += min(room[i], own.jobs.most[job])
            elif after < 0 or weight[usable[i]] < weight[usable[after]]:
                after = i
        if after < 0 or (n >= wanted and units >= left):
            return bound
        bound = weight[usable[after]]


@part
def _leaf_after(own, wanted):
    """Return the leaf switch to take nodes of: the one with the fewest nodes that has enough, else the most; −1 = none.

    Leaves of nodes that a job has already come first, in their order; their numbers stand in ``run_heap``.
    """
    sizes, begun, best = own.work.run_first, own.work.run_heap, -1
    for leaf in range(own.rules.tree):
        if sizes[leaf] > 0 and begun[leaf]:
            return leaf
        size = sizes[leaf]
        if size > 0 and (best < 0 or better(0, size >= wanted, size, 0, sizes[best] >= wanted, sizes[best])):
            best = leaf
    return best


@part
def spread_leaves(own, job, n_usable, at, least, wanted, most, left):
    """Take usable nodes as `_eval_nodes_topo` of select/cons_tres does in Slurm 22.05; returns how many, 0 = none.

    Of the lightest nodes that are enough, all but those of the last weight are taken, then leaf switches one by one.
    """
    work, leaf_of, n = own.work, own.tables.leaf_of, 0
    usable, weight, taken = work.usable, work.weight, work.run_done
    sizes, begun = work.run_first, work.run_heap
    bound = _heaviest(own, job, n_usable, left, least)
    for leaf in range(own.rules.tree):
        sizes[leaf] = begun[leaf] = 0
    for i in range(n_usable):
        taken[i] = int(weight[usable[i]] > bound)
        sizes[leaf_of[usable[i]]] += 1 - taken[i]
    leaf = -1
    while n < most and (left > 0 or n < wanted):
        for i in range(n_usable):
            mine = weight[usable[i]] < bound if leaf < 0 else leaf_of[usable[i]] == leaf
            units = _units(own, job, i, left, least - n - 1) if mine and not taken[i] else 0
            if units <= 0 or n == most or (left <= 0 and n >= wanted):
                continue
            work.chosen[at + n], work.chosen_units[at + n], taken[i] = usable[i], units, 1
            left -= units
            n += 1
            begun[leaf_of[usable[i]]] = 1
        if leaf >= 0:
            sizes[leaf] = 0
        leaf = _leaf_after(own, wanted - n)
        if leaf < 0:
            break
    return n if left <= 0 and n >= least else 0


@part
def _most_first(own, n_usable, at, wanted, most, left):
    """Take the nodes with the most room first, of equals the last: where they differ and the smallest are too few."""
    work, room, n = own.work, own.work.run_left, 0
    while n < most and (n < wanted or left > 0):
        best = -1
        for i in range(n_usable):
            if not work.run_done[i] and (best < 0 or room[i] >= room[best]):
                best = i
        if best < 0:
            break
        work.run_done[best] = 1
        work.chosen[at + n], work.chosen_units[at + n] = work.usable[best], room[best]
        left -= room[best]
        n += 1
    return n, left


@part
def _best_neighbours(own, n_usable, wanted, left):
    """Return the first and the end of the run of neighbours with the least room that is enough, else the most."""
    usable, used, room = own.work.usable, own.work.run_done, own.work.run_left
    first, end, size, enough, i = -1, -1, 0, False, 0
    while i < n_usable:
        k, here = i, 0
        while k < n_usable and not used[k] and (k == i or usable[k] == usable[k - 1] + 1):
            here += room[k]
            k += 1
        fits = here >= left and k - i >= wanted
        if k > i and (first < 0 or better(0, fits, here, 0, enough, size)):
            first, end, size, enough = i, k, here, fits
        i = max(k, i + 1)
    return first, end


@part
def _take_whole(own, bound, n_usable, at, least, wanted, most, left):
    """Take usable nodes up to a weight as `_job_test` of select/linear does; returns how many, 0 = too few."""
    work, usable, room, n = own.work, own.work.usable, own.work.run_left, 0
    low, high = 1 << 60, 0
    for i in range(n_usable):
        work.run_done[i] = int(own.work.weight[usable[i]] > bound)
        if not work.run_done[i]:
            low, high = min(low, room[i]), max(high, room[i])
    if low < high and left > low * wanted:
        n, left = _most_first(own, n_usable, at, wanted, most, left)
    while n < most and (n < wanted or left > 0):
        first, end = _best_neighbours(own, n_usable, least - n, left)
        if first < 0:
            break
        for i in range(first, end):
            work.run_done[i] = 1
            if n < most and (n < wanted or left > 0):
                work.chosen[at + n], work.chosen_units[at + n] = usable[i], room[i]
                left -= room[i]
                n += 1
    return n if left <= 0 and n >= least else 0


@part
def take_whole(own, n_usable, at, least, wanted, most, left):
    """Take whole nodes (select/linear) with room for what is left; returns how many, 0 = too few.

    The main scheduler tries the lightest nodes first, then with them those of the next weight; backfill all at once.
    """
    usable, weight, bound = own.work.usable, own.work.weight, -1
    while True:
        after, n_within = -1, 0
        for i in range(n_usable):
            if weight[usable[i]] <= bound or own.work.now[IN_BACKFILL]:
                n_within += 1
            elif after < 0 or weight[usable[i]] < after:
                after = weight[usable[i]]
        if after < 0 or n_within >= wanted:
            within = bound if after >= 0 else 1 << 60
            n = _take_whole(own, within, n_usable, at, least, wanted, most, left)
            if n > 0 or after < 0:
                return n
        bound = after


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
def pick_tasks(own, job, n_usable, free, n_on):
    """Take nodes for the tasks of a job; where those that were taken are too many, without the smallest ones."""
    work, n = own.work, 0
    weigh(own, job)
    for i in range(n_usable):
        work.run_left[i] = room_on(own, job, work.usable[i], free, n_on)
    jobs, leaves = own.jobs, own.rules.tree > 0 and not own.jobs.lln[job]
    while n == 0 and n_usable > 0:
        if leaves:
            most, left = jobs.spread[job], jobs.units[job]
            n = spread_leaves(own, job, n_usable, 0, jobs.least[job], jobs.want[job], most, left)
        elif own.rules.linear:
            n = take_whole(own, n_usable, 0, jobs.least[job], jobs.want[job], jobs.spread[job], jobs.units[job])
        else:
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
def less_loaded(own, free, a, b):
    """Say whether of two nodes the first is taken under LLN: by weight, then by the share of its CPUs that is free."""
    nodes, weight = own.nodes, own.work.weight
    if weight[a] != weight[b]:
        return weight[a] < weight[b]
    return free[0, a] * nodes.cpus[b] > free[0, b] * nodes.cpus[a]


@part
def better(weight, enough, size, best_weight, best_enough, best_size):
    """Say whether a set of nodes is taken before the best so far: the smallest that is enough, else the largest."""
    if weight != best_weight:
        return weight < best_weight
    if enough != best_enough:
        return enough
    return size < best_size if enough else size > best_size
