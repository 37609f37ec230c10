"""The learned rest on the disk: ``rest.npz`` beside ``site.toml``; arrays only, nothing in it is executed."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from procure.errors import TableError
from procure.files.write import whole_file
from procure.fitting.model import Rest, no_rest
from procure.fitting.trees import Trees
from procure.fitting.watch import FEATURES

REST = "rest.npz"


def write_rest(rest: Rest, folder: str | Path) -> Path:
    """Write a learned rest into a site's folder."""
    path = Path(folder) / REST
    arrays = {f"trees_{name}": np.asarray(value) for name, value in rest.trees._asdict().items()}
    for i in range(3):
        arrays[f"names_{i}"], arrays[f"means_{i}"] = rest.names[i], rest.means[i]
    numbers = np.array([rest.mean, rest.recent, rest.scale, rest.longest])
    room = io.BytesIO()
    arrays |= {"low": rest.low, "high": rest.high, "numbers": numbers, "features": np.array(FEATURES)}
    np.savez_compressed(room, allow_pickle=False, **arrays)
    with whole_file(path) as temporary:
        temporary.write_bytes(room.getvalue())
    return path


def read_rest(folder: str | Path) -> Rest:
    """Read the learned rest of a site's folder; one that holds nobody where there is none.

    Raises
    ------
    TableError
        The file is damaged, or was written by another version.
    """
    path = Path(folder) / REST
    if not path.is_file():
        return no_rest()
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        trees = Trees(  # type: ignore[call-arg]
            *(arrays[f"trees_{name}"] for name in ("feature", "value", "left", "right", "root")),
            float(arrays["trees_base"]),
        )
        _check(trees, len(FEATURES))
        if arrays["features"].tolist() != list(FEATURES) or arrays["numbers"].shape != (4,):
            raise TableError(f"{path} is of another version of procure; run `procure site fit` again")
        mean, recent, scale, longest = arrays["numbers"].astype(float).tolist()
        names = tuple(arrays[f"names_{i}"].astype(str) for i in range(3))
        means = tuple(arrays[f"means_{i}"].astype(np.float64) for i in range(3))
        low, high = (arrays[name].astype(np.float64) for name in ("low", "high"))
        if len(trees.root) and not (low.shape == high.shape == (len(FEATURES),)):
            raise ValueError("ranges")
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{path} is damaged; run `procure site fit` again") from error
    return Rest(trees, low, high, names, means, mean, recent, scale, longest)  # type: ignore[arg-type]


def _check(trees: Trees, n_features: int) -> None:
    """Refuse trees that a kernel would leave its arrays by: children stand behind their parents, features exist."""
    n = len(trees.feature)
    at = np.arange(n)
    split = trees.left >= 0
    same = all(len(one) == n for one in (trees.value, trees.left, trees.right))
    if not same or (trees.root < 0).any() or (trees.root >= max(n, 1)).any():
        raise ValueError("lengths")
    inside = all(((one[split] > at[split]) & (one[split] < n)).all() for one in (trees.left, trees.right))
    if not inside or ((trees.feature < 0) | (trees.feature >= n_features))[split].any():
        raise ValueError("knots")
