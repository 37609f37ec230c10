"""What offices write in headings, lines and sentences that changes what an amount means: understood or asked about."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from openpyxl import Workbook
from openpyxl.styles import Font, PatternFill
from openpyxl.styles.colors import Color

from procure.errors import TableError
from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file, read_quotes
from procure.sheets.units import tax_of

HEAD = ["Bezeichnung", "Kerne", "RAM (GB)", "GPUs", "Einzelpreis (EUR)"]
A, B = ["A 1", 64, 768, 0, 14_950], ["B 1", 128, 1536, 4, 99_950]
READING = OfferReading(rates={"EUR": 2})


def read(tmp_path: Path, *rows: list, sheets: dict[str, list] | None = None) -> QuoteFile:
    """Write a workbook, and read it."""
    book = Workbook()
    book.remove(book.active)
    for title, content in (sheets or {"Angebot": list(rows)}).items():
        sheet = book.create_sheet(title)
        for row in content:
            sheet.append(row)
    path = tmp_path / "offer.xlsx"
    book.save(path)
    return read_quote_file(path, READING)


def asked(found: QuoteFile) -> list[tuple[str, str]]:
    return [(one.cell, one.allowed) for one in found.errors]


@pytest.mark.parametrize(
    ("column", "heading", "value", "cell"),
    [
        (2, "RAM (GB/Core)", 8, "C1"),
        (2, "Memory [GB per socket]", 384, "C1"),
        (2, "RAM (MT/s)", 5600, "C1"),
        (1, "Kerne (pro CPU)", 32, "B1"),
        (1, "CPUs", 2, "B2"),
        (1, "# CPUs", 2, "B2"),
        (3, "GPUs (H100)", 4, "D1"),
        (4, "Preis (€/Kern)", 2_000, "E1"),
        (4, "Preis (€ pro GPU)", 2_000, "E1"),
        (4, "Preis [EUR/a]", 2_000, "E1"),
        (4, "Preis [EUR/Jahr]", 2_000, "E1"),
        (4, "Price (EUR, 3-year)", 2_000, "E1"),
        (4, "Preis (EUR, 10 Stück)", 149_500, "E1"),
        (4, "Price (list, EUR)", 14_950, "E1"),
    ],
)
def test_a_heading_that_is_not_of_one_node_is_asked_about(
    tmp_path: Path, column: int, heading: str, value: float, cell: str
) -> None:
    """An amount per core, GPU, year or ten nodes, and words in brackets that are not known, make a question."""
    head, row = list(HEAD), list(A)
    head[column], row[column] = heading, value
    assert cell in [where for where, _ in asked(read(tmp_path, head, row))]


@pytest.mark.parametrize(
    ("heading", "value", "column", "amount"),
    [
        ("RAM (GB, DDR5-4800 ECC)", 512, "mem_gb", 512),
        ("Cores (total)", 96, "cpus", 96),
        ("CPUs", 96, "cpus", 96),
        ("Preis (EUR, netto, pro Stück)", 14_950, "price_usd", 29_900),
        ("Preis (EUR / Knoten)", 14_950, "price_usd", 29_900),
    ],
)
def test_what_changes_nothing_may_stand_in_brackets(
    tmp_path: Path, heading: str, value: float, column: str, amount: float
) -> None:
    """Units, tax, per node and kinds of memory in brackets make no question."""
    place = {"cpus": 1, "mem_gb": 2, "price_usd": 4}[column]
    head, row = list(HEAD), list(A)
    head[place], row[place] = heading, value
    found = read(tmp_path, head, row)
    assert not found.errors and found.quotes[column].tolist() == [amount]


@pytest.mark.parametrize(
    ("column", "heading", "value"),
    [
        (2, "RAM", 1.5),
        (2, "RAM", 12),
        (2, "RAM (GB)", 1_536_000),
        (4, "Einzelpreis (EUR)", 14.95),
        (5, "Leistung", 1.2),
        (5, "Höhe", 88),
    ],
)
def test_what_no_server_has_is_asked_about(tmp_path: Path, column: int, heading: str, value: float) -> None:
    """1.5 GB, 14.95 € and 1.2 W are TB, thousands and kW in a unit that is not said; the quote table's names answer."""
    head, row = [*HEAD, "Bemerkung"], [*A, None]
    head[column], row[column] = heading, value
    assert any("not likely" in text for _, text in asked(read(tmp_path, head, row)))


def test_the_quote_table_s_own_heading_takes_any_amount(tmp_path: Path) -> None:
    """Under ``price_usd`` fourteen dollars are fourteen dollars."""
    found = read(tmp_path, [*HEAD[:4], "price_usd"], [*A[:4], 14.95])
    assert not found.errors and found.quotes["price_usd"].tolist() == [14.95]


def test_a_column_of_currencies_is_read(tmp_path: Path) -> None:
    """Each row's price is in its own currency; one that is not known, or that contradicts the cell, is asked about."""
    head = [*HEAD[:4], "Einzelpreis", "Währung"]
    found = read(tmp_path, head, [*A, "EUR"], [*B, "US$"])
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900, 99_950]
    found = read(tmp_path, head, [*A, "Taler"], [*B[:4], "99.950,00 €", "USD"])
    assert {cell for cell, _ in asked(found)} >= {"F2", "E3"}
    own = ["name", "category", "cpus", "mem_gb", "gpus", "price_usd", "currency"]
    assert [cell for cell, _ in asked(read(tmp_path, own, ["a", "x", 64, 768, 0, 14_950, "EUR"]))] == ["G2"]


@pytest.mark.parametrize("other", ["Projektpreis (EUR)", "Preis nach Rabatt (EUR)", "Sonderpreis"])
def test_a_second_price_is_asked_about(tmp_path: Path, other: str) -> None:
    """A project price beside a list price or a price may be the one of a node."""
    for first in ("Listenpreis (EUR)", "Preis (EUR)"):
        assert "F1" in [where for where, _ in asked(read(tmp_path, [*HEAD[:4], first, other], [*A, 12_000]))]


