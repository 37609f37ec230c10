"""Sets of nodes as words of bits, and which nodes are idle once so many running jobs are gone: kernels."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.work import MARKED_CHANGES, N_CHANGES, N_MARKS, N_RUNNING, WORD


@part
def count(bits):
    """Count the bits of a word that are set."""
    bits = bits - (bits >> 1 & 0x5555555555555555)
    bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333)
    bits = bits + (bits >> 4) & 0x0F0F0F0F0F0F0F0F
    return bits * 0x0101010101010101 >> 56 & 0x7F  # the compiler makes one instruction of these lines


@part
def lowest(bits):
    """Return the place of the lowest bit of a word that is set."""
    return count((bits & -bits) - 1)


@part
def list_nodes(listed, n, word, bits):
    """List the nodes of a word behind so many, in order and run by run; returns how many are listed then."""
    while bits:
        low = lowest(bits)
        length = lowest(~(bits >> low))
        for node in range(word * WORD + low, word * WORD + low + length):
            listed[n] = node
            n += 1
        bits &= ~(((1 << length) - 1) << low)
    return n


@part
def list_choice(own):
    """List the nodes of the choice in ``chosen``, in order."""
    work, n = own.work, 0
    for word in range(work.in_choice.size):
        n = list_nodes(work.chosen, n, word, work.in_choice[word])


@part
def first_after(own, at):
    """Return the place of the first running job whose limit ends after a moment."""
    low, high = 0, own.work.now[N_RUNNING]
    while low < high:
        middle = (low + high) // 2
        if own.work.run_end[middle] <= at:
            low = middle + 1
        else:
            high = middle
    return low


@part
def overlap(bits, closed):
    """Say whether a set has an open node."""
    found = 0
    for word in range(closed.size):
        found |= bits[word] & ~closed[word]
    return found != 0


@part
def n_in_part(own):
    """Return how many running jobs make one of the parts of which their nodes are kept: a power of two."""
    n = 1
    while n * N_MARKS <= own.work.now[N_RUNNING]:
        n *= 2
    return n


@part
def see_idle(own, n, free):
    """Set in ``free`` the nodes that are idle once so many running jobs are gone, where no two share a node."""
    work, step = own.work, n_in_part(own)
    if work.now[MARKED_CHANGES] != work.now[N_CHANGES]:
        work.now[MARKED_CHANGES] = work.now[N_CHANGES]
        for word in range(free.size):
            work.marked[0, word] = work.idle[word]
        for mark in range(1, work.now[N_RUNNING] // step + 1):
            held = work.held_by[mark - 1]
            for word in range(free.size):
                held[word] = 0
            _let_go(own, (mark - 1) * step, mark * step, held)
            for word in range(free.size):
                work.marked[mark, word] = work.marked[mark - 1, word] | held[word]
    for word in range(free.size):
        free[word] = work.marked[n // step, word]
    _let_go(own, n // step * step, n, free)


@part
def _let_go(own, first, end, free):
    """Add the nodes of some of the running jobs to a set."""
    work = own.work
    for place in range(first, end):
        job = work.running[place]
        for i in range(own.node_first[job], own.node_first[job] + work.n_parts[job]):
            free[work.part_word[i]] |= work.part_bits[i]
