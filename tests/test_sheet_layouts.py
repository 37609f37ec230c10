"""Layouts of ordinary offers: headings over two rows, servers in columns, parts with prices, specifications beside."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import Workbook

from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file

RATES = dict.fromkeys(("EUR", "GBP", "JPY", "CNY"), 1)


def read(tmp_path: Path, sheets: dict[str, list[list]] | list[list], *merged: str) -> QuoteFile:
    """Write a workbook, its first sheet with merged ranges, and read it."""
    book = Workbook()
    book.remove(book.active)
    for title, rows in (sheets if isinstance(sheets, dict) else {"Offer": sheets}).items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append([cell[0] if isinstance(cell, tuple) else cell for cell in row])
            for place, cell in enumerate(row, 1):
                if isinstance(cell, tuple):
                    sheet.cell(sheet.max_row, place).number_format = cell[1]
    for cells in merged:
        book.worksheets[0].merge_cells(cells)
    book.save(tmp_path / "offer.xlsx")
    return read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates=RATES))


def servers(found: QuoteFile) -> list[tuple]:
    """Return cores, memory, GPUs and price of each server; no question may be open."""
    assert not found.errors, [str(one) for one in found.errors]
    return [(row.cpus, row.mem_gb, row.gpus, row.price_usd) for row in found.quotes.itertuples()]


# Headings over two rows

LOW = ["Pos.", "Bezeichnung", "Kerne", "RAM (GB)", "GPU", "Anzahl", "Einzelpreis", "Gesamtpreis"]
ROWS = [
    ["1", "Rechenknoten, 2x AMD EPYC 9354", 64, 768, None, 20, 9_800, 196_000],
    ["2", "GPU-Knoten, 2x AMD EPYC 9454", 96, 1536, "4x NVIDIA H100", 2, 96_000, 192_000],
]
TWO = [(64, 768, 0, 9_800), (96, 1536, 4, 96_000)]


@pytest.mark.parametrize(
    ("top", "low"),
    [
        (["Position", None, "Konfiguration", None, None, None, "Preise netto (EUR)", None], LOW),
        (
            ["Artikel", None, "Ausstattung", None, None, None, "Angebotspreis in EUR", None],
            [*LOW[:6], "Einzel", "Gesamt"],
        ),
        (["Item", None, "Specification per node", None, None, "Pricing (EUR, ex VAT)", None, None], LOW),
        (
            ["Désignation", None, "Configuration", None, None, "Prix HT (EUR)", None, None],
            ["N°", "Désignation", "Cœurs", "Mémoire (Go)", "GPU", "Qté", "P.U.", "Montant"],
        ),
    ],
)
def test_words_over_headings_are_groups_of_these(tmp_path: Path, top: list, low: list) -> None:
    """A word over several headings changes none of them, and its unit is theirs."""
    assert servers(read(tmp_path, [["Offer"], [], top, low, *ROWS], "A3:B3", "C3:D3", "G3:H3")) == TWO


@pytest.mark.parametrize(
    ("top", "place", "word"),
    [
        ("Preis pro Chassis (EUR)", 6, "several nodes"),
        ("Miete (EUR monatlich)", 6, "a month"),
        ("Preis inkl. MwSt. (EUR)", 6, "with tax"),
        ("Netzwerk (EUR)", 6, "Netzwerk"),
        ("je CPU", 2, "je CPU"),
        ("Wuppig", 2, "'Wuppig'"),
    ],
)
def test_a_group_whose_word_changes_what_is_beneath_is_asked_about(
    tmp_path: Path, top: str, place: int, word: str
) -> None:
    """Of a chassis, a month, a CPU, with tax, or of another thing: the amounts beneath are not read as a node's."""
    head = ["Position", None, "Konfiguration", None, None, None, "Preise (EUR)", None]
    head[place] = top
    asked = read(tmp_path, [head, LOW, *ROWS], "A1:B1", "C1:D1", "G1:H1").errors
    assert any(word in str(one) for one in asked), [str(one) for one in asked]


def test_two_servers_beneath_merged_headings_are_no_one_server(tmp_path: Path) -> None:
    """The same headings under two words are asked about."""
    head = ["Item", "Node A", None, None, "Node B", None, None]
    low = [None, *["Cores", "RAM (GB)", "Price (EUR)"] * 2]
    asked = read(tmp_path, [head, low, ["Rack", 64, 768, 9_800, 96, 1536, 14_800]], "B1:D1", "E1:G1").errors
    assert any("means the same as" in one.allowed for one in asked)
