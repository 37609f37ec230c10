"""The door through which spreadsheets are read: Excel workbooks (openpyxl), OpenDocument spreadsheets (odfdo)."""

from __future__ import annotations

import contextlib
import datetime
import io
import re
import warnings
import zipfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from procure.errors import TableError, reason
from procure.files import read_bytes
from procure.files.read import UNPACKED_BYTES, UNPACKED_RATIO
from procure.offers.cells import Cell, Sheet, address, numbers, visible

SUFFIXES = (".xlsx", ".xlsm", ".ods")
MOST_ROWS, MOST_COLUMNS = 5_000, 300
"""Of a sheet, so many rows and columns are read."""
_OLD = b"\xd0\xcf\x11\xe0"
"""What an old or an encrypted workbook begins with."""
_MARKS = {"[Content_Types].xml", "mimetype"}
"""Parts of an Excel workbook, of an OpenDocument spreadsheet."""
UNCALCULATED = "a formula without a value"
AUTHOR = "procure"
"""Who wrote the notes of the template."""
_ERRORS = re.compile(r"#(REF|N/A|VALUE|DIV/0|NAME|NUM|NULL|SPILL|CALC)[!?]?|Err:\d+", re.IGNORECASE)


def is_workbook(path: Path) -> bool:
    """Tell by its name, or by its first bytes, whether `read_workbook` reads a file, or refuses it."""
    if path.suffix.lower() in SUFFIXES:
        return True
    if not path.is_file():
        return False
    with contextlib.suppress(OSError, zipfile.BadZipFile), path.open("rb") as stream:
        first = stream.read(4)
        return first == _OLD or (first == b"PK\3\4" and bool(_parts(zipfile.ZipFile(stream)) & _MARKS))
    return False


def _parts(packed: zipfile.ZipFile) -> set[str]:
    return {entry.filename for entry in packed.infolist()}


