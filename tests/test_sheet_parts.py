"""Servers whose parts stand in rows beneath them, and prices that a discount explains."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import Workbook

from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file

HEAD = ["Item", "Qty", "Unit price (EUR)", "Total (EUR)"]
SERVER = ["Node A", 10, 14_500, 145_000]


def read(tmp_path: Path, *rows: list, merged: tuple[str, ...] = ()) -> QuoteFile:
    """Write a workbook, and read it."""
    book = Workbook()
    for row in rows:
        book.active.append(row)
    for area in merged:
        book.active.merge_cells(area)
    book.save(tmp_path / "offer.xlsx")
    return read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 2}))


@pytest.mark.parametrize(
    "parts",
    [
        [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], ["2x 960 GB NVMe SSD"]],
        [["   2x AMD EPYC 9354 (32 cores)", None, "incl."], ["   768 GB RAM", None, "incl."]],
        [["2x AMD EPYC 9354", 10, 0, 0], ["24x 32 GB DDR5", 10, 0, 0]],
        [["AMD EPYC 9354", 2], ["32 GB DDR5 RDIMM", 24]],
        [["AMD EPYC 9354", 2, 3_000], ["32 GB DDR5 RDIMM", 24, 200], ["Board", 1, 3_700]],
        [["AMD EPYC 9354", 20], ["32 GB DDR5 RDIMM", 240]],
        [["AMD EPYC 9354", 20, 3_000], ["32 GB DDR5 RDIMM", 240, 200], ["Board", 10, 3_700]],
    ],
)
def test_parts_beneath_a_server_are_its_own(tmp_path: Path, parts: list) -> None:
    """Rows without a price, or that add up to the server's price or to that of all, say what is in one."""
    found = read(tmp_path, HEAD, SERVER, *parts, ["Installation", 1, 2_000, 2_000], ["Total", None, None, 147_000])
    assert not found.errors
    row = found.quotes.iloc[0]
    assert (row["name"], row["cpus"], row["mem_gb"], row["price_usd"]) == ("Node A", 64, 768, 29_000)
    assert [(line.kind, line.usd) for line in found.lines] == [("installation", 4_000)]


@pytest.mark.parametrize(("name", "is_asked"), [("Node A, 1U", False), ("Node A; Node B", True)])
def test_a_comma_in_the_name_of_a_server_with_parts_is_no_question(tmp_path: Path, name: str, is_asked: bool) -> None:
    """The quote table writes it as a semicolon; one that the sheet itself has may join two things."""
    parts = [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"]]
    assert bool(read(tmp_path, HEAD, [name, *SERVER[1:]], *parts).errors) == is_asked


@pytest.mark.parametrize(
    "parts",
    [
        [["AMD EPYC 9354", 20], ["32 GB DDR5 RDIMM", 24]],
        [["Intel Xeon Platinum 8490H", 40], ["32 GB DDR5 RDIMM", 240], ["Riser", 4]],
        [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], ["4x NVIDIA L40S", None, "optional"]],
        [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], ["4x NVIDIA L40S", "auf Anfrage"]],
        [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], ["Node B"]],
        [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], ["R7625"]],
        [["AMD EPYC 9354", 2, 3_000], ["32 GB DDR5 RDIMM", 24, 200], ["Board", 1, 3_000]],
        [["2x AMD EPYC 9354", 2], ["24x 32 GB DDR5", 1]],
        [["AMD EPYC 9354", 2], ["32 GB DDR5 RDIMM", 24], ["NVIDIA H100 80GB", 20]],
    ],
)
def test_parts_that_are_of_nobody_knows_how_many_are_asked_about(tmp_path: Path, parts: list) -> None:
    """Numbers that may be those of all servers, and prices that add up to no price, name the cause."""
    assert any("parts of 'Node A'" in one.allowed for one in read(tmp_path, HEAD, SERVER, *parts).errors)


