"""The learner against its bound: excess risk over cases whose losses are drawn, or set by an adversary."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from procure.coschedule.learner import (
    FULL,
    IX,
    MODES,
    N_BINS,
    N_METRICS,
    N_MOODS,
    ROUND,
    choose,
    end_round,
    gamma_of,
    learn,
    make_learner,
    mix,
)
from procure.errors import ArgumentError
from procure.files.kernels import njit

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
    n, n_quotas = experts.metric.size, experts.quotas.size
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
                theirs[i] += experts.leaves[i, context[experts.metric[i]], mood, a] * loss[a]
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
