"""What does an office's spreadsheet say? Tables found in sheets and text, cells read by unit, all findings listed."""

from procure.sheets.findings import Finding, listed_once
from procure.sheets.guesses import NoTable
from procure.sheets.lines import Line
from procure.sheets.prices import Convention
from procure.sheets.read import read_sheets
from procure.sheets.rows import SheetTable

__all__ = ["Convention", "Finding", "Line", "NoTable", "SheetTable", "listed_once", "read_sheets"]
