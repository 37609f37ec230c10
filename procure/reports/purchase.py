"""Gather what the purchase report says, and write it: a memo of two pages, the bill, the list, and the evidence."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.evaluation.ranking import evaluate_case
from procure.explanation import package as explaining
from procure.explanation.package import PackageExplanation, explain_package
from procure.models import Predicted
from procure.models.surrogate import Surrogate
from procure.page.charts import library, picture
from procure.page.html import check_pdf, render, write_page, write_pdf
from procure.policies import catalog
from procure.progress import silent
from procure.recommender.confidence import load_notes
from procure.recommender.objections import Objection, objections
from procure.recommender.rank import Note
from procure.recommender.recommendation import budget_by_category, records, servers_by_type
from procure.recommender.recommender import Recommendation, recommend
from procure.recommender.rule_costs import BestOfBudget
from procure.recommender.values import Criteria
from procure.reports import pictures, sections
from procure.reports.bill import beside, check_bill_name, ended, order_usd, totals, with_second, write_bill
from procure.reports.memo import Compared, Memo, compared, other_budgets, write_memo
from procure.study import Study
from procure.sweep.results import StudyResults, load_results
from procure.text import counted

_SHOWN_FIRST = 20
_MOST_DRAWN = 4000
_OF_LINE = {"processor": "processor", "vendor": "vendor", "quote_number": "quote", "valid_until": "valid until"}
_OF_FIRST = ("package_id", "counts", "price_usd", "mean_wait_time", "simulated", "jobs_left_out")


@dataclass(frozen=True)
class Report:
    """A purchase report and what it was made from.

    ``path`` is where it was written, ``html`` the page, which refers to nothing outside itself. ``memo`` and
    ``objections`` are what its first two pages say, ``evaluation`` how good the model is (rows of
    `procure.evaluation.ranking.evaluate_case`, without the published rule). ``explanations`` of the first package and
    the next, and ``compared``, the waits on the first and on what it is compared with, are empty and None where no job
    runs on the first.
    """

    path: Path
    html: str
    recommendation: Recommendation
    memo: Memo
    objections: list[Objection]
    evaluation: pd.DataFrame
    explanations: list[PackageExplanation]
    compared: Compared | None

    def brief(self) -> list[str]:
        """Say what speaks against the answer, what to buy, what it brings, how sure it is, and where the report is."""
        parts = {title: lines for title, _, lines in self.memo.parts}
        return [
            *(f"Objection: {one}" for one in self.objections),
            f"Buy {self.memo.package} for {self.memo.order}.",
            *(line for title in ("What it brings", "How sure this is") for line in parts[title]),
            f"Report: {self.path}",
        ]

    def to_dict(self) -> dict[str, object]:
        """Return it for programs, as ``procure buy --format json`` prints it."""
        done, packages = self.recommendation, records(self.recommendation)
        study, first = done.results.plan.study, packages[0]
        waits = [] if self.compared is None else self.compared.by_class(study.job_classes).to_dict(orient="records")
        costs = done.results.costs.iloc[int(done.ranking["row"].iloc[0])].to_dict()
        costs |= {} if study.costs.usd_per_kwh is not None else {"energy_usd": None}  # no price is not 0
        cost = {"price_usd": first["price_usd"], "order_usd": order_usd(done), "years": study.costs.years}
        return {
            "recommendation": {name: first[name] for name in _OF_FIRST},
            "packages": packages,
            "waits_by_class": waits,
            "cost": cost | costs,
            "confidence": None if done.confidence is None else done.confidence.table.to_dict(orient="records"),
            "report": str(self.path),
            "objections": [one._asdict() for one in self.objections],
        }

    def summary(self) -> str:
        """Return the memo's beginning, the list, and why its first package is first as text."""
        why = [line for one in self.explanations[:1] for line in explaining.sentences(one)]
        if len(self.explanations) == 2:
            why += explaining.comparison_sentences(*self.explanations)
        return "\n".join([*self.brief(), self.recommendation.summary(), *why])

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
    """Recommend packages and write a report for the committee: a memo, and the evidence behind it, in one HTML file.

    Parameters
    ----------
    study
        The path of a swept study, the study, or its results.
    out
        The file; None = ``report.html`` in the folder of the study's results.
    k, verify, workload, policy
        See `procure.recommend`.
    bill, pdf
        Files for the bill of quantities, .xlsx or a table, and for the report on A4 pages with page numbers.
    note
        Called with a line on each step that takes long.

    Raises
    ------
    TableError
        An argument is wrong (`ArgumentError`), there are no results yet, too few to learn from, the file cannot be
        written, or WeasyPrint is missing for a PDF.

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
    whole = done.case
    predicted = done.predicted or results.learn_if_useful(whole)
    settings, learnt = results.plan.study.evaluate, (str(results.plan.study.model.feature_set), Surrogate.kind)
    models = {learnt: (predicted.wait, predicted.wait)} if predicted else {}
    evaluation = evaluate_case(whole, models, None, settings.k, settings.hit_share)
    evaluation = evaluation.loc[:, ~evaluation.columns.str.startswith("published_")]
    note("explaining the first packages")
    explanations = _explanations(done, predicted)
    waits = compared(done) if explanations else None
    budgets = other_budgets(done)
    memo, against = write_memo(done, waits, budgets), objections(done)
    name = study if isinstance(study, str | Path) else results.plan.study.path
    options = {"policy": policy, "workload": workload}
    asked = "".join(f" --{key} {shlex.quote(value)}" for key, value in options.items() if value)
    judged = np.flatnonzero(whole.runs_all & whole.simulated)
    known = predicted.wait[judged] if predicted and sections.differ(whole.wait[judged]) else None  # else all alike
    html = _page(
        done,
        waits,
        budgets,
        memo=memo,
        objections=against,
        evidence=sections.sections_of(done, explanations),
        changes=load_notes(done.other_loads),
        marginal=explaining.marginal_sentences(explanations[0]) if explanations else [],
        predicted=predicted,
        evaluation=[] if known is None else evaluation.to_dict(orient="records"),
        no_model="" if predicted else results.why_no_model(whole),
        study_path=shlex.quote(str(name)),
        asked=asked + ("" if done.verified else " --no-verify"),
        scatter="" if known is None else sections.predicted_against_simulated(known, whole.wait[judged]),
        n_judged=len(judged),
    )
    if bill is not None:
        write_bill(done, bill)
    if pdf is not None:
        write_pdf(pdf, html)
    path = write_page(results.plan.study.folder / "report.html" if out is None else out, html)
    return Report(path, html, done, memo, against, evaluation, explanations, waits)


def _explanations(done: Recommendation, predicted: Predicted | None) -> list[PackageExplanation]:
    """Explain the first package and the next; nothing where no job runs on the first."""
    results, ranking = done.results, done.ranking
    if not len(ranking) or int(ranking["jobs_left_out"].iloc[0]) >= done.case.n_jobs:
        return []
    replayed, tried = [explaining.longest_waiting(results.cases)], catalog.is_batched(results.policy)
    return [
        explain_package(results, results.counts[row], done.case, predicted, replayed, tried and i == 0)
        for i, row in enumerate(ranking["row"].to_numpy()[:2])
    ]


def _page(
    done: Recommendation,
    waits: Compared | None,
    budgets: Sequence[BestOfBudget],
    evidence: Mapping[str, tuple[str, Markup]],
    **parts: object,
) -> str:
    case, plan, study = done.case, done.results.plan, done.results.plan.study
    top, lines = done.ranking.head(done.k), with_second(done)
    bought = case.packages.iloc[top["row"].to_numpy()]
    zones = {one.name: one.tz for one in study.scenarios}
    names = [one.name for one in done.results.cases]
    held = [(name, title) for name, (title, html) in evidence.items() if html]
    folder, own, data = Path(__file__).parent, study.job_classes, page_data(done)
    drawn = _pictures(done, waits, data, budgets)
    page = render(
        folder / "purchase.html",
        script=library() + (folder / "purchase.js").read_text(encoding="utf-8"),
        title=title_of(study),
        today=f"{date.today()}",
        judged_on=counted(case.n_jobs, "job"),
        period=sections.period(plan, names, zones),
        names=waits.names if waits else {},
        waits=waits.by_class(own).to_dict(orient="records") if waits else [],
        wide_waits=waits.by_class(own, wide=True).to_dict(orient="records") if waits else [],
        bill=lines.to_dict(orient="records"),
        beside=beside(done).to_dict(orient="records"),
        totals=totals(done),
        ended=ended(lines, date.today()),
        told={title: name for name, title in _OF_LINE.items() if (lines[name] != "").any()},
        top=records(done),
        ranked_by=_ranked_by(done),
        shown_first=_SHOWN_FIRST,
        all_simulated=bool(top["simulated"].all()),
        n_able=int(case.runs_all.sum()),
        types=servers_by_type(bought, plan.quotes).to_dict(orient="records"),
        budget_chart=sections.budget(budget_by_category(bought, plan.quotes)),
        notes=done.about,
        case=case,
        jobs=[sections.workload(name, plan.workloads[name], zones[name]) for name in names],
        sections=[html for _, html in evidence.values() if html],
        # Scripts look for these ids in every report.
        absent=[(name, evidence[name][0]) for name in ("why", "front") if not evidence[name][1]],
        evidence=[
            *([("weeks", "The weeks")] if drawn["weeks"] else []),
            *([("dollars", "What each further sum brings")] if drawn["dollars"] else []),
            ("waits", "Who waits"),
            ("change", "More about other loads"),
            *held,
            *_LAST,
        ],
        study_text=study.path.read_text(encoding="utf-8") if study.path.is_file() else "",
        files=sections.files(plan),
        inputs=sections.digests(plan) | sections.programs(),
        data=data,
        **drawn,
        **parts,
    )
    return str(page)


def _pictures(
    done: Recommendation, waits: Compared | None, data: dict[str, object], budgets: Sequence[BestOfBudget]
) -> dict[str, object]:
    own, sums = done.results.plan.study.job_classes, pictures.next_dollars(done, budgets)
    cloud = picture("cloud", "Price and mean wait of the packages", pictures.cloud(data), ["packages"])
    drawn: dict[str, object] = {"spread": "", "weeks": [], "dollars": "", "sums": [], "cloud": cloud}
    if waits is not None:
        drawn["spread"] = picture("spread", "How waits spread, by kind of job", pictures.waits_by_class(waits, own))
        used, queued = pictures.weeks(done)
        drawn["weeks"] = [picture("used", "CPUs in use over time", used), picture("queue", "Waiting jobs", queued)]
    if sums is not None:
        drawn["dollars"] = picture("dollars", "The least mean wait by what is spent", sums[1])
        drawn["sums"] = sums[0].to_dict(orient="records")
    return drawn


_LAST = [
    ("common", "What the recommended packages have in common"), ("wrong", "How it might be wrong"),
    ("predictions", "How good the predictions are"), ("jobs", "The jobs"), ("repeat", "How to repeat it"),
]  # fmt: skip


def title_of(study: Study) -> str:
    """Return the title of a study's report; of made-up jobs it says so."""
    return study.name + (", on made-up jobs" if study.made_up else "")


