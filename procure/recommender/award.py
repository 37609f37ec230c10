"""Which offer wins the tender? The packages of vendors scored by the study's award matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.packages.prices import price_list
from procure.progress import silent
from procure.recommender.learning import Note, simulator, values_of
from procure.recommender.notes import left_out_by_all
from procure.recommender.recommendation import Recommendation
from procure.recommender.recommender import recommend
from procure.study import Study, load_study
from procure.study.award import WHOLE, Award, check_points, points_of, sensitivity, shares
from procure.sweep.results import StudyResults
from procure.text import Shown, counted, duration, listed

NO_VENDOR = "no vendor stated"
MOST_OFFERS = 1000


@dataclass(frozen=True)
class AwardMatrix(Shown):
    """Offers with their points, the winner first, and how far it turns on the weights.

    Attributes
    ----------
    award
        The rules.
    table
        ``place offer package_id``, for each criterion its value and ``…_points``, ``points``.
    weights
        From `procure.study.award.sensitivity`, with the names of the offers in ``below`` and ``above``, empty
        where none overtakes.
    title, notes
        Of which study; what the user should know.
    """

    award: Award
    table: pd.DataFrame
    weights: pd.DataFrame
    title: str
    notes: list[str]

    def document(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        criteria = list(self.award.weights)
        return {
            "rule": self.award.rule,
            "offers": [
                {
                    "place": row["place"],
                    "offer": row["offer"],
                    "package_id": row["package_id"],
                    "values": {name: row[name] for name in criteria},
                    "points_by_criterion": {name: row[f"{name}_points"] for name in criteria},
                    "points": row["points"],
                }
                for row in self.table.to_dict(orient="records")
            ],
            "sensitivity": self.weights.to_dict(orient="records"),
            "notes": self.notes,
        }

    def sentences(self) -> list[str]:
        """Say who wins, and between which weights."""
        first = self.table.iloc[0]
        if len(self.table) == 1:
            return [f"{first['offer']} is the only offer that is scored: {first['points']:.2f} of {WHOLE:g} points"]
        second = self.table.iloc[1]
        ahead = first["points"] - second["points"]
        won = f"{first['offer']} wins with {first['points']:.2f} of {WHOLE:g} points"
        lines = [f"{won}, {ahead:.2f} ahead of {second['offer']}"]
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

    Parameters
    ----------
    study
        The path of a swept study with an ``[award]``, the study, or its results.
    k
        Length of the list, which ``among = "packages"`` scores; None = the study's.
    verify
        Whether to simulate offers that are predictions.
    policy, workload
        As in `procure.recommend`.
    note
        Called with a line on each step that takes long.

    Raises
    ------
    ArgumentError
        As `procure.recommend`.
    TableError
        The study has no ``[award]``, or it names a vendor that quotes nothing; and as `procure.recommend`.

    Examples
    --------
    >>> import procure
    >>> procure.award("study.toml").weights["criterion"].to_list()
    ['price', 'waits']
    """
    settings = study.plan.study if isinstance(study, StudyResults) else load_study(study)
    if settings.award is None:
        raise TableError(f"{settings.path}: has no [award], the weights that offers are scored by")
    done = recommend(study, k=k, verify=verify, policy=policy, workload=workload, resamples=0, note=note)
    return award_of(done)


def award_of(done: Recommendation) -> AwardMatrix:
    """Score the offers of a recommendation, see `award`."""
    study = done.results.plan.study
    rules = study.award
    if rules is None:
        raise TableError(f"{study.path}: has no [award], the weights that offers are scored by")
    offers, notes = _offers(done, rules)
    rows = offers["row"].to_numpy()
    values = _values(done, rules, rows, notes)
    check_points(rules, done.results.plan.quotes["vendor"], done.ranking["package_id"])
    for name, given in rules.points.items():
        values[name] = [_panel(done, rules, name, given, row) for row in rows]
    kept = values.notna().all(axis=1).to_numpy()
    if not kept.all():
        names = listed(offers.loc[~kept, "offer"].tolist())
        why = "a run of theirs failed" if done.verified else "they were not simulated, as asked for"
        notes.append(f"not scored, since {why}: {names}")
        offers, values = offers[kept].reset_index(drop=True), values[kept].reset_index(drop=True)
    if offers.empty:
        raise TableError("; ".join(["award: no offer can be scored", *notes]))
    got = shares(values, rules)
    points = points_of(got, rules.weights)
    price = done.package_values.price[offers["row"].to_numpy()]
    order = np.lexsort((np.arange(len(points)), price, -points.round(9).to_numpy()))
    table = pd.DataFrame({"place": np.arange(1, len(order) + 1)})
    for name in ("offer", "package_id"):
        table[name] = offers[name].to_numpy()[order]
    for name, weight in rules.weights.items():
        table[name] = values[name].to_numpy()[order]
        table[f"{name}_points"] = (got[name] * weight).to_numpy()[order].round(4)
    table["points"] = points.to_numpy()[order].round(4)
    weights = sensitivity(got.iloc[order], rules.weights, 0)
    named = ["", *table["offer"]]
    weights = weights.assign(**{end: [named[row + 1] for row in weights[end]] for end in ("below", "above")})
    notes += _zeros(values, rules)
    title = f"{study.name}: {counted(len(table), 'offer')} by the award matrix, rule {rules.rule}"
    return AwardMatrix(rules, table, weights.round({"low": 4, "high": 4}), title, notes)


