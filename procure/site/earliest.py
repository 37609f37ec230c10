"""The earliest start of a job that breaks no promise, as backfill of policy slurm looks for it: kernels."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.needs import holds, taken
from procure.site.place import find, find_now
from procure.site.preempt import look_ahead, take_prey_away
from procure.site.room import GROUPED, is_open, when_room
from procure.site.sets import count
from procure.site.slices import (
    boundary_after,
    clash,
    close_promised,
    last_loss,
    n_free,
    n_left,
    n_open,
    next_loss,
    rounded,
    slice_at,
    window_end,
)
from procure.site.work import (
    ALL_MINE,
    BY_PREEMPTION,
    LATER,
    N_RUNNING,
    N_VICTIMS,
    NEVER,
    NOW,
    SAME_UNTIL,
    STAYS,
    USEFUL_UNTIL,
    WORD,
)


@part
def add_closed(own, job, at, closed):
    """Add the nodes that are drained now, or set aside for others while the job would run from a moment."""
    spans, mine, now = own.closed, own.jobs.reservation[job], own.work.now[NOW]
    until = at + own.jobs.limit[job]
    if mine >= 0:
        for word in range(closed.size):
            own.work.in_choice[word] = 0
    for i in range(spans.shape[0]):
        word, bit, what = spans[i, 2] // WORD, 1 << (spans[i, 2] % WORD), spans[i, 3]
        if what < 0:
            if spans[i, 0] <= now < spans[i, 1]:
                closed[word] |= bit
        elif what == mine:
            if spans[i, 0] <= at < spans[i, 1]:
                own.work.in_choice[word] |= bit
        elif spans[i, 0] < until and at < spans[i, 1]:
            closed[word] |= bit
    if mine >= 0:
        for word in range(closed.size):
            closed[word] |= ~own.work.in_choice[word]


@part
def _after_reservation(own, at):
    """Return one second after the first end of a reservation from a time on, rounded up; 0 = none ends any more."""
    for end in own.tables.resv_ends:
        if end >= at:
            return rounded(own, end + own.rules.bf_resolution - 1) + 1
    return 0


@part
def _next_staying(own, i):
    """Return the place of the next running job that is not taken away already."""
    if own.rules.preempts:
        while i < own.work.now[N_RUNNING] and own.work.away[own.work.running[i]] != STAYS:
            i += 1
    return i


@part
def _fewer(own, job, closed):
    """Say whether a job's shape has fewer open nodes in its set than the job needs."""
    kind, wanted = own.tables.kind[job], own.jobs.n_nodes[job]
    for word in range(closed.size):
        bits = own.tables.holding[kind, word] & ~closed[word]
        while bits:
            bits &= bits - 1
            wanted -= 1
            if wanted == 0:
                return False
    return True


