"""Headings of no known language are asked about with guesses, and read once the user says what each is."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file
from procure.sheets.headings import heading_of
from procure.sheets.mapped import FIELDS, english

HEAD = ["Ürün", "Çekirdek", "Bellek (GB)", "Adet", "Birim Fiyat (EUR)", "Toplam (EUR)"]
SAID = ["name", "cpus", "mem_gb", "quantity", "price_usd", "total"]
ENGLISH = ["Server", "Cores", "Memory (GB)", "Quantity", "Unit price (EUR)", "Total price (EUR)"]
ROWS = [["Node A 2x AMD EPYC 9354", 64, 768, 3, 14_950, 44_850], ["Node B", 96, 1536, 2, 30_000, 60_000]]


def write(path: Path, *rows: list) -> Path:
    """Write a workbook of one sheet."""
    made = Workbook()
    for row in rows:
        made.active.append(row)
    made.save(path)
    return path


def read(path: Path, columns: dict | None = None, **given: object) -> QuoteFile:
    """Read a file with euros at two dollars."""
    return read_quote_file(path, OfferReading(rates={"EUR": 2, "CNY": 2, "TRY": 2}, columns=columns or {}, **given))


def run(*args: object) -> tuple[int, str]:
    """Run `procure quotes check`; its exit code and all that it says."""
    result = CliRunner().invoke(app, ["quotes", "check", *map(str, args)])
    return result.exit_code, f"{result.output}\n{result.exception or ''}"


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text("άβγδεζηθικλμнопрстуфхцчшщ", min_size=4, max_size=9), min_size=6, max_size=6, unique_by=str.casefold
    )
)
def test_a_made_up_heading_reads_as_the_english_one_once_stated_and_never_before(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    """Whatever word heads a column, stated it gives the English heading's rows, and unstated no amount at all."""
    folder = tmp_path_factory.mktemp("made")
    units = ["", "", " (GB)", "", " (EUR)", " (EUR)"]
    made_up = [word + unit for word, unit in zip(words, units, strict=True)]
    path = write(folder / "a.xlsx", made_up, *ROWS)
    with pytest.raises(TableError, match="no table of offers"):
        read(path)
    stated = read(path, dict(zip(SAID, made_up, strict=True)))
    plain = read(write(folder / "b.xlsx", ENGLISH, *ROWS))
    assert not plain.errors and [str(one) for one in stated.errors] == []
    assert stated.quotes.equals(plain.quotes) and stated.lines == plain.lines
    assert len(stated.quotes) == 2 and stated.quotes["price_usd"].tolist() == [29_900, 60_000]


@pytest.mark.parametrize("left_out", ["name", "price_usd"])
def test_one_heading_left_unstated_gives_no_amount(tmp_path: Path, left_out: str) -> None:
    """A file of which a needed heading is not stated has errors, and no row is read."""
    columns = {name: text for name, text in zip(SAID, HEAD, strict=True) if name not in (left_out, "total")}
    with pytest.raises(TableError):
        found = read(write(tmp_path / "a.xlsx", HEAD[:-1], *(row[:-1] for row in ROWS)), columns)
        assert found.quotes.empty
        raise found.error()


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_every_column_that_may_be_stated_has_an_english_heading(field: str) -> None:
    """The heading that stands for a column is read as that column, with a unit beside it too."""
    assert heading_of(english("Ürün", field, frozenset())[0]).column == FIELDS[field]


@pytest.mark.parametrize(
    ("text", "column", "heading", "asked"),
    [
        ("RAM belleği (TB)", "mem_gb", "memory (TB)", []),
        ("Fiyat ₺", "price_usd", "unit price (₺)", []),
        ("单价（万元）", "price_usd", "unit price (万元)", []),
        ("Hind (EUR, km-ta)", "price_usd", "unit price (EUR)", ["km-ta"]),
        ("Fiyat (EUR/ay)", "price_usd", "unit price (EUR)", ["ay"]),
        ("Fiyat EUR/ay", "price_usd", "unit price (EUR)", ["ay"]),
        ("Fiyat (EUR/core)", "price_usd", "unit price (EUR/core)", []),
        ("Fiyat, binxz TL", "price_usd", "unit price (TL)", ["binxz"]),
        ("Fiyat 1000 EUR", "price_usd", "unit price (EUR)", ["1000"]),
        ("Fiyat (EUR) monthly", "price_usd", "unit price (EUR) monthly", []),
        ("Fiyat, incl. VAT", "price_usd", "unit price (incl. VAT) incl. tax", []),
    ],
)
def test_units_of_a_stated_heading_count_and_other_words_are_asked_about(
    text: str, column: str, heading: str, asked: list[str]
) -> None:
    """Units, tax and what an amount is of stay in the heading; words beside them that are not known are asked about."""
    assert english(text, column, frozenset()) == (heading, asked)


@pytest.mark.parametrize(
    ("columns", "cores"),
    [
        ({}, None),
        ({"cpus": ["Cores"]}, None),
        ({"cores_per_node": ["Cores"]}, [96, 64]),
        ({"cores_per_socket": ["Cores"], "sockets": ["CPUs"]}, [192, 128]),
    ],
)
def test_cores_beside_a_number_of_cpus_are_asked_about_until_it_is_said_whose_they_are(
    tmp_path: Path, columns: dict, cores: list[int] | None
) -> None:
    """`Cores` beside `CPUs` may be those of one CPU; the question names both options, by the heading of the file."""
    head = ["Server", "CPUs", "Cores", "Memory (GB)", "Price (EUR)"]
    path = write(tmp_path / "a.xlsx", head, ["Node A", 2, 96, 768, 14_950], ["Node B", 2, 64, 768, 13_950])
    found = read(path, columns)
    if cores is None:
        asked = "--column cores_per_node=Cores, or --column cores_per_socket=Cores --column sockets=CPUs"
        assert found.errors
        assert all(asked in one.allowed for one in found.errors)
    else:
        assert found.quotes["cpus"].tolist() == cores


