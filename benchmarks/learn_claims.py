"""Every figure of docs/claims/learn.md: `python benchmarks/learn_claims.py PART LOGS [POLICY …]`, see `main`."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.learn.days import Day, day_span, lay_out_days, mean_wait, on_day, quick_wait, simulate_day
from procure.learn.features import FEATURES, QUEUE_FEATURES
from procure.learn.judge import LEARNED, evaluate, ratio_of_sums, utilization_between
from procure.learn.policy import expected_before
from procure.learn.run_times import RunTimes
from procure.learn.scores import PLACES
from procure.learn.search import Settings, free_numbers, objective_of, search
from procure.learn.store import TrainedPolicy, read_policy
from procure.policies.queue import Skipping
from procure.policies.seams_of import with_seams
from procure.run import run_prepared
from procure.simulator import state as simulator_state
from procure.simulator.drive import drive, load_compiled
from procure.workload.importing import import_log
from procure.workload.slice import merge

ZONE = "US/Central"
TRAIN, TEST = "2021-03..2021-04", "2021-05-01..2021-06-03"
LAST_TO_TRAIN = 1_619_845_200
"""2021-05-01 00:00 US/Central: training sees nothing that was submitted later."""


def nodes_of_the_paper(times: int = 1) -> pd.DataFrame:
    """5 × (64 CPUs, 256 GB), 2 × (24, 1,024), 2 × (64, 512, 8 GPUs)."""
    rows = [(64, 256_000, 0)] * 5 * times + [(24, 1_024_000, 0)] * 2 * times + [(64, 512_000, 8)] * 2 * times
    table = pd.DataFrame(rows, columns=["cpus", "mem_mb", "gpus"])
    return table.assign(node_id=[f"n{i}" for i in range(len(table))])


def beocat(logs: Path) -> pd.DataFrame:
    files = [logs / f"all_jobs_20210{month}.csv.xz" for month in (3, 4, 5)]
    return merge([import_log(file, "csv", "beocat").jobs for file in files], drop_repeated=True)


def judge(logs: Path, policies: list[Path], span: str, **options) -> None:
    """The judgement on the days of a span, and on those of about 1,000 jobs among them, as the paper chose."""
    days = lay_out_days(beocat(logs), nodes_of_the_paper(), *day_span(span), ZONE, with_exact=True)
    for path in policies:
        found = evaluate(read_policy(path), days, **options)
        print(f"\n{path} on {len(days)} days of {span}")
        print((found.days.set_index("day").drop(columns="n_jobs") / 60).round(1).assign(
            n_jobs=found.days["n_jobs"].to_numpy(), ratio_to_sjf=found.days["ratio_to_sjf"].round(3).to_numpy()
        ).to_string())  # fmt: skip
        show(found)
    like_paper = [day for day in days if 900 <= day.n_jobs <= 1100]
    for path in policies if len(like_paper) > 1 else []:
        print(f"\n{path} on the {len(like_paper)} of these days with 1,000 ± 100 jobs")
        show(evaluate(read_policy(path), like_paper, **options))


def windows(logs: Path, policies: list[Path]) -> None:
    """CPUs in use over other spans than each policy's makespan; the mean over the test days, %, and by day."""
    days = lay_out_days(beocat(logs), nodes_of_the_paper(), *day_span(TEST), ZONE, with_exact=True)
    rows = []
    for day in days:
        found = {name: run_prepared(day.ready, name) for name in ("best-fit", "sjf", "fcfs")}
        found["sjf@oracle"] = run_prepared(day.exact, "sjf")
        found |= {path.stem: simulate_day(day, read_policy(path)) for path in policies}
        ends = {name: one.end.max() for name, one in found.items()}
        first, last = day.ready.jobs.submit.min(), day.ready.jobs.submit.max()
        for name, one in found.items():
            spans = {
                "makespan": ends[name],
                "till the first ends": min(ends.values()),
                "till the last ends": max(ends.values()),
            }
            spans |= {"submissions": last}
            used = {span: 100 * utilization_between(day.ready, one, first, end) for span, end in spans.items()}
            used |= {
                "while jobs wait": 100 * in_use_while_waiting(day, one),
                "of nodes, by event": 100 * utilization_by_event(day, one),
                "makespan, h": (ends[name] - first) / 3600,
            }
            rows.append({"day": day.name, "policy": name, **used})
    table = pd.DataFrame(rows)
    print(table.groupby("policy", sort=False).mean(numeric_only=True).round(2).to_string())
    for column in ("makespan", "makespan, h", "submissions"):
        print(f"\n{column}\n{table.pivot_table(column, 'day', 'policy').round(1).to_string()}")


