"""What packages are ranked by: an objective, constraints, and the axes of a Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from procure.errors import ArgumentError, argument
from procure.objectives import MEAN_WAIT, Quantity
from procure.objectives.constraints import Constraint, parse_all, parse_targets, quantities
from procure.study import Study
from procure.study.rules import objective_of, own_constraints

SHORT = {"wait": "mean-wait", "cost": "tco"}
"""Short names that an axis of a front may have."""


@dataclass(frozen=True)
class Criteria:
    """What is to be small, within which bounds; with ``axes``, what a Pareto front is drawn by.

    ``targets`` are bounds, too, but where no package keeps them all, those nearest to it are listed.
    """

    objective: Quantity = MEAN_WAIT
    constraints: tuple[Constraint, ...] = ()
    axes: tuple[Quantity, ...] = ()
    targets: tuple[Constraint, ...] = ()

    @property
    def bounds(self) -> list[Constraint]:
        """The constraints, and what the targets ask for."""
        return [*self.constraints, *self.targets]

    @property
    def quantities(self) -> list[Quantity]:
        """Everything that has to be known of a package."""
        return [*(self.axes or [self.objective]), *(one.of for one in self.bounds)]

    @property
    def need_runs(self) -> bool:
        """Whether any of it is known by simulation only."""
        return any(one.source == "result" for one in self.quantities)

    @property
    def result_columns(self) -> list[str]:
        """The result columns that are needed, the mean wait always."""
        needed = [one.column for one in self.quantities if one.source == "result"]
        return list(dict.fromkeys([MEAN_WAIT.column, *needed]))

    def violation(self, value: Callable[[Quantity], np.ndarray], n: int) -> np.ndarray:
        """Return how far n packages are from satisfying the constraints, as shares of the bounds, summed; 0 = they do.

        Parameters
        ----------
        value
            From a quantity to its value of each package; NaN counts as infinitely far.
        """
        far = np.zeros(n)
        for one in self.bounds:
            values = value(one.of)
            off = np.abs(values - one.value) / max(abs(one.value), 1e-9)
            # A strict bound may be missed by nothing.
            far += np.where(one.holds(values), 0.0, np.where(np.isnan(off), np.inf, np.maximum(off, 1e-12)))
        return far


def criteria_of(
    study: Study,
    objective: str | None = None,
    constraints: str | Sequence[str] | None = None,
    pareto: str | Iterable[str] | None = None,
) -> Criteria:
    """Read criteria as the command line writes them; what is not given is the study's own.

    ``objective`` is a name in `procure.objectives.OBJECTIVES`; ``constraints``, as
    `procure.objectives.constraints.parse` reads them, count besides the study's; ``pareto`` are two objectives or more,
    separated by commas or in a list; ``wait`` and ``cost`` for short. What cannot be read, names what does not exist,
    or contradicts another is a `TableError`, of an argument an `ArgumentError`.
    """
    quotes = study.read_quotes()
    bounds = own_constraints(study, quotes)
    if constraints:
        more = [constraints] if isinstance(constraints, str) else constraints
        written = [*study.recommend.constraints, *more]
        with argument("constraints"):
            bounds = parse_all(written, quantities(quotes["name"], study.classes))
    with argument("objective"):
        target = objective_of(objective or study.recommend.objective, quotes, study.classes)
    names = [one.strip() for one in (pareto.split(",") if isinstance(pareto, str) else pareto or ())]
    with argument("pareto"):
        axes = tuple(objective_of(SHORT.get(name, name), quotes, study.classes) for name in names)
    if names and len(set(axes)) < 2:
        raise ArgumentError("pareto", "a front needs two axes or more, e.g. wait,cost")
    return Criteria(target, tuple(bounds), axes, parse_targets(study.targets, study.classes))
