"""The pictures that stand first in a purchase report: price and wait, waits by class, the weeks, the next dollars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from procure.page.charts import BLUE, GREEN, GREY, ORANGE, column, records, time_axis
from procure.page.names import servers
from procure.recommender.recommendation import Recommendation
from procure.recommender.replay_check import starts_known
from procure.recommender.rule_costs import BestOfBudget
from procure.reports.memo import Compared
from procure.sweep.trial import replayed
from procure.text import duration
from procure.workload.clock import has_dates

_SHARES = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
_MOST_CLASSES = 6
_N_PERIODS = 160
_STEPS = np.array([1, 2.5, 5, 10])
_MOST_STEPS = 20
_MOST_DATES = 12
_DOLLARS = {"scale": {"zero": False}, "axis": {"format": ",.0f", "tickCount": 6, "labelOverlap": True}}
_STILL = 1500
"""How many packages are drawn where no script can show them all."""


def cloud(data: Mapping[str, Any]) -> dict[str, Any]:
    """Draw price against wait of the packages of `page_data`, with those that no other beats on both.

    The page's script fills ``packages`` anew as the reader filters, and sets ``chosen``, the ids of the packages that
    are compared, and ``here``, the one that the keyboard is on.
    """
    keys = ["package_id", *(one["key"] for one in data["axes"])]
    rows = [dict(zip(keys, one, strict=True)) for one in data["packages"] if one[0] not in set(data["apart"])]
    first = data["list"][0]["package_id"]
    price, wait = "price_usd", "mean_wait_time"
    some = set(np.linspace(0, len(rows) - 1, min(len(rows), _STILL)).astype(int).tolist())
    still, least, guessed = [], np.inf, set(data["guessed"])
    for place, row in enumerate(sorted(rows, key=lambda one: (one[price], one[wait]))):
        if row[wait] < least or row["package_id"] == first or place in some:
            still.append(row | {"front": row[wait] < least, "guessed": row["package_id"] in guessed})
        least = min(least, row[wait])
    kinds = ["a package", "no other is cheaper and waits less", "first choice"]
    tooltip = [
        {"field": "servers", "type": "nominal", "title": "package"},
        column(price, format=",.0f", title="price, US$"),
        {"field": "wait", "type": "nominal", "title": "mean wait"},
        column("total_cpus", format=",", title="CPUs"),
        column("total_mem_gb", format=",.0f", title="memory, GB"),
        column("total_gpus", format=",", title="GPUs"),
    ]

    def layer(kind: str, mark: dict[str, Any], *transforms: dict[str, Any]) -> dict[str, Any]:
        encoding = {"color": {"datum": kind}, "tooltip": tooltip}
        return {"mark": mark, "transform": list(transforms), "encoding": encoding}

    front = {"filter": "datum.front"}
    known, predicted = {"filter": "!datum.guessed"}, {"filter": "datum.guessed"}
    ring = {"type": "point", "size": 160, "filled": False, "strokeWidth": 2.5}
    return {
            "data": {"name": "packages"},
            "datasets": {"packages": still},
            "params": [{"name": "chosen", "value": []}, {"name": "here", "value": ""}],
            "encoding": {
                "x": column(price, title="price, US$", **_DOLLARS),
                "y": column(wait, **time_axis("mean wait", [one[wait] for one in rows])),
                "color": {"type": "nominal", "scale": {"domain": kinds, "range": [GREY, GREEN, ORANGE]}},
            },
            "layer": [
                layer(kinds[0], {"type": "point", "filled": True, "size": 14, "opacity": 0.45}, known),
            layer(kinds[0], {"type": "point", "size": 16, "opacity": 0.45, "strokeWidth": 0.7}, predicted),
                layer(kinds[1], {"type": "line", "interpolate": "step-after", "strokeWidth": 1.2}, front),
                layer(kinds[1], {"type": "point", "filled": True, "size": 40, "opacity": 1}, front),
                layer(kinds[2], {"type": "point", "filled": True, "size": 150, "shape": "diamond", "opacity": 1},
                      {"filter": {"field": "package_id", "equal": first}}),
                {"mark": {**ring, "stroke": BLUE},
                 "transform": [{"filter": "indexof(chosen, datum.package_id) >= 0"}]},
                {"mark": {**ring, "stroke": "black", "size": 260},
                 "transform": [{"filter": "datum.package_id == here"}]},
            ],
    }  # fmt: skip


def waits_by_class(waits: Compared, own: Any = ()) -> dict[str, Any]:
    """Draw how waits spread: of each class of jobs and each system the median, the middle half, and 5 to 95 %."""
    rows: list[dict[str, Any]] = []
    order: list[str] = []
    for _, what, part in waits.parts(own)[:_MOST_CLASSES]:
        order.append(f"{what} ({len(part):,})")
        for name, system in waits.names.items():
            held = part[part[name].notna()]
            if len(held):
                wait, weight = (held[one].to_numpy(dtype="float64") for one in (name, "weight"))
                values = np.quantile(wait, list(_SHARES.values()), weights=weight, method="inverted_cdf")
                found = dict(zip(_SHARES, map(float, values), strict=True))
                texts = {f"{share} text": duration(value) for share, value in found.items()}
                rows.append({"class": order[-1], "system": system} | found | texts)
    names = list(waits.names.values())
    colours = {"wait": ORANGE, "today": GREY, "middle": BLUE}
    axis = time_axis("wait", [one[share] for one in rows for share in ("p5", "p95")])
    tooltip = [{"field": "system", "title": "on"}, {"field": "class", "title": "jobs"}]
    tooltip += [{"field": f"{share} text", "title": f"{share[1:]} % within"} for share in _SHARES]

    def layer(mark: dict[str, Any], low: str, high: str = "") -> dict[str, Any]:
        return {"mark": mark, "encoding": {"x": column(low, **axis)} | ({"x2": {"field": high}} if high else {})}

    return {
            "data": {"values": rows},
            "height": 10 + (14 * len(waits.names) + 8) * len(order),
            "encoding": {
                "y": {"field": "class", "type": "nominal", "sort": order, "title": None, "axis": {"labelLimit": 200},
                      "scale": {"paddingInner": 0.35}},
                "yOffset": {"field": "system", "sort": names, "scale": {"paddingInner": 0.3}},
                "color": {"field": "system", "type": "nominal", "scale": {
                    "domain": names, "range": [colours[one] for one in waits.names]}},
                "tooltip": [one | {"type": "nominal"} for one in tooltip],
            },
            "layer": [
                layer({"type": "rule", "strokeWidth": 1.5}, "p5", "p95"),
                layer({"type": "bar", "opacity": 0.75, "minBandSize": 4}, "p25", "p75"),
                layer({"type": "tick", "thickness": 3}, "p50"),
            ],
    }  # fmt: skip


def weeks(done: Recommendation) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw the share of CPUs in use and the jobs that wait, over the time of the longest workload.

    Both are of the purchase, and of today's nodes or, for the queue, the log.
    """
    results, first = done.results, done.results.counts[done.first]
    name = max(results.cases, key=lambda one: len(results.plan.workloads[one.name])).name
    jobs = results.plan.workloads[name]
    systems = {"this purchase": first}
    if results.plan.existing is not None and len(results.plan.existing):
        systems["today's nodes alone"] = np.zeros_like(first)
    edges = np.linspace(int(jobs["submit_time"].min()), int(jobs["submit_time"].max()) + 1, _N_PERIODS + 1)
    used, queued = list[dict[str, Any]](), list[dict[str, Any]]()

    def add(into: list[dict[str, Any]], system: str, level: np.ndarray, digits: int) -> None:
        into.extend(records(time=edges[:-1], system=system, value=level.round(digits)))

    for system, counts in systems.items():
        run, nodes = replayed(results.plan, counts, name, results.policy)
        ran = run.schedule[run.schedule["start_time"].notna()]
        if len(ran):
            start, cpus = ran["start_time"], ran["n_nodes"] * ran["cpus_per_node"]
            add(used, system, _mean_level(start, ran["end_time"], cpus, edges) / float(nodes["cpus"].sum()), 4)
            add(queued, system, _mean_level(ran["submit_time"], start, start.notna(), edges), 2)
    if len(systems) == 1 and starts_known(jobs):
        started = jobs[jobs["start_time"].notna()]
        start = started["start_time"]
        add(queued, "in the log", _mean_level(started["submit_time"], start, start.notna(), edges), 2)
    dated = has_dates(jobs)
    return (
        _over_time(used, "CPUs in use", {"axis": {"format": ".0%"}, "scale": {"domain": [0, 1]}}, dated),
        _over_time(queued, "jobs that wait", {"axis": {"format": ",~r"}}, dated),
    )


