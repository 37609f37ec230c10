"""Numbers and names as sentences hold them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_NAMED = 3


def counted(n: int, noun: str, plural: str = "") -> str:
    """Say how many: ``1 job``, ``1,200 jobs``; ``plural`` where it is not the noun and an s."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def be(n: int) -> str:
    """Return the verb for so many: ``is`` or ``are``."""
    return "is" if n == 1 else "are"


def listed(names: Sequence[str]) -> str:
    """Name all of up to four, else the first three and how many more: ``mon, tue, wed and 22 more``."""
    if len(names) <= _NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"


def nearest(word: str, legal: Iterable[str], n: int = 3) -> str:
    """Say which legal names come nearest to a mistyped one, or all of them if none does."""
    names = [str(name) for name in legal]
    close = difflib.get_close_matches(word, names, n=n, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names) or 'none'}"


def duration(seconds: float | None) -> str:
    """Write a length of time for people: 42 s, 3.5 min, 7.2 h, 12.1 d."""
    if seconds is None or seconds != seconds:
        return "–"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:,.1f} s" if abs(seconds) < 10 else f"{seconds:,.0f} s"


def said(value: float, unit: str = "") -> str:
    """Write a value with its unit, e.g. ``14,400 s`` or ``US$ 900,000``."""
    if value != value:
        return "unknown"
    whole = abs(value) >= 1000 or value == round(value)
    number = f"{value:,.0f}" if whole else f"{value:,.4g}"
    if unit.startswith("US$"):
        return f"US$ {number if whole else f'{value:,.2f}'}{unit.removeprefix('US$')}"
    return f"{value:.1%}" if unit == "share" else f"{number} {unit}".rstrip()
