"""The study file to begin with: every setting shown, with what is known already."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from procure.study.study import study_name
from procure.text import toml

TEMPLATE = Path(__file__).parent / "study_template.toml"


def study_text(
    path: Path,
    quotes: Path,
    budget_usd: float,
    jobs: Path | None = None,
    tz: str | None = None,
    offers: Mapping[str, Any] | None = None,
) -> str:
    """Return a study file's text, every setting shown with its default.

    ``quotes`` and ``jobs`` (None = made-up ones), whose days are of the zone ``tz``, are relative to its folder.
    """
    words = {
        "file": path.name,
        "name": study_name(path),
        "quotes": toml(quotes.as_posix()),
        "budget": f"{budget_usd:_.2f}".removesuffix(".00"),
        "offers": "\n".join(["[offers]", *(f"{key} = {toml(value)}" for key, value in offers.items())])
        if offers
        else "# [offers]",
        "generate": "generate = { seed = 1 }" if jobs is None else "# generate = { seed = 1 }",
        "jobs": '# jobs = "jobs.parquet"' if jobs is None else f"jobs = {toml(jobs.as_posix())}",
        "tz": '# tz = "America/Chicago"' if tz is None else f"tz = {toml(tz)}",
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(words)
