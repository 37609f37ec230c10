"""What backfill promises in one pass, in slices of time between which nothing changes: kernels."""

from __future__ import annotations

from procure.simulator.kernel import part
from procure.site.sets import count, first_after, see_idle
from procure.site.work import ALL_MINE, LAST_SLICE, N_SPANS, N_VERSIONS, NEVER, NOW, SAME_UNTIL, SPAN, WORD


@part
def rounded(own, at):
    """Round a time down to bf_resolution on the clock's own minutes."""
    began, step = own.rules.began, own.rules.bf_resolution
    return (at + began) // step * step - began


@part
def clear_slices(own):
    """Begin a pass: one slice, the window, in which nothing is promised."""
    work, now = own.work, own.work.now[NOW]
    work.n_slices[0], work.slice_row[0], work.loses[0], work.idle_at[0] = 1, 0, 0, -1
    work.slice_begin[0], work.slice_begin[1] = rounded(own, now), rounded(own, now + own.rules.bf_window)
    work.now[SPAN] = (own.rules.bf_window + own.rules.bf_resolution) // N_SPANS + 1
    for word in range(work.promised.shape[1]):
        work.promised[0, word] = 0
    for span in range(N_SPANS):
        for word in range(work.promised.shape[1]):
            work.united[span, word] = 0
    _note_version(own, 0)


@part
def window_end(own):
    """Return when the last slice ends."""
    return own.work.slice_begin[own.work.n_slices[0]]


@part
def _note_version(own, row):
    """Note that what a slice promises has changed."""
    own.work.now[N_VERSIONS] += 1
    own.work.version[row] = own.work.now[N_VERSIONS]


@part
def slice_at(own, at):
    """Return the place of the slice in which a time is, else of the first or last one.

    It is looked for from the last answer on: times mostly grow by a few slices.
    """
    begins, n, low = own.work.slice_begin, own.work.n_slices[0], own.work.now[LAST_SLICE]
    high = n - 1
    if low <= high and begins[low] <= at:
        if low + 8 <= high and begins[low + 8] > at:
            high = low + 7
    else:
        high, low = min(low, high), 0
    while low < high:
        middle = (low + high + 1) // 2
        if begins[middle] <= at:
            low = middle
        else:
            high = middle - 1
    own.work.now[LAST_SLICE] = low
    return low


@part
def boundary_after(own, at):
    """Return when the first slice begins after a time; `NEVER` = none does."""
    i = slice_at(own, at) + 1
    return own.work.slice_begin[i] if i < own.work.n_slices[0] else NEVER


@part
def next_loss(own, at):
    """Return the place of the first slice that ends after a time and is followed by one that promises less; −1.

    Less of the nodes in ``mine``: Slurm looks at those of the job's partition alone.
    """
    work, n = own.work, own.work.n_slices[0]
    for i in range(slice_at(own, at), n):
        if work.slice_begin[i + 1] > at and _opens_mine(own, i):
            return i
    return -1


@part
def _opens_mine(own, i):
    """Say whether the slice behind one promises less of the nodes in ``mine``."""
    work = own.work
    if work.loses[i] == 0 or work.now[ALL_MINE]:
        return work.loses[i] != 0
    row, following = work.slice_row[i], work.slice_row[i + 1]
    for word in range(work.loses[i] - 1, work.mine.size):
        if work.promised[row, word] & ~work.promised[following, word] & work.mine[word]:
            return True
    return False


@part
def last_loss(own, now, at):
    """Return when the last slice up to a time begins that opens some of ``mine``, else the moment."""
    i = slice_at(own, at)
    while i > 0 and not _opens_mine(own, i - 1):
        i -= 1
    return own.work.slice_begin[i] if i > 0 else now


@part
def n_left(own, job, i):
    """Count the nodes that hold a job when they are empty and that a slice does not promise."""
    work, kind, row = own.work, own.tables.kind[job], own.work.slice_row[i]
    if work.left_at[row, kind] != work.version[row]:
        n = 0
        for word in range(work.promised.shape[1]):
            n += count(own.tables.holding[kind, word] & ~work.promised[row, word])
        work.n_left[row, kind], work.left_at[row, kind] = n, work.version[row]
    return work.n_left[row, kind]


@part
def n_free(own, job, i, other):
    """Count the nodes that hold a job, that neither of two slices promises and that are idle when the first ends.

    Of jobs that take their nodes whole. What starts during the pass may be counted as free: it is a bound.
    """
    work, row, n = own.work, own.work.slice_row[i], 0
    if work.idle_at[row] != work.slice_begin[i + 1]:
        work.idle_at[row] = work.slice_begin[i + 1]
        see_idle(own, first_after(own, work.idle_at[row]), work.idle_then[row])
    promised, holding = work.promised[work.slice_row[other]], own.tables.holding[own.tables.kind[job]]
    for word in range(holding.size):
        n += count(holding[word] & ~promised[word] & ~work.promised[row, word] & work.idle_then[row, word])
    return n


@part
def n_open(own, job, i, closed):
    """Count the open nodes that hold a job and that are idle when a slice ends, if one is given."""
    work, kind, row, n = own.work, own.tables.kind[job], own.work.slice_row[i], 0
    for word in range(closed.size):
        bits = own.tables.holding[kind, word] & ~closed[word]
        n += count(bits & work.idle_then[row, word] if i >= 0 else bits)
    return n


