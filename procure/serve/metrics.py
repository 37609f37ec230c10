"""What Prometheus reads: the one door to its client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from procure.serve.live import Live

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_RECORD = ("coverage_50", "coverage_90", "mae", "mae_week_median", "mae_last_five", "brier_4h", "brier_base_4h")
"""Of `ledger.record`, of the last 28 days."""


class Metrics:
    """Counters of requests, and the record."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.registry, name = CollectorRegistry(), "procure_queue_request"
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(f"{name}s", "Requests by handler and status.", ["handler", "status"], **own)
        self.seconds = Histogram(f"{name}_seconds", "Time to answer.", ["handler"], buckets=_BUCKETS, **own)

    def count(self, handler: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(handler, str(status)).inc()
        self.seconds.labels(handler).observe(seconds)

    def text(self, honesty: dict[str, Any], live: Live) -> bytes:
        """Return everything as text; ``partition=""`` is all of them."""
        registry = CollectorRegistry()

        def gauge(name: str, text: str, values: Mapping[str, float | None], label: str = "") -> None:
            made = Gauge(f"procure_queue_{name}", text, [label] if label else [], registry=registry)
            for key, value in values.items():
                if value is not None:
                    (made.labels(key[:100]) if label else made).set(value)

        gauge("state_age_seconds", "Seconds since the queue was seen.", {"": live.state_age()})
        gauge("ready", "1 if questions can be answered.", {"": live.snapshot is not None})
        gauge("model_rows", "Jobs that the boosters learnt from.", {"": live.facts.get("trained_rows") or 0})
        states = {state: sum(one[state] for one in live.totals) for state in ("waiting", "running")}
        gauge("jobs", "Jobs by state.", states, "state")
        rows = {"": honesty["all"] or {}} | {str(row["partition"]): row for row in honesty["by_partition"]}
        names = {"n": "judged_jobs"} | {key: f"{key}_seconds" if key[:3] == "mae" else key for key in _RECORD}
        for key, name in names.items():
            gauge(name, f"{key} of 28 days.", {part: row.get(key) for part, row in rows.items()}, "partition")
        return generate_latest(self.registry) + generate_latest(registry)
