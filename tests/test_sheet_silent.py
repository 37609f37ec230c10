"""Rows and headings of offers that would be read wrong in silence are asked about."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import Workbook

from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file

HEAD = ["Server", "Cores", "Memory GB", "Qty", "Unit price (EUR)", "Total (EUR)"]
A, LOGIN = ["A", 64, 512, 10, 9_000, 90_000], ["Login", 32, 256, 1, 10_000, 10_000]
PARTS = ["Pos", "Description", "Qty", "Unit price (EUR)"]


def read(tmp_path: Path, *rows: list) -> QuoteFile:
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "offer.xlsx")
    return read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 1, "CAD": 2, "CHF": 3}))


def amount(name: str, value: int) -> list:
    return [name, None, None, None, None, value]


OPTIONS = [amount("Optional: training", 5_000), amount("Optional: warranty", 1_000)]


@pytest.mark.parametrize(
    ("rows", "cell", "said"),
    [
        ([HEAD, A, amount("Optional: training", 5_000), amount("Total", 95_000)], "A3", "is it bought"),
        ([HEAD, A, LOGIN, amount("Storage system", 100_000)], "A4", "sum of the rows above"),
        ([HEAD, A, amount("Handling 5 %", 4_500), amount("Total", 94_500)], "A3", "not known"),
        ([HEAD, A, ["Headnode", None, None, 1, 3_000, 3_000], amount("Total", 93_000)], "A3", "no word says"),
        ([HEAD, A, ["PowerEdge", None, None, 1, 3_000, 3_000], amount("Total", 93_000)], "A3", "no word says"),
        ([HEAD, A, ["H100 GPU", None, None, 40, 0, 0]], "A3", "no word says"),
        ([HEAD, A, ["Storage", 32, 256, 2, 9_000, 18_000]], "A3", "may store files"),
        ([HEAD, A, [None, None, 256]], "C3", "has a figure and no price"),
        ([HEAD, A, [None, None, "8x 64 GB"]], "C3", "has a figure and no price"),
        ([HEAD, A, ["Delivery", None, None, 1, 500, 500], ["12x 64 GB DDR5"]], "A4", "part of a server"),
        (
            [PARTS, [1, "Node 128 cores", 2, 9_000], [None, "2x AMD EPYC 9354 (32 cores)"], [None, "12x 64 GB DDR5"]],
            "B2",
            "write the same",
        ),
        ([[*HEAD[:1], "Processor", *HEAD[2:5]], ["A", "2x GH200 (72 cores)", 480, 2, 40_000]], "B2", "has GPUs"),
        ([[*HEAD[:4], "Unit price", "Currency"], [*A[:5], "$"], ["B", *A[1:5], "CAD"]], "E2", "US dollars or others"),
        ([[*HEAD[:4], "Einzelpreis CHF / Unit price EUR"], A[:5]], "E1", "two units"),
        ([[*HEAD[:4], "Einzelpreis (EUR) / Unit price (kEUR)"], A[:5]], "E1", "two units"),
        ([[*HEAD[:2], "Speicher (GB) / Memory (GiB)", *HEAD[3:5]], A[:5]], "C1", "two units"),
    ],
)
def test_what_would_be_read_wrong_is_asked_about(tmp_path: Path, rows: list[list], cell: str, said: str) -> None:
    """Each of these rows or headings has an error that names its cell and what is open."""
    assert [one.cell for one in read(tmp_path, *rows).errors if said in one.allowed] == [cell]


@pytest.mark.parametrize(
    "rows",
    [
        [HEAD, A, amount("Optional: training", 5_000), amount("Total", 90_000)],
        [HEAD, A, LOGIN, amount("Total", 100_000), *OPTIONS, amount("Total options", 6_000)],
        [HEAD, A, LOGIN, amount("Total nodes and storage", 100_000)],
        [HEAD, A, LOGIN, [None, None, None, 11], ["Page", 1]],
        [[*HEAD[:4], "Einzelpreis (EUR) / Unit price (EUR)"], A[:5]],
        [[*HEAD[:4], "Unit price", "Currency"], [*A[:5], "$"], ["B", *A[1:5], "$"]],
        [PARTS, [1, "Node 64 cores", 2, 9_000], [None, "2x AMD EPYC 9354 (32 cores)"], [None, "12x 64 GB DDR5"]],
    ],
)
def test_what_is_plain_is_not_asked_about(tmp_path: Path, rows: list[list]) -> None:
    """Options outside of totals, sums named as such, and headings that agree are read."""
    assert not read(tmp_path, *rows).errors


def test_a_sum_that_is_not_named_one_is_said(tmp_path: Path) -> None:
    """A row whose amount is that of the rows above, and has another name, is left out, and that is a guess."""
    found = read(tmp_path, HEAD, A, LOGIN, amount("Zorblax", 100_000))
    assert "sum of the rows above" in next(one.allowed for one in found.findings if one.cell == "A4")
    assert not found.errors and not found.lines


def test_options_beneath_their_heading_that_a_total_holds_are_asked_about(tmp_path: Path) -> None:
    """A sum of the options alone buys none of them."""
    rows = [HEAD, A, LOGIN, ["Options"], amount("Switch", 500), amount("Cables", 100)]
    held = read(tmp_path, *rows, amount("Total", 100_600))
    alone = read(tmp_path, *rows, amount("Total options", 600))
    assert any("heading of options, and a total holds it" in one.allowed for one in held.errors)
    assert not any("a total holds it" in one.allowed for one in alone.errors)


@pytest.mark.parametrize(("text", "is_asked"), [("1536 GB DDR5", True), ("768 GB DDR5 ECC", False)])
def test_memory_beneath_a_server_that_its_column_contradicts_is_asked_about(
    tmp_path: Path, text: str, is_asked: bool
) -> None:
    """Also without a number of modules."""
    found = read(tmp_path, HEAD, ["A", 64, 768, 10, 9_000, 90_000], [text])
    assert any("and the row above it 768" in one.allowed for one in found.errors) == is_asked


def test_a_sheet_of_what_is_required_specifies_no_server(tmp_path: Path) -> None:
    """What a tender asks for at least is not what is offered."""
    book = Workbook()
    sheet = book.create_sheet("Minimum requirements")
    for row in (["Name", "Qty", "Unit price (EUR)", "Total (EUR)"], ["Node A", 10, 9_000, 90_000]):
        book.active.append(row)
    for row in (["Name", "Cores", "RAM (GB)"], ["Node A", 64, 512]):
        sheet.append(row)
    book.save(tmp_path / "a.xlsx")
    read_ = read_quote_file(tmp_path / "a.xlsx", OfferReading(rates={"EUR": 1}))
    assert any("what is required" in one.allowed for one in read_.errors)
