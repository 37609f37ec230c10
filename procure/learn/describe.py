"""A trained policy in words and numbers."""

from __future__ import annotations

from typing import Any

from procure.learn.features import FEATURES
from procure.learn.scores import PLACES
from procure.learn.store import TrainedPolicy

MEANINGS = {
    "run_time": "expected run time, from jobs of the class that ended or run, and from the history",
    "requested": "requested time",
    "share": "share of the system's dominant resource",
    "scarcity": "share of the nodes that could never hold it",
    "age": "wait of the first job of its class",
    "n_alike": "jobs of its class that wait",
    "known": "jobs of its class that have ended",
    "margin": "share of its node that stays free",
    "queue_run_time": "expected run time × length of the queue",
    "queue_share": "share × length of the queue",
    "free_run_time": "expected run time × free share of the system",
    "free_share": "share × free share of the system",
    "recent": "run times of its class, else its user, the last counting most, as a mean of logarithms",
    "short": "the same as a harmonic mean: low where many end within seconds",
    "of_user": "jobs of its user that wait",
}
"""What each feature is; the lowest score starts first, so a positive weight makes such a job wait."""
PLACE_MEANINGS = {
    "margin": "share of the asked-for resources that stays free",
    "gpus_not_asked": "the node has GPUs that the job does not ask for",
    "imbalance": "|free share of CPUs − free share of memory| afterwards",
    "empty": "the node is empty",
}
"""What each cost of a node is; the cheapest node is taken."""


def described(policy: TrainedPolicy) -> dict[str, Any]:
    """Return what a policy looks at with its weights, and what is known of its training, as plain values."""
    rows = []
    if policy.method == "search":
        for name, weight in zip(FEATURES, policy.arrays["weights"].tolist(), strict=True):
            rows.append({"of": "job", "what": name, "weight": weight, "meaning": MEANINGS[name]})
        for name, weight in zip(PLACES, policy.arrays["places"].tolist(), strict=True):
            rows.append({"of": "node", "what": name, "weight": weight, "meaning": PLACE_MEANINGS[name]})
        trust = float(policy.arrays["trust"][0])
        meaning = "jobs that have ended for which the history counts"
        rows.append({"of": "history", "what": "trust", "weight": trust, "meaning": meaning})
    else:
        for name, array in policy.arrays.items():
            meaning = f"{' × '.join(map(str, array.shape))}, root mean square"
            rows.append({"of": "network", "what": name, "weight": float((array**2).mean() ** 0.5), "meaning": meaning})
    trained = {key: value for key, value in policy.trained.items() if key not in ("days", "curve")}
    days = policy.trained.get("days", [])
    if days:
        unit = "week" if trained.get("inside") == "easy" else "day"
        trained |= {f"n_{unit}s": len(days), f"first_{unit}": days[0], f"last_{unit}": days[-1]}
    n_hidden = len(policy.arrays.get("hidden", ()))
    return {
        "method": policy.method,
        "weights": rows,
        "n_hidden": n_hidden,
        "trained": trained,
        "days": list(days),
        "curve": list(policy.trained.get("curve", [])),
        "judged": dict(policy.judged),
    }
