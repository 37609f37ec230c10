"""When each node gets room for a request, as its running jobs leave at their limits: kernels.

Such a time depends on what runs on the node alone, not on the job that asks, the moment or what is promised. It is
kept until a job starts or ends there, so that backfill looks it up where Slurm takes running jobs away one after the
other. The slow twin, `NaiveSlurm.when_running_leave`, does as Slurm does.
"""

from __future__ import annotations

from procure.simulator.kernel import insert, part, remove
from procure.site.needs import holds, taken
from procure.site.place import pick
from procure.site.sets import count, first_after, list_choice, list_nodes, lowest, n_in_part, overlap, see_idle
from procure.site.work import (
    KEPT_SEARCHES,
    MARKED_CHANGES,
    N_CHANGES,
    N_RUNNING,
    NEVER,
    NOW,
    USEFUL_UNTIL,
    WORD,
)

AT_ONCE = -NEVER
"""In place of a turn to leave: a node has room now."""
GROUPED = 30
"""s; running jobs that end within a growing window are taken away together when backfill looks for a start."""
_MIX, _MIX_BITS = 0x9E3779B, (1 << 32) - 1


@part
def changed(own, node):
    """Note that what runs on a node has changed."""
    work, bit = own.work, 1 << (node % WORD)
    work.now[N_CHANGES] += 1
    work.changed[node] = work.now[N_CHANGES]
    if work.first_on[node] < 0:
        work.idle[node // WORD] |= bit
    else:
        work.idle[node // WORD] &= ~bit


@part
def note_parts(own, job):
    """Keep the nodes on which a job begins as parts of a set: a word, and which of its nodes."""
    work, first = own.work, own.node_first[job]
    n = 0
    for i in range(work.n_held[job]):
        node = work.on[first + i]
        if n == 0 or work.part_word[first + n - 1] != node // WORD:
            work.part_word[first + n], work.part_bits[first + n] = node // WORD, 0
            n += 1
        work.part_bits[first + n - 1] |= 1 << (node % WORD)
    work.n_parts[job] = n


@part
def turn_to_leave(own, job):
    """Return a number that is the lower the sooner a running job leaves: by the end of its limit, then by its row."""
    return own.work.until[job] * own.jobs.limit.size + job


@part
def join(own, slot, node):
    """Put what a job holds of a node among what others hold of it, in the order in which they leave."""
    work, of = own.work, own.tables.job_of
    turn = turn_to_leave(own, of[slot])
    before, behind = -1, work.first_on[node]
    while behind >= 0 and turn_to_leave(own, of[behind]) < turn:
        before, behind = behind, work.next_on[behind]
    work.next_on[slot] = behind
    if before < 0:
        work.first_on[node] = slot
    else:
        work.next_on[before] = slot
    changed(own, node)


@part
def part_from(own, slot, node):
    """Take what a job holds of a node out of what others hold of it."""
    work = own.work
    before, at = -1, work.first_on[node]
    while at != slot:
        before, at = at, work.next_on[at]
    if before < 0:
        work.first_on[node] = work.next_on[slot]
    else:
        work.next_on[before] = work.next_on[slot]
    changed(own, node)


@part
def _settle(own, job, row, node):
    """Find out with whom a node first holds a job, as those on it leave in order."""
    work, slot, turn = own.work, own.work.first_on[node], AT_ONCE
    for what in range(work.free.shape[0]):
        work.future[what, node] = work.free[what, node]
    work.future_on[node] = work.n_on[node]
    while not holds(own, job, node, work.future, work.future_on):
        if slot < 0:
            turn = NEVER
            break
        other = own.tables.job_of[slot]
        turn = turn_to_leave(own, other)
        for what in range(work.free.shape[0]):
            work.future[what, node] += taken(own, other, node, what, work.units[slot])
        work.future_on[node] -= 1
        slot = work.next_on[slot]
    work.room_from[row, node] = turn
    work.settled[row, node] = work.changed[node]


@part
def _see_request(own, job):
    """Return the row of `Work.room_from` of a job's request; another that had the row gives it up."""
    work, request = own.work, own.tables.request[job]
    row = request % work.row_of.size
    if work.row_of[row] != request:
        work.row_of[row] = request
        for node in range(work.changed.size):
            work.settled[row, node] = -1
    return row


@part
def _list_open(own, job, closed):
    """List the open nodes of a job's set that get room in ``usable``, and with whose turn in ``run_left``.

    Returns
    -------
    (int, int, int)
        How many; how many of these have room now; with whose turn the first of the others gets it.
    """
    work, kind, row = own.work, own.tables.kind[job], _see_request(own, job)
    n, n_now, soonest = 0, 0, NEVER
    for word in range(closed.size):
        bits = own.tables.holding[kind, word] & ~closed[word]
        while bits:
            node = word * WORD + lowest(bits)
            bits &= bits - 1
            if work.settled[row, node] != work.changed[node]:
                _settle(own, job, row, node)
            turn = work.room_from[row, node]
            work.usable[n], work.run_left[n] = node, turn
            n += turn < NEVER
            if turn == AT_ONCE:
                n_now += 1
            else:
                soonest = min(soonest, turn)
    return n, n_now, soonest


@part
def _n_until(own, n, turn):
    """Count the listed nodes that have room when a running job and those before it are taken away."""
    found, left = 0, own.work.run_left
    for i in range(n):
        found += left[i] <= turn
    return found


@part
def _keep_until(own, n, turn):
    """Keep of the listed nodes those that have room when a running job and those before it are taken away."""
    work, kept = own.work, 0
    for i in range(n):
        if work.run_left[i] <= turn:
            work.usable[kept] = work.usable[i]
            kept += 1
    return kept


@part
def _see_left(own, n, turn):
    """Set in ``future`` what of the listed nodes is free when a job and those before it have left."""
    work, of = own.work, own.tables.job_of
    for i in range(n):
        node = work.usable[i]
        for what in range(work.free.shape[0]):
            work.future[what, node] = work.free[what, node]
        slot = work.first_on[node]
        while slot >= 0 and turn_to_leave(own, of[slot]) <= turn:
            for what in range(work.free.shape[0]):
                work.future[what, node] += taken(own, of[slot], node, what, work.units[slot])
            slot = work.next_on[slot]


@part
def _on_open_node(own, job, closed):
    work, first = own.work, own.node_first[job]
    for i in range(first, first + work.n_parts[job]):  # noqa: SIM110
        if work.part_bits[i] & ~closed[work.part_word[i]]:
            return True
    return False


@part
def is_open(own, i, closed):
    """Say whether one of the running jobs holds an open node."""
    node = own.work.run_node[i]
    if node < 0:
        return _on_open_node(own, own.work.running[i], closed)
    return not closed[node // WORD] >> (node % WORD) & 1


@part
def _next_open(own, i, closed):
    """Return the place of the next running job that holds an open node; parts of them are passed over where noted."""
    work, n = own.work, own.work.now[N_RUNNING]
    step = n_in_part(own) if work.now[MARKED_CHANGES] == work.now[N_CHANGES] else n + 1
    while i < n and not is_open(own, i, closed):
        i += 1
        while i & (step - 1) == 0 and i + step <= n and not overlap(work.held_by[i // step], closed):
            i += step
    return i


@part
def _last_of_group(own, bound, closed):
    """Return the place of the job with which a group of running jobs ends.

    It ends with a job on an open node, behind which stands one whose limit ends after the bound. Where the last within
    the bound is passed over, the next on an open node is taken as well, whenever it ends.
    """
    n_running = own.work.now[N_RUNNING]
    beyond = first_after(own, bound)
    place = beyond - 1
    if not is_open(own, place, closed):
        place = _next_open(own, beyond, closed)
    if place == n_running:
        place = beyond - 1
        while not is_open(own, place, closed):
            place -= 1
    return place


@part
def _slot_of(own, job, closed):
    """Return where a search for one node among the open ones is kept: by what is searched, and which are closed."""
    key = own.tables.search[job] * 2 + 1
    for word in range(closed.size):
        key = (key ^ ((closed[word] ^ closed[word] >> 32) & _MIX_BITS)) * _MIX & _MIX_BITS
    return key >> 16 & (KEPT_SEARCHES - 1)


@part
def _is_kept(own, slot, job, closed, only_now):
    """Say whether the search in a slot is this one, at this moment, and nothing has begun or ended since."""
    work, found = own.work, own.work.searched[slot]
    if found[0] != own.tables.search[job] or found[1] != work.now[N_CHANGES]:
        return False
    if found[2] != 2 * work.now[NOW] + only_now:
        return False
    for word in range(closed.size):  # noqa: SIM110
        if found[5 + word] != closed[word]:
            return False
    return True


@part
def when_room(own, job, closed, only_now):
    """Do as `_when_room`, and keep what it finds for one node: the same request finds the same among the same nodes."""
    work = own.work
    if own.jobs.n_nodes[job] > 1:
        return _when_room(own, job, closed, only_now)
    slot = _slot_of(own, job, closed)
    found = work.searched[slot]
    if not _is_kept(own, slot, job, closed, only_now):
        at, n = _when_room(own, job, closed, only_now)
        found[0], found[1], found[2] = own.tables.search[job], work.now[N_CHANGES], 2 * work.now[NOW] + only_now
        found[3], found[4] = at, work.chosen[0] if n else -1
        for word in range(closed.size):
            found[5 + word] = closed[word]
    if found[4] < 0:
        return found[3], 0
    work.chosen[0] = found[4]
    return found[3], 1


@part
def _when_room(own, job, closed, only_now):
    """Do as `earliest._when_group_leaves` for a job whose nodes are all of one group, where no job may end another.

    Running jobs are taken away in groups: those whose limits end within 30 s, 60 s, 120 s … of the first that holds an
    open node. The job fits with the first group after which as many open nodes as it needs have got room. Where it is
    later than ``USEFUL_UNTIL``, its nodes are not chosen.
    """
    if own.tables.alone[own.tables.shape[job]]:
        return _when_alone(own, job, closed, only_now)
    work, wanted, now = own.work, own.jobs.n_nodes[job], own.work.now[NOW]
    n, n_now, soonest = _list_open(own, job, closed)
    if n < wanted or (only_now and n_now < wanted):
        return now, 0
    at, turn = now, AT_ONCE
    if n_now < wanted:
        window, place, first_end = 0, 0, 0
        while window == 0 or turn < soonest or _n_until(own, n, turn) < wanted:
            window, place, first_end = _next_group(own, window, place, first_end)
            turn = turn_to_leave(own, work.running[place])
        at = max(work.run_end[place], now + 1)
        if at > work.now[USEFUL_UNTIL]:
            return at, wanted
    n = _keep_until(own, n, turn)
    if n > wanted and (not own.rules.tree or own.jobs.lln[job]):  # leaf switches are chosen by their nodes alone
        _see_left(own, n, turn)
    _choose_usable(own, job, n, work.future)
    return at, wanted


@part
def _next_group(own, window, place, first_end):
    """Find the next group of running jobs that are taken away together; select/linear takes one after the other away.

    Returns
    -------
    (int, int, int)
        Its window, s, the place of the job with which it ends, and where the windows begin.
    """
    work = own.work
    if own.rules.linear:
        return 1, _next_open(own, place + int(window > 0), work.shut), 0
    if window == 0:
        ends = work.run_end[_next_open(own, 0, work.shut)]
        window, first_end = GROUPED, ends + GROUPED - (ends + own.rules.began) % GROUPED
    else:
        window *= 2
        while work.run_end[place + 1] > first_end + window:
            window *= 2
    return window, _last_of_group(own, first_end + window, work.shut), first_end


@part
def _choose_usable(own, job, n, free):
    """Choose a job's nodes among so many in ``usable``, of which that is free."""
    work, wanted = own.work, own.jobs.n_nodes[job]
    if n == wanted:
        for i in range(n):
            work.chosen[i] = work.usable[i]
        return
    for word in range(work.in_choice.size):
        work.in_choice[word] = 0
    pick(own, job, n, wanted, 0, free)
    list_choice(own)


@part
def _when_alone(own, job, closed, only_now):
    """Do as `_when_room` where a node is idle or held whole by one job: sets of nodes are counted, not their nodes."""
    work, kind, wanted, now = own.work, own.tables.kind[job], own.jobs.n_nodes[job], own.work.now[NOW]
    opened, n, n_open = work.open_words, 0, 0
    for word in range(closed.size):
        bits = own.tables.holding[kind, word] & ~closed[word]
        opened[word] = bits
        n_open += count(bits)
        n += count(bits & work.idle[word])
    if n_open < wanted or (only_now and n < wanted):
        return now, 0
    at, free = now, work.idle
    if n < wanted:
        free, window, place, first_end = work.in_choice, 0, 0, 0
        while n < wanted:
            window, place, first_end = _next_group(own, window, place, first_end)
            see_idle(own, place + 1, free)
            n = 0
            for word in range(closed.size):
                n += count(opened[word] & free[word])
        at = max(work.run_end[place], now + 1)
        if at > work.now[USEFUL_UNTIL]:
            return at, wanted
    n = 0
    for word in range(closed.size):
        n = list_nodes(work.usable, n, word, opened[word] & free[word])
    _choose_usable(own, job, n, own.nodes.totals)
    return at, wanted


@part
def move_limit(own, job, until):
    """Let a running job's limit end at another moment."""
    work, n = own.work, own.work.now[N_RUNNING]
    for k in range(own.node_first[job], own.node_first[job] + work.n_held[job]):
        part_from(own, k, work.on[k])
    place = 0
    while work.running[place] != job:
        place += 1
    node = work.run_node[place]
    remove(work.running, n, place)
    remove(work.run_end, n, place)
    remove(work.run_node, n, place)
    note_limit(own, job, until, node, n - 1)
    for k in range(own.node_first[job], own.node_first[job] + work.n_held[job]):
        join(own, k, work.on[k])


@part
def note_limit(own, job, until, node, n):
    """Put a job among so many running ones, by the ends of their limits; ``node`` = −1 where it has several."""
    work, place = own.work, n
    work.until[job] = until
    while place > 0:
        other, ends = work.running[place - 1], work.run_end[place - 1]
        if ends < until or (ends == until and other < job):
            break
        place -= 1
    insert(work.running, n, place, job)
    insert(work.run_end, n, place, until)
    insert(work.run_node, n, place, node)
