"""One search of a study from beginning to end."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.explorer.candidates import Candidates
from procure.explorer.engine import Progress, Rules, run_rounds
from procure.explorer.observations import CriteriaScore, Observations
from procure.explorer.oracle import RoundLog, Simulator, held_farm, left_out_of, load_inputs, workspace
from procure.explorer.propose import METHODS, make_proposer
from procure.explorer.question import Question
from procure.explorer.result import SearchResult
from procure.objectives.constraints import price_bound
from procure.progress import silent
from procure.recommender.criteria import Criteria, criteria_of
from procure.settings import MOST_COUNTED
from procure.study import Study, load_study
from procure.study.rules import search_budget
from procure.sweep import FarmOptions
from procure.sweep.results import policy_of
from procure.sweep.trial import about_limits
from procure.text import counted, file_name, nearest


def search(
    study: str | Path | Study,
    *,
    runs: int | None = None,
    share: float | None = None,
    method: str = "model",
    objective: str | None = None,
    constraints: Sequence[str] | None = None,
    k: int | None = None,
    batch: int | None = None,
    stable_rounds: int | None = None,
    seed: int | None = None,
    policy: str | None = None,
    farm: str = "serial",
    options: FarmOptions | None = None,
    note: Callable[[str], None] = silent,
    progress: Callable[[int, int, float], None] = silent,
) -> SearchResult:
    """Search a study's packages for the best with few simulations, or continue a search.

    Packages that run every job come first, then those that satisfy the constraints and the study's targets, by the
    objective.

    Parameters
    ----------
    study
        A study, or the path of its file.
    runs, share
        Simulations to spend in all, or the share of all packages that is simulated on every workload.
    method
        One of `procure.explorer.propose.METHODS`.
    objective, constraints
        See `procure.recommender.criteria.criteria_of`.
    k, batch, stable_rounds
        See `procure.explorer.engine.Rules`.
    seed
        Of all random choices. What is not given is the study's.
    policy
        One of the study's; default: its first.
    farm, options
        Where runs are computed, see `procure.sweep.run_sweep`.
    note
        Called with what the user should know.
    progress
        Called after each round with the runs asked for, those allowed, and the least value of the objective.

    Raises
    ------
    ArgumentError
        An argument is wrong.
    TableError
        A bad study, no budget for one package, or the folder is not to be used.

    Examples
    --------
    >>> import procure
    >>> len(procure.search("study.toml", runs=20, k=5).ranking)
    29
    """
    began, options = time.perf_counter(), options or FarmOptions()
    study = load_study(study)
    criteria = criteria_of(study, objective, constraints)
    rules = _rules(study, k=k, batch=batch, stable_rounds=stable_rounds)
    seed = study.search.seed if seed is None else seed
    policy = _check(study, runs, share, method, policy, criteria)
    plan, space = load_inputs(study, policy, price_bound(criteria.constraints))
    asked = Question(plan, policy, space, criteria, seed)
    for text in plan.notes:
        note(text)
    listed = space.listed()
    n_known = float(len(listed)) if listed is not None else space.size()
    n_workloads = len(plan.workloads)
    given = share
    if runs is None and share is None:
        runs, share = search_budget(study, n_known)
    try:
        runs = runs or _share_of(share or 0.0, n_known, listed is not None) * n_workloads
    except ArgumentError as error:
        if given is not None:
            raise
        raise TableError(f"{study.path}: search.share: {error}") from None
    if runs < n_workloads:
        raise TableError(
            f"{counted(runs, 'run')} cannot simulate one package on {counted(n_workloads, 'workload')}; give runs "
            f"{n_workloads:,} or more"
        )
    # The baselines spend what they are given.
    rules = Rules(runs // n_workloads, rules.k, rules.batch, rules.stable_rounds if method == "model" else 0)
    candidates = Candidates(space, left_out_of(plan), seed, listed)
    if candidates.level:
        note(f"no package found runs every job; the best leave out {candidates.level:,}, and only such are simulated")
    score = CriteriaScore(plan, space, criteria)
    with contextlib.ExitStack() as stack:
        folder, kept = stack.enter_context(workspace(study, note))
        options = replace(options, folder=folder)  # else jobs would have the names of a sweep's, and end them
        held, options = stack.enter_context(held_farm(farm, options, note))
        log = _log(asked, method, rules, folder)
        simulator = Simulator(asked, score.columns, held, options, folder, note)
        known = Observations(space, score)
        if method == "model" and len(simulator.swept):
            counts, answers = simulator.counts_of(simulator.swept)
            known.add(counts, answers, candidates.left_out(counts))
            note(f"learning from {len(counts):,} packages that the study's sweep has simulated")
        n_swept, before, n_rounds = len(known), log.read(), 0

        def report(done: Progress) -> None:
            nonlocal n_rounds
            n_rounds += 1
            order = known.order()
            best = float(known.value[order[0]]) if len(order) else float("nan")
            progress(done.n_asked * n_workloads, rules.n_packages * n_workloads, best)

        proposer = make_proposer(method, candidates, seed, rules.n_packages)
        done = run_rounds(known, candidates, proposer, simulator, rules, before, report, log.write)
    if not len(known.order()):
        raise TableError(f"all {len(known)} packages failed; {simulator.folder} says why")
    spent: dict[str, object] = {
        "method": method,
        "seed": seed,
        "ended": done.ended,
        "n_rounds": n_rounds,
        "n_rounds_of_earlier_calls": min(n_rounds, len(before)),
        "n_packages_asked": done.n_asked,
        "n_runs_asked": done.n_asked * n_workloads,
        "n_runs_computed": simulator.n_computed,
        "n_failed": simulator.n_failed,
        "n_from_sweep": n_swept,
        "n_packages_in_space": len(listed) if listed is not None else None,
        "about_in_space": n_known,
        "seconds": round(time.perf_counter() - began, 1),
        "kernel_seconds": round(simulator.kernel_seconds, 1),
        "folder": str(folder) if kept else None,
    }
    return _result(asked, score, known, rules.k, spent, _elsewhere(known, simulator, candidates))


def _result(
    asked: Question,
    score: CriteriaScore,
    known: Observations,
    k: int,
    spent: dict[str, object],
    elsewhere: tuple[str, float] | None,
) -> SearchResult:
    plan, ranking = asked.plan, _ranking(known, score)
    first = ranking[plan.types].iloc[0].to_numpy(np.int64)
    limits = about_limits(plan, first, plan.workloads, asked.policy, "the first package")
    return SearchResult(plan.study.name, score.criteria, k, ranking, spent, elsewhere, plan.types, limits)


def _check(
    study: Study, runs: int | None, share: float | None, method: str, policy: str | None, criteria: Criteria
) -> str:
    """Refuse arguments that are wrong; return the policy."""
    if method not in METHODS:
        raise ArgumentError("method", f"{method!r} is unknown; {nearest(method, METHODS)}")
    if runs is not None and share is not None:
        raise ArgumentError("share", "give runs or share")
    if share is not None and not 0 < share <= 1:
        raise ArgumentError("share", f"{share:g} was given; a share is above 0 and at most 1")
    if runs is not None and runs < 1:
        raise ArgumentError("runs", f"{runs} was given; it must be 1 or more")
    policy = policy_of(study, policy)
    if not criteria.need_runs:
        raise ArgumentError(
            "objective",
            f"{criteria.objective.name} is known for every package without simulation, so there is nothing to search; "
            "bound the wait, e.g. --constraint 'mean_wait<=1h', or use procure recommend",
        )
    return policy


def _share_of(share: float, n: float, counted: bool) -> int:
    """Return how many packages a share is, of ``n`` or, where they were not counted, of at least so many."""
    if not counted and not n:
        raise ArgumentError(
            "share", "the packages are too many to be listed, and of how many is not known; give runs instead"
        )
    if share * n > MOST_COUNTED:
        raise ArgumentError(
            "share",
            f"{share:g} of {'' if counted else 'more than '}{n:,.3g} packages is over {MOST_COUNTED:,}; "
            "give runs instead",
        )
    return round(share * n)


def _rules(study: Study, **given: int | None) -> Rules:
    """Return when the search ends, but for its budget; what is not given is the study's."""
    for name, value in given.items():
        least = 0 if name == "stable_rounds" else 1
        if value is not None and value < least:
            raise ArgumentError(name, f"{value} was given; it must be {least} or more")
    return Rules(0, **{name: getattr(study.search, name) if value is None else value for name, value in given.items()})


