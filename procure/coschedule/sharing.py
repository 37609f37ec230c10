"""Co-scheduling in the one loop: a job that fits nowhere may run inside another's allocation.

The rule. A waiting job, in queue order, starts on the first nodes that have CPUs nobody holds. If there
are too few, it may become the *guest* of a running job, its *donor*: on nodes of that one donor, at most
as many CPUs on each, where the donor has no guest yet, all at once; memory and GPUs are not shared.
Donors are tried in the order in which they began to hold CPUs. The learner chooses the quota that the
guest starts with; at 0 the next donor is tried. Every ``interval`` seconds each pair's loss is learnt
from and its quota chosen anew. At every moment, a donor that would miss its limit at its present pace
takes its cores back: its guests stand still until the next choice. A donor that ends leaves its guests
the CPUs that they asked for. A guest is nobody's donor. With idle priority there is no quota to choose: a
guest is let in where it is expected to end in time on what its donor leaves over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from procure.coschedule.learner import (
    IN_DANGER,
    N_METRICS,
    UCB,
    Learner,
    bin_of,
    choose,
    happiness,
    learn,
    mean_loss,
    mood_of,
    pair_loss,
    projected_loss,
)
from procure.simulator.kernel import kernel, part
from procure.simulator.running import ask_pace
from procure.simulator.state import PACE_ONE, WAIT
from procure.simulator.steps import holds

FORMS = ("share", "bandwidth")
IDLE = 2.0
"""In place of a quota: the guest has idle priority, and gets what the donor leaves over."""
LEAST_SHARE = 0.01
"""Of the CPUs: no job is taken for idler than this."""


class Contention(NamedTuple):
    """What sharing costs: a model of two forms, and its parameters.

    ``share``: a job that keeps a share c of its CPUs busy when alone runs at pace min(1, s / c) when it may use a share
    s; both run slower by 1 / (1 + overhead) while both run, for caches and switches. ``bandwidth``: besides, each is
    slowed by ``severity`` times the share of the memory bandwidth that it draws itself times the share that the other
    draws at its pace: who needs no memory neither disturbs nor is disturbed (the sensitivity and pressure of Mars et
    al., "Bubble-Up", 2011).
    """

    bandwidth: int  # 1 = the form with a term for memory bandwidth
    overhead: float  # by how much longer anything takes while two share
    severity: float  # slowdown where both draw all of the bandwidth at their full paces


@kernel
def paces_of(model, quota, part, donor, guest):
    """Return the paces of donor and guest, each as a share of its pace alone, at most 1.

    ``quota`` is the share of the shared CPUs that the guest may use; the donor has the rest. At 0 the guest stands
    still and costs nothing. At `IDLE` the donor is first on every CPU. ``part`` of the donor's CPUs are shared.
    ``donor`` and ``guest`` are two shares, 0 to 1: of its own CPUs that each keeps busy when alone, and of their
    bandwidth that it draws.
    """
    if quota <= 0.0:
        return 1.0, 0.0
    of_donor = min(1.0, (1.0 - quota * part) / max(donor[0], LEAST_SHARE))
    of_guest = min(1.0, quota / max(guest[0], LEAST_SHARE))
    if quota == IDLE:
        of_donor, of_guest = 1.0, min(1.0, max(0.0, 1.0 - donor[0]) / max(guest[0], LEAST_SHARE))
        if of_guest == 0.0:
            return 1.0, 0.0
    slow = 1.0 + model.overhead
    product = model.bandwidth * model.severity * donor[1] * guest[1]
    return of_donor / (slow + product * of_guest * part), of_guest / (slow + product * of_donor)


FIXED, IDLE_PRIORITY = 1, 2
OWNER, ABSENT = -1, -2
"""In place of a donor's number: the job holds its own CPUs; it does not run."""
MOMENT, SEEN, NEXT, CURSOR, N_OWNERS, N_PAIRS, N_CHOICES, N_TAKEN_BACK = range(8)
"""What the notes hold."""


