"""What stands beside an amount tells what it is: a quantity and a total, parts and their sum, modules, a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import Workbook

from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file

HEAD = ["Server", "Cores", "RAM GB", "GPUs"]
A, B = ["PowerEdge R6625", 64, 384, 0], ["PowerEdge R760xa", 64, 768, 4]


def read(tmp_path: Path, *rows: list) -> QuoteFile:
    """Write a workbook, and read it."""
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "offer.xlsx")
    return read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 2}))


def servers(found: QuoteFile) -> list[list[float]]:
    """Return cores, memory, GPUs and price of each server; an error fails."""
    assert not found.errors, found.errors
    return found.quotes[["cpus", "mem_gb", "gpus", "price_usd"]].to_numpy().tolist()


BOTH = [[64, 384, 0, 9_000], [64, 768, 4, 98_000]]


@pytest.mark.parametrize(
    ("heads", "first", "second"),
    [
        (["Qty", "Unit", "Extended"], [10, 9_000, 90_000], [2, 98_000, 196_000]),
        (["Qty", "Our rate USD", "Line value USD"], [10, 9_000, 90_000], [2, 98_000, 196_000]),
        (["Extended (USD)", "Nodes", "Each (USD)"], [90_000, 10, 9_000], [196_000, 2, 98_000]),
        (["Base USD", "Options USD", "Total USD"], [6_000, 3_000, 9_000], [90_000, 8_000, 98_000]),
        (["Total per node USD"], [9_000], [98_000]),
        (["Qty", "Unit price USD", "Discount", "Net price"], [10, 10_000, "10 %", 9_000], [2, 100_000, "2 %", 98_000]),
        (["Purchase price USD"], [9_000], [98_000]),
        (["Qty", "USD / pc", "USD total"], [10, 9_000, 90_000], [2, 98_000, 196_000]),
        (["Hardware USD", "Support USD per year"], [9_000, 300], [98_000, 900]),
        (["Price USD each"], [9_000], [98_000]),
        (["Chassis", "Nodes", "Price per node USD", "Total USD"], [3, 10, 9_000, 90_000], [2, 2, 98_000, 196_000]),
    ],
)
def test_amounts_that_agree_need_no_words(tmp_path: Path, heads: list, first: list, second: list) -> None:
    """Which column is the price of one is told by quantity × price = total, or by parts and their sum."""
    rows = [[*HEAD, *heads], [*A, *first], [*B, *second]]
    if "Unit" in heads or "Total" in heads or "Net price" in heads:
        rows.insert(0, ["All prices in USD"])
    assert servers(read(tmp_path, *rows)) == BOTH


@pytest.mark.parametrize(("price", "of"), [((9_000, 98_000), "Price USD"), ((90_000, 196_000), "Price USD")])
def test_a_stated_total_tells_of_what_a_price_is(tmp_path: Path, price: tuple, of: str) -> None:
    """Beneath a column without the word unit or total the sum shows whether it has the price of one or of all."""
    rows = [[*HEAD, "Qty", of], [*A, 10, price[0]], [*B, 2, price[1]], ["Total", *[None] * 4, 286_000]]
    assert servers(read(tmp_path, *rows)) == BOTH


def test_a_total_names_the_currency_of_the_amounts_above_it(tmp_path: Path) -> None:
    """``Total USD`` beneath, where nothing else names one."""
    rows = [[*HEAD, "Qty", "Price ea."], [*A, 10, 9_000], [*B, 2, 98_000], ["Total USD", *[None] * 4, 286_000]]
    assert servers(read(tmp_path, *rows)) == BOTH


@pytest.mark.parametrize("head", ["Amount USD", "Betrag (USD)", "Montant HT (USD)", "Price USD"])
def test_an_amount_beside_a_quantity_is_asked_about(tmp_path: Path, head: str) -> None:
    """Where no total shows whose amount it is, nobody can know whether it is that of one."""
    assert [one.cell for one in read(tmp_path, [*HEAD, "Qty", head], [*A, 10, 9_000], [*B, 2, 98_000]).errors] == ["F1"]


def test_numbers_that_are_no_money_settle_nothing(tmp_path: Path) -> None:
    """Weights by quantity are a product, too."""
    rows = [
        [*HEAD, "Qty", "Weight kg", "Weight total kg", "Price USD"],
        [*A, 10, 20, 200, 9_000],
        [*B, 2, 30, 60, 98_000],
    ]
    assert "H1" in [one.cell for one in read(tmp_path, *rows).errors]


@pytest.mark.parametrize(
    ("heads", "first", "second"),
    [
        (["Qty", "Hardware USD", "Care USD", "Care all USD"], [10, 8_000, 400, 4_000], [2, 80_000, 4_000, 8_000]),
        (["Qty", "Unit price", "Special USD", "Total"], [10, 9_900, 9_000, 90_000], [2, 99_000, 98_000, 196_000]),
        (["Qty", "Rate per core USD", "Total USD"], [10, 9_000, 90_000], [2, 98_000, 196_000]),
        (["Net USD", "VAT USD", "Total USD"], [9_000, 1_800, 10_800], [98_000, 19_600, 117_600]),
        (["Price USD", "USD per GB"], [9_000, 4], [98_000, 5]),
        (["Qty", "Unit price", "Total", "Installation"], [10, 9_000, 90_000, 400], [2, 98_000, 196_000, 400]),
    ],
)
def test_agreement_of_other_amounts_settles_no_price(tmp_path: Path, heads: list, first: list, second: list) -> None:
    """Care by quantity, a second price, an amount per core, a price and its tax, an amount per GB are asked about."""
    assert read(tmp_path, ["All prices in USD"], [*HEAD, *heads], [*A, *first], [*B, *second]).errors


@pytest.mark.parametrize(
    ("heads", "figures"),
    [
        (["DIMMs", "Module GB"], [12, 32]),
        (["# DIMM", "DIMM size", "RAM total GB"], [12, "32 GB", 384]),
        (["Memory per core (GB)"], [6]),
        (["RAM GB per node"], [384]),
        (["CPU memory GB", "GPU memory GB"], [384, 0]),
    ],
)
def test_memory_is_told_by_modules_or_by_cores(tmp_path: Path, heads: list, figures: list) -> None:
    """Modules × GB of each, cores × GB of each, a unit within the heading, and the CPUs' memory beside the GPUs'."""
    found = read(tmp_path, ["Node", "Cores", *heads, "GPUs", "Node price (USD)"], ["thin", 64, *figures, 0, 9_000])
    assert servers(found) == [[64, 384, 0, 9_000]]


def test_memory_that_is_not_that_of_its_modules_is_asked_about(tmp_path: Path) -> None:
    """16 modules of 32 GB are not 384 GB."""
    heads = ["Node", "Cores", "RAM (GB)", "DIMMs", "DIMM size (GB)", "GPUs", "Unit price (USD)"]
    assert [one.cell for one in read(tmp_path, heads, ["thin", 64, 384, 16, 32, 0, 9_000]).errors] == ["C2"]


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("PowerEdge XE9680 with 8x H100 SXM", [112, 8]),
        ("PowerEdge R7625 2x EPYC 9554 4x L40S", [128, 4]),
        ("PowerEdge R6625, 2x AMD EPYC 9354", [64, 0]),
    ],
)
def test_a_name_that_says_processors_and_gpus_is_read(tmp_path: Path, name: str, truth: list) -> None:
    """It is no number of servers; where no column says otherwise, GPUs are those of the name, and cores must agree."""
    head = ["Server", "Cores", "RAM (GB)", "Unit price (USD)"]
    assert servers(read(tmp_path, head, [name, truth[0], 768, 9_000])) == [[truth[0], 768, truth[1], 9_000]]
    if "EPYC" in name:
        assert servers(read(tmp_path, [head[0], *head[2:]], [name, 768, 9_000])) == [[truth[0], 768, truth[1], 9_000]]


@pytest.mark.parametrize(
    ("name", "cores", "gpus"),
    [
        ("PowerEdge R760xa 4x H100", 64, 2),
        ("PowerEdge R760xa 4x H100", 64, 0),
        ("PowerEdge R6625 2x EPYC 9554", 64, 0),
        ("4x PowerEdge R6625", 64, 0),
        ("PowerEdge R6625 4x", 64, 0),
        ("PowerEdge R760xa without 4x H100", 64, 0),
    ],
)
def test_a_name_that_its_columns_contradict_is_asked_about(tmp_path: Path, name: str, cores: int, gpus: int) -> None:
    """Another number of GPUs, the cores of one of two processors, a number of servers."""
    head = ["Server", "Cores", "RAM (GB)", "GPUs", "Unit price (USD)"]
    assert read(tmp_path, head, [name, cores, 768, gpus, 9_000]).errors


def test_models_and_numbers_of_gpus_stand_in_columns_of_their_own(tmp_path: Path) -> None:
    """``GPU`` over models beside ``# GPU``; ``N/A`` and ``-`` are none."""
    head = ["Server", "Cores", "RAM (GB)", "GPU", "# GPU", "Unit price (USD)"]
    found = read(tmp_path, head, [*A[:3], "N/A", "-", 9_000], [*B[:3], "H100 NVL", 4, 98_000])
    assert servers(found) == BOTH and found.quotes["gpu_type"].to_list() == ["", "H100 NVL"]
