"""Offers in many languages are read at once; what they leave open is asked about, and answered by one command."""

from __future__ import annotations

import shlex
import zipfile
from pathlib import Path

import pytest
from openpyxl import Workbook
from typer.testing import CliRunner

from procure.cli.main import app
from procure.packages.quote_file import OfferReading, QuoteFile, all_harmless, read_quote_file
from procure.sheets.cells import Reader, Unreadable
from procure.sheets.described import Described, described

READING = OfferReading(rates=dict.fromkeys(("EUR", "CZK", "PLN", "SEK", "NOK", "DKK", "HUF", "CAD"), 2))
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


def test_cores_of_each_processor_in_a_description_are_no_question(tmp_path: Path) -> None:
    """`2x Gold 6548Y+ (32 cores each)` says what the table of processors says."""
    text = "SYS-221H: 2x Intel Xeon Gold 6548Y+ (32 cores each), 16x 32GB DDR5-5600, 2x 1.92TB NVMe"
    rows = ["Part number,Description,Qty,Unit price USD", f'SYS-221H,"{text}",24,12850']
    (tmp_path / "quote.csv").write_text("\n".join(rows), encoding="utf-8")
    read = read_quote_file(tmp_path / "quote.csv", READING)
    assert not read.errors
    assert read.quotes.loc[0, ["cpus", "mem_gb"]].tolist() == [64, 512]


@pytest.mark.parametrize(
    "text",
    [
        "Rheintal Computer-Systeme GmbH & Co. KG",
        "Great Lakes Server Solutions, LLC",
        "TATRA SERVER, spol. s r.o.",
        "Infotronik Gesellschaft m.b.H.",
        "SERWERY KOMPUTERY Sp. z o.o., ul. Długa 14, 31-147 Kraków, NIP 676-123-45-67",
        "Calcul & Systèmes SARL au capital de 50 000 €",
        "Sistemi Hardware S.p.A. - Via Tortona 33 - 20144 Milano (MI) - P. IVA 09876543211 - REA MI-2012345",
        "HPC Hardware Nederland B.V., Science Park 402, 1098 XH Amsterdam",
        "Fjord Datasystemer AS, Nedre Slottsgate 8, 0157 Oslo, Org.nr. NO 912 345 678 MVA",
        "Računalniški Sistemi d.o.o., Tehnološki park 19, 1000 Ljubljana, ID za DDV SI12345678",
        "Pannon Hardware Zrt., 6720 Szeged, Dugonics tér 13.",
        "Deccan Computer Systems Pvt. Ltd., GSTIN: 36AABCD1234E1Z5 PAN: AABCD1234E",
        "Zapsáno v OR u KS v Brně, oddíl C, vložka 45678",
        "Wire: Comerica Bank, ABA 072000096, Acct 1852034417",
        "Kontoverbindung: St. Galler Kantonalbank, IBAN CH93 0076 2011 6238 5295 7",
    ],
)
@pytest.mark.parametrize("is_above", [True, False])
def test_a_letterhead_is_not_asked_about(tmp_path: Path, text: str, is_above: bool) -> None:
    """Companies of many legal forms, addresses, and numbers of registers and banks change no price."""
    rows = [[text], HEAD, NODE] if is_above else [HEAD, NODE, [], [text]]
    assert not book(tmp_path, *rows).errors


@pytest.mark.parametrize(
    "text",
    [
        "ACME Systems GmbH, Rabatt 5 % auf Server",
        "Thames Hardware Ltd, prices exclude memory",
        "Nordic Hardware AS – prices are for 2 nodes",
        "ACME GmbH, 10115 Berlin, Versand 350",
        "ACME GmbH, 10115 Berlin, Zuschlag 500",
        "ACME GmbH, 10115 Berlin, 4er Pack",
        "ACME Ltd, Reading RG1 3BB, Lease only",
        "ACME Ltd, Reading RG1 3BB, Per Pair",
        "Firma s.r.o., 602 00 Brno, bez pamětí",
        "Zusatz 12500, 10115 Berlin",
        "Tel. Support 4500",
        "10115 Aufschlag",
    ],
)
def test_what_stands_in_a_letterhead_and_may_be_an_amount_is_asked_about(tmp_path: Path, text: str) -> None:
    """An amount, a rent, a part or a number of nodes is no address, though it stands beside one."""
    assert book(tmp_path, HEAD, NODE, [], [text]).errors


