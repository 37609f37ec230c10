"""Slow twins of the forecast room: the same answers, in the plainest way."""

from __future__ import annotations

import math

DAY = 86_400
PERIODS = (DAY, 7 * DAY, 30 * DAY)


def bursts_of(jobs, gap, tolerance):
    """Find bursts and what each continues, by looking at all pairs; ``jobs`` are (key, submit) in order."""
    bursts, of_job = [], []
    for key, submit in jobs:
        own = [n for n, burst in enumerate(bursts) if burst["key"] == key]
        if own and submit - bursts[own[-1]]["last"] < gap:
            bursts[own[-1]]["last"] = submit
            bursts[own[-1]]["n_jobs"] += 1
            of_job.append(own[-1])
        else:
            bursts.append({"key": key, "start": submit, "last": submit, "n_jobs": 1})
            of_job.append(len(bursts) - 1)
    for n, burst in enumerate(bursts):
        like = [m for m in range(n) if bursts[m]["key"] == burst["key"]]
        burst["before"], burst["length"], burst["root"], burst["again"] = [], [], [], []
        for layer, period in enumerate(PERIODS):
            away = {m: abs(burst["start"] - period - bursts[m]["start"]) for m in like}
            near = [m for m in like if away[m] <= tolerance[layer]]
            best = min(near, key=lambda m: (away[m], -m)) if near else -1
            burst["before"].append(best)
            burst["length"].append(1 if best < 0 else bursts[best]["length"][layer] + 1)
            below = [burst["before"][k] for k in range(layer, -1, -1) if burst["before"][k] >= 0]
            burst["root"].append(bursts[below[0]]["root"][layer] if below else n)
    for n, burst in enumerate(bursts):
        for layer, period in enumerate(PERIODS):
            later = [
                other["start"]
                for other in bursts[n + 1 :]
                if other["key"] == burst["key"]
                and abs(other["start"] - period - burst["start"]) <= tolerance[layer]
            ]
            burst["again"].append(later[0] if later else -1)
    return bursts, of_job


def hazard_of(forecasts, n):
    """The hazard of the n-th forecast; each is a dict of ``issued known came length user``."""
    now = forecasts[n]["issued"]
    seen = [f for f in forecasts if f["known"] <= now]

    def share(chosen, prior, weight):
        return (sum(f["came"] for f in chosen) + weight * prior) / (len(chosen) + weight)

    def odds(p):
        return math.log(p / (1 - p))

    overall = share(seen, 0.2, 5)
    length = min(forecasts[n]["length"], 20)
    of_length = share([f for f in seen if min(f["length"], 20) == length], overall, 2)
    of_user = share([f for f in seen if f["user"] == forecasts[n]["user"]], overall, 4)
    x = odds(of_length) + odds(of_user) - odds(overall)
    return 1 / (1 + math.exp(-x))
