"""``procure what-if``: the same package under more load, other jobs, another policy or budget."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import cases, common
from procure.recommender.results import load_results


def what_if(
    study: cases.StudyArgument,
    package: Annotated[str, typer.Option(metavar="ID", help="A package id, as recommend prints it.")],
    growth: Annotated[
        float | None,
        typer.Option(
            help="CPU-seconds submitted, times so many: whole bursts of jobs superposed or left out."
        ),
    ] = None,
    gpu_share: Annotated[
        str | None, typer.Option(metavar="2x|30%", help="GPU jobs times so many, or their share of all jobs.")
    ] = None,
    to_policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME[:KEY=VALUE,…]",
            help="Another policy (see `procure policies list`), e.g. easy:depth=4.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            callback=common.usd, help="Another budget, US$: which package would be recommended? E.g. 1.2M."
        ),
    ] = None,
    workload: cases.WorkloadOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Which bursts are added or left out.")] = 1,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate a package as it is, under each change alone, and under all together; waits in seconds.

    [bold]Examples[/bold]

    \b
    procure what-if pipelines/example.toml --package ComputeNode3=92,BigMemNode2=14,GPUNode4=4 --growth 1.3
    procure what-if pipelines/example.toml --package ComputeNode3=92,BigMemNode2=14,GPUNode4=4 \\
        --gpu-share 2x --policy easy --budget 1.2M --format json
    """
    from procure.recommender.what_if import Changes, parse_gpu_share
    from procure.recommender.what_if import what_if as try_changes
    from procure.sweep.trial import find_package

    with common.bad_option("--gpu-share"):
        share = parse_gpu_share(gpu_share)
    changes = Changes(
        growth, **share, policy=to_policy, budget_usd=float(budget) if budget else None, seed=seed
    )
    with common.bad_option():
        changes.check()
    loaded = load_results(study, None, workload)
    with common.bad_option("--package"):
        counts = find_package(loaded.plan, package)
    table = try_changes(loaded.plan, loaded.cases, loaded.policy, counts, changes)
    if output is not common.Format.TABLE:
        common.print_table(table, output)
        return
    shown = table[["situation", "n_jobs", "gpu_jobs", "policy"]].assign(
        price_usd=table["price_usd"].round().astype("int64"),
        wait_s=table["mean_wait_time"].round(1),
        times=table["wait_ratio"].round(2),
    )
    if table["jobs_left_out"].any():
        shown["left_out"] = table["jobs_left_out"]
    common.print_table(shown, output, f"{loaded.plan.study.name}: {package}")
    for row in table[table["package_id"] != package].itertuples():
        common.echo(f"{row.situation}: the recommender takes {row.package_id}")
