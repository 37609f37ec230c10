"""The door through which spreadsheets are read: Excel workbooks (openpyxl), OpenDocument spreadsheets (odfdo)."""

from __future__ import annotations

import contextlib
import datetime
import html
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
from procure.sheets.grid import Cell, Grid, address
from procure.sheets.units import amount_of, numbers

SUFFIXES = (".xlsx", ".xlsm", ".ods")
MOST_ROWS, MOST_COLUMNS = 5_000, 300
"""Of a sheet, so many rows and columns are read."""
_OLD = b"\xd0\xcf\x11\xe0"
"""What an old or an encrypted workbook begins with."""
_MARKS = {"[Content_Types].xml", "mimetype"}
"""Parts of an Excel workbook, of an OpenDocument spreadsheet."""
UNCALCULATED = "a formula without a value"
_ERRORS = re.compile(r"#(REF|N/A|VALUE|DIV/0|NAME|NUM|NULL|SPILL|CALC)[!?]?|Err:\d+", re.IGNORECASE)


def is_workbook(path: Path) -> bool:
    """Tell by its name, or by its first bytes, whether a file is a spreadsheet that `read_grids` reads or refuses."""
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


def read_grids(path: Path) -> list[Grid]:
    """Read every sheet of a spreadsheet file, and tell which are hidden.

    Raises
    ------
    TableError
        The file is damaged, encrypted, unpacks to far more than its size, or has a sheet beyond the limits.
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


def _from_xlsx(content: bytes) -> list[Grid]:
    from openpyxl import load_workbook

    values = load_workbook(io.BytesIO(content), data_only=True, rich_text=True)
    formulas = load_workbook(io.BytesIO(content))
    boxes = [Cell("text box", text) for text in _text_boxes(content)]
    grids = []
    for sheet in values.worksheets:
        if sheet.sheet_state != "visible":
            grids.append(Grid(sheet.title, [], is_hidden=True))
            continue
        grid = _xlsx_grid(sheet, formulas[sheet.title])
        pages = [
            one.text for page in (sheet.oddHeader, sheet.oddFooter) for one in (page.left, page.center, page.right)
        ]
        beside = [Cell("page", text) for text in pages if text and re.search(r"[^\W\d_]{3}", re.sub(r"&\w", "", text))]
        grids.append(replace(grid, rows=[*grid.rows, *([one] for one in beside + boxes)]))
        boxes = []
    return grids


def _text_boxes(content: bytes) -> list[str]:
    """Return the texts of the boxes that are drawn on sheets."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        parts = [
            packed.read(one).decode() for one in packed.namelist() if re.fullmatch(r"xl/drawings/drawing\d+\.xml", one)
        ]
    paragraphs = [one for part in parts for one in re.findall(r"<a:p>.*?</a:p>", part, re.DOTALL)]
    texts = ["".join(re.findall(r"<a:t>([^<]*)</a:t>", one)) for one in paragraphs]
    return [html.unescape(text) for text in texts if text.strip()]


def _xlsx_grid(sheet: Any, formulas: Any) -> Grid:
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
    hidden_rows = frozenset(n - 1 for n, one in sheet.row_dimensions.items() if one.hidden or one.height == 0)
    merged = tuple(
        (one.min_row - 1, one.min_col - 1, one.max_row - 1, one.max_col - 1) for one in sheet.merged_cells.ranges
    )
    return Grid(sheet.title, rows, hidden_rows, frozenset(hidden_columns), tuple(sorted(merged)))


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
    where = cell.coordinate
    value = cell.value
    note = " ".join(cell.comment.text.split()) if getattr(cell, "comment", None) is not None else ""
    if source.data_type == "f" and value is None:
        return Cell(where, problem=UNCALCULATED, note=note)
    if cell.data_type == "e" or (isinstance(value, str) and _ERRORS.fullmatch(value.strip())):
        return Cell(where, problem=str(value), note=note)
    if isinstance(value, datetime.timedelta | datetime.time):
        value = str(value)
    font = getattr(cell, "font", None)
    parts = [] if isinstance(value, str) or not isinstance(value, list) else list(value)
    if parts:
        value = "".join(map(str, parts))
    is_struck = any(getattr(one, "font", None) is not None and one.font.strike for one in parts)
    if value is not None and (is_struck or (font is not None and font.strike)):
        return Cell(where, problem=f"{value} (struck out)", note=note)
    if value is not None and (_is_white(cell) or re.fullmatch(r";+", cell.number_format or "")):
        return Cell(where, problem=f"{value} (not seen: white on white, or hidden by its format)", note=note)
    if isinstance(value, str):
        shown = _text_shown(value, cell.number_format or "")
        return Cell(where, shown, note=note)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return Cell(where, value, note=note)
    unit, thousands = _unit_of_format(_section(cell.number_format or "", value))
    own, doubt = _held_unit(unit, thousands)
    return Cell(where, value, own, note=note, doubt=doubt)


