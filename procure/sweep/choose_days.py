"""Which days of a log should a study simulate? Chosen by a rule, after a probe of how long jobs wait on each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from procure.errors import ArgumentError
from procure.progress import silent
from procure.study import Study, load_study
from procure.study.workloads import write_workloads
from procure.sweep.probe import EVERY, probe_days
from procure.text import Shown, counted, listed
from procure.workload.days import choose, day_table, split_days, without_quiet


@dataclass(frozen=True)
class DayRule:
    """How days are chosen.

    Attributes
    ----------
    by
        ``calendar``: evenly spaced. ``clustering``: groups of similar days, one day of each with the number of days
        that it stands for as its weight. ``hardest``: the longest waits over a probe. None: the days named.
    days
        ``YYYY-MM-DD`` each, without ``by``.
    n, per_month
        How many days; under ``calendar`` also how many of each month, instead.
    seed
        Of the first centres of ``clustering``.

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
    """A log's days.

    Attributes
    ----------
    table
        A row per day with jobs: ``day weekday n_jobs cpu_hours …``, ``median_wait`` of a probe, s, ``weight`` and
        ``chosen``.
    jobs
        Job tables by day.
    quiet
        Days left out because jobs hardly wait on them.
    file
        The ``workloads.toml`` written for a study; None where none was asked for.
    """

    table: pd.DataFrame
    jobs: dict[str, pd.DataFrame]
    quiet: list[str]
    file: Path | None = None

    notes = ()

    @property
    def title(self) -> str:
        """How many days there are, are chosen, and are left out."""
        rest = f", {int(self.table['chosen'].sum()):,} chosen" if self.table["chosen"].any() else ""
        out = f", {len(self.quiet):,} left out" if self.quiet else ""
        return f"{counted(len(self.table), 'day')} with jobs{rest}{out}"

    def to_dict(self) -> list[dict[str, Any]]:
        """Return a record per day."""
        return self.table.to_dict(orient="records")

    def shown(self) -> pd.DataFrame:
        """Return the table for people."""
        names = {"cpu_hours": "CPU h", "gpu_jobs": "GPU jobs", "gpu_hours": "GPU h"}
        names |= {"median_wait": "median wait s"} if "median_wait" in self.table else {}
        names |= {"weight": "weight"} if self.table["chosen"].any() else {}
        shown = {"day": self.table["day"], "": self.table["weekday"], "jobs": self.table["n_jobs"]}
        numbers = {new: self.table[old].round().astype("Int64") for old, new in names.items()}
        return pd.DataFrame(shown | numbers)


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
        note(_about_quiet(quiet, out))
    chosen = choose(able, rule.by, rule.days, rule.n, rule.per_month, rule.seed)
    table = table.merge(chosen, how="left", on="day")
    table["chosen"] = table["weight"].notna()
    file = None
    if out is not None:
        file = write_workloads(parts, chosen, out, study.workloads[0] if study else None, tz)
    return ChosenDays(table, parts, quiet, file)


def _check(rule: DayRule, probe: Probe | None, out: Path | None) -> None:
    if rule.by is not None and rule.days:
        raise ArgumentError("by", "give a rule or days by name")
    if rule.by == "hardest" and probe is None:
        raise ArgumentError("study", "hardest needs a study whose packages are probed")
    if rule.per_month is not None and rule.by != "calendar":
        raise ArgumentError("per_month", "it belongs to --by calendar")
    if out is not None and rule.by is None and not rule.days:
        raise ArgumentError("out", "nothing is chosen: give --by or --day")


def _about_quiet(days: list[str], out: Path | None) -> str:
    where = out / "probe" / f"jobs-{days[0]}.parquet" if out else Path(f"jobs-{days[0]}.parquet")
    return (
        f"left out, because jobs hardly wait (median mean wait under 60 s), so packages hardly differ: "
        f"{listed(days)}; to see them under more load: procure workload slice {where} --load 1.5 --out busier.parquet"
    )
