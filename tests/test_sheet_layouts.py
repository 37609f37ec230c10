"""Layouts of ordinary offers: headings over two rows, servers in columns, parts with prices, specifications beside."""

from __future__ import annotations

from pathlib import Path

import pytest
from openpyxl import Workbook

from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file

RATES = dict.fromkeys(("EUR", "GBP", "JPY", "CNY"), 1)


def read(tmp_path: Path, sheets: dict[str, list[list]] | list[list], *merged: str) -> QuoteFile:
    """Write a workbook, its first sheet with merged ranges, and read it."""
    book = Workbook()
    book.remove(book.active)
    for title, rows in (sheets if isinstance(sheets, dict) else {"Offer": sheets}).items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append([cell[0] if isinstance(cell, tuple) else cell for cell in row])
            for place, cell in enumerate(row, 1):
                if isinstance(cell, tuple):
                    sheet.cell(sheet.max_row, place).number_format = cell[1]
    for cells in merged:
        book.worksheets[0].merge_cells(cells)
    book.save(tmp_path / "offer.xlsx")
    return read_quote_file(tmp_path / "offer.xlsx", OfferReading(rates=RATES))


def servers(found: QuoteFile) -> list[tuple]:
    """Return cores, memory, GPUs and price of each server; no question may be open."""
    assert not found.errors, [str(one) for one in found.errors]
    return [(row.cpus, row.mem_gb, row.gpus, row.price_usd) for row in found.quotes.itertuples()]


# Headings over two rows

LOW = ["Pos.", "Bezeichnung", "Kerne", "RAM (GB)", "GPU", "Anzahl", "Einzelpreis", "Gesamtpreis"]
ROWS = [
    ["1", "Rechenknoten, 2x AMD EPYC 9354", 64, 768, None, 20, 9_800, 196_000],
    ["2", "GPU-Knoten, 2x AMD EPYC 9454", 96, 1536, "4x NVIDIA H100", 2, 96_000, 192_000],
]
TWO = [(64, 768, 0, 9_800), (96, 1536, 4, 96_000)]


@pytest.mark.parametrize(
    ("top", "low"),
    [
        (["Position", None, "Konfiguration", None, None, None, "Preise netto (EUR)", None], LOW),
        (
            ["Artikel", None, "Ausstattung", None, None, None, "Angebotspreis in EUR", None],
            [*LOW[:6], "Einzel", "Gesamt"],
        ),
        (["Item", None, "Specification per node", None, None, "Pricing (EUR, ex VAT)", None, None], LOW),
        (
            ["Désignation", None, "Configuration", None, None, "Prix HT (EUR)", None, None],
            ["N°", "Désignation", "Cœurs", "Mémoire (Go)", "GPU", "Qté", "P.U.", "Montant"],
        ),
    ],
)
def test_words_over_headings_are_groups_of_these(tmp_path: Path, top: list, low: list) -> None:
    """A word over several headings changes none of them, and its unit is theirs."""
    assert servers(read(tmp_path, [["Offer"], [], top, low, *ROWS], "A3:B3", "C3:D3", "G3:H3")) == TWO


@pytest.mark.parametrize(
    ("top", "place", "word"),
    [
        ("Preis pro Chassis (EUR)", 6, "several nodes"),
        ("Miete (EUR monatlich)", 6, "a month"),
        ("Preis inkl. MwSt. (EUR)", 6, "with tax"),
        ("Netzwerk (EUR)", 6, "Netzwerk"),
        ("je CPU", 2, "je CPU"),
        ("Wuppig", 2, "'Wuppig'"),
        ("Threads", 2, "Threads"),
        ("Chassis", 2, "Chassis"),
        ("MwSt. 19 %", 6, "price"),
    ],
)
def test_a_group_whose_word_changes_what_is_beneath_is_asked_about(
    tmp_path: Path, top: str, place: int, word: str
) -> None:
    """Of a chassis, a month, a CPU, with tax, or of another thing: the amounts beneath are not read as a node's."""
    head = ["Position", None, "Konfiguration", None, None, None, "Preise (EUR)", None]
    head[place] = top
    asked = read(tmp_path, [head, LOW, *ROWS], "A1:B1", "C1:D1", "G1:H1").errors
    assert any(word in str(one) for one in asked), [str(one) for one in asked]


