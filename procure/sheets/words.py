"""Words that offices use, in one place: alternatives of regular expressions, without accents where they are plain.

English, German, French, Spanish, Italian, Dutch; what stands in prices also in Swedish, Norwegian, Danish, Polish.
What heads a column stands in ``headings.toml``.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

PER = r"(?:per|pro|par|por|je|za)"
"""An amount is for each …"""
NODE = r"(?:nodes?|servers?|knoten|noeuds?|nœuds?|serveurs?|nodos?|servidor(?:es)?|nodi|noder|wezel)"
"""A node; what else is one: `PIECE`."""
PIECE = (
    r"(?:units?|pieces?|items?|each|stuck|stück|stuks?|stck|stk|st|einheit|eenheid|unite|unité|unidad|unita|unità|system|styck|sztuk[ai]"
    r"|szt)"
)
TIME = r"(?:month|monat|mois|mes|mese|maand|manad|maned|miesiac|year|annum|jahr|ans?|ano|anno|jaar|ar|rok)"
"""A price for each of these is paid again and again."""
TAX = (
    r"(?:mwst|mehrwertsteuer|ust|umsatzsteuer|vat|(?:sales )?tax(?:es)?|tva|taxes|iva|btw|moms|mva|alv|gst|impuestos"
    r"|podatek|dph)"
)
WITHOUT = (
    r"(?:exkl|excl|zzgl|zuzuglich|zuzüglich|ohne|ex|exc|plus|excluding|without|exclusief|sin|hors|senza|sans|zonder|eks|ekskl|bez"
    r"|uden|utan)"
)
WITH = r"(?:inkl|incl|inc|mit|including|inclusive|inclusief|incluye|con|med|inklusive|avec|met|z)"
INCLUDED = (
    r"(?:inclus[aeo]?s?|incluid[ao]s?|incl|included|comprises?|compris|inbegriffen|inbegrepen|enthalten|inkluderad"
    r"|inkludert)"
)
NOT_INCLUDED = rf"(?:(?:not|nicht|non|no|niet|pas) {INCLUDED}|esclus[ao]|excluid[ao]s?|excl|excluded|non compris[es]?)"


@functools.cache
def vocabulary() -> dict[str, Any]:
    """Return the lists of ``vocabulary.toml`` by their names."""
    return tomllib.loads((Path(__file__).parent / "vocabulary.toml").read_text(encoding="utf-8"))


@functools.cache
def themed(*themes: str) -> frozenset[str]:
    """Return the words of some lists of the vocabulary."""
    return frozenset(word for theme in themes for word in vocabulary()[theme].split())
