"""What Prometheus reads: the one door to its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from procure.serve.live import Live

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_RECORD = {
    "n": ("procure_queue_judged_jobs", "Jobs of the last 28 days whose forecast was judged."),
    "coverage_50": ("procure_queue_coverage_50", "Share of them that started within the 50 % interval."),
    "coverage_90": ("procure_queue_coverage_90", "Share of them that started within the 90 % interval."),
    "mae": ("procure_queue_mae_seconds", "Mean absolute error of the median."),
    "mae_week_median": ("procure_queue_mae_week_median_seconds", "The same of the partition's median of the week."),
    "mae_last_five": (
        "procure_queue_mae_last_five_seconds",
        "The same of the partition's last five waits.",
    ),
    "brier_4h": ("procure_queue_brier_4h", "Brier score of the chance of a start within 4 hours."),
    "brier_base_4h": ("procure_queue_brier_base_4h", "The same of the share that started within 4 hours."),
}


class Metrics:
    """Counters of requests, and the record."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "procure_queue_requests", "Requests by handler and status.", ["handler", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "procure_queue_request_seconds", "Time to answer.", ["handler"], registry=self.registry, buckets=_BUCKETS
        )
        self.age = Gauge("procure_queue_state_age_seconds", "Seconds since the queue was seen.", registry=self.registry)
        self.ready = Gauge("procure_queue_ready", "1 if questions can be answered.", registry=self.registry)
        self.trained = Gauge("procure_queue_model_rows", "Jobs that the boosters learnt from.", registry=self.registry)
        self.open = Gauge("procure_queue_jobs", "Jobs by state.", ["state"], registry=self.registry)
        self.record = {
            key: Gauge(name, text, ["partition"], registry=self.registry) for key, (name, text) in _RECORD.items()
        }

    def count(self, handler: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(handler, str(status)).inc()
        self.seconds.labels(handler).observe(seconds)

    def text(self, honesty: dict[str, Any], live: Live) -> bytes:
        """Return everything as text; ``partition=""`` is all of them."""
        self.age.set(live.state_age())
        self.ready.set(live.snapshot is not None)
        self.trained.set(live.facts.get("trained_rows") or 0)
        for state in ("waiting", "running"):
            self.open.labels(state).set(sum(one[state] for one in live.totals))
        rows = [{"partition": ""} | (honesty["all"] or {}), *honesty["by_partition"]]
        for key, gauge in self.record.items():
            gauge.clear()
            for row in rows:
                if row.get(key) is not None:
                    gauge.labels(str(row["partition"])[:100]).set(row[key])
        return generate_latest(self.registry)
