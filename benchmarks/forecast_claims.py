"""Repeat the figures of docs/claims/forecast.md that are not a row of `procure forecast evaluate`.

python benchmarks/forecast_claims.py patterns                        seconds and memory for 730,000 jobs
python benchmarks/forecast_claims.py hurst LOG [--preset P]          R/S exponents of six series
python benchmarks/forecast_claims.py recurring LOG [--tz ZONE]       shares of the CPU-hours that recur
python benchmarks/forecast_claims.py schedule LOG --cpus N [--days D]      one run per policy, compared week by week
python benchmarks/forecast_claims.py schedule WAGAP --wagap                on 20 x 80 and 48 x 12 CPUs
    --policies easy,conservative,smallest-first,best-gap,tabu,forecast     ranks those of Tables III and V anew
python benchmarks/forecast_claims.py control LOG [--tz ZONE]         AUC, within a key, too, and on shuffled days
python benchmarks/forecast_claims.py coins                           the same of running shares of coin tosses
python benchmarks/forecast_claims.py halves LOG [--tz ZONE]          calibration by half of the log, and what luck does
python benchmarks/forecast_claims.py bounds LOG [--tz ZONE]          Brier gains of who knows all other days

``--days D`` takes the log's first D days. halves keeps the model's chances with --keep FOLDER, and reads them there
again (they take most of the time); a folder is for one version of the code.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from hurst import hurst, series_of
from queue_time_claims import busy_year

from procure.comparison.classes import resource_usage
from procure.comparison.paired import paired_tests
from procure.comparison.ranking import PUBLISHED_WEIGHTS, rank
from procure.forecast.boosted import _fit, raw_chances, recalibrated_daily
from procure.forecast.confidence import MODES, Forecasts, make_forecasts
from procure.forecast.evaluation import auc, auc_within, calibration, judge, shuffle_days, worst_tenth
from procure.forecast.features import features
from procure.forecast.forecaster import confidence_of
from procure.forecast.known import NEVER
from procure.forecast.lags import Lagged, lagged
from procure.forecast.periods import PERIODS, Patterns, PatternSettings, find_patterns
from procure.forecast.recurring import recurring_shares
from procure.run import simulate
from procure.schemas import JOB
from procure.tables import check, read
from procure.workload import import_log

POLICIES = "easy,forecast,forecast:control=exact,forecast:control=shuffled"
WEEK = 604_800
TABLES = {
    "III": ["conservative", "forecast", "best-gap", "tabu"],
    "V": ["smallest-first", "easy", "forecast", "best-gap", "tabu"],
}
"""The policies of the published tables that are here (PBS Pro is not); those of a run are ranked."""


def patterns(arguments: argparse.Namespace) -> dict[str, object]:
    jobs = busy_year(730_000)
    Patterns().extend(jobs.head(1000))  # compiles
    began = time.process_time()
    found = Patterns()
    found.extend(jobs.iloc[:670_000])
    first = time.process_time() - began
    found.extend(jobs.iloc[670_000:])
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "n_jobs": found.n_rows, "n_keys": len(found.keys), "n_bursts": len(found.bursts.key), "cpu_seconds": seconds,
        "of_which_last_month": seconds - first, "peak_gb": peak,
    }  # fmt: skip


def memory(arguments: argparse.Namespace) -> dict[str, object]:
    return {name: round(hurst(values), 3) for name, values in series_of(_log(arguments)).items()}


def recurring(arguments: argparse.Namespace) -> dict[str, object]:
    return recurring_shares(_log(arguments), PatternSettings(tz=arguments.tz))


def schedule(arguments: argparse.Namespace) -> dict[str, object]:
    jobs, nodes = _on_nodes(_log(arguments), arguments)
    rows, weekly = {}, {}
    for policy in arguments.policies.split(","):
        policy = policy.replace(";", ",")
        began = time.process_time()
        run = simulate(jobs, nodes, policy)
        done = run.schedule.dropna(subset=["start_time"])
        took = (done["end_time"] - done["start_time"]).clip(lower=1).astype(float)
        slowdown = (done["end_time"] - done["submit_time"]).astype(float) / took
        bounded = np.maximum(1, (done["end_time"] - done["submit_time"]).astype(float) / took.clip(lower=10))
        week = (done["submit_time"] - done["submit_time"].min()) // WEEK
        rows[policy] = {
            "makespan": run.metrics["makespan"], "slowdown": slowdown.mean(), "bounded_slowdown": bounded.mean(),
            "usage": resource_usage(run.schedule, int(nodes["cpus"].sum())), "mean_wait": run.metrics["mean_wait_time"],
            "cpu_seconds": time.process_time() - began,
        }  # fmt: skip
        weekly[policy] = bounded.groupby(week).mean()
        print(policy, rows[policy], weekly[policy].round(2).tolist(), file=sys.stderr, flush=True)
    table = pd.DataFrame(rows).T
    criteria = table[["makespan", "slowdown", "usage"]].astype(float)
    table["score"] = rank(criteria, PUBLISHED_WEIGHTS, {"usage"}).score
    tables = {}
    for name, chosen in TABLES.items():
        among = criteria[criteria.index.isin(chosen)]
        tables[name] = rank(among, PUBLISHED_WEIGHTS, {"usage"}).score.round(4).to_dict() if len(among) > 1 else {}
    values = pd.DataFrame(weekly)
    tests = paired_tests(values, values.columns[0])
    better = {p: int((values[p] < values.iloc[:, 0]).sum()) for p in values.columns[1:]}
    return {
        "n_jobs": len(jobs), "n_weeks": len(values), "table": table.round(4).to_dict("index"),
        "weekly_bounded_slowdown": tests.round(4).to_dict("records"), "weeks_better": better, "tables": tables,
    }  # fmt: skip


def halves(arguments: argparse.Namespace) -> dict[str, object]:
    """Judge a mode on each half of the log's time and on all of it; the recalibration was chosen on first halves.

    Beside it the gain's range had other users of that kind come, and the worst tenth if outcomes were drawn with the
    stated chances, each on its own, and so that those of one user's day, of his day, week or month (as the forecast
    is), or of one user, share a fate as much as the real ones do.
    """
    patterns = find_patterns(_log(arguments), PatternSettings(tz=arguments.tz))
    rng, found = np.random.default_rng(0), {}
    for period in patterns.layers():
        f = make_forecasts(patterns, period)
        if arguments.confidence == "boosted":
            lags = lagged(patterns, f)
            sure = recalibrated_daily(patterns, f, lags, _raw(arguments, patterns, f, lags, period))
        else:
            sure = confidence_of(patterns, f, arguments.confidence)
        known = (f.known < NEVER) & (f.issued >= patterns.first + 2 * PERIODS[period])
        first = f.issued < (patterns.first + patterns.last) / 2
        groups = {
            name: _numbered(f.user, (f.issued - patterns.first) // seconds)
            for name, seconds in (("user_days", 86_400), ("user_periods", PERIODS[period]))
        }
        groups["users"] = f.user
        for name, rows in (("first", known & first), ("second", known & ~first), ("all", known)):
            chance, came = sure[rows], f.came[rows]
            if not 0 < came.sum() < len(came):
                continue  # a log hardly longer than two periods has none in its first half
            alone = [worst_tenth(chance, rng.random(len(chance)) < chance) for _ in range(_draws(len(chance)))]
            found[f"{period}, {name}"] = judge(chance, came) | {
                "n_days": len(np.unique((f.issued[rows] - patterns.first) // 86_400)),
                "auc_within": auc_within(chance, came, f.key[rows]),
                "brier_gain_were_users_drawn_anew": _gain_range(chance, came, f.user[rows], rng),
                "weighted_gap": _weighted_gap(chance, came),
                "surest_tenth": _surest_tenth(chance, came),
                "tenths": calibration(chance, came).round(3).to_dict("records"),
                "worst_tenth_holds": _holds(chance, came, f.user[rows], f.issued[rows] - patterns.first),
                "worst_tenth_were_they_exact": np.quantile(alone, [0.5, 0.95]).tolist(),
            }
            for unit, group in groups.items():
                found[f"{period}, {name}"][unit] = _luck(chance, came, group[rows], rng)
    return found


def _raw(
    arguments: argparse.Namespace, patterns: Patterns, forecasts: Forecasts, rows: Lagged, period: str
) -> np.ndarray:
    """Return the model's chances, from the folder ``--keep`` if it holds those of these forecasts."""
    if not arguments.keep:
        return raw_chances(patterns, forecasts, rows)
    path = Path(arguments.keep) / f"{Path(arguments.log[0]).name}-{period}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            if np.array_equal(kept["issued"], forecasts.issued) and np.array_equal(kept["came"], forecasts.came):
                return kept["chance"]
    chance = raw_chances(patterns, forecasts, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, issued=forecasts.issued, came=forecasts.came, chance=chance)
    return chance


