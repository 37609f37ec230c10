"""``procure sweep``, ``search``, ``train``, ``evaluate``: simulate packages, and learn from those."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from procure.cli import common, study_options
from procure.explorer.run import search as search_packages
from procure.packages.enumerate import TooManyPackages
from procure.page.names import head
from procure.recommender.evaluate import evaluate as evaluate_study
from procure.recommender.forward import forward
from procure.recommender.learning import train as train_model
from procure.settings import MOST_COUNTED
from procure.study import Study
from procure.study.check import plan_size, say_size
from procure.sweep import FarmOptions, Plan, load_plan, run_sweep
from procure.sweep.store import study_status
from procure.tables import write
from procure.text import counted

_OF_SWEEP, _OF_FORWARD = ("truth", "rule", "hit_threshold"), ("cut",)


def sweep(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    farm: study_options.FarmOption = "local",
    jobs: study_options.JobsOption = None,
    walltime: study_options.WalltimeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be computed, and stop.")] = False,
    shard: str | None = typer.Option(
        None, metavar="I/N", help="Only shard I of 0 … N−1; then: procure study status STUDY.toml --merge"
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Simulate the packages of a study; a sweep that was interrupted computes only what is missing.

    Results go to RESULTS/NAME/results.parquet with a manifest.json beside it. Of packages that are too many to list,
    those that `procure search` chooses are simulated.

    Examples:
    procure sweep pipelines/example.toml --dry-run
    procure sweep pipelines/example.toml
    procure sweep pipelines/example.toml --farm serial --set sweep.sample=50
    procure sweep pipelines/year.toml --farm slurm --jobs 20 --walltime 1:00:00
    procure sweep pipelines/year.toml --shard 7/32
    """
    part = _shard(shard) if shard else None
    of_study, workers = study_options.farm_options(farm, settings, jobs=jobs, walltime=walltime)
    study = study_options.load(path, of_study)
    try:
        plan = load_plan(study)
    except TooManyPackages:
        if part:
            raise
        common.note(f"{path}: {say_size(study)}")
        if dry_run:
            common.print_record(plan_size(study), output, f"{path} would search:")
        else:
            _search(study, farm, workers, None, output)
        return
    for text in plan.notes:
        common.note(text)
    if dry_run:
        common.print_record(_planned(plan), output, f"{path} would compute:")
        return
    with study_options.interruptible(f"computed is kept, and `procure sweep {path}` goes on from there"):
        summary = run_sweep(plan, farm, note=common.note, options=replace(workers, folder=study.folder), shard=part)
    record = summary._asdict() | {"results": str(summary.results)}
    if summary.n_computed and summary.seconds > 0:
        record["runs_per_second"] = summary.n_computed / summary.seconds
        record["kernel_share"] = summary.kernel_seconds / (summary.seconds * max(1, summary.n_workers))
    common.print_record(record, output, f"{study.name}: sweep finished")
    if part:
        common.note(f"when all shards are done: procure study status {path} --merge")


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and int(number) < int(count):
        return int(number), int(count)
    raise typer.BadParameter(f"{text!r} was given; write I/N with I from 0 to N-1", param_hint="--shard")


def _planned(plan: Plan) -> dict[str, Any]:
    status = study_status(plan, common.note)
    return {
        "n_packages": len(plan.packages),
        "n_distinct": int(plan.packages["distinct"].sum()),
        "n_sampled": len(plan.sampled_rows),
        "workloads": ", ".join(f"{name} ({counted(len(jobs), 'job')})" for name, jobs in plan.workloads.items()),
        "policies": ", ".join(plan.study.simulate.policies),
        "n_runs": plan.n_runs,
        "n_missing": status["n_missing"],
        "folder": status["folder"],
    }


