"""One search of a study from beginning to end: rounds of proposals and answers, and what it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.explorer.observations import (
    CriteriaScore,
    Observations,
    Simulator,
    held_farm,
    left_out_of,
    load_inputs,
    workspace,
)
from procure.explorer.propose import FIRST, METHODS, ByModel, Candidates, Proposer, make_proposer
from procure.objectives.constraints import price_bound
from procure.progress import silent
from procure.recommender.recommendation import heading
from procure.recommender.values import Criteria, criteria_of
from procure.settings import MOST_COUNTED
from procure.study import Plan, Study, load_study
from procure.study.rules import search_budget
from procure.sweep import FarmOptions
from procure.sweep.results import policy_of
from procure.sweep.trial import about_limits
from procure.text import Shown, counted, nearest

Answer = Callable[[np.ndarray], np.ndarray]
"""From counts, int64 (packages, types), to values, float64 (packages,) or (values, packages); NaN = it failed."""

SHORTEST = 50
"""A list of three is soon stable by chance: at least this many first packages must be."""

GROWTH = 6
"""A round is a sixth of the packages so far, but at least the batch."""


@dataclass(frozen=True)
class Rules:
    """When a search ends, and how large its rounds are.

    At most ``n_packages`` are simulated, in rounds of at least ``batch``; it ends after ``stable_rounds`` rounds in a
    row that did not change the first ``k`` of the list, 0 = only when the budget is spent.
    """

    n_packages: int
    k: int = 50
    batch: int = 24
    stable_rounds: int = 5


@dataclass
class Progress:
    """What a search has done, and why it ended (``budget``, ``stable``, ``exhausted``)."""

    n_rounds: int = 0
    n_asked: int = 0
    n_unchanged: int = 0
    ended: str = ""


def run_rounds(
    known: Observations,
    candidates: Candidates,
    proposer: Proposer,
    answer: Answer,
    rules: Rules,
    on_round: Callable[[Progress], None] = silent,
) -> Progress:
    """Propose and simulate packages round by round; ``known`` at the beginning is modified.

    The list is stable if, for ``rules.stable_rounds`` rounds in a row, no package of the round came among the first k
    of all. Rounds turn on the seed and on what is known alone: begun again with answers that are kept, a search comes
    to the same end, and a larger budget goes on where a smaller one ended.
    """
    done, k = Progress(), max(rules.k, SHORTEST)
    while done.n_asked < rules.n_packages:
        if rules.stable_rounds and done.n_unchanged >= rules.stable_rounds:
            done.ended = "stable"
            return done
        size = max(rules.batch, FIRST if done.n_rounds == 0 else done.n_asked // GROWTH)
        new = proposer.propose(known, done.n_rounds, size)
        if not len(new):
            done.ended = "exhausted"
            return done
        counts = new[: rules.n_packages - done.n_asked]
        done.n_asked += len(counts)
        counts, first = counts[~known.has(counts)], set(known.order()[:k].tolist())
        if len(counts):
            known.add(counts, answer(counts), candidates.left_out(counts))
        same = first == set(known.order()[:k].tolist())
        done.n_unchanged = done.n_unchanged + 1 if same and len(first) == k else 0
        done.n_rounds += 1
        on_round(done)
    done.ended = "budget"
    return done


@dataclass(frozen=True)
class SearchResult(Shown):
    """What a search found.

    ``ranking`` has the packages that it knows, all simulated, best first: the package table with ``rank``,
    ``mean_wait_time`` and ``jobs_left_out``; by another objective, or with constraints, also ``satisfies``,
    ``objective_value`` and what is constrained. The first ``k`` are shown. ``spent`` is what it cost, ``types`` are
    columns of the ranking, ``limits`` says how many jobs are cut at their limit on the first package.
    """

    name: str
    criteria: Criteria
    k: int
    ranking: pd.DataFrame
    spent: dict[str, object]
    types: list[str]
    limits: str

    @property
    def title(self) -> str:
        """What the list is of."""
        plain, n = self.criteria == Criteria(), min(self.k, len(self.ranking))
        by = "mean wait" if plain else heading(self.criteria.objective)
        return f"{self.name}: the first{f' {n}' if n > 1 else ''}, all simulated, by {by}"

    @property
    def notes(self) -> list[str]:
        """What the user should know of the list, a sentence each."""
        top, of = self.ranking.head(self.k), self.criteria.objective
        column = "objective_value" if "objective_value" in top else "mean_wait_time"
        lines = []
        if "satisfies" in top and not top["satisfies"].all():
            n = f"{int(self.ranking['satisfies'].sum()):,} of the {len(self.ranking):,} packages"
            lines.append(f"{n} that were simulated satisfy the constraints; the others follow")
        if len(top) > 1 and top[column].eq(top[column].iloc[0]).all():
            same = f"all {len(top)} have the same {of.name}, {top[column].iloc[0]:,.1f} {of.unit}"
            may = "a longer list, a busier day or `procure workload slice --load` may"
            lines.append(f"{same}: this workload cannot tell them apart; {may}")
        return [*lines, self.limits]

    def shown(self) -> pd.DataFrame:
        """Return the list as a table for people."""
        top = self.ranking.head(self.k)
        table = top[["rank", "package_id"]].assign(price_usd=top["price_usd"].round().astype("int64"))
        if "objective_value" in top:
            table[heading(self.criteria.objective)] = top["objective_value"].round(3)
            table["satisfies"] = top["satisfies"]
        table["wait_s"] = top["mean_wait_time"].round(1)
        return table.assign(left_out=top["jobs_left_out"]) if top["jobs_left_out"].any() else table

    def records(self) -> list[dict[str, object]]:
        """Return the first k as plain records, as ``procure search --format json`` prints them."""
        fixed = "rank package_id price_usd mean_wait_time jobs_left_out total_cpus total_mem_gb total_gpus".split()
        rows = []
        for row in self.ranking.head(self.k).to_dict(orient="records"):
            one = {name: row[name] for name in fixed}
            one["counts"] = {name: int(row[name]) for name in self.types if row[name]}
            if self.criteria != Criteria():
                one |= {"objective": self.criteria.objective.name, "objective_value": row["objective_value"]}
                one |= {"objective_unit": self.criteria.objective.unit, "satisfies": row["satisfies"]}
                one["constrained"] = {bound.of.name: row[bound.of.name] for bound in self.criteria.constraints}
            rows.append(one)
        return rows

    def summary(self) -> str:
        """Return the list as text, with the notes and what was spent."""
        spent = f"{self.spent['n_runs_computed']:,} runs computed, ended by: {self.spent['ended']}"
        return f"{super().summary()}\n- {spent}"


def search(
    study: str | Path | Study,
    *,
    method: str = "model",
    objective: str | None = None,
    constraints: Sequence[str] | None = None,
    k: int | None = None,
    policy: str | None = None,
    farm: str = "serial",
    options: FarmOptions | None = None,
    note: Callable[[str], None] = silent,
    progress: Callable[[int, int, float], None] = silent,
) -> SearchResult:
    """Search a study's packages for the best with few simulations, or continue a search.

    Packages that run every job come first, then those that keep the constraints, by the objective.

    Parameters
    ----------
    study
        A study, or the path of its file; its ``[search]`` says how much is spent, and when the search ends:
        ``procure.load_study("study.toml", ["search.runs=250"])``.
    method, objective, constraints, k, policy, farm, options
        See `procure.explorer.propose.METHODS`, `criteria_of` and `procure.sweep.run_sweep`; else the study's.
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
    >>> len(procure.search(procure.load_study("study.toml", ["search.runs=20"]), k=5).ranking)
    29
    """
    options, study = options or FarmOptions(), load_study(study)
    criteria = criteria_of(study, objective, constraints)
    policy, given = _check(study, method, policy, k, criteria), study.search
    plan, space = load_inputs(study, policy, price_bound(criteria.constraints))
    for text in plan.notes:
        note(text)
    listed = space.listed()
    stable = given.stable_rounds if method == "model" else 0  # the published rule spends what it is given
    rules = Rules(_budget(plan, listed), k or given.k, given.batch, stable)
    candidates = Candidates(space, left_out_of(plan), given.seed, listed)
    proposer = make_proposer(method, candidates, given.seed, rules.n_packages)
    return _search(CriteriaScore(plan, space, criteria), policy, rules, proposer, (farm, options), note, progress)


def _budget(plan: Plan, listed: np.ndarray | None) -> int:
    """Return the packages that a search may simulate; too few runs for one, and a share of too many, are errors."""
    study, n_workloads = plan.study, len(plan.workloads)
    runs, share = search_budget(study, None if listed is None else len(listed))
    if runs is not None and runs < n_workloads:
        cannot = f"{counted(runs, 'run')} cannot simulate one package on {counted(n_workloads, 'workload')}"
        raise TableError(f"{study.path}: search.runs: {cannot}; give {n_workloads:,} or more")
    if runs is not None:
        return runs // n_workloads
    if listed is None:
        raise TableError(f"{study.path}: search.share: the packages are too many to be listed; give search.runs")
    if (n := round((share or 0.0) * len(listed))) > MOST_COUNTED:
        raise TableError(f"{study.path}: search.share: {n:,} packages are over {MOST_COUNTED:,}; give search.runs")
    return n


def _search(
    score: CriteriaScore,
    policy: str,
    rules: Rules,
    proposer: Proposer,
    workers: tuple[str, FarmOptions],
    note: Callable[[str], None],
    progress: Callable[[int, int, float], None],
) -> SearchResult:
    """Go round by round, with workers that are held for all rounds."""
    began, plan, n, candidates = time.perf_counter(), score.plan, len(score.plan.workloads), proposer.candidates
    by_model = isinstance(proposer, ByModel)
    if candidates.level:
        note(f"no package found runs every job; the best leave out {candidates.level:,}, and only such are simulated")
    folder = workspace(plan.study)
    options = replace(workers[1], folder=folder)  # else jobs would have the names of a sweep's, and end them
    with held_farm(workers[0], options, note) as held:
        simulator = Simulator(score, policy, held, folder, note)
        known = Observations(score.space, score)
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
        raise TableError(f"all {len(known)} packages failed; {folder} says why")
    size = None if candidates.listed is None else len(candidates.listed)
    spent: dict[str, object] = {
        "method": "model" if by_model else "every-tenth", "seed": plan.study.search.seed, "ended": done.ended,
        "n_rounds": done.n_rounds, "n_packages_asked": done.n_asked, "n_runs_asked": done.n_asked * n,
        "n_runs_computed": simulator.n_computed, "n_failed": simulator.n_failed, "n_from_sweep": n_swept,
        "n_packages_in_space": size, "about_in_space": None if size is None else float(size),
        "seconds": round(time.perf_counter() - began, 1), "kernel_seconds": round(simulator.kernel_seconds, 1),
        "folder": str(folder),
    }  # fmt: skip
    ranking = _ranking(known, score)
    first = ranking[plan.types].iloc[0].to_numpy(np.int64)
    limits = about_limits(plan, first, plan.workloads, policy, "the first package")
    return SearchResult(plan.study.name, score.criteria, rules.k, ranking, spent, plan.types, limits)


def _check(study: Study, method: str, policy: str | None, k: int | None, criteria: Criteria) -> str:
    """Refuse arguments that are wrong; return the policy."""
    if method not in METHODS:
        gone = "it was a baseline, and is in benchmarks/search_claims.py; leave it out"
        known = gone if method == "random" else nearest(method, METHODS)
        raise ArgumentError("method", f"{method!r} is unknown; {known}")
    if k is not None and k < 1:
        raise ArgumentError("k", f"{k} was given; it must be 1 or more")
    policy = policy_of(study, policy)
    if not criteria.need_runs:
        known = f"{criteria.objective.name} is known for every package without simulation"
        bound = "bound the wait, e.g. --constraint 'mean_wait<=1h', or use procure recommend"
        raise ArgumentError("objective", f"{known}, so there is nothing to search; {bound}")
    return policy


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
        for one in criteria.constraints:
            table[one.of.name] = values.value(one.of)[0]
    return table
