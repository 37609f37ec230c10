"""Spreadsheets as purchasing offices write them, from a seed, and how many of them `procure quotes check` reads right.

python benchmarks/office_sheets.py [--first 1] [--count 50] [--folder FOLDER] [--show]

Each sheet has a truth. It is read as it comes; where the reader asks, the option that it names is given, once. Reported are the
shares read without a question, with nothing asked but whether words in names are those of products, with guesses that are named, after an answer, refused, and read wrong.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import re
import tempfile
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from procure.errors import TableError
from procure.packages.quote_file import OfferReading, QuoteFile, read_quote_file

RATES = {"EUR": 1.08, "CHF": 1.12, "GBP": 1.27, "USD": 1.0}
TAX = 20.0
WORDS: dict[str, dict[str, list[str]]] = {
    "en": {"name": ["Server type", "Model", "Configuration"], "cpus": ["Cores", "CPU cores"], "mem": ["Memory", "RAM"],
           "gpus": ["GPUs", "Accelerators"], "price": ["Unit price", "Price per node"], "power": ["Power consumption"],
           "qty": ["Qty", "Quantity"], "total": ["Total price"], "title": ["Quotation Q-2026-118", "Offer for HPC cluster"],
           "net": ["All prices excl. VAT"], "gross": ["All prices incl. VAT"], "sum": ["Total"], "none": ["none", "-"],
           "cpu": ["Processor"], "sockets": ["Sockets"], "each": ["Cores per CPU"], "gputype": ["GPU model"],
           "extra": ["Delivery time", "Local disk"], "switch": ["InfiniBand switch, 40 ports"], "hidden": ["Purchase cost"]},
    "de": {"name": ["Bezeichnung", "Servertyp", "Modell"], "cpus": ["Kerne", "Anzahl Kerne"], "mem": ["Arbeitsspeicher", "RAM"],
           "gpus": ["GPUs", "Beschleuniger"], "price": ["Einzelpreis", "Preis pro Knoten"], "power": ["Leistungsaufnahme"],
           "qty": ["Menge", "Anzahl"], "total": ["Gesamtpreis"], "title": ["Angebot Nr. 4711", "Angebot HPC-System"],
           "net": ["Alle Preise zzgl. MwSt."], "gross": ["Alle Preise inkl. MwSt."], "sum": ["Summe"], "none": ["keine", "–"],
           "cpu": ["Prozessor"], "sockets": ["Anzahl CPUs"], "each": ["Kerne pro CPU"], "gputype": ["GPU-Typ"],
           "extra": ["Lieferzeit", "Festplatte"], "switch": ["InfiniBand-Switch 40 Ports"], "hidden": ["Einkaufspreis"]},
    "fr": {"name": ["Désignation", "Modèle"], "cpus": ["Cœurs", "Nombre de cœurs"], "mem": ["Mémoire", "Mémoire vive"],
           "gpus": ["GPU", "Accélérateurs"], "price": ["Prix unitaire"], "power": ["Consommation"],
           "qty": ["Quantité", "Qté"], "total": ["Prix total"], "title": ["Devis n° 2026-44"],
           "net": ["Prix hors TVA"], "gross": ["Prix TTC"], "sum": ["Total"], "none": ["aucun", "-"],
           "cpu": ["Processeur"], "sockets": ["Nombre de CPU"], "each": ["Cœurs par CPU"], "gputype": ["Modèle GPU"],
           "extra": ["Délai"], "switch": ["Switch InfiniBand 40 ports"], "hidden": ["Prix d'achat"]},
    "es": {"name": ["Descripción", "Modelo"], "cpus": ["Núcleos"], "mem": ["Memoria RAM", "Memoria"],
           "gpus": ["GPUs", "Aceleradores"], "price": ["Precio unitario"], "power": ["Consumo"],
           "qty": ["Cantidad"], "total": ["Importe"], "title": ["Oferta 2026/12"],
           "net": ["Precios sin IVA"], "gross": ["Precios con IVA"], "sum": ["Total"], "none": ["ninguna", "-"],
           "cpu": ["Procesador"], "sockets": ["Número de CPU"], "each": ["Núcleos por CPU"], "gputype": ["Modelo de GPU"],
           "extra": ["Plazo"], "switch": ["Switch InfiniBand 40 puertos"], "hidden": ["Coste interno"]},
    "it": {"name": ["Descrizione", "Modello"], "cpus": ["Core", "Nuclei"], "mem": ["Memoria", "RAM"],
           "gpus": ["GPU", "Acceleratori"], "price": ["Prezzo unitario"], "power": ["Potenza"],
           "qty": ["Quantità"], "total": ["Prezzo totale"], "title": ["Offerta 77/2026"],
           "net": ["Prezzi IVA esclusa"], "gross": ["Prezzi IVA inclusa"], "sum": ["Totale"], "none": ["nessuna", "-"],
           "cpu": ["Processore"], "sockets": ["Numero di CPU"], "each": ["Core per CPU"], "gputype": ["Modello GPU"],
           "extra": ["Consegna"], "switch": ["Switch InfiniBand 40 porte"], "hidden": ["Costo interno"]},
    "nl": {"name": ["Omschrijving", "Model"], "cpus": ["Kernen", "Cores"], "mem": ["Geheugen", "RAM"],
           "gpus": ["GPUs"], "price": ["Stuksprijs", "Prijs per node"], "power": ["Vermogen"],
           "qty": ["Aantal"], "total": ["Totaalprijs"], "title": ["Offerte 26-0815"],
           "net": ["Prijzen excl. BTW"], "gross": ["Prijzen incl. BTW"], "sum": ["Totaal"], "none": ["geen", "-"],
           "cpu": ["Processor"], "sockets": ["Aantal CPUs"], "each": ["Kernen per CPU"], "gputype": ["GPU-model"],
           "extra": ["Levertijd"], "switch": ["InfiniBand switch 40 poorten"], "hidden": ["Inkoopprijs"]},
}  # fmt: skip
BY_COMMA = {"de", "fr", "es", "it", "nl"}
MODELS = ["H100", "L40S", "A100", "H200"]


@dataclass
class Value:
    """One cell to write: what is in it, its number format, and the formula behind it."""

    value: Any = None
    form: str = ""
    formula: str = ""


@dataclass
class Sheet:
    """A sheet to write: rows of cells, merged ranges, hidden columns and rows (from 1), notes by cell."""

    title: str
    rows: list[list[Value]]
    merged: list[str] = field(default_factory=list)
    hidden_columns: list[int] = field(default_factory=list)
    hidden_rows: list[int] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)


@dataclass
class Case:
    """A file, what stands in it, and what was drawn."""

    seed: int
    path: Path
    truth: list[dict[str, Any]]
    traits: list[str]
    currency: str


def servers(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    """Draw server types with prices in the sheet's currency."""
    found = []
    for i in range(n):
        gpus = int(rng.choice([0, 0, 0, 2, 4, 8]))
        cores = int(rng.choice([32, 48, 64, 96, 128, 192]))
        mem = int(rng.choice([256, 384, 512, 768, 1024, 1536]))
        price = round(4000 + 60 * cores + 8 * mem + 18_000 * gpus + float(rng.integers(0, 40)) * 10, 2)
        price += float(rng.choice([0, 0, 0.5, 0.99]))
        name = f"{rng.choice(['Apollo', 'Nordlys', 'Vega', 'Cirrus', 'Taurus'])} {rng.integers(100, 999)}-{i}"
        model = str(rng.choice(MODELS)) if gpus else ""
        found.append({"name": name, "cpus": cores, "mem_gb": mem, "gpus": gpus, "gpu_type": model,
                      "price": price, "power_w": 300 + 4 * cores + 500 * gpus})  # fmt: skip
    return found


