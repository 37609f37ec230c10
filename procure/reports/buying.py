"""One command in: from a log and offers to a recommendation and its report; each step is one line with its time."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.explorer import search
from procure.files import existing_file, whole_file
from procure.offers import OfferReading
from procure.offers.reading import in_usd
from procure.packages.enumerate import TooManyPackages
from procure.packages.quotes import read_quote_file
from procure.progress import silent
from procure.recommender import recommend
from procure.recommender.evaluate import train
from procure.recommender.recommendation import Recommendation
from procure.reports.purchase import Report, report
from procure.schemas import as_logged
from procure.study import Plan, Study, load_study
from procure.study.check import check_study, say_size, study_notes
from procure.sweep import FarmOptions, load_plan, run_sweep
from procure.sweep.store import OtherInputs
from procure.tables import with_clock_of, write
from procure.text import counted, duration, toml
from procure.workload import LogSettings, read_log
from procure.workload.clock import has_dates, utc_text
from procure.workload.importing import guess, is_job_table
from procure.workload.ledger import log_bytes
from procure.workload.load import cpu_seconds
from procure.workload.log_settings import fitting_preset, merged

Say = Callable[[str], None]
WHOLE_LOG = 60 * 86_400
"""A log that spans no more seconds is replayed as a whole; of a longer one, its `WEEKS` busiest weeks."""
WEEKS = 4
MOST_RUNS = 5_000
"""A sweep of more runs, where the study does not say how many, gives way to a search."""
_WEEK, _WARM_UP = 7 * 86_400, 3 * 86_400
_UTC_ASSUMED = "dates were read as UTC"


@dataclass(frozen=True)
class Inputs:
    """What a new study is made of.

    ``jobs`` is a log or a job table, ``quotes`` the vendors' offers, ``log`` and ``offers`` how they are read;
    ``budget`` is US$, or an amount in a currency of ``offers.rates``. ``site`` is a folder of `procure site read`:
    packages are judged under its rules, added to its nodes. ``logged_processor`` is that on which the jobs ran; run
    times are then scaled to each quoted one.

    Examples
    --------
    >>> import procure
    >>> from pathlib import Path
    >>> procure.Inputs(Path("jobs.parquet"), Path("quotes.csv"), "70k").budget
    '70k'
    """

    jobs: Path
    quotes: Path
    budget: str
    log: LogSettings = field(default_factory=LogSettings)
    offers: OfferReading = field(default_factory=OfferReading)
    site: Path | None = None
    logged_processor: str | None = None


def buy(
    study: str | Path,
    inputs: Inputs | None = None,
    *,
    k: int | None = None,
    farm: str = "local",
    options: FarmOptions | None = None,
    out: Path | None = None,
    pdf: Path | None = None,
    bill: Path | None = None,
    say: Say = silent,
    note: Say = silent,
) -> Report:
    """Answer a purchase question from beginning to end: import, check, simulate, learn, confirm, report.

    What an earlier call has imported, simulated or learnt is taken as it is.

    Parameters
    ----------
    study, inputs
        The study file; what it is written from where it is not there yet, None: it is there.
    k, out, pdf, bill, farm, options
        See `procure.report` and `procure.run_sweep`.
    say, note
        Called with a line for each step when it has ended, and with what else the user should know.

    Raises
    ------
    TableError
        An input is wrong, or only a person can say how to read it: the message is the question, and names the option.

    Examples
    --------
    >>> import procure
    >>> procure.buy("study.toml", k=3, farm="serial").recommendation.k
    3
    """
    path, note = Path(study), _once(note)
    if inputs is not None:
        _write_study(path, inputs, say, note)
    with _step("checked", say) as told:
        plan, size = check_study(path)
        loaded = plan.study
        for text in study_notes(plan):
            note(text)
        told(say_size(loaded, size))
    try:
        _simulate(loaded, farm, options or FarmOptions(), say, note)
    except OtherInputs:
        folder = loaded.folder  # of results that the edited study cannot go on with
        n = next(n for n in range(1, 10_000) if not folder.with_name(f"{folder.name}.{n}").exists())
        aside = folder.rename(folder.with_name(f"{folder.name}.{n}"))
        say(f"changed: the study asks for other runs than before; their results are now in {aside}")
        _simulate(loaded, farm, options or FarmOptions(), say, note)
    with _step("confirmed and reported", say) as told:
        done = report(loaded, out, k=k, pdf=pdf, bill=bill, note=note)
        told(str(done.path))
    return done


def ask(
    study: str | Path | Study,
    *,
    budget: float | None = None,
    constraints: Sequence[str] = (),
    objective: str | None = None,
    k: int | None = None,
    confirm: bool = False,
) -> Recommendation:
    """Rank the packages again under another budget or other bounds, from what was simulated.

    Parameters
    ----------
    study, budget
        A study that was bought or swept; US$ that the servers may cost, at most its own: above it, packages were never
        listed, and it is an `ArgumentError`.
    constraints, objective, k
        See `procure.recommend`.
    confirm
        Simulate the head of the list where it is predicted.

    Examples
    --------
    >>> import procure
    >>> len(procure.ask("study.toml", constraints=["mean_wait<=10d"], k=2).ranking) > 0
    True
    """
    loaded = load_study(study)
    bounds = list(constraints)
    if budget is not None:
        own = loaded.packages.budget_usd
        if not 0 < budget <= own:
            given = f"US$ {budget:,.2f} was given; packages of the study cost up to US$ {own:,.2f}"
            more = f"For more money set budget_usd in {loaded.path} and run: procure buy {loaded.path}"
            raise ArgumentError("budget", f"{given}. {more}")
        if budget < own:
            bounds.append(f"price_usd<={f'{budget:,.2f}'.removesuffix('.00')}")
    how = {} if confirm else {"verify": False, "resamples": 0, "exchanges": 0}
    return recommend(loaded, k=k, objective=objective, constraints=bounds, **how)  # type: ignore[arg-type]


def _once(note: Say) -> Say:
    """Return what passes a line on the first time that it is said: each step reads the study's inputs anew."""
    said: list[str] = []

    def tell(text: str) -> None:
        if not any(text.endswith(one) for one in said):  # what is said of the log is not said again of its weeks
            note(text)
        said.append(text.rpartition("careful: ")[2])

    return tell


