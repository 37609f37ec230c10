"""A trained policy as a file: JSON and NumPy arrays, nothing that could be executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from procure.errors import TableError
from procure.files.archive import Archive, read_archive, write_archive
from procure.learn.features import FEATURES
from procure.learn.published import shapes as published_shapes
from procure.learn.run_times import N_BINS, RunTimes
from procure.learn.scores import PLACES

SCHEMA = "procure-learned-policy/1"
METHODS = ("search", "ppo")


@dataclass(frozen=True)
class TrainedPolicy:
    """What a training gave.

    Attributes
    ----------
    method
        One of `METHODS`.
    arrays
        ``search``: ``weights`` float64[n_features], ``hidden`` float64[n_hidden, n_features + 2], ``places``
        float64[n_places], ``trust`` float64[1]. ``ppo``: the layers, see `procure.learn.published`.
    history
        What was known of run times at the end of the training; None under ``ppo``.
    trained
        On what, how, and with what result.
    judged
        By `procure.learn.judge`, if it was.
    """

    method: str
    arrays: Mapping[str, np.ndarray]
    history: RunTimes | None = None
    trained: Mapping[str, Any] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=dict)


def write_policy(path: str | Path, policy: TrainedPolicy) -> None:
    """Write a trained policy, whole or not at all; the same policy is the same bytes.

    Examples
    --------
    >>> import procure
    >>> policy = procure.read_policy("site.policy")
    >>> procure.write_policy("copy.policy", policy)
    """
    head: dict[str, Any] = {"schema": SCHEMA, "method": policy.method}
    arrays = {f"policy/{name}": array for name, array in policy.arrays.items()}
    if policy.method == "search":
        head |= {"features": list(FEATURES), "places": list(PLACES)}
    if policy.history is not None:
        known = policy.history
        head["history"] = {"strength": known.strength, "half_life": known.half_life, "by_user": known.by_user}
        head["history"]["as_of"] = known.as_of
        for i, (table, counts) in enumerate(zip(known.tables, known.counts, strict=True)):
            arrays[f"history/{i}/keys"] = np.array(list(table), dtype=str)
            arrays[f"history/{i}/counts"] = counts
    head |= {"trained": dict(policy.trained), "judged": dict(policy.judged)}
    write_archive(path, Archive(head, arrays))


def read_policy(path: str | Path) -> TrainedPolicy:
    """Read a trained policy and check it.

    Raises
    ------
    TableError
        No such file, a damaged one, one of another version, made for other features, with arrays of a
        wrong shape, or with values that are not finite.

    Examples
    --------
    >>> import procure
    >>> procure.read_policy("site.policy").method
    'search'
    """
    archive = read_archive(path, SCHEMA, "; `procure learn train` makes one")
    head = archive.head
    method = head.get("method")
    if method not in METHODS:
        raise TableError(f"{path}: the method is {method!r}; {', '.join(METHODS)} are known; train it again")
    if not all(isinstance(head.get(name, {}), dict) for name in ("trained", "judged")):
        raise TableError(f"{path}: what it says of its training is damaged; train it again")
    for name, array in archive.arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise TableError(f"{path}: {name} holds values that are not finite; train it again")
    arrays = {
        name.removeprefix("policy/"): array for name, array in archive.arrays.items() if name.startswith("policy/")
    }
    if method == "search":
        _check_search(path, head, arrays)
    else:
        n_nodes = head.get("trained", {}).get("nodes")
        n_hidden = len(arrays["bias_1"]) if "bias_1" in arrays else None
        check_shapes(path, arrays, published_shapes(n_nodes if isinstance(n_nodes, int) else 0, n_hidden))
    history = _history(path, head, archive.arrays) if "history" in head else None
    return TrainedPolicy(method, arrays, history, head.get("trained", {}), head.get("judged", {}))


def _check_search(path: str | Path, head: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    for what, own in (("features", FEATURES), ("places", PLACES)):
        if head.get(what) != list(own):
            found = head.get(what)
            names = ", ".join(map(str, found)) if isinstance(found, list) and found else "none"
            raise TableError(
                f"{path}: made for the {what} {names}; this version knows {', '.join(own)}; train it again"
            )
    n = len(FEATURES)
    shapes = {"weights": (n,), "hidden": (None, n + 2), "places": (len(PLACES),), "trust": (1,)}
    check_shapes(path, arrays, shapes)


def check_shapes(
    path: str | Path, arrays: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int | None, ...]]
) -> None:
    """Refuse arrays that lack, hold no fractions or have another shape; None stands for any length."""
    for name, shape in shapes.items():
        found = arrays[name].shape if name in arrays else None
        right = found is not None and len(found) == len(shape) and arrays[name].dtype.kind == "f"
        right = right and all(want in (None, have) for want, have in zip(shape, found or (), strict=True))
        if not right:
            words = " × ".join("any" if size is None else str(size) for size in shape)
            kind = "" if found is None else f" of {arrays[name].dtype}"
            raise TableError(f"{path}: {name} has the shape {found}{kind}; it must be {words}; train it again")


def _history(path: str | Path, head: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> RunTimes:
    settings = head["history"]
    kinds: dict[str, Any] = {
        "strength": (int, float),
        "half_life": (int, float),
        "by_user": bool,
        "as_of": int,
    }
    if (
        not isinstance(settings, dict)
        or settings.keys() != kinds.keys()
        or not all(isinstance(settings[name], kind) and settings[name] >= 0 for name, kind in kinds.items())
    ):
        raise TableError(f"{path}: the settings of the history of run times are wrong; train it again")
    empty = RunTimes(**settings)
    tables, counts = [], []
    for i in range(len(empty.levels)):
        keys, held = arrays.get(f"history/{i}/keys"), arrays.get(f"history/{i}/counts")
        if (
            keys is None
            or held is None
            or keys.ndim != 1
            or held.shape != (len(keys), N_BINS)
            or held.dtype.kind != "f"
        ):
            raise TableError(f"{path}: the history of run times is incomplete; train it again")
        tables.append({str(key): row for row, key in enumerate(keys)})
        counts.append(held)
    return RunTimes(**head["history"], tables=tuple(tables), counts=tuple(counts))
