"""Dask's scheduler and worker without the HTTP server that each of them opens even where no dashboard is wanted."""

from __future__ import annotations

from typing import Any

import distributed


class Scheduler(distributed.Scheduler):
    """A scheduler that listens on the port of its own protocol alone."""

    def start_http_server(self, *arguments: Any, **keywords: Any) -> None:
        """Open none."""


class Worker(distributed.Worker):
    """A worker that listens on the port of its own protocol alone."""

    def start_http_server(self, *arguments: Any, **keywords: Any) -> None:
        """Open none."""
