"""Cells of offers that can be read wrong: each is read as a person reads it, or asked about by sheet and cell."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from openpyxl import Workbook, load_workbook

from procure.errors import TableError
from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file, read_quotes
from procure.packages.template import write_rows
from procure.sheets.cells import Reader, Unreadable, gpus_in
from procure.sheets.described import described
from procure.sheets.grid import Cell
from procure.sheets.lines import percentages
from procure.sheets.units import Unit, unit_of
from procure.workload.gpu_table import find_gpu, propose_mapping

HEAD = ["Server", "Kerne", "RAM (GB)", "GPUs", "Einzelpreis (EUR)"]
SERVER = ["A", 64, 256, 0, 12_000]
READING = OfferReading(rates={"EUR": 1, "CHF": 2})


def offer(path: Path, *rows: list, head: list | None = None, formats: dict[str, str] | None = None) -> Path:
    book = Workbook()
    for row in [head or HEAD, *rows]:
        book.active.append(row)
    for cell, form in (formats or {}).items():
        book.active[cell].number_format = form
    book.save(path)
    return path


def ods(path: Path, price: str) -> Path:
    """Write an offer whose one price is a cell of OpenDocument."""
    from odfdo import Cell, Document, Element, Row, Table

    document, table = Document("spreadsheet"), Table("Angebot")
    document.body.clear()
    for values in (HEAD, SERVER[:4]):
        row = Row()
        for value in values:
            row.append_cell(Cell(value))
        if values is not HEAD:
            row.append_cell(Element.from_tag(price))
        table.append_row(row)
    document.body.append(table)
    document.save(str(path))
    return path


def errors(found: QuoteFile) -> list[tuple[str, str]]:
    return [(one.cell, one.allowed) for one in found.errors]


def asks(path: Path, cell: str, words: str, reading: OfferReading = READING) -> None:
    """Hold that a file is refused for a cell, in these words."""
    said = errors(read_quote_file(path, reading))
    assert any(where == cell and words in text for where, text in said), said
    with pytest.raises(TableError, match=cell):
        read_quotes(path, reading)


@pytest.mark.parametrize(
    "text",
    [
        "2 x A100 / 2 x H100",
        "4x A100 + 8x",
        "4x A100 oder 4x H100",
        "1x H100, 1x L4",
        "4x H100 (optional 8x)",
        "4x H100 (optional 8)",
        "4x H100/H200",
        "2x4 H100",
        "4x H100 (max. 8)",
        "8x H100 pro Chassis",
    ],
)
def test_several_gpus_are_asked_about(tmp_path: Path, text: str) -> None:
    """Two models, two numbers, a choice or a limit are no number of GPUs."""
    asks(offer(tmp_path / "a.xlsx", ["A", 64, 256, text, 12_000]), "D2", "")


@pytest.mark.parametrize(
    ("text", "count", "model"),
    [
        ("4x NVIDIA H100", 4, "H100"),
        ("2 x L40S PCIe", 2, "L40S"),
        ("8 x NVIDIA A100 80GB SXM4", 8, "A100-80GB"),
        ("4 Stk. RTX 6000 Ada", 4, "RTX6000"),
        ("4x H100 (NVL)", 4, "H100"),
        ("2x A100 + 2 x NVIDIA H100 80 GB", 4, "2x A100 + 2x H100-80GB"),
        ("4x A100, 2 of them as 7x 1g.5gb", 16, "2x A100 + 14x A100_1g.5gb"),
        ("2x A100 + 14x A100_1g.5gb", 16, "2x A100 + 14x A100_1g.5gb"),
        ("2 x 80 GB A100", 2, "A100-80GB"),
    ],
)
def test_one_number_of_one_model_is_read(tmp_path: Path, text: str, count: int, model: str) -> None:
    """One number and one model are read, with the memory that is stated: that of an A100 is 40 or 80 GB."""
    quotes = read_quotes(offer(tmp_path / "a.xlsx", ["A", 64, 256, text, 12_000]), READING)
    assert quotes[["gpus", "gpu_type"]].to_numpy().tolist() == [[count, model]]


@pytest.mark.parametrize(
    ("gpus", "model", "words"),
    [
        (None, "H100", "write how many"),
        (2, "2x A100 + 2x H100", "is not the 4 GPUs"),
        (2, "A100 / H100", "several GPU models"),
        ("4x H100", "A100", "write one"),
        (0, "H100", "write how many"),
    ],
)
def test_two_columns_of_gpus_agree_or_are_asked_about(tmp_path: Path, gpus: object, model: str, words: str) -> None:
    """A model without a number, several models, or two that differ are asked about."""
    path = offer(tmp_path / "a.xlsx", ["A", 64, 256, gpus, 12_000, model], head=[*HEAD, "GPU-Typ"])
    said = [text for _, text in errors(read_quote_file(path, READING))]
    assert any(words in text for text in said), said


@pytest.mark.parametrize(("column", "cell"), [(4, "E2"), (2, "C2"), (1, "B2"), (3, "D2")])
def test_a_percentage_is_no_amount(tmp_path: Path, column: int, cell: str) -> None:
    """A number that is shown in percent is neither a price nor memory, cores or GPUs; it is named as it is shown."""
    row = list(SERVER)
    row[column] = 0.5
    path = offer(tmp_path / "a.xlsx", row, formats={cell: "0%"})
    asks(path, cell, "is a percentage")
    assert read_quote_file(path, READING).errors[0].given == "50 %"


def test_a_percentage_of_delivery_is_asked_about(tmp_path: Path) -> None:
    """Delivery of 5.0 % is not five cents; a discount in percent is one."""
    rows = [["Lieferung", None, None, None, 0.05], ["Rabatt", None, None, None, 0.03]]
    path = offer(tmp_path / "a.xlsx", SERVER, *rows, formats={"E3": "0.0%", "E4": "0%"})
    asks(path, "E3", "is a percentage")
    assert [(line.kind, line.percent) for line in read_quote_file(path, READING).lines] == [("discount", 3)]


@pytest.mark.parametrize(
    ("kind", "held", "shown", "usd"),
    [
        ("float", "12500", "13 T€", 12_500),
        ("float", "12.5", "12,5 T€", None),
        ("float", "12500", "12.500 €", 12_500),
        ("float", "12500.4", "12.500", 12_500.4),
        ("float", "12500", "13", None),
        ("float", "12500", "99 €", None),
        ("percentage", "0.5", "50 %", None),
    ],
)
def test_what_an_opendocument_cell_shows_and_holds(
    tmp_path: Path, kind: str, held: str, shown: str, usd: float | None
) -> None:
    """Shown in thousands, a cell holds whole euros; where what is shown is not what is held, it is asked about."""
    text = f"<text:p>{shown}</text:p>"
    value = f'office:value-type="{kind}" office:value="{held}"'
    path = ods(tmp_path / "a.ods", f"<table:table-cell {value}>{text}</table:table-cell>")
    if usd is None:
        asks(path, "E2", "")
    else:
        assert read_quotes(path, READING)["price_usd"].tolist() == [usd]


@pytest.mark.parametrize(
    ("form", "usd"),
    [
        ('#,##0," k€"', 12_500),
        ('#,##0.0,"T€"', 12_500),
        ('#,##0.00,," Mio. €"', 12_500),
        ('#,##0.00 "€"', 12_500),
        ("_-* #,##0.00\\ _€_-", 12_500),
        ("#,##0,", None),
        ('#,##0," €"', None),
        ('#,##0.00 "T€"', None),
        ("#,##0.00 [$CHF]", None),
    ],
)
def test_what_a_number_format_shows(tmp_path: Path, form: str, usd: float | None) -> None:
    """A format in thousands that says so is read; one that does not, or a unit unlike the heading's, is a question."""
    path = offer(tmp_path / "a.xlsx", [*SERVER[:4], 12_500], formats={"E2": form})
    if usd is None:
        asks(path, "E2", "")
    else:
        assert read_quotes(path, READING)["price_usd"].tolist() == [usd]


