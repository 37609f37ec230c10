"""Check a booster's bytes before XGBoost reads them: its reader and its predictor trust what they are given.

XGBoost writes a booster as UBJSON, a binary JSON. Here it is read within its bounds, and refused unless the predictor
stays within its arrays: trees with numeric splits and one value to a leaf. What the predictor does not index may differ
from version to version of XGBoost, and is not looked at.
"""

from __future__ import annotations

import json
import math
import struct
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from procure.errors import TableError

_OBJECTIVES: dict[str, tuple[str, str] | None] = {
    "reg:squarederror": ("reg_loss_param", "scale_pos_weight"),
    "reg:tweedie": ("tweedie_regression_param", "tweedie_variance_power"),
    "reg:quantileerror": ("quantile_loss_param", "quantile_alpha"),
    "binary:logistic": ("reg_loss_param", "scale_pos_weight"),
    "reg:absoluteerror": None,
}
_NUMBERS = {
    b"i": struct.Struct(">b"),
    b"U": struct.Struct(">B"),
    b"I": struct.Struct(">h"),
    b"l": struct.Struct(">i"),
    b"L": struct.Struct(">q"),
    b"d": struct.Struct(">f"),
    b"D": struct.Struct(">d"),
}
_DTYPES = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_LENGTH = struct.Struct(">q")
_DEEPEST = 12
_NO_PARENT = 2**31 - 1

_NODE_ARRAYS = {
    "base_weights": ">f4",
    "default_left": ">u1",
    "left_children": ">i4",
    "loss_changes": ">f4",
    "parents": ">i4",
    "right_children": ">i4",
    "split_conditions": ">f4",
    "split_indices": ">i4",
    "split_type": ">u1",
    "sum_hessian": ">f4",
}
_CATEGORICAL_ARRAYS = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


class _Damaged(Exception):
    """The bytes are no booster of procure."""


def read_learner(content: bytes) -> dict[str, Any]:
    """Return the learner of a booster that this process has trained or checked; nothing is checked."""
    return dict(_Reader(content).value()["learner"])


def check_booster(content: bytes, source: str) -> dict[str, Any]:
    """Return the learner of a saved booster, if XGBoost can read and evaluate it within its arrays.

    Every tree must be a tree: children within its nodes, each node but the root the child of one node that
    stands before it; every split on one of the booster's features; every number finite.

    Raises
    ------
    TableError
        The bytes are damaged, or another version of XGBoost wrote what this one cannot evaluate.
    """
    written_by = None
    try:
        reader = _Reader(content)
        document = reader.value()
        _require(reader.at == len(content))
        written_by = ".".join(str(int(part)) for part in document["version"])
        _check_learner(document["learner"])
        return dict(document["learner"])
    except (
        _Damaged,
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        struct.error,
        OverflowError,
    ):
        why = "the model file is damaged"
        if written_by is not None and written_by != (installed := installed_xgboost()):
            why = f"XGBoost {written_by} wrote this model, XGBoost {installed} is installed, or the file is damaged"
        raise TableError(f"{source}: {why}; train it again") from None


