"""The online mixture: it learns only what is known, notices a change, and never contradicts itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.queue_time import calibrate, mixture, recent, weighing
from procure.queue_time.calibrate import GRID
from procure.queue_time.distribution import Distribution
from procure.queue_time.evaluation import queue_jobs
from procure.queue_time.experts import BY_OPEN, MOST_WEIGHT, NAMES, PRIOR, RATES, stack
from procure.queue_time.features import BACKLOG
from procure.queue_time.log import UNKNOWN, Outcomes
from procure.queue_time.mixture import Mixture, Mixtures
from procure.queue_time.splits import bursts
from procure.schemas import JOB
from procure.tables import check

TOP = float(np.log1p(1e6))


def outcomes_of(submit: np.ndarray, wait: np.ndarray, started: np.ndarray | None = None) -> Outcomes:
    names = np.arange(len(submit)).astype("U")
    on = np.isfinite(wait) if started is None else started
    return Outcomes(
        submit.astype(float),
        np.where(np.isfinite(wait), submit + wait, UNKNOWN),
        on,
        names,
        np.ones(len(names), np.int64),
        np.ones(len(names), np.int64),
    )


def random_case(seed: int, n: int = 150) -> tuple[Outcomes, np.ndarray]:
    """Jobs of which some wait for ever and some give up, and what random experts say of them."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 40_000, n))
    wait = np.where(rng.random(n) < 0.1, np.inf, rng.exponential(3000, n) * (rng.random(n) < 0.7))
    started = np.isfinite(wait) & (rng.random(n) < 0.9)
    raw = np.sort(rng.uniform(0, 11, (n, len(NAMES), len(GRID))), axis=2).astype(np.float32)
    rank = rng.integers(1, 9, n)
    return replace(outcomes_of(submit, wait, started), rank=rank, open_rank=rng.integers(1, rank + 1)), raw


def slow_weights(outcomes: Outcomes, raw: np.ndarray, stated: mixture.Stated, until: float) -> np.ndarray:
    """Return the weights after all that is known by ``until``: a plain loop over news in the order of time."""
    news = []
    for row, (submit, left) in enumerate(zip(outcomes.submit, outcomes.left, strict=True)):
        age, looks = left - submit, [0.0, *(300 * 2.0**k for k in range(16))]
        for low, high in pairwise(looks):
            if age > high:
                news.append((submit + high, row, high, low, 0))
            elif age > low or low == 0:
                news.append((left, row, age, low, 1 if outcomes.started[row] else 2))
    prior = np.array(list(PRIOR.values())) / sum(PRIOR.values())
    n_paces = len(RATES)
    copies, paces = np.tile(prior, (n_paces, 1)), np.full(n_paces, 1 / n_paces)
    scale, seen, levels = np.ones(len(GRID)), 1.0, np.clip(GRID, 0.005, 0.995)
    curves = slow_curves(raw, stated)

    def losses(quantiles: np.ndarray, low: float, high: float, starts: bool) -> np.ndarray:
        over = levels * (np.maximum(high - quantiles, 0) - np.maximum(low - quantiles, 0))
        return over + (starts * (1 - levels)) * np.maximum(quantiles - high, 0)

    resolved = 0
    for time, row, high, low, kind in sorted(news):
        if time >= until:
            break
        submitted = int((outcomes.submit <= time).sum())
        waiting = min(submitted - resolved, weighing.MOST_DELAY)
        delay = weighing.DELAY / (weighing.DELAY + waiting)
        slow = delay / np.sqrt(np.where(BY_OPEN, outcomes.open_rank[row], outcomes.rank[row]))
        of_paces = delay / np.sqrt(outcomes.rank[row])
        if kind:
            seen, scale = weighing.MEMORY * seen + 1, weighing.MEMORY * scale
        scale = scale + losses(np.expm1(curves[row]), low, high, kind == 1)
        each = losses(np.expm1(stated.experts[row].astype(float)), low, high, kind == 1)
        each = np.minimum(each / (scale / seen + 1e-9), weighing.MOST_LOSS)[:, 1:-1].mean(axis=1)
        share, costs = weighing.SHARE * slow[:, None] if kind else 0.0, copies @ each
        copies = copies * np.exp(-np.outer(slow * RATES, each - each.min()))
        copies = (1 - share) * copies / copies.sum(axis=1, keepdims=True) + share * prior
        share = weighing.SHARE * of_paces if kind else 0.0
        paces = paces * np.exp(-weighing.RATE_OF_PACES * of_paces * costs)
        paces = (1 - share) * paces / paces.sum() + share / n_paces
        resolved += kind > 0
    return slow_cap(paces @ copies)


