"""Every word of an offer is known, or is asked about: what can change an amount needs no list of its own.

A sheet is a closed world. Once its tables are read, each cell with content was read as a value or a heading, or holds
nothing but words of ``vocabulary.toml``, which change no amount, or is quoted by a finding.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import replace

from procure.sheets import lines as other
from procure.sheets.cells import IN_ALL, NO_GPU, NOTHING, cores_of, counted, gpu_pools, without_models, without_sum
from procure.sheets.described import written_plainly
from procure.sheets.findings import Finding, Severity
from procure.sheets.grid import Cell, Grid, row_label
from procure.sheets.headings import NUMBERS, amount_words, heading_of, heading_words, plain_words
from procure.sheets.letterhead import without_letterhead
from procure.sheets.lines import Line
from procure.sheets.notes import OWN
from procure.sheets.prices import currency_in
from procure.sheets.rows import EXAMPLE, SEVERAL
from procure.sheets.tables import Table
from procure.sheets.totals import agreeing
from procure.sheets.units import Unit, amount_of, figure, tax_of, unit_of, with_codes, without_tax
from procure.sheets.words import MACHINE, NODE, PER, PIECE, folded, pattern, themed

_TEXTS = {"name", "processor", "gpu_type", "mem_gb", "gpus", "vendor", "category", "lot"}
"""Columns in whose cells words stand beside what is read, or are taken over; of others each word is read."""
_CHECKED = {"_measure", "_price_unit", "_currency", "_discount", "_kind", "_per"}
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[€£$¥≥≤<>~≈±½¼¾%‰?=→]")
_COUNTED = re.compile(rf"(?<!epyc )(?<!xeon )(?<!gold )(?<!platinum )(?<!silver )\b\d+\W*x?\W*{MACHINE}\b", re.I)
"""A number of nodes, and not of their processors' model: what stands beside it may be that of all."""
_COUNT = re.compile(r"^\s*([2-9]|\d\d+)[\s.]+([^\W\d_]{2,})|[(\[]\s*(\d+)(\s*)[)\]]")
"""A number before a server's name, or alone in brackets."""
_PRICE = pattern("prices", re.I)
_WEIGHS = pattern("weighs")
"""What makes a sentence one that may be about amounts; of others a word that is not known is a warning."""
_PHRASES = pattern("phrases", re.I)
_OF_TAX = pattern("of_tax", re.I)
_OFFICIAL = pattern("official", re.I)
"""Numbers of taxes, banks and registers, as letters have them."""
_JOINED = re.compile(r"\bje(?= \d+[ -]*(?:kern|core))|(?<=cores )each\b|(?<=kerne )je\b", re.I)
"""What stands beside the cores of each of several processors."""
_EACH_NODE = re.compile(rf"(?:\b{PER}\b|/|\ba|\bna)\s*(?:{MACHINE})\b\.?|\beach\b", re.I)
_EACH_PART = re.compile(rf"(?:\b{PER}\b|/)\s*(?:gpus?|cores?|kerne?|cpus?|sockets?|sockel|coeurs?)\b", re.I)
_IN_CURRENCY = re.compile(
    r"\b(?:in|en|i|v|ve|w|em)\s+([^\s,.;()]+)|\b(euroina|euroissa|euroban|forintban)\b"
    r"|\(([€£$]|[A-Z]{3})(?= ?(?:HT\b|hors|net|excl|ex\b|\)))"
)
_NO_NODE = re.compile(r"\bfin de mois\b|\bstandard (?=(?:\w+ )?warranty\b)", re.IGNORECASE)
"""What is no fine node, and no standard one."""
_LASTS = pattern("lasts")
"""What a time beside prices may be that of."""


_EVERYWHERE = ("machines", "parts", "services", "makers", "papers", "columns", "glue")
_ON_PRICES = ("services", "papers", "glue", "of_prices")
"""What may stand beside the word price: no part or machine, of which a price may be."""


def known_words() -> frozenset[str]:
    """Return the words that change no amount wherever they stand."""
    return themed(*_EVERYWHERE)


def is_known_word(word: str) -> bool:
    """Tell whether a word is one of offers in a language that is read, or a currency."""
    known = known_words() | heading_words() | themed("letters", "in_names", "sums")
    return _is_known(folded(word).casefold(), known) or unit_of(word) is not None


