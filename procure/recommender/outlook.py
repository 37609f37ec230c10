"""What futures, or several days, say of single packages: how often the best, how often saturated, in which range."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.models.intervals import SHARE
from procure.objectives import Quantity
from procure.objectives.aggregate import REGRET_FLOOR
from procure.recommender.chances import NEAR, STATED, Outlook, draw_periods, learn_drift
from procure.recommender.criteria import MEAN_WAIT
from procure.recommender.filling import filled_waits
from procure.recommender.race import FEWEST_KEPT
from procure.recommender.values import PackageValues
from procure.study import Study
from procure.text import counted, duration
from procure.workload.futures import WEEK
from procure.workload.past import PAST_NAMES
from procure.workload.replay import counted_jobs
from procure.workload.scale import cpu_seconds


def outlook(
    values: PackageValues, rows: np.ndarray, of_futures: bool = False, of: Quantity = MEAN_WAIT
) -> pd.DataFrame:
    """Say how some packages do over the workloads, the same for all of them.

    Parameters
    ----------
    rows
        Of packages; what is predicted or unknown is missing in their rows.
    of_futures
        The workloads are futures, and not days that were.
    of
        What chances are of: `chances_of` the objective.

    Returns
    -------
    pandas.DataFrame
        A row each: ``expected_wait_time`` (the mean wait over all jobs of all workloads, s, simulated or predicted);
        ``outlook_low``, ``outlook_high`` (the stated 90 % range of its mean wait on another such workload, s: of the
        periods drawn from futures, see `draw_periods`, and its own mean; 5 % and 95 % of those on days);
        ``best_chance``, ``near_chance`` (to be the best of all packages that run every job, alone or tied, and near
        it, by ``of``: shares of the drawn periods, or of the days; those that were not simulated count by what a model
        predicts of them, where there are ten to learn from); ``saturation_chance``.
    """
    mine = values.of_futures > 0  # the past is no chance
    wait = values.results[MEAN_WAIT.column][mine][:, rows]
    known = ~np.isnan(wait).any(axis=0)
    expected = values.value(MEAN_WAIT)[0][rows]
    if of_futures:
        look = _periods(values, rows, of)
        best, near = look.best_and_near(rows)
        low, high = (look if of == MEAN_WAIT else _periods(values, rows, MEAN_WAIT)).ranges(rows, expected)
    else:
        is_best, is_near = best_and_near(_of_all(values, of)[mine], rows, floor_of(of))
        best, near = is_best.mean(axis=0), is_near.mean(axis=0)
        low, high = np.quantile(np.where(known, wait, 0.0), ((1 - SHARE) / 2, (1 + SHARE) / 2), axis=0)
    unknown = np.full_like(values.results[MEAN_WAIT.column], np.nan)
    saturated = values.results.get("saturated", unknown)[mine][:, rows]
    able = values.whole.runs_all[rows]
    columns = {
        "outlook_low": low,
        "outlook_high": high,
        "best_chance": np.where(able, best, 0.0),
        "near_chance": np.where(able, near, 0.0),
        "saturation_chance": saturated.mean(axis=0),
    }
    table = pd.DataFrame({name: np.where(known, column, np.nan) for name, column in columns.items()})
    table.insert(0, "expected_wait_time", expected)
    return table


def chances_of(objective: Quantity) -> Quantity:
    """Return what chances are stated of: the objective, where it has a value on each workload; else the mean wait."""
    single = objective.source == "result" and not objective.by_rank and objective.how != "regret-max"
    return objective if single else MEAN_WAIT


def floor_of(of: Quantity) -> float:
    """Return up to which figure packages are level: a minute, or a hundredth."""
    return REGRET_FLOOR if of.unit == "s" else 0.01


def _periods(values: PackageValues, rows: np.ndarray, of: Quantity) -> Outlook:
    """Draw periods that come of a quantity, for packages that run every job."""
    names, mine = [case.name for case in values.cases], values.of_futures > 0
    every = _of_all(values, of)
    parts = np.array([every[names.index(name)] for name in PAST_NAMES[1:] if name in names])
    past = every[names.index(PAST_NAMES[0])] if PAST_NAMES[0] in names else None
    floor = floor_of(of)
    drift = learn_drift(parts, every[mine], floor) if len(parts) else STATED
    return draw_periods(every[mine], past, rows, drift, floor)


def best_and_near(figures: np.ndarray, rows: np.ndarray, floor: float = REGRET_FLOOR) -> tuple[np.ndarray, np.ndarray]:
    """Return on which workloads some packages are the best, alone or tied, and near it, bool[workloads, rows] each.

    Parameters
    ----------
    figures
        Of all packages, float64[workloads, packages]; NaN where unknown.
    floor
        Figures up to it are level.
    """
    level = pd.DataFrame(np.maximum(figures, floor))
    least = level.min(axis=1) * (1 + 1e-9)  # ties are not lost to rounding
    mine = level[rows]
    return mine.le(least, axis=0).to_numpy(), mine.le(least * (1 + NEAR), axis=0).to_numpy()


def _of_all(values: PackageValues, of: Quantity) -> np.ndarray:
    """Return a figure of all packages that run every job on each workload, simulated or predicted; NaN of others.

    Whoever counts the simulated packages only finds a package the best too often: among the many others some are
    better on each future. Figures other than times are not predicted.
    """
    able, held = values.whole.runs_all, values.results[of.column]
    if of.unit == "s":
        return filled_waits(held, values.packages, able)
    return np.where(able, held, np.nan)


def about_futures(
    study: Study,
    workloads: dict[str, pd.DataFrame],
    values: PackageValues,
    row: int,
    objective: Quantity = MEAN_WAIT,
) -> list[str]:
    """Say in sentences what the futures hold for the first package; nothing where there are none."""
    of = chances_of(objective)
    found = outlook(values, np.array([row]), True, of).iloc[0]
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
        f"{among} it is the best by {of.name} with a chance of {best:.0%}, and within 5 % of the best with one of "
        f"{near:.0%}{others}"
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


def about_saturation(study: Study, workloads: dict[str, pd.DataFrame], values: PackageValues, row: int) -> list[str]:
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