@part
def close_promised(own, at, end, closed):
    """Close the nodes that are promised in a time: in the spans within it, and in slices before and behind these."""
    work, begin, width = own.work, own.work.slice_begin[0], own.work.now[SPAN]
    first, last = (at - begin + width - 1) // width, min((end + 1 - begin) // width, N_SPANS)
    if first >= last:
        _close_slices(own, at, end, closed)
        return
    for span in range(first, last):
        for word in range(closed.size):
            closed[word] |= work.united[span, word]
    _close_slices(own, at, begin + first * width - 1, closed)
    _close_slices(own, begin + last * width, end, closed)


@part
def _close_slices(own, at, end, closed):
    """Close the nodes that are promised in a time, slice by slice."""
    work = own.work
    for i in range(slice_at(own, at), work.n_slices[0]):
        if work.slice_begin[i] > end:
            break
        if work.slice_begin[i + 1] > at:
            row = work.slice_row[i]
            for word in range(closed.size):
                closed[word] |= work.promised[row, word]


@part
def _part_chosen(own, n):
    """Put the chosen nodes into ``choice_word`` and ``choice_bits``; returns how many words."""
    work, n_parts = own.work, 0
    for k in range(n):
        word, bit = work.chosen[k] // WORD, 1 << (work.chosen[k] % WORD)
        if n_parts == 0 or work.choice_word[n_parts - 1] != word:
            work.choice_word[n_parts], work.choice_bits[n_parts] = word, 0
            n_parts += 1
        work.choice_bits[n_parts - 1] |= bit
    return n_parts


@part
def clash(own, begin_at, end_at, at, end, n):
    """Return the end of the first slice in a time in which a chosen node is promised; −1 = there is none.

    Of the slices within ``at`` and ``end`` none is: the nodes were chosen for that.
    """
    work, n_parts = own.work, _part_chosen(own, n)
    for i in range(slice_at(own, begin_at), work.n_slices[0]):
        if work.slice_begin[i] >= end_at:
            break
        ends = work.slice_begin[i + 1]
        if ends > begin_at and (ends <= at or work.slice_begin[i] > end):
            row = work.slice_row[i]
            for k in range(n_parts):
                if work.promised[row, work.choice_word[k]] & work.choice_bits[k]:
                    return ends
    return -1


@part
def _loss(own, i, first):
    """Return 1 more than the first word, from one on, of which the next slice promises less than a slice; 0 = none."""
    promised, row, after = own.work.promised, own.work.slice_row[i], own.work.slice_row[i + 1]
    for word in range(first, promised.shape[1]):
        if promised[row, word] & ~promised[after, word]:
            return word + 1
    return 0


@part
def _set_aside(own, row, n_parts):
    """Let a slice promise the chosen nodes; what was counted of it is counted on where that is less work than anew."""
    work, counted_at = own.work, own.work.version[row]
    _note_version(own, row)
    n_kinds = work.n_left.shape[1]
    for kind in range(n_kinds if n_kinds * n_parts < work.promised.shape[1] else 0):
        if work.left_at[row, kind] == counted_at:
            work.left_at[row, kind] = work.version[row]
            for k in range(n_parts):
                bits = work.choice_bits[k] & ~work.promised[row, work.choice_word[k]]
                work.n_left[row, kind] -= count(bits & own.tables.holding[kind, work.choice_word[k]])
    for k in range(n_parts):
        work.promised[row, work.choice_word[k]] |= work.choice_bits[k]


@part
def _split(own, i, at):
    """Cut a slice in two at a moment within it; what was counted up to its end stays with the second."""
    work, new = own.work, own.work.n_slices[0]
    work.n_slices[0] = new + 1
    work.slice_begin[new + 1] = work.slice_begin[new]
    for k in range(new, i, -1):
        work.slice_begin[k], work.slice_row[k], work.loses[k] = (
            work.slice_begin[k - 1], work.slice_row[k - 1], work.loses[k - 1]
        )  # fmt: skip
    row = work.slice_row[i + 1]
    work.slice_begin[i + 1], work.slice_row[i], work.loses[i], work.idle_at[new] = at, new, 0, -1
    for word in range(work.promised.shape[1]):
        work.promised[new, word] = work.promised[row, word]
    work.version[new] = work.version[row]
    for kind in range(work.n_left.shape[1]):
        work.n_left[new, kind], work.left_at[new, kind] = work.n_left[row, kind], work.left_at[row, kind]


@part
def promise(own, start, end, n):
    """Set the chosen nodes aside from the start to the end, both rounded down."""
    work = own.work
    low = max(rounded(own, start), work.slice_begin[0])
    high = max(rounded(own, end), low + own.rules.bf_resolution)
    if high > window_end(own):  # it would reach further in a later window
        reached = low if low >= window_end(own) else high
        work.now[SAME_UNTIL] = min(work.now[SAME_UNTIL], reached - own.rules.bf_window)
    if low >= window_end(own):
        return
    first = slice_at(own, low)
    if work.slice_begin[first] < low:
        _split(own, first, low)
        first += 1
    last = slice_at(own, high - 1)
    if high < work.slice_begin[last + 1]:
        _split(own, last, high)
    n_parts = _part_chosen(own, n)
    for i in range(first, last + 1):
        _set_aside(own, work.slice_row[i], n_parts)
    begin, width = work.slice_begin[0], work.now[SPAN]
    for span in range((low - begin) // width, min((high - 1 - begin) // width + 1, N_SPANS)):
        for k in range(n_parts):
            work.united[span, work.choice_word[k]] |= work.choice_bits[k]
    for i in range(max(first - 1, 0), last):
        if work.loses[i]:
            work.loses[i] = _loss(own, i, work.loses[i] - 1)
    work.loses[last] = _loss(own, last, 0) if last + 1 < work.n_slices[0] else 0
