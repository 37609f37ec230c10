"""Fill the purchase report's template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib.metadata import version
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure._version import __version__
from procure.files import installed_xgboost
from procure.models import Predicted, WorkloadWaits
from procure.models.crossfit import correlations
from procure.page.html import render as render_template
from procure.page.svg import differ
from procure.recommender.criteria import Criteria
from procure.recommender.recommender import Recommendation
from procure.recommender.summary import budget_by_category, counts_of, records, servers_by_type
from procure.reports import charts
from procure.reports.answer import Answer, Compared, bars_chart, first_types, title_of
from procure.reports.bill import beside, bill, ended, order_usd, totals, with_second
from procure.study import Plan
from procure.tables import as_csv
from procure.text import counted, duration
from procure.workload.clock import has_dates
from procure.workload.replay import counted_jobs
from procure.workload.speed_ratios import MOST, core_rates, speed_ratios

_EXAMPLES = 3
_SHOWN_FIRST = 20
_PROGRAMS = ("numpy", "pandas", "numba", "scikit-learn")
_MOST_DRAWN = 4000
_MOST_NODES = 200
_TOLD = {
    "processor": "processor", "vendor": "vendor", "quote_number": "quote", "valid_until": "valid until",
}  # fmt: skip
_FIRST = [("waits", "Who waits"), ("change", "What would change the answer")]
_LAST = [
    ("common", "What the recommended packages have in common"), ("existing", "What there is already"),
    ("wrong", "How it might be wrong"),
    ("predictions", "How good the predictions are"), ("drives", "What drives the wait"), ("jobs", "The jobs"),
    ("packages", "The packages"), ("limits", "What is not modelled"), ("repeat", "How to repeat it"),
]  # fmt: skip
_NAMES = {
    "total_mem_gb": "memory", "total_cpus": "CPUs", "total_gpus": "GPUs", "mean_wait_time": "mean wait",
}  # fmt: skip


def render(
    done: Recommendation,
    predicted: Predicted | None,
    rankings: dict[str, np.ndarray],
    evaluation: pd.DataFrame,
    answer: Answer | None = None,
    compared: Compared | None = None,
    sections: Sequence[Section] = (),
    **parts: object,
) -> str:
    """Return the report as HTML that refers to nothing outside itself.

    Parameters
    ----------
    done
        The list, and the study and results behind it.
    predicted
        The study's model, whether or not the list needed it; None where too little was simulated.
    rankings
        Predicted waits per package by name, for the comparison of precision.
    evaluation
        Rows of `procure.evaluation.ranking.evaluate_case` of the study's model.
    parts
        ``answer`` and ``compared``: what the first page says and what the first package is compared with, None where
        no job runs on it. ``changes``, ``marginal``, ``costs``: sentences. ``sections``: parts of the
        evidence, in order. ``study_path``, ``policy_option``, ``workload_option``:
        how the report was asked for, as shell text, for the commands that repeat it.
    """
    held = [one for one in sections if one.html]
    existing = done.results.plan.existing
    values = {
        "answer": answer,
        "title": answer.title if answer else title_of(done.results.plan.study),
        "package": answer.package if answer else first_types(bill(done), 20),
        "bars": bars_chart(answer.bars) if answer else "",
        "compared": compared,
        "waits": compared.by_class(done.results.plan.study.job_classes).to_dict(orient="records") if compared else [],
        "sections": [one.html for one in held],
        # Scripts look for these ids in every report.
        "absent": [(one.id, one.title) for one in sections if not one.html and one.id in ("why", "front")],
        "evidence": [*_FIRST, *((one.id, one.title) for one in held), *_last(existing)],
        "predicted": predicted,
        "evaluation": evaluation.to_dict(orient="records"),
        **_judged(done, predicted, rankings),
    }
    folder = Path(__file__).parent
    script = (folder / "purchase.js").read_text(encoding="utf-8")
    found = values | _of_order(done) | _of_study(done)
    return str(render_template(folder / "purchase.html", script=script, **found, **parts))


def _of_order(done: Recommendation) -> dict[str, object]:
    """Return what the page says of the list and of what is bought."""
    case, plan, study = done.case, done.results.plan, done.results.plan.study
    top, lines = done.ranking.head(done.k), with_second(done)
    bought = case.packages.iloc[top["row"].to_numpy()]
    return {
        "bill": lines.to_dict(orient="records"),
        "beside": beside(done).to_dict(orient="records"),
        "totals": totals(done),
        "ended": ended(lines, date.today()),
        "told": {title: name for name, title in _TOLD.items() if (lines[name] != "").any()},
        "all_simulated": bool(top["simulated"].all()),
        "second": records(done)[1] if done.k > 1 else None,
        "asked_usd": float(study.packages.budget_usd),
        "order_usd": order_usd(done),
        "ranked_by": _ranked_by(done),
        "top": records(done),
        "shown_first": _SHOWN_FIRST,
        "types": servers_by_type(bought, plan.quotes).to_dict(orient="records"),
        "budget_chart": charts.budget(budget_by_category(bought, plan.quotes)),
        "rank_chart": charts.waits_by_rank(top["mean_wait_time"], top["simulated"]),
        "data": page_data(done),
        "done": done,
    }


def _of_study(done: Recommendation) -> dict[str, object]:
    """Return what the page says of the study: its inputs, jobs, packages, and what they rest on."""
    case, plan, study = done.case, done.results.plan, done.results.plan.study
    zones = {one.name: one.tz for one in study.scenarios}
    names = [one.name for one in done.results.cases]
    return {
        "plan": plan,
        "existing": _existing(plan.existing),
        "without": _unstated(plan.quotes),
        "period": _period(plan, names, zones),
        "judged_on": counted(case.n_jobs, "job"),
        "today": f"{date.today()}",
        "workloads": names,
        "study_text": study.path.read_text(encoding="utf-8") if study.path.is_file() else "",
        "files": _files(plan),
        "inputs": _inputs(plan) | _programs(),
        "correlations": correlations(case.packages, case.wait).rename(index=_NAMES),
        "jobs": [_workload(name, plan.workloads[name], zones[name]) for name in names],
        "examples": _examples(case, plan.quotes, float(study.packages.budget_usd - study.packages.fixed_cost_usd)),
        "category_of": dict(zip(plan.quotes["name"], plan.quotes["category"], strict=True)),
        "n_judged": int((case.runs_all & case.simulated).sum()),
        "speed_ratios": _speed_ratios(done),
    }


@dataclass(frozen=True)
class Section:
    """A part of the evidence: the id and title of its heading, and its HTML; empty = it does not appear."""

    id: str
    title: str
    html: Markup


def page_data(done: Recommendation) -> dict[str, object]:
    """Return what the page's script shows, and others may read: the list, and the simulated packages.

    Returns
    -------
    dict
        ``list``: the records of `procure.recommender.summary.records`. ``axes``: ``key label unit`` of the figures
        by which packages are drawn, and whether ``more`` is better. ``packages``: of each package of the list, and of
        at most `_MOST_DRAWN` others that run every job and are simulated, evenly chosen by rank: its id, and its
        figure on each axis. ``apart``: those of the list that leave more jobs out than the first, whose mean waits are
        over other jobs, so that they are not drawn.
    """
    results, ranking = done.results, done.ranking
    costs = results.costs
    axes = [
        ("price_usd", "price", "US$"),
        ("mean_wait_time", "mean wait", "s"),
        ("total_cpus", "CPUs", ""),
        ("total_mem_gb", "memory", "GB"),
        ("total_gpus", "GPUs", ""),
    ]
    axes += [
        (name, label, unit)
        for name, label, unit in (
            ("tco_usd", "cost over the years", "US$"),
            ("energy_kwh_per_year", "energy a year", "kWh"),
        )
        if not costs[name].isna().any() and (costs[name] != costs["purchase_usd"]).any()
    ]
    drawn = np.flatnonzero((ranking["simulated"] & (ranking["jobs_left_out"] == 0)).to_numpy())
    drawn = drawn[np.linspace(0, len(drawn) - 1, min(len(drawn), _MOST_DRAWN)).astype(int)]
    drawn = np.unique(np.concatenate([np.arange(done.k), drawn]))
    rows = ranking["row"].to_numpy()[drawn]
    table = done.case.packages.iloc[rows].assign(
        mean_wait_time=ranking["mean_wait_time"].to_numpy()[drawn],
        **{name: costs[name].to_numpy()[rows] for name, _, _ in axes if name in costs},
    )
    table["mean_wait_time"] = table["mean_wait_time"].round(3)  # coarser, the first choice ties with cheaper ones
    left_out = ranking["jobs_left_out"].to_numpy()[drawn]
    columns = [table["package_id"].tolist(), *(table[name].tolist() for name, _, _ in axes)]
    return {
        "list": records(done),
        "axes": [
            {"key": name, "label": label, "unit": unit, "more": name.startswith("total_")} for name, label, unit in axes
        ],
        "packages": [list(one) for one in zip(*columns, strict=True)],
        "apart": table["package_id"][left_out > ranking["jobs_left_out"].iloc[0]].tolist(),
    }


def _last(existing: pd.DataFrame | None) -> list[tuple[str, str]]:
    there = existing is not None and len(existing) > 0
    return [one for one in _LAST if one[0] != "existing" or there]


def _existing(nodes: pd.DataFrame | None) -> list[dict[str, object]]:
    """Return the existing nodes by what they are, a record per kind."""
    if nodes is None or not len(nodes):
        return []
    alike = nodes.groupby(["kind", "cpus", "mem_mb", "gpus"], sort=False).size().rename("n_nodes")
    return [{str(key): value for key, value in row.items()} for row in alike.reset_index().to_dict("records")]


def _files(plan: Plan) -> dict[str, str]:
    """Return the tables that the study reads, as CSV: its quotes, and the existing nodes where they are few."""
    found = {"The quotes": as_csv(plan.quotes) or ""}
    if plan.existing is not None and 0 < len(plan.existing) <= _MOST_NODES:
        found["The existing nodes"] = as_csv(plan.existing) or ""
    return found


def _programs() -> dict[str, str]:
    return {"procure": __version__, "xgboost": installed_xgboost()} | {name: version(name) for name in _PROGRAMS}


def _inputs(plan: Plan) -> dict[str, str]:
    """Return the digests of what results depend on, the warm-up as people read it."""
    warm_up = re.compile(r"(?<= after )(\d+) s$")
    return {
        name: warm_up.sub(lambda found: duration(int(found[1])), str(value)) for name, value in plan.fingerprint.items()
    }


def _unstated(quotes: pd.DataFrame) -> list[str]:
    """Name what a purchasing office looks for and no quote states."""
    wanted = {"vendor": "vendor", "quote_number": "number of the quote", "valid_until": "last day of the offer",
              "power_w": "power", "rack_units": "height in the rack"}  # fmt: skip
    return [
        said
        for name, said in wanted.items()
        if name not in quotes or bool((quotes[name].isna() | (quotes[name].astype(str) == "")).all())
    ]


def _period(plan: Plan, names: list[str], zones: dict[str, str | None]) -> str:
    """Say from which day to which the jobs that count were submitted; empty where a log has no dates."""
    ends = []
    for name in names:
        jobs = counted_jobs(plan.workloads[name], plan.warm_up(name))
        if not has_dates(jobs):
            return ""
        zone = ZoneInfo(zones[name] or "UTC")
        ends += [
            datetime.fromtimestamp(int(end), zone).date()
            for end in (jobs["submit_time"].min(), jobs["submit_time"].max())
        ]
    if not ends:
        return ""
    first, last = min(ends), max(ends)
    return f"{first:%Y-%m-%d}" + (f" to {last:%Y-%m-%d}" if last > first else "")


def _speed_ratios(done: Recommendation) -> list[dict[str, object]]:
    """Return by which factor run times are multiplied on each quoted type; nothing where no speed is known."""
    plan = done.results.plan
    speeds = [plan.logged_speed(case.name) for case in done.results.cases]
    known = [float(speed) for speed in speeds if speed is not None]
    if not known or core_rates(plan.quotes).isna().all():
        return []
    ratios = speed_ratios(plan.quotes, known)
    odd = (ratios["speed_ratio_max"] > MOST) | (ratios["speed_ratio_min"] < 1 / MOST)
    return [{str(name): value for name, value in row.items()} for row in ratios.assign(odd=odd).to_dict("records")]


def _ranked_by(done: Recommendation) -> str:
    criteria = done.criteria
    if criteria == Criteria():
        return "the mean time that these jobs would have waited"
    bounds = ", ".join(one.text for one in criteria.constraints)
    text = f"{criteria.objective.name.replace('-', ' ')} ({criteria.objective.meaning})"
    return text + (f", of those that satisfy {bounds}" if bounds else "")


def _judged(done: Recommendation, predicted: Predicted | None, rankings: dict[str, np.ndarray]) -> dict[str, str]:
    """Draw predictions against what was simulated; nothing where there is neither."""
    drawn, judged = (
        {"scatter": "", "precision": "", "box": ""},
        np.flatnonzero(done.case.runs_all & done.case.simulated),
    )
    # Where all waits are equal, every order of the packages is as good.
    if not differ(done.case.wait[judged]):
        return drawn
    case, study = done.case, done.results.plan.study
    wait, share = case.wait[judged], study.evaluate.hit_share
    price = case.packages["price_usd"].to_numpy(dtype="float64")[judged]
    some = {name: values[judged] for name, values in rankings.items()}
    drawn["precision"] = charts.precision_by_k(some, wait, price, share, done.k)
    if predicted is not None:
        drawn["scatter"] = charts.predicted_against_simulated(predicted.wait[judged], wait)
        drawn["box"] = charts.favourites_against_rest(predicted.wait[judged], wait, price, share)
    return drawn


def _workload(name: str, jobs: pd.DataFrame, tz: str | None) -> dict[str, object]:
    columns = {
        "memory per node, GB": jobs["mem_mb_per_node"] / 1000,
        "CPUs per node": jobs["cpus_per_node"],
        "GPUs per node": jobs["gpus_per_node"],
        "requested time, h": jobs["requested_time"] / 3600,
        "run time, h": jobs["run_time"] / 3600,
    }
    figures = [
        {"what": what, "mean": v.mean(), "std": v.std(ddof=1), "low": v.min(), "high": v.max()}
        for what, v in columns.items()
    ]
    log_clock = not has_dates(jobs)
    return {
        "name": name,
        "log_clock": log_clock,
        "n_jobs": len(jobs),
        "n_gpu_jobs": int((jobs["gpus_per_node"] > 0).sum()),
        "chart": charts.jobs_over_time(jobs, name, tz, log_clock),
        "figures": figures,
    }


def _examples(case: WorkloadWaits, quotes: pd.DataFrame, budget_usd: float) -> list[dict[str, object] | None]:
    """Return the first, some middle and the last package; None stands for rows left out."""
    packages, n = case.packages, len(case.packages)
    middle = n // 2
    blocks = [range(min(_EXAMPLES, n)), range(middle, middle + 2), range(n - 1, n)]
    rows = sorted({row for block in blocks for row in block if row < n})
    shown: list[dict[str, object] | None] = []
    for row, before, counts in zip(rows, [0, *rows], counts_of(packages.iloc[rows], quotes), strict=False):
        if row > before + 1:
            shown.append(None)
        price = packages["price_usd"].iloc[row]
        shown.append(
            {
                "row": row + 1,
                "counts": counts,
                "price_usd": price,
                "left_usd": budget_usd - price,
                "left_out": int(case.left_out[row]),
                "wait": case.wait[row],
            }
        )
    return shown
