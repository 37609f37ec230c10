"""Where a job goes under policy slurm: kernels over sets of nodes. The slow twin is `NaiveSlurm.choose`."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.needs import cpus_of, holds
from procure.site.sets import list_choice
from procure.site.spread import less_loaded, pick_tasks, spread_leaves, take_whole, weigh
from procure.site.work import WORD


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
            if not done[i] and (best < 0 or less_loaded(own, free, usable[i], usable[best])):
                best = i
        done[best] = 1
        _take(own, usable[best], n_chosen + k)


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
def _pick_leaves(own, job, n_usable, n, n_chosen):
    """Take nodes leaf switch by leaf switch: a job of nodes is one of tasks that has one on each."""
    for i in range(n_usable):
        own.work.run_left[i] = 1
    for k in range(spread_leaves(own, job, n_usable, n_chosen, n, n, n, n)):
        _take(own, own.work.chosen[n_chosen + k], n_chosen + k)


@part
def _pick_whole(own, job, n_usable, n, n_chosen):
    """Take nodes as select/linear does."""
    for i in range(n_usable):
        own.work.run_left[i] = cpus_of(own, job, own.work.usable[i], own.nodes.totals)
    for k in range(take_whole(own, n_usable, n_chosen, n, n, n, n * own.jobs.cpus[job])):
        _take(own, own.work.chosen[n_chosen + k], n_chosen + k)


@part
def pick(own, job, n_usable, n, n_chosen, free):
    """Take so many of the nodes in ``usable``, by the site's rule; they then stand in ``chosen`` behind others."""
    weigh(own, job)
    if own.jobs.lln[job]:
        _pick_least_loaded(own, n_usable, n, n_chosen, free)
    elif own.rules.tree:
        _pick_leaves(own, job, n_usable, n, n_chosen)
    elif own.rules.linear:
        _pick_whole(own, job, n_usable, n, n_chosen)
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
        return pick_tasks(own, job, n_usable, free, n_on)
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
            n_chosen = pick_tasks(own, job, n_usable, free, n_on)
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