def amount_text(value: float, lang: str, rng: np.random.Generator) -> str:
    """Write an amount as the language does."""
    whole, cents = divmod(round(value * 100), 100)
    groups = f"{whole:,}"
    if lang == "en":
        return f"{groups}.{cents:02d}"
    mark = {"de": ".", "es": ".", "it": ".", "nl": ".", "fr": " "}[lang]
    text = groups.replace(",", mark)
    if not cents and rng.random() < 0.35:
        return text + (",-" if lang in ("de", "nl") and rng.random() < 0.5 else "")
    return f"{text},{cents:02d}"


def draw(seed: int, folder: Path) -> Case:
    """Make one office's file."""
    rng = np.random.default_rng(seed)
    traits: list[str] = []

    def has(trait: str, chance: float) -> bool:
        if rng.random() < chance:
            traits.append(trait)
            return True
        return False

    lang = str(rng.choice(list(WORDS)))
    kind = str(rng.choice(["xlsx", "xlsx", "xlsx", "ods", "csv"]))
    currency = str(rng.choice(["USD", "GBP"] if lang == "en" else ["EUR", "EUR", "EUR", "CHF"]))
    symbol = {"USD": "$", "EUR": "€", "GBP": "£", "CHF": "CHF"}[currency]
    words = {key: str(rng.choice(options)) for key, options in WORDS[lang].items()}
    traits += [lang, kind, currency]
    typed = servers(rng, int(rng.integers(3, 9)))
    text_prices = kind == "csv" or has("prices as text", 0.4)
    place = str(rng.choice(["cell", "heading", "sentence"] + ([] if text_prices else ["format"])))
    traits.append(f"currency in {place}")
    if has("currency nowhere", 0.06):
        place = "nowhere"
    gross = has("gross prices", 0.08)
    cores_how = str(rng.choice(["plain", "plain", "2x32", "sockets", "processor"]))
    mem_how = str(rng.choice(["heading", "text", "tb", "dimms"]))
    gpu_how = str(rng.choice(["two columns", "4x H100", "count"]))
    qty = has("quantity and total", 0.35)
    hidden = has("hidden column", 0.15) and kind != "csv"
    power = has("power", 0.5)
    extra = has("further column", 0.4)
    formula = qty and kind == "xlsx" and has("formulas", 0.6)
    broken = has("an error cell", 0.06) and kind != "csv"
    uncalculated = formula and has("formulas never calculated", 0.1)
    chassis = has("price of a chassis", 0.04)
    turned = kind == "xlsx" and not qty and not formula and has("types in columns", 0.08)
    switch = has("a switch", 0.3) and not turned
    traits += [f"cores {cores_how}", f"memory {mem_how}", f"GPUs {gpu_how}"]

    tag = {
        "cell": "",
        "format": "",
        "nowhere": "",
        "sentence": "",
        "heading": f" ({currency})" if rng.random() < 0.5 else f" [{symbol}]",
    }[place]
    head = [words["name"]]
    head += {"sockets": [words["sockets"], words["each"]], "processor": [words["cpu"]]}.get(cores_how, [words["cpus"]])
    head += [f"{words['mem']} (GB)" if mem_how == "heading" else words["mem"]]
    head += {"two columns": [words["gpus"], words["gputype"]]}.get(gpu_how, [words["gpus"]])
    head += [f"{words['power']} (W)"] if power else []
    head += [words["extra"]] if extra else []
    head += [words["hidden"]] if hidden else []
    head += [words["qty"]] if qty else []
    price_head = words["price"] + tag
    if chassis:
        price_head = {"en": "Price per chassis", "de": "Preis pro Chassis"}.get(
            lang, words["price"] + " (4 nodes, chassis)"
        ) + tag
    head += [price_head] + ([words["total"] + tag] if qty else [])

    def price_cell(value: float, formula_text: str = "") -> Value:
        if text_prices:
            text = amount_text(value, lang, rng)
            if place == "cell":
                text = (
                    f"{symbol}{text}"
                    if currency in ("USD", "GBP")
                    else f"{text} {symbol}"
                    if rng.random() < 0.7
                    else f"{symbol} {text}"
                )
            return Value(text)
        form = {
            "EUR": '#,##0.00 "€"',
            "USD": '"$"#,##0.00',
            "GBP": "[$£-809]#,##0.00",
            "CHF": "[$CHF] #,##0.00",
        }[currency]
        if place == "cell":
            return Value(amount_text(value, lang, rng) + f" {symbol}")
        return Value(value, form if place == "format" else "#,##0.00", formula_text)

    rows: list[list[Value]] = []
    merged: list[str] = []
    n_titles = int(rng.integers(0, 4))
    for _ in range(n_titles):
        rows.append([Value(words["title"])])
    if n_titles and kind == "xlsx" and has("merged title", 0.7):
        merged.append(f"A1:{chr(64 + len(head))}1")
    if place == "sentence":
        rows.append([Value({"en": "All prices in", "de": "Alle Preise in", "fr": "Tous les prix en", "es": "Todos los precios en",
                            "it": "Tutti i prezzi in", "nl": "Alle prijzen in"}[lang] + f" {currency}")])  # fmt: skip
    if gross or rng.random() < 0.5:
        rows.append([Value(words["gross" if gross else "net"])])
    if rows and rng.random() < 0.5:
        rows.append([])
    first = len(rows) + 2
    body, truth, whole = [], [], 0
    for i, one in enumerate(typed):
        n = int(rng.choice([1, 2, 4, 10])) if qty else 1
        whole += one["price"] * n
        cells = [Value(one["name"])]
        half = one["cpus"] // 2
        cells += {
            "plain": [Value(one["cpus"])], "2x32": [Value(f"2 x {half}")], "sockets": [Value(2), Value(half)],
            "processor": [Value(f"2x AMD EPYC 9{rng.integers(100, 700)}Q ({half} {'Kerne' if lang == 'de' else 'cores'})")],
        }[cores_how]  # fmt: skip
        mem = one["mem_gb"]
        tera = f"{mem / 1024:.3f}".rstrip("0").rstrip(".")
        tera = tera.replace(".", ",") if lang in BY_COMMA else tera
        cells += {
            "heading": [Value(mem)], "text": [Value(f"{mem} GB")],
            "tb": [Value(f"{tera} TB" if mem in (1024, 1536) else f"{mem} GB")], "dimms": [Value(f"{mem // 32} x 32 GB")],
        }[mem_how]  # fmt: skip
        if gpu_how == "two columns":
            cells += [Value(one["gpus"]), Value(one["gpu_type"] or None)]
        elif gpu_how == "4x H100":
            cells += [Value(f"{one['gpus']}x NVIDIA {one['gpu_type']}" if one["gpus"] else words["none"])]
        else:
            cells += [Value(one["gpus"])]
        cells += [Value(one["power_w"])] if power else []
        cells += [Value(f"{rng.integers(2, 9)} weeks")] if extra else []
        cells += [Value(one["price"] * 0.8)] if hidden else []
        cells += [Value(n)] if qty else []
        at = len(cells)
        price = price_cell(one["price"])
        if broken and i == len(typed) - 1:
            price = Value("#REF!", formula="=#REF!*2")
        cells += [price]
        if qty:
            row = first + i
            text = f"={chr(64 + at)}{row}*{chr(65 + at)}{row}" if formula and price.form else ""
            cells += [price_cell(one["price"] * n, text)]
        body.append(cells)
        net = Decimal(str(one["price"])) / (1 + Decimal(str(TAX)) / 100 if gross else 1)
        usd = float((net * Decimal(str(RATES[currency]))).quantize(Decimal("0.01"), ROUND_HALF_UP))
        truth.append({"name": one["name"], "cpus": one["cpus"], "mem_gb": mem, "gpus": one["gpus"], "price_usd": usd,
                      "gpu_type": one["gpu_type"] if gpu_how != "count" else ""} | ({"power_w": one["power_w"]} if power else {}))  # fmt: skip
    rows += [[Value(text) for text in head], *body]
    if switch:
        line: list[Value] = [Value(None)] * len(head)
        line[0] = Value(words["switch"])
        line[-2 if qty else -1] = price_cell(9500.0)
        if qty:
            line[-3], line[-1] = Value(2), price_cell(19_000.0)
        rows.append(line)
    if qty and rng.random() < 0.6:
        line = [Value(None)] * len(head)
        line[0], line[-1] = Value(words["sum"]), price_cell(whole + (19_000.0 if switch else 0))
        rows.append(line)
    if has("a remark beneath", 0.4):
        rows += [[], [Value("* " + {"de": "Lieferung frei Haus"}.get(lang, "Delivered duty paid"))]]
    if turned:
        table = rows[first - 2 :]
        width = len(head)
        rows = rows[: first - 2] + [[row[n] if n < len(row) else Value() for row in table if row] for n in range(width)]
    sheet = Sheet("Offer" if lang == "en" else "Angebot", rows, merged)
    if hidden and not turned:
        sheet.hidden_columns = [head.index(words["hidden"]) + 1]
    elif hidden:
        sheet.hidden_rows = [first - 1 + head.index(words["hidden"])]
    sheets = [sheet]
    if kind != "csv" and has("a cover sheet", 0.3):
        sheets.insert(0, Sheet("Cover", [[Value(words["title"])], [Value("University")], [Value("2026-11-20")]]))
    path = folder / f"office-{seed:04d}.{kind}"
    {"xlsx": write_xlsx, "ods": write_ods, "csv": write_csv}[kind](sheets, path, uncalculated)
    return Case(seed, path, truth, traits, currency)


