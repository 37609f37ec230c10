"""What sections share: parts with the files that they need, and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Place:
    """Where a part finds its data, may write, and how many processes it may use."""

    data: Path
    folder: Path
    workers: int = 1


@dataclass(frozen=True)
class Part:
    """A piece of a section: ``values`` makes its golden values, by key."""

    values: Callable[[Place], dict[str, object]]
    needs: tuple[str, ...] = field(default=())
    """Files under `Place.data`."""


def digest(*columns: Iterable) -> str:
    """Return twelve hexadecimal digits of a column's values: whole numbers and texts exactly, floats to 30 bits."""
    found = hashlib.sha256()
    for column in columns:
        values = pd.Series(column)
        missing = values.isna().to_numpy()
        found.update(missing.tobytes())
        if pd.api.types.is_float_dtype(values.dtype):
            part, power = np.frexp(np.nan_to_num(values.to_numpy(np.float64, na_value=0), posinf=1e308, neginf=-1e308))
            found.update(np.rint(part * 2**30).astype(np.int64).tobytes() + power.astype(np.int64).tobytes())
        elif pd.api.types.is_integer_dtype(values.dtype) or pd.api.types.is_bool_dtype(values.dtype):
            found.update(values.fillna(0).astype(np.int64).to_numpy().tobytes())
        else:
            found.update("\0".join(values.astype(object).where(~missing, "").map(str)).encode())
    return found.hexdigest()[:12]


def table(frame: pd.DataFrame) -> dict[str, object]:
    """Return the number of rows and a digest of every column that holds anything."""
    columns = {name: digest(frame[name]) for name in frame.columns if frame[name].notna().any()}
    return {"rows": len(frame), **columns}
