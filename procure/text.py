"""Numbers and names in sentences, and amounts of money and time that people write."""

from __future__ import annotations

import difflib
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import quote

NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:_\d+)*(?:\.\d*)?(?:[eE][-+]?\d{1,3})?|\.\d+(?:[eE][-+]?\d{1,3})?)"
"""A number of at least 0; a comma separates thousands only, so that a decimal comma is an error."""

MONEY_UNITS = {"k": 1_000, "K": 1_000, "m": 1_000_000, "M": 1_000_000, "USD": 1}
TIME_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CURRENCY = r"(?:US\s?\$|USD?|\$)?"
_MONEY = re.compile(rf"(-?)\s*+{_CURRENCY}\s*+(-?)({NUMBER})\s*+([kKmM]?)\s*+(?:USD|\$)?")
_SECONDS = re.compile(rf"({NUMBER})\s*({'|'.join(TIME_UNITS)})?")
_CLOCK = re.compile(r"(?:(\d{1,12})-)?(?:(?:(\d{1,12}):)?(\d{1,12}):)?(\d{1,15})(?:\.\d+)?")
_NAMED = 3
_LONGEST_NAME = 80


def number(text: str) -> Decimal:
    """Return the exact value of a text that `NUMBER` matches."""
    return Decimal(text.replace(",", "").replace("_", ""))


def money(text: str) -> float:
    """Read US$: ``1000000``, ``1_000_000``, ``$1,000,000``, ``USD 6960.50``, ``1.2M``, ``900k``; else a ValueError."""
    match = _MONEY.fullmatch(text.strip())
    if match is None or (match[1] and match[2]):
        raise ValueError(f"{short(text)} is no amount in US$; write 1000000, $1,000,000 or 1.2M")
    amount = float(number(match[3]) * MONEY_UNITS.get(match[4], 1))
    return -amount if match[1] or match[2] else amount


def seconds(text: str) -> float:
    """Read a length of time: ``3600``, ``90m``, ``2 h``, ``1.5d``, or as `clock_seconds` does; else a ValueError."""
    if match := _SECONDS.fullmatch(text.strip()):
        length = float(number(match[1]) * TIME_UNITS[match[2] or "s"])
        if not math.isfinite(length):
            raise ValueError(f"{short(text)} is longer than any time that can be counted")
        return length
    return clock_seconds(text.strip())


def clock_seconds(text: str) -> float:
    """Read a length of time as Slurm writes it: ``D-HH:MM:SS``, ``HH:MM:SS``, ``MM:SS``, ``D-HH``, ``D-HH:MM``."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{short(text)} is not a length of time such as 8:00:00, 2-00:00:00, 90m, 2h or 1d")
    days, hours, minutes, last = match.groups()
    if days and hours is None:  # after days, what is left out stands at the end; otherwise at the beginning
        hours, minutes, last = (last, 0, 0) if minutes is None else (minutes, last, 0)
    return float(int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(last))


def counted(n: int, noun: str, plural: str = "") -> str:
    """Write a count with its noun: ``1 job``, ``1,200 jobs``; ``plural`` where it is not the noun and an s."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def be(n: int) -> str:
    """Return the verb for ``n`` things: ``is`` or ``are``."""
    return "is" if n == 1 else "are"


def listed(names: Sequence[str]) -> str:
    """Join up to four names, else the first three and the number of the others: ``mon, tue, wed and 22 more``."""
    if len(names) <= _NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"


def joined(parts: Sequence[str]) -> str:
    """Join with commas and a last ``and``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def short(value: object, most: int = 60) -> str:
    """Write a value as code does; of a long one the beginning, and how long it is."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 20]}… ({len(text):,} characters)"


_WANTED = {
    "bool": "true or false",
    "date": "a date such as 2021-05-04",
    "decimal": "a number",
    "dict": "a table",
    "finite": "a finite number",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a table",
    "path": "a file name",
    "string": "text in quotes",
    "tuple": "a list",
}
_BOUNDS = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}


