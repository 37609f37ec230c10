"""One search of a study from beginning to end."""

from __future__ import annotations

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
from procure.explorer.oracle import Question, Simulator, held_farm, left_out_of, load_inputs, workspace
from procure.explorer.propose import METHODS, ByModel, Proposer, make_proposer
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
from procure.text import counted, nearest


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

    Packages that run every job come first, then those that keep constraints and targets, by the objective.

    Parameters
    ----------
    study
        A study, or the path of its file.
    runs, share
        Simulations to spend in all, or the share of all packages that is simulated on every workload.
    method, seed, objective, constraints, k, batch, stable_rounds, policy
        See `procure.explorer.propose.METHODS`, `criteria_of`, `procure.explorer.engine.Rules`; else the study's.
    farm, options
        Where runs are computed, see `procure.sweep.run_sweep`.
    note, progress
        Called with what the user should know, and after each round with the runs asked for, those allowed, and the
        least value of the objective.

    Raises
    ------
    TableError
        A bad study or argument, no budget for one package, or the folder is not to be used.

    Examples
    --------
    >>> import procure
    >>> len(procure.search("study.toml", runs=20, k=5).ranking)
    29
    """
    options, study = options or FarmOptions(), load_study(study)
    criteria = criteria_of(study, objective, constraints)
    rules = _rules(study, k=k, batch=batch, stable_rounds=stable_rounds)
    policy = _check(study, runs, share, method, policy, criteria)
    plan, space = load_inputs(study, policy, price_bound(criteria.constraints))
    asked = Question(plan, policy, space, criteria, study.search.seed if seed is None else seed)
    for text in plan.notes:
        note(text)
    listed = space.listed()
    runs = _budget(asked, runs, share, listed)
    stable = rules.stable_rounds if method == "model" else 0  # the baselines spend what they are given
    rules = replace(rules, n_packages=runs // len(plan.workloads), stable_rounds=stable)
    candidates = Candidates(space, left_out_of(plan), asked.seed, listed)
    proposer = make_proposer(method, candidates, asked.seed, rules.n_packages)
    return _search(asked, rules, proposer, (farm, options), note, progress)


def _budget(asked: Question, runs: int | None, share: float | None, listed: np.ndarray | None) -> int:
    """Return the runs that a search may spend; too few for one package are an error."""
    study, given, n_workloads = asked.plan.study, share, len(asked.plan.workloads)
    n_known = None if listed is None else len(listed)
    if runs is None and share is None:
        runs, share = search_budget(study, n_known)
    try:
        runs = runs or _share_of(share or 0.0, n_known) * n_workloads
    except ArgumentError as error:
        if given is not None:
            raise
        raise TableError(f"{study.path}: search.share: {error}") from None
    if runs < n_workloads:
        raise TableError(
            f"{counted(runs, 'run')} cannot simulate one package on {counted(n_workloads, 'workload')}; give runs "
            f"{n_workloads:,} or more"
        )
    return runs


def _search(
    asked: Question,
    rules: Rules,
    proposer: Proposer,
    workers: tuple[str, FarmOptions],
    note: Callable[[str], None],
    progress: Callable[[int, int, float], None],
) -> SearchResult:
    """Go round by round, with workers that are held for all rounds."""
    began, plan, n, candidates = time.perf_counter(), asked.plan, len(asked.plan.workloads), proposer.candidates
    by_model = isinstance(proposer, ByModel)
    if candidates.level:
        note(f"no package found runs every job; the best leave out {candidates.level:,}, and only such are simulated")
    score, folder = CriteriaScore(plan, asked.space, asked.criteria), workspace(plan.study)
    options = replace(workers[1], folder=folder)  # else jobs would have the names of a sweep's, and end them
    with held_farm(workers[0], options, note) as (held, options):
        simulator = Simulator(asked, score.columns, held, options, folder, note)
        known = Observations(asked.space, score)
        if by_model and len(simulator.swept):
            counts, answers = simulator.counts_of(simulator.swept)
            known.add(counts, answers, candidates.left_out(counts))
            note(f"learning from {len(counts):,} packages that the study's sweep has simulated")
        n_swept = len(known)

        def report(done: Progress) -> None:
            order = known.order()
            best = float(known.value[order[0]]) if len(order) else float("nan")
            progress(done.n_asked * n, rules.n_packages * n, best)

        done = run_rounds(known, candidates, proposer, simulator, rules, report)
    if not len(known.order()):
        raise TableError(f"all {len(known)} packages failed; {simulator.folder} says why")
    spent: dict[str, object] = {
        "method": "model" if by_model else "every-tenth",
        "seed": asked.seed,
        "ended": done.ended,
        "n_rounds": done.n_rounds,
        "n_packages_asked": done.n_asked,
        "n_runs_asked": done.n_asked * n,
        "n_runs_computed": simulator.n_computed,
        "n_failed": simulator.n_failed,
        "n_from_sweep": n_swept,
        "n_packages_in_space": None if candidates.listed is None else len(candidates.listed),
        "seconds": round(time.perf_counter() - began, 1),
        "kernel_seconds": round(simulator.kernel_seconds, 1),
        "folder": str(folder),
    }
    return _result(asked, score, known, rules.k, spent)


def _result(
    asked: Question, score: CriteriaScore, known: Observations, k: int, spent: dict[str, object]
) -> SearchResult:
    plan, ranking = asked.plan, _ranking(known, score)
    first = ranking[plan.types].iloc[0].to_numpy(np.int64)
    limits = about_limits(plan, first, plan.workloads, asked.policy, "the first package")
    return SearchResult(plan.study.name, score.criteria, k, ranking, spent, plan.types, limits)


def _check(
    study: Study, runs: int | None, share: float | None, method: str, policy: str | None, criteria: Criteria
) -> str:
    """Refuse arguments that are wrong; return the policy."""
    if method not in METHODS:
        gone = "was a baseline, and is in benchmarks/search_claims.py; leave it out"
        raise ArgumentError(
            "method", f"random {gone}" if method == "random" else f"{method!r} is unknown; {nearest(method, METHODS)}"
        )
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


def _share_of(share: float, n: int | None) -> int:
    """Return how many packages a share is; of packages that are too many to be listed it is no number."""
    if n is None:
        raise ArgumentError("share", "the packages are too many to be listed; give runs instead")
    if share * n > MOST_COUNTED:
        raise ArgumentError("share", f"{share:g} of {n:,} packages is over {MOST_COUNTED:,}; give runs instead")
    return round(share * n)


def _rules(study: Study, **given: int | None) -> Rules:
    """Return when the search ends, but for its budget; what is not given is the study's."""
    for name, value in given.items():
        least = 0 if name == "stable_rounds" else 1
        if value is not None and value < least:
            raise ArgumentError(name, f"{value} was given; it must be {least} or more")
    return Rules(0, **{name: getattr(study.search, name) if value is None else value for name, value in given.items()})


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