def utilization_by_event(day: Day, found) -> float:
    """The published measure: of each node the mean share of memory, CPUs and GPUs, meaned over starts and ends."""
    jobs, kinds = day.ready.jobs, day.ready.kinds
    of_job = np.repeat(np.arange(day.n_jobs), jobs.n_nodes)
    kind = day.ready.kind_of[found.node_list]
    shares = sum(
        asked[of_job] / np.maximum(total[kind], 1)
        for asked, total in ((jobs.mem, kinds.mem), (jobs.cpus, kinds.cpus), (jobs.gpus, kinds.gpus))
    )
    weight = np.bincount(of_job, shares) / (3 * len(day.ready.kind_of))
    changes, moments = np.concatenate([weight, -weight]), np.concatenate([found.start, found.end])
    return float(np.cumsum(changes[np.lexsort((changes, moments))]).mean())


def in_use_while_waiting(day: Day, found) -> float:
    """Share of the CPUs in use over all seconds in which a job waits under this policy itself."""
    jobs = day.ready.jobs
    moments = np.unique(np.concatenate([jobs.submit, found.start, found.end]))
    n_waiting = np.searchsorted(np.sort(jobs.submit), moments, "right") - np.searchsorted(
        np.sort(found.start), moments, "right"
    )
    spans = [(a, b) for a, b, n in zip(moments[:-1], moments[1:], n_waiting[:-1], strict=True) if n > 0]
    seconds = sum(b - a for a, b in spans)
    return sum(utilization_between(day.ready, found, a, b) * (b - a) for a, b in spans) / max(seconds, 1)


def show(found) -> None:
    means = (found.days[list(found.utilization)].mean() / 60).round(1)
    print("mean wait, min", means.to_dict())
    print("utilization", {name: round(100 * value, 2) for name, value in found.utilization.items()})
    print("while submitted", {k: round(100 * value, 2) for k, value in found.utilization_of_submissions.items()})
    print("of nodes", {name: round(100 * value, 2) for name, value in found.utilization_of_nodes.items()})
    for name, value in found.figures.items():
        print(f"  {name}: {value}")


def ablation(logs: Path, generations: int) -> None:
    """One search per part left out, all with the settings of the claim and seed 1, on the test days."""
    jobs, nodes = beocat(logs), nodes_of_the_paper()
    train = lay_out_days(jobs, nodes, *day_span(TRAIN), ZONE, max_jobs=4500)
    test = lay_out_days(jobs, nodes, *day_span(TEST), ZONE, with_exact=True)
    kinds = {
        "all": ((), 0),
        "run_times": (("run_times",), 0),
        "queue": (("queue",), 0),
        "places": (("places",), 0),
    }
    kinds |= {"with a network of 6": ((), 6)}
    for name, (without, hidden) in kinds.items():
        settings = Settings(generations=generations, minutes=60, processes=1, without=without, n_hidden=hidden)
        settings = replace(settings, inside="skip")
        began = time.process_time()
        found = search(train, settings)
        seconds = time.process_time() - began
        figures = evaluate(TrainedPolicy("search", found.arrays), test, rivals=()).figures
        words = [f"{figures[key]:.3f}" for key in ("mean_ratio_to_sjf", "geometric_ratio_to_sjf", "worst_ratio")]
        print(
            f"without {name}: objective {found.objective:.3f}, ratios {' '.join(words)}, {seconds:.0f} s",
            flush=True,
        )


def without(logs: Path, policies: list[Path]) -> None:
    """A trained policy with one part taken away and nothing trained anew, on the test days."""
    days = lay_out_days(beocat(logs), nodes_of_the_paper(), *day_span(TEST), ZONE)
    reference = sum(day.reference for day in days)
    queue = np.isin(np.arange(len(FEATURES)), QUEUE_FEATURES)
    for path in policies:
        arrays = dict(read_policy(path).arrays)
        kinds = {
            "nothing": (arrays, False),
            "history": (arrays, True),
            "history, and what ends in the run": (arrays | {"trust": np.array([1e9])}, True),
            "features of the queue": (arrays | {"weights": np.where(queue, 0.0, arrays["weights"])}, False),
            "cost of nodes": (arrays | {"places": np.zeros(len(PLACES))}, False),
        }
        for name, (changed, ignorant) in kinds.items():
            trained = TrainedPolicy("search", changed)
            waits = []
            for day in days:
                known = replace(day, prior=expected_before(day.ready.jobs, None)) if ignorant else day
                waits.append(quick_wait(known, on_day(known, trained)))
            ratios = np.array(waits) / [day.reference for day in days]
            words = f"{sum(waits) / reference:.3f} × sjf, {np.exp(np.log(ratios).mean()):.3f} by day"
            print(f"{path} without {name}: {words}, worst {ratios.max():.2f}", flush=True)


