"""Buy, rent or burst? The same jobs on a package that is bought, on rented instances, or on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import ArgumentError
from procure.packages.cloud import check_prices, holds, in_use, read_prices, reserved_count
from procure.packages.costs import HOURS_PER_YEAR, years_factor
from procure.packages.ids import package_ids
from procure.packages.nodes import package_nodes
from procure.progress import silent
from procure.recommender.learning import Note
from procure.recommender.recommender import recommend
from procure.run import simulate
from procure.study import Plan, Study, load_plan, load_study
from procure.sweep.results import costs_of, policy_of
from procure.sweep.trial import find_package
from procure.text import Shown, counted, duration
from procure.workload.gpu_models import run_times_on

_MOST_ROUNDS = 20
_HOUR = 3600


@dataclass(frozen=True)
class RentComparison(Shown):
    """What the same jobs cost, and how long they wait, if nodes are bought, rented, or both.

    Attributes
    ----------
    table
        A row per way: ``way`` (``buy``, ``on demand``, ``reserved``, ``burst over …``), ``usd`` over the years,
        ``rented_usd`` of it, ``mean_wait_time p95_wait_time max_wait_time`` (s), ``share_over_1h``, ``rented_jobs`` and
        ``jobs_left_out``.
    break_even
        By way, the factor on the load at which renting costs what buying does; None where nothing can be rented.
    package_id, years
        What is bought; for how long.
    title, notes
        Of which study; what the figures rest on.
    """

    table: pd.DataFrame
    break_even: Mapping[str, float | None]
    package_id: str
    years: float
    title: str
    notes: list[str]

    def document(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "package_id": self.package_id,
            "years": self.years,
            "ways": self.table.to_dict(orient="records"),
            "break_even_load": dict(self.break_even),
            "notes": self.notes,
        }

    def shown(self) -> pd.DataFrame:
        """Return the ways for people."""
        rounded = ["usd", "rented_usd", "mean_wait_time", "p95_wait_time", "max_wait_time"]
        table = self.table.assign(**{name: self.table[name].round() for name in rounded})
        return table.assign(share_over_1h=table["share_over_1h"].round(4))


@dataclass(frozen=True)
class _Rented:
    """The jobs of a workload on the cheapest instances: per job, NaN where none holds it."""

    usd: np.ndarray  # on demand
    kind: np.ndarray  # row of the price list, on demand; −1 = none
    seconds: np.ndarray  # int64, what is paid for on demand


def compare_rent(
    study: str | Path | Study,
    prices: pd.DataFrame | str | Path,
    *,
    package: str | None = None,
    wait_bounds: Sequence[int] = (4 * _HOUR,),
    boot: int = 180,
    usd_per_year: float = 0.0,
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
        A study and a price list, see `procure.packages.cloud.PRICES`, or their files; nothing is fetched.
    package
        What is bought; None = the first of `procure.recommend`, for which the study must have been swept.
    wait_bounds
        s; a burst for each.
    boot
        s from the submission of a rented job to its start; paid for.
    usd_per_year
        What renting costs besides: storage, transfers, staff.
    policy, note
        One of the study's, None = its first; called with a line on each step that takes long.

    Raises
    ------
    ArgumentError
        An argument is out of bounds, or there is no such package.
    TableError
        The prices or the study are wrong, or the study was not swept and no package is named.

    Examples
    --------
    >>> import procure
    >>> prices = procure.read_prices("cloud.csv")
    >>> found = procure.compare_rent("study.toml", prices, wait_bounds=[60])
    >>> found.table["way"].to_list()
    ['buy', 'on demand', 'reserved', 'burst over 60 s']
    """
    for name, value in (("boot", boot), ("usd_per_year", usd_per_year), *(("wait_bounds", one) for one in wait_bounds)):
        if value < 0:
            raise ArgumentError(name, f"{value:g} was given; it must be 0 or more")
    table = check_prices(prices) if isinstance(prices, pd.DataFrame) else read_prices(prices)
    plan, counts, policy = _bought(load_study(study), package, policy, note)
    return _compare(plan, counts, policy, table, tuple(wait_bounds), boot, usd_per_year, note)