@contextmanager
def _step(name: str, say: Say) -> Iterator[Say]:
    """Say what a step came to, and how long it took, when it has ended."""
    began, told = time.perf_counter(), list[str]()
    yield told.append
    say(f"{name}: {'; '.join(told)} ({duration(time.perf_counter() - began)})")


def _listed(study: Study) -> Plan | None:
    """Return the plan of a sweep; None where a search is to choose, as the packages, or the runs, are too many."""
    try:
        plan = load_plan(study)
    except TooManyPackages:
        return None
    return plan if study.sweep.sample is not None or plan.n_runs <= MOST_RUNS else None


def _simulate(study: Study, farm: str, options: FarmOptions, say: Say, note: Say) -> None:
    with _step("simulated", say) as told:
        plan = _listed(study)
        if plan is None:
            found = search(study, farm=farm, options=options, note=note)
            chosen = counted(len(found.ranking), "package")
            told(f"{chosen} that a search chose, {found.spent['n_runs_computed']:,} runs")
            return
        done = run_sweep(plan, farm, note=note, options=options)
        failed = f", {done.n_failed:,} failed" if done.n_failed else ""
        told(f"{counted(done.n_runs, 'run')}, {done.n_computed:,} of them now{failed}")
    n, every = len(plan.sampled_rows), int(plan.packages["distinct"].sum())
    if n == every:
        return
    with _step("learnt", say) as told:
        error = train(study, note=note).table["relative_rmse"]
        told(f"from {n:,} of {every:,} packages; the error is {error.mean():.0%} of that of always saying the mean")


