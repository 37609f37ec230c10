"""The local clock: patterns follow it, so that a job at nine stays at nine when clocks change."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.workload.clock import zone


def to_local(seconds: np.ndarray, tz: str | None) -> np.ndarray:
    """Turn Unix seconds, int64[n], into seconds of a zone's clock; without a zone they stay."""
    if tz is None:
        return np.array(seconds, np.int64)
    local = pd.DatetimeIndex(_times(seconds)).tz_localize("UTC").tz_convert(zone(tz)).tz_localize(None)
    return local.as_unit("s").astype("int64").to_numpy(dtype=np.int64)


def from_local(seconds: np.ndarray, tz: str | None) -> np.ndarray:
    """Turn seconds of a zone's clock into Unix seconds.

    An hour that the clock shows twice is its first passage; one that it skips is the moment of the change.
    """
    if tz is None:
        return np.array(seconds, np.int64)
    local = pd.DatetimeIndex(_times(seconds))
    there = local.tz_localize(zone(tz), ambiguous=np.ones(len(local), bool), nonexistent="shift_forward")
    return there.tz_convert("UTC").tz_localize(None).as_unit("s").astype("int64").to_numpy(dtype=np.int64)


def _times(seconds: np.ndarray) -> np.ndarray:
    return np.asarray(seconds, np.int64).astype("datetime64[s]")