@pytest.mark.parametrize("none", ["bez GPU", "ohne GPU", "no GPU", "sans GPU", "utan GPU", "ei ole", "nincs", "–"])
def test_no_gpu_is_none(tmp_path: Path, none: str) -> None:
    """What says that there is none is 0."""
    found = book(tmp_path, HEAD, [*NODE[:3], none, NODE[4]])
    assert not found.errors and found.quotes["gpus"].tolist() == [0]


@pytest.mark.parametrize(
    "piece", ["db", "szt.", "Sztuk", "kusov", "ks", "stk.", "buc.", "kos", "kpl", "un.", "uds.", "st", "pz", "τεμ."]
)
def test_a_count_has_a_word_for_pieces(tmp_path: Path, piece: str) -> None:
    """The word beside a quantity is one of pieces; the price is that of one."""
    found = book(tmp_path, [*HEAD, "Quantity", "Total (EUR)"], [*NODE, f"3 {piece}", 44_880])
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_920]


@pytest.mark.parametrize(
    ("head", "price"),
    [
        (["Denumire produs", "Nuclee", "Memorie RAM (GB)", "Plăci video", "Preț unitar fără TVA (EUR)"], 100_000),
        (["Naziv", "Število jeder", "Pomnilnik (GB)", "Število GPU", "Cena na kos brez DDV (EUR)"], 100_000),
        (["Naziv", "Broj jezgri", "Memorija (GB)", "Broj GPU", "Jedinična cijena bez PDV-a (EUR)"], 100_000),
        (["Nazwa serwera", "Liczba rdzeni", "Pamięć (GB)", "Karty graficzne", "Cena jedn. netto (EUR)"], 100_000),
        (["Tuote", "Ytimiä", "Muisti (Gt)", "Näytönohjaimet", "Yksikköhinta ALV 0 % (EUR)"], 100_000),
        (["Concepto", "Núcleos", "Memoria (GB)", "Tarjetas gráficas", "Precio unitario (k€)"], 100_000_000),
        (["Megnevezés", "Magok száma", "Memória (GB)", "GPU", "Egységár (ezer EUR)"], 100_000_000),
    ],
)
def test_headings_made_of_known_words_are_known(tmp_path: Path, head: list, price: float) -> None:
    """A name of a server, GPUs as cards, thousands of a currency."""
    found = book(tmp_path, head, ["R6625", 64, 768, 2, 50_000 if price == 100_000 else 500])
    assert not found.errors
    row = found.quotes.iloc[0]
    assert (row["cpus"], row["mem_gb"], row["gpus"]) == (64, 768, 2)
    assert row["price_usd"] == (price if price == 100_000 else price / 100)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("2 stk. Intel Xeon Gold 6430, 16 stk. 32 GB DDR5, 2 stk. 960 GB SSD", ("64", "512", "0", "")),
        ("2 db AMD EPYC 9354, 768 GB RAM DDR5 (24 x 32 GB), 2 db NVIDIA L40S", ("64", "768", "2", "L40S")),
        (
            "2x AMD EPYC 9554, 768 GB RAM, 4x NVIDIA RTX PRO 6000 Blackwell Server Edition 96GB",
            ("128", "768", "4", "RTXPRO6000-96GB"),
        ),
        ("2x AMD EPYC 9554, 768 GB RAM, bez GPU", ("128", "768", "0", "")),
        ("2x AMD EPYC 9554, 768 Gt DDR5, 4x H100 SXM5 80 Gt", ("128", "768", "4", "H100-80GB")),
    ],
)
def test_parts_of_one_node_are_counted_by_words_for_pieces(text: str, truth: tuple[str, str, str, str]) -> None:
    """Two pieces of a processor are one node's."""
    read = described(text, READER)
    assert read is not None and (read.cpus, read.mem_gb, read.gpus, read.gpu_type) == truth


@pytest.mark.parametrize(
    "name",
    [
        "Storage server",
        "Opslagserver",
        "Serveur de fichiers",
        "Serveur de stockage",
        "Lagringsserver",
        "Dell storage server 200 TB",
    ],
)
@pytest.mark.parametrize("figures", [[32, 256, 0], [None, None, None]])
def test_a_storage_server_runs_no_jobs(tmp_path: Path, name: str, figures: list) -> None:
    """It is a line of the order, with cores and memory beside it or not."""
    found = book(tmp_path, HEAD, NODE, [name, *figures, 52_000])
    assert not found.errors and len(found.quotes) == 1
    assert [(line.kind, line.usd) for line in found.lines] == [("storage", 104_000)]


