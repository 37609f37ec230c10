"""The figures of docs/claims/queue-time.md that are not a row of `procure queue evaluate`.

python benchmarks/queue_time_claims.py features          processor seconds and memory for a million jobs
python benchmarks/queue_time_claims.py latency LOG       processor time of training and of a question, size
python benchmarks/queue_time_claims.py adapt LOG         against each expert and baseline
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

from procure.queue_time import answer as answers
from procure.queue_time import evaluation, predict, store
from procure.queue_time.booster import fit_plain
from procure.queue_time.distribution import Distribution, quantiles_at
from procure.queue_time.evaluation import Evaluation, evaluate
from procure.queue_time.features import site_features
from procure.queue_time.log import bursts, queue_jobs, wait_times
from procure.queue_time.mixture import NAMES
from procure.queue_time.model import Settings
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
    jobs = busy_year(1_000_000)
    began = time.process_time()
    table = site_features(jobs)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"n_jobs": len(jobs), "n_features": table.shape[1], "seconds": seconds, "peak_gb": peak}


def latency(arguments: argparse.Namespace) -> dict[str, object]:
    """Size and loading of a model file; processor time of training, of five plain boosters, and of a question."""
    jobs = queue_jobs(_log(arguments))
    began = time.process_time()
    site = store.train(jobs)
    training_s = time.process_time() - began
    table, wait = site_features(jobs), wait_times(jobs)
    known = ~np.isnan(wait)
    began = time.process_time()
    fit_plain(table.to_numpy()[known], wait[known], 0, evaluation.LEVELS)
    plain_s = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "site.model"
        store.save(site, path)
        store.load(path)
        began = time.process_time()
        site = store.load(path)
        loading, size = time.process_time() - began, path.stat().st_size / 1e6
    request = predict.Request(16, 8 * 3600, user=str(site.history["user"].iloc[-1]))
    state = site.history.tail(400).copy()
    state["end_time"] = pd.array([pd.NA] * 400, dtype="Int64")
    state["start_time"] = state["start_time"].mask(np.arange(400) >= 200)
    answer = {"train_cpu_s": training_s, "five_plain_boosters_cpu_s": plain_s, "size_mb": size, "load_cpu_s": loading}
    for name, queue in (("answer_cpu_ms", None), ("answer_with_400_jobs_cpu_ms", state)):
        taken = []
        for _ in range(30):
            began = time.process_time()
            answers.predict_queue(site, request, queue, deadline=7200.0)
            taken.append(1000 * (time.process_time() - began))
        answer[name] = float(np.median(taken))
    return answer  # type: ignore[return-value]


RIVALS = ("procure", "rival", "kmeans-gbt")


def adapt(arguments: argparse.Namespace) -> dict[str, object]:
    """How far the mixture is from the best single expert or baseline."""
    given = {name: getattr(arguments, name) for name in ("seed",) if getattr(arguments, name) is not None}
    chosen = Settings(**given) if given else None
    found = evaluate(_log(arguments), ["chronological"], RIVALS, k=57, settings=chosen, progress=_say)
    return judge_adaptation(found, "chronological")


def curves_of(found: Evaluation, split: str) -> dict[str, np.ndarray]:
    """Return the quantiles (n, 5) that we, every expert and every baseline state of the judged jobs, s, by name."""
    rows, _ = found.forecasts[split, "procure"]
    asked, stated = found.stated[split]
    at = np.searchsorted(asked, rows)
    curves = {
        name: quantiles_at(np.expm1(stated.experts[at, k].astype(float)), evaluation.LEVELS)
        for k, name in enumerate(NAMES)
    }
    for (part, name), (_, one) in found.forecasts.items():
        if part == split:  # a baseline without a spread may have the name of an expert that has one
            known = np.repeat(one.point[:, None], 5, 1) if one.quantiles is None else one.quantiles
            curves[f"{name} alone" if name in NAMES else name] = known
    return curves


def judge_adaptation(found: Evaluation, split: str) -> dict[str, object]:
    """Compare our forecast with every expert's and baseline's; what intervals hold, by job and by burst."""
    rows, said = found.forecasts[split, "procure"]
    asked, stated = found.stated[split]
    wait, at = found.wait[rows], np.searchsorted(asked, rows)
    curves = curves_of(found, split)
    losses = {name: _pinballs(wait, curve) for name, curve in curves.items()}
    errors = {name: np.abs(curve[:, 2] - wait) for name, curve in curves.items()}
    burst = bursts(found.jobs)[rows]
    answer: dict[str, object] = {"n": len(rows), "bursts": len(np.unique(burst))}
    for label, each in (("mae", errors), ("pinball", losses)):
        ours = each.pop("procure")
        for name in (*RIVALS[1:], "recent"):
            if name in each:
                answer[f"{label}_over_{name}"] = float(ours.mean() / each[name].mean())
        whole = _held_against(each, ours, burst)
        answer |= {label: ours.mean()} | {f"{label}_{key}": value for key, value in whole.items()}
    inside = evaluation.covered(wait, said.interval)
    answer |= {"coverage": inside.mean(), "coverage_by_burst": evaluation.by_burst(inside, burst).mean()}
    return answer | _true_coverage(Distribution(stated.curve[at]), burst)


def _held_against(each: dict[str, np.ndarray], ours: np.ndarray, burst: np.ndarray) -> dict[str, object]:
    """Hold our mean loss against the best of all others, known only afterwards, and say what half of the rows tell.

    ``hindsight`` is the loss of the one that was best on the odd bursts, judged on the even ones, and the other way
    round, over that of the best there.
    """
    losses = pd.DataFrame(each)
    halves = losses.groupby(pd.factorize(burst)[0] % 2).sum().to_numpy()
    picked = halves[::-1].argmin(axis=1) if len(halves) == 2 else [0]
    best = losses.mean().idxmin()
    hindsight = halves[np.arange(len(halves)), picked].sum() / halves.min(axis=1).sum()
    return {"best": best, "ratio": ours.mean() / losses[best].mean(), "hindsight": hindsight}


def _true_coverage(said: Distribution, burst: np.ndarray, draws: int = 400) -> dict[str, float]:
    """Return the share that intervals hold, ends rounded outward, if what is stated is true.

    ``coverage_stated`` is its mean, ``coverage_luck_low`` and ``coverage_luck_high`` the ends of what 95 of 100 draws
    hold by job where each burst has one fate.
    """
    low, high = said.interval().T
    below = np.where(low < 1, 0.0, said.chance(np.floor(low) - 1e-6))
    holds = said.chance(np.ceil(high)) - below
    _, number = np.unique(burst, return_inverse=True)
    rng = np.random.default_rng(0)
    held = [(rng.random(number.max() + 1)[number] < holds).mean() for _ in range(draws)]
    ends = np.quantile(held, [0.025, 0.975])
    return {"coverage_stated": holds.mean(), "coverage_luck_low": ends[0], "coverage_luck_high": ends[1]}


def _pinballs(wait: np.ndarray, curve: np.ndarray) -> np.ndarray:
    over = wait[:, None] - curve
    return np.maximum(evaluation.LEVELS * over, (evaluation.LEVELS - 1) * over).mean(axis=1)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _log(arguments: argparse.Namespace) -> pd.DataFrame:
    return import_log(arguments.log, preset=arguments.preset, shape="as-logged").jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = {"features": features, "latency": latency, "adapt": adapt}
    parser.add_argument("what", choices=names)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--preset")
    parser.add_argument("--seed", type=int, help="of the boosters, for adapt; by default 0")
    arguments = parser.parse_args()
    if arguments.what != "features" and arguments.log is None:
        parser.error(f"{arguments.what} needs a log")
    print(json.dumps(names[arguments.what](arguments), indent=2, default=float))


if __name__ == "__main__":
    main()
