"""``procure simulate``, ``compare``, ``policies``: one workload on one set of nodes, and what may decide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from procure.cli import common, site_options
from procure.comparison import Comparison
from procure.comparison import compare as compare_policies
from procure.comparison.report import mean_waits, with_units, write_report
from procure.comparison.side_by_side import check_length, check_policies
from procure.comparison.waits import conclude, rule_waits, with_rules
from procure.errors import TableError
from procure.files import whole_file
from procure.policies import catalog
from procure.policies.catalog import DEFAULT
from procure.policies.names import FITS, ORDERS, RIVALS
from procure.run import Run, simulate_only
from procure.run import simulate as run_simulation
from procure.text import counted, duration, limit_note, listed
from procure.workload.speed import exact_speed

_WIDTH, _CHARTS = 120, (".svg", ".png", ".pdf", ".txt")
_NO_TIMES = ("share_within", "rank_correlation", "distance")
SpeedOption = Annotated[
    str | None,
    typer.Option(
        callback=common.checked(lambda text: exact_speed(text, "logged speed")),
        help="Speed of the logged system, in the unit of the nodes' speed; none = ratio 1.0.",
    ),
]


def _chart(path: Path | None) -> Path | None:
    if path is not None and path.suffix not in _CHARTS:
        raise typer.BadParameter(f"{path}: a chart is one of {', '.join(_CHARTS)}")
    return common.in_folder(path)


def simulate(
    jobs: common.LoggedJobsOption,
    nodes: site_options.NodesOption = None,
    site: site_options.SiteOption = None,
    policy: str | None = typer.Option(
        None,
        metavar="NAME[:KEY=VALUE,…]",
        help="Which policy decides (see `procure policies`), e.g. easy:depth=4,order=sjf; best-fit without, "
        "or slurm with --site.",
    ),
    rule: site_options.RulesOption = None,
    shape: site_options.ShapeOption = None,
    kill_at_limit: common.KillAtLimitOption = True,
    logged_speed: SpeedOption = None,
    out: Annotated[
        Path | None,
        common.table_option("Write the schedule (the job table with its starts) here", "--out", "--schedule"),
    ] = None,
    gantt: Path | None = typer.Option(
        None,
        metavar="FILE",
        callback=_chart,
        help="Draw which job ran on which node, and when: .svg, .png, .pdf or .txt.",
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate a workload on nodes under a policy; times in seconds, utilization as a share.

    Examples:
    procure workload generate --out jobs.parquet --seed 1
    procure simulate --jobs jobs.parquet --nodes nodes.csv --policy best-fit
    procure simulate --jobs jobs.parquet --nodes nodes.csv --policy easy:order=sjf,fit=best --gantt gantt.svg
    """
    policy = site_options.with_site(policy or (DEFAULT if site is None else "slurm"), site)
    with common.bad_option("--policy"):
        policy = as_it_was = catalog.spec(policy).label
    with common.bad_option("--rule"):
        policy = with_rules(policy, rule) if rule else policy
    job_table, node_table = site_options.read_system(jobs, nodes, site, shape)
    if logged_speed is None and "speed" in node_table and node_table["speed"].notna().any():
        common.note("no --logged-speed: run times stay as logged on every node (ratio 1.0), speeds are not used")
    with common.bad_option("--rule"):
        rule and catalog.spec(policy).parameters.verify(job_table, node_table)
    options: dict[str, Any] = {"kill_at_limit": kill_at_limit, "logged_speed": logged_speed}
    n_jobs, held = len(job_table), [job_table]
    if out is None and gantt is None and not rule:
        del job_table
        run = simulate_only(held, node_table, policy, **options)
    else:
        run = run_simulation(job_table, node_table, policy, **options)
    _say(run, policy, node_table)
    if out is not None:  # else none is made, which takes as much memory as the jobs
        common.write_to(out, run.schedule, "the schedule")
    if gantt is not None:
        _draw(run.schedule, gantt)
    common.note(limit_note(kill_at_limit, {policy: run.metrics["n_killed"]}, n_jobs))
    record: dict[str, Any] = run.metrics | {"elapsed": run.elapsed}
    people = output is common.Format.TABLE
    waits = None
    if rule:
        waits = rule_waits(run_simulation(job_table, node_table, as_it_was, **options).schedule, run.schedule)
    if not people:
        record["kernel_seconds"] = run.elapsed
        if waits is not None and output is common.Format.JSON:
            record["rules"] = waits.to_dict(orient="records")
    common.print_record(record, output, f"{policy}: {counted(n_jobs, 'job')}")
    if waits is not None:
        if people:
            site_options.print_waits(waits)
        common.echo(conclude(waits, rule or []), err=not people)


def _say(run: Run, policy: str, nodes: pd.DataFrame) -> None:
    """Say which jobs were set aside."""
    if policy.partition(":")[0] != "slurm" and not run.metrics["n_unrunnable"]:
        return
    site_options.note_rejections(policy, run.schedule, nodes)
    unrunnable = run.schedule.loc[run.schedule["start_time"].isna(), "job_id"]
    if len(unrunnable) and policy.partition(":")[0] != "slurm":
        shown = f"{counted(len(unrunnable), 'job')} set aside, which no node can hold even when it is empty"
        common.note(f"{shown}: {listed(unrunnable.tolist())}")