def test_a_server_for_storage_or_with_memory_is_asked_about(tmp_path: Path) -> None:
    """A German Speicherserver with cores and memory may be either; without them it is storage."""
    assert [one.cell for one in book(tmp_path, HEAD, NODE, ["Speicherserver", 64, 3072, 0, 52_000]).errors] == ["A3"]
    assert not book(tmp_path, HEAD, NODE, ["Speicherserver 200 TB", None, None, None, 52_000]).errors


def sheets(path: Path, **content: list) -> QuoteFile:
    """Write a workbook of several sheets, and read it."""
    made = Workbook()
    made.remove(made.active)
    for title, rows in content.items():
        sheet = made.create_sheet(title.replace("_", " "))
        for row in rows:
            sheet.append(row)
    made.save(path / "offer.xlsx")
    return read_quote_file(path / "offer.xlsx", READING)


def test_two_lots_with_servers_may_be_two_offers(tmp_path: Path) -> None:
    """They are asked about; one lot is not, nor are sheets that are called after nodes."""
    other = ["Node B", 128, 768, 0, 20_000]
    assert [one.harmless for one in sheets(tmp_path, Lot_1=[HEAD, NODE], Lot_2=[HEAD, other]).errors] == ["lots"]
    assert [one.harmless for one in sheets(tmp_path, Rev_A=[HEAD, NODE], Rev_B=[HEAD, other]).errors] == ["lots"]
    assert not sheets(tmp_path, Los_2=[HEAD, NODE]).errors
    assert not sheets(tmp_path, Compute=[HEAD, NODE], GPU=[HEAD, other]).errors


@pytest.mark.parametrize("row", [["Delivery", 350], ["Hardware", -18_500], ["Installation", "€ 350,00"]])
def test_an_amount_on_a_sheet_without_a_table_is_asked_about(tmp_path: Path, row: list) -> None:
    """A credit or a delivery beside no table would else not count."""
    assert [one.sheet for one in sheets(tmp_path, Offer=[HEAD, NODE], More=[row]).errors] == ["More"]


@pytest.mark.parametrize(
    "memory",
    ["768 GB and 512 GB RAM", "768 GB & 512 GB RAM", "768 GB, 512 GB RAM", "RAM 768 GB, 512 GB", "768/512 GB RAM"],
)
def test_two_memories_in_one_text_are_asked_about(memory: str) -> None:
    """Neither of the two is taken."""
    with pytest.raises(Unreadable):
        described(f"2x AMD EPYC 9354, {memory}, 2x 960 GB SSD", READER)


@pytest.mark.parametrize("form", ["H100 SXM5 80GB", "H100 PCIe 80 GB", "H100-SXM5-80GB", "H100SXM 80GB", "H100 80 Go"])
def test_forms_of_a_gpu_are_one_model(tmp_path: Path, form: str) -> None:
    """SXM and PCIe leave the model and its memory."""
    found = book(tmp_path, HEAD, [*NODE[:3], f"4x NVIDIA {form}", NODE[4]])
    assert not found.errors and found.quotes["gpu_type"].tolist() == ["H100-80GB"]


def test_processors_in_their_column_have_a_word_for_pieces(tmp_path: Path) -> None:
    """``2 st`` counts them as ``2x`` does."""
    found = book(tmp_path, ["Server", "Processor", "RAM (GB)", "Price (EUR)"], ["A", "2 st AMD EPYC 9354", 768, 14_960])
    assert not found.errors and found.quotes["cpus"].tolist() == [64]


def test_gpus_under_a_heading_that_is_not_known_are_not_lost(tmp_path: Path) -> None:
    """The heading is asked about, and the answer that it changes nothing leaves the GPUs."""
    made = Workbook()
    made.active.append([*HEAD[:3], "Zwirbel", HEAD[4]])
    made.active.append([*NODE[:3], "8x NVIDIA L40S", NODE[4]])
    made.save(tmp_path / "offer.xlsx")
    words, found = all_harmless(tmp_path / "offer.xlsx", READING)
    assert words and not found.errors and found.quotes["gpus"].tolist() == [8]


NODES = [["Node R6625", 128, 768, 0, 10, 9_000, 90_000], ["Node R6626", 64, 512, 0, 2, 8_000, 16_000]]
COLUMNS = ["Name", "Cores", "RAM (GB)", "GPUs", "Qty", "Unit price (EUR)", "Total (EUR)"]


