"""Each word of an offer is known to change no amount, was read, or is asked about."""

from __future__ import annotations

from pathlib import Path

import pytest
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


LETTER = [
    ["Nordsee IT-Systeme GmbH & Co. KG", "Tel. +49 431 5566-12"],
    ["IBAN DE12 2505 0000 0123 4567 89", "USt-IdNr. DE 812 345 678"],
    ["Angebot Nr. 2026-118", "Frau Dipl.-Ing. M. Schröder"],
]


@pytest.mark.parametrize(
    "currency", [["Currency:", "EUR"], ["Währung: EUR"], ["Nettopreise in EUR"], ["Pricing in", "EUR"]]
)
def test_a_letter_above_a_table_is_no_question_and_its_currency_counts(tmp_path: Path, currency: list[str]) -> None:
    """Companies, banks and tax numbers above the table change no amount; the currency is that of bare numbers."""
    found = read(tmp_path, *LETTER, currency, [*HEAD[:4], "Einzelpreis"], ROW)
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900]
    assert any("EUR" in one.allowed for one in read(tmp_path, currency, [*HEAD[:4], "Price (USD)"], ROW).errors)


def test_options_are_not_counted_and_their_words_are_no_question(tmp_path: Path) -> None:
    """A row that is called an option is left out with a warning; a server that is one is asked about."""
    option = ["Option: zweites Netzteil", None, None, None, 210]
    found = read(tmp_path, HEAD, ROW, option, ["Summe netto (ohne Optionen)", None, None, None, 14_950])
    assert not found.errors and not found.lines and "A3" in [one.cell for one in found.findings]
    assert [one.cell for one in read(tmp_path, HEAD, ROW, ["Option: Knoten", *ROW[1:]]).errors] == ["A3"]


def test_a_percentage_may_stand_in_a_cell_of_its_own(tmp_path: Path) -> None:
    """5 % in the column of quantities beside ``Rabatt`` is what is taken off."""
    book = Workbook()
    head = ["Bezeichnung", "Kerne", "RAM (GB)", "Menge", "Einzelpreis (EUR)", "Gesamtpreis (EUR)"]
    for row in (head, ["R6625", 64, 768, 10, 15_000, 150_000], ["Projektrabatt", None, None, 0.05, None, -7_500]):
        book.active.append(row)
    book.active["D3"].number_format = "0%"
    book.save(tmp_path / "offer.xlsx")
    found = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 2}))
    assert not found.errors and [one.percent for one in found.lines] == [5]


def test_a_price_after_a_discount_is_the_price(tmp_path: Path) -> None:
    """Of a unit price, its discount and a net price the net one is taken where it is the first less the second."""
    head = [*HEAD[:4], "Unit price (EUR)", "Discount", "Net price (EUR)"]
    found = read(tmp_path, head, [*ROW[:4], 20_000, "20 %", 16_000])
    assert not found.errors and found.quotes["price_usd"].tolist() == [32_000]
    assert read(tmp_path, head, [*ROW[:4], 20_000, "20 %", 15_000]).errors


def test_a_column_of_numbers_is_no_column_of_names(tmp_path: Path) -> None:
    """``Item`` over 1 and 2 beside names numbers them; ``System`` over 4 and 1 beside names is asked about."""
    found = read(tmp_path, ["Item", "Node", *HEAD[1:]], [1, "AMD node", *ROW[1:]], [2, "Intel node", *ROW[1:]])
    assert not found.errors and found.quotes["name"].tolist() == ["AMD node", "Intel node"]
    asked = read(tmp_path, [*HEAD, "System"], [*ROW, 4], ["R7625", *ROW[1:], 1]).errors
    assert [one.cell for one in asked] == ["F1"]


@pytest.mark.parametrize(
    ("heading", "cells"),
    [
        ("Chassis", [4, 4]),
        ("Chassis", ["2U4N", "1U"]),
        ("Wert (EUR)", [13_000, 24_000]),
        ("Eenheid", ["paar", "stuks"]),
    ],
)
def test_a_known_heading_over_what_may_be_of_several_is_asked_about(
    tmp_path: Path, heading: str, cells: list[object]
) -> None:
    """Numbers of chassis, a second amount without a quantity, a pair as unit of measure."""
    assert read(tmp_path, [*HEAD, heading], [*ROW, cells[0]], ["R7625", *ROW[1:], cells[1]]).errors


