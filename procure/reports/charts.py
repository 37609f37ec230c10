"""The figures of the report's evidence, each from arrays or tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.evaluation.many_days import Days
from procure.explanation.bottleneck import CAUSES, WORDS, Bottleneck
from procure.objectives import Quantity
from procure.page.names import share
from procure.page.vega import BLUE, GREY, ORANGE, PALETTE, box, column, records, still, time_axis
from procure.workload.clock import local_times

_MOST_BINS = 96
MOST_RANGES = 30
_MOST_POINTS = 4000
_STEPS = (60, 300, 900, 1800, 3600, 7200, 14_400, 28_800, 86_400, 7 * 86_400)


def differ(values: Any) -> bool:
    """Tell whether known values differ, so that a picture of them shows anything."""
    known = np.asarray(values, dtype="float64")
    known = known[~np.isnan(known)]
    return len(known) > 0 and bool(known.min() < known.max())


def _some(n: int) -> np.ndarray:
    """Return at most `_MOST_POINTS` of so many rows, evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).astype(int))


def predicted_against_simulated(predicted: np.ndarray, simulated: np.ndarray) -> Markup:
    """Draw out-of-fold predictions against what was simulated (figures 3.4 and 3.9 of Hutchison 2024)."""
    some = _some(len(simulated))
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
    y = {"field": "category", "type": "nominal", "sort": None, "title": None}
    spec = {
        "data": {"values": rows},
        "height": 26 * max(len(rows), 1),
        "encoding": {"y": y, "x": column("share", title=None, axis=None, scale={"domain": [0, 1.3]})},
        "layer": [
            {
                "mark": "bar",
                "encoding": {"color": {"field": "category", "type": "nominal", "legend": None, "sort": None}},
            },
            {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": {"text": {"field": "text"}}},
        ],
    }
    return still("budget", "Share of the budget by category", spec)


def jobs_over_time(jobs: pd.DataFrame, name: str, tz: str | None = None, log_clock: bool = False) -> Markup:
    """Draw how many jobs were submitted per interval (figure 3.3).

    A log that counts seconds from a start of its own (``log_clock``) has no dates: it is drawn in hours
    since the first submission.
    """
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
    shown = table.head(MOST_RANGES).assign(place=np.arange(1, len(table.head(MOST_RANGES)) + 1))
    known = shown[shown["alike"].notna()]
    what = np.where(known["alike"].astype(bool), "cannot be told from the first", "can be")
    places = known["place"].tolist()
    spec = {
        "data": {"values": records(place=places, low=known["rank_low"], high=known["rank_high"], what=what)},
        "height": 30 + 10 * len(shown),
        "encoding": {
            "y": {"field": "place", "type": "ordinal", "title": "place in the list",
                  "scale": {"domain": list(range(1, len(shown) + 1))}, "axis": {"labelOverlap": True}},
            "color": {"field": "what", "type": "nominal", "scale": {
                "domain": ["cannot be told from the first", "can be"],
                                                 "range": [BLUE, GREY]}},
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
    words = [WORDS[cause] for cause in causes]
    rows = [row for cause in causes for row in records(hours=hours, jobs=table[cause], lacks=WORDS[cause])]
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


def front(front: pd.DataFrame, axes: Sequence[Quantity], values: np.ndarray, recommended: int) -> Markup:
    """Draw the first axis against the second, the third as colour; front, knee and recommendation marked.

    Nothing where the first axis is the same for all.
    """
    if not differ(values[:, 0]):
        return Markup()
    cloud, knee = values[_some(len(values))], front[front["knee"]].iloc[0]
    names = [axis.name for axis in axes]
    x, y = (
        {"title": heading_of(axes[1]), "scale": {"zero": False}},
        time_axis(f"{name_of(axes[0])} of a job", cloud[:, 0]),
    )
    colour: dict[str, Any] = {"value": GREY}
    if len(axes) > 2:
        colour = column("z", title=heading_of(axes[2]), scale={"scheme": "cividis"})

    def marked(rows: Any, mark: dict[str, Any], kind: str) -> dict[str, Any]:
        at = np.atleast_2d(np.asarray(rows, dtype="float64"))
        data = {"values": records(x=at[:, 1], y=at[:, 0], kind=kind)}
        return {"data": data, "mark": mark, "encoding": {"stroke": {"field": "kind", "scale": kinds}}}

    kinds = {"domain": ["front", "knee", "recommended"], "range": [BLUE, ORANGE, "#D50000"]}
    line = [marked(front[names[:2]], {"type": "line", "strokeWidth": 1}, "front")] if len(axes) == 2 else []
    third = {"z": cloud[:, 2]} if len(axes) > 2 else {}
    spec = {
        "encoding": {"x": column("x", **x) | {"axis": {"format": ",.0f", "labelOverlap": True}}, "y": column("y", **y)},
        "layer": [
            {"data": {"values": records(x=cloud[:, 1], y=cloud[:, 0], **third)}, "encoding": {"color": colour},
             "mark": {"type": "point", "filled": True, "size": 10, "opacity": 0.5}},
            *line,
            marked(front[names[:2]], {"type": "point", "size": 18}, "front"),
            marked(knee[names[:2]], {"type": "point", "size": 150, "strokeWidth": 2.5}, "knee"),
            marked(values[recommended][:2], {"type": "point", "shape": "diamond", "size": 110, "strokeWidth": 2.5},
                   "recommended"),
        ],
    }  # fmt: skip
    label = f"{name_of(axes[0])} against {name_of(axes[1])} of all packages, and the Pareto front"
    return still("pareto", label, spec)


def heading_of(of: Quantity) -> str:
    """Return what an axis is, with its unit."""
    return f"{name_of(of)}, {of.unit}" if of.unit and of.unit != "s" else name_of(of)


def name_of(of: Quantity) -> str:
    """Return what an axis is."""
    return {"tco": "cost over the years"}.get(of.name) or of.name.replace("-", " ")