def test_a_gap_in_a_format_is_no_currency(tmp_path: Path) -> None:
    """Excel's style for thousands leaves a gap as wide as €: the currency is the heading's."""
    form = {"E2": "_-* #,##0.00\\ _€_-"}
    path = offer(tmp_path / "a.xlsx", SERVER, head=[*HEAD[:4], "Preis (CHF)"], formats=form)
    assert read_quotes(path, READING)["price_usd"].tolist() == [24_000]


@pytest.mark.parametrize(
    ("heading", "text", "usd"),
    [
        ("Preis (T€)", "1.500", None),
        ("Preis (T€)", "14.950", 14_950),
        ("Preis (€)", "14.950", 14_950),
        ("Preis (€)", "1.500 T€", None),
        ("Preis (T€)", "12,5 €", None),
        ("Preis (T€)", "12,5k", None),
        ("Preis (T€)", "12,5 T€", 12_500),
        ("Preis (T€)", 12.5, 12_500),
    ],
)
def test_thousands_in_the_heading(tmp_path: Path, heading: str, text: object, usd: float | None) -> None:
    """What is likely is judged with the thousands of the heading: 1.500 T€ may be 1,500 or 1,500,000."""
    path = offer(tmp_path / "a.xlsx", [*SERVER[:4], text], head=[*HEAD[:4], heading])
    if usd is None:
        asks(path, "E2", "")
    else:
        assert read_quotes(path, READING)["price_usd"].tolist() == [usd]


