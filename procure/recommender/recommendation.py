"""What `recommend` returns: a ranking or a front, and everything that it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from procure.models import Predicted, WorkloadWaits
from procure.objectives import Quantity
from procure.recommender.confidence import Confidence
from procure.recommender.criteria import MEAN_WAIT, Criteria
from procure.recommender.replay_check import UNKNOWN, ReplayCheck
from procure.recommender.rule_costs import RuleCost
from procure.recommender.values import Model, PackageValues
from procure.sweep.results import StudyResults, workloads_of
from procure.text import Shown, counted


@dataclass(frozen=True)
class Recommendation(Shown):
    """A ranking of every distinct package, or a Pareto front, with what it stands on.

    ``ranking`` has every distinct package, best first, see `procure.recommender.rank.ranking_table` (with axes, by the
    first axis, and not confirmed beyond the front); the first ``k`` are recommended. ``front`` is that of
    `procure.recommender.rank.find_front`, None without axes; ``package_values`` are all values of all packages;
    ``confidence`` says how sure the order is, None for a front; ``about`` where it comes from; ``verified`` whether
    predictions were simulated to confirm the list, of which ``n_failed`` runs failed; ``waited`` what the first package
    cuts of the waiting in the log; ``exchanged`` what came of swaps around it; ``other_loads`` the first packages under
    other loads, None where nothing was simulated for it; ``rule_costs`` what each rule of the packages costs;
    ``shape`` what would be chosen for jobs kept to their old nodes, see `kept_to_nodes`.
    """

    results: StudyResults
    criteria: Criteria
    rule: str
    ranking: pd.DataFrame
    k: int
    front: pd.DataFrame | None
    package_values: PackageValues
    confidence: Confidence | None
    about: tuple[str, ...]
    verified: bool
    n_failed: int = 0
    waited: ReplayCheck = UNKNOWN
    exchanged: dict[str, Any] | None = None
    rule_costs: tuple[RuleCost, ...] = ()
    other_loads: dict[str, Any] | None = None
    shape: dict[str, Any] | None = None

    @property
    def case(self) -> WorkloadWaits:
        """All workloads pooled: packages, jobs left out, and the mean waits that the study's results hold."""
        return self.package_values.whole

    @property
    def models(self) -> tuple[Model, ...]:
        """The models behind predicted values; none where everything that could lead the list is simulated."""
        return tuple(self.package_values.models)

    @property
    def predicted(self) -> Predicted | None:
        """What the predictions of the mean wait come from; None if nothing is predicted, or no model is useful."""
        return next((one.predicted for one in self.models if one.what == MEAN_WAIT.name and one.useful), None)

    @property
    def n_verified(self) -> int:
        """How many packages were simulated to confirm the list."""
        return int(self.ranking["simulated_now"].sum())

    @property
    def confirmed(self) -> bool:
        """Whether all packages of the list, or of the front, are simulated."""
        shown = self.ranking.head(self.k) if self.front is None else self.front
        return bool(shown["simulated"].all())

    @property
    def notes(self) -> list[str]:
        """Where the order comes from and how it might be wrong, a sentence each."""
        sure = self.confidence.sentences() if self.confidence else []
        return [*self.about, *sure]

    @property
    def title(self) -> str:
        """What the list or the front is of."""
        where = f"{self.results.plan.study.name}, {workloads_of(self.case)}"
        if self.front is not None:
            axes = " and ".join(axis.name for axis in self.criteria.axes)
            return f"{where}: {counted(len(self.front), 'package')} that no other beats in {axes} together"
        by = "mean wait" if self.criteria == Criteria() else heading(self.criteria.objective)
        return f"{where}: the first{f' {self.k}' if self.k > 1 else ''}, by {by}"

    def shown(self) -> pd.DataFrame:
        """Return the list or the front as a table for people."""
        if self.front is not None:
            names = {axis.name: heading(axis) for axis in self.criteria.axes}
            table = self.front.drop(columns="row")
            table = table.assign(**{name: _rounded(table[name]) for name in names})
            return table.assign(knee=["knee" if one else "" for one in table["knee"]]).rename(columns=names)
        top, of = self.ranking.head(self.k), self.criteria.objective
        table = top[["rank", "package_id"]].assign(price_usd=top["price_usd"].round().astype("int64"))
        if self.criteria != Criteria():
            table[heading(of)] = _rounded(top["objective_value"])
        table["wait_s"] = top["mean_wait_time"].round(1)
        table["wait_is"] = ["simulated" if known else "predicted" for known in top["simulated"]]
        if not top["simulated"].all():
            table["low_s"], table["high_s"] = top["low_wait_time"].round(), top["high_wait_time"].round()
        for bound in self.criteria.bounds:
            if bound.of.name not in (of.name, "price_usd", "mean_wait_time", "jobs_left_out"):
                table[heading(bound.of)] = _rounded(top[bound.of.name])
        if top["jobs_left_out"].any():
            table["left_out"] = top["jobs_left_out"]
        return table.assign(**(self.confidence.columns(len(top)) if self.confidence else {}))


def heading(of: Quantity) -> str:
    """Return a quantity's name with its unit."""
    return f"{of.name}, {of.unit}" if of.unit else of.name


def _rounded(values: pd.Series) -> pd.Series:
    return values.round(1) if values.abs().max() >= 100 else values.round(4)