def write_csv(sheets: list[Sheet], path: Path, uncalculated: bool) -> None:
    """Write what Excel saves in Europe: semicolons, Windows-1252 where it can."""
    width = max(len(row) for row in sheets[-1].rows)
    lines = [
        ";".join([*(str(c.value) if c.value is not None else "" for c in row), *[""] * (width - len(row))])
        for row in sheets[-1].rows
    ]
    text = "\r\n".join(lines) + "\r\n"
    path.write_bytes(text.encode("cp1252", errors="replace"))


def write_xlsx(sheets: list[Sheet], path: Path, uncalculated: bool) -> None:
    """Write a workbook with what a spreadsheet program would have calculated beside each formula."""
    from openpyxl import Workbook
    from openpyxl.utils import get_column_letter

    book = Workbook()
    book.remove(book.active)
    known: dict[tuple[int, str], Any] = {}
    for number, one in enumerate(sheets, 1):
        sheet = book.create_sheet(one.title)
        for r, row in enumerate(one.rows, 1):
            for c, value in enumerate(row, 1):
                cell = sheet.cell(r, c)
                cell.value = value.formula or value.value
                if value.formula:
                    known[number, cell.coordinate] = value.value
                if value.form:
                    cell.number_format = value.form
        for merged in one.merged:
            sheet.merge_cells(merged)
        for column in one.hidden_columns:
            sheet.column_dimensions[get_column_letter(column)].hidden = True
        for row in one.hidden_rows:
            sheet.row_dimensions[row].hidden = True
    book.save(path)
    if known and not uncalculated:
        _calculate(path, known)


