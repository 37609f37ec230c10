"""Workloads: logs in, job tables out; describe, slice, merge, choose days, generate, scale load and run times."""

from procure.workload.describe import describe, overview
from procure.workload.generate import generate, load_recipe
from procure.workload.importing import import_log, read_log
from procure.workload.ledger import Imported
from procure.workload.load import scale_load
from procure.workload.log_settings import LogSettings
from procure.workload.parts import day_table, merge, slice_day, slice_times, split_days
from procure.workload.speed import scale_run_time

__all__ = [
    "Imported",
    "LogSettings",
    "day_table",
    "describe",
    "generate",
    "import_log",
    "load_recipe",
    "merge",
    "overview",
    "read_log",
    "scale_load",
    "scale_run_time",
    "slice_day",
    "slice_times",
    "split_days",
]