@part
def _release(own, job, last, closed):
    """Take a running job of several nodes away; says whether one of these that is open may now hold a job."""
    work, may_fit = own.work, False
    holding = own.tables.holding[own.tables.kind[job]]
    free, n_on = work.future, work.future_on
    for k in range(own.node_first[last], own.node_first[last] + work.n_held[last]):
        node = work.on[k]
        for what in range(own.work.free.shape[0]):
            free[what, node] += taken(own, last, node, what, work.units[k])
        n_on[node] -= 1
        if (holding[node // WORD] & ~closed[node // WORD]) >> (node % WORD) & 1:
            may_fit = may_fit or holds(own, job, node, free, n_on)
    return may_fit


@part
def _others_leave(own, job):
    """Say whether jobs are being ended at this moment, or a waiting one may end some."""
    if own.work.now[N_VICTIMS] > 0:
        return True
    for rank in range(own.work.n_of_rank.size):
        if own.work.n_of_rank[rank] > 0 and own.jobs.preempts[own.jobs.rank[job], rank]:
            return True
    return False


@part
def shut_others(own, job, closed, group):
    """Set in ``shut`` the closed nodes and those that a job may not use for their partition and features."""
    places, place, shut = own.places, own.jobs.place[job], own.work.shut
    first, end = places.first[place], places.first[place + 1]
    if group >= 0:
        first, end = group, group + 1
    for word in range(closed.size):
        reach = own.tables.reach[first, word]
        for other in range(first + 1, end):
            reach |= own.tables.reach[other, word]
        shut[word] = closed[word] | ~reach


@part
def _when_running_leave(own, job, closed, only_now):
    """Find nodes now or later; where a constraint counts nodes, of each group all that the job asks for.

    So does Slurm's backfill: for ``-N 3 -C "[old*2&new*1]"`` it sets three old and three new nodes aside, from the
    moment when it has found both.
    """
    work, places, place = own.work, own.places, own.jobs.place[job]
    if not _counts(own, job):
        return _when_group_leaves(own, job, closed, only_now, -1)
    at = work.now[NOW]
    for word in range(closed.size):
        work.of_groups[word] = 0
    for group in range(places.first[place], places.first[place + 1]):
        if places.counted[group]:
            start, n = _when_group_leaves(own, job, closed, only_now, group)
            if n == 0:
                return start, 0
            at = max(at, start)
            for k in range(n):
                work.of_groups[work.chosen[k] // WORD] |= 1 << (work.chosen[k] % WORD)
    return at, _choose_groups(own)


@part
def _choose_groups(own):
    """Bring the nodes of all groups that a constraint counts into ``chosen``; returns how many."""
    work = own.work
    n = 0
    for node in range(work.n_on.size):
        if work.of_groups[node // WORD] >> (node % WORD) & 1:
            work.chosen[n] = node
            n += 1
    return n


@part
def _counts(own, job):
    """Say whether a job's constraint counts nodes of groups."""
    return own.places.counted[own.places.first[own.jobs.place[job]]]


@part
def _when_group_leaves(own, job, closed, only_now, group):
    """Find nodes of one group, or of all, now, or after running jobs have left at their limits in growing groups.

    Returns
    -------
    (int, int)
        When, and how many nodes stand in ``chosen``; 0 nodes = never.
    """
    work = own.work
    now = work.now[NOW]
    plain, holding = own.tables.plain[own.tables.shape[job]], own.tables.holding[own.tables.kind[job]]
    n, n_prey = 0, 0
    work.now[BY_PREEMPTION] = 0
    shut_others(own, job, closed, group)
    if plain and not (own.rules.preempts and _others_leave(own, job)):
        return when_room(own, job, closed, only_now)
    n = find_now(own, job, closed, group)
    if n > 0 or (only_now and not own.rules.preempts) or (plain and _fewer(own, job, closed)):
        return now, n
    free, n_on = work.future, work.future_on
    if own.rules.preempts:
        n_prey = take_prey_away(own, job)
    else:
        look_ahead(own)
    may_fit = not plain or own.jobs.n_nodes[job] > 1  # else some node must get room first
    window, first_end, last_end = GROUPED, -1, now
    n_running = work.now[N_RUNNING]
    i = n_running if only_now else _next_staying(own, 0)
    by_prey = n_prey > 0
    while by_prey or i < n_running:
        more = not by_prey
        while more:
            place = i
            i = _next_staying(own, i + 1)
            if not is_open(own, place, work.shut):  # passed over, whenever it ends
                more = i < n_running
                continue
            last, last_end, node = work.running[place], work.run_end[place], work.run_node[place]
            if first_end < 0:
                first_end = last_end + window - (last_end + own.rules.began) % window
            if node < 0:
                may_fit = _release(own, job, last, closed) or may_fit
            elif not plain or holding[node // WORD] >> (node % WORD) & 1:  # others never hold the job
                for what in range(own.work.free.shape[0]):
                    free[what, node] += taken(own, last, node, what, work.units[own.node_first[last]])
                n_on[node] -= 1
                may_fit = may_fit or holds(own, job, node, free, n_on)
            more = not own.rules.linear and i < n_running and work.run_end[i] <= first_end + window
        if first_end >= 0:
            window *= 2
            while i < n_running and work.run_end[i] > first_end + window:
                window *= 2
        n = find(own, job, closed, free, n_on, group) if may_fit or by_prey else 0
        if n > 0:
            work.now[BY_PREEMPTION] = int(by_prey)
            return now if by_prey else max(last_end, now + 1), n
        by_prey = False
    return now, 0


@part
def closed_from(own, job, at, end):
    """Close the nodes that are promised, set aside or drained in a time."""
    closed = own.work.closed
    for word in range(closed.size):
        closed[word] = 0
    add_closed(own, job, at, closed)
    close_promised(own, at, end, closed)


@part
def _note_mine(own, job, at):
    """Set ``mine``: the nodes of a job's partition that are up, and not set aside for others if it starts at a time."""
    mine, partition, n = own.work.mine, own.jobs.partition[job], 0
    for word in range(mine.size):
        mine[word] = 0
    add_closed(own, job, at, mine)
    for word in range(mine.size):
        mine[word] = own.tables.partition_words[partition, word] & ~mine[word]
        n += count(mine[word])
    own.work.now[ALL_MINE] = int(n == own.work.n_on.size)


@part
def _change_after(own, at):
    """Return when the nodes that are promised or set aside change after a time, 0 = never."""
    i = next_loss(own, at)
    later = own.work.slice_begin[i + 1] if i >= 0 else 0
    over = _after_reservation(own, at)
    if over > 0 and (later == 0 or over < later) and over < window_end(own):
        later = over
    return later


@part
def _change_from(own, at, least):
    """Return the first of these changes, one after the other from a time on, that is not before another time."""
    if own.tables.resv_ends.size == 0:
        return _change_after(own, least - 1)
    later = _change_after(own, at)
    while 0 < later < least:
        later = _change_after(own, later)
    return later


@part
def is_counted(own, job):
    """Say whether a job's nodes are counted slice by slice: each is idle or held whole, and none is ever set aside."""
    shape = own.tables.shape[job]
    return own.tables.alone[shape] and own.tables.plain[shape] and own.tables.resv_ends.size == 0


@part
def not_before(own, job):
    """Return a time before which this pass has found no start for a job that asks for no more nodes, for no longer.

    What was promised since leaves less. `earliest` notes such times only where it has counted too few nodes.
    """
    work, jobs, found = own.work, own.jobs, own.work.now[NOW]
    kind = own.tables.kind[job]
    for k in range(work.n_sure[0]):
        other = work.sure_job[k]
        if (
            work.sure_from[k] > found
            and jobs.n_nodes[other] <= jobs.n_nodes[job]
            and jobs.limit[other] <= jobs.limit[job]
            and own.tables.kind[other] == kind
        ):
            found = work.sure_from[k]
    return found


@part
def note_not_before(own, job, at):
    """Keep a time before which a job, and any that asks for more, has no start in this pass."""
    work, shape = own.work, own.tables.shape[job]
    k = work.sure_place[shape]
    if k >= work.n_sure[0] or own.tables.shape[work.sure_job[k]] != shape:
        k = work.n_sure[0]
        work.n_sure[0] = k + 1
        work.sure_place[shape], work.sure_job[k] = k, job
    work.sure_from[k] = at


@part
def _too_few(own, job, at, later, end, tight):
    """Count the nodes that are open in a time and are or become free up to the next change; says if they are too few.

    Those that the slice of the next change and one more within the time leave are a bound. The open ones are then in
    ``closed``.
    """
    work, wanted, i = own.work, own.jobs.n_nodes[job], -1
    if later > 0:
        i = slice_at(own, later - 1)
        if work.slice_begin[i] > end:
            i = -1
        elif n_free(own, job, i, tight) < wanted:
            return True
    closed_from(own, job, at, end)
    return n_open(own, job, i, work.closed) < wanted


@part
def _same_until(own, at):
    """Note that the pass might find other starts from a moment on, though nothing happened meanwhile."""
    own.work.now[SAME_UNTIL] = min(own.work.now[SAME_UNTIL], at)


@part
def earliest(own, job, only_now, since):
    """Find the earliest start from a moment on that breaks no promise; its nodes then stand in ``chosen``.

    Of a start at once ``LATER`` tells when promises next change for the better; 0 = never.

    Returns
    -------
    (int, int)
        When, and on how many nodes; 0 = never.
    """
    work, limit, wanted = own.work, own.jobs.limit[job], own.jobs.n_nodes[job]
    now, later = work.now[NOW], since
    seeks_room = own.tables.plain[own.tables.shape[job]] and not own.rules.preempts
    counted = seeks_room and is_counted(own, job)
    _note_mine(own, job, now)
    if counted:
        sure = not_before(own, job)
        if sure == NEVER or (sure > now and only_now):
            return 0, 0
        later = max(later, last_loss(own, now, sure))
    n_seen, short, is_sure, tight = slice_at(own, later), 0, counted and since == now, -1
    while True:
        at = later
        end = max(at, now) + limit
        if own.closed.shape[0] > 0:
            _note_mine(own, job, at)
        if at == now:
            _same_until(own, boundary_after(own, end) - limit)
        if seeks_room:
            while n_seen < work.n_slices[0] and work.slice_begin[n_seen] <= end:
                n_seen += 1
                left = n_left(own, job, n_seen - 1)
                if left < wanted:
                    short = work.slice_begin[n_seen]
                if tight < 0 or left <= n_left(own, job, tight) or work.slice_begin[tight + 1] <= at:
                    tight = n_seen - 1
            if work.slice_begin[tight + 1] <= at:
                tight = n_seen - 1
            if short > at:  # no start before the last slice within the time that leaves the job too few nodes
                later = 0 if only_now else _change_from(own, at, short)
                if later == 0:
                    if is_sure:
                        note_not_before(own, job, NEVER)
                    return 0, 0
                continue
        later = _change_after(own, at)
        if counted:
            if _too_few(own, job, at, later, end, tight):
                if later == 0 or only_now:
                    if is_sure:
                        note_not_before(own, job, NEVER if later == 0 else at + 1)
                    return 0, 0
                continue
            if is_sure:
                note_not_before(own, job, at)
                is_sure = False
        else:
            closed_from(own, job, at, end)
        work.now[USEFUL_UNTIL] = NEVER
        if seeks_room and wanted > 1:
            work.now[USEFUL_UNTIL] = min(later if later else NEVER, now + own.rules.bf_window)
        start, n = _when_running_leave(own, job, work.closed, only_now)
        if n == 0:
            if later and not only_now:
                continue
            return 0, 0
        start = max(start, at)
        if start <= now:
            work.now[LATER] = later
            if _counts(own, job):
                n_begins = find_now(own, job, work.closed, -1)
                work.now[BY_PREEMPTION] = int(n_begins == 0)
                n = n_begins if n_begins > 0 else _choose_groups(own)
            return now, n
        if only_now:
            return 0, 0
        if later and start > later:
            continue
        if start > now + own.rules.bf_window:
            _same_until(own, start - own.rules.bf_window)
            return 0, 0
        ends = clash(own, rounded(own, start), rounded(own, start + limit), at, end, n)
        if ends >= 0:
            later = start if start > at else max(ends, at + 1)
            if later >= window_end(own):
                _same_until(own, later - own.rules.bf_window)
                return 0, 0
            continue
        return start, n