def test_a_word_in_a_stated_price_heading_is_asked_until_it_is_called_harmless(tmp_path: Path) -> None:
    """An unknown word beside the unit is an error with the word that answers it; with the answer the row is read."""
    head = [*HEAD[:4], "Hind (EUR, km-ta)"]
    path = write(tmp_path / "a.xlsx", head, *(row[:5] for row in ROWS))
    columns = dict(zip(SAID, head, strict=False))
    assert [(one.cell, one.harmless) for one in read(path, columns).errors] == [("E1", "km-ta")]
    assert not read(path, columns, harmless=["km-ta"]).errors


def test_amounts_of_ten_thousand_yuan_under_a_stated_heading_are_that(tmp_path: Path) -> None:
    """A unit of 10,000 in the heading's brackets multiplies the amounts."""
    path = write(tmp_path / "a.xlsx", ["设备", "核数", "内存(GB)", "单价(万元)"], ["Node", 64, 768, 11.3])
    found = read(path, {"name": "设备", "cpus": "核数", "mem_gb": "内存(GB)", "price_usd": "单价(万元)"})
    assert found.quotes["price_usd"].tolist() == [226_000]


def test_the_error_without_a_table_ends_with_a_command_that_reads_it(tmp_path: Path) -> None:
    """The refusal names sheet, row, headings and examples, says that it guesses, and its command gives the rows."""
    path = write(tmp_path / "a.xlsx", ["Teklif", None, None], HEAD, *ROWS)
    code, said = run(path, "--rate", "EUR=2")
    assert code == 1 and "row 2" in said and "guesses" in said and "'Ürün' (A2): 'Node A 2x AMD EPYC 9354'" in said
    command = next(line for line in said.splitlines() if line.startswith("procure quotes check"))
    args = shlex.split(command)[3:]
    assert [one for one in args if "=" in one][1:] == [f"{a}={b}" for a, b in zip(SAID, HEAD, strict=True)]
    code, said = run(*args, "--harmless", "Teklif")
    assert code == 0, said


def test_a_table_without_a_price_names_the_heading_that_may_be_it(tmp_path: Path) -> None:
    """Where the other headings are known, the error on the missing one says which heading it may be."""
    path = write(tmp_path / "a.xlsx", ["Server", "Cores", "RAM (GB)", "Fiyat (EUR)"], ["Node A", 64, 768, 14_950])
    said = [str(one) for one in read(path).errors]
    assert any("--column price_usd='Fiyat (EUR)'" in one for one in said)
    assert read(path, {"price_usd": "Fiyat (EUR)"}).quotes["price_usd"].tolist() == [29_900]


def test_headings_down_a_column_can_be_stated(tmp_path: Path) -> None:
    """A sheet with a server per column is read by the same statements."""
    rows = [[head, *values] for head, *values in zip(HEAD, *ROWS, strict=True)]
    found = read(write(tmp_path / "a.xlsx", *rows), dict(zip(SAID, HEAD, strict=True)))
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900, 60_000]


def test_delimited_text_is_read_by_stated_headings(tmp_path: Path) -> None:
    """The mark between fields is found by the stated headings where the others are of no known language."""
    path = tmp_path / "a.csv"
    path.write_text("Toode;Tuumi;Mälu (GB);Hind (EUR)\nNode A;64;768;14 950,00\nNode B;96;768;19 950,00\n")
    assert "line 1" in run(path)[1] or "row" in run(path)[1]
    found = read(path, {"name": "Toode", "cpus": "Tuumi", "mem_gb": "Mälu (GB)", "price_usd": "Hind (EUR)"})
    assert not found.errors and found.quotes["price_usd"].tolist() == [29_900, 39_900]


def test_a_column_that_is_stated_to_be_none_is_not_read(tmp_path: Path) -> None:
    """Numbers under a heading that is stated as none are left out, and that is said; else they are asked about."""
    path = write(tmp_path / "a.xlsx", [*ENGLISH, "Fiyat"], *([*row, 99.5] for row in ROWS))
    assert read(path).errors
    found = read(path, {"none": "Fiyat"})
    assert not found.errors
    assert any(one.cell == "G1" and "is not read" in one.allowed for one in found.findings)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("nmae=Ürün", "'nmae': no column that a heading can be; allowed: name, category"),
        ("?=Ürün", "'?': no column that a heading can be; allowed: name, category"),
        ("Ürün", "'Ürün' is not a mapping; write FIELD=HEADING"),
        ("name=Urun", "no cell holds it; did you mean 'Ürün'?"),
        ("name=Node B", "heads no table"),
    ],
)
def test_a_wrong_statement_is_one_error_that_says_what_is_allowed(tmp_path: Path, option: str, says: str) -> None:
    """A name that is no column, or a heading that the file lacks, is refused, with what is allowed."""
    path = write(tmp_path / "a.xlsx", ENGLISH, *ROWS, ["Ürün"])
    code, said = run(path, "--rate", "EUR=2", "--column", option)
    plain = " ".join(said.replace("│", " ").split())
    assert code != 0 and says in plain
