"""``procure explain``: why one package, and why against another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from procure.cli import cases, common
from procure.recommender.results import load_results
from procure.text import counted

if TYPE_CHECKING:
    from procure.explanation.package import Explained

_BARS = " ▁▂▃▄▅▆▇█"
_SHOWN = 8


def explain(
    study: cases.StudyArgument,
    package: Annotated[str, typer.Argument(metavar="ID", help="A package id, as recommend prints it.")],
    against: Annotated[
        str | None, typer.Argument(metavar="[ID2]", help="Another package, to see why not that one.")
    ] = None,
    workload: cases.WorkloadOption = None,
    policy: cases.PolicyOption = None,
    marginal: Annotated[
        bool, typer.Option("--marginal/--no-marginal", help="Simulate one more node of each type.")
    ] = True,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Say why a package waits as it does (seconds): what counts, what its jobs lack, what one more node is worth.

    The schedule of the workload on which the package waits longest is replayed (or of --workload): each
    second that a job waits is booked under what the nearest node was short of. A package that
    was not simulated is simulated now.

    [bold]Examples[/bold]

    \b
    procure explain pipelines/example.toml ComputeNode3=92,BigMemNode2=14,GPUNode4=4
    procure explain pipelines/example.toml ComputeNode3=92,BigMemNode2=14,GPUNode4=4 ComputeNode1=100,GPUNode15=3
    procure explain pipelines/example.toml ComputeNode3=92,BigMemNode2=14,GPUNode4=4 --format json
    """
    from procure.explanation.package import explain as explain_package
    from procure.models import together
    from procure.sweep.trial import find_package

    if against == package:
        raise typer.BadParameter(
            "the same package is given twice; give another, or only one", param_hint="ID2"
        )
    loaded = load_results(study, policy, workload)
    with common.bad_option("ID"):
        chosen = [find_package(loaded.plan, name) for name in (package, against) if name is not None]
    if len(chosen) == 2 and (chosen[0] == chosen[1]).all():
        raise typer.BadParameter(f"{against} is the same package as {package}", param_hint="ID2")
    case = together(loaded.cases)
    predicted = loaded.learn_if_possible(case)
    if predicted is None:
        common.note(
            "too few packages are simulated for a model, so nothing is said of what each feature does"
        )
    elif predicted.model.kind != "xgboost":
        common.note(f"a model of kind {predicted.model.kind} cannot say what each feature does; xgboost can")
    replayed = [max(loaded.cases, key=lambda one: longest_wait(one.wait)).name]
    found = [
        explain_package(loaded.plan, loaded.cases, loaded.policy, counts, case, predicted, replayed, marginal)
        for counts in chosen
    ]
    if output is common.Format.JSON:
        common.print_json(document(found))
    elif output is common.Format.CSV:
        _print_csv(found)
    else:
        for one in found:
            _print(one, loaded.plan.study.name)
        if len(found) == 2:
            _print_difference(*found)


def longest_wait(wait: Any) -> float:
    """Return the median of the known waits, s; −1 where none is known."""
    import numpy as np

    known = wait[~np.isnan(wait)]
    return float(np.median(known)) if len(known) else -1.0


def document(found: list[Explained]) -> dict[str, Any]:
    """Return everything as plain values: ``packages``, and with two ``differences``."""
    from procure.explanation.wording import differences

    packages = []
    for one in found:
        binding = {
            name: {
                "seconds": b.seconds,
                "spread_seconds": b.spread_seconds,
                "n_unrunnable": b.n_unrunnable,
                "over_time": b.over_time().to_dict(orient="records"),
                "requests": b.shapes.head(_SHOWN).to_dict(orient="records"),
            }
            for name, b in one.binding.items()
        }
        plain = {
            key: value
            for key, value in vars(one).items()
            if key not in ("waits", "factors", "marginal", "binding")
        }
        tables = {
            "waits": one.waits, "factors": one.factors, "factors_by_subject": one.grouped, "marginal": one.marginal
        }  # fmt: skip
        packages.append(
            plain
            | {key: table.to_dict(orient="records") for key, table in tables.items()}
            | {"binding": binding}
        )
    beside = differences(*found).to_dict(orient="records") if len(found) == 2 else []
    return {"packages": packages, "differences": beside}