def test_of_net_and_gross_the_net_price_is_read(tmp_path: Path) -> None:
    """Two columns that differ by tax alone are no question: a quote is without tax."""
    for head in (["Preis netto (EUR)", "Preis brutto (EUR)"], ["Preis brutto (EUR)", "Preis netto (EUR)"]):
        row = [14_950, 17_790.5] if "netto" in head[0] else [17_790.5, 14_950]
        found = read(tmp_path, [*HEAD[:4], *head], [*A[:4], *row])
        assert not found.errors and found.quotes["price_usd"].tolist() == [29_900]


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Alle Preise in EUR pro 4 Knoten", "'4 knoten'"),
        ("* Preise verstehen sich je Doppelknoten", "'Doppelknoten'"),
        ("Preise in TEUR", "1000 EUR"),
        ("Die Preise enthalten 19 % MwSt.", "with tax"),
        ("Alle Preise sind Bruttopreise", "with tax"),
        ("Umsatzsteuer ist in den Preisen enthalten", "with tax"),
        ("VAT is included in all prices", "with tax"),
    ],
)
def test_a_sentence_beside_the_table_counts(tmp_path: Path, sentence: str, words: str) -> None:
    """A remark says that prices are of several nodes, in thousands, or with tax."""
    assert any(words in text for _, text in asked(read(tmp_path, HEAD, A, [], [sentence])))


@pytest.mark.parametrize(
    ("text", "gross"),
    [
        ("Preise zzgl. MwSt., inkl. Lieferung", False),
        ("inkl. Lieferung zzgl. MwSt.", False),
        ("Die MwSt. ist nicht enthalten", None),
        ("Prices do not include VAT", None),
        ("Preise inklusive gesetzlicher Mehrwertsteuer", True),
        ("La TVA est incluse", True),
    ],
)
def test_sentences_on_tax(text: str, gross: bool | None) -> None:
    """Delivery that is included is not tax that is."""
    assert tax_of(text) is gross


def test_sentences_of_two_currencies_are_asked_about(tmp_path: Path) -> None:
    """Of two tables on a sheet, each with a currency in a sentence, no price is read in the other's."""
    head = [*HEAD[:4], "Einzelpreis"]
    found = read(tmp_path, ["Alle Preise in EUR"], head, A, [], ["All prices in USD"], head, B)
    assert len([text for _, text in asked(found) if "may be in the currency" in text]) == 2


@pytest.mark.parametrize(
    "label",
    ["Angebotssumme", "Gesamtbetrag", "Endpreis", "Montant total TTC", "Sous-total", "Totale IVA esclusa", "Übertrag"],
)
def test_totals_are_left_out(tmp_path: Path, label: str) -> None:
    """A total is neither a server nor a line."""
    found = read(tmp_path, HEAD, A, B, [label, None, None, None, 114_900])
    assert not found.errors and not found.lines and len(found.quotes) == 2


@pytest.mark.parametrize(
    "label",
    [
        "Gesamtsumme inkl. Installation",
        "Total incl. delivery",
        "Summe Server + Storage",
        "Gesamt nach Rabatt",
        "Total after 5 % discount",
        "Transport (Übertrag)",
        "Stromversorgung",
        "2 % Skonto bei Zahlung in 14 Tagen",
        "3 % Rabatt ab 50 Stück",
        "Rabatt 5 % auf Storage",
        "Rabatt 5 % bereits abgezogen",
        "Wartung pro Jahr",
        "Support (€/Jahr)",
        "Switch, Miete pro Monat",
        "Softwarelizenz jährlich",
        "Kabelsatz pro Rack",
        "Switch je 32 Knoten",
    ],
)
def test_lines_whose_amount_is_open_are_asked_about(tmp_path: Path, label: str) -> None:
    """A sum with other words, a condition, what is paid each year or for each rack: no amount is taken for granted."""
    found = read(tmp_path, HEAD, A, B, [label, None, None, None, 114_900])
    assert [cell for cell, _ in asked(found)] == ["A4"] and not found.lines


def test_lines_that_cost_nothing_or_are_not_bought(tmp_path: Path) -> None:
    """What is included costs nothing more; an alternative is not counted; €/Knoten in the cell is per node."""
    rows = [
        ["Installation", None, None, None, "inklusive"],
        ["Alternativ: Switch 64 Ports", None, None, None, 5_000],
        ["Lieferung", None, None, None, "50 €/Knoten"],
    ]
    lines = read(tmp_path, HEAD, A, *rows).lines
    assert [(line.name, float(line.usd), line.per) for line in lines] == [
        ("Installation", 0, "order"),
        ("Lieferung", 100, "node"),
    ]


def test_a_discount_on_the_whole_offer_is_taken_off_the_lines_too(tmp_path: Path) -> None:
    """5 % of a switch of 2 × 10,001 are an amount beside the percentage of the servers; warranties are asked about."""
    switch, off = ["Switch", None, None, None, 5_000.55], ["Rabatt 5 % auf Gesamtsumme"]
    lines = read(tmp_path, HEAD, A, switch, off).lines
    assert [(line.kind, float(line.usd), line.percent) for line in lines] == [
        ("network", 10_001.10, None),
        ("discount", 0, 5),
        ("discount", -500.05, None),
    ]
    warranty = ["Garantie 5 Jahre", None, None, None, 5_000]
    assert [cell for cell, _ in asked(read(tmp_path, HEAD, A, warranty, off))] == ["A4"]


def test_lines_of_two_bidders_are_asked_about(tmp_path: Path) -> None:
    """Every order has every line: those of two tables with servers may be two bidders'; one vendor in both answers."""
    lines = [["Storage", None, None, None, 90_000], ["Storage", None, None, None, 80_000]]
    found = read(tmp_path, sheets={"Alpha": [HEAD, A, lines[0]], "Beta": [HEAD, B, lines[1]]})
    assert [(one.sheet, one.cell) for one in found.errors] == [("Beta", "A3")]
    head = [*HEAD, "Anbieter"]
    rows = [[*A, "X"], [*lines[0], "X"], head, [*B, "X"], [*lines[1], "X"]]
    assert not read(tmp_path, head, *rows).errors


@pytest.mark.parametrize(
    ("text", "count", "model"),
    [
        ("8x H100 SXM5 80GB HBM3", 8, "H100-80GB"),
        ("4xH100", 4, "H100"),
        ("4x RTX PRO 6000 Blackwell", 4, "RTXPRO6000"),
        ("4x Intel Max 1550", 4, "MAX1550"),
        ("1x HGX H100 8-GPU", None, ""),
        ("1x NVIDIA HGX B200 (8 GPUs)", None, ""),
        ("1 x DGX H100", None, ""),
        ("1x GB200 NVL72", None, ""),
        ("4x A16 (4 GPUs per board)", None, ""),
    ],
)
def test_boards_of_several_gpus_are_asked_about(tmp_path: Path, text: str, count: int | None, model: str) -> None:
    """A board is not one GPU; memory's kind and a model's own words are no second number."""
    found = read(tmp_path, HEAD, [*A[:3], text, 84_950])
    if count is None:
        assert [cell for cell, _ in asked(found)] == ["D2"]
    else:
        assert found.quotes[["gpus", "gpu_type"]].to_numpy().tolist() == [[count, model]]


