"""``procure site fit``: the rules that a log shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common
from procure.fitting.fit import fit_site
from procure.site.store import read_site
from procure.tables import NODE, read


def fit(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS", help="Job table with start times, .parquet or .csv.")],
    out: Annotated[Path, typer.Option(help="The site folder to write.")],
    nodes: Annotated[
        Path | None, typer.Option(help="Node table: node_id,kind,cpus,mem_mb,gpus; the site's without.")
    ] = None,
    site: Annotated[
        Path | None, typer.Option(help="A site folder whose rules are known; inferred ones are added.")
    ] = None,
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
    folder = None if site is None else read_site(site)
    if nodes is None and folder is None:
        raise typer.BadParameter("give a node table, or a site with --site", param_hint="--nodes")
    system = read(nodes, NODE) if nodes is not None else folder.nodes  # type: ignore[union-attr]
    found = fit_site(table, system, None if folder is None else folder.rules)
    common.note(f"written to {found.write(out)}; next: procure site check {out} --jobs LATER")
    common.show(found, output)
    if output is common.Format.TABLE:
        common.print_table(found.tried, output, "how far replays of later parts were from the log")
