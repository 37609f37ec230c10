"""How numbers and names stand in sentences, and how amounts that people write are read."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from procure.errors import TableError
from procure.objectives.constraints import parse, quantities
from procure.packages import PackageRules
from procure.schemas import QUOTE
from procure.sweep.parts import Batch
from procure.tables import check
from procure.text import MONEY_UNITS, TIME_UNITS, clock_seconds, counted, file_name, listed, money, roughly, seconds


def test_one_is_singular():
    """And all other numbers plural, thousands set apart; a plural of its own where an s is not enough."""
    assert [counted(n, "job") for n in (0, 1, 1234, -1)] == ["0 jobs", "1 job", "1,234 jobs", "-1 jobs"]
    assert counted(2, "category", "categories") == "2 categories" and counted(1, "category", "x") == "1 category"


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


def test_many_names_are_cut_to_three():
    """One more than three is named, as to count it would be no shorter."""
    names = [f"day-{i}" for i in range(25)]
    assert listed(names) == "day-0, day-1, day-2 and 22 more"
    assert listed(names[:4]) == "day-0, day-1, day-2, day-3" and listed([]) == ""


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


@given(st.integers(0, 10**6), st.integers(0, 9999))
def test_a_decimal_comma_is_refused(whole, part):
    """Never read as thousands, which would be up to 1,000 times the price; 1,234 is thousands."""
    text = f"{whole},{part}"
    if not (len(str(part)) == 3 and len(str(whole)) <= 3):
        with pytest.raises(ValueError, match="is no amount in US"):
            money(text)


@pytest.mark.parametrize(
    "text", ["", "$", "1.2.3", "1,5", "1.000,00", "1 000", "--5", "-$-5", "1_", "5B", "nan", "ten"]
)
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


@pytest.mark.parametrize("text", ["", "-1h", "1,5h", "8:00h", "2 days", "1-", "h", "1:2:3:4"])
def test_a_length_of_time_without_sense_is_refused(text):
    """Neither negative, nor with a decimal comma, nor of two spellings."""
    with pytest.raises(ValueError, match="is not a length of time"):
        seconds(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "at once"), (12, "10 s"), (58, "1 min"), (843, "14 min"), (3590, "1 h"), (6000, "1 h 40 min"),
        (21_300, "6 h"), (100_000, "28 h"), (216_000, "2.5 days"), (1_000_000, "12 days"), (2e8, "6 years"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_rounded_as_people_say_it(value, text):
    assert roughly(value) == text
