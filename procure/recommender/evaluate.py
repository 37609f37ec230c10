"""How good is a study's model: its error out of fold, and against what was simulated its hits and regret."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError, argument
from procure.evaluation import many_days
from procure.evaluation.ranking import evaluate_case
from procure.files import keep_array
from procure.models import FEATURE_SETS, features
from procure.models.surrogate import correlations
from procure.progress import silent
from procure.recommender.notes import about_results
from procure.recommender.rank import Note
from procure.schemas import RESULT
from procure.study import Study, load_study
from procure.study.rules import check_threshold
from procure.sweep import read_results
from procure.sweep.results import RULES, RUNS_ALL, StudyResults, few_simulated, load_results
from procure.tables import read
from procure.text import Shown, as_html, as_html_list, as_text, be, counted, duration, listed, nearest


@dataclass(frozen=True)
class Evaluation:
    """How good a study's model is at finding the best packages.

    ``hit_share`` of the packages are hits on one of the ``workloads``. ``hits``: of each workload the rows of
    `procure.evaluation.ranking.evaluate_case`; with a threshold, of all together those of
    `procure.evaluation.many_days.threshold_table`, with ``sweep``, the precision at every threshold, and ``choices``.
    """

    study: str
    workloads: list[str]
    hit_share: float
    hits: pd.DataFrame
    sweep: pd.DataFrame | None
    choices: pd.DataFrame | None
    notes: list[str]

    def shown(self) -> dict[str, pd.DataFrame]:
        """Return the tables that people read, rounded, by title."""
        best = f"hits are the best {self.hit_share:.0%}"
        if self.sweep is None or self.choices is None:
            groups = self.hits[self.hits["k"] <= self.hits["n_ranked"]].groupby("workload", sort=False)
            return {f"{self.study}, {workload}: {best}": _shown(rows) for workload, rows in groups}
        tables = {}
        for threshold, rows in self.hits[self.hits["n_hits"] > 0].groupby("threshold"):
            n_hits, n_ranked = (int(rows[name].iloc[0]) for name in ("n_hits", "n_ranked"))
            title = f"{self.study}: {n_hits:,} of {n_ranked:,} packages are among the best {self.hit_share:.0%}"
            tables[f"{title} on more than {threshold} of {len(self.workloads)} days"] = _shown(rows)
        if len(self.sweep):
            rows = self.sweep[self.sweep["n_hits"] > 0].assign(who=_ranked_by)
            wide = rows.pivot_table("precision", ["threshold", "n_hits"], "who", sort=False).round(3)
            tables[f"precision@{self.sweep['k'].iloc[0]} as the threshold rises"] = wide.reset_index()
        if len(self.choices):
            tables["the simulated package that each way to combine the days would buy"] = self.choices.round(2)
        return tables

    def verdict(self) -> list[str]:
        """Say what decides, a sentence per workload: what the first k of the model hold, beside the naive choices."""
        groups = [] if self.sweep is not None else self.hits.groupby("workload", sort=False)
        return [f"{workload}: {_verdict(rows[rows['k'] <= rows['n_ranked']])}" for workload, rows in groups]

    def summary(self) -> str:
        """Return what decides, the tables and the notes as text."""
        tables = [as_text(title, table, ()) for title, table in self.shown().items()]
        return "\n\n".join([*self.verdict(), *tables, "\n".join(f"- {line}" for line in self.notes)])

    def _repr_html_(self) -> str:
        return "".join(as_html(title, table, ()) for title, table in self.shown().items()) + as_html_list(self.notes)

    def to_dict(self) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the figures as plain values, as ``procure evaluate --format json`` prints them."""
        hits = self.hits.to_dict(orient="records")
        if self.sweep is None or self.choices is None:
            return hits
        more = {"sweep": self.sweep.to_dict(orient="records"), "choices": self.choices.to_dict(orient="records")}
        return {"n_days": len(self.workloads), "hit_share": self.hit_share, "hits": hits} | more