def _calculate(path: Path, known: dict[tuple[int, str], Any]) -> None:
    with zipfile.ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    for (number, cell), value in known.items():
        name = f"xl/worksheets/sheet{number}.xml"
        text = parts[name].decode()
        kind = ' t="e"' if isinstance(value, str) else ""
        pattern = rf'<c r="{cell}"((?: s="\d+")?)[^>]*><f>(.*?)</f><v\s*/?>(?:</v>)?</c>'
        text = re.sub(
            pattern,
            lambda m, k=kind, v=value, c=cell: f'<c r="{c}"{m[1]}{k}><f>{m[2]}</f><v>{v}</v></c>',
            text,
        )
        parts[name] = text.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)


def write_ods(sheets: list[Sheet], path: Path, uncalculated: bool) -> None:
    """Write an OpenDocument spreadsheet, amounts with a currency as LibreOffice does."""
    from odfdo import Cell, Column, Document, Row, Table

    document = Document("spreadsheet")
    document.body.clear()
    for one in sheets:
        table = Table(one.title)
        width = max(len(row) for row in one.rows)
        for n in range(1, width + 1):
            column = Column()
            if n in one.hidden_columns:
                column.set_attribute("table:visibility", "collapse")
            table.append(column)
        for row in one.rows:
            line = Row()
            for value in row:
                codes = [
                    code
                    for code, mark in (("CHF", "CHF"), ("EUR", "€"), ("GBP", "£"), ("USD", "$"))
                    if mark in value.form
                ]
                if codes:
                    text = f"{value.value} {codes[0]}"
                    line.append(Cell(value.value, text=text, cell_type="currency", currency=codes[0], formula=None))
                elif value.value is None:
                    line.append(Cell())
                else:
                    line.append(Cell(value.value))
            table.append(line)
        document.body.append(table)
    document.save(str(path))


