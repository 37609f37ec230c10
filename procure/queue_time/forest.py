"""Boosted trees as arrays: what a model file keeps, and what answers a question without importing XGBoost."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from procure.errors import TableError

_FEW = 500_000
"""Pairs of a row and a tree up to which NumPy walks; beyond, it is worth the time to load the compiled walk."""
_ONE, _ALL = np.uint64(1), ~np.uint64(0)
_LINKS = ("identity", "logistic")
_MOST_COLUMNS = 100_000
_NODES = {
    "left": "<i4",
    "right": "<i4",
    "feature": "<i4",
    "threshold": "<f4",
    "nan_left": "|u1",
    "value": "<f4",
}
"""What is known of each node; a leaf is its own child on both sides, an inner node's value the mean of its leaves."""
_TREES = {"root": "<i4", "output": "<i4"}


@dataclass(frozen=True)
class Booster:
    """A sum of regression trees for each output.

    Attributes
    ----------
    n_features
        Columns of what is asked.
    base
        (outputs,) what is added to each sum.
    link
        ``identity``, or ``logistic``: the sum is the logit of a chance.
    nodes
        By the names of `_NODES`, (nodes,); children as positions among all nodes, after their parents.
    trees
        ``root``, the position of each tree's first node, ascending; ``output``, which sum it adds to.
    """

    n_features: int
    base: np.ndarray
    link: str
    nodes: dict[str, np.ndarray]
    trees: dict[str, np.ndarray]

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Predict rows (n, m) of float32 features, NaN where unknown: (n,), or (n, outputs)."""
        features = np.ascontiguousarray(features, dtype=np.float32)
        walk = self._sum if len(features) * len(self.trees["root"]) <= _FEW else self._sum_compiled
        total = walk(features)
        if self.link == "logistic":
            total = 1 / (1 + np.exp(-total))
        found = total.astype(np.float32)
        return found[:, 0] if len(self.base) == 1 else found

    def predict_each(self, features: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Predict rows (n, m − 1) with each of the values (k,) as the last column: (n, k), as `predict` of all pairs.

        A row's other columns are looked at once. What every node leaves open of its tree's leaves is a bit mask, and
        the leaf that is reached is the first that all of them leave (C. Lucchese et al. 2015, QuickScorer).
        """
        n, k = len(features), len(last)
        if self._masks is None:
            pairs = np.column_stack([np.repeat(features, k, axis=0), np.tile(last, n)])
            return self.predict(pairs).reshape(n, k)
        first, column, threshold, mask, leaves, leaf = self._masks
        own = column % self.n_features == self.n_features - 1
        wide = _wide(np.column_stack([features, np.full(n, -np.inf, np.float32)]))
        fixed = np.bitwise_and.reduceat(np.where(wide[:, column] < threshold, _ALL, mask), first, axis=1)
        goes_left = ~own | (last.astype(np.float32)[:, None] < threshold)
        moved = np.bitwise_and.reduceat(np.where(goes_left, _ALL, mask), first, axis=1)
        left: np.ndarray = fixed[:, None] & moved
        reached = leaf[leaves + np.bitwise_count((left & -left) - _ONE)]
        begin = np.full((n, k, 1), self.base[0])  # one after another, as `_sum` adds
        total = np.cumsum(np.concatenate([begin, self.nodes["value"][reached]], axis=2), axis=2)[:, :, -1]
        if self.link == "logistic":
            total = 1 / (1 + np.exp(-total))
        return total.astype(np.float32)

    @functools.cached_property
    def _masks(self) -> tuple[np.ndarray, ...] | None:
        """For `predict_each`; None where a tree has more leaves than a mask has bits, several sums or shared nodes.

        The inner nodes tree by tree: where each tree begins among them, of each the column as in `_ways`, the threshold
        and the mask of the leaves that are left where a row goes right; where each tree's leaves begin, and the leaves
        from left to right.
        """
        nodes, root, own = self.nodes, self.trees["root"], np.arange(len(self.nodes["left"]))
        left, right, is_leaf = nodes["left"], nodes["right"], nodes["left"] == own
        inner = np.flatnonzero(~is_leaf)
        if len(self.base) > 1 or (np.sort(np.concatenate([root, left[inner], right[inner]])) != own).any():
            return None
        n_leaves, (begin, tree) = is_leaf.astype(np.int64), np.zeros((2, len(own)), np.int64)
        tree[root] = np.arange(len(root))
        for node in inner[::-1].tolist():  # children stand after their parents
            n_leaves[node] = n_leaves[left[node]] + n_leaves[right[node]]
        for node in inner.tolist():
            begin[left[node]], begin[right[node]] = begin[node], begin[node] + n_leaves[left[node]]
            tree[left[node]] = tree[right[node]] = tree[node]
        if n_leaves.max() > 64:
            return None
        seen = np.concatenate([inner, root[is_leaf[root]]])  # a tree that is one leaf has one that closes nothing
        seen = seen[np.argsort(tree[seen], kind="stable")]
        bits = ((_ONE << n_leaves[left[seen]].astype(np.uint64)) - _ONE) << begin[seen].astype(np.uint64)
        mask = np.where(is_leaf[seen], _ALL, ~bits)
        leaf = np.flatnonzero(is_leaf)
        leaf = leaf[np.lexsort((begin[leaf], tree[leaf]))]
        first, leaves = (np.searchsorted(tree[each], np.arange(len(root))) for each in (seen, leaf))
        column = np.where(nodes["nan_left"] == 1, nodes["feature"], nodes["feature"] + self.n_features)[seen]
        return first, column, nodes["threshold"][seen], mask, leaves, leaf

    def _leaves(self, features: np.ndarray) -> list[np.ndarray]:
        """Return the nodes on the way of each row (n, trees) through each tree, a step at a time, roots first."""
        rows, nodes = np.arange(len(features))[:, None], self.nodes
        at = np.broadcast_to(self.trees["root"], (len(features), len(self.trees["root"])))
        way = [at]
        while True:
            value = features[rows, nodes["feature"][at]]
            left = np.where(np.isnan(value), nodes["nan_left"][at] == 1, value < nodes["threshold"][at])
            at = np.where(left, nodes["left"][at], nodes["right"][at])
            if (at == way[-1]).all():
                return way
            way.append(at)

    def _sum(self, features: np.ndarray) -> np.ndarray:
        reached = self.nodes["value"][self._reached(features)].astype(np.float64)
        total = np.empty((len(features), len(self.base)))
        for output, base in enumerate(self.base):
            own = reached[:, self.trees["output"] == output]
            first = np.full((len(features), 1), base)  # one after another, as the compiled walk adds
            total[:, output] = np.cumsum(np.column_stack([first, own]), axis=1)[:, -1]
        return total

    def _reached(self, features: np.ndarray) -> np.ndarray:
        """Return the leaf of each row in each tree, (n, trees): a walk that ends for each where it arrives."""
        column, child = self._ways
        wide, threshold, trees = _wide(features).ravel(), self.nodes["threshold"], len(self.trees["root"])
        found = np.tile(self.trees["root"], len(features))
        on = np.arange(len(found))
        row, at = on // trees * (2 * self.n_features), found
        while len(on):
            at = child[2 * at + (wide[row + column[at]] < threshold[at])]
            walks = column[at] >= 0
            found[on[~walks]] = at[~walks]
            on, row, at = on[walks], row[walks], at[walks]
        return found.reshape(len(features), trees)

    @functools.cached_property
    def _ways(self) -> tuple[np.ndarray, np.ndarray]:
        """For `_reached`: each node's column of `_wide`, −1 of a leaf, and its children, the right one first."""
        nodes, own = self.nodes, np.arange(len(self.nodes["left"]))
        column = np.where(nodes["nan_left"] == 1, nodes["feature"], nodes["feature"] + self.n_features)
        child = np.column_stack([nodes["right"], nodes["left"]]).ravel()
        return np.where(nodes["left"] == own, -1, column), child

    def _sum_compiled(self, features: np.ndarray) -> np.ndarray:
        total = np.tile(self.base, (len(features), 1))
        trees, nodes = (self.trees[name] for name in _TREES), (self.nodes[name] for name in _NODES)
        _compiled_walk()(features, tuple(trees), tuple(nodes), total)
        return total

    @classmethod
    def of_all(cls, boosters: Sequence[Booster]) -> Booster:
        """Put boosters of the same columns and link side by side: one walk for what would be a walk each."""
        starts = itertools.accumulate((len(one.nodes["left"]) for one in boosters), initial=0)
        outputs = itertools.accumulate((len(one.base) for one in boosters), initial=0)
        moved = [
            (
                one.nodes | {side: one.nodes[side] + start for side in ("left", "right")},
                {"root": one.trees["root"] + start, "output": one.trees["output"] + output},
            )
            for one, start, output in zip(boosters, starts, outputs, strict=False)
        ]
        nodes = {name: np.concatenate([own[name] for own, _ in moved]) for name in _NODES}
        trees = {name: np.concatenate([own[name] for _, own in moved]) for name in _TREES}
        base = np.concatenate([one.base for one in boosters])
        return cls(boosters[0].n_features, base, boosters[0].link, nodes, trees)

    def contributions(self, features: np.ndarray) -> np.ndarray:
        """Return what each feature adds to each row's first sum, (n, m): the steps that the means of leaves take
        on the row's way (A. Saabas 2014).
        """
        way = self._leaves(np.ascontiguousarray(features, dtype=np.float32))
        found = np.zeros((len(features), self.n_features))
        rows = np.arange(len(features))[:, None]
        value, own = self.nodes["value"].astype(np.float64), self.trees["output"] == 0
        for here, there in itertools.pairwise(way):
            np.add.at(found, (rows, self.nodes["feature"][here[:, own]]), value[there[:, own]] - value[here[:, own]])
        return found

    def to_bytes(self) -> bytes:
        """Write the trees: a line of JSON, and the arrays."""
        head = {
            "n_features": self.n_features,
            "base": self.base.tolist(),
            "link": self.link,
            "n_nodes": len(self.nodes["left"]),
            "n_trees": len(self.trees["root"]),
        }
        parts = [json.dumps(head).encode() + b"\n"]
        parts += [self.nodes[name].astype(dtype).tobytes() for name, dtype in _NODES.items()]
        parts += [self.trees[name].astype(dtype).tobytes() for name, dtype in _TREES.items()]
        return b"".join(parts)