def page_data(done: Recommendation, predicted: bool = False) -> dict[str, object]:
    """Return what the page's script shows, and others may read: the list, and the simulated packages.

    ``list``: its records. ``axes``: ``key label unit`` of the figures by which packages are drawn, and whether ``more``
    is better. ``packages``: the id and the figures of each package of the list, and of at most `_MOST_DRAWN` others
    that run every job and are simulated, evenly by rank. ``apart``: those that leave more jobs out than the first, so
    that they are not drawn. ``guessed``: with ``predicted``, those whose wait is a prediction.
    """
    ranking, costs = done.ranking, done.results.costs
    axes = [("price_usd", "price", "US$"), ("mean_wait_time", "mean wait", "s"), ("total_cpus", "CPUs", ""),
            ("total_mem_gb", "memory", "GB"), ("total_gpus", "GPUs", "")]  # fmt: skip
    further = (("tco_usd", "cost over the years", "US$"), ("energy_kwh_per_year", "energy a year", "kWh"))
    known, differs = costs.notna().all(), costs.ne(costs["purchase_usd"], axis=0).any()
    axes += [one for one in further if known[one[0]] and differs[one[0]]]
    shown = ranking["simulated"] | (predicted & ranking.get("satisfies", True) & ranking["mean_wait_time"].notna())
    drawn = np.flatnonzero((shown & (ranking["jobs_left_out"] == 0)).to_numpy())
    drawn = drawn[np.linspace(0, len(drawn) - 1, min(len(drawn), _MOST_DRAWN)).astype(int)]
    drawn = np.unique(np.concatenate([np.arange(done.k), drawn]))
    rows = ranking["row"].to_numpy()[drawn]
    # Rounded coarser than to milliseconds, the first choice would tie with cheaper ones.
    wait = ranking["mean_wait_time"].to_numpy()[drawn].round(3)
    table = done.case.packages.iloc[rows].assign(
        mean_wait_time=wait, **{name: costs[name].to_numpy()[rows] for name, _, _ in axes if name in costs}
    )
    columns = [table["package_id"].tolist(), *(table[name].tolist() for name, _, _ in axes)]
    apart = ranking["jobs_left_out"].to_numpy()[drawn] > ranking["jobs_left_out"].iloc[0]
    guessed = ~ranking["simulated"].to_numpy()[drawn] & predicted
    return {
        "list": records(done),
        "axes": [dict(zip(("key", "label", "unit", "more"), (*one, "total" in one[0]), strict=True)) for one in axes],
        "packages": [list(one) for one in zip(*columns, strict=True)],
        "apart": table["package_id"][apart].tolist(),
        "guessed": table["package_id"][guessed].tolist(),
    }


def _ranked_by(done: Recommendation) -> str:
    if done.criteria == Criteria():
        return "the mean time that these jobs would have waited"
    of, bounds = done.criteria.objective, ", ".join(one.text for one in done.criteria.constraints)
    return f"{of.name.replace('-', ' ')} ({of.meaning})" + (f", of those that satisfy {bounds}" if bounds else "")
