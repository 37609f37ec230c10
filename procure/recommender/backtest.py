"""Judge a study's model against what was simulated: hits, regret, and the coverage of its prediction intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError, argument
from procure.evaluation.many_days import KS, robust_choices, threshold_sweep, threshold_table
from procure.evaluation.ranking import evaluate_case
from procure.models import FEATURE_SETS, Case
from procure.progress import silent
from procure.recommender.coverage import coverage_notes
from procure.recommender.day_models import ManyDays, judge_days
from procure.recommender.learning import Note
from procure.recommender.notes import about_results
from procure.schemas import RESULT
from procure.study import Study, load_study
from procure.study.rules import check_threshold
from procure.sweep import read_results
from procure.sweep.results import RULES, RUNS_ALL, StudyResults, check_in_study, few_simulated, load_results
from procure.tables import read
from procure.text import as_html, as_html_list, as_text, be, counted, duration, listed, nearest


@dataclass(frozen=True)
class Evaluation:
    """How good a study's model is at finding the best packages.

    Attributes
    ----------
    study
        The study's name.
    workloads
        Its workloads.
    hit_share
        Which part of the packages are hits on a workload.
    hits
        Each workload by itself: the rows of `procure.evaluation.ranking.evaluate_case`. All together, where there is
        a threshold: those of `procure.evaluation.many_days.threshold_table`.
    sweep, choices
        With a threshold: precision at every threshold, and the packages that robust choices would buy, see
        `procure.evaluation.many_days`; else None.
    notes
        What the figures are about and how far they can be trusted, in sentences.
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
        if self.sweep is None or self.choices is None:
            best = f"hits are the best {self.hit_share:.0%}"
            return {
                f"{self.study}, {workload}: {best}": _shown(rows[_judged(rows)])
                for workload, rows in self.hits.groupby("workload", sort=False)
            }
        tables = {}
        for threshold, rows in self.hits[self.hits["n_hits"] > 0].groupby("threshold"):
            n_hits, n_ranked = (int(rows[name].iloc[0]) for name in ("n_hits", "n_ranked"))
            title = (
                f"{self.study}: {n_hits:,} of {n_ranked:,} packages are among the best {self.hit_share:.0%} on more "
                f"than {threshold} of {len(self.workloads)} days"
            )
            tables[title] = _shown(rows)
        if len(self.sweep):
            rows = self.sweep[self.sweep["n_hits"] > 0].assign(who=_ranked_by)
            wide = rows.pivot_table("precision", ["threshold", "n_hits"], "who", sort=False).round(3)
            shown = wide.reset_index().rename(columns={"threshold": ">", "n_hits": "hits"})
            tables[f"precision@{self.sweep['k'].iloc[0]} as the threshold rises"] = shown
        if len(self.choices):
            tables["the simulated package that each way to combine the days would buy"] = _rounded(self.choices)
        return tables

    def verdict(self) -> list[str]:
        """Say what decides, a sentence per workload: what the first k of the model hold, beside the naive choices."""
        if self.sweep is not None:
            return []
        groups = self.hits.groupby("workload", sort=False)
        return [f"{workload}: {_verdict(rows[_judged(rows)])}" for workload, rows in groups]

    def summary(self) -> str:
        """Return what decides, the tables and the notes as text."""
        tables = [as_text(title, table, ()) for title, table in self.shown().items()]
        return "\n\n".join([*self.verdict(), *tables, "\n".join(f"- {line}" for line in self.notes)])

    def _repr_html_(self) -> str:
        tables = "".join(as_html(title, table, ()) for title, table in self.shown().items())
        return tables + as_html_list(self.notes)

    def to_dict(self) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the figures as plain values, as ``procure evaluate --format json`` prints them."""
        hits = self.hits.to_dict(orient="records")
        if self.sweep is None or self.choices is None:
            return hits
        return {"n_days": len(self.workloads), "hit_share": self.hit_share, "hits": hits} | {
            "sweep": self.sweep.to_dict(orient="records"),
            "choices": self.choices.to_dict(orient="records"),
        }


def evaluate(
    study: str | Path | Study | StudyResults,
    *,
    truth: str | Path | Study | pd.DataFrame | None = None,
    feature_set: str | Sequence[str] | None = None,
    policy: str | None = None,
    rule: str = RUNS_ALL,
    hit_threshold: int | Iterable[int] | None = None,
    train_on: Sequence[str] | None = None,
    apart: bool = False,
    note: Note = silent,
) -> Evaluation:
    """Judge a study's model against what was simulated, beside a random order and the cheapest per CPU.

    Simulated packages are predicted by the folds that did not see them (Hutchison 2024, sections 3.5 and 3.8).

    Parameters
    ----------
    study
        The path of a swept study, the study, or its results.
    truth
        A study or result table that simulated more packages: hits and regret are taken from it.
    feature_set
        Of `procure.models.FEATURE_SETS`; None = both, with a threshold the study's own.
    policy, rule
        One of the study's, None = its first; one of `procure.sweep.results.RULES`.
    hit_threshold
        Judge all workloads together: a hit is among the best ``hit_share`` packages on more than this many of them.
        None = the study's ``evaluate.hit_threshold``; if that is None, too, each workload by itself.
    train_on
        With a threshold: workloads of which a model of their own is judged, as from one representative day; None = the
        first.
    apart
        Judge each workload by itself, whatever the study's threshold.

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
    _known(feature_set=(names, FEATURE_SETS), rule=([rule], RULES))
    results = load_results(study, policy)
    settings = results.plan.study
    waits = None if truth is None else _true_waits(truth, results)
    threshold = settings.evaluate.hit_threshold if hit_threshold is None else hit_threshold
    thresholds = [threshold] if isinstance(threshold, int) else sorted(set(threshold or []))
    note(f"judging the model on {counted(len(results.cases), 'workload')}")
    if thresholds and not apart:
        return _together(results, names or [settings.model.feature_set], rule, waits, thresholds, train_on)
    if train_on:
        raise ArgumentError("train_on", "it needs a hit threshold")
    return _apart(results, names, rule, waits)


