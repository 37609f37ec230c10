"""``procure compare``: one workload under several policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure.cli import common, site_options
from procure.comparison import Comparison
from procure.comparison import compare as compare_policies
from procure.comparison.report import mean_waits, with_units, write_report
from procure.comparison.side_by_side import check_policies
from procure.comparison.slices import check_length
from procure.policies import catalog
from procure.policies.names import RIVALS
from procure.settings import MOST_COUNTED
from procure.text import counted
from procure.workload.speed import exact_speed


def compare(
    jobs: common.LoggedJobsOption,
    nodes: Annotated[
        Path | None,
        typer.Option(help="Node table: node_id,kind,cpus,mem_mb,gpus[,speed,gpu_type]; the site's without."),
    ] = None,
    site: site_options.SiteOption = None,
    policies: Annotated[
        str,
        typer.Option(
            help="NAME or NAME:key=value,key=value, separated by commas (see `procure policies`); the "
            "first is the one that the others are tested against. …@oracle: with run times as requests."
        ),
    ] = ",".join(RIVALS),
    seeds: Annotated[
        int, typer.Option(min=0, max=MOST_COUNTED, help="Repeat on this many shaken copies of the workload.")
    ] = 0,
    slices: Annotated[str | None, typer.Option(help="Repeat on each day, week or month, from an empty system.")] = None,
    continuous: Annotated[
        bool,
        typer.Option("--continuous", help="With --slices: cut the run of the whole; nothing begins empty."),
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="Compare simulated waits with the logged ones, per size class.")
    ] = False,
    shape: site_options.ShapeOption = None,
    kill_at_limit: common.KillAtLimitOption = True,
    logged_speed: Annotated[
        str | None, typer.Option(help="Speed of the logged system, in the unit of the nodes' speed.")
    ] = None,
    report: common.ReportOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Compare schedulers on one workload; times in seconds, utilization as a share.

    The rank is the published multi-criteria ranking over makespan, bounded slowdown and resource usage.
    With --slices or --seeds the differences to the first policy are tested in pairs.

    Examples:
    procure compare --jobs jobs.parquet --nodes nodes.csv --policies fcfs,easy,easy:depth=4,order=sjf
    procure compare --jobs jobs.parquet --nodes nodes.csv --slices week --continuous --report compare.html
    procure compare --jobs log.parquet --nodes its_nodes.csv --policies easy --replay
    procure compare --jobs jobs.parquet --site site/ --policies slurm,easy,best-fit
    """
    with common.bad_option("--policies"):
        names = check_policies([site_options.with_site(name, site) for name in catalog.split_list(policies)])
    if continuous and (slices is None or seeds):
        raise typer.BadParameter("it needs --slices, and no --seeds", param_hint="--continuous")
    if slices is not None:
        with common.bad_option("--slices"):
            check_length(slices)
    with common.bad_option("--logged-speed"):
        exact_speed(logged_speed, "logged speed")
    job_table, node_table = site_options.read_system(jobs, nodes, site, shape)
    options: dict[str, Any] = {"kill_at_limit": kill_at_limit, "logged_speed": logged_speed}
    comparison = compare_policies(
        job_table,
        node_table,
        names,
        slices=slices,
        seeds=seeds,
        continuous=continuous,
        with_replay=replay,
        options=options,
        progress=common.note,
    )
    if report is not None:
        write_report(comparison, report, f"{jobs.name} ({counted(len(job_table), 'job')}) on {nodes or site}")
        common.note(f"report written to {report}")
    _print(comparison, output)


def _print(comparison: Comparison, output: common.Format) -> None:
    if output is common.Format.JSON:
        common.note(comparison.limits)
        common.print_json(comparison.to_dict())
        return
    shown = comparison.table if output is common.Format.CSV else comparison.shown()
    common.print_table(shown, output, "side by side")
    common.note(comparison.limits)
    if output is common.Format.TABLE:
        ratios = dict.fromkeys(comparison.relative.columns, "")
        common.print_table(comparison.relative, output, "relative to the best", ratios)
        _print_waits(mean_waits(comparison.by_size), "mean wait by CPUs of the job")
        _print_waits(mean_waits(comparison.by_user), "mean wait by class of user")
        if not comparison.tests.empty:
            common.print_table(with_units(comparison.tests), output, f"paired tests; {comparison.caveat}")
        if not comparison.fidelity.empty:
            _print_waits(comparison.fidelity, "simulated against logged waits, by CPUs")


_NO_TIMES = ("within_10_min", "rank_correlation")


def _print_waits(table: pd.DataFrame, title: str) -> None:
    """Print a table whose numbers are lengths of time, but for counts."""
    seconds = {str(name): "s" for name in table.select_dtypes("float").columns if name not in _NO_TIMES}
    common.print_table(table, common.Format.TABLE, title, seconds)
