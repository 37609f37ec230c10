"""A probe: how long jobs wait on each day of a log, over every n-th package of a study."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from procure.errors import TableError
from procure.progress import silent
from procure.study import load_plan
from procure.study.study import Study, Sweep
from procure.study.workloads import Workload
from procure.sweep.run import run_sweep
from procure.sweep.store import read_results
from procure.tables import write

EVERY = 1_237
"""By default every 1,237th distinct package is simulated: about a hundred of a hundred thousand."""


def probe_days(
    study: Study,
    days: dict[str, pd.DataFrame],
    folder: Path,
    every: int = EVERY,
    farm: str = "local",
    *,
    note: Callable[[str], None] = silent,
) -> pd.Series:
    """Simulate every n-th distinct package of a study on each day, under the study's first policy.

    Parameters
    ----------
    study
        Its quotes, budget and simulation are used; of its workloads only the logged speed of the first.
    days
        Job tables by day; a workload each.
    folder
        The job tables are written here, ``jobs-DAY.parquet``, and the results under ``results/probe``. A
        probe that was interrupted computes only what is missing.
    every
        From the first distinct package on.
    farm, note
        As for `run_sweep`.

    Returns
    -------
    pandas.Series
        Median over the packages of the mean wait, s, by day; packages that leave jobs out count with the
        mean over the jobs that ran. NaN where no job of the day ran anywhere.

    Raises
    ------
    TableError
        The study's inputs are wrong, or the folder holds a probe of other inputs.
    """
    like = study.workloads[0]
    tables = []
    for day, jobs in days.items():
        path = folder / f"jobs-{day}.parquet"
        write(jobs, path)
        tables.append(
            Workload(
                name=day,
                jobs=path,
                logged_processor=like.logged_processor,
                logged_speed=like.logged_speed,
            )
        )
    plan = load_plan(
        study.model_copy(
            update={
                "name": "probe",
                "results": folder / "results",
                "workloads": tuple(tables),
                "futures": None,
                "sweep": Sweep(sample=every),
                "simulate": study.simulate.model_copy(update={"policies": study.simulate.policies[:1]}),
            }
        )
    )
    run_sweep(plan, farm, note=note)
    results = read_results(plan.study, plan)
    # An earlier probe of more packages may have left its rows in the folder.
    probed = plan.packages["package_id"].iloc[plan.sampled_rows]
    results = results[results["package_id"].isin(probed)]
    failed = results[results["status"] != "ok"]
    if len(failed):
        first = failed.iloc[0]
        raise TableError(
            f"{len(failed):,} runs of the probe failed; the first: {first['package_id']} on {first['workload']}: "
            f"{first['reason']}"
        )
    waits = results.groupby("workload")["mean_wait_time"].median()
    return waits.astype("float64").reindex(list(days))
