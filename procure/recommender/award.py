"""Which offer wins the tender? The packages of vendors scored by the study's award matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.prices import price_list
from procure.progress import silent
from procure.recommender.notes import left_out_by_all
from procure.recommender.rank import Note, simulator, values_of
from procure.recommender.recommendation import Recommendation
from procure.recommender.recommender import recommend
from procure.study import Study, load_study
from procure.study.sections import WHOLE, Award, check_points
from procure.sweep.results import StudyResults
from procure.text import Shown, counted, duration, listed

NO_VENDOR = "no vendor stated"
MOST_OFFERS = 1000
_SAME = 1e-9


@dataclass(frozen=True)
class AwardMatrix(Shown):
    """Offers with their points, the winner first, and how far it turns on the weights.

    ``table`` has ``place offer package_id``, for each criterion its value and ``…_points``, and ``points``;
    ``weights`` what `sensitivity` returns, with the names of offers in ``below`` and ``above``, empty where none
    overtakes.
    """

    award: Award
    table: pd.DataFrame
    weights: pd.DataFrame
    title: str
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        names, rows = self.award.weights, self.table.to_dict(orient="records")
        offers = [
            {name: row[name] for name in ("place", "offer", "package_id", "points")}
            | {"values": {name: row[name] for name in names}}
            | {"points_by_criterion": {name: row[f"{name}_points"] for name in names}}
            for row in rows
        ]
        weights = self.weights.to_dict(orient="records")
        return {"rule": self.award.rule, "offers": offers, "sensitivity": weights, "notes": self.notes}

    def sentences(self) -> list[str]:
        """Say who wins, and between which weights."""
        first, more = self.table.iloc[0], self.table.iloc[1:2]
        points = f"{first['points']:.2f} of {WHOLE:g} points"
        if not len(more):
            return [f"{first['offer']} is the only offer that is scored: {points}"]
        ahead = f"{first['points'] - more['points'].iloc[0]:.2f} ahead of {more['offer'].iloc[0]}"
        lines = [f"{first['offer']} wins with {points}, {ahead}"]
        for row in self.weights.itertuples():
            ends = [f"below {row.low:.1f} {row.below} wins"] if row.below else []
            ends += [f"above {row.high:.1f} {row.above} wins"] if row.above else []
            what = "; ".join(ends) or "the winner stays at any weight"
            lines.append(f"weight of {row.criterion}, {row.weight:g}: {what}")
        return lines


def award(
    study: str | Path | Study | StudyResults,
    *,
    k: int | None = None,
    verify: bool = True,
    policy: str | None = None,
    workload: str | None = None,
    note: Note = silent,
) -> AwardMatrix:
    """Score offers by the award matrix of a swept study, and say how far the winner turns on each weight.

    The arguments and errors are those of `procure.recommend`; a study without ``[award]``, or one that names a vendor
    that quotes nothing, is a `TableError`. ``k`` is the length of the list that ``among = "packages"`` scores.

    Examples
    --------
    >>> import procure
    >>> procure.award("study.toml").weights["criterion"].to_list()
    ['price', 'waits']
    """
    _rules(study.plan.study if isinstance(study, StudyResults) else load_study(study))
    return award_of(recommend(study, k=k, verify=verify, policy=policy, workload=workload, resamples=0, note=note))


def _rules(study: Study) -> Award:
    if study.award is None:
        raise TableError(f"{study.path}: has no [award], the weights that offers are scored by")
    return study.award


def award_of(done: Recommendation) -> AwardMatrix:
    """Score the offers of a recommendation, see `award`."""
    study, values = done.results.plan.study, done.package_values
    rules = _rules(study)
    offers, notes = _offers(done, rules)
    table = _values(done, rules, offers["row"].to_numpy(), notes)
    check_points(rules, done.results.plan.quotes["vendor"], done.ranking["package_id"])
    for name, given in rules.points.items():
        table[name] = [_panel(done, f"award.points.{name}", given, row) for row in offers["row"]]
    kept = table.notna().all(axis=1)
    if not kept.all():
        why = "a run of theirs failed" if done.verified else "they were not simulated, as asked for"
        notes.append(f"not scored, since {why}: {listed(offers.loc[~kept, 'offer'].tolist())}")
    if not kept.any():
        raise TableError("; ".join(["award: no offer can be scored", *notes]))
    for name, one in rules.quantities.items():
        least, most = table.loc[kept, name].min(), table.loc[kept, name].max()
        if name not in rules.scale and one.unit == "s" and least < 60 and most > 0:
            short = f"the best value of {name} is {duration(least)}, too short to compare offers by"
            notes.append(f"{short}: state the values that get all points and none in [award.scale]")
    got = shares(table[kept], rules)
    points = points_of(got, rules.weights)
    order = np.lexsort((values.price[offers.loc[kept, "row"]], -points.round(9)))
    scored = got.mul(pd.Series(rules.weights)).round(4).add_suffix("_points")
    columns = [one for name in rules.weights for one in (name, f"{name}_points")]
    whole = pd.concat([offers, table, scored], axis=1)[kept][["offer", "package_id", *columns]]
    whole = whole.assign(points=points.round(4)).iloc[order].reset_index(drop=True)
    whole.insert(0, "place", np.arange(1, len(whole) + 1))
    weights = sensitivity(got.iloc[order], rules.weights, 0).round({"low": 4, "high": 4})
    weights = weights.assign(**{end: [["", *whole["offer"]][row + 1] for row in weights[end]]
                                for end in ("below", "above")})  # fmt: skip
    title = f"{study.name}: {counted(len(whole), 'offer')} by the award matrix, rule {rules.rule}"
    return AwardMatrix(rules, whole, weights, title, notes)


def _offers(done: Recommendation, rules: Award) -> tuple[pd.DataFrame, list[str]]:
    """Return ``offer package_id row`` of what is scored, in the ranking's order; and what is not."""
    ranking, notes = done.ranking, []
    if rules.among == "packages":
        found = ranking.head(done.k).assign(offer=[f"rank {rank}" for rank in ranking["rank"].head(done.k)])
    else:
        found = ranking.assign(offer=_vendors(done)[ranking["row"].to_numpy()]).drop_duplicates("offer")
        if (found["offer"] == NO_VENDOR).all():
            raise TableError('award.among: the quotes state no vendor; among = "packages" scores the list')
    found = found.head(MOST_OFFERS)
    lost = 0 if done.case.runs_all.any() else left_out_by_all(done.results)
    fails = (found["jobs_left_out"] > lost) | ~found.get("satisfies", pd.Series(True, found.index)).astype(bool)
    if fails.any():
        names = listed(found.loc[fails, "offer"].tolist())
        more = "more jobs out than every package does" if lost else "jobs out"
        notes.append(f"not scored, since they leave {more} or break a constraint: {names}")
    if lost:
        notes.append(f"{counted(lost, 'job')} that no package can hold: offers are scored on the others")
    return found.loc[~fails, ["offer", "package_id", "row"]].reset_index(drop=True), notes