_LONGEST_WORD = 60
"""Longer than any compound of an office; what has more letters is no word."""


_LONGEST_NAME = 12
"""More words are a sentence, not the name of a line."""

_LEAST = 100
"""From this on a number outside of all tables may be an amount of money."""

_STEMS_OF_FIGURES = tuple(sorted(themed("stems_of_figures")))
_INFLECTED = re.compile(
    f"(?:{'|'.join((*_STEMS_OF_FIGURES, *sorted(themed('stems_of_machines'))))})(?:{pattern('inflections').pattern})?"
)


def _is_known(word: str, known: frozenset[str]) -> bool:
    """Tell whether a word, or each part of a compound, is known."""
    if len(word) > _LONGEST_WORD:
        return False
    if word in known or (
        len(word) > 4 and any(word.removesuffix(end) in known for end in ("s", "n", "e", "en", "es", "em"))
    ):
        return True
    if _INFLECTED.fullmatch(word):
        return True
    return any(
        {word[:n], word[:n].removesuffix("s")} & (known if n > 3 else themed("machines"))
        for n in range(3, len(word) - 2)
        if _is_known(word[n:], known)
    )


def _is_unit(word: str) -> bool:
    unit = unit_of(word)
    return unit is not None and unit.kind != "money"


def _is_placed(text: str, number: re.Match[str], before: str, end: int) -> bool:
    """Tell whether a number in a table's text is that of a model or of a version, or counts the word behind it."""
    gap = text[max(end, 0) : number.start()]
    if re.search(r"[\w#°./-]$|\d\s*[×*]\s*$", text[: number.start()]) or re.match(
        r"\s*[-x×*]?\s*[^\W\d_]|-|\s*[×*]\s*\d", text[number.end() :]
    ):
        return True
    is_name = bool(before) and not gap.strip() and not before[0].isdigit()
    return is_name and (len(before) == 1 or not _is_known(before.casefold(), themed("services", "glue")))


def _is_code(word: str, behind: str) -> bool:
    """Tell whether capitals before a hyphen and a number, or the hyphen alone, begin a model: ``SYS-421GE``."""
    is_short = word.isupper() and 1 < len(word) < 5 and unit_of(word) is None
    others = themed("no_codes", "stale", "second_hand", "nothing", "services")
    is_word = word.casefold() in others or word in others
    return is_short and not is_word and re.match(r"-(?:\d{3}|[A-Z]{1,2}(?:\d|\b)|$)", behind) is not None


def strange_words(text: str, known: frozenset[str], in_table: bool = False) -> list[str]:
    """Return the words of a text that may change what an amount means: all but those that are known not to.

    A number is known beside a unit or a word that is; one of nodes or of money is not. A code (``R6625``) is a name.
    """
    text = _PHRASES.sub(" ", folded(text))
    found = [" ".join(one[0].split()) for one in _COUNTED.finditer(text.casefold())]
    before, end = "", -1
    in_code = False
    for match in _TOKEN.finditer(text):
        token, word = match[0], match[0].casefold()
        touches = match.start() == end
        follows = text[match.end() : match.end() + 1].isdigit()
        if token[0].isdigit():
            in_code = (touches or _is_code(before, text[end : match.start()])) and in_code
            if re.search(r"[.,]\d\d$", token) and not touches and not re.match(r"\s*[^\W\d_]", text[match.end() :]):
                found.append(token)  # cents
            elif in_table and not _is_placed(text, match, before if end >= 0 else "", end):
                found.append(token)
        elif touches and before[-1:].isdigit():
            is_model = token.isupper() and (in_code or len(before) >= 4)
            in_code = in_code or is_model
            if not (is_model or word in themed("behind") or _is_unit(word)):
                found.append(before + token)
        elif (in_table and _is_code(token, text[match.end() :][:4])) or (
            follows and (token.isupper() or _is_known(word, known) or (len(word) < 3 and word not in ("x", "je", "ab")))
        ):
            in_code = True
        else:
            in_code = False
            counts = word == "x" and before[-1:].isdigit()
            is_letter = len(token) == 1 and token.isupper()
            is_unit = before[-1:].isdigit() and (word in themed("apart") or _is_unit(word))
            if not (counts or is_letter or is_unit or _is_known(word, known)):
                found.append(token)
        before, end = token, match.end()
    return [one for one in dict.fromkeys(found) if not set(plain_words(one).split() or [one]) <= known]


