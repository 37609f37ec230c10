"""Vendors' files: a column is mapped or listed, a cell is a number with a unit or an error, nothing is read wrong."""

import io
import json
import tarfile
import zipfile
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import Workbook, load_workbook
from openpyxl.comments import Comment

from procure.errors import TableError
from procure.offers.cells import Cell, numbers, question
from procure.offers.headings import heading_of
from procure.offers.reading import OfferReading
from procure.offers.template import write_template
from procure.packages import expand_packages
from procure.packages.quotes import QuoteFile, read_quote_file, read_quotes
from procure.packages.rules import order_lines
from procure.study import load_study
from procure.study.check import check_study, study_notes

HEAD = ["Bezeichnung", "Kategorie", "Kerne", "Arbeitsspeicher (GB)", "GPUs", "Einzelpreis"]
EURO = OfferReading(rates={"EUR": 1.1})
OFFICES = Path(__file__).parent / "data" / "office-offers.tar.xz"


def workbook(path: Path, *rows: list, head: list | None = None, formats: dict[str, str] | None = None) -> Path:
    book = Workbook()
    for row in [head or HEAD, *rows]:
        book.active.append(row)
    for cell, form in (formats or {}).items():
        book.active[cell].number_format = form
    book.save(path)
    return path


def server(price: object, *more: object, **cells: object) -> list:
    row = {"name": "A", "category": "compute", "cpus": 64, "mem": 768, "gpus": 0} | cells
    return [*row.values(), price, *more]


def errors(path: Path, reading: OfferReading = EURO) -> list[tuple[str, str]]:
    return [(one.cell, one.allowed) for one in read_quote_file(path, reading).errors]


@cache
def offices() -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return 300 drawn offices' files (six languages; .xlsx, .ods, .csv) with what a careful reader says of each."""
    files: dict[str, dict[str, bytes]] = {}
    with tarfile.open(OFFICES) as packed:
        for one in packed:
            name, _, part = one.name.partition("/")
            files.setdefault(name, {})[part] = packed.extractfile(one).read()  # type: ignore[union-attr]
    truth = json.loads(files.pop("truth.json")[""])
    return truth, {name: parts.get("") or _zipped(parts) for name, parts in files.items()}


def _zipped(parts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in sorted(parts.items(), key=lambda one: one[0] != "mimetype"):
            packed.writestr(name, content)
    return buffer.getvalue()


def answered(path: Path, truth: dict[str, Any], offer: dict[str, Any]) -> QuoteFile | None:
    """Read a file with its rates and a category; give what errors ask for: currency, tax, decimal mark."""
    told: dict[str, Any] = {"rates": truth["rates"], "category": {"*": "compute"}}
    answers = {"currency": offer["currency"], "tax_percent": truth["tax_percent"], "decimal": offer["decimal"]}
    for _ in range(3):
        try:
            found = read_quote_file(path, OfferReading(**told))
        except TableError:
            return None
        asked = " ".join(map(str, found.errors))
        more = {key: value for key, value in answers.items() if f"{key}=" in asked and key not in told}
        if not found.errors:
            return found
        if not more:
            return None
        told |= more
    return None


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(50, 300, 50))])
def test_office_files_are_read_right_or_refused(tmp_path: Path, first: int) -> None:
    """Of 300 files none is read wrong, whatever the office wrote; those in English and German columns are read."""
    truth, files = offices()
    n_read = 0
    for offer in truth["offers"][first : first + 50]:
        path = tmp_path / offer["file"]
        path.write_bytes(files[path.name])
        if (found := answered(path, truth, offer)) is not None:
            rows = found.quotes.to_dict(orient="records")
            assert [{key: row.get(key) for key in one} for row, one in zip(rows, offer["rows"], strict=True)] == (
                offer["rows"]
            ), path.name
            n_read += 1
    assert n_read >= 3


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(["{:,.2f}", "{:.2f}"]), st.booleans())
def test_what_an_office_writes_is_the_only_reading(cents: int, form: str, comma: bool) -> None:
    """Of an amount to the cent written with either mark there is one reading."""
    text = form.format(cents / 100)
    if comma:
        text = text.replace(",", "_").replace(".", ",").replace("_", ".")
    assert numbers(text) == {Decimal(cents) / 100}


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_no_text_breaks_a_reader(text: str) -> None:
    """Whatever a cell or a heading holds, it is read as something or nothing."""
    heading_of(Cell("A1", text), OfferReading()), question(Cell("A1", text), OfferReading()), numbers(text)


