"""Who makes an offer, where, and under which numbers: companies, addresses, registers, banks; none of it is a price."""

from __future__ import annotations

import functools
import re

from procure.sheets.headings import plain_words
from procure.sheets.lines import is_optional, kind_of
from procure.sheets.units import unit_of
from procure.sheets.words import MACHINE, TAX, folded, pattern, themed

_CUT = re.compile(r"\s*(?:[,;|·•\n]|\s[-–—]\s|\s/\s)\s*|\s+(?=[A-Z][\w.]{1,12}: )")
_NAME = r"(?:C/|[A-Z][\w'’.-]*|[a-z]{1,3}\.|[a-z]'[A-Z]\w*|\d[A-Z]\w+)"
_JOINS = (
    r"(?:&|\+|and|und|et|y|e|i|og|och|ja|de|du|la|le|les|des|del|dell\w*|di|da|do|dos|das|van|der|den|het|for|fur"
    r"|of|in|am)"
)
_NAMES = rf"{_NAME}(?:[ -]+(?:{_JOINS}[ -]+)*{_NAME})*"
_LEGAL = pattern("legal_forms").pattern
_FIRM = re.compile(rf"(?:[\w ]{{2,20}}: ?)?{_NAMES}(?: {_JOINS})* (?:{_LEGAL})(?: (?:{_LEGAL}))?(?: \([\w ]+\))?")
_POSTCODE = r"(?:[A-Z]{1,3}[- ])?(?:\d{4,6}|\d{3} \d{2}|\d{2}-\d{3}|\d{4}-\d{3}|\d{4} [A-Z]{2}|[A-Z]\d\d ?[A-Z]\w{3})"
_PLACE = re.compile(
    rf"{_POSTCODE} {_NAMES}(?: \([\w ]+\))?(?: \d{{1,2}})?|(?:{_NAMES} )?[A-Z]{{2}} \d{{5}}(?:-\d{{4}})?"
    rf"|(?:{_NAMES} )?(?:\({_NAMES}\) )?[A-Z]{{1,2}}\d\w? ?\d[A-Z]{{1,2}}(?: \d[A-Z]\d)?"
    rf"|{_NAMES} \({_NAMES}\) [A-Z]\d[A-Z] ?\d[A-Z]\d|[A-Z]\d\d ?[A-Z]\w{{3}}"
)
_STREET = re.compile(
    rf"{_NAMES}(?: [a-z]+){{0,2}}\.? \d{{1,4}} ?[a-zA-Z]?(?:[/-]\d+\w?)?\.?|\d{{1,5}}\w? (?:[a-z]+\.? )?{_NAMES}"
    r"|\d{1,2}(?:o|a|e|er)(?: \w+)?"
)
_CODED = re.compile(r"[^\d+(]*?[\s:.#-]*([(+]?(?:\b[A-Z]{1,5}[-/ ]?)?\d[\dA-Z ()./-]*)(?: ?\([\w .]+\))?")
_LABEL = re.compile(r"^[^\W\d][\w ]{1,24} ?: (?=.)")
_BESIDE = r"\d\s*([^\W\d_]{1,4}|[€$£¥])\b|\b([A-Za-z]{2,3}|[€$£¥])\.?\s*\d"
"""What stands beside a number."""
_IN_NUMBERS = {"no", "na", "1000"}
_DATE = re.compile(r"(?:[\d ./-]*\b(?:19|20)\d\d\b[\d ./-]*|\d{1,2}[./-]\d{1,2}[./-]\d{2,4})")
_GROUPED = re.compile(r"\d{1,3}(?:[ .]\d{3})+")


