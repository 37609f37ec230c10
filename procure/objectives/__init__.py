"""What makes one package better than another? Quantities, constraints, aggregates, Pareto fronts."""

from procure.objectives.aggregate import CVAR_SHARE, HOW, REGRET_FLOOR, aggregate, regrets
from procure.objectives.constraints import MEAN_WAIT, OBJECTIVES, Quantity, objective, objectives_of

__all__ = [
    "CVAR_SHARE",
    "HOW",
    "MEAN_WAIT",
    "OBJECTIVES",
    "REGRET_FLOOR",
    "Quantity",
    "aggregate",
    "objective",
    "objectives_of",
    "regrets",
]