@pytest.mark.parametrize(
    "part",
    [
        "24x 32 GB DDR5 (not included)",
        "or 24x 64 GB DDR5",
        "Option: 4x NVIDIA H100",
        "10 % Rabatt",
        "4 nodes",
        "512 GB",
    ],
)
def test_what_stands_among_parts_is_read_or_asked_about(tmp_path: Path, part: str) -> None:
    """A choice, a discount, several nodes or a second memory among the parts make a question."""
    assert read(tmp_path, HEAD, SERVER, ["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], [part]).errors


def test_servers_in_one_text_are_no_parts(tmp_path: Path) -> None:
    """Beneath a line of the order each is a server of its own."""
    text = "R6625, 2x AMD EPYC 9354, 24x 32 GB DDR5"
    found = read(tmp_path, HEAD, ["Switch", 1, 3_000, 3_000], [text, 2, 14_500, 29_000])
    assert not found.errors and len(found.quotes) == len(found.lines) == 1


@pytest.mark.parametrize(
    ("amount", "share", "price"),
    [(1_120_000, "30 %", 224_000), (112_000, "30 %", None), (1_120_000, 0.3, 224_000), (1_200_000, "30 %", None)],
)
def test_a_discount_tells_whose_an_amount_is(tmp_path: Path, amount: float, share: object, price: float | None) -> None:
    """List price less discount times the quantity is that of all; without it both may be of one or of all: asked."""
    head = ["Varenavn", "Kerner", "Hukommelse (GB)", "GPU", "Antal", "Listepris (EUR)", "Rabat", "Beløb (EUR)"]
    found = read(tmp_path, head, ["R6625", 128, 768, "ingen", 10, 160_000, share, amount])
    assert bool(found.errors) is (price is None)
    assert price is None or found.quotes["price_usd"].tolist() == [price]


@pytest.mark.parametrize(("total", "price"), [(None, None), (16_000, None), (32_000, 32_000)])
def test_a_list_price_that_may_be_of_all_makes_its_total_open(
    tmp_path: Path, total: float | None, price: float | None
) -> None:
    """A total of two less the discount of their list price is no price of one; a stated total tells."""
    head = ["Server", "Cores", "RAM (GB)", "GPUs", "Qty", "List price (EUR)", "Discount", "Total (EUR)"]
    sums = [["Total", *[None] * 6, total]] if total is not None else []
    found = read(tmp_path, head, ["A", 64, 256, 0, 2, 20_000, "20 %", 16_000], *sums)
    assert bool(found.errors) is (price is None)
    assert price is None or found.quotes["price_usd"].tolist() == [price]


@pytest.mark.parametrize(
    ("parts", "is_asked"),
    [
        ([["8x NVIDIA H100 80GB"]], True),
        ([["4x NVIDIA H100 80GB"]], False),
        ([["16 x 32 GB DDR5"], ["+ 8 x 32 GB DDR5"]], True),
        ([["8 x 32 GB DDR5"], ["+ 8 x 32 GB DDR5"]], False),
        ([["32 GB DDR5 RDIMM", None, None, None, 24]], True),
        ([["32 GB DDR5 RDIMM", None, None, None, 16]], False),
        ([["AMD EPYC 9654", None, None, None, 2]], True),
        ([["AMD EPYC 9354", None, None, None, 4]], False),
    ],
)
def test_parts_beneath_are_not_lost_where_columns_contradict_them(tmp_path: Path, parts: list, is_asked: bool) -> None:
    """GPUs, added modules and parts with a quantity are held against the columns, as those of one node or of all."""
    head = ["Server", "Cores", "RAM (GB)", "GPUs", "Qty", "Unit price (EUR)"]
    assert bool(read(tmp_path, head, ["A", 64, 512, 4, 2, 12_000], *parts).errors) is is_asked


@pytest.mark.parametrize("price", ["6,960 or 7,100", "1e400", 10**16])
def test_rows_beneath_a_price_that_is_no_amount_are_no_parts(tmp_path: Path, price: object) -> None:
    """Where a price cannot be told nothing is added up beneath it, and the problem names its cell."""
    found = read(tmp_path, HEAD, ["Node A", 1, price, None], ["2x AMD EPYC 9354", 1, 9_960, 9_960])
    assert any("C2" in str(one) for one in found.errors)


def test_the_first_part_may_stand_on_the_row_of_its_server(tmp_path: Path) -> None:
    """In a column of their own the parts leave the name as it is, whatever sizes it holds."""
    head = ["Poste", "Description", "Caractéristiques", "Quantité", "Prix unitaire HTVA (EUR)"]
    first = [1, "Serveur GPU 1U", "CPU : 2 x AMD EPYC 9334 (32 cœurs)", 20, 14_320]
    found = read(
        tmp_path, head, first, [None, None, "RAM : 16 x 32 Go DDR5"], [None, None, "GPU : 4 x NVIDIA H100 NVL"]
    )
    assert not found.errors
    row = found.quotes.iloc[0]
    assert (row["name"], row["cpus"], row["mem_gb"], row["gpus"]) == ("Serveur GPU 1U", 64, 512, 4)


@pytest.mark.parametrize(
    ("name", "n_rows", "is_read"),
    [("R6625", 3, True), ("R6625", 2, False), ("GPU node", 3, False), ("R760 H100", 3, False)],
)
def test_cells_merged_over_a_server_and_its_parts_are_of_the_server(
    tmp_path: Path, name: str, n_rows: int, is_read: bool
) -> None:
    """A price over just these rows is that of one; what the name says besides its parts is asked about."""
    parts = [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], *([["4x NVIDIA L40S"]] if n_rows == 2 else [])]
    areas = tuple(f"{column}2:{column}{n_rows + 1 + (n_rows == 2)}" for column in "BCD")
    found = read(tmp_path, HEAD, [name, *SERVER[1:]], *parts, merged=areas)
    assert bool(found.errors) is not is_read
    assert not is_read or found.quotes["price_usd"].tolist() == [29_000]


def test_a_price_merged_over_two_servers_is_asked_about(tmp_path: Path) -> None:
    """It is neither the price of the first alone, nor are the second's parts those of the first."""
    parts = [["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], ["R7625"], ["4x NVIDIA L40S"]]
    areas = ("B2:B6", "C2:C6", "D2:D6")
    assert any(
        "merged" in one.allowed for one in read(tmp_path, HEAD, ["R6625", *SERVER[1:]], *parts, merged=areas).errors
    )


@pytest.mark.parametrize(
    ("gpus", "n"),
    [
        ("8x NVIDIA H100 SXM5 80GB on HGX baseboard", 8),
        ("2x NVIDIA H100 SXM5 80GB on HGX baseboard", None),
        ("8x NVIDIA HGX H200 141GB SXM GPU", 8),
        ("2x NVIDIA HGX H200 141GB SXM GPU", None),
        ("4x NVIDIA HGX H100 8-GPU", None),
    ],
)
def test_gpus_of_a_board_are_counted_where_it_holds_as_many(tmp_path: Path, gpus: str, n: int | None) -> None:
    """A number of boards is asked about."""
    found = read(tmp_path, HEAD, SERVER, ["2x AMD EPYC 9354"], ["24x 32 GB DDR5"], [gpus])
    assert bool(found.errors) is (n is None)
    assert n is None or found.quotes["gpus"].tolist() == [n]


@pytest.mark.parametrize(
    ("form", "is_read"),
    [
        (r"[>=10000000]##\,##\,##\,##0;[>=100000]##\,##\,##0;##,##0", True),
        (r"#\.##0", True),
        (r"0\,00", False),
        ('[>=1000]0" TEUR";0', False),
        ('[>=100000]0" TEUR";0', True),
    ],
)
def test_marks_of_thousands_in_a_number_format_are_no_unit(tmp_path: Path, form: str, is_read: bool) -> None:
    """The section whose condition a number meets tells its unit; a mark before two digits is asked about."""
    book = Workbook()
    for row in (HEAD, ["R6625, 2x AMD EPYC 9354, 24x 32 GB DDR5", *SERVER[1:3]]):
        book.active.append(row)
    book.active["C2"].number_format = form
    book.save(tmp_path / "offer.xlsx")
    assert bool(read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 2})).errors) is not is_read