@pytest.mark.parametrize(
    ("text", "cores"),
    [("64 HT", None), ("96 (SMT: 192)", None), ("64 vCPU", None), ("64C/128T", 64), ("2x32", 64)],
)
def test_threads_are_no_cores(tmp_path: Path, text: str, cores: int | None) -> None:
    """Threads in a column of cores are asked about."""
    found = read(tmp_path, HEAD, ["A 1", text, 768, 0, 14_950])
    assert found.quotes["cpus"].tolist() == [cores] if cores else [cell for cell, _ in asked(found)] == ["B2"]


def test_cores_agree_with_the_processor_s_text(tmp_path: Path) -> None:
    """32 cores beside two processors of 32 cores are those of one; ``= 64 cores`` is not multiplied."""
    head = [*HEAD, "Prozessor"]
    found = read(tmp_path, head, ["A 1", 32, 768, 0, 14_950, "2x AMD EPYC 9354 (32 cores)"])
    assert [cell for cell, _ in asked(found)] == ["B2"]
    found = read(tmp_path, [HEAD[0], "Prozessor", *HEAD[2:]], ["A 1", "2 x EPYC 9354 = 64 cores", 768, 0, 14_950])
    assert "cpus" in [one.column for one in found.errors]
    found = read(tmp_path, head, ["A 1", 128, 768, 0, 14_950, "2x Intel Xeon Platinum 8592+ (64 cores)"])
    assert not found.errors


@pytest.mark.parametrize(("text", "gb"), [("768 GB (12x64)", 768), ("1536GB (24x64GB)", 1536), ("768 GB (8x64)", None)])
def test_modules_behind_the_memory_must_agree(tmp_path: Path, text: str, gb: int | None) -> None:
    """The modules in brackets are the memory, or it is asked about."""
    found = read(tmp_path, [*HEAD[:2], "RAM", *HEAD[3:]], ["A 1", 64, text, 0, 14_950])
    assert found.quotes["mem_gb"].tolist() == [gb] if gb else [cell for cell, _ in asked(found)] == ["C2"]


@pytest.mark.parametrize(
    "value", [datetime.datetime(2026, 3, 1), True, "auf Anfrage", "2 x 14.950,00 €", "14.950 €/Monat"]
)
def test_what_is_no_price_is_asked_about(tmp_path: Path, value: object) -> None:
    """A date, a truth, words, two numbers and a month's rate are no price."""
    assert [cell for cell, _ in asked(read(tmp_path, HEAD, [*A[:4], value]))] == ["E2"]


def test_a_comma_in_an_amount_moves_no_field(tmp_path: Path) -> None:
    """14,950.00 without quotation marks in a CSV with commas is not fourteen euros."""
    path = tmp_path / "a.csv"
    path.write_text("\nName,Cores,RAM,GPUs,Unit price (EUR)\nA 1,64,768 GB,0,14,950.00\n", encoding="utf-8")
    with pytest.raises(TableError, match="6 fields where the header has 5"):
        read_quotes(path, READING)


@pytest.mark.parametrize(
    "name",
    ["A 1 (10 Stück)", "A 1 4-Node-Chassis", "Twin 2U4N", "Gesamtsystem 20 Knoten", "HPC-Cluster Nord", "4x A 1"],
)
def test_a_name_of_several_nodes_is_asked_about(tmp_path: Path, name: str) -> None:
    """The price of a chassis, of ten, or of the whole system is not that of one node."""
    assert [cell for cell, _ in asked(read(tmp_path, HEAD, [name, *A[1:]]))] == ["A2"]
    assert not read(tmp_path, [*HEAD[:4], "Preis pro Knoten (EUR)", "Knoten pro Chassis"], [name, *A[1:], 4]).errors


def test_short_headings_of_a_bill_are_read(tmp_path: Path) -> None:
    """Unit and total prices as bills of quantities head them; ¥ may be yen or yuan."""
    for unit, whole in (
        ("E-Preis (€)", "G-Preis (€)"),
        ("EP netto €", "GP netto €"),
        ("Unit price (€)", "Ext. Price (€)"),
    ):
        found = read(tmp_path, [*HEAD[:4], "Anz.", unit, whole], [*A[:4], 10, 14_950, 149_500])
        assert not found.errors and found.quotes["price_usd"].tolist() == [29_900]
    assert any("yen or yuan" in text for _, text in asked(read(tmp_path, [*HEAD[:4], "Preis (¥)"], A)))


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_sheet_is_not_read_and_that_is_said(tmp_path: Path, state: str) -> None:
    """Prices of a hidden sheet are no offers, but its name is said."""
    book = Workbook()
    for sheet in (book.active, book.create_sheet("Kalkulation")):
        for row in (HEAD, A):
            sheet.append(row)
    book["Kalkulation"].sheet_state = state
    book.save(tmp_path / "a.xlsx")
    found = read_quote_file(tmp_path / "a.xlsx", READING)
    said = [one.sheet for one in found.findings if "hidden" in one.allowed]
    assert len(found.quotes) == 1 and said == ["Kalkulation"]


@pytest.mark.parametrize(
    ("above", "under", "cells", "row"),
    [
        (["Preis (EUR)", None], ["Einzel", "Gesamt"], [14_950, 149_500], 0),
        (["Preis (EUR)", None], ["Gesamt", "Einzel"], [149_500, 14_950], 0),
        (["Preis in €", None], ["pro Stück", "gesamt"], [14_950, 149_500], 1),
        (["Price (EUR)", None], ["Unit", "Total"], [14_950, 149_500], 0),
        (["Prix (EUR HT)", None], ["Unitaire", "Total"], [14_950, 149_500], 1),
        (["Preis", None], ["Einzel (EUR)", "Gesamt (EUR)"], [14_950, 149_500], 0),
        (["Einzelpreis (EUR)", None], ["netto", "brutto"], [14_950, 17_790.5], 1),
    ],
)
def test_two_rows_of_headings_are_one(tmp_path: Path, above: list, under: list, cells: list, row: int) -> None:
    """``Preis`` over ``Einzel`` and ``Gesamt`` is a unit price and a total, with the cells beside merged or not."""
    first, second = ["Bezeichnung", "Kerne", "RAM (GB)", "GPUs", "Anzahl", *above], [None] * 5 + under
    book = Workbook()
    for one in (first, second, [*A[:4], 10, *cells]):
        book.active.append(one)
    if row == 0:
        for merged in ("A1:A2", "B1:B2", "C1:C2", "D1:D2", "E1:E2", "F1:G1"):
            book.active.merge_cells(merged)
    book.save(tmp_path / "offer.xlsx")
    found = read_quote_file(tmp_path / "offer.xlsx", READING)
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900]


