"""What would an expert say against the answer? One row for each objection: when it holds, its number, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.packages.nodes import package_nodes, request_text
from procure.recommender.recommendation import Recommendation, against_log, concentration, jobs_on
from procure.schemas import as_logged
from procure.text import counted, duration, joined, listed, with_unit

COSTLY = 0.1
"""A rule or a bound that costs more than this share of the wait is objected to."""
TURNS = 0.01
"""The choice turns where another package waits at least this share less."""
NOTHING = 60.0
"""Seconds of wait below which a difference says nothing."""
FEW_TOLD = 0.05
"""What fewer of the jobs ask for counts as not told by the log."""
IDLE = 0.5
"""Below this share of every resource in use, capacity may be far above demand."""
_RESOURCES = {"cpus": "CPUs", "mem_mb": "memory", "gpus": "GPUs"}


class Objection(NamedTuple):
    """What holds against an answer: its row's name, what is wrong, with its number, and what to do about it."""

    name: str
    sentence: str
    advice: str

    def __str__(self) -> str:
        """Return both as text."""
        return f"{self.sentence}. {self.advice}."


def objections(done: Recommendation) -> list[Objection]:
    """Return what holds against the first package of a list, in the order of `ROWS`; of a front, nothing."""
    if done.front is not None or not len(done.ranking):
        return []
    said = ((name, holds(done), advice) for name, (holds, advice) in ROWS.items())
    return [Objection(name, sentence, advice) for name, sentence, advice in said if sentence is not None]


def _made_up(done: Recommendation) -> str | None:
    names, jobs = done.results.plan.study.made_up, done.results.plan.workloads
    n = sum(len(jobs[name]) for name in {*names} & {*jobs})
    return f"{counted(n, 'job')} of {listed(names)} are made up, so no figure is of your own system" if names else None


def _predicted(done: Recommendation) -> str | None:
    first = done.ranking.iloc[0]
    said = f"The first package was not simulated: its mean wait of {duration(first['mean_wait_time'])} is predicted"
    return None if first["simulated"] else said


def _left_out(done: Recommendation) -> str | None:
    n = int(done.ranking["jobs_left_out"].iloc[0])
    if not n:
        return None
    jobs = pd.concat(jobs_on(done.results, done.results.counts[done.first]), ignore_index=True)
    asked = {name: _work(jobs, f"{name.lower()}s") for name in ("CPU", "GPU")}
    share, of = max((one[jobs["wait"].isna()].sum() / max(one.sum(), 1e-9), name) for name, one in asked.items())
    which = f"{counted(n, 'job')} of {done.case.n_jobs:,}, with {100 * share:.0f} % of the {of}-hours,"
    return f"{which} can never run on the first package, nor on any that leaves fewer"


def _longer_than_logged(done: Recommendation) -> str | None:
    here, logged = against_log(done) or (0.0, 0.0)
    if here <= logged or duration(here) == duration(logged):
        return None
    return f"Jobs wait {duration(here)} on average on the first package; in the log they waited {duration(logged)}"


def _few_jobs(done: Recommendation) -> str | None:
    few = concentration(done).get("few") if done.ranking["simulated"].iloc[0] else None
    if few is None:
        return None
    n, users, make = few["n_jobs"], few["users"], "makes" if few["n_jobs"] == 1 else "make"
    jobs = f"{counted(n, 'job')} of {done.case.n_jobs:,} ({100 * few['share_of_jobs']:.2f} %)"
    whose = f", of user{'s' * (len(users) > 1)} {listed(users)}" if users else ""
    which = f"{few['n_of_request']:,} on {request_text(few['request'])}{whose}"
    return f"{jobs} {make} {100 * few['share_of_waiting']:.0f} % of the waiting: {which}"


