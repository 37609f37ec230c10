"""The co-scheduler's learner against its theory, and the contention model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procure.coschedule.learner import (
    ABOVE,
    IN_DANGER,
    N_METRICS,
    NEAR,
    ROUND,
    choose,
    gamma_of,
    happiness,
    learn,
    loss_of,
    make_experts,
    make_learner,
    mix,
    mood_of,
    projected_loss,
    regret,
    weigh,
)  # fmt: skip
from procure.coschedule.sharing import Contention, paces_of
from procure.errors import ArgumentError
from procure.workload.studies import CORES, system, workflows

SHARES = st.floats(0, 1)


def test_happiness_and_loss_as_published():
    """With progress u after e of W s, eq. 1 is ((W − e) u / e) / (1 − u); 70 of 100 s lose 0, 140 0.8, 150 1."""
    limit, elapsed, u = 100.0, 40.0, 0.3
    assert happiness(limit - elapsed, u / elapsed, 1 - u) == pytest.approx((60 * 0.3 / 40) / 0.7)
    assert happiness(10.0, 0.1, 0.0) == math.inf
    assert [loss_of(100.0, total) for total in (70.0, 100.0, 140.0, 150.0, 900.0)] == [0, 0, 0.8, 1, 1]
    assert projected_loss(100.0, 60.0, 0.5, 40.0) == loss_of(100.0, 120.0)
    assert projected_loss(100.0, 60.0, 0.0, 40.0) == 1.0
    assert [mood_of(h) for h in (0.99, 1.0, 1.1, 1.2, math.inf)] == [IN_DANGER, NEAR, NEAR, ABOVE, ABOVE]


@pytest.mark.parametrize("step", [0.25, 0.125, 0.1])
def test_every_leaf_is_a_distribution(step):
    """Each expert's advice sums to 1, leaves no quota out, and in danger prefers none."""
    leaves = make_experts(step).leaves
    assert leaves.sum(axis=-1) == pytest.approx(1)
    assert leaves.min() > 0
    assert (leaves[:, :, IN_DANGER].argmax(axis=-1) == 0).all()


def test_the_mixture_sums_to_1_and_weights_fall_with_risk():
    """Weights are a distribution, alike without risk, and lower the higher an expert's risk is."""
    alpha = np.zeros(4)
    weigh(np.zeros(4), gamma_of(4, 1), alpha)
    assert alpha == pytest.approx(0.25)
    weigh(np.array([0.0, 1, 2, 3000]), 0.5, alpha)
    assert alpha.sum() == pytest.approx(1)
    assert (np.diff(alpha) < 0).all()
    learner = make_learner("ips", 0)
    mix(learner, np.zeros(N_METRICS + 1, np.int64))
    assert learner.chances.sum() == pytest.approx(1)
    rates = [gamma_of(6, t) for t in range(1, 50)]
    assert rates == sorted(rates, reverse=True)


def test_a_round_ends_at_the_threshold_and_is_reset():
    """Risks move to the accumulated ones when the greatest reaches 1; then the next round begins at 0."""
    learner = make_learner("full", 0)
    context, losses = np.zeros(N_METRICS + 1, np.int64), np.full(4, 0.4)
    assert not learn(learner, context, 0, losses, 0.0)
    assert not learn(learner, context, 0, losses, 0.0)
    assert learner.round_risk == pytest.approx(0.8)
    assert learner.risk.sum() == 0
    assert learn(learner, context, 0, losses, 0.0)
    assert learner.risk == pytest.approx(1.2)
    assert learner.round_risk.sum() == 0
    assert learner.counts[ROUND] == 2


def test_the_weighted_estimate_is_unbiased_and_the_published_is_not():
    """Over the quotas as they are sampled, `ips` adds each expert's own loss on average; `paper` does not."""
    losses, context = np.array([0.1, 0.9, 0.2, 0.6]), np.array([3, 0, 1, 2, 1, 3, ABOVE])
    added = {}
    for mode in ("paper", "ips", "full"):
        total = 0.0
        for quota in range(4):
            learner = make_learner(mode, 0)
            mix(learner, context)
            chance = learner.chances[quota]
            learn(learner, context, quota, losses, 0.0)
            total = total + chance * (learner.risk + learner.round_risk)
        added[mode] = total
    assert added["ips"] == pytest.approx(added["full"])
    assert np.abs(added["paper"] - added["full"]).max() > 0.05