def test_units_and_numbers_of_a_german_offer(tmp_path: Path) -> None:
    """Titles, units, decimal commas and a dash are read; every cell that is not read is listed."""
    path = workbook(
        tmp_path / "a.xlsx",
        ["Alpha", "compute", "2 x 32", "24 x 32 GB", "–", "14.950,00 €"],
        ["Beta", "gpu", 64, "1.536 GB", "4x NVIDIA H100", "114.950,00 €"],
        ["Switch 40 Ports", None, None, None, None, "2.000,00 €"],
        ["Lieferung frei Haus"],
    )
    found = read_quote_file(path, EURO.model_copy(update={"decimal": "comma"}))
    assert found.quotes[["cpus", "gpus", "price_usd"]].to_numpy().tolist() == [[64, 0, 16_445], [64, 4, 126_445]]
    assert found.quotes["gpu_type"].tolist() == ["", "H100"]
    assert found.quotes["mem_gb"].tolist() == [768, 1536]
    assert [one.cell for one in found.findings] == ["A4", "A5"] and not found.errors


@pytest.mark.parametrize(
    ("head", "row", "cell", "word"),
    [
        (HEAD, server("14.950,00 SEK"), "F2", "--rate SEK"),
        (HEAD, server(14950), "F2", "currency="),
        (HEAD, server("kr 14950"), "F2", "no one currency"),
        ([*HEAD[:5], "Einzelpreis brutto (€)"], server(14950), "F2", "tax_percent="),
        ([*HEAD[:5], "Preis (€)"], server("#REF!"), "F2", "#REF!"),
        ([*HEAD[:5], "Preis (€)"], server("=1+1"), "F2", "formula without a value"),
        ([*HEAD[:5], "Preis pro Chassis (€)"], server(14950), "F1", "none=HEADING"),
        ([*HEAD[:5], "Gesamtpreis (€)"], server(14950), "F2", "without a quantity"),
        ([*HEAD[:5], "Preis (€)", "Menge"], server(14950, 4), "F1", "of one or of all"),
        ([*HEAD[:5], "Preis (€)", "Preis (€)"], server(1, 2), "G1", "says which"),
        ([*HEAD[:5], "Preis (€)"], server(14950, mem="768 W"), "D2", "unit"),
        ([*HEAD[:3], "RAM", *HEAD[4:5], "Preis (€)"], server(14950), "D2", "no unit"),
        ([*HEAD[:5], "Preis (€)"], server(14950, gpus="NVIDIA H100"), "E2", "4x H100"),
        ([*HEAD[:5], "Preis (€)"], server(14950, mem="1,5 TB"), "D2", "1,024 GB"),
        ([*HEAD[:5], "Preis (€)", "gültig bis"], server(14950, "05/06/2027"), "G2", "2027-03-31"),
        ([*HEAD[:4], "Preis (€)"], ["A", "compute", 64, 768, 14950], "A2", "gpus==0"),
        ([HEAD[0], *HEAD[2:5], "Preis (€)"], ["A", 64, 768, 0, 14950], "A2", "--category"),
        ([*HEAD[:5], "Preis (€)", "Rabatt"], server(14950, 10), "G1", "none=HEADING"),
        ([*HEAD[:5], "Preis (€)", "Anzahl CPUs"], server(14950, 2), "C1", "cores_per_socket"),
    ],
)  # fmt: skip
def test_what_could_mean_several_things_is_refused(tmp_path: Path, head: list, row: list, cell: str, word: str) -> None:
    """Such a cell is an error with its address that says what to do, and no price comes of it."""
    path = workbook(tmp_path / "a.xlsx", row, head=head)
    assert (cell, True) in [(where, word in text) for where, text in errors(path)], errors(path)
    with pytest.raises(TableError, match=r"a\.xlsx"):
        read_quotes(path, EURO)