def _offers(done: Recommendation, rules: Award) -> tuple[pd.DataFrame, list[str]]:
    """Return ``offer package_id row`` of what is scored, in the ranking's order; and what is not."""
    ranking, notes = done.ranking, []
    if rules.among == "packages":
        found = ranking.head(min(done.k, MOST_OFFERS))
        found = found.assign(offer=[f"rank {rank}" for rank in found["rank"]])
    else:
        found = ranking.assign(offer=_vendors(done)[ranking["row"].to_numpy()])
        found = found.drop_duplicates("offer")
        if (found["offer"] == NO_VENDOR).all():
            raise TableError('award.among: the quotes state no vendor; among = "packages" scores the list')
        found = found.head(MOST_OFFERS)
    lost = 0 if done.case.runs_all.any() else left_out_by_all(done.results)
    fails = found["jobs_left_out"] > lost
    if "satisfies" in found:
        fails |= ~found["satisfies"].astype(bool)
    if fails.any():
        names = listed(found.loc[fails, "offer"].tolist())
        more = "more jobs out than every package does" if lost else "jobs out"
        notes.append(f"not scored, since they leave {more} or break a constraint: {names}")
    if lost:
        notes.append(f"{counted(lost, 'job')} that no package can hold: offers are scored on the others")
    return found.loc[~fails, ["offer", "package_id", "row"]].reset_index(drop=True), notes


def _vendors(done: Recommendation) -> np.ndarray:
    """Name the vendors of every distinct package, those that are in it joined by +."""
    quotes, counts = done.results.plan.quotes, done.results.counts
    vendors = [name or NO_VENDOR for name in quotes["vendor"].astype(str)]
    names = list(dict.fromkeys(vendors))
    held = np.column_stack(
        [(counts[:, [i for i, one in enumerate(vendors) if one == name]] > 0).any(axis=1) for name in names]
    )
    sets, place = np.unique(held, axis=0, return_inverse=True)
    labels = np.array([" + ".join(np.array(names)[row]) for row in sets], dtype=object)
    return np.asarray(labels[place.ravel()])


def _values(done: Recommendation, rules: Award, rows: np.ndarray, notes: list[str]) -> pd.DataFrame:
    """Return the values of the criteria that are objectives, simulated where that is wanted and possible."""
    wanted = rules.quantities
    values = values_of(done.results, replace(done.criteria, axes=tuple(wanted.values())))
    values.add(np.arange(len(values.packages)), done.package_values.results)
    runs = [one for one in wanted.values() if one.source == "result"]
    unknown = np.array([any(np.isnan(values.value(one)[0][row]) for one in runs) for row in rows], dtype=bool)
    if unknown.any() and done.verified:
        failures: list[str] = []
        values.add(rows[unknown], simulator(done.results, list(values.results), failures)(rows[unknown]))
        notes += [f"a run failed: {failures[0]}"] if failures else []
    return pd.DataFrame({name: values.value(one)[0][rows] for name, one in wanted.items()}, index=range(len(rows)))


def _panel(done: Recommendation, rules: Award, name: str, given: dict[str, float], row: int) -> float:
    """Return the points that a panel gave a package: its own, or those of its vendors by their share of the price."""
    quotes, counts = done.results.plan.quotes, done.results.counts[row]
    package_id = str(done.package_values.packages["package_id"].iloc[row])
    vendors = quotes["vendor"].astype(str)
    if package_id in given:
        return given[package_id]
    prices = price_list(quotes, done.results.plan.study.packages)
    cents = counts * prices.list_cents - prices.line_discounts(counts)
    spent = pd.Series(cents).groupby(vendors.to_numpy()).sum()
    spent = spent[spent > 0]
    missing = [vendor for vendor in spent.index if vendor not in given]
    if missing:
        raise TableError(f"award.points.{name}: {missing[0] or NO_VENDOR} has no points")
    return float(sum(given[vendor] * usd for vendor, usd in spent.items()) / spent.sum())


def _zeros(values: pd.DataFrame, rules: Award) -> list[str]:
    """Warn of criteria whose best value is so small that points relative to it say little."""
    return [
        f"the best value of {name} is {duration(values[name].min())}: points relative to it tell offers apart that "
        "users would not; [award.scale] states the values that get all points and none"
        for name, one in rules.quantities.items()
        if name not in rules.scale and one.unit == "s" and values[name].min() < 60 and values[name].max() > 0
    ]
