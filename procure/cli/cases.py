"""What train, evaluate, recommend and report share: a study's results as cases, and what was learnt of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.text import listed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from procure.models import Case, Predicted
    from procure.sweep import Plan

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="A study file that was swept.")]
WorkloadOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="One workload of the study; default: all of them together.")
]
PolicyOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="One policy of the study; default: its first.")
]
LengthOption = Annotated[
    int | None, typer.Option("-k", "--k", min=1, help="Packages to recommend; default: the study's.")
]
VerifyOption = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Simulate the first k where they are predictions.")
]


def feature_set_name(given: str | list[str] | None) -> str | list[str] | None:
    """Refuse a feature set that does not exist."""
    from procure.models.features import FEATURE_SETS
    from procure.text import nearest

    for name in [given] if isinstance(given, str) else given or []:
        if name not in FEATURE_SETS:
            raise typer.BadParameter(f"{name!r} is unknown; {nearest(name, FEATURE_SETS)}")
    return given


class Rule(StrEnum):
    """What packages are ranked by."""

    RUNS_ALL = "runs-all"
    PUBLISHED = "published"


RuleOption = Annotated[
    Rule,
    typer.Option(
        "--rule",
        help="runs-all: packages that run every job first; published: all by the mean wait over the jobs "
        "that ran, whatever is left out.",
    ),
]


@dataclass(frozen=True)
class Loaded:
    """A study read in, one policy of it chosen, and a case per workload."""

    plan: Plan
    policy: str
    results: pd.DataFrame
    cases: list[Case]

    @property
    def kept(self) -> Path:
        """Where models and predictions are kept."""
        return self.plan.study.folder / "models"

    def learn(self, case: Case, feature_set: str | None = None, among: np.ndarray | None = None) -> Predicted:
        """Fit the study's model, or take up the one that was kept."""
        from procure.models.cache import learn

        choice = self.plan.study.model
        return learn(
            case,
            self.plan.quotes,
            feature_set or choice.feature_set,
            choice.kind,
            choice.folds,
            choice.seed,
            among,
            self.kept,
        )

    def learn_if_possible(
        self, case: Case, feature_set: str | None = None, rule: Rule = Rule.RUNS_ALL
    ) -> Predicted | None:
        """Learn from the packages that run every job; if they are too few, from all; else return None.

        By the published rule, always from all.
        """
        import numpy as np

        everyone = np.ones(len(case.wait), dtype=bool)
        for among in (case.runs_all, everyone) if rule is Rule.RUNS_ALL else (everyone,):
            if int((among & case.simulated).sum()) >= 2 * self.plan.study.model.folds:
                return self.learn(case, feature_set, among)
        return None

    def learn_both(self, case: Case, feature_set: str) -> tuple[Predicted, Predicted] | None:
        """Learn for the ranked set and by the published rule; None if too few packages are simulated."""
        inner = self.learn_if_possible(case, feature_set)
        outer = self.learn_if_possible(case, feature_set, Rule.PUBLISHED)
        return (inner, outer) if inner is not None and outer is not None else None


def workloads_of(case: Case) -> str:
    """Name a case's workloads; of cases taken together, whose name joins all, the first three of many."""
    names = case.name.split(" + ")
    return case.name if len(names) == 1 else listed(names)


def load(study: Path, policy: str | None = None, workload: str | None = None) -> Loaded:
    """Read a study, its inputs and its results."""
    from procure.models import make_case
    from procure.study import load_study
    from procure.sweep import load_plan, read_results
    from procure.text import nearest

    plan = load_plan(load_study(study))
    policies = plan.study.simulate.policies
    for given, legal, option in ((policy, policies, "--policy"), (workload, plan.workloads, "--workload")):
        if given is not None and given not in legal:
            raise typer.BadParameter(
                f"{given!r} is not in the study; {nearest(given, legal)}", param_hint=option
            )
    policy = policy or policies[0]
    results = read_results(plan.study, plan)
    names = [workload] if workload else list(plan.workloads)
    weights = {one.name: one.weight for one in plan.study.workloads}
    cases = [
        replace(
            make_case(plan.packages, plan.quotes, plan.workloads[name], results, name, policy, plan.existing),
            weight=weights[name],
        )
        for name in names
    ]
    return Loaded(plan, policy, results, cases)