def test_of_memory_and_disks_under_one_heading_the_memory_is_read(tmp_path: Path) -> None:
    """``Speicher (GB)`` over ``SSD`` and ``RAM``: the disks are not the memory; ``CPU`` likewise."""
    head = ["Bezeichnung", "CPU", None, "Speicher (GB)", None, "Einzelpreis (EUR)"]
    found = read(tmp_path, head, [None, "Typ", "Kerne", "SSD", "RAM"], ["A 1", "EPYC 9354", 64, 3840, 768, 14_950])
    assert not found.errors and found.quotes[["cpus", "mem_gb"]].to_numpy().tolist() == [[64, 768]]


def test_memory_under_gpus_is_not_the_node_s(tmp_path: Path) -> None:
    """``GPU`` over ``Anzahl`` and ``RAM (GB)``: a node's memory is missing, and asked about."""
    head = ["Bezeichnung", "Kerne", "GPU", None, "Einzelpreis (EUR)"]
    found = read(tmp_path, head, [None, None, "Anzahl", "RAM (GB)"], ["A 1", 64, 4, 80, 14_950])
    assert [one.column for one in found.errors] == ["mem_gb"]


@pytest.mark.parametrize("name", ["Two-socket node", "Knoten mit zwei CPUs", "Noeud à deux processeurs"])
def test_a_node_of_two_processors_is_one_node(tmp_path: Path, name: str) -> None:
    """Two of something else in a name make no question."""
    assert not read(tmp_path, HEAD, [name, *A[1:]]).errors


@pytest.mark.parametrize(
    ("head", "row", "cell"),
    [
        ([*HEAD[:4], "Preis/Kern (EUR)"], [*A[:4], 230], "E1"),
        ([*HEAD[:2], "RAM / Kern (GB)", *HEAD[3:]], ["A 1", 64, 12, 0, 14_950], "C1"),
        (HEAD, [*A[:3], "4x A100 40/80GB", 84_950], "D2"),
        (HEAD, [*A[:3], "2 Paar H100 NVL", 84_950], "D2"),
        (HEAD, [*A[:4], "14.950 € inkl. MwSt."], "E2"),
        ([*HEAD, "Einheit"], [*A, "2er-Set"], "E2"),
        ([*HEAD, "ME"], [*A, "Monat"], "E2"),
        ([*HEAD, "PE"], [*A, 10], "E2"),
        ([*HEAD, "Discount %"], [*A, 10], "F2"),
        ([*HEAD, "Remise en %"], [*A, 10], "F2"),
        (["Bezeichnung", "Kerne gesamt", *HEAD[2:], "Anzahl"], ["A 1", 640, *A[2:], 10], "B2"),
        (["Bezeichnung", "Kerne", "RAM gesamt (GB)", *HEAD[3:], "Anzahl"], ["A 1", 64, 7_680, *A[3:], 10], "C2"),
        ([*HEAD, "GPU-Typ"], [*A[:3], 4, 84_950, "8x H100"], "D2"),
        ([*HEAD[:3], "GPU-Typ", HEAD[4]], [*A[:3], "4x H100 (optional 8x)", 84_950], "D2"),
        ([*HEAD, "GPU-Typ"], [*A[:3], 1, 84_950, "HGX H100 8-GPU"], "F2"),
        ([*HEAD, "GPU-Typ"], [*A[:3], 4, 84_950, "A100 40/80GB"], "F2"),
        ([*HEAD, "Bemerkung"], [*B, "Preis ohne GPUs"], "F2"),
        (HEAD, ["Doppelknoten A 1", *A[1:]], "A2"),
        (HEAD, ["BigTwin A 1", *A[1:]], "A2"),
        (HEAD, ["A 1 (Paar)", *A[1:]], "A2"),
    ],
)
def test_what_is_of_several_or_of_a_part_is_asked_about(tmp_path: Path, head: list, row: list, cell: str) -> None:
    """Amounts of a core, a set, a month or all nodes, two sizes of a GPU, and prices with tax are no node's."""
    assert cell in [where for where, _ in asked(read(tmp_path, head, row, B))]


@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        ("Preise CHF", ""),
        ("Preise in T€", ""),
        ("Bruttopreise", ""),
        ("Angebot", "Alle Preise in CHF"),
        ("Angebot", "Angaben in Tausend Euro"),
        ("Angebot", "Alle Beträge in 1.000 EUR"),
        ("Angebot", "Preise sind Monatsraten über 36 Monate"),
        ("Angebot", "Leasing, 36 Monatsraten"),
    ],
)
def test_a_sheet_that_contradicts_its_heading_is_asked_about(tmp_path: Path, title: str, sentence: str) -> None:
    """Another currency, thousands, tax or rates, in the sheet's name or a sentence, against ``Einzelpreis (EUR)``."""
    assert asked(read(tmp_path, sheets={title: [[sentence or "Angebot 7"], [], HEAD, A]}))


@pytest.mark.parametrize("name", ["Mittelwert", "Durchschnitt", "Ø", "Average", "Minimum"])
def test_a_mean_of_servers_is_no_server(tmp_path: Path, name: str) -> None:
    """A row that summarises others is left out, and said."""
    found = read(tmp_path, HEAD, A, B, [name, 96, 1152, 2, 57_450])
    assert len(found.quotes) == 2 and any("left out" in one.allowed for one in found.findings)


@pytest.mark.parametrize("chips", ["2x AMD EPYC 9354", "2x Intel Xeon Y7654321"])
@pytest.mark.parametrize("words", ["zus. 64 Kerne", "insg. 64 Kerne", "64 Kerne tot."])
def test_cores_of_all_processors_are_not_multiplied(tmp_path: Path, words: str, chips: str) -> None:
    """``2x AMD EPYC 9354, insg. 64 Kerne`` has 64 cores, not 128; of a model that is not known it is asked."""
    found = read(tmp_path, [HEAD[0], "CPU", *HEAD[2:]], ["A 1", f"{chips}, {words}", *A[2:]])
    is_known = "EPYC" in chips
    assert ("cpus" in [one.column for one in found.errors]) != is_known
    assert not is_known or found.quotes["cpus"].tolist() == [64]