def test_an_offer_without_a_server_is_asked_about(tmp_path: Path) -> None:
    """A server whose cores and memory stand in its description alone is not read as a rack."""
    rows = [["Artikel", "Menge", "Einzelpreis (EUR)"], ["Dell PowerEdge R6625 Rack-Server", 1, 14_280]]
    assert "no row was read as a server" in [one.allowed for one in read(tmp_path, *rows).errors][-1]


@pytest.mark.parametrize("name", ["Netzteil Rechenknoten", "Nodo doppio R6625", "2 lames R6625", "Gerätepaar R6625"])
def test_a_part_or_several_in_a_name_stay_asked_about(tmp_path: Path, name: str) -> None:
    """Words of parts before a node, a double node, two blades, a pair."""
    assert "A2" in [one.cell for one in read(tmp_path, HEAD, [name, *ROW[1:]]).errors]


@pytest.mark.parametrize("other", [13_000, 29_900, 14_950])
def test_a_second_price_is_the_first_or_a_multiple(tmp_path: Path, other: float) -> None:
    """``Net price`` beside ``Unit price`` is the same or the price of several, or it is asked about."""
    found = read(tmp_path, [*HEAD[:4], "Unit price (EUR)", "Net price (EUR)"], [*ROW, other])
    assert [one.cell for one in found.errors] == (["E2"] if other == 13_000 else [])


@pytest.mark.parametrize("heading", ["Nb de cœurs", "# of cores", "N. di core", "Core totali"])
def test_a_count_in_a_heading_changes_no_column(tmp_path: Path, heading: str) -> None:
    """A number of cores is cores; a number of pairs is asked about."""
    assert read(tmp_path, [HEAD[0], heading, *HEAD[2:]], ROW).quotes["cpus"].tolist() == [64]
    assert read(tmp_path, [HEAD[0], f"{heading} pairs", *HEAD[2:]], ROW).errors


def test_words_of_a_line_in_a_total_that_agrees_are_said_not_asked(tmp_path: Path) -> None:
    """An amount that the total holds to the cent is bought once, whatever its name says; a server's is asked about."""
    head = ["Bezeichnung", "Kerne", "RAM (GB)", "Menge", "Einzelpreis (EUR)", "Gesamtpreis (EUR)"]
    server, line = ["R6625", 64, 768, 10, 15_000, 150_000], ["Lieferung zwirbel", None, None, 1, 900, 900]
    found = read(tmp_path, head, server, line, ["Zwirbelbetrag", None, None, None, None, 150_900])
    assert not found.errors and [float(one.usd) for one in found.lines] == [1_800]
    assert {"A3", "A4"} <= {one.cell for one in found.findings if "not known" in one.allowed}
    assert read(tmp_path, head, server, line, ["Zwirbelbetrag", None, None, None, None, 150_901]).errors
    server[0] = "R6625 zwirbel"
    assert "A2" in [one.cell for one in read(tmp_path, head, server, line, ["Summe", *[None] * 4, 150_900]).errors]


def test_memory_in_tb_is_that_of_its_modules(tmp_path: Path) -> None:
    """2 TB of 32 modules of 64 GB are 2,048 GB; of other modules they are asked about."""
    for cell, gb in (("2 TB (32 x 64 GB)", 2048), ("1.5 TB (24 x 64 GB)", 1536), ("2 TB (24 x 64 GB)", None)):
        found = read(tmp_path, HEAD, [*ROW[:2], cell, *ROW[3:]])
        assert found.quotes["mem_gb"].tolist() == [gb] if gb else found.errors


@pytest.mark.parametrize("price", ["€58,000", "$58,000"])
def test_a_stated_mark_makes_no_server_for_fifty_eight_dollars(tmp_path: Path, price: str) -> None:
    """The mark that 13.900 in one cell was answered with is not that of 58,000 in another: no server costs 58."""
    rows = [[*HEAD[:4], "Einzelpreis"], [*ROW[:4], "€13.900"], ["PowerEdge R7625", *ROW[1:4], price]]
    read(tmp_path, *rows)
    found = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 2}, decimal="comma"))
    assert [one.cell for one in found.errors] == ["E3"]