def answer(found: QuoteFile, case: Case) -> dict[str, Any]:
    """Give what the errors ask for: only options that they name."""
    asked = " ".join(str(one) for one in found.errors)
    given: dict[str, Any] = {}
    if "--rate" in asked or "--currency" in asked:
        given["rates"] = {code: rate for code, rate in RATES.items() if code != "USD"}
    if "--currency" in asked:
        given["currency"] = case.currency
    if "--tax" in asked:
        given["tax_percent"] = TAX
    if "--decimal" in asked:
        given["decimal"] = "comma" if set(case.traits) & BY_COMMA else "point"
    return given


def is_wrong(found: QuoteFile, case: Case) -> str:
    """Say where a quote table is not the truth; empty where it is, or where there is none."""
    rows = found.quotes.to_dict(orient="records")
    if [row["name"] for row in rows] != [row["name"] for row in case.truth]:
        return f"names {[row['name'] for row in rows]}"
    for row, truth in zip(rows, case.truth, strict=True):
        for key, value in truth.items():
            if row.get(key) != value:
                return f"{row['name']}: {key} is {row.get(key)}, not {value}"
    return ""


def judge(case: Case) -> tuple[str, str]:
    """Return how a file is read, and why."""
    # A rate is always needed for a foreign currency: it is given, as a study would give it.
    given: dict[str, Any] = {"rates": {code: rate for code, rate in RATES.items() if code != "USD"}}
    how = ""
    for _ in range(3):
        try:
            found = read_quote_file(case.path, OfferReading(**given))
        except TableError as error:
            return "refused", str(error)
        if not found.errors:
            wrong = is_wrong(found, case)
            if wrong:
                return "wrong", wrong
            guesses = [one for one in found.findings if one.severity == "guess" and one.column not in ("", "category")]
            others = [one for one in guesses if "names of products" not in one.allowed]
            return how or ("guessed" if others else "names" if guesses else "read"), ""
        more = {key: value for key, value in answer(found, case).items() if key not in given}
        if not more:
            return "refused", str(found.errors[0])
        given |= more
        how = "asked"
    return "refused", str(found.errors[0])


def measure(seeds: range, folder: Path, show: bool = False) -> Counter[str]:
    """Draw files and count how they are read."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        case = draw(seed, folder)
        how, why = judge(case)
        counts[how] += 1
        if show or how == "wrong":
            print(f"{case.path.name}  {how:8} {why[:150]}  [{', '.join(case.traits)}]")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        counts = measure(range(given.first, given.first + given.count), folder, given.show)
    total = sum(counts.values())
    for how in ("read", "names", "guessed", "asked", "refused", "wrong"):
        print(f"{how:8} {counts[how]:4}  {counts[how] / total:.0%}")


if __name__ == "__main__":
    main()