def test_a_row_that_numbers_the_columns_is_no_server(tmp_path: Path) -> None:
    """``(g) = (e) x (f)`` beneath the headings says how amounts are reckoned."""
    numbers = ["(a)", "(b)", "(c)", "(d)", "(e)", "(f)", "(g) = (e) x (f)"]
    found = book(tmp_path, COLUMNS, numbers, *NODES)
    assert not found.errors
    assert found.quotes["cpus"].tolist() == [128, 64]


@pytest.mark.parametrize(
    ("name", "is_line"),
    [("Correlator calibration", True), ("PowerEdge R7625", False), ("Blade", False), ("Memory 1536", False)],
)
def test_what_a_total_holds_and_no_word_names_is_a_line_unless_it_may_be_a_server(
    tmp_path: Path, name: str, is_line: bool
) -> None:
    """Its amount is bought; a machine, a model's number or a part is asked about."""
    found = book(tmp_path, COLUMNS, *NODES, [name, None, None, None, 1, 500, 500], [*["Total"], *[None] * 5, 106_500])
    assert bool(found.errors) != is_line
    assert [(one.kind, one.usd) for one in found.lines] == ([("other", 1_000)] if is_line else [])


def test_a_sum_of_each_group_holds_its_lines(tmp_path: Path) -> None:
    """What is charged for each day of three is not asked about where the group's sum shows what is paid."""
    lines = [["Training, per day", None, None, None, 3, 100, 300], ["Site survey", None, None, None, 1, 200, 200]]
    sums = [["Sum of group A", *[None] * 5, 106_000], ["Sum of group B", *[None] * 5, 500]]
    found = book(tmp_path, COLUMNS, *NODES, sums[0], *lines, sums[1], ["Total", *[None] * 5, 106_500])
    assert not [one for one in found.errors if "charged" in one.allowed or "no word says" in one.allowed]
    assert [(one.kind, one.quantity, one.usd) for one in found.lines] == [("training", 3, 200), ("other", 1, 400)]


@pytest.mark.parametrize(
    ("row", "price"),
    [
        (["Currency", "CAD"], "$9,000.00"),
        (["Currency", "CAD", "Unit prices excl. tax"], "9,000.00"),
        (["Devise", "CAD HT"], "9,000.00"),
        (["All prices in Canadian dollars"], "$9,000.00"),
        (["Prix en dollars canadiens"], "9,000.00"),
    ],
)
def test_a_dollar_is_the_one_that_the_sheet_states(tmp_path: Path, row: list, price: str) -> None:
    """A bare $ is a Canadian one where all prices are; the name of a currency may have two words."""
    head = [one.replace(" (EUR)", "") for one in COLUMNS[:6]]
    found = book(tmp_path, row, head, ["Node R6625", 128, 768, 0, 10, price])
    assert [one for one in found.errors if one.column == "price_usd"] == []
    assert found.quotes["price_usd"].tolist() == [18_000]


def test_a_currency_said_of_one_row_is_not_that_of_all(tmp_path: Path) -> None:
    """Beside one vendor's row ``Prices in Canadian dollars`` says nothing of the other's."""
    rows = [["Node R6625", 128, 768, 0, "$9,000", "Prices in Canadian dollars"], ["Node R6626", 64, 512, 0, "$8,000"]]
    assert book(tmp_path, ["Name", "Cores", "RAM (GB)", "GPUs", "Unit price", "Notes"], *rows).errors


def test_headings_in_two_languages_are_read(tmp_path: Path) -> None:
    """Where both halves head the same column."""
    head = ["Article / Item", "Cœurs / Cores", "RAM (GB)", "GPUs", "Qté / Qty", "Prix unitaire / Unit price (EUR)"]
    found = book(tmp_path, head, ["Node R6625", 128, 768, 0, 10, 9_000])
    assert not found.errors
    assert found.quotes.loc[0, ["cpus", "price_usd"]].tolist() == [128, 18_000]


