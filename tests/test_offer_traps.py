"""Cells of offers that can be read wrong: each is read as a careful person reads it, or refused, or listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook

from procure.offers import OfferReading
from procure.packages.quotes import read_quote_file

HEAD = ["Server", "Kategorie", "Kerne", "RAM (GB)", "GPUs", "Einzelpreis (EUR)"]
ROW = ["A", "compute", 64, 256, 0, 12_000]
READING = OfferReading(rates={"EUR": 1, "CHF": 2, "CAD": 1, "DKK": 1})


def offer(path: Path, *rows: list, head: list | None = None, formats: dict[str, str] | None = None) -> Path:
    book = Workbook()
    for row in [head or HEAD, *rows]:
        book.active.append(row)
    for cell, form in (formats or {}).items():
        book.active[cell].number_format = form
    book.save(path)
    return path


def ods(path: Path, price: str) -> Path:
    """Write an offer whose one price is a cell of OpenDocument."""
    from odfdo import Cell, Document, Element, Row, Table

    document, table = Document("spreadsheet"), Table("Angebot")
    document.body.clear()
    for values in (HEAD, ROW[:5]):
        row = Row()
        for value in values:
            row.append_cell(Cell(value))
        if values is not HEAD:
            row.append_cell(Element.from_tag(price))
        table.append_row(row)
    document.body.append(table)
    document.save(str(path))
    return path


def holds(path: Path, column: str, value: object, place: str, reading: OfferReading = READING) -> None:
    """Hold that a file's one row has a value, or that the file is refused or lists the cell."""
    found = read_quote_file(path, reading)
    if value is not None and not found.errors:
        assert found.quotes[column].tolist() == [value]
    else:
        assert place in [one.cell for one in found.findings], found.findings


CELLS: list[tuple[str, str, str, Any]] = [
    *(
        ("gpus", "E2", text, None)
        for text in (
            "2 x A100 / 2 x H100", "4x A100 + 8x", "4x A100 oder 4x H100", "1x H100, 1x L4", "4x H100 (optional 8x)",
            "4x H100 (optional 8)", "4x H100/H200", "2x4 H100", "4x H100 (max. 8)", "8x H100 pro Chassis", "?", "✓",
        )
    ),
    ("gpus", "E2", "4x NVIDIA H100", 4),
    ("gpus", "E2", "2 x L40S", 2),
    ("gpus", "E2", "8 x NVIDIA A100 80GB SXM4", 8),
    *(("mem_gb", "D2", text, None) for text in ("2 x 512 GB SSD", "512 GB - 2 x 960 GB SSD", "8 x 64 GB, max. 4 TB")),
    *(("mem_gb", "D2", text, None) for text in ("24 x 32 GB (512 GB)", "2 512 GB", "24 32 GB", "1 x", "0.5 %")),
    ("mem_gb", "D2", "24 x 32 GB", 768),
    ("mem_gb", "D2", "24 x 32 GB (768 GB)", 768),
    ("mem_gb", "D2", "1 536 GB", None),
    ("mem_gb", "D2", "1\u00a0536 GB", None),
    *(("cpus", "C2", text, None) for text in ("2x EPYC 9354 (32 cores) oder 2x 9654", "2.5", "many", "32-64")),
    ("cpus", "C2", "2 x 32", 64),
    *(("price_usd", "F2", text, None) for text in ("1.500", "9k", "ca. 12000", "12000-14000", "ab 9.000,00", "14.950")),
    ("price_usd", "F2", "14.950,00 €", 14_950),
    ("price_usd", "F2", "14 950,-", 14_950),
    ("price_usd", "F2", "CHF 12'345.60", None),
]  # fmt: skip


@pytest.mark.parametrize(("column", "cell", "text", "value"), CELLS)
def test_a_cell_is_read_as_a_person_reads_it_or_refused(
    tmp_path: Path, column: str, cell: str, text: object, value: object
) -> None:
    """Choices, limits, second amounts and unclear marks are refused; what can mean one thing only is that."""
    row = list(ROW)
    row["ABCDEF".index(cell[0])] = text
    holds(offer(tmp_path / "a.xlsx", row), column, value, cell)


@pytest.mark.parametrize(
    ("form", "usd"),
    [
        ('#,##0.00 "€"', 12_500), ("_-* #,##0.00\\ _€_-", 12_500), ('#,##0," k€"', None), ("#,##0,", None),
        ('#,##0," €"', None), ('#,##0.00 "T€"', None), ("#,##0.00 [$CHF]", None), (";;;", None),
    ],
)  # fmt: skip
def test_what_a_number_format_shows(tmp_path: Path, form: str, usd: float | None) -> None:
    """A format that divides, hides, or shows another currency than the heading is refused."""
    holds(offer(tmp_path / "a.xlsx", [*ROW[:5], 12_500], formats={"F2": form}), "price_usd", usd, "F2")


@pytest.mark.parametrize(
    ("kind", "held", "shown", "usd"),
    [
        ("float", "12500", "12.500 €", 12_500), ("float", "12500.4", "12.500", 12_500.4),
        ("float", "12500", "13 T€", None),
        ("float", "12.5", "12,5 T€", None), ("float", "12500", "13", None), ("float", "12500", "99 €", None),
        ("percentage", "0.5", "50 %", None),
    ],
)  # fmt: skip
def test_what_an_opendocument_cell_shows_and_holds(
    tmp_path: Path, kind: str, held: str, shown: str, usd: float | None
) -> None:
    """Where what is shown is not what is held, rounded, the cell is refused."""
    value = f'office:value-type="{kind}" office:value="{held}"'
    path = ods(tmp_path / "a.ods", f"<table:table-cell {value}><text:p>{shown}</text:p></table:table-cell>")
    holds(path, "price_usd", usd, "F2")