def _draw(schedule: pd.DataFrame, out: Path) -> None:
    """Draw a schedule as text or as a figure, by the file's name."""
    from procure.page.charts import fitting_step, gantt_figure, gantt_text

    if out.suffix == ".txt":
        step = fitting_step(schedule, _WIDTH)
        with whole_file(out) as temporary:
            temporary.write_text(gantt_text(schedule, step=step), encoding="utf-8")
        common.note(f"a character is {duration(step)}")
    else:
        gantt_figure(schedule, out)
    common.note(f"chart written to {out}")


def compare(
    jobs: common.LoggedJobsOption,
    nodes: site_options.NodesOption = None,
    site: site_options.SiteOption = None,
    policies: str = typer.Option(
        ",".join(RIVALS),
        help="NAME or NAME:key=value,key=value, separated by commas (see `procure policies`); the "
        "first is the one that the others are tested against. …@oracle: with run times as requests.",
    ),
    slices: Annotated[str | None, typer.Option(help="Repeat on each day, week or month, from an empty system.")] = None,
    continuous: bool = typer.Option(
        False, "--continuous", help="With --slices: cut the run of the whole; nothing begins empty."
    ),
    replay: bool = typer.Option(
        False, "--replay", help="Compare simulated waits with the logged ones, per size class."
    ),
    shape: site_options.ShapeOption = None,
    kill_at_limit: common.KillAtLimitOption = True,
    logged_speed: SpeedOption = None,
    report: common.ReportOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Compare schedulers on one workload; times in seconds, utilization as a share.

    The rank is the published multi-criteria ranking over makespan, bounded slowdown and resource usage.
    With --slices the differences to the first policy are tested in pairs.

    Examples:
    procure compare --jobs jobs.parquet --nodes nodes.csv --policies fcfs,easy,easy:depth=4,order=sjf
    procure compare --jobs jobs.parquet --nodes nodes.csv --slices week --continuous --report compare.html
    procure compare --jobs log.parquet --nodes its_nodes.csv --policies easy --replay
    """
    with common.bad_option("--policies"):
        names = check_policies([site_options.with_site(name, site) for name in catalog.split_list(policies)])
    if continuous and slices is None:
        raise typer.BadParameter("it needs --slices", param_hint="--continuous")
    if slices is not None:
        with common.bad_option("--slices"):
            check_length(slices)
    job_table, node_table = site_options.read_system(jobs, nodes, site, shape)
    options: dict[str, Any] = {"kill_at_limit": kill_at_limit, "logged_speed": logged_speed}
    how: dict[str, Any] = {"slices": slices, "continuous": continuous, "with_replay": replay}
    comparison = compare_policies(job_table, node_table, names, **how, options=options, progress=common.note)
    if report is not None:
        write_report(comparison, report, f"{jobs.name} ({counted(len(job_table), 'job')}) on {nodes or site}")
        common.note(f"report written to {report}")
    _print_comparison(comparison, output)


def _print_comparison(comparison: Comparison, output: common.Format) -> None:
    if output is common.Format.JSON:
        common.note(comparison.limits)
        common.print_json(comparison.to_dict())
        return
    shown = comparison.table if output is common.Format.CSV else comparison.shown()
    common.print_table(shown, output, "side by side")
    common.note(comparison.limits)
    if output is common.Format.TABLE:
        _print_waits(mean_waits(comparison.by_size), "mean wait by CPUs of the job")
        _print_waits(mean_waits(comparison.by_user), "mean wait by class of user")
        if not comparison.tests.empty:
            common.print_table(with_units(comparison.tests), output, f"paired tests; {comparison.caveat}")
        if not comparison.fidelity.empty:
            _print_waits(comparison.fidelity, "simulated against logged waits, by CPUs")


def _print_waits(table: pd.DataFrame, title: str) -> None:
    """Print a table whose numbers are lengths of time, but for counts."""
    seconds = {str(name): "s" for name in table.select_dtypes("float").columns if name not in _NO_TIMES}
    common.print_table(table, common.Format.TABLE, title, seconds)


def policies(
    name: Annotated[str | None, typer.Argument(help="One of them: its rule and its parameters.")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List the policies that --policy and --policies know, or describe one.

    Examples:
    procure policies
    procure policies easy
    """
    if name in ("list", "describe"):
        raise typer.BadParameter("was removed: procure policies lists them, procure policies NAME describes one")
    if name is not None:
        _describe(name, output)
        return
    rows = []
    for one in catalog.names():
        try:
            entry = catalog.entry(one)
        except TableError as error:  # of an installed package; the others are listed all the same
            common.note(str(error))
            continue
        rows.append({"name": one, "summary": entry.summary, "compiled": entry.compiled, "multi_node": entry.multi_node})
    common.print_table(pd.DataFrame(rows), output, "policies")


def _describe(name: str, output: common.Format) -> None:
    entry, model = catalog.entry(name), catalog.model_of(name)
    record = {
        "name": name,
        "summary": entry.summary,
        "options": dict(entry.preset),
        "compiled": entry.compiled,
        "multi_node": entry.multi_node,
        "target": entry.target,
    }
    parameters = catalog.parameter_rows(name)
    if output is not common.Format.TABLE:
        names = {"orders": ", ".join(ORDERS), "fits": ", ".join(FITS)}
        common.print_record(record | names | {"parameters": parameters, "rule": model.rule_text()}, output)
        return
    common.print_record(record, output, name)
    common.print_table(pd.DataFrame(parameters), output, f"parameters, as in --policy {name}:key=value")
    common.echo("\n" + model.rule_text(), kept="\n")
