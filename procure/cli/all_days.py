"""A study's workloads judged together: hits on more than N days, and the models that learn from all of them."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from procure.cli import common
from procure.cli.cases import Rule
from procure.recommender.results import StudyResults
from procure.text import listed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from procure.evaluation.many_days import Days


@dataclass(frozen=True)
class Judged:
    """What is known of a study's workloads together.

    Attributes
    ----------
    days
        What packages are judged by.
    counted
        On how many days each package is a hit, −1 where that is not known.
    scores
        By (feature set, model), see `procure.evaluation.many_days.Scores`.
    """

    days: Days
    counted: np.ndarray
    scores: dict[tuple[str, str], np.ndarray]


def judge(
    loaded: StudyResults,
    feature_sets: list[str],
    rule: Rule = Rule.RUNS_ALL,
    truth: np.ndarray | None = None,
    train_on: list[str] | None = None,
    models: tuple[str, ...] | None = None,
) -> Judged:
    """Learn from all workloads at once, and from single ones; count hits.

    Parameters
    ----------
    truth
        Mean waits, s, float64[workloads, packages], to judge by instead of the study's own.
    train_on
        Workloads of which a model of its own is learnt, as from one representative day.
    models
        Of `procure.evaluation.many_days.MODELS`; default: all.
    """

    from procure.evaluation.many_days import MODELS, days_of, hit_days

    known = days_of(loaded.cases, rule.value)
    judged_by = days_of(loaded.cases, rule.value, truth)
    scores: dict[tuple[str, str], np.ndarray] = {}
    choice, share = loaded.plan.study.model, loaded.plan.study.evaluate.hit_share
    enough = int(known.simulated.sum()) >= 2 * choice.folds
    for name in feature_sets:
        for learns in (models or MODELS) if enough else ():
            scores[name, learns] = _learnt(loaded, known, name, learns, share)
        for case in loaded.cases:
            found = loaded.learn_if_possible(case, name, rule) if case.name in (train_on or []) else None
            if found is not None:
                scores[name, f"day {case.name}"] = found.wait
    return Judged(judged_by, hit_days(judged_by, share), scores)


def _learnt(loaded: StudyResults, days: Days, feature_set: str, learns: str, share: float) -> np.ndarray:
    """Score all packages, or take up the scores that were kept beside the study's results."""
    import numpy as np

    from procure._version import __version__
    from procure.evaluation.many_days import predict_all_days
    from procure.models import features
    from procure.tables import whole_file

    choice = loaded.plan.study.model
    x = features(loaded.cases[0].packages, loaded.plan.quotes, feature_set).to_numpy()
    settings = f"{__version__} {learns} {share} {choice.kind} {choice.folds} {choice.seed}"
    digest = hashlib.sha256(settings.encode())
    for array in (x, days.wait, days.able, days.weight):
        digest.update(np.ascontiguousarray(array).tobytes())
    path = loaded.kept / f"all-days.{learns}.{feature_set}.{digest.hexdigest()[:16]}.npz"
    with contextlib.suppress(OSError, EOFError, ValueError, KeyError), np.load(path) as kept:
        return np.asarray(kept["score"], dtype="float64")
    score = predict_all_days(days, x, learns, share, choice.kind, choice.folds, choice.seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, score=score)
    return score


def ks_of(loaded: StudyResults) -> tuple[int, ...]:
    """Return the study's list lengths, or the published ones where it names none."""
    from procure.evaluation.many_days import KS

    asked = loaded.plan.study.evaluate
    return asked.k if "k" in asked.model_fields_set else KS