@pytest.mark.parametrize(
    ("heading", "text", "usd"),
    [
        ("Preis (T€)", 12.5, None), ("Preis (T€)", "12,5 T€", None), ("Einzelpreis (CHF)", 12_000, 24_000),
        ("Mietpreis (36)", 9_000, None), ("Leiepris EUR (36 md.)", 9_000, None),
        ("Einzelpreis brutto (EUR)", 9_000, None),
        ("Preis pro Chassis (EUR)", 9_000, None), ("Einzelpreis netto (EUR)", 9_000, 9_000),
        ("Einzelpreis zzgl. MwSt (EUR)", 9_000, 9_000), ("Listenpreis (EUR)", 9_000, None),
    ],
)  # fmt: skip
def test_a_heading_says_what_its_price_is_or_is_refused(
    tmp_path: Path, heading: str, text: object, usd: float | None
) -> None:
    """Rents, list prices, thousands, prices of several nodes and with tax are no price of one node."""
    path = offer(tmp_path / "a.xlsx", [*ROW[:5], text], head=[*HEAD[:5], heading])
    holds(path, "price_usd", usd, "F2" if heading == "Einzelpreis brutto (EUR)" else "F1")


@pytest.mark.parametrize(
    ("more", "cells", "place"),
    [
        (["Gesamtpreis (EUR)", "Menge"], [24_000, "ca. 2"], "H2"),
        (["Gesamtpreis (EUR)", "Menge"], [24_000, 3], "F2"),
        (["Rabatt"], [10], "G1"),
        (["Anzahl CPUs"], [2], "C1"),
        (["GPU-Typ"], ["2x A100 + 2x H100"], "G2"),
        (["NVIDIA H200 NVL"], [2], "G1"),
        (["Cores total", "Qty"], [128, 2], "G1"),
    ],
)
def test_a_further_column_that_may_change_a_server_is_refused_or_listed(
    tmp_path: Path, more: list, cells: list, place: str
) -> None:
    """Totals, discounts, sockets and models beside the columns that are read never pass in silence."""
    holds(offer(tmp_path / "a.xlsx", [*ROW, *cells], head=[*HEAD, *more]), "name", None, place)


@pytest.mark.parametrize(
    "remark",
    [
        "Prices include 5% discount.", "Prices are net of 5% rebate", "Prijzen inclusief 8% korting.", "Discount 8 %",
        "Angesichts der Marktlage behalten wir uns eine Anpassung der Speicherpreise bei Lieferung vor.",
        "Higher-ed discount of 8% applies to this order.", "The servers are refurbished.", "GST 10 % not included",
        "Memory modules are supplied by the customer", "Prices valid only for orders of 50 nodes or more.",
        "An import duty of 12% will be added.", "Wire to our Canadian dollar account",
        "Hukommelsen genbruges fra kundens eksisterende servere og er ikke med i prisen.",
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", [0, 5])
def test_a_sentence_beneath_a_table_never_passes_in_silence(tmp_path: Path, remark: str, column: int) -> None:
    path = offer(tmp_path / "a.xlsx", ROW, [], [*[None] * column, remark])
    holds(path, "name", None, f"{'ABCDEF'[column]}4")


@pytest.mark.parametrize(
    "row", [["Lieferung", None, None, None, None, 0.05], ["16 x 32 GB DDR5-4800"], ["Summe", *[None] * 4, 9]]
)
def test_a_row_that_is_no_server_is_refused_or_listed(tmp_path: Path, row: list) -> None:
    """Parts, sums and services beneath a server are never part of it."""
    holds(
        offer(tmp_path / "a.xlsx", ROW, row, formats={"F3": "0.0%"} if 0.05 in row else None),
        "name",
        None,
        "F3" if 0.05 in row else "A3",
    )


@pytest.mark.parametrize(
    ("head", "row", "cell"),
    [
        ([*HEAD, None], [*ROW, "price of two nodes"], "G2"),
        ([*HEAD, None], [*ROW, "see page 4"], "G2"),
        ([*HEAD, "Bemerkung"], [*ROW, "ab 50 Stück, 5 % Rabatt"], "G2"),
        (HEAD, ["A (Preis je Chassis)", *ROW[1:]], "A2"),
    ],
)
def test_what_stands_beside_a_server_s_cells_never_passes_in_silence(
    tmp_path: Path, head: list, row: list, cell: str
) -> None:
    """Text without a heading, in a column of remarks, or in a name: refused where it tells of a price, else listed."""
    holds(offer(tmp_path / "a.xlsx", row, head=head), "name", None, cell)


def test_a_vendor_that_is_merged_over_rows_is_not_lost(tmp_path: Path) -> None:
    """The cells beneath it hold nothing; nobody knows that they mean the same."""
    path = offer(tmp_path / "a.xlsx", [*ROW, "Alder"], ["B", *ROW[1:], None], head=[*HEAD, "Anbieter"])
    book = load_workbook(path)
    book.active.merge_cells("G2:G3")
    book.save(path)
    holds(path, "name", None, "G3")


def test_tax_is_taken_out_of_no_net_price_and_never_forgotten(tmp_path: Path) -> None:
    """`--tax` beside a net heading is refused; of a quote table in its own columns it is taken out."""
    taxed = READING.model_copy(update={"tax_percent": 20.0})
    path = offer(tmp_path / "a.xlsx", ROW, head=[*HEAD[:5], "Einzelpreis netto (EUR)"])
    holds(path, "name", None, "F2", taxed)
    (tmp_path / "a.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nA,compute,64,512,0,12000\n")
    assert read_quote_file(tmp_path / "a.csv", taxed).quotes["price_usd"].tolist() == [10_000]
