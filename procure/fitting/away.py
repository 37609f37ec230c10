"""Nodes that are down or drained for a time, as a site's events say: they start nothing, and count as no room."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.policies.easy import HEAD
from procure.policies.place import NUMBER, Nodes, shadow_on_nodes
from procure.simulator.kernel import part
from procure.simulator.seams import place as seam
from procure.simulator.tasks import units_on
from procure.site.model import NodeEvent
from procure.site.store import node_list

N_SEEN, N_AWAY = range(2)


class Changes(NamedTuple):
    """When nodes go away and come back, in order."""

    when: np.ndarray  # int64[n_changes], s
    node: np.ndarray  # int64[n_changes], row
    by: np.ndarray  # int64[n_changes], 1 = goes away, −1 = comes back
    counts: np.ndarray  # int64[2], changes so far, and nodes that are away


@seam
class Away(NamedTuple):
    """Places on nodes of which some are away: what runs there runs on, nothing starts, no reservation counts on them.

    When a node comes back is not foreseen. A job that needs such nodes holds no reservation until then.
    """

    nodes: Nodes  # whose ``open`` says which nodes are there
    changes: Changes
    of_node: np.ndarray  # int64[n_nodes], events that keep it away
    easy: np.ndarray  # the notes of `procure.policies.easy.EasyOwn`

    def pick(self, state, job, n):
        """Keep the nodes that the job gets."""
        self.nodes.pick(state, job, n)

    def follow(self, state):
        """Let nodes go and come up to now; a reservation that was made before is made again."""
        self.nodes.follow(state)
        changes, counts = self.changes, self.changes.counts
        while counts[N_SEEN] < changes.when.size and changes.when[counts[N_SEEN]] <= state.now[0]:
            node, by = changes.node[counts[N_SEEN]], changes.by[counts[N_SEEN]]
            was = self.of_node[node] > 0
            self.of_node[node] += by
            counts[N_AWAY] += np.int64(self.of_node[node] > 0) - np.int64(was)
            self.nodes.open[node] = self.of_node[node] == 0
            counts[N_SEEN] += 1
            self.easy[HEAD] = -1

    def started(self, state, job):
        """Take note of a start."""
        self.nodes.started(state, job)

    def fits(self, state, lines, line):
        """Say whether the jobs of a line fit now; what is reserved aside."""
        if not self.nodes.fits(state, lines, line):
            return False
        return self.changes.counts[N_AWAY] == 0 or _is_room(state, self.nodes.open, lines.shape[line])

    def room(self, state, lines, line, which):
        """Say whether the jobs of a line, which fit, have room in what they may take."""
        return self.nodes.room(state, lines, line, which)

    def reserve(self, state, job):
        """Reserve the earliest place as running jobs end on nodes that are there; returns when it begins, s."""
        if self.changes.counts[N_AWAY] == 0:
            return self.nodes.reserve(state, job)
        self.nodes.notes[NUMBER] += 1
        return shadow_on_nodes(state, self.nodes, job)

    def choose(self, state, job, which):
        """Lay the nodes of a job into ``chosen``; beside a reservation they are taken from what that leaves."""
        return self.nodes.choose(state, job, which)


@part
def _is_room(state, there, shape):
    """Say whether enough nodes that are there hold a shape."""
    n = 0
    for node in range(there.size):
        if there[node]:
            n += units_on(state, state.tasks, shape, node)
    return n >= state.shapes.n_nodes[shape]


def changes_of(events: tuple[NodeEvent, ...], nodes: pd.DataFrame | None, jobs: pd.DataFrame) -> Changes:
    """Lay out when nodes of a run go away and come back; those that it is not known to have are left out."""
    rows: list[tuple[int, int, int]] = []
    if nodes is None:
        events, nodes = (), pd.DataFrame({"node_id": []})
    row_of, origin = {name: row for row, name in enumerate(nodes["node_id"])}, int(jobs["submit_time"].min())
    for one in events:
        if one.end is None or one.end > max(one.start, origin):
            for name in node_list(one.nodes, nodes):
                if name in row_of:
                    rows.append((max(0, one.start - origin), row_of[name], 1))
                    if one.end is not None:
                        rows.append((one.end - origin, row_of[name], -1))
    when, node, by = np.array(sorted(rows), np.int64).reshape(-1, 3).T.copy()
    return Changes(when, node, by, np.zeros(2, np.int64))


def make_away(place: Any, changes: Changes, easy: np.ndarray) -> Any:
    """Make the place of a run in which nodes go away; the place itself where none does, or it is not of nodes alone."""
    if not len(changes.when) or not isinstance(place, Nodes):
        return place
    return Away(place._replace(masked=True, away=True), changes, np.zeros(len(place.open), np.int64), easy)
