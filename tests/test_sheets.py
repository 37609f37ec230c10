"""Spreadsheets of vendors: what is read, what is guessed, what is asked, and that nothing is read wrong."""

from __future__ import annotations

import json
import zipfile
from decimal import Decimal
from pathlib import Path

import office_sheets
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook
from openpyxl.comments import Comment

from procure.errors import TableError
from procure.packages import expand_packages
from procure.packages.order import order_lines
from procure.packages.quote_file import OfferReading, read_quote_file, read_quotes
from procure.packages.template import write_template
from procure.sheets.headings import heading_of
from procure.sheets.units import amount_of, tax_of
from procure.study import load_study
from procure.study.check import check_study, study_notes

HEAD = ["Bezeichnung", "Kerne", "Arbeitsspeicher", "GPUs", "Einzelpreis"]
EURO = OfferReading(rates={"EUR": 1.1})


def workbook(path: Path, *rows: list, head: list | None = None) -> Path:
    book = Workbook()
    for row in [head or HEAD, *rows]:
        book.active.append(row)
    book.save(path)
    return path


def says(path: Path, severity: str, reading: OfferReading = EURO) -> list[tuple[str, str]]:
    """Return cell and text of the findings of one severity, the one on categories left out."""
    found = read_quote_file(path, reading).findings
    return [(one.cell, one.allowed) for one in found if one.severity == severity and one.column != "category"]


def test_office_files_are_read_right_or_asked_about(tmp_path: Path) -> None:
    """Of twelve drawn files (languages, formats, units, formulas, hidden columns) none is read wrong, most are read."""
    counts = office_sheets.measure(range(1, 13), tmp_path)
    assert counts["wrong"] == 0
    assert counts["read"] + counts["names"] + counts["guessed"] >= 8


@pytest.mark.slow
def test_many_office_files_are_read_right_or_asked_about(tmp_path: Path) -> None:
    """Of 150 further files none is read wrong."""
    assert office_sheets.measure(range(2001, 2151), tmp_path)["wrong"] == 0


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("14.950,00 €", "14950", "EUR"),
        ("€ 14 950,00", "14950", "EUR"),
        ("CHF 12'345.60", "12345.60", "CHF"),
        ("USD 6960.50", "6960.50", "USD"),
        ("9.900,00 € netto", "9900", "EUR"),
        ("1.234.950,-", "1234950", ""),
        ("15 T€", "15", "EUR"),
        ("$6,960.00 per node", "6960", "USD"),
    ],
)
def test_amounts_are_read_as_written(text: str, value: str, unit: str) -> None:
    """An amount whose marks can mean one thing only has one value, and its currency."""
    amount = amount_of(text)
    assert amount is not None
    assert set(amount.values.values()) == {Decimal(value)}
    assert (amount.unit.currency if amount.unit else "") == unit


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 10**9),
    st.sampled_from(["{:,.2f}", "{:.2f}"]),
    st.booleans(),
    st.sampled_from(["€", "CHF", "£"]),
)
def test_whatever_an_office_writes_is_among_the_readings(cents: int, form: str, comma: bool, unit: str) -> None:
    """Of an amount written with either mark, the value is one of the readings, and the only one with two decimals."""
    text = form.format(cents / 100)
    if comma:
        text = text.replace(",", "_").replace(".", ",").replace("_", ".")
    amount = amount_of(f"{text} {unit}")
    assert amount is not None and set(amount.values.values()) == {Decimal(cents) / 100}


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_no_text_breaks_a_reader(text: str) -> None:
    """Whatever a cell or a heading holds, it is read as something or nothing."""
    amount_of(text), heading_of(text), tax_of(text)


def test_units_and_numbers_of_a_german_offer(tmp_path: Path) -> None:
    """Titles, units, decimal commas and a dash are read; a terabyte is a guess that says what was taken."""
    rows = [
        ["Alpha", "2 x 32", "768 GB", "–", "14.950,00 €"],
        ["Beta", 64, "1,5 TB", "4x NVIDIA H100", "114.950 €"],
    ]
    path = workbook(tmp_path / "a.xlsx", *rows)
    quotes = read_quotes(path, EURO)
    assert quotes[["cpus", "mem_gb", "gpus", "price_usd"]].to_numpy().tolist() == [
        [64, 768, 0, 16_445],
        [64, 1536, 4, 126_445],
    ]
    assert quotes["gpu_type"].tolist() == ["", "H100"] and quotes["category"].tolist() == ["compute", "gpu"]
    assert [cell for cell, _ in says(path, "guess")] == ["C3", "E3"]


