"""``procure site``: under which rules a centre starts jobs: read, check, fit, why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from procure.account.account import account_waits
from procure.account.layout import check_started, without_unread
from procure.cli import common, lazy, site_options
from procure.comparison.waits import site_check, verdict
from procure.fitting.fit import fit_site
from procure.policies import catalog
from procure.run import simulate
from procure.site import show as showing
from procure.site.collect import collect, shell_lines
from procure.site.model import Site
from procure.site.store import NODES, SiteFolder, read_site, write_site
from procure.site.understand import read_slurm
from procure.tables import NODE, read
from procure.text import counted

app = lazy.command_group()

SHORT = 4 * 86_400
"""s; a log that is shorter shows no rule that goes by days."""
SiteArgument = Annotated[Path, typer.Argument(metavar="SITE", help="A site folder: site.toml and nodes.csv.")]
StartedArgument = Annotated[Path, typer.Argument(metavar="JOBS", help="Job table with start times, .parquet or .csv.")]
KnownOption = Annotated[Path | None, typer.Option("--site", help="A site folder: its nodes and its known rules.")]


@app.command("collect")
def collect_command(
    out: Annotated[Path, typer.Option(help="The folder that takes what the commands print.")] = Path("slurm"),
    run: Annotated[bool, typer.Option("--run", help="Run the commands here, rather than print them.")] = False,
    begin: str = typer.Option(
        "", "--from", metavar="DAY", help="First day of jobs, YYYY-MM-DD; by default 31 before the end."
    ),
    end: Annotated[str, typer.Option("--to", metavar="DAY", help="The day after the last; by default today.")] = "",
) -> None:
    """Print the commands whose output `procure site read` takes, or run them; all of them only read.

    Exit code 1 where none of them printed anything.

    Examples:
    procure site collect --from 2026-03-01 --to 2026-04-01
    procure site collect --run --from 2026-03-01 --to 2026-04-01 --out slurm/
    """
    with common.bad_option("--from / --to"):
        lines = shell_lines(str(out), begin, end)
    if not run:
        common.echo(*lines)
        return
    failed = collect(out, begin, end)
    for line in failed:
        common.note(f"careful: {line}")
    if len(failed) == len(lines) - 1:
        raise typer.Exit(1)
    common.note(f"written to {out}; next: procure site read {out} --out site")


@app.command("read")
def read_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="slurm.conf or scontrol's output, and beside it …")],
    out: Annotated[Path | None, typer.Option(help="The site folder to write; none: only read.")] = None,
    tz: Annotated[
        str | None, common.zone_option("Zone of the times that scontrol printed, e.g. Europe/Berlin.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Read Slurm's configuration as a site, and list what was not understood and what that may change.

    DIR holds slurm.conf, or what `scontrol show config`, `node` and `partition` printed, and where there are any
    gres.conf, topology.conf, `scontrol show reservation`, and accounts, users and QOS as a script or a dump of
    sacctmgr, or its --parsable tables.

    Examples:
    procure site read slurm/ --out site/
    procure site read slurm/ --out site/ --tz Europe/Berlin --format json
    """
    site = read_slurm(folder, tz)
    if out is not None:
        write_site(site.rules, site.nodes, out)
    for each in site.rules.not_understood:
        value = f"={each.value}" if each.value else ""
        where = f"{each.where}: " if each.where else ""
        common.note(f"not understood: {where}{each.setting}{value}: {each.effect}")
    if output is common.Format.JSON:
        common.print_json(showing.document(site))
        return
    if out is not None:
        common.note(f"written to {out}")
    common.print_table(showing.partition_table(site), output, f"partitions of {site.rules.cluster or folder}")