def _needed(detail: Mapping[str, Any]) -> str:
    kind, limits = detail["type"], detail.get("ctx", {})
    for bound, words in _BOUNDS.items():
        if bound in limits:
            limit = limits[bound]
            said = f"{limit:,.0f}" if isinstance(limit, int | float) and limit == round(limit) else limit
            return f"{words} {said} is {'allowed' if bound == 'le' else 'needed'}"
    if kind == "literal_error":
        return f"allowed: {limits['expected']}"
    if kind in ("too_short", "too_long"):
        few = kind == "too_short"
        n = limits["min_length" if few else "max_length"]
        return f"at least {n:,} {be(n)} needed" if few else f"at most {n:,} {be(n)} allowed"
    if kind == "string_too_long":
        return f"at most {limits['max_length']} characters are allowed"
    if kind == "string_pattern_mismatch":
        return "letters, digits, '.', '_' and '-' are allowed, a letter or digit first"
    wanted = _WANTED.get(kind.split("_")[0])
    return f"{wanted} is needed" if wanted else detail["msg"][0].lower() + detail["msg"][1:]


def given_and_needed(detail: Mapping[str, Any]) -> str:
    """Say what was given and what is needed, where pydantic found a value of the wrong kind or size."""
    return f"{short(detail['input'])} was given; {_needed(detail)}"


def file_name(label: str) -> str:
    """Return a label as part of a file's name: unusual characters as ``%2F``, a long one cut, with its digest."""
    quoted = quote(label, safe=":=,@+")
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    return f"{quoted[: _LONGEST_NAME - 17]}-{hashlib.sha256(label.encode()).hexdigest()[:16]}"


def nearest(word: str, legal: Iterable[str], n: int = 3) -> str:
    """Name the legal names most similar to a mistyped one, or all of them if none is similar."""
    names = [str(name) for name in legal]
    close = difflib.get_close_matches(word, names, n=n, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names) or 'none'}"


_TWO_UNITS = (
    ((60, "min"), (1, "s"), 3600.0),
    ((3600, "h"), (60, "min"), 172_800.0),
    ((86_400, "d"), (3600, "h"), float("inf")),
)
"""The unit, the one below it, and below how many seconds a length of time is written in these."""


