"""Models that predict a package's mean wait from what it holds, learnt from simulated packages."""

from procure.models.case import Case, make_case, together
from procure.models.crossfit import Predicted, predict_packages
from procure.models.features import FEATURE_SETS, feature_inputs, features
from procure.models.surrogate import Surrogate

__all__ = [
    "FEATURE_SETS",
    "Case",
    "Predicted",
    "Surrogate",
    "feature_inputs",
    "features",
    "make_case",
    "predict_packages",
    "together",
]