def _write_study(path: Path, inputs: Inputs, say: Say, note: Say) -> None:
    """Write a study file from a log and offers; one that these have written before stays."""
    if inputs.site is not None and not inputs.site.is_dir():
        raise ArgumentError("site", f"{inputs.site}: no such folder; procure site read writes one")
    with _step("offers", say) as told:
        told(_read_offers(inputs))
        try:
            usd = in_usd(inputs.budget, inputs.offers.rates)
        except ValueError as error:
            raise ArgumentError("budget", str(error)) from None
    with _step("jobs", say) as told:
        tables, zone = _imported(path, inputs, told, note)
    text = _study_text(path, inputs, usd, tables, zone)
    if path.exists():
        if path.read_text(encoding="utf-8") != text:
            there = f"{path}: is there already, and not what these options write; go on with it: procure buy {path}"
            raise TableError(f"{there}; or name another file: procure buy other.toml --jobs {inputs.jobs} …")
        say(f"study: {path} is as these options write it")
        return
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    say(f"study: wrote {path}")


def _read_offers(inputs: Inputs) -> str:
    """Read the offers, and say what they hold; cells that a person must explain are an error."""
    found = read_quote_file(inputs.quotes, inputs.offers)
    if found.errors:
        raise found.error()
    quotes, left = found.quotes, len(found.findings)
    if not len(quotes):
        no = "holds no server with a price"
        raise TableError(f"{inputs.quotes}: {no}; say what its columns are: --column FIELD=HEADING")
    groups = ", ".join(f"{len(part)} {name}" for name, part in quotes.groupby("category", sort=False))
    unread = f"; {counted(left, 'cell')} not read, see procure quotes check {inputs.quotes}" if left else ""
    return f"{counted(len(quotes), 'server type')} in {inputs.quotes}: {groups}{unread}"


def _imported(path: Path, inputs: Inputs, told: Say, note: Say) -> tuple[dict[str, Path], str | None]:
    """Return the job tables that are replayed, by the name of their workload, and the zone of their days.

    A table is named after what it was made from, so that the same log is not read twice.
    """
    how = _log_settings(inputs)
    with inputs.jobs.open("rb") as file:
        made_of = hashlib.file_digest(file, "sha256")
    made_of.update(how.model_dump_json().encode())
    base = path.with_name(f"{path.stem}-jobs-{made_of.hexdigest()[:8]}.parquet")
    known = sorted(path.parent.glob(f"{base.stem}*.parquet"))
    zone = how.log_tz or (merged(how, inputs.jobs.name).log_tz if how.said() else None)
    if known:
        told(f"{inputs.jobs}, as imported before in {known[0]}" + (f" and {len(known) - 1} more" if known[1:] else ""))
        return {one.stem.removeprefix(base.stem).removeprefix("-") or "jobs": one for one in known}, zone
    found = read_log(inputs.jobs, how, shape="tasks")
    if zone is None and any(text.startswith(_UTC_ASSUMED) for text in found.notes):
        asked = "in which time zone are its dates? They have no offset. Say it with --tz"
        raise TableError(f"{inputs.jobs}: {asked}, e.g. --tz Europe/Berlin, or --tz UTC")
    for text in found.account()[1:]:
        note(f"{inputs.jobs}: {text}")
    tables = {
        name: write(jobs, base if name == "jobs" else base.with_name(f"{base.stem}-{name}.parquet"))
        for name, jobs in _weeks(found.jobs).items()
    }
    told(f"{counted(len(found.jobs), 'job')} of {counted(found.n_read, 'row')} of {inputs.jobs}, {_span(found.jobs)}")
    if len(tables) > 1:
        told(f"the {len(tables)} weeks with the most CPU and GPU time are replayed, each after 3 days of warm-up")
    return tables, zone


