"""``procure report``: one HTML file with the recommendation and its evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, study_options
from procure.reports import report as write_report


def report(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    k: study_options.LengthOption = None,
    verify: study_options.VerifyOption = True,
    workload: study_options.WorkloadOption = None,
    policy: study_options.PolicyOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write; default: RESULTS/NAME/report.html.")
    ] = None,
    bill: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=common.in_folder,
            help="Write the bill of quantities of the first choice too: .xlsx, .csv or .parquet.",
        ),
    ] = None,
    pdf: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=common.in_folder,
            help="Write it as PDF too, with page numbers in its contents (extra pdf).",
        ),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Write the report and print its path. It refers to nothing outside itself, and prints well.

    Examples:
    procure report pipelines/example.toml
    procure report pipelines/example.toml -k 20 --out purchase.html --bill bill.xlsx
    procure report pipelines/example.toml --pdf purchase.pdf
    """
    done = write_report(
        study_options.load(path, settings),
        out,
        k=k,
        verify=verify,
        workload=workload,
        policy=policy,
        bill=bill,
        pdf=pdf,
        note=common.note,
    )
    if output is common.Format.JSON:
        common.print_json({"report": str(done.path), "bytes": len(done.html.encode())})
    else:
        common.echo(str(done.path))