def duration(seconds: float | None) -> str:
    """Write a length of time for people, in at most two units: 7.3 s, 42 s, 3 min 30 s, 7 h 12 min, 12 d 2 h."""
    if seconds is None or seconds != seconds:
        return "–"
    size = abs(seconds)
    if size < 9.95:
        return f"{seconds:.1f} s" if size >= 0.05 else f"{1000 * seconds:.2g} ms" if size else "0 s"
    sign = "-" if seconds < 0 else ""
    if size < 119.5:
        return f"{seconds:.0f} s"
    (large, unit), (small, rest) = next(
        (first, second) for first, second, below in _TWO_UNITS if round(size / second[0]) * second[0] < below
    )
    whole, part = divmod(round(size / small), large // small)
    return f"{sign}{whole:,} {unit}" + (f" {part} {rest}" if part else "")


def roughly(seconds: float) -> str:
    """Write a length of time as people say it: at once, 20 s, 14 min, 1 h 40 min, 7 h, 2.5 days, 12 days."""
    if seconds < 2.5:
        return "at once"
    if seconds < 57.5:
        return f"{5 * round(seconds / 5)} s"
    minutes = max(round(seconds / 60), 1)
    if minutes < 60:
        return f"{minutes} min"
    if seconds < 5.9 * 3600:
        hours, tens = divmod(round(seconds / 600), 6)
        return f"{hours} h" + (f" {10 * tens} min" if tens else "")
    if seconds < 47.5 * 3600:
        return f"{round(seconds / 3600)} h"
    if seconds >= 2 * 31_557_600:
        return f"{seconds / 31_557_600:,.0f} years"
    days = round(seconds / 43_200) / 2 if seconds < 9.75 * 86_400 else round(seconds / 86_400)
    return f"{days:,g} days"


def format_value(value: Any, unit: str = "") -> str:
    """Write one value for people, its unit only where that is part of the number: ``2 h 24 min``, ``93.0%``.

    Numbers have three digits that count, and from 100 on no decimals; US$ below that have cents. What is unknown is a
    dash, what is 0 or 1 a no or a yes.
    """
    value = plain(value)
    if value is None:
        return "–"
    if isinstance(value, bool) or unit == "0 or 1":
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(format_value(one, unit) for one in value)
    if isinstance(value, dict):
        return ", ".join(f"{printable(key)} {format_value(one)}" for key, one in value.items())
    if not isinstance(value, int | float):
        return printable(str(value))
    if unit == "s":
        return duration(value)
    if unit == "share":
        return f"{value:.1%}"
    size = abs(value)
    if size >= 100 or value == round(value):
        return f"{value or 0:,.0f}"
    if unit.startswith("US$") and size >= 1:
        return f"{value:,.2f}"
    return f"{value:.3g}" if size >= 1e-4 else f"{value:.2g}"


def with_unit(value: float, unit: str = "") -> str:
    """Write a value with its unit within a sentence, e.g. ``4 h`` or ``US$ 900,000``."""
    if value != value:
        return "unknown"
    if unit in ("s", "share"):
        return format_value(value, unit).replace("%", " %")
    whole = abs(value) >= 1000 or value == round(value)
    number = f"{value:,.0f}" if whole else f"{value:,.4g}"
    if unit.startswith("US$"):
        return f"US$ {number if whole else f'{value:,.2f}'}{unit.removeprefix('US$')}"
    return f"{number} {unit}".rstrip()


# All of C0, DEL and C1, and the marks that turn the direction of writing.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str, kept: str = "") -> str:
    """Return text that a terminal shows and does not obey: control characters as ``\\x1b``, but for those kept."""
    return _CONTROL.sub(lambda match: match[0] if match[0] in kept else ascii(match[0])[1:-1], text)


def plain(value: Any) -> Any:
    """Turn NumPy and pandas scalars, and what JSON lacks (NaN, infinity, NA), into plain JSON values."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def toml(value: Any) -> str:
    """Write a value on one line as TOML does."""
    if isinstance(value, Mapping):
        keys = [key if re.fullmatch(r"[\w-]+", key, re.ASCII) else json.dumps(key, ensure_ascii=False) for key in value]
        return f"{{ {', '.join(f'{key} = {toml(one)}' for key, one in zip(keys, value.values(), strict=True))} }}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, ensure_ascii=False)


def limit_note(kill_at_limit: bool, n_killed: Mapping[str, int], n_jobs: int) -> str:
    """Say whether jobs ended at their limit, and how many of a workload's were cut, ``n_killed`` by policy."""
    if not kill_at_limit:
        return "jobs run on beyond their limit, none is cut (--kill-at-limit ends them there)"
    how_many = ", ".join(f"{n:,}{f' under {policy}' if len(n_killed) > 1 else ''}" for policy, n in n_killed.items())
    return (
        f"jobs end at their limit, as under a scheduler (--no-kill-at-limit lets them run on): {how_many} "
        f"of {counted(n_jobs, 'job')} {be(max(n_killed.values()))} cut"
    )


class Shown:
    """Base of results: renders ``title``, ``table`` and ``notes`` (a sentence each) as text or, in a notebook, HTML."""

    def shown(self: Any) -> Any:
        """Return the table for people."""
        return self.table

    def summary(self: Any) -> str:
        """Return the table and the notes as text."""
        return as_text(self.title, self.shown(), self.notes)

    def __str__(self: Any) -> str:
        return self.summary()  # type: ignore[no-any-return]

    def __repr__(self: Any) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    def _repr_html_(self: Any) -> str:
        return as_html(self.title, self.shown(), self.notes)


def as_text(title: str, table: Any, lines: Iterable[str]) -> str:
    """Write a data frame for people: its title, its rows, and a line for each note."""
    rows = table.to_string(index=False, na_rep="–")
    return "\n".join([title, rows, *(f"- {line}" for line in lines)])


def as_html(title: str, table: Any, lines: Iterable[str]) -> str:
    """Write a data frame for a notebook: its title, its rows, and an item for each note."""
    rows = table.to_html(index=False, na_rep="–", border=0)
    return f"<p><b>{html.escape(title)}</b></p>{rows}{as_html_list(lines)}"


def as_html_list(lines: Iterable[str]) -> str:
    """Write notes for a notebook, an item for each."""
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"
