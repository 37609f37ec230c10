"""How are all runs made, and none lost? Every run that a study asks for, on a farm, kept in Parquet.

`parts` cuts the runs into batches, `runner` simulates one and knows which remain, `farm` drives the whole wherever
they are computed (`connect` obtains Dask's workers), `store` keeps the rows. `results` joins the rows with
packages and fitted models; `trial` simulates a few packages here and now.
"""

from procure.study import Plan, load_plan
from procure.sweep.connect import FarmOptions
from procure.sweep.farm import SweepSummary, run_sweep
from procure.sweep.store import read_results

__all__ = ["FarmOptions", "Plan", "SweepSummary", "load_plan", "read_results", "run_sweep"]
