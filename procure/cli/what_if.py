"""``procure what-if``: the same package under more load, other jobs, another policy or rule."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import common, site_options, study_options
from procure.recommender.what_if import what_if as change_package


def what_if(
    path: study_options.StudyArgument,
    package: Annotated[str, typer.Option(metavar="ID", help="A package id, as recommend prints it.")],
    settings: study_options.SetOption = None,
    growth: Annotated[
        float | None,
        typer.Option(help="Factor on the CPU-seconds submitted: whole bursts of jobs superposed or left out."),
    ] = None,
    gpu_share: Annotated[
        str | None,
        typer.Option(metavar="2x", help="A factor on the CPU-seconds of GPU jobs."),
    ] = None,
    to_policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,…]",
            help="Another policy (see `procure policies`), e.g. easy:depth=4.",
        ),
    ] = None,
    rule: site_options.RulesOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate a package as it is, under each change alone, and under all together; waits in seconds.

    Examples:
    procure what-if pipelines/example.toml --package ComputeNode3=45,BigMemNode2=18,GPUNode8=17 --growth 1.3
    procure what-if pipelines/example.toml --package ComputeNode3=45,BigMemNode2=18,GPUNode8=17 \\
        --gpu-share 2x --policy easy --format json
    procure what-if mystudy.toml --package ComputeNode3=9 --rule 'qos long GrpTRES=cpu=20%'
    """
    with common.named(rules="--rule"):
        found = change_package(
            study_options.load(path, settings),
            package,
            growth=growth,
            gpu_share=gpu_share,
            policy=to_policy,
            rules=rule or (),
            note=common.note,
        )
    if output is not common.Format.TABLE:
        common.print_table(found.table, output)
        for line in found.warnings:
            common.note(line)
        return
    common.print_table(found.shown(), output, found.title)
    if found.waits is not None:
        site_options.print_waits(found.waits)
    for line in found.notes:
        common.echo(line)
