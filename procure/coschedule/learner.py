"""How a quota is chosen, and what is learnt from the loss that follows: pure functions of arrays.

An expert is a decision tree that looks at one metric and at the donor's happiness, and advises a quota: a
reconstruction (section 3), for the trees are drawn but not listed. A leaf is a distribution over the quotas.

Happiness (eq. 1), loss (section 4.4), risks, rounds and the mixture (eq. 2, 3) as reconstructed from
Souza, Pelckmans and Tordsson (2021), whose formulas are lost. Equation 2 adds, for each expert, its
chance of the sampled quota times the loss; that is no unbiased estimate of its loss, and the theorem's
bound fails (`regret`). ``ips`` divides by the chance with which the quota was
sampled (EXP4: Auer et al., 2002), ``ix`` by a little more (implicit exploration: Neu, 2015), ``full``
knows the loss of every quota. ``ucb`` mixes no experts: it keeps, for each quota in each context, the
mean loss, or by how much a prediction of it was wrong, and takes the lowest after a bonus for what was
seldom tried (UCB1: Auer, Cesa-Bianchi and Fischer, 2002).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.errors import ArgumentError
from procure.files.kernels import njit
from procure.simulator.kernel import kernel

N_BINS, N_MOODS = 4, 3
IN_DANGER, NEAR, ABOVE = range(N_MOODS)
"""Happiness below 1, from 1 to `COMFORT`, and above."""
COMFORT = 1.1
FLOOR = 0.02
"""The share of every leaf that is spread evenly, so that each quota keeps a chance."""
WIDTH = 0.125
"""How fast a leaf's chances fall with the distance from the quota that it prefers."""

METRICS = ("cpu", "mem", "guest_cpu", "guest_mem", "both_cpu", "elapsed")
"""The donor's CPU and memory share, the guest's, the CPU shares together, and the elapsed part of the limit."""
N_METRICS = len(METRICS)
EDGES = np.array([[0.75, 1.0, 1.25] if name == "both_cpu" else [0.25, 0.5, 0.75] for name in METRICS])
"""float64[n_metrics, 3], the borders between a metric's bins; a value on a border is in the lower bin."""
_PREFERRED = {
    "cpu": (0.75, 0.5, 0.25, 0.0),
    "mem": (0.5, 0.5, 0.25, 0.0),
    "guest_cpu": (0.25, 0.5, 0.75, 0.75),
    "guest_mem": (0.5, 0.5, 0.25, 0.0),
    "both_cpu": (0.5, 0.5, 0.25, 0.0),
    "elapsed": (0.25, 0.25, 0.5, 0.5),
}
"""The quota that each expert prefers per bin when the donor is above; near, half of it; in danger, 0."""


class Experts(NamedTuple):
    """What a learner mixes."""

    quotas: np.ndarray  # float64[n_quotas], ascending from 0: the guest's share of the CPUs
    leaves: np.ndarray  # float64[N_METRICS, N_BINS, N_MOODS, n_quotas], an expert per metric; each leaf sums to 1


def make_experts(step: float = 0.25) -> Experts:
    """Return one expert per metric; quotas 0, 0.25, 0.5 and 0.75 as published, or in another step."""
    if not 0.01 <= step <= 0.5:
        raise ArgumentError("step", f"the step between quotas is {step}; from 0.01 to 0.5 is allowed")
    quotas = np.arange(0.0, 1.0 - 1e-9, step)
    leaves = np.zeros((N_METRICS, N_BINS, N_MOODS, len(quotas)))
    for i, name in enumerate(METRICS):
        for part, preferred in enumerate(_PREFERRED[name]):
            for mood, share in ((IN_DANGER, 0.0), (NEAR, 0.5), (ABOVE, 1.0)):
                chances = np.exp(-np.abs(quotas - share * preferred) / WIDTH)
                leaves[i, part, mood] = (1 - FLOOR) * chances / chances.sum() + FLOOR / len(quotas)
    return Experts(quotas, leaves)