@pytest.mark.parametrize(
    ("text", "read_as"),
    [
        ("NVIDIA Grace CPU Superchip, 144 Kerne, 480 GB LPDDR5X", (144, 480, 0)),
        ("2x NVIDIA Grace CPU (72 cores), 960 GB LPDDR5X", (144, 960, 0)),
        ("NVIDIA GH200: 1x Grace CPU mit 72 Kernen, 480 GB LPDDR5X, 1x H100 96GB HBM3", (72, 480, 1)),
        ("2x Intel Xeon 6787P (je 86 Kerne), 16x 128 GB DDR5", (172, 2048, 0)),
        ("2x NVIDIA Grace CPU Superchip (288 cores), 960 GB LPDDR5X", None),
        ("NVIDIA Grace CPU, 144 Kerne, 480 GB LPDDR5X", None),
        ("NVIDIA Grace CPU, 72 Kerne, 480 GB LPDDR5X, 96 GB HBM3", None),
        ("2x NVIDIA GH200: 1x Grace CPU mit 72 Kernen, 480 GB LPDDR5X, 1x H100 96GB HBM3", None),
    ],
)
def test_grace_processors_have_the_cores_that_are_said(tmp_path: Path, text: str, read_as: tuple | None) -> None:
    """Of 72 each, 144 on a board of two; what is behind a board's name and a colon is on it."""
    found = read(tmp_path, ["Artikel", "Ausstattung", "Anz.", "Einzelpreis (EUR)"], ["Server X1", text, 2, 20_000])
    assert bool(found.errors) is (read_as is None)
    assert read_as is None or tuple(found.quotes[["cpus", "mem_gb", "gpus"]].iloc[0]) == read_as


OFFERS = ["Vendor", "Server node", "Cores/node", "RAM (GB)", "GPU", "Qty", "Unit EUR", "Line EUR"]


