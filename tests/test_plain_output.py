"""What names and files of others can do to a terminal, a spreadsheet or another file: nothing."""

import json
import os
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sweep_lab import make_study

from procure.cli import common
from procure.cli.common import cells
from procure.errors import ArgumentError, TableError
from procure.objectives.constraints import parse, quantities
from procure.packages import PackageRules
from procure.page.charts import gantt_figure, gantt_text
from procure.page.html import write_page
from procure.schemas import QUOTE
from procure.study import load_study
from procure.sweep.parts import Batch
from procure.sweep.store import locked, refuse_other_inputs
from procure.tables import check
from procure.text import (
    MONEY_UNITS,
    TIME_UNITS,
    clock_seconds,
    duration,
    file_name,
    format_value,
    money,
    roughly,
    seconds,
)

EVIL = "\x1b]0;owned\x07\x9b31mc1\u202e"


@pytest.mark.parametrize("output", list(common.Format))
def test_escape_sequences_of_names_reach_no_terminal(output, capsys, monkeypatch):
    """Tables, records, notes and errors write control characters out; JSON and CSV keep the value."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    common.print_table(pd.DataFrame({"name": [EVIL], EVIL: [1]}), output, EVIL)
    common.print_record({"name": EVIL}, output, EVIL)
    common.note(EVIL)
    said = capsys.readouterr()
    for text in (said.out, said.err):
        ours = re.sub("\x1b\\[[0-9;]*m", "", text)  # bold and italic are rich's own
        assert not set("\x1b\x07\x9b\u202e") & set(ours)
    if output is common.Format.TABLE:
        assert r"\x1b" in said.out
    assert r"\x1b" in said.err
    common.print_json({"name": EVIL})
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": EVIL}
    assert "\x9b" not in text


def test_a_lock_that_is_none_of_ours_is_left_alone(tmp_path):
    """A lock that is a link, a hard link or another file is refused, and what stands in it stays."""
    study = load_study(make_study(tmp_path))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    lock = study.folder / "lock"
    study.folder.mkdir(parents=True)
    for make in (lock.symlink_to, lock.hardlink_to, lambda path: lock.write_bytes(path.read_bytes())):
        make(victim)
        with pytest.raises(TableError, match=r"is a link|is no lock of procure"), locked(study):
            pass
        with pytest.raises(TableError, match=r"is a link|is no lock of procure"), locked(study, (0, 2)):
            pass
        assert victim.read_text() == lock.read_text() == "precious"
        lock.unlink()
    empty = tmp_path / "empty"
    empty.touch()
    lock.symlink_to(empty)
    with pytest.raises(TableError, match="is a link"), locked(study):
        pass
    assert empty.read_text() == ""
    lock.unlink()
    for _ in range(2):
        with locked(study):
            assert lock.read_text().startswith(f"process {os.getpid()} on ")


def test_json_nested_too_deep_is_one_error(tmp_path):
    """Files that procure itself wrote may be altered: no depth ends in a RecursionError."""
    (tmp_path / "manifest.json").write_text('{"settings": ' + "[" * 100_000)
    with pytest.raises(TableError, match=r"no manifest|nested too deep"):
        refuse_other_inputs(SimpleNamespace(study=SimpleNamespace(folder=tmp_path)))


def test_charts_and_pages_hold_no_character_that_controls(tmp_path, recwarn):
    """Names in figures, charts as text and HTML pages are written out; a figure stays XML, without a warning."""
    schedule = pd.DataFrame({"job_id": [EVIL], "submit_time": 0, "start_time": 0, "end_time": 5, "node_ids": EVIL})
    figure, page = (gantt_figure(schedule, tmp_path / "g.svg"), write_page(tmp_path / "p.html", f"<p>{EVIL}</p>"))
    ElementTree.parse(figure)
    for text in (gantt_text(schedule), figure.read_text(), page.read_text()):
        assert not set("\x1b\x07\x9b\u202e") & set(text)
        assert text.isascii() or r"\x1b" in text
    assert not recwarn.list


def test_a_chart_of_more_than_can_be_looked_at_is_refused():
    """A schedule over years, a character per second, and a figure of a hundred thousand bars."""
    rows = {"job_id": "1", "submit_time": 0, "start_time": 0, "end_time": 2**40, "node_ids": "a"}
    with pytest.raises(ArgumentError, match="1 s per character make 1 lines of 1,099,511,627,776 characters"):
        gantt_text(pd.DataFrame([rows]))
    with pytest.raises(TableError, match="has 100,000 bars"):
        gantt_figure(pd.DataFrame([rows] * 100_000), "never.svg")


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


def test_every_label_is_a_name_of_a_file():
    """A plain policy keeps its name, byte for byte; others become names that are legal, short and distinct."""
    for plain in ("easy:order=sjf,depth=4", "best-fit-of-node", "priority:weight_age=0.1", "their_own:a=b@c"):
        assert file_name(plain) == plain
    others = ["their:path=/a/b", "their:path=%2Fa%2Fb", "x:a=\x00", "..", *("x:a=" + "é" * 300 + end for end in "ab")]
    names = [file_name(label) for label in others]
    assert len(set(names)) == len(names) and not any("/" in name or "\x00" in name for name in names)
    assert max(map(len, names)) == 80
    rows = np.arange(3)
    assert "/" not in Batch("day", "their:path=/a/b", rows).key
    assert Batch("day", "easy:depth=4", rows).key.startswith("day.easy:depth=4.000000000-")


@given(
    st.integers(1, 10**12),
    st.sampled_from(["{:d}", "{:_d}", "{:,d}", "${:,d}", "US$ {:,d}", "USD {:d}", "{:d} USD", "{:d}.00", "{:d}$"]),
    st.sampled_from(["", "-"]),
)
def test_money_in_every_spelling_is_the_number(usd, spelling, sign):
    """Thousands set apart by commas or underscores, with or without the currency."""
    assert money(sign + spelling.format(usd)) == float(f"{sign}{usd}")


@given(st.integers(1, 10**6), st.sampled_from([*MONEY_UNITS]))
def test_money_in_thousands_and_millions_is_exact(tenths, unit):
    """1.1M is 1,100,000 and not 1,100,000.0000000001."""
    assert money(f"{tenths // 10}.{tenths % 10}{unit}") == tenths * MONEY_UNITS[unit] / 10


@pytest.mark.parametrize(
    "text",
    ["", "$", "1.2.3", "1,5", "1,23", "12,3456", "1234,567", "1.000,00", "1 000", "--5", "-$-5", "1_", "5B", "nan",
     "ten"],
)  # fmt: skip
def test_what_is_no_money_is_refused_everywhere(text):
    """The same texts in an option, a study, a constraint and a quote file."""
    with pytest.raises(ValueError, match="is no amount in US"):
        money(text)
    with pytest.raises(ValueError, match="is no amount in US"):
        PackageRules(budget_usd=text)
    with pytest.raises(TableError):
        parse(f"price_usd<={text}", quantities())
    with pytest.raises(TableError):
        check(_quote(text), QUOTE)


@pytest.mark.parametrize("text", ["1200000", "1_200_000", "$1,200,000", "1.2M", "1200k", "1.2e6", "USD 1.2m"])
def test_money_is_read_alike_everywhere(text):
    assert money(text) == PackageRules(budget_usd=text).budget_usd == 1_200_000
    assert parse(f"price_usd<={text}", quantities()).value == 1_200_000
    assert check(_quote(text), QUOTE)["price_usd"].tolist() == [1_200_000]


def _quote(price: str) -> pd.DataFrame:
    row = {"name": "a", "category": "c", "cpus": 1, "mem_gb": 1, "gpus": 0, "price_usd": price}
    return pd.DataFrame([row])


@given(st.integers(0, 10**6), st.sampled_from([*TIME_UNITS]), st.sampled_from(["", " "]))
def test_seconds_in_every_unit(n, unit, space):
    assert seconds(f"{n}{space}{unit}") == n * TIME_UNITS[unit] and seconds(str(n)) == n


@given(st.text(max_size=8))
@example("1E310")
@example("1e400d")
def test_other_text_is_no_length_of_time(text):
    """Whatever is read is finite and not negative; the rest is refused, not guessed."""
    for read in (seconds, clock_seconds):
        try:
            assert 0 <= read(text) < float("inf")
        except ValueError as error:
            assert "is not a length of time" in str(error) or "is longer than any time" in str(error)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "at once"), (12, "10 s"), (58, "1 min"), (843, "14 min"), (3590, "1 h"), (6000, "1 h 40 min"),
        (21_300, "6 h"), (100_000, "28 h"), (216_000, "2.5 days"), (1_000_000, "12 days"), (2e8, "6 years"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_rounded_as_people_say_it(value, text):
    assert roughly(value) == text
