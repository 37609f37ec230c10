"""Spreads of futures, learnt from how a log's weeks differ from those of four weeks before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.schemas import CLASSES
from procure.workload.turnover import DOUBT, FEWEST_PAIRS, LAG, STATED, learn_spreads

Bursts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def bursts_of(weeks: int, seed: int = 0, drift: float = 0.0, come_and_go: float = 0.0, n: int = 400) -> Bursts:
    """Bursts of 40 users and three classes; classes drift from week to week, users stay or are replaced."""
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(0, drift, (weeks, len(CLASSES))), axis=0)
    users, found = np.arange(40), []
    for week in range(weeks):
        gone = rng.random(40) < come_and_go
        users = np.where(gone, 1000 * (week + 1) + np.arange(40), users)
        job_class = rng.choice([0, 1, 3], n)
        weight = np.exp(-np.arange(40) / 5.0)
        owner = users[rng.choice(40, n, p=weight / weight.sum())]
        found.append(np.column_stack([np.full(n, week), job_class, owner, np.exp(level[week, job_class])]))
    table = np.concatenate(found)
    week, job_class, owner = (table[:, i].astype(np.int64) for i in range(3))
    return week, job_class, owner, table[:, 3]


def by_the_book(week, job_class, owner, load) -> list[float]:
    """The variances of the notes, by dictionaries and loops."""
    n = int(week.max()) + 1
    total = [sum(load[week == t]) for t in range(n)]

    def beyond(x):
        far = np.mean([(x[t + LAG] - x[t]) ** 2 for t in range(n - LAG)])
        return far - np.mean([(x[t + 1] - x[t]) ** 2 for t in range(n - 1)])

    classes = []
    for c in sorted(set(job_class)):
        held = [sum(load[(week == t) & (job_class == c)]) for t in range(n)]
        if sum(held) >= 0.01 * sum(total):
            least = min(one for one in held if one)
            classes.append(beyond([np.log(max(one, least) / total[t]) for t, one in enumerate(held)]))
    apart = squares = 0.0
    for t in range(n - LAG):
        now, then = (dict.fromkeys(set(owner), 0.0) for _ in range(2))
        for w, o, x in zip(week, owner, load, strict=True):
            if w == t:
                now[o] += x / total[t]
                apart -= (x / total[t]) ** 2
            if w == t + LAG:
                then[o] += x / total[w]
        apart += sum((then[o] - now[o]) ** 2 for o in now)
        squares += sum(one**2 for one in now.values())
    return [
        max(0.0, beyond(np.log(total))),
        max(0.0, np.median(classes)),
        np.log1p(max(0.0, apart / squares)),
    ]


@settings(max_examples=15, deadline=None)
@given(st.integers(6, 11), st.integers(0, 99), st.floats(0, 0.5), st.floats(0, 0.6))
def test_what_is_learnt_is_what_the_notes_say(weeks, seed, drift, come_and_go):
    """The compiled sums over sorted keys are those of loops over every user and week."""
    held = bursts_of(weeks, seed, drift, come_and_go, n=60)
    found, pairs = learn_spreads(*held)
    assert pairs == weeks - LAG
    weight = pairs / (pairs + DOUBT)
    wanted = [
        np.sqrt(weight * mine + (1 - weight) * stated**2)
        for mine, stated in zip(by_the_book(*held), STATED, strict=True)
    ]
    assert list(found) == pytest.approx([min(one, most) for one, most in zip(wanted, (1, 2, 2), strict=True)])


def test_a_short_log_keeps_the_stated_spreads():
    for weeks in range(1, LAG + FEWEST_PAIRS):
        assert learn_spreads(*bursts_of(weeks)) == (STATED, 0)
    assert learn_spreads(*bursts_of(LAG + FEWEST_PAIRS))[1] == FEWEST_PAIRS


def test_users_who_stay_are_spread_less_than_users_who_come_and_go():
    """Over forty weeks: steady users have almost none beside the doubt, those who all change a spread near 1."""
    steady, restless = (learn_spreads(*bursts_of(40, come_and_go=share))[0] for share in (0.0, 0.9))
    doubt = DOUBT / (40 - LAG + DOUBT)
    assert steady.by_user < np.sqrt(0.1 + doubt * STATED.by_user**2)
    assert 0.9 < restless.by_user < 1.3
    assert restless.by_user > 1.5 * steady.by_user


def test_classes_that_drift_are_spread_more():
    """Steps of 0.4 a week are apart by 0.4²·(4 − 1) more after four weeks than after one."""
    still, moving = (
        np.mean([learn_spreads(*bursts_of(60, seed, drift))[0].by_class for seed in range(4)]) for drift in (0.0, 0.4)
    )
    assert still < 0.25 and 0.35 < moving < 0.9
