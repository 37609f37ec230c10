"""The forecasts of a run as arrays, and what becomes of each: expected, held, met, missed.

All forecasts are made before the run from the submissions alone, which no scheduler changes; each uses
only what was submitted by its issue (`procure.forecast.confidence`), and none is looked at before that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.files.kernels import njit
from procure.forecast.confidence import confidence_of, make_forecasts
from procure.forecast.periods import Patterns, PatternSettings, recurrences
from procure.simulator.arrays import filled
from procure.simulator.state import FAR, State

LAYERS = ("day", "week")
LOW, HIGH = range(2)
"""The borders of the bands: from the first on jobs keep clear (`is_kept_clear`), from the second on nodes are
held where that pays (`is_held`)."""
N_ADMITTED, N_OPEN, MOMENT, SEEN = range(4)
"""What the notes count: forecasts issued, those among them still open, and ends dealt with at a moment."""
_DAY = 86_400
SHORT = 10
"""s; a job that runs shorter counts in a bounded slowdown as if it ran so long."""


class Expected(NamedTuple):
    """The forecasts in order of issue, and what the policy keeps of them during a run; an entry each."""

    issued: np.ndarray  # int64[n], s
    moment: np.ndarray  # int64[n], s, expected
    tolerance: np.ndarray  # int64[n], s
    sure: np.ndarray  # float64[n]
    came: np.ndarray  # int64[n], s at which a like burst came; FAR = it did not
    key: np.ndarray  # int64[n]
    job: np.ndarray  # int64[n], the first job of the burst that is to come again
    copies: np.ndarray  # int64[n], jobs expected, of which as many are not yet met
    length: np.ndarray  # int64[n], s that each is expected to run; set at the issue
    open: np.ndarray  # int64[n], the first N_OPEN entries
    key_of: np.ndarray  # int64[n_jobs]
    ran: np.ndarray  # int64[n_keys], s that the ended jobs ran, in all
    n_ended: np.ndarray  # int64[n_keys + 1], jobs; the last entry is of all keys
    per_second: np.ndarray  # float64[n_keys + 1], the slowdown that a second's wait added to each, in all
    lost: np.ndarray  # float64[n_keys + 1], the slowdown that waiting added to them, in all
    queue: np.ndarray  # float64[1], the slowdown that a second's wait adds to all waiting jobs
    capacity: int  # CPUs of all nodes
    borders: np.ndarray  # float64[2]
    eta: float
    notes: np.ndarray  # int64[4]


def lay_out(
    state: State, mode: str, tolerance: int, borders: tuple[float, float] = (0.0, 0.0), eta: float = 0.0
) -> Expected:
    """Make the forecasts of a run; days are counted from the first submission.

    Parameters
    ----------
    mode
        One of `procure.forecast.confidence.MODES`.
    tolerance
        Of daily forecasts, s; weekly ones have three times that.
    borders, eta
        Of the bands, at the beginning, and by how much a border moves.
    """
    jobs = pd.DataFrame(
        {
            "user": state.user.astype(str),
            "submit_time": state.submit,
            "requested_time": state.requested,
            "n_nodes": state.n_nodes,
            "cpus_per_node": state.cpus,
        }
    )
    settings = PatternSettings(day_tolerance=tolerance, week_tolerance=3 * tolerance)
    patterns = recurrences(jobs, settings)
    burst = patterns.burst_of
    parts = [_of_layer(patterns, name, mode) for name in LAYERS]
    table = pd.concat(parts).sort_values(["issued", "moment"], kind="stable")
    first = np.full(len(patterns.bursts.key), -1, np.int64)
    first[burst[::-1]] = np.arange(len(burst))[::-1]
    n, n_keys = len(table), len(patterns.keys)
    names = ("issued", "moment", "tolerance", "sure", "came", "key")
    columns: dict[str, Any] = {name: np.ascontiguousarray(table[name]) for name in names}
    return Expected(
        **columns,
        job=first[table["burst"]],
        copies=_known_size(table, burst, state.submit),
        **filled(n, length=0, open=0),
        key_of=patterns.bursts.key[burst],
        **filled(n_keys, ran=0),
        **filled(n_keys + 1, n_ended=0),
        per_second=np.zeros(n_keys + 1),
        lost=np.zeros(n_keys + 1),
        queue=np.zeros(1),
        capacity=int(np.maximum(state.total_cpus, 1).sum()),
        borders=np.array(borders),
        eta=eta,
        notes=np.array([0, 0, -1, 0]),
    )


def _of_layer(patterns: Patterns, name: str, mode: str) -> pd.DataFrame:
    f = make_forecasts(patterns, name)
    again = patterns.bursts.again[f.layer]
    return pd.DataFrame(
        {
            "issued": f.issued,
            "moment": f.expected,
            "tolerance": int(patterns.settings.tolerance[f.layer]),
            "sure": confidence_of(patterns, f, mode),
            "came": np.where(f.came, again, FAR),
            "key": f.key,
            "burst": f.burst,
        }
    )


def _known_size(table: pd.DataFrame, burst: np.ndarray, submit: np.ndarray) -> np.ndarray:
    """Return how many jobs of each burst had been submitted when its reservation would begin."""
    order = np.argsort(burst, kind="stable")
    begins = np.maximum((table["moment"] - table["tolerance"]).to_numpy(), table["issued"].to_numpy())
    far = int(max(submit.max(initial=0), begins.max(initial=0))) + 1
    place = burst[order].astype(np.int64) * far + submit[order]
    of = table["burst"].to_numpy(np.int64) * far
    return np.searchsorted(place, of + begins, "right") - np.searchsorted(place, of, "left")


@njit(cache=True, nogil=True)
def follow(state, e):
    """Bring the forecasts up to now: note run times, close what is past, move the borders, admit what was issued."""
    now, notes = state.now[0], e.notes
    if notes[MOMENT] != now:
        notes[MOMENT], notes[SEEN] = now, 0
    for i in range(notes[SEEN], state.n_ended[0]):
        _note_end(state, e, state.ended[i])
    notes[SEEN] = state.n_ended[0]
    stay = 0
    for i in range(notes[N_OPEN]):
        f = e.open[i]
        if e.moment[f] + e.tolerance[f] >= now:
            e.open[stay] = f
            stay += 1
        else:
            _learn(e, f)
    notes[N_OPEN] = stay
    while notes[N_ADMITTED] < e.issued.size and e.issued[notes[N_ADMITTED]] <= now:
        f = notes[N_ADMITTED]
        notes[N_ADMITTED] += 1
        if e.moment[f] + e.tolerance[f] >= now:
            _admit(state, e, f)
        else:
            _learn(e, f)


@njit(cache=True, nogil=True)
def _note_end(state, e, job):
    """Note how long a job ran, and what waiting cost it in bounded slowdown."""
    key, run = e.key_of[job], state.now[0] - state.start[job]
    a_second = 1.0 / max(SHORT, run)
    e.ran[key] += run
    for group in (key, e.n_ended.size - 1):
        e.n_ended[group] += 1
        e.per_second[group] += a_second
        e.lost[group] += (state.start[job] - state.submit[job]) * a_second


@njit(cache=True, nogil=True)
def _learn(e, f):
    """Move the borders: down the lower one for a hit below it, up both for a miss above the upper one."""
    hit = e.came[f] < FAR
    if hit and e.sure[f] < e.borders[LOW]:
        e.borders[LOW] = max(0.0, e.borders[LOW] - e.eta)
    elif not hit and e.sure[f] >= e.borders[HIGH]:
        e.borders[HIGH] = min(1.0, e.borders[HIGH] + e.eta)
        e.borders[LOW] = min(e.borders[LOW] + e.eta, e.borders[HIGH])


@njit(cache=True, nogil=True)
def _admit(state, e, f):
    """Open a forecast; of two of one key at about one time the surer one has the jobs."""
    key, estimate = e.key[f], state.estimate[e.job[f]]
    run = e.ran[key] // e.n_ended[key] if e.n_ended[key] else _DAY
    e.length[f] = max(1, min(run, estimate))
    for i in range(e.notes[N_OPEN]):
        other = e.open[i]
        near = max(e.tolerance[f], e.tolerance[other])
        if e.key[other] == e.key[f] and e.copies[other] > 0 and abs(e.moment[other] - e.moment[f]) <= near:
            if e.sure[other] >= e.sure[f]:
                e.copies[f] = 0
            else:
                e.copies[other] = 0
    e.open[e.notes[N_OPEN]] = f
    e.notes[N_OPEN] += 1


@njit(cache=True, nogil=True)
def reaches(e, f, border):
    """Say whether an open forecast is as sure as a border (`LOW`, `HIGH`) and not all of its jobs have come."""
    return e.copies[f] > 0 and e.sure[f] >= e.borders[border]


@njit(cache=True, nogil=True)
def any_reaches(e, border):
    """Say whether any open forecast reaches a border."""
    found = False
    for i in range(e.notes[N_OPEN]):
        found = found or reaches(e, e.open[i], border)
    return found


@njit(cache=True, nogil=True)
def _saved(e, f):
    """Return what waiting has cost jobs like an expected one, in bounded slowdown, times the confidence."""
    return e.sure[f] * e.lost[e.key[f]] / (e.n_ended[e.key[f]] + 1)


@njit(cache=True, nogil=True)
def is_kept_clear(e, f):
    """Say whether jobs keep clear of a forecast where other nodes will do: one from the lower border on.

    And only where waiting has cost the expected jobs more, times the confidence, than all ended jobs.
    """
    every = e.n_ended.size - 1
    return reaches(e, f, LOW) and _saved(e, f) * e.n_ended[every] > e.lost[every]


@njit(cache=True, nogil=True)
def weigh_queue(state, e):
    """Note what a second's wait costs all waiting jobs."""
    e.queue[0] = 0.0
    job = state.next_waiting[state.submit.size]
    while job != state.submit.size:
        e.queue[0] += _a_second(e, job)
        job = state.next_waiting[job]


