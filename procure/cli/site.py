"""``procure site``: under which rules a centre starts jobs: collect, read, show, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy
from procure.cli.site_why import why
from procure.comparison.site_check import site_check
from procure.policies import catalog
from procure.run import simulate
from procure.site import show as showing
from procure.site.collect import collect as collect_commands
from procure.site.collect import shell_lines
from procure.site.store import NODES, read_site, write_site
from procure.site.understand import read_slurm
from procure.text import counted

HELP = "Under which rules does this centre start jobs? Collect, read, show, check."

app = lazy.command_group()

SiteArgument = Annotated[Path, typer.Argument(metavar="SITE", help="A site folder: site.toml and nodes.csv.")]


@app.command()
def collect(
    print_commands: Annotated[
        bool, typer.Option("--print-commands", help="Only print the commands; all of them only read.")
    ] = False,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="Run them here and keep what they print in DIR."),
    ] = None,
) -> None:
    """Print, or run, the read-only commands that tell a centre's rules and jobs.

    Examples:
    procure site collect --print-commands
    """
    if run is None and not print_commands:
        raise typer.BadParameter("give --print-commands, or --run DIR on a node where scontrol is")
    if print_commands:
        for line in shell_lines(str(run or "slurm")):
            common.echo(line)
        return
    assert run is not None
    for line in collect_commands(run):
        common.note(f"careful: {line}")
    common.note(f"written to {run}; next: procure site read {run} --out site")


@app.command("read")
def read_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="slurm.conf or scontrol's output, and beside it …")
    ],
    out: Annotated[Path, typer.Option(help="The site folder to write.")],
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Read Slurm's configuration as a site, and list what was not understood and what that may change.

    DIR holds slurm.conf, or what `scontrol show config`, `node` and `partition` printed, and where there are any
    gres.conf, topology.conf, `scontrol show reservation`, and accounts, users and QOS as a script or a dump of
    sacctmgr, or its --parsable tables.

    Examples:
    procure site read slurm/ --out site/
    procure site read slurm/ --out site/ --format json
    """
    site = read_slurm(folder)
    write_site(site.rules, site.nodes, out)
    for each in site.rules.not_understood:
        value = f"={each.value}" if each.value else ""
        where = f"{each.where}: " if each.where else ""
        common.note(f"not understood: {where}{each.setting}{value}: {each.effect}")
    if output is common.Format.JSON:
        common.print_json(showing.document(site))
        return
    common.note(f"written to {out}")
    common.print_table(showing.partition_table(site), output, f"partitions of {site.rules.cluster or out}")


@app.command()
def show(site: SiteArgument, output: common.FormatOption = common.Format.TABLE) -> None:
    """Show partitions, limits, weights and shares as a person reads them.

    Examples:
    procure site show site/
    """
    found = read_site(site)
    if output is common.Format.JSON:
        common.print_json(showing.document(found))
        return
    rules = found.rules
    common.print_table(
        showing.partition_table(found), output, f"{rules.cluster or site}: partitions (* default)"
    )
    if output is common.Format.CSV:
        return
    common.print_table(showing.qos_table(rules), output, "QOS")
    common.print_table(showing.account_table(rules), output, "accounts, and users with limits of their own")
    common.echo(showing.weights(rules))
    enforced = ", ".join(rules.enforce)
    common.echo(
        f"enforced: {enforced}" if enforced else "no limits are enforced (AccountingStorageEnforce is empty)"
    )
    n = len(rules.not_understood)
    if n:
        common.echo(f"not understood: {counted(n, 'setting')}; they stand in {site}/site.toml")


@app.command()
def check(
    site: SiteArgument,
    jobs: common.LoggedJobsOption,
    policy: Annotated[str, typer.Option(help="Which policy replays the log.")] = "slurm",
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Replay a log under the site's rules, beside what the log says of its waits.

    Examples:
    procure site check site/ --jobs jobs.parquet
    """
    table = common.read_job_table(jobs)
    nodes = read_site(site).nodes
    with common.bad_option("--policy"):
        label = catalog.spec(common.with_site(policy, site)).label
    run = simulate(table, nodes, label)
    common.note_rejections(label, run.schedule, nodes)
    found = site_check(table, run, policy)
    if output is common.Format.JSON:
        common.print_json(found.to_dict(orient="records"))
        return
    common.print_table(found, output, f"{jobs.name} under {policy} on {site}/{NODES}")


app.command()(why)
