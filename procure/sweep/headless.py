"""Dask's scheduler and worker without an HTTP server, with a folder of their own for locks and spill.

``python -m procure.sweep.headless scheduler|worker`` takes the options of ``dask scheduler`` and ``dask worker``;
``--dashboard`` lets the scheduler show its pages on loopback.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import dask
import distributed

from procure.errors import TableError
from procure.sweep.scratch import scratch_folder

DASHBOARD = "127.0.0.1:0"
"""Where a dashboard listens: on loopback, at a port that is free."""


class Scheduler(distributed.Scheduler):
    """A scheduler that listens on the port of its own protocol alone."""

    def start_http_server(self, *arguments: Any, **keywords: Any) -> None:
        """Open none."""


class Worker(distributed.Worker):
    """A worker that listens on the port of its own protocol alone."""

    def start_http_server(self, *arguments: Any, **keywords: Any) -> None:
        """Open none."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do as ``dask scheduler`` or ``dask worker`` does, and remove the folder for temporary files at the end."""
    parser = argparse.ArgumentParser("procure.sweep.headless", allow_abbrev=False)
    parser.add_argument("role", choices=("scheduler", "worker"))
    parser.add_argument("--local-directory", help="below which temporary files are put; default: TMPDIR")
    parser.add_argument("--dashboard", action="store_true", help="of a scheduler: on loopback")
    known, rest = parser.parse_known_args(arguments)
    base = known.local_directory or dask.config.get("temporary-directory", None)
    try:
        with scratch_folder(base) as folder, dask.config.set({"temporary-directory": str(folder)}):
            if known.role == "worker":
                from distributed.cli.dask_worker import main as start

                rest += ["--no-dashboard", "--worker-class", "procure.sweep.headless.Worker"]
            else:
                from distributed.cli import dask_scheduler

                start = dask_scheduler.main
                if known.dashboard:
                    rest += ["--dashboard-address", DASHBOARD]
                else:
                    dask_scheduler.Scheduler = Scheduler  # type: ignore[misc]  # its command has no option for this
                    rest += ["--no-dashboard"]
            start(rest, prog_name=f"{parser.prog} {known.role}")
    except TableError as error:
        sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
