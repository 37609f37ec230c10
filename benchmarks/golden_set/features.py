"""Queue-time features of two logs: a digest of each column."""

from __future__ import annotations

from functools import partial

from golden_set.base import Part, Place, table
from golden_set.doors import feature_table
from golden_set.tables import LOGS, log


def _features(name: str, place: Place) -> dict[str, object]:
    return table(feature_table(log(place, name)))


PARTS = {name: Part(partial(_features, name), (LOGS[name][0],)) for name in ("KTH", "HPC2N")}
