"""How sure a list and its predictions are, in sentences: for recommend, evaluate and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from procure.recommender.results import StudyResults, workloads_of
from procure.text import counted

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from procure.cli.recommend import Ranked
    from procure.models import Case, Predicted
    from procure.recommender.confidence import Assurance

_NAMED = 12
_ROUNDING = 1e-9
_FEWEST_DAYS = 5
_MOST_PACKAGES = 300


def assured(loaded: StudyResults, done: Ranked, redraws: int | None = None, seed: int = 1) -> Assurance:
    """Redraw the workloads of a ranking."""
    from procure.recommender.confidence import assure

    return assure(loaded.plan, loaded.cases, loaded.policy, done.found, done.predicted, redraws, seed)


def sentences(said: Assurance, n_packages: int) -> list[str]:
    """Say which packages cannot be told apart, how firm the first rank is, and what another day may bring."""
    if len(said.table) < 2:
        return []
    head = ("the first " if len(said.table) < n_packages else "all ") + str(len(said.table))
    if said.unit == "nothing":
        return _by_ranges(said.table, head)
    return _by_redraws(said, head) + _another_day(said)


def _by_ranges(table: pd.DataFrame, head: str) -> list[str]:
    """Say what is known where nothing was redrawn: something of predictions, nothing of what is simulated."""
    alike = table["alike"].fillna(False).to_numpy(dtype=bool)
    alike[0] = False
    lines, n = [], int(alike.sum())
    if n:
        lines.append(
            f"{n} of {head} packages {'is a prediction' if n == 1 else 'are predictions'} that cannot be told from the "
            f"first: the 90 % range reaches the first's ({_ranks(alike)})"
        )
    if table["alike"].isna().any():
        lines.append(
            "nothing was redrawn, so it is not known how sure the order of the simulated packages is; "
            "`procure recommend` with --redraws 20 says it, where all of the head are simulated"
        )
    return lines


def _by_redraws(said: Assurance, head: str) -> list[str]:
    table, first = said.table, said.table.iloc[0]
    alike = table["alike"].to_numpy(dtype=bool)
    units = (
        f"{said.n_units:,} {said.unit}" if said.n_units != 1 else said.unit.replace("bursts", "one burst", 1)
    )
    how = f"over {counted(said.n_draws, 'redraw')} of the {units}"
    if (table["share_first"] == 1).all():
        return [
            f"{how}, {head} packages wait equally long in every one: this workload cannot tell them apart"
        ]
    below = "the 90 % range of the difference from the first reaches below 0, or there is none"
    if alike.all():
        lines = [f"{head} packages are indistinguishable with this workload: {how}, {below}"]
    elif alike.sum() == 1:
        lines = [
            f"{how}, no other of {head} can be taken for as good as the first: the 90 % range of no "
            "difference reaches below 0"
        ]
    else:
        lines = [
            f"these {alike.sum()} of {head} are indistinguishable with this workload: {how}, {below} "
            f"({_ranks(alike)})"
        ]
    ties = table["share_first"].sum() > 1 + _ROUNDING
    lines.append(
        f"{how}, the first package is {'best, alone or with others,' if ties else 'best'} in "
        f"{first['share_first']:.0%}, and in 90 % its rank among the first {len(table)} is {first['rank_low']:.0f} "
        f"to {first['rank_high']:.0f}"
        + (
            f"; it is among the best 5 % of all packages in {first['chance_top']:.0%}"
            if said.unit == "days" and first["chance_top"] == first["chance_top"]
            else ""
        )
    )
    return lines


def _another_day(said: Assurance) -> list[str]:
    from procure.text import duration

    if said.another_day is None:
        return []
    low, high, sure = said.another_day
    return [
        f"on another day like these {said.n_units} the first package's mean wait lies between {duration(low)} and "
        f"{duration(high)} with {sure:.0%} probability"
        + ("; more days are needed for 90 %" if round(sure, 9) < 0.9 else "")
    ]


def _ranks(alike: np.ndarray) -> str:
    ranks = [i + 1 for i, one in enumerate(alike) if one]
    shown = ", ".join(map(str, ranks[:_NAMED])) + (" …" if len(ranks) > _NAMED else "")
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def coverage_lines(case: Case, predicted: Predicted | None, truth: np.ndarray | None = None) -> list[str]:
    """Say how many truths the 90 % ranges hold: of packages not simulated, or by halves of those that were."""
    import numpy as np

    from procure.models.intervals import Spread, coverage

    if predicted is None:
        return []
    if truth is not None:
        unseen = case.runs_all & ~case.simulated & ~np.isnan(truth) & ~np.isnan(predicted.wait)
        if unseen.any():
            low, high = predicted.interval(predicted.wait[unseen])
            return [
                f"{workloads_of(case)}: the 90 % range of a prediction holds "
                f"{coverage(low, high, truth[unseen]):.1%} of the true waits of "
                f"the {counted(int(unseen.sum()), 'package')} not simulated"
            ]
    if predicted.at is None or len(predicted.at) < 2:
        return []
    at, errors = predicted.at, predicted.errors
    held = np.random.default_rng(0).permutation(len(at)) % 2 == 0
    inside = []
    for some in (held, ~held):
        low, high = Spread(at[~some], errors[~some]).interval(at[some])
        inside.append(coverage(low, high, (at[some] + 1) * errors[some] - 1))
    return [
        f"{workloads_of(case)}: the 90 % range of a prediction holds {np.mean(inside):.1%} of the simulated waits, "
        f"each half of the {len(held):,} out-of-fold predictions judged by the other"
    ]


def day_lines(loaded: StudyResults) -> list[str]:
    """Say how well the other days foretell the waits of one, without and with the work that it submits known."""
    import numpy as np

    from procure.evaluation.bootstrap import left_out_days
    from procure.models.fluid import backlog_waits

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
