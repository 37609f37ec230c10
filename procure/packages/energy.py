"""Energy by the hour: prices and carbon by the local clock, measured power curves, and how busy which hour is."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.schemas import Column, Schema
from procure.tables import CellError, clock_of, read
from procure.text import nearest

HOURS = 168
"""Hours of a week, the first that of Monday after midnight."""
_HOUR, _DAY = 3600, 24

_HOUR_COLUMN = Column("hour", "int", "", "hour of the local clock, 0 is that after midnight", minimum=0, maximum=23)
_WEEKDAY = Column("weekday", "int", "", "1 = Monday … 7 = Sunday", required=False, minimum=1, maximum=7)
HOURLY_PRICES = Schema(
    "hourly price",
    (_HOUR_COLUMN, _WEEKDAY, Column("usd_per_kwh", "float", "US$/kWh", "price, which may be below 0")),
)
"""The columns of a file of energy prices."""
_CARBON = Column("carbon_g_per_kwh", "float", "g CO2/kWh", "carbon intensity", minimum=0, maximum=5000)
_COUNTRY = Column("country", "str", "", "country or grid zone", required=False, longest=200)
CARBON_BY_COUNTRY = Schema("carbon intensity", (_COUNTRY, _CARBON))
CARBON_BY_HOUR = Schema("carbon intensity", (_COUNTRY, _HOUR_COLUMN, _WEEKDAY, _CARBON))
"""The columns of a file of carbon intensities: by country, by hour, or by both."""
CURVES = Schema(
    "power curve",
    (
        Column("name", "str", "", "the quoted type, or kind of existing nodes", longest=200),
        Column("load_pct", "float", "%", "share of the node's CPUs that are in use", minimum=0, maximum=100),
        Column("power_w", "float", "W", "measured power of the node", minimum=0, maximum=1e6),
    ),
)
"""The columns of a file of measured power curves."""


@dataclass(frozen=True)
class Curve:
    """Power of one node by its load: ``load``, shares from 0 to 1, and ``watts``; straight lines between the points."""

    load: np.ndarray
    watts: np.ndarray

    def at(self, load: np.ndarray) -> np.ndarray:
        """Return watts at loads, of the same shape."""
        return np.asarray(np.interp(load, self.load, self.watts))


def two_points(idle_w: float, busy_w: float) -> Curve:
    """Return the curve of a node of which only idle and busy watts are known."""
    return Curve(np.array([0.0, 1.0]), np.array([idle_w, busy_w]))


def read_hourly_prices(path: Path) -> np.ndarray:
    """Return US$ per kWh by hour of the week, float64[168], of a file as `HOURLY_PRICES`.

    Raises
    ------
    TableError
        An hour is missing or stands twice, or a cell is wrong.
    """
    return _by_hour(read(path, HOURLY_PRICES), "usd_per_kwh", str(path))


def read_carbon(path: Path, country: str | None) -> np.ndarray:
    """Return g CO2 per kWh by hour of the week, float64[168], of a file by country, by hour, or by both.

    Raises
    ------
    TableError
        The file has countries and none is chosen, or not this one; hours as in `read_hourly_prices`.
    """
    try:
        table = read(path, CARBON_BY_HOUR)
    except CellError:
        raise
    except TableError:  # it has no hours
        table = read(path, CARBON_BY_COUNTRY)
        if "country" not in table:
            raise
    if "country" in table:
        names = list(dict.fromkeys(table["country"]))
        if country is None:
            raise TableError(f"{path}: has a column country; costs.country chooses one, e.g. {names[0]!r}")
        table = table[table["country"] == country].reset_index(drop=True)
        if table.empty:
            raise TableError(
                f"{path}: has no country {country!r}, which costs.country names; {nearest(country, names)}"
            )
    elif country is not None:
        raise TableError(f"{path}: has no column country; costs.country = {country!r} was given")
    if "hour" in table:
        return _by_hour(table, "carbon_g_per_kwh", str(path))
    if len(table) > 1:
        raise TableError(f"{path}: country {country!r} stands {len(table)} times")
    return np.full(HOURS, float(table["carbon_g_per_kwh"].iloc[0]))


def read_curves(path: Path) -> dict[str, Curve]:
    """Return measured power curves by the name of the type, of a file as `CURVES`.

    Raises
    ------
    TableError
        A curve has no point at 0 % or 100 %, or two at one load; a cell is wrong.
    """
    table = read(path, CURVES)
    again = np.flatnonzero(table.duplicated(["name", "load_pct"]).to_numpy())
    if again.size:
        row = int(again[0])
        raise CellError(str(path), row, "load_pct", f"{table['load_pct'].iloc[row]:g} % stands twice")
    found = {}
    for name, points in table.sort_values("load_pct").groupby("name", sort=False):
        load = points["load_pct"].to_numpy(dtype="float64")
        for end in (0, 100):
            if end not in load:
                raise TableError(f"{path}: the curve of {name} has no point at {end} % load")
        found[str(name)] = Curve(load / 100, points["power_w"].to_numpy(dtype="float64"))
    return found


def _by_hour(table: pd.DataFrame, column: str, source: str) -> np.ndarray:
    keys = ["weekday", "hour"] if "weekday" in table else ["hour"]
    again = np.flatnonzero(table.duplicated(keys).to_numpy())
    if again.size:
        row = int(again[0])
        raise CellError(source, row, "hour", f"{_name(table.iloc[row])} stands twice")
    found = np.full(HOURS, np.nan)
    for one in table.to_dict(orient="records"):
        days = [int(one["weekday"]) - 1] if "weekday" in table else range(7)
        for day in days:
            found[day * _DAY + int(one["hour"])] = one[column]
    missing = np.flatnonzero(np.isnan(found))
    if missing.size:
        first = {"weekday": int(missing[0]) // _DAY + 1, "hour": int(missing[0]) % _DAY}
        n = (len(missing) if "weekday" in table else len(missing) // 7) - 1
        raise TableError(
            f"{source}: {_name({name: first[name] for name in keys})} is missing"
            f"{f', and {n} more' if n else ''}; each hour from 0 to 23"
            f"{' of each weekday from 1 to 7' if 'weekday' in table else ''} needs a row"
        )
    return found


def _name(row: Mapping[str, int] | pd.Series) -> str:
    hour = f"hour {int(row['hour'])}"
    return f"weekday {int(row['weekday'])}, {hour}" if "weekday" in row else hour


def known_zone(tz: str) -> str:
    """Return the name of a time zone; of an unknown one an error that names the nearest."""
    try:
        return zoneinfo.ZoneInfo(tz).key
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        names = sorted(zoneinfo.available_timezones())
        raise TableError(f"unknown time zone {tz!r}; {nearest(tz, names)}") from None


def week_hours(seconds: np.ndarray, tz: str | None) -> np.ndarray:
    """Return the hour of the week of Unix seconds by the clock of a zone, int64[n]; None = as they stand."""
    times = pd.to_datetime(np.asarray(seconds, dtype="int64"), unit="s", utc=True)
    times = times if tz is None else times.tz_convert(zoneinfo.ZoneInfo(tz))
    return np.asarray(times.day_of_week * _DAY + times.hour, dtype="int64")


def _past_hour(second: int, tz: str | None) -> int:
    """Return by how many s the clock of a zone is past a whole hour where UTC's is at one: India's by 1,800."""
    at = pd.Timestamp(second, unit="s", tz="UTC")
    return 0 if tz is None else int(at.tz_convert(zoneinfo.ZoneInfo(tz)).utcoffset().total_seconds()) % _HOUR


def busy_by_hour(cpus: np.ndarray, labels: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Return which share of systems is busy in each hour of the week, without a simulation, float64[n_systems, 168].

    A job asks for its CPUs from its submission for its run time; a system works off at most its CPUs in an hour, and
    what it does not get done is left to the next. The log repeats: what is left in its end is there in its beginning.
    Hours of the week that the log does not have are as busy as the same hour of its other days, or else as its mean.
    The mean over the week is min(1, D / T), as `procure.packages.costs.total_costs` has it.

    Parameters
    ----------
    cpus
        Of each system, float64[n_systems].
    labels, asked
        Of each hour of the log the hour of the week, int64[n_hours], and CPU-seconds, float64[n_hours, n_systems]; see
        `demand_by_hour`.
    """
    capacity = np.asarray(cpus, dtype="float64") * _HOUR
    mean = np.minimum(1.0, asked.sum(axis=0) / np.maximum(len(asked) * capacity, 1e-300))
    busy, n = np.zeros((HOURS, len(capacity))), np.zeros(HOURS)
    left = np.zeros(len(capacity))
    for second in (False, True):  # the first round finds what is left from the end
        for label, more in zip(labels.tolist(), asked, strict=True):
            waiting = left + more
            done = np.minimum(capacity, waiting)
            left = waiting - done
            if second:
                busy[label] += done
                n[label] += 1
    return _with_mean(_filled((busy / np.maximum(capacity, 1e-300)).T, n), mean)