def _mean_level(begin: pd.Series, end: pd.Series, amount: pd.Series, edges: np.ndarray) -> np.ndarray:
    """Return the mean over each period of what intervals hold: float64[len(edges) - 1]."""
    begin, end, amount = (one.to_numpy(dtype="float64") for one in (begin, end, amount))
    moments = np.concatenate([begin, end])
    order = np.argsort(moments, kind="stable")
    moments, level = moments[order], np.cumsum(np.concatenate([amount, -amount])[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(moments))])
    # Before the first moment nothing is held, and after the last nothing again.
    return np.diff(np.interp(edges, moments, area)) / np.diff(edges)


def _over_time(rows: list[dict[str, Any]], title: str, axis: dict[str, Any], dated: bool) -> dict[str, Any]:
    begin, end = (rows[0]["time"], rows[-1]["time"]) if rows else (0.0, 0.0)
    values = [one | {"time": 1000 * one["time"] if dated else (one["time"] - begin) / 86_400} for one in rows]
    axes: dict[str, Any] = {"labelOverlap": True, "grid": False}
    x: dict[str, Any] = {"type": "quantitative", "title": "days since the first submission", "axis": axes}
    if dated:
        dates = {"interval": "day", "step": max(1, math.ceil((end - begin) / 86_400 / _MOST_DATES))}
        hours = bool(rows) and end - begin < 2 * 86_400
        axes |= {"format": "%H:%M"} if hours else {"format": "%e %b", "tickCount": dates}
        x = {"type": "temporal", "scale": {"type": "utc"}, "title": "UTC", "axis": axes}
    systems = list(dict.fromkeys(one["system"] for one in rows))
    return {
            "data": {"values": values},
            "height": 150,
            "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.4},
            "encoding": {
                "x": {"field": "time", **x},
                "y": {"field": "value", "type": "quantitative", "title": title, **axis},
                "color": {"field": "system", "type": "nominal",
                          "scale": {"domain": systems, "range": [ORANGE, GREY][: len(systems)]}},
                "tooltip": [{"field": "system", "type": "nominal"},
                            {"field": "value", "type": "quantitative", "title": title, "format": ",.2~f"}],
            },
    }  # fmt: skip


