"""``procure recommend``: the packages worth buying, confirmed by simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from procure.cli import cases, common

if TYPE_CHECKING:
    import numpy as np

    from procure.models import Case, Predicted
    from procure.recommend import Recommendation


def recommend(
    study: cases.StudyArgument,
    k: Annotated[
        int | None, typer.Option("-k", "--k", min=1, help="Packages to recommend; default: the study's.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Simulate the first k where they are predictions.")
    ] = True,
    workload: cases.WorkloadOption = None,
    policy: cases.PolicyOption = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the ranking of every package, .parquet or .csv."),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Rank every package by its mean wait in seconds, simulated or predicted; those that run every job first.

    [bold]Examples[/bold]

    \b
    procure recommend pipelines/example.toml -k 10
    procure recommend pipelines/example.toml -k 50 --format json
    procure recommend pipelines/example.toml --no-verify --out ranking.parquet
    """
    from procure.recommend import records
    from procure.tables import write

    loaded = cases.load(study, policy, workload)
    case, predicted, found = ranked(loaded, k, verify)
    if out is not None:
        write(found.ranking.drop(columns="row"), out)
        write(found.ranking.drop(columns="row"), out)
        common.note(f"wrote {len(found.ranking):,} ranked packages to {out}")
    for line in cautions(case, predicted, found):
        common.note(line)
    if output is common.Format.JSON:
        common.print_json(records(found, case, loaded.plan.quotes))
    else:
        _print(loaded, case, found, output)


def ranked(
    loaded: cases.Loaded, k: int | None = None, verify: bool = True
) -> tuple[Case, Predicted, Recommendation]:
    """Learn, rank, and confirm the head of the list."""
    from procure.models import together
    from procure.recommend import recommend as rank_packages

    case, settings = together(loaded.cases), loaded.plan.study
    predicted = loaded.learn(case)
    simulate = _simulator(loaded, case) if verify else None
    found = rank_packages(
        case, predicted, loaded.plan.quotes, k or settings.recommend.k, simulate, settings.model.feature_set
    )
    return case, predicted, found


def _simulator(loaded: cases.Loaded, whole: Case) -> Callable[[list[str]], np.ndarray]:
    """Return a function from package ids to mean waits over the chosen workloads together."""
    import numpy as np

    from procure.errors import TableError
    from procure.sweep import run_packages

    row_of = {name: row for row, name in enumerate(whole.packages["package_id"])}

    def simulate(package_ids: list[str]) -> np.ndarray:
        rows = np.array([row_of[name] for name in package_ids])
        waited, ran = np.zeros(len(rows)), np.zeros(len(rows))
        for case in loaded.cases:
            runs = run_packages(loaded.plan, package_ids, case.name, loaded.policy)
            failed = runs[runs["status"] != "ok"]
            if len(failed):
                first = failed.iloc[0]
                raise TableError(f"{first['package_id']}: the confirming run failed: {first['reason']}")
            n = case.n_jobs - case.left_out[rows]
            waited += np.where(n > 0, runs["mean_wait_time"].to_numpy(dtype="float64"), 0.0) * n
            ran += n
        return waited / np.maximum(ran, 1)

    return simulate


def cautions(case: Case, predicted: Predicted, found: Recommendation) -> list[str]:
    """Say in a few sentences where the ranking comes from and how it might be wrong."""
    able = int(case.runs_all.sum())
    lines = [
        f"{len(case.packages):,} distinct packages: {able:,} run every job, {len(case.packages) - able:,} leave "
        f"jobs out and stand after them; {int(case.simulated.sum()):,} were simulated before, "
        f"{found.n_verified:,} to confirm the list, the rest is predicted",
        f"out of fold, a prediction is off by {predicted.rmse_seconds:,.0f} s (RMSE; always answering the mean: "
        f"{predicted.constant_rmse_seconds:,.0f} s)",
    ]
    if found.confirmed:
        lines.append(
            "every package of the list is simulated; a better one may be among those that were not, and "
            "the jobs of another day may order them differently"
        )
    else:
        lines.append(
            "the list holds predictions: those at its head are more likely too low than too high; "
            "without --no-verify they are simulated"
        )
    if found.k > able:
        lines.append(
            f"only {able:,} packages run every job: the list goes on with packages that leave some out"
        )
    return lines


def _print(loaded: cases.Loaded, case: Case, found: Recommendation, output: common.Format) -> None:
    from procure.recommend import budget_by_category, servers_by_type

    top = found.ranking.head(found.k)
    if output is common.Format.CSV:
        common.print_table(top.drop(columns="row"), output)
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
    title = f"{loaded.plan.study.name}, {case.name}: the first {found.k}, by mean wait in seconds"
    common.print_table(shown, output, title)
    chosen, quotes = case.packages.iloc[top["row"].to_numpy()], loaded.plan.quotes
    types = servers_by_type(chosen, quotes)
    types = types[types["servers"] > 0].drop(columns="mean_count")
    common.print_table(types, output, f"Servers by type, summed over these {found.k}")
    common.print_table(budget_by_category(chosen, quotes), output, "Budget by category, mean over these")