def _costly_rule(done: Recommendation) -> str | None:
    """Name the dearest rule of the packages, and the dearest bound on what may be bought."""
    found = _costly_bounds(done)
    for one in done.rule_costs:
        saved, more = one.before - one.value, one.before_left_out - one.jobs_left_out
        costs = more > 0 or (saved > COSTLY * one.before and (one.unit != "s" or saved >= NOTHING))
        if one.package_id is not None and costs:
            runs = f" and {counted(more, 'more job')} can run" if more > 0 else ""
            text = f"Without {one.called} the same money waits {with_unit(one.value, one.unit)}{runs}"
            found.append((saved / max(one.before, 1e-9), f"{text}, not {with_unit(one.before, one.unit)}"))
    return max(found)[1] if found else None


def _costly_bounds(done: Recommendation) -> list[tuple[float, str]]:
    values, row = done.package_values, done.first
    wait = values.mean_wait
    alike = values.simulated & (values.whole.left_out <= values.whole.left_out[row])
    keeps = [one.holds(values.value(one.of)[0]) for one in done.criteria.constraints] if values.simulated[row] else []
    found = []
    for place, bound in enumerate(done.criteria.constraints if keeps else ()):
        able = np.logical_and.reduce([alike, *keeps[:place], *keeps[place + 1 :]])
        best = float(wait[able].min()) if able.any() else np.inf
        if wait[row] - best > COSTLY * wait[row] and wait[row] - best >= NOTHING:
            text = f"Without the bound {bound.text} jobs wait {duration(best)}, not {duration(wait[row])}"
            found.append(((wait[row] - best) / wait[row], text))
    return found


def _work(jobs: pd.DataFrame, resource: str) -> np.ndarray:
    jobs = as_logged(jobs)
    took = (jobs["end_time"] - jobs["start_time"]).fillna(jobs["run_time"])
    return (jobs[f"{resource}_per_node"] * jobs["n_nodes"] * took).to_numpy("float64")


def load(done: Recommendation) -> dict[str, float]:
    """Return how much of each resource of the first package and the existing nodes the jobs keep busy.

    By resource that some job asks for: resource-seconds of the jobs that count and can run, over capacity times the
    time in which they were submitted; the largest of all workloads. Empty where all came at once.
    """
    plan, counts, found = done.results.plan, done.results.counts[done.first], dict[str, float]()
    nodes = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
    for jobs in jobs_on(done.results, counts):
        span = float(jobs["submit_time"].max() - jobs["submit_time"].min())
        for resource in _RESOURCES:
            asked = float(_work(jobs, resource)[jobs["start_time"].notna()].sum())
            there = float(nodes[resource].sum())
            if asked > 0 and there > 0 and span > 0:
                found[resource] = max(found.get(resource, 0.0), asked / (there * span))
    return found


def _below_demand(done: Recommendation) -> str | None:
    used, of = max(((share, name) for name, share in load(done).items()), default=(0.0, ""))
    if used <= 1:
        return None
    ask = f"The jobs ask for {used:.2f} times the {_RESOURCES[of]} that the first package has while they are submitted"
    return f"{ask}, so its queue grows to the end, and a longer log would show longer waits"


def _far_above(done: Recommendation) -> str | None:
    values, row = done.package_values, done.first
    alike, wait = values.simulated & (values.whole.left_out == values.whole.left_out[row]), values.mean_wait
    if alike.sum() < 2 or not values.simulated[row]:
        return None
    apart, used = float(np.median(wait[alike])) - wait[row], load(done)
    if min(apart, wait[row]) >= NOTHING or not used or max(used.values()) >= IDLE:
        return None
    most = max(used, key=used.__getitem__)
    told = f"they wait only {duration(wait[row])} on the first package: less money may do"
    if apart < NOTHING:
        longer = f"only {duration(apart)} longer than" if apart else "as long as"
        told = f"the middle of {alike.sum():,} packages waits {longer} the first: waits do not tell packages apart"
    return f"The jobs keep {100 * used[most]:.0f} % of the {_RESOURCES[most]} busy, and {told}"


