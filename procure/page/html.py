"""Render a report: one base template for all, escaping, and nothing outside the file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from procure.files import whole_file
from procure.text import counted, duration, listed

_BASE = Path(__file__).parent


def render(template: Path, **values: object) -> Markup:
    """Render a template, which may extend ``base.html`` and import ``macros.html`` of this folder.

    Parameters
    ----------
    template
        The template file; others are found beside it.
    values
        What it shows. Text is escaped; `markupsafe.Markup`, such as a figure of `procure.page.svg`, is not.
    """
    return Markup(_environment(template.parent).get_template(template.name).render(**values))


def write_page(path: str | Path, text: str) -> Path:
    """Write a page, whole or not at all.

    Raises
    ------
    TableError
        The file cannot be written.
    """
    path = Path(path)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


@cache
def _environment(folder: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _BASE]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "cell": cell,
        "counted": counted,
        "figure": figure,
        "listed": listed,
        "number": lambda value: figure(value, 0),
        "sentence": sentence,
        "share": lambda value: "–" if pd.isna(value) else f"{value:.0%}",
        "wait": duration,
    }
    return environment


def figure(value: float, places: int = 3) -> str:
    """Write a number with thousands separated, or a dash if it is unknown."""
    return "–" if pd.isna(value) else f"{value:,.{places}f}"


def sentence(line: str) -> str:
    """Write a note as a sentence: a capital first, a full stop last."""
    line = line.strip()
    return line[:1].upper() + line[1:] + ("" if line.endswith((".", ":")) else ".")


def cell(value: Any, places: int | None = 3) -> str:
    """Write a value of a table.

    Parameters
    ----------
    places
        Decimal places of floats; None = three below 10, none from there on.
    """
    if pd.isna(value):
        return "–"
    if isinstance(value, float):
        return figure(value, (3 if abs(value) < 10 else 0) if places is None else places)
    return str(value)
