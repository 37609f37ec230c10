"""Every forecast that was given out, and what became of it: the record by which the service is judged in public."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from procure.queue_time.distribution import Distribution
from procure.queue_time.experts import guess
from procure.queue_time.features import picked, site_features
from procure.queue_time.model import QueueTimeModel
from procure.queue_time.predict import Request
from procure.queue_time.recent import columns as recent_columns
from procure.queue_time.store import SiteModel
from procure.serve.closed import Closed, held, soonest
from procure.serve.store import FORECAST_COLUMNS, Store

DEADLINES = {"1h": 3600, "4h": 14_400, "12h": 43_200}
WEEK, DAY = 7 * 86_400, 86_400
LOW, ENOUGH = 0.8, 30
"""A week's coverage below this share, of at least so many jobs, is said before anything else."""
_WEEK_MEDIAN = recent_columns("week")[3]

_CHANCES = ", ".join(
    f"avg((chance_{name} - (wait <= {seconds})) * (chance_{name} - (wait <= {seconds}))), avg(wait <= {seconds})"
    for name, seconds in DEADLINES.items()
)
_HELD = ", ".join(f"avg(wait >= lower_{share} and wait <= upper_{share})" for share in (50, 90))
_MEASURES = (
    f"count(*), {_HELD}, avg(abs(wait - median)), avg(abs(wait - week_median)), avg(abs(wait - last_five)), avg(wait), "
    f"{_CHANCES}"
)
_NAMES = (
    "n coverage_50 coverage_90 mae mae_week_median mae_last_five mae_zero brier_1h share_1h brier_4h share_4h "
    "brier_12h share_12h"
).split()


def forecasts(
    site: SiteModel, table: pd.DataFrame, rows: np.ndarray, issued: int, late: np.ndarray, closed: Closed
) -> pd.DataFrame:
    """Forecast the waits of jobs as of their submission.

    Parameters
    ----------
    site
        The model.
    table
        A job table of what is known; features look at what was known when each job was submitted.
    rows
        Positions of the jobs in it.
    issued
        Now, Unix seconds.
    late
        (n,) which of them had started before they were seen.
    closed
        What is closed to jobs.

    Returns
    -------
    pandas.DataFrame
        `procure.serve.store.FORECAST_COLUMNS`.
    """
    features = site_features(table, site.seen, rows)
    about = table.iloc[rows]
    found = pd.DataFrame(
        {
            "job_id": about["job_id"].astype(str).to_numpy(),
            "submit_time": about["submit_time"].to_numpy(),
            "partition": about["partition"].to_numpy(),
            "issued": issued,
            "source": np.where(late, "late", "poll"),
        }
    )
    asked = [(Request.of(job), int(job.submit_time)) for job in about.itertuples(index=False)]
    found = found.assign(**read_off(site, features, asked, closed), **naive(site, features)).reindex(
        columns=list(FORECAST_COLUMNS)
    )
    return rounded(found)


def rounded(found: pd.DataFrame) -> pd.DataFrame:
    """Round the ends of intervals outward to whole seconds, as `procure.queue_time.metrics.covered` judges them."""
    ends = {f"lower_{share}": np.floor(found[f"lower_{share}"].astype(float)) for share in (50, 90)}
    return found.assign(
        **ends, **{f"upper_{share}": np.ceil(found[f"upper_{share}"].astype(float)) for share in (50, 90)}
    )


def read_off(
    site: SiteModel, features: pd.DataFrame, asked: list[tuple[Request, int]], closed: Closed
) -> dict[str, np.ndarray]:
    """Return median, intervals and chances of each row of features, s; ``asked`` says what and when each was."""
    if not isinstance(site.model, QueueTimeModel):
        return {"median": np.maximum(site.model.predict(features), 0.0)}
    return off(Distribution(held(site.model.distribution(features).curve, soonest(closed, asked))))


