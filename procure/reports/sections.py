"""The report's sections that stand on a result of their own: how sure, why, the days, the front, the award matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.evaluation.many_days import Days
from procure.explanation.package import PackageExplanation
from procure.explanation.wording import comparison_sentences, sentences
from procure.objectives import Quantity
from procure.page.html import render
from procure.page.names import servers
from procure.recommender.award import AwardMatrix
from procure.reports import charts

_MOST_OFFERS = 30
_MOST_NODES = 8
_MOST_ON_FRONT = 10
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Section:
    """A part of the evidence: the id and title of its heading, and its HTML; empty = it does not appear."""

    id: str
    title: str
    html: Markup


def sureness(
    table: pd.DataFrame, lines: Sequence[str], unit: str, n_draws: int, objective: str = "mean wait"
) -> Markup:
    """Return the section on how sure the list is; empty for a single package, without a chart where no rank is known.

    Parameters
    ----------
    table, unit, n_draws
        As of `procure.recommender.confidence.Confidence`.
    lines
        What they amount to.
    objective
        What the list is in the order of.
    """
    if len(table) < 2:
        return Markup()
    is_known = bool(table["alike"].head(charts.MOST_RANGES).notna().any())
    return render(
        _FOLDER / "sureness.html",
        is_known=is_known,
        n_draws=n_draws,
        objective=objective,
        unit=unit,
        lines=lines,
        chart=charts.rank_ranges(table) if is_known else "",
    )


def why(explanations: Sequence[PackageExplanation]) -> Markup:
    """Return the section on why the first package, against the next where there is one; empty without any."""
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
        lacked={name: charts.lacked(one, name) for name, one in first.bottlenecks.items() if one.total_seconds},
        marginal=first.marginal.head(_MOST_NODES).to_dict(orient="records"),
    )


def days(days: Days) -> Markup:
    """Return the section on many days: the waits on each; empty for fewer than two, or nothing simulated on all."""
    if len(days.names) < 2 or not days.simulated.any():
        return Markup()
    return render(_FOLDER / "days.html", waits=charts.waits_by_day(days))


def front(
    front: pd.DataFrame,
    axes: Sequence[Quantity],
    values: np.ndarray,
    simulated: np.ndarray,
    recommended: int,
    package_id: str,
) -> Markup:
    """Return the section on the front; empty where there is no package. The first choice is in picture and table.

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
    keep = front["knee"].to_numpy(dtype=bool) | is_first
    even = np.linspace(0, len(front) - 1, min(len(front), _MOST_ON_FRONT)).round().astype(int)
    shown = front.iloc[sorted({*even.tolist(), *np.flatnonzero(keep).tolist()})]
    if not is_first.any():
        figures = dict(zip([axis.name for axis in axes], values[recommended], strict=True))
        first = {"package_id": package_id, "simulated": simulated[recommended], "knee": False} | figures
        shown = pd.concat([pd.DataFrame([first]), shown], ignore_index=True)
    return render(
        _FOLDER / "front.html",
        axes=axes,
        names=[charts.name_of(axis) for axis in axes],
        headings=[charts.heading_of(axis) for axis in axes],
        n_front=len(front),
        n_packages=len(values),
        n_simulated=int(simulated.sum()),
        is_on_front=(front[[axis.name for axis in axes]].to_numpy() == values[recommended]).all(axis=1).any(),
        chart=charts.front(front, axes, values, recommended),
        rows=[
            row | {"servers": servers(row["package_id"]), "first": row["package_id"] == package_id}
            for row in shown.to_dict(orient="records")
        ],
    )


def award(found: AwardMatrix) -> Markup:
    """Return the section on the award matrix."""
    rules = found.award
    how = (
        "relative to the best offer"
        if rules.rule == "relative"
        else f"all points for the best, none from {rules.zero_at:g} times that on"
    )
    if rules.scale:
        how += f"; {', '.join(rules.scale)} between stated values"
    rows = found.table.head(_MOST_OFFERS).to_dict(orient="records")
    return render(
        _FOLDER / "award.html",
        rule=how,
        weights=rules.weights,
        rows=[row | {"servers": servers(str(row["package_id"]))} for row in rows],
        lines=[*found.sentences(), *found.notes],
    )
