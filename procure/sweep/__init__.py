"""The sweep: every run that a study asks for, on a farm, kept in Parquet.

`plan` says which runs there are, `bench` simulates one batch of them, `farm` says where batches are
computed (`jobqueue` where workers come from, `crew` what they have in hand, `tls` how they know each
other), `work` which batches wait, `store` keeps what they gave (`parts`, `manifest`, `lock`), and `run`
drives the whole.
"""

from procure.study import Plan, load_plan
from procure.sweep.protocol import FarmOptions
from procure.sweep.run import SweepSummary, run_sweep
from procure.sweep.store import read_results

__all__ = ["FarmOptions", "Plan", "SweepSummary", "load_plan", "read_results", "run_sweep"]