def demand_by_hour(
    jobs: pd.DataFrame, run_times: np.ndarray, group: np.ndarray, tz: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return of each hour of a log the hour of the week, and the CPU-seconds that its groups of jobs ask for.

    Parameters
    ----------
    jobs
        A job table, not empty.
    run_times
        What its run times may be, int64[n_speeds, n_jobs], s.
    group
        int64[n_jobs], from 0.
    tz
        The zone of the local clock; None, or of a log with a clock of its own: times as they stand.

    Returns
    -------
    int64[n_hours], float64[n_speeds × n_groups, n_hours]
    """
    tz = None if clock_of(jobs) == "log" else tz
    submit = jobs["submit_time"].to_numpy(dtype="int64")
    cpus = (jobs["n_nodes"] * jobs["cpus_per_node"]).to_numpy(dtype="float64")
    past_hour = _past_hour(int(submit.min()), tz)
    begin = (int(submit.min()) + past_hour) // _HOUR * _HOUR - past_hour
    span = int(np.ptp(submit)) or max(1, int(jobs["run_time"].max()))
    n_hours = -(-span // _HOUR)
    members = [np.flatnonzero(group == one) for one in range(int(group.max()) + 1)]
    asked = [_demand(submit[own] - begin, run[own], cpus[own], n_hours) for run in run_times for own in members]
    labels = week_hours(begin + _HOUR // 2 + _HOUR * np.arange(n_hours), tz)
    # By the second as in `total_costs`, though the last hour may be a broken one.
    return labels, np.stack(asked) * (n_hours * _HOUR / span)


def _demand(submit: np.ndarray, run: np.ndarray, cpus: np.ndarray, n_hours: int) -> np.ndarray:
    """Return the CPU-seconds asked for in each hour, what is after the last one from the first on: float64[n_hours]."""
    times = np.concatenate([submit, submit + run])
    order = np.argsort(times, kind="stable")
    rate = np.cumsum(np.concatenate([cpus, -cpus])[order])
    times = times[order]
    so_far = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(times))])
    n_all = max(n_hours, -(-int(times[-1]) // _HOUR))
    ends = np.interp(np.arange(n_all + 1) * _HOUR, times, so_far)
    asked = np.zeros(n_hours)
    np.add.at(asked, np.arange(n_all) % n_hours, np.diff(ends))
    return asked


def _filled(busy: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Divide sums by how often an hour of the week was there, and fill those that were not."""
    by_day, n_by_day = busy.reshape(-1, 7, _DAY), n.reshape(7, _DAY)
    same, n_same = by_day.sum(axis=1), n_by_day.sum(axis=0)
    every = busy.sum(axis=1, keepdims=True) / n.sum()
    of_hour = np.where(n_same > 0, same / np.maximum(n_same, 1), every)
    found = np.where(n_by_day > 0, by_day / np.maximum(n_by_day, 1), of_hour[:, np.newaxis])
    return np.asarray(found.reshape(-1, HOURS))


def _with_mean(busy: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Scale what is busy, or what is idle, so that a week's mean is as given."""
    now = busy.mean(axis=1)
    down = mean / np.maximum(now, 1e-300)
    up = (1 - mean) / np.maximum(1 - now, 1e-300)
    return np.where((now >= mean)[:, np.newaxis], busy * down[:, np.newaxis], 1 - (1 - busy) * up[:, np.newaxis])


def sums_at(busy: np.ndarray, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return what a node takes that needs a watt at one of the points of its curve only, summed over the hours.

    Any curve with these points is a sum of such, so that few are reckoned for many types.

    Parameters
    ----------
    busy
        float64[n_systems, 168].
    points
        Loads of a `Curve`.
    weights
        Of each hour of the week, float64[168, n_weights].

    Returns
    -------
    float64[n_systems, n_points, n_weights]
    """
    if len(points) == 2:  # a straight line from 0 to 1
        full = busy @ weights
        return np.stack([weights.sum(axis=0) - full, full], axis=1)
    return np.stack([np.interp(busy, points, unit) @ weights for unit in np.eye(len(points))], axis=1)


def watts_by_hour(
    schedule: pd.DataFrame, nodes: pd.DataFrame, curves: Sequence[Curve], window: tuple[int, int], tz: str | None = None
) -> np.ndarray:
    """Return the mean watts of nodes in each hour of the week, of a simulated schedule, float64[168].

    Parameters
    ----------
    schedule
        A job table with ``start_time end_time node_ids``.
    nodes, curves
        The node table, and the power curve of each of its rows.
    window
        First and last second of the schedule that count; hours of the week that it does not have are as in
        `busy_by_hour`.
    tz
        As in `busy_by_hour`.
    """
    node, time, change = _changes(schedule, nodes)
    order = np.lexsort((time, node))
    node, time, change = node[order], time[order], change[order]
    after = np.cumsum(change)  # of each node from 0, since the changes of the one before add up to 0
    size, step = nodes["cpus"].to_numpy(dtype="float64")[node], np.zeros(len(node))
    alike = np.array([id(one) for one in curves], dtype="int64")
    for curve in {id(one): one for one in curves}.values():
        mine = (alike == id(curve))[node]
        step[mine] = curve.at((after / size)[mine]) - curve.at(((after - change) / size)[mine])
    idle = sum(float(one.at(np.array(0.0))) for one in curves)
    order = np.argsort(time, kind="stable")
    times = np.concatenate([[min([window[0], *time[order][:1]])], time[order]])
    power = idle + np.concatenate([[0.0], np.cumsum(step[order])])
    tz = None if clock_of(schedule) == "log" else tz
    past_hour = _past_hour(window[0], tz)
    first = -(-(window[0] + past_hour) // _HOUR) * _HOUR - past_hour
    edges = np.unique(np.concatenate([window, np.arange(first, window[1], _HOUR)]))
    so_far = np.concatenate([[0.0], np.cumsum(power[:-1] * np.diff(times))])
    beyond = np.maximum(edges - times[-1], 0) * power[-1]
    joules = np.diff(np.interp(edges, times, so_far) + beyond)
    label = week_hours((edges[:-1] + edges[1:]) // 2, tz)
    sums, seconds = np.zeros((1, HOURS)), np.zeros(HOURS)
    np.add.at(sums[0], label, joules)
    np.add.at(seconds, label, np.diff(edges).astype("float64"))
    return _filled(sums, seconds)[0]


def _changes(schedule: pd.DataFrame, nodes: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row of the node, second, and by how many CPUs its load changes, for each start and end on a node."""
    ran = schedule[schedule["start_time"].notna() & (schedule["node_ids"].fillna("") != "")]
    names = [str(one).split(",") for one in ran["node_ids"]]
    n = np.array([len(one) for one in names], dtype="int64")
    row = dict(zip(nodes["node_id"], range(len(nodes)), strict=True))
    node = np.array([row[name] for one in names for name in one], dtype="int64")
    start, end = (np.repeat(ran[name].to_numpy(dtype="int64"), n) for name in ("start_time", "end_time"))
    cpus = np.repeat(ran["cpus_per_node"].to_numpy(dtype="float64"), n)
    return np.tile(node, 2), np.concatenate([start, end]), np.concatenate([cpus, -cpus])
