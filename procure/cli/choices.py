"""What the user wants: an objective, constraints, the axes of a front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli.common import bad_option

if TYPE_CHECKING:
    import pandas as pd

    from procure.objectives import Quantity
    from procure.objectives.constraints import Constraint
    from procure.study import Study

ObjectiveOption = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="NAME",
        help="What is to be small; default: the study's, else mean-wait. In s: mean-wait, median-wait, p95-wait, "
        "max-wait, turnaround; over several workloads worst-day, cvar (both s), regret-max (share). A ratio: "
        "slowdown. US$: price, tco, cost-per-job, cost-per-core-hour. kWh/year: energy.",
    ),
]
ConstraintOption = Annotated[
    list[str] | None,
    typer.Option(
        "--constraint",
        metavar="EXPR",
        help="What every package must satisfy, besides the study's own, e.g. 'p95_wait<=4h', "
        "'price_usd<=$900,000', 'total_gpus>=40', 'energy_kwh_per_year<200MWh'; may be given again. "
        "<= < >= > ==; times in s m h d, money in US$ k M, energy in kWh MWh, power in W kW, shares in %.",
    ),
]
ParetoOption = Annotated[
    str | None,
    typer.Option(
        "--pareto",
        metavar="AXES",
        help="Print the packages that no other beats in all of these, and the knee, instead of a list: "
        "wait,cost,energy or any objectives, separated by commas; 'wait' is mean-wait, 'cost' is tco.",
    ),
]
SHORT = {"wait": "mean-wait", "cost": "tco"}


@dataclass(frozen=True)
class Wish:
    """What packages are ranked by, within which bounds; ``axes`` where a front is asked for."""

    objective: Quantity
    constraints: tuple[Constraint, ...] = ()
    axes: tuple[Quantity, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it is the mean wait and nothing else."""
        return self.objective.name == "mean-wait" and not self.constraints and not self.axes

    @property
    def quantities(self) -> list[Quantity]:
        """Everything that has to be known of a package."""
        return [*(self.axes or [self.objective]), *(one.of for one in self.constraints)]


def wish(
    study: Study,
    objective: str | None = None,
    constraints: Sequence[str] | None = None,
    pareto: str | None = None,
) -> Wish:
    """Read what is wanted from the options and the study; contradictions end it here.

    Raises
    ------
    typer.BadParameter
        An option cannot be read or names what does not exist, or constraints contradict each other.
    TableError
        The same of the study's own.
    """
    from procure.objectives.constraints import parse_all, quantities

    quotes = study.read_quotes()
    known = quantities(quotes["name"])
    bounds = tuple(parse_all(study.recommend.constraints, known))
    if constraints:
        with bad_option("--constraint"):
            bounds = tuple(parse_all([*study.recommend.constraints, *constraints], known))
    target = _option("--objective", objective or study.recommend.objective, quotes)
    names = [name.strip() for name in pareto.split(",")] if pareto else []
    axes = tuple(_option("--pareto", SHORT.get(name, name), quotes) for name in names)
    if pareto and len(set(axes)) < 2:
        raise typer.BadParameter("a front needs two axes or more, e.g. wait,cost", param_hint="--pareto")
    return Wish(target, bounds, axes)


def _option(option: str, name: str, quotes: pd.DataFrame) -> Quantity:
    from procure.objectives import OBJECTIVES, objective

    columns = {one.column for one in OBJECTIVES.values()}
    if name not in OBJECTIVES and ("power_w" not in quotes or quotes["power_w"].isna().all()):
        columns -= {OBJECTIVES["energy"].column}
    with bad_option(option):
        return objective(name, columns)
