"""Tables that we write as a spreadsheet: values, heads in bold, widths that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from procure.files import whole_file

_WIDEST = 48


def write_book(path: str | Path, sheets: Mapping[str, Sequence[Sequence[object]]]) -> Path:
    """Write sheets of plain values as .xlsx; the first two rows of each are its title and its head.

    Text is written as text, whatever it begins with: no cell becomes a formula. Numbers with cents are shown so.
    """
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)  # type: ignore[arg-type]
    for title, rows in sheets.items():
        _fill(book.create_sheet(title), rows)
    path = Path(path)
    with whole_file(path) as temporary:
        book.save(temporary)
    return path


def _fill(sheet: Any, rows: Sequence[Sequence[object]]) -> None:
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.styles import Font
    from openpyxl.utils import get_column_letter

    widths: dict[int, int] = {}
    for i, row in enumerate(rows, 1):
        for j, value in enumerate(row, 1):
            if value is None or value == "" or value != value:  # NaN is no value
                continue
            cell = sheet.cell(i, j)
            if isinstance(value, str):
                cell.value, cell.data_type = ILLEGAL_CHARACTERS_RE.sub("?", value), "s"
            else:
                plain: Any = value.item() if hasattr(value, "item") else value
                cell.value = plain
                cell.number_format = "#,##0.00" if isinstance(plain, float) else "#,##0"
            cell.font = Font(bold=i <= 2)
            if i > 1:
                widths[j] = max(widths.get(j, 8), min(_WIDEST, len(str(value)) + 4))
    for column, width in widths.items():
        sheet.column_dimensions[get_column_letter(column)].width = width
    sheet.freeze_panes = "A3"