def evaluate(
    study: str | Path | Study | StudyResults,
    *,
    truth: str | Path | Study | pd.DataFrame | None = None,
    feature_set: str | Sequence[str] | None = None,
    policy: str | None = None,
    rule: str = RUNS_ALL,
    hit_threshold: int | Iterable[int] | None = None,
    note: Note = silent,
) -> Evaluation:
    """Judge a study's model against what was simulated, beside a random order and the cheapest per CPU.

    Simulated packages are predicted by the folds that did not see them (Hutchison 2024, sections 3.5 and 3.8).

    Parameters
    ----------
    study, truth
        The path of a swept study, the study, or its results; one that simulated more packages, from which hits and
        regret are taken.
    feature_set, policy, rule
        Of `procure.models.FEATURE_SETS`, None = both, with a threshold the study's own; one of the study's, None = its
        first; one of `procure.sweep.results.RULES`.
    hit_threshold
        Judge all workloads together: a hit is among the best ``hit_share`` packages on more than this many of them.
        None = the study's ``evaluate.hit_threshold``; if that is None, too, each workload by itself. A model of the
        first workload alone, as from one representative day, is judged beside.

    Raises
    ------
    TableError
        An argument is wrong, there are no results yet, or the truth lacks a workload.

    Examples
    --------
    >>> import procure
    >>> print(type(procure.evaluate("study.toml").hits).__name__)
    DataFrame
    """
    names = [feature_set] if isinstance(feature_set, str) else list(feature_set or [])
    for what, given, known in (("feature_set", names, FEATURE_SETS), ("rule", [rule], RULES)):
        for name in set(given) - set(known):
            raise ArgumentError(what, f"{name!r} is unknown; {nearest(name, known)}")
    results = load_results(study, policy)
    settings = results.plan.study
    waits = None if truth is None else _true_waits(truth, results)
    threshold = settings.evaluate.hit_threshold if hit_threshold is None else hit_threshold
    thresholds = [threshold] if isinstance(threshold, int) else sorted(set(threshold or []))
    note(f"judging the model on {counted(len(results.cases), 'workload')}")
    if thresholds:
        return _pooled(results, names or [settings.model.feature_set], rule, waits, thresholds)
    return _apart(results, names, rule, waits)


def _true_waits(truth: str | Path | Study | pd.DataFrame, results: StudyResults) -> list[np.ndarray]:
    """Return for each case the true mean wait of each package, s, NaN where the truth does not have it."""
    source = truth if isinstance(truth, str | Path) else "truth"
    if isinstance(truth, str | Path):
        truth = load_study(truth) if Path(truth).suffix == ".toml" else read(truth, RESULT)
    rows = read_results(truth) if isinstance(truth, Study) else truth
    rows = rows[(rows["status"] == "ok") & (rows["policy"] == results.policy)]
    by_workload = dict(tuple(rows.groupby("workload", sort=False)))
    waits = []
    for case in results.cases:
        if case.name not in by_workload:
            held = listed([str(name) for name in by_workload]) or "none"
            no = f"holds no run of workload {case.name} under {results.policy}"
            raise TableError(f"{source}: {no}; its workloads: {held}")
        mine = by_workload[case.name].drop_duplicates("package_id").set_index("package_id")
        waits.append(mine["mean_wait_time"].reindex(case.packages["package_id"]).to_numpy(dtype="float64"))
    return waits


def _apart(results: StudyResults, feature_sets: list[str], rule: str, truth: list[np.ndarray] | None) -> Evaluation:
    study, tables, notes, last = results.plan.study, [], list[str](), list[str]()
    for case, waits in zip(results.cases, truth or repeat(None), strict=False):
        predictions = results.rankings(case, feature_sets)
        if not predictions:
            notes.append(few_simulated(case, study.model.folds))
        tables.append(evaluate_case(case, predictions, waits, study.evaluate.k, study.evaluate.hit_share, rule))
        first = tables[-1].iloc[0]
        who, out = first["model" if first["feature_set"] == "none" else "feature_set"], (~case.runs_all).mean()
        text = f"{case.name}: {first['n_ranked']:,} ranked packages, {first['n_hits']:,} hits by the share, "
        text += f"{first['n_hits_real']:,} with ties; rank correlation {first['spearman']:.4f} ({who}); "
        last.append(f"{text}{out:.0%} of all packages leave jobs out")
        if not case.runs_all.any():
            last.append(f"{case.name}: no package runs every job; --rule published ranks them all the same")
        if not first["n_hits"]:
            last.append(f"{case.name}: too few ranked packages for a single hit; precision and recall mean nothing")
    names, hits = [case.name for case in results.cases], pd.concat(tables, ignore_index=True)
    notes += [*about_results(results), *last]
    return Evaluation(study.name, names, study.evaluate.hit_share, hits, None, None, notes)