@pytest.mark.parametrize(
    ("head", "row", "cell", "says_"),
    [
        (HEAD, ["A", 64, 768, 0, "14.950,00 SEK"], "E2", "is in SEK, which has no rate"),
        (HEAD, ["A", 64, 768, 0, 14950], "E2", "names no currency"),
        (HEAD, ["A", 64, 768, 0, "kr 14950"], "E2", "Swedish, Norwegian or Danish"),
        ([*HEAD[:4], "Preis brutto (€)"], ["A", 64, 768, 0, 14950], "E2", "is a price with tax"),
        ([*HEAD[:4], "Preis (€)"], ["A", 64, 768, 0, "#REF!"], "E2", "holds #REF!"),
        ([*HEAD[:4], "Preis (€)"], ["A", 64, 768, 0, "=1+1"], "E2", "a formula without a value"),
        ([*HEAD[:4], "Preis pro Chassis (€)"], ["A", 64, 768, 0, 14950], "E1", "no column for price"),
        ([*HEAD[:4], "Gesamtpreis (€)"], ["A", 64, 768, 0, 14950], "E1", "may be the price of one node or of several"),
        ([*HEAD[:4], "Preis (€)", "Menge"], ["A", 64, 768, 0, 14950, 4], "E1", "price of one node or of the whole"),
        ([*HEAD[:4], "Preis (€)", "Preis (€)"], ["A", 64, 768, 0, 1, 2], "E1", "means the same as"),
        ([*HEAD[:4], "Preis (€)"], ["A", 64, "768 W", 0, 14950], "C2", "is not a number"),
        ([*HEAD[:3], "GPU", "Preis (€)"], ["A", 64, 768, "NVIDIA H100", 14950], "D2", "without a number"),
        ([*HEAD[:4], "Preis (€)", "gültig bis"], ["A", 64, 768, 0, 14950, "05/06/2027"], "F2", "day or month first"),
    ],
)  # fmt: skip
def test_what_could_mean_several_things_is_asked(tmp_path: Path, head: list, row: list, cell: str, says_: str) -> None:
    """A cell that a person would ask about is an error with its address, and no price comes of it."""
    path = workbook(tmp_path / "a.xlsx", row, head=head)
    found = says(path, "error")
    assert any(says_ in text for _, text in found), found
    assert cell in [where for where, _ in found] or says_.startswith("no column")
    with pytest.raises(TableError, match=r"a\.xlsx"):
        read_quotes(path, EURO)


def test_a_merged_price_is_asked_about(tmp_path: Path) -> None:
    """A price that is merged over two types may be that of each or of both."""
    path = workbook(tmp_path / "a.xlsx", ["A", 64, 768, 0, "9.000,00 €"], ["B", 64, 768, 0, None])
    book = load_workbook(path)
    book.active.merge_cells("E2:E3")
    book.save(path)
    assert [text[:19] for _, text in says(path, "error")] == ["is merged over 2 ro"] * 2


def test_hidden_columns_are_not_read(tmp_path: Path) -> None:
    """A hidden column with another price does not count, and is said."""
    path = workbook(tmp_path / "a.xlsx", ["A", 64, 768, 0, 9000, 7000], head=[*HEAD[:4], "Preis (€)", "Preis intern"])
    book = load_workbook(path)
    book.active.column_dimensions["F"].hidden = True
    book.save(path)
    assert read_quotes(path, EURO)["price_usd"].tolist() == [9900]
    assert any("is hidden" in text for _, text in says(path, "warning"))


def test_every_problem_is_listed_at_once(tmp_path: Path, procure) -> None:
    """Three wrong cells of two sheets are three problems in JSON, each with sheet, cell, column, given and allowed."""
    book = Workbook()
    book.active.title = "One"
    book.create_sheet("Two")
    for sheet in book:
        sheet.append(["Model", "Cores", "Memory (GB)", "GPUs", "Unit price (EUR)"])
    book["One"].append(["A", "many", 768, 0, 9000])
    book["One"].append(["B", 64, "?", 0, 9000])
    book["Two"].append(["C", 64, 768, 0, "#N/A"])
    book["Two"].append(["D", 64, 768, 0, 9000])
    book.save(tmp_path / "a.xlsx")
    code, out, _ = procure("quotes", "check", tmp_path / "a.xlsx", "--rate", "EUR=1.1", "--format", "json")
    found = json.loads(out)
    errors = [one for one in found["problems"] if one["severity"] == "error"]
    assert code == 1 and [row["name"] for row in found["rows"]] == ["D"]
    assert {(one["sheet"], one["cell"], one["column"]) for one in errors} == {
        ("One", "B2", "cpus"), ("One", "C3", "mem_gb"), ("Two", "E2", "price_usd"),
    }  # fmt: skip
    assert set(errors[0]) == {"sheet", "cell", "column", "given", "allowed", "severity", "harmless"}


