"""A comparison as one self-contained HTML file: tables, box plots, tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.comparison.side_by_side import TESTED, Comparison
from procure.page.charts import box, records, still, time_axis
from procure.page.html import render, write_page
from procure.page.names import heading, shown, unit_of
from procure.text import counted, duration

_MAIN = (
    "policy rank score mean_wait_time median_wait_time p95_wait_time max_wait_time widest_wait_time "
    "mean_bounded_slowdown makespan "
    "utilization_cpu resource_usage n_completed n_unrunnable n_killed elapsed"
).split()


def write_report(comparison: Comparison, path: str | Path, about: str) -> Path:
    """Write the report, whole or not at all; ``about`` says what was compared."""
    text = render(
        Path(__file__).with_name("report.html"),
        about=about,
        c=comparison,
        lines=_answer(comparison.table, in_parts=not comparison.parts.empty),
        main=comparison.table[_MAIN],
        tests=with_units(comparison.tests),
        spreads=[] if comparison.parts.empty else [_spread(comparison, metric) for metric in TESTED],
        mean_waits=mean_waits,
        every_metric=lambda frame: frame[["policy", "class", *frame.columns.drop(["policy", "class"])]],
    )
    return write_page(path, text)


def _answer(table: pd.DataFrame, in_parts: bool) -> list[tuple[str, str]]:
    """Say under which policy jobs wait least, what the first one gives, and which the ranking puts first.

    Each sentence with the section that it rests on; some are there only where the workload was also taken in parts.
    """
    waits = table["mean_wait_time"]
    if waits.isna().all():
        return [("no job ran under any policy", "side")]
    best, first = table.loc[waits.idxmin()], table.iloc[0]
    spread, apart = ("spread-1", "tests") if in_parts else ("side", "side")
    lines = [(f"jobs wait least under {best['policy']}: {duration(best['mean_wait_time'])} on average", spread)]
    if best["policy"] != first["policy"]:
        lines.append((f"under {first['policy']}, the first one named, {duration(first['mean_wait_time'])}", apart))
    leaders = table.loc[table["rank"] == table["rank"].min(), "policy"].tolist()
    return [
        *lines,
        (f"by wait, slowdown and use of the resources together, {' and '.join(leaders)} comes first", "side"),
    ]


def with_units(tests: pd.DataFrame) -> pd.DataFrame:
    """Write the paired tests for people: differences in the unit of their metric."""
    if tests.empty:
        return tests
    told = tests.copy()
    for name in ("difference", "low", "high"):
        told[name] = [shown(value, unit_of(metric)) for value, metric in zip(tests[name], tests["metric"], strict=True)]
    return told.assign(metric=[heading(one) for one in tests["metric"]])


def box_plots(values: pd.DataFrame, name: str, label: str, whole: np.ndarray) -> Markup:
    """Draw a box per column, and a diamond at the value of the whole workload, as SVG whose ids begin with ``name``."""
    groups = [str(one) for one in values]
    known = [values[one].dropna().to_numpy(float) for one in values]
    rows = [row for group, held in zip(groups, known, strict=True) for row in records(value=held, group=group)]
    every = np.concatenate([*known, whole])
    spec = box(rows, groups, time_axis(label, every) if unit_of(name) == "s" else {"title": label})
    mark = spec.pop("mark")
    diamond = {"type": "point", "shape": "diamond", "filled": True, "size": 70, "color": "black"}
    at = records(value=whole, group=groups, what="the whole workload, as logged")
    shape = {"shape": {"field": "what", "scale": {"range": ["diamond"]}}}
    layers = [
        {"data": spec.pop("data"), "mark": mark},
        {"data": {"values": at}, "mark": diamond, "encoding": shape},
    ]
    return still(name, f"{label} under each policy", spec | {"layer": layers})


def _spread(comparison: Comparison, metric: str) -> dict[str, object]:
    values = comparison.parts.pivot_table(index="part", columns="policy", values=metric)
    values, label = values[list(comparison.table["policy"])], heading(metric)
    return {
        "label": label,
        "drawn": f"{counted(len(values), 'slice')} of the workload, each from an empty system",
        "chart": box_plots(values, metric, label, comparison.table[metric].to_numpy(float)),
    }


def mean_waits(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mean wait, s, of each policy (rows) in each class of jobs (columns)."""
    wide = frame.pivot_table(index="policy", columns="class", values="mean_wait_time", observed=True)
    # A class of which no job ran anywhere is no column of the pivot.
    return wide.reindex(frame["policy"].unique(), columns=frame["class"].unique()).reset_index()
