"""`procure study`: the file that holds one purchase question."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from procure.cli import common, lazy, study_options
from procure.cli.quotes import ColumnOption, offer_reading
from procure.errors import TableError
from procure.offers.reading import in_usd
from procure.packages.rules import without_each
from procure.policies.catalog import is_batched
from procure.recommender.rule_costs import RuleCost, probe_rules
from procure.study import Study, load_plan, load_study
from procure.study.check import application_table, check_study, gpu_models, gpu_notes, say_size, study_notes, study_text
from procure.study.existing import read_existing, summarise_nodes
from procure.sweep import store
from procure.text import counted
from procure.workload import LogSettings
from procure.workload.importing import is_job_table

app = lazy.command_group()


@app.command("init")
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The study file to write, .toml.")],
    quotes: Annotated[Path, typer.Option(help="The quote file of the study.")] = Path("quotes.csv"),
    budget: str = typer.Option(
        "1000000", metavar="AMOUNT", help="In US$, e.g. 1.2M, or with --set rates.EUR=1.08 as €300,000."
    ),
    jobs: Annotated[Path | None, typer.Option(help="The job table to replay; without, jobs are made up.")] = None,
    tz: Annotated[str | None, common.zone_option("Zone of the days.")] = None,
    settings: Annotated[
        list[str] | None, common.set_option("How the offers are read, as in `procure quotes check`.")
    ] = None,
    column: ColumnOption = None,
) -> None:
    """Write a study file that shows every setting with its default; never over an existing file.

    Of a log, `procure workload import` makes a job table; `procure buy` does that and all the rest.

    Examples:
    procure study init mystudy.toml --quotes quotes/example-2023.csv --budget 1000000
    procure study init mystudy.toml --quotes offers.xlsx --set rates.EUR=1.08 --budget €1.2M --jobs jobs.parquet
    """
    reading = offer_reading(settings, columns=column)
    if path.exists():
        raise TableError(f"{path}: exists already; nothing was written")
    if jobs is not None:
        if not is_job_table(jobs, LogSettings()):
            why = f"{jobs} is a log; `procure workload import` makes a job table of it, `procure buy` imports it"
            raise typer.BadParameter(why, param_hint="--jobs")
        common.read_job_table(jobs)
    with common.bad_option("--budget"):
        try:
            usd = in_usd(budget, reading.rates)
        except ValueError as error:
            raise ValueError(str(error).replace("--rate ", "--set rates.")) from None
    beside = {one: Path(os.path.relpath(one, path.parent)) for one in (quotes, jobs) if one is not None}
    offers = reading.model_dump(exclude_defaults=True)
    text = study_text(path, beside[quotes], usd, beside[jobs] if jobs else None, tz, offers)
    with path.open("x", encoding="utf-8") as stream:
        stream.write(text)
    try:
        said = say_size(study_options.load(path))
    except TableError as error:
        said = f"careful: {error}"
    common.note(f"wrote {path}", said, f"next: procure study check {path}")


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
    common.note(*study_notes(plan), say_size(loaded, size))
    costs = _rule_costs(loaded)
    common.note(*gpu_notes(plan, missing))
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
    merge: bool = typer.Option(False, "--merge", help="Bring the parts of all shards into the one result table first."),
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
    common.note(*problems)
    if counts["n_missing"]:
        common.note(f"run the shards again, or: procure sweep {path}")
    if problems:
        raise typer.Exit(1)
