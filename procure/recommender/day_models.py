"""Fit models to a study's workloads taken as days, and count on how many days a package is a hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from procure.evaluation.many_days import MODELS, Days, days_of, hit_days, predict_all_days
from procure.files import keep_array
from procure.models import features
from procure.sweep.results import RUNS_ALL, StudyResults


@dataclass(frozen=True)
class ManyDays:
    """What is known of a study's workloads taken as days.

    Attributes
    ----------
    days
        What packages are judged by.
    n_hit_days
        On how many days each package is a hit, −1 where that is not known.
    scores
        By (feature set, model), see `procure.evaluation.many_days.Scores`.
    """

    days: Days
    n_hit_days: np.ndarray
    scores: Mapping[tuple[str, str], np.ndarray]


def judge_days(
    results: StudyResults,
    feature_sets: Sequence[str],
    rule: str = RUNS_ALL,
    truth: np.ndarray | None = None,
    train_on: Sequence[str] = (),
) -> ManyDays:
    """Fit models to all workloads at once, and to single ones; count on how many days each package is a hit.

    It is judged by ``truth``, mean waits, s, float64[workloads, packages], if that is given. Each workload of
    ``train_on`` gets a model of its own.
    """
    known = days_of(results.cases, rule)
    judged_by = known if truth is None else days_of(results.cases, rule, truth)
    scores: dict[tuple[str, str], np.ndarray] = {}
    share = results.plan.study.evaluate.hit_share
    enough = int(known.simulated.sum()) >= 2 * results.plan.study.model.folds
    for name in feature_sets:
        for learns in MODELS if enough else ():
            scores[name, learns] = _scores(results, known, name, learns, share)
        for case in results.cases:
            predicted = results.learn_if_possible(case, name, rule) if case.name in train_on else None
            if predicted is not None:
                scores[name, f"day {case.name}"] = predicted.wait
    return ManyDays(judged_by, hit_days(judged_by, share), scores)


def _scores(results: StudyResults, days: Days, feature_set: str, learns: str, share: float) -> np.ndarray:
    """Score all packages, or reuse the scores that are stored beside the study's results for the same inputs."""
    model = results.plan.study.model
    x = features(results.cases[0].packages, results.plan.quotes, feature_set).to_numpy()
    asked = (learns, share, model.kind, model.folds, model.seed)
    return keep_array(
        results.kept,
        f"all-days.{learns}.{feature_set}",
        [asked, x, days.wait, days.able, days.weight],
        lambda: predict_all_days(days, x, *asked),
    )