@pytest.mark.slow
def test_excess_risk_stays_below_its_bound():
    """Mean excess and two standard errors of 30 seeds, of drawn and adversarial losses."""
    found = regret(["ips", "ix", "full"], [100, 1000, 10_000])
    assert len(found) == 6 * 3
    assert (found["excess_mean"] + 2 * found["excess_se"] <= found["bound"]).all()


@pytest.mark.slow
def test_the_published_rule_breaks_the_bound():
    """Its excess grows as the cases do, and exceeds the theorem's bound at 10,000 by more than two standard errors."""
    paper = regret(["paper"], [1000, 10_000], kinds=["stochastic"]).set_index("T")
    assert paper.loc[10_000, "excess_mean"] - 2 * paper.loc[10_000, "excess_se"] > paper.loc[10_000, "bound"]
    assert paper.loc[10_000, "excess_mean"] > 5 * paper.loc[1000, "excess_mean"]


def test_ucb_finds_the_lowest_loss_of_each_context():
    """After some hundred cases each context's best quota is what it chooses."""
    learner = make_learner("ucb", 0)
    rng = np.random.default_rng(0)
    contexts = [np.array([b, 0, 0, 0, 0, 0, ABOVE]) for b in range(4)]
    for _ in range(600):
        i = int(rng.integers(4))
        losses = np.abs(np.arange(4) - i) / 4
        learn(learner, contexts[i], choose(learner, contexts[i], np.zeros(4)), losses, 0.0)
    assert [choose(learner, context, np.zeros(4)) for context in contexts] == [0, 1, 2, 3]


@settings(deadline=None)
@given(quota=SHARES, part=SHARES, donor=st.tuples(SHARES, SHARES), guest=st.tuples(SHARES, SHARES),
       overhead=st.floats(0, 1), severity=st.floats(0, 4), form=st.integers(0, 1))  # fmt: skip
def test_paces_are_shares_and_fall_with_the_others_demand(quota, part, donor, guest, overhead, severity, form):
    """No pace leaves 0 to 1; the donor's falls with the quota under plain sharing; a guest at 0 costs nothing."""
    model = Contention(form, overhead, severity)
    one, other = paces_of(model, quota, part, donor, guest)
    assert 0 <= one <= 1
    assert 0 <= other <= 1
    assert paces_of(model, 0.0, part, donor, guest) == (1.0, 0.0)
    plain = Contention(0, overhead, 0.0)
    more, less = (paces_of(plain, q, part, donor, guest)[0] for q in (min(1.0, quota + 0.1), quota))
    assert more <= less + 1e-12
    heavier = paces_of(model, quota, part, donor, (guest[0], min(1.0, guest[1] + 0.2)))
    assert heavier[0] <= one + 1e-12


@pytest.mark.parametrize("cores", CORES)
def test_the_study_has_45_workflows(cores):
    """15 at each of three moments, of 472 cores together; every one fits the system; limits 1.1 times the run time."""
    jobs, nodes = workflows(cores), system(cores)
    assert len(jobs) == 45
    assert jobs["submit_time"].value_counts().to_dict() == {0: 15, 7200: 15, 14_400: 15}
    assert (jobs["n_nodes"] * jobs["cpus_per_node"]).sum() == 3 * 472
    assert nodes["cpus"].sum() == cores
    assert jobs["n_nodes"].max() <= len(nodes)
    assert (jobs["requested_time"] == (jobs["run_time"] * 1.1).astype(int)).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: workflows(100),
        lambda: workflows(64, gap=-1),
        lambda: system(65),
        lambda: make_learner("exp9", 0),
        lambda: make_learner("ips", 0, step=0.9),
        lambda: regret(modes=["ucb"]),
        lambda: regret(seeds=1),
    ],
)
def test_wrong_arguments_are_named(call):
    with pytest.raises(ArgumentError, match=r"was given|known|needed|allowed|has"):
        call()