@pytest.mark.parametrize(
    ("words", "cores"),
    [
        ("64 Cores/Node", 64),
        ("96C 2.6GHz (64 cores per server)", None),
        ("32C 2.6GHz (64 cores per server)", 64),
        ("(96 cores per node)", None),
        ("64 cores per CPU", None),
    ],
)
def test_cores_of_a_node_are_those_of_its_processors(tmp_path: Path, words: str, cores: int | None) -> None:
    """Two EPYC 9354 have 32 each; what says otherwise is asked about."""
    found = read(tmp_path, [HEAD[0], "CPU", *HEAD[2:]], ["A 1", f"2x AMD EPYC 9354, {words}", *A[2:]])
    assert ("cpus" in [one.column for one in found.errors]) == (cores is None)
    assert cores is None or found.quotes["cpus"].tolist() == [cores]


@pytest.mark.parametrize(
    ("column", "heading", "value", "of", "amount"),
    [
        (1, "Kerne", "2x32C/64T", "cpus", 64),
        (1, "Kerne", "64 (2x32)", "cpus", 64),
        (2, "RAM (GB)", "12 × 64", "mem_gb", 768),
        (2, "RAM", "1536 GB (24x 64 GB DDR5)", "mem_gb", 1536),
        (3, "GPUs", "keine GPU", "gpus", 0),
        (3, "GPUs", "No GPU", "gpus", 0),
        (4, "Preis/St. in EUR netto", 14_950, "price_usd", 29_900),
        (4, "Preis (EUR) exkl. 8,1 % MWST", 14_950, "price_usd", 29_900),
        (4, "Einzelpreis", "€ 14,950 ex VAT", "price_usd", 29_900),
        (4, "Einzelpreis (EUR)", "1,49,500", "price_usd", 299_000),
        (4, "Einzelpreis (EUR)", "14 950:-", "price_usd", 29_900),
        (4, "Einzelpreis (EUR)", "14950,00 €/St.", "price_usd", 29_900),
    ],
)
def test_what_offices_write_is_read(
    tmp_path: Path, column: int, heading: str, value: object, of: str, amount: float
) -> None:
    """Modules, threads beside cores, lakhs and the Swedish dash need no question."""
    head, row = list(HEAD), list(A)
    head[column], row[column] = heading, value
    found = read(tmp_path, head, row)
    assert not found.errors and found.quotes[of].tolist() == [amount]


@pytest.mark.parametrize(
    "head",
    [
        ["Name", "Cores/Node", "Memory/Node (GB)", "GPUs/Node", "Price/Node (EUR)"],
        [*HEAD[:4], "Preis €/Stk"],
        [*HEAD[:4], "Nettoeinzelpreis (EUR)"],
        ["Désignation", "Nb cœurs", "Mémoire (Go)", "Nb GPU", "P.U. HT (€)"],
    ],
)
def test_short_forms_of_headings_are_read(tmp_path: Path, head: list) -> None:
    """What is per node after a slash, and French and German short forms, are headings."""
    found = read(tmp_path, head, A)
    assert not found.errors
    assert found.quotes[["cpus", "mem_gb", "gpus", "price_usd"]].to_numpy().tolist() == [[64, 768, 0, 29_900]]


def test_a_number_before_the_model_counts(tmp_path: Path) -> None:
    """``4x H100`` in a column of models is four GPUs where no column has their number."""
    found = read(tmp_path, [*HEAD[:3], "GPU-Typ", HEAD[4]], [*A[:3], "4x H100", 84_950])
    assert not found.errors and found.quotes[["gpus", "gpu_type"]].to_numpy().tolist() == [[4, "H100"]]


def test_an_empty_column_of_models_takes_none_away(tmp_path: Path) -> None:
    """``4x H100`` beside an empty column of models, as in the template, keeps its model."""
    found = read(tmp_path, [*HEAD, "GPU-Typ"], [*A[:3], "4x NVIDIA H100", 84_950, None], [*B, "L40S"])
    assert not found.errors and found.quotes["gpu_type"].tolist() == ["H100", "L40S"]


@pytest.mark.parametrize(
    ("head", "cells"),
    [
        (["Price (SEK)"], ["14 950,00 kr"]),
        (["Price", "Currency"], ["14 950,00 kr", "NOK"]),
        (["Price (JPY)"], ["¥14,950"]),
    ],
)
def test_a_short_sign_is_the_currency_of_the_heading(tmp_path: Path, head: list, cells: list) -> None:
    """``kr`` under SEK or beside NOK, and ``¥`` under JPY, contradict nothing."""
    book = Workbook()
    for one in ([*HEAD[:4], *head], [*A[:4], *cells]):
        book.active.append(one)
    book.save(tmp_path / "offer.xlsx")
    found = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"SEK": 2, "NOK": 2, "JPY": 2}))
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900]


@pytest.mark.parametrize("text", ["Fr. 14'950.-", "SFr. 14'950.--", "CHF 14'950.–"])
def test_swiss_prices_are_read(tmp_path: Path, text: str) -> None:
    """Francs with a point behind their name, and a dash for the cents."""
    book = Workbook()
    for one in ([*HEAD[:4], "Einzelpreis"], [*A[:4], text]):
        book.active.append(one)
    book.save(tmp_path / "offer.xlsx")
    found = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"CHF": 2}))
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900]


@pytest.mark.parametrize(
    ("text", "mark"),
    [("14.950 €*", "*"), ("14.950,00 € **", "**"), ("14.950²", "²"), ("14.950,00 € 1)", "1)"), ("14.950,00 1)", "1)")],
)
def test_a_footnote_s_mark_is_no_part_of_a_price(tmp_path: Path, text: str, mark: str) -> None:
    """The price is read, and the mark said; what the footnote says of tax counts."""
    found = read(tmp_path, HEAD, [*A[:4], text], ["* zzgl. MwSt."])
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900]
    assert any(f"without the mark {mark!r}" in one.allowed for one in found.findings)
    assert any("with tax" in said for _, said in asked(read(tmp_path, HEAD, [*A[:4], text], ["* inkl. 19 % MwSt."])))


@pytest.mark.parametrize("how", ["white", "theme", "format"])
def test_what_nobody_sees_is_asked_about(tmp_path: Path, how: str) -> None:
    """A price in white on white, or hidden by its number format, is no price; white on dark is."""
    book = Workbook()
    for one in (HEAD, A, B):
        book.active.append(one)
    cell = book.active["E3"]
    if how == "format":
        cell.number_format = ";;;"
    else:
        cell.font = Font(color=Color(theme=0) if how == "theme" else "FFFFFFFF")
    for head in book.active[1]:
        head.font, head.fill = Font(color="FFFFFFFF"), PatternFill("solid", fgColor="FF1F4E78")
    book.save(tmp_path / "offer.xlsx")
    found = read_quote_file(tmp_path / "offer.xlsx", READING)
    assert [where for where, _ in asked(found)] == ["E3"] and found.quotes["name"].tolist() == ["A 1"]