def _print_csv(found: list[Explained]) -> None:
    """Print one long table: package_id, section, item, value."""
    import pandas as pd

    rows: list[tuple[str, str, str, Any]] = []
    for one in found:
        rows += [(one.package_id, "count", kind, n) for kind, n in one.counts.items()]
        rows += [
            (one.package_id, "total", "price_usd", one.price_usd),
            (one.package_id, "wait", "all", one.wait),
        ]
        rows += [(one.package_id, "wait", row.workload, row.mean_wait_time) for row in one.waits.itertuples()]
        rows += [(one.package_id, "factor", row.feature, row.factor) for row in one.factors.itertuples()]
        for name, b in one.binding.items():
            rows += [(one.package_id, f"lacked_seconds {name}", cause, s) for cause, s in b.seconds.items()]
        rows += [
            (one.package_id, "saved_seconds", row.type, row.saved_seconds)
            for row in one.marginal.itertuples()
        ]
    common.print_table(
        pd.DataFrame(rows, columns=["package_id", "section", "item", "value"]), common.Format.CSV
    )


def _print(one: Explained, study: str) -> None:
    from procure.explanation.wording import says
    from procure.text import duration

    typer.echo(f"{study}: {one.package_id}")
    for line in says(one):
        typer.echo(f"  {line}")
    if len(one.waits) > 1:
        shown = one.waits.assign(wait=[duration(s) for s in one.waits["mean_wait_time"]])
        common.print_table(
            shown[["workload", "wait", "jobs_left_out"]], common.Format.TABLE, "Mean wait by workload"
        )
    for name, binding in one.binding.items():
        if binding.total_seconds:
            _print_over_time(name, binding)
    if len(one.marginal):
        shown = one.marginal.head(_SHOWN).assign(
            usd=one.marginal["usd"].round().astype("int64"),
            saved_s=one.marginal["saved_seconds"].round(1),
            saved_s_per_1000_usd=one.marginal["saved_per_1000_usd"].round(2),
        )
        common.print_table(
            shown[["type", "usd", "saved_s", "saved_s_per_1000_usd", "more_jobs"]], common.Format.TABLE,
            "One more node of each type: mean wait saved per job, in seconds",
        )  # fmt: skip


def _print_over_time(name: str, binding: Any) -> None:
    from procure.explanation.bottleneck import CAUSES, WORDS

    chart = binding.over_time(60)
    most = max(float(chart[list(CAUSES)].to_numpy().max()), 1e-9)
    hours = (int(binding.moments[-1]) - int(binding.moments[0])) / 3600
    typer.echo(
        f"Jobs that wait on {name}, by what they lack; {hours:,.1f} h from left to right, "
        f"█ = {counted(round(most), 'job')}"
    )
    for cause in CAUSES:
        if binding.seconds[cause]:
            bars = "".join(_BARS[min(8, int(-(-8 * value // most)))] for value in chart[cause])
            typer.echo(f"  {WORDS[cause]:<24.24} {binding.share(cause):>5.0%}  {bars}")


def _print_difference(one: Explained, other: Explained) -> None:
    from procure.explanation.wording import differences, says_against

    table = differences(one, other)
    shown = {
        name: [f"{value:,.0f}" if value == round(value) else f"{value:,.3f}" for value in table[name]]
        for name in ("first", "second", "difference")
    }
    title = f"{one.package_id} (first) against {other.package_id} (second)"
    common.print_table(table.assign(**shown), common.Format.TABLE, title)
    for line in says_against(one, other):
        typer.echo(f"  {line}")
