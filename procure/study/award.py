"""The award matrix of a tender: points of offers by stated weights, and how far the winner turns on each weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field, model_validator

from procure.errors import TableError
from procure.objectives.quantities import OBJECTIVES, Quantity, of_class, quantity_of
from procure.settings import Settings
from procure.text import nearest, seconds

SHORT = {"waits": "mean-wait", "wait": "mean-wait", "cost": "tco"}
"""Names of criteria besides those of objectives."""
WHOLE = 100.0
"""What weights add up to."""
_ALONE = tuple(name for name, one in OBJECTIVES.items() if one.how != "regret-max")
_SAME = 1e-9


def _number(value: object) -> object:
    return seconds(value) if isinstance(value, str) else value


class Scale(Settings):
    """The value of a criterion that gets all points, and the one from which there are none; between them, a line."""

    full: Annotated[float, BeforeValidator(_number), Field(ge=0, allow_inf_nan=False)]
    none: Annotated[float, BeforeValidator(_number), Field(gt=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _apart(self) -> Scale:
        if self.none <= self.full:
            raise ValueError(f"none, {self.none:g}, must be above full, {self.full:g}: less is better")
        return self


class Award(Settings):
    """How offers are scored, as a study's ``[award]`` gives it.

    Parameters
    ----------
    weights
        Points of each criterion, 100 in all. A criterion is an objective (`SHORT` has short names), less of which is
        better, or a name in ``points``.
    rule
        ``relative``: weight × best / value. ``linear``: all points for the best value, none from ``zero_at`` times the
        best on, a line between them.
    zero_at
        Of the rule ``linear``.
    scale
        Instead of both, by criterion: a line between two values that are stated before offers are known.
    points, most_points
        Of criteria that a panel judges: points of each vendor (or of each package id), of at most ``most_points``.
    among
        ``vendors``: for each vendor, or set of vendors that packages come from, the first package of the
        recommendation. ``packages``: the packages of the list.
    """

    weights: Annotated[dict[str, Annotated[float, Field(ge=0, le=WHOLE)]], Field(min_length=1, max_length=50)]
    rule: Literal["relative", "linear"] = "relative"
    zero_at: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 2.0
    scale: dict[str, Scale] = Field(default_factory=dict)
    points: dict[str, dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]] = Field(default_factory=dict)
    most_points: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    among: Literal["vendors", "packages"] = "vendors"

    @model_validator(mode="after")
    def _agree(self) -> Award:
        for name in self.weights:
            wanted = SHORT.get(name, name)
            if name not in self.points and wanted not in _ALONE and (wanted in OBJECTIVES or not of_class(wanted)):
                legal = nearest(name, [*SHORT, *_ALONE])
                raise ValueError(f"weights.{name}: is neither an objective nor among [award.points]; {legal}")
        total = math.fsum(self.weights.values())
        if abs(total - WHOLE) > 1e-6:
            raise ValueError(f"weights: they add up to {total:g}; they must add up to {WHOLE:g}")
        for key, name in [("points", one) for one in self.points] + [("scale", one) for one in self.scale]:
            if name not in self.weights:
                raise ValueError(f"{key}.{name}: has no weight; {nearest(name, list(self.weights))}")
        for name in self.scale:
            if name in self.points:
                raise ValueError(f"scale.{name}: its points are given already, in points.{name}")
        for name, given in self.points.items():
            for vendor, value in given.items():
                if value > self.most_points:
                    raise ValueError(
                        f"points.{name}.{vendor}: {value:g} was given; most_points is {self.most_points:g}"
                    )
        return self

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The criteria that are objectives, by their names here."""
        return {name: quantity_of(SHORT.get(name, name)) for name in self.weights if name not in self.points}


def shares(values: pd.DataFrame, award: Award) -> pd.DataFrame:
    """Return which share of a criterion's points each offer gets, 0 to 1.

    Parameters
    ----------
    values
        A row per offer, a column per criterion: less is better, but of ``points`` more.
    award
        The rules.

    Notes
    -----
    relative: best / value; where the best is 0, offers with 0 get all and the others none. linear:
    1 − (value − best) / (best (zero_at − 1)), at least 0. With a scale: 1 − (value − full) / (none − full), within
    0 to 1.
    """
    found = {}
    for name in award.weights:
        column = values[name].to_numpy(dtype="float64")
        if name in award.points:
            found[name] = column / award.most_points
        elif name in award.scale:
            scale = award.scale[name]
            found[name] = 1 - (column - scale.full) / (scale.none - scale.full)
        else:
            best = column.min()
            width = best if award.rule == "relative" else best * (award.zero_at - 1)
            if width == 0:
                found[name] = (column == best).astype("float64")
            elif award.rule == "relative":
                found[name] = best / column
            else:
                found[name] = 1 - (column - best) / width
    return pd.DataFrame(found, index=values.index).clip(0.0, 1.0)


def points_of(got: pd.DataFrame, weights: Mapping[str, float]) -> pd.Series:
    """Return the points of each offer, of `WHOLE`, from its `shares`."""
    return got[list(weights)].mul(pd.Series(weights)).sum(axis=1)


def sensitivity(got: pd.DataFrame, weights: Mapping[str, float], winner: int) -> pd.DataFrame:
    """Say between which values of each weight the winner stays, the other weights keeping their proportions.

    Points are a line in each weight, so the ends are where the winner's line meets another's. Where the others weigh
    nothing, the rest is shared among them equally.

    Parameters
    ----------
    got, weights
        From `shares`; as in `Award`.
    winner
        Row of the offer that wins.

    Returns
    -------
    pandas.DataFrame
        ``criterion weight low high below above``: the winner stays from ``low`` to ``high``; ``below`` and ``above``
        are the rows of the offers that overtake it there, -1 where none does.
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


def check_points(award: Award | None, vendors: pd.Series, packages: pd.Series | None = None) -> None:
    """Refuse points of a panel for a vendor that quotes nothing, or for a package that is not in the list.

    Without a list of packages a name with ``=``, which is that of a package, is left alone.

    Raises
    ------
    TableError
        There are such points.
    """
    known = [one for one in vendors.astype(str).unique() if one]
    for name, given in (award.points if award is not None else {}).items():
        for of in given:
            is_package = "=" in of if packages is None else of in set(packages)
            if of not in known and not is_package:
                raise TableError(f"award.points.{name}.{of}: no quote has this vendor; {nearest(of, known)}")
