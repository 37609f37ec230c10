"""GPUs of several models in one node: the number of each pool stands in a field of one word."""

from __future__ import annotations

from procure.simulator.kernel import part

POOL_BITS = 16
"""Bits of a packed word of GPUs for one pool of a node: 15 for its number, and a guard."""
GUARDS = -(1 << 63) | 1 << 47 | 1 << 31 | 1 << 15
"""The guards of packed words: a number that lacks something borrows its own, so free − asked fits if none is set."""


def enough(free, asked, guards):
    """Say whether free GPUs hold what is asked; ``guards`` is None where words are plain numbers.

    None is a type to the compiler, which so compiles the plain comparison alone where no node has two models.
    """
    if guards is None:
        return free >= asked
    return ((free - asked) & guards) == 0


enough_gpus = part(enough)