def _vendors(done: Recommendation) -> np.ndarray:
    vendors = done.results.plan.quotes["vendor"].astype(str).replace("", NO_VENDOR)
    names = vendors.unique()
    held = np.column_stack([(done.results.counts[:, (vendors == name).to_numpy()] > 0).any(axis=1) for name in names])
    sets, place = np.unique(held, axis=0, return_inverse=True)
    return np.array([" + ".join(names[row]) for row in sets], dtype=object)[place.ravel()]


def _values(done: Recommendation, rules: Award, rows: np.ndarray, notes: list[str]) -> pd.DataFrame:
    """Return the values of the criteria that are objectives, simulated where that is wanted and possible."""
    wanted = rules.quantities
    values = values_of(done.results, replace(done.criteria, axes=tuple(wanted.values())))
    values.add(np.arange(len(values.packages)), done.package_values.results)
    runs = [values.value(one)[0][rows] for one in wanted.values() if one.source == "result"]
    unknown = np.isnan(np.column_stack([*runs, np.zeros(len(rows))])).any(axis=1)
    if unknown.any() and done.verified:
        failures: list[str] = []
        values.add(rows[unknown], simulator(done.results, list(values.results), failures)(rows[unknown]))
        notes += [f"a run failed: {failures[0]}"] if failures else []
    return pd.DataFrame({name: values.value(one)[0][rows] for name, one in wanted.items()}, index=range(len(rows)))