def _log_settings(inputs: Inputs) -> LogSettings:
    """Return how the log is read; where no option says its format, its first lines do."""
    how = inputs.log
    if str(inputs.jobs) == "-":
        raise TableError("-: a purchase is repeated, so its jobs must stay; name a file")
    if how.format or is_job_table(existing_file(inputs.jobs), how):
        return how
    if how.preset:
        return how.model_copy(update={"format": merged(how, inputs.jobs.name).format})
    found = guess(inputs.jobs)
    if found is not None and found.name == "csv" and not how.columns:
        header = log_bytes(inputs.jobs)[:65_536].decode("utf-8", errors="replace").partition("\n")[0]
        preset = fitting_preset(re.split('"?[,;\t]"?', header.strip(' "\r\ufeff')))
        return how.model_copy(update={"format": "csv", "preset": preset})
    return how if found is None else how.model_copy(update={"format": found.name})


def _weeks(jobs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return a log of up to `WHOLE_LOG` as it is, of a longer one its busiest weeks, each with what precedes it."""
    submit = jobs["submit_time"].to_numpy(np.int64)
    first = int(submit.min())
    if int(submit.max()) - first <= WHOLE_LOG:
        return {"jobs": jobs}
    # A week before which nothing is known has no warm-up, and one that the log cuts is not whole.
    begin = first + _WARM_UP
    week = (submit - begin) // _WEEK
    whole = (week >= 0) & (week < (int(submit.max()) - begin) // _WEEK)
    logged = as_logged(jobs)
    gpus = cpu_seconds(logged.assign(cpus_per_node=logged["gpus_per_node"]))
    work = np.sum([one / max(float(one.sum()), 1.0) for one in (cpu_seconds(logged), gpus)], axis=0)
    busy = np.bincount(week[whole], work[whole])
    found = {}
    for one in sorted(np.argsort(-busy, kind="stable")[:WEEKS].tolist()):
        low = begin + one * _WEEK
        part = jobs[(submit >= low - _WARM_UP) & (submit < low + _WEEK)].reset_index(drop=True)
        name = utc_text(low)[:10] if has_dates(jobs) else f"{one + 1}"
        found[f"week-{name}"] = with_clock_of(jobs, part)
    return found


def _span(jobs: pd.DataFrame) -> str:
    first, last = int(jobs["submit_time"].min()), int(jobs["submit_time"].max())
    if not has_dates(jobs):
        return f"over {duration(last - first)}"
    return f"{utc_text(first)[:10]} to {utc_text(last)[:10]}"


def _study_text(path: Path, inputs: Inputs, usd: float, tables: dict[str, Path], zone: str | None) -> str:
    """Write the study: what was given, and what is edited most often as a comment."""

    def beside(one: Path) -> str:
        return toml(Path(os.path.relpath(one, path.parent)).as_posix())

    offers = inputs.offers.model_dump(exclude_defaults=True)
    lines = [
        "# Written by `procure buy`. Edit it and run `procure buy FILE`; what still holds is not computed again.",
        "# Every key with its default: `procure study init other.toml`. Paths are relative to this file.",
        f"quotes = {beside(inputs.quotes)}",
        *(["", "[offers]", *(f"{key} = {toml(value)}" for key, value in offers.items())] if offers else []),
        "",
        "[packages]",
        f"budget_usd = {toml(usd)}",
        "# min_gpu_nodes = 1                  # what every package must hold …",
        "# max_power_w = 30_000               # … and must not exceed",
        "",
    ]
    for name, table in tables.items():
        lines += ["[[workloads]]", f"name = {toml(name)}", f"jobs = {beside(table)}"]
        lines += [f"tz = {toml(zone)}"] if zone else []
        lines += ['warm_up = "3d"'] if len(tables) > 1 or name != "jobs" else []
        lines += [""]
    if inputs.logged_processor:
        lines += ["[simulate]", f"logged_processor = {toml(inputs.logged_processor)}", ""]
    if inputs.site is not None:
        lines += ["[site]", f"path = {beside(inputs.site)}", ""]
    lines += ["[costs]", "# years = 5", "# usd_per_kwh = 0.15                 # without it energy is not priced"]
    return "\n".join(lines) + "\n"