def read_workbook(path: Path) -> list[Sheet]:
    """Read every sheet of a spreadsheet file, and tell which are hidden.

    One that is damaged, encrypted, unpacks to far more than its size, or has a sheet beyond the limits is an error.
    """
    content = read_bytes(path)
    if content[:4] == _OLD:
        raise TableError(
            f"{path}: is a workbook in the old .xls format, or encrypted; save it as .xlsx without a password"
        )
    try:
        parts = _check_size(path, content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # openpyxl warns of extensions of a sheet that do not matter here
            grids = _from_ods(content) if "mimetype" in parts else _from_xlsx(content)
    except (TableError, MemoryError):
        raise
    except Exception as error:  # the libraries raise whatever they meet in a damaged file
        raise TableError(f"{path}: cannot be read as a spreadsheet: {reason(error)}") from None
    return grids


def _check_size(path: Path, content: bytes) -> set[str]:
    """Return the names of the parts of a spreadsheet."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            unpacked, parts = sum(entry.file_size for entry in packed.infolist()), _parts(packed)
    except zipfile.BadZipFile:
        raise TableError(f"{path}: is damaged, or no .xlsx or .ods whatever its name says; save it anew") from None
    if not parts & _MARKS:
        raise TableError(f"{path}: is a packed file without a spreadsheet in it")
    most = max(UNPACKED_BYTES, UNPACKED_RATIO * len(content))
    if unpacked > most:
        raise TableError(
            f"{path}: its {len(content):,} bytes unpack to {unpacked:,}, more than the {most:,} of a spreadsheet "
            "of this size; if it is what it should be, save the sheet as .csv"
        )
    return parts


def _too_large(sheet: str) -> TableError:
    return TableError(f"sheet {sheet}: has more than {MOST_ROWS:,} rows or {MOST_COLUMNS} columns with content")


def _from_xlsx(content: bytes) -> list[Sheet]:
    from openpyxl import load_workbook

    values = load_workbook(io.BytesIO(content), data_only=True)
    formulas = load_workbook(io.BytesIO(content))
    return [
        _xlsx_sheet(sheet, formulas[sheet.title]) if sheet.sheet_state == "visible" else _hidden(sheet.title)
        for sheet in values.worksheets
    ]


def _hidden(name: str) -> Sheet:
    return Sheet(name, [], [(Cell(""), "the sheet is hidden, and so is not read")])


def _xlsx_sheet(sheet: Any, formulas: Any) -> Sheet:
    # Formats reach to the last row of many sheets: what counts is where content ends.
    limits = {"max_row": min(sheet.max_row, MOST_ROWS), "max_col": min(sheet.max_column, MOST_COLUMNS)}
    rows = []
    for row, sources in zip(sheet.iter_rows(**limits), formulas.iter_rows(**limits), strict=True):
        rows.append([_xlsx_cell(cell, source) for cell, source in zip(row, sources, strict=True)])
    beyond = (sheet.max_row > MOST_ROWS and any(not cell.is_empty for cell in rows[-1])) or (
        sheet.max_column > MOST_COLUMNS and any(not row[-1].is_empty for row in rows)
    )
    if beyond:
        raise _too_large(sheet.title)
    hidden_columns: set[int] = set()
    for one in sheet.column_dimensions.values():
        if (one.hidden or one.width == 0) and one.min is not None:
            hidden_columns.update(range(one.min - 1, min(one.max, MOST_COLUMNS)))
    hidden_rows = {n - 1 for n, one in sheet.row_dimensions.items() if one.hidden or one.height == 0}
    for one in sheet.merged_cells.ranges:
        _merge(rows, one.min_row - 1, one.min_col - 1, one.max_row - 1, one.max_col - 1)
    found = visible(sheet.title, rows, hidden_rows, hidden_columns)
    found.notes = [
        (Cell(cell.coordinate), f"has a note that is not read: {' '.join(cell.comment.text.split())}")
        for row in sheet.iter_rows(**limits)
        for cell in row
        if getattr(cell, "comment", None) is not None and cell.comment.author != AUTHOR
    ]
    return found


def _merge(rows: list[list[Cell]], top: int, left: int, bottom: int, right: int) -> None:
    """Mark the cells of a merged range: of one over several rows nobody knows whether its value is each row's."""
    for n in range(top, min(bottom + 1, len(rows))):
        for place in range(left, min(right + 1, len(rows[n]))):
            cell = rows[n][place]
            if (n, place) != (top, left):
                rows[n][place] = replace(cell, value=None, problem="", is_covered=True)
            elif bottom > top and cell.is_number:
                said = f"{cell.text} is merged over {bottom - top + 1} rows, and may be of each or of all"
                rows[n][place] = replace(cell, problem=said)


def _is_white(cell: Any) -> bool:
    """Tell whether a cell's text is white, and the cell is, too."""
    font, fill = getattr(cell, "font", None), getattr(cell, "fill", None)
    if font is None or not _says_white(font.color):
        return False
    return fill is None or fill.fill_type is None or (fill.fill_type == "solid" and _says_white(fill.fgColor))


def _says_white(color: Any) -> bool:
    if color is None:
        return False
    if color.type == "theme":
        return color.theme == 0 and (color.tint or 0) >= 0
    return color.type == "rgb" and str(color.rgb)[-6:].upper() == "FFFFFF"


def _xlsx_cell(cell: Any, source: Any) -> Cell:
    where, value, form = cell.coordinate, cell.value, getattr(cell, "number_format", None) or ""
    if source.data_type == "f" and value is None:
        return Cell(where, problem=UNCALCULATED)
    if cell.data_type == "e" or (isinstance(value, str) and _ERRORS.fullmatch(value.strip())):
        return Cell(where, problem=str(value))
    if isinstance(value, datetime.timedelta | datetime.time):
        value = str(value)
    font = getattr(cell, "font", None)
    if value is not None and font is not None and font.strike:
        return Cell(where, problem=f"{value} (struck out)")
    if value is not None and (_is_white(cell) or re.fullmatch(r";+", form)):
        return Cell(where, problem=f"{value} (not seen: white on white, or hidden by its format)")
    if isinstance(value, str) and "@" in form and form.strip() != "@":
        return Cell(where, problem=f"{value} is shown with words of its format, {form!r}")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return Cell(where, value)
    if re.search(r"\[[<>=]", form):
        return Cell(where, problem=f"{value} is shown by a condition of its format, {form!r}")
    unit, is_divided = _unit_of_format(form)
    if is_divided:
        return Cell(where, problem=f"{value} is shown in thousands")
    return Cell(where, value, unit)


_LITERAL = re.compile(r'"([^"]*)"|\[\$([^\]-]*)(?:-[^\]]*)?\]|\\(.)|[_*].|([€£¥$%])')


def _unit_of_format(text: str) -> tuple[str, bool]:
    """Return the unit that a number format writes beside a number, such as ``€``, and whether it divides by thousands.

    What stands behind ``_`` is a gap as wide as it, and what stands behind ``*`` fills the cell: neither is a unit.
    """
    first = text.split(";")[0]
    if first == "General":
        return "", False
    unit = " ".join("".join("".join(one) for one in _LITERAL.findall(first)).split())
    match = re.search(r"[0#?](,+)(?![0#?])", re.sub(r'"[^"]*"', "", first))
    return "ZAR" if unit == "R" else unit, match is not None


def _from_ods(content: bytes) -> list[Sheet]:
    from odfdo import Document

    document = Document(io.BytesIO(content))
    body: Any = document.body
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        held = [name for name in ("content.xml", "styles.xml") if name in packed.namelist()]
    parts: list[Any] = [document.get_part(name) for name in held]
    elements = [one for part in parts for one in part.get_elements("//style:style")]
    styles = [(str(one.get_attribute("style:name")), one.serialize()) for one in elements]
    struck = {name for name, text in styles if re.search(r'text-line-through-(style|type)="(?!none)', text)}
    unseen = {name for name, text in styles if 'table:display="false"' in text}
    return [_hidden(table.name or "") if table.style in unseen else _ods_sheet(table, struck) for table in body.tables]


def _ods_sheet(table: Any, struck: set[str]) -> Sheet:
    hidden_columns: set[int] = set()
    column = 0
    for one in table.xpath(".//table:table-column"):
        repeated = one.repeated or 1
        if one.get_attribute("table:visibility") in ("collapse", "filter"):
            hidden_columns.update(range(column, min(column + repeated, MOST_COLUMNS)))
        column += repeated
    rows: list[list[Cell]] = []
    hidden_rows: set[int] = set()
    merged: list[tuple[int, int, int, int]] = []
    notes: list[tuple[Cell, str]] = []
    for element in table.xpath(".//table:table-row"):
        repeated = int(element.get_attribute("table:number-rows-repeated") or 1)
        elements = element.xpath("table:table-cell | table:covered-table-cell")
        cells = _ods_row(elements, len(rows), merged, struck)
        if not cells and repeated > MOST_ROWS:  # the empty rest of a sheet
            break
        for one in element.xpath(".//office:annotation"):
            said = f"has a note that is not read: {' '.join(one.text_recursive.split())}"
            notes.append((Cell(f"row {len(rows) + 1}"), said))
        for _ in range(repeated):
            if len(rows) >= MOST_ROWS:
                raise _too_large(table.name or "")
            if element.get_attribute("table:visibility") in ("collapse", "filter"):
                hidden_rows.add(len(rows))
            rows.append([replace(c, address=address(len(rows), n)) for n, c in enumerate(cells)])
    for one in merged:
        _merge(rows, *one)
    found = visible(table.name or "", rows, hidden_rows, hidden_columns)
    found.notes = notes
    return found


def _ods_row(elements: list[Any], row: int, merged: list[tuple[int, int, int, int]], struck: set[str]) -> list[Cell]:
    """Return the cells of a row up to its last with content; add the ranges that begin in it to ``merged``."""
    cells: list[Cell] = []
    for element in elements:
        repeated = int(element.get_attribute("table:number-columns-repeated") or 1)
        down = int(element.get_attribute("table:number-rows-spanned") or 1)
        right = int(element.get_attribute("table:number-columns-spanned") or 1)
        if down > 1 or right > 1:
            merged.append((row, len(cells), row + down - 1, len(cells) + right - 1))
        cell = _ods_cell(element)
        within = [str(one.get_attribute("text:style-name")) for one in element.xpath(".//text:span")]
        if {element.get_attribute("table:style-name"), *within} & struck and not cell.is_empty:
            cell = replace(cell, value=None, problem=f"{cell.text} (struck out)")
        if cell.is_empty and repeated > MOST_COLUMNS:
            break
        if len(cells) + repeated > MOST_COLUMNS:
            if not cell.is_empty:
                raise _too_large("")
            break
        cells += [cell] * repeated
    while cells and cells[-1].is_empty:
        cells.pop()
    return cells


def _ods_cell(element: Any) -> Cell:
    kind = element.get_attribute("office:value-type") or ""
    shown = " ".join(one.text_recursive for one in element.xpath("text:p")).strip()
    if _ERRORS.fullmatch(shown) or element.get_attribute("calcext:value-type") == "error":
        return Cell("", problem=shown or "#ERROR")
    if kind in ("float", "currency", "percentage"):
        return _ods_number(element, float(element.get_attribute("office:value") or "nan"), shown)
    if kind == "date":
        with contextlib.suppress(ValueError):
            return Cell("", datetime.date.fromisoformat(str(element.get_attribute("office:date-value"))[:10]))
    if kind == "boolean":
        return Cell("", element.get_attribute("office:boolean-value") == "true")
    if not kind and element.get_attribute("table:formula"):
        return Cell("", problem=UNCALCULATED)
    return Cell("", shown or None)


def _ods_number(element: Any, value: float, shown: str) -> Cell:
    """Return the number that a cell holds, with the unit that it shows; what it shows must be the number, rounded."""
    unit = re.sub(r"[-+\d.,'’\s\u00a0\u202f\u2009]", "", shown)
    digits = re.search(r"\d[\d.,'’\s\u00a0\u202f\u2009]*", shown)
    if digits is not None and unit != "%":
        held = Decimal(str(abs(value)))
        shown_as = [(one, Decimal(10) ** int(one.as_tuple().exponent)) for one in numbers(digits[0].strip())]
        if all(abs(one - held) > step * Decimal("0.5000001") for one, step in shown_as):
            return Cell("", problem=f"{value:.12g} is shown as {shown!r}")
    own = str(element.get_attribute("office:currency") or "")
    return Cell("", int(value) if value == int(value) else value, own or unit)
