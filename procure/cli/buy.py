"""``procure buy``, ``ask``, ``report``, ``explore``: from a log to a report, and what may be asked of it."""

from __future__ import annotations

import contextlib
import os
import sys
import webbrowser
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from procure.cli import common, study_options
from procure.cli.quotes import CategoryOption, RateOption, offer_reading
from procure.offers import OfferReading
from procure.recommender.objections import objections
from procure.recommender.recommendation import records
from procure.reports import report as write_report
from procure.reports.buying import Inputs
from procure.reports.buying import ask as ask_again
from procure.reports.buying import buy as buy_all
from procure.reports.explore import Explorer, serve
from procure.schemas import JOB
from procure.text import counted
from procure.workload import LogSettings
from procure.workload.log_settings import WAIT

_SHOWN = 5
"""Packages that a terminal shows; the report has all."""
_LOG, _OFFERS = (", ".join(kind.model_fields) for kind in (LogSettings, OfferReading))
_SetOption = Annotated[
    list[str] | None,
    common.set_option(f"How the log is read ({_LOG}), how the offers are ({_OFFERS}), and farm.KEY."),
]


def buy(
    context: typer.Context,
    study: Annotated[Path, typer.Argument(metavar="[STUDY.toml]", help="The study file.")] = Path("study.toml"),
    jobs: Path | None = typer.Option(None, help="A log of the jobs, or a job table; then the file is written."),
    quotes: Annotated[Path | None, typer.Option(help="The vendors' offers: .xlsx, .ods, .csv.")] = None,
    budget: str | None = typer.Option(
        None, metavar="AMOUNT", help="In US$, e.g. 1.2M, or with --rate EUR=1.08 as €300,000."
    ),
    site: Path | None = typer.Option(
        None, metavar="DIR", help="The centre's rules, of `procure site read`: its nodes stay, and they hold."
    ),
    logged_processor: str | None = typer.Option(
        None, metavar="NAME", help="The processor on which the jobs ran, e.g. 'AMD EPYC 7542'."
    ),
    tz: Annotated[str | None, common.zone_option("Zone of a log's dates without an offset.")] = None,
    rate: RateOption = None,
    column: list[str] | None = typer.Option(
        None,
        metavar="FIELD=COLUMN",
        help="Of the offers, e.g. name=Ürün, or of a csv log, e.g. run_time=Elapsed:min. Repeatable.",
    ),
    category: CategoryOption = None,
    settings: _SetOption = None,
    k: study_options.LengthOption = None,
    farm: study_options.FarmOption = "local",
    out: Path | None = typer.Option(None, metavar="FILE", help="The report; default: RESULTS/NAME/report.html."),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Answer a purchase question: import, check, simulate, learn, confirm, report; each step is one line.

    The study file is written from --jobs, --quotes and --budget; without these it is there already. Of a log of more
    than 60 days the four busiest weeks are replayed. Where only a person can decide, it stops with one question.

    Examples:
    procure buy --jobs sacct.psv --quotes offers.xlsx --budget 1000000
    procure buy hpc.toml --jobs log.swf --quotes offers.xlsx --rate EUR=1.08 --budget €900,000 --set cpus_per_node=32
    procure buy study.toml
    """
    texts, workers = study_options.farm_options(farm, settings)
    inputs = None
    if jobs is None and quotes is None and budget is None:
        why = f"it belongs to --jobs and --quotes; in {study} the key says it"
        common.refuse_given(context, why, "site", "logged_processor", "tz", "rate", "column", "category")
        if texts:
            raise typer.BadParameter(f"{texts[0]}: {why}", param_hint="--set")
        study_options.load(study)  # says which jobs are made up
    elif jobs is None or quotes is None or budget is None:
        raise typer.BadParameter(
            f"--jobs, --quotes and --budget belong together; another budget of {study} is budget_usd in it, or "
            f"procure ask {study} --budget AMOUNT",
            param_hint="--jobs / --quotes / --budget",
        )
    else:
        of_offers = [one for one in texts if one.partition("=")[0].strip() in OfferReading.model_fields]
        how = common.settings_of([one for one in texts if one not in of_offers], LogSettings, log_tz=tz)
        of_log, headings = _columns_of_both(column or [])
        how = how.model_copy(update={"columns": common.columns_of(of_log) or how.columns})
        reading = offer_reading(of_offers, rate, headings, category)
        inputs = Inputs(jobs, quotes, budget, how, reading, site, logged_processor)
    steps: dict[str, Any] = {"say": common.note, "note": lambda text: common.note(f"  {text}")}
    with study_options.interruptible(f"done is kept, and `procure buy {study}` goes on from there"):
        done = buy_all(study, inputs, k=k, farm=farm, options=workers, out=out, **steps)

    def people() -> None:
        common.echo(*done.brief())
        shown = done.recommendation.shown().head(_SHOWN)
        common.print_table(shown, common.Format.TABLE, f"The first {len(shown)} packages")

    common.tell(output, [], done.to_dict, done.recommendation.ranking.head(done.recommendation.k), people)


def _columns_of_both(texts: list[str]) -> tuple[list[str], list[str]]:
    """Tell the columns of a log from those of offers, by the field that each is."""
    of_log = [text for text in texts if text.partition("=")[0] in (*JOB.names, WAIT)]
    for text in (text for text in texts if text.startswith("gpu_type=")):
        why = "a log and an offer may have it; import the log first: procure workload import"
        raise typer.BadParameter(f"{text!r}: {why}", param_hint="--column")
    return of_log, [text for text in texts if text not in of_log]


def ask(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    budget: str | None = typer.Option(
        None, metavar="AMOUNT", callback=common.usd, help="US$ for the servers, at most the study's, e.g. 800k."
    ),
    constraints: study_options.ConstraintOption = None,
    objective: study_options.ObjectiveOption = None,
    k: study_options.LengthOption = None,
    confirm: bool = typer.Option(False, "--confirm", help="Simulate the head of the list where it is predicted."),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Rank the packages again under another budget or bound, within seconds: nothing is simulated for it.

    Examples:
    procure ask study.toml --budget 800000
    procure ask study.toml --budget 800000 --constraint 'gpu_p95_wait<=4h' --confirm
    """
    usd = None if budget is None else float(budget)
    study = study_options.load(path, settings)
    done = ask_again(study, budget=usd, constraints=constraints or (), objective=objective, k=k, confirm=confirm)
    top = done.ranking.head(done.k)
    n = int((~top["simulated"]).sum())
    lines = [f"{n} of the {counted(done.k, 'package')} are predicted: --confirm simulates them"] if n else []
    lines += [f"objection: {one}" for one in objections(done)]
    list_ = partial(common.print_table, done.shown(), common.Format.TABLE, done.title)
    common.tell(output, lines, lambda: records(done), top, list_)


def report(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    k: study_options.LengthOption = None,
    verify: study_options.VerifyOption = True,
    workload: study_options.WorkloadOption = None,
    policy: study_options.PolicyOption = None,
    out: Path | None = typer.Option(None, metavar="FILE", help="Where to write; default: RESULTS/NAME/report.html."),
    bill: Path | None = typer.Option(
        None,
        metavar="FILE",
        callback=common.in_folder,
        help="Write the bill of quantities of the first choice too: .xlsx, .csv or .parquet.",
    ),
    pdf: Path | None = typer.Option(
        None,
        metavar="FILE",
        callback=common.in_folder,
        help="Write it as PDF too, with page numbers in its contents (extra pdf).",
    ),
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


def explore(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0 = any that is free.")] = 0,
) -> None:
    """Open every package of a study in the browser: type bounds in, see the list and the picture at once.

    The first packages are simulated where the report has not; other waits are predicted, and marked. The page is served
    on 127.0.0.1 until Ctrl-C; where there is no screen, open the address through `ssh -L`.

    Examples:
    procure explore study.toml
    procure explore study.toml --port 8765
    """

    def opened(address: str) -> None:
        common.echo(address)
        if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            webbrowser.open(address)

    with contextlib.suppress(KeyboardInterrupt):
        serve(Explorer(study_options.load(path, settings), common.note), port, opened)