def beside_random(logs: Path, policies: list[Path]) -> None:
    """Policies of any method beside a random order and the untrained start: days trained on, and the test days."""
    jobs, nodes = beocat(logs), nodes_of_the_paper()
    begin, arrays_of = free_numbers(Settings(inside="skip"))
    given = {"order": "random"}
    drawn = with_seams(Skipping, given)(**given)
    for span in (TRAIN, TEST):
        days = lay_out_days(jobs, nodes, *day_span(span), ZONE, max_jobs=4500 if span == TRAIN else 3000)
        references = np.array([day.reference for day in days])
        untrained = TrainedPolicy("search", arrays_of(begin))
        tried = {"random": None, "untrained": untrained} | {str(path): read_policy(path) for path in policies}
        for name, trained in tried.items():
            waits = np.array([quick_wait(day, on_day(day, trained) if trained else drawn) for day in days])
            draws = np.random.default_rng(0).integers(0, len(days), (10_000, len(days)))
            ratio, (low, high) = ratio_of_sums(waits, references, draws)
            words = f"{ratio:.3f} × sjf ({low:.3f} to {high:.3f}), objective {objective_of(waits, references):.3f}"
            print(f"{span}, {len(days)} days: {name}: {words}", flush=True)


def cost(logs: Path, policies: list[Path]) -> None:
    """Seconds of the compiled loop per day and per start, of this process alone, least of three."""
    days = lay_out_days(beocat(logs), nodes_of_the_paper(), *day_span(TEST), ZONE)
    trained = read_policy(policies[0])
    ways = {"sjf": lambda day: Skipping(order="sjf"), LEARNED: lambda day: on_day(day, trained)}
    for every in (60, 600, 3600):
        ways[f"ahead=86400,every={every}"] = lambda day, every=every: on_day(day, trained, 86_400, every)
    n_jobs = sum(day.n_jobs for day in days)
    for name, way in ways.items():
        seconds = min(sum(loop_seconds(day, way(day)) for day in days) for _ in range(3))
        per = f"{1000 * seconds / len(days):.2f} ms a day, {1e6 * seconds / n_jobs:.2f} µs a start"
        waits = sum(mean_wait(day.ready, run_prepared(day.ready, way(day))) for day in days)
        print(f"{name}: {per}; {waits / sum(day.reference for day in days):.3f} × sjf's wait", flush=True)


def loop_seconds(day: Day, policy) -> float:
    took = day.ready.durations
    world, state = simulator_state.build(
        day.ready.jobs, day.ready.kinds, day.ready.fits, day.ready.kind_of, took.took,
        options=policy.options(), user=day.ready.user, full=took.full, limit=took.limit,
    )  # fmt: skip
    made = policy.make(state)
    load_compiled(made.loop, world, state, made.own)
    began = time.process_time()
    drive(world, state, made)
    return time.process_time() - began


OTHERS = {
    "HPC2N": ("HPC2N-2002-2.1-cln.swf.xz", 120, 2, "2005-01-01", "2005-12-31", "Europe/Stockholm"),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.xz", 144, 8, "2001-01-01", "2001-12-31", "America/Los_Angeles"),
}
"""Logs of other centres: file, nodes, CPUs of each, first and last day, time zone."""


def transfer(logs: Path, policies: list[Path], archive: Path) -> None:
    """Trained on the paper's system: twice the nodes, and other centres' whole nodes."""
    double = lay_out_days(beocat(logs), nodes_of_the_paper(2), *day_span(TEST), ZONE, with_exact=True)
    places = {"twice the nodes": double} | {
        f"{name}, {n} whole nodes": whole_days(archive / file, n, cpus, *span)
        for name, (file, n, cpus, *span) in OTHERS.items()
    }
    for path in policies:
        for name, days in places.items():
            print(f"\n{path}: {name}, {len(days)} days", flush=True)
            show(evaluate(read_policy(path), days))