def search(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    k: study_options.LengthOption = None,
    objective: study_options.ObjectiveOption = None,
    constraints: study_options.ConstraintOption = None,
    method: str = typer.Option(
        "model", help="model, or every-tenth: the published rule, every n-th package and a model of their totals."
    ),
    farm: study_options.FarmOption = "serial",
    out: Annotated[Path | None, common.table_option("Also write every simulated package, ranked")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Find the best packages with few simulations: a model proposes, the simulator answers, in rounds.

    The list holds simulated packages only, those that run every job first, by mean wait in seconds over
    all jobs of all workloads, or by --objective under --constraint; with what was spent. A second call goes
    on where the first ended; nothing is simulated twice, what the study's own sweep has simulated is known
    from the start and free, and `procure recommend` uses what is simulated here.

    [bold]When it ends.[/bold] When the budget is spent (search.runs, or search.share of all packages: 0.01); or, by
    the model, when for search.stable_rounds rounds in a row (5; 0 = never) no package of the round came among the
    first k of the list (at least 50); or when every package is simulated. A round is a sixth of the packages so far,
    but at least search.batch (24); the first is 64.

    Examples:
    procure search pipelines/example.toml --set search.runs=250
    procure search pipelines/example.toml --set search.share=0.01 -k 10 --format json
    procure search pipelines/large.toml --set search.runs=2000 --farm local
    procure search pipelines/example.toml --objective p95-wait --constraint 'total_gpus>=20'
    """
    of_study, workers = study_options.farm_options(farm, settings)
    study = study_options.load(path, of_study)
    asked = {"k": k, "objective": objective, "constraints": constraints, "method": method}
    _search(study, farm, workers, out, output, **asked)


def _search(
    study: Study, farm: str, workers: FarmOptions, out: Path | None, output: common.Format, **asked: Any
) -> None:
    """Search a study's packages, and print what was found."""

    def progress(done: int, total: int, best: float) -> None:
        so_far = f"; best so far: {best:,.1f}" if best == best else ""
        common.note(f"{done:,} of {counted(total, 'run')} requested{so_far}")

    workers = replace(workers, folder=study.folder)
    with study_options.interruptible("simulated is kept, and the same command goes on from there"):
        found = search_packages(study, **asked, farm=farm, options=workers, note=common.note, progress=progress)
    if out is not None:
        write(found.ranking, out)
        common.note(f"wrote {counted(len(found.ranking), 'simulated package')} to {out}")

    def people() -> None:
        common.print_table(found.shown(), output, found.title)
        common.print_record(found.spent, output, "Spent:")

    document = {"packages": found.records(), "spent": found.spent}
    common.tell(output, found.notes, lambda: document, found.ranking.head(found.k), people)


def train(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Cross-validate the study's model on the packages that were simulated, and keep it.

    Every simulated package is predicted by the folds that did not see it. RMSE is in seconds, and
    relative to always answering the mean (below 1 is better). Models go to RESULTS/NAME/models/.

    Examples:
    procure train pipelines/example.toml
    procure train pipelines/example.toml --set model.feature_set=totals --format json
    """
    done = train_model(study_options.load(path, settings), note=common.note)

    def people() -> None:
        for row in done.table.to_dict(orient="records"):
            common.print_record(row, output, f"{done.study}, {row['workload']}: out-of-fold error")
            pearson = done.correlations[row["workload"]].rename_axis("").reset_index()
            pearson[""] = [head(name)[0] for name in pearson[""]]
            plain = dict.fromkeys(pearson.columns, "")
            common.print_table(pearson, output, "Pearson correlation over the simulated packages", plain)

    common.tell(output, done.notes, done.records, done.table, people)


def evaluate(
    context: typer.Context,
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    truth: Path | None = typer.Option(
        None,
        metavar="STUDY_OR_PARQUET",
        help="A study or result table that simulated more packages: hits and regret are taken from it.",
    ),
    rule: study_options.RuleOption = "runs-all",
    hit_threshold: list[int] | None = typer.Option(
        None,
        min=0,
        metavar="N",
        max=MOST_COUNTED,
        help="Judge the study's workloads together: a hit is among the best on more than N of them; repeat; "
        "default: the study's evaluate.hit_threshold.",
    ),
    ahead: bool = typer.Option(
        False, "--forward", help="Backtest: choose on the jobs before each cut, judge on those after. Needs no sweep."
    ),
    cut: list[str] | None = typer.Option(
        None,
        metavar="DAY",
        help="--forward: buy as of this local day or moment; repeat; default: every first of a month.",
    ),
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Judge the study's model against what was simulated, beside a random and a naive choice.

    A hit is a package whose mean wait (seconds) is among the lowest 5 % of the packages that run
    every job. Simulated packages are predicted by the folds that did not see them. The published
    rule, which counts only the jobs that ran, is shown beside. Regret is how much longer jobs wait on the
    best of the first k than on the best of all, as a share of the latter, or of 60 s if that is more.

    With --hit-threshold N a hit is a package that is among the best hit_share of all packages on more
    than N of the workloads; on each only packages that run all its jobs can be (published rule: all
    can). Then precision@50 at every threshold, and what robust choices over the days would buy.

    With --forward: what the rule of `recommend` (past), the mean day, the cheapest per CPU and a random choice would
    have bought as of each cut, and how long jobs waited on that afterwards, against the best in hindsight (ratio).

    Examples:
    procure evaluate pipelines/example.toml
    procure evaluate pipelines/example.toml --set evaluate.hit_share=0.01 --format json
    procure evaluate pipelines/example.toml --rule published
    procure evaluate sampled.toml --truth exhaustive.toml
    procure evaluate pipelines/year.toml --hit-threshold 6 --hit-threshold 16
    procure evaluate spring.toml --forward --cut 2021-05-05 --format json
    """
    study = study_options.load(path, settings)
    if ahead:
        common.refuse_given(context, "--forward does not use it", *_OF_SWEEP)
        common.show(forward(study, cut, note=common.note), output)
        return
    common.refuse_given(context, "it belongs to --forward", *_OF_FORWARD)
    found = evaluate_study(study, truth=truth, rule=rule, hit_threshold=hit_threshold, note=common.note)

    def people() -> None:
        for line in found.verdict():
            common.echo(line)
        for title, table in found.shown().items():
            common.print_table(table, output, title)

    common.tell(output, found.notes, found.to_dict, found.hits, people)