def evaluate_days(
    loaded: StudyResults, judged: Judged, thresholds: list[int], k: int, output: common.Format
) -> None:
    """Print the tables of hits at each threshold, how precision falls with it, and the robust choices."""
    from procure.evaluation.many_days import robust_choices, threshold_sweep, threshold_table

    packages, n_days = loaded.cases[0].packages, len(loaded.cases)
    table = threshold_table(judged.scores, judged.counted, packages, thresholds, ks_of(loaded))
    sweep = threshold_sweep(judged.scores, judged.counted, packages, n_days, k)
    choices = robust_choices(judged.days, packages, judged.counted)
    _explain(loaded, judged, thresholds)
    if output is common.Format.CSV:
        common.print_table(table, output)
    elif output is common.Format.JSON:
        parts = {"hits": table, "sweep": sweep, "choices": choices}
        document = {"n_days": n_days, "hit_share": loaded.plan.study.evaluate.hit_share}
        common.print_json(document | {name: part.to_dict(orient="records") for name, part in parts.items()})
    else:
        for threshold, rows in table[table["n_hits"] > 0].groupby("threshold"):
            _print_hits(loaded, rows, int(str(threshold)))
        common.print_table(_wide(sweep), output, f"precision@{k} as the threshold rises")
        _print_choices(choices)


def _explain(loaded: StudyResults, judged: Judged, thresholds: list[int]) -> None:
    n_days, folds = len(loaded.cases), loaded.plan.study.model.folds
    ranked = int((judged.counted >= 0).sum())
    if not judged.scores:
        common.note(
            f"{ranked:,} packages are simulated on all {n_days} days; a model with {folds}-fold "
            f"cross-validation needs {2 * folds}, so there is none"
        )
    nowhere = [case.name for case in loaded.cases if not case.runs_all.any()]
    if nowhere:
        common.note(f"no package runs every job of {listed(nowhere)}: no hit there")
    most = int(judged.counted.max(initial=0))
    beyond = [threshold for threshold in thresholds if threshold >= most]
    if beyond:
        common.note(
            f"no package is a hit on more than {most} of the {n_days} days, so there are no hits at > "
            f"{', > '.join(map(str, beyond))}, and precision says nothing there"
        )


def _who(table: pd.DataFrame) -> pd.Series:
    return table["model"].where(table["feature_set"] == "none", table["model"] + " " + table["feature_set"])


def _print_hits(loaded: StudyResults, rows: pd.DataFrame, threshold: int) -> None:
    import pandas as pd

    study, n_days = loaded.plan.study, len(loaded.cases)
    hits, ranked = (int(rows[name].iloc[0]) for name in ("n_hits", "n_ranked"))
    shown = {"ranked by": _who(rows), "k": rows["k"]}
    shown |= {name: rows[name].round(3) for name in ("precision", "recall", "f1")}
    title = (
        f"{study.name}: {hits:,} of {ranked:,} packages are among the best {study.evaluate.hit_share:.0%} "
        f"on more than {threshold} of {n_days} days"
    )
    common.print_table(pd.DataFrame(shown), common.Format.TABLE, title)


def _wide(sweep: pd.DataFrame) -> pd.DataFrame:
    wide = (
        sweep[sweep["n_hits"] > 0]
        .assign(who=_who(sweep))
        .pivot_table(index=["threshold", "n_hits"], columns="who", values="precision", sort=False)
    )
    return wide.round(3).reset_index().rename(columns={"threshold": ">", "n_hits": "hits"})


def _print_choices(choices: pd.DataFrame) -> None:
    if choices.empty:
        return
    shown = choices.drop(columns=["package_id", "price_usd"])
    for name in ("mean", "worst", "cvar"):
        shown[name] = shown[name].round().astype("int64")
    shown = shown.rename(columns={"mean": "mean s", "worst": "worst s", "cvar": "cvar s"})
    title = "what each way to put the days together would buy, of the simulated packages"
    common.print_table(shown.assign(regret_max=shown["regret_max"].round(2)), common.Format.TABLE, title)
    for row in choices.to_dict(orient="records"):
        common.echo(f"  {row['choice']:<10}  {row['package_id']}  US$ {row['price_usd']:,.0f}")
