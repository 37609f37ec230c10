"""Quotes: the shipped file, and one clear error for each way in which a row can be wrong."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from procure.errors import TableError
from procure.packages.quotes import read_quotes, summarise_quotes

EXAMPLE = Path(__file__).resolve().parent.parent / "quotes" / "example-2023.csv"
HEADER = "name,category,cpus,mem_gb,gpus,price_usd"
GOOD = "A1,compute,24,256,0,6960"


def quote_file(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "quotes.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_the_shipped_quotes() -> None:
    """The 21 published types: the sums of their figures, categories in order, a rate per core for each."""
    quotes = read_quotes(EXAMPLE)
    assert len(quotes) == 21
    assert quotes["category"].unique().tolist() == ["compute", "bigmem", "gpu"]
    assert quotes[["mem_gb", "cpus", "gpus", "price_usd"]].sum().tolist() == [11_520, 1_104, 59, 810_939]
    assert quotes["spec_rate"].round(3).unique().tolist() == [7.0, 6.453]
    assert quotes["source"].str.contains("assumed").all()


def test_the_shipped_quotes_are_the_published_ones(shared_data) -> None:
    """Every published figure stands in the shipped file, in the published order."""
    published = pd.read_csv(shared_data("ksu_procurement/vendor_quotes_21.csv"))
    quotes = read_quotes(EXAMPLE)
    assert quotes["name"].tolist() == published["name"].tolist()
    for ours, theirs in [("mem_gb", "memory_gb"), ("cpus", "cores"), ("gpus", "gpus"), ("price_usd", "price_usd")]:
        assert quotes[ours].tolist() == published[theirs].tolist()


def test_summary_is_table_3_1() -> None:
    """Types and ranges by category are those of the published Table 3.1."""
    summary = summarise_quotes(read_quotes(EXAMPLE))
    assert summary["n_types"].tolist() == [4, 2, 15]
    assert summary["price_usd_min"].tolist() == [6960, 11_112, 14_730]
    assert summary["price_usd_max"].tolist() == [9516, 12_450, 100_000]
    assert summary["gpus_max"].tolist() == [0, 0, 8]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("A1,compute,24,256,0,6960", r"row 2, column name: duplicate 'A1', also in row 1"),
        ("A2,compute,24,256,0,-1", r"row 2, column price_usd: .* below 0"),
        ("A2,compute,24,256,0,cheap", r"row 2, column price_usd: 'cheap' is not a number"),
        ("A2,compute,24,256,0,1.005", r"row 2, column price_usd: .* cent"),
        ("A2,compute,24,256,0,2e15", r"row 2, column price_usd: .* at most 1e\+12"),
        ("A2,compute,24,256,0,", r"row 2, column price_usd: the value is missing"),
        ("A2,compute,0,256,0,1", r"row 2, column cpus: .* at least 1"),
        ("A2,compute,2.5,256,0,1", r"row 2, column cpus: '2.5' is not a whole number"),
        ("A2,,24,256,0,1", r"row 2, column category: the value is missing"),
        ("A=2,compute,24,256,0,1", r"row 2, column name: 'A=2' holds '='"),
        ('"A,2",compute,24,256,0,1', r"row 2, column name: 'A,2' holds ','"),
        ("distinct,compute,24,256,0,1", r"row 2, column name: 'distinct' is a column of every package table"),
        ("A2 ,compute,24,256,0,1", r"row 2, column name: 'A2 ' begins or ends with a space"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: str, says: str) -> None:
    """A wrong cell is an error with the file, the row, the column, and what was given."""
    with pytest.raises(TableError, match=rf"quotes\.csv, {says}"):
        read_quotes(quote_file(tmp_path, GOOD, row))


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("min_count,max_count", "5,4", "row 1, column min_count: 5 was given; at most max_count is allowed, 4"),
        ("power_w,idle_power_w", "100,200", "row 1, column idle_power_w: 200 was given"),
        ("valid_until", "30.6.2023", "row 1, column valid_until: '30.6.2023' is no date"),
        ("valid_until", "2023-02-30", "row 1, column valid_until"),
        ("valid_until", "20230228", "row 1, column valid_until"),
        ("price_us", "1", "unknown column 'price_us'; did you mean price_usd"),
        ("rack_units", "tall", "row 1, column rack_units: 'tall' is not a number"),
        ("pack_size", "0", "row 1, column pack_size: .* at least 1"),
    ],
)
def test_a_bad_optional_column_is_named(tmp_path: Path, column: str, value: str, says: str) -> None:
    """Optional columns are checked as strictly, and an unknown one offers the nearest legal name."""
    with pytest.raises(TableError, match=says):
        read_quotes(quote_file(tmp_path, f"{GOOD},{value}", header=f"{HEADER},{column}"))


@pytest.mark.parametrize("text", ["", HEADER + "\n", "name,category\nA1,compute\n"])
def test_a_file_without_quotes_is_an_error(tmp_path: Path, text: str) -> None:
    """An empty file, a header alone, and missing columns are each one error that names the file."""
    path = tmp_path / "empty.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=r"empty\.csv"):
        read_quotes(path)
