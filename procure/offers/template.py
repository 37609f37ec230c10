"""Spreadsheets that we write: the template of an offer, and tables with heads in bold."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from procure.errors import TableError
from procure.files import whole_file
from procure.offers.headings import KINDS, LINE_NOTES
from procure.offers.workbook import AUTHOR
from procure.schemas import QUOTE

EXAMPLE = "EXAMPLE (delete this row)"
"""The name of the rows that the template shows."""
_EXAMPLE = {column.name: column.example for column in QUOTE.columns} | {"name": EXAMPLE}
QUOTE_NOTES = {
    column.name: column.meaning
    + (f" ({column.unit})" if column.unit else "")
    + ("; required" if column.required else "")
    for column in QUOTE.columns
}


def write_template(path: str | Path) -> Path:
    """Write an empty offer as .xlsx, with notes and drop-downs, or as .csv."""
    path = Path(path)
    if path.suffix == ".csv":
        rows = [QUOTE.names, [_EXAMPLE.get(name, "") for name in QUOTE.names]]
        with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows(rows)
        return path
    if path.suffix != ".xlsx":
        raise TableError(f"{path}: a template is written as .xlsx or .csv")
    from openpyxl import Workbook

    book = Workbook()
    servers: Any = book.active
    servers.title = "Servers"
    _head(servers, QUOTE_NOTES, {column.name for column in QUOTE.columns if column.required})
    servers.append([_value(name, _EXAMPLE.get(name, "")) for name in QUOTE.names])
    _choices(servers, QUOTE.names.index("category") + 1, "compute,bigmem,gpu", strict=False)
    _choices(servers, QUOTE.names.index("mandatory") + 1, "true,false")
    lines = book.create_sheet("Other lines")
    _head(lines, LINE_NOTES, {"kind", "name", "price_usd"})
    lines.append(["network", EXAMPLE, "Vendor", 2, "order", 9500.0, None, None])
    _choices(lines, 1, ",".join(KINDS))
    _choices(lines, 5, "order,node")
    with whole_file(path) as temporary:
        book.save(temporary)
    return path


def _value(name: str, text: str) -> str | float | int | None:
    if not text:
        return None
    if name in QUOTE.by_name and QUOTE.by_name[name].dtype in ("int", "float"):
        with contextlib.suppress(ValueError):
            return int(text) if QUOTE.by_name[name].dtype == "int" else float(text)
    return f"'{text}" if text[0] in "=+-@" else text  # nothing in it runs as a formula


def _head(sheet: Any, columns: dict[str, str], required: set[str]) -> None:
    from openpyxl.comments import Comment
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter

    for number, (name, note) in enumerate(columns.items(), 1):
        cell = sheet.cell(1, number, name)
        cell.font = Font(bold=True)
        if name in required:
            cell.fill = PatternFill("solid", fgColor="FFF2CC")
        cell.comment = Comment(note, AUTHOR)
        sheet.column_dimensions[get_column_letter(number)].width = max(12, len(name) + 3)
    sheet.freeze_panes = "B2"


def _choices(sheet: Any, column: int, choices: str, strict: bool = True) -> None:
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    drop_down = DataValidation(type="list", formula1=f'"{choices}"', allow_blank=True, showErrorMessage=strict)
    sheet.add_data_validation(drop_down)
    letter = get_column_letter(column)
    drop_down.add(f"{letter}2:{letter}500")


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