def test_another_cell_s_mark_does_not_make_a_server_for_fourteen_euros(tmp_path: Path) -> None:
    """1.5 TB in one column and 14.950 in the other: the price is asked about; the option answers it."""
    path = offer(tmp_path / "a.xlsx", ["A", 64, "1.5 TB", 0, "14.950"])
    asks(path, "E2", "--decimal")
    told = OfferReading(rates={"EUR": 1}, decimal="comma")
    assert read_quotes(path, told)["price_usd"].tolist() == [14_950]


@pytest.mark.parametrize(
    ("text", "gb"),
    [
        ("2 x 512 GB SSD", None),
        ("512 GB RAM - 2 x 960 GB SSD", None),
        ("8 x 64 GB, max. 4 TB", None),
        ("24 x 32 GB", 768),
        ("24 x 32 GB (768 GB)", 768),
        ("24 x 32 GB (512 GB)", None),
        ("16 x 32 GB DDR5-4800 ECC RDIMM", 512),
        ("512 GB DDR5 ECC", 512),
        ("1 x 32 GiB", 34.359738368),
    ],
)
def test_memory_is_that_of_the_node(tmp_path: Path, text: str, gb: float | None) -> None:
    """Disks, limits and second amounts beside the memory are asked about."""
    path = offer(tmp_path / "a.xlsx", ["A", 64, text, 0, 12_000])
    if gb is None:
        asks(path, "C2", "")
    else:
        assert read_quotes(path, READING)["mem_gb"].tolist() == [gb]


@pytest.mark.parametrize(
    "text", ["2x Intel Xeon Y7654321 (64 cores total)", "2x EPYC 9354 (32 cores) oder 2x 9654 (96 cores)"]
)
def test_cores_of_all_sockets_are_not_taken_twice(tmp_path: Path, text: str) -> None:
    """Cores in a processor's text that may be those of all sockets, or a choice, are not read."""
    head = ["Server", "Prozessor", "RAM (GB)", "GPUs", "Einzelpreis (EUR)"]
    found = read_quote_file(offer(tmp_path / "a.xlsx", ["A", text, 256, 0, 12_000], head=head), READING)
    assert "cpus" in [one.column for one in found.errors]


def test_cores_beside_sockets_are_asked_about(tmp_path: Path) -> None:
    """Two CPUs and 32 cores may be 32 or 64; a heading that says total answers it, and so does one socket."""
    rest = ["RAM (GB)", "GPUs", "Einzelpreis (EUR)"]
    row = ["A", 2, 32, 256, 0, 12_000]
    asks(offer(tmp_path / "a.xlsx", row, head=["Server", "Anzahl CPUs", "Kerne", *rest]), "C2", "of each of the 2 CPUs")
    total = offer(tmp_path / "b.xlsx", row, head=["Server", "Anzahl CPUs", "Kerne gesamt", *rest])
    assert read_quotes(total, READING)["cpus"].tolist() == [32]
    both = ["Server", "Anzahl CPUs", "Kerne pro CPU", "Kerne", *rest]
    asks(offer(tmp_path / "c.xlsx", ["A", 2, 16, 64, 256, 0, 12_000], head=both), "D2", "is not 2 × 16")


@pytest.mark.parametrize("quantity", [None, "ca. 3", 2.5])
def test_a_total_without_a_quantity_is_no_price(tmp_path: Path, quantity: object) -> None:
    """A total is divided by a quantity that is one."""
    head = [*HEAD[:4], "Gesamtpreis (EUR)", "Anzahl"]
    rows = [[*SERVER[:4], 24_000, quantity], ["B", 64, 256, 0, 24_000, 2]]
    asks(offer(tmp_path / "a.xlsx", *rows, head=head), "E2", "quantity")


def test_a_line_s_total_must_agree(tmp_path: Path) -> None:
    """Two switches at 5,000 are not 5,000."""
    head = [*HEAD, "Menge", "Gesamt (EUR)"]
    rows = [[*SERVER, 1, 12_000], ["Switch", None, None, None, 5_000, 2, 5_000]]
    asks(offer(tmp_path / "a.xlsx", *rows, head=head), "E3", "times 2 is not the total")
    rows[1][5] = "ca. 2"
    asks(offer(tmp_path / "b.xlsx", *rows, head=head), "E3", "write a whole number")


