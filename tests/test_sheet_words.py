"""Each word of an offer is known to change no amount, was read, or is asked about."""

from __future__ import annotations

from pathlib import Path

import office_sheets
import pytest
import strange_sheets
from openpyxl import Workbook

from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file
from procure.sheets.unknown import known_words, strange_words

HEAD = ["Bezeichnung", "Kerne", "RAM (GB)", "GPUs", "Einzelpreis (EUR)"]
ROW = ["PowerEdge R6625", 64, 768, 0, 14_950]


def read(tmp_path: Path, *rows: list, harmless: tuple[str, ...] = ()) -> QuoteFile:
    """Write a workbook, and read it."""
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "offer.xlsx")
    return read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 2}, harmless=list(harmless)))


@pytest.mark.parametrize("kinds", list(strange_sheets.KINDS))
def test_no_strange_offer_is_read_wrong(tmp_path: Path, kinds: str) -> None:
    """Of offers with one strange thing each none is read wrong, and ordinary ones are read."""
    judged = [
        strange_sheets.judge(case, tmp_path / f"{n}.{case.kind}")[0]
        for n, case in enumerate(strange_sheets.KINDS[kinds])
    ]
    assert "wrong" not in judged and judged.count("read") >= 22


@pytest.mark.slow
def test_a_word_of_no_language_is_named_wherever_it_stands(tmp_path: Path) -> None:
    """Put into each cell of a few offices' workbooks in turn, in text or in a number's format, it is in a finding."""
    for seed in (2, 8):
        n, silent = strange_sheets.nonsense(office_sheets.draw(seed, tmp_path).path)
        assert n and not silent


def test_an_amount_below_0_that_is_no_discount_is_asked_about(tmp_path: Path) -> None:
    """-900 for a network is no line of the order."""
    found = read(tmp_path, HEAD, ROW, ["Netzwerk", None, None, None, -900], ["Rabatt", None, None, None, -900])
    assert [one.cell for one in found.errors] == ["E3"] and [float(one.usd) for one in found.lines] == [-1_800]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2x 960 GB NVMe, RAID 1, 25 GbE", []),
        ("PowerEdge R6625 V3 (iDRAC9)", []),
        ("Rechenknoten mit großem Speicher", []),
        ("AMD EPYC 9354P, 3,25 GHz, 280 W", []),
        ("gültig bis 31.12.2026", []),
        ("4 Knoten", ["4 knoten"]),
        ("Knotenpaar", ["Knotenpaar"]),
        ("10er Satz", ["10er", "Satz"]),
        ("je2", ["je"]),
        ("≥ 64 cores", ["≥"]),
        ("Delivery 350.00", ["350.00"]),
        ("Delivery 350 EUR", ["EUR"]),
        ("Цена за пару", ["Цена", "за", "пару"]),
    ],
)
def test_words_that_are_not_known_are_found(text: str, words: list[str]) -> None:
    """Numbers beside units, codes and compounds of known words are known; nodes, money and the rest are not."""
    assert strange_words(text, known_words()) == words


def test_a_word_that_the_user_knows_is_not_asked_about(tmp_path: Path) -> None:
    """``harmless`` answers the question about a word, and no other."""
    rows = [[*HEAD, "Einbautiefe"], [*ROW, "bündig"]]
    assert [one.cell for one in read(tmp_path, *rows).errors] == ["F1", "F2"]
    assert [one.cell for one in read(tmp_path, *rows, harmless=("Einbautiefe",)).errors] == ["F2"]
    assert not read(tmp_path, *rows, harmless=("einbautiefe", "Bündig")).errors


def test_products_that_are_not_known_are_named_once(tmp_path: Path) -> None:
    """A word before a model's number is taken as a product's name, and said; behind it, it is asked about."""
    found = read(tmp_path, HEAD, ["Nordlys 345", *ROW[1:]], ["Cirrus X 12", *ROW[1:]])
    assert (
        not found.errors and ["'Nordlys' (A2), 'Cirrus' (A3)" in one.allowed for one in found.findings].count(True) == 1
    )
    assert [one.cell for one in read(tmp_path, HEAD, ["R6625 Nordlys", *ROW[1:]]).errors] == ["A2"]


def test_every_hidden_row_and_column_is_named(tmp_path: Path) -> None:
    """Each hidden row and column with content is said once."""
    book = Workbook()
    for row in ([*HEAD, "Einkauf", "Marge"], [*ROW, 9_000, 0.3], ["Alt", *ROW[1:]]):
        book.active.append(row)
    for column in "FG":
        book.active.column_dimensions[column].hidden = True
    book.active.row_dimensions[3].hidden = True
    book.save(tmp_path / "offer.xlsx")
    found = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 2}))
    assert [one.cell for one in found.findings if "hidden" in one.allowed] == ["F1", "G1", "A3"]


def test_what_is_struck_out_in_ods_is_asked_about(tmp_path: Path) -> None:
    """A price that is struck out in an OpenDocument sheet is no price."""
    from odfdo import Cell, Document, Row, Style, Table

    document = Document("spreadsheet")
    document.body.clear()
    document.insert_style(Style("table-cell", area="text", name="old", text_line_through_style="solid"))
    table = Table("Angebot")
    for values in (HEAD, ROW):
        row = Row()
        for n, value in enumerate(values):
            row.append(Cell(value, style="old" if n == 4 and value == ROW[4] else None))
        table.append(row)
    document.body.append(table)
    document.save(str(tmp_path / "offer.ods"))
    found = read_quote_file(tmp_path / "offer.ods", OfferReading(rates={"EUR": 2}))
    assert [one.cell for one in found.errors] == ["E2"]
