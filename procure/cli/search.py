"""``procure search``: the model chooses what to simulate next."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from procure.cli import cases, common, farm_options
from procure.text import counted

if TYPE_CHECKING:
    from procure.explorer.run import Asked, Found


class Method(StrEnum):
    """Who proposes."""

    MODEL = "model"
    RANDOM = "random"
    EVERY_TENTH = "every-tenth"
    GREEDY = "greedy"


def search(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")],
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Simulations to spend in all, one package on one workload each."),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(help="Instead of --runs: this share of all packages, on every workload; default 0.01."),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="model; or a baseline: random, every-tenth (the published rule: every n-th package, a model "
            "of their totals), greedy (exchanges without a model)."
        ),
    ] = Method.MODEL,
    seed: Annotated[int | None, typer.Option(min=0, help="Of all random choices.")] = None,
    k: Annotated[int | None, typer.Option("-k", "--k", min=1, help="Length of the list.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Least packages of a round.")] = None,
    stable_rounds: Annotated[
        int | None, typer.Option(min=0, help="See the stopping rule; 0 = spend the whole budget.")
    ] = None,
    policy: cases.PolicyOption = None,
    farm: farm_options.FarmOption = "serial",
    jobs: farm_options.JobsOption = 1,
    cores: farm_options.CoresOption = None,
    memory: farm_options.MemoryOption = None,
    walltime: farm_options.WalltimeOption = None,
    partition: farm_options.PartitionOption = None,
    account: farm_options.AccountOption = None,
    interface: farm_options.InterfaceOption = None,
    tls: farm_options.TlsOption = None,
    dashboard: farm_options.DashboardOption = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=common.table_file,
            help="Also write every simulated package, ranked, .parquet or .csv.",
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Find the best packages with few simulations: a model proposes, the simulator answers, in rounds.

    The list holds simulated packages only, those that run every job first, by mean wait in seconds over
    all jobs of all workloads; with what was spent. A second call goes on where the first ended; nothing
    is simulated twice, and what the study's own sweep has simulated is known from the start and free.

    [bold]When it ends.[/bold] When the budget is spent; or, by the model, when for --stable-rounds rounds in
    a row (5) no package of the round came among the first k of the list (at least 50); or when every
    package is simulated. A round is a sixth of the packages so far, but at least 24; the first is 64.

    [bold]Examples[/bold]

    \b
    procure search pipelines/example.toml --runs 250
    procure search pipelines/example.toml --share 0.01 -k 10 --format json
    procure search pipelines/large.toml --runs 2000 --farm local
    procure search pipelines/large.toml --runs 5000 --stable-rounds 0
    procure search pipelines/example.toml --method random --runs 250
    """
    if runs is not None and share is not None:
        raise typer.BadParameter("give --runs or --share", param_hint="--share")
    if share is not None and not 0 < share <= 1:
        raise typer.BadParameter(
            f"{share:g} was given; a share is above 0 and at most 1", param_hint="--share"
        )
    farm_options.check_options(farm, tls, dashboard)
    from procure.explorer.run import Asked, run_search
    from procure.study import load_study
    from procure.sweep import FarmOptions
    from procure.sweep.farm import one_interrupt
    from procure.tables import write
    from procure.text import nearest

    settings = load_study(study)
    policies = settings.simulate.policies
    if policy is not None and policy not in policies:
        raise typer.BadParameter(
            f"{policy!r} is not in the study; {nearest(policy, policies)}", param_hint="--policy"
        )
    given = {"seed": seed, "k": k, "batch": batch, "stable_rounds": stable_rounds}
    chosen = {name: value for name, value in given.items() if value is not None}
    table = settings.search.model_dump()
    budget = {"runs": runs} if runs else {"runs": None, "share": share} if share else {}
    asked = Asked(**(table | budget | chosen), method=method.value, policy=policy, farm=farm)
    options = FarmOptions(
        jobs, cores, memory, walltime, partition, account, tls=tls, folder=settings.folder,
        interface=interface, dashboard=dashboard,
    )  # fmt: skip
    with one_interrupt(last=True):
        try:
            found = run_search(settings, asked, options=options, note=common.note, told=_tell)
        except KeyboardInterrupt:
            common.note("interrupted; what was simulated is kept, and the same command goes on from there")
            raise typer.Exit(1) from None
    if out is not None:
        write(found.ranking, out)
        common.note(f"wrote {counted(len(found.ranking), 'simulated package')} to {out}")
    _print(settings.name, found, asked, output)


def _tell(done: int, total: int, best: float) -> None:
    common.note(f"{done:,} of {counted(total, 'run')} asked for; least mean wait {best:,.1f} s")


def _print(name: str, found: Found, asked: Asked, output: common.Format) -> None:
    top = found.ranking.head(asked.k)
    if output is common.Format.JSON:
        common.print_json({"packages": _records(top), "spent": found.spent})
    elif output is common.Format.CSV:
        common.print_table(top, output)
    else:
        shown = top[["rank", "package_id"]].assign(
            price_usd=top["price_usd"].round().astype("int64"), wait_s=top["mean_wait_time"].round(1)
        )
        if top["jobs_left_out"].any():
            shown["left_out"] = top["jobs_left_out"]
        common.print_table(
            shown,
            output,
            f"{name}: the first{f' {len(top)}' if len(top) > 1 else ''}, all simulated, by mean wait in seconds",
        )
        common.print_record(found.spent, output, "Spent:")
    if len(top) > 1 and top["mean_wait_time"].nunique() == 1:
        common.note(
            f"all {len(top)} wait {top['mean_wait_time'].iloc[0]:,.1f} s: this workload cannot tell them apart; "
            "a longer list, a busier day or `procure workload load` may"
        )
    if found.elsewhere is not None:
        common.note(
            f"another search of this study has simulated a better package: {found.elsewhere[0]}, "
            f"{found.elsewhere[1]:,.1f} s"
        )


def _records(top: Any) -> list[dict[str, Any]]:
    fixed = ["rank", "package_id", "price_usd", "mean_wait_time", "jobs_left_out"]
    fixed += ["total_cpus", "total_mem_gb", "total_gpus"]
    types = [name for name in top.columns if name not in fixed]
    return [
        {name: row[name] for name in fixed}
        | {"counts": {name: int(row[name]) for name in types if row[name]}}
        for row in top.to_dict(orient="records")
    ]