def test_two_servers_beneath_merged_headings_are_no_one_server(tmp_path: Path) -> None:
    """The same headings under two words are asked about."""
    head = ["Item", "Node A", None, None, "Node B", None, None]
    low = [None, *["Cores", "RAM (GB)", "Price (EUR)"] * 2]
    asked = read(tmp_path, [head, low, ["Rack", 64, 768, 9_800, 96, 1536, 14_800]], "B1:D1", "E1:G1").errors
    assert any("means the same as" in one.allowed for one in asked)


# A server per column


def in_columns(label: str | None, *beneath: list, names: tuple = ("Node A", "Node B"), total: float = 63_920) -> list:
    """Return an offer with two servers, each in a column, and rows beneath."""
    rows: list[list] = [["Offer 309", None, "16.10.2026"], ["Customer", "University of Kiel"], [], [label, *names]]
    rows += [["Cores per node", 64, 96], ["Memory (GB)", 768, 1536], ["GPU", "–", "4x NVIDIA L40S"]]
    rows += [["Quantity", 30, 4], ["Unit price (EUR)", 9_240, 15_980], ["Total (EUR)", 277_200, total]]
    return [*rows, *beneath]


COLUMNS = [(64, 768, 0, 9_240), (96, 1536, 4, 15_980)]


@pytest.mark.parametrize("label", [None, "Item", "Merkmal", "Caractéristique", "Spezifikation", "Parameter", "Typ"])
def test_the_row_of_texts_above_servers_in_columns_has_their_names(tmp_path: Path, label: str | None) -> None:
    """Whatever its label says, and whatever letterhead stands above it."""
    found = read(tmp_path, in_columns(label))
    assert servers(found) == COLUMNS
    assert list(found.quotes["name"]) == ["Node A", "Node B"]


def test_an_unknown_label_of_names_is_asked_about(tmp_path: Path) -> None:
    """The names are those beneath it, and its word may change what is bought."""
    found = read(tmp_path, in_columns("Wuppig"))
    assert [one.harmless for one in found.errors] == ["Wuppig"]


def test_lines_and_totals_beneath_servers_in_columns_count(tmp_path: Path) -> None:
    """A word and one amount are a line of the order or a total, and the total must be that of all."""
    rows = [["Delivery and installation", None, 3_000], ["Total", None, 344_120], ["VAT 20 %", None, 68_824]]
    found = read(tmp_path, in_columns("Item", [], *rows, ["Total incl. VAT", None, 412_944]))
    assert servers(found) == COLUMNS
    assert [(line.kind, line.usd) for line in found.lines] == [("installation", 3_000)]
    asked = read(tmp_path, in_columns("Item", [], rows[0], ["Total", None, 341_120])).errors
    assert any("of the rows above it" in one.allowed for one in asked)


def test_a_column_of_units_is_none_of_a_server(tmp_path: Path) -> None:
    """Units beside labels are those of the rows; of a month or a CPU they are asked about."""
    rows = [["Feature", "Unit", "Node A", "Node B"], ["Cores", None, 64, 96], ["Memory", "GB", 768, 1536]]
    for unit, price in (("EUR", 9_240), ("TEUR", 9.24)):
        found = read(tmp_path, [*rows, ["Quantity", "pcs", 2, 4], ["Unit price", unit, price, price]])
        assert servers(found) == [(64, 768, 0, 9_240), (96, 1536, 0, 9_240)]
    assert read(tmp_path, [*rows, ["Quantity", "pcs", 2, 4], ["Unit price", "EUR/month", 924, 924]]).errors


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (in_columns("Item", total=63_000), "total"),
        (in_columns("Item", ["Wuppig", None, 5_000]), "Wuppig"),
        (in_columns("Item", ["Option memory (EUR)", 500, 700]), "Option"),
        (in_columns("Item", names=("Node A", "Chassis with 4 nodes")), "several nodes"),
        (in_columns("Item", names=("Node A", None)), "name"),
        (in_columns("Item", ["All prices are for a chassis of 4 nodes."]), "chassis"),
    ],
)
def test_what_no_careful_reader_would_take_is_asked_about_in_columns_too(tmp_path: Path, rows: list, word: str) -> None:
    """Wrong totals, further amounts, a chassis, a server without a name beneath a merged one."""
    asked = read(tmp_path, rows).errors
    assert any(word in str(one) for one in asked), [str(one) for one in asked]