def _panel(done: Recommendation, key: str, given: dict[str, float], row: int) -> float:
    """Return the points that a panel gave a package: its own, or those of its vendors by their share of the price."""
    plan, counts = done.results.plan, done.results.counts[row]
    package_id = str(done.package_values.packages["package_id"].iloc[row])
    if package_id in given:
        return given[package_id]
    prices = price_list(plan.quotes, plan.study.packages)
    cents = counts * prices.list_cents - prices.line_discounts(counts)
    spent = pd.Series(cents).groupby(plan.quotes["vendor"].astype(str).to_numpy()).sum()
    spent = spent[spent > 0]
    for vendor in spent.index:
        if vendor not in given:
            raise TableError(f"{key}: {vendor or NO_VENDOR} has no points")
    return float(np.average([given[vendor] for vendor in spent.index], weights=spent))


def shares(values: pd.DataFrame, award: Award) -> pd.DataFrame:
    """Return which share of a criterion's points each offer, a row of values, gets, 0 to 1.

    Less is better, but of ``points`` more. relative: best / value; where the best is 0, offers with 0 get all and the
    others none. linear: 1 − (value − best) / (best (zero_at − 1)), at least 0. With a scale:
    1 − (value − full) / (none − full), within 0 to 1.
    """
    found = {}
    for name in award.weights:
        column = values[name].to_numpy(dtype="float64")
        scale = award.scale.get(name)
        full, none = (scale.full, scale.none) if scale else (column.min(), column.min() * award.zero_at)
        if name in award.points:
            found[name] = column / award.most_points
        elif award.rule == "relative" and scale is None:
            found[name] = full / column if full else (column == 0).astype("float64")
        else:
            found[name] = 1 - (column - full) / (none - full) if none != full else (column == full).astype("float64")
    return pd.DataFrame(found, index=values.index).clip(0.0, 1.0)


def points_of(got: pd.DataFrame, weights: Mapping[str, float]) -> pd.Series:
    """Return the points of each offer, of `WHOLE`, from its `shares`."""
    return got[list(weights)].mul(pd.Series(weights)).sum(axis=1)


def sensitivity(got: pd.DataFrame, weights: Mapping[str, float], winner: int) -> pd.DataFrame:
    """Say between which values of each weight the winner stays, the other weights keeping their proportions.

    Points are a line in each weight, so the ends are where the winner's line meets another's. Where the others weigh
    nothing, the rest is shared among them equally. Returns ``criterion weight low high below above``; ``below`` and
    ``above`` are the rows of the offers that overtake the winner's there, -1 where none does.
    """
    table, given, rows = got[list(weights)].to_numpy(dtype="float64"), np.array(list(weights.values())), []
    for i, name in enumerate(weights):
        others = np.delete(given, i)
        if not others.size:
            rows.append((name, given[i], 0.0, WHOLE, -1, -1))
            continue
        others = others / others.sum() if others.sum() > 0 else np.full(others.size, 1 / others.size)
        rest = np.delete(table, i, axis=1) @ others
        # Ahead of an offer by at + slope × weight.
        at, slope = (rest[winner] - rest) * WHOLE, table[winner, i] - table[:, i] - rest[winner] + rest
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = -at / slope
        lows = np.where(slope > _SAME, np.minimum(meets, given[i]), -np.inf)
        highs = np.where(slope < -_SAME, np.maximum(meets, given[i]), np.inf)
        low, high = float(lows.max()), float(highs.min())
        below = int(lows.argmax()) if low > _SAME else -1
        above = int(highs.argmin()) if high < WHOLE - _SAME else -1
        rows.append((name, given[i], max(0.0, low), min(WHOLE, high), below, above))
    return pd.DataFrame(rows, columns=["criterion", "weight", "low", "high", "below", "above"])