def _scores(results: StudyResults, known: many_days.Days, feature_sets: Sequence[str], rule: str) -> many_days.Scores:
    """Fit models to all workloads at once, kept beside the study's results, and one to the first workload alone."""
    plan, first, scores = results.plan, results.cases[0], dict[tuple[str, str], np.ndarray]()
    share, model = plan.study.evaluate.hit_share, plan.study.model
    enough = int(known.simulated.sum()) >= 2 * model.folds
    for name in feature_sets:
        x = features(first.packages, plan.quotes, name).to_numpy()
        for learns in many_days.MODELS if enough else ():
            asked = (learns, share, model.folds, model.seed)
            made = partial(many_days.predict_all_days, known, x, *asked)
            inputs = [asked, x, known.wait, known.able, known.weight]
            scores[name, learns] = keep_array(results.kept, f"all-days.{learns}.{name}", inputs, made)
        predicted = results.learn_if_possible(first, name, rule)
        if predicted is not None:
            scores[name, f"day {first.name}"] = predicted.wait
    return scores


def _pooled(
    results: StudyResults, feature_sets: list[str], rule: str, truth: list[np.ndarray] | None, thresholds: list[int]
) -> Evaluation:
    study, names = results.plan.study, [case.name for case in results.cases]
    for threshold in thresholds:
        with argument("hit_threshold"):
            check_threshold(threshold, names)
    known = many_days.days_of(results.cases, rule)
    days = known if truth is None else many_days.days_of(results.cases, rule, np.array(truth))
    n_hit_days, scores = many_days.hit_days(days, study.evaluate.hit_share), _scores(results, known, feature_sets, rule)
    packages, asked, folds = results.cases[0].packages, study.evaluate, study.model.folds
    ks = asked.k if "k" in asked.model_fields_set else many_days.KS
    most, n_known = int(n_hit_days.max(initial=0)), int((n_hit_days >= 0).sum())
    nowhere = [case.name for case in results.cases if not case.runs_all.any()]
    beyond = [str(threshold) for threshold in thresholds if threshold >= most]
    rows = (
        (not scores, f"{n_known:,} packages are simulated on all {len(names)} days; a model with {folds:,}-fold "
                     f"cross-validation needs {2 * folds:,}, so there is none"),
        (nowhere, f"no package runs every job of {listed(nowhere)}: no hit there"),
        (beyond, f"no package is a hit on more than {most} of the {len(names)} days, so there are no hits at > "
                 f"{', > '.join(beyond)}, and precision says nothing there"),
    )  # fmt: skip
    hits = many_days.threshold_table(scores, n_hit_days, packages, thresholds, ks)
    sweep = many_days.threshold_sweep(scores, n_hit_days, packages, len(names), study.recommend.k)
    choices = many_days.robust_choices(days, packages, n_hit_days)
    notes = [*about_results(results), *(text for applies, text in rows if applies)]
    return Evaluation(study.name, names, asked.hit_share, hits, sweep, choices, notes)


def _ranked_by(table: pd.DataFrame) -> pd.Series:
    return table["model"].where(table["feature_set"] == "none", table["model"] + " " + table["feature_set"])


_HEADINGS = {
    "precision": ("precision", 3), "recall": ("recall", 3), "f1": ("F1", 3), "regret_seconds": ("regret s", 1),
    "regret_share": ("regret share", 3), "published_precision": ("P published", 3),
    "bought_regret_share": ("share with sample", 3),
}  # fmt: skip


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    columns = {heading: rows[name].round(places) for name, (heading, places) in _HEADINGS.items() if name in rows}
    return pd.DataFrame({"ranked by": _ranked_by(rows), "k": rows["k"]} | columns)