def test_a_discount_in_a_server_s_row_is_asked_about(tmp_path: Path) -> None:
    """10 in a column of discounts may be in the price or not; a list price that shows it answers."""
    path = offer(tmp_path / "a.xlsx", [*SERVER, 10], head=[*HEAD, "Rabatt"])
    asks(path, "F2", "still to be taken off")
    listed = offer(
        tmp_path / "b.xlsx",
        [*SERVER[:4], 13_333.33, 10, 12_000],
        head=[*HEAD[:4], "Listenpreis (EUR)", "Rabatt", "Einzelpreis (EUR)"],
    )
    assert read_quotes(listed, READING)["price_usd"].tolist() == [12_000]


def test_percentages_are_read_whole(tmp_path: Path) -> None:
    """3,125 % is not 25 %; two percentages, or 0.05 in a column of discounts, are asked about."""
    assert [int(one * 1000) for one in percentages("3,125 % und 100 %")] == [3125, 100_000]
    head = [*HEAD, "Rabatt"]
    path = offer(tmp_path / "a.xlsx", [*SERVER, None], ["Rabatt", None, None, None, None, 0.05], head=head)
    asks(path, "A3", "a part of 1")
    path = offer(tmp_path / "b.xlsx", SERVER, ["5 % Rabatt (zzgl. 19 % MwSt)", None, None, None, "5 %"])
    asks(path, "A3", "several percentages")


def test_fix_drops_no_line_of_the_order(tmp_path: Path, procure) -> None:
    """A .csv has no place for a discount: it is not written; an .xlsx holds it, half a percent as half a percent."""
    path = offer(tmp_path / "a.xlsx", SERVER, ["Rabatt", None, None, None, "0,5 %"])
    code, _, err = procure("quotes", "check", path, "--rate", "EUR=1", "--fix", tmp_path / "out.csv")
    assert code == 1 and "Rabatt" in err and not (tmp_path / "out.csv").exists()
    assert procure("quotes", "check", path, "--rate", "EUR=1", "--fix", tmp_path / "out.xlsx")[0] == 0
    assert [float(line.percent or 0) for line in read_quote_file(tmp_path / "out.xlsx").lines] == [0.5]
    with pytest.raises(TableError, match=r"out\.csv.*Rabatt"):
        write_rows([], ["name"], tmp_path / "out.csv", read_quote_file(path, READING).lines)


@pytest.mark.parametrize(
    ("heading", "price"),
    [("Preis (SEK)", 12_000), ("Preis (T€)", "1.500"), ("Preis brutto (EUR)", 12_000), ("Preis (EUR)", "=1+1")],
)
def test_what_was_not_read_is_an_error_in_what_fix_writes(tmp_path: Path, procure, heading: str, price: object) -> None:
    """A price in a currency without a rate is not a price in US$ once it is written."""
    path = offer(tmp_path / "a.xlsx", [*SERVER[:4], price], SERVER, head=[*HEAD[:4], heading])
    for name in ("out.csv", "out.xlsx"):
        code, _, err = procure("quotes", "check", path, "--rate", "EUR=1", "--fix", tmp_path / name)
        assert code == 1 and "? before it" in err
        assert "price_usd" in [one.column for one in read_quote_file(tmp_path / name).errors]


def test_fix_says_which_lines_it_lacks(tmp_path: Path, procure) -> None:
    """A line of the order with an error stands nowhere in what is written, and that is said."""
    path = offer(tmp_path / "a.xlsx", SERVER, ["Lieferung", None, None, None, "5 %"])
    _, _, err = procure("quotes", "check", path, "--rate", "EUR=1", "--fix", tmp_path / "out.xlsx")
    assert "lacks 1 line of the order" in err
    assert load_workbook(tmp_path / "out.xlsx").sheetnames == ["Servers"]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("tesla_v100-32gb", None),
        ("V100 SXM2 32GB", None),
        ("H100 64GB", None),
        ("a100-80g", "A100 80GB"),
        ("a100_80", "A100 80GB"),
        ("A100 80 GB", "A100 80GB"),
        ("H100 80GB PCIe", "H100 PCIe"),
        ("a100", "A100"),
        ("A100-40GB", "A100"),
        ("A100-80GB", "A100 80GB"),
    ],
)
def test_a_size_that_is_stated_is_the_model_s(name: str, model: str | None) -> None:
    """A model's row is that with the stated memory; where none has it, there is none."""
    found = find_gpu(name)
    assert (found.model if found else None) == model


