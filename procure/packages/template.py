"""The spreadsheet that a vendor fills in: columns with notes, drop-downs, an example row; and what was understood."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from procure.errors import TableError
from procure.files import whole_file
from procure.schemas import QUOTE
from procure.sheets.lines import Line
from procure.sheets.notes import LINE_NOTES, QUOTE_NOTES
from procure.sheets.rows import EXAMPLE
from procure.tables import write
from procure.text import listed

_EXAMPLE = {
    "name": EXAMPLE,
    "category": "compute",
    "cpus": "64",
    "mem_gb": "768",
    "gpus": "0",
    "price_usd": "14950.00",
    "vendor": "Vendor",
    "processor": "AMD EPYC 9354",
    "power_w": "780",
    "idle_power_w": "250",
    "rack_units": "1",
    "mandatory": "false",
    "valid_until": "2027-03-31",
    "quote_number": "Q-1",
    "source": "data sheet",
}
_KINDS = "storage,network,rack,installation,delivery,warranty,training,software,support,discount,other"


def write_template(path: str | Path) -> Path:
    """Write an empty offer as .xlsx, with notes and drop-downs, or as .csv.

    Raises
    ------
    TableError
        The name has another ending, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix == ".csv":
        return _write_csv(path, QUOTE.names, [[_EXAMPLE.get(name, "") for name in QUOTE.names]])
    if path.suffix != ".xlsx":
        raise TableError(f"{path}: a template is written as .xlsx or .csv")
    from openpyxl import Workbook

    book = Workbook()
    _server_sheet(book.active)
    _line_sheet(book.create_sheet("Other lines"))
    return _save(book, path)


def write_rows(
    rows: Iterable[dict[str, str]], columns: list[str], path: str | Path, lines: Sequence[Line] = ()
) -> Path:
    """Write rows of text as a quote file: .xlsx, or .csv where the offer has no other lines, which need a second sheet.

    Raises
    ------
    TableError
        The name has another ending, there are lines that a .csv cannot hold, or the file cannot be written.
    """
    path = Path(path)
    if path.suffix == ".csv" and lines:
        raise TableError(
            f"{path}: a quote table in .csv has no place for the order's other lines "
            f"({listed([line.name or line.kind for line in lines])}); write it as .xlsx"
        )
    table = [[row.get(name, "") for name in columns] for row in rows]
    if path.suffix == ".csv":
        return _write_csv(path, columns, table)
    if path.suffix != ".xlsx":
        raise TableError(f"{path}: what was understood is written as .xlsx or .csv")
    from openpyxl import Workbook

    book = Workbook()
    sheet: Any = book.active
    sheet.title = "Servers"
    sheet.append(columns)
    for row in table:
        sheet.append([_value(name, text) for name, text in zip(columns, row, strict=True)])
    if lines:
        more: Any = book.create_sheet("Other lines")
        more.append(list(LINE_NOTES))
    for line in lines:
        usd = None if line.percent is not None else float(line.usd)
        percent = None if line.percent is None else f"{line.percent.normalize():f} %"  # with its sign: 0.5 % is no half
        more.append(
            [
                line.kind,
                _value("", line.name),
                _value("", line.vendor),
                line.quantity,
                line.per,
                usd,
                line.years,
                percent,
            ]
        )
    return _save(book, path)


def _value(name: str, text: str) -> str | float | int | None:
    if not text:
        return None
    if name in QUOTE.by_name and QUOTE.by_name[name].dtype in ("int", "float"):
        try:
            return int(text) if QUOTE.by_name[name].dtype == "int" else float(text)
        except ValueError:
            pass
    return f"'{text}" if text[0] in "=+-@" else text  # nothing in it runs as a formula


def _write_csv(path: Path, columns: list[str], rows: list[list[str]]) -> Path:
    return write(pd.DataFrame(rows, columns=columns, dtype=object), path)


def _save(book: Any, path: Path) -> Path:
    with whole_file(path) as temporary:
        book.save(temporary)
    return path


def _head(sheet: Any, columns: dict[str, str], required: set[str]) -> None:
    from openpyxl.comments import Comment
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter

    for number, (name, note) in enumerate(columns.items(), 1):
        cell = sheet.cell(1, number, name)
        cell.font = Font(bold=True)
        if name in required:
            cell.fill = PatternFill("solid", fgColor="FFF2CC")
        cell.comment = Comment(note, "procure")
        sheet.column_dimensions[get_column_letter(number)].width = max(12, len(name) + 3)
    sheet.freeze_panes = "B2"


def _server_sheet(sheet: Any) -> None:
    sheet.title = "Servers"
    _head(sheet, QUOTE_NOTES, {column.name for column in QUOTE.columns if column.required})
    sheet.append([_value(name, _EXAMPLE.get(name, "")) for name in QUOTE.names])
    _choices(sheet, QUOTE.names.index("category") + 1, "compute,bigmem,gpu", strict=False)
    _choices(sheet, QUOTE.names.index("mandatory") + 1, "true,false")


def _line_sheet(sheet: Any) -> None:
    _head(sheet, LINE_NOTES, {"kind", "name", "price_usd"})
    sheet.append(["network", EXAMPLE, "Vendor", 2, "order", 9500.0, None, None])
    _choices(sheet, 1, _KINDS)
    _choices(sheet, 5, "order,node")


def _choices(sheet: Any, column: int, choices: str, strict: bool = True) -> None:
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    drop_down = DataValidation(type="list", formula1=f'"{choices}"', allow_blank=True, showErrorMessage=strict)
    sheet.add_data_validation(drop_down)
    letter = get_column_letter(column)
    drop_down.add(f"{letter}2:{letter}500")