def test_csv_of_three_decimals_is_asked_about(tmp_path: Path) -> None:
    """14.950 in a price is fourteen thousand for some and fourteen for others: the option decides."""
    path = tmp_path / "a.csv"
    path.write_text("name,category,cpus,mem_gb,gpus,price_usd\nA,compute,64,256,0,14.950\n")
    with pytest.raises(TableError, match=r"may be 14\.95 or 14950.*--decimal"):
        read_quotes(path)
    assert read_quotes(path, OfferReading(decimal="comma"))["price_usd"].tolist() == [14_950]


def test_template_to_packages_without_retyping(tmp_path: Path, procure) -> None:
    """A template, filled in and checked, gives packages; its lines are part of the order, its example of nothing."""
    path = tmp_path / "offers.xlsx"
    assert procure("quotes", "template", "--out", path)[0] == 0
    book = load_workbook(path)
    book["Servers"].append(["A64", "compute", 64, 256, 0, 8000, "Alder"])
    book["Servers"].append(["G4", "gpu", 64, 512, 4, 60000, "Alder"])
    for row in (
        ["network", "Switch", "Alder", 2, "order", 5000],
        ["installation", "Rack and stack", "Alder", 1, "node", 100],
        ["warranty", "3 years", "Alder", 1, "node", 200, 3],
        ["warranty", "5 years", "Alder", 1, "node", 500, 5],
        ["discount", "Project", "Alder", 1, "order", None, None, 5],
    ):
        book["Other lines"].append(row)
    book.save(path)
    study = tmp_path / "s.toml"
    study.write_text(
        f'quotes = "{path.name}"\n[offers]\nwarranty_years = 4\n[packages]\nbudget_usd = 200_000\n'
        '[[workloads]]\nname = "d"\ngenerate = { seed = 1, n_jobs = 20 }\n'
    )
    loaded = load_study(study)
    assert loaded.read_quotes()["price_usd"].tolist() == [8600, 60_600]
    assert loaded.packages.fixed_cost_usd == 10_000
    assert [one.percent for one in loaded.packages.discounts] == [5]
    packages = expand_packages(loaded.read_quotes(), loaded.packages)
    # 2 × 60,600 + 9 × 8,600 = 198,600, less 5 %: 188,670 of the 190,000 that the switches leave.
    assert packages.set_index("package_id").loc["A64=9,G4=2", "price_usd"] == 188_670
    assert any("3 years" in text for text in study_notes(loaded))
    with pytest.raises(TableError, match="longest warranty of Alder is 5 years"):
        order_lines(read_quote_file(path).lines, 6)


def test_what_a_template_says_is_no_news(tmp_path: Path) -> None:
    """Of a filled-in template its own notes are not said; a vendor's note is."""
    path = write_template(tmp_path / "offers.xlsx")
    book = load_workbook(path)
    book["Servers"].append(["A64", "compute", 64, 256, 0, 8000, "Alder"])
    book["Servers"]["F3"].comment = Comment("plus freight", "Alder")
    book.save(path)
    notes = [one.allowed for one in read_quote_file(path).findings if "note that" in one.allowed]
    assert notes == ["has a note that is not read: plus freight"]


def test_another_problem_of_a_study_leaves_its_rates(tmp_path: Path) -> None:
    """A key that is wrong elsewhere does not make prices in euros a problem; a wrong `[offers]` is said once."""
    (tmp_path / "q.csv").write_text("name;category;cpus;mem_gb;gpus;price_usd\nA;compute;64;256;0;9000 EUR\n")
    study = tmp_path / "s.toml"
    text = (
        'quotes = "q.csv"\n[offers]\nrates = { EUR = 1.08 }\n[packages]\nbudget_usd = 90_000\n'
        '[[workloads]]\nname = "d"\ngenerate = { seed = 1, n_jobs = 20 }\n'
        "[award]\nweights = { price = 90, support = 10 }\n"
    )
    study.write_text(text)
    with pytest.raises(TableError, match=r"weights\.support") as error:
        check_study(study)
    assert "EUR" not in str(error.value)
    study.write_text(text.replace("EUR = 1.08", "EUR = -1"))
    with pytest.raises(TableError, match="2 problems") as error:
        check_study(study)
    assert str(error.value).count("EUR") == 1


