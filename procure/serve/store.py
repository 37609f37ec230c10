"""What a service keeps: jobs, forecasts, gaps and problems, in one SQLite file that only its owner may read."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError

JOB_COLUMNS = tuple(
    (
        "job_id submit_time user partition requested_time run_time n_nodes cpus_per_node mem_mb_per_node "
        "gpus_per_node state start_time end_time"
    ).split()
)
FORECAST_COLUMNS = tuple(
    (
        "job_id submit_time partition issued source median lower_50 upper_50 lower_90 upper_90 chance_1h chance_4h "
        "chance_12h week_median last_five"
    ).split()
)
"""Of the ledger; ``source`` is ``poll`` for a forecast that was made before its job started as far as was known, and
``late`` for one made from what had been known before the submission of a job that was first seen later;
``week_median`` and ``last_five`` are guesses that need no model."""
TEXT_COLUMNS = ("job_id", "user", "partition", "state")
_SCHEMA = """
create table if not exists jobs (
  job_id text, submit_time integer, user text, partition text, requested_time integer, run_time integer,
  n_nodes integer, cpus_per_node integer, mem_mb_per_node integer, gpus_per_node integer, state text,
  start_time integer, end_time integer, primary key (job_id, submit_time)) without rowid;
create index if not exists jobs_by_time on jobs (submit_time);
create index if not exists jobs_open on jobs (submit_time) where end_time is null;
create table if not exists forecasts (
  job_id text, submit_time integer, partition text, issued integer, source text, median real, lower_50 real,
  upper_50 real, lower_90 real, upper_90 real, chance_1h real, chance_4h real, chance_12h real, week_median real,
  last_five real, wait integer, gave_up integer, primary key (job_id, submit_time)) without rowid;
create index if not exists forecasts_open on forecasts (submit_time) where wait is null and gave_up is null;
create index if not exists forecasts_by_time on forecasts (submit_time) where wait is not null;
drop table if exists asked;
create table if not exists gaps (begin integer primary key, end integer, what text);
create table if not exists problems (code text primary key, since integer, text text);
create table if not exists facts (name text primary key, value text);
"""


DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
LEAST_FREE = 2_000_000
"""Bytes below which the service's disk is full."""