def slow_cap(weights: np.ndarray) -> np.ndarray:
    """Hand what is beyond the most to all that are below it in proportion, until none is beyond."""
    for _ in range(len(weights)):
        over = weights > MOST_WEIGHT + 1e-9
        if not over.any():
            break
        held = weights >= MOST_WEIGHT - 1e-12
        left = 1 - MOST_WEIGHT * held.sum()
        weights = np.where(held, MOST_WEIGHT, weights * left / weights[~held].sum())
    return weights


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-9, 1), min_size=3, max_size=30))
def test_no_expert_counts_more_than_the_most(given: list[float]) -> None:
    """Weights above the most are cut to it, the others rise in proportion, and all are 1 together."""
    weights = np.array(given) / sum(given)
    found = weighing.capped(weights, MOST_WEIGHT)
    assert found.sum() == pytest.approx(1) and found.max() <= MOST_WEIGHT + 1e-9
    np.testing.assert_allclose(found, slow_cap(weights), atol=1e-9)
    below = found < MOST_WEIGHT - 1e-9
    if below.sum() > 1:
        ratio = found[below] / weights[below]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_place_among_those_that_wait_is_counted(seed: int) -> None:
    """A job's place in its burst counts all before it, its open place only those that had not left by then."""
    rng = np.random.default_rng(seed)
    n = 40
    submit = np.sort(rng.integers(0, 20_000, n)) + 1_500_000_000
    wait = rng.integers(0, 9000, n)
    jobs = pd.DataFrame({
        "job_id": [str(i) for i in range(n)], "user": rng.choice(["a", "b"], n), "submit_time": submit,
        "start_time": submit + wait, "end_time": submit + wait + 60, "n_nodes": 1, "cpus_per_node": 1,
        "requested_time": 60, "mem_mb_per_node": 0, "gpus_per_node": 0, "gpu_type": "", "partition": "",
    })  # fmt: skip
    found, burst = Outcomes.of(jobs), bursts(jobs)
    for row in range(n):
        before = (burst[:row] == burst[row]).sum()
        left = ((burst == burst[row]) & (jobs["start_time"] < submit[row])).sum()
        assert (found.rank[row], found.open_rank[row]) == (before + 1, before + 1 - left)


def test_a_correction_that_costs_loss_is_taken_back() -> None:
    """A level is corrected in full while that costs no pinball loss of late, and not at all where it costs too much."""
    n = 400
    plain = np.tile(np.linspace(0, 1200, len(GRID)), (n, 1))
    wide = plain.copy()
    wide[:, GRID > 0.9] *= 50
    age = np.linspace(0, 1200, n)
    found = calibrate.trust(plain, wide, age, np.ones(n, bool), np.ones(n))
    assert (found[(GRID > 0.9) & (GRID < 1)] == 0).all() and (found[GRID <= 0.9] == 1).all()
    late = calibrate.trust(plain, wide, 50.0 * age, np.ones(n, bool), np.ones(n))
    assert (late == 1).all()
    np.testing.assert_allclose(calibrate.blended(plain, wide, np.ones(len(GRID))), wide)
    np.testing.assert_allclose(calibrate.blended(plain, wide, np.zeros(len(GRID))), plain, atol=1e-9)
    assert (calibrate.trust(plain[:0], wide[:0], age[:0], np.ones(0, bool), np.ones(0)) == 1).all()