def _known(**asked: tuple[Sequence[str], Sequence[str]]) -> None:
    """Refuse names that are not among the known ones."""
    for what, (given, known) in asked.items():
        for name in given:
            if name not in known:
                raise ArgumentError(what, f"{name!r} is unknown; {nearest(name, known)}")


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
            raise TableError(
                f"{source}: holds no run of workload {case.name} under {results.policy}; its workloads: "
                f"{listed([str(name) for name in by_workload]) or 'none'}"
            )
        mine = by_workload[case.name].drop_duplicates("package_id").set_index("package_id")
        waits.append(mine["mean_wait_time"].reindex(case.packages["package_id"]).to_numpy(dtype="float64"))
    return waits


def _apart(results: StudyResults, feature_sets: list[str], rule: str, truth: list[np.ndarray] | None) -> Evaluation:
    study, tables, notes = results.plan.study, [], []
    for i, case in enumerate(results.cases):
        predictions = results.rankings(case, feature_sets)
        if not predictions:
            notes.append(few_simulated(case, study.model.folds))
        waits = None if truth is None else truth[i]
        notes += coverage_notes(case, results.learn_if_possible(case), waits)
        tables.append(evaluate_case(case, predictions, waits, study.evaluate.k, study.evaluate.hit_share, rule))
    notes += about_results(results)
    for case, table in zip(results.cases, tables, strict=True):
        notes += _about_hits(case, table)
    hits = pd.concat(tables, ignore_index=True)
    names = [case.name for case in results.cases]
    return Evaluation(study.name, names, study.evaluate.hit_share, hits, None, None, notes)


def _about_hits(case: Case, rows: pd.DataFrame) -> list[str]:
    first = rows.iloc[0]
    who = first["model"] if first["feature_set"] == "none" else first["feature_set"]
    notes = [
        f"{case.name}: {first['n_ranked']:,} ranked packages, {first['n_hits']:,} hits by the share, "
        f"{first['n_hits_real']:,} with ties; rank correlation {first['spearman']:.4f} "
        f"({who}); {(~case.runs_all).mean():.0%} of all packages leave jobs out"
    ]
    if not case.runs_all.any():
        notes.append(f"{case.name}: no package runs every job; --rule published ranks them all the same")
    beyond = rows.loc[rows["k"] > rows["k_used"], "k"].unique()
    if len(beyond):
        notes.append(
            f"{case.name}: k = {', '.join(map(str, beyond))} exceeds the list; divided by its length, "
            f"{first['n_ranked']:,}"
        )
    if not first["n_hits"]:
        notes.append(f"{case.name}: too few ranked packages for a single hit; precision and recall mean nothing")
    return notes


