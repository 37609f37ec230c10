"""Every forecast that was given out, and what became of it: the record by which the service is judged in public."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd

from procure.queue_time.distribution import Distribution
from procure.queue_time.features import site_features
from procure.queue_time.mixture import guess
from procure.queue_time.predict import Request
from procure.queue_time.store import SiteModel
from procure.serve.closed import Closed
from procure.serve.store import FORECAST_COLUMNS, Store

DEADLINES = {"1h": 3600, "4h": 14_400, "12h": 43_200}
WEEK, DAY = 7 * 86_400, 86_400
LOW, ENOUGH = 0.8, 30
"""A week's coverage below this share, of at least so many jobs, is said before anything else."""
_MEASURES = {
    "n": "count(*)",
    **{f"coverage_{share}": f"avg(wait >= lower_{share} and wait <= upper_{share})" for share in (50, 90)},
    "mae": "avg(abs(wait - median))",
    "mae_week_median": "avg(abs(wait - week_median))",
    "mae_last_five": "avg(abs(wait - last_five))",
    "mae_zero": "avg(wait)",
    **{f"brier_{n}": f"avg((chance_{n} - (wait <= {s})) * (chance_{n} - (wait <= {s})))" for n, s in DEADLINES.items()},
    **{f"brier_base_{name}": f"avg(wait <= {s}) * (1 - avg(wait <= {s}))" for name, s in DEADLINES.items()},
}
_JUDGED = "wait is not null and source != 'late'"


def forecasts(site: SiteModel, table: pd.DataFrame, late: pd.Series, issued: int, closed: Closed) -> pd.DataFrame:
    """Forecast the waits of jobs as of their submission: `procure.serve.store.FORECAST_COLUMNS`, as issued now, Unix s.

    ``late`` says of the jobs asked about, by their row of the table, whether they were seen too late to be judged. The
    ends of intervals are rounded outward to whole seconds, as `procure.queue_time.evaluation.covered` judges them.
    """
    about, features = table.loc[late.index], site_features(table, site.seen, late.index.to_numpy())
    asked = [(Request.of(job), int(job.submit_time)) for job in about.itertuples(index=False)]
    said = read_off(site, features, Distribution(closed.held(site.model.distribution(features).curve, asked)))
    for share in (50, 90):
        said[f"lower_{share}"] = np.floor(said[f"lower_{share}"])
        said[f"upper_{share}"] = np.ceil(said[f"upper_{share}"])
    source = np.where(late, "late", "poll")
    found = about.assign(job_id=about["job_id"].astype(str), issued=issued, source=source, **said)
    return found[list(FORECAST_COLUMNS)]


def read_off(site: SiteModel, features: pd.DataFrame, said: Distribution) -> dict[str, np.ndarray]:
    """Return what is kept of distributions, by `procure.serve.store.SAID`, s: their own, and guesses without a model.

    The guesses are the partition's median of the week, and the mean of its last five waits.
    """
    found = said.summary() | {f"chance_{name}": said.chance(seconds) for name, seconds in DEADLINES.items()}
    middle = float(site.model.usual[len(site.model.usual) // 2])
    guesses = {"week_median": "week", "last_five": "partition_5"}
    return found | {name: guess(features, column, middle) for name, column in guesses.items()}


def record(store: Store, since: int = 0, by: str = "") -> list[dict[str, Any]]:
    """Judge the forecasts of the jobs submitted since a moment that have started, and were forecast before they did.

    A row of all, or by ``partition`` or ``day`` (of submission, UTC, its first second) of each: ``n``, the coverages,
    mean absolute errors (s) of the forecast and of guesses, and for each deadline the Brier score and that of the share
    that started by it (``brier_base_…``).
    """
    group = {"": "null", "partition": "partition", "day": f"submit_time / {DAY} * {DAY}"}[by]
    query = f"select {group}, {', '.join(_MEASURES.values())} from forecasts where {_JUDGED} and submit_time >= ?"
    found = store.rows(query + (f" group by {group} order by 1" if by else ""), (since,))
    rows = [dict(zip((by, *_MEASURES), row, strict=True)) for row in found]
    return [{name: value for name, value in row.items() if name} for row in rows]


def counted(store: Store, now: int, days: int, hide: Collection[str]) -> dict[str, Any]:
    """Return how the forecasts of the last days, 0 = all of them, have held; some partitions are not shown."""
    since = now - days * DAY if days else 0
    waits = "wait is null and gave_up is null"
    [sums] = store.rows(
        f"select count(*), total({_JUDGED}), total(source = 'late'), total(gave_up is not null), total({waits}) "
        "from forecasts"
    )
    gaps = store.rows("select begin, end from gaps order by begin desc limit 20")
    return {
        "all": record(store, since)[0],
        "by_partition": [row for row in record(store, since, "partition") if row["partition"] not in hide],
        "by_day": record(store, since, "day"),
        "counts": dict(zip(("given", "judged", "late", "gave_up", "open"), map(int, sums), strict=True)),
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