def _wide(features: np.ndarray) -> np.ndarray:
    """Return rows with each column twice: what is unknown below every threshold, then above it."""
    return np.concatenate([np.where(np.isnan(features), side, features) for side in (-np.inf, np.inf)], axis=1)


def from_bytes(content: bytes, source: str) -> Booster:
    """Read trees that `Booster.to_bytes` wrote.

    Raises
    ------
    TableError
        The bytes hold no trees, or some that could not be walked within their arrays and to an end.
    """
    try:
        line, _, rest = content.partition(b"\n")
        head = json.loads(line)
        counts = dict.fromkeys(_NODES, int(head["n_nodes"])) | dict.fromkeys(_TREES, int(head["n_trees"]))
        arrays, at = {}, 0
        for name, dtype in (_NODES | _TREES).items():
            arrays[name] = np.frombuffer(rest, dtype, counts[name], at)
            at += arrays[name].nbytes
        found = Booster(
            int(head["n_features"]),
            np.array(head["base"], dtype=np.float64),
            head["link"],
            {name: arrays[name] for name in _NODES},
            {name: arrays[name] for name in _TREES},
        )
        whole = at == len(rest) and _can_be_walked(found)
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
        whole = False
    if not whole:
        raise TableError(f"{source}: the model file is damaged; train it again")
    return found