def _together(
    results: StudyResults,
    feature_sets: list[str],
    rule: str,
    truth: list[np.ndarray] | None,
    thresholds: list[int],
    train_on: Sequence[str] | None,
) -> Evaluation:
    study, names = results.plan.study, [case.name for case in results.cases]
    for threshold in thresholds:
        with argument("hit_threshold"):
            check_threshold(threshold, names)
    for name in train_on or []:
        check_in_study("train_on", name, names)
    waits = None if truth is None else np.array(truth)
    judged = judge_days(results, feature_sets, rule, waits, train_on or names[:1])
    packages, asked = results.cases[0].packages, study.evaluate
    ks = asked.k if "k" in asked.model_fields_set else KS
    return Evaluation(
        study.name,
        names,
        asked.hit_share,
        threshold_table(judged.scores, judged.n_hit_days, packages, thresholds, ks),
        threshold_sweep(judged.scores, judged.n_hit_days, packages, len(names), study.recommend.k),
        robust_choices(judged.days, packages, judged.n_hit_days),
        [*map(str, about_results(results)), *_about_days(results, judged, thresholds)],
    )


def _about_days(results: StudyResults, judged: ManyDays, thresholds: list[int]) -> list[str]:
    n_days, folds, notes = len(results.cases), results.plan.study.model.folds, []
    if not judged.scores:
        notes.append(
            f"{int((judged.n_hit_days >= 0).sum()):,} packages are simulated on all {n_days} days; a model with "
            f"{folds:,}-fold cross-validation needs {2 * folds:,}, so there is none"
        )
    nowhere = [case.name for case in results.cases if not case.runs_all.any()]
    if nowhere:
        notes.append(f"no package runs every job of {listed(nowhere)}: no hit there")
    most = int(judged.n_hit_days.max(initial=0))
    beyond = [threshold for threshold in thresholds if threshold >= most]
    if beyond:
        notes.append(
            f"no package is a hit on more than {most} of the {n_days} days, so there are no hits at > "
            f"{', > '.join(map(str, beyond))}, and precision says nothing there"
        )
    return notes


def _ranked_by(table: pd.DataFrame) -> pd.Series:
    return table["model"].where(table["feature_set"] == "none", table["model"] + " " + table["feature_set"])


_HEADINGS: dict[str, tuple[str, int]] = {
    "precision": ("precision", 3),
    "recall": ("recall", 3),
    "f1": ("F1", 3),
    "regret_seconds": ("regret s", 1),
    "regret_share": ("regret share", 3),
    "published_precision": ("P published", 3),
    "bought_regret_share": ("share with sample", 3),
}


def _judged(rows: pd.DataFrame) -> pd.Series:
    """Mark the lists that are no longer than the packages that are judged."""
    return rows["k"] <= rows["n_ranked"]


def _verdict(rows: pd.DataFrame) -> str:
    """Say how many of the model's first packages are hits and what the best of them costs, and who does as well."""
    if not len(rows):
        return "too few packages are simulated to judge any list"
    length = 50 if (rows["k"] == 50).any() else int(rows["k"].min())
    at_k = rows[rows["k"] == length].assign(who=_ranked_by).set_index("who")
    first, naive = at_k.iloc[0], at_k[at_k["feature_set"] == "none"]
    others = ", ".join(f"{who} {row.precision:.0%}" for who, row in naive.iterrows())
    text = (
        f"{first['precision']:.0%} of the first {length} packages by {at_k.index[0]} are among the best ({others}); "
        f"on the best of them jobs wait {duration(first['regret_seconds'])} longer than on the best of all"
    )
    as_good = naive.index[(naive["precision"] >= first["precision"]) & (first["feature_set"] != "none")]
    return text + (f"; {' and '.join(as_good)} {be(len(as_good))} as good at this length" if len(as_good) else "")


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    columns = {heading: rows[name].round(places) for name, (heading, places) in _HEADINGS.items() if name in rows}
    return pd.DataFrame({"ranked by": _ranked_by(rows), "k": rows["k"]} | columns)


def _rounded(choices: pd.DataFrame) -> pd.DataFrame:
    seconds = ["mean", "worst", "cvar"]
    whole = {name: choices[name].round().astype("int64") for name in [*seconds, "price_usd"]}
    shown = choices.assign(**whole, regret_max=choices["regret_max"].round(2))
    return shown.rename(columns={name: f"{name} s" for name in seconds})
