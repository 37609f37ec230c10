"""Repeat the figures of docs/claims/queue-time.md that are not a row of `procure queue evaluate`.

python benchmarks/queue_time_claims.py features               processor seconds and memory for a million jobs
python benchmarks/queue_time_claims.py pipeline LOG.swf       the published pipeline, 200,000 jobs, k = 57
python benchmarks/queue_time_claims.py latency LOG.swf        processor time of training and of a question, size
python benchmarks/queue_time_claims.py intervals LOG.swf --last N     monthly coverage, width, calibration
python benchmarks/queue_time_claims.py adapt LOG --split rolling      against each expert and baseline, by month
python benchmarks/queue_time_claims.py cadence LOG --last N           what training again is worth, and costs
python benchmarks/queue_time_claims.py trend LOG.swf --last N
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from procure.queue_time import answer as answers
from procure.queue_time import evaluation, metrics, predict, store, training, trend
from procure.queue_time.booster import fit_plain
from procure.queue_time.calibrate import five
from procure.queue_time.distribution import Distribution
from procure.queue_time.evaluation import Evaluation, coverage_by, evaluate, queue_jobs
from procure.queue_time.experts import NAMES
from procure.queue_time.features import site_features
from procure.queue_time.log import Outcomes, wait_times
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.published import Published
from procure.queue_time.splits import Split, bursts
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
    """Size and loading of a model file; processor time of training, of five plain boosters, and of a question."""
    jobs = queue_jobs(_log(arguments))
    began = time.process_time()
    site = training.train(jobs)
    training_s = time.process_time() - began
    table, wait = site_features(jobs), wait_times(jobs)
    known = ~np.isnan(wait)
    began = time.process_time()
    fit_plain(table.to_numpy()[known], wait[known], 0, metrics.LEVELS)
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
            answers.answer(site, request, queue, deadline=7200.0)
            taken.append(1000 * (time.process_time() - began))
        answer[name] = float(np.median(taken))
    return answer  # type: ignore[return-value]


def intervals(arguments: argparse.Namespace) -> dict[str, object]:
    """Coverage and width on rolling origins, against the same model brought there by a constant factor."""
    found = evaluate(_log(arguments), ["rolling"], ["procure"], last=arguments.last, progress=_say)
    rows, forecast = found.forecasts["rolling", "procure"]
    wait, ends = found.wait[rows], forecast.interval
    assert ends is not None and forecast.chances is not None and forecast.curve is not None
    held = metrics.covered(wait, ends)
    months = coverage_by(found.jobs, rows, held, "M")
    factor, constant = _constant_factor(wait, forecast.curve, float(held.mean()))
    answer: dict[str, object] = {
        "coverage": float(held.mean()), "worst_month": float(months["coverage"].min()), "months": len(months),
        "median_width": float(np.median(ends[:, 1] - ends[:, 0])), "constant_factor": factor,
        "median_width_constant_factor": float(np.median(constant[:, 1] - constant[:, 0])),
        "by_month": months.to_dict(orient="records"),
    }  # fmt: skip
    for hours in (1, 4, 12):
        chance = forecast.chances[hours * 3600.0]
        bins = metrics.calibration_bins(chance, wait <= hours * 3600)
        answer[f"worst_gap_points_{hours}h"] = float(bins[bins["share"] > 0.01]["gap"].abs().max())
        base = float((found.wait[found.splits["rolling"][0].train] <= hours * 3600).mean())
        did = wait <= hours * 3600
        answer[f"brier_gain_{hours}h"] = 1 - metrics.brier(chance, did) / metrics.brier(np.full(len(did), base), did)
    return answer


FeaturesAt = Callable[[np.ndarray], pd.DataFrame]
RIVALS = ("procure", "lightgbm-like", "kmeans-gbt")


class Kept(QueueTimeModel):
    """A model whose boosters' forecasts are kept in a file, so that the mixture can be run on them again in seconds."""

    said: ClassVar[list[dict[str, np.ndarray]]] = []
    told: ClassVar[list[dict[str, np.ndarray]]] = []

    def boost(self, features: pd.DataFrame, wait: np.ndarray) -> None:
        """Fit them, unless what they said is kept."""
        if not self.told:
            super().boost(features, wait)

    def experts_in_time(
        self, features_at: FeaturesAt, outcomes: Outcomes, asked: np.ndarray, since: float = 0.0, every: float = 0.0
    ) -> np.ndarray:
        """Return what they said, in the order in which they were asked."""
        ask = super().experts_in_time
        return self.keep(len(asked), lambda: {"raw": ask(features_at, outcomes, asked, since, every)})["raw"]

    @classmethod
    def keep(cls, n: int, ask: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """Return what is kept of the next question, of n rows, or ask it."""
        known = cls.told[len(cls.said)] if cls.told else ask()
        if any(len(values) != n for values in known.values()):
            raise SystemExit("the file of kept forecasts is of another log, split or settings")
        cls.said.append({name: values.astype(np.float32) for name, values in known.items()})
        return cls.said[-1]


@contextmanager
def kept_in(path: Path | None, settings: Settings | None = None) -> Iterator[None]:
    """Keep what the boosters say in this file, or take it from there if these settings and this code made it."""
    if path is None:
        yield
        return
    Kept.said.clear()
    Kept.told.clear()
    made_by = _made_by(settings)
    if path.exists():
        with np.load(path) as file:
            if "made_by" not in file.files or file["made_by"].item() != made_by:
                raise SystemExit(f"{path}: other settings or other code made these kept forecasts; name a new file")
            keys = [key for key in file.files if key != "made_by"]
            Kept.told.extend({} for _ in range(1 + max(int(key.split("/")[0]) for key in keys)))
            for key in keys:
                number, name = key.split("/")
                Kept.told[int(number)][name] = file[key]
    plain = evaluation._plain

    def kept_plain(found: Evaluation, group: list[Split], seed: int, levels: np.ndarray) -> np.ndarray:
        n = sum(len(split.test) for split in group)
        return Kept.keep(n, lambda: {"plain": plain(found, group, seed, levels)})["plain"]

    evaluation.QueueTimeModel, evaluation._plain = Kept, kept_plain  # type: ignore[misc]
    yield
    evaluation.QueueTimeModel, evaluation._plain = QueueTimeModel, plain  # type: ignore[misc]
    if not path.exists():
        arrays = {f"{i}/{name}": values for i, one in enumerate(Kept.said) for name, values in one.items()}
        np.savez_compressed(path, made_by=np.array(made_by), **arrays)  # type: ignore[arg-type]


def _made_by(settings: Settings | None) -> str:
    """Return what the boosters' forecasts follow from beside the log: the settings, and a hash of the code."""
    names = ("booster", "events", "experts", "features", "forest", "log", "model", "published", "recent")
    text = "".join(Path(evaluation.__file__).with_name(f"{name}.py").read_text("utf-8") for name in names)
    return f"{settings} {hashlib.sha256(text.encode()).hexdigest()}"


def adapt(arguments: argparse.Namespace) -> dict[str, object]:
    """How far the mixture is from the best single expert or baseline, in all and in its worst month."""
    split = arguments.split
    given = {name: getattr(arguments, name) for name in ("members", "seed") if getattr(arguments, name) is not None}
    chosen = Settings(**given) if given else None
    jobs = _log(arguments)
    with kept_in(arguments.kept, chosen):
        found = evaluate(jobs, [split], RIVALS, k=57, last=arguments.last, settings=chosen, progress=_say)
    return judge_adaptation(found, split)


def curves_of(found: Evaluation, split: str) -> dict[str, np.ndarray]:
    """Return the quantiles (n, 5) that we, every expert and every baseline state of the judged jobs, s, by name."""
    rows, _ = found.forecasts[split, "procure"]
    asked, stated = found.stated[split]
    at = np.searchsorted(asked, rows)
    curves = {name: five(np.expm1(stated.experts[at, k].astype(float))) for k, name in enumerate(NAMES)}
    for (part, name), (_, one) in found.forecasts.items():
        if part == split:  # a baseline without a spread may have the name of an expert that has one
            known = np.repeat(one.point[:, None], 5, 1) if one.quantiles is None else one.quantiles
            curves[f"{name} alone" if name in NAMES else name] = known
    return curves


def simple_rules(found: Evaluation, split: str) -> dict[str, tuple[float, float]]:
    """Return MAE and pinball loss, over the best known afterwards, of us and of what anybody could have chosen before.

    ``median`` is the median of the boosters' quantiles, ``leader`` the expert that has lost least so far, each burst
    counting alike: of jobs that have started by now; before there are any, the one that the mixture weighs most.
    """
    rows, _ = found.forecasts[split, "procure"]
    asked, stated = found.stated[split]
    wait, at = found.wait[rows], np.searchsorted(asked, rows)
    curves = curves_of(found, split)
    ours = curves.pop("procure")
    each = {name: _losses(wait, curve) for name, curve in curves.items()}
    best = np.min([one.mean(axis=0) for one in each.values()], axis=0)
    places = [NAMES.index(name) for name in BOOSTERS]
    middle = np.median(stated.experts[at][:, places].astype(float), axis=1)
    rules = {"procure": _losses(wait, ours), "median": _losses(wait, five(np.expm1(middle)))}
    rules |= {f"always {name}": each[name] for name in (*BOOSTERS, *RIVALS[1:], "recent") if name in each}
    submit, burst = (
        found.jobs["submit_time"].to_numpy()[rows],
        np.unique(bursts(found.jobs)[rows], return_inverse=True)[1],
    )
    lost = np.stack([each[name] for name in NAMES], axis=1)
    rules["leader"] = _leader(lost, submit, wait, burst, int(stated.weights[at[0]].argmax()))
    return {name: tuple((one.mean(axis=0) / best).tolist()) for name, one in rules.items()}


BOOSTERS = ("together", "quantile", "chance", "hgb", "hgb_mean", "hgb_log", "again", "kmeans_gbt")


def _losses(wait: np.ndarray, curve: np.ndarray) -> np.ndarray:
    """Return absolute error and pinball loss, (n, 2), s."""
    return np.column_stack([np.abs(curve[:, 2] - wait), _pinballs(wait, curve)])


def _leader(lost: np.ndarray, submit: np.ndarray, wait: np.ndarray, burst: np.ndarray, first: int) -> np.ndarray:
    """Return the losses (n, 2) of following the leader among experts that lose (n, K, 2)."""
    total, count = np.zeros((burst.max() + 1, *lost.shape[1:])), np.zeros(burst.max() + 1)
    known, begins, found = np.argsort(submit + wait, kind="stable"), 0, np.empty((len(submit), 2))
    for job in range(len(submit)):
        while submit[known[begins]] + wait[known[begins]] < submit[job]:
            total[burst[known[begins]]] += lost[known[begins]]
            count[burst[known[begins]]] += 1
            begins += 1
        seen = count > 0
        mean = (total[seen] / count[seen, None, None]).mean(axis=0) if seen.any() else None
        picked = [first, first] if mean is None else mean.argmin(axis=0)
        found[job] = lost[job, picked, [0, 1]]
    return found


def judge_adaptation(found: Evaluation, split: str) -> dict[str, object]:
    """Compare our forecast with every expert's and baseline's, by month of submission; calibration by job and burst."""
    rows, said = found.forecasts[split, "procure"]
    asked, stated = found.stated[split]
    wait, at = found.wait[rows], np.searchsorted(asked, rows)
    month = pd.to_datetime(found.jobs["submit_time"].to_numpy()[rows], unit="s").to_period("M").astype(str)
    curves = curves_of(found, split)
    losses = {name: _pinballs(wait, curve) for name, curve in curves.items()}
    errors = {name: np.abs(curve[:, 2] - wait) for name, curve in curves.items()}
    burst = bursts(found.jobs)[rows]
    answer: dict[str, object] = {"n": len(rows)}
    for label, each in (("mae", errors), ("pinball", losses)):
        ours = each.pop("procure")
        whole = _held_against("all", each, ours, burst, np.ones(len(rows), bool))
        for name in (*RIVALS[1:], "recent"):
            if name in each:
                answer[f"{label}_over_{name}"] = float(ours.mean() / each[name].mean())
        answer |= {label: ours.mean(), f"best_{label}": whole["best"]}
        answer |= {f"{label}_{key}": whole[key] for key in ("ratio", "hindsight")}
        months = [_held_against(one, each, ours, burst, month == one) for one in np.unique(month)]
        large = [one for one in months if one["n"] >= 200 and one["best"]]
        worst = max(large, key=lambda one: one["ratio"], default=dict.fromkeys(("ratio", "hindsight"), np.nan))
        answer |= {
            f"{label}_worst_month": worst["ratio"],
            f"{label}_worst_month_hindsight": worst["hindsight"],
        }
        answer[f"{label}_by_month"] = months
    inside = metrics.covered(wait, said.interval)
    by_month = coverage_by(found.jobs, rows, inside, "M")
    answer |= {"coverage": inside.mean(), "coverage_worst_month": by_month["coverage"].min()}
    answer["coverage_by_burst"] = metrics.by_burst(inside, burst).mean()
    row = next(row for row in found.rows if row["split"] == split and row["method"] == "procure")
    answer |= {name: value for name, value in row.items() if name.endswith("_over_a_day")}
    long = wait > metrics.A_DAY
    if long.any():
        answer["stated_median_over_a_day"] = said.point[long].mean()
        answer["best_stated_median_over_a_day"] = max(curve[long, 2].mean() for curve in curves.values())
    mean = float(found.wait[found.splits[split][0].train].mean())
    answer["accuracy"] = metrics.confusion(wait, said.point, mean)["accuracy"]
    answer |= _true_coverage(Distribution(stated.curve[at]), burst) | {"bursts": len(np.unique(burst))}
    for hours in (1, 4, 12):
        chance, did = said.chances[hours * 3600.0], wait <= hours * 3600
        base = float((found.wait[found.splits[split][0].train] <= hours * 3600).mean())
        scores = {
            "ours": metrics.brier(chance, did),
            "base": metrics.brier(np.full(len(did), base), did),
            "known": metrics.brier(_known_rate(found, rows, hours * 3600), did),
        }
        answer |= {f"rate_{hours}h": did.mean()} | {f"brier_{key}_{hours}h": v for key, v in scores.items()}
        answer[f"brier_lost_{hours}h"] = _lost(chance, base, burst)
        for gain, other in (("gain", "base"), ("gain_known", "known")):
            rate = scores[other]
            answer[f"brier_{gain}_{hours}h"] = 1 - scores["ours"] / rate if rate else float("nan")
        answer |= {f"{key}_{hours}h": gap for key, gap in metrics.calibration(chance, did, burst).items()}
    return answer


def cadence(arguments: argparse.Namespace) -> dict[str, object]:
    """Learn from the first half of a log, and on the second train again never, or after a growth; one booster pair."""
    jobs = queue_jobs(_log(arguments))
    rows = jobs.tail(arguments.last) if arguments.last else jobs
    middle = int(rows["submit_time"].iloc[len(rows) // 2])
    answer = {}
    for grown in (None, 0.5, 0.2):
        trained: list[str] = []
        found = evaluate(
            jobs, ["chronological"], ["procure"], last=arguments.last, test_from=middle, retrain_grown=grown,
            settings=Settings(members=1), progress=trained.append,
        )  # fmt: skip
        ours = next(row for row in found.rows if row["method"] == "procure")
        answer["never" if grown is None else f"at {grown:.0%} of growth"] = {
            "trainings": sum("procure" in line for line in trained), "n_test": ours["n_test"],
            "mae": ours["mae"], "pinball": ours["pinball"], "coverage_90": ours["coverage_90"],
        }  # fmt: skip
    return answer


def _held_against(
    name: str, each: dict[str, np.ndarray], ours: np.ndarray, burst: np.ndarray, rows: np.ndarray
) -> dict[str, object]:
    """Hold our mean loss on some rows against the best of all others there, and say what hindsight of half of them has.

    ``hindsight`` is the loss of the one that was best on the odd bursts, judged on the even ones, and the other way
    round, over that of the best there: whoever knows half of the rows is so far from the best of the other half.
    """
    losses = pd.DataFrame({key: one[rows] for key, one in each.items()})
    if losses.mean().min() == 0:  # nobody errs less, as where all started at once
        return {"month": name, "n": len(losses), "best": "", "ratio": np.nan, "hindsight": np.nan}
    number = pd.factorize(burst[rows])[0]
    halves = losses.groupby(number % 2).sum().to_numpy()
    picked = halves[::-1].argmin(axis=1) if len(halves) == 2 else [0]
    best = losses.mean().idxmin()
    return {
        "month": name, "n": len(losses), "bursts": int(number.max()) + 1, "ours": ours[rows].mean(), "best": best,
        "ratio": ours[rows].mean() / losses[best].mean(),
        "hindsight": halves[np.arange(len(halves)), picked].sum() / halves.min(axis=1).sum(),
    }  # fmt: skip


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


def _lost(chance: np.ndarray, base: float, burst: np.ndarray, draws: int = 400) -> float:
    """Return in which share of draws, each burst having one fate, true chances score worse than a constant one."""
    _, number = np.unique(burst, return_inverse=True)
    rng = np.random.default_rng(0)
    drawn = (rng.random(number.max() + 1)[number] < chance for _ in range(draws))
    return float(np.mean([metrics.brier(chance, did) > metrics.brier(np.full(len(did), base), did) for did in drawn]))


def _known_rate(found: Evaluation, rows: np.ndarray, deadline: float) -> np.ndarray:
    """Return the base rate that could be known: the share that kept a deadline, of all jobs with an outcome by then."""
    submit, known = found.jobs["submit_time"].to_numpy(), ~np.isnan(found.wait)
    over = np.searchsorted(submit[known] + deadline, submit[rows])
    kept = np.concatenate([[0], np.cumsum(found.wait[known] <= deadline)])
    return np.asarray(kept[over] / np.maximum(over, 1))


def _pinballs(wait: np.ndarray, curve: np.ndarray) -> np.ndarray:
    over = wait[:, None] - curve
    return np.maximum(metrics.LEVELS * over, (metrics.LEVELS - 1) * over).mean(axis=1)


def _constant_factor(wait: np.ndarray, curve: np.ndarray, coverage: float) -> tuple[float, np.ndarray]:
    """Widen the uncorrected interval about its median by one factor until it covers as much."""
    said = Distribution(curve)
    low, high = said.interval().T
    middle = said.quantile(0.5)
    for factor in np.geomspace(0.05, 200, 400):
        ends = np.column_stack([np.maximum(middle - factor * (middle - low), 0), middle + factor * (high - middle)])
        if ((wait >= np.floor(ends[:, 0])) & (wait <= np.ceil(ends[:, 1]))).mean() >= coverage:
            return float(factor), ends
    return float("inf"), np.column_stack([np.zeros(len(wait)), np.full(len(wait), np.inf)])


def trend_(arguments: argparse.Namespace) -> dict[str, object]:
    jobs = queue_jobs(_log(arguments))
    return {"rows": trend.judge_trend(jobs).to_dict(orient="records")}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _log(arguments: argparse.Namespace) -> pd.DataFrame:
    jobs = import_log(arguments.log, preset=arguments.preset).jobs
    first, _, end = (arguments.rows or ":").partition(":")
    return jobs.iloc[int(first or 0) : int(end or len(jobs))].reset_index(drop=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = {
        "features": features,
        "pipeline": pipeline,
        "latency": latency,
        "intervals": intervals,
        "adapt": adapt,
        "cadence": cadence,
        "trend": trend_,
    }
    parser.add_argument("what", choices=names)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("--last", type=int)
    parser.add_argument("--rows", metavar="FIRST:END", help="a part of the log's jobs, by number")
    parser.add_argument("--preset")
    parser.add_argument("--kept", type=Path, help="file for the boosters' forecasts: written, or read if it is there")
    parser.add_argument("--members", type=int, help="booster pairs at most; by default as trained")
    parser.add_argument("--seed", type=int, help="of the boosters, for adapt; by default 0")
    parser.add_argument("--split", default="chronological", choices=("chronological", "rolling"))
    arguments = parser.parse_args()
    if arguments.what != "features" and arguments.log is None:
        parser.error(f"{arguments.what} needs a log")
    print(json.dumps(names[arguments.what](arguments), indent=2, default=float))


if __name__ == "__main__":
    main()
