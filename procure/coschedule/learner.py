"""How a quota is chosen, and what is learnt from the loss that follows: pure functions of arrays.

Happiness (eq. 1), loss (section 4.4), risks, rounds and the mixture (eq. 2, 3) as reconstructed from
Souza, Pelckmans and Tordsson (2021), whose formulas are lost. Equation 2 adds, for each expert, its
chance of the sampled quota times the loss; that is no unbiased estimate of its loss, and the theorem's
bound fails (`procure.coschedule.regret`). ``ips`` divides by the chance with which the quota was
sampled (EXP4: Auer et al., 2002), ``ix`` by a little more (implicit exploration: Neu, 2015), ``full``
knows the loss of every quota. ``ucb`` mixes no experts: it keeps, for each quota in each context, the
mean loss, or by how much a prediction of it was wrong, and takes the lowest after a bonus for what was
seldom tried (UCB1: Auer, Cesa-Bianchi and Fischer, 2002).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from procure.coschedule.experts import N_BINS, N_METRICS, N_MOODS, Experts, make_experts
from procure.errors import ArgumentError
from procure.simulator.kernel import kernel

MODES = ("paper", "ips", "ix", "full", "ucb")
PAPER, IPS, IX, FULL, UCB = range(len(MODES))
THRESHOLD = 1.0
"""A round ends when some expert's risk in it reaches this."""
WORST_OVERRUN = 0.5
"""The overrun, as a share of the limit, from which on the loss is 1."""
N_DRAWS = 1 << 16
"""Random numbers that a learner has; it begins again after them."""
BONUS = 0.05
"""How much `ucb` favours what it seldom tried: small, for losses here are nearly certain."""
TRUST = 3.0
"""How many observations the contention that is believed counts for, in `ucb`."""


class Learner(NamedTuple):
    """What is known, and what was learnt; arrays are modified by `choose` and `learn`."""

    mode: int
    experts: Experts
    risk: np.ndarray  # float64[n_experts], accumulated in the rounds before
    round_risk: np.ndarray  # float64[n_experts], in this round
    counts: np.ndarray  # int64[2]: rounds so far, counting this one; random numbers used
    draws: np.ndarray  # float64[N_DRAWS], uniform in [0, 1)
    trust: float  # how many observations a prediction counts for; 0 = there is none
    sums: np.ndarray  # float64[n_cells, n_quotas], losses observed, less what was predicted (ucb)
    tried: np.ndarray  # int64[n_cells, n_quotas]
    chances: np.ndarray  # float64[n_quotas], of the last choice
    alpha: np.ndarray  # float64[n_experts], the experts' weights in this round


ROUND, DRAWN = range(2)
N_CELLS = N_BINS**5 * N_MOODS


def make_learner(mode: str, seed: int, *, step: float = 0.25, trust: float = 0.0) -> Learner:
    """Return a learner that has learnt nothing yet.

    Raises
    ------
    ArgumentError
        There is no such mode, or the step is not possible.
    """
    if mode not in MODES:
        raise ArgumentError("learner", f"learner {mode!r} is not known; {', '.join(MODES)} are")
    experts = make_experts(step)
    n, n_quotas = len(experts.metric), len(experts.quotas)
    n_cells = N_CELLS if mode == "ucb" else 1
    return Learner(
        MODES.index(mode),
        experts,
        np.zeros(n),
        np.zeros(n),
        np.array([1, 0]),
        np.random.default_rng(seed).random(N_DRAWS),
        float(trust),
        np.zeros((n_cells, n_quotas)),
        np.zeros((n_cells, n_quotas), np.int64),
        np.zeros(n_quotas),
        np.full(n, 1.0 / n),
    )


@kernel
def happiness(limit_left, pace, work_left):
    """Return eq. 1: the time left × the work rate / the work left; at least 1 means done in time.

    Parameters
    ----------
    limit_left : float
        s until the limit.
    pace : float
        Share of the full work rate.
    work_left : float
        s at the full rate; nothing left is infinitely happy.
    """
    return math.inf if work_left <= 0.0 else limit_left * pace / work_left


@kernel
def loss_of(limit, total):
    """Return the published loss of a run of ``total`` s under a limit: 0 in time, 1 from half beyond it on."""
    return min(1.0, max(0.0, (total - limit) / limit) / WORST_OVERRUN)


@kernel
def projected_loss(limit, limit_left, pace, work_left):
    """Return the loss of a job that goes on at this pace."""
    if work_left <= 0.0:
        return loss_of(limit, limit - limit_left)
    if pace <= 0.0:
        return 1.0
    return loss_of(limit, limit - limit_left + work_left / pace)


@kernel
def pair_loss(donors, guests):
    """Return the loss of a pair from the losses of its two jobs: a donor that misses its limit weighs most.

    0.5 is the loss where the donor is in time and the guest stands still; the donor's own begins there.
    """
    return max(0.5 + 0.5 * donors if donors > 0.0 else 0.0, 0.5 * guests)