@app.command()
def check(
    site: SiteArgument,
    jobs: Path | None = typer.Option(None, help="Job table to replay, Parquet or CSV; without, the rules are shown."),
    policy: str | None = typer.Option(
        None,
        help="Which policies replay the log, separated by commas. [default: slurm; of a site that `procure site "
        "fit` wrote: easy,rules]",
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Show a site's partitions, limits, weights and shares; or replay a log under them, beside its logged waits.

    Examples:
    procure site check site/
    procure site check site/ --jobs jobs.parquet
    procure site check site/ --jobs later.parquet --policy easy,rules --format json
    """
    found = read_site(site)
    if jobs is None:
        _show(site, found, output)
        return
    table = site_options.never_ended(common.read_job_table(jobs), found.rules)
    check_started(table)
    nodes = found.nodes
    usual = "easy,rules" if found.rules.rules or not found.rules.partitions else "slurm"
    names = catalog.split_list(policy or usual)
    with common.bad_option("--policy"):
        labels = [catalog.spec(site_options.with_site(name, site)).label for name in names]
    checks = []
    for name, label in zip(names, labels, strict=True):
        run = simulate(table, nodes, label)
        site_options.note_rejections(label, run.schedule, nodes)
        checks.append(site_check(table, run, name))
    common.note(*map(verdict, checks))
    checked = pd.concat(checks, ignore_index=True)
    seconds = dict.fromkeys(("logged_p90", "simulated_p90", "mean_error"), "s")
    common.print_table(checked, output, f"{jobs.name} under {', '.join(names)} on {site}/{NODES}", seconds)


def _show(folder: Path, found: SiteFolder, output: common.Format) -> None:
    """Show partitions, limits, weights and shares as a person reads them."""
    if output is common.Format.JSON:
        common.print_json(showing.document(found))
        return
    rules = found.rules
    common.print_table(showing.partition_table(found), output, f"{rules.cluster or folder}: partitions (* default)")
    if output is common.Format.CSV:
        return
    common.print_table(showing.qos_table(rules), output, "QOS")
    common.print_table(showing.account_table(rules), output, "accounts, and users with limits of their own")
    enforced = ", ".join(rules.enforce)
    enforced = f"enforced: {enforced}" if enforced else "no limits are enforced (AccountingStorageEnforce is empty)"
    common.echo(*filter(None, [showing.weights(rules), showing.preemption(rules), enforced]))
    if n := len(rules.not_understood):
        common.echo(f"not understood: {counted(n, 'setting')}; they stand in {folder}/site.toml")


@app.command()
def fit(
    jobs: StartedArgument,
    out: Annotated[Path, typer.Option(help="The site folder to write.")],
    nodes: site_options.NodesOption = None,
    site: KnownOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Infer from a log the rules under which its jobs started.

    A rule is kept only where a replay of jobs that it was not learnt from comes closer to the log. Each is a table
    \\[\\[rules]] of site.toml with its evidence; strike it out to ignore it. `procure site check` says how far off
    it is.

    Examples:
    procure site fit jobs.parquet --nodes nodes.csv --out site/
    procure site check site/ --jobs later.parquet
    """
    table = common.read_job_table(jobs)
    system, rules = _known(nodes, site)
    if system is None:
        raise typer.BadParameter("give a node table, or a site with --site", param_hint="--nodes")
    found = fit_site(table, system, rules)
    common.note(f"written to {found.write(out)}; next: procure site check {out} --jobs LATER")
    common.show(found, output)
    if output is common.Format.TABLE:
        common.print_table(found.tried, output, "how far replays of later parts were from the log")


def _known(nodes: Path | None, site: Path | None) -> tuple[pd.DataFrame | None, Site | None]:
    """Return the node table that is named, else the site's, and the site's rules."""
    folder = None if site is None else read_site(site)
    system = None if folder is None else folder.nodes
    return system if nodes is None else read(nodes, NODE), None if folder is None else folder.rules


@app.command()
def why(
    jobs: StartedArgument,
    nodes: site_options.NodesOption = None,
    site: KnownOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Account for every hour that jobs waited: want of nodes, limits, fragmentation, reservations, the unexplained.

    Each second of each wait falls to the first cause that applies. Lower counts the hours for which no other cause
    would do, upper those for which this one would, whatever comes first.

    Examples:
    procure site why jobs.parquet --nodes nodes.csv
    procure site why jobs.parquet --site site/ --format json
    """
    table = without_unread(common.read_job_table(jobs))
    system, rules = _known(nodes, site)
    if len(table) and table["submit_time"].max() - table["submit_time"].min() < SHORT:
        common.note(f"careful: {jobs.name} is shorter than four days: limits and outages may go unseen")
    found = account_waits(table, system, rules)
    common.show(found, output)
    if output is common.Format.TABLE:
        common.echo(found.sentence)