def test_models_with_less_memory_than_stated_are_left_out() -> None:
    """Jobs of a V100 with 32 GB are not proposed for 16 or 24 GB, though no row has its speed."""
    lines = propose_mapping("tesla_v100-32gb", ["P100", "A10", "A100-80GB", "FancyGPU"])
    assert lines[1] == 'runs_on = ["A100-80GB", "FancyGPU"]'
    assert '# "P100" has 16 GB, "tesla_v100-32gb" 32 GB' in lines
    assert '"A100-80GB" = 1.0  # not in the table of nominal speeds: fill in' in lines


@pytest.mark.parametrize(
    "remark", ["Prices include 5% discount.", "Prices are net of 5% rebate", "Prijzen inclusief 8% korting."]
)
def test_a_discount_that_the_prices_may_have_already_is_asked_about(remark, tmp_path, procure):
    """It is not taken off a second time."""
    (tmp_path / "o.csv").write_text(f"Server,Cores,RAM GB,Price USD\nnode,64,512,10000\n\n{remark}\n")
    code, _, err = procure("quotes", "check", tmp_path / "o.csv")
    assert code == 1 and "may be in the prices already" in err


def test_a_heading_that_names_gpus_is_read_or_asked_about(tmp_path, procure):
    """A model over numbers may say how many; a model's column is read however its heading is turned."""
    (tmp_path / "o.csv").write_text("Server,Cores,RAM GB,NVIDIA H200 NVL,Price USD\nnode,64,512,2,90000\n")
    code, _, err = procure("quotes", "check", tmp_path / "o.csv")
    assert code == 1 and "'NVIDIA H200 NVL' names GPUs and is not read" in err
    (tmp_path / "o.csv").write_text("Server,Cores,RAM GB,GPUs,Type GPU,Price USD\nnode,64,512,2,L40S,90000\n")
    code, out, err = procure("quotes", "check", tmp_path / "o.csv", "--format", "json")
    assert code == 0 and json.loads(out)["rows"][0]["gpu_type"] == "L40S", err


BILL = [["Description", "Qty", "Unit price (EUR)", "Total (EUR)"]]
TEXT = "2x AMD EPYC 9354 32-Core, 768 GB RAM"
BILL += [[f"Node, {TEXT}", 10, 10_000, 100_000], ["Delivery", 1, 500, 500], ["Total", None, None, 100_500]]


@pytest.mark.parametrize(
    "sentence",
    [
        "Hukommelsen genbruges fra kundens eksisterende servere og er ikke med i prisen.",
        "Angesichts der Marktlage behalten wir uns eine Anpassung der Speicherpreise bei Lieferung vor.",
        "Higher-ed discount of 8% applies to this order.",
        "Discount 8 %",
        "The servers are refurbished.",
        "Memory modules are supplied by the customer",
        "Prices valid only for orders of 50 nodes or more.",
        "An import duty of 12% will be added.",
    ],
)
def test_a_sentence_beneath_a_total_that_agrees_is_asked_about(tmp_path: Path, sentence: str) -> None:
    made = Workbook()
    for row in (*BILL, [sentence]):
        made.active.append(row)
    made.save(tmp_path / "offer.xlsx")
    read = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 1}))
    assert "A5" in {one.cell for one in read.findings if one.severity == "error"}
    assert [line.kind for line in read.lines] == ["delivery"]


def test_a_discount_beneath_a_total_is_asked_about_in_any_column(tmp_path: Path) -> None:
    made = Workbook()
    for n, row in enumerate(BILL):
        made.active.append([n or "Line", *row])
    made.active.append(["Discount 8 %"])
    made.save(tmp_path / "offer.xlsx")
    read = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 1}))
    assert "A5" in {one.cell for one in read.findings if one.severity == "error"}
    assert [line.kind for line in read.lines] == ["delivery"]


@pytest.mark.parametrize(
    ("memory", "gb"),
    [
        ("1 536 GB RAM", "1536"),
        ("1\u00a0536 GB RAM", "1536"),
        ("1\u202f536 GB RAM", "1536"),
        ("24 moduli da 32 GB DDR5", "768"),
        ("24 Module à 32 GB DDR5", "768"),
        ("2 512 GB RAM", None),
        ("24 stavki po 32 GB DDR5", None),
        ("24 32 GB DDR5", None),
    ],
)
def test_memory_is_read_whole_or_asked_about(memory: str, gb: str | None) -> None:
    text = f"2x AMD EPYC 9454 48-Core, {memory}, 2x 960 GB NVMe SSD"
    reader = Reader("price_usd", None, None, lambda value, unit: value)
    if gb is None:
        with pytest.raises(Unreadable, match="memory"):
            described(text, reader)
    else:
        assert described(text, reader).mem_gb == gb


