"""Tell which forecast was given out as a job was submitted: by the same user, for the same request, just before."""

from __future__ import annotations

import json

import pandas as pd

from procure.serve.store import Store

BEFORE, AFTER = 300, 5
"""Seconds from the question to the submission at most, and, of two clocks, after it."""
MOST_EACH = 300
_VALUES = (
    "median lower_50 upper_50 lower_90 upper_90 chance_1h chance_4h chance_12h week_median last_five issued".split()
)


def request_key(cpus: int, seconds: int, gpus: int, nodes: int, partition: str) -> str:
    """Write what tells one request from another, as both sides can know it."""
    return json.dumps([cpus, seconds, gpus, nodes, partition])


def keep_asked(store: Store, user: str, now: int, key: str, forecast: dict[str, float]) -> None:
    """Keep what a user was told about a request as it was being submitted: the last `MOST_EACH` of each user."""
    store.db.execute(
        "insert into asked (user, asked, request, forecast) values (?, ?, ?, ?)", (user, now, key, json.dumps(forecast))
    )
    store.db.execute(
        "delete from asked where user = ? and number <= (select number from asked where user = ? order by number desc "
        "limit 1 offset ?)",
        (user, user, MOST_EACH),
    )


def take_asked(store: Store, jobs: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Put what was told at submission in the place of forecasts made later; each is used once.

    Parameters
    ----------
    store
        The service's.
    jobs
        Rows of a job table.
    made
        Their forecasts, in the same order.
    """
    if not store.rows("select 1 from asked limit 1"):
        return made
    made = made.copy()
    for place, job in enumerate(jobs.itertuples(index=False)):
        key = request_key(
            int(job.n_nodes * job.cpus_per_node),
            int(job.requested_time),
            int(job.n_nodes * job.gpus_per_node),
            int(job.n_nodes),
            str(job.partition),
        )
        found = store.rows(
            "select number, forecast from asked where user = ? and request = ? and asked between ? and ? order by "
            "abs(asked - ?), number limit 1",
            (str(job.user), key, int(job.submit_time) - BEFORE, int(job.submit_time) + AFTER, int(job.submit_time)),
        )
        for number, text in found:
            store.db.execute("delete from asked where number = ?", (number,))
            told = json.loads(text)
            for name in _VALUES:
                made.iloc[place, made.columns.get_loc(name)] = told[name]
            made.iloc[place, made.columns.get_loc("source")] = "submission"
    return made
