"""Sheets with a block of labels and values per server."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import Workbook

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
