"""What a service keeps in one SQLite file of its owner's: jobs, forecasts, gaps, problems; and how forecasts held."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.queue_time.distribution import Distribution
from procure.queue_time.features import site_features
from procure.queue_time.mixture import guess
from procure.queue_time.predict import Request
from procure.queue_time.store import SiteModel
from procure.serve.slurm import Closed

TEXT_COLUMNS = ("job_id", "user", "partition", "state")
JOB_COLUMNS = tuple(
    (
        "job_id submit_time user partition requested_time run_time n_nodes cpus_per_node mem_mb_per_node "
        "gpus_per_node state start_time end_time"
    ).split()
)
SAID = tuple("median lower_50 upper_50 lower_90 upper_90 chance_1h chance_4h chance_12h week_median last_five".split())
FORECAST_COLUMNS = ("job_id", "submit_time", "partition", "issued", "source", *SAID)
"""Of the ledger; ``source`` is ``poll`` for a forecast that was made before its job started as far as was known, and
``late`` for one made from what had been known before the submission of a job that was first seen later;
``week_median`` and ``last_five`` are guesses that need no model."""
_JOBS = ", ".join(f"{name} {'text' if name in TEXT_COLUMNS else 'integer'}" for name in JOB_COLUMNS)
_SCHEMA = f"""
create table if not exists jobs ({_JOBS}, primary key (job_id, submit_time)) without rowid;
create index if not exists jobs_by_time on jobs (submit_time);
create index if not exists jobs_open on jobs (submit_time) where end_time is null;
create table if not exists forecasts (
  job_id text, submit_time integer, partition text, issued integer, source text, {" real, ".join(SAID)} real,
  wait integer, gave_up integer, primary key (job_id, submit_time)) without rowid;
create index if not exists forecasts_open on forecasts (submit_time) where wait is null and gave_up is null;
create index if not exists forecasts_by_time on forecasts (submit_time) where wait is not null;
create table if not exists gaps (begin integer primary key, end integer, what text);
create table if not exists problems (code text primary key, since integer, text text);
create table if not exists facts (name text primary key, value text);
"""
LEAST_FREE = 2_000_000
"""Bytes below which the service's disk is full."""
_OF_DISK = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
sqlite3.register_adapter(np.int64, int)


def why(path: Path, error: sqlite3.Error | OSError) -> str:
    """Say in a sentence why a database cannot be used, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, FileNotFoundError):
        text = "was deleted or replaced while the service ran; restart the service"
    elif code == sqlite3.SQLITE_FULL or (code in _OF_DISK and shutil.disk_usage(path.parent).free < LEAST_FREE):
        text = "the disk is full; free some of it"
    elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        text = "the database is damaged; put a copy back, or move it away: jobs are read anew from the accounting, the "
        text += "record begins anew"
    else:
        text = f"the database cannot be used ({getattr(error, 'strerror', None) or error}); see who owns it"
    return f"{path}: {text}"


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
            self.db.executescript(f"pragma journal_mode = wal; pragma synchronous = normal; {_SCHEMA * writer}")
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
        self._put("jobs", jobs, JOB_COLUMNS, f"on conflict (job_id, submit_time) do update set {updates}")

    def put_forecasts(self, forecasts: pd.DataFrame) -> None:
        """Keep forecasts; the first of a job stays."""
        self._put("forecasts", forecasts, FORECAST_COLUMNS, "on conflict do nothing")

    def _put(self, name: str, table: pd.DataFrame, columns: Sequence[str], otherwise: str) -> None:
        told = table.reindex(columns=list(columns)).astype(object)
        marks = ", ".join("?" * len(columns))
        rows = told.where(told.notna(), None).itertuples(index=False, name=None)
        self.db.executemany(f"insert into {name} ({', '.join(columns)}) values ({marks}) {otherwise}", rows)

    def jobs(self, where: str, values: Sequence[Any]) -> pd.DataFrame:
        """Return a job table of the last jobs of which a condition holds, by submission; ``where`` ends with ``?``.

        The last of ``values`` is how many.
        """
        columns = ", ".join(JOB_COLUMNS)
        last = f"select {columns} from jobs where {where} order by submit_time desc, job_id desc limit ?"
        found = self.rows(f"select * from ({last}) order by submit_time, job_id", values)
        return job_table(found)

    def without_forecast(self, since: int) -> set[tuple[str, int]]:
        """Return the keys of the jobs submitted after a moment of which there is no forecast."""
        keys = "select job_id, submit_time from {} where submit_time > ?"
        return set(self.rows(f"{keys.format('jobs')} except {keys.format('forecasts')}", (since, since)))

    def settle(self) -> int:
        """Write down what became of jobs with a forecast; return how many were settled."""
        return self.db.execute(
            "update forecasts set wait = j.start_time - j.submit_time, gave_up = iif(j.start_time is null, 1, null) "
            "from jobs j where j.job_id = forecasts.job_id and j.submit_time = forecasts.submit_time and wait is null "
            "and gave_up is null and (j.start_time is not null or j.end_time is not null)"
        ).rowcount

    def remember(self, **facts: Any) -> None:
        """Keep facts by name."""
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        self.db.executemany("insert or replace into facts values (?, ?)", rows)

    def fact(self, name: str, otherwise: Any = None) -> Any:
        """Return a fact."""
        found = self.rows("select value from facts where name = ?", (name,))
        return json.loads(found[0][0]) if found else otherwise

    def problem(self, code: str, text: str | None, now: int) -> bool:
        """Note a problem, or that there is none any more (None); return whether that is new."""
        known = bool(self.rows("select 1 from problems where code = ?", (code,)))
        if text is None:
            if known:
                self.db.execute("delete from problems where code = ?", (code,))
            return known
        put = "insert into problems values (?, ?, ?) on conflict (code) do update set text = excluded.text"
        self.db.execute(put, (code, now, text))
        return not known

    def problems(self) -> dict[str, str]:
        """Return the problems that there are, by code, the oldest first."""
        return dict(self.rows("select code, text from problems order by since, code"))

    def tidy(self, here: pd.DataFrame, lost_before: int, now: int, most: int, forecasts_before: int) -> None:
        """Forget all but the last ``most`` jobs that ended, and old forecasts.

        What is not ``here``, was submitted before ``lost_before`` and has no end is lost: it ends now.
        """
        self.db.executescript("create temp table if not exists here (job_id text, submit_time); delete from here")
        keys = zip(here["job_id"].astype(str), here["submit_time"].map(int), strict=True)
        self.db.executemany("insert into here values (?, ?)", list(keys))
        self.db.execute(
            "update jobs set state = 'LOST', end_time = ? where end_time is null and submit_time < ? and "
            "(job_id, submit_time) not in (select job_id, submit_time from here)",
            (now, lost_before),
        )
        first = "(select submit_time from jobs order by submit_time desc limit 1 offset ?)"
        self.db.execute(f"delete from jobs where submit_time < {first} and end_time is not null", (most,))
        self.db.execute("delete from forecasts where submit_time < ?", (forecasts_before,))


def job_table(rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """Return rows of `JOB_COLUMNS` as a job table."""
    table = pd.DataFrame(rows, columns=list(JOB_COLUMNS))
    times = ("start_time", "end_time")
    kinds = {name: object if name in TEXT_COLUMNS else "Int64" if name in times else "int64" for name in JOB_COLUMNS}
    table[list(times)] = table[list(times)].astype(object)
    return table.assign(gpu_type="").astype(kinds)


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


def track_record(store: Store, now: int, days: int, hide: Collection[str]) -> dict[str, Any]:
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