class Ledger:
    """Accounts for every cell of a sheet once its tables are read."""

    _is_held = False
    """The row is no server, and a total that agrees holds its amount."""

    def __init__(self, grid: Grid, tables: list[Table], harmless: frozenset[str]) -> None:
        """Take a sheet as a person sees it, its tables, and the words that the user knows to change nothing."""
        self.grid, self.tables, self.harmless = grid, tables, harmless
        self.known, self.on_prices = known_words() | harmless, themed(*_ON_PRICES) | harmless
        self.on_names = themed("machines", "parts", "makers", "papers", "in_names") | harmless
        self.found: list[Finding] = []
        self.remarks: list[tuple[str, Cell]] = []
        self._is_signed = False
        """Names and places may stand here: above all tables, beneath a greeting."""

    def account(self, findings: list[Finding], lines: list[Line]) -> list[Finding]:
        """Return what must be asked, or said, of cells that neither were read nor have a finding so far."""
        self._asked = {(one.sheet, one.cell) for one in findings if one.severity == "error"}
        for one in findings:
            if one.severity == "error":
                self._asked |= {(sheet or one.sheet, cell) for sheet, cell in _QUOTED.findall(one.allowed)}
        self._said = {(one.sheet, one.cell) for one in findings}
        self._lines = {(line.sheet, line.cell): line for line in lines}
        in_tables: set[int] = set()
        for table in self.tables:
            in_tables |= {id(cell) for row in [table.top, table.numbering, *table.rows, *table.parts] for cell in row}
            self._table(table)
        self._sentence(Cell("", self.grid.sheet), [], is_title=True)
        self._is_signed = True
        for row in self.grid.rows:
            for cell in row:
                if cell.note and cell.note not in OWN:
                    words = strange_words(cell.note, self.known) or sorted(_figures_in(folded(cell.note)))
                    self._ask(replace(cell, value=f"{cell.shown} (note: {cell.note})", unit=""), "", words)
            self._text_row([cell for cell in row if id(cell) not in in_tables and not cell.is_empty])
        asked = {one.cell for one in self.found if one.severity == "error"}
        self.remarks = [one for one in self.remarks if one[1].address not in asked]
        return self.found

    def _say(self, severity: Severity, cell: Cell, column: str, text: str, harmless: str = "") -> None:
        if (self.grid.sheet, cell.address) not in self._asked:
            self.found.append(Finding(severity, self.grid.sheet, cell.address, column, cell.shown, text, harmless))

    def _ask(self, cell: Cell, column: str, words: list[str]) -> bool:
        """Ask about words that are not known, and tell whether there are any."""
        words = [word for word in words if not set(plain_words(word).split() or [word]) <= self.harmless]
        quoted = ", ".join(map(repr, words))
        is_name = column in ("name", "") and len(re.findall(r"[^\W\d_]+", cell.text)) <= _LONGEST_NAME
        if words and self._is_held and is_name and not re.search(r"[^\W\d_]{3}[.!]$", cell.text):
            self._say("guess", cell, column, f"{quoted}: not known; the amount beside it is in a total, to the cent")
        elif words:
            asked = f"{quoted}: not known; change the cell, or say that it changes no amount (--harmless WORD)"
            self._say("error", cell, column, asked, " ".join(words))
        return bool(words)

    # Tables

    def _hangs(self, label: str) -> bool:
        """Tell whether a discount's words may say on what it hangs: no total shows that it is granted."""
        words = pattern("on_all").sub(" ", plain_words(re.sub(r"[\d.,]+\s*%", " ", label)))
        strange = [one for one in strange_words(words, self.known) if other.kind_of(one) != "discount"]
        return other.kind_of(label) == "discount" and bool(strange)

    def _table(self, table: Table) -> None:
        if table.is_ours:
            for row in table.rows:
                for place, cell in enumerate(row):
                    if not cell.is_empty and (place >= len(table.titles) or table.titles[place].is_empty):
                        self._say("error", cell, "", "stands under no heading; delete it")
            return
        places = {n: "_number" for n, title in enumerate(table.titles) if heading_of(title.text).column == "_number"}
        places |= {place: name for name, place in table.columns.items()}
        self._headings(table, places)
        said = [plain_words(title.text) in themed("notes") for title in table.titles]
        notes = {n for n, is_note in enumerate(said) if is_note and n not in places}
        names: dict[str, Cell] = {}
        is_told = {"_kind", "_per"} <= set(table.columns)  # its lines are ours: what each is stands beside it
        held, sums = agreeing(table)
        last = max((n for n, row in enumerate(table.rows) if _has_amount(table, row)), default=-1)
        for n, row in enumerate(table.rows):
            if any(cell.address in table.optional for cell in row):
                continue
            self._is_held = False
            is_line = any((self.grid.sheet, cell.address) in self._lines for cell in row if not cell.is_empty)
            if not is_line and not _has_amount(table, row) and all(not cell.is_number for cell in row):
                texts = [cell for cell in row if not cell.is_empty]
                if len(texts) <= 2:
                    if n > last:
                        self._text_row(texts)
                    else:
                        for cell in texts:
                            self._ask(cell, "", strange_words(cell.text, self.known))
                    continue
            figures = (table.cell(row, one) for one in ("cpus", "mem_gb", "_cores_per_socket", "_sockets", "processor"))
            is_server = not is_line and any(one is not None and not one.is_empty for one in figures)
            is_server = is_server or any((cell.address, cell.text) in table.configured for cell in row)
            if not is_server and not is_line and other.is_optional(row_label(row)):
                continue  # it is not counted, and that is said
            is_held = id(row) in sums or (is_line and id(row) in held)
            self._is_held = is_held and not is_server and not self._hangs(row_label(row))
            for place, cell in enumerate(row):
                column = places.get(place, "")
                if place in notes and _figures_in(folded(cell.text)):
                    self.remarks.append((self.grid.sheet, cell))
                head = table.titles[place].text if place < len(table.titles) else ""
                is_tax = not column and other.is_total(head) and other.is_tax(head) and "%" in cell.text
                if is_tax and re.fullmatch(r"\d{1,2}(?:[.,]\d+)? ?%", cell.text):
                    continue
                if not cell.is_empty and not (is_told and column == "name") and row[0].text != EXAMPLE:
                    self._cell(table, cell, column, names if is_server else None)
        self._is_held = False
        self._columns(table, places)
        if names:
            cell = next(iter(names.values()))
            listed = ", ".join(f"{word!r} ({one.address})" for word, one in names.items())
            self._say(
                "guess", cell, "name", f"{listed}: taken as names of products; if one changes what is bought, say so"
            )

    def _headings(self, table: Table, places: dict[int, str]) -> None:
        titles = [plain_words(title.text) for title in table.titles]
        alone = {title.address for title in table.titles} - table.heads
        for cell in table.top:
            text = folded(cell.text)
            is_unit = unit_of(text.strip("()[] ")) is not None
            told = rf"\b{PER}\b|/|{pattern('rents').pattern}"
            is_told = cell.address in table.settled and not re.search(told, _EACH_NODE.sub(" ", text), re.I)
            if cell.is_empty or is_told or heading_of(cell.text).column or is_unit:
                continue
            bare = plain_words(re.sub(r"[(\[{][^)\]}]*[)\]}]", " ", text))
            own = table.titles.index(cell) if cell in table.titles else -1
            if any(bare in title and bare != title and places.get(n) for n, title in enumerate(titles) if n != own):
                continue  # one of two rows of headings that are known together
            if cell.address in alone:
                self._sentence(cell, [])
                continue
            text = _EACH_PART.sub(" ", _EACH_NODE.sub(" ", _OF_TAX.sub(" ", without_tax(text))))
            if _EACH_PART.search(cell.text) or tax_of(cell.text) is not None:
                text = _PRICE.sub(" ", text)
            words = strange_words(text, self.known | themed("in_headings", "measures", "features"))
            self._ask(cell, "", [word for word in words if unit_of(word) is None])
        for place, name in places.items():
            for part in re.findall(r"[(\[{]([^)\]}]*)[)\]}]", table.titles[place].text if name not in NUMBERS else ""):
                pieces = [one for one in re.split(r"[,;/ ]+", part) if unit_of(one) is None]
                pieces = [one for one in pieces if name != "_discount" or one != "%"]
                bare = without_tax(_EACH_NODE.sub(" ", " ".join(pieces)))
                self._ask(table.titles[place], "", strange_words(bare, self.known | themed("counts")))

    def _columns(self, table: Table, places: dict[int, str]) -> None:
        """Ask about numbers in columns that are not read, where nothing tells that they are no money."""
        rows = [row for row in table.rows if _has_amount(table, row)]
        for place in range(max(map(len, rows), default=0)):
            cells = [row[place] for row in rows if place < len(row) and figure(row[place]) is not None]
            if not cells or place in places:
                continue
            values = [figure(cell) or 0 for cell in cells]
            head = table.titles[place] if place < len(table.titles) else Cell("")
            if head.is_empty:
                if values != list(range(1, len(values) + 1)):
                    self._say("error", cells[0], "", "stands under no heading; say what it is, or delete it")
                continue
            said, text = heading_of(head.text), folded(head.text).casefold()
            if head.address in table.settled:
                continue
            counts = said.column == "name" and values != list(range(1, len(values) + 1))
            counts = counts and re.search(rf"\b{MACHINE}\b", text.replace("item", "")) is not None
            is_money = said.unit is not None and said.unit.kind == "money" and said.column in _FIGURES
            if (
                (said.column and not is_money and not counts)
                or not themed("measures").isdisjoint(plain_words(head.text).split())
                or _OF_TAX.search(text)
                or _EACH_PART.search(text)
                or tax_of(text) is not None
            ):
                continue
            units = [said.unit, unit_of(text.split()[-1].strip("()[]")), *(_unit(cell) for cell in cells)]
            kinds = {unit.kind for unit in units if unit is not None}
            if kinds and kinds <= {"power", "memory", "height"}:
                continue
            is_count = set(plain_words(text).split()) <= themed("in_headings", "machines")
            if table.settled and "money" not in kinds and is_count and all(value == int(value) for value in values):
                continue  # one, a quantity and a total are told: a number of chassis is no amount
            if (
                "money" in kinds
                or re.search(rf"\b{MACHINE}\b", text)
                or (not kinds and not themed("in_headings").isdisjoint(plain_words(text).split()))
                or not (kinds or all(value == int(value) and 0 <= value < 100 for value in values))
            ):
                self._say(
                    "error", head, "", "heads amounts that may be paid besides; write their unit, or delete the column"
                )

    def _cell(self, table: Table, cell: Cell, column: str, names: dict[str, Cell] | None) -> None:
        """Ask about a cell beneath a heading; ``names`` are those of products so far, None in a row of no server."""
        text = cell.text
        if cell.problem:
            self._say("warning", cell, "", "is not read")
            return
        if (name := table.configured.get((cell.address, cell.text))) is not None:
            rest = folded(written_plainly(str(cell.value)))
            for part in [folded(name), *folded(name).split("; ")]:
                rest = rest.replace(part, " ", 1)
            rest = IN_ALL.sub(" ", without_sum(rest))
            rest = pattern("no_gpu", re.I).sub(" ", _JOINED.sub(" ", re.sub(r"\b\d{1,2}\s*[x×]\s*", " ", rest)))
            self._ask(cell, column, strange_words(without_models(rest), self.known | themed("in_cells"), in_table=True))
            if column != "name":
                return
            text = name if name in text else name.replace(";", ",")  # the quote table writes a comma as ;
            cell = replace(cell, value=name)
        if cell.is_number and cell.unit != "%" and _unit(cell) is None:
            self._ask(cell, column, strange_words(cell.unit, frozenset()))
        is_text = not column or column in _TEXTS or (column[0] == "_" and column not in _CHECKED)
        if not is_text or cell.is_number or plain_words(text) in NOTHING or other.is_total(text):
            return
        if plain_words(text) in other.INCLUDED:
            return
        if column in ("gpus", "gpu_type") and (gpu_pools(text) or NO_GPU.fullmatch(plain_words(text))):
            return
        if column != "name" and amount_of(text) is not None:
            return
        line = self._lines.get((self.grid.sheet, cell.address))
        known = self.known if column != "name" or names is None else self.on_names
        if not column and " " in text and not re.search(rf"\b{MACHINE}\b", plain_words(text)):
            known = known | themed("in_cells")
        if line is not None and column == "name":
            text = _EACH_NODE.sub(" ", folded(text))
            if line.kind == "discount":
                text, known = re.sub(r"\d+(?:[.,]\d+)?\s*%", " ", text), (known - themed("parts")) | themed("discounts")
        if line is None and cores_of(text) is not None:
            text = IN_ALL.sub(" ", _JOINED.sub(" ", text))
        if column == "mem_gb":
            text = without_sum(text)
        if column == "gpus":
            text = re.sub(rf"^\s*(\d+)\s*(?:{PIECE})\b\.?(?=\s*\S)", r"\1x", text, flags=re.IGNORECASE)
        if column == "name" and "pack_size" in table.columns:
            text = re.sub(SEVERAL.pattern, " ", _COUNTED.sub(" ", folded(text)), flags=re.IGNORECASE)
        words = strange_words(without_models(counted(text)), known, in_table=column != "_number")
        if line is not None and line.kind == "discount":
            words += sorted(_figures_in(text))
        if known is self.on_names:
            words += re.findall(r"[/&;|*]|\+(?!\s|$|\))|(?<=\s)\+", text)
            if not re.search(rf"\b{MACHINE}\b", plain_words(text)):  # a part of a server, not one
                head = re.split(r"\w*(?:knoten|server)\b", plain_words(re.split(r"\w*\d", text)[0]))[0].split()
                parts = [one for one in head if _is_known(one, themed("parts"))]
                words += [one for one in parts if one not in themed("machines", "makers")]
        if known is self.on_names and "pack_size" not in table.columns:
            known = themed("parts") | {"he"}
            words += [
                one[0] for one in _COUNT.finditer(folded(text)) if not _is_known((one[2] or "").casefold(), known)
            ]
        if column == "name" and names is not None:
            codes = [one for one in words if re.fullmatch(r"[B-DF-HJ-NP-TV-Z]{2,5}", one)]
            codes = [one for one in codes if one not in themed("no_codes") and _unit(Cell("", f"1 {one}")) is None]
            names |= {word: cell for word in codes if word not in names}
            words = [one for one in words if one not in codes]
        proper = [word for word in words if word[0].isupper()]
        is_product = "pack_size" in table.columns or self._is_model(text, proper)
        if column in ("vendor", "lot", "_number"):
            words = [word for word in words if word[0].islower() and not re.search(r"\d", word)]
        elif column in ("name", "gpu_type", "processor") and names is not None and proper == words and is_product:
            names |= {word: cell for word in proper if word not in names}
            return
        self._ask(cell, column, words)

    def _is_model(self, text: str, words: list[str]) -> bool:
        """Tell whether words that are not known stand where a product's name does."""
        before = re.match(r"[^\d]*(?=\d)", folded(text))
        if before is None or not all(word in before[0] for word in words):
            return False
        if re.search(r"[(,;:]|(?<![^\W\d_-])[a-z]", before[0]):
            return False
        parts = [word.casefold()[n:] for word in words for n in range(1, len(word) - 3)]
        parts += [word.casefold()[:n] for word in words for n in range(4, len(word))]
        return not any(part in themed("machines", "parts") and len(part) > 3 for part in parts)

    # Text beside tables

    def _text_row(self, cells: list[Cell]) -> None:
        stated = currency_in(cells)
        cells = [replace(cell, value=stated[1].get(cell.address, cell.text)) for cell in cells] if stated else cells
        cells = [cell for cell in cells if not cell.is_empty]
        for cell in cells:
            if not cell.is_number:
                self._sentence(cell, cells)
            self._is_signed = self._is_signed or pattern("greetings", re.I).search(folded(cell.text)) is not None
        self._amounts_beside(cells)
        if cells and all(cell.is_number for cell in cells):
            self._say("warning", cells[0], "", "stands beside no table and no word; it is not read")

    def _amounts_beside(self, cells: list[Cell]) -> None:
        """Ask about amounts outside of all tables that a label makes a credit, a delivery or the like."""
        label = row_label(cells)
        texts = [cell for cell in cells if re.search(r"[^\W\d_]{3}", cell.text) and amount_of(cell.text) is None]
        if not texts or other.is_total(label):
            return
        for cell in cells:
            read = amount_of(cell.shown) if cell not in texts else None
            value = next(iter(read.values.values())) if read is not None else 0
            is_money = read is not None and read.unit is not None and read.unit.kind == "money"
            is_paid = (other.kind_of(label) and (is_money or value >= _LEAST)) or (is_money and not self.tables)
            if value < 0 or is_paid:
                self.remarks.append((self.grid.sheet, replace(texts[0], value=f"{texts[0].text} {cell.shown}")))

    def _sentence(self, cell: Cell, row: list[Cell], is_title: bool = False) -> None:
        """Ask about a sentence that may be about amounts and has a word that is not known; name any other."""
        text = folded(cell.text)
        text = _OFFICIAL.sub(" ", text if is_title else without_letterhead(text))
        is_amount = amount_of(text) is not None and not _figures_in(text)
        if not text.strip() or other.is_total(text) or is_amount or (cell.note and cell.note in OWN):
            return
        text, of_prices = with_codes(text), _PRICE.search(text) is not None
        for one in _IN_CURRENCY.finditer(text):
            if (unit := unit_of(one[1] or one[2] or one[3])) is not None and unit.kind == "money":
                text = text.replace(one[0], " ")
        of_tax = pattern("but_tax", re.I) if tax_of(text) is None else _OF_TAX
        bare = _EACH_NODE.sub(" ", of_tax.sub(" ", pattern("all_prices", re.I).sub("", without_tax(text))))
        bare = pattern("service_included", re.I).sub(
            lambda one: " " if one[1].casefold() in themed("services") else one[0], bare
        )
        bare, known = _PRICE.sub(" ", bare), self.on_prices if of_prices else self.known | themed("letters")
        if other.is_settled(text):
            bare, known = re.sub(r"\d+(?:[.,]\d+)?\s*%", " ", bare), known | themed("discounts") | themed("settled")
        words = strange_words(bare, known)
        words += [amount for part in re.split(r"[,;|]", bare) if (amount := _bare_amount(part))]
        words += re.findall(rf"\d{{3,}}(?=\s*(?:{_EACH_NODE.pattern}))", text, re.I) if not of_prices else []
        times = [one for one in plain_words(text).split() if one in themed("times")]
        if of_prices and not _LASTS.search(text.casefold()):
            words += times
        if is_title:
            words = [word for word in words if unit_of(word) is None]
        elif not of_prices and not any(one.is_number for one in row):
            words = [word for word in words if not _COUNTED.fullmatch(word)]  # a title: HPC cluster with 10 nodes
        if not words:
            if _figures_in(bare) and not of_prices and not is_title:
                self.remarks.append((self.grid.sheet, cell))
            return
        weighs = _WEIGHS.search(_PHRASES.sub(" ", text).casefold()) is not None or bool(
            set(plain_words(text).split()) & (amount_words() | themed("figures", "weighing"))
        )
        weighs = (
            weighs
            or other.is_optional(text)
            or any(re.search(r"\d", word) or (unit_of(word) is not None and word not in "CGUWcguw") for word in words)
        )
        weighs = weighs and pattern("people", re.I).search(folded(cell.text).strip()) is None
        weighs = weighs or any(one.is_number or "%" in one.text for one in row if one is not cell)
        if weighs:
            self._ask(cell, "", words)
        elif is_title and self.tables:
            if other.is_optional(text) or any(_is_known(one.casefold(), themed("stale")) for one in words):
                self._ask(cell, "", words)
            else:
                self._say("guess", cell, "", f"{', '.join(map(repr, words))}: taken as a name in the sheet's title")
        elif not is_title and not self._is_letter(
            " ".join([*(f"{one.text}:" for one in row[:1] if one is not cell), text]), words
        ):
            self.remarks.append((self.grid.sheet, cell))
        elif (self.grid.sheet, cell.address) not in self._said and not is_title:
            self._say("warning", cell, "", _UNREAD)

    def _is_letter(self, text: str, words: list[str]) -> bool:
        """Tell whether a remark is what letters have: an address, names, a date, who is to be asked."""
        plain = set(plain_words(_NO_NODE.sub(" ", text)).split())
        if _figures_in(text) or not plain.isdisjoint(themed("second_hand")):
            return False
        if pattern("people", re.I).search(text.strip()):
            return True
        label = pattern("labels", re.I).search(text)
        if label and not re.match(r"\s*(?:[a-z]+ )*[a-z]+$", text[label.end() :]):
            return True
        parts = [part for part in re.split(r"[,;!]|\.\s+(?=[^\W\d_a-z])", text) if any(word in part for word in words)]
        has_part = plain & (themed("parts", "machines", "goods") - themed("services") | {"hardware"})
        is_plain = not has_part and pattern("no_terms").search(plain_words(text)) is None
        terms = [is_plain and pattern("terms", re.I).search(one) and _LASTS.search(one.lower()) for one in parts]
        if all(term or pattern("topics", re.I).search(one) for term, one in zip(terms, parts, strict=True)):
            return True
        things = (themed("parts", "services") - themed("calls")) | themed("goods")
        is_thing = plain & things or re.search(rf"\b{NODE}\b", " ".join(plain))
        is_title = self._is_signed and not is_thing and len(words) < 7
        is_title = is_title and re.search(r"[.!]$", re.sub(r"\b(?:s\.r\.o|Lda|Ltd|Inc|Co|a\.s)\.$", "", text)) is None
        is_proper = all(len(word) < 2 or not word[0].islower() for word in words)
        return is_title or (is_proper and pattern("anchors").search(text) is not None)


