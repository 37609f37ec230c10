"""Offers in many languages are read at once; what they leave open is asked about, and answered by one command."""

from __future__ import annotations

import shlex
import zipfile
from pathlib import Path

import pytest
import strange_sheets
from openpyxl import Workbook
from typer.testing import CliRunner

from procure.cli.main import app
from procure.packages.quote_file import OfferReading, QuoteFile, all_harmless, read_quote_file
from procure.sheets.cells import Reader, Unreadable
from procure.sheets.described import Described, described

READING = OfferReading(rates=dict.fromkeys(("EUR", "CZK", "PLN", "SEK", "NOK", "DKK", "HUF"), 2))
HEAD, NODE = ["Server", "Cores", "RAM (GB)", "GPUs", "Price (EUR)"], ["Node A", 64, 768, 0, 14_960]


def book(path: Path, *rows: list) -> QuoteFile:
    """Write a workbook, and read it."""
    made = Workbook()
    for row in rows:
        made.active.append(row)
    made.save(path / "offer.xlsx")
    return read_quote_file(path / "offer.xlsx", READING)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (
            ["Typ uzlu", "Počet jader", "Paměť RAM (GB)", "Počet GPU", "Cena za kus bez DPH (Kč)"],
            "Uzel s velkou pamětí",
        ),
        (["Nazwa", "Liczba rdzeni", "Pamięć [GB]", "Liczba GPU", "Cena jedn. netto (zł)"], "Węzeł z dużą pamięcią"),
        (["Nod", "Antal kärnor", "Minne (GB)", "Antal GPU:er", "Pris per nod, SEK exkl. moms"], "Fet nod"),
        (["Nodetype", "Antall kjerner", "Minne (GB)", "Antall GPU", "Enhetspris ekskl. mva. (NOK)"], "Tynn node"),
        (["Servertype", "Antal kerner", "Hukommelse (GB)", "Antal GPU", "Stykpris ekskl. moms (DKK)"], "Stor server"),
        (["Solmutyyppi", "Ytimien määrä", "Keskusmuisti (GB)", "GPU kpl", "Yksikköhinta ALV 0 % (EUR)"], "Ohut solmu"),
        (["Designação", "Nº de núcleos", "Memória (GB)", "Nº de GPU", "Preço unitário s/ IVA (EUR)"], "Nó de cálculo"),
        (["Megnevezés", "Magok száma", "Memória (GB)", "GPU-k száma", "Nettó egységár (Ft)"], "Számítási csomópont"),
    ],
)
def test_headings_of_many_languages_are_known(tmp_path: Path, head: list, name: str) -> None:
    """A node of ordinary size under them is read without a question."""
    found = book(tmp_path, head, [name, 64, 768, 2, 50_000])
    assert not found.errors
    row = found.quotes.iloc[0]
    assert (row["cpus"], row["mem_gb"], row["gpus"], row["price_usd"]) == (64, 768, 2, 100_000)


@pytest.mark.parametrize(
    "sentence",
    [
        "Paměť dodá zákazník.",
        "Ceny nie zawierają pamięci.",
        "Priset gäller för två noder.",
        "Legalább 10 db rendelése esetén.",
        "Hinta on kotelolle.",
        "Preços com IVA.",
        "Käytetyt palvelimet.",
        "Leje pr. måned.",
        "Ceny v tis. Kč.",
        "Leveras utan minne.",
        "Prosessoriton palvelin.",
        "Rabat 5 % nie jest uwzględniony.",
        "Account manager: Used Hardware",
        "Lieferzeit ca. 6 Wochen. RAM gegen Aufpreis.",
        "Frakt tillkommer.",
        "Irányár.",
        "Garantia 3 anos paga à parte.",
        "Termin dostawy: 8 tygodni (minimum 10 sztuk)",
        "Dodání 6 týdnů, bez pamětí.",
    ],
)
def test_remarks_that_change_something_are_asked_about(tmp_path: Path, sentence: str) -> None:
    """In these languages too a remark on memory, sets, least numbers, rent, tax or used goods is asked."""
    assert {"A4", "E2"} & {one.cell for one in book(tmp_path, HEAD, NODE, [], [sentence]).errors}