_LITERAL = re.compile(r'"([^"]*)"|\[\$([^\]-]*)(?:-[^\]]*)?\]|\\(.)|[_*].|([€£¥$%])')


_CONDITION = re.compile(r"\[([<>]=?)(-?\d+(?:\.\d+)?)\]")
_MARK = r"""(?:\\[ .,']|"[ .,']")"""
_GROUPED = re.compile(rf"(?<=[0#?]){_MARK}(?=(?:[0#?]{{2,3}}{_MARK})*[0#?]{{3}}(?:\.[0#?]+)?(?![0#?.,]|{_MARK}[0#?]))")
"""A mark between thousands, written as a literal: ``##\\,##\\,##0`` as in India."""


def _section(form: str, value: float) -> str:
    """Return the section of a number format that shows a number: the first one, or that whose condition it meets."""
    for section in form.split(";"):
        condition = _CONDITION.search(section)
        if condition is None:
            return section
        one = float(condition[2])
        if (value < one if condition[1][0] == "<" else value > one) or (value == one and condition[1][1:]):
            return section
    return form.split(";")[0]


def _unit_of_format(text: str) -> tuple[str, int]:
    """Return the unit that a number format writes beside a number, such as ``€``, and by how many thousands it divides.

    What stands behind ``_`` is a gap as wide as it, and what stands behind ``*`` fills the cell: neither is a unit.
    """
    first = text.split(";")[0]
    if first == "General":
        return "", 0
    first = _GROUPED.sub("", first)
    unit = " ".join("".join("".join(one) for one in _LITERAL.findall(first)).split())
    match = re.search(r"[0#?](,+)(?![0#?])", re.sub(r'"[^"]*"', "", first))
    return "ZAR" if unit == "R" else unit, len(match[1]) if match else 0


def _text_shown(value: str, form: str) -> str:
    """Return a text as its number format shows it: ``@" (two nodes)"`` writes words behind it."""
    last = form.split(";")[-1]
    if "@" not in last or last.strip() == "@":
        return value
    before, _, after = last.partition("@")
    return "".join(
        [*("".join(one) for one in _LITERAL.findall(before)), value, *("".join(one) for one in _LITERAL.findall(after))]
    )


def _held_unit(unit: str, thousands: int) -> tuple[str, str]:
    """Return the unit of the number that is held where ``unit`` is that of what is shown, and a doubt.

    A format that divides by a thousand shows 12500 as ``13 k€``: the cell holds whole euros.
    """
    if not thousands:
        return unit, ""
    amount = amount_of(f"1 {unit}")
    shown = amount.unit if amount is not None else None
    if shown is not None and next(iter(amount.values.values())) * shown.factor == 1000**thousands:  # type: ignore[union-attr]
        held = {"money": shown.currency, "memory": "GB", "power": "W"}.get(shown.kind)
        if held:
            return held, ""
    return unit, "is shown in thousands without saying so; write the number as it is, with its unit in the heading"


def _from_ods(content: bytes) -> list[Grid]:
    from odfdo import Document

    document = Document(io.BytesIO(content))
    body: Any = document.body
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        held = [name for name in ("content.xml", "styles.xml") if name in packed.namelist()]
    parts: list[Any] = [document.get_part(name) for name in held]
    struck = {
        str(one.get_attribute("style:name"))
        for part in parts
        for one in part.get_elements("//style:style")
        if re.search(r'text-line-through-(style|type)="(?!none)', one.serialize())
    }
    unseen = {
        str(one.get_attribute("style:name"))
        for part in parts
        for one in part.get_elements("//style:style")
        if 'table:display="false"' in one.serialize()
    }
    grids = []
    for table in body.tables:
        if table.style in unseen:
            grids.append(Grid(table.name or "", [], is_hidden=True))
            continue
        grids.append(_ods_grid(table, struck))
    return grids


