"""`procure study`: the file that holds one purchase question."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy, log_options, study_options
from procure.cli.quotes import offer_reading
from procure.errors import TableError
from procure.offers.reading import in_usd
from procure.packages.quotes import OfferReading
from procure.packages.rules import without_each
from procure.policies.catalog import is_batched
from procure.recommender.rule_costs import RuleCost, probe_rules
from procure.schemas import JOB
from procure.study import Study, load_plan, load_study
from procure.study.check import application_table, check_study, gpu_models, gpu_notes, say_size, study_notes
from procure.study.existing import read_existing, summarise_nodes
from procure.study.init import study_text
from procure.sweep import store
from procure.tables import write
from procure.text import counted
from procure.workload import LogSettings
from procure.workload.importing import is_job_table
from procure.workload.presets import WAIT

_OF_BOTH = ("gpu_type",)
"""Columns that a log and an offer may have."""

app = lazy.command_group()


@app.command("init")
def init(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The study file to write, .toml.")],
    quotes: Annotated[Path, typer.Option(help="The quote file of the study.")] = Path("quotes.csv"),
    budget: Annotated[
        str, typer.Option(metavar="AMOUNT", help="Budget in US$, e.g. 1.2M, or with --set rates.EUR=1.08 as €300,000.")
    ] = "1000000",
    jobs: Annotated[
        Path | None,
        typer.Option(
            help="The jobs that are replayed: a job table, .parquet or .csv, or a log, with --set as in "
            "`procure workload import`; without, jobs are made up."
        ),
    ] = None,
    tz: Annotated[str | None, common.zone_option("Zone of the days, and of a log's dates without an offset.")] = None,
    settings: log_options.SetOption = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=COLUMN",
            help="Of the offers as in `procure quotes check`, e.g. name=Ürün; of a csv log as in `procure workload "
            "import`, e.g. run_time=Elapsed:min. Repeatable.",
        ),
    ] = None,
) -> None:
    """Write a study file that shows every setting with its default; never over an existing file.

    A log is imported and its job table written beside the study, as NAME-jobs.parquet.

    Examples:
    procure study init mystudy.toml --quotes quotes/example-2023.csv --budget 1000000
    procure study init mystudy.toml --quotes offers.xlsx --set rates.EUR=1.08 --budget €1.2M \\
        --jobs jobs.psv --set format=sacct --tz Europe/Berlin
    """
    of_offer_keys = [one for one in settings or () if re.split(r"[.=]", one.strip())[0] in OfferReading.model_fields]
    of_log_keys = [one for one in settings or () if one not in of_offer_keys]
    how = common.settings_of(of_log_keys, LogSettings, log_tz=tz)
    if jobs is None:
        common.refuse_given(context, "it belongs to --jobs", "tz")
        _refuse(of_log_keys, "it belongs to --jobs")
    if path.exists():
        raise TableError(f"{path}: exists already; nothing was written")
    bare = how.model_copy(update={"log_tz": None})
    is_log = jobs is not None and jobs.suffix != ".parquet" and not is_job_table(jobs, bare)
    if jobs is not None and not is_log:
        _refuse(of_log_keys, f"{jobs} is a job table already")
    of_log, of_offers = columns_of_both(column or [], is_log)
    how = how.model_copy(update={"columns": log_options.columns_of(of_log) or how.columns})
    reading = offer_reading(of_offer_keys, columns=of_offers)
    with common.bad_option("--budget"):
        try:
            usd = in_usd(budget, reading.rates)
        except ValueError as error:
            raise ValueError(str(error).replace("--rate ", "--set rates.")) from None
    offers = reading.model_dump(exclude_defaults=True)
    if jobs is not None:
        jobs = _imported(path, jobs, how) if is_log else _checked(jobs)
    beside = {one: Path(os.path.relpath(one, path.parent)) for one in (quotes, jobs) if one is not None}
    text = study_text(path, beside[quotes], usd, beside[jobs] if jobs else None, how.log_tz, offers)
    with path.open("x", encoding="utf-8") as stream:
        stream.write(text)
    try:
        said = say_size(study_options.load(path))
    except TableError as error:
        said = f"careful: {error}"
    common.note(f"wrote {path}")
    common.note(said)
    common.note(f"next: procure study check {path}")


def _refuse(texts: list[str], why: str) -> None:
    for text in texts:
        raise typer.BadParameter(f"{text}: {why}", param_hint="--set")


def columns_of_both(texts: list[str], is_log: bool) -> tuple[list[str], list[str]]:
    """Tell the columns of a log from those of offers, by the field that each is."""
    name_of = {text: text.partition("=")[0] for text in texts}
    for text, name in name_of.items():
        if is_log and name in _OF_BOTH:
            raise typer.BadParameter(
                f"{text!r}: a log and an offer may have it; import the log first: procure workload import",
                param_hint="--column",
            )
    of_log = [text for text, name in name_of.items() if is_log and name in (*JOB.names, WAIT)]
    return of_log, [text for text in texts if text not in of_log]


def _imported(path: Path, log: Path, how: LogSettings) -> Path:
    """Import a log for a study, and write its job table beside it."""
    out = path.with_name(f"{path.stem}-jobs.parquet")
    if out.exists():
        raise TableError(f"{out}: exists already; give it as --jobs, or move it away")
    found = log_options.import_log(log, how)
    write(found.jobs, out)
    for text in found.account():
        common.note(f"{log}: {text}")
    common.note(f"wrote {out}, the {counted(len(found.jobs), 'job')} that the study replays")
    return out


def _checked(jobs: Path) -> Path:
    common.read_job_table(jobs)
    return jobs


@app.command("check")
def check_(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    r"""Say everything that is wrong with a study file, or what its sweep comes to and what its rules cost.

    For each rule of its \[packages] some packages with and without it are simulated, where the jobs are your own and
    the policy is best-fit or another that is fast.

    Examples:
    procure study check pipelines/example.toml
    procure study check pipelines/example.toml --format json
    """
    if settings:
        load_study(path, settings)
    plan, size = check_study(path, settings or ())
    study_options.say_made_up(plan.study)
    loaded, missing = plan.study, gpu_models(plan)
    for text in [*study_notes(plan), say_size(loaded, size)]:
        common.note(text)
    costs = _rule_costs(loaded)
    for text in gpu_notes(plan, missing):
        common.note(text)
    workloads, policies = [each.name for each in loaded.workloads], list(loaded.simulate.policies)
    people = output is not common.Format.JSON
    record = {
        "name": loaded.name,
        "results": str(loaded.folder),
        "budget_usd": loaded.packages.budget_usd,
        "workloads": ", ".join(workloads) if people else workloads,
        "policies": ", ".join(policies) if people else policies,
        **size,
    }
    if not people:
        record["rules"] = [one._asdict() for one in costs]
        record["gpu_models"] = missing.to_dict(orient="records")
        record["applications"] = application_table(plan).to_dict(orient="records")
    unmapped = sum(not models for models in missing["runs_on"])
    open_ = (
        f"no error, but nobody offers {counted(unmapped, 'GPU model')} of the log" if unmapped else "no problem found"
    )
    common.print_record(record, output, f"{path}: {open_}")
    rules = loaded.packages
    if rules.existing_nodes is not None and output is common.Format.TABLE:
        stay = read_existing(rules.existing_nodes, rules.retire, rules.existing_down)
        common.print_table(summarise_nodes(stay), output, "Existing nodes that stay")


def _rule_costs(study: Study) -> list[RuleCost]:
    """Probe what the rules of a study's packages cost, and say it; not on made-up jobs, nor where it takes long."""
    if not without_each(study.packages):
        return []
    if study.made_up or not is_batched(study.simulate.policies[0]):
        common.note("procure recommend says what each rule of packages costs")
        return []
    costs = probe_rules(study)
    for one in costs:
        common.note(f"a probe before any sweep: {one.sentence()}")
    return costs


@app.command("status")
def status(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Bring the parts of all shards into the one result table first.")
    ] = False,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Say how many runs of a study are done, failed and missing; exit code 1 where one is missing or a file damaged.

    Examples:
    procure study status pipelines/example.toml
    procure study status pipelines/year.toml --merge
    """
    plan = load_plan(study_options.load(path, settings))
    if merge:
        store.merge(plan, common.note)
    counts, problems = store.verify(plan)
    common.print_record(counts | {"n_problems": len(problems)}, output, str(path))
    for problem in problems:
        common.note(problem)
    if counts["n_missing"]:
        common.note(f"run the shards again, or: procure sweep {path}")
    if problems:
        raise typer.Exit(1)