def slow_curves(raw: np.ndarray, stated: mixture.Stated) -> np.ndarray:
    """Average the middle third of the weight at each level, by laying the weights side by side."""
    curves = np.empty((len(raw), len(GRID)))
    for row in range(len(raw)):
        for g in range(len(GRID)):
            z = stated.experts[row, :, g].astype(float)
            order = np.argsort(z, kind="stable")
            edges = np.concatenate([[0], np.cumsum(stated.weights[row][order])])
            part = np.clip(np.minimum(edges[1:], 2 / 3) - np.maximum(edges[:-1], 1 / 3), 0, None)
            curves[row, g] = 3 * (part @ z[order]) if g else 0.0
        curves[row] = np.maximum.accumulate(curves[row])
        curves[row, -1] = max(curves[row, -1], TOP)
    return curves


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_kernel_weighs_as_its_slow_twin(seed: int) -> None:
    """The compiled pass ends with the weights that a loop over all news in the order of time finds."""
    outcomes, raw = random_case(seed)
    mixed = Mixture()
    stated = mixed.roll(outcomes, raw, TOP, 30_000.0)
    cut = outcomes.submit < 30_000
    early = Mixture()
    said = early.roll(outcomes.take(cut), raw[cut], TOP, 30_000.0)
    np.testing.assert_allclose(said.curve, stated.curve[cut])
    found = slow_weights(outcomes.take(cut), raw[cut], said, 30_000.0)
    np.testing.assert_allclose(early.weights, found, rtol=1e-5, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_one_question_is_answered_as_the_pass_would(seed: int) -> None:
    """The curves of a question asked now are those that the compiled pass states for the next submission."""
    outcomes, raw = random_case(seed)
    mixed = Mixture()
    mixed.roll(outcomes, raw, TOP, 45_000.0)
    asked = mixed.say(raw[:1], TOP)
    later = Outcomes(
        np.array([45_000.0]), np.array([UNKNOWN]), np.array([False]), np.array(["x"]), *np.ones((2, 1), int)
    )
    np.testing.assert_allclose(mixed.roll(later, raw[:1], TOP, 45_000.0).curve, asked, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(20, 140))
def test_what_is_stated_uses_nothing_that_comes_later(seed: int, at: int) -> None:
    """Whatever becomes of jobs from a submission on, nothing said by then changes."""
    outcomes, raw = random_case(seed)
    now = outcomes.submit[at]
    rng = np.random.default_rng(seed + 1)
    open_ = outcomes.left >= now
    left = np.where(open_, np.maximum(now, outcomes.submit) + rng.exponential(9000, len(open_)), outcomes.left)
    later = Outcomes(outcomes.submit, left, outcomes.started | open_, outcomes.name, outcomes.rank, outcomes.open_rank)
    block = at // calibrate.EVERY * calibrate.EVERY + 1
    one, other = Mixture().roll(outcomes, raw, TOP), Mixture().roll(later, raw, TOP)
    np.testing.assert_array_equal(one.weights[: at + 1], other.weights[: at + 1])
    np.testing.assert_array_equal(one.curve[:block], other.curve[:block])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(30, 120))