def whole_days(log: Path, n_nodes: int, cpus: int, first: str, last: str, zone: str) -> list[Day]:
    """Days of at least 100 jobs of a log whose jobs take whole nodes."""
    jobs = import_log(log, "swf", cpus_per_node=cpus).jobs
    whole = pd.DataFrame({"node_id": [f"n{i}" for i in range(n_nodes)], "cpus": cpus, "mem_mb": 10**6, "gpus": 0})
    return lay_out_days(jobs, whole, first, last, zone, min_jobs=100, with_exact=True)


def estimates(logs: Path, archive: Path) -> None:
    """Errors of run-time estimates: each day's jobs from what had ended when it began."""
    with_users = import_log(archive / OTHERS["HPC2N"][0], "swf", cpus_per_node=2).jobs
    for name, jobs, from_day in (("HPC2N", with_users, None), ("Beocat", beocat(logs), LAST_TO_TRAIN)):
        first = from_day or int(jobs["submit_time"].quantile(0.9))
        rows = []
        history = RunTimes(by_user=from_day is None).fit(jobs, first)
        submit = jobs["submit_time"].to_numpy()
        midnights = first + (submit - first) // 86_400 * 86_400
        two = {"two": last_two_that_ended(jobs, submit), "two before": last_two_that_ended(jobs, midnights)}
        for moment in range(first, int(jobs["submit_time"].max()), 86_400):
            history = history.updated(jobs[jobs["submit_time"] < moment + 86_400], moment)
            day = jobs[(jobs["submit_time"] >= moment) & (jobs["submit_time"] < moment + 86_400)]
            if len(day):
                rows.append(pd.DataFrame({
                    "run": day["run_time"],
                    "request": day["requested_time"].where(day["requested_time"] > 0, 30 * 86_400),
                    "mean": history.predict(day), "median": history.predict(day, 0.5),
                } | {name: values[day.index.to_numpy()] for name, values in two.items()}))  # fmt: skip
        table = pd.concat(rows)
        for kind in two:
            table[kind] = np.minimum(table[kind].fillna(table["request"]), table["request"])
        print(f"{name}: {len(table):,} jobs")
        for kind in ("request", *two, "mean", "median"):
            factor = np.exp(np.abs(np.log((table[kind] + 60) / (table["run"] + 60))).median())
            wrong = np.abs(table[kind] - table["run"]).mean() / 60
            print(f"  {kind}: off by a factor of {factor:.2f} (median; a minute added), {wrong:.0f} min on average")


def last_two_that_ended(jobs: pd.DataFrame, moments: np.ndarray) -> np.ndarray:
    """Mean run time of the last two of the same user, shape and request that had ended at each job's moment, or NaN."""
    submit, run = jobs["submit_time"].to_numpy(), jobs["run_time"].to_numpy(np.float64)
    found = np.full(len(jobs), np.nan)
    alike = ["user", "requested_time", "cpus_per_node", "n_nodes", "mem_mb_per_node", "gpus_per_node"]
    for rows in jobs.groupby(alike).indices.values():
        by_end = rows[np.argsort(submit[rows] + run[rows], kind="stable")]
        n_ended = np.searchsorted((submit + run)[by_end], moments[rows], side="right")
        last = run[by_end]
        first, second = last[np.maximum(n_ended - 1, 0)], last[np.maximum(n_ended - 2, 0)]
        found[rows] = np.where(n_ended > 0, (first + second) / 2, np.nan)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part",
        choices=["judge", "windows", "rollout", "ablation", "without", "cost", "transfer", "estimates", "beside"],
    )
    parser.add_argument("logs", type=Path, help="folder of all_jobs_202103.csv.xz and the two that follow")
    parser.add_argument("policies", type=Path, nargs="*")
    parser.add_argument("--span", default=TEST)
    parser.add_argument("--generations", type=int, default=150)
    parser.add_argument("--archive", type=Path, help="folder of HPC2N-2002-2.1-cln.swf.xz and SDSC-BLUE's log")
    given = parser.parse_args()
    if given.part == "judge":
        judge(given.logs, given.policies, given.span)
    elif given.part == "rollout":
        judge(given.logs, given.policies, given.span, ahead=86_400, every=3600)
    elif given.part == "windows":
        windows(given.logs, given.policies)
    elif given.part == "ablation":
        ablation(given.logs, given.generations)
    elif given.part == "without":
        without(given.logs, given.policies)
    elif given.part == "beside":
        beside_random(given.logs, given.policies)
    elif given.part == "cost":
        cost(given.logs, given.policies)
    elif given.part == "transfer":
        transfer(given.logs, given.policies, given.archive)
    else:
        estimates(given.logs, given.archive)


if __name__ == "__main__":
    main()
