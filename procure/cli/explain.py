"""``procure explain``: why one package, and why against another."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.explanation import Explanation
from procure.explanation import explain as explain_packages
from procure.explanation.package import PackageExplanation, comparison_sentences, sentences

_SHOWN = 8


def explain(
    path: study_options.StudyArgument,
    package: Annotated[str, typer.Argument(metavar="ID", help="A package id, as recommend prints it.")],
    settings: study_options.SetOption = None,
    against: Annotated[
        str | None, typer.Argument(metavar="[ID2]", help="Another package, to see why not that one.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Explain why jobs wait as long as they do on a package: the model's factors, the bottleneck, one more node.

    The schedule of the workload with the longest wait is replayed: each second that a
    job waits is booked under the resource that the nearest node was short of. A package that was not simulated
    is simulated now.

    Examples:
    procure explain pipelines/example.toml ComputeNode3=45,BigMemNode2=18,GPUNode8=17
    procure explain pipelines/example.toml ComputeNode3=45,BigMemNode2=18,GPUNode8=17 \\
        ComputeNode4=56,BigMemNode2=7,GPUNode8=16
    procure explain pipelines/example.toml ComputeNode3=45,BigMemNode2=18,GPUNode8=17 --format json
    """
    study = study_options.load(path, settings)
    with common.named(package_id="ID", other="ID2"):
        explanation = explain_packages(study, package, against, note=common.note)
    common.show(explanation, output, lambda: _print_all(explanation))


def _print_all(explanation: Explanation) -> None:
    for one in explanation.packages:
        _print(one, explanation.study)
    if len(explanation.packages) == 2:
        _print_differences(explanation)


def _print(one: PackageExplanation, study: str) -> None:
    common.echo(f"{study}: {one.package_id}")
    for line in sentences(one):
        common.echo(f"  {line}")
    if len(one.waits) > 1:
        shown = one.waits[["workload", "mean_wait_time", "jobs_left_out"]]
        common.print_table(shown, common.Format.TABLE, "Mean wait by workload")
    if len(one.marginal):
        names = {"saved_seconds": "saved", "saved_per_1000_usd": "saved per US$ 1,000"}
        shown = one.marginal.head(_SHOWN).rename(columns=names)
        common.print_table(
            shown[["type", "usd", *names.values(), "more_jobs"]],
            common.Format.TABLE,
            "One more node of each type: mean wait saved per job",
            dict.fromkeys(names.values(), "s"),
        )


def _print_differences(explanation: Explanation) -> None:
    table = explanation.differences
    shown = {
        name: [f"{value:,.0f}" if value == round(value) else f"{value:,.3f}" for value in table[name]]
        for name in ("first", "second", "difference")
    }
    one, other = explanation.packages
    title = f"{one.package_id} (first) against {other.package_id} (second)"
    common.print_table(table.assign(**shown), common.Format.TABLE, title)
    for line in comparison_sentences(one, other):
        common.echo(f"  {line}")
