"""Dates of a log → Unix seconds."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.tables import as_floats, clock_of
from procure.text import nearest
from procure.workload.ledger import Ledger, absent

FIRST_DATE = 315_532_800
"""1980 in Unix seconds: an earlier time is one of a log's own clock, for no batch system logged before."""


def zone(tz: str) -> zoneinfo.ZoneInfo:
    """Return a time zone by its name; an unknown name raises, naming the nearest."""
    try:
        return zoneinfo.ZoneInfo(tz)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        names = sorted(zoneinfo.available_timezones())
        close = nearest(tz, names)
        hint = close if close.startswith("did you") else "use a name such as America/Chicago or UTC"
        raise TableError(f"unknown time zone {tz!r}; {hint}") from None


def has_dates(jobs: pd.DataFrame) -> bool:
    """Return whether a job table's times are Unix seconds, not seconds of its log's own clock.

    A table that was read from a file may not say; then times before 1980 count as the log's own.
    """
    before = jobs.empty or int(jobs["submit_time"].max()) < FIRST_DATE
    return (clock_of(jobs) or ("log" if before else "unix")) == "unix"


def day_bounds(day: str, tz: str) -> tuple[int, int]:
    """Return the first second of a local day and of the next one, as Unix seconds."""
    try:
        first = date.fromisoformat(day)
        days = (first, first + timedelta(days=1))
    except (ValueError, OverflowError):
        raise TableError(f"{day!r} is not a day; write YYYY-MM-DD") from None
    local = zone(tz)
    low, high = (datetime(d.year, d.month, d.day, tzinfo=local).timestamp() for d in days)
    return int(low), int(high)


def moment(text: str, tz: str | None) -> int:
    """Return the Unix seconds of an ISO time with an offset or in ``tz``, or of a number of seconds."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise TableError(f"{text!r} is not a time; write YYYY-MM-DDTHH:MM[:SS][+HH:MM] or seconds") from None
    if when.tzinfo is None:
        if tz is None:
            raise TableError(f"{text!r} has no offset; add one (…+00:00) or state --tz")
        when = when.replace(tzinfo=zone(tz))
    return int(when.timestamp())


def to_local(seconds: np.ndarray, tz: str | None) -> np.ndarray:
    """Turn Unix seconds, int64[n], into seconds of a zone's clock; without a zone they stay."""
    if tz is None:
        return np.array(seconds, np.int64)
    local = pd.to_datetime(seconds, unit="s", utc=True).tz_convert(zone(tz)).tz_localize(None)
    return np.array(local.as_unit("s").asi8, np.int64)


def local_times(seconds: pd.Series | np.ndarray, tz: str | None) -> pd.DatetimeIndex:
    """Return Unix seconds as what a clock of the zone shows, without a zone; None = UTC."""
    return pd.to_datetime(to_local(np.asarray(seconds), tz), unit="s")


def from_local(seconds: np.ndarray, tz: str | None) -> np.ndarray:
    """Turn seconds of a zone's clock into Unix seconds.

    An hour that the clock shows twice is its first passage; one that it skips is the moment of the change.
    """
    if tz is None:
        return np.array(seconds, np.int64)
    local = pd.to_datetime(seconds, unit="s")
    there = local.tz_localize(zone(tz), ambiguous=np.ones(len(local), bool), nonexistent="shift_forward")
    return np.array(there.tz_convert("UTC").tz_localize(None).as_unit("s").asi8, np.int64)


YEAR_10000 = 253_402_300_800
_LATEST = 2**40
_YEAR = 365 * 86_400


def utc_text(seconds: int) -> str:
    """Write Unix seconds as a date and time, ``2021-05-04 05:00:42 UTC``; those of no such year as they are."""
    if not 0 <= seconds < YEAR_10000:
        return f"{seconds:,} s"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