def test_the_command_says_what_a_stranger_s_headings_are(tmp_path: Path, procure) -> None:
    """A Turkish offer is refused with its headings, and read once each is named; a wrong name is one error."""
    head = ["Ürün", "Çekirdek", "Bellek", "Birim Fiyat"]
    path = workbook(tmp_path / "a.xlsx", ["A", 64, 768, 400_000], ["GPU B", 64, 1024, 900_000], head=head)
    code, _, err = procure("quotes", "check", path)
    assert code == 1 and "'Birim Fiyat'" in err and "--column" in err
    columns = dict(zip(("name", "cpus", "mem_gb", "price_usd"), head, strict=True)) | {"gpus": "=0"}
    told = [word for pair in columns.items() for word in ("--column", "=".join(pair))]
    told += ["--category", "gpu*=gpu", "--category", "*=compute", "--rate", "TRY=0.025", "--set", "currency=TRY"]
    code, out, err = procure("quotes", "check", path, *told, "--out", tmp_path / "q.csv", "--format", "json")
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert [(one["price_usd"], one["category"], one["gpus"]) for one in rows] == [
        (10_000, "compute", 0),
        (22_500, "gpu", 0),
    ]
    assert read_quotes(tmp_path / "q.csv")["mem_gb"].tolist() == [768, 1024]
    code, _, err = procure("quotes", "check", path, *told, "--column", "lot=Parti")
    assert code == 1 and "no heading is 'Parti'" in err
    assert procure("quotes", "check", path, "--column", "foo=Ürün")[0] == 2


@pytest.mark.parametrize(
    ("remark", "is_asked"),
    [
        ("Alle Preise zzgl. MwSt.", False),
        ("Lieferung frei Haus", False),
        ("Alle Preise in EUR", True),
        ("All prices incl. VAT", True),
        ("A discount of 8% applies to this order.", True),
        ("HST 14% is not included", True),
        ("Prices valid only for orders of 50 nodes or more.", True),
    ],
)
def test_a_remark_that_may_change_a_price_is_asked_about(tmp_path: Path, remark: str, is_asked: bool) -> None:
    """It is never read; a person says that it changes none by its cell."""
    path = workbook(tmp_path / "a.xlsx", server(9000), [], [remark], head=[*HEAD[:5], "Preis (EUR)"])
    assert [cell for cell, _ in errors(path)] == ["A4"] * is_asked
    assert not errors(path, EURO.model_copy(update={"ignore": ["Sheet!A4"]}))
    assert any(one.cell == "A4" for one in read_quote_file(path, EURO).findings)


def test_a_price_agrees_with_its_total(tmp_path: Path) -> None:
    """Quantity times price is the total, and a total alone is divided; a discount between them is an error."""
    head = [*HEAD[:5], "Einzelpreis (EUR)", "Menge", "Gesamtpreis (EUR)"]
    rows = [server(9000, 2, 18_000), server(9000, 2, 16_200, name="B")]
    assert [cell for cell, _ in errors(workbook(tmp_path / "a.xlsx", *rows, head=head))] == ["F3"]
    alone = workbook(tmp_path / "b.xlsx", server(2, 18_000), head=[*head[:5], *head[6:]])
    assert read_quotes(alone, EURO)["price_usd"].tolist() == [9900]


def test_every_problem_is_listed_at_once(tmp_path: Path, procure) -> None:
    """Three wrong cells of two sheets are three problems in JSON, each with sheet, cell, column, given and allowed."""
    book = Workbook()
    book.active.title = "One"
    book.create_sheet("Two")
    for sheet in book:
        sheet.append(["Model", "Category", "Cores", "Memory (GB)", "GPUs", "Unit price (EUR)"])
    book["One"].append(["A", "c", "many", 768, 0, 9000])
    book["One"].append(["B", "c", 64, "?", 0, 9000])
    book["Two"].append(["C", "c", 64, 768, 0, "#N/A"])
    book["Two"].append(["D", "c", 64, 768, 0, 9000])
    book.save(tmp_path / "a.xlsx")
    code, out, _ = procure("quotes", "check", tmp_path / "a.xlsx", "--rate", "EUR=1.1", "--format", "json")
    found = json.loads(out)
    assert code == 1 and [row["name"] for row in found["rows"]] == ["D"]
    assert [(one["sheet"], one["cell"], one["column"]) for one in found["problems"]] == [
        ("One", "C2", "cpus"), ("One", "D3", "mem_gb"), ("Two", "F2", "price_usd"),
    ]  # fmt: skip
    assert set(found["problems"][0]) == {"sheet", "cell", "column", "given", "allowed", "severity"}


