"""Buy, rent or burst? The same jobs on a package that is bought, on rented instances, or on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.packages.costs import HOURS_PER_YEAR, years_factor
from procure.packages.nodes import fits, mem_mb, package_ids, package_nodes, request_shapes, shape_of
from procure.progress import silent
from procure.recommender.rank import Note
from procure.recommender.recommender import recommend
from procure.run import simulate
from procure.schemas import Column, Schema
from procure.study import Plan, Study, load_plan, load_study
from procure.sweep.results import costs_of, policy_of
from procure.sweep.trial import find_package
from procure.tables import check, read
from procure.text import Shown, counted, duration
from procure.workload.speedups import run_times_on

_MOST_ROUNDS = 20
_HOUR = 3600
_OPTIONAL: dict[str, Any] = {"required": False, "nullable": True, "minimum": 0}

PRICES = Schema(
    "price",
    (
        Column("name", "str", "", "the provider's name of the instance type", longest=200),
        Column("cpus", "int", "CPUs", "CPU cores; of two threads to a core one", minimum=1, maximum=100_000),
        Column("mem_gb", "float", "GB = 1,000 MB", "memory", minimum=1e-6, maximum=10**7),
        Column("gpus", "int", "GPUs", "GPUs", required=False, default=0, minimum=0, maximum=10_000),
        Column("gpu_type", "str", "", "GPU model; empty = any", required=False, default="", longest=1000),
        Column("speed", "float", "any speed", "speed of one core; empty = ratio 1.0", maximum=10**9, **_OPTIONAL),
        Column("usd_per_hour", "float", "US$/hour", "on demand", minimum=0),
        Column("reserved_usd_per_hour", "float", "US$/hour", "of every hour of the years", **_OPTIONAL),
    ),
    unique="name",
)
"""The columns of a price list."""


def read_prices(path: str | Path) -> pd.DataFrame:
    """Read a price list, see `PRICES`; what cannot be read, and a cell that is wrong, is a `TableError`.

    Examples
    --------
    >>> import procure
    >>> procure.read_prices("cloud.csv")["name"].to_list()
    ['small', 'large', 'gpu']
    """
    path = Path(path)
    if path.suffix.lower() in (".xlsx", ".ods", ".xls"):
        raise TableError(f"{path}: a price list is read as .csv or .parquet; save the sheet as CSV")
    return _checked(read(path, PRICES), str(path))


def _checked(prices: pd.DataFrame, source: str = "prices") -> pd.DataFrame:
    prices = check(prices, PRICES, source)
    prices = prices.assign(**{name: np.nan for name in ("reserved_usd_per_hour", "speed") if name not in prices})
    for wrong, name, what in (
        (prices["reserved_usd_per_hour"] > prices["usd_per_hour"], "reserved_usd_per_hour",
         "it is of every hour, and is above usd_per_hour, that on demand"),
        (prices["speed"] == 0, "speed", "it must be above 0"),
    ):  # fmt: skip
        for row in np.flatnonzero(wrong)[:1]:
            given = prices[name].iloc[row]
            raise TableError(f"{source}, row {row + 1}, column {name}: {given:g} was given; {what}")
    return prices


def reserved_count(busy: np.ndarray, share: np.ndarray, ratio: float) -> int:
    """Return how many instances to reserve so that a mix with on demand costs least.

    ``busy`` instances are in use for each ``share`` of the time; ``ratio`` is the price of a reserved hour over that of
    one on demand: one more pays as long as it is used for more than that part of the time.
    """
    levels = np.unique(np.append(busy, 0))
    above = np.array([share[busy > level].sum() for level in levels])
    return int(levels[np.flatnonzero(above <= max(ratio, 0.0) + 1e-12)[0]]) if ratio < 1 else 0


def in_use(begin: np.ndarray, seconds: np.ndarray, count: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many instances are in use, int64[n], and for which share of a period, s, that repeats for ever.

    ``begin``, ``seconds``, ``count``: int64, from when, how long and on how many instances a job runs; what reaches
    beyond the period goes on at its beginning. The shares add up to 1.
    """
    first, last = begin % period, begin % period + seconds % period
    moments = np.concatenate([first, np.minimum(last, period), np.zeros_like(first), np.maximum(last - period, 0)])
    times, place = np.unique(np.append(moments, [0, period]), return_inverse=True)
    steps = np.bincount(place[:-2], np.concatenate([count, -count, count, -count]), len(times)).astype(np.int64)
    return np.cumsum(steps)[:-1] + int((count * (seconds // period)).sum()), np.diff(times) / period


@dataclass(frozen=True)
class RentComparison(Shown):
    """What the same jobs cost, and how long they wait, if nodes are bought, rented, or both.

    ``table`` has a row per way: ``way`` (``buy``, ``on demand``, ``reserved``, ``burst over …``), ``usd`` over the
    years, ``rented_usd`` of it, ``mean_wait_time p95_wait_time max_wait_time`` (s), ``share_over_1h``, ``rented_jobs``
    and ``jobs_left_out``; ``break_even`` is by way the factor on the load at which renting costs what buying does, None
    where nothing can be rented.
    """

    table: pd.DataFrame
    break_even: Mapping[str, float | None]
    package_id: str
    years: float
    title: str
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        ways, even = self.table.to_dict(orient="records"), dict(self.break_even)
        of = {"package_id": self.package_id, "years": self.years}
        return of | {"ways": ways, "break_even_load": even, "notes": self.notes}

    def shown(self) -> pd.DataFrame:
        """Return the ways for people."""
        rounded = ["usd", "rented_usd", "mean_wait_time", "p95_wait_time", "max_wait_time"]
        return self.table.assign(**self.table[rounded].round(), share_over_1h=self.table["share_over_1h"].round(4))


def compare_rent(
    study: str | Path | Study,
    prices: pd.DataFrame | str | Path,
    *,
    package: str | None = None,
    wait_bounds: Sequence[int] = (4 * _HOUR,),
    boot: int = 180,
    policy: str | None = None,
    note: Note = silent,
) -> RentComparison:
    """Compare buying a package with renting, and with renting only for jobs that would wait too long.

    Each job runs on the instance type that is cheapest for it, on as many instances as it asks for nodes, from its
    submission and the boot on. Reserved instances are as many of each type as cost least beside on demand, with the
    jobs of the study repeating for ever. In a burst, jobs that would wait longer
    than a bound on the package are rented on demand, until no other does.

    Parameters
    ----------
    study, prices
        A study and a price list, see `procure.recommender.rent.PRICES`, or their files; nothing is fetched.
    package
        What is bought; None = the first of `procure.recommend`, for which the study must have been swept.
    wait_bounds, boot
        s: a burst for each; from the submission of a rented job to its start, paid for.
    policy, note
        One of the study's, None = its first; called with a line on each step that takes long.

    Raises
    ------
    TableError
        An argument (`ArgumentError`), the prices or the study are wrong, or it was not swept and no package is named.

    Examples
    --------
    >>> import procure
    >>> prices = procure.read_prices("cloud.csv")
    >>> found = procure.compare_rent("study.toml", prices, wait_bounds=[60])
    >>> found.table["way"].to_list()
    ['buy', 'on demand', 'reserved', 'burst over 60 s']
    """
    for name, value in (("boot", boot), *(("wait_bounds", one) for one in wait_bounds)):
        if value < 0:
            raise ArgumentError(name, f"{value:g} was given; it must be 0 or more")
    table = _checked(prices) if isinstance(prices, pd.DataFrame) else read_prices(prices)
    study = load_study(study)
    if package is not None:
        plan, policy = load_plan(study), policy_of(study, policy)
        counts = find_package(plan, package, "package")
    else:
        done = recommend(study, k=1, policy=policy, resamples=0, note=note)
        plan, policy = done.results.plan, done.results.policy
        counts = done.results.counts[done.first]
    note("replaying the package")
    jobs = {name: _Jobs(plan, name, counts, policy, table, boot) for name in plan.workloads}
    package_id, costs = package_ids(counts[None, :], plan.types)[0], plan.study.costs
    row = pd.DataFrame([counts], columns=plan.types).assign(package_id=package_id, price_usd=0.0)
    weights = {one.name: one.weight for one in plan.study.scenarios}
    bought = costs_of(plan, row, weights).iloc[0]
    paid = float(bought["tco_usd"])
    ways: dict[str, tuple[float, Callable[[_Jobs], tuple[np.ndarray, ...]]]] = {
        "buy": (paid, lambda one: (np.zeros(0), one.alone)),
        "on demand": (0.0, lambda one: (one.usd, one.boots)),
        "reserved": (0.0, lambda one: (one.reserved(), one.boots)),
        **{f"burst over {duration(bound)}": (paid, partial(_Jobs.burst, bound=bound)) for bound in wait_bounds},
    }
    rows = []
    for way, (usd, of) in ways.items():
        note(f"{way}: counting US$ and waits")
        rows.append(_row(way, usd, [(one, weights[name], *of(one)) for name, one in jobs.items()]))  # type: ignore[misc]
    found = pd.DataFrame(rows)
    rented = found.set_index("way")["rented_usd"][["on demand", "reserved"]]
    even = {str(way): round(found["usd"].iloc[0] / usd, 4) if usd > 0 else None for way, usd in rented.items()}
    title = f"{plan.study.name}: buy {package_id}, rent or burst, over {costs.years:g} years"
    notes = _notes(plan, found, even, float(bought["busy_share"]))
    return RentComparison(found, even, package_id, costs.years, title, notes)


class _Jobs:
    """The jobs of a workload: their waits ``alone`` on the package, and what each costs rented.

    ``usd`` is that of the cheapest instance that holds it, of the row ``kind`` of the price list, −1 where none does,
    for ``seconds``, after ``boots`` s; NaN of jobs that cannot run there.
    """

    def __init__(self, plan: Plan, name: str, counts: np.ndarray, policy: str, prices: pd.DataFrame, boot: int) -> None:
        self.plan, self.name, self._prices, self._policy = plan, name, prices, policy
        self.jobs, self._logged = plan.workloads[name], plan.logged_speed(name)
        bought = dict(zip(plan.types, counts.tolist(), strict=True))
        self._nodes = package_nodes(bought, plan.quotes, plan.existing)
        self.n_nodes = self.jobs["n_nodes"].to_numpy(np.int64)
        submit = self.jobs["submit_time"]
        self.period = int(np.ptp(submit) or max(1, self.jobs["run_time"].max())) if len(submit) else 1  # as costs count
        kinds = [(None if np.isnan(one.speed) else float(one.speed), str(one.gpu_type)) for one in prices.itertuples()]
        took = np.stack([run_times_on(self.jobs, self._logged, *one) for one in kinds])
        if plan.study.simulate.kill_at_limit:
            limit = self.jobs["requested_time"].to_numpy(np.int64)
            took = np.where(limit > 0, np.minimum(took, limit), took)
        price = prices["usd_per_hour"].to_numpy()[:, None]
        usd = np.where(_holds(prices, self.jobs), self.n_nodes * (took + boot) / _HOUR * price, np.inf)
        kind, every = usd.argmin(axis=0), np.arange(len(self.jobs))
        nowhere = np.isinf(usd[kind, every])
        self.usd, self.kind = np.where(nowhere, np.nan, usd[kind, every]), np.where(nowhere, -1, kind)
        self.seconds = (took + boot)[kind, every]
        self.boots = np.where(nowhere, np.nan, float(boot))
        self.alone = self._replay(np.ones(len(self.jobs), dtype=bool))

    def _replay(self, kept: np.ndarray) -> np.ndarray:
        """Simulate the jobs that are kept on the package; return their waits, NaN of all others."""
        waits = np.full(len(kept), np.nan)
        if kept.any():
            some, kill = self.jobs[kept].reset_index(drop=True), self.plan.study.simulate.kill_at_limit
            ran = simulate(some, self._nodes, self._policy, kill_at_limit=kill, logged_speed=self._logged).schedule
            waits[kept] = (ran["start_time"] - ran["submit_time"]).to_numpy(dtype="float64", na_value=np.nan)
        return waits

    def reserved(self) -> np.ndarray:
        """Return what each costs where the best number of each type is reserved, shared evenly among the jobs."""
        begin, total = (self.jobs["submit_time"] - self.jobs["submit_time"].min()).to_numpy(np.int64), 0.0
        for kind, one in enumerate(self._prices.itertuples()):
            mine, hour = self.kind == kind, float(one.reserved_usd_per_hour)
            if mine.any():
                busy, share = in_use(begin[mine], self.seconds[mine], self.n_nodes[mine], self.period)
                known = not np.isnan(hour) and one.usd_per_hour > 0
                n = reserved_count(busy, share, hour / one.usd_per_hour) if known else 0
                over = float((np.maximum(busy - n, 0) * share).sum())
                total += ((n * hour if n else 0.0) + over * one.usd_per_hour) * self.period / _HOUR
        return np.where(np.isnan(self.usd), np.nan, total / max(1, int((~np.isnan(self.usd)).sum())))

    def burst(self, bound: int) -> tuple[np.ndarray, ...]:
        """Rent what waits longer than a bound, or cannot run, until no other job does; return US$ and waits by job."""
        wait, away = self.alone, np.zeros(len(self.jobs), dtype=bool)
        for _ in range(_MOST_ROUNDS):
            more = ~away & ~np.isnan(self.usd) & (np.isnan(wait) | (wait > bound))
            if not more.any():
                break
            away |= more
            wait = self._replay(~away)
        return np.where(away, self.usd, 0.0), np.where(away, self.boots, wait)


def _holds(prices: pd.DataFrame, jobs: pd.DataFrame) -> np.ndarray:
    """Say which instance type holds one node's share of which job, bool[types, jobs]."""
    shapes = request_shapes(jobs)
    types = prices[["cpus", "gpus", "gpu_type"]].assign(mem_mb=mem_mb(prices["mem_gb"]))
    return fits(types, shapes)[:, shape_of(jobs, shapes)]


def _row(name: str, bought: float, found: list[tuple[_Jobs, float, np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Return a row of the table from each workload's jobs, its weight, and US$ and waits by job."""
    waits, shares, per_second, n_rented, left_out = [], [], 0.0, 0, 0
    for one, weight, paid, wait in found:
        submit = one.jobs["submit_time"].to_numpy()
        per_second += weight * float(np.nansum(paid)) / one.period
        counts = ~np.isnan(wait) & (submit >= submit.min() + one.plan.warm_up(one.name))
        waits.append(wait[counts])
        shares.append(np.full(int(counts.sum()), weight))
        n_rented += int((np.nan_to_num(paid) > 0).sum())
        left_out += int(np.isnan(wait).sum())
    costs, weights = found[0][0].plan.study.costs, sum(one[1] for one in found)
    usd = per_second / weights * _HOUR * HOURS_PER_YEAR * years_factor(costs.years, costs.interest_percent)
    wait, share = np.concatenate(waits), np.concatenate(shares)
    known = [np.nan] * 4
    if len(wait):
        p95 = np.quantile(wait, 0.95, weights=share, method="inverted_cdf")
        known = [np.average(wait, weights=share), p95, wait.max(), np.average(wait > _HOUR, weights=share)]
    figures = zip(("mean_wait_time", "p95_wait_time", "max_wait_time", "share_over_1h"), map(float, known), strict=True)
    row = {"way": name, "usd": round(bought + usd, 2), "rented_usd": round(usd, 2)}
    return row | dict(figures) | {"rented_jobs": n_rented, "jobs_left_out": left_out}


def _notes(plan: Plan, table: pd.DataFrame, even: Mapping[str, float | None], busy: float) -> list[str]:
    notes = []
    for way, load in ((way, load) for way, load in even.items() if load is not None):
        at = f"at {load:.2f} times this load ({100 * load * busy:.0f} % of the bought CPUs busy)"
        full = ", as far as the package serves it" if load * busy > 1 else ""
        notes.append(f"{way} costs what buying does {at}: below it renting is cheaper, above it buying{full}")
    for row in table[table["jobs_left_out"] > 0].itertuples():
        notes.append(f"{row.way}: {counted(row.jobs_left_out, 'job')} cannot run there, and cost nothing")
    notes.append("an instance runs one job; storage, transfers and staff of renting are not counted")
    if plan.existing is not None and (n := len(plan.existing)):
        notes.append(f"{counted(n, 'existing node')} serve beside what is bought, and not where all is rented")
    if plan.study.costs.usd_per_kwh is None:
        notes.append("costs: energy is not priced, so buying looks cheaper than it is; [costs] usd_per_kwh prices it")
    return notes
