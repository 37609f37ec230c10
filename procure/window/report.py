"""A comparison of methods as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from markupsafe import Markup

from procure.page.html import render, write_page
from procure.page.svg import BLUE, figure, inline, literal
from procure.text import counted, duration
from procure.window.compare import Comparison


def write_report(comparison: Comparison, path: str | Path, about: str, driver: str) -> Path:
    """Write the report, whole or not at all; ``about`` says what was compared, ``driver`` what drove the system."""
    text = render(
        Path(__file__).with_name("report.html"),
        about=about,
        lines=_answer(comparison.table),
        c=comparison,
        driver=driver,
        chart=_chart(comparison),
        counted=counted,
    )
    return write_page(path, text)


def _answer(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Name the method whose placements are nearest together, and the quickest.

    Each sentence with the section that it rests on.
    """
    best = table.loc[table["mean_cost_code"].idxmin()]
    quick = table.loc[table["mean_seconds"].idxmin()]
    nearest = f"{best['method']} keeps jobs together best: {best['mean_cost_code']:,.1f} hops a window on average"
    if quick["method"] == best["method"]:
        quickest = f"{quick['method']} is also quickest, {duration(quick['mean_seconds'])} a window"
    else:
        quickest = (
            f"{quick['method']} is quickest, {duration(quick['mean_seconds'])} a window; {best['method']} takes "
            f"{duration(best['mean_seconds'])}"
        )
    return [(nearest, "windows"), (quickest, "windows")]


def _chart(comparison: Comparison) -> Markup:
    table = comparison.table
    made, axes = figure(7.2, 0.6 + 0.35 * len(table))
    rows = range(len(table))
    axes.barh(rows, table["mean_cost_code"], color=BLUE)
    axes.set_yticks(rows, [literal(name) for name in table["method"]])
    axes.invert_yaxis()
    axes.set_xlabel("mean cost of a window (code)")
    return inline(made, "cost", "Mean cost of a window by method")