def _verdict(rows: pd.DataFrame) -> str:
    """Say how many of the model's first packages are hits and what the best of them costs, and who does as well."""
    if not len(rows):
        return "too few packages are simulated to judge any list"
    length = 50 if (rows["k"] == 50).any() else int(rows["k"].min())
    at_k = rows[rows["k"] == length].assign(who=_ranked_by).set_index("who")
    first, naive = at_k.iloc[0], at_k[at_k["feature_set"] == "none"]
    others = ", ".join(f"{who} {row.precision:.0%}" for who, row in naive.iterrows())
    text = f"{first['precision']:.0%} of the first {length} packages by {at_k.index[0]} are among the best ({others}); "
    text += f"on the best of them jobs wait {duration(first['regret_seconds'])} longer than on the best of all"
    as_good = naive.index[(naive["precision"] >= first["precision"]) & (first["feature_set"] != "none")]
    return text + (f"; {' and '.join(as_good)} {be(len(as_good))} as good at this length" if len(as_good) else "")


@dataclass(frozen=True)
class Training(Shown):
    """How far off a study's model is, out of fold.

    ``table`` has a row per workload: ``workload policy model feature_set n_simulated n_packages folds rmse_seconds
    constant_rmse_seconds relative_rmse fold_rmse_seconds trees``; RMSE is in seconds, and relative to that of always
    answering the mean. ``correlations`` by workload are from `procure.models.surrogate.correlations`; ``notes`` name
    workloads without a model, and where models are kept.
    """

    study: str
    table: pd.DataFrame
    correlations: dict[str, pd.DataFrame]
    notes: list[str]

    def records(self) -> list[dict[str, object]]:
        """Return the rows with their correlations, as ``procure train --format json`` prints them."""
        rows = self.table.to_dict(orient="records")
        return [row | {"correlations": self.correlations[row["workload"]].to_dict()} for row in rows]  # type: ignore

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{self.study}: out-of-fold error"


def train(
    study: str | Path | Study | StudyResults,
    *,
    feature_set: str | None = None,
    policy: str | None = None,
    note: Note = silent,
) -> Training:
    """Cross-validate the study's model on the packages that were simulated, and keep it with the results.

    ``study`` is the path of a study that was swept, the study, or its results; ``feature_set`` one of
    `procure.models.FEATURE_SETS`, default its own; ``policy`` one of its policies, default the first; ``note``
    is called with a line on each step. That it has no results, or an argument is wrong, is a `TableError`.

    Examples
    --------
    >>> import procure
    >>> print(procure.train("study.toml").summary().splitlines()[0])
    small: out-of-fold error
    """
    if feature_set is not None and feature_set not in FEATURE_SETS:
        raise ArgumentError("feature_set", f"{feature_set!r} is unknown; {nearest(feature_set, FEATURE_SETS)}")
    results = load_results(study, policy)
    settings, rows, notes = results.plan.study.model, [], []
    for case in results.cases:
        note(f"{case.name}: learning from {counted(int(case.simulated.sum()), 'simulated package')}")
        found = results.learn_if_possible(case, feature_set)
        if found is None:
            notes.append(few_simulated(case, settings.folds))
            continue
        learnt = ~np.isnan(found.wait)
        rows.append({
            "workload": case.name, "policy": results.policy, "model": found.model.kind,
            "feature_set": feature_set or settings.feature_set,
            "n_simulated": int((case.simulated & learnt).sum()), "n_packages": int(learnt.sum()),
            "folds": len(found.folds), "rmse_seconds": found.rmse_seconds,
            "constant_rmse_seconds": found.constant_rmse_seconds, "relative_rmse": found.relative_rmse,
            "fold_rmse_seconds": found.folds["rmse_seconds"].round(3).tolist(), "trees": found.model.profile_,
        })  # fmt: skip
    if rows and results.kept and os.access(results.kept, os.W_OK):
        notes.append(f"models are kept in {results.kept}")
    tables = {case.name: correlations(case.packages, case.wait) for case in results.cases}
    return Training(results.plan.study.name, pd.DataFrame(rows), tables, notes)