def _ods_grid(table: Any, struck: set[str]) -> Grid:
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
    for element in table.xpath(".//table:table-row"):
        repeated = int(element.get_attribute("table:number-rows-repeated") or 1)
        elements = element.xpath("table:table-cell | table:covered-table-cell")
        cells = _ods_row(elements, len(rows), merged, struck)
        if not cells and repeated > MOST_ROWS:  # the empty rest of a sheet
            break
        for _ in range(repeated):
            if len(rows) >= MOST_ROWS:
                raise _too_large(table.name or "")
            if element.get_attribute("table:visibility") in ("collapse", "filter"):
                hidden_rows.add(len(rows))
            rows.append([replace(c, address=address(len(rows), n)) for n, c in enumerate(cells)])
    boxes = [Cell("text box", one.text_recursive) for one in table.xpath(".//draw:text-box")]
    rows += [[one] for one in boxes if not one.is_empty]
    return Grid(table.name or "", rows, frozenset(hidden_rows), frozenset(hidden_columns), tuple(merged))


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
        styles = {element.get_attribute("table:style-name"), *_styles_within(element)}
        if styles & struck and not cell.is_empty:
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


def _styles_within(element: Any) -> list[str]:
    return [str(one.get_attribute("text:style-name")) for one in element.xpath(".//text:span")]


def _ods_unit(value: float, shown: str, currency: str) -> tuple[str, str]:
    """Return the unit of the number that a cell holds, and a doubt; only what is shown tells a unit such as TB."""
    unit = re.sub(r"[-+\d.,'’\s\u00a0\u202f\u2009]", "", shown)
    digits = re.search(r"\d[\d.,'’\s\u00a0\u202f\u2009]*", shown)
    if digits is None or unit == "%":
        return unit or currency, ""
    values = numbers(digits[0].strip())
    for thousands in range(3):
        held = Decimal(str(abs(value))) / 1000**thousands
        if any(abs(one - held) <= _half_a_digit(one) for one in values.values()):
            if not thousands:
                amount = amount_of(f"1 {unit}")
                in_many = amount is not None and amount.unit is not None and amount.unit.factor != 1
                return (unit if in_many else currency or unit), ""
            own, doubt = _held_unit(unit, thousands)
            return currency or own, "" if currency and not doubt else doubt
    return currency or unit, f"shows {shown!r} and holds {value:.12g}; write the number as it is"


def _half_a_digit(shown: Decimal) -> Decimal:
    """Return how far what is shown may be from what is held: half of its last digit, and rounding."""
    return Decimal(10) ** int(shown.as_tuple().exponent) * Decimal("0.5000001")


def _ods_cell(element: Any) -> Cell:
    kind = element.get_attribute("office:value-type") or ""
    note = " ".join(" ".join(one.text_recursive for one in element.xpath("office:annotation")).split())
    shown = "\n".join(one.text_recursive for one in element.xpath("text:p")).strip()
    if _ERRORS.fullmatch(shown) or element.get_attribute("calcext:value-type") == "error":
        return Cell("", problem=shown or "#ERROR", note=note)
    if kind in ("float", "currency", "percentage"):
        value = float(element.get_attribute("office:value") or "nan")
        unit, doubt = _ods_unit(value, shown, str(element.get_attribute("office:currency") or ""))
        return Cell("", int(value) if value == int(value) else value, unit, note=note, doubt=doubt)
    if kind == "date":
        with contextlib.suppress(ValueError):
            return Cell(
                "", datetime.date.fromisoformat(str(element.get_attribute("office:date-value"))[:10]), note=note
            )
    if kind == "boolean":
        return Cell("", element.get_attribute("office:boolean-value") == "true", note=note)
    if not kind and element.get_attribute("table:formula"):
        return Cell("", problem=UNCALCULATED, note=note)
    return Cell("", shown or None, note=note)
