"""Buy all now, or in parts over the years: what to buy when, and whether the difference is worth it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from procure.errors import ArgumentError, TableError
from procure.packages.ids import package_ids
from procure.packages.prices import order_cents
from procure.packages.space import make_space
from procure.progress import silent
from procure.recommender.learning import Note
from procure.study import Plan, Study, load_study
from procure.study.applications import mapper
from procure.study.existing import read_existing
from procure.study.plan import read_inputs, read_past_jobs
from procure.sweep.trial import simulate_packages
from procure.text import Shown, counted, duration
from procure.workload.futures import Futures, draw_futures

N_CANDIDATES, BEAM, DRAWS_PER_YEAR = 24, 3, 3
AGREED = 0.05
"""Futures agree on which way is better if luck alone would divide them so, or more, less often than this."""
WORTH = 0.05
"""A difference in the mean wait below this share of it, or below a minute, is not worth a plan of its own."""


@dataclass(frozen=True)
class Purchases:
    """One way to spend the money, and what comes of it.

    Attributes
    ----------
    table
        A row per year: ``way``, ``year`` (from 1), ``package_id`` (bought then; empty = nothing), ``spent_usd``,
        ``left_usd`` (kept for later), ``n_nodes`` (that stand then, the existing ones included), ``mean_wait_time`` (s,
        over the year's futures), ``jobs_left_out`` (of all of them), ``saturation_chance``.
    waits
        Mean wait in each future of each year, s, float64[years, draws].
    """

    table: pd.DataFrame
    waits: np.ndarray

    @property
    def key(self) -> tuple[int, float]:
        """What ways are compared by: jobs left out, then the mean wait over years and futures."""
        return int(self.table["jobs_left_out"].sum()), float(self.waits.mean())


@dataclass(frozen=True)
class PurchasePlan(Shown):
    """All now and in parts, side by side."""

    title = "all now, and in parts"

    now: Purchases
    parts: Purchases
    notes: list[str]

    @property
    def table(self) -> pd.DataFrame:
        """The rows of both, all now first."""
        return pd.concat([self.now.table, self.parts.table], ignore_index=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {"ways": self.table.to_dict(orient="records"), "notes": self.notes}


@dataclass(frozen=True)
class _State:
    held: np.ndarray  # int64[types]
    cash: float
    rows: tuple[dict[str, Any], ...] = ()
    waits: tuple[np.ndarray, ...] = ()

    @property
    def key(self) -> tuple[int, float]:
        return sum(row["jobs_left_out"] for row in self.rows), float(np.mean(self.waits))


def plan_purchases(
    study: str | Path | Study,
    years: int,
    budget_per_year: float,
    *,
    price_fall: float = 0.0,
    retire: Mapping[int, Sequence[str]] | None = None,
    candidates: int = N_CANDIDATES,
    beam: int = BEAM,
    draws: int = DRAWS_PER_YEAR,
    seed: int = 1,
    note: Note = silent,
) -> PurchasePlan:
    """Compare buying all in the first year with buying every year for a part of the money.

    Parameters
    ----------
    study
        Its workloads are the past; its ``[futures]`` say how the load grows and spreads.
    years, budget_per_year
        The system's life, and US$ a year; all now has all of it in the first year.
    price_fall
        By which share all prices fall a year; a part of next year is cheaper by that.
    retire
        By year, names or kinds of existing nodes that are gone from then on.
    candidates, beam
        How many packages are tried a year for each way that is followed, and how many ways are followed.
    draws
        Futures of each year.
    seed
        Of packages; futures have the study's.

    Raises
    ------
    ArgumentError
        A number is out of its range.
    TableError
        The study is wrong, or no package can be bought.

    Notes
    -----
    The futures of year y stand y − ½ years after the log, with the same random numbers every year, so that years differ
    by growth and not by chance; all ways meet the same. In parts, each year's packages
    are drawn at random from those that the cash at hand buys at that year's prices, and "nothing", whose money is kept;
    of all ways so far the best by jobs left out and mean wait are followed (a beam search: what is best
    early may be left out, so it is no bound). All now tries as many packages as the search in parts has tried in all.

    Examples
    --------
    >>> import procure
    >>> procure.plan_purchases("weeks.toml", 2, 45_000, candidates=2, beam=1, draws=1).summary() != ""
    True
    """
    for name, value, least, most in (
        ("years", years, 1, 20), ("budget_per_year", budget_per_year, 1, 1e12), ("price_fall", price_fall, 0, 0.9),
        ("candidates", candidates, 1, 10_000), ("beam", beam, 1, 100), ("draws", draws, 1, 100),
    ):  # fmt: skip
        if not least <= value <= most:
            raise ArgumentError(name, f"{value:g} was given; {least} to {most:g} are allowed")
    study = load_study(study)
    for year in retire or {}:
        if not 1 <= year <= years:
            raise ArgumentError("retire", f"year {year} was given; the plan has the years 1 to {years}")
    simulator = _PurchaseSimulator(study, years, price_fall, retire or {}, draws, seed)
    nothing = np.zeros(len(simulator.plan.types), np.int64)
    states = [_State(nothing, 0.0)]
    for year in range(1, years + 1):
        states = [replace(one, cash=one.cash + budget_per_year) for one in states]
        states = sorted(simulator.extend(states, year, candidates), key=lambda one: one.key)[:beam]
        note(f"year {year}: the best way in parts so far lets jobs wait {duration(states[0].key[1])}")
    parts = _purchases("in parts", states[0])
    n = candidates * (1 + beam * (years - 1))
    now = _purchases("all now", simulator.all_now(years * budget_per_year, n))
    note(f"all now: {counted(n, 'package')} tried")
    return PurchasePlan(now, parts, _verdict(now, parts, price_fall))


class _PurchaseSimulator:
    """The futures of every year, and the systems that stand in them."""

    def __init__(
        self,
        study: Study,
        years: int,
        fall: float,
        retire: Mapping[int, Sequence[str]],
        draws: int,
        seed: int,
    ) -> None:
        past = mapper(study)(read_past_jobs(study), study.workloads[0])
        settings = study.futures or Futures(tz=study.workloads[0].tz)
        plain = study.model_copy(update={"futures": None, "workloads": study.workloads[:1]})
        inputs = read_inputs(plain, plain.simulate.policies)
        self.plan = Plan(plain, inputs.quotes, pd.DataFrame(), inputs.workloads, inputs.existing, inputs.notes)
        self._name, self._fall, self._seed = plain.workloads[0].name, fall, seed
        self._rules, self._years = study.packages, years
        same = settings.model_copy(update={"draws": draws, "years": float(years), "folder": None})
        self._existing, self._futures, gone = [], [], tuple(study.packages.retire)
        for year in range(years):
            gone = (*gone, *retire.get(year + 1, ()))
            self._existing.append(self._nodes(gone) if gone != study.packages.retire else self.plan.existing)
            self._futures.append(list(draw_futures(past, same, np.full(draws, year + 0.5))))

    def _nodes(self, gone: Sequence[str]) -> pd.DataFrame | None:
        rules = self._rules
        if rules.existing_nodes is None:
            raise ArgumentError("retire", "the study has no existing nodes")
        return read_existing(rules.existing_nodes, gone, rules.existing_down).nodes

    def extend(self, states: list[_State], year: int, n: int) -> list[_State]:
        """Buy something, or nothing, in a year, and say how jobs wait then."""
        bought, cost, of = [], [], []
        for place, state in enumerate(states):
            counts, prices = self._offers(state.cash, year, n, bool(state.held.any()), place)
            bought += [np.zeros_like(state.held), *counts]
            cost += [0.0, *prices]
            of += [place] * (1 + len(counts))
        if year == 1 and len(bought) == 1:
            raise TableError("no package can be bought for the first year's budget")
        held = np.array([states[place].held for place in of]) + np.array(bought)
        existing = self._existing[year - 1]
        able = held.any(axis=1) | (existing is not None and len(existing) > 0)
        keep = np.flatnonzero(able)
        waits, left_out, saturated = self._simulate(held[keep], year)
        ids = package_ids(np.array(bought), self.plan.types)
        found = []
        for i, row in enumerate(keep):
            state = states[of[row]]
            cash = state.cash - cost[row]
            line = self._row(year, ids[row], cost[row], cash, held[row], waits[i], left_out[i], saturated[i])
            found.append(_State(held[row], cash, (*state.rows, line), (*state.waits, waits[i])))
        return found

    def all_now(self, budget: float, n: int) -> _State:
        """Spend everything in the first year on the best of some packages."""
        counts, prices = self._offers(budget, 1, n, False, 0)
        if not len(counts):
            raise TableError("no package can be bought for the budget of all years")
        ids = package_ids(counts, self.plan.types)
        states = [_State(held, budget - price) for held, price in zip(counts, prices, strict=True)]
        for year in range(1, self._years + 1):
            waits, left_out, saturated = self._simulate(counts, year)
            for i, one in enumerate(states):
                first = year == 1
                line = self._row(
                    year, ids[i] if first else "", prices[i] if first else 0.0, one.cash, one.held,
                    waits[i], left_out[i], saturated[i],
                )  # fmt: skip
                states[i] = replace(one, rows=(*one.rows, line), waits=(*one.waits, waits[i]))
        return min(states, key=lambda one: one.key)

    def _row(
        self,
        year: int,
        name: str,
        cost: float,
        cash: float,
        held: np.ndarray,
        wait: np.ndarray,
        out: int,
        full: float,
    ) -> dict[str, Any]:
        existing = self._existing[year - 1]
        n_nodes = int(held.sum()) + (0 if existing is None else len(existing))
        return {
            "year": year, "package_id": name, "spent_usd": round(cost, 2), "left_usd": round(cash, 2),
            "n_nodes": n_nodes, "mean_wait_time": float(wait.mean()), "jobs_left_out": int(out),
            "saturation_chance": float(full),
        }  # fmt: skip

    def _offers(self, cash: float, year: int, n: int, more: bool, place: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw packages that the cash buys at a year's prices; what is held already fulfils the least numbers."""
        share = (1 - self._fall) ** (year - 1)
        quotes = self.plan.quotes.assign(price_usd=(self.plan.quotes["price_usd"] * share).round(2))
        eased = {"min_gpu_nodes": 0, "categories": {}} if more else {}
        rules = self._rules.model_copy(update={"budget_usd": round(cash, 2), **eased})
        none = np.zeros((0, len(quotes)), np.int64), np.zeros(0)
        if cash <= rules.fixed_cost_usd:
            return none
        try:
            counts = make_space(quotes, rules).sample(n, np.random.default_rng([self._seed, year, place]))
        except TableError:
            return none  # nothing is cheap enough
        prices = order_cents(counts, quotes, rules) / 100 + rules.fixed_cost_usd
        if rules.beside is not None:
            units = counts @ quotes["rack_units"].fillna(0).to_numpy() if "rack_units" in quotes else 0.0
            servers = prices - rules.fixed_cost_usd
            prices = rules.beside.whole_usd(servers, rules.fixed_cost_usd, counts.sum(axis=1), units)
        fits = (prices <= cash + 0.005) & counts.any(axis=1)
        return counts[fits], prices[fits]

    def _simulate(self, held: np.ndarray, year: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean waits, s, [systems, draws], the jobs left out, and the share of the draws that saturate."""
        waits, out, full = [], np.zeros(len(held), np.int64), np.zeros(len(held))
        plan = replace(self.plan, existing=self._existing[year - 1])
        for jobs in self._futures[year - 1]:
            try:
                rows = simulate_packages(plan, held, self._name, plan.study.simulate.policies[0], jobs, "raise")
            except TableError as error:
                raise TableError(f"year {year}: {error}") from None
            waits.append(rows["mean_wait_time"].fillna(0.0).to_numpy(dtype="float64"))
            out += rows["n_unrunnable"].to_numpy(dtype="int64")
            full += rows["saturated"].fillna(0).to_numpy(dtype="float64") / len(self._futures[year - 1])
        return np.array(waits).T, out, full


def _purchases(way: str, state: _State) -> Purchases:
    table = pd.DataFrame(list(state.rows))
    table.insert(0, "way", way)
    return Purchases(table, np.array(state.waits))


def _verdict(now: Purchases, parts: Purchases, fall: float) -> list[str]:
    """Say which way is better, and whether the difference is worth it."""
    left = [one.key[0] for one in (now, parts)]
    ways = ("all now", "in parts")
    if left[0] != left[1]:
        better = ways[int(np.argmin(left))]
        return [
            f"{better} leaves {min(left):,} jobs out over the years, the other way {max(left):,}: {better} is better"
        ]
    gap = (parts.waits - now.waits).ravel()
    mean, wait = float(gap.mean()), min(now.key[1], parts.key[1])
    n_better = int((gap < 0).sum())
    better = ways[int(mean < 0)]
    lines = [
        f"over all years jobs wait {duration(now.key[1])} if all is bought now, {duration(parts.key[1])} in parts with "
        f"prices falling by {fall:.0%} a year; in parts is better in {n_better} of {gap.size} futures"
    ]
    n_differ = int((gap != 0).sum())
    luck = binomtest(n_better, n_differ).pvalue if n_differ else 1.0
    if abs(mean) < max(60.0, WORTH * wait):
        lines.append("the difference is not worth it: it is below 5 % of the wait, or below a minute")
    elif luck > AGREED or (n_better * 2 > n_differ) != (mean < 0):
        how = "are too few to say" if n_better in (0, n_differ) else "do not agree on"
        lines.append(
            f"the futures {how} which is better: in parts is better in "
            f"{n_better} of {n_differ} that differ (sign test: p = {luck:.2f})"
        )
    else:
        lines.append(f"{better} is better, by {duration(abs(mean))} a job (sign test: p = {luck:.2g})")
    return lines
