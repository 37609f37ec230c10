"""What this room offers the recommendation: why the jobs of a log waited, and on which nodes they ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from procure.account.account import HARDWARE, account_waits
from procure.account.layout import started_jobs
from procure.account.nodes import inferred_nodes, nodes_of
from procure.account.sweep import CAUSES
from procure.site.store import read_site


class LogAccount:
    """The account of a log as plain arrays."""

    causes: tuple[str, ...] = tuple(CAUSES)
    cuttable: tuple[str, ...] = HARDWARE
    """Causes that more nodes can cut."""

    def seconds(self, jobs: pd.DataFrame, nodes: pd.DataFrame, site: str | Path | None = None) -> np.ndarray:
        """Return the seconds of each cause of each job, int64[n_jobs, n_causes], 0 where a job did not start.

        ``site`` is the folder of a site whose rules are known.
        """
        rows = jobs.reset_index(drop=True)
        started = rows[rows["start_time"].notna()].sort_values("submit_time", kind="stable")
        found = np.zeros((len(rows), len(CAUSES)), np.int64)
        rules = None if site is None else read_site(site).rules
        found[started.index.to_numpy()] = account_waits(rows, nodes, rules).by_job
        return found

    def nodes(self, jobs: pd.DataFrame) -> pd.DataFrame | None:
        """Return the nodes that a log names, each as large as what ran on it at once; None where it does not say."""
        log = started_jobs(jobs)
        given = nodes_of(log)
        return None if given is None else inferred_nodes(log, given)


LOG = LogAccount()