def _compare(
    plan: Plan,
    counts: np.ndarray,
    policy: str,
    table: pd.DataFrame,
    wait_bounds: tuple[int, ...],
    boot: int,
    usd_per_year: float,
    note: Note,
) -> RentComparison:
    """Price each way, and replay what turns on it."""
    weights = {one.name: one.weight for one in plan.study.scenarios}
    row = pd.DataFrame([dict(zip(plan.types, counts.tolist(), strict=True))])
    package_id = package_ids(counts[None, :], plan.types)[0]
    costs = costs_of(plan, row.assign(package_id=package_id, price_usd=0.0), weights).iloc[0]
    rented = {name: _rent(plan, name, table, boot) for name in plan.workloads}
    scale = _Scale(plan, weights, usd_per_year)
    everyone = {name: np.ones(len(jobs), dtype=bool) for name, jobs in plan.workloads.items()}
    note("replaying the package")
    alone = {name: _replay(plan, counts, name, policy, every) for name, every in everyone.items()}
    ways = [scale.row("buy", float(costs["tco_usd"]), {}, alone, {})]
    usd = {name: one.usd for name, one in rented.items()}
    boots = {name: np.where(np.isnan(one.usd), np.nan, float(boot)) for name, one in rented.items()}
    ways.append(scale.row("on demand", 0.0, usd, boots, usd))
    reserved = {name: _reserved(plan.workloads[name], one, table, boot) for name, one in rented.items()}
    ways.append(scale.row("reserved", 0.0, reserved, boots, usd))
    for bound in wait_bounds:
        note(f"bursting over {duration(bound)}")
        waits, paid = _burst(plan, counts, policy, rented, alone, bound, boot)
        ways.append(scale.row(f"burst over {duration(bound)}", float(costs["tco_usd"]), paid, waits, paid))
    found = pd.DataFrame(ways)
    even = _break_even(found, scale.beside)
    notes = _notes(plan, found, even, float(costs["busy_share"]))
    title = f"{plan.study.name}: buy {package_id}, rent or burst, over {plan.study.costs.years:g} years"
    return RentComparison(found, even, package_id, plan.study.costs.years, title, notes)


def _bought(study: Study, package: str | None, policy: str | None, note: Note) -> tuple[Plan, np.ndarray, str]:
    """Return the plan, the counts of what is bought, and the policy."""
    if package is not None:
        plan = load_plan(study)
        return plan, find_package(plan, package, "package"), policy_of(study, policy)
    done = recommend(study, k=1, policy=policy, resamples=0, note=note)
    return done.results.plan, done.results.counts[int(done.ranking["row"].iloc[0])], done.results.policy


def _rent(plan: Plan, name: str, prices: pd.DataFrame, boot: int) -> _Rented:
    """Find the cheapest instance of each job of a workload."""
    jobs, logged = plan.workloads[name], plan.logged_speed(name)
    able = holds(prices, jobs)
    took = np.stack([run_times_on(jobs, logged, _speed(one), str(one.gpu_type)) for one in prices.itertuples()])
    if plan.study.simulate.kill_at_limit:
        limit = jobs["requested_time"].to_numpy(np.int64)
        took = np.where(limit > 0, np.minimum(took, limit), took)
    n_nodes = jobs["n_nodes"].to_numpy(np.int64)
    seconds = took + boot
    price = prices["usd_per_hour"].to_numpy()[:, None]
    usd = np.where(able, n_nodes * seconds / _HOUR * price, np.inf)
    kind, every = usd.argmin(axis=0), np.arange(len(jobs))
    nowhere = np.isinf(usd[kind, every])
    return _Rented(np.where(nowhere, np.nan, usd[kind, every]), np.where(nowhere, -1, kind), seconds[kind, every])


