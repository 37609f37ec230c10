"""The GPUs of a node: of one model, or a *pool* of each model or MIG profile: ``2x A100 + 14x A100_1g.5gb``."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from procure.errors import TableError

Pool = tuple[str, int]
"""A model as written, and how many GPUs or slices of it."""

_PART = re.compile(r"\s*(\d{1,5})\s*[x×*]\s*(\S[^+|=]*?)\s*")
_COUNTED = re.compile(r"\s*\d+\s*[x×*]\s*\S")


@functools.lru_cache(4096)
def pools_of(text: str, gpus: int) -> tuple[Pool, ...]:
    """Return the pools of a node or a quote with so many ``gpus``, in the order in which its ``gpu_type`` names them.

    Without a ``+`` all its GPUs are of this model. A part that is no number with a model, a model that stands twice,
    numbers that do not add up to ``gpus``, and a number before one model alone are errors.
    """
    pools = named_pools(text)
    if "+" not in text:
        if _COUNTED.match(text):
            raise TableError(
                f"{text!r} was given; gpus says how many: write the model alone, or pools as 2x A100 + 14x A100_1g.5gb"
            )
        return ((pools[0][0], gpus),)
    if sum(n for _, n in pools) != gpus:
        raise TableError(f"{text!r} are {sum(n for _, n in pools):,} GPUs, and gpus is {gpus:,}; slices count as GPUs")
    return pools


@functools.lru_cache(4096)
def named_pools(text: str) -> tuple[Pool, ...]:
    """Return the pools that a ``gpu_type`` names; the number of one model alone is not known, 0."""
    if "+" not in text:
        return ((text.strip(), 0),)
    parts = [_PART.fullmatch(part) for part in text.split("+")]
    pools = tuple((part[2], int(part[1])) for part in parts if part is not None and int(part[1]) > 0)
    if len(pools) < len(parts) or len({name.casefold() for name, _ in pools}) < len(pools):
        raise TableError(f"{text!r} was given; several GPU models, each once, are written 2x A100 + 14x A100_1g.5gb")
    return pools


def joined_pools(pools: Sequence[Pool]) -> tuple[int, str]:
    """Return the GPUs and the ``gpu_type`` of the pools that a scheduler names; "" where one has no plain name."""
    numbers: dict[str, int] = {}
    spelled: dict[str, str] = {}
    for name, n in pools:
        key = name.casefold()
        spelled.setdefault(key, name)
        numbers[key] = numbers.get(key, 0) + n
    named = [(spelled[key], n) for key, n in numbers.items() if n]
    if len(named) == 1:
        return sum(numbers.values()), named[0][0]
    plain = all(re.fullmatch(r"[^\s+|=][^+|=]*", name) for name, _ in named)
    return sum(numbers.values()), " + ".join(f"{n}x {name}" for name, n in named) if plain else ""


def models_of(text: str) -> frozenset[str]:
    """Return the GPU models that a request ``v100|H100`` or a node ``2x A100 + 2x L40S`` names, case aside."""
    if "+" in text:
        return frozenset(match[2].casefold() for part in text.split("+") if (match := _PART.fullmatch(part)))
    return frozenset(part.strip().casefold() for part in text.split("|")) - {""}


def pool_for(pools: Sequence[Pool], asked: frozenset[str]) -> int:
    """Return the first of a node's pools whose model will do, as any does where either names none; −1 = no pool."""
    for i, (model, _) in enumerate(pools):
        if not asked or not model or model.casefold() in asked:
            return i
    return -1
