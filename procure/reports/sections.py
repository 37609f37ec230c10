"""The report's evidence with its figures: how sure, why, the front, the award matrix, its inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure._version import __version__
from procure.errors import TableError
from procure.explanation.package import PackageExplanation, comparison_sentences, sentences
from procure.files import installed_xgboost
from procure.files.csv_text import as_csv
from procure.objectives import Quantity
from procure.page.html import render
from procure.page.names import servers
from procure.recommender.award import award_of
from procure.recommender.confidence import Confidence
from procure.recommender.rank import eligible
from procure.recommender.recommendation import Recommendation
from procure.recommender.recommender import with_front
from procure.schemas import as_logged
from procure.study import Plan
from procure.text import duration
from procure.workload.clock import has_dates
from procure.workload.replay import counted_jobs


def differ(values: Any) -> bool:
    """Tell whether known values differ, so that a picture of them shows anything."""
    known = np.asarray(values, dtype="float64")
    known = known[~np.isnan(known)]
    return len(known) > 0 and bool(known.min() < known.max())


def heading_of(of: Quantity) -> str:
    """Return what an axis is, with its unit."""
    return f"{name_of(of)}, {of.unit}" if of.unit and of.unit != "s" else name_of(of)


def name_of(of: Quantity) -> str:
    """Return what an axis is."""
    return {"tco": "cost over the years"}.get(of.name) or of.name.replace("-", " ")


_MOST_OFFERS, _MOST_NODES, _MOST_ON_FRONT = 30, 8, 10
_FOLDER = Path(__file__).parent


def sections_of(done: Recommendation, explanations: Sequence[PackageExplanation]) -> dict[str, tuple[str, Markup]]:
    """Return title and HTML by the id of a section, in their order; HTML is empty where there is nothing to say."""
    return {
        "sure": ("How sure the list is", sureness(done.confidence)),
        "why": ("Why the first package", why(explanations)),
        "front": ("What the wait costs", front(done)),
        "award": ("The award matrix", award(done)),
    }


def sureness(sure: Confidence | None) -> Markup:
    """Say how sure the list is; nothing of a single package."""
    if sure is None or len(sure.table) < 2:
        return Markup()
    return render(
        _FOLDER / "sureness.html",
        is_known=bool(sure.table["alike"].notna().any()),
        n_draws=sure.n_draws,
        objective=sure.of.name.replace("-", " "),
        unit=sure.unit,
        lines=sure.sentences(),
    )


def why(explanations: Sequence[PackageExplanation]) -> Markup:
    """Say why the first package, against the next where there is one; nothing without any."""
    if not explanations:
        return Markup()
    first = explanations[0]
    against = comparison_sentences(*explanations) if len(explanations) == 2 else []
    for one in explanations:
        against = [line.replace(one.package_id, servers(one.package_id)) for line in against]
    return render(
        _FOLDER / "why.html",
        why=sentences(first),
        against=against,
        marginal=first.marginal.head(_MOST_NODES).to_dict(orient="records"),
    )


def front(done: Recommendation) -> Markup:
    """Show the front of wait against cost (and energy, where the quotes state watts), with the first choice in it."""
    wider, name = with_front(done), str(done.ranking["package_id"].iloc[0])
    values, axes, best = wider.package_values, wider.criteria.axes, wider.front
    points = np.column_stack([values.value(axis)[0] for axis in axes])
    # Where no package runs every job, those that were not simulated may be eligible, and nothing is known of them.
    rows = np.flatnonzero(eligible(values, wider.criteria) & ~np.isnan(points).any(axis=1))
    place = np.flatnonzero(rows == done.ranking["row"].iloc[0])
    if not len(place) or best is None or not len(best):
        return Markup()
    points, simulated, first = points[rows], values.simulated[rows], int(place[0])
    is_first = (best["package_id"] == name).to_numpy(dtype=bool)
    keep = best["knee"].to_numpy(dtype=bool) | is_first
    even = np.linspace(0, len(best) - 1, min(len(best), _MOST_ON_FRONT)).round().astype(int)
    shown = best.iloc[sorted({*even.tolist(), *np.flatnonzero(keep).tolist()})]
    if not is_first.any():
        own = {"package_id": name, "simulated": simulated[first], "knee": False}
        own |= dict(zip([axis.name for axis in axes], points[first], strict=True))
        shown = pd.concat([pd.DataFrame([own]), shown], ignore_index=True)
    return render(
        _FOLDER / "front.html",
        axes=axes,
        names=[name_of(axis) for axis in axes],
        headings=[heading_of(axis) for axis in axes],
        n_front=len(best),
        n_packages=len(points),
        n_simulated=int(simulated.sum()),
        is_on_front=(best[[axis.name for axis in axes]].to_numpy() == points[first]).all(axis=1).any(),
        rows=[
            row | {"servers": servers(row["package_id"]), "first": row["package_id"] == name}
            for row in shown.to_dict(orient="records")
        ],
    )


def award(done: Recommendation) -> Markup:
    """Show the award matrix; nothing of a study without one."""
    rules = done.results.plan.study.award
    if rules is None:
        return Markup()
    try:
        found = award_of(done)
    except TableError as error:  # the rest of the report stands without it
        return Markup("<p>{}.</p>").format(str(error))
    best = f"all points for the best, none from {rules.zero_at:g} times that on"
    how = "relative to the best offer" if rules.rule == "relative" else best
    rows = found.table.head(_MOST_OFFERS).to_dict(orient="records")
    return render(
        _FOLDER / "award.html",
        rule=how + (f"; {', '.join(rules.scale)} between stated values" if rules.scale else ""),
        weights=rules.weights,
        rows=[row | {"servers": servers(str(row["package_id"]))} for row in rows],
        lines=[*found.sentences(), *found.notes],
    )


PROGRAMS = ("numpy", "pandas", "numba", "scikit-learn")
_MOST_EXISTING = 200


def files(plan: Plan) -> dict[str, str]:
    """Return the tables that the study reads, as CSV: its quotes, and the existing nodes where they are few."""
    found = {"The quotes": as_csv(plan.quotes) or ""}
    if plan.existing is not None and 0 < len(plan.existing) <= _MOST_EXISTING:
        found["The existing nodes"] = as_csv(plan.existing) or ""
    return found


def programs() -> dict[str, str]:
    """Return the versions of the programs on which figures depend."""
    return {"procure": __version__, "xgboost": installed_xgboost()} | {name: version(name) for name in PROGRAMS}


def digests(plan: Plan) -> dict[str, str]:
    """Return the digests of what results depend on, the warm-up as people read it."""
    warm_up = re.compile(r"(?<= after )(\d+) s$")
    return {
        name: warm_up.sub(lambda found: duration(int(found[1])), str(value)) for name, value in plan.fingerprint.items()
    }


def period(plan: Plan, names: list[str], zones: dict[str, str | None]) -> str:
    """Say from which day to which the jobs that count were submitted; empty where a log has no dates."""
    ends: list[date] = []
    for name in names:
        jobs = counted_jobs(plan.workloads[name], plan.warm_up(name))
        if not has_dates(jobs):
            return ""
        submit, zone = jobs["submit_time"], ZoneInfo(zones[name] or "UTC")
        ends += [datetime.fromtimestamp(int(one), zone).date() for one in (submit.min(), submit.max())]
    return " to ".join(dict.fromkeys(f"{one:%Y-%m-%d}" for one in (min(ends), max(ends)))) if ends else ""


def workload(name: str, jobs: pd.DataFrame) -> dict[str, object]:
    """Return what is shown of the jobs of one workload: their numbers and figures."""
    jobs = as_logged(jobs)
    columns = {
        "memory per node, GB": jobs["mem_mb_per_node"] / 1000,
        "CPUs per node": jobs["cpus_per_node"],
        "GPUs per node": jobs["gpus_per_node"],
        "requested time": jobs["requested_time"],
        "run time": jobs["run_time"],
    }
    figures = [
        {"what": what, "unit": "s" if "time" in what else "", "mean": v.mean(), "std": v.std(ddof=1), "low": v.min(),
         "high": v.max()}
        for what, v in columns.items()
    ]  # fmt: skip
    return {
        "name": name,
        "n_jobs": len(jobs),
        "n_gpu_jobs": int((jobs["gpus_per_node"] > 0).sum()),
        "figures": figures,
    }
