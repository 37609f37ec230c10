"""``compact``: jobs in list order, each by the rule of Slurm's tree plugin; to compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from procure.topology.compact import allocate_compact
from procure.topology.fabric import empty_fabric, empty_grant, no_holders, take
from procure.topology.fat_tree import Shape


def place_compact(shape: Shape, idle: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the places of each job, ascending (`procure.topology.compact`); all must fit."""
    fabric, grant = empty_fabric(shape), empty_grant(shape)
    fabric.idle[:] = 0
    fabric.idle[idle] = 1
    fabric.leaf_idle[:] = fabric.idle.reshape(-1, shape.nodes).sum(axis=1)
    fabric.pod_idle[:] = fabric.leaf_idle.reshape(shape.pods, -1).sum(axis=1)
    places = []
    for job, n in enumerate(sizes):
        allocate_compact(shape, fabric, n, grant)
        take(shape, fabric, no_holders(shape), grant, job)
        places.append(grant.nodes[:n].copy())
    return places
