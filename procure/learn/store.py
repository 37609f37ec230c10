"""A trained policy as a file: JSON and NumPy arrays, nothing that could be executed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from procure.errors import TableError
from procure.files.archive import Archive, read_archive, write_archive
from procure.learn.features import FEATURES, LEVELS, N_BINS, RUN_TIME, RunTimes
from procure.learn.published import shapes as published_shapes
from procure.policies.parameters import NOTHING

SCHEMA = "procure-learned-policy/3"
SEARCHED, PUBLISHED = METHODS = ("search", "ppo")


@dataclass(frozen=True)
class TrainedPolicy:
    """What a training gave.

    The arrays of ``search`` are ``weights`` float64[n_features] and ``trust`` float64[1], the jobs that have ended for
    which the history counts; of ``ppo`` the layers, see `procure.learn.published`.
    """

    method: str  # one of `METHODS`
    arrays: Mapping[str, np.ndarray]
    history: RunTimes | None = None  # what was known of run times at the end of the training; None under ``ppo``
    trained: Mapping[str, Any] = field(default_factory=dict)  # on what, how, and with what result


UNTRAINED = TrainedPolicy(SEARCHED, {"weights": np.eye(len(FEATURES))[RUN_TIME], "trust": np.ones(1)})
"""Shortest expected run time first."""


@functools.lru_cache(maxsize=8)
def _read(path: str, changed: int) -> TrainedPolicy:
    return read_policy(path)


def load(file: str) -> TrainedPolicy:
    """Read a trained policy, once for as long as the file does not change; ``none`` is `UNTRAINED`."""
    if file == NOTHING:
        return UNTRAINED
    return _read(file, Path(file).stat().st_mtime_ns if Path(file).is_file() else 0)


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
    if policy.method == SEARCHED:
        head["features"] = list(FEATURES)
    if policy.history is not None:
        head["history"] = {"as_of": policy.history.as_of}
        for i, (table, counts) in enumerate(zip(policy.history.tables, policy.history.counts, strict=True)):
            arrays[f"history/{i}/keys"] = np.array(list(table), dtype=str)
            arrays[f"history/{i}/counts"] = counts
    write_archive(path, Archive(head | {"trained": dict(policy.trained)}, arrays))


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
    head, found = archive.head, archive.arrays
    method, settings = head.get("method"), head.get("history")
    trained: Any = head.get("trained")
    if method not in METHODS:
        raise TableError(f"{path}: the method is {method!r}; {', '.join(METHODS)} are known; train it again")
    if method == SEARCHED and head.get("features") != list(FEATURES):
        raise TableError(f"{path}: made for other features than {', '.join(FEATURES)}; train it again")
    kinds = {} if settings is None else {"as_of": int}
    wrong = not isinstance(trained, dict) or not isinstance(settings, dict | None)
    if wrong or {name: type(value) for name, value in (settings or {}).items()} != kinds:
        raise TableError(f"{path}: what it says of its training is damaged; train it again")
    n_nodes, n_hidden = trained.get("nodes"), len(found.get("policy/bias_1", ()))
    shapes = published_shapes(n_nodes if isinstance(n_nodes, int) else 0, n_hidden)
    shapes = {"weights": (len(FEATURES),), "trust": (1,)} if method == SEARCHED else shapes
    wanted = {f"policy/{name}": shape for name, shape in shapes.items()}
    tables: list[dict[str, int]] = []
    for i in range(len(LEVELS) if settings else 0):
        keys = found.get(f"history/{i}/keys", np.array(0))
        tables.append({str(key): row for row, key in enumerate(keys if keys.ndim == 1 else ())})
        wanted[f"history/{i}/counts"] = (len(tables[-1]), N_BINS)
    for name, shape in wanted.items():
        one = found.get(name)
        if one is None or one.shape != shape or one.dtype.kind != "f" or not np.isfinite(one).all():
            raise TableError(f"{path}: {name} must be {' × '.join(map(str, shape))} finite numbers; train it again")
    counts = tuple(found[f"history/{i}/counts"] for i in range(len(tables)))
    history = RunTimes(**settings, tables=tuple(tables), counts=counts) if settings else None
    return TrainedPolicy(method, {name: found[f"policy/{name}"] for name in shapes}, history, trained)
