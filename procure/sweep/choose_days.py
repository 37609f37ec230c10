"""Which days of a log should a study simulate? Chosen by a rule, after a probe of how long jobs wait on each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from procure.errors import ArgumentError, TableError
from procure.progress import silent
from procure.study import Study, load_plan, load_study
from procure.study.sections import Workload, write_workloads
from procure.study.study import Sweep
from procure.sweep.farm import run_sweep
from procure.sweep.store import read_results
from procure.tables import write
from procure.text import Shown, counted, listed
from procure.workload.parts import choose, day_table, split_days, without_quiet

EVERY = 1_237
"""By default every 1,237th distinct package is simulated: about a hundred of a hundred thousand."""


@dataclass(frozen=True)
class DayRule:
    """How days are chosen.

    ``by`` ``calendar``: evenly spaced; ``clustering``: groups of similar days, one day of each with the number of days
    that it stands for as its weight, from centres by ``seed``; ``hardest``: the longest waits over a probe; None: the
    ``days`` named, ``YYYY-MM-DD``. ``n`` days, or under ``calendar`` ``per_month`` of each month.

    Examples
    --------
    >>> import procure
    >>> procure.DayRule("calendar", n=6).seed
    1
    """

    by: str | None = None
    days: tuple[str, ...] = ()
    n: int = 25
    per_month: int | None = None
    seed: int = 1


@dataclass(frozen=True)
class Probe:
    """What is simulated on every day: each ``every``-th distinct package of a study, on a farm of `run_sweep`.

    Examples
    --------
    >>> import procure
    >>> procure.Probe("study.toml", farm="serial").every
    1237
    """

    study: str | Path | Study
    every: int = EVERY
    farm: str = "local"


@dataclass(frozen=True)
class ChosenDays(Shown):
    """A log's days: ``table`` and ``jobs`` by day, the ``quiet`` ones left out, and the ``workloads.toml`` written.

    ``table`` has a row per day with jobs: ``day weekday n_jobs cpu_hours …``, ``median_wait`` of a probe, s, ``weight``
    and ``chosen``.
    """

    table: pd.DataFrame
    jobs: dict[str, pd.DataFrame]
    quiet: list[str]
    file: Path | None = None

    notes = ()

    @property
    def title(self) -> str:
        """How many days there are, are chosen, and are left out."""
        n, out = int(self.table["chosen"].sum()), f", {len(self.quiet):,} left out" if self.quiet else ""
        return f"{counted(len(self.table), 'day')} with jobs{f', {n:,} chosen' if n else ''}{out}"

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a record per day."""
        return self.table.to_dict(orient="records")

    def shown(self) -> pd.DataFrame:
        """Return the table for people."""
        names = {"day": "day", "weekday": "", "n_jobs": "jobs", "cpu_hours": "CPU h", "gpu_jobs": "GPU jobs"}
        names |= {"gpu_hours": "GPU h", "median_wait": "median wait s"}
        names |= {"weight": "weight"} if self.table["chosen"].any() else {}
        shown = self.table[[name for name in names if name in self.table]].rename(columns=names)
        numbers = shown.columns[3:]
        return shown.assign(**shown[numbers].round().astype("Int64"))


def choose_days(
    jobs: pd.DataFrame,
    rule: DayRule | None = None,
    *,
    tz: str = "UTC",
    probe: Probe | None = None,
    out: Path | None = None,
    note: Callable[[str], None] = silent,
) -> ChosenDays:
    """List a log's days, and choose those that a study is to simulate.

    Parameters
    ----------
    jobs
        A checked job table with Unix times.
    rule
        How to choose; nothing is chosen without.
    tz
        Zone of the days.
    probe
        Simulate every day, and leave out those on which jobs never wait.
    out
        Folder for the chosen days' job tables and a ``workloads.toml``; and for the probe's results.
    note
        Called with what the user should know.

    Raises
    ------
    ArgumentError
        A rule that cannot be.
    TableError
        No such day, or the study's inputs are wrong.

    Examples
    --------
    >>> import procure
    >>> jobs = procure.generate(seed=1, n_jobs=200)
    >>> len(procure.choose_days(jobs, procure.DayRule("calendar", n=1)).table)
    1
    """
    rule = rule or DayRule()
    _check(rule, probe, out)
    parts = split_days(jobs, tz)
    table = day_table(parts)
    study = load_study(probe.study) if probe else None
    if probe is not None and study is not None:
        with nullcontext(str(out / "probe")) if out else tempfile.TemporaryDirectory() as folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            waits = probe_days(study, parts, Path(folder), probe.every, probe.farm, note=note)
        table["median_wait"] = waits.to_numpy()
    able, quiet = without_quiet(table)
    if quiet:
        where = (out / "probe" if out else Path()) / f"jobs-{quiet[0]}.parquet"
        note(
            "left out, because jobs hardly wait (median mean wait under 60 s), so packages hardly differ: "
            f"{listed(quiet)}; to see them under more load: procure workload slice {where} --load 1.5 "
            "--out busier.parquet"
        )
    chosen = choose(able, rule.by, rule.days, rule.n, rule.per_month, rule.seed)
    table = table.merge(chosen, how="left", on="day")
    table["chosen"] = table["weight"].notna()
    file = None
    if out is not None:
        file = write_workloads(parts, chosen, out, study.workloads[0] if study else None, tz)
    return ChosenDays(table, parts, quiet, file)


def probe_days(
    study: Study,
    days: dict[str, pd.DataFrame],
    folder: Path,
    every: int = EVERY,
    farm: str = "local",
    *,
    note: Callable[[str], None] = silent,
) -> pd.Series:
    """Simulate every n-th distinct package of a study on each day, under the study's first policy.

    Job tables and results are kept in the folder: what is there is not computed again. Returns by day the median over
    the packages of the mean wait of the jobs that ran, s; NaN where none ran anywhere.
    """
    like = study.workloads[0]
    files = {day: write(jobs, folder / f"jobs-{day}.parquet") for day, jobs in days.items()}
    tables = [
        Workload(name=day, jobs=path, logged_processor=like.logged_processor, logged_speed=like.logged_speed)
        for day, path in files.items()
    ]
    plan = load_plan(
        study.model_copy(
            update={
                "name": "probe", "results": folder / "results", "workloads": tuple(tables), "futures": None,
                "sweep": Sweep(sample=every),
                "simulate": study.simulate.model_copy(update={"policies": study.simulate.policies[:1]}),
            }
        )
    )  # fmt: skip
    run_sweep(plan, farm, note=note)
    results = read_results(plan.study, plan)
    # An earlier probe of more packages may have left its rows in the folder.
    results = results[results["package_id"].isin(plan.packages["package_id"].iloc[plan.sampled_rows])]
    failed = results[results["status"] != "ok"]
    for _, first in failed.head(1).iterrows():
        raise TableError(
            f"{len(failed):,} runs of the probe failed; the first: {first['package_id']} on {first['workload']}: "
            f"{first['reason']}"
        )
    return results.groupby("workload")["mean_wait_time"].median().astype("float64").reindex(list(days))


def _check(rule: DayRule, probe: Probe | None, out: Path | None) -> None:
    if rule.by is not None and rule.days:
        raise ArgumentError("by", "give a rule or days by name")
    if rule.by == "hardest" and probe is None:
        raise ArgumentError("study", "hardest needs a study whose packages are probed")
    if rule.per_month is not None and rule.by != "calendar":
        raise ArgumentError("per_month", "it belongs to --by calendar")
    if out is not None and rule.by is None and not rule.days:
        raise ArgumentError("out", "nothing is chosen: give --by or --day")