def test_the_variant_of_a_gpu_is_kept() -> None:
    reader = Reader("gpus", None, None, lambda value, unit: value)
    assert reader.read(Cell("A1", "4x NVIDIA H100 NVL 94 GB")) == "4"
    assert reader.others == {"gpu_type": "H100 NVL"}
    assert gpus_in("Node with 4x H200 NVL") == ("4", "H200 NVL")


@pytest.mark.parametrize(
    "text",
    [
        "2x AMD EPYC 9354, 24 stavki po 32 GB RAM, 5 years warranty",
        "2x AMD EPYC 9354, InfiniBand NDR",
        f"{TEXT} or 1 TB, NBD",
    ],
)
def test_a_server_that_is_not_plain_is_no_line(tmp_path: Path, text: str) -> None:
    made = Workbook()
    for row in (*BILL[:2], [f"Compute node: {text}", 4, 20_000, 80_000]):
        made.active.append(row)
    made.save(tmp_path / "offer.xlsx")
    read = read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates={"EUR": 1}))
    assert any(one.severity == "error" for one in read.findings)
    assert not read.lines


@pytest.mark.parametrize("rent", ["Leiepris EUR (36 md.)", "Mietpreis (36)", "Lejepris EUR", "Canone EUR (36 mesi)"])
def test_a_rent_that_its_sum_shows_to_be_the_price_is_asked_about(tmp_path: Path, rent: str) -> None:
    """Quantity times the rent is the sum: that tells which column has the amounts, not that they buy anything."""
    head = ["Server", "Kerne", "RAM (GB)", "Menge", rent, "Gesamtpreis (EUR)"]
    path = offer(tmp_path / "offer.xlsx", ["A", 64, 256, 30, 9_000, 270_000], head=head)
    read = read_quote_file(path, READING)
    assert any(one.severity == "error" and "E1" in one.cell for one in read.findings)


def test_what_is_taken_off_is_asked_about_by_its_words_even_in_a_total_that_agrees(tmp_path: Path) -> None:
    """A total holds the amount; on what a discount hangs only its words say."""
    head = ["Server", "Cores", "RAM (GB)", "Qty", "Unit price (EUR)", "Total (EUR)"]
    rows = [["A", 64, 256, 2, 9_000, 18_000], ["B", 64, 512, 1, 12_000, 12_000], ["Sum", *[None] * 4, 30_000]]
    off = ["Rabatt 10 % vid beställning före jul", *[None] * 4, -3_000]
    read = read_quote_file(offer(tmp_path / "offer.xlsx", *rows, off, ["Sum", *[None] * 4, 27_000], head=head), READING)
    assert any("jul" in one.given for one in read.findings if one.severity == "error")


@pytest.mark.parametrize(
    ("part", "is_asked"),
    [
        ("16 x 32 GB DDR5-4800", True),
        ("24 x 32 GB DDR5-4800", False),
        ("2 x AMD EPYC 9554", True),
        ("2 x AMD EPYC 9454", False),
        ("2 x 960 GB NVMe", False),
    ],
)
def test_parts_beneath_a_server_are_held_against_its_columns(tmp_path: Path, part: str, is_asked: bool) -> None:
    head = ["Server", "Cores", "RAM (GB)", "Qty", "Unit price (EUR)"]
    path = offer(tmp_path / "offer.xlsx", ["A", 96, 768, 2, 12_000], [part], ["B", 64, 512, 1, 9_000], head=head)
    assert any(part == one.given for one in read_quote_file(path, READING).findings if one.severity == "error") is (
        is_asked
    )


@pytest.mark.parametrize(
    ("remark", "is_asked"),
    [
        ("Wire to our Canadian dollar account", True),
        ("HST 14% is not included", True),
        ("Prices in US$", False),
        ("Valid until 5 pm PST", False),
        ("Net 30", False),
    ],
)
def test_a_bare_dollar_beside_another_dollar_is_asked_about(tmp_path: Path, remark: str, is_asked: bool) -> None:
    head = ["Server", "Cores", "RAM (GB)", "Qty", "Unit price"]
    path = offer(tmp_path / "offer.xlsx", ["A", 96, 768, 2, "$12,000.00"], [None], [remark], head=head)
    said = [one.allowed for one in read_quote_file(path, READING).findings if one.column == "price_usd"]
    assert any("US dollars or others" in one for one in said) is is_asked


