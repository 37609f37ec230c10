"""How sure a list and its predictions are, in sentences: for recommend, evaluate and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from procure.cli.cases import Loaded

if TYPE_CHECKING:
    import numpy as np

    from procure.cli.recommend import Ranked
    from procure.models import Case, Predicted
    from procure.redraw import Assurance

_NAMED = 12
_FEWEST_DAYS = 5
_MOST_PACKAGES = 300


def assured(loaded: Loaded, done: Ranked, redraws: int | None = None, seed: int = 1) -> Assurance:
    """Redraw the workloads of a ranking."""
    from procure.redraw import assure

    return assure(loaded.plan, loaded.cases, loaded.policy, done.found, done.predicted, redraws, seed)


def sentences(said: Assurance, n_packages: int) -> list[str]:
    """Say which packages cannot be told apart, how firm the first rank is, and what another day may bring."""
    from procure.report.svg import duration

    table = said.table
    if len(table) < 2:
        return []
    ranks = [int(i) + 1 for i in table.index[table["alike"]]]
    shown = ", ".join(map(str, ranks[:_NAMED])) + (" …" if len(ranks) > _NAMED else "")
    of = f"of the first {len(table)}" if len(table) < n_packages else f"of all {n_packages}"
    lines = []
    if said.unit == "nothing":
        if len(ranks) > 1:
            lines.append(
                f"these {len(ranks)} {of} are indistinguishable by what is known: the 90 % range of each reaches "
                f"the first's (ranks {shown})"
            )
        return lines
    first = table.iloc[0]
    how = f"over {said.n_draws:,} redraws of the {said.n_units:,} {said.unit}"
    if len(ranks) == 1:
        lines.append(
            f"{how}, no other {of} can be taken for as good as the first: the 90 % range of no "
            "difference reaches below 0"
        )
    else:
        lines.append(
            f"these {len(ranks)} {of} are indistinguishable with this workload: {how}, the 90 % range of the "
            f"difference from the first reaches below 0 (ranks {shown})"
        )
    lines.append(
        f"{how}, the first package is best in {first['share_first']:.0%}, and in 90 % its rank among the first "
        f"{len(table)} is {first['rank_low']:.0f} to {first['rank_high']:.0f}"
        + (
            f"; it is among the best 5 % of all packages in {first['chance_top']:.0%}"
            if said.unit == "days" and first["chance_top"] == first["chance_top"]
            else ""
        )
    )
    if said.another_day is not None:
        low, high, sure = said.another_day
        lines.append(
            f"on another day like these {said.n_units} its mean wait lies between {duration(low)} and "
            f"{duration(high)} with {sure:.0%} probability"
            + ("; more days are needed for 90 %" if round(sure, 9) < 0.9 else "")
        )
    return lines


def coverage_lines(case: Case, predicted: Predicted | None, truth: np.ndarray | None = None) -> list[str]:
    """Say how many truths the 90 % ranges hold: of packages not simulated, or by halves of those that were."""
    import numpy as np

    from procure.confidence import Spread, coverage

    if predicted is None:
        return []
    if truth is not None:
        unseen = case.runs_all & ~case.simulated & ~np.isnan(truth) & ~np.isnan(predicted.wait)
        if unseen.any():
            low, high = predicted.interval(predicted.wait[unseen])
            return [
                f"{case.name}: the 90 % range of a prediction holds {coverage(low, high, truth[unseen]):.1%} of the "
                f"true waits of the {int(unseen.sum()):,} packages that were not simulated"
            ]
    if predicted.at is None or len(predicted.at) < 2:
        return []
    held = np.random.default_rng(0).permutation(len(predicted.at)) % 2 == 0
    inside = []
    for some in (held, ~held):
        low, high = Spread(predicted.at[~some], predicted.errors[~some]).interval(predicted.at[some])
        inside.append(coverage(low, high, (predicted.at[some] + 1) * predicted.errors[some] - 1))
    return [
        f"{case.name}: the 90 % range of a prediction holds {np.mean(inside):.1%} of the simulated waits, "
        f"each half of the {len(held):,} out-of-fold predictions judged by the other"
    ]


def day_lines(loaded: Loaded) -> list[str]:
    """Say how well the other days foretell the waits of one, without and with the work that it submits known."""
    import numpy as np

    from procure.backlog import backlog_waits
    from procure.confidence import left_out_days

    plan, found = loaded.plan, loaded.cases
    known = np.flatnonzero(np.all([case.simulated & case.runs_all for case in found], axis=0))
    if len(found) < _FEWEST_DAYS or not len(known):
        return []
    rows = known[:: max(1, len(known) // _MOST_PACKAGES)]
    packages = found[0].packages.iloc[rows]
    wait = np.stack([case.wait[rows] for case in found])
    scale = np.stack(
        [backlog_waits(packages, plan.quotes, plan.workloads[case.name], plan.existing) for case in found]
    )
    told = [left_out_days(wait, one) for one in (np.zeros_like(wait), scale)]
    parts = [
        f"{one['coverage'].mean():.0%} (least day {one['coverage'].min():.0%}, "
        f"highest end {one['width'].median():,.0f} times the lowest)"
        for one in told
    ]
    return [
        f"an unseen day: of {len(found)} days, each left out in turn, the range of the others holds {parts[0]} of the "
        f"waits of {len(rows):,} packages; with the work that is submitted known, {parts[1]}"
    ]
