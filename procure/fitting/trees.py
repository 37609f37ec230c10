"""Boosted trees as arrays that a kernel walks."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from procure.simulator.kernel import part


class Trees(NamedTuple):
    """Trees one after another; a leaf has no left child."""

    feature: np.ndarray  # int64[n_knots]
    value: np.ndarray  # float32[n_knots], the threshold of a split, the value of a leaf
    left: np.ndarray  # int64[n_knots], −1 = a leaf; below the threshold
    right: np.ndarray  # int64[n_knots]
    root: np.ndarray  # int64[n_trees]
    base: float


def no_trees() -> Trees:
    """Return no trees."""
    none = np.zeros(0, np.int64)
    return Trees(none, np.zeros(0, np.float32), none, none, none, 0.0)


def of_booster(booster: Any) -> Trees:
    """Return the trees of a booster that was just trained."""
    learner = json.loads(bytes(booster.save_raw(raw_format="json")))["learner"]
    base = str(learner["learner_model_param"]["base_score"]).strip("[]")
    parts: list[list[np.ndarray]] = [[], [], [], []]
    roots, n = [], 0
    for tree in learner["gradient_booster"]["model"]["trees"]:
        left, right = (np.array(tree[name], np.int64) for name in ("left_children", "right_children"))
        roots.append(n)
        parts[0].append(np.array(tree["split_indices"], np.int64))
        parts[1].append(np.array(tree["split_conditions"], np.float32))
        parts[2].append(np.where(left < 0, -1, left + n))
        parts[3].append(np.where(left < 0, -1, right + n))
        n += len(left)
    feature, value, left, right = (np.concatenate(one) if one else np.zeros(0, np.int64) for one in parts)
    return Trees(feature, value.astype(np.float32), left, right, np.array(roots, np.int64), float(base))


@part
def walk(trees, row):
    """Return what the trees predict of a row of features."""
    total = trees.base
    for tree in range(trees.root.size):
        knot = trees.root[tree]
        while trees.left[knot] >= 0:
            below = np.float32(row[trees.feature[knot]]) < trees.value[knot]
            knot = trees.left[knot] if below else trees.right[knot]
        total += trees.value[knot]
    return total