def test_a_number_beside_amounts_with_a_currency_is_in_it(tmp_path: Path) -> None:
    """A bare number among amounts in euros is euros; among two currencies it is asked about."""
    head = [*HEAD[:4], "Einzelpreis"]
    found = read(tmp_path, head, [*A[:4], "14.950 €"], B)
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900, 199_900]
    found = read(tmp_path, head, [*A[:4], "14.950 €"], ["C", *A[1:4], "14.950 $"], B)
    assert "E4" in [where for where, _ in asked(found)]


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        (["", "A 1", "B 1"], [["Kerne", 64, 128], ["RAM (GB)", 768, 1536], ["Einzelpreis (EUR)", 14_950, 99_950]]),
        (
            ["Merkmal", "A 1", "B 1"],
            [
                ["CPU", "2x AMD EPYC 9354 (32 Kerne)", "(2) Intel Xeon 8592+ 64-Core"],
                ["Arbeitsspeicher", "(12) 64GB RDIMM", "24x 64 Go"],
                ["Anzahl", 10, 2],
                ["Einzelpreis netto", "14.950,00 €", "99.950,00 €"],
                ["Gesamtpreis netto", "149.500,00 €", "199.900,00 €"],
            ],
        ),
    ],
)
def test_a_server_type_per_column_needs_no_heading_for_its_name(tmp_path: Path, head: list, rows: list) -> None:
    """The first row of texts are the names where nothing heads them."""
    found = read(tmp_path, head, *rows)
    assert not found.errors
    assert found.quotes[["cpus", "mem_gb", "price_usd"]].to_numpy().tolist() == [
        [64, 768, 29_900],
        [128, 1536, 199_900],
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [["Zwischensumme Pos. 1", 149_500], ["8.1% MWST", 12_109.5], ["Total inkl. MWST", 161_609.5]],
        [["Sous-total lot 1", 149_500], ["TVA 20 %", 29_900], ["Total TTC", 179_400]],
        [["Base imponible", 149_500], ["IVA 21%", 31_395], ["TOTAL", 180_895]],
        [["Totale imponibile", 149_500], ["IVA 22%", 32_890], ["Totale ivato", 182_390]],
        [["Subtotal", 149_500], ["VAT @ 20%", 29_900], ["Grand Total", 179_400]],
        [["Summe Pos. 1-2", 149_500], ["Sales Tax (8.25%)", 12_333.75]],
    ],
)
def test_the_end_of_a_bill_changes_no_price(tmp_path: Path, rows: list) -> None:
    """Sums and tax beneath net amounts are left out, and a total with tax on top makes no price one with tax."""
    head = [*HEAD[:4], "Menge", "Einzelpreis (EUR)", "Gesamtpreis (EUR)"]
    bill = [[label, *[None] * 5, amount] for label, amount in rows]
    found = read(tmp_path, head, [*A[:4], 10, 14_950, 149_500], *bill)
    assert not found.errors and not found.lines and found.quotes["price_usd"].tolist() == [29_900]


def test_a_total_with_tax_that_is_the_sum_says_that_prices_are_with_tax(tmp_path: Path) -> None:
    """Where the amounts add up to the total with tax, they have it, too."""
    head = [*HEAD[:4], "Menge", "Einzelpreis (EUR)", "Gesamtpreis (EUR)"]
    bill = [["darin 19 % MwSt.", *[None] * 5, 23_869.75], ["Gesamt inkl. MwSt.", *[None] * 5, 149_500]]
    found = read(tmp_path, head, [*A[:4], 10, 14_950, 149_500], *bill)
    assert any("with tax" in said for _, said in asked(found))


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Alla priser inkl. moms", "with tax"),
        ("Alle priser inkl. mva", "with tax"),
        ("単価は税込です", "with tax"),
    ],
)
def test_tax_of_other_languages_is_asked_about(tmp_path: Path, sentence: str, words: str) -> None:
    """Swedish, Norwegian and Japanese tax in a sentence counts."""
    assert any(words in text for _, text in asked(read(tmp_path, HEAD, A, [sentence])))


@pytest.mark.parametrize(
    ("head", "row"),
    [
        (["Benämning", "Antal kärnor", "Minne (GB)", "GPU", "Styckpris exkl. moms (EUR)"], A),
        (["Beskrivelse", "Kjerner", "Minne (GB)", "GPU", "Enhetspris (EUR) ekskl. mva"], A),
        (["Nazwa", "Liczba rdzeni", "Pamięć RAM (GB)", "GPU", "Cena jedn. netto (EUR)"], A),
        (["品名", "コア数", "メモリ (GB)", "GPU", "単価 (EUR, 税抜)"], A),
        (["Descrizione", "N. core", "Memoria (GB)", "GPU", "Prezzo cad. (EUR)"], A),
        (["Artículo", "Núcleos", "Memoria (GB)", "GPU", "P. unitario (EUR)"], A),
        ([*HEAD[:4], "Einzelpreis (EUR)", "Preis pro GPU (EUR)", "RAM/Kern (GB)"], [*A, 7_000, 12]),
        ([HEAD[0], "CPUs", "Total cores", *HEAD[2:]], ["A 1", 2, *A[1:]]),
        ([*HEAD[:4], "Nettopreis (EUR)", "MwSt. 19 %", "Bruttopreis (EUR)"], [*A, 2_840.5, 17_790.5]),
        ([*HEAD[:4], "List Price", "Disc %", "Your Price"], [*A[:4], "€29,900.00", "50%", "€14,950.00"]),
        ([*HEAD[:4], "Nodes", "Extended (EUR)"], [*A[:4], 10, 149_500]),
        ([*HEAD[:4], "Einzelpreis"], [*A[:4], "14.950 € + MwSt."]),
    ],
)
def test_more_headings_are_read(tmp_path: Path, head: list, row: list) -> None:
    """Headings of more languages, and columns beside the one that is meant."""
    found = read(tmp_path, head, row)
    assert not found.errors
    assert found.quotes[["cpus", "mem_gb", "gpus", "price_usd"]].to_numpy().tolist() == [[64, 768, 0, 29_900]]


