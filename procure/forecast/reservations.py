"""The forecasts of a run as arrays, and what becomes of each: expected, held, met, missed.

All forecasts are made before the run from the submissions alone, which no scheduler changes; each uses
only what was submitted by its issue (`procure.forecast.confidence`), and none is looked at before that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numba import njit

from procure.forecast.confidence import make_forecasts
from procure.forecast.forecaster import confidence_of
from procure.forecast.periods import Patterns, PatternSettings
from procure.simulator.state import FAR, State

LAYERS = ("day", "week")
CONTROLS = ("learnt", "exact", "shuffled")
"""Where confidences come from: a mode; the future itself, an upper bound; a mode's, dealt out anew."""

EXACT_TOLERANCE = 60
"""s; about a forecast that knows the future."""
LOW, HIGH = range(2)
"""The borders of the bands: below the first nothing is held, from the second on for good."""
N_ADMITTED, N_OPEN, MOMENT, SEEN = range(4)
"""What the notes count: forecasts issued, those among them still open, and ends dealt with at a moment."""
_DAY = 86_400


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
    since: np.ndarray  # int64[n], s from which nodes are held now; −1 = none are
    n_held: np.ndarray  # int64[n], jobs for which nodes are held now
    open: np.ndarray  # int64[n], the first N_OPEN entries
    key_of: np.ndarray  # int64[n_jobs]
    last_run: np.ndarray  # int64[n_keys], s that the last ended job ran; −1 = none ended
    borders: np.ndarray  # float64[2]
    eta: float
    notes: np.ndarray  # int64[4]


def lay_out(
    state: State, mode: str, control: str, tolerance: int, borders: tuple[float, float], eta: float, seed: int
) -> Expected:
    """Make the forecasts of a run.

    Parameters
    ----------
    mode
        One of `procure.forecast.confidence.MODES`.
    control
        One of `CONTROLS`.
    tolerance
        s, of daily forecasts; weekly ones have three times that.
    borders
        Of the bands, at the beginning.
    eta
        By how much a border moves.
    seed
        Of the shuffling.
    """
    jobs = pd.DataFrame(
        {
            "user": state.user.astype(str), "submit_time": state.submit, "requested_time": state.requested,
            "n_nodes": state.n_nodes, "cpus_per_node": state.cpus,
        }
    )  # fmt: skip
    settings = PatternSettings(day_tolerance=tolerance, week_tolerance=3 * tolerance)
    patterns = Patterns(settings)
    burst = patterns.extend(jobs)
    parts = [_of_layer(patterns, name, mode, control, seed) for name in LAYERS]
    table = pd.concat(parts).sort_values(["issued", "moment"], kind="stable")
    first = np.full(len(patterns.bursts.key), -1, np.int64)
    first[burst[::-1]] = np.arange(len(burst))[::-1]
    n = len(table)

    def column(name: str) -> np.ndarray:
        return np.ascontiguousarray(table[name].to_numpy())

    return Expected(
        column("issued"), column("moment"), column("tolerance"), column("sure"), column("came"), column("key"),
        first[column("burst")], _known_size(table, burst, state.submit), np.zeros(n, np.int64),
        np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64), patterns.bursts.key[burst],
        np.full(len(patterns.keys), -1, np.int64), np.array(borders), eta, np.array([0, 0, -1, 0]),
    )  # fmt: skip


def _of_layer(patterns: Patterns, name: str, mode: str, control: str, seed: int) -> pd.DataFrame:
    f = make_forecasts(patterns, name)
    again = patterns.bursts.again[f.layer]
    sure = f.came.astype(np.float64) if control == "exact" else confidence_of(patterns, f, mode)
    if control == "shuffled":
        sure = np.random.default_rng(seed).permutation(sure)
    tolerance = EXACT_TOLERANCE if control == "exact" else int(patterns.settings.tolerance[f.layer])
    return pd.DataFrame(
        {
            "issued": f.issued, "moment": np.where(f.came, again, f.expected) if control == "exact" else f.expected,
            "tolerance": tolerance, "sure": sure, "came": np.where(f.came, again, FAR),
            "key": f.key, "burst": f.burst,
        }
    )  # fmt: skip


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
        job = state.ended[i]
        e.last_run[e.key_of[job]] = now - state.start[job]
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
    run = e.last_run[e.key[f]]
    estimate = state.estimate[e.job[f]]
    e.length[f] = max(1, min(run if run >= 0 else _DAY, estimate))
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
def is_held(state, e, f, hard):
    """Say whether nodes are to be held for an open forecast: for good (``hard``), or while nobody else waits for them.

    From the upper border on; at 1, as of the exact forecasts, always.
    """
    if e.copies[f] <= 0:
        return False
    if hard:
        return e.sure[f] >= e.borders[HIGH]
    return e.borders[LOW] <= e.sure[f] < e.borders[HIGH]


@njit(cache=True, nogil=True)
def matching(state, e, job):
    """Return the open forecast that a job meets, held for good first; −1 if there is none."""
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
    """Return the next moment, s, at which nodes that are held for good are given up; FAR if there is none."""
    soonest = FAR
    for i in range(e.notes[N_OPEN]):
        f = e.open[i]
        if e.n_held[f] > 0:
            soonest = min(soonest, e.moment[f] + e.tolerance[f] + 1)
    return soonest