# Specifications on a sheet without prices

PRICED = [["Item", "Qty", "Unit price (EUR)", "Total (EUR)"], ["Compute node", 20, 9_800, 196_000]]
PRICED += [["GPU node, 2x AMD EPYC 9454", 2, 96_000, 192_000], ["Delivery", 1, 500, 500]]
FULL = [["Item", "Cores", "RAM (GB)", "GPU", "Qty", "Unit price (EUR)"], ["Compute node", 64, 768, 0, 20, 9_800]]
FULL += [["GPU node", 96, 1536, "4x NVIDIA H100", 2, 96_000]]


def specification(processors: str = "2x AMD EPYC 9354, 32 cores", memory: str = "24x 32 GB", gpus: str = "4") -> list:
    """Return a sheet without prices, with a server per column."""
    rows = [["Feature", "Compute node", "GPU node"], ["Processors", processors, "2x AMD EPYC 9454, 48 cores"]]
    rows += [["Memory", f"{memory} DDR5", "24x 64 GB DDR5"], ["GPUs", "–", f"{gpus}x NVIDIA H100 80GB"]]
    return [*rows, ["Disks", "2x 960 GB NVMe", "2x 3.84 TB NVMe"]]


IN_ROWS = [["Server", "Cores", "Memory (GB)", "GPU"], ["Compute node", 64, 768, "-"], ["GPU node", 96, 1536, "4x H100"]]


@pytest.mark.parametrize("priced", [PRICED, FULL])
@pytest.mark.parametrize("beside", [specification(), IN_ROWS])
def test_a_sheet_without_prices_specifies_the_servers_that_have_one(tmp_path: Path, priced: list, beside: list) -> None:
    """It fills what the priced sheet does not say, in either order, and may agree with what it says."""
    for sheets in ({"Prices": priced, "Data": beside}, {"Data": beside, "Prices": priced}):
        found = read(tmp_path, sheets)
        assert servers(found) == TWO
        assert list(found.quotes["category"]) == ["compute", "gpu"]


@pytest.mark.parametrize(
    ("beside", "word"),
    [
        (specification(memory="24x 16 GB"), "384 by 'Compute node' (Data!B1)"),
        (specification(processors="2x AMD EPYC 9654, 96 cores"), "192 by 'Compute node'"),
        (specification(gpus="8"), "8 by 'GPU node'"),
        ([*IN_ROWS, ["Login node", 32, 256, "-"]], "'Login node' has no price"),
        ([IN_ROWS[0] + ["Quantity"], IN_ROWS[1] + [30], IN_ROWS[2] + [2]], "30 times"),
        ([["Merkmal", "Compute node", "GPU node"], ["Kerne", 32, 48], ["RAM (GB)", 768, 1536]], "32 by"),
        ([*specification(), ["Form", "4 nodes in a chassis", "4 U"]], "4 nodes"),
        ([["Server", "Cores per CPU", "Memory (GB)", "GPU"], *IN_ROWS[1:], ["Wuppig", 1, 1, 1]], "Wuppig"),
    ],
)
def test_specifications_that_contradict_are_asked_about(tmp_path: Path, beside: list, word: str) -> None:
    """Other cores, memory, GPUs and quantities, and servers that have no price."""
    asked = read(tmp_path, {"Prices": FULL, "Data": beside}).errors
    assert any(word in str(one) for one in asked), [str(one) for one in asked]


def test_one_specification_is_not_taken_for_two_servers(tmp_path: Path) -> None:
    """Where two names begin with that of a specification, nobody knows whose it is."""
    head, first, *_ = PRICED
    rows = [head, ["Compute node, type A", *first[1:]], ["Compute node, type B", 2, 9_900, 19_800]]
    asked = read(tmp_path, {"Prices": rows, "Data": [row[:2] for row in specification()]}).errors
    assert any("one server of this name is needed" in one.allowed for one in asked)


