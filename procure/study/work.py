"""What a study's workloads ask of packages: run times on each type, for costs that are reckoned without simulation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from procure.packages.runnable import RunTimes, WorkloadDemand, work_of
from procure.study.study import Study
from procure.workload.speed import Speed
from procure.workload.speedups import run_times_on


def works_of(
    study: Study, quotes: pd.DataFrame, existing: pd.DataFrame | None, workloads: Mapping[str, pd.DataFrame]
) -> dict[str, WorkloadDemand]:
    """Lay workloads out with run times as a simulation has them on a node of each type, under ``kill_at_limit``."""
    speeds = {one.name: study.logged_speed(one, quotes) for one in study.scenarios}
    return {
        name: work_of(jobs, quotes, existing, _run_times(jobs, speeds[name], study.simulate.kill_at_limit))
        for name, jobs in workloads.items()
    }


def _run_times(jobs: pd.DataFrame, logged: Speed, kill_at_limit: bool) -> RunTimes:
    limit = jobs["requested_time"].to_numpy(dtype="int64")
    limit = np.where((limit > 0) & kill_at_limit, limit, np.iinfo(np.int64).max)

    def on_node(speed: Any, model: str, kind: str) -> np.ndarray:
        return np.minimum(run_times_on(jobs, logged, speed, model, kind), limit)

    return on_node
