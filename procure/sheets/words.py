"""Words that offices use, in one place: alternatives of regular expressions, without accents where they are plain.

English, German, French, Spanish, Italian, Dutch, Swedish, Norwegian, Danish, Finnish, Polish, Czech, Portuguese,
Hungarian; the usual words in Romanian, Slovak, Slovenian and Croatian. What heads a column stands in ``headings.toml``.
"""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from pathlib import Path
from typing import Any


@functools.cache
def vocabulary() -> dict[str, Any]:
    """Return the lists of ``vocabulary.toml`` by their names."""
    return tomllib.loads((Path(__file__).parent / "vocabulary.toml").read_text(encoding="utf-8"))


@functools.cache
def themed(*themes: str) -> frozenset[str]:
    """Return the words of some lists of the vocabulary."""
    return frozenset(word for theme in themes for word in vocabulary()[theme].split())


_IN_PATTERNS: dict[str, str] = vocabulary()["in_patterns"]


def _filled(text: str) -> str:
    """Return a regular expression with ``{TAX}`` and the like in it filled in."""
    while match := re.search(r"\{([A-Z_]+)\}", text):
        text = text.replace(match[0], _IN_PATTERNS[match[1]])
    return text


PER, NODE, PIECE, TAX, MACHINE, MODULES = (
    _filled(_IN_PATTERNS[one]) for one in "PER NODE PIECE TAX MACHINE MODULES".split()
)
"""Alternatives of regular expressions: an amount is for each …; a node, what else is one; taxes; modules."""


@functools.cache
def pattern(name: str, flags: int = 0) -> re.Pattern[str]:
    """Return the regular expressions of a list as one, with ``{TAX}`` and the like in them filled in."""
    return re.compile(_filled("|".join(vocabulary()[name])), flags)


_SIGNS = str.maketrans(
    {"œ": "oe", "Œ": "Oe", "æ": "ae", "Æ": "Ae", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "ß": "ss", "’": "'"}
)
_ALONE = re.compile(r"\b(?:(n)ó(s?)|ár)\b", re.IGNORECASE)
"""Portuguese nodes, and a Hungarian price: without accents these are other words."""


_VOICED = "\u3099\u309a"
"""Marks that make other Japanese letters: they are no accents."""


def folded(text: str) -> str:
    """Return a text without accents, its capitals kept."""
    text = _ALONE.sub(lambda one: f"{one[1]}odo{one[2]}" if one[1] else "cena", text)
    text = unicodedata.normalize("NFKD", text.translate(_SIGNS))
    plain = "".join(letter for letter in text if letter in _VOICED or not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", plain)
