"""A page as PDF: WeasyPrint numbers the pages in the contents, which browsers cannot."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from procure.errors import TableError
from procure.files import whole_file


def check_pdf() -> None:
    """Raise `TableError` if WeasyPrint is missing."""
    if find_spec("weasyprint") is None:
        raise TableError("a PDF needs WeasyPrint: pip install 'procure-hpc[pdf]'; or print the HTML from a browser")


def write_pdf(path: str | Path, html: str) -> Path:
    """Write a page as PDF, whole or not at all; nothing outside the page is read.

    Raises
    ------
    TableError
        WeasyPrint or a library of its is missing, or the file cannot be written.
    """
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