def without_letterhead(text: str) -> str:
    """Leave out the parts of a text that name a company, its address, or its number in a register, bank or network.

    A street counts as one right before a place with its postcode, or if it is called so; a person behind a label. A
    part that may be about amounts stays: prices, discounts, rents, used goods, money, percentages, numbers of nodes.
    """
    text = pattern("capital", re.I).sub(" ", folded(text))
    text = re.sub(rf",\s*(?=(?:{_LEGAL})(?:\s*[,;|·•]|\s+[-–—]\s|\s*$))", " ", text)
    parts = [one for one in _CUT.split(text.strip()) if one]
    bare = [one if may_weigh(one) else _LABEL.sub("", one) for one in parts]
    anchors = [any(not may_weigh(one) and _is_anchor(one) for one in pair) for pair in zip(parts, bare, strict=True)]
    if not any(anchors):
        return text
    places = [_PLACE.fullmatch(one) is not None for one in bare]
    is_left = [
        may_weigh(whole)
        or not (anchors[n] or _is_beside(bare[n], whole, _is_before(n, places, anchors), anchors != places))
        for n, whole in enumerate(parts)
    ]
    return ", ".join(one for one, left in zip(parts, is_left, strict=True) if left)


@functools.lru_cache(maxsize=4096)
def may_weigh(part: str) -> bool:
    """Tell whether a part of a letterhead may be about amounts."""
    plain = plain_words(re.sub(r"\bSt\. (?=[A-Z])", " ", part))
    beside = (one[1] or one[2] for one in re.finditer(_BESIDE, part))
    return (
        any(unit is not None and unit.kind == "money" for unit in map(unit_of, beside))
        or re.search(r"[%€$£¥]", part) is not None
        or pattern("prices", re.I).search(plain) is not None
        or kind_of(part) == "discount"
        or pattern("rents").search(plain) is not None
        or pattern("several").search(plain) is not None
        or re.search(rf"\b\d+\W*x?\W*{MACHINE}\b", plain) is not None
        or not set(plain.split()).isdisjoint(themed("second_hand", "weighing", "nothing", "free", "sums") - _IN_NUMBERS)
    )


def _is_anchor(part: str) -> bool:
    """Tell whether a part is a company, a bank, a place with its postcode, or a number of a register or the like."""
    if _FIRM.fullmatch(part):
        return True
    if _PLACE.fullmatch(part) or pattern("banks", re.I).search(part):
        return not _has_things(part) and re.search(r"\d{7}|\d [a-z]|(?<![A-Z\d] )\b\d{3}$", part) is None
    if pattern("registers", re.I).search(part) and re.search(r"\d", part) is None:
        return kind_of(part) is None
    match, label = _CODED.fullmatch(part), plain_words(re.sub(r"\d.*", "", part))
    if match is None or len(label.split()) > 5 or kind_of(label) is not None:
        return False
    code, n = match[1].strip(), len(re.findall(r"\d", match[1]))
    if pattern("official_labels").search(label):
        return n > 4 or pattern("small_labels").search(label) is not None
    if _DATE.fullmatch(code) or _GROUPED.fullmatch(code) or _has_things(label):
        return False
    return n > 6 and (code[0] == "0" or not code.isdigit())


def _is_before(n: int, places: list[bool], anchors: list[bool]) -> bool:
    """Tell whether a place follows a part, at most one street between them."""
    return any(places[n + 1 : n + 2]) or (any(places[n + 2 : n + 3]) and not anchors[n + 1])


def _is_beside(part: str, whole: str, is_before: bool, has_more: bool) -> bool:
    """Tell whether a part beside an anchor is a street, or a name: before a place, or behind a label."""
    is_street = _STREET.fullmatch(part) is not None
    if is_street and pattern("streets", re.I).search(part) and kind_of(part) is None:
        return True
    if _has_things(part):
        return False
    if re.fullmatch(rf"{_NAME}(?: {_NAME}){{0,3}}", part) and re.search(r"\d", part) is None:
        return (is_before and has_more) or part != whole
    return is_before and is_street


def _has_things(text: str) -> bool:
    """Tell whether a text names what is offered, or may be about its amount."""
    plain = plain_words(re.sub(r"\bSt\. (?=[A-Z])", " ", text))
    things = themed("parts", "machines", "services", "goods", "stale") - themed("calls", "glue", "letters")
    return (
        kind_of(text) is not None
        or is_optional(text)
        or pattern("weighs").search(re.sub(rf"\bno\b|\b{TAX}\b", " ", plain)) is not None
        or any(word in things or word[-6:] in things or word[-7:] in things for word in plain.split())
    )