def test_a_state_goes_on_where_it_stopped(seed: int, at: int) -> None:
    """Two passes, the second with what became of the jobs that waited, weigh as one pass does."""
    outcomes, raw = random_case(seed)
    now = float(outcomes.submit[at])
    whole, parts = Mixture(), Mixture()
    said = whole.roll(outcomes, raw, TOP, 60_000.0)
    first, rest = np.arange(len(outcomes)) < at, np.arange(len(outcomes)) >= at
    parts.roll(outcomes.take(first), raw[first], TOP, now)
    after = parts.roll(outcomes.take(rest), raw[rest], TOP, 60_000.0)
    np.testing.assert_allclose(parts.weights, whole.weights, rtol=1e-9)
    np.testing.assert_allclose(after.weights, said.weights[rest], rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_every_distribution_of_a_mixture_is_one(seed: int) -> None:
    """Quantiles and chances of whatever the mixture has learnt ascend and invert each other; all start some day."""
    outcomes, raw = random_case(seed)
    mixed = Mixture()
    said = Distribution(mixed.roll(outcomes, raw, TOP, 30_000.0).curve)
    now = Distribution(mixed.say(raw, TOP))
    for one in (said, now):
        quantiles = one.quantile(np.linspace(0, 1, 21))
        assert (np.diff(quantiles, axis=1) >= -1e-6).all()
        for level, quantile in zip(np.linspace(0, 1, 21), quantiles.T, strict=True):
            assert (one.chance(quantile * (1 + 1e-9) + 1e-6) >= level - 1e-4).all()
        assert (one.chance(8000 * 365 * 86400.0) == 1).all()


def test_an_emptied_queue_is_noticed_within_an_hour() -> None:
    """Where every job suddenly starts at once, sixty starts later the median is a minute or two, not the old hour."""
    submit = np.arange(600) * 60
    wait = np.where(np.arange(600) < 400, 3600.0, 0.0)
    raw = np.full((600, len(NAMES), len(GRID)), np.log1p(3600), np.float32)
    raw[:, NAMES.index("zero")] = 0.0
    raw[:, NAMES.index("last_like")] = np.log1p(np.where(np.arange(600) < 401, 3600.0, 0.0))[:, None]
    said = Distribution(Mixture().roll(outcomes_of(submit, wait), raw, TOP).curve).quantile(0.5)
    assert said[390] == pytest.approx(3600, rel=0.01)
    assert said[530] < 120


def test_jobs_that_still_wait_are_news() -> None:
    """Before any outcome is known, jobs that wait longer and longer move so much weight to who said so
    that it reaches the middle third, which is stated."""
    submit, starts = np.arange(500) * 60, np.arange(500) < 200
    raw = np.zeros((500, len(NAMES), len(GRID)), np.float32)
    raw[:, NAMES.index("hgb_mean")] = np.log1p(5e5)
    mixed = Mixture()
    mixed.roll(outcomes_of(submit, np.where(starts, 5.0, np.inf)), raw, TOP, 500 * 60.0)
    assert mixed.weights[NAMES.index("hgb_mean")] == pytest.approx(MOST_WEIGHT)


def test_jobs_passed_over_for_weeks_do_not_stop_the_learning() -> None:
    """Where most jobs never start, the weights move as if no more than so many forecasts were open."""
    outcomes, raw = random_case(1, 700)
    stuck = np.arange(700) % 5 > 0
    stuck_now = replace(outcomes, left=np.where(stuck, UNKNOWN, outcomes.left), started=outcomes.started & ~stuck)
    mixed = Mixture()
    said = mixed.roll(stuck_now, raw, TOP, 41_000.0)
    assert (stuck_now.left > 41_000).sum() > weighing.MOST_DELAY + 100
    np.testing.assert_allclose(mixed.weights, slow_weights(stuck_now, raw, said, 41_000.0), rtol=1e-5, atol=1e-9)


def test_far_more_jobs_than_ever_wait_by_the_work_ahead() -> None:
    """Beyond the training the backlog counts before any outcome; what is learnt there leaves ordinary jobs alone."""
    outcomes, raw = random_case(3, 300)
    raw[:], beyond = np.log1p(600), np.arange(300) % 2 == 1
    for name in ("backlog", "backlog_moved"):
        raw[:, NAMES.index(name)] = np.log1p(90_000)
    both, alone = Mixtures(), Mixture()
    said = Distribution(both.roll(outcomes, raw, beyond, TOP).curve).quantile(0.5)
    rows = np.flatnonzero(~beyond)
    alone.roll(outcomes.take(rows), raw[rows], TOP)
    assert said[1] > 25_000 and said[0] < 1000
    np.testing.assert_array_equal(both.usual.weights, alone.weights)
    now = Distribution(both.say(raw, beyond, TOP)).quantile(0.5)
    assert now[0] == pytest.approx(Distribution(alone.say(raw[:1], TOP)).quantile(0.5)[0])


def test_a_log_that_tells_of_late_starts_hides_none_of_the_next() -> None:
    """A month's log whose last job started a month later: of the next month's jobs each outcome counts all the same."""
    outcomes, raw = random_case(9)
    late = outcomes_of(np.array([0]), np.array([40_000.0]))
    mixed = Mixture()
    mixed.roll(late, raw[:1], TOP, 40_001.0)
    rest = outcomes.take(np.arange(1, len(outcomes)))
    mixed.roll(rest, raw[1:], TOP, 60_000.0)
    assert mixed.n_errors == 1 + int((rest.started & (rest.left < 60_000)).sum())


def test_outcomes_count_from_the_next_update() -> None:
    """With updates every six hours weights stay between them; never updated, they stay for good."""
    outcomes, raw = random_case(5, 300)
    for every, moves in ((6 * 3600.0, 2), (np.inf, 0)):
        mixed = Mixture(until=0.0)
        weights = mixed.roll(outcomes, raw, TOP, every=every).weights
        assert (np.diff(weights, axis=0) != 0).any(axis=1).sum() <= moves
        assert mixed.until == (UNKNOWN if moves else 0.0)


def test_a_mixture_that_is_never_updated_learns_nothing_between_passes() -> None:
    """Two passes without updates state what one does, and a question after them what was said at their begin."""
    outcomes, raw = random_case(5, 300)
    whole, parts, early, late = Mixture(until=0.0), Mixture(until=0.0), np.arange(200), np.arange(200, 300)
    said = whole.roll(outcomes, raw, TOP, every=np.inf).curve
    parts.roll(outcomes.take(early), raw[early], TOP, float(outcomes.submit[200]), every=np.inf)
    np.testing.assert_allclose(parts.say(raw[late], TOP), said[late], rtol=1e-4, atol=1e-4)
    after = parts.roll(outcomes.take(late), raw[late], TOP, every=np.inf).curve
    np.testing.assert_allclose(after, said[late])


def test_what_happens_at_the_very_second_of_an_update_waits_for_the_next() -> None:
    """Until the next update jobs are stated as a question is answered, though one started as the last one was made."""
    outcomes, raw = random_case(5, 300)
    early, late, now = np.arange(200), np.arange(200, 300), float(outcomes.submit[200] - 1)
    outcomes.left[150], outcomes.started[150] = now, True
    mixed = Mixture(until=0.0)
    mixed.roll(outcomes.take(early), raw[early], TOP, now, every=600.0)
    before = outcomes.submit[late] < now + 7200
    said = mixed.say(raw[late][before], TOP)
    found = mixed.roll(outcomes.take(late), raw[late], TOP, now + 20_000, every=7200.0).curve[before]
    assert before.sum() > 20
    np.testing.assert_allclose(found, said, rtol=1e-5, atol=1e-5)
    assert mixed.n_errors == int((outcomes.started & (outcomes.left < now + 20_000)).sum())


def test_outcomes_between_two_passes_are_not_lost() -> None:
    """Updated every six hours, a pass that ends between two updates has learnt all that happened before its end."""
    outcomes, raw = random_case(5, 300)
    one, other = Mixture(until=0.0), Mixture(until=0.0)
    one.roll(outcomes, raw, TOP, 30_000.0, every=6 * 3600.0)
    other.roll(outcomes, raw, TOP, 30_000.0)
    known = int((outcomes.started & (outcomes.left < 30_000)).sum())
    assert one.n_errors == other.n_errors == known


def test_a_job_cancelled_in_the_queue_has_not_started() -> None:
    """It is no wait to learn from, and stands in the queue until it gave up."""
    jobs = check(
        pd.DataFrame(
            {
                "job_id": ["1", "2", "3"], "submit_time": [0, 5, 9], "run_time": [60, 0, 0], "cpus_per_node": 1,
                "requested_time": 60, "state": ["COMPLETED", "CANCELLED", "COMPLETED"],
                "start_time": [10, 500, 20], "end_time": [70, 500, 20],
            }
        ),
        JOB,
    )  # fmt: skip
    found = Outcomes.of(queue_jobs(jobs))
    assert found.started.tolist() == [True, False, True]
    assert found.left.tolist() == [10, 500, 20]


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), by=st.floats(-0.3, 0.3))
def test_shifted_chances_are_those_of_one_curve(seed: int, by: float) -> None:
    """A curve read at other levels says the shifted chance at each deadline, ascends, and keeps its ends."""
    curve = np.sort(np.random.default_rng(seed).exponential(20_000, (5, len(GRID))), axis=1)
    shift = np.full((len(calibrate.DEADLINES), 11), by)
    moved = calibrate.relevelled(curve, shift)
    assert (np.diff(moved, axis=1) >= -1e-6).all()
    np.testing.assert_allclose(moved[:, [0, -1]], curve[:, [0, -1]], rtol=1e-9)
    np.testing.assert_allclose(calibrate.relevelled(curve, 0 * shift), curve, rtol=1e-6)
    old, new = calibrate.chances_at(curve), calibrate.chances_at(moved)
    slack = np.diff(GRID).max()  # a curve is kept at the levels of GRID alone
    assert (np.sign(by) * (new - old) >= -slack).all()