def _can_be_walked(booster: Booster) -> bool:
    """Tell whether every walk stays within the arrays and comes to an end: children stand after their parents."""
    nodes, root, output = booster.nodes, booster.trees["root"], booster.trees["output"]
    n, own = len(nodes["left"]), np.arange(len(nodes["left"]))
    if not n or not len(root) or booster.base.ndim != 1 or not 1 <= len(booster.base) <= _MOST_COLUMNS:
        return False
    leaf = nodes["left"] == own
    inside = all(((nodes[side] > own) & (nodes[side] < n) | leaf).all() for side in ("left", "right"))
    legal = (
        inside
        and (nodes["right"][leaf] == own[leaf]).all()
        and booster.link in _LINKS
        and 1 <= booster.n_features <= _MOST_COLUMNS
        and ((nodes["feature"] >= 0) & (nodes["feature"] < booster.n_features)).all()
        and ((root >= 0) & (root < n)).all()
        and ((output >= 0) & (output < len(booster.base))).all()
    )
    return bool(
        legal and all(np.isfinite(values).all() for values in (booster.base, nodes["value"], nodes["threshold"]))
    )


def of_learner(learner: dict[str, Any]) -> Booster:
    """Take the trees out of the learner that XGBoost writes of a booster."""
    model, parameters = learner["gradient_booster"]["model"], learner["learner_model_param"]
    parts = model["trees"]
    size = np.array([len(one["parents"]) for one in parts])
    root = np.cumsum(size) - size
    begin = np.repeat(root, size)

    def joined(name: str) -> np.ndarray:
        return np.concatenate([one[name] for one in parts])

    own = np.arange(len(begin))
    left, right = joined("left_children").astype(np.int64), joined("right_children").astype(np.int64)
    leaf = left < 0
    left, right = np.where(leaf, own, left + begin), np.where(leaf, own, right + begin)
    threshold = joined("split_conditions").astype(np.float64)
    value = _means(left, right, np.where(leaf, threshold, 0.0), joined("sum_hessian").astype(np.float64))
    logistic = learner["objective"]["name"] == "binary:logistic"
    base = np.atleast_1d(np.array(json.loads(parameters["base_score"]), dtype=np.float64))
    if logistic:
        base = np.log(base / (1 - base))
    nodes: dict[str, np.ndarray] = {
        "left": left,
        "right": right,
        "feature": joined("split_indices"),
        "threshold": threshold,
        "nan_left": joined("default_left"),
        "value": value,
    }
    n_outputs = int(np.max(model["tree_info"])) + 1
    return Booster(
        int(parameters["num_feature"]),
        np.broadcast_to(base, max(n_outputs, len(base))).copy(),
        _LINKS[int(logistic)],
        {name: nodes[name].astype(dtype) for name, dtype in _NODES.items()},
        {"root": root.astype(np.int32), "output": np.asarray(model["tree_info"]).astype(np.int32)},
    )


