"""Repeat the figures of docs/claims/queue-time.md that are not a row of `procure queue evaluate`.

python benchmarks/queue_time_claims.py features               seconds and memory for 730,000 jobs
python benchmarks/queue_time_claims.py pipeline LOG.swf       the published pipeline, 200,000 jobs, k = 57
python benchmarks/queue_time_claims.py latency LOG.swf        size, loading and predicting
python benchmarks/queue_time_claims.py intervals LOG.swf --last N     monthly coverage, width, calibration
python benchmarks/queue_time_claims.py trend LOG.swf --last N
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from procure.queue_time import metrics, predict, store, training, trend
from procure.queue_time.calibrate import quantiles_at
from procure.queue_time.evaluation import coverage_by, evaluate, queue_jobs
from procure.queue_time.features import site_features
from procure.queue_time.log import wait_times
from procure.queue_time.model import Settings
from procure.queue_time.published import Published
from procure.schemas import JOB
from procure.tables import check
from procure.workload import import_log


def busy_year(n: int) -> pd.DataFrame:
    """Make n jobs of 500 users over a year, with waits and array-like bursts."""
    rng = np.random.default_rng(0)
    submit = np.sort(rng.integers(0, 365 * 86400, n) // 97 * 97) + 1_514_764_800
    wait = (rng.lognormal(5, 3, n) * (rng.random(n) < 0.6)).clip(0, 2e6).astype(int)
    run = rng.lognormal(7, 2, n).clip(1, 5e5).astype(int)
    frame = {
        "job_id": np.arange(n).astype(str), "user": rng.integers(0, 500, n).astype(str), "submit_time": submit,
        "requested_time": rng.choice([3600, 14400, 86400, 604800], n), "run_time": run,
        "cpus_per_node": rng.choice([1, 4, 16, 64], n), "mem_mb_per_node": rng.choice([4000, 64000], n),
        "partition": rng.choice(list("abcde"), n), "start_time": submit + wait, "end_time": submit + wait + run,
    }  # fmt: skip
    return check(pd.DataFrame(frame), JOB)


def features(arguments: argparse.Namespace) -> dict[str, object]:
    jobs = busy_year(730_000)
    began = time.perf_counter()
    table = site_features(jobs)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"n_jobs": len(jobs), "n_features": table.shape[1], "seconds": seconds, "peak_gb": peak}


def pipeline(arguments: argparse.Namespace) -> dict[str, object]:
    jobs = _log(arguments).tail(200_000).reset_index(drop=True)
    began = time.perf_counter()
    table, wait = site_features(jobs), wait_times(jobs)
    rows = np.flatnonzero(~np.isnan(wait))
    test = np.random.default_rng(2).random(len(rows)) < 0.2
    model = Published(57).fit(table.iloc[rows[~test]], wait[rows[~test]])
    said = model.predict(table.iloc[rows[test]])
    matrix = metrics.confusion(wait[rows[test]], said, float(wait[rows[~test]].mean()))
    return {
        "n_jobs": len(jobs),
        "seconds": time.perf_counter() - began,
        "n_models": len(model.boosters),
    } | matrix


def latency(arguments: argparse.Namespace) -> dict[str, object]:
    site = training.train(_log(arguments), settings=Settings(holdout=0.15))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.model"
        store.save(site, path)
        store.load(path)
        began = time.perf_counter()
        site = store.load(path)
        loading, size = time.perf_counter() - began, path.stat().st_size / 1e6
    request = predict.Request(1, 3600, user=str(site.history["user"].iloc[-1]))
    taken = {"features_ms": [], "predict_ms": []}  # type: dict[str, list[float]]
    for _ in range(30):
        began = time.perf_counter()
        row = predict.current_features(site, request)
        taken["features_ms"].append(1000 * (time.perf_counter() - began))
        began = time.perf_counter()
        predict.forecast(site, row, 3600.0)
        taken["predict_ms"].append(1000 * (time.perf_counter() - began))
    return {"size_mb": size, "load_seconds": loading} | {
        name: float(np.median(v)) for name, v in taken.items()
    }


def intervals(arguments: argparse.Namespace) -> dict[str, object]:
    """Coverage and width on rolling origins, against the same model brought there by a constant factor."""
    found = evaluate(_log(arguments), ["rolling"], ["procure"], last=arguments.last, progress=_say)
    rows, forecast = found.forecasts["rolling", "procure"]
    wait, quantiles = found.wait[rows], forecast.quantiles
    assert quantiles is not None and forecast.chances is not None and forecast.curve is not None
    held = metrics.covered(wait, quantiles)
    months = coverage_by(found.jobs, rows, held, "M")
    factor, constant = _constant_factor(wait, forecast.curve, float(held.mean()))
    answer: dict[str, object] = {
        "coverage": float(held.mean()), "worst_month": float(months["coverage"].min()), "months": len(months),
        "median_width": float(np.median(quantiles[:, 4] - quantiles[:, 0])), "constant_factor": factor,
        "median_width_constant_factor": float(np.median(constant[:, 1] - constant[:, 0])),
        "by_month": months.to_dict(orient="records"),
    }  # fmt: skip
    for hours in (1, 4, 12):
        chance = forecast.chances[hours * 3600.0]
        bins = metrics.calibration_bins(chance, wait <= hours * 3600)
        answer[f"worst_gap_points_{hours}h"] = float(bins[bins["share"] > 0.01]["gap"].abs().max())
        base = float((found.wait[found.splits["rolling"][0].train] <= hours * 3600).mean())
        did = wait <= hours * 3600
        answer[f"brier_gain_{hours}h"] = 1 - metrics.brier(chance, did) / metrics.brier(
            np.full(len(did), base), did
        )
    return answer


def _constant_factor(wait: np.ndarray, curve: np.ndarray, coverage: float) -> tuple[float, np.ndarray]:
    """Widen the uncorrected interval about its median by one factor until it covers as much."""
    five_ = quantiles_at(curve, metrics.LEVELS)
    low, middle, high = five_[:, 0], five_[:, 2], five_[:, 4]
    for factor in np.geomspace(0.05, 200, 400):
        ends = np.column_stack(
            [np.maximum(middle - factor * (middle - low), 0), middle + factor * (high - middle)]
        )
        if ((wait >= np.floor(ends[:, 0])) & (wait <= np.ceil(ends[:, 1]))).mean() >= coverage:
            return float(factor), ends
    return float("inf"), np.column_stack([np.zeros(len(wait)), np.full(len(wait), np.inf)])


def trend_(arguments: argparse.Namespace) -> dict[str, object]:
    jobs = queue_jobs(_log(arguments))
    return {"rows": trend.judge_trend(jobs).to_dict(orient="records")}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _log(arguments: argparse.Namespace) -> pd.DataFrame:
    return import_log(arguments.log, format="swf", preset=arguments.preset).jobs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = {
        "features": features,
        "pipeline": pipeline,
        "latency": latency,
        "intervals": intervals,
        "trend": trend_,
    }
    parser.add_argument("what", choices=names)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--last", type=int)
    parser.add_argument("--preset")
    arguments = parser.parse_args()
    if arguments.what != "features" and arguments.log is None:
        parser.error(f"{arguments.what} needs a log")
    print(json.dumps(names[arguments.what](arguments), indent=2, default=float))


if __name__ == "__main__":
    main()