def _unknown(done: Recommendation) -> str | None:
    plan = done.results.plan
    jobs = pd.concat([plan.workloads[case.name] for case in done.results.cases], ignore_index=True)
    nodes = jobs[jobs["n_tasks"].fillna(0) == 0] if "n_tasks" in jobs else jobs
    spread = bool(len(nodes)) and (nodes["cpus_per_node"] == 1).all() and (nodes["n_nodes"] > 1).any()
    what = {"asks for memory": as_logged(jobs)["mem_mb_per_node"], "has a time limit": jobs["requested_time"]}
    known = {name: int((values > 0).sum()) for name, values in what.items()}
    few = {name: n for name, n in known.items() if n < FEW_TOLD * len(jobs)}
    said = [f"{f'only {n:,}' if n else 'none'} of the {len(jobs):,} jobs {name}" for name, n in few.items()]
    said += ["how processors stood on nodes is not known, and each counts as a node"] if spread else []
    return joined(said)[:1].upper() + joined(said)[1:] if said else None


def _far_from_log(done: Recommendation) -> str | None:
    replay = done.waited.fidelity
    if replay is None or not done.waited.far:
        return None
    here, truth = (duration(replay["by_class"][0][name]) for name in ("simulated_mean", "logged_mean"))
    nodes = replay["nodes"]
    return f"Replayed on {nodes}, the jobs of the log wait {here} on average; in truth they waited {truth}"


def _not_told_apart(done: Recommendation) -> str | None:
    alike = None if done.confidence is None else done.confidence.table["alike"]
    if alike is None or not alike.notna().all() or alike.sum() < 2:
        return None
    waits = done.ranking["mean_wait_time"].iloc[: len(alike)][alike.to_numpy(dtype=bool)]
    n, of = int(alike.sum()) - 1, len(alike) - 1
    others = f"any of the {of} others" if n == of > 1 else f"{n} of the {of} others" if of > 1 else "the other"
    low, high = duration(waits.min()), duration(waits.max())
    wait = f"all wait {low}" if low == high else f"their waits are {low} to {high}"
    told = f"On jobs drawn anew from the log the first package cannot be told apart from {others}"
    return f"{told} that it was compared with; {wait}"


def _turns(done: Recommendation) -> str | None:
    of = done.other_loads or {"loads": [], "n_packages": 0}
    for one in of["loads"]:
        if one["load"] == 1.2 and one["regret_seconds"] > TURNS * one["mean_wait_time"]:
            less, wait = duration(one["regret_seconds"]), duration(one["mean_wait_time"])
            leads = f"With 1.2 times the load another package leads: {one['leader']} waits {less} less than the {wait}"
            return f"{leads} of the first, which is then number {one['rank']} of {of['n_packages']}"
    return None


ROWS: dict[str, tuple[Callable[[Recommendation], str | None], str]] = {
    "made-up-jobs": (_made_up, "Replay your own: procure buy --jobs LOG"),
    "predicted-leads": (_predicted, "Simulate it before you buy: ask --confirm, or recommend without --no-verify"),
    "jobs-left-out": (_left_out, "Ask for a larger node, or take these jobs out if they are not to run here"),
    "longer-than-logged": (
        _longer_than_logged,
        "Find out which jobs these are before you buy; if today's nodes stay, name them as existing_nodes",
    ),
    "few-jobs": (
        _few_jobs,
        "Ask whether these jobs will come again; recommend --objective median-wait goes less by them",
    ),
    "costly-rule": (_costly_rule, "Ask who needs this rule or bound, and whether it is worth that"),
    "below-demand": (_below_demand, "Give more money, or fewer jobs; compare packages, and read no wait as a forecast"),
    "far-above-demand": (_far_above, "Try a heavier load (procure workload slice --load), or spend less"),
    "unknown-requests": (_unknown, "Name the columns when importing; what a job does not ask for keeps none waiting"),
    "replay-far-from-log": (
        _far_from_log,
        "Compare packages by these waits, and promise none; procure site fit looks for the rules",
    ),
    "not-told-apart": (_not_told_apart, "Choose among them by what no simulation knows: delivery, service, space"),
    "turns-with-load": (_turns, "If the load will grow, weigh that package, too"),
}
"""By name, in the order in which they are said: what says it where it holds, and what to do."""