@kernel
def gamma_of(n_experts, number):
    """Return the learning rate of a round, √(8 ln n / t): it never increases."""
    return math.sqrt(8.0 * math.log(n_experts) / number)


@kernel
def weigh(risk, gamma, alpha):
    """Fill ``alpha`` with the experts' weights (eq. 3): proportional to exp(−γ risk)."""
    least = risk[0]
    for i in range(risk.size):
        least = min(least, risk[i])
    total = 0.0
    for i in range(risk.size):
        alpha[i] = math.exp(-gamma * (risk[i] - least))
        total += alpha[i]
    for i in range(risk.size):
        alpha[i] /= total


@kernel
def mix(learner, context):
    """Fill ``chances`` with the experts' advice, weighed."""
    experts, chances = learner.experts, learner.chances
    mood = context[N_METRICS]
    for a in range(chances.size):
        total = 0.0
        for i in range(experts.metric.size):
            total += learner.alpha[i] * experts.leaves[i, context[experts.metric[i]], mood, a]
        chances[a] = total


@kernel
def cell_of(context):
    """Return the number of a context for `ucb`: all metrics but the elapsed time, and the mood."""
    cell = context[N_METRICS]
    for i in range(5):
        cell = cell * N_BINS + context[i]
    return cell


@kernel
def choose(learner, context, predicted):
    """Choose a quota.

    Parameters
    ----------
    context : numpy.ndarray
        int64[N_METRICS + 1]: each metric's bin, and the donor's mood.
    predicted : numpy.ndarray
        float64[n_quotas], the loss that is believed to follow; only `ucb` with ``trust`` looks at it.

    Returns
    -------
    int
        Row of ``quotas``. Ties go to the lower quota.
    """
    if learner.mode == UCB:
        return _lowest(learner, cell_of(context), predicted)
    mix(learner, context)
    u = learner.draws[learner.counts[DRAWN] % N_DRAWS]
    learner.counts[DRAWN] += 1
    chances = learner.chances
    for a in range(chances.size - 1):
        if u < chances[a]:
            return a
        u -= chances[a]
    return chances.size - 1


@kernel
def _lowest(learner, cell, predicted):
    n = 1
    for a in range(predicted.size):
        n += learner.tried[cell, a]
    best, lowest = 0, math.inf
    for a in range(predicted.size):
        weight = learner.trust + learner.tried[cell, a]
        value = -math.inf
        if weight > 0.0:
            value = predicted[a] + learner.sums[cell, a] / weight
            value -= BONUS * math.sqrt(2.0 * math.log(n) / weight)
        if value < lowest:
            best, lowest = a, value
    return best


@kernel
def mean_loss(learner, context, quota, predicted):
    """Return the loss that `ucb` expects of a quota, from what it saw and what is predicted."""
    cell = cell_of(context)
    weight = learner.trust + learner.tried[cell, quota]
    return predicted[quota] + learner.sums[cell, quota] / weight


@kernel
def learn(learner, context, quota, losses, expected):
    """Learn from the loss that a chosen quota brought; after `choose` in the same context.

    Parameters
    ----------
    losses : numpy.ndarray
        float64[n_quotas] in [0, 1]. Only the chosen one's is looked at, but in the mode ``full``.
    expected : float
        The loss that was predicted for the quota when it was chosen, 0 without: ``ucb`` learns by how much
        predictions are wrong in each context.

    Returns
    -------
    bool
        Whether this ended a round.
    """
    loss = losses[quota]
    if learner.mode == UCB:
        cell = cell_of(context)
        learner.sums[cell, quota] += loss - expected
        learner.tried[cell, quota] += 1
        return False
    mix(learner, context)
    experts, mood = learner.experts, context[N_METRICS]
    most = 0.0
    for i in range(experts.metric.size):
        part = context[experts.metric[i]]
        advised = experts.leaves[i, part, mood, quota]
        if learner.mode == FULL:
            for a in range(losses.size):
                learner.round_risk[i] += experts.leaves[i, part, mood, a] * losses[a]
        elif learner.mode == PAPER:
            learner.round_risk[i] += advised * loss
        else:
            chance = learner.chances[quota]
            if learner.mode == IX:
                chance += 0.5 * gamma_of(experts.metric.size, learner.counts[ROUND])
            learner.round_risk[i] += advised * loss / chance
        most = max(most, learner.round_risk[i])
    if most < THRESHOLD:
        return False
    end_round(learner)
    return True


@kernel
def end_round(learner):
    """Add the round's risks to the accumulated ones, and weigh the experts anew."""
    for i in range(learner.risk.size):
        learner.risk[i] += learner.round_risk[i]
        learner.round_risk[i] = 0.0
    learner.counts[ROUND] += 1
    weigh(learner.risk, gamma_of(learner.risk.size, learner.counts[ROUND]), learner.alpha)
