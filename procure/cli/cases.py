"""What train, evaluate, recommend and report share: a study's results as cases, and what was learnt of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli import common

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
        from procure.models.keep import learn

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


def load(study: Path, policy: str | None = None, workload: str | None = None) -> Loaded:
    """Read a study, its inputs and its results."""
    from procure.models import make_case
    from procure.study import load_study
    from procure.sweep import load_plan, read_results
    from procure.tables import nearest

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
    cases = [
        make_case(plan.packages, plan.quotes, plan.workloads[name], results, name, policy, plan.existing)
        for name in names
    ]
    for case in cases:
        if not case.runs_all.any():
            common.note(f"workload {case.name}: no package runs every job; each leaves some out")
    return Loaded(plan, policy, results, cases)