def _log(asked: Question, method: str, rules: Rules, folder: Path) -> RoundLog:
    study, criteria = asked.plan.study, asked.criteria
    settings: dict[str, object] = {
        "method": method,
        "seed": asked.seed,
        "batch": rules.batch,
        "policy": asked.policy,
        "packages": study.packages.model_dump(mode="json", exclude={"existing_nodes"}),
    }
    weights = {workload.name: workload.weight for workload in study.scenarios}
    if any(weight != 1 for weight in weights.values()):
        settings["weights"] = weights
    name = f"{method}.seed{asked.seed}.batch{rules.batch}.{file_name(asked.policy)}"
    if method == "every-tenth":
        # The published rule depends on how much may be spent.
        settings["n_packages"] = rules.n_packages
        name += f".{rules.n_packages}"
    if criteria != Criteria():
        wanted = [criteria.objective.name, *(one.text for one in criteria.constraints)]
        wanted += [f"{one.job_class}: {one.text}" for one in criteria.targets]
        settings["criteria"] = wanted
        name += "." + hashlib.sha256("\0".join(wanted).encode()).hexdigest()[:8]
    return RoundLog(folder / f"{name}.json", settings, asked.plan.types)


def _ranking(known: Observations, score: CriteriaScore) -> pd.DataFrame:
    order = known.order()
    values, criteria = score.values(known.counts[order], known.answers[:, order]), score.criteria
    table = values.packages.drop(columns="distinct")
    table.insert(0, "rank", np.arange(1, len(order) + 1))
    table.insert(3, "mean_wait_time", values.whole.wait)
    table.insert(4, "jobs_left_out", known.left_out[order])
    if criteria != Criteria():
        table.insert(5, "satisfies", known.violation[order] == 0)
        table.insert(6, "objective_value", known.value[order])
        for one in criteria.bounds:
            table[one.of.name] = values.value(one.of)[0]
    return table


def _elsewhere(known: Observations, simulator: Simulator, candidates: Candidates) -> tuple[str, float] | None:
    """Find the best package of all that this study's searches have simulated, if it is better than the first here."""
    stored = simulator.stored.dropna(how="all")
    if stored.empty:
        return None
    counts, answers = simulator.counts_of(stored)
    other = known.like()
    other.add(counts, answers, candidates.left_out(counts))
    first, best = known.order()[0], other.order()[0]
    here, there = (
        (one.left_out[row], one.violation[row], one.value[row]) for one, row in ((known, first), (other, best))
    )
    return (str(stored.index[best]), float(other.value[best])) if there < here else None
