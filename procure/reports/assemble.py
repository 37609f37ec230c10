"""Gather what the purchase report says: what to buy, how sure that is, why, what it costs, how good the model is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.errors import TableError
from procure.evaluation.ranking import cheapest_per_cpu, evaluate_case
from procure.explanation.package import PackageExplanation, explain_package, longest_waiting
from procure.explanation.wording import (
    comparison_sentences,
    marginal_sentences,
    sentences,
)
from procure.models import Predicted
from procure.packages.costs import Costs
from procure.page.html import sentence, write_page
from procure.page.names import servers
from procure.page.pdf import check_pdf, write_pdf
from procure.policies import catalog
from procure.progress import silent
from procure.recommender.award import award_of
from procure.recommender.evaluate import coverage_notes, judge_days
from procure.recommender.learning import Note
from procure.recommender.objections import Objection, objections
from procure.recommender.rank import eligible
from procure.recommender.recommender import Recommendation, recommend, with_front
from procure.recommender.summary import records
from procure.reports import award, confidence, days, explain, pareto
from procure.reports.answer import Compared, about_choice, answer, compared
from procure.reports.bill import check_bill_name, order_usd, write_bill
from procure.reports.purchase import Section, render
from procure.study import Study
from procure.sweep.results import StudyResults, load_results

_OF_FIRST = ("package_id", "counts", "price_usd", "mean_wait_time", "simulated", "jobs_left_out")


@dataclass(frozen=True)
class Report:
    """A purchase report and what it was made from.

    Attributes
    ----------
    path
        Where it was written.
    html
        The page; it refers to nothing outside itself.
    recommendation
        What it recommends.
    evaluation
        How good the model is: the rows of `procure.evaluation.ranking.evaluate_case`.
    explanations
        The first package and the next; empty where no job runs on the first.
    """

    path: Path
    html: str
    recommendation: Recommendation
    evaluation: pd.DataFrame
    explanations: list[PackageExplanation]
    compared: Compared | None = None
    objections: tuple[Objection, ...] = ()

    def brief(self) -> list[str]:
        """Say in a few lines what to buy, what it brings, and where the report is."""
        done = self.recommendation
        first = done.ranking.iloc[0]
        lines = [f"Buy {servers(str(first['package_id']))} for US$ {order_usd(done):,.2f}."]
        if self.compared is not None:
            lines += [sentence(one) for one in (*answer(done, self.compared).brings[:1], about_choice(done))]
        return [*lines, f"Report: {self.path}"]

    def to_dict(self) -> dict[str, object]:
        """Return it for programs, as ``procure buy --format json`` prints it."""
        done, packages = self.recommendation, records(self.recommendation)
        first, years = packages[0], done.results.plan.study.costs.years
        costs = done.results.costs.iloc[int(done.ranking["row"].iloc[0])]
        own = done.results.plan.study.job_classes
        return {
            "recommendation": {name: first[name] for name in _OF_FIRST},
            "packages": packages,
            "waits_by_class": [] if self.compared is None else self.compared.by_class(own).to_dict(orient="records"),
            "cost": {"price_usd": first["price_usd"], "order_usd": order_usd(done), "years": years} | costs.to_dict(),
            "confidence": None if done.confidence is None else done.confidence.table.to_dict(orient="records"),
            "report": str(self.path),
            "objections": [one._asdict() for one in self.objections],
        }

    def summary(self) -> str:
        """Return the recommendation and why its first package is first as text."""
        why = [line for one in self.explanations[:1] for line in sentences(one)]
        if len(self.explanations) == 2:
            why += comparison_sentences(*self.explanations)
        return "\n".join([self.recommendation.summary(), *why, f"report: {self.path}"])

    def _repr_html_(self) -> str:
        return self.html


def report(
    study: str | Path | Study | StudyResults,
    out: str | Path | None = None,
    *,
    k: int | None = None,
    verify: bool = True,
    workload: str | None = None,
    policy: str | None = None,
    bill: str | Path | None = None,
    pdf: str | Path | None = None,
    note: Note = silent,
) -> Report:
    """Recommend packages and write a report for the committee: one HTML file with the evidence.

    Parameters
    ----------
    study
        The path of a swept study, the study, or its results.
    out
        The file; None = ``report.html`` in the folder of the study's results.
    k, verify, workload, policy
        See `procure.recommend`.
    bill
        A file for the bill of quantities, .xlsx or a table, see `procure.reports.bill.write_bill`; None = none.
    pdf
        A file for the report on A4 pages, whose contents have page numbers; None = none.
    note
        Called with a line on each step that takes long.

    Raises
    ------
    ArgumentError
        The study has no such workload or policy, or k is below 1.
    TableError
        There are no results yet, too few to learn from, the file cannot be written, or WeasyPrint is missing for a PDF.

    Examples
    --------
    >>> import procure
    >>> procure.report("study.toml", "report.html", k=3).path.name
    'report.html'
    """
    if bill is not None:
        check_bill_name(bill)
    if pdf is not None:
        check_pdf()
    results = load_results(study, policy, workload, search=True)
    note("ranking the packages")
    done = recommend(results, k=k, verify=verify, note=note)
    name = study if isinstance(study, str | Path) else results.plan.study.path
    options = {"policy": policy, "workload": workload}
    asked = {f"{key}_option": f" --{key} {shlex.quote(value)}" if value else "" for key, value in options.items()}
    html, evaluation, explanations, against = _page(done, note, study_path=shlex.quote(str(name)), **asked)
    if bill is not None:
        write_bill(done, bill)
    if pdf is not None:
        write_pdf(pdf, html)
    path = write_page(results.plan.study.folder / "report.html" if out is None else out, html)
    return Report(path, html, done, evaluation, explanations, against, tuple(objections(done)))


def _page(
    done: Recommendation, note: Note, **asked: str
) -> tuple[str, pd.DataFrame, list[PackageExplanation], Compared | None]:
    """Gather the evidence, and fill the page with it."""
    results, whole = done.results, done.case
    predicted = done.predicted or results.learn_if_useful(whole)
    note("judging the model")
    rankings = results.rankings(whole)
    settings = results.plan.study.evaluate
    evaluation = evaluate_case(whole, rankings, None, settings.k, settings.hit_share)
    note("explaining the first packages")
    explanations = _explanations(done, predicted)
    against = compared(done) if explanations else None
    html = render(
        done,
        predicted,
        {f"{kind} {name}": inner for (name, kind), (inner, _) in rankings.items()}
        | {"cheapest per CPU": cheapest_per_cpu(whole.packages)},
        evaluation,
        answer=answer(done, against) if against else None,
        compared=against,
        changes=done.other_loads.sentences() if done.other_loads else [],
        marginal=marginal_sentences(explanations[0]) if explanations else [],
        costs=_costs(done),
        sections=[
            Section("sure", "How sure the list is", _sureness(done)),
            Section("why", "Why the first package", explain.section(explanations)),
            Section("days", "The days", _days(results)),
            Section("front", "What the wait costs", _front(done)),
            Section("award", "The award matrix", _award(done)),
        ],
        no_model="" if predicted else results.why_no_model(whole),
        **asked,
    )
    return html, evaluation, explanations, against


def _explanations(done: Recommendation, predicted: Predicted | None) -> list[PackageExplanation]:
    """Explain the first package and the next; nothing where no job runs on the first."""
    results, ranking = done.results, done.ranking
    if not len(ranking) or int(ranking["jobs_left_out"].iloc[0]) >= done.case.n_jobs:
        return []
    replayed = [longest_waiting(results.cases)]
    return [
        explain_package(
            results,
            results.counts[row],
            done.case,
            predicted,
            replayed,
            catalog.is_batched(results.policy) and i == 0,
        )
        for i, row in enumerate(ranking["row"].to_numpy()[:2])
    ]


def _sure(done: Recommendation) -> list[str]:
    if done.confidence is None:
        return []
    return done.confidence.sentences(len(done.ranking)) + coverage_notes(done.case, done.predicted)


def _costs(done: Recommendation) -> list[str]:
    """Say what the first package costs to buy, and to run where the study prices that."""
    study, row = done.results.plan.study, int(done.ranking["row"].iloc[0])
    first = done.case.packages.iloc[row]
    price, cpus = float(first["price_usd"]), max(float(first["total_cpus"]), 1)
    lines = [f"US$ {price:,.0f} of US$ {study.packages.budget_usd:,.0f}, US$ {price / cpus:,.0f} per CPU"]
    fixed, whole = study.packages.fixed_cost_usd, order_usd(done)
    lines += _left(done, round(study.packages.budget_usd - max(price + fixed, whole), 2))
    if fixed:
        lines.append(
            f"lines that are no servers cost US$ {fixed:,.2f}, whatever is bought: US$ "
            f"{study.packages.budget_usd - fixed:,.2f} of the budget are left for servers"
        )
    if whole > study.packages.budget_usd:
        lines.append(
            f"the whole order comes to US$ {whole:,.2f}, US$ {whole - study.packages.budget_usd:,.2f} more than the "
            "budget: what turns on the order (racks, network, tax, percentages) is not taken off it"
        )
    if study.costs != Costs():
        used = done.results.costs.iloc[row]["usd_per_core_hour"]
        lines.append(f"over {study.costs.years:g} years US$ {used:,.3f} per core-hour used")
    return lines


def _left(done: Recommendation, left: float) -> list[str]:
    """Say what is left of the budget, and what of the quotes it would pay for at their list prices."""
    if left <= 0:
        return []
    results = done.results
    study, now = results.plan.study, results.costs.iloc[int(done.ranking["row"].iloc[0])]
    more = np.arange(10_001)
    quotes = results.plan.quotes.sort_values("price_usd", ascending=False, kind="stable")
    units = now["rack_units"] - now["n_switches"] * study.costs.switch_rack_units
    for one in quotes[quotes["price_usd"] > 0].to_dict(orient="records"):
        servers, height = now["purchase_usd"] + more * one["price_usd"], units + more * one.get("rack_units", 0.0)
        whole = study.costs.order.total(servers, now["fixed_usd"], now["n_nodes"] + more, height)
        if n := int((np.round(whole[1:] - whole[0], 2) <= left).sum()):
            return [
                f"US$ {left:,.2f} of the budget are left, which would pay for {n:,} × {one['name']} at list price with "
                "all that comes with them: a rule or a bound of the study keeps them out of this package"
            ]
    return [f"US$ {left:,.2f} of the budget are left, less than any server quoted costs with all that comes with it"]


def _sureness(done: Recommendation) -> Markup:
    sure = done.confidence
    if sure is None:
        return Markup()
    return confidence.section(sure.table, _sure(done), sure.unit, sure.n_draws, sure.of.name.replace("-", " "))


def _days(results: StudyResults) -> Markup:
    """Return the section on days; empty for a study of one workload."""
    if len(results.cases) < 2:
        return Markup()
    settings, first = results.plan.study, results.cases[0]
    asked = settings.evaluate.hit_threshold
    threshold = len(results.cases) // 4 if asked is None else asked
    judged = judge_days(results, [settings.model.feature_set], train_on=[first.name])
    return days.section(
        judged.days,
        judged.n_hit_days,
        judged.scores,
        first.packages,
        settings.evaluate.hit_share,
        threshold,
    )


def _award(done: Recommendation) -> Markup:
    """Return the section on the award matrix; empty for a study without one."""
    if done.results.plan.study.award is None:
        return Markup()
    try:
        return award.section(award_of(done))
    except TableError as error:  # the rest of the report stands without it
        return Markup("<p>{}.</p>").format(str(error))


def _front(done: Recommendation) -> Markup:
    """Return the section on wait against cost (and energy, where the quotes state watts)."""
    if "satisfies" in done.ranking and not done.ranking["satisfies"].any():
        return Markup()  # no package keeps what is asked for: there is no front of those that do
    wider = with_front(done)
    values, axes = wider.package_values, wider.criteria.axes
    points = np.column_stack([values.value(axis)[0] for axis in axes])
    # Where no package runs every job, those that were not simulated may be eligible, and nothing is known of them.
    rows = np.flatnonzero(eligible(values, wider.criteria) & ~np.isnan(points).any(axis=1))
    first = np.flatnonzero(rows == done.ranking["row"].iloc[0])
    if not len(first) or wider.front is None:
        return Markup()
    points = points[rows]
    name = str(done.ranking["package_id"].iloc[0])
    return pareto.section(wider.front, axes, points, values.simulated[rows], int(first[0]), name)