def test_thousands_of_yen_are_a_unit() -> None:
    assert unit_of("千円") == Unit("money", Decimal(1000), "JPY")
    assert unit_of("万元") == Unit("money", Decimal(10_000), "CNY")


def test_two_taxes_a_list_price_and_codes_of_goods_are_read(tmp_path: Path) -> None:
    """A net price is its list price less the discount between them; a total with two taxes has both."""
    head = ["Server", "HSN", "Cores", "RAM (GB)", "Qty", "Unit price", "Discount", "Unit price net", "Total"]
    rows = [["A", 8471, 64, 256, 2, "CAD 10,000.00", "20 %", "CAD 8,000.00", "CAD 16,000.00"]]
    rows += [["B", 8471, 64, 512, 1, "CAD 12,000.00", "25 %", "CAD 9,000.00", "CAD 9,000.00"]]
    for name, amount in (("Total", "25,000.00"), ("TPS 5 %", "1,250.00"), ("TVQ 9,975 %", "2,493.75")):
        rows.append([name, *[None] * 7, f"CAD {amount}"])
    rows.append(["Total", *[None] * 7, "CAD 28,743.75"])
    found = read_quote_file(offer(tmp_path / "offer.xlsx", *rows, head=head), OfferReading(rates={"CAD": 1}))
    assert not found.errors
    assert list(found.quotes["price_usd"]) == [8_000, 9_000]


def test_crowns_and_dollars_are_those_whose_code_stands_behind_them(tmp_path: Path) -> None:
    head = ["Server", "Kerner", "RAM (GB)", "Antal", "Pris pr. stk."]
    path = offer(
        tmp_path / "offer.xlsx", ["A", 64, 256, 2, "kr. 74.250,00"], [], ["Priser i danske kroner (DKK)"], head=head
    )
    found = read_quote_file(path, OfferReading(rates={"DKK": 1}))
    assert list(found.quotes["price_usd"]) == [74_250]


@pytest.mark.parametrize(
    ("head", "remark", "is_asked"),
    [
        ("Unit price ($)", "GST 10 % not included", True),
        ("Unit price ($ MXN)", "Net 30", True),
        ("Unit price ($)", "IVA 16 % no incluido", True),
        ("Unit price", "All amounts in $, HST 13 % extra", True),
        ("Unit price (US$)", "GST 10 % not included", False),
        ("Unit price (USD)", "GST 10 % not included", False),
        ("Unit price ($)", "Net 30", False),
    ],
)
def test_a_bare_dollar_in_a_heading_or_a_sentence_is_asked_about(
    tmp_path: Path, head: str, remark: str, is_asked: bool
) -> None:
    path = offer(tmp_path / "offer.xlsx", ["A", 96, 768, 12_000], [], [remark], head=["Server", "Cores", "RAM", head])
    said = [one.allowed for one in read_quote_file(path, READING).findings if one.column == "price_usd"]
    assert any("US dollars or others" in one for one in said) is is_asked


@pytest.mark.parametrize("sign", ["?", "✓", "✔"])
def test_a_sign_alone_is_not_none(tmp_path: Path, sign: str) -> None:
    path = offer(tmp_path / "offer.xlsx", ["A", 64, 256, sign, 9_000])
    assert any(one.column == "gpus" and one.severity == "error" for one in read_quote_file(path, READING).findings)


@pytest.mark.parametrize(
    "text",
    ["4 szt. AMD EPYC 9354 1U, 768 GB DDR5", "2 stk. EPYC 9354 R6625, 768 GB RAM", "4x AMD EPYC 9354, 768 GB DDR5"],
)
def test_pieces_of_a_server_are_not_its_processors(text: str) -> None:
    """A height, a code of a server, or more EPYC than a board has, make them several servers."""
    with pytest.raises(Unreadable):
        described(text, Reader("price_usd", None, None, lambda value, _: value))


@pytest.mark.parametrize(
    "head",
    [["Antal kärnor totalt", "Minne totalt (GB)"], ["Počet jader celkem", "Paměť celkem (GB)"]],
)
def test_cores_of_all_nodes_are_asked_about_in_every_language(tmp_path: Path, head: list[str]) -> None:
    head = ["Server", *head, "Qty", "Unit price (EUR)"]
    path = offer(tmp_path / "offer.xlsx", ["A", 1280, 7680, 10, 9_000], head=head)
    read = read_quote_file(path, READING)
    assert any("all 10 nodes" in one.allowed for one in read.findings if one.severity == "error")