@pytest.mark.parametrize(
    ("text", "gb"),
    [
        ("16 x 32GB DDR5-5600 (512GB total)", 512),
        ("24 x 16 Go DDR5, soit 384 Go", 384),
        ("1152 GB (12+12 × 48 GB)", 1152),
        ("768 GB (24 x 32 GB DDR5 4800)", 768),
        ("16 x 32GB (384GB total)", None),
        ("16 x 32GB (512GB total per CPU)", None),
    ],
)
def test_a_sum_behind_modules_is_read_where_it_is_theirs(tmp_path: Path, text: str, gb: int | None) -> None:
    """Another sum, or one for each processor, is asked about."""
    found = book(tmp_path, COLUMNS, ["Node R6625", 128, text, *NODES[0][3:]])
    assert bool(found.errors) == (gb is None)
    assert gb is None or found.quotes["mem_gb"].tolist() == [gb]


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        (
            "2 Stk. AMD EPYC 9755 mit je 128 Kernen\n24 Stk. 32 GB DDR5-6400",
            Described("", "AMD EPYC 9755", "256", "768", "0", ""),
        ),
        (
            "HGX H200 server: 2 x AMD EPYC 9575F, 24x 96 GB DDR5, 8x NVIDIA H200",
            Described("HGX H200 server", "AMD EPYC 9575F", "128", "2304", "8", "H200"),
        ),
        ("H100 server: 2 x AMD EPYC 9575F, 24x 96 GB DDR5, 8x NVIDIA H200", None),
        ("4-GPU H200 server: 2 x AMD EPYC 9575F, 24x 96 GB DDR5, 8x NVIDIA H200", None),
        ("2 x AMD EPYC 9555, 2 x 64 cores, 24x 32 GB DDR5", Described("", "AMD EPYC 9555", "128", "768", "0", "")),
        ("2 x AMD EPYC 9555, 2 x 32 cores, 24x 32 GB DDR5", None),
    ],
)
def test_a_description_in_other_words_is_read_or_asked_about(text: str, truth: Described | None) -> None:
    """Counts by a word, a name with the model of its GPUs, cores of each of two processors."""
    if truth is None:
        with pytest.raises(Unreadable):
            described(text, READER)
    else:
        assert described(text, READER) == truth


@pytest.mark.parametrize(
    ("name", "gpus"),
    [
        ("GPU-node, 2 x AMD EPYC 9355, 4 x NVIDIA H200 NVL 141 GB, 2 x 3,84 TB NVMe", 4),
        ("GPU-node, 2 x AMD EPYC 9355, 4 x NVIDIA H200, 2 x NVIDIA L40S", None),
        ("GPU-node, 2 x AMD EPYC 9355, up to 4 x NVIDIA H200", None),
        ("GPU-node R6625", None),
    ],
)
def test_gpus_that_a_name_alone_counts_are_read(tmp_path: Path, name: str, gpus: int | None) -> None:
    """Where no column says any; two models, a limit or no number are asked about."""
    found = book(tmp_path, ["Name", "Cores", "RAM (GB)", "Unit price (EUR)"], [name, 64, 768, 9_000])
    assert bool(found.errors) == (gpus is None)
    assert gpus is None or found.quotes["gpus"].tolist() == [gpus]


@pytest.mark.parametrize(("quantity", "total", "is_read"), [("1 usl.", 500, True), ("2 usl.", 500, False)])
def test_a_number_before_a_word_is_the_quantity_where_the_total_shows_it(
    tmp_path: Path, quantity: str, total: int, is_read: bool
) -> None:
    """The word is asked about all the same."""
    found = book(tmp_path, COLUMNS, *NODES, ["Installation", None, None, None, quantity, 500, total])
    said = [one.allowed for one in found.errors]
    assert any("'usl'" in one for one in said) == is_read
    assert any("whole number" in one for one in said) != is_read


def test_what_costs_nothing_and_has_no_figures_is_no_server(tmp_path: Path) -> None:
    """Old nodes that are taken away for nothing."""
    found = book(tmp_path, COLUMNS, *NODES, ["Disposal of old nodes", None, None, None, 1, 0, 0])
    assert not [one for one in found.errors if one.column in ("cpus", "mem_gb", "price_usd")]
    assert len(found.quotes) == 2


@pytest.mark.parametrize(
    ("text", "gb"), [("1 TB", 1024), ("1.5 TB", 1536), ("2.25 TB", 2304), ("2.304 TB", 2304), ("1.1 TB", 1100)]
)
def test_terabytes_of_memory_are_what_modules_add_up_to(tmp_path: Path, text: str, gb: int) -> None:
    """Eighths of a TB are of 1,024 GB, others of 1,000; both are said."""
    found = book(tmp_path, COLUMNS, ["Node R6625", 128, text, *NODES[0][3:]])
    assert found.quotes["mem_gb"].tolist() == [gb]
    assert any(one.column == "mem_gb" and one.severity == "guess" for one in found.findings)