KEYED = [
    ["Item", "Name", "Quantity", "Price each (EUR)"],
    ["A", "Compute node", 20, 9_800],
    ["B", "GPU node", 2, 96_000],
]
KEYS = [["Item", "CPU", "Cores/node", "RAM/node (GB)", "GPU"]]
KEYS += [["B", "2 x AMD EPYC 9454", 96, 1536, "4 x NVIDIA H100"], ["A", "2 x AMD EPYC 9354", 64, 768, None]]
SEE = [["Configuration of each item: sheet Konfiguration"], []]


def test_specifications_may_have_the_keys_of_priced_rows_instead_of_their_names(tmp_path: Path) -> None:
    """Where the sheet of prices names the other one, a column that both head alike tells whose each is."""
    assert servers(read(tmp_path, {"Prices": [*SEE, *KEYED], "Konfiguration": KEYS})) == TWO


@pytest.mark.parametrize(
    ("priced", "beside"),
    [
        (KEYED, KEYS),
        ([*SEE, KEYED[0], KEYED[1], ["A", *KEYED[2][1:]]], KEYS),
        ([*SEE, *KEYED], [*KEYS, ["C", "2 x AMD EPYC 9354", 64, 768, None]]),
        ([*SEE, *KEYED], [*KEYS, ["A", "2 x AMD EPYC 9454", 96, 768, None]]),
        ([*SEE, *KEYED], [["Option", *KEYS[0][1:]], *KEYS[1:]]),
        ([*SEE, *KEYED, ["C", "Login node", 1, 5_000]], KEYS),
    ],
)
def test_keys_that_are_not_plainly_those_of_priced_rows_are_asked_about(
    tmp_path: Path, priced: list, beside: list
) -> None:
    """A sheet that is not named, a key twice or of no row, another heading, a server without a specification."""
    assert read(tmp_path, {"Prices": priced, "Konfiguration": beside}).errors


# Cells merged over the rows of one server's parts

DETAILS = ["2 procesadores AMD EPYC 9354", "32 núcleos por procesador", "Memoria 768 GB DDR5", "HDR100"]


@pytest.mark.parametrize(
    ("details", "merged", "is_read"),
    [
        (DETAILS, "ABDEF", True),
        (DETAILS, "ABDE", True),
        ([*DETAILS[:3], "2 nodos por chasis"], "ABDEF", False),
        ([*DETAILS[:3], "Opción: 2 GPU NVIDIA H100"], "ABDEF", False),
        ([DETAILS[0], DETAILS[2], "2 procesadores AMD EPYC 9454", "Memoria 1.536 GB DDR5"], "ABDEF", False),
        ([*DETAILS[:2], "Memoria 64 GB DDR5", "768"], "ABDEF", False),
        (DETAILS, "AB", False),
    ],
)
def test_a_name_merged_over_the_rows_of_parts_is_no_name_of_each(
    tmp_path: Path, details: list, merged: str, is_read: bool
) -> None:
    """Name, number and price stand once, beside all details of one server; what may be another one is asked about."""
    head = ["Partida", "Concepto", "Configuración", "Uds.", "Precio ud. (EUR)", "Importe (EUR)"]
    first = [1, "Nodo de cálculo CE-N2", details[0], 22, 13_000, 286_000]
    rows = [head, first, *([None, None, one] for one in details[1:])]
    if merged == "AB":
        rows[2][3:] = [22, 13_000, 286_000]
    found = read(tmp_path, rows, *(f"{column}2:{column}{len(rows)}" for column in merged))
    assert bool(found.errors) is not is_read, [str(one) for one in found.errors]
    assert not is_read or servers(found) == [(64, 768, 0, 13_000)]


# Parts of an offer with titles, their sums, and these sums once more

BILL = ["OZ", "Bezeichnung", "Menge", "EP (EUR)", "GP (EUR)"]
NODE_ROW = ["01.1", "Rechenknoten, 2x AMD EPYC 9684X (96 Kerne), 768 GB DDR5", 10, 9_000, 90_000]
SWITCH = ["02.1", "InfiniBand-Switch", 2, 5_000, 10_000]


