"""The report's section on what else counts: the wait against the cost, and the packages that nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.objectives import Quantity
from procure.page.html import render
from procure.page.names import servers
from procure.page.svg import BLUE, GREY, ORANGE, RED, differ, figure, inline, wait_axis

_MOST_POINTS = 20_000
_MOST_ROWS = 10


def section(
    front: pd.DataFrame,
    axes: Sequence[Quantity],
    values: np.ndarray,
    simulated: np.ndarray,
    recommended: int,
    package_id: str,
) -> Markup:
    """Return the section as HTML; empty where there is no package. The first choice is in picture and table.

    Parameters
    ----------
    front
        From `procure.recommender.rank.find_front`: the first axis is a wait, the second a cost, the third, if any, is
        drawn as colour.
    axes
        The axes of the front.
    values
        Their values for every package that may be bought, simulated or predicted, float64[packages, axes].
    simulated
        Which of these are simulated.
    recommended, package_id
        The first package of the list: its row among ``values``, and its name.
    """
    if not len(values) or not len(front):
        return Markup()
    is_first = (front["package_id"] == package_id).to_numpy(dtype=bool)
    shown = front.iloc[_thinned(front["knee"].to_numpy(dtype=bool) | is_first)]
    if not is_first.any():
        figures = dict(zip([axis.name for axis in axes], values[recommended], strict=True))
        first = {"package_id": package_id, "simulated": simulated[recommended], "knee": False} | figures
        shown = pd.concat([pd.DataFrame([first]), shown], ignore_index=True)
    return render(
        Path(__file__).with_name("front.html"),
        axes=axes,
        names=[_name(axis) for axis in axes],
        headings=[_heading(axis) for axis in axes],
        n_front=len(front),
        n_packages=len(values),
        n_simulated=int(simulated.sum()),
        is_on_front=(front[[axis.name for axis in axes]].to_numpy() == values[recommended]).all(axis=1).any(),
        chart=chart(front, axes, values, simulated, recommended),
        rows=[
            row | {"servers": servers(row["package_id"]), "first": row["package_id"] == package_id}
            for row in shown.to_dict(orient="records")
        ],
    )


def _thinned(kept: np.ndarray) -> list[int]:
    """Return the rows of a front that are shown: evenly along it, and those that must be."""
    even = np.linspace(0, len(kept) - 1, min(len(kept), _MOST_ROWS)).round().astype(int)
    return sorted({*even.tolist(), *np.flatnonzero(kept).tolist()})


def chart(
    front: pd.DataFrame, axes: Sequence[Quantity], values: np.ndarray, simulated: np.ndarray, recommended: int
) -> Markup:
    """Draw the first axis against the second, the third as colour; front, knee and recommendation marked.

    Nothing where the first axis is the same for all.
    """
    if not differ(values[:, 0]):
        return Markup()
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
    ring = {"s": 110, "facecolors": "none", "edgecolors": ORANGE, "linewidths": 2}
    plot.scatter(knee[axes[1].name], knee[axes[0].name], label="knee", zorder=4, **ring)
    here = values[recommended]
    plot.scatter(here[1], here[0], s=70, color=RED, marker="*", label="recommended", zorder=5)
    wait_axis(plot, "y", float(values[:, 0].min()), float(values[:, 0].max()))
    plot.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    plot.set(xlabel=_heading(axes[1]), ylabel=_name(axes[0]))
    plot.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="upper right")
    return inline(made, "pareto", f"{_name(axes[0])} against {_name(axes[1])} of all packages, and the Pareto front")


def _heading(of: Quantity) -> str:
    return f"{_name(of)}, {of.unit}" if of.unit and of.unit != "s" else _name(of)


def _name(of: Quantity) -> str:
    return {"tco": "cost over the years"}.get(of.name) or of.name.replace("-", " ")
