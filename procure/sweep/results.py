"""A study's results, one case per workload, and the models that are learnt from them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.models import FEATURE_SETS, Predicted, Surrogate, WorkloadWaits, features, make_case
from procure.models.surrogate import learn
from procure.objectives.constraints import price_bound
from procure.packages.costs import total_costs
from procure.packages.enumerate import TooManyPackages
from procure.packages.nodes import count_matrix, counts_of_ids
from procure.packages.space import make_space, package_table
from procure.policies import catalog
from procure.progress import silent
from procure.study import Plan, Study, load_plan, load_study
from procure.study.plan import read_inputs, with_smaller_packages
from procure.study.rules import can_learn, own_constraints
from procure.sweep import read_results
from procure.sweep.parts import PartError, schema_for
from procure.sweep.store import RESULTS, part_files, read_parts
from procure.text import be, counted, listed, nearest

SEARCH_FOLDER = "search"
"""Folder of a search's results within the study's."""

Rule = Literal["runs-all", "published"]
RULES: tuple[str, ...] = get_args(Rule)
"""``runs-all``: packages that run every job first; ``published``: by the mean over the jobs that ran."""
RUNS_ALL, PUBLISHED = RULES
Rankings = dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]
"""By feature set and kind of model: a predicted wait per package, for those that run every job, and by `PUBLISHED`."""


@dataclass(frozen=True)
class StudyResults:
    """A study read in, one policy of it chosen, and a case per workload.

    ``results`` are the result rows of the study's sweep, all policies; ``searched`` those that ``procure search`` has
    simulated in addition, under this policy: they are known, but models learn from the sweep's sample, which was not
    chosen by what a model expected. ``keep``: models are kept beside the results. ``most_usd`` is what a package may
    cost; packages that this buys are listed, too.
    """

    plan: Plan
    policy: str
    results: pd.DataFrame
    cases: list[WorkloadWaits]
    searched: pd.DataFrame = field(default_factory=pd.DataFrame)
    keep: bool = True
    most_usd: float | None = None
    _learnt: dict[tuple[object, ...], Predicted] = field(default_factory=dict, init=False, repr=False)

    @property
    def kept(self) -> Path | None:
        """Where models and predictions are kept; None = nowhere."""
        return self.plan.study.folder / "models" if self.keep else None

    @cached_property
    def features(self) -> np.ndarray:
        """The study's features of every distinct package, float64[packages, features]."""
        choice = self.plan.study.model
        return features(self.cases[0].packages, self.plan.quotes, choice.feature_set).to_numpy()

    @cached_property
    def counts(self) -> np.ndarray:
        """The counts of every distinct package, int64[packages, types]."""
        return self.cases[0].packages[self.plan.types].to_numpy(np.int64)

    @cached_property
    def smaller(self) -> np.ndarray:
        """Which distinct packages are listed for a lower price than the budget only, bool[packages]."""
        n_own = len(self.cases[0].packages)
        if self.plan.n_swept is not None:
            n_own = int(self.plan.packages["distinct"].to_numpy()[: self.plan.n_swept].sum())
        return np.arange(len(self.cases[0].packages)) >= n_own

    @cached_property
    def costs(self) -> pd.DataFrame:
        """What every distinct package costs, see `costs_of`."""
        return costs_of(self.plan, self.cases[0].packages, {case.name: case.weight for case in self.cases})

    def learn(self, case: WorkloadWaits, feature_set: str | None = None, among: np.ndarray | None = None) -> Predicted:
        """Fit the study's model, or read the one that was kept; once for each case."""
        choice = self.plan.study.model
        feature_set, among = feature_set or choice.feature_set, case.runs_all if among is None else among
        asked = (feature_set, case.name, case.column, case.wait.tobytes(), among.tobytes())
        if asked not in self._learnt:
            x = self.features
            if feature_set != choice.feature_set:
                x = features(case.packages, self.plan.quotes, feature_set).to_numpy()
            self._learnt[asked] = learn(case, x, feature_set, choice.folds, choice.seed, among, self.kept)
        return self._learnt[asked]

    def learn_if_possible(
        self, case: WorkloadWaits, feature_set: str | None = None, rule: str = RUNS_ALL
    ) -> Predicted | None:
        """Learn from packages that run every job, or from all if they are few or by the published rule; else None."""
        everyone = np.ones(len(case.wait), dtype=bool)
        for among in (case.runs_all, everyone) if rule == RUNS_ALL else (everyone,):
            if can_learn(int((among & case.simulated).sum()), self.plan.study.model.folds):
                return self.learn(case, feature_set, among)
        return None

    def learn_if_useful(self, case: WorkloadWaits) -> Predicted | None:
        """Learn as `learn_if_possible` does; a model that is no better than a constant is none."""
        found = self.learn_if_possible(case)
        return found if found is not None and found.beats_constant else None

    def why_no_model(self, case: WorkloadWaits) -> str:
        """Say why `learn_if_useful` finds no model of a case: too few packages are simulated, or it knows nothing."""
        found = self.learn_if_possible(case)
        if found is None:
            return few_simulated(case, self.plan.study.model.folds)
        return (
            f"{workloads_of(case)}: what was learnt from {counted(int(case.simulated.sum()), 'simulated package')} "
            f"predicts others hardly better than always answering the mean does (RMSE out of fold "
            f"{found.rmse_seconds:,.1f} s, the mean's {found.constant_rmse_seconds:,.1f} s), so there is no model"
        )

    def rankings(self, case: WorkloadWaits, feature_sets: Sequence[str] = ()) -> Rankings:
        """Predict by feature sets, default all, the study's first; none where too few packages are simulated."""
        choice, found = self.plan.study.model, Rankings()
        for name in feature_sets or sorted(FEATURE_SETS, key=lambda name: name != choice.feature_set):
            both = [self.learn_if_possible(case, name, rule) for rule in RULES]
            waits = [one.wait for one in both if one is not None]
            if len(waits) == len(RULES):
                found[name, Surrogate.kind] = waits[0], waits[1]
        return found