def test_csv_of_three_decimals_is_asked_about(tmp_path: Path) -> None:
    """14.950 in a price is fourteen thousand for some and fourteen for others: the option decides."""
    path = tmp_path / "a.csv"
    path.write_text("name,category,cpus,mem_gb,gpus,price_usd\nA,compute,64,256,0,14.950\n")
    with pytest.raises(TableError, match=r"F2.*may be 14\.95 or 14950.*decimal="):
        read_quotes(path)
    assert read_quotes(path, OfferReading(decimal="comma"))["price_usd"].tolist() == [14_950]


def test_a_text_offer_may_begin_with_its_number(tmp_path: Path) -> None:
    """Lines above the headings that have fewer fields are no damage; usual words for memory and number are known."""
    path = tmp_path / "offer.csv"
    head = "Quote,77\nCustomer,State University\n\nProduct,Category,Cores,Mem GB,GPUs,Number of nodes,Unit price USD\n"
    path.write_text(f"{head}R1,cpu,128,768,0,40,14250.00\n")
    found = read_quote_file(path).quotes
    assert found[["name", "cpus", "mem_gb", "price_usd"]].to_numpy().tolist() == [["R1", 128, 768, 14250]]


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
    book["Servers"]["F3"].comment = Comment("plus freight", "Alder")
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
    assert any("3 years" in text for text in study_notes(check_study(study)[0]))
    found = read_quote_file(path)
    assert [one.allowed for one in found.findings if "note" in one.allowed] == [
        "has a note that is not read: plus freight"
    ]
    with pytest.raises(TableError, match="longest warranty of Alder is 5 years"):
        order_lines(found.lines, 6)


@pytest.mark.parametrize(
    ("column", "value", "word"),
    [("per", "rack", "order, node"), ("kind", "storrage", "discount"), ("discount", 100, "percent"),
     ("discount", "3,125 %", "may be"), ("discount", 0.5, "part of 1")],
)  # fmt: skip
def test_a_line_of_the_template_is_right_or_refused(tmp_path: Path, column: str, value: object, word: str) -> None:
    """A kind that is none, a discount of everything or with three decimals: one error with its cell."""
    path = write_template(tmp_path / "offers.xlsx")
    book = load_workbook(path)
    book["Servers"].append(["A64", "compute", 64, 256, 0, 8000, "Alder"])
    row = {"kind": "discount", "name": "Project", "vendor": "", "quantity": 1, "per": "order", "price_usd": None}
    book["Other lines"].append(list((row | {"years": None, "discount": 5} | {column: value}).values()))
    book.save(path)
    found = read_quote_file(path)
    assert [(one.column, word in one.allowed) for one in found.errors] == [(column, True)]
    study = tmp_path / "s.toml"
    study.write_text(
        f'quotes = "{path.name}"\n[packages]\nbudget_usd = 90_000\n[[workloads]]\nname = "d"\ngenerate = {{}}\n'
    )
    with pytest.raises(TableError, match=column):
        check_study(study)


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
    study.write_text(text.replace("rates = { EUR = 1.08 }", 'harmless = ["x"]'))
    with pytest.raises(TableError, match="ignore"):
        check_study(study)


def test_the_shipped_office_file() -> None:
    """Three servers of the shipped example are read, its title, its remark and its switch are listed."""
    found = read_quote_file(Path(__file__).resolve().parent.parent / "quotes" / "example-office.csv", EURO)
    assert found.quotes["price_usd"].tolist() == [16_445, 25_740, 163_790]
    assert found.quotes["power_w"].tolist() == [780, 1100, 3200]
    assert [one.cell for one in found.findings] == ["A1", "A2", "A8"] and not found.errors


@pytest.mark.parametrize("content", [b"PK\x03\x04 broken", b"\xd0\xcf\x11\xe0 old", b"", b"name,cpus\n"])
def test_a_damaged_workbook_is_one_error(tmp_path: Path, content: bytes) -> None:
    for name in ("a.xlsx", "a.ods"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TableError, match=name.replace(".", r"\.")):
            read_quotes(tmp_path / name)


def test_a_workbook_is_known_by_its_content(tmp_path: Path, procure) -> None:
    """Named .xls or .csv an .xlsx is read, an old .xls is refused as one, a packed file without a sheet as such."""
    path = workbook(tmp_path / "a.xlsx", server("9.000,00 €"))
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
