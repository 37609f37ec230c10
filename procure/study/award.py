"""The award matrix of a tender: points of offers by stated weights, and how far the winner turns on each weight."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import pandas as pd
from pydantic import BeforeValidator, Field, model_validator

from procure.errors import TableError
from procure.objectives.constraints import OBJECTIVES, Quantity, of_class, quantity_of
from procure.settings import Settings
from procure.text import nearest, seconds

SHORT = {"waits": "mean-wait", "wait": "mean-wait", "cost": "tco"}
"""Names of criteria besides those of objectives."""
WHOLE = 100.0
"""What weights add up to."""
_ALONE = tuple(name for name, one in OBJECTIVES.items() if one.how != "regret-max")


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

    A criterion of ``weights`` (100 in all) is an objective (`SHORT` has short names), less of which is better, or a
    name in ``points``, which a panel gave each vendor (or package id), at most ``most_points``. ``rule`` ``relative``:
    weight × best / value; ``linear``: all points for the best value, none from ``zero_at`` times the best on, a line
    between them; ``scale``, by criterion: a line between two values that are stated before offers are known. ``among``
    ``vendors``: for each vendor, or set of vendors, the first package of the recommendation; ``packages``: the list.
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
        for name in self.points.keys() & self.scale.keys():
            raise ValueError(f"scale.{name}: its points are given already, in points.{name}")
        for key, value in (
            (f"{name}.{vendor}", value) for name, of in self.points.items() for vendor, value in of.items()
        ):
            if value > self.most_points:
                raise ValueError(f"points.{key}: {value:g} was given; most_points is {self.most_points:g}")
        return self

    @property
    def quantities(self) -> dict[str, Quantity]:
        """The criteria that are objectives, by their names here."""
        return {name: quantity_of(SHORT.get(name, name)) for name in self.weights if name not in self.points}


def check_points(award: Award | None, vendors: pd.Series, packages: pd.Series | None = None) -> None:
    """Refuse points for a vendor that quotes nothing, or a package not in the list; without a list, ``=`` is one."""
    known = [one for one in vendors.astype(str).unique() if one]
    for name, given in (award.points if award is not None else {}).items():
        for of in given:
            is_package = "=" in of if packages is None else of in set(packages)
            if of not in known and not is_package:
                raise TableError(f"award.points.{name}.{of}: no quote has this vendor; {nearest(of, known)}")