def _numbered(*columns: np.ndarray) -> np.ndarray:
    return np.unique(np.column_stack(columns), axis=0, return_inverse=True)[1].ravel()


def _alike(left: np.ndarray, group: np.ndarray) -> float:
    """Return the correlation of what is left of two outcomes of one group."""
    total, squares, n = (np.bincount(group, values) for values in (left, left**2, np.ones(len(left))))
    pairs = (n * (n - 1)).sum()
    return float(np.clip((total**2 - squares).sum() / pairs / np.mean(left**2), 0, 1)) if pairs else 0.0


def _gain_range(chance: np.ndarray, came: np.ndarray, user: np.ndarray, rng: np.random.Generator) -> list[float]:
    """Return the middle 95 % of the Brier gain over 1,000 draws of as many users, with repetition."""
    user = _numbered(user)
    errors, hits, n = (np.bincount(user, values) for values in ((chance - came) ** 2, came, np.ones(len(came))))
    drawn = rng.integers(0, len(n), (1000, len(n)))
    errors, hits, n = (values[drawn].sum(axis=1) for values in (errors, hits, n))
    tells = (hits > 0) & (hits < n)  # a draw in which all came, or none, has no constant to be held against
    errors, hits, n = errors[tells], hits[tells], n[tells]
    return np.quantile(1 - errors * n / (hits * (n - hits)), [0.025, 0.975]).tolist()