def bill(first: list, second: list, *beneath: list, net: int = 100_000) -> list:
    """Return an offer of two parts with their titles and sums, what stands beneath, and its total."""
    parts = [["01", "Titel 01 Rechenknoten"], NODE_ROW, first, [], ["02", "Titel 02 Netzwerk"], SWITCH, second, []]
    return [BILL, *parts, *beneath, [None, "Angebotssumme netto", None, None, net]]


SUMS = [[None, f"Summe Titel 0{n}", None, None, one] for n, one in ((1, 90_000), (2, 10_000))]
AGAIN = [["01", "Rechenknoten", None, None, 90_000], ["02", "Netzwerk", None, None, 10_000]]


@pytest.mark.parametrize("beneath", [(), AGAIN, ([None, "Titel"], *AGAIN)])
def test_sums_of_parts_and_these_sums_once_more_are_no_lines(tmp_path: Path, beneath: tuple) -> None:
    """A sum of one row repeats the title above it; beneath all, each sum with its title stands once more."""
    found = read(tmp_path, bill(*SUMS, *beneath))
    assert servers(found) == [(192, 768, 0, 9_000)]
    assert [(line.kind, line.usd, line.quantity) for line in found.lines] == [("network", 5_000, 2)]


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (bill(SUMS[0], [*SUMS[1][:4], 12_000]), "Summe Titel 02"),
        (bill(SUMS[0], [None, "Summe Wartung", None, None, 10_000]), "Summe Wartung"),
        (bill(*SUMS, AGAIN[0], [*AGAIN[1][:4], 12_000]), "of the rows above it"),
        (bill(*SUMS, AGAIN[0], ["02", "Netzwerk", 1, 10_000, 10_000]), "must be unique"),
        (bill(*SUMS, AGAIN[1]), "of the rows above it"),
        (bill(*SUMS, AGAIN[0], ["02", "Netzwerk Wartung", None, None, 10_000]), "must be unique"),
        (bill(*SUMS, *AGAIN, net=200_000), "of the rows above it"),
    ],
)
def test_sums_that_are_not_plainly_those_of_parts_are_asked_about(tmp_path: Path, rows: list, word: str) -> None:
    """Other amounts, other words than the title's, a quantity, a part alone, a total that has them twice."""
    asked = read(tmp_path, rows).errors
    assert any(word in str(one) for one in asked), [str(one) for one in asked]


@pytest.mark.parametrize(("whole", "is_read"), [(11_800, True), (12_800, False), (11_000, False)])
def test_a_sum_with_the_tax_above_it_is_a_total_whatever_else_it_says(
    tmp_path: Path, whole: int, is_read: bool
) -> None:
    """To the cent it is the sum above and the tax stated since; quantities are in ``Nos``, a word."""
    head = ["Item", "Description", "Quantity", "Units", "Unit price excl. GST (EUR)", "Total excl. GST (EUR)"]
    rows = [head, [1, "CPU node: 2 x AMD EPYC 9554 (64 cores), 512 GB DDR5", 2, "Nos", 4_000, 8_000]]
    rows += [[2, "Rack", 2, "Nos", 1_000, 2_000], ["Total in Figures (excl. GST)", *[None] * 4, 10_000]]
    rows += [["GST @ 18%", *[None] * 4, 1_800], ["Total in Figures (incl. GST)", *[None] * 4, whole]]
    found = read(tmp_path, rows)
    assert any(one.given.endswith("(incl. GST)") for one in found.errors) is not is_read
    assert found.quotes["name"].tolist() == ["CPU node"]


# Priced parts of one node

PARTS = [("Chassis 1U Model 7", 1, 1_800), ("AMD EPYC 9354", 2, 2_000), ("32 GB DDR5 RDIMM", 24, 150)]
PARTS += [("SSD 960 GB NVMe", 2, 200), ("ConnectX-6 adapter", 1, 200)]
PARTS_HEAD = ["Part no.", "Description", "Qty", "Unit price (EUR)", "Extended (EUR)"]
GROUP, OF_ALL = ["Compute node", None, "Group quantity", 20], [None, "Group total (20 nodes)", None, None, 200_000]
END = [[], [None, "Total", None, None, 200_000]]