@pytest.mark.parametrize(
    ("total", "second", "said"),
    [
        (["Total Kauri Ltd", 25_000], "Tasman", None),
        (["Total Kauri Ltd", 24_000], "Tasman", "is not the 25,000.00"),
        (["Total Tasman", 26_000], "Tasman", "may be a total"),
        (["Total Kauri Ltd after discount", 25_000], "Tasman", "discount"),
        (["Total Kauri Ltd", 25_000], None, None),
        (["Weighting: price 60%, support 40%", None], "Tasman", "'60%'"),
    ],
)
def test_a_total_of_each_vendor_is_no_line(tmp_path: Path, total: list, second: str | None, said: str | None) -> None:
    """It has the vendor's name, and is the sum of the vendor's rows right above it; weights are no prices."""
    rows = [
        ["Kauri Ltd", "KN1 node", 128, 768, "-", 2, 10_000, 20_000],
        [None, "Networking", *[None] * 3, 1, 5_000, 5_000],
    ]
    others = [[second, "TN1 node", 128, 768, "-", 2, 11_000, 22_000]] if second else []
    found = read(tmp_path, OFFERS, *rows, [total[0], *[None] * 6, total[1]], *others, merged=("A2:A3",))
    assert bool(found.errors) is (said is not None)
    assert said is None or any(said in one.allowed for one in found.errors)


def test_a_row_without_a_vendor_beside_several_is_asked_about(tmp_path: Path) -> None:
    """Its amount would be part of every order."""
    rows = [[who, f"{who[:1]}1 node", 128, 768, "-", 2, 10_000, 20_000] for who in ("Kauri", "Tasman")]
    found = read(tmp_path, OFFERS, *rows, [None, "Networking", *[None] * 3, 1, 5_000, 5_000])
    assert ["names no vendor" in one.allowed for one in found.errors] == [True]


GROUPS = ["Group", "Type", "SKU", "Description", "Quantity per System", "Quantity", "Unit price (EUR)"]


@pytest.mark.parametrize(
    ("memory", "is_read"),
    [
        (["Module", "370", "32GB RDIMM", 16, 64], True),
        (["Module", "370", "32GB RDIMM", 16, None], True),
        (["Module", "370", "32GB RDIMM", 16, 16], False),
        (["Module", "370", "16x 32GB RDIMM", 16, 64], False),
        (["Optional", "370", "32GB RDIMM", 16, 64], False),
        (["Module", "370", "32GB RDIMM", 0.5, 2], False),
    ],
)
def test_parts_are_counted_per_system_beside_those_of_all(tmp_path: Path, memory: list, is_read: bool) -> None:
    """The number in one times the servers is that of all, and a column that repeats a type holds no names."""
    base, chips = [1, "Base", "210", "R760c", None, 4, 15_000], [1, "Module", "338", "AMD EPYC 9354", 2, 8]
    other = [2, "Network", "211", "Switch", None, 1, 3_000]
    found = read(tmp_path, GROUPS, base, chips, [1, *memory], other)
    assert bool(found.errors) is not is_read
    assert not is_read or found.quotes[["name", "cpus", "mem_gb"]].values.tolist() == [["R760c", 64, 512]]


@pytest.mark.parametrize(
    ("more", "is_read"), [(["RAM", "32GB RDIMM", 16], True), (["AMD EPYC 9354", "32GB RDIMM", 16], False)]
)
def test_a_number_counts_the_part_beside_a_word_for_its_kind(tmp_path: Path, more: list, is_read: bool) -> None:
    """Of two parts in one row nobody knows which it counts."""
    head = ["Specification", "Description", "Qty", "Unit price (EUR)"]
    found = read(tmp_path, head, [None, "R6625", 3, 9_000], ["CPU", "AMD EPYC 9354", 2], more)
    assert bool(found.errors) is not is_read
    assert not is_read or found.quotes["mem_gb"].tolist() == [512]


@pytest.mark.parametrize(
    "rows",
    [
        [["Subtotal", None, None, 145_000], ["4x NVIDIA L40S"]],
        [["2x AMD EPYC 9354 for spare", None, None], ["Subtotal", None, None, 145_000], ["2x AMD EPYC 9554"]],
    ],
)
def test_a_part_beneath_a_sum_is_not_lost(tmp_path: Path, rows: list) -> None:
    """It stands right beneath no server, and is asked about."""
    text = "R6625, 2x AMD EPYC 9354, 24x 32 GB DDR5"
    found = read(tmp_path, HEAD, [text, *SERVER[1:]], *rows)
    assert any("right beneath" in one.allowed for one in found.errors)


def test_a_name_beside_a_part_is_that_of_another_server(tmp_path: Path) -> None:
    """Its price is missing, and it is no part of the one above it."""
    head = ["Poste", "Désignation", "Détail", "Qté", "PU HT (EUR)"]
    first = [1, "Serveur X", "CPU : 2 x AMD EPYC 9354", 4, 15_000]
    assert read(tmp_path, head, first, [None, "Serveur Y", "RAM : 24 x 32 Go DDR5"]).errors
