"""What would an expert say against the answer? One row for each objection: when it holds, its number, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from procure.packages.nodes import package_nodes
from procure.packages.runnable import request_text
from procure.recommender.recommendation import Recommendation
from procure.recommender.waiting import against_log, concentration
from procure.schemas import as_logged
from procure.sweep.trial import replayed
from procure.text import counted, duration, listed, with_unit
from procure.workload.replay import counted_jobs

COSTLY = 0.1
"""A rule or a bound that costs more than this share of the wait is objected to."""
TURNS = 0.01
"""The choice turns where another package waits at least this share less."""
NOTHING = 60.0
"""Seconds of wait below which a difference says nothing."""
IDLE = 0.5
"""Below this share of every resource in use, capacity may be far above demand."""
_RESOURCES = {"cpus": "CPUs", "mem_mb": "memory", "gpus": "GPUs"}


class Objection(NamedTuple):
    """What holds against an answer.

    ``name`` is of its row, for programs; ``sentence`` what is wrong, with its number; ``advice`` what to do about it.
    """

    name: str
    sentence: str
    advice: str

    def __str__(self) -> str:
        """Return both as text."""
        return f"{self.sentence}. {self.advice}."


class _Row(NamedTuple):
    holds: Callable[[Recommendation], str | None]
    advice: str


def objections(done: Recommendation) -> list[Objection]:
    """Return what holds against the first package of a list, in the order of `ROWS`; of a front, nothing.

    Parameters
    ----------
    done
        The list.
    """
    if done.front is not None or not len(done.ranking):
        return []
    said = ((name, row.holds(done), row.advice) for name, row in ROWS.items())
    return [Objection(name, sentence, advice) for name, sentence, advice in said if sentence is not None]


def _made_up(done: Recommendation) -> str | None:
    study = done.results.plan.study
    if not study.made_up:
        return None
    n = sum(len(done.results.plan.workloads[name]) for name in study.made_up if name in done.results.plan.workloads)
    return f"{counted(n, 'job')} of {listed(study.made_up)} are made up, so no figure is of your own system"


def _predicted(done: Recommendation) -> str | None:
    first = done.ranking.iloc[0]
    if first["simulated"]:
        return None
    return f"The first package was not simulated: its mean wait of {duration(first['mean_wait_time'])} is predicted"


def _left_out(done: Recommendation) -> str | None:
    n = int(done.ranking["jobs_left_out"].iloc[0])
    if not n:
        return None
    return (
        f"{counted(n, 'job')} of {done.case.n_jobs:,} can never run on the first package, nor on any that leaves fewer"
    )


def _longer_than_logged(done: Recommendation) -> str | None:
    waits = against_log(done)
    if waits is None or waits[0] <= waits[1] or duration(waits[0]) == duration(waits[1]):
        return None
    return (
        f"Jobs wait {duration(waits[0])} on average on the first package; in the log they waited {duration(waits[1])}"
    )


def _few_jobs(done: Recommendation) -> str | None:
    few = concentration(done, _row(done)).get("few") if done.ranking["simulated"].iloc[0] else None
    if few is None:
        return None
    users = few["users"]
    whose = f", of user{'s' * (len(users) > 1)} {listed(users)}" if users else ""
    many = "makes" if few["n_jobs"] == 1 else "make"
    return (
        f"{counted(few['n_jobs'], 'job')} of {done.case.n_jobs:,} ({few['share_of_jobs']:.2%}) {many} "
        f"{few['share_of_waiting']:.0%} of the waiting: {few['n_of_request']:,} on "
        f"{request_text(few['request'])}{whose}"
    )


def _costly_rule(done: Recommendation) -> str | None:
    """Name the dearest rule of the packages, and the dearest bound on what may be bought."""
    found: list[tuple[float, str]] = []
    for one in done.rule_costs:
        if one.package_id is None:
            continue
        saved, more = one.before - one.value, one.before_left_out - one.jobs_left_out
        if more > 0 or (saved > COSTLY * one.before and (one.unit != "s" or saved >= NOTHING)):
            runs = f" and {counted(more, 'more job')} can run" if more > 0 else ""
            text = f"Without {_quoted(one.rule)} the same money waits {with_unit(one.value, one.unit)}{runs}"
            found.append((saved / max(one.before, 1e-9), f"{text}, not {with_unit(one.before, one.unit)}"))
    found += _costly_bounds(done)
    return max(found)[1] if found else None


def _costly_bounds(done: Recommendation) -> list[tuple[float, str]]:
    values, row = done.package_values, _row(done)
    wait = values.whole.wait
    alike = values.simulated & (values.whole.left_out <= values.whole.left_out[row]) & ~np.isnan(wait)
    if not values.simulated[row]:
        return []
    keeps = [one.holds(values.value(one.of)[0]) for one in done.criteria.bounds]
    found = []
    for place, bound in enumerate(done.criteria.bounds):
        others = [one for i, one in enumerate(keeps) if i != place]
        able = alike & np.logical_and.reduce(others) if others else alike
        best = float(wait[able].min()) if able.any() else np.inf
        if wait[row] - best > COSTLY * wait[row] and wait[row] - best >= NOTHING:
            text = f"Without the bound {bound.text} jobs wait {duration(best)}, not {duration(wait[row])}"
            found.append(((wait[row] - best) / wait[row], text))
    return found


def _quoted(rule: str) -> str:
    return f"the rule {rule}" if "=" in rule else rule


def load(done: Recommendation) -> dict[str, float]:
    """Return how much of each resource of the first package and the existing nodes the jobs keep busy.

    Returns
    -------
    dict
        By resource that some job asks for: resource-seconds of the jobs that count, over capacity times the time in
        which they were submitted; the largest of all workloads. Empty where all came at once.
    """
    results, found = done.results, dict[str, float]()
    plan, counts = results.plan, results.counts[_row(done)]
    nodes = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes, plan.existing)
    for case in results.cases:
        run, _ = replayed(plan, counts, case.name, results.policy)
        jobs = as_logged(counted_jobs(run.schedule, plan.warm_up(case.name)))
        span = float(jobs["submit_time"].max() - jobs["submit_time"].min())
        took = (jobs["end_time"] - jobs["start_time"]).fillna(jobs["run_time"]).to_numpy(dtype="float64")
        for resource in _RESOURCES:
            asked = (jobs[f"{resource}_per_node"] * jobs["n_nodes"]).to_numpy(dtype="float64") @ took
            there = float(nodes[resource].sum())
            if asked > 0 and there > 0 and span > 0:
                found[resource] = max(found.get(resource, 0.0), asked / (there * span))
    return found


def _below_demand(done: Recommendation) -> str | None:
    most = max(load(done).items(), key=lambda one: one[1], default=None)
    if most is None or most[1] <= 1:
        return None
    return (
        f"The jobs ask for {most[1]:.2f} times the {_RESOURCES[most[0]]} that the first package has while they are "
        "submitted, so its queue grows and its wait says how long was looked"
    )


def _far_above(done: Recommendation) -> str | None:
    values, row = done.package_values, _row(done)
    alike = values.simulated & (values.whole.left_out == values.whole.left_out[row]) & ~np.isnan(values.whole.wait)
    waits = values.whole.wait[alike]
    if alike.sum() < 2 or not values.simulated[row]:
        return None
    apart, used = float(np.median(waits)) - values.whole.wait[row], load(done)
    if apart >= NOTHING or not used or max(used.values()) >= IDLE:
        return None
    most = max(used, key=used.__getitem__)
    return (
        f"The jobs keep {used[most]:.0%} of the {_RESOURCES[most]} busy, and the middle of {alike.sum():,} packages "
        f"waits only {duration(apart)} longer than the first: waits do not tell packages apart"
    )


def _unknown(done: Recommendation) -> str | None:
    """Say what the logs do not tell of any job."""
    plan = done.results.plan
    jobs = pd.concat([plan.workloads[case.name] for case in done.results.cases], ignore_index=True)
    missing = []
    if not as_logged(jobs)["mem_mb_per_node"].any():
        missing.append("its memory")
    if not jobs["requested_time"].any():
        missing.append("its time limit")
    if (jobs["cpus_per_node"] == 1).all() and (jobs["n_nodes"] > 1).any():
        missing.append("how its processors stood on nodes (each counts as a node)")
    return f"The log tells of none of its {len(jobs):,} jobs {' nor '.join(missing)}" if missing else None


def _far_from_log(done: Recommendation) -> str | None:
    replay = done.waited.fidelity
    if replay is None or not done.waited.far:
        return None
    of = replay["by_class"][0]
    return (
        f"Replayed on {replay['nodes']}, the jobs of the log wait {duration(of['simulated_mean'])} on average; in "
        f"truth they waited {duration(of['logged_mean'])}"
    )


def _not_told_apart(done: Recommendation) -> str | None:
    sure = done.confidence
    if sure is None or len(sure.table) < 2 or not sure.table["alike"].notna().all():
        return None
    n = int(sure.table["alike"].sum()) - 1
    if n < 1:
        return None
    waits = done.ranking["mean_wait_time"].iloc[: len(sure.table)][sure.table["alike"].to_numpy(dtype=bool)]
    return (
        f"These jobs do not tell the first package from {counted(n, 'other')} of {len(sure.table) - 1} that it "
        f"was compared with; their waits are {duration(waits.min())} to {duration(waits.max())}"
    )


def _turns(done: Recommendation) -> str | None:
    if done.other_loads is None:
        return None
    for one in done.other_loads["loads"]:
        if one["load"] == 1.2 and one["regret_seconds"] > TURNS * one["mean_wait_time"]:
            return (
                f"With 1.2 times the load another package leads: {one['leader']} waits "
                f"{duration(one['regret_seconds'])} less than the {duration(one['mean_wait_time'])} of the first, "
                f"which is then number {one['rank']} of {done.other_loads['n_packages']}"
            )
    return None


def _row(done: Recommendation) -> int:
    return int(done.ranking["row"].iloc[0])


ROWS: dict[str, _Row] = {
    "made-up-jobs": _Row(_made_up, "Replay your own: procure buy --jobs LOG"),
    "predicted-leads": _Row(_predicted, "Simulate it before you buy: leave out --no-verify"),
    "jobs-left-out": _Row(_left_out, "Ask for a larger node, or take these jobs out if they are not to run here"),
    "longer-than-logged": _Row(
        _longer_than_logged,
        "Find out which jobs these are before you buy; if today's nodes stay, name them as existing_nodes",
    ),
    "few-jobs": _Row(
        _few_jobs, "Ask whether these jobs will come again; --objective median-wait or p95-wait goes less by them"
    ),
    "costly-rule": _Row(_costly_rule, "Ask who needs this rule or bound, and whether it is worth that"),
    "below-demand": _Row(
        _below_demand, "Give more money, or fewer jobs; compare packages, and read no wait as a forecast"
    ),
    "far-above-demand": _Row(_far_above, "Try a heavier load (procure workload slice --load), or spend less"),
    "unknown-requests": _Row(
        _unknown, "Name the columns when importing; what a job does not ask for keeps none waiting"
    ),
    "replay-far-from-log": _Row(
        _far_from_log, "Compare packages by these waits, and promise none; procure site fit looks for the rules"
    ),
    "not-told-apart": _Row(_not_told_apart, "Choose among them by what no simulation knows: delivery, service, space"),
    "turns-with-load": _Row(_turns, "If the load will grow, weigh that package, too"),
}
"""By name: when it holds and what it then says, and what to do."""