def test_the_shipped_office_file(procure) -> None:
    """Three servers, a switch, two lines per node and a percentage are read of the shipped example."""
    found = read_quote_file(Path(__file__).resolve().parent.parent / "quotes" / "example-office.csv", EURO)
    assert found.quotes["price_usd"].tolist() == [16_445, 25_740, 163_790]
    assert found.quotes["power_w"].tolist() == [780, 1100, 3200]
    lines = [(line.kind, line.per, line.quantity, line.usd, line.percent) for line in found.lines]
    assert lines == [
        ("network", "order", 2, Decimal(10_450), None),
        ("installation", "node", 1, Decimal(198), None),
        ("warranty", "node", 1, Decimal(704), None),
        ("discount", "order", 1, 0, 3),
    ]
    assert [line.years for line in found.lines] == [None, None, 5, None]


def test_fix_writes_what_was_understood(tmp_path: Path, procure) -> None:
    """What --fix writes is a quote table in its own columns that reads the same, without a rate."""
    path = workbook(
        tmp_path / "a.xlsx",
        ["Alpha", "2x32", "768 GB", "-", "14.950,00 €"],
        ["Switch 40 Ports", None, None, None, "2.000,00 €"],
    )
    alone = workbook(tmp_path / "alone.xlsx", ["Alpha", "2x32", "768 GB", "-", "14.950,00 €"])
    for offered, name in ((alone, "fixed.csv"), (path, "fixed.xlsx")):
        assert procure("quotes", "check", offered, "--rate", "EUR=1.1", "--fix", tmp_path / name)[0] == 0
        found = read_quote_file(tmp_path / name)
        assert found.quotes["price_usd"].tolist() == [16_445] and found.quotes["cpus"].tolist() == [64]
    assert [line.usd for line in found.lines] == [2200]
    code, _, said = procure("quotes", "check", path, "--rate", "EUR=1.1", "--fix", tmp_path / "whole.csv")
    assert code == 1 and "Switch 40 Ports" in said and not (tmp_path / "whole.csv").exists()


@pytest.mark.parametrize("content", [b"PK\x03\x04 broken", b"\xd0\xcf\x11\xe0 old", b"", b"name,cpus\n"])
def test_a_damaged_workbook_is_one_error(tmp_path: Path, content: bytes) -> None:
    """What is no workbook is one error that names the file."""
    for name in ("a.xlsx", "a.ods"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TableError, match=name.replace(".", r"\.")):
            read_quotes(tmp_path / name)


def test_a_workbook_is_known_by_its_content(tmp_path: Path, procure) -> None:
    """Named .xls or .csv an .xlsx is read, an old .xls is refused as one, a packed file without a sheet as such."""
    path = workbook(tmp_path / "a.xlsx", ["A", 64, 768, 0, "9.000,00 €"])
    for name in ("b.xls", "b.csv", "b.ods"):
        (tmp_path / name).write_bytes(path.read_bytes())
        assert read_quotes(tmp_path / name, EURO)["price_usd"].tolist() == [9900]
    (tmp_path / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(600))
    with zipfile.ZipFile(tmp_path / "none.xlsx", "w") as packed:
        packed.writestr("hello.txt", "x")
    for name, words in (("old.xls", "old .xls format, or encrypted"), ("none.xlsx", "without a spreadsheet")):
        code, _, err = procure("quotes", "check", tmp_path / name)
        assert code == 1 and words in err
    code, _, err = procure("quotes", "check", path, "--rate", "EUR=1", "--rate", "EUR=2")
    assert code == 2 and "given twice" in err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--rate", "EUR"), ("--rate", "EUR=-1"), ("--rate", "XXX=1"), ("--currency", "bits"), ("--tax", "-5")],
)
def test_bad_options_are_bad_usage(tmp_path: Path, procure, option: str, value: str) -> None:
    """A rate, currency or tax that is none is bad usage of its option."""
    path = workbook(tmp_path / "a.xlsx", ["A", 64, 768, 0, "9.000,00 €"])
    code, _, err = procure("quotes", "check", path, option, value)
    assert code == 2 and option in err
