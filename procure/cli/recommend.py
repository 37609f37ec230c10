"""``procure recommend``: the packages worth buying, confirmed by simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli import cases, choices, chosen, chosen_output, common
from procure.recommender.results import StudyResults, load_results, workloads_of
from procure.text import counted

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from procure.models import Case, Predicted
    from procure.recommender.recommender import Recommendation

MOST_WITHOUT_MODEL = 200
"""So many packages are simulated outright where too few were swept to learn from."""


def recommend(
    study: cases.StudyArgument,
    k: cases.LengthOption = None,
    verify: cases.VerifyOption = True,
    workload: cases.WorkloadOption = None,
    policy: cases.PolicyOption = None,
    rule: cases.RuleOption = cases.Rule.RUNS_ALL,
    objective: choices.ObjectiveOption = None,
    constraint: choices.ConstraintOption = None,
    pareto: choices.ParetoOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=common.table_file,
            help="Also write the ranking of every package, .parquet or .csv.",
        ),
    ] = None,
    redraws: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="How often the jobs' bursts are redrawn and the list's head simulated anew, to say which packages "
            "cannot be told apart; default: 20 under best-fit, else 0. From 5 workloads on, days are redrawn instead.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the redraws.")] = 1,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Rank every package by its mean wait in seconds, or another objective; those that run every job first.

    What was not simulated is predicted, and the head of the list is simulated to confirm it.

    [bold]Examples[/bold]

    \b
    procure recommend pipelines/example.toml -k 10
    procure recommend pipelines/example.toml -k 50 --format json
    procure recommend pipelines/example.toml --rule published -k 5
    procure recommend pipelines/example.toml --no-verify --out ranking.parquet
    procure recommend pipelines/example.toml --objective p95-wait --constraint 'price_usd<=$995,000'
    procure recommend pipelines/example.toml --pareto wait,cost --format csv
    """
    from procure.cli.cautions import cautions
    from procure.cli.sure import assured, sentences
    from procure.recommender.summary import records
    from procure.study import load_study
    from procure.tables import write

    # Contradictions are named before anything is read or computed.
    wanted = choices.wish(load_study(study), objective, constraint, pareto)
    loaded = load_results(study, policy, workload)
    if wanted.axes:
        _front(loaded, wanted, verify, rule, out, output)
        return
    done = ranked(loaded, k, verify, rule, wanted)
    case, found = done.case, done.found
    if out is not None:
        write(found.ranking.drop(columns="row"), out)
        common.note(f"wrote {counted(len(found.ranking), 'ranked package')} to {out}")
    for line in cautions(loaded, done, k):
        common.note(line)
    if done.chosen is not None:
        chosen_output.print_list(loaded, done.chosen, output)
        return
    sure = assured(loaded, done, redraws, seed)
    for line in sentences(sure, len(found.ranking)):
        common.note(line)
    beside = sure.table.drop(columns="package_id")
    if output is common.Format.JSON:
        pairs = zip(records(found, case, loaded.plan.quotes), beside.to_dict(orient="records"), strict=False)
        common.print_json([one | more for one, more in pairs])
    else:
        _print(loaded, case, found, output, beside)


def _front(
    loaded: StudyResults,
    wanted: choices.Wish,
    verify: bool,
    rule: cases.Rule,
    out: Path | None,
    output: common.Format,
) -> None:
    """Find, write and print the Pareto front instead of a list."""
    from procure.cli.cautions import about_front
    from procure.tables import write

    if rule is cases.Rule.PUBLISHED:
        raise typer.BadParameter("a front is of packages that run every job (runs-all)", param_hint="--rule")
    found = chosen.fronted(loaded, wanted, verify)
    if out is not None:
        write(found.the_front.drop(columns="row"), out)
        common.note(f"wrote the front, {counted(len(found.the_front), 'package')}, to {out}")
    for line in about_front(loaded, found, verify):
        common.note(line)
    chosen_output.print_front(loaded, found, output)


@dataclass(frozen=True)
class Ranked:
    """What was known, learnt and recommended, and why confirming runs failed.

    With another objective than the mean wait, or with constraints, ``chosen`` says how; then ``predicted``
    is None.
    """

    case: Case
    predicted: Predicted | None
    found: Recommendation
    rule: cases.Rule
    verified: bool
    reasons: list[str]
    chosen: chosen.Chosen | None = None