@pytest.mark.parametrize("form", ['"R" # ##0.00', '"R"#,##0.00'])
def test_an_r_in_a_number_format_is_the_rand(tmp_path: Path, form: str) -> None:
    """As South African offers show amounts."""
    book = Workbook()
    for row in (["Name", "Cores", "RAM (GB)", "GPUs", "Unit price"], ["Node R6625", 128, 768, 0, 200_000]):
        book.active.append(row)
    book.active["E2"].number_format = form
    book.save(tmp_path / "a.xlsx")
    read = read_quote_file(tmp_path / "a.xlsx", OfferReading(rates={"ZAR": 0.05}))
    assert not read.errors
    assert read.quotes["price_usd"].tolist() == [10_000]


@pytest.mark.parametrize(
    "row",
    [
        ["Currency: Canadian dollars, taxes extra"],
        ["Währung: CAD, Preise exkl. USt."],
        ["Monnaie : CAD, prix hors taxes"],
    ],
)
def test_a_currency_may_be_stated_before_what_is_said_of_tax(tmp_path: Path, row: list) -> None:
    """In one cell, with a comma between them."""
    head = [one.replace(" (EUR)", "") for one in COLUMNS[:6]]
    found = book(tmp_path, row, head, ["Node R6625", 128, 768, 0, 10, 9_000])
    assert not [one for one in found.errors if one.column == "price_usd"]
    assert found.quotes["price_usd"].tolist() == [18_000]


@pytest.mark.parametrize(("form", "is_read"), [("[$$-C09]#,##0", True), ('"US$"#,##0', False)])
def test_a_bare_dollar_under_a_heading_in_canadian_ones_is_such(tmp_path: Path, form: str, is_read: bool) -> None:
    """What says US is not."""
    book = Workbook()
    for row in (["Name", "Cores", "RAM (GB)", "GPUs", "Unit price (CAD)"], ["Node R6625", 128, 768, 0, 9_000]):
        book.active.append(row)
    book.active["E2"].number_format = form
    book.save(tmp_path / "a.xlsx")
    read = read_quote_file(tmp_path / "a.xlsx", OfferReading(rates={"CAD": 2}))
    assert bool(read.errors) != is_read
    assert not is_read or read.quotes["price_usd"].tolist() == [18_000]


def test_money_on_a_sheet_without_a_table_is_asked_about_whatever_it_is_called(tmp_path: Path) -> None:
    """It may be paid besides."""
    book = Workbook()
    for row in (COLUMNS, *NODES):
        book.active.append(row)
    sheet = book.create_sheet("Other")
    for row in (["Project steering", 38_000], ["Case 4711", 12]):
        sheet.append(row)
    sheet["B1"].number_format = "$#,##0"
    book.save(tmp_path / "a.xlsx")
    read = read_quote_file(tmp_path / "a.xlsx", OfferReading(rates={"EUR": 2}, harmless=["steering"]))
    assert any("38000" in one.given + one.allowed for one in read.errors)


def test_services_with_prices_on_a_sheet_of_their_own_are_lines(tmp_path: Path) -> None:
    """`Service` heads names."""
    book = Workbook()
    for row in (COLUMNS, *NODES):
        book.active.append(row)
    sheet = book.create_sheet("Services")
    for row in (["Ref", "Service", "Total (EUR)"], ["B1", "Installation", 500], ["B2", "Training", 700]):
        sheet.append(row)
    book.save(tmp_path / "a.xlsx")
    read = read_quote_file(tmp_path / "a.xlsx", OfferReading(rates={"EUR": 2}))
    assert [(one.kind, one.usd) for one in read.lines] == [("installation", 1_000), ("training", 1_400)]


def test_a_service_of_a_tender_is_no_power(tmp_path: Path) -> None:
    """German `Leistung` heads watts, or what is supplied: by its cells."""
    head = ["Pos.", "Leistung", "Kerne", "RAM (GB)", "GPUs", "Einzelpreis (EUR)"]
    found = book(tmp_path, head, ["1", "Rechenknoten R6625", 128, 768, 0, 9_000])
    assert not found.errors
    assert found.quotes["name"].tolist() == ["Rechenknoten R6625"]