def _means(left: np.ndarray, right: np.ndarray, leaf_value: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return each node's mean over its leaves by their weights, from the deepest level up."""
    level, inner = np.zeros(len(left), np.int64), left != np.arange(len(left))
    parents = np.flatnonzero(inner)
    depth = 0
    while len(parents):
        depth += 1
        deeper = np.concatenate([left[parents], right[parents]])
        level[deeper] = depth
        parents = deeper[inner[deeper]]
    value = leaf_value.copy()
    for depth in range(int(level.max(initial=0)) - 1, -1, -1):
        here = np.flatnonzero(inner & (level == depth))
        one, other = left[here], right[here]
        total = weight[one] + weight[other]
        share = np.divide(weight[one], total, out=np.full(len(here), 0.5), where=total > 0)
        value[here] = share * value[one] + (1 - share) * value[other]
    return value


@functools.cache
def _compiled_walk() -> Callable[..., None]:
    from procure.files.kernels import njit

    compiled: Callable[..., None] = njit(cache=True)(_walk)
    return compiled


def _walk(features, trees, nodes, total):
    """Add what each tree says of each row to its sum; rows in blocks that stay in the processor's cache."""
    root, output = trees
    left, right, feature, threshold, nan_left, value = nodes
    block = 256
    for first in range(0, len(features), block):
        last = min(first + block, len(features))
        for tree in range(len(root)):
            for row in range(first, last):
                at = root[tree]
                while left[at] != at:
                    given = features[row, feature[at]]
                    go_left = nan_left[at] == 1 if np.isnan(given) else given < threshold[at]
                    at = left[at] if go_left else right[at]
                total[row, output[tree]] += value[at]
