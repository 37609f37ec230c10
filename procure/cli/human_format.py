"""How a table's heads and cells are written for people: words, lengths of time, whole dollars, no false precision."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from procure.page.names import told
from procure.text import duration, plain, printable


def head(name: str, unit: str | None = None) -> tuple[str, str]:
    """Return a column's name in words, and the unit of its cells.

    Parameters
    ----------
    name
        As JSON has it: ``mean_wait_time``, ``price_usd``, ``n_jobs``; or words already.
    unit
        Where the name does not tell it: ``s``, ``US$``, ``share`` or another; ``""`` for plain numbers.
    """
    text, known = told(name)
    known = known if unit is None else unit
    shown = known if known in ("US$", "GB", "MB", "W", "kWh/year") and known != text else ""
    return f"{text} {shown}".rstrip(), known


def cells(values: pd.Series, unit: str) -> list[str]:
    """Write a column's cells, numbers with as many decimals as the largest of them is worth."""
    if values.dtype.kind not in "iuf" or not unit:
        places = _places(values) if values.dtype.kind == "f" else 3
        return [cell(value, places) for value in values]
    return [amount(value, unit) for value in values]


def amount(value: Any, unit: str) -> str:
    """Write one amount of a unit, the unit itself only where it is part of the number: 2 h 24 min, 93%."""
    value = plain(value)
    if value is None:
        return "–"
    if unit == "s":
        return duration(value)
    if unit == "0 or 1":
        return "yes" if value else "no"
    if unit == "share":
        return f"{value:.1%}"
    if unit.startswith("US$") and abs(value) >= 1:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
    return number(value)


def number(value: float) -> str:
    """Write a number with at least three digits that count, and no decimals beyond them."""
    if isinstance(value, int) or abs(value) >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}" if abs(value) >= 1e-4 else f"{value:.2g}"


def _places(values: pd.Series) -> int:
    """Return the decimal places of a column: none for whole numbers, fewer the larger the largest is."""
    known = values[values.notna() & ~values.isin([math.inf, -math.inf])].abs()
    if not len(known) or (known == known.round()).all():
        return 0
    largest = float(known.max())
    most = 3 if largest < 10 else 2 if largest < 100 else 1 if largest < 1000 else 0
    return next(
        (n for n in range(most) if (values.round(n) == values.round(most)).where(values.notna(), True).all()),
        most,
    )


def cell(value: Any, places: int = 3) -> str:
    """Write one value: thousands separated, floats with ``places`` decimals, a dash for a missing value."""
    value = plain(value)
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.{places}f}"
    if isinstance(value, list):
        return ", ".join(cell(one, places) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{printable(str(key))} {cell(one, places)}" for key, one in value.items())
    return printable(str(value))
