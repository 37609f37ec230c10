"""Render a report: one base template for all, escaping, and nothing outside the file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from procure._version import __version__
from procure.errors import TableError
from procure.files import whole_file
from procure.page.names import heading, minus, servers, share, shown, unit_of
from procure.text import counted, duration, listed, plain, printable

_BASE = Path(__file__).parent


def render(template: Path, *, script: str = "", **values: object) -> Markup:
    """Render a template, which may extend ``base.html`` and import ``macros.html`` of this folder.

    The page's own ``script`` stands at its end; its content-security policy allows that by its digest, and no other
    script, no event handler in the page's text and no request. Text in the values is escaped; `markupsafe.Markup`, such
    as a picture of `procure.page.charts`, is not.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() if script else ""
    page = _environment(template.parent).get_template(template.name)
    known: dict[str, object] = {
        "script": Markup(script),
        "script_hash": digest,
        "procure_version": __version__,
        "seen": [],
    }
    return Markup(page.render(**known, **values))


def as_json(data: object) -> Markup:
    """Write plain data as JSON to stand inside a ``<script type="application/json">``; NaN becomes null.

    ``<``, ``>`` and ``&`` are written as escapes, so that no name can end the block.
    """
    text = json.dumps(plain(data), allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def write_page(path: str | Path, text: str) -> Path:
    """Write a page, whole or not at all; that the file cannot be written is an error."""
    path = Path(path)
    with whole_file(path) as temporary:
        temporary.write_text(printable(text, kept="\n\r\t"), encoding="utf-8")
    return path


@cache
def _environment(folder: Path) -> jinja2.Environment:
    folders = jinja2.FileSystemLoader([folder, _BASE])
    environment = jinja2.Environment(
        loader=folders, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    filters = (counted, figure, heading, listed, sentence, servers, shown, share, unit_of)
    environment.filters |= {one.__name__: one for one in filters} | {"json": as_json}
    environment.filters["number"] = lambda value: figure(value, 0)
    environment.filters["wait"] = lambda value: minus(duration(value))
    return environment


def figure(value: float, places: int = 3) -> str:
    """Write a number with thousands separated, or a dash if it is unknown."""
    return "–" if pd.isna(value) else minus(f"{value:,.{places}f}")


def sentence(line: str) -> str:
    """Write a note as a sentence: a capital first, a full stop last, a space before per cent."""
    line = re.sub(r"(?<=\d)%", " %", line.strip())
    return line[:1].upper() + line[1:] + ("" if line.endswith((".", ":")) else ".")


def check_pdf() -> None:
    """Raise `TableError` if WeasyPrint is missing."""
    if find_spec("weasyprint") is None:
        raise TableError("a PDF needs WeasyPrint: pip install 'procure-hpc[pdf]'; or print the HTML from a browser")


def write_pdf(path: str | Path, html: str) -> Path:
    """Write a page as PDF, whole or not at all; nothing outside it is read. A library that is missing is an error."""
    check_pdf()
    try:
        import weasyprint
        from weasyprint.urls import URLFetcher
    except (ImportError, OSError) as error:  # OSError: Pango is not installed
        raise TableError(f"a PDF needs WeasyPrint 68 or later, and Pango: {error}") from None
    page = weasyprint.HTML(string=html, url_fetcher=URLFetcher(allowed_protocols=("data",)))
    with whole_file(path) as temporary:
        page.write_pdf(temporary)
    return Path(path)