@pytest.mark.parametrize(
    ("heads", "amounts", "n", "stated", "is_asked"),
    [
        (["Cores total", "RAM (GB)"], [128, 768], 2, {}, True),
        (["Cores total", "RAM (GB)"], [128, 768], 40, {}, False),
        (["Cores total", "RAM (GB)"], [128, 768], 2, {"cores_per_node": ["Cores total"]}, False),
        (["Kerne", "RAM gesamt (GB)"], [64, 1536], 2, {}, True),
        (["Kerne", "RAM gesamt (GB)"], [64, 1536], 2, {"mem_gb": ["RAM gesamt (GB)"]}, False),
        (["Total cores per node", "RAM (GB)"], [128, 768], 2, {}, False),
    ],
)
def test_a_total_that_two_nodes_may_share_is_asked_about(
    tmp_path: Path, heads: list, amounts: list, n: int, stated: dict, is_asked: bool
) -> None:
    """128 cores in total are those of one node of forty; of two nodes nobody can know, until it is said."""
    path = offer(tmp_path / "a.xlsx", ["A", *amounts, n, 9_000], head=["Server", *heads, "Qty", "Unit price (EUR)"])
    read = read_quote_file(path, OfferReading(rates={"EUR": 1}, columns=stated))
    assert is_asked == any(f"all {n} nodes; if of one, --column" in one.allowed for one in read.errors)
    assert is_asked == bool(read.errors)


@pytest.mark.parametrize("text", ["2 st 768 GB", "2x 768 GB"])
def test_two_of_what_is_no_module_are_asked_about(tmp_path: Path, text: str) -> None:
    """Two of 768 GB may be two servers, or half of each: no module has that size."""
    read = read_quote_file(offer(tmp_path / "a.xlsx", ["A", 64, text, 0, 9_000]), READING)
    assert any("size of one module" in one.allowed for one in read.errors)


@pytest.mark.parametrize(
    ("name", "gpus"),
    [("File server node for compute", 0), ("Servidor de archivos y cálculo", 0), ("NAS node", 4)],
)
def test_a_storage_server_that_may_run_jobs_is_asked_about(tmp_path: Path, name: str, gpus: int) -> None:
    path = offer(tmp_path / "offer.xlsx", ["A", 64, 256, 0, 9_000], [name, 64, 768, gpus, 22_000])
    assert any("run jobs" in one.allowed for one in read_quote_file(path, READING).findings if one.severity == "error")


def test_a_lump_sum_of_servers_is_asked_about(tmp_path: Path) -> None:
    head = ["Server", "Kerne", "RAM (GB)", "GPUs", "Menge", "Gesamtpreis (EUR)"]
    path = offer(tmp_path / "offer.xlsx", ["A", 64, 256, 0, "1 psch", 145_000], ["B", 64, 512, 0, 1, 9_000], head=head)
    said = [one.allowed for one in read_quote_file(path, READING).findings if one.severity == "error"]
    assert any("1 psch" in one for one in said)


@pytest.mark.parametrize(
    ("column", "text", "allowed"),
    [("per", "rack", "order (once), node (for each)"), ("kind", "storrage", "allowed: discount, warranty")],
)
def test_what_a_line_of_the_template_is_must_be_a_word_that_is_known(
    tmp_path: Path, column: str, text: str, allowed: str
) -> None:
    """A cell of the columns kind and per is never taken as another word."""
    made = {"kind": "rack", "name": "Cooling door", "per": "order", "price (EUR)": 1_000} | {column: text}
    workbook = Workbook()
    for row in (["name", "cores", "RAM (GB)", "price (EUR)"], ["A", 64, 512, 9_000]):
        workbook.active.append(row)
    lines = workbook.create_sheet("Other lines")
    for row in (list(made), list(made.values())):
        lines.append(row)
    workbook.save(tmp_path / "a.xlsx")
    read = read_quote_file(tmp_path / "a.xlsx", READING)
    assert [one.given for one in read.errors if allowed in one.allowed] == [text]
    assert not read.lines


def test_a_bare_number_under_price_usd_is_in_dollars(tmp_path: Path) -> None:
    """Whatever another cell of the column, or an option, says."""
    rows = [
        "name,category,cpus,mem_gb,gpus,price_usd",
        "A,compute,64,512,0,11250.50",
        'B,compute,128,512,0,"EUR 17,333.00"',
    ]
    (tmp_path / "a.csv").write_text("\n".join(rows), encoding="utf-8")
    assert read_quote_file(tmp_path / "a.csv", READING).quotes["price_usd"].tolist() == [11_250.5, 17_333]
    stated = OfferReading(rates={"EUR": 2}, currency="EUR")
    assert read_quote_file(tmp_path / "a.csv", stated).quotes["price_usd"].tolist() == [11_250.5, 34_666]
