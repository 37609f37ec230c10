"""The report's evidence with its figures: how sure, why, the days, the front, the award matrix, its inputs."""

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
from procure.evaluation.many_days import Days, days_of
from procure.explanation.bottleneck import CAUSES, WORDS, Bottleneck
from procure.explanation.package import PackageExplanation, comparison_sentences, sentences
from procure.files import installed_xgboost
from procure.files.write import as_csv
from procure.objectives import Quantity
from procure.page.charts import BLUE, GREY, PALETTE, box, column, records, still, time_axis
from procure.page.html import render
from procure.page.names import servers, share
from procure.recommender.award import award_of
from procure.recommender.confidence import Confidence
from procure.recommender.rank import eligible
from procure.recommender.recommendation import Recommendation
from procure.recommender.recommender import with_front
from procure.schemas import as_logged
from procure.study import Plan
from procure.text import duration
from procure.workload.clock import has_dates, local_times
from procure.workload.parts import counted_jobs

_MOST_BINS = 96
MOST_RANGES = 30
_MOST_POINTS = 4000
_STEPS = (60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 7 * 86_400)


def differ(values: Any) -> bool:
    """Tell whether known values differ, so that a picture of them shows anything."""
    known = np.asarray(values, dtype="float64")
    known = known[~np.isnan(known)]
    return len(known) > 0 and bool(known.min() < known.max())


def predicted_against_simulated(predicted: np.ndarray, simulated: np.ndarray) -> Markup:
    """Draw out-of-fold predictions against what was simulated (figures 3.4 and 3.9 of Hutchison 2024)."""
    n = len(simulated)
    some = np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).astype(int))
    ends = [float(min(predicted.min(), simulated.min())), float(max(predicted.max(), simulated.max()))]
    x, y = (time_axis(title, ends) for title in ("simulated mean wait", "predicted mean wait (out of fold)"))
    spec = {
        "width": 420,
        "encoding": {"x": column("simulated", **x), "y": column("predicted", **y)},
        "layer": [
            {"data": {"values": records(simulated=ends, predicted=ends)},
             "mark": {"type": "line", "color": GREY, "strokeDash": [4, 3]}},
            {"data": {"values": records(simulated=simulated[some], predicted=predicted[some])},
             "mark": {"type": "point", "filled": True, "size": 10, "opacity": 0.4, "color": BLUE}},
        ],
    }  # fmt: skip
    return still("scatter-mean", "Predicted against simulated mean wait of the simulated packages", spec)


def budget(spent: pd.DataFrame) -> Markup:
    """Draw what the recommended packages spend on each category (figure 3.5)."""
    rows = [
        {"category": one.category, "share": one.share, "text": f"{share(one.share)}  (US$ {one.price_usd:,.0f})"}
        for one in spent.itertuples(index=False)
    ]
    category = {"field": "category", "type": "nominal", "sort": None}
    x, y = column("share", title=None, axis=None, scale={"domain": [0, 1.3]}), category | {"title": None}
    spec = {
        "data": {"values": rows},
        "height": 26 * max(len(rows), 1),
        "encoding": {"y": y, "x": x},
        "layer": [
            {"mark": "bar", "encoding": {"color": category | {"legend": None}}},
            {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": {"text": {"field": "text"}}},
        ],
    }
    return still("budget", "Share of the budget by category", spec)


def jobs_over_time(jobs: pd.DataFrame, name: str, tz: str | None = None, log_clock: bool = False) -> Markup:
    """Draw how many jobs were submitted per interval (figure 3.3); without dates (``log_clock``) in hours from 0."""
    submit = jobs["submit_time"].to_numpy()
    first, last = int(submit.min()), int(submit.max())
    step = next((s for s in _STEPS if (last - first) / s <= _MOST_BINS), 86_400 * 30)
    first -= 0 if log_clock else first % step
    counts = np.bincount((submit - first) // step)
    edges = first + step * np.arange(len(counts) + 1)
    x: dict[str, Any] = {"title": "hours since the first submission"}
    along: Any = (edges - first) / 3600
    if not log_clock:
        along = [f"{one:%Y-%m-%dT%H:%M:%S}" for one in local_times(edges, tz)]
        x = {"type": "temporal", "title": f"submitted ({tz or 'UTC'})", "scale": {"type": "utc"}}
    spec = {
        "data": {"values": records(begin=along[:-1], end=along[1:], jobs=counts)},
        "height": 140,
        "mark": {"type": "bar", "color": BLUE, "binSpacing": 0},
        "encoding": {
            "x": column("begin", **x) | {"axis": {"grid": False, "labelOverlap": True}},
            "x2": {"field": "end"},
            "y": column("jobs", title=f"jobs per {_interval(step)}"),
            "y2": {"datum": 0},
        },
    }
    return still(f"jobs-{name}", f"Jobs submitted over time, workload {name}", spec)


def _interval(step: int) -> str:
    if step % 86_400 == 0:
        return f"{step // 86_400} d" if step > 86_400 else "day"
    return f"{step // 60} min" if step < 3600 else (f"{step // 3600} h" if step > 3600 else "hour")


def rank_ranges(table: pd.DataFrame) -> Markup:
    """Draw rank intervals of the head of the list, where they are known; at least one must be."""
    n, words = min(len(table), MOST_RANGES), ["cannot be told from the first", "can be"]
    known = table.head(n).assign(place=np.arange(1, n + 1)).dropna(subset="alike")
    what = np.where(known["alike"].astype(bool), *words)
    rows = records(place=known["place"].tolist(), low=known["rank_low"], high=known["rank_high"], what=what)
    spec = {
        "data": {"values": rows},
        "height": 30 + 10 * n,
        "encoding": {
            "y": {"field": "place", "type": "ordinal", "title": "place in the list",
                  "scale": {"domain": list(range(1, n + 1))}, "axis": {"labelOverlap": True}},
            "color": {"field": "what", "type": "nominal", "scale": {"domain": words, "range": [BLUE, GREY]}},
        },
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.6}, "encoding": {
                "x": column("low", title="rank", scale={"zero": False}), "x2": {"field": "high"}}},
            {"mark": {"type": "point", "filled": True, "size": 16}, "encoding": {"x": column("place")}},
        ],
    }  # fmt: skip
    return still("rank-ranges", "Ranges of ranks of the first packages over resampled workloads", spec)