def _speed(one: Any) -> float | None:
    return None if np.isnan(one.speed) else float(one.speed)


def _reserved(jobs: pd.DataFrame, rented: _Rented, prices: pd.DataFrame, boot: int) -> np.ndarray:
    """Return what a workload costs where the best number of each type is reserved, shared evenly among its jobs."""
    period, total = _period(jobs), 0.0
    begin = (jobs["submit_time"] - jobs["submit_time"].min()).to_numpy(np.int64)
    for kind, one in enumerate(prices.itertuples()):
        mine = rented.kind == kind
        if not mine.any():
            continue
        n_nodes = jobs["n_nodes"].to_numpy(np.int64)[mine]
        busy, share = in_use(begin[mine], rented.seconds[mine], n_nodes, period)
        reserved = 0.0 if np.isnan(one.reserved_usd_per_hour) else float(one.reserved_usd_per_hour)
        n = 0
        if not np.isnan(one.reserved_usd_per_hour) and one.usd_per_hour > 0:
            n = reserved_count(busy, share, reserved / one.usd_per_hour)
        over = float((np.maximum(busy - n, 0) * share).sum())
        total += (n * reserved + over * one.usd_per_hour) * period / _HOUR
    able = ~np.isnan(rented.usd)
    return np.where(able, total / max(1, int(able.sum())), np.nan)


def _replay(plan: Plan, counts: np.ndarray, name: str, policy: str, kept: np.ndarray) -> np.ndarray:
    """Simulate the jobs of a workload that are kept on the package; return their waits, NaN of all others."""
    waits = np.full(len(kept), np.nan)
    if not kept.any():
        return waits
    jobs = plan.workloads[name]
    nodes = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
    ran = simulate(
        jobs[kept].reset_index(drop=True),
        nodes,
        policy,
        kill_at_limit=plan.study.simulate.kill_at_limit,
        logged_speed=plan.logged_speed(name),
    ).schedule
    waits[kept] = (ran["start_time"] - ran["submit_time"]).to_numpy(dtype="float64", na_value=np.nan)
    return waits