def node(
    above: list = GROUP,
    parts: list = PARTS,
    label: str = "Price of one node",
    price: float = 10_000,
    beneath: tuple = (OF_ALL, *END),
    head: list = PARTS_HEAD,
) -> list:
    """Return an offer whose only table has the parts of one node with their prices."""
    rows = [[f"A{n}", text, count, one, count * one] for n, (text, count, one) in enumerate(parts)]
    return [["Quotation 88"], [], above, head, *rows, [None, label, None, None, price], *beneath]


ONE = [(64, 768, 0, 10_000)]


@pytest.mark.parametrize(
    "rows",
    [
        node(),
        node(label="Price per node"),
        node(label="Preis pro Knoten netto"),
        node(label="Subtotal"),  # 20 times it is the next sum
        node(above=["Compute node", None, "Quantity: 20"]),
        node(above=[], beneath=([None, "Number of nodes", 20], [None, "Total for 20 nodes", None, None, 200_000])),
        node(above=["Compute node"], beneath=()),
        node(head=[*PARTS_HEAD[:2], "Qty per node", PARTS_HEAD[3], "Total per node (EUR)"], label="Sum"),
        node(parts=[("Processor AMD EPYC 9354", 2, 2_000), ("DIMM 32 GB DDR5", 24, 150), ("Board", 1, 2_400)]),
    ],
)
def test_priced_parts_of_a_node_are_a_server_at_their_sum(tmp_path: Path, rows: list) -> None:
    """The sum beneath them is its price where it, its number, or a sum of all says that it is of one."""
    assert servers(read(tmp_path, rows)) == ONE


def test_several_nodes_of_priced_parts_are_summed_up(tmp_path: Path) -> None:
    """Each group has its header and its sum, and the last total is that of all, with what is delivered."""
    second = ["Large node", None, "Group quantity", 2], PARTS_HEAD, ["B1", "AMD EPYC 9454", 2, 3_000, 6_000]
    rows = [*second, ["B2", "64 GB RDIMM", 24, 500, 12_000], [None, "Price of one node", None, None, 18_000]]
    rows += [[None, "Group total (2 nodes)", None, None, 36_000], [], [None, "Shipping", None, None, 900]]
    found = read(tmp_path, [*node(beneath=(OF_ALL,)), [], *rows, [None, "Total", None, None, 236_900]])
    assert servers(found) == [*ONE, (96, 1536, 0, 18_000)]
    assert [(line.kind, line.usd) for line in found.lines] == [("delivery", 900)]
    assert read(tmp_path, [*node(beneath=(OF_ALL,)), [], *rows, [None, "Total", None, None, 230_900]]).errors


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (node(price=10_400), "."),
        (node(beneath=([*OF_ALL[:4], 196_000],)), "which times 20 is not the sum"),
        (node(beneath=(OF_ALL, [], [None, "Total", None, None, 190_000])), "of the rows above it"),
        (node(above=["Compute node", None, "Group quantity", 24]), "24 or 20 times"),
        (node(above=[], label="Subtotal", beneath=()), "of one node or of all"),
        (node(label="Subtotal", beneath=()), "of one node or of all"),
        (node(label="Price of one node without memory"), "without memory"),
        (node(above=["Compute node"], label="Price of one node", beneath=([None, "4 nodes", None, None, 9],)), "9"),
        (node(parts=[("2U 4-node chassis", 1, 1_800), *PARTS[1:]]), "more than one server"),
        (node(parts=[*PARTS, ("Optional: AMD EPYC 9454", 1, 0)]), "one server"),
    ],
)
def test_priced_parts_that_are_not_plainly_of_one_node_are_asked_about(tmp_path: Path, rows: list, word: str) -> None:
    """Sums that disagree, numbers that disagree, a sum of nobody knows how many, a part that is left out."""
    asked = read(tmp_path, rows).errors
    assert any(word in str(one) for one in asked), [str(one) for one in asked]


def test_a_line_with_an_amount_in_the_column_of_totals_alone_counts(tmp_path: Path) -> None:
    """It was left out with a warning."""
    head = ["Item", "Cores", "RAM (GB)", "Qty", "Unit price (EUR)", "Total (EUR)"]
    found = read(tmp_path, [head, ["Node", 64, 768, 20, 9_800, 196_000], ["Shipping", *[None] * 4, 900]])
    assert servers(found) == [(64, 768, 0, 9_800)]
    assert [(line.kind, line.usd) for line in found.lines] == [("delivery", 900)]


