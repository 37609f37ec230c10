"""What makes one package better than another? Quantities, constraints, aggregates, Pareto fronts."""

from procure.objectives.constraints import MEAN_WAIT, OBJECTIVES, Quantity, objective, objectives_of

__all__ = ["MEAN_WAIT", "OBJECTIVES", "Quantity", "objective", "objectives_of"]