def next_dollars(
    done: Recommendation, budgets: Sequence[BestOfBudget] = ()
) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """Draw the least simulated wait for each sum of money, ``budgets`` among them; None where fewer than three differ.

    Returns ``budget_usd mean_wait_time package_id saved_seconds``, the sums at which another package becomes the best,
    and the picture.
    """
    able = done.ranking[done.ranking["simulated"] & (done.ranking["jobs_left_out"] == 0)]
    able = able[["package_id", "price_usd", "mean_wait_time"]]
    of_budgets = [(one.package_id, one.price_usd, one.wait) for one in budgets if not one.jobs_left_out]
    able = pd.concat([able, pd.DataFrame(of_budgets, columns=able.columns)]) if of_budgets else able
    price, wait = (able[name].to_numpy(dtype="float64") for name in ("price_usd", "mean_wait_time"))
    if len(able) < 3 or not price.max() > price.min():
        return None
    span = price.max() - price.min()
    sizes = (10.0 ** np.arange(2, 10)[:, None] * _STEPS).ravel()
    step = float(sizes[np.searchsorted(sizes, span / _MOST_STEPS)])
    sums = np.arange(np.ceil(price.min() / step), np.ceil(price.max() / step) + 1) * step
    best = [int(np.flatnonzero(price <= one)[np.argmin(wait[price <= one])]) for one in sums]
    table = pd.DataFrame({"budget_usd": sums, "mean_wait_time": wait[best]})
    table["package_id"] = able["package_id"].to_numpy()[best]
    table["saved_seconds"] = -table["mean_wait_time"].diff()
    if len(table) < 3:
        return None
    rows = [
        row | {"servers": servers(row["package_id"]), "wait": duration(row["mean_wait_time"]),
               "saved": "–" if np.isnan(row["saved_seconds"]) else duration(row["saved_seconds"])}
        for row in table.to_dict(orient="records")
    ]  # fmt: skip
    spec = {
            "data": {"values": rows},
            "height": 200,
            "mark": {"type": "line", "interpolate": "step-after", "point": {"size": 45}, "color": ORANGE},
            "encoding": {
                "x": column("budget_usd", title="spent on servers, US$", **_DOLLARS),
                "y": column("mean_wait_time", **time_axis("least mean wait", table["mean_wait_time"])),
                "tooltip": [
                    column("budget_usd", format=",.0f", title="US$"),
                    *({"field": name, "type": "nominal", "title": title} for name, title in (
                        ("servers", "package"), ("wait", "mean wait"), ("saved", "less than one step before"))),
                ],
            },
    }  # fmt: skip
    return table[table["package_id"] != table["package_id"].shift()], spec