# Offers in Japanese

YEN = '"¥"#,##0'
JAPANESE = ["No.", "品名", "CPUコア数", "メモリ", "数量", "単価", "金額"]


def japanese(*more: list, above: tuple = (), form: str = '0"台"', net: int = 1_000_000) -> list:
    """Return an offer of two nodes with ¥ in its number formats, further lines, their sum and the tax on it."""
    rows: list[list] = [[1, "計算ノード 2x AMD EPYC 9454", 96, "768GB", (2, form), (500_000, YEN), (1_000_000, YEN)]]
    sums = ((label, amount) for label, amount in (("小計", net), ("消費税(10%)", net // 10), ("合計", net * 11 // 10)))
    return [*above, JAPANESE, *rows, *more, *([None] * 5 + [label, (amount, YEN)] for label, amount in sums)]


def test_yen_lines_and_tax_of_an_offer_in_japanese(tmp_path: Path) -> None:
    """¥ in a table with Japanese letters is yen; its tax stands beneath, or in a total above that agrees."""
    lines = [[2, "搬入・設置作業", None, None, (1, '0"式"'), (90_000, YEN), (90_000, YEN)]]
    lines += [[3, "出精値引", None, None, (1, '0"式"'), (-40_000, YEN), (-40_000, YEN)]]
    found = read(tmp_path, japanese(*lines, net=1_050_000))
    assert servers(found) == [(96, 768, 0, 500_000)]
    assert [(line.kind, line.usd) for line in found.lines] == [("installation", 90_000), ("discount", -40_000)]
    top = [["合計", (1_100_000, YEN), "(消費税込)"], []]
    assert servers(read(tmp_path, japanese(above=tuple(top)))) == [(96, 768, 0, 500_000)]


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (japanese(form='0"式"'), "2 式"),
        (japanese(above=(["為替 CNY"],)), "CNY"),
        (japanese(above=(["価格は税込"],))[:3], "with tax"),
        (japanese(above=(["合計", (1_200_000, YEN), "(消費税込)"],)), "with tax"),
        (japanese(["2", "送料", None, None, 1, (9_000, YEN), (9_000, YEN)]), "of the rows above it"),
        ([["Customer: サイバー"], ["Item", "Cores", "RAM (GB)", "Price"], ["A 1", 64, 768, (9_000, YEN)]], "yuan"),
        ([["Item", "Cores", "RAM (GB)", "Price"], ["A 1", 64, 768, (9_000, YEN)]], "yuan"),
    ],
)
def test_what_is_open_in_yen_is_asked_about(tmp_path: Path, rows: list, word: str) -> None:
    """Sets, yuan, prices with tax, sums that disagree; a customer's name in Japanese says nothing of the currency."""
    asked = read(tmp_path, rows).errors
    assert any(word in str(one) for one in asked), [str(one) for one in asked]


@pytest.mark.parametrize("called", [["Type A", "Type B"], ["Type A", "Type A"], ["Type B", "Type A"]])
def test_specifications_may_be_called_as_on_the_sheet_of_prices_above_their_models(
    tmp_path: Path, called: list[str]
) -> None:
    """The names are those that the priced servers have, not the makers' models; one name twice is asked about."""
    prices = [
        ["Item No.", "Description", "Firm Qty (A)", "Firm Unit Price, EUR (B)", "Extended Price (A x B)"],
        [1, "Type A – Compute node", 20, 9_800, 196_000],
        [2, "Type B – Big node", 2, 96_000, 192_000],
    ]
    beside = [
        ["Feature", *called],
        ["Make / model", "Node R6625", "Node R7625"],
        ["Processor", "AMD EPYC 9354", "AMD EPYC 9454"],
        ["Sockets per node", 2, 2],
        ["Cores per socket", 32, 48],
        ["Memory per node", "24 x 32 GB", "24 x 64 GB"],
    ]
    found = read(tmp_path, {"Prices": prices, "Annex": beside})
    if called[0] == called[1]:
        assert found.errors
    else:
        order = [64, 96] if called[0] == "Type A" else [96, 64]
        assert not [one for one in found.errors if "no column" in one.allowed]
        assert found.quotes["cpus"].tolist() == order