@kernel
def bin_of(metric, value):
    """Return how many of a metric's borders a value exceeds."""
    n = 0
    for k in range(N_BINS - 1):
        if value > EDGES[metric, k]:
            n += 1
    return n


@kernel
def mood_of(happiness):
    """Return IN_DANGER, NEAR or ABOVE."""
    if happiness < 1.0:
        return IN_DANGER
    return NEAR if happiness <= COMFORT else ABOVE


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
    """Return a learner that has learnt nothing yet; an `ArgumentError` if there is no such mode or step."""
    if mode not in MODES:
        raise ArgumentError("learner", f"learner {mode!r} is not known; {', '.join(MODES)} are")
    experts = make_experts(step)
    n, n_quotas = N_METRICS, len(experts.quotas)
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
    """Return eq. 1: s until the limit × the pace (share of the full rate) / the work left (s at the full rate).

    At least 1 means done in time; with nothing left a job is infinitely happy.
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
        for i in range(N_METRICS):
            total += learner.alpha[i] * experts.leaves[i, context[i], mood, a]
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
    """Choose a quota; returns its row in ``quotas``. Ties go to the lower quota.

    ``context``, int64[N_METRICS + 1], are each metric's bin and the donor's mood; ``predicted``, float64[n_quotas], is
    the loss that is believed to follow: only `ucb` with ``trust`` looks at it.
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
    """Learn from the loss that a chosen quota brought, after `choose` in the same context; says whether a round ended.

    Of ``losses``, float64[n_quotas] in [0, 1], only the chosen one's is looked at, but in the mode ``full``.
    ``expected`` is the loss that was predicted for the quota when it was chosen, 0 without: ``ucb`` learns by how much
    predictions are wrong in each context.
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
    for i in range(N_METRICS):
        part = context[i]
        advised = experts.leaves[i, part, mood, quota]
        if learner.mode == FULL:
            for a in range(losses.size):
                learner.round_risk[i] += experts.leaves[i, part, mood, a] * losses[a]
        elif learner.mode == PAPER:
            learner.round_risk[i] += advised * loss
        else:
            chance = learner.chances[quota]
            if learner.mode == IX:
                chance += 0.5 * gamma_of(N_METRICS, learner.counts[ROUND])
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


LOSSES = ("stochastic", "adversarial")
_MODES = tuple(mode for mode in MODES if mode != "ucb")


def regret(
    modes: Sequence[str] = _MODES,
    sizes: Sequence[int] = (100, 1000, 10_000),
    *,
    seeds: int = 30,
    kinds: Sequence[str] = LOSSES,
) -> pd.DataFrame:
    """Measure the excess risk (eq. 4) and its bound.

    The excess is the sum over cases of the mixture's expected loss, less that of the expert who is best
    afterwards. ``bound`` is, with rounds t, rates γ_t and n experts, ln n / γ_T + Σ γ_t B² / 8 for ``full``
    and ``paper`` (eq. 5: Hoeffding's lemma, a round's risk being at most B = 2) and
    ln n / γ_T + Σ γ_t / 2 Σ_i α_i r_i² for ``ips`` and ``ix`` (EXP4, with the risks r that were
    estimated; plus, for ``ix``, by how much it underestimates the mixture's loss per case).

    Returns
    -------
    pandas.DataFrame
        ``mode losses T excess_mean excess_se bound rounds loss best_expert``; means over the seeds, the
        last two being mean losses per case.
    """
    for name, given, legal in (("modes", modes, _MODES), ("kinds", kinds, LOSSES)):
        for each in given:
            if each not in legal:
                raise ArgumentError(name, f"{each!r} is not known; {', '.join(legal)} are")
    if seeds < 2 or min(sizes) < 1:
        raise ArgumentError("seeds", f"{seeds} seeds and sizes {list(sizes)}; at least 2 and 1 are needed")
    rows = []
    for mode in modes:
        for kind in kinds:
            for size in sizes:
                found = np.array([one_regret(mode, kind, size, seed) for seed in range(seeds)])
                mean = found.mean(axis=0)
                error = found[:, 0].std(ddof=1) / math.sqrt(seeds)
                rows.append([mode, kind, size, mean[0], error, mean[1], mean[2], mean[3], mean[4]])
    columns = ["mode", "losses", "T", "excess_mean", "excess_se", "bound", "rounds", "loss", "best_expert"]
    return pd.DataFrame(rows, columns=columns)


def one_regret(mode: str, kind: str, n_cases: int, seed: int) -> tuple[float, float, float, float, float]:
    """Run one learner: its excess, bound, rounds, loss per case and the best expert's."""
    rng = np.random.default_rng((seed, 1))
    learner = make_learner(mode, seed)
    contexts = rng.integers(0, N_BINS, (n_cases, N_METRICS + 1))
    contexts[:, N_METRICS] = rng.integers(0, N_MOODS, n_cases)
    n_quotas = len(learner.experts.quotas)
    if kind == "adversarial":
        losses = np.full((n_cases, n_quotas), -1.0)
    else:
        losses = (rng.random((n_cases, n_quotas)) < drawn_chances(rng, contexts, n_quotas)).astype(np.float64)
    excess, bound, loss, best = _run(learner, contexts, losses)
    return excess, bound, float(learner.counts[ROUND]), loss / n_cases, best / n_cases


def drawn_chances(rng: np.random.Generator, contexts: np.ndarray, n_quotas: int) -> np.ndarray:
    """Return each quota's chance of a loss: it rises with the quota, sooner the busier donor and guest are.

    How soon is drawn once per seed for each pair of CPU bins.
    """
    room = rng.uniform(0.0, 1.0, (N_BINS, N_BINS))[contexts[:, 0], contexts[:, 2]]
    quota = np.arange(n_quotas) / n_quotas
    return np.clip(np.abs(quota - room[:, None]) * 1.5, 0.02, 0.98)


@njit(cache=True, nogil=True)
def _run(learner, contexts, losses):
    experts = learner.experts
    n, n_quotas = N_METRICS, experts.quotas.size
    own, theirs, bound, spread = 0.0, np.zeros(n), 0.0, 0.0
    before = learner.risk.copy()
    alpha = learner.alpha.copy()
    nothing = np.zeros(n_quotas)
    for t in range(contexts.shape[0]):
        context, loss = contexts[t], losses[t]
        mix(learner, context)
        if loss[0] < 0.0:
            _worst(learner.chances, loss)
        mood = context[N_METRICS]
        for a in range(n_quotas):
            own += learner.chances[a] * loss[a]
            for i in range(n):
                theirs[i] += experts.leaves[i, context[i], mood, a] * loss[a]
        gamma = gamma_of(n, learner.counts[ROUND])
        if learner.mode == IX:
            for a in range(n_quotas):
                chance = learner.chances[a]
                spread += chance * loss[a] * 0.5 * gamma / (chance + 0.5 * gamma)
        ended = learn(learner, context, choose(learner, context, nothing), loss, 0.0)
        last = t == contexts.shape[0] - 1
        if last and not ended:
            end_round(learner)
        if ended or last:
            bound += gamma * _spread(learner, alpha, before)
            before[:] = learner.risk
            alpha[:] = learner.alpha
            final = gamma
    return own - theirs.min(), math.log(n) / final + bound + spread, own, theirs.min()


@njit(cache=True, nogil=True)
def _worst(chances, loss):
    """Set the loss: 1 for the likelier half of the quotas, 0 for the others."""
    order = np.argsort(-chances)
    for k in range(order.size):
        loss[order[k]] = 1.0 if k < order.size // 2 else 0.0


@njit(cache=True, nogil=True)
def _spread(learner, alpha, before):
    if learner.mode == FULL or learner.mode == 0:
        return 4.0 / 8.0
    total = 0.0
    for i in range(alpha.size):
        total += 0.5 * alpha[i] * (learner.risk[i] - before[i]) ** 2
    return total
