"""Which jobs give way to which at a site, how, when and in what order, as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from procure.errors import TableError
from procure.site.model import Mode, Partition, Qos
from procure.site.names import Known

CANCEL, REQUEUE = 1, 2
_MODES: dict[Mode, int] = {"off": 0, "cancel": CANCEL, "requeue": REQUEUE, "suspend": 0}
"""How a job gives way, by PreemptMode."""
_MOST_COMPARED = 0xFFFF
"""Slurm compares QOS priorities up to this."""


def preemption(known: Known) -> dict[str, np.ndarray]:
    """Number the QOS or partitions of the jobs; say which ends which, how, when, in what order; who waits again.

    Of those that may be ended the order is that of QOS priority or partition tier, then the number of nodes that each
    holds (Slurm's page *Preemption*, section *Preemption Design and Operation*).
    """
    rules, none = known.site.preemption, np.zeros(len(known.jobs), np.int64)
    if rules.type == "none" or rules.mode == "off":
        named = dict.fromkeys(("rank", "yields", "exempt", "again", "grace"), none)
        return named | {"requeue": none + int(rules.requeue), "preempts": np.zeros((1, 1), np.int64)}
    modes = _MODES if rules.requeue else _MODES | {"requeue": CANCEL}
    found = {each.name: each for each in known.site.qos}
    if rules.type == "partition":
        graces: Sequence[Qos | Partition] = known.site.partitions
        how = _how(graces, rules.mode, modes)
        rank = known.partition_of.copy()
        order = np.array([each.priority_tier for each in known.site.partitions], np.int64)
        table = order[:, None] > order[None, :]
    else:
        ranks = (*found.values(), Qos(name=""))
        graces = ranks
        how = _how(ranks, rules.mode, modes)
        number = {each.name: n for n, each in enumerate(ranks)}
        rank = np.array([number.get(name, len(found)) for name in known.qos], np.int64)
        order = np.array([min(each.priority, _MOST_COMPARED) for each in ranks], np.int64)
        table = np.array([[b.name in a.preempt and a.name != b.name for b in ranks] for a in ranks])
        _refuse_circle(table & (how[None, :] == REQUEUE), [each.name for each in ranks])
    part_qos = [known.site.partitions[n].qos for n in known.partition_of]
    own = [[found[q].exempt_time for q in pair if q in found] for pair in zip(part_qos, known.qos, strict=True)]
    exempt = [next((time for time in times if time is not None), rules.exempt_time) for times in own]
    return {
        "rank": rank,
        "preempts": np.where(table, how[None, :], 0).astype(np.int64),
        "yields": order[rank],
        "exempt": np.array(exempt, np.int64),
        "grace": np.array([each.grace_time for each in graces], np.int64)[rank],
        "again": (how[rank] == REQUEUE).astype(np.int64),
        "requeue": none + int(rules.requeue),
    }


def _refuse_circle(ends: np.ndarray, names: list[str]) -> None:
    """Refuse QOS of which each ends the next and is requeued: two long jobs would end each other for ever."""
    reach = ends.copy()
    for middle in range(len(ends)):
        reach |= reach[:, [middle]] & reach[[middle], :]
    circle = np.flatnonzero(np.diagonal(reach))
    if circle.size:
        found = ", ".join(names[i] for i in circle[reach[circle[0], circle] & reach[circle, circle[0]]])
        raise TableError(
            f"the site's QOS {found} end each other (Preempt=), and are requeued: their jobs would do so for ever; "
            "leave one of them out"
        )


def _how(ranks: Sequence[Qos | Partition], usual: Mode, modes: dict[Mode, int]) -> np.ndarray:
    return np.array([modes[usual if each.preempt_mode is None else each.preempt_mode] for each in ranks], np.int64)