def installed_xgboost() -> str:
    """Return the version of XGBoost, whichever of its builds is installed."""
    for name in ("xgboost", "xgboost-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"


def _require(true: Any) -> None:
    if not true:
        raise _Damaged


class _Reader:
    """Reads the UBJSON that XGBoost writes; arrays of one type become NumPy arrays."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def value(self, depth: int = 0) -> Any:
        _require(depth < _DEEPEST)
        marker = self._take(1)
        if marker == b"{":
            return self._object(depth)
        if marker == b"[":
            return self._array(depth)
        if marker == b"S":
            return self._text()
        _require(marker in _NUMBERS)
        number = _NUMBERS[marker]
        return number.unpack(self._take(number.size))[0]

    def _take(self, n: int) -> bytes:
        _require(0 <= n <= len(self.content) - self.at)
        self.at += n
        return self.content[self.at - n : self.at]

    def _length(self) -> int:
        _require(self._take(1) == b"L")
        return int(_LENGTH.unpack(self._take(8))[0])

    def _text(self) -> str:
        return self._take(self._length()).decode("ascii")

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.content[self.at : self.at + 1] != b"}":
            key = self._text()
            _require(key not in found)
            found[key] = self.value(depth + 1)
        self.at += 1
        return found

    def _array(self, depth: int) -> Any:
        kind = self._take(1)
        if kind == b"$":
            dtype = np.dtype(_DTYPES[self._take(1)])
            _require(self._take(1) == b"#")
            return np.frombuffer(self._take(self._length() * dtype.itemsize), dtype)
        _require(kind == b"#")
        n = self._length()
        _require(0 <= n <= len(self.content) - self.at)
        return [self.value(depth + 1) for _ in range(n)]


def _check_learner(learner: Any) -> None:
    parameters = learner["learner_model_param"]
    _require(parameters.get("num_class", "0") == "0")
    n_features, n_targets = _whole(parameters["num_feature"]), _whole(parameters["num_target"])
    scores = json.loads(parameters["base_score"])  # a number up to XGBoost 3.0, a list since
    scores = scores if type(scores) is list else [scores]
    _require(len(scores) in (1, n_targets) and n_targets >= 1)
    _require(all(type(score) is float and math.isfinite(score) for score in scores))
    _check_objective(learner["objective"], n_targets)
    booster = learner["gradient_booster"]
    _require(booster["name"] == "gbtree")
    _check_trees(booster["model"], n_features, n_targets)


def _check_objective(objective: Any, n_targets: int) -> None:
    known = _OBJECTIVES[objective["name"]]
    if known is None:
        return
    settings, name = known
    numbers = json.loads(objective[settings][name])
    numbers = numbers if type(numbers) is list else [numbers]
    _require(all(type(number) in (int, float) and math.isfinite(number) for number in numbers))
    _require(len(numbers) == (n_targets if name == "quantile_alpha" else 1))


def _check_trees(model: Any, n_features: int, n_targets: int) -> None:
    _require(all(len(value) == 0 for value in model.get("cats", {}).values()))
    trees, counts = model["trees"], model["gbtree_model_param"]
    _require(counts["num_parallel_tree"] == "1" and counts["num_trees"] == str(len(trees)))
    info, rounds = np.asarray(model["tree_info"]), np.asarray(model["iteration_indptr"])
    _require(len(info) == len(trees) > 0 and info.dtype.kind in "iu" and rounds.dtype.kind in "iu")
    _require(((info >= 0) & (info < n_targets)).all())
    _require(rounds[0] == 0 and rounds[-1] == len(trees) and (np.diff(rounds) >= 0).all())
    for place, tree in enumerate(trees):
        _check_form(tree, place, n_features)
    sizes = np.array([len(tree["parents"]) for tree in trees])
    _check_nodes({name: np.concatenate([tree[name] for tree in trees]) for name in _NODE_ARRAYS}, sizes, n_features)


def _check_form(tree: Any, place: int, n_features: int) -> None:
    """Check that a tree has the arrays that it should have, each as long as it says."""
    _require(tree["id"] == place)
    size = tree["tree_param"]
    n = len(tree["parents"])
    _require(
        n > 0
        and size["num_deleted"] == "0"
        and size["num_feature"] == str(n_features)
        and size["num_nodes"] == str(n)
        and size["size_leaf_vector"] in ("0", "1")
    )
    for name, dtype in _NODE_ARRAYS.items():
        _require(tree[name].dtype == dtype and len(tree[name]) == n)
    _require(all(len(tree.get(name, ())) == 0 for name in _CATEGORICAL_ARRAYS))


def _check_nodes(nodes: dict[str, np.ndarray], sizes: np.ndarray, n_features: int) -> None:
    """Check all nodes of all trees at once; ``sizes`` are the nodes of each tree."""
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    own = np.arange(len(first)) - first
    left, right, parents = (nodes[name].astype(np.int64) for name in ("left_children", "right_children", "parents"))
    inner = left != -1
    _require((inner == (right != -1)).all())
    children = np.concatenate([left[inner], right[inner]])
    before, most = np.tile(own[inner], 2), np.tile(np.repeat(sizes, sizes)[inner], 2)
    _require(((children > before) & (children < most)).all())
    # Each node but the roots is the child of one other, the one that it names.
    place = children + np.tile(first[inner], 2)
    _require((np.bincount(place, minlength=len(own)) == (own > 0)).all())
    _require((parents[place] == before).all() and (parents[own == 0] == _NO_PARENT).all())
    splits = nodes["split_indices"]
    _require(((splits >= 0) & (splits < n_features)).all())
    _require((nodes["split_type"] == 0).all() and (nodes["default_left"] <= 1).all())
    for name in ("base_weights", "loss_changes", "split_conditions", "sum_hessian"):
        _require(np.isfinite(nodes[name]).all())


def _whole(text: Any) -> int:
    _require(isinstance(text, str) and text.isdecimal() and text.isascii() and len(text) < 10)
    return int(text)
