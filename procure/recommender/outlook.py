"""What futures, or several days, say of single packages: how often the best, how often saturated, in which range."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pandas as pd

from procure.models.intervals import SHARE
from procure.objectives.aggregate import REGRET_FLOOR
from procure.recommender.criteria import MEAN_WAIT
from procure.recommender.filling import filled_waits
from procure.recommender.race import FEWEST_KEPT
from procure.recommender.values import PackageValues
from procure.study import Study
from procure.text import counted, duration
from procure.workload.futures import WEEK
from procure.workload.replay import counted_jobs
from procure.workload.scale import cpu_seconds

NEAR = 0.05
"""A package is near the best on a workload if it waits at most 5 % longer; waits up to `REGRET_FLOOR` are level."""


STATED = (0.2, 0.8)
"""Quantiles of the waits on futures between which the next weeks' wait is stated to lie with 90 %. Futures differ more
than the months that came did; on cuts before May (docs/claims/forward.md) these held what came for 96 % of packages."""
DRAWN_IN = NormalDist().inv_cdf(STATED[1]) / NormalDist().inv_cdf((1 + SHARE) / 2)
"""What `STATED` says of how far months differ, as a share of how far futures do; chances are counted with it."""


def outlook(values: PackageValues, rows: np.ndarray, of_futures: bool = False) -> pd.DataFrame:
    """Say how some packages do over the workloads, the same for all of them.

    Parameters
    ----------
    rows
        Of packages; what is predicted or unknown is missing in their rows.
    of_futures
        The workloads are futures, and not days that were.

    Returns
    -------
    pandas.DataFrame
        A row each: ``expected_wait_time`` (the mean wait over all jobs of all workloads, s, simulated or predicted);
        ``outlook_low``, ``outlook_high`` (the stated 90 % range of its mean wait on another such workload, s: the
        quantiles `STATED` of those on futures, 5 % and 95 % of those on days);
        ``best_chance``, ``near_chance`` (shares of the workloads on which it is the best of all packages that run
        every job, alone or tied, and near it, futures drawn in: `best_and_near`; those that were not simulated count
        by what a model predicts of them, where there are ten to learn from);
        ``saturation_chance``.
    """
    mine = values.of_futures > 0  # the past is no chance
    wait = values.results[MEAN_WAIT.column][mine][:, rows]
    known = ~np.isnan(wait).any(axis=0)
    is_best, is_near = best_and_near(_of_all(values)[mine], rows, DRAWN_IN if of_futures else 1.0)
    unknown = np.full_like(values.results[MEAN_WAIT.column], np.nan)
    saturated = values.results.get("saturated", unknown)[mine][:, rows]
    shares = STATED if of_futures else ((1 - SHARE) / 2, (1 + SHARE) / 2)
    tails = np.quantile(np.where(known, wait, 0.0), shares, axis=0)
    able = values.whole.runs_all[rows]
    columns = {
        "outlook_low": tails[0],
        "outlook_high": tails[1],
        "best_chance": (is_best & able).mean(axis=0),
        "near_chance": (is_near & able).mean(axis=0),
        "saturation_chance": saturated.mean(axis=0),
    }
    table = pd.DataFrame({name: np.where(known, column, np.nan) for name, column in columns.items()})
    table.insert(0, "expected_wait_time", values.value(MEAN_WAIT)[0][rows])
    return table


def best_and_near(wait: np.ndarray, rows: np.ndarray, drawn_in: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return on which workloads some packages are the best, alone or tied, and near it, bool[workloads, rows] each.

    Waits up to `REGRET_FLOOR` are level.

    Parameters
    ----------
    wait
        Of all packages, s, float64[workloads, packages]; NaN where unknown.
    drawn_in
        How far a package is behind the best of a workload is first moved towards its median over the workloads, in
        logarithms, so that this share of the distance is left. Futures are drawn wide, for a choice that is safe on all
        of them: counted as they are, each has another best, and every package is the best more seldom than it turns
        out to be.
    """
    log = pd.DataFrame(np.log(np.maximum(wait, REGRET_FLOOR)))
    behind = log.sub(log.min(axis=1), axis=0)
    behind = behind.median() + drawn_in * (behind - behind.median())
    least = behind.min(axis=1) + 1e-9  # ties are not lost to rounding
    mine = behind[rows]
    return mine.le(least, axis=0).to_numpy(), mine.le(least + np.log1p(NEAR), axis=0).to_numpy()


def _of_all(values: PackageValues) -> np.ndarray:
    """Return the wait of all packages that run every job on each workload, simulated or predicted, s; NaN of others.

    Whoever counts the simulated packages only finds a package the best too often: among the many others some are
    better on each future.
    """
    able = values.whole.runs_all
    return filled_waits(values.results[MEAN_WAIT.column], values.packages, able)


def about_futures(
    study: Study, workloads: dict[str, pd.DataFrame], values: PackageValues, row: int
) -> list[str]:
    """Say in sentences what the futures hold for the first package; nothing where there are none."""
    found = outlook(values, np.array([row]), of_futures=True).iloc[0]
    if study.futures is None or np.isnan(found["best_chance"]):
        return []
    mine, able = values.of_futures > 0, values.whole.runs_all
    n, past = int(mine.sum()), "" if mine.all() else "the past and "
    n_simulated = int((values.simulated & able).sum())
    n_known = int((~np.isnan(values.results[MEAN_WAIT.column][:, able]).any(axis=0)).sum())
    best, near = found["best_chance"], found["near_chance"]
    among, others = f"of all {able.sum():,} packages", ""
    if n_known < FEWEST_KEPT and n_known < able.sum():
        among = f"of the {counted(n_known, 'package')} simulated on all of them"
    elif n_simulated < able.sum():
        others = f" ({n_simulated:,} simulated, the others as a model of these has them)"
    text = (
        f"over {past}the {n} futures jobs on the first package wait {duration(found['expected_wait_time'])} on "
        f"average, and in one such period that comes {duration(found['outlook_low'])} to "
        f"{duration(found['outlook_high'])} (90 % by backtests); "
        f"{among} it is the best with a chance of {best:.0%}, and within 5 % of the best with one of {near:.0%}{others}"
    )
    full = values.results["saturated"][mine, row] > 0
    if not full.any():
        return [f"{text}; it saturates in none"]
    load = np.array([cpu_seconds(workloads[case.name]).sum() for case in values.cases])[mine]
    soonest, lightest = study.futures.years_ahead()[full].min(), load[full].min() / load.mean()
    return [
        f"{text}; it saturates in {full.sum()} of {n}: the queue grows to the end there, the lightest of these having "
        f"{lightest:.2f} times their mean load, the first {soonest:.1f} years ahead"
    ]


def about_saturation(
    study: Study, workloads: dict[str, pd.DataFrame], values: PackageValues, row: int
) -> list[str]:
    """Warn of a first package whose queue grows to the end of a workload of a week or more."""
    if study.futures is not None or "saturated" not in values.results:
        return []
    long, warm_up = [], {one.name: one.warm_up for one in study.scenarios}
    for i, case in enumerate(values.cases):
        submit = counted_jobs(workloads[case.name], warm_up[case.name])["submit_time"]
        if values.results["saturated"][i, row] > 0 and submit.max() - submit.min() >= WEEK:
            long.append(case.name)
    return [
        f"the first package saturates on {name}: its queue grows to the end, so its mean wait says how long was "
        "looked, not how good it is; more money, or fewer jobs, are needed"
        for name in long
    ]