class Sharing(NamedTuple):
    """What the policy knows, and keeps during a run."""

    learner: Learner
    fixed: int  # 0 = quotas are learnt; IDLE_PRIORITY; FIXED = one quota, nothing is taken back
    quotas: np.ndarray  # float64[n_quotas], from 0
    contention: Contention  # what happens
    believed: Contention  # what is believed to happen
    interval: int  # s between choices
    tolerance: float  # share by which a job may run longer
    admit: float  # the expected loss up to which `ucb` lets a guest in
    profiles: np.ndarray  # float64[3, n_jobs], shares of CPU, memory and bandwidth; NaN = unknown
    work_at: np.ndarray  # int64[n_speeds, n_jobs], s
    speed_of_node: np.ndarray  # uint32[n_nodes], row of work_at
    work: np.ndarray  # int64[n_jobs], s at the full pace, on the nodes that the job got, as far as known
    done: np.ndarray  # int64[n_jobs], work done at ``since``, 1 / PACE_ONE s
    since: np.ndarray  # int64[n_jobs], s
    pace: np.ndarray  # int64[n_jobs]
    donor: np.ndarray  # int64[n_jobs], a guest's donor; OWNER; ABSENT
    level: np.ndarray  # int64[n_jobs], row of quotas that a guest has
    context: np.ndarray  # int64[n_jobs, N_METRICS + 1], in which a guest's quota was chosen
    expected: np.ndarray  # float64[n_jobs], the loss that was predicted then
    guest_at: np.ndarray  # int64[sum of n_nodes], per entry of State.node_list: the guest there, or −1
    owners: np.ndarray  # int64[n_jobs], the first N_OWNERS entries: jobs that hold CPUs, in that order
    free: np.ndarray  # int64[n_nodes], CPUs that nobody holds
    began: np.ndarray  # int64[n_jobs], the donor as whose guest a job began, or −1
    shared: np.ndarray  # int64[n_jobs], s that a guest ran or stood as one
    loss: np.ndarray  # float64[1], the sum over choices of the loss that followed
    predicted: np.ndarray  # float64[n_quotas], scratch
    losses: np.ndarray  # float64[n_quotas], scratch
    here: np.ndarray  # int64[N_METRICS + 1], scratch
    notes: np.ndarray  # int64[8]