_UNREAD = "is not read; see whether it changes a price"


def about_remarks(remarks: list[tuple[str, Cell]], harmless: frozenset[str]) -> list[Finding]:
    """Ask about all remarks of a file at once; the answer holds for these remarks only."""
    said = dict.fromkeys((cell.text, f"{sheet}!{cell.address}".strip("!")) for sheet, cell in remarks)
    answer = f"remarks{zlib.crc32(repr([text for text, _ in said]).encode()):08x}"
    if not remarks or answer in harmless:
        return [Finding("warning", sheet, cell.address, "", cell.text, _UNREAD) for sheet, cell in remarks]
    others = ", ".join(f"{text[:70]!r} ({at})" for text, at in list(said)[1:])
    asked = f"may change what is bought, or its price; change the cell, or, if none does, --harmless {answer}"
    asked = f"and {others}: {asked}" if others else asked
    return [Finding("error", remarks[0][0], remarks[0][1].address, "", remarks[0][1].text, asked, answer)]


def _bare_amount(part: str) -> str:
    """Return the number of three digits and more that ends a part of a sentence, right behind what may cost it."""
    match = re.search(r"\w[\W\s]{0,3}(?<![\d.,/-])(\d{1,3}(?:[ .,]\d{3})+|\d{3,7})\s*$", part)
    if match is None or re.fullmatch(r"(?:19|20)\d\d", match[1]):
        return ""
    before = re.split(r"\W+", part[: match.start() + 1].strip())[-1]
    kind = other.kind_of(before)
    is_priced = kind not in (None, "network", "software") or (kind == "network" and len(match[1]) > 3)
    return match[1] if is_priced or re.fullmatch(MACHINE, before.casefold()) else ""


def _figures_in(text: str) -> set[str]:
    """Return the words of a remark that name what is read of a node, of several words, or that multiply amounts."""
    words = plain_words(pattern("kinds_of_nodes", re.I).sub(" nodes ", text)).split()
    found = set(words) & (themed("figures", "weighing") if len(words) > 1 else themed("weighing"))
    return found | {word for word in words if word.startswith(_STEMS_OF_FIGURES) and len(words) > 1}


_FIGURES = NUMBERS - {"price_usd", "_price", "_list_price", "_total"}
_QUOTED = re.compile(r"\((?:([^()!]+)!)?([A-Z]+\d+)\)")


def _unit(cell: Cell) -> Unit | None:
    read = amount_of(cell.shown)
    return read.unit if read is not None else None


def _has_amount(table: Table, row: list[Cell]) -> bool:
    """Tell whether a row has a price, or figures of a node."""
    for name in ("price_usd", "_total", "_list_price", "cpus", "mem_gb"):
        cell = table.cell(row, name) or Cell("")
        if re.search(r"\d", cell.text) and (cell.is_number or len(cell.text) < 40):
            return True
    return False
