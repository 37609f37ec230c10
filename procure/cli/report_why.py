"""The parts of the report on how sure and why, and its first page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from procure.explanation.package import explain_package, longest_waiting
from procure.explanation.wording import (
    bottleneck_sentences,
    comparison_sentences,
    marginal_sentences,
)
from procure.explanation.wording import (
    sentences as why_sentences,
)
from procure.models import Predicted
from procure.policies import catalog
from procure.recommender.backtest import coverage_lines
from procure.recommender.results import StudyResults
from procure.recommender.sensitivity import stability
from procure.reports import confidence
from procure.reports import explain as explain_section
from procure.text import duration

if TYPE_CHECKING:
    from procure.recommender.recommender import Recommendation

_MOST_LINES = 2


def sections(
    loaded: StudyResults, done: Recommendation, predicted: Predicted | None
) -> tuple[dict[str, list[str]], list[Markup]]:
    """Return the first page and the sections on how sure and why, as HTML.

    Under a policy that is simulated slowly, what would change the answer is left to ``what-if``.
    """
    ranking, plan, case = done.ranking, loaded.plan, done.case
    if not len(ranking) or int(ranking["jobs_left_out"].iloc[0]) >= case.n_jobs:
        return {}, []
    rows = ranking["row"].to_numpy()
    counts = case.packages.iloc[rows[:10]][plan.types].to_numpy(np.int64)
    said, sure = [], Markup()
    if done.confidence is not None:
        found = done.confidence
        said = found.sentences(len(ranking)) + coverage_lines(case, done.predicted)
        sure = confidence.section(found.table, said, found.unit, found.n_draws)
    fast = catalog.is_batched(loaded.policy)
    replayed = [longest_waiting(loaded.cases)]
    both = [
        explain_package(loaded, one, case, predicted, replayed, marginal=fast and i == 0)
        for i, one in enumerate(counts[:2])
    ]
    why, against = why_sentences(both[0]), comparison_sentences(*both) if len(both) == 2 else []
    changes = _changes(loaded, counts) if fast else []
    page = {
        "How sure is that?": said[:_MOST_LINES],
        "Why this one?": [*bottleneck_sentences(both[0]), *against[:1]],
        "What does it cost?": _costs(loaded, done),
        "What would change it?": [*changes, *marginal_sentences(both[0])],
    }
    return page, [
        sure,
        explain_section.section(why, against, both[0].grouped, both[0].bottlenecks, both[0].marginal),
    ]


def _changes(loaded: StudyResults, counts: np.ndarray) -> list[str]:
    lines = []
    for row in stability(loaded.plan, loaded.cases, loaded.policy, counts).itertuples():
        where = (
            f"it stays the first of the {len(counts)} best"
            if row.rank == 1
            else f"it falls to rank {row.rank} of the {len(counts)} best, "
            f"{duration(row.regret_seconds)} behind {row.leader}"
        )
        lines.append(f"{row.situation}, jobs wait {duration(row.mean_wait_time)}, and {where}")
    return lines


def _costs(loaded: StudyResults, done: Recommendation) -> list[str]:
    """Say what the first package costs, with what the study's costs add."""
    from procure.packages.costs import Costs, total_costs

    plan, first = loaded.plan, done.case.packages.iloc[[int(done.ranking["row"].iloc[0])]]
    budget = float(plan.study.packages.budget_usd)
    price = float(first["price_usd"].iloc[0])
    lines = [
        f"US$ {price:,.0f} of US$ {budget:,.0f}, US$ {price / max(float(first['total_cpus'].iloc[0]), 1):,.0f} per CPU"
    ]
    if plan.study.costs != Costs():
        jobs = {case.name: plan.workloads[case.name] for case in loaded.cases}
        weights = {case.name: case.weight for case in loaded.cases}
        total = total_costs(
            first, plan.quotes, plan.study.costs, jobs, plan.study.packages, plan.existing, weights
        ).iloc[0]
        lines.append(
            f"over {plan.study.costs.years:g} years US$ {total['tco_usd']:,.0f} in all, of it "
            f"US$ {total['energy_usd']:,.0f} for energy; US$ {total['usd_per_core_hour']:,.3f} per core-hour used"
        )
    return lines