def ranked(
    loaded: StudyResults,
    k: int | None = None,
    verify: bool = True,
    rule: cases.Rule = cases.Rule.RUNS_ALL,
    wanted: choices.Wish | None = None,
) -> Ranked:
    """Learn, rank, and confirm the head of the list; by what the study wants if nothing else is wanted."""
    from procure.cli.cautions import few_simulated
    from procure.errors import TableError
    from procure.models import together
    from procure.recommender.recommender import recommend as rank_packages

    case, settings = together(loaded.cases), loaded.plan.study
    wanted = wanted or choices.wish(settings)
    if not wanted.is_plain:
        by = chosen.chosen(loaded, wanted, k or settings.recommend.k, verify, rule)
        return Ranked(by.figures.whole, None, by.ranked_list, rule, verify, by.reasons, by)
    first = case.runs_all if case.runs_all.any() and rule is cases.Rule.RUNS_ALL else case.left_out >= 0
    missing = int((first & ~case.simulated).sum())
    simulable = verify and missing <= MOST_WITHOUT_MODEL
    enough = int((first & case.simulated).sum()) >= 2 * settings.model.folds
    predicted = None
    if missing and (enough or not simulable):
        predicted = loaded.learn_if_possible(case, rule=rule)
    if predicted is None and missing and not simulable:
        raise TableError(few_simulated(case, settings.model.folds) + "; simulate more (sweep.sample)")
    reasons: list[str] = []
    simulate = _simulator(loaded, case, reasons) if verify else None
    k = k or settings.recommend.k
    features = settings.model.feature_set
    found = rank_packages(case, predicted, loaded.plan.quotes, k, simulate, features, rule)
    return Ranked(case, predicted, found, rule, verify, reasons)


def _simulator(loaded: StudyResults, whole: Case, reasons: list[str]) -> Callable[[list[str]], np.ndarray]:
    """Return a function from package ids to mean waits over the chosen workloads together.

    The wait of a failed run is NaN, and its reason is added to ``reasons``.
    """
    import numpy as np

    from procure.sweep import run_packages

    row_of = {name: row for row, name in enumerate(whole.packages["package_id"])}

    def simulate(package_ids: list[str]) -> np.ndarray:
        rows = np.array([row_of[name] for name in package_ids])
        waited, ran = np.zeros(len(rows)), np.zeros(len(rows))
        for case in loaded.cases:
            runs = run_packages(loaded.plan, package_ids, case.name, loaded.policy)
            bad = (runs["status"] != "ok").to_numpy()
            reasons.extend(f"{row.package_id}: {row.reason}" for row in runs[bad].itertuples())
            n = case.weight * (case.n_jobs - case.left_out[rows])
            waited += np.where(n > 0, runs["mean_wait_time"].to_numpy(dtype="float64"), 0.0) * n
            waited[bad] = np.nan
            ran += n
        return waited / np.where(ran > 0, ran, 1)

    return simulate


def _print(
    loaded: StudyResults, case: Case, found: Recommendation, output: common.Format, beside: pd.DataFrame
) -> None:
    from procure.recommender.summary import budget_by_category, servers_by_type

    top = found.ranking.head(found.k)
    if output is common.Format.CSV:
        common.print_table(top.drop(columns="row").join(beside), output)
        return
    source = ["simulated" if known else "predicted" for known in top["simulated"]]
    shown = top[["rank", "package_id"]].assign(
        price_usd=top["price_usd"].round().astype("int64"),
        wait_s=top["mean_wait_time"].round(1),
        wait_is=source,
    )
    if not top["simulated"].all():
        shown["low_s"], shown["high_s"] = top["low_wait_time"].round(), top["high_wait_time"].round()
    if top["jobs_left_out"].any():
        shown["left_out"] = top["jobs_left_out"]
    for name, values in _sureness(beside.head(found.k)).items():
        shown[name] = values
    where, first = f"{loaded.plan.study.name}, {workloads_of(case)}", chosen_output.first_of(found.k)
    common.print_table(shown, output, f"{where}: {first}, by mean wait in seconds")
    chosen, quotes = case.packages.iloc[top["row"].to_numpy()], loaded.plan.quotes
    types = servers_by_type(chosen, quotes)
    types = types[types["servers"] > 0].drop(columns="mean_count")
    common.print_table(
        types, output, "Servers by type" + (f", summed over these {found.k}" if found.k > 1 else "")
    )
    mean = ", mean over these" if found.k > 1 else ""
    common.print_table(budget_by_category(chosen, quotes), output, "Budget by category" + mean)


def _sureness(beside: pd.DataFrame) -> dict[str, list[object]]:
    """Return the columns on how sure the order is; none where nothing is known of it."""
    if beside["alike"].isna().all():
        return {}
    columns: dict[str, list[object]] = {
        "ranks": [
            f"{low:.0f}–{high:.0f}" if low == low else None
            for low, high in beside[["rank_low", "rank_high"]].to_numpy(
                dtype="float64", na_value=float("nan")
            )
        ]
    }
    chance = beside["chance_top"]
    if not chance.eq(chance.iloc[0]).all():
        columns["top_5_%"] = [f"{one:.0%}" if one == one else None for one in chance]
    return columns | {
        "like_1st": beside["alike"].astype(object).where(beside["alike"].notna(), None).tolist()
    }