def test_chances_that_do_not_come_true_are_mended() -> None:
    """Where one in five starts within an hour though half were stated, a thousand jobs later one in five is stated;
    of one burst's jobs each counts for less than the one before."""
    rng = np.random.default_rng(0)
    submit, wait = np.arange(1500) * 4000, np.where(rng.random(1500) < 0.2, 600.0, 7200.0)
    raw = np.zeros((1500, len(NAMES), len(GRID)), np.float32)
    raw[:] = np.interp(GRID, [0, 0.49, 0.5, 0.51, 1], np.log1p([0, 700, 3600, 7000, 9000]))
    said = Distribution(Mixture().roll(outcomes_of(submit, wait), raw, TOP).curve).chance(3600.0)
    assert said[0] == pytest.approx(0.5, abs=0.02)
    assert said[-1] < 0.3
    one_burst = replace(outcomes_of(submit, wait), rank=np.arange(1500) + 1)
    slower = Distribution(Mixture().roll(one_burst, raw, TOP).curve).chance(3600.0)
    assert slower[-1] > said[-1] + 0.1


@pytest.mark.parametrize("gap", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_early_starts_do_not_speak_for_all(gap: int) -> None:
    """Where a job comes every few seconds and all waits are as stated, chances stay so though who starts early is
    known first."""
    rng, n = np.random.default_rng(0), 3000
    curve = np.interp(GRID, [0, 0.25, 0.5, 0.75, 1], np.log1p([0, 1800, 14400, 43200, 108000]))
    wait = np.round(np.expm1(np.interp(rng.random(n), GRID, curve)))
    raw = np.empty((n, len(NAMES), len(GRID)), np.float32)
    raw[:] = curve
    mixed, submit = Mixture(), np.arange(n) * gap
    said = mixed.roll(outcomes_of(submit, wait), raw, float(curve[-1]), submit[-1] + 1.0).curve[n // 2 :]
    for one in (said, mixed.say(raw[-1:], float(curve[-1]))):
        for hours in (4, 12):
            came = (wait <= hours * 3600).mean()
            assert Distribution(one).chance(hours * 3600.0).mean() == pytest.approx(came, abs=0.08)


def test_what_is_known_by_now_of_a_start() -> None:
    """Who started in time is 1, who waited beyond the deadline 0, who waits or gave up as likely as stated since."""
    curve = np.tile(np.expm1(np.interp(GRID, [0, 0.5, 1], np.log1p([0, 3600, 86400]))), (5, 1))
    age = np.array([600.0, 7200.0, 7200.0, 0.0, 600.0])
    waits, started = np.array([False, False, True, True, False]), np.array([True, True, False, False, False])
    stated = calibrate.chances_at(curve)
    found = calibrate.by_now(stated, curve, age, waits, started)
    np.testing.assert_array_equal(found[:2], [[1, 1, 1], [0, 1, 1]])
    gone = calibrate.chance_by(curve, age)
    assert found[2, 0] == 0
    np.testing.assert_allclose(found[2, 1:], (stated[2, 1:] - gone[2]) / (1 - gone[2]))
    np.testing.assert_allclose(found[3], stated[3])
    np.testing.assert_allclose(found[4], (stated[4] - gone[4]) / (1 - gone[4]))


def test_a_job_has_its_place_in_its_burst() -> None:
    """Submissions of one user within an hour count up; where no user is named, those of one request and limit do."""
    jobs = check(
        pd.DataFrame(
            {
                "job_id": list("123456"), "user": ["a", "a", "", "", "", "a"], "submit_time": [0, 9, 9, 9, 9, 9000],
                "run_time": 60, "cpus_per_node": [1, 2, 1, 1, 2, 1], "requested_time": 60, "start_time": 9000,
            }
        ),
        JOB,
    )  # fmt: skip
    assert Outcomes.of(jobs.assign(end_time=pd.NA)).rank.tolist() == [1, 2, 1, 2, 1, 1]


def test_what_is_no_number_is_never_weighed() -> None:
    """A feature that is unknown or infinite leaves its experts with the quantiles of the training part."""
    known = [recent.columns(kind) for kind in recent.KINDS]
    features = pd.DataFrame({name: [np.nan, 1.0] for names in known for name in names})
    boosted = {name: np.ones((2, len(GRID))) for name in ("quantile", "chance", "hgb")}
    boosted |= {name: np.ones(2) for name in ("hgb_mean", "hgb_log", "kmeans_gbt", "again")}
    usual = np.geomspace(1, 1e5, len(GRID))
    for bad in (np.nan, np.inf):
        found = stack(boosted, features.assign(**{BACKLOG: [bad, 600.0]}), usual, 100.0)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found[0, NAMES.index("backlog")], np.log1p(usual), rtol=1e-6)
        np.testing.assert_allclose(found[1, NAMES.index("backlog")], np.log1p(600), rtol=1e-6)
