"""When nodes are closed to jobs: reservations, and events of a site."""

from __future__ import annotations

import numpy as np

from procure.site.names import Known
from procure.site.store import node_list

DRAINED, DOWN = -1, -2
_LONGEST_REPEAT = 90 * 86_400
"""s after the last submission for which a reservation that repeats is laid out."""
_LEAVES = 60
"""s; so long after a job's end its node may be noted as drained."""


def closed_nodes(known: Known, first: int) -> np.ndarray:
    """Lay reservations and events out: start, end (s after the first submission), node, and what closes it."""
    rows: list[tuple[int, int, int, int]] = []
    row_of = {name: n for n, name in enumerate(known.nodes["node_id"])}
    spans = [(e.start, e.end, e.nodes, DOWN) for e in known.site.events if e.state == "down"]
    drains = [(e.start, e.end, node_list(e.nodes, known.nodes)) for e in known.site.events if e.state == "drain"]
    ran = _ran_on(known, {name for _, _, names in drains for name in names})
    for start, end, names in drains:
        spans += [(_drained_from(start, ran.get(name, [])), end, name, DRAINED) for name in names]
    until = int(known.jobs["submit_time"].max()) + _LONGEST_REPEAT
    for n, each in enumerate(known.site.reservations):
        begin = each.start + (first - each.start) // each.every * each.every if each.every else each.start
        for start in range(begin, until, each.every) if each.every else (begin,):
            spans.append((start, start + each.end - each.start, each.nodes, n))
    for start, end, nodes, what in spans:
        last = 2**50 if end is None else end - first
        rows += [(start - first, last, row_of[name], what) for name in node_list(nodes, known.nodes)]
    return np.array(rows, np.int64).reshape(-1, 4)


def _ran_on(known: Known, names: set[str]) -> dict[str, list[tuple[int, int]]]:
    """Return when the log's jobs ran on nodes, Unix s: start and end, by node."""
    found: dict[str, list[tuple[int, int]]] = {}
    if not names or not {"start_time", "node_ids"} <= set(known.jobs):
        return found
    ran = known.jobs[known.jobs["start_time"].notna()]
    for start, seconds, nodes in zip(ran["start_time"], ran["run_time"], ran["node_ids"].fillna(""), strict=True):
        for name in names.intersection(nodes.split(",")):
            found.setdefault(name, []).append((int(start), int(start + seconds)))
    return found


def _drained_from(noted: int, ran: list[tuple[int, int]]) -> int:
    """Return since when a node took no job that is noted as drained, of the jobs that ran on it.

    Slurm's accounting notes a drain when the last job has left the node, which took none before: at the latest since
    the first of those left that were there when it last took one.
    """
    begun = [each for each in ran if each[0] < noted]
    last = max((start for start, _ in begun), default=0)
    ends = [end for _, end in begun if end > last]
    if not ends or not noted - _LEAVES <= max(ends) <= noted:
        return noted  # it stood empty, or they ran on
    return max(min(ends) - 1, last + 1)