_DAY = r"(?:19[89]|20\d)\d(-?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])(?:\.0)?"
_OFFSET = re.compile(r"[T ]\d\d[\d:.]*\s*(?:Z|[+-]\d\d(?::?\d\d)?)$")
"""An offset behind a time: Z, +02:00, +0200 or +02."""


def unix_seconds(
    text: pd.Series, column: str, ledger: Ledger, tz: str | None, not_before: np.ndarray | None = None
) -> np.ndarray:
    """Turn times written as ISO dates (with a space, with an offset) or as Unix seconds into float64 Unix seconds.

    ``tz`` is the zone of a date without an offset; None is UTC, with a note. An hour that the clock showed twice is
    its first passage, unless that lies before ``not_before`` (Unix seconds per row, e.g. the submission). NaN stands
    where the log says ``Unknown``, ``None`` or nothing.
    """
    digits, missing = np.floor(as_floats(text)), absent(text)
    is_number = ~np.isnan(digits)
    first = text[~missing].head(100).astype(str).str.strip()
    if len(first) and first.str.fullmatch(_DAY).all():
        ledger.refuse(~missing, column, text, "a time: of days alone no job's wait is known; write 2021-05-04T13:00:00")
    some = as_floats(first)
    if (np.floor(some) < some).any() and ((some > 29_221) & (some < 73_051)).all():
        ledger.refuse(~missing, column, text, "a time: a spreadsheet's days since 1900; write 2021-05-04T13:00:00")
    # Of Unix seconds 0, −1 and whatever is of 1970 say that there is no time.
    others = digits if not_before is None else np.concatenate([digits, not_before])
    if bool((others >= FIRST_DATE).any()) or bool((~is_number & ~missing).any()):
        digits = np.where(digits < _YEAR, np.nan, digits)
    beyond = np.abs(digits) > _LATEST
    ledger.refuse(beyond, column, text, "a time in seconds (milliseconds: --column FIELD=COLUMN:ms; also us, ns)")
    digits = np.where(beyond, np.nan, digits)
    dates = ~missing & ~is_number
    if not dates.any():
        return digits
    if first.str.endswith(("UTC", "GMT")).any():
        text = text.str.replace(r"\s*(?:UTC|GMT)\s*$", "Z", regex=True)
    given = text.astype(str).str.strip().where(pd.Series(dates, index=text.index))
    given = given.str.replace(r"^(\d{4})/(\d\d)/(\d\d)\b", r"\1-\2-\3", regex=True)
    aware = given.str.contains(_OFFSET, na=False).to_numpy(bool)
    read = pd.to_datetime(given, format="ISO8601", errors="coerce", utc=True)
    first = second = with_offset = _epoch(read)
    if (dates & ~aware).any():
        naive = read.dt.tz_localize(None)
        unsaid = "dates were read as UTC: state the zone of the log with --tz"
        ledger.note(f"dates were read as local times of {tz}" if tz else unsaid)
        place = naive.dt.tz_localize
        twice = (
            _epoch(place(zone(tz or "UTC"), ambiguous=np.full(len(naive), early), nonexistent="shift_forward"))
            for early in (True, False)
        )
        first, second = (np.where(aware, with_offset, one) for one in twice)
    ledger.refuse(dates & np.isnan(first), column, text, "a date and time such as 2021-05-04T13:00:00, or Unix seconds")
    first, second = (np.where(one < _YEAR, np.nan, one) for one in (first, second))
    if not_before is not None:
        first = np.where(first < not_before, second, first)
    return np.where(dates, first, digits)


def _epoch(times: pd.Series) -> np.ndarray:
    """Return float64 Unix seconds of a datetime column, NaN for NaT."""
    utc = times.dt.tz_convert("UTC").dt.tz_localize(None).dt.as_unit("s")
    known = utc.fillna(pd.Timestamp(0)).dt.as_unit("s").astype("int64").to_numpy(dtype="float64")
    return np.where(utc.isna(), np.nan, known)