@pytest.mark.parametrize(
    ("head", "row", "cell"),
    [
        ([HEAD[0], "Kerne (inkl. HT)", *HEAD[2:]], ["A 1", 128, *A[2:]], "B1"),
        (["Name", "Total cores", "Total memory (GB)", "Nodes", "Price (EUR)"], ["A", 640, 7_680, 10, 14_950], "B2"),
        (["Name", "CPUs", "Cores", "RAM (GB)", "Price (EUR)"], ["A", 2, 32, 768, 14_950], "C2"),
    ],
)
def test_threads_and_amounts_of_all_nodes_are_asked_about(tmp_path: Path, head: list, row: list, cell: str) -> None:
    """Cores with hyper-threads, cores of ten nodes, cores that may be those of one of two CPUs."""
    assert cell in [where for where, _ in asked(read(tmp_path, head, row))]


def test_amounts_below_0_are_taken_off(tmp_path: Path) -> None:
    """(1,000.00) and -€1,000.00 are what a discount takes off; payment in time is no discount."""
    rows = [["EDU discount", None, None, None, one] for one in ("(€1,000.00)", "-€1,000.00")]
    found = read(tmp_path, HEAD, A, *rows, ["Zahlung: 14 Tage 2 % Skonto, 30 Tage netto"])
    assert not found.errors and [float(line.usd) for line in found.lines] == [-2_000, -2_000]


@pytest.mark.parametrize(
    "sentence",
    [
        "Preise gültig bei Abnahme von 10 Stück",
        "Preise verstehen sich ohne Speicher",
        "Prices exclude processors",
        "Alle Angaben pro Chassis (4 Knoten)",
        "Each system consists of 4 nodes",
        "Prices are per 2U chassis with 4 nodes",
        "Pricing per month over 60 months",
        "Monthly fee",
        "Auf alle Preise gewähren wir 10 % Rabatt",
        "All prices subject to 8% surcharge",
        "Kerne inkl. Hyperthreading",
        "RAM-Angaben pro Sockel",
    ],
)
def test_a_sentence_that_changes_amounts_is_asked_about(tmp_path: Path, sentence: str) -> None:
    """Discounts, surcharges, conditions, chassis and threads in a sentence, or in a remark beside a server."""
    assert [where for where, _ in asked(read(tmp_path, [sentence], HEAD, A))] == ["A1"]
    assert [where for where, _ in asked(read(tmp_path, [*HEAD, "Bemerkung"], [*A, sentence]))] == ["F2"]


@pytest.mark.parametrize(
    "sentence",
    [
        "Angebot über ein HPC-Cluster mit 10 Knoten",
        "Rabatt von 10 % bereits berücksichtigt",
        "Zahlung in 30 Tagen, 2 % Skonto",
    ],
)
def test_sentences_that_change_nothing_are_no_question(tmp_path: Path, sentence: str) -> None:
    """A title, a discount that is in the prices already, and terms of payment."""
    assert not read(tmp_path, [sentence], HEAD, A).errors


@pytest.mark.parametrize(
    ("head", "row", "cell"),
    [
        ([*HEAD[:4], "Preis (EUR, ohne GPU)"], A, "E1"),
        (HEAD, [*A[:3], "4x H100 (nicht enthalten)", 14_950], "D2"),
        (HEAD, [*A[:3], "8x MI250X (16 GCDs)", 14_950], "D2"),
        ([HEAD[0], "CPU", *HEAD[2:]], ["A 1", "2x EPYC 9998, 64 Kerne", *A[2:]], "A1"),
    ],
)
def test_parts_that_are_not_in_a_price_and_cores_of_one_or_all_are_asked_about(
    tmp_path: Path, head: list, row: list, cell: str
) -> None:
    """A price without its GPUs, GPUs of two dies, and cores that may be those of both processors."""
    assert cell in [where for where, _ in asked(read(tmp_path, head, row))]


@pytest.mark.parametrize("name", ["InfiniBand Switch (2 Stück)", "2 Racks", "4x Switch 64 Ports"])
def test_a_line_of_several_without_a_quantity_is_asked_about(tmp_path: Path, name: str) -> None:
    """An amount beside ``2 Racks`` may be that of one or of both; with a column of quantities it is said."""
    assert [cell for cell, _ in asked(read(tmp_path, HEAD, A, [name, None, None, None, 5_000]))] == ["A3"]
    assert not read(tmp_path, HEAD, A, ["Switch mit 64x 400G", None, None, None, 5_000]).errors


@pytest.mark.parametrize(
    ("cpu", "cores", "is_asked"),
    [
        ("2x Intel Xeon Gold 6430", 32, True),
        ("Dual Intel(R) Xeon(R) Gold 6430", 64, False),
        ("2x AMD EPYC 9354", 128, True),
        ("AMD EPYC 9354", 64, False),
        ("2x Intel Xeon Platinum 8592+", 64, True),
        ("2x Nordlys 9000", 32, False),
    ],
)
def test_cores_are_those_of_all_processors_of_the_table(tmp_path: Path, cpu: str, cores: int, is_asked: bool) -> None:
    """Cores of one CPU, or threads, beside a known model and its number are asked about, with both readings."""
    found = read(
        tmp_path, ["Server", "CPU", "Cores", "RAM (GB)", "Unit price (EUR)"], ["Node A", cpu, cores, 768, 9_000]
    )
    said = [one for one in found.errors if one.cell == "C2"]
    assert bool(said) == is_asked
    assert all("B2" in one.allowed and "cores" in one.allowed for one in said)


@pytest.mark.parametrize(
    ("cpu", "cores"),
    [
        ("2x AMD EPYC 9354 (64 cores)", 64),
        ("2x AMD EPYC 9354 (32 cores)", 64),
        ("2x Intel Xeon Platinum 8480C (56 cores)", 112),
        ("2x AMD EPYC 9354 (48 cores)", None),
    ],
)
def test_cores_in_a_processors_text_agree_with_the_table_of_processors(
    tmp_path: Path, cpu: str, cores: int | None
) -> None:
    """Cores in brackets may be those of each or of all: the model tells; where it does not agree, it is asked."""
    found = read(tmp_path, ["Server", "CPU", "RAM (GB)", "Unit price (EUR)"], ["Node A", cpu, 768, 9_000])
    if cores is None:
        assert "B2" in [one.cell for one in found.errors]
    else:
        assert list(found.quotes["cpus"]) == [cores]


