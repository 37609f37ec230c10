"""The co-scheduler: its learner against its theory, the contention model, and its loop against a slow twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_coschedule import Twin
from policy_cases import few, job_table, node_table

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
from procure.coschedule.policy import Coschedule
from procure.coschedule.sharing import Contention, paces_of
from procure.errors import TableError
from procure.policies import catalog
from procure.run import simulate
from procure.workload.studies import CORES, system, workflows

pytestmark = pytest.mark.plain

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
    ("call", "said"),
    [
        (lambda: workflows(100), "100"),
        (lambda: workflows(64, gap=-1), "-1"),
        (lambda: system(65), "65"),
        (lambda: make_learner("exp9", 0), "exp9"),
        (lambda: make_learner("ips", 0, step=0.9), "0.9"),
        (lambda: regret(modes=["ucb"]), "ucb"),
        (lambda: regret(seeds=1), "1 seeds"),
        (lambda: catalog.spec("coschedule:share=1.5"), "share"),
        (lambda: catalog.spec("coschedule:share=-0.1"), "share"),
        (lambda: catalog.spec("coschedule:learner=exp9"), "learner"),
        (lambda: catalog.spec("coschedule:share=0.5,learner=ips"), "fixes the quota"),
        (lambda: catalog.spec("coschedule:step=0.9"), "step"),
        (lambda: simulate(workflows(64).assign(cpu_percent=120.0), system(64), "coschedule"), "cpu_percent"),
    ],
)
def test_what_cannot_be_is_one_error(call, said):
    """Wrong arguments, parameters and profiles are refused by name."""
    with pytest.raises(TableError, match=said):
        call()


FEW = [*range(8, 16), *range(8)][: few(16)]
VARIANTS = (
    {"interval": 5, "learner": "ucb"},
    {"interval": 3, "learner": "ips", "seed": 3},
    {"interval": 4, "share": 0.5},
    {"interval": 5, "learner": "full", "contention": "bandwidth", "overhead": 0.1, "severity": 2.0},
    {"interval": 7, "learner": "ucb", "step": 0.125, "worse": 2.0, "contention": "bandwidth", "admit": 0.3},
    {"interval": 2, "learner": "ix", "tolerance": 0.5},
    {"interval": 6, "learner": "paper"},
    {"interval": 5},
    {"interval": 5, "contention": "bandwidth", "overhead": 0.05, "worse": 2.0, "admit": 0.5, "tolerance": 0.5},
    {"interval": 4, "progress": "limit", "admit": 1.0, "learner": "ips"},
)


def case(seed: int):
    """Nodes of unlike size; jobs of several nodes, some without a profile, some of no time."""
    rng = np.random.default_rng(seed)
    n, n_nodes = int(rng.integers(2, 14)), int(rng.integers(1, 5))
    run = rng.choice([0, 3, 11, 40, 70], n, p=[0.1, 0.1, 0.2, 0.3, 0.3])
    jobs = job_table(
        submit_time=100 + np.sort(rng.integers(0, 60, n)),
        run_time=run,
        requested_time=np.where(rng.random(n) < 0.3, 0, (run * rng.choice([1.0, 1.05, 1.3, 3], n)).astype(int)),
        n_nodes=rng.integers(1, n_nodes + 1, n),
        cpus_per_node=rng.choice([1, 2, 4], n),
        mem_mb_per_node=rng.choice([0, 100, 300, 700], n),
        cpu_percent=np.where(rng.random(n) < 0.1, np.nan, rng.choice([5.0, 26, 45, 60, 96, 100], n)),
        mem_percent=rng.choice([1.0, 30, 95], n),
        bandwidth_percent=rng.choice([0.0, 40, 90], n),
        user=np.random.default_rng(seed + 99).choice(["u", "v"], n),
    )
    return jobs, node_table(n_nodes, cpus=rng.choice([4, 4, 5], n_nodes), mem_mb=1000)


def as_dicts(jobs, nodes):
    rows = [
        {
            "submit": int(job["submit_time"]) - 100, "run": int(job["run_time"]), "n": int(job["n_nodes"]),
            "limit": int(job["requested_time"]), "cpus": int(job["cpus_per_node"]), "mem": int(job["mem_mb_per_node"]),
            "cpu": job["cpu_percent"] / 100, "mem_share": job["mem_percent"] / 100,
            "band": job["bandwidth_percent"] / 100,
        }
        for job in jobs.to_dict("records")
    ]  # fmt: skip
    first = rows[0]["submit"]
    return [row | {"submit": row["submit"] - first} for row in rows], list(
        zip(nodes["cpus"].tolist(), nodes["mem_mb"].tolist(), strict=True)
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_loop_equals_the_slow_twin(variant):
    """Starts, ends and nodes are those of counting second by second, for every learner and both forms."""
    n_guests = 0
    for seed in FEW:
        jobs, nodes = case(seed)
        start, end, placed = Twin(*as_dicts(jobs, nodes), **variant).run()
        found = simulate(jobs, nodes, Coschedule(**variant), kill_at_limit=False).schedule
        first = int(jobs["submit_time"].min())
        for j, job in enumerate(found.to_dict("records")):
            assert (job["start_time"] - first, job["end_time"] - first) == (start[j], end[j]), (seed, j)
            assert job["node_ids"] == ",".join(f"n{node}" for node in placed[j]), (seed, j)
        n_guests += found["began_as_guest"].sum()
    assert n_guests >= len(FEW) / 2


def test_a_job_without_profile_shares_with_nobody():
    jobs, nodes = case(1)
    bare = jobs.drop(columns=["cpu_percent", "mem_percent", "bandwidth_percent"])
    ours = simulate(bare, nodes, "coschedule:share=0.5").schedule
    assert not ours["began_as_guest"].any()
    assert ours["start_time"].equals(simulate(bare, nodes, "first-fit").schedule["start_time"])


def test_a_donor_keeps_its_limit_whatever_the_learner_does():
    """Two CPU-bound jobs, a learner that guesses: the donor's limit is kept, for its cores are taken back."""
    jobs = job_table(
        submit_time=[0, 0], run_time=[1000, 1000], requested_time=[1100, 5000], n_nodes=[1, 1], cpus_per_node=4,
        mem_mb_per_node=0, cpu_percent=100.0, mem_percent=1.0, bandwidth_percent=1.0,
    )  # fmt: skip
    for seed in range(5):
        policy = f"coschedule:learner=ips,tolerance=9,interval=10,seed={seed}"
        found = simulate(jobs, node_table(1, cpus=4), policy, kill_at_limit=False).schedule
        if found["began_as_guest"][1]:
            assert found["end_time"][0] <= 1101
    static = simulate(jobs, node_table(1, cpus=4), "coschedule:share=0.5", kill_at_limit=False).schedule
    assert static["end_time"][0] > 1900


@pytest.mark.parametrize(("cores", "seed"), [(64, 2), (128, 4)])
def test_the_study_in_its_worst_cases(cores, seed):
    """About half the wait of backfilling, no job over 10 % longer (guests once were), 5 % on average."""
    jobs, nodes = workflows(cores, seed=seed), system(cores)
    base = simulate(jobs, nodes, "easy:exclusive=true", kill_at_limit=False)
    ours = simulate(jobs, nodes, "coschedule", kill_at_limit=False)
    assert ours.metrics["n_completed"] == len(jobs)
    longer = (ours.schedule["end_time"] - ours.schedule["start_time"]) / jobs["run_time"] - 1
    assert ours.metrics["mean_wait_time"] <= 0.55 * base.metrics["mean_wait_time"]
    assert longer.mean() <= 0.05
    assert longer.max() <= 0.10