def why(path: Path, error: sqlite3.Error | OSError) -> str:
    """Say in a sentence why a database cannot be used, and what to do."""
    if isinstance(error, FileNotFoundError):
        return f"{path}: was deleted or replaced while the service ran; restart the service"
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (code in FULL and shutil.disk_usage(path.parent).free < LEAST_FREE):
        return f"{path}: the disk is full; free some of it"
    if code in DAMAGED:
        then = "put a copy back, or move it away: jobs are read anew from the accounting, the record begins anew"
        return f"{path}: the database is damaged; {then}"
    return f"{path}: the database cannot be used ({getattr(error, 'strerror', None) or error}); see who owns it"


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Report in a sentence what is wrong with a database in here."""
    try:
        yield
    except sqlite3.Error as error:
        raise TableError(why(path, error)) from None


class Store:
    """The database of a service; one writer, any number of readers."""

    def __init__(self, path: Path, writer: bool = False) -> None:
        """Open it; the writer makes it where there is none."""
        self.path = path
        try:
            if writer:
                path.touch(mode=0o600)
                path.chmod(0o600)
            self.db = sqlite3.connect(path, timeout=10, check_same_thread=False, isolation_level=None)
            self.db.execute("pragma journal_mode = wal")
            self.db.execute("pragma synchronous = normal")
            if writer:
                self.db.executescript(_SCHEMA)
            self.made = path.stat().st_ino
        except (OSError, sqlite3.Error) as error:
            raise TableError(why(path, error)) from None

    def close(self) -> None:
        """Close it."""
        self.db.close()

    def lost(self) -> str | None:
        """Say that what is kept here goes nowhere, as the file is another or none; None where it is there."""
        with suppress(OSError):
            if self.path.stat().st_ino == self.made:
                return None
        return why(self.path, FileNotFoundError())

    def check(self) -> None:
        """Read the whole of it once; raise what is wrong with it."""
        [(found,)] = self.rows("pragma quick_check(1)")
        if found != "ok":
            error = sqlite3.DatabaseError(found)
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        with closing(self.db.execute(query, values)) as found:
            return found.fetchall()

    def put_jobs(self, jobs: pd.DataFrame) -> None:
        """Keep jobs, or what has become known of them: what was known stays where a row says nothing."""
        updates = ", ".join(f"{name} = coalesce(excluded.{name}, {name})" for name in JOB_COLUMNS[2:])
        marks = ", ".join("?" * len(JOB_COLUMNS))
        self.db.executemany(
            f"insert into jobs ({', '.join(JOB_COLUMNS)}) values ({marks}) "
            f"on conflict (job_id, submit_time) do update set {updates}",
            records(jobs, JOB_COLUMNS),
        )

    def jobs(self, since: int, last: int) -> pd.DataFrame:
        """Return the last jobs submitted since a moment, and any that has not ended, by submission."""
        columns = ", ".join(JOB_COLUMNS)
        found = self.rows(
            f"select {columns} from (select {columns} from jobs where submit_time >= ? order by submit_time desc limit "
            f"?) union select {columns} from jobs where end_time is null order by submit_time, job_id",
            (since, last),
        )
        return job_table(found)

    def ended(self, last: int) -> pd.DataFrame:
        """Return the last jobs submitted of those that have ended, by submission."""
        columns = ", ".join(JOB_COLUMNS)
        found = self.rows(
            f"select * from (select {columns} from jobs where end_time is not null and coalesce(state, '') != 'LOST' "
            "order by submit_time desc, job_id desc limit ?) order by submit_time, job_id",
            (last,),
        )
        return job_table(found)

    def put_forecasts(self, forecasts: pd.DataFrame) -> None:
        """Keep forecasts; the first of a job stays."""
        marks = ", ".join("?" * len(FORECAST_COLUMNS))
        self.db.executemany(
            f"insert or ignore into forecasts ({', '.join(FORECAST_COLUMNS)}) values ({marks})",
            records(forecasts, FORECAST_COLUMNS),
        )

    def without_forecast(self, since: int) -> set[tuple[str, int]]:
        """Return the keys of the jobs submitted after a moment of which there is no forecast."""
        query = "select job_id, submit_time from jobs where submit_time > ? except select job_id, submit_time"
        return set(self.rows(f"{query} from forecasts where submit_time > ?", (since, since)))

    def settle(self) -> int:
        """Write down what became of jobs with a forecast; return how many were settled."""
        of_job = "from jobs j where j.job_id = forecasts.job_id and j.submit_time = forecasts.submit_time"
        done = self.db.execute(
            f"update forecasts set wait = (select start_time - submit_time {of_job}), gave_up = (select case when "
            f"start_time is null and end_time is not null then 1 end {of_job}) where wait is null and gave_up is null "
            f"and exists (select 1 {of_job} and (j.start_time is not null or j.end_time is not null))"
        )
        return done.rowcount

    def remember(self, **facts: Any) -> None:
        """Keep facts by name."""
        self.db.executemany(
            "insert or replace into facts values (?, ?)", [(name, json.dumps(value)) for name, value in facts.items()]
        )

    def fact(self, name: str, otherwise: Any = None) -> Any:
        """Return a fact."""
        found = self.rows("select value from facts where name = ?", (name,))
        return json.loads(found[0][0]) if found else otherwise

    def problem(self, code: str, text: str | None, now: int) -> bool:
        """Note a problem, or that there is none any more (None); return whether that is new."""
        known = self.rows("select text from problems where code = ?", (code,))
        if text is None:
            if known:
                self.db.execute("delete from problems where code = ?", (code,))
            return bool(known)
        self.db.execute(
            "insert into problems values (?, ?, ?) on conflict (code) do update set text = excluded.text",
            (code, now, text),
        )
        return not known

    def problems(self) -> list[tuple[str, int, str]]:
        """Return the problems that there are: code, since when, what."""
        return self.rows("select code, since, text from problems order by since, code")

    def prune(self, jobs_before: int, forecasts_before: int) -> None:
        """Forget jobs that ended, and forecasts that were judged, before moments."""
        self.db.execute("delete from jobs where submit_time < ? and end_time is not null", (jobs_before,))
        self.db.execute("delete from forecasts where submit_time < ?", (forecasts_before,))


def records(table: pd.DataFrame, columns: Iterable[str]) -> list[tuple[Any, ...]]:
    """Return rows as SQLite takes them: plain values, None where nothing is known."""
    told = table.reindex(columns=list(columns)).astype(object)
    rows = told.where(told.notna(), None).itertuples(index=False, name=None)
    return [tuple(value.item() if isinstance(value, np.generic) else value for value in row) for row in rows]


def job_table(rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """Return rows of `JOB_COLUMNS` as a job table."""
    table = pd.DataFrame(rows, columns=list(JOB_COLUMNS))
    for name in ("start_time", "end_time"):
        table[name] = pd.array(table[name].to_list(), dtype="Int64")
    whole = [name for name in JOB_COLUMNS if name not in (*TEXT_COLUMNS, "start_time", "end_time")]
    table["gpu_type"] = ""
    return table.astype(dict.fromkeys(whole, "int64") | dict.fromkeys(TEXT_COLUMNS, object))
