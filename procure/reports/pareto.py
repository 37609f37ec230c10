"""The report's section on what else counts: the wait against the cost, and the packages that nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from procure.objectives import Quantity
from procure.page.svg import BLUE, GREY, ORANGE, RED, captioned, figure, inline, wait_axis
from procure.text import duration

_MOST_POINTS = 20_000
_MOST_ROWS = 15


def section(
    front: pd.DataFrame, axes: Sequence[Quantity], values: np.ndarray, simulated: np.ndarray, recommended: int
) -> str:
    """Return the section as HTML; empty where there is no package.

    Parameters
    ----------
    front
        From `procure.recommender.rank.pareto`: the first axis is a wait, the second a cost, the third, if any, is
        drawn as colour.
    axes
        The axes of the front.
    values
        Their values for every package that may be bought, simulated or predicted, float64[packages, axes].
    simulated
        Which of these are simulated.
    recommended
        Row of the first package of the list, among ``values``.
    """
    if not len(values) or not len(front):
        return ""
    chosen = bool((front[[axis.name for axis in axes]].to_numpy() == values[recommended]).all(axis=1).any())
    names = ", ".join(axis.name for axis in axes)
    place = (
        "is on the front" if chosen else "is not on the front: another package is no worse in all of these"
    )
    caption = f"A point is a package: {axes[0].meaning}, against {axes[1].meaning}. {_known(simulated)}"
    return "\n".join(
        [
            "<section>\n<h2>What the wait costs</h2>",
            f"<p>No package beats one on the front in all of {escape(names)}. {len(front):,} of {len(values):,} "
            "packages that may be bought are on it. At the knee, a shorter wait begins to cost much more. "
            f"The first of the list {place}.</p>",
            captioned(chart(front, axes, values, simulated, recommended), caption),
            _table(front, axes),
            "</section>",
        ]
    )


def _known(simulated: np.ndarray) -> str:
    if simulated.all():
        return "All are simulated."
    return f"{int(simulated.sum()):,} are simulated, the waits of the others predicted."


def chart(
    front: pd.DataFrame, axes: Sequence[Quantity], values: np.ndarray, simulated: np.ndarray, recommended: int
) -> str:
    """Draw the first axis against the second, the third as colour; front, knee and recommendation marked."""
    made, plot = figure(7.2, 3.8)
    step = -(-len(values) // _MOST_POINTS)
    shown = values[::step]
    style = {"s": 6, "linewidths": 0, "alpha": 0.5, "rasterized": True}
    if len(axes) > 2:
        drawn = plot.scatter(shown[:, 1], shown[:, 0], c=shown[:, 2], cmap="cividis", **style)
        made.colorbar(drawn, ax=plot, label=_heading(axes[2]), format=lambda value, _: f"{value:,.0f}")
    else:
        plot.scatter(shown[:, 1], shown[:, 0], color=GREY, **style)
    points = front[[axes[1].name, axes[0].name]].to_numpy()
    points = points[np.lexsort(points.T[::-1])]
    line = "-" if len(axes) == 2 else "none"
    plot.plot(*points.T, color=BLUE, marker="o", markersize=3.5, linestyle=line, linewidth=1, label="front")
    knee = front[front["knee"]].iloc[0]
    plot.scatter(
        knee[axes[1].name], knee[axes[0].name], s=110, facecolors="none", edgecolors=ORANGE, linewidths=2,
        label="knee", zorder=4,
    )  # fmt: skip
    plot.scatter(
        values[recommended, 1],
        values[recommended, 0],
        s=70,
        color=RED,
        marker="*",
        label="recommended",
        zorder=5,
    )
    wait_axis(plot, "y", float(values[:, 0].min()), float(values[:, 0].max()))
    plot.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    plot.set_xlabel(_heading(axes[1]))
    plot.set_ylabel(axes[0].name)
    plot.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="upper right")
    return inline(
        made, "pareto", f"{axes[0].name} against {axes[1].name} of all packages, and the Pareto front"
    )


def _table(front: pd.DataFrame, axes: Sequence[Quantity]) -> str:
    """Write the front, thinned evenly where it is long; the knee always."""
    keep = set(np.linspace(0, len(front) - 1, min(len(front), _MOST_ROWS)).round().astype(int))
    keep |= set(np.flatnonzero(front["knee"].to_numpy()))
    head = "".join(f'<th class="n">{escape(_heading(axis))}</th>' for axis in axes)
    rows = []
    for i in sorted(keep):
        one = front.iloc[i]
        cells = "".join(
            f'<td class="n">{duration(one[a.name]) if a.unit == "s" else format(one[a.name], ",.0f")}</td>'
            for a in axes
        )
        known = "simulated" if one["simulated"] else '<span class="mark">predicted</span>'
        servers = escape(", ".join(f"{n} × {name}" for name, n in map(_type, one["package_id"].split(","))))
        mark = ' class="first"' if one["knee"] else ""
        rows.append(
            f"<tr{mark}><td>{servers}{' (knee)' if one['knee'] else ''}</td>{cells}<td>{known}</td></tr>"
        )
    some = "" if len(keep) == len(front) else f" {len(keep)} of its {len(front):,} packages, evenly along it."
    return (
        f'<table class="keep"><caption>The front.{some}</caption>'
        f"<thead><tr><th>servers</th>{head}<th>is</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _type(text: str) -> tuple[str, str]:
    name, _, count = text.rpartition("=")
    return name, count


def _heading(of: Quantity) -> str:
    return f"{of.name}, {of.unit}" if of.unit and of.unit != "s" else of.name