def _burst(
    plan: Plan,
    counts: np.ndarray,
    policy: str,
    rented: Mapping[str, _Rented],
    alone: Mapping[str, np.ndarray],
    bound: int,
    boot: int,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Rent what waits longer than a bound, or cannot run, until no other job does; return waits and US$ by job."""
    waits, paid = {}, {}
    for name, first in alone.items():
        can, wait = ~np.isnan(rented[name].usd), first
        away = np.zeros(len(first), dtype=bool)
        for _ in range(_MOST_ROUNDS):
            more = ~away & can & (np.isnan(wait) | (wait > bound))
            if not more.any():
                break
            away |= more
            wait = _replay(plan, counts, name, policy, ~away)
        waits[name] = np.where(away, float(boot), wait)
        paid[name] = np.where(away, rented[name].usd, 0.0)
    return waits, paid


def _period(jobs: pd.DataFrame) -> int:
    """Return the seconds that a workload stands for, as `procure.packages.costs.total_costs` counts them."""
    return int(np.ptp(jobs["submit_time"]) or max(1, jobs["run_time"].max())) if len(jobs) else 1


@dataclass(frozen=True)
class _Scale:
    """Turn costs and waits of logged jobs into those of the years."""

    plan: Plan
    weights: Mapping[str, float]
    usd_per_year: float

    @property
    def beside(self) -> float:
        """What renting costs besides over the years, US$."""
        return self.usd_per_year * years_factor(self.plan.study.costs.years, self.plan.study.costs.interest_percent)

    def row(
        self,
        way: str,
        bought: float,
        paid: Mapping[str, np.ndarray],
        waits: Mapping[str, np.ndarray],
        rented: Mapping[str, np.ndarray],
    ) -> dict[str, Any]:
        """Return a row of the table; ``paid`` is in US$ by job, ``rented`` above 0 where it is rented."""
        costs, plan = self.plan.study.costs, self.plan
        per_year = sum(
            self.weights[name] * float(np.nansum(usd)) / _period(plan.workloads[name]) for name, usd in paid.items()
        ) / sum(self.weights.values())
        usd = per_year * _HOUR * HOURS_PER_YEAR * years_factor(costs.years, costs.interest_percent)
        n_rented = sum(int(np.nan_to_num(one > 0).sum()) for one in rented.values())
        beside = self.beside if n_rented else 0.0
        found = {
            "way": way,
            "usd": round(bought + usd + beside, 2),
            "rented_usd": round(usd + beside, 2),
        }
        found |= self._waits(waits)
        left_out = sum(int(np.isnan(one).sum()) for one in waits.values())
        return found | {"rented_jobs": n_rented, "jobs_left_out": left_out}

    def _waits(self, waits: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Pool the waits of the jobs that run and count, each workload with its weight."""
        values, weight = [], []
        for name, wait in waits.items():
            submit = self.plan.workloads[name]["submit_time"].to_numpy()
            counts = ~np.isnan(wait) & (submit >= submit.min() + self.plan.warm_up(name))
            values.append(wait[counts])
            weight.append(np.full(int(counts.sum()), self.weights[name]))
        wait, share = np.concatenate(values), np.concatenate(weight)
        if not len(wait):
            return dict.fromkeys(("mean_wait_time", "p95_wait_time", "max_wait_time", "share_over_1h"), float("nan"))
        order = np.argsort(wait, kind="stable")
        reached = np.cumsum(share[order]) / share.sum()
        return {
            "mean_wait_time": float(np.average(wait, weights=share)),
            "p95_wait_time": float(wait[order][np.searchsorted(reached, 0.95 - 1e-12)]),
            "max_wait_time": float(wait.max()),
            "share_over_1h": float(np.average(wait > _HOUR, weights=share)),
        }


def _break_even(table: pd.DataFrame, beside: float) -> dict[str, float | None]:
    """Return by which factor on the load each way of renting costs what buying does, to four digits.

    ``beside`` is what renting costs besides its instances, US$, whatever the load; 0 where that alone is above buying.
    """
    buy = float(table["usd"].iloc[0])
    found: dict[str, float | None] = {}
    for row in table.iloc[1:].itertuples():
        if str(row.way).startswith("burst"):
            continue
        grows = row.rented_usd - (beside if row.rented_jobs else 0.0)
        found[str(row.way)] = round(max(buy - beside, 0.0) / grows, 4) if grows > 0 else None
    return found


def _notes(plan: Plan, table: pd.DataFrame, even: Mapping[str, float | None], busy: float) -> list[str]:
    """Say what the comparison amounts to and what it leaves out."""
    notes = []
    for way, load in even.items():
        if load is not None:
            notes.append(
                f"{way} costs what buying does at {load:.2f} times this load ({100 * load * busy:.0f} % of the CPUs "
                f"that are bought busy): below it renting is cheaper, above it buying"
                + (", as far as the package serves it" if load * busy > 1 else "")
            )
    for row in table.itertuples():
        if row.jobs_left_out:
            notes.append(f"{row.way}: {counted(row.jobs_left_out, 'job')} cannot run there, and cost nothing")
    notes.append(
        "an instance runs one job, whose nodes are whole instances; storage, transfers and staff of renting are in it "
        "only where they were given"
    )
    if plan.existing is not None and len(plan.existing):
        notes.append(
            f"{counted(len(plan.existing), 'existing node')} serve beside what is bought, and not where all is rented"
        )
    if plan.study.costs.usd_per_kwh is None:
        notes.append("costs: energy is not priced, so buying looks cheaper than it is; [costs] usd_per_kwh prices it")
    return notes