def costs_of(plan: Plan, packages: pd.DataFrame, weights: dict[str, float]) -> pd.DataFrame:
    """Return what packages cost by ``[costs]``, workloads by weight, and their watts with all nodes busy."""
    work, quotes, study = {name: plan.work[name] for name in weights}, plan.quotes, plan.study
    costs = total_costs(packages, quotes, study.costs, work, study.packages, plan.existing, weights)
    unknown = np.full(len(quotes), np.nan)
    watts = quotes["power_w"].to_numpy(dtype="float64") if "power_w" in quotes else unknown
    counts, unstated = count_matrix(packages, quotes), np.isnan(watts)
    power = np.where(counts[:, unstated].any(axis=1), np.nan, counts @ np.nan_to_num(watts))
    return costs.assign(power_w=power)


def few_simulated(case: WorkloadWaits, folds: int) -> str:
    """Say that no model can be learnt."""
    n = int(case.simulated.sum())
    return (
        f"{workloads_of(case)}: {n:,} of {counted(len(case.wait), 'package')} {be(n)} simulated; "
        f"a model with {folds:,}-fold cross-validation needs {2 * folds:,}, so there is none"
    )


def workloads_of(case: WorkloadWaits) -> str:
    """Name a case's workloads; of cases taken together, whose name joins all, the first three of many."""
    names = case.name.split(" + ")
    return case.name if len(names) == 1 else listed(names)


