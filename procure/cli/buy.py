"""``procure buy``: from a log, offers and a budget to a recommendation and its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, farm_options, log_options, study_options
from procure.cli.from_settings import options
from procure.cli.quotes import (
    CategoryOption,
    CurrencyOption,
    DecimalOption,
    IgnoreOption,
    RateOption,
    TaxOption,
    offer_reading,
)
from procure.cli.study import columns_of_both
from procure.reports import Report
from procure.reports.buying import Inputs
from procure.reports.buying import buy as buy_all
from procure.settings import MOST_PROCESSES
from procure.sweep import FarmOptions
from procure.sweep.farm import one_interrupt
from procure.workload import LogSettings

_SHOWN = 5
"""Packages that a terminal shows; the report has all."""
_FARM = {name: option for name, option in farm_options.FARM.items() if name != "jobs"}


@options(how=log_options.LOG, workers=_FARM)
def buy(
    context: typer.Context,
    study: Annotated[Path, typer.Argument(metavar="[STUDY.toml]", help="The study file.")] = Path("study.toml"),
    *,
    jobs: Annotated[
        Path | None, typer.Option(help="A log of the jobs, or a job table; then the file is written.")
    ] = None,
    quotes: Annotated[Path | None, typer.Option(help="The vendors' offers: .xlsx, .ods, .csv.")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="In US$, e.g. 1.2M, or with --rate EUR=1.08 as €300,000.")
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The centre's rules, of `procure site read`: its nodes stay, and they hold."),
    ] = None,
    logged_processor: Annotated[
        str | None, typer.Option(metavar="NAME", help="The processor on which the jobs ran, e.g. 'AMD EPYC 7542'.")
    ] = None,
    how: LogSettings,
    rate: RateOption = None,
    currency: CurrencyOption = None,
    decimal: DecimalOption = None,
    tax: TaxOption = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Of the offers, e.g. name=Ürün, or of a csv log, e.g. run_time=Elapsed:min. Repeatable.",
        ),
    ] = None,
    category: CategoryOption = None,
    ignore: IgnoreOption = None,
    k: study_options.LengthOption = None,
    farm: farm_options.FarmOption = "local",
    farm_jobs: Annotated[int, typer.Option(min=1, max=MOST_PROCESSES, help="Queued jobs to keep running.")] = 1,
    workers: FarmOptions,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The report; default: RESULTS/NAME/report.html.")
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option(metavar="FILE", callback=common.in_folder, help="The report as PDF, too.")
    ] = None,
    bill: Annotated[
        Path | None,
        typer.Option(metavar="FILE", callback=common.in_folder, help="The bill of quantities: .xlsx, .csv, .parquet."),
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Answer a purchase question: import, check, simulate, learn, confirm, report; each step is one line.

    The study file is written from --jobs, --quotes and --budget; without these it is there already. What an earlier
    call has imported or simulated is taken as it is. Of a log of more than 60 days the four busiest weeks are replayed.
    Where only a person can decide, it stops with one question, and names the option that answers it.

    Examples:
    procure buy --jobs sacct.psv --quotes offers.xlsx --budget 1000000
    procure buy hpc.toml --jobs log.swf --quotes offers.xlsx --rate EUR=1.08 --budget €900,000 --tz Europe/Berlin
    procure buy study.toml
    """
    inputs = None
    if jobs is None and quotes is None and budget is None:
        new = ("site", "logged_processor", "rate", "currency", "decimal", "tax", "column", "category", "ignore")
        common.refuse_given(
            context, f"it belongs to --jobs and --quotes; in {study} the key says it", *new, *log_options.LOG
        )
        study_options.say_made_up(context, study)
    elif jobs is None or quotes is None or budget is None:
        raise typer.BadParameter(
            f"--jobs, --quotes and --budget belong together; another budget of {study} is budget_usd in it, or "
            f"procure ask {study} --budget AMOUNT",
            param_hint="--jobs / --quotes / --budget",
        )
    else:
        of_log, of_offers = columns_of_both(column or [], True)
        how = how.model_copy(update={"columns": log_options.columns_of(of_log)})
        reading = offer_reading(rate, currency, decimal, tax, of_offers, category, ignore)
        inputs = Inputs(jobs, quotes, budget, how, reading, site, logged_processor)
    farm_options.check_options(farm, workers)
    with one_interrupt(last=True):
        try:
            done = buy_all(
                study, inputs, k=k, farm=farm, options=replace(workers, jobs=farm_jobs), out=out, pdf=pdf, bill=bill,
                say=common.note, note=lambda text: common.note(f"  {text}"),
            )  # fmt: skip
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"what was done is kept, and `procure buy {study}` goes on from there") from None
    show(done, output)


def show(done: Report, output: common.Format) -> None:
    """Print the answer."""
    common.tell(output, [], done.to_dict, done.recommendation.ranking.head(done.recommendation.k), lambda: _print(done))


def _print(done: Report) -> None:
    for line in done.brief():
        common.echo(line)
    shown = done.recommendation.shown().head(_SHOWN)
    common.print_table(shown, common.Format.TABLE, f"The first {len(shown)} packages")