@pytest.mark.parametrize("heading", ["Nodes per chassis", "Knoten pro Chassis"])
def test_a_price_beside_nodes_of_a_chassis_says_of_what_it_is(tmp_path: Path, heading: str) -> None:
    """It may be that of the chassis; a price per node is read."""
    head, row = [*HEAD[:4], "Einzelpreis (EUR)", heading], [*A, 4]
    assert [cell for cell, _ in asked(read(tmp_path, head, row))] == ["E1"]
    assert not read(tmp_path, [*HEAD[:4], "Preis pro Knoten (EUR)", heading], row).errors


@pytest.mark.parametrize("note", ["no memory", "No GPUs", "no disks", "memory: no"])
def test_no_is_without(tmp_path: Path, note: str) -> None:
    """What a node comes without is asked about, in its name and beneath the table; a number's "No." is none."""
    assert [cell for cell, _ in asked(read(tmp_path, HEAD, A, [], [note]))] == ["A4"]
    assert [cell for cell, _ in asked(read(tmp_path, HEAD, [f"{A[0]} {note}", *A[1:]]))] == ["A2"]
    assert not read(tmp_path, ["Offer No. 12345"], ["Quote no 20261126"], ["Item no: 7"], HEAD, A).errors


def test_options_are_no_part_of_the_order(tmp_path: Path) -> None:
    """A table or a sheet that is called options is asked about."""
    rows = [["Description", "Quantity", "Unit price (EUR)"], ["InfiniBand switch", 2, 18_900]]
    assert "A4" in [cell for cell, _ in asked(read(tmp_path, HEAD, A, [], ["Options"], *rows))]
    found = read(tmp_path, sheets={"Angebot": [HEAD, A], "Optionen": rows})
    assert "Optionen" in [one.sheet for one in found.errors]


WHOLE = ["Server", "Kerne", "RAM (GB)", "Menge", "Einzelpreis (EUR)", "Gesamt (EUR)"]
TWENTY, SWITCH = ["Node A", 64, 768, 20, 14_500, 290_000], ["Switch", None, None, 2, 9_000, 18_000]


def beneath(name: str, amount: float | str | None) -> list:
    return [name, None, None, None, None, amount]


@pytest.mark.parametrize(
    ("rows", "cell"),
    [
        ([TWENTY, SWITCH, beneath("Summe", 308_000)], ""),
        ([TWENTY, SWITCH, beneath("Summe", 295_000)], "F4"),
        ([TWENTY, SWITCH, beneath("Summe", 320_000)], "F4"),
        ([TWENTY, beneath("Summe", 290_000), beneath("Endpreis", 275_500)], "F4"),
        ([TWENTY, beneath("Zwischensumme", 290_000), SWITCH, beneath("Gesamtsumme", 308_000)], ""),
        (
            [TWENTY, beneath("Summe netto", 290_000), beneath("MwSt. 19 %", 55_100), beneath("Summe brutto", 345_100)],
            "",
        ),
        (
            [TWENTY, beneath("Summe netto", 280_000), beneath("MwSt. 19 %", 53_200), beneath("Summe brutto", 333_200)],
            "F3",
        ),
        ([TWENTY, beneath("Rabatt 5 %", -14_500), beneath("Summe", 275_500)], ""),
        ([TWENTY, beneath("Rabatt 5 %", None), beneath("Summe", 275_500)], ""),
        ([TWENTY, ["Installation je Server", None, None, 1, 180, 180], beneath("Summe", 293_600)], ""),
        ([TWENTY, beneath("Rabatt 5 %", -10_000), beneath("Summe", 280_000)], "F3"),
        ([TWENTY, SWITCH, beneath("Rabatt 5 %", -15_400), beneath("Summe", 292_600)], ""),
        ([TWENTY, SWITCH, beneath("Rabatt 5 %", -15_300), beneath("Summe", 292_700)], "F4"),
        ([TWENTY, SWITCH, beneath("5 % Rabatt auf Gesamtsumme", -15_400), beneath("Summe", 292_600)], ""),
        ([TWENTY, beneath("Rabatt 5 %", -14_500), ["Node B", 64, 768, 10, 14_500, 145_000]], "F3"),
    ],
)
def test_sums_and_discounts_are_those_of_their_rows(tmp_path: Path, rows: list, cell: str) -> None:
    """A total that is not the sum of the rows above it, or an amount that is not its percentage, is asked about."""
    found = asked(read(tmp_path, WHOLE, *rows))
    assert [one for one, _ in found] == ([cell] if cell else [])
    assert all("," in said for _, said in found)


@pytest.mark.parametrize(
    ("name", "is_asked"),
    [("GPU node, 4 NVIDIA H100", True), ("GPU server", True), ("Node no GPU", False), ("Node A", False)],
)
def test_a_server_whose_name_says_gpus_has_not_none(tmp_path: Path, name: str, is_asked: bool) -> None:
    """Without a column of GPUs its name asks how many there are; with one, none is none."""
    found = [one for one in read(tmp_path, WHOLE[:5], [name, *TWENTY[1:5]]).errors if one.column == "gpus"]
    assert [one.cell for one in found] == (["A2"] if is_asked else [])
    assert not [one for one in read(tmp_path, HEAD, ["GPU server", *A[1:]]).errors if one.column == "gpus"]


@pytest.mark.parametrize("note", ["Bruttopreise", "brutto", "TTC"])
def test_one_word_makes_prices_those_with_tax(tmp_path: Path, note: str) -> None:
    """It is read as ``Alle Preise brutto`` is; ``netto`` alone changes nothing."""
    assert "with tax" in asked(read(tmp_path, HEAD, A, [], [note]))[0][1]
    assert not read(tmp_path, HEAD, A, [], ["netto"]).errors


@pytest.mark.parametrize(
    "title", ["V1 superseded", "Alt", "Entwurf", "storniert", "Spare parts", "do not use", "Refurbished"]
)
def test_a_sheet_that_may_not_count_is_asked_about(tmp_path: Path, title: str) -> None:
    """An offer that another one replaces, or that is of no order, is no part of it."""
    assert title in [one.sheet for one in read(tmp_path, sheets={"Angebot": [HEAD, A], title: [HEAD, B]}).errors]


def test_a_word_without_end_is_asked_about_once(tmp_path):
    """Text of thousands of letters is no word; the same question of many cells is one line of the error."""
    rows = [["A 1", 64, 768, 0, 14_950, "pricey" * 200] for _ in range(40)]
    with pytest.raises(TableError, match="not known") as error:
        read(tmp_path, [*HEAD, "Bemerkung"], *rows)
        read_quotes(tmp_path / "offer.xlsx", READING)
    assert "(and F3, F4, F5 and 36 more)" in str(error.value)
    assert len(str(error.value)) < 2000