@pytest.mark.parametrize(
    "sentence",
    [
        "Lieferzeit ca. 6 Wochen nach Auftragseingang. Zahlungsziel 30 Tage netto.",
        "i.A. Jörg Wältermann",
        "Dodací lhůta: 8 týdnů",
        "E&OE. Prices valid for 30 days. Delivery 6-8 weeks.",
        "Termin płatności: 30 dni",
        "Account manager: Hannah Price",
        "Leveranstid 8 veckor. Betalningsvillkor 30 dagar netto.",
        "Toimitusaika: 6 viikkoa",
        "Szállítási határidő: 6 hét",
    ],
)
def test_what_letters_say_is_not_asked_about(tmp_path: Path, sentence: str) -> None:
    """Delivery, payment, signatures and people behind a label change no price."""
    assert not book(tmp_path, HEAD, NODE, [], [sentence]).errors


@pytest.mark.parametrize(
    ("line", "per", "years"),
    [
        ("Instalace na uzel", "node", None),
        ("Instalação por nó", "node", None),
        ("Záruka 5 let", "order", 5),
        ("Takuu 5 vuotta", "order", 5),
        ("Telepítés csomópontonként", "", None),
        ("Podpora na rok", "", None),
        ("Licence na jádro", "", None),
        ("Alennus 5 % muistista", "", None),
    ],
)
def test_lines_of_many_languages_are_of_a_node_or_asked_about(
    tmp_path: Path, line: str, per: str, years: int | None
) -> None:
    """What is charged for each node is; per core, per year or off a part is asked."""
    found = book(tmp_path, HEAD, NODE, [line, None, None, None, None if "%" in line else 500])
    assert bool(found.errors) is not bool(per)
    assert found.errors or [(one.per, one.years) for one in found.lines] == [(per, years)]


@pytest.mark.parametrize(("page", "said"), [("cp1250", "Windows-1250"), ("iso8859_2", "ISO-8859-2"), ("utf-16", "")])
def test_the_code_page_is_that_which_makes_words_known(tmp_path: Path, page: str, said: str) -> None:
    """A Czech offer is read in each, which is a guess where no mark says so; messages count empty lines."""
    rows = [
        "Nabídka",
        "",
        "Název;Počet jader;Paměť (GB);Cena za kus (Kč)",
        "Štíhlý uzel;64;768;412 000,00",
        "",
        "RAM navíc",
    ]
    text = "\r\n".join(rows)
    (tmp_path / "offer.csv").write_bytes(text.encode(page))
    found = read_quote_file(tmp_path / "offer.csv", READING)
    assert [one.allowed.split()[-1] for one in found.findings if "not UTF-8" in one.allowed] == ([said] if said else [])
    assert [one.cell for one in found.errors] == ["line 4", "line 6"]


def test_a_pound_is_no_polish_letter(tmp_path: Path) -> None:
    """The byte of £ in Windows-1252 is Ł in Windows-1250: before a number it is money."""
    text = 'Server,Cores,RAM (GB),Price\nNode A,64,768,"£14,960.00"\n'
    (tmp_path / "offer.csv").write_bytes(text.encode("cp1252"))
    found = read_quote_file(tmp_path / "offer.csv", OfferReading(rates={"GBP": 2}))
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_920]


READER = Reader("price_usd", None, None, lambda value, _: value)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        (
            "4U GPU server: 2 x AMD EPYC 9355 (32-core), 24 x 64GB DDR5-6400, 8 x NVIDIA H200, 2 x 3.84TB NVMe",
            Described("4U GPU server", "AMD EPYC 9355", "64", "1536", "8", "H200"),
        ),
        (
            "XE8640\n2x Intel Xeon Platinum 8468 (48 Kerne)\n16x 64 GB DDR5-4800\n4x H100 80 GB\n2x 3,84 TB NVMe",
            Described("XE8640", "Intel Xeon Platinum 8468", "96", "1024", "4", "H100-80GB"),
        ),
        (
            "R6625 with 2x AMD EPYC 9354 and 768GB RAM, 2x 960GB SSD",
            Described("R6625", "AMD EPYC 9354", "64", "768", "0", ""),
        ),
        ("Switch, 48x 25 GbE, 2x 100 GbE", None),
    ],
)
def test_a_configuration_in_one_text_is_read(text: str, truth: Described | None) -> None:
    """Processors by the table, modules times GB, GPUs; disks and a text without processors are none of these."""
    assert described(text, READER) == truth