@njit(cache=True, nogil=True)
def _a_second(e, job):
    """Return the bounded slowdown that a second's wait is expected to add to a job: the mean of 1 / run time.

    Of the ended jobs of its key; all ended jobs together count as one more.
    """
    key, every = e.key_of[job], e.n_ended.size - 1
    if e.n_ended[every] == 0:
        return 1.0 / SHORT
    usual = e.per_second[every] / e.n_ended[every]
    return (e.per_second[key] + usual) / (e.n_ended[key] + 1)


@njit(cache=True, nogil=True)
def is_held(state, e, f, job):
    """Say whether nodes are held for an open forecast against a waiting job that is not the first one.

    They are from the upper border on, if that is expected to save more bounded slowdown than it costs. It saves
    the confidence times what waiting has cost jobs like the expected ones, of which as many count as the other
    could take the nodes of. It costs the job its wait until the nodes are given up, and all that wait a share of
    that: as much as the nodes are of all.
    """
    if not reaches(e, f, HIGH) or job == state.next_waiting[state.submit.size]:
        return False
    width = _width(state, e.job[f])
    n = min(e.copies[f], max(1, _width(state, job) // width))
    saved = n * _saved(e, f)
    a_second = _a_second(e, job) + e.queue[0] * (n * width / e.capacity)
    return saved > a_second * (e.moment[f] + e.tolerance[f] + e.length[f] - state.now[0])


@njit(cache=True, nogil=True)
def _width(state, job):
    return state.n_nodes[job] * max(1, state.cpus[job])


@njit(cache=True, nogil=True)
def matching(state, e, job):
    """Return the surest open forecast that a job meets; −1 if there is none."""
    found = -1
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if (
            e.key[f] == e.key_of[job]
            and e.copies[f] > 0
            and e.job[f] != job
            and state.submit[job] > e.issued[f]
            and abs(state.submit[job] - e.moment[f]) <= e.tolerance[f]
            and (found < 0 or e.sure[f] > e.sure[found])
        ):
            found = f
    return found


@njit(cache=True, nogil=True)
def next_release(state, e):
    """Return the next moment, s, at which nodes that may be held are given up; FAR if there is none."""
    soonest = FAR
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if reaches(e, f, HIGH):
            soonest = min(soonest, e.moment[f] + e.tolerance[f] + 1)
    return soonest
