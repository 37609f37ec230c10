"""Workloads: logs in, job tables out; describe, slice, merge, generate, scale run times."""

from procure.workload.importing import FORMATS, import_log
from procure.workload.ledger import Imported

__all__ = ["FORMATS", "Imported", "import_log"]