def off(said: Distribution) -> dict[str, np.ndarray]:
    """Return median, intervals and chances of distributions, by the names of the record."""
    found = {"median": said.quantile(0.5)}
    for share in (50, 90):
        ends = said.interval(share / 100)
        found |= {f"lower_{share}": ends[:, 0], f"upper_{share}": ends[:, 1]}
    return found | {f"chance_{name}": said.chance(seconds) for name, seconds in DEADLINES.items()}


def naive(site: SiteModel, features: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the guesses that need no model: the partition's median of the week, the mean of its last five, s."""
    usual = site.model.usual if isinstance(site.model, QueueTimeModel) else np.zeros(13)
    middle = float(usual[len(usual) // 2])
    week = np.expm1(picked(features, (_WEEK_MEDIAN,))[:, 0].astype(float))
    return {
        "week_median": np.where(np.isnan(week), middle, week),
        "last_five": guess(features, "partition_5", middle),
    }


def record(store: Store, since: int = 0, by: str = "", until: int = 2**40) -> list[dict[str, Any]]:
    """Judge the forecasts of the jobs submitted in a span that have started, and were forecast before they did.

    Parameters
    ----------
    store
        The service's.
    since, until
        Unix seconds.
    by
        ``partition`` or ``day`` (of submission, UTC) gives a row for each; "" one row of all.

    Returns
    -------
    list of dict
        ``n``, the coverages, mean absolute errors (s) of the forecast and of guesses, and for each deadline the Brier
        score and that of the share that started by it (``brier_base_…``). The ends of an interval are rounded outward
        to whole seconds, as `procure queue evaluate` does.
    """
    group = {"": "null", "partition": "partition", "day": "submit_time / 86400"}[by]
    found = store.rows(
        f"select {group}, {_MEASURES} from forecasts where wait is not null and source != 'late' and submit_time >= ? "
        f"and submit_time < ?{f' group by {group} order by 1' if by else ''}",
        (since, until),
    )
    rows = []
    for label, *values in found:
        row = dict(zip(_NAMES, values, strict=True))
        for name in DEADLINES:
            share = row.pop(f"share_{name}")
            row[f"brier_base_{name}"] = None if share is None else share * (1 - share)
        rows.append(({by: label * DAY if by == "day" else label} if by else {}) | row)
    return rows


def counts(store: Store) -> dict[str, int]:
    """Return how many forecasts there are: judged, late, of jobs that gave up, and open."""
    [found] = store.rows(
        "select count(*), sum(wait is not null and source != 'late'), sum(source = 'late'), sum(gave_up is not null), "
        "sum(wait is null and gave_up is null) from forecasts"
    )
    return dict(zip(("given", "judged", "late", "gave_up", "open"), (int(value or 0) for value in found), strict=True))


def counted(store: Store, now: int, days: int, hide: Collection[str]) -> dict[str, Any]:
    """Return how the forecasts of the last days, 0 = all of them, have held; some partitions are not shown."""
    since = now - days * DAY if days else 0
    gaps = store.rows("select begin, end from gaps order by begin desc limit 20")
    return {
        "all": record(store, since)[0],
        "by_partition": [row for row in record(store, since, "partition") if row["partition"] not in hide],
        "by_day": record(store, since, "day"),
        "counts": counts(store),
        "gaps": [{"begin": begin, "end": end} for begin, end in gaps],
        "warning": warning(store, now),
    }


def warning(store: Store, now: int) -> str | None:
    """Say that the intervals have not held for a week, where that is so; who waits beyond one counts as missed."""
    [week] = record(store, now - WEEK)
    [(beyond,)] = store.rows(
        "select count(*) from forecasts where wait is null and gave_up is null and source != 'late' "
        "and submit_time >= ? and submit_time + upper_90 < ?",
        (now - WEEK, now),
    )
    n = week["n"] + beyond
    held = (week["coverage_90"] or 0.0) * week["n"] / max(n, 1)
    if n < ENOUGH or held >= LOW:
        return None
    return (
        f"In the last week only {held:.0%} of the jobs started within the interval that should hold "
        "90 % of them. Do not rely on the forecasts of this page until this line is gone."
    )