@part
def share(state, own):
    """Start the first job in queue order that finds CPUs nobody holds, or a donor; lend and take back quotas."""
    notes, now = own.notes, state.now[0]
    if notes[MOMENT] != now or notes[SEEN] != state.n_ended[0]:
        _settle(state, own)
        if notes[MOMENT] != now:
            if now >= notes[NEXT]:
                _choose_anew(state, own)
                notes[NEXT] = (now // own.interval + 1) * own.interval
            _take_back(state, own)
        notes[MOMENT], notes[SEEN], notes[CURSOR] = now, state.n_ended[0], -1
    end = state.submit.size
    before = notes[CURSOR]
    job = state.next_waiting[end if before < 0 else before]
    while job != end:
        donor = _find(state, own, job)
        if donor != ABSENT:
            _begin(state, own, job, donor)
            return job
        notes[CURSOR] = job
        job = state.next_waiting[job]
    state.wake[0] = notes[NEXT] if notes[N_PAIRS] > 0 else -1
    return WAIT


@part
def _find(state, own, job):
    """Choose the nodes of a job; returns its donor, OWNER, or ABSENT if there is no room."""
    n = 0
    for node in range(own.free.size):
        if own.free[node] >= state.cpus[job] and holds(state, node, job):
            state.chosen[n] = node
            n += 1
            if n == state.n_nodes[job]:
                return OWNER
    if state.options.exclusive or math.isnan(own.profiles[0, job]) or state.cpus[job] == 0:
        return ABSENT
    for k in range(own.notes[N_OWNERS]):
        donor = own.owners[k]
        if (
            state.n_nodes[donor] >= state.n_nodes[job]
            and state.cpus[donor] >= state.cpus[job]
            and not math.isnan(own.profiles[0, donor])
            and _room_inside(state, own, job, donor)
            and _welcome(state, own, job, donor)
        ):
            return donor
    return ABSENT


@part
def _room_inside(state, own, job, donor):
    """Choose nodes of a donor that have no guest; says whether there are enough."""
    n = 0
    for slot in range(state.node_first[donor], state.node_first[donor + 1]):
        node = state.node_list[slot]
        if own.guest_at[slot] < 0 and holds(state, node, job):
            state.chosen[n] = node
            n += 1
            if n == state.n_nodes[job]:
                return True
    return False


@part
def _welcome(state, own, job, donor):
    """Choose the quota that a guest would start with; says whether it is above 0."""
    if own.fixed == FIXED:
        own.level[job] = 1
        return True
    own.work[job], own.done[job], own.since[job] = _work_on(state, own, job), 0, state.now[0]
    _look(state, own, donor, job)
    if own.here[N_METRICS] == IN_DANGER:
        return False
    _note_context(own, job)
    _expect(state, own, own.believed, donor, job, own.predicted)
    if own.fixed == IDLE_PRIORITY:
        own.level[job] = 1
        return own.predicted[1] <= own.admit
    level = choose(own.learner, own.here, own.predicted)
    own.level[job], own.expected[job] = level, own.predicted[level]
    if own.learner.mode != UCB or level == 0:
        return level > 0
    return mean_loss(own.learner, own.here, level, own.predicted) <= own.admit


@part
def _work_on(state, own, job):
    """Return how long a job runs at the full pace on the chosen nodes, s."""
    longest = np.int64(0)
    for i in range(state.n_nodes[job]):
        longest = max(longest, own.work_at[own.speed_of_node[state.chosen[i]], job])
    return longest


@part
def _begin(state, own, job, donor):
    own.donor[job] = own.began[job] = donor
    own.work[job], own.done[job], own.since[job] = _work_on(state, own, job), 0, state.now[0]
    own.pace[job] = PACE_ONE
    if donor == OWNER:
        for i in range(state.n_nodes[job]):
            own.free[state.chosen[i]] -= state.cpus[job]
        own.owners[own.notes[N_OWNERS]] = job
        own.notes[N_OWNERS] += 1
        return
    i = 0
    for slot in range(state.node_first[donor], state.node_first[donor + 1]):
        if i < state.n_nodes[job] and state.node_list[slot] == state.chosen[i]:
            own.guest_at[slot] = job
            i += 1
    own.notes[N_PAIRS] += 1
    _set_paces(state, own, donor)


@part
def _settle(state, own):
    """Deal with the jobs that ended."""
    for k in range(state.n_ended[0]):
        job = state.ended[k]
        donor = own.donor[job]
        if donor == ABSENT:
            continue
        own.donor[job] = ABSENT
        if donor == OWNER:
            _leave(state, own, job)
            continue
        own.shared[job] += state.now[0] - state.start[job]
        own.notes[N_PAIRS] -= 1
        for slot in range(state.node_first[donor], state.node_first[donor + 1]):
            if own.guest_at[slot] == job:
                own.guest_at[slot] = -1
        _set_paces(state, own, donor)


@part
def _leave(state, own, job):
    """Free a job's CPUs, or leave them to its guests."""
    notes, k = own.notes, 0
    while own.owners[k] != job:
        k += 1
    for i in range(k, notes[N_OWNERS] - 1):
        own.owners[i] = own.owners[i + 1]
    notes[N_OWNERS] -= 1
    for slot in range(state.node_first[job], state.node_first[job + 1]):
        node, guest = state.node_list[slot], own.guest_at[slot]
        own.free[node] += state.cpus[job]
        own.guest_at[slot] = -1
        if guest < 0:
            continue
        own.free[node] -= state.cpus[guest]
        if own.donor[guest] == job:
            own.donor[guest] = OWNER
            own.shared[guest] += state.now[0] - state.start[guest]
            own.owners[notes[N_OWNERS]] = guest
            notes[N_OWNERS] += 1
            notes[N_PAIRS] -= 1
            _set_pace(state, own, guest, PACE_ONE)


@part
def _set_pace(state, own, job, pace):
    if own.pace[job] != pace:
        own.done[job] += own.pace[job] * (state.now[0] - own.since[job])
        own.since[job] = state.now[0]
        own.pace[job] = pace
        ask_pace(state, job, pace)


@part
def _set_paces(state, own, donor):
    """Give a donor and its guests the paces of their quotas; the donor's is the least on any of its nodes."""
    least = PACE_ONE
    for slot in range(state.node_first[donor], state.node_first[donor + 1]):
        guest = own.guest_at[slot]
        if guest >= 0:
            one, other = _paces(state, own, own.contention, donor, guest, own.quotas[own.level[guest]])
            least = min(least, int(one * PACE_ONE))
            _set_pace(state, own, guest, int(other * PACE_ONE))
    _set_pace(state, own, donor, least)


@part
def _paces(state, own, model, donor, guest, quota):
    of, part = own.profiles, state.cpus[guest] / state.cpus[donor]
    return paces_of(model, quota, part, (of[0, donor], of[2, donor]), (of[0, guest], of[2, guest]))


@part
def _left(state, own, job):
    """Return a job's limit, the time left until it, and the work left; s."""
    elapsed = state.now[0] - state.start[job] if state.start[job] >= 0 else 0
    limit = own.work[job] * (1.0 + own.tolerance)
    if state.requested[job] > 0:
        limit = min(limit, 1.0 * state.requested[job])
    done = (own.done[job] + own.pace[job] * (state.now[0] - own.since[job])) / PACE_ONE
    return max(limit, 1.0), limit - elapsed, own.work[job] - done


@part
def _look(state, own, donor, guest):
    """Fill ``here`` with the context of a pair."""
    here, of = own.here, own.profiles
    limit, limit_left, work_left = _left(state, own, donor)
    here[0] = bin_of(0, of[0, donor])
    here[1] = bin_of(1, of[1, donor])
    here[2] = bin_of(2, of[0, guest])
    here[3] = bin_of(3, of[1, guest])
    here[4] = bin_of(4, of[0, donor] + of[0, guest])
    here[5] = bin_of(5, 1.0 - limit_left / limit)
    here[N_METRICS] = mood_of(happiness(limit_left, own.pace[donor] / PACE_ONE, work_left))


@part
def _note_context(own, job):
    for i in range(own.here.size):
        own.context[job, i] = own.here[i]


@part
def _expect(state, own, model, donor, guest, losses):
    """Fill ``losses`` with what each quota would bring if it stayed.

    A guest is let in though it may be expected to overrun its limit by the share ``admit``, the loss of which
    is just that; so its limit is taken to be that much lower.
    """
    limit, limit_left, work_left = _left(state, own, donor)
    limit_2, limit_left_2, work_left_2 = _left(state, own, guest)
    margin = limit_2 * own.admit / (1.0 + own.admit)
    limit_2, limit_left_2 = limit_2 - margin, limit_left_2 - margin
    for a in range(losses.size):
        one, other = _paces(state, own, model, donor, guest, own.quotas[a])
        donors = projected_loss(limit, limit_left, one, work_left)
        guests = projected_loss(limit_2, limit_left_2, other, work_left_2)
        losses[a] = pair_loss(donors, guests)


@part
def _choose_anew(state, own):
    """Learn from the loss of every pair, and choose its quota anew; at idle priority, only whether it stands still."""
    if own.fixed == FIXED:
        return
    for k in range(own.notes[N_OWNERS]):
        donor, lends = own.owners[k], False
        for slot in range(state.node_first[donor], state.node_first[donor + 1]):
            guest = own.guest_at[slot]
            if guest < 0 or state.node_list[state.node_first[guest]] != state.node_list[slot]:
                continue  # each guest once, at its first node
            lends = True
            if own.fixed == IDLE_PRIORITY:
                _look(state, own, donor, guest)
                own.level[guest] = 0 if own.here[N_METRICS] == IN_DANGER else 1
                continue
            _expect(state, own, own.contention, donor, guest, own.losses)
            level = own.level[guest]
            for i in range(own.here.size):
                own.here[i] = own.context[guest, i]
            learn(own.learner, own.here, level, own.losses, own.expected[guest])
            own.loss[0] += own.losses[level]
            own.notes[N_CHOICES] += 1
            _look(state, own, donor, guest)
            _note_context(own, guest)
            _expect(state, own, own.believed, donor, guest, own.predicted)
            own.level[guest] = choose(own.learner, own.here, own.predicted)
            own.expected[guest] = own.predicted[own.level[guest]]
        if lends:
            _set_paces(state, own, donor)


@part
def _take_back(state, own):
    """Stop the guests of every donor that would miss its limit at its present pace."""
    if own.fixed == FIXED:
        return
    for k in range(own.notes[N_OWNERS]):
        donor = own.owners[k]
        if own.pace[donor] == PACE_ONE:
            continue
        _, limit_left, work_left = _left(state, own, donor)
        if happiness(limit_left, own.pace[donor] / PACE_ONE, work_left) >= 1.0:
            continue
        own.notes[N_TAKEN_BACK] += 1
        for slot in range(state.node_first[donor], state.node_first[donor + 1]):
            if own.guest_at[slot] >= 0:
                own.level[own.guest_at[slot]] = 0
        _set_paces(state, own, donor)