def _holds(chance: np.ndarray, came: np.ndarray, user: np.ndarray, since: np.ndarray) -> dict[str, int]:
    """Count the forecasts of the worst tenth with 1 % of them, their users, and the days on which they were made."""
    bins = calibration(chance, came)
    bins = bins[bins["n"] >= 0.01 * len(came)]
    tenth = bins["tenth"][(bins["stated"] - bins["came"]).abs().idxmax()]
    rows = np.minimum((chance * 10).astype(int), 9) == tenth
    return {
        "tenth": int(tenth), "forecasts": int(rows.sum()), "users": len(np.unique(user[rows])),
        "days": len(np.unique(since[rows] // 86_400)),
    }  # fmt: skip


def _luck(chance: np.ndarray, came: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> dict[str, object]:
    """Return the number of groups, how alike outcomes within one are, and worst tenths of draws so alike."""
    group = _numbered(group)
    alike = _alike(came - chance, group)
    worst = [worst_tenth(chance, _drawn(chance, group, alike, rng)) for _ in range(_draws(len(chance)))]
    return {
        "n": int(group.max()) + 1,
        "alike": alike,
        "worst_tenth": np.quantile(worst, [0.5, 0.95]).tolist(),
    }


def _draws(n: int) -> int:
    """Return how often to draw n outcomes: 1,000 times, less where that takes long."""
    return int(np.clip(2_000_000 / n, 100, 1000))


def _drawn(chance: np.ndarray, group: np.ndarray, alike: float, rng: np.random.Generator) -> np.ndarray:
    """Draw outcomes; two of a group share their draw with the chance ``alike``."""
    shares = rng.random(len(chance)) < np.sqrt(alike)
    draw = np.where(shares, rng.random(group.max() + 1)[group], rng.random(len(chance)))
    return draw < chance


def bounds(arguments: argparse.Namespace) -> dict[str, object]:
    """Judge who knows the outcomes of all other days, later ones too: rates of users and keys, and the model.

    The rates leave out the day itself, of that user or key, and count four forecasts of the base rate more. The model
    is `boosted`'s with the same settings and features, learnt from four fifths of the weeks for the other fifth.
    """
    patterns = find_patterns(_log(arguments), PatternSettings(tz=arguments.tz))
    found = {}
    for period in patterns.layers():
        f = make_forecasts(patterns, period)
        rows = (f.known < NEVER) & (f.issued >= patterns.first + 2 * PERIODS[period])
        came, day = f.came[rows].astype(float), (f.issued[rows] - patterns.first) // 86_400
        sure = {name: _other_days(group[rows], day, came) for name, group in (("user", f.user), ("key", f.key))}
        columns, sure["model"] = features(patterns, f).to_numpy()[rows], np.full(len(came), came.mean())
        for fold in range(5):
            out = day // 7 % 5 == fold
            if out.any() and 0 < came[~out].sum() < (~out).sum():
                sure["model"][out] = _fit(columns[~out], came[~out], 0).inplace_predict(columns[out])
        gains = {name: judge(chance, came > 0)["brier_gain"] for name, chance in sure.items()}
        found[period] = {"n_forecasts": len(came)} | gains
    return found


def _other_days(group: np.ndarray, day: np.ndarray, came: np.ndarray) -> np.ndarray:
    of_day = _numbered(group, day)
    hits, n = (
        np.bincount(group, values)[group] - np.bincount(of_day, values)[of_day] for values in (came, np.ones(len(came)))
    )
    return np.asarray((hits + 4 * came.mean()) / (n + 4))


def control(arguments: argparse.Namespace) -> dict[str, object]:
    """Judge the ranks of `boosted`, on the log and on shuffled days: of all pairs of forecasts, and within a key.

    Pairs ``at_once`` are nearer than a period less the tolerance, so that what came of neither was known when the
    other was made, nor is one of them the other's recurrence.
    """
    jobs, settings = _log(arguments), PatternSettings(tz=arguments.tz)
    made = [find_patterns(jobs, settings)]
    made += [find_patterns(shuffle_days(jobs, seed, arguments.tz), settings) for seed in range(arguments.shuffles)]
    found: dict[str, object] = {}
    for period in made[0].layers():
        values = []
        for patterns in made:
            f = make_forecasts(patterns, period)
            rows = (f.known < NEVER) & (f.issued >= patterns.first + 2 * PERIODS[period])
            sure, came, key = confidence_of(patterns, f, "boosted")[rows], f.came[rows], f.key[rows]
            near = PERIODS[period] - int(settings.tolerance[f.layer])
            values.append(
                [
                    auc(sure, came),
                    auc_within(sure, came, key),
                    *_at_once(sure, came, key, f.issued[rows], near),
                ]
            )
        names = ("auc", "within", "within_at_once", "n_pairs_at_once")
        columns = [dict(zip(names, row, strict=True)) for row in values]
        found[period] = {
            "log": columns[0],
            "shuffled": columns[1:],
            "mean": np.mean(values[1:], axis=0).tolist(),
        }
    return found


def _at_once(sure: np.ndarray, came: np.ndarray, key: np.ndarray, issued: np.ndarray, near: int) -> list[float]:
    order = np.lexsort((issued, key))
    right = pairs = 0.0
    for rows in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        hits, misses = rows[came[rows]], rows[~came[rows]]
        chosen = np.abs(issued[hits][:, None] - issued[misses]) < near
        ahead = np.sign(sure[hits][:, None] - sure[misses])[chosen]
        right += ((ahead + 1) / 2).sum()
        pairs += chosen.sum()
    return [right / pairs if pairs else np.nan, pairs]


def coins(arguments: argparse.Namespace) -> dict[str, float]:
    """Rank tosses of a coin that falls on heads once in five by the share of earlier heads, within groups."""
    rng, found = np.random.default_rng(0), {}
    for n in (10, 30, 100):
        came = rng.random((30_000 // n, n)) < 0.2
        before = np.cumsum(came, axis=1) - came
        share = (before + 0.8) / (np.arange(n) + 4)
        group = np.repeat(np.arange(len(came)), n)
        found[f"groups of {n}"] = auc_within(share.ravel(), came.ravel(), group)
    return found


def _weighted_gap(sure: np.ndarray, came: np.ndarray) -> float:
    bins = calibration(sure, came)
    return float(((bins["stated"] - bins["came"]).abs() * bins["n"]).sum() / bins["n"].sum())


def _surest_tenth(sure: np.ndarray, came: np.ndarray) -> dict[str, float]:
    """Return what the surest 10 % of the forecasts said, and what came of them."""
    top = np.argsort(-sure, kind="stable")[: max(1, len(sure) // 10)]
    return {"n": len(top), "stated": float(sure[top].mean()), "came": float(came[top].mean())}


def _on_nodes(jobs: pd.DataFrame, arguments: argparse.Namespace) -> tuple[pd.DataFrame, pd.DataFrame]:
    jobs = jobs.assign(mem_mb_per_node=0, gpus_per_node=0)
    if arguments.wagap:
        cpus = [80] * 20 + [12] * 48
    else:
        cpus = [1] * arguments.cpus
        jobs = jobs.assign(n_nodes=jobs["n_nodes"] * jobs["cpus_per_node"].clip(lower=1), cpus_per_node=1)
    return jobs, pd.DataFrame({"node_id": [f"n{i}" for i in range(len(cpus))], "cpus": cpus, "mem_mb": 1, "gpus": 0})


def _log(arguments: argparse.Namespace) -> pd.DataFrame:
    """Read the log, or its first ``--days``."""
    log = arguments.log[0]
    if "dirlab_" in log:
        jobs = _dirlab(log)
    else:
        jobs = read(log, JOB) if log.endswith(".parquet") else import_log(log, preset=arguments.preset).jobs
    if not arguments.days:
        return jobs
    return jobs[jobs["submit_time"] < jobs["submit_time"].min() + arguments.days * 86_400].reset_index(drop=True)


def _dirlab(log: str) -> pd.DataFrame:
    """Read a training set of DIR-LAB's Gen-Parallel-Workloads: intervals between submissions, and no dates."""
    raw = pd.read_csv(log)
    nodes = raw["node_num"].clip(lower=1)
    jobs = pd.DataFrame({"job_id": raw["u_id"].astype(str), "user": raw["user"].astype(str), "n_nodes": nodes})
    jobs = jobs.assign(submit_time=raw["interval"].cumsum(), run_time=raw["run_time"].round().astype(int))
    jobs = jobs.assign(requested_time=raw["wall_time"], cpus_per_node=(raw["cpu_num"] // nodes).clip(lower=1))
    return check(jobs.assign(mem_mb_per_node=0, gpus_per_node=0), JOB)


def main() -> None:
    commands = {
        "patterns": patterns, "hurst": memory, "recurring": recurring, "schedule": schedule, "halves": halves,
        "bounds": bounds, "control": control, "coins": coins,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("log", nargs="*")
    parser.add_argument("--preset")
    parser.add_argument("--tz")
    parser.add_argument("--cpus", type=int, default=100)
    parser.add_argument("--wagap", action="store_true")
    parser.add_argument("--days", type=float, default=0)
    parser.add_argument("--shuffles", type=int, default=1, help="of the days, for control")
    parser.add_argument("--confidence", default="boosted", choices=MODES, help="mode that halves judges")
    parser.add_argument("--keep", help="folder for the model's chances")
    parser.add_argument("--policies", default=POLICIES, help="separated by commas; within a policy, write ;")
    arguments = parser.parse_args()
    print(json.dumps(commands[arguments.command](arguments), indent=1, default=float))


if __name__ == "__main__":
    main()
