"""Tables for people: within 80 columns, words for heads, lengths of time, no more digits than a number is worth."""

from __future__ import annotations

import pandas as pd
import pytest

from procure.cli import common
from procure.cli.layout import cells
from procure.text import duration, format_value


def printed(capsys, frame, title="", units=None):
    common.print_table(frame, common.Format.TABLE, title, units)
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_a_wide_table_is_laid_out_row_by_row(capsys):
    """Twenty columns with long heads: a line for each cell, at most 80 columns, words whole."""
    names = [f"remarkable_quantity_{i}" for i in range(20)]
    frame = pd.DataFrame({"policy": ["easy", "best-fit"]} | {name: [123456.789, 1.0] for name in names})
    title = ("a title " * 15).strip()
    said = printed(capsys, frame, title)
    assert title in said.splitlines()  # on one line, so that it can be searched for
    assert max(len(line) for line in said.splitlines() if line != title) <= 80
    assert said.split().count("remarkable") == 2 * said.split().count("123,457") == 40
    assert said.count("policy") == 2 and said.count("best-fit") == 1


def test_no_false_precision():
    """Dollars are whole, counts that were averaged too; a large number has no decimals, a small one three digits."""
    assert cells(pd.Series([1494100.0, 2582.0]), "US$") == ["1,494,100", "2,582"]
    assert cells(pd.Series([2582.123, 10.5]), "") == ["2,582", "10"]
    assert cells(pd.Series([0.1234, 5.0]), "") == ["0.123", "5.000"]
    assert cells(pd.Series([2.0, None]), "") == ["2", "–"]
    assert [format_value(x) for x in (1234.5, 12.345, 0.0123456, 7)] == ["1,234", "12.3", "0.0123", "7"]
    assert format_value(0.9273, "share") == "92.7%" and format_value(float("nan"), "s") == "–"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (0.0124, "12 ms"), (7.31, "7.3 s"), (9.97, "10 s"), (119.4, "119 s"), (120, "2 min"),
     (3599.7, "1 h"), (210, "3 min 30 s"), (8616, "2 h 24 min"), (172_799, "2 d"), (10**6, "11 d 14 h"),
     (-8616, "-2 h 24 min"), (None, "–")],
)  # fmt: skip
def test_lengths_of_time(seconds, said):
    assert duration(seconds) == said
