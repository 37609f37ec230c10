"""The report's section on the speeds of applications."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from procure.page.html import render
from procure.page.names import servers
from procure.recommender.application_speeds import SpeedSensitivity


def section(found: SpeedSensitivity) -> Markup:
    """Return the section as HTML."""
    rows = found.table.to_dict(orient="records")
    return render(
        Path(__file__).with_name("applications.html"),
        rows=[row | {"servers": servers(str(row["first"]))} for row in rows],
        lines=found.sentences(),
    )
