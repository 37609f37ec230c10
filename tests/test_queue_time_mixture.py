"""The mixture of experts: it learns only what is known, notices a change, and never contradicts itself."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.queue_time.distribution import BELOW, GRID, LEAST, SHARE, Distribution, with_interval
from procure.queue_time.evaluation import covered
from procure.queue_time.features import BACKLOG
from procure.queue_time.log import UNKNOWN, Outcomes, queue_jobs
from procure.queue_time.mixture import EVERY, HALF_LIFE, N_PRIOR, NAMES, POWER, PRIORS, Mixture, combine, stack
from procure.queue_time.view import RECENT_KINDS, recent_columns
from procure.schemas import JOB
from procure.tables import check

TOP = float(np.log1p(1e6))


def outcomes_of(submit: np.ndarray, wait: np.ndarray, started: np.ndarray | None = None) -> Outcomes:
    left = np.where(np.isfinite(wait), submit + wait, UNKNOWN)
    on = np.isfinite(wait) if started is None else started
    return Outcomes(submit.astype(float), left, on, np.arange(len(submit)).astype("U"), np.ones(len(submit), np.int64))


def random_case(seed: int, n: int = 150) -> tuple[Outcomes, np.ndarray]:
    """Jobs of which some wait for ever and some give up, and what random experts say of them."""
    rng = np.random.default_rng(seed)
    submit = np.sort(rng.integers(0, 40_000, n))
    wait = np.where(rng.random(n) < 0.1, np.inf, rng.exponential(3000, n) * (rng.random(n) < 0.7))
    started = np.isfinite(wait) & (rng.random(n) < 0.9)
    raw = np.sort(rng.uniform(0, 11, (n, len(NAMES), len(GRID))), axis=2).astype(np.float32)
    return replace(outcomes_of(submit, wait, started), rank=rng.integers(1, 9, n)), raw


def usual(n: int) -> np.ndarray:
    return np.zeros(n, bool)


def slow_weights(outcomes: Outcomes, experts: np.ndarray, now: float) -> np.ndarray:
    """Return the weights by what each job, one by one, has cost each expert for certain by now."""
    cost, total = np.zeros(len(NAMES)), 0.0
    for row in range(len(outcomes)):
        age = min(outcomes.left[row], now) - outcomes.submit[row]
        ended = outcomes.started[row] and outcomes.left[row] < now
        count = 0.5 ** ((len(outcomes) - 1 - row) / HALF_LIFE) / outcomes.rank[row] ** 0.5
        total += count
        for k in range(len(NAMES)):
            for g in range(1, len(GRID) - 1):
                over = age - np.expm1(float(experts[row, k, g]))
                loss = GRID[g] * over if over > 0 else (GRID[g] - 1) * over if ended else 0.0
                cost[k] += count * loss / (len(GRID) - 2)
    cost = (cost + N_PRIOR * (PRIORS[0] @ cost) / total) / (total + N_PRIOR)
    weights = PRIORS[0] * cost**-POWER
    return weights / weights.sum()


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_weights_are_those_of_the_slow_twin(seed: int) -> None:
    """The weights after a pass are those of a loop over jobs, experts and levels."""
    outcomes, raw = random_case(seed, 60)
    mixed = Mixture()
    said = mixed.roll(outcomes, raw, usual(60), TOP, 45_000.0)
    found = mixed.weights(usual(1), mixed.until)[0]
    np.testing.assert_allclose(found, slow_weights(outcomes, said.experts, 45_000.0), rtol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_middle_third_of_the_weight_is_stated(seed: int) -> None:
    """At each level the mean over the middle third, by laying the weights side by side."""
    rng = np.random.default_rng(seed)
    spread, weights = rng.uniform(0, 11, (5, len(NAMES), len(GRID))), rng.dirichlet(np.ones(len(NAMES)), 5)
    found = combine(spread, weights)
    for row in range(5):
        for g in range(len(GRID)):
            order = np.argsort(spread[row, :, g])
            edges = np.concatenate([[0], np.cumsum(weights[row][order])])
            part = np.clip(np.minimum(edges[1:], 2 / 3) - np.maximum(edges[:-1], 1 / 3), 0, None)
            assert found[row, g] == pytest.approx(3 * (part @ spread[row, order, g]))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(20, 140))
def test_what_is_stated_uses_nothing_that_comes_later(seed: int, at: int) -> None:
    """Whatever becomes of jobs from a submission on, nothing said by then changes."""
    outcomes, raw = random_case(seed)
    at = at // EVERY * EVERY
    now = outcomes.submit[at]
    rng = np.random.default_rng(seed + 1)
    open_ = outcomes.left >= now
    left = np.where(open_, np.maximum(now, outcomes.submit) + rng.exponential(9000, len(open_)), outcomes.left)
    later = replace(outcomes, left=left, started=outcomes.started | open_)
    one, other = (Mixture().roll(each, raw, usual(150), TOP) for each in (outcomes, later))
    np.testing.assert_array_equal(one.weights[: at + EVERY], other.weights[: at + EVERY])
    np.testing.assert_array_equal(one.curve[: at + EVERY], other.curve[: at + EVERY])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(30, 120))
def test_a_state_goes_on_where_it_stopped(seed: int, at: int) -> None:
    """Two passes, the second with what became of the jobs that waited, state what one pass does, and so does a question
    between them; every curve ascends.
    """
    outcomes, raw = random_case(seed)
    at = at // EVERY * EVERY
    now = float(outcomes.submit[at])
    whole, parts = Mixture(), Mixture()
    said = whole.roll(outcomes, raw, usual(150), TOP, 60_000.0)
    first, rest = np.arange(len(outcomes)) < at, np.arange(len(outcomes)) >= at
    parts.roll(outcomes.take(first), raw[first], usual(at), TOP, now)
    asked = parts.say(raw[[at]], usual(1), TOP)
    after = parts.roll(outcomes.take(rest), raw[rest], usual(150 - at), TOP, 60_000.0)
    np.testing.assert_allclose(asked, said.curve[[at]], rtol=1e-9)
    np.testing.assert_allclose(after.curve, said.curve[rest], rtol=1e-9)
    assert (np.diff(said.curve, axis=1) >= -1e-6).all() and (np.diff(asked, axis=1) >= -1e-6).all()
    assert parts.share == pytest.approx(whole.share)


def test_an_emptied_queue_is_noticed() -> None:
    """Where every job suddenly starts at once, the median is minutes and not the old hour after 150 starts."""
    submit = np.arange(700) * 60
    wait = np.where(np.arange(700) < 400, 3600.0, 0.0)
    raw = np.full((700, len(NAMES), len(GRID)), np.log1p(3600), np.float32)
    raw[:, NAMES.index("again")] = np.log1p(np.where(np.arange(700) < 401, 3600.0, 0.0))[:, None]
    said = Distribution(Mixture().roll(outcomes_of(submit, wait), raw, usual(700), TOP).curve).quantile(0.5)
    assert said[390] == pytest.approx(3600, rel=0.01)
    assert said[560] < 120


def test_jobs_that_still_wait_are_news() -> None:
    """Before any outcome is known, jobs that wait longer and longer move the weight to who said so."""
    submit = np.arange(500) * 60
    raw = np.zeros((500, len(NAMES), len(GRID)), np.float32)
    raw[:, NAMES.index("backlog")] = np.log1p(5e5)
    mixed = Mixture()
    mixed.roll(outcomes_of(submit, np.full(500, np.inf)), raw, usual(500), TOP, 500 * 60.0)
    assert mixed.weights(usual(1), mixed.until)[0, NAMES.index("backlog")] > 0.9


def test_far_more_jobs_than_ever_wait_by_the_work_ahead() -> None:
    """Beyond the training the backlog counts before any outcome, for these jobs alone."""
    outcomes, raw = random_case(3, 300)
    raw[:], beyond = np.log1p(600), np.arange(300) % 2 == 1
    raw[:, NAMES.index("backlog")] = np.log1p(90_000)
    said = Distribution(Mixture().roll(outcomes, raw, beyond, TOP).curve).quantile(0.5)
    assert said[1] > 25_000 and said[0] < 1000


def test_the_interval_follows_what_it_has_held() -> None:
    """Of waits that are twice as spread as said the interval holds more the longer it learns, and of waits that are as
    said the share stays where it was; each wait counts once.
    """
    rng, n = np.random.default_rng(0), 3000
    middle, spread = np.log1p(3600), 2 * (GRID - 0.5)
    raw = np.tile((middle + spread).astype(np.float32), (n, len(NAMES), 1))
    for factor, low, high in ((2.0, 0.93, 0.961), (1.0, 0.87, 0.93)):
        wait = np.expm1(middle + factor * np.interp(rng.random(n), GRID, spread)).round()
        mixed, outcomes = Mixture(), outcomes_of(np.arange(n) * 600, wait)
        said = mixed.roll(outcomes, raw, usual(n), float(middle + 1), n * 600.0 + 1e6)
        assert low < mixed.share < high and mixed.counted.all()
        inside = covered(wait, Distribution(said.curve).interval())
        if factor > 1:
            assert inside[-1000:].mean() > inside[:200].mean()
    assert mixed.share > LEAST and Mixture().share == SHARE


def test_outcomes_count_from_the_next_update() -> None:
    """With updates every six hours weights stay between them; never updated, they stay for good."""
    outcomes, raw = random_case(5, 300)
    for every, moves in ((6 * 3600.0, 2), (np.inf, 0)):
        mixed = Mixture(until=0.0)
        weights = mixed.roll(outcomes, raw, usual(300), TOP, every=every).weights
        assert (np.diff(weights, axis=0) != 0).any(axis=1).sum() <= moves
        assert mixed.until == (UNKNOWN if moves else 0.0)


def test_a_pass_without_jobs_learns_what_is_known() -> None:
    """Outcomes of jobs stated before count though no job has come since."""
    outcomes, raw = random_case(5, 100)
    for every in (0.0, 600.0):
        mixed = Mixture(until=0.0)
        mixed.roll(outcomes, raw, usual(100), TOP, 20_000.0, every)
        before = mixed.weights(usual(1), mixed.until)
        assert mixed.roll(Outcomes.none(), raw[:0], usual(0), TOP, 60_000.0, every).curve.shape == (0, len(GRID))
        assert (mixed.weights(usual(1), mixed.until) != before).any() and mixed.until == 60_000.0


def test_what_happens_at_the_very_second_of_an_update_waits_for_the_next() -> None:
    """Until the next update jobs are stated as a question is answered, though one started as the last one was made."""
    outcomes, raw = random_case(5, 300)
    early, late, now = np.arange(200), np.arange(200, 300), float(outcomes.submit[200] - 1)
    outcomes.left[150], outcomes.started[150] = now, True
    mixed = Mixture(until=0.0)
    mixed.roll(outcomes.take(early), raw[early], usual(200), TOP, now, every=600.0)
    before = outcomes.submit[late] < now + 7200
    said = mixed.say(raw[late][before], usual(int(before.sum())), TOP)
    found = mixed.roll(outcomes.take(late), raw[late], usual(100), TOP, now + 20_000, every=7200.0).curve[before]
    assert before.sum() > 20
    np.testing.assert_allclose(found, said, rtol=1e-5, atol=1e-5)


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
    known = [recent_columns(kind) for kind in RECENT_KINDS]
    features = pd.DataFrame({name: [np.nan, 1.0] for names in known for name in names})
    training = np.geomspace(1, 1e5, len(GRID))
    for bad in (np.nan, np.inf):
        table = features.assign(**{BACKLOG: [bad, 600.0]})
        found = stack(np.ones((2, len(GRID))), np.ones(2), table, training)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found[0, NAMES.index("backlog")], np.log1p(training), rtol=1e-6)
        np.testing.assert_allclose(found[1, NAMES.index("backlog")], np.log1p(600), rtol=1e-6)


YEAR_9999 = 8000 * 365.0 * 86400


def distributions(seed: int, n: int = 8) -> Distribution:
    """Curves with hurdles, steps and long tails."""
    rng = np.random.default_rng(seed)
    curve = np.sort(np.expm1(rng.uniform(0, 14, (n, len(GRID)))), axis=1)
    curve[rng.random(curve.shape) < 0.2] = 0.0
    return Distribution(np.maximum.accumulate(curve, axis=1))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_median_intervals_and_chances_never_contradict(seed: int) -> None:
    """Quantiles ascend, chances ascend, the chance at a quantile is at least its level, and all start some day."""
    said = distributions(seed)
    levels = np.linspace(0.0, 1.0, 41)
    quantiles = said.quantile(levels)
    assert (np.diff(quantiles, axis=1) >= -1e-6).all()
    for level, quantile in zip(levels, quantiles.T, strict=True):
        assert (said.chance(quantile * (1 + 1e-9) + 1e-6) >= level - 1e-4).all()
        earlier = quantile * (1 - 1e-6) - 1e-3
        assert (np.where(earlier > 0, said.chance(np.maximum(earlier, 0)), 0.0) <= level + 1e-3).all()
    deadlines = np.geomspace(1, YEAR_9999, 60)
    chances = np.array([said.chance(deadline) for deadline in deadlines])
    assert (np.diff(chances, axis=0) >= -1e-12).all()
    assert chances[-1] == pytest.approx(1.0)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.5, 0.97))
def test_the_interval_holds_what_it_says_of_the_stated_distribution(seed: int, share: float) -> None:
    """It holds its share, and more only where that many start at once or would at its other end; the median lies in it,
    and its ends are quantiles of the levels that it leaves out, so that no chance contradicts it."""
    said = distributions(seed, 40)
    low, high = said.interval(share).T
    once = said.chance(0.99)
    assert (low <= said.quantile(0.5) + 1e-9).all() and (said.quantile(0.5) <= high + 1e-9).all()
    below = np.where(low < 1, 0.0, said.chance(np.maximum(low * (1 - 1e-9) - 1e-6, 0)))
    holds = said.chance(high * (1 + 1e-9) + 1e-6) - below
    assert (holds >= share - 1e-4).all()
    left_out = (1 - share) * (BELOW if share > 0.5 else 0.5)
    whole = (once >= left_out) & (said.quantile(share) > 0)
    np.testing.assert_allclose(high[whole], said.quantile(share)[whole])
    usual = once == 0
    np.testing.assert_allclose(low[usual], said.quantile(left_out)[usual])
    np.testing.assert_allclose(high[usual], said.quantile(left_out + share)[usual])
    assert (high <= said.quantile(left_out + share) + 1e-9).all() and (high >= said.quantile(share) - 1e-9).all()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.8, 0.96))
def test_a_corrected_interval_is_the_one_of_another_share(seed: int, share: float) -> None:
    """Where nobody or more than 15 in 100 start at once, the interval of nine in ten of a corrected curve is that of
    the given share of the curve before; the middle half stays."""
    said = distributions(seed, 40)
    moved = Distribution(with_interval(said.curve, share))
    assert (np.diff(moved.curve, axis=1) >= -1e-6).all()
    middle = np.array([0.25, 0.4, 0.5, 0.6, 0.75])
    np.testing.assert_allclose(moved.quantile(middle), said.quantile(middle))
    once = said.chance(0.99)
    clear = (once == 0) | ((once > 0.15) & (once < 0.75))
    np.testing.assert_allclose(moved.interval()[clear], said.interval(share)[clear], rtol=1e-6, atol=1.0)
