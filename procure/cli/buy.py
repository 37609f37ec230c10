"""``procure buy``: from a log, offers and a budget to a recommendation and its report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, farm_options, log_options, study_options
from procure.cli.quotes import CategoryOption, RateOption, offer_reading
from procure.cli.study import columns_of_both
from procure.packages.quotes import OfferReading
from procure.reports import Report
from procure.reports.buying import Inputs
from procure.reports.buying import buy as buy_all
from procure.sweep.farm import one_interrupt
from procure.workload import LogSettings

_SHOWN = 5
"""Packages that a terminal shows; the report has all."""


def buy(
    context: typer.Context,
    study: Annotated[Path, typer.Argument(metavar="[STUDY.toml]", help="The study file.")] = Path("study.toml"),
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
    tz: Annotated[str | None, common.zone_option("Zone of a log's dates without an offset.")] = None,
    rate: RateOption = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Of the offers, e.g. name=Ürün, or of a csv log, e.g. run_time=Elapsed:min. Repeatable.",
        ),
    ] = None,
    category: CategoryOption = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=f"How the log is read ({', '.join(LogSettings.model_fields)}), how the offers are "
            f"({', '.join(OfferReading.model_fields)}), and farm.KEY. Repeatable.",
        ),
    ] = None,
    k: study_options.LengthOption = None,
    farm: farm_options.FarmOption = "local",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The report; default: RESULTS/NAME/report.html.")
    ] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Answer a purchase question: import, check, simulate, learn, confirm, report; each step is one line.

    The study file is written from --jobs, --quotes and --budget; without these it is there already. What an earlier
    call has imported or simulated is taken as it is. Of a log of more than 60 days the four busiest weeks are replayed.
    Where only a person can decide, it stops with one question, and names the option that answers it.

    Examples:
    procure buy --jobs sacct.psv --quotes offers.xlsx --budget 1000000
    procure buy hpc.toml --jobs log.swf --quotes offers.xlsx --rate EUR=1.08 --budget €900,000 --set cpus_per_node=32
    procure buy study.toml
    """
    texts, workers = farm_options.farm_options(farm, settings)
    inputs = None
    if jobs is None and quotes is None and budget is None:
        why = f"it belongs to --jobs and --quotes; in {study} the key says it"
        common.refuse_given(context, why, "site", "logged_processor", "tz", "rate", "column", "category")
        if texts:
            raise typer.BadParameter(f"{texts[0]}: {why}", param_hint="--set")
        study_options.say_made_up(study_options.load(study))
    elif jobs is None or quotes is None or budget is None:
        raise typer.BadParameter(
            f"--jobs, --quotes and --budget belong together; another budget of {study} is budget_usd in it, or "
            f"procure ask {study} --budget AMOUNT",
            param_hint="--jobs / --quotes / --budget",
        )
    else:
        of_offers = [one for one in texts if one.partition("=")[0].strip() in OfferReading.model_fields]
        how = common.settings_of([one for one in texts if one not in of_offers], LogSettings, log_tz=tz)
        of_log, headings = columns_of_both(column or [], True)
        how = how.model_copy(update={"columns": log_options.columns_of(of_log) or how.columns})
        reading = offer_reading(of_offers, rate, headings, category)
        inputs = Inputs(jobs, quotes, budget, how, reading, site, logged_processor)
    with one_interrupt(last=True):
        try:
            done = buy_all(
                study, inputs, k=k, farm=farm, options=workers, out=out,
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