def load_results(
    study: str | Path | Study | StudyResults,
    policy: str | None = None,
    workload: str | None = None,
    search: bool = False,
    most_usd: float | None = None,
) -> StudyResults:
    """Read a study, its inputs and its results.

    Parameters
    ----------
    study
        A study, the path of its file, or its results, which are read again only for another policy or workload.
    policy
        One of the study's policies; None = its first.
    workload
        One of the study's workloads; None = all of them.
    search
        Whether to read what ``procure search`` has simulated, too.
    most_usd
        US$ that a package may cost. Below the budget, the packages that this buys are listed behind the study's.
        Default: what the study's own constraints say.

    Raises
    ------
    ArgumentError
        The study has no such policy or workload.
    TableError
        An input is missing or wrong, or there are no results yet.

    Examples
    --------
    >>> import procure
    >>> results = procure.load_results("study.toml")
    >>> [case.name for case in results.cases]
    ['day']
    """
    if isinstance(study, StudyResults) and policy is None and workload is None:
        if most_usd in (None, study.most_usd):
            return study
        # Other packages of the same policy and workload; the inputs are not read again.
        policy, workload = study.policy, study.cases[0].name if len(study.cases) == 1 else None
        own = study.plan.packages.iloc[: study.plan.n_swept]
        plan = swept = replace(study.plan, packages=own, n_swept=None)
    else:
        study = study.plan.study if isinstance(study, StudyResults) else load_study(study)
        try:
            plan = swept = load_plan(study)
        except TooManyPackages:
            plan = swept = _found_by_search(study)
    if most_usd is None:
        most_usd = price_bound(own_constraints(plan.study, plan.quotes))
    if most_usd is not None and not plan.searched:
        plan = with_smaller_packages(plan, most_usd)
    policy = policy_of(plan.study, policy)
    if workload is not None:
        check_in_study("workload", workload, plan.workloads)
    names = [workload] if workload else list(plan.workloads)
    folder, searched = plan.study.folder, pd.DataFrame()
    if search or plan.searched:
        searched = read_runs(plan, folder / SEARCH_FOLDER)
        wanted = (searched["policy"] == policy) & searched["workload"].isin(names) & (searched["status"] == "ok")
        searched = searched[wanted & (plan.row_of.index.get_indexer(searched["package_id"]) >= 0)]
        searched = searched.drop_duplicates(["package_id", "workload"], ignore_index=True)
    no_sweep = not (folder / RESULTS).exists() and not part_files(folder)
    if plan.searched or (len(searched) and no_sweep):
        results, searched = searched, searched.iloc[:0]
    else:
        results = read_results(plan.study, swept)
    weights = {one.name: one.weight for one in plan.study.scenarios}
    cases = [
        replace(
            make_case(plan.packages, plan.quotes, plan.workloads[name], results, name, policy, plan.existing),
            weight=weights[name],
            n_jobs=plan.n_counted(name),
            class_jobs=plan.class_jobs(name),
        )
        for name in names
    ]
    return StudyResults(plan, policy, results, cases, searched, most_usd=most_usd)


def check_in_study(argument: str, given: str, known: Iterable[str]) -> None:
    """Raise `ArgumentError` if an argument names nothing of the study."""
    known = list(known)
    if given not in known:
        raise ArgumentError(argument, f"{given!r} is not in the study; {nearest(given, known)}")


def policy_of(study: Study, policy: str | None) -> str:
    """Return the label of one of a study's policies, however its parameters are written; None = its first."""
    policies = study.simulate.policies
    if policy is None:
        return policies[0]
    with contextlib.suppress(TableError):  # no policy at all: the error names the study's
        policy = catalog.spec(policy, folder=study.path.parent).label
    check_in_study("policy", policy, policies)
    return policy


def _found_by_search(study: Study) -> Plan:
    """Read a study whose packages are too many to list: it has those that searches have simulated."""
    plan = read_inputs(study, study.simulate.policies)
    space = make_space(plan.quotes, study.packages)
    plan = replace(plan, packages=package_table(np.zeros((0, len(plan.types)), np.int64), space))
    ids = np.unique(read_runs(plan, study.folder / SEARCH_FOLDER)["package_id"].to_numpy(dtype=str)).tolist()
    counts = counts_of_ids(ids, plan.types)
    counts = counts[space.allows(counts)]
    if not len(counts):
        raise TableError(
            f"{study.folder}: holds no search of the packages yet, which are too many to list; run: procure sweep "
            f"{study.path}"
        )
    return replace(plan, packages=package_table(counts, space), searched=True)


def read_runs(plan: Plan, folder: Path, refused: Callable[[Path, PartError], None] = silent) -> pd.DataFrame:
    """Read the result rows of a sweep's or a search's folder; ``refused`` hears of each file that is not used."""
    fingerprint = {name: value for name, value in plan.fingerprint.items() if name != "packages"}
    tables = [part.table for part in read_parts(folder, fingerprint, refused).values()]
    return pd.concat(
        [table.to_pandas() for table in (schema_for(fingerprint).empty_table(), *tables)], ignore_index=True
    )