@pytest.mark.parametrize(
    "rest",
    [
        "12x 64 GB DDR5 or 12x 96 GB DDR5",
        "12x 64 GB, 2x 480 GB",
        "64 GB DDR5 x12",
        "12 of 24 DIMMs 64 GB DDR5",
        "12x 64 GB DDR5 per CPU",
        "12x 64 GB DDR5, NVIDIA H100",
        "12x 64 GB DDR5, HGX H100 8-GPU",
        "12x 64 GB DDR5, 8x GPU",
        "12x 64 GB DDR5, 4x H100 (optional)",
        "12x 64 GB DDR5, 2x A100, 2x L40S",
        "768 GB DDR5 (12x 32 GB)",
        "12x 64 GB DDR5, 4 nodes",
        "12x 64 GB DDR5, without disks",
    ],
)
def test_a_configuration_that_is_not_plain_is_asked_about(rest: str) -> None:
    """Choices, amounts of something else, GPUs without a number, several nodes."""
    with pytest.raises(Unreadable):
        described(f"R6625, 2x AMD EPYC 9354, {rest}", READER)


@pytest.mark.parametrize(
    ("rows", "errors"),
    [
        ([["Options"], ["Switch", None, None, None, 2_000]], []),
        (
            [["Optionen (nicht enthalten)"], ["Netzteil", None, None, None, 420], ["Summe", None, None, None, 14_960]],
            [],
        ),
        ([["Options"], ["Node B", 128, 768, 0, 20_000]], ["A4"]),
        ([["Options"], ["Switch", None, None, None, 2_000], [None], ["Installation", None, None, None, 500]], ["A6"]),
        (
            [["Options"], ["Switch", None, None, None, 2_000], ["Services"], ["Installation", None, None, None, 500]],
            ["A6"],
        ),
        ([["Options included"], ["Switch", None, None, None, 2_000]], ["A3"]),
    ],
)
def test_lines_beneath_options_do_not_count(tmp_path: Path, rows: list, errors: list[str]) -> None:
    """They are left out with a warning each; servers, and what stands behind a gap or another text, are asked about."""
    found = book(tmp_path, HEAD, NODE, *rows)
    assert [one.cell for one in found.errors] == errors
    assert errors or (not found.lines and len(found.quotes) == 1)


def test_a_workbook_without_styles_is_read(tmp_path: Path) -> None:
    """Not every program writes the part of an OpenDocument spreadsheet that holds its styles."""
    from odfdo import Cell, Document, Row, Table

    document, table = Document("spreadsheet"), Table("Offer")
    document.body.clear()
    for values in (HEAD, NODE):
        row = Row()
        for value in values:
            row.append_cell(Cell(value))
        table.append_row(row)
    document.body.append(table)
    document.save(str(tmp_path / "whole.ods"))
    with zipfile.ZipFile(tmp_path / "whole.ods") as whole, zipfile.ZipFile(tmp_path / "bare.ods", "w") as bare:
        for part in whole.namelist():
            if part != "styles.xml":
                bare.writestr(part, whole.read(part))
    assert len(read_quote_file(tmp_path / "bare.ods", READING).quotes) == 1


