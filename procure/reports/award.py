"""The report's section on the award matrix."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from procure.page.html import render
from procure.page.names import servers
from procure.recommender.award import AwardMatrix

_MOST_ROWS = 30


def section(found: AwardMatrix) -> Markup:
    """Return the section as HTML."""
    rules = found.award
    how = (
        "relative to the best offer"
        if rules.rule == "relative"
        else f"all points for the best, none from {rules.zero_at:g} times that on"
    )
    if rules.scale:
        how += f"; {', '.join(rules.scale)} between stated values"
    rows = found.table.head(_MOST_ROWS).to_dict(orient="records")
    return render(
        Path(__file__).with_name("award.html"),
        rule=how,
        weights=rules.weights,
        rows=[row | {"servers": servers(str(row["package_id"]))} for row in rows],
        lines=[*found.sentences(), *found.notes],
    )
