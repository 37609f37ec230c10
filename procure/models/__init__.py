"""Models that predict a package's mean wait from what it holds, learnt from simulated packages."""

from procure.models.case import FEATURE_SETS, WorkloadWaits, features, make_case, pool_workloads
from procure.models.surrogate import Predicted, Surrogate, predict_packages

__all__ = [
    "FEATURE_SETS", "Predicted", "Surrogate", "WorkloadWaits", "features", "make_case", "pool_workloads",
    "predict_packages",
]  # fmt: skip
