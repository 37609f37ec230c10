"""``procure simulate``: one workload on one set of nodes under one policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure import tables
from procure.cli import common, site_options
from procure.comparison.owners import say_owners, what_each_got
from procure.comparison.rule_waits import conclude, rule_waits, with_rules
from procure.files import whole_file
from procure.policies import catalog
from procure.policies.catalog import DEFAULT
from procure.policies.owners import read_owners
from procure.run import simulate as run_simulation
from procure.text import counted, duration, limit_note, listed
from procure.workload.speed import exact_speed

_WIDTH, _CHARTS = 120, (".svg", ".png", ".pdf", ".txt")


def _chart(path: Path | None) -> Path | None:
    if path is not None and path.suffix not in _CHARTS:
        raise typer.BadParameter(f"{path}: a chart is one of {', '.join(_CHARTS)}")
    return common.in_folder(path)


def simulate(
    jobs: common.LoggedJobsOption,
    nodes: Annotated[
        Path | None,
        typer.Option(help="Node table: node_id,kind,cpus,mem_mb,gpus[,speed,gpu_type,leaf,pod]; the site's without."),
    ] = None,
    site: site_options.SiteOption = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,…]",
            help="Which policy decides (see `procure policies`), e.g. easy:depth=4,order=sjf; best-fit without, "
            "or slurm with --site.",
        ),
    ] = None,
    rule: site_options.RulesOption = None,
    shape: site_options.ShapeOption = None,
    kill_at_limit: common.KillAtLimitOption = True,
    logged_speed: Annotated[
        str | None,
        typer.Option(help="Speed of the logged system, in the unit of the nodes' speed; none = ratio 1.0."),
    ] = None,
    out: Annotated[
        Path | None,
        common.table_option("Write the schedule (the job table with its starts) here", "--out", "--schedule"),
    ] = None,
    gantt: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=_chart,
            help="Draw which job ran on which node, and when: .svg, .png, .pdf or .txt.",
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate a workload on nodes under a policy; times in seconds, utilization as a share.

    Examples:
    procure workload generate --out jobs.parquet --seed 1
    procure simulate --jobs jobs.parquet --nodes nodes.csv --policy best-fit
    procure simulate --jobs jobs.parquet --nodes nodes.csv --policy easy:order=sjf,fit=best --gantt gantt.svg
    procure simulate --jobs jobs.parquet --nodes nodes.csv --out schedule.parquet --format json
    procure simulate --jobs jobs.parquet --site site/ --schedule schedule.csv
    procure simulate --jobs jobs.parquet --site site/ --rule 'qos long GrpTRES=cpu=20%'
    """

    policy = site_options.with_site(policy or (DEFAULT if site is None else "slurm"), site)
    with common.bad_option("--policy"):
        policy = catalog.spec(policy).label
    as_it_was = policy
    if rule:
        with common.bad_option("--rule"):
            policy = with_rules(policy, rule)
    with common.bad_option("--logged-speed"):
        exact_speed(logged_speed, "logged speed")
    job_table, node_table = site_options.read_system(jobs, nodes, site, shape)
    if logged_speed is None and "speed" in node_table and node_table["speed"].notna().any():
        common.note("no --logged-speed: run times stay as logged on every node (ratio 1.0), speeds are not used")
    with common.bad_option("--rule"):
        if rule:
            catalog.spec(policy).parameters.verify(job_table, node_table)
    options: dict[str, Any] = {"kill_at_limit": kill_at_limit, "logged_speed": logged_speed}
    run = run_simulation(job_table, node_table, policy, **options)
    site_options.note_rejections(policy, run.schedule, node_table)
    unrunnable = run.schedule.loc[run.schedule["start_time"].isna(), "job_id"]
    if len(unrunnable) and policy.partition(":")[0] != "slurm":
        shown = f"{counted(len(unrunnable), 'job')} set aside, which no node can hold even when it is empty"
        common.note(f"{shown}: {listed(unrunnable.tolist())}")
    owners = read_owners(getattr(catalog.spec(policy).parameters, "owners", ""))
    for line in say_owners(what_each_got(run.schedule, node_table, owners)) if owners else []:
        common.note(line)
    if out is not None:
        tables.write(run.schedule, out)
        common.note(f"schedule written to {out}")
    if gantt is not None:
        _draw(run.schedule, gantt)
    common.note(limit_note(kill_at_limit, {policy: run.metrics["n_killed"]}, len(job_table)))
    record: dict[str, Any] = run.metrics | {"elapsed": run.elapsed}
    if output is not common.Format.TABLE:
        record["kernel_seconds"] = run.elapsed
    waits = None
    if rule:
        waits = rule_waits(run_simulation(job_table, node_table, as_it_was, **options).schedule, run.schedule)
    if waits is not None and output is common.Format.JSON:
        record["rules"] = waits.to_dict(orient="records")
    common.print_record(record, output, f"{policy}: {counted(len(job_table), 'job')}")
    if waits is not None:
        said = conclude(waits, rule or [])
        if output is common.Format.TABLE:
            site_options.print_waits(waits)
            common.echo(said)
        else:
            common.note(said)


def _draw(schedule: pd.DataFrame, out: Path) -> None:
    """Draw a schedule as text or as a figure, by the file's name."""
    from procure.page.gantt import fitting_step, gantt_figure, gantt_text

    if out.suffix == ".txt":
        step = fitting_step(schedule, _WIDTH)
        with whole_file(out) as temporary:
            temporary.write_text(gantt_text(schedule, step=step), encoding="utf-8")
        common.note(f"a character is {duration(step)}")
    else:
        gantt_figure(schedule, out)
    common.note(f"chart written to {out}")