def test_one_command_answers_all_words_and_remarks(tmp_path: Path) -> None:
    """The command that ends the questions, pasted, leaves none of their kind, and keeps the options given."""
    made = Workbook()
    for row in (
        ["Zwirbel 'Knoten' & Co 4x"],
        HEAD,
        ["Node zwarbel", *NODE[1:]],
        [],
        ["GPUs: zworbel."],
        ["Zwerbel = 5 €/Server"],
    ):
        made.active.append(row)
    path = tmp_path / "an offer.xlsx"
    made.save(path)
    first = CliRunner().invoke(app, ["quotes", "check", str(path), "--rate", "EUR=1.25"])
    command = shlex.split(str(first.exception).splitlines()[-1])
    assert command[:4] == ["procure", "quotes", "check", str(path)] and "EUR=1.25" in command
    again = CliRunner().invoke(app, command[1:])
    assert again.exit_code == 0


@pytest.mark.parametrize("kinds", ["first", "third"])
def test_no_word_is_asked_about_after_all_are_answered(tmp_path: Path, kinds: str) -> None:
    """Of offers with one strange thing each: what is left are questions that another option, or the cell, answers."""
    n_answered = 0
    for n, case in enumerate(strange_sheets.KINDS[kinds][:15]):
        path = tmp_path / f"{n}.{case.kind}"
        strange_sheets.judge(case, path)
        reading = OfferReading(rates=strange_sheets.RATE)
        words, rest = all_harmless(path, reading)
        n_answered += bool(words)
        assert not [one for one in rest.errors if "--harmless" in one.allowed]
    assert n_answered


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("Server: 2 processori AMD EPYC 9334 (32 core, 2,7 GHz), 768 GB RAM DDR5 (24 x 32 GB)", ("64", "768")),
        ("Nod 1U, 2 st AMD EPYC 9654 (96 kärnor), 768 GB minne (24 x 32 GB), 1,92 TB NVMe SSD", ("192", "768")),
        ("2U Large Memory Server: (2) AMD EPYC 9554 64-Core Processors, (24) 128GB DDR5-4800 RDIMM", ("128", "3072")),
        ("Node: 2x AMD EPYC 9354 (32 kerner), 24x 32 GB DDR5, 1x NVIDIA ConnectX-7 NDR200", ("64", "768")),
        ("4 Stück AMD EPYC 9554 System, 768 GB RAM", None),
        ("2x AMD EPYC 9554, 768 GB RAM DDR5 (24 x 16 GB)", None),
        ("2x AMD EPYC 9554, 2 banchi da 12 x 32 GB RAM", None),
        ("2x AMD EPYC 9554, 384 GB RAM, 1x NVIDIA ConnectX-7, 4x NVIDIA", None),
    ],
)
def test_parts_are_counted_by_words_and_in_brackets(text: str, truth: tuple[str, str] | None) -> None:
    reader = Reader("price_usd", None, None, lambda value, unit: value)
    if truth is None:
        with pytest.raises(Unreadable):
            described(text, reader)
    else:
        read = described(text, reader)
        assert read is not None
        assert (read.cpus, read.mem_gb, read.gpus) == (*truth, "0")


def test_a_text_file_with_a_configuration_is_read_at_once(tmp_path: Path) -> None:
    """Numbers and units of its columns are read; a title states the currency."""
    rows = [
        "Prix unitaires (€ HT);;;;;",
        "Réf.;Désignation;Qté;P.U. HT;TVA;Montant HT",
        "CN-01;Serveur - 2 x AMD EPYC 9454 (48 cœurs, 2,75 GHz) - 12 x 64 Go DDR5;12;16 320,00;20%;195 840,00",
        "SW-01;Commutateur Ethernet 100 Gb/s, 32 ports;1;12 450,00;20%;12 450,00",
        "Conditions de règlement : 30 jours fin de mois;;;;;",
    ]
    (tmp_path / "offre.csv").write_text("\n".join(rows), encoding="utf-8")
    read = read_quote_file(tmp_path / "offre.csv", READING)
    assert [one for one in read.findings if one.severity == "error"] == []
    assert read.quotes.loc[0, ["cpus", "mem_gb", "price_usd"]].tolist() == [96, 768, 32_640]
    assert [(line.kind, line.usd) for line in read.lines] == [("network", 24_900)]
