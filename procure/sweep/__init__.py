"""The sweep: every run that a study asks for, on a farm, kept in Parquet.

`plan` says which runs there are, `bench` simulates one batch of them, `farm` says where batches are
computed, `store` keeps what they gave, and `run` drives the whole.
"""

from procure.sweep.plan import Plan, load_plan
from procure.sweep.run import SweepSummary, run_packages, run_sweep
from procure.sweep.store import read_results

__all__ = ["Plan", "SweepSummary", "load_plan", "read_results", "run_packages", "run_sweep"]
