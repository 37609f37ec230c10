"""Cells of offers that can be read wrong: each is read as a careful person reads it, or refused, or listed."""

from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from test_offers import HEAD, workbook

from procure.offers.reading import OfferReading
from procure.packages.quotes import read_quote_file

IN_EURO = [*HEAD[:5], "Einzelpreis (EUR)"]
ROW = ["A", "compute", 64, 256, 0, 12_000]
LEVEL = OfferReading(rates={"EUR": 1, "CHF": 2, "CAD": 1, "DKK": 1})


def ods(path: Path, price: str) -> Path:
    """Write an offer whose one price is a cell of OpenDocument."""
    from odfdo import Cell, Document, Element, Row, Table

    document, table = Document("spreadsheet"), Table("Angebot")
    document.body.clear()
    for values in (IN_EURO, ROW[:5]):
        row = Row()
        for value in values:
            row.append_cell(Cell(value))
        if values is not IN_EURO:
            row.append_cell(Element.from_tag(price))
        table.append_row(row)
    document.body.append(table)
    document.save(str(path))
    return path


def holds(path: Path, column: str, value: object, place: str, reading: OfferReading = LEVEL) -> None:
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
    holds(workbook(tmp_path / "a.xlsx", row, head=IN_EURO), column, value, cell)


@pytest.mark.parametrize(
    ("form", "usd"),
    [
        ('#,##0.00 "€"', 12_500), ("_-* #,##0.00\\ _€_-", 12_500), ('#,##0," k€"', None), ("#,##0,", None),
        ('#,##0," €"', None), ('#,##0.00 "T€"', None), ("#,##0.00 [$CHF]", None), (";;;", None),
    ],
)  # fmt: skip
def test_what_a_number_format_shows(tmp_path: Path, form: str, usd: float | None) -> None:
    """A format that divides, hides, or shows another currency than the heading is refused."""
    path = workbook(tmp_path / "a.xlsx", [*ROW[:5], 12_500], head=IN_EURO, formats={"F2": form})
    holds(path, "price_usd", usd, "F2")


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
        ("Mietpreis (36)", 9_000, None), ("Leiepris EUR (36 md.)", 9_000, None), ("Listenpreis (EUR)", 9_000, None),
        ("Einzelpreis netto (EUR)", 9_000, 9_000), ("Einzelpreis zzgl. MwSt (EUR)", 9_000, 9_000),
    ],
)  # fmt: skip
def test_a_heading_says_what_its_price_is_or_is_refused(
    tmp_path: Path, heading: str, text: object, usd: float | None
) -> None:
    """Rents, list prices and thousands are no price of one node."""
    path = workbook(tmp_path / "a.xlsx", [*ROW[:5], text], head=[*HEAD[:5], heading])
    holds(path, "price_usd", usd, "F1")


SENTENCES = (
    "Prices include 5% discount.", "Prices are net of 5% rebate", "Prijzen inclusief 8% korting.", "Discount 8 %",
    "Angesichts der Marktlage behalten wir uns eine Anpassung der Speicherpreise bei Lieferung vor.",
    "The servers are refurbished.", "GST 10 % not included", "Memory modules are supplied by the customer",
    "An import duty of 12% will be added.", "Wire to our Canadian dollar account",
    "Hukommelsen genbruges fra kundens eksisterende servere og er ikke med i prisen.",
)  # fmt: skip
BESIDE = [
    *(([], [ROW, [], [*[None] * column, one]], f"{'ABCDEF'[column]}4") for one in SENTENCES for column in (0, 5)),
    ([], [ROW, ["Lieferung", None, None, None, None, 0.05]], "F3"),
    ([], [ROW, ["16 x 32 GB DDR5-4800"]], "A3"),
    ([], [ROW, ["Summe", *[None] * 4, 9]], "A3"),
    ([], [["A (Preis je Chassis)", *ROW[1:]]], "A2"),
    ([None], [[*ROW, "price of two nodes"]], "G2"),
    ([None], [[*ROW, "see page 4"]], "G2"),
    (["Bemerkung"], [[*ROW, "ab 50 Stück, 5 % Rabatt"]], "G2"),
    (["Gesamtpreis (EUR)", "Menge"], [[*ROW, 24_000, "ca. 2"]], "H2"),
    (["Gesamtpreis (EUR)", "Menge"], [[*ROW, 24_000, 3]], "F2"),
    (["GPU-Typ"], [[*ROW, "2x A100 + 2x H100"]], "G2"),
    (["NVIDIA H200 NVL"], [[*ROW, 2]], "G1"),
    (["Cores total", "Qty"], [[*ROW, 128, 2]], "G1"),
]
"""Further headings, the rows, and the cell that may change what a server is or costs."""


@pytest.mark.parametrize(("more", "rows", "place"), BESIDE, ids=map(str, range(len(BESIDE))))
def test_what_stands_beside_a_server_never_passes_in_silence(
    tmp_path: Path, more: list, rows: list[list], place: str
) -> None:
    """Sentences, parts, sums, services, remarks, totals and models: refused where they tell of a price, else listed."""
    percent = {"F3": "0.0%"} if place == "F3" else None
    holds(workbook(tmp_path / "a.xlsx", *rows, head=[*IN_EURO, *more], formats=percent), "name", None, place)


def test_a_vendor_that_is_merged_over_rows_is_not_lost(tmp_path: Path) -> None:
    """The cells beneath it hold nothing; nobody knows that they mean the same."""
    path = workbook(tmp_path / "a.xlsx", [*ROW, "Alder"], ["B", *ROW[1:], None], head=[*IN_EURO, "Anbieter"])
    book = load_workbook(path)
    book.active.merge_cells("G2:G3")
    book.save(path)
    holds(path, "name", None, "G3")


def test_tax_is_taken_out_of_no_net_price_and_never_forgotten(tmp_path: Path) -> None:
    """`--tax` beside a net heading is refused; of a quote table in its own columns it is taken out."""
    taxed = LEVEL.model_copy(update={"tax_percent": 20.0})
    path = workbook(tmp_path / "a.xlsx", ROW, head=[*HEAD[:5], "Einzelpreis netto (EUR)"])
    holds(path, "name", None, "F2", taxed)
    (tmp_path / "a.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nA,compute,64,512,0,12000\n")
    assert read_quote_file(tmp_path / "a.csv", taxed).quotes["price_usd"].tolist() == [10_000]