def waits_by_day(days: Days) -> Markup:
    """Draw box plots of mean wait per day, of packages that run its jobs (figure 3.7 of Hutchison 2024)."""
    held = [wait[able & ~np.isnan(wait)] for wait, able in zip(days.wait, days.able, strict=True)]
    rows = [row for name, waits in zip(days.names, held, strict=True) for row in records(value=waits, group=name)]
    axis = time_axis("simulated mean wait", np.concatenate(held) if any(map(len, held)) else [0.0])
    return still("days", "Simulated mean wait of the packages on each day", box(rows, list(days.names), axis))


def lacked(bottleneck: Bottleneck, name: str) -> Markup:
    """Draw the number of waiting jobs over time, stacked by what they lack."""
    table = bottleneck.over_time(120)
    hours = (table["begin"].to_numpy() - int(bottleneck.moments[0])) / 3600
    causes = [cause for cause in CAUSES if bottleneck.seconds[cause]]
    rows = [row for cause in causes for row in records(hours=hours, jobs=table[cause], lacks=WORDS[cause])]
    words = [WORDS[cause] for cause in causes]
    colours = [PALETTE[CAUSES.index(cause) % len(PALETTE)] for cause in causes]
    spec = {
        "data": {"values": rows},
        "height": 160,
        "mark": {"type": "area", "interpolate": "step-after"},
        "encoding": {
            "x": column("hours", title="hours since the first submission", axis={"grid": False}),
            "y": column("jobs", title="waiting jobs", stack=True),
            "color": {"field": "lacks", "type": "nominal", "sort": words, "scale": {"domain": words, "range": colours}},
        },
    }
    return still(f"lacked-{name}", f"Jobs that wait over time on {name}, by what they lack", spec)


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
        "days": ("The days", days(days_of(done.results.cases))),
        "front": ("What the wait costs", front(done)),
        "award": ("The award matrix", award(done)),
    }


def sureness(sure: Confidence | None) -> Markup:
    """Say how sure the list is; nothing of a single package, without a chart where no rank is known."""
    if sure is None or len(sure.table) < 2:
        return Markup()
    known, objective = bool(sure.table["alike"].head(MOST_RANGES).notna().any()), sure.of.name.replace("-", " ")
    values: dict[str, Any] = {"is_known": known, "n_draws": sure.n_draws, "objective": objective, "unit": sure.unit}
    chart = rank_ranges(sure.table) if known else ""
    return render(_FOLDER / "sureness.html", **values, lines=sure.sentences(), chart=chart)


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
        lacked={name: lacked(one, name) for name, one in first.bottlenecks.items() if one.total_seconds},
        marginal=first.marginal.head(_MOST_NODES).to_dict(orient="records"),
    )


def days(days: Days) -> Markup:
    """Show the waits on many days; nothing of fewer than two, or where nothing is simulated on all."""
    if len(days.names) < 2 or not days.simulated.any():
        return Markup()
    return render(_FOLDER / "days.html", waits=waits_by_day(days))


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
        headings=[name_of(one) + (f", {one.unit}" if one.unit and one.unit != "s" else "") for one in axes],
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
    told = plan.fingerprint.items()
    return {name: re.sub(r"(?<= after )(\d+) s$", lambda m: duration(int(m[1])), str(value)) for name, value in told}


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


def workload(name: str, jobs: pd.DataFrame, tz: str | None) -> dict[str, object]:
    """Return what is shown of the jobs of one workload: their numbers, figures, and when they came."""
    jobs = as_logged(jobs)
    columns = {
        "memory per node, GB": jobs["mem_mb_per_node"] / 1000, "CPUs per node": jobs["cpus_per_node"],
        "GPUs per node": jobs["gpus_per_node"], "requested time": jobs["requested_time"], "run time": jobs["run_time"],
    }  # fmt: skip
    figures = [
        {"what": what, "unit": "s" if "time" in what else "", "mean": v.mean(), "std": v.std(ddof=1), "low": v.min(),
         "high": v.max()}
        for what, v in columns.items()
    ]  # fmt: skip
    log_clock, n_gpu_jobs = not has_dates(jobs), int((jobs["gpus_per_node"] > 0).sum())
    counts = {"name": name, "log_clock": log_clock, "n_jobs": len(jobs), "n_gpu_jobs": n_gpu_jobs}
    return counts | {"chart": jobs_over_time(jobs, name, tz, log_clock), "figures": figures}