@pytest.mark.parametrize(
    "sentence",
    ["GPU cards to be supplied by the customer.", "GPUs supplied by the customer.", "RAM wird vom Kunden gestellt.",
     "Ohne Prozessoren.", "Zzgl. Zoll.", "Plus customs duty.", "Shipping extra.", "Values in thousands of euro."],
)  # fmt: skip
def test_a_sentence_on_parts_or_additions_is_asked_about(tmp_path: Path, sentence: str) -> None:
    """What a server lacks, what comes on top, and thousands change an amount without naming a price."""
    assert [one.cell for one in read(tmp_path, HEAD, ROW, [], [sentence]).errors] == ["A4"]


@pytest.mark.parametrize(
    "remark",
    [
        "Refurbished hardware.",
        "Memory delivered by the customer.",
        "In 1000",
        "Cores are of one socket.",
        "Barebone.",
        "MOQ 10",
        "Ex demo pool",
        "RAM 1536 GB",
        "Die Grafikkarten stellt der Kunde.",
        "Matériel de démonstration, garantie 1 an.",
        "Paiement à 30 jours, matériel d'occasion.",
        "Refurbished with 12 months warranty",
        "Quote: refurbished",
        "x1000",
        "Delivery of demo hardware in 8 weeks",
        "Refurbished by Dell Technologies",
    ],
)
def test_a_remark_that_may_change_what_is_bought_is_asked_about(tmp_path: Path, remark: str) -> None:
    """Whatever is not known to be a letter's is asked about, beneath a table and in its column of remarks."""
    assert [one.cell for one in read(tmp_path, HEAD, ROW, [], [remark]).errors] == ["A4"]
    assert [one.cell for one in read(tmp_path, [*HEAD, "Remarks"], [*ROW, remark]).errors] == ["F2"]


@pytest.mark.parametrize(
    "remark",
    [
        "Delivery: 8-10 weeks from receipt of purchase order",
        "Zahlungsziel 30 Tage nach Rechnungsdatum",
        "Technische Universität Ilmenau, Ehrenbergstraße 29, 98693 Ilmenau",
        "Contact: Rachel Adeyemi, Bid Manager",
        "Nordsee IT-Systeme GmbH & Co. KG",
        "Kampen, 13 november 2026",
        "Met vriendelijke groet,",
        "Dieses Angebot ist freibleibend und gültig bis 31.01.2027.",
        "Gerichtsstand ist Köln.",
    ],
)
def test_what_letters_have_is_not_asked_about(tmp_path: Path, remark: str) -> None:
    """Addresses, people, dates, times of delivery and payment, greetings and law change nothing that is bought."""
    assert not read(tmp_path, HEAD, ROW, [], [remark]).errors
    assert not read(tmp_path, [remark], HEAD, ROW).errors


def test_all_remarks_are_one_question_and_its_answer_holds_for_them_only(tmp_path: Path) -> None:
    """Each is quoted with its cell; after another remark has come the question is asked again."""
    rows = [HEAD, ROW, [], ["Refurbished hardware."], ["Ex demo pool"]]
    (asked,) = read(tmp_path, *rows).errors
    assert asked.given == "Refurbished hardware." and "'Ex demo pool' (Sheet!A5)" in asked.allowed
    answer = asked.allowed.rpartition("--harmless ")[2]
    assert not read(tmp_path, *rows, harmless=(answer,)).errors
    assert read(tmp_path, *rows, ["Barebone."], harmless=(answer,)).errors


def test_a_name_follows_a_greeting(tmp_path: Path) -> None:
    """Beneath the greeting it is whose letter it is; elsewhere beneath a table it may be anything."""
    assert not read(tmp_path, HEAD, ROW, [], ["Kind regards"], ["Dana Whitaker"]).errors
    assert [one.cell for one in read(tmp_path, HEAD, ROW, [], ["Dana Whitaker"]).errors] == ["A4"]
