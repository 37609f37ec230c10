"""Tell which job is the one about which a user was told something as it was being submitted."""

from __future__ import annotations

import json
from typing import Any

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


def fits(request: str, job: Any) -> bool:
    """Tell whether a row of a job table may be the job of a request.

    Once it runs, a job has the nodes that it was given, which may be more than it asked for, and its CPUs and GPUs
    stand there as the most on one of them times their number.
    """
    cpus, seconds, gpus, _, partition = json.loads(request)
    nodes = max(int(job.n_nodes), 1)
    spread = all(
        int(nodes * each) in (asked, nodes * -(-asked // nodes))
        for asked, each in ((cpus, job.cpus_per_node), (gpus, job.gpus_per_node))
    )
    return spread and seconds == int(job.requested_time) and partition == str(job.partition)


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
    """Put what was told at submission, before the start, in the place of forecasts made later; each is used once.

    Parameters
    ----------
    store
        The service's.
    jobs
        Rows of a job table.
    made
        Their forecasts, in the same order.
    """
    made = made.copy()
    for place, job in enumerate(jobs.itertuples(index=False)):
        user, submit = str(job.user), int(job.submit_time)
        until = submit + AFTER if pd.isna(job.start_time) else min(submit + AFTER, int(job.start_time))
        found = store.rows(
            "select number, request, forecast from asked where user = ? and asked between ? and ? order by "
            "abs(asked - ?), number",
            (user, submit - BEFORE, until, submit),
        )
        for number, _, text in [row for row in found if fits(row[1], job)][:1]:
            store.db.execute("delete from asked where number = ?", (number,))
            told = json.loads(text) | {"source": "submission"}
            for name in (*_VALUES, "source"):
                made.iloc[place, made.columns.get_loc(name)] = told[name]
    return made
