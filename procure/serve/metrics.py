"""What Prometheus reads: the one door to its client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from procure.serve.live import Live

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_GAUGES = {
    "state_age_seconds": "Seconds since the queue was seen.",
    "ready": "1 if questions can be answered.",
    "model_rows": "Jobs that the boosters learnt from.",
}
_RECORD = {
    "n": ("judged_jobs", "Jobs of the last 28 days whose forecast was judged."),
    "coverage_50": ("coverage_50", "Share of them that started within the 50 % interval."),
    "coverage_90": ("coverage_90", "Share of them that started within the 90 % interval."),
    "mae": ("mae_seconds", "Mean absolute error of the median."),
    "mae_week_median": ("mae_week_median_seconds", "The same of the partition's median of the week."),
    "mae_last_five": ("mae_last_five_seconds", "The same of the partition's last five waits."),
    "brier_4h": ("brier_4h", "Brier score of the chance of a start within 4 hours."),
    "brier_base_4h": ("brier_base_4h", "The same of the share that started within 4 hours."),
}


class Metrics:
    """Counters of requests, and the record."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.registry, name = CollectorRegistry(), "procure_queue_"
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter(f"{name}requests", "Requests by handler and status.", ["handler", "status"], **own)
        self.seconds = Histogram(f"{name}request_seconds", "Time to answer.", ["handler"], buckets=_BUCKETS, **own)
        self.jobs = Gauge(f"{name}jobs", "Jobs by state.", ["state"], **own)
        self.gauges = {key: Gauge(f"{name}{key}", text, **own) for key, text in _GAUGES.items()}
        self.record = {
            key: Gauge(f"{name}{short}", text, ["partition"], **own) for key, (short, text) in _RECORD.items()
        }

    def count(self, handler: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(handler, str(status)).inc()
        self.seconds.labels(handler).observe(seconds)

    def text(self, honesty: dict[str, Any], live: Live) -> bytes:
        """Return everything as text; ``partition=""`` is all of them."""
        now = (live.state_age(), live.snapshot is not None, live.facts.get("trained_rows") or 0)
        for gauge, value in zip(self.gauges.values(), now, strict=True):
            gauge.set(value)
        for state in ("waiting", "running"):
            self.jobs.labels(state).set(sum(one[state] for one in live.totals))
        rows = [{"partition": ""} | (honesty["all"] or {}), *honesty["by_partition"]]
        for key, gauge in self.record.items():
            gauge.clear()
            for row in rows:
                if row.get(key) is not None:
                    gauge.labels(str(row["partition"])[:100]).set(row[key])
        return generate_latest(self.registry)
