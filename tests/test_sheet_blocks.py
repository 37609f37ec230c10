"""Sheets with a block of labels and values per server."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from openpyxl import Workbook

from procure.errors import TableError
from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file

Rows = list[list[object]]


def block(name: str, price: int, *more: list[object], end: Rows | None = None) -> Rows:
    """Return a block of two servers."""
    parts: Rows = [["CPU", "2 × AMD EPYC 9755 (128 cores each)"], ["Memory", "24 × 64 GB DDR5-6400"], ["GPU", "None"]]
    sums: Rows = [["Quantity", 2], ["Price each (USD)", price], ["Extended (USD)", 2 * price]]
    return [[name], *parts, *more, *(sums if end is None else end), []]


def read(tmp_path: Path, *blocks: Rows) -> QuoteFile:
    """Write a workbook, and read it."""
    book = Workbook()
    for row in [row for one in blocks for row in one]:
        book.active.append(row)
    book.save(tmp_path / "offer.xlsx")
    return read_quote_file(tmp_path / "offer.xlsx", OfferReading())


def test_blocks_of_labels_are_servers_and_what_stands_beneath_is_lines(tmp_path: Path) -> None:
    """What is above a block is its server's name; a sum of all is a total, whatever is called so beside."""
    lines: Rows = [["Other charges"], ["Installation", 15_000], ["Freight", "Included"], ["TOTAL BID", 75_000]]
    found = read(tmp_path, block("Server A", 10_000), block("Server B", 20_000), lines)
    assert not found.errors
    rows = found.quotes[["name", "cpus", "mem_gb", "price_usd"]].values.tolist()
    assert rows == [["Server A", 256, 1536, 10_000], ["Server B", 256, 1536, 20_000]]
    assert [(line.kind, line.usd) for line in found.lines] == [("installation", 15_000)]


@pytest.mark.parametrize(
    "second",
    [
        block("Server B", 20_000, ["CPU", "2 × AMD EPYC 9355 (32 cores each)"]),
        block("Server B", 20_000, ["Price each (USD)", 10_000]),
        block("Server B", 20_000, ["Discount", "5%"]),
        block("Server B", 20_000, ["Note", "price valid with A only"]),
        block("Server B", 20_000, []),
        block("Server B", 20_000)[1:],
        block("Server A", 20_000),
        block("Chassis with 4 nodes", 20_000),
        block("Server B", 20_000, end=[["Price each (USD)", 20_000, "per pair"]]),
        block("Server B", 20_000, end=[["Price each (EUR)", 20_000]]),
        block("Server B", 20_000, end=[["Quantity", 2], ["Price each (USD)", 20_000], ["Extended (USD)", 20_000]]),
        [*block("Server B", 20_000), ["TOTAL BID", 61_000]],
    ],
)
def test_blocks_that_are_not_plainly_servers_are_asked_about(tmp_path: Path, second: Rows) -> None:
    """A label twice, a gap, no name, a cell beside a value, other units and sums that disagree make a question."""
    assert read(tmp_path, block("Server A", 10_000), second).errors


def counted(name: str, *parts: list[object], head: str = "Quantité par serveur", end: Rows | None = None) -> Rows:
    """Return a block of a server's parts with their numbers beneath its name, and its price."""
    first: Rows = [["Processeur Intel Xeon Gold 6430, 32 cœurs", 2], ["Barrette 32 Go DDR5-4800", 16]]
    sums: Rows = [["Prix unitaire HT du serveur", 12_000], ["Nombre de serveurs", 10], ["Total HT", 120_000]]
    return [[name, head], *first, *parts, *(sums if end is None else end), []]


def test_parts_with_their_numbers_in_one_server_may_stand_in_blocks(tmp_path: Path) -> None:
    """Beneath each name stand its parts, so many in one, then its price."""
    lines: Rows = [["Transport et installation", 4_150], ["TOTAL GÉNÉRAL HT", 244_150]]
    found = read(
        tmp_path, [["Prix en USD"], []], counted("Serveur A"), counted("Serveur B", ["GPU NVIDIA A100 80 Go", 2]), lines
    )
    assert not found.errors, [str(one) for one in found.errors]
    rows = found.quotes[["name", "cpus", "mem_gb", "gpus", "price_usd"]].values.tolist()
    assert rows == [["Serveur A", 64, 512, 0, 12_000], ["Serveur B", 64, 512, 2, 12_000]]
    assert [(line.kind, line.usd) for line in found.lines] == [("installation", 4_150)]


@pytest.mark.parametrize(
    "second",
    [
        counted("Serveur B", head="Quantité"),
        counted("Serveur B", head="Quantité totale"),
        counted("Serveur B", ["Processeur Intel Xeon Gold 6430, 32 cœurs", 2]),
        counted("Serveur B", ["GPU NVIDIA A100 80 Go", "2 ou 4"]),
        counted("Serveur B", ["Option : GPU NVIDIA A100 80 Go", 2]),
        counted("Serveur B", ["Carte HDR100", 1, 800]),
        counted(
            "Serveur B",
            end=[["Prix unitaire HT du serveur", 12_000], ["Nombre de serveurs", 10], ["Barrette 64 Go", 16]],
        ),
        counted(
            "Serveur B", end=[["Prix unitaire HT du serveur", 12_000], ["Nombre de serveurs", 9], ["Total HT", 120_000]]
        ),
        counted("Serveur B", end=[["Prix unitaire HT des serveurs", 12_000], ["Nombre de serveurs", 10]]),
        counted("Serveur B", ["Châssis 2U avec 4 nœuds", 1]),
    ],
)
def test_counted_parts_that_are_not_plainly_those_of_one_server_are_asked_about(tmp_path: Path, second: Rows) -> None:
    """Numbers of nobody knows what, a part twice or of choice, one that costs more or stands behind the price."""
    with contextlib.suppress(TableError):  # no table is found at all
        assert read(tmp_path, [["Prix en USD"], []], counted("Serveur A"), second).errors
