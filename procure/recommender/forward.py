"""Buy as of a day in the past, and judge the choice on what came after it: a backtest of rules of choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from procure.errors import ArgumentError, TableError
from procure.evaluation.ranking import rank_correlation
from procure.objectives.aggregate import REGRET_FLOOR
from procure.progress import silent
from procure.recommender.candidates import Candidates, between, draw_candidates, ratio_of
from procure.recommender.choosing import Choice, naive, simulating, with_backtest
from procure.recommender.earlier_cuts import MAX_CUTS, Evidence, earlier_moments, replay_earlier
from procure.recommender.learning import Note
from procure.recommender.race import OUT
from procure.study import Study, load_plan, load_study
from procure.study.applications import mapper
from procure.study.plan import read_past_jobs
from procure.tables import with_clock_of
from procure.text import Shown, counted, duration
from procure.workload.clock import day_bounds, has_dates, moment, utc_text
from procure.workload.futures import WEEK, Futures

N_PACKAGES, RUNS_PER_PACKAGE = 1000, 3
NEAR_BEST = 1.2


@dataclass(frozen=True)
class Forward(Shown):
    """What each rule would have bought at each cut, and how that did.

    Attributes
    ----------
    table
        ``cut`` (the local day), ``rule``, ``package_id``, its ``mean_wait_time`` (s) over what came, the
        ``best_package_id`` in hindsight with its ``best_mean_wait_time``, their ``ratio`` (both at least 60 s),
        ``n_judged`` packages, ``n_runs`` that the choice took, ``saturated`` (on what came), and of both rules by
        futures ``best_chance``, ``near_chance`` (stated), and ``low_wait_time``, ``high_wait_time`` (the stated 90 %
        range); ``rank_correlation`` of the rule's figures with what came, over the packages that it knows wholly.
        What a random choice would give: ``random_ratio``, the geometric mean of the ratio over all judged packages; 1
        says that nobody waits a minute on any of them, so that the cut tells no rule from another.
        Whether the best in hindsight is a matter of luck: ``share_near_best`` of the judged packages wait at most 1.2
        times as long;
        ``halves_correlation`` is the rank correlation of the waits over the first and the second half of what came,
        and ``halves_ratio`` the ratio on one half of the package that is the best on the other, geometric mean of
        both ways: what knowing half of what came would give. ``chosen_rule`` is which rule ``by-backtest`` chose by.
    notes
        What the figures are about.
    evidence
        By cut, what the earlier cuts of the log say of the rules; a cut without earlier ones has none.
    """

    table: pd.DataFrame
    notes: list[str]
    evidence: dict[str, Evidence] = field(default_factory=dict)
    title = "chosen before each cut, judged on what came"

    def shown(self) -> pd.DataFrame:
        """Return the table for people."""
        table = self.table[["cut", "rule", "package_id", "mean_wait_time", "ratio", "saturated", "n_runs"]]
        return table.assign(mean_wait_time=table["mean_wait_time"].round(), ratio=table["ratio"].round(2)).rename(
            columns={"mean_wait_time": "wait_s"}
        )

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as plain values, as ``procure evaluate --forward --format json`` prints them.

        That of ``by-backtest`` has the ``evidence``: the ratio of each rule at each earlier cut.
        """
        rows = self.table.to_dict(orient="records")
        for row in rows:
            if row["rule"] == "by-backtest":
                row["evidence"] = self.evidence[row["cut"]].to_dict()
        return rows


def forward(
    study: str | Path | Study,
    cuts: Sequence[str] | None = None,
    *,
    horizon: int | None = None,
    n_packages: int = N_PACKAGES,
    runs: int | None = None,
    seed: int = 1,
    policy: str | None = None,
    earlier: int = MAX_CUTS,
    note: Note = silent,
) -> Forward:
    """Let every rule choose on the jobs before each cut, and judge its choice on those after it.

    Parameters
    ----------
    study
        Its workloads are taken together as one log; nothing needs to have been swept.
    cuts
        Local days, or moments, in the log; None = every first of a month with three weeks before it and two after.
    horizon
        s that are judged after a cut; None = the length of the study's futures. The log may end earlier.
    n_packages
        So many packages are drawn at random from those that run every job before the cut.
    runs
        What each rule may simulate, package × workload; None = three times the packages. A rule that looks at
        more workloads than that allows for every package looks at fewer packages.
    seed
        Of the packages that are drawn.
    policy
        One of the study's; None = its first.
    earlier
        At most so many earlier cuts, a week apart, are replayed for the rule ``by-backtest``; 0 = it is left out.
    note
        Called with a line on each step.

    Raises
    ------
    ArgumentError
        A cut, a number or the policy is wrong.
    TableError
        The study is wrong, or no package runs every job.

    Notes
    -----
    The rules: ``recommended``, that of `procure.recommend`: the least objective ``rank-by-class`` over the past, its
    four parts, and futures drawn from it (with the study's settings, but right after the cut, and as long as the
    horizon), a third of the weight each: all packages on the past, the best and a few others on the futures.
    ``by-backtest``, the one of `procure.recommender.earlier_cuts.rule_figures` that has chosen best at earlier cuts of
    the log before the cut, if four or more of these say so, else ``recommended``.
    ``futures``, the least objective ``rank`` over the futures, and ``futures-mean``, the least mean wait over them,
    each by a race; ``past``, the least mean wait over it replayed continuously; ``past-and-parts``, as ``recommended``
    without futures; ``mean-day`` and ``worst-day``, over
    all days of the past, each from an empty system; ``hardest-days``, the mean over the 5 days with the largest
    median wait of 50 packages. And without any simulation: the ``cheapest-per-cpu``, the ``most-cpus``, the
    ``most-memory``, and ``existing-mix``, the package whose memory and GPUs per CPU are most like the existing
    system's, where the study has one. What is judged is replayed continuously, after the study's warm-up before the
    cut; a job that came and that a package cannot run counts as waiting to the last submission.

    Examples
    --------
    >>> import procure
    >>> found = procure.forward("weeks.toml", ["2021-03-29"], n_packages=3)
    >>> len(found.table) > 0
    True
    """
    study = load_study(study)
    for name, value, least in (("n_packages", n_packages, 1), ("runs", runs or 1, 1), ("earlier", earlier, 0)):
        if value < least:
            raise ArgumentError(name, f"{value} was given; it must be {least} or more")
    jobs = mapper(study)(read_past_jobs(study, note), study.workloads[0])
    settings = study.futures or Futures(tz=study.workloads[0].tz)
    length = horizon or settings.length
    moments = _cuts(jobs, cuts, settings.tz, length)
    plain = study.model_copy(update={"futures": None, "workloads": study.workloads[:1]})
    plan = replace(load_plan(plain), workloads={study.workloads[0].name: jobs})
    policy = policy or study.simulate.policies[0]
    tables, notes, weighed = [], [], dict[str, Evidence]()
    for day, cut in moments:
        before = jobs[jobs["submit_time"] < cut].reset_index(drop=True)
        warm_up = study.workloads[0].warm_up
        after = between(jobs, cut - warm_up, cut + length)
        with_clock_of(jobs, before)
        with_clock_of(jobs, after)
        bench = draw_candidates(plan, policy, before, n_packages, seed)
        note(f"{day}: {counted(len(bench.ids), 'package')}, {len(before):,} jobs before and {len(after):,} after")
        asked = settings.model_copy(update={"years": 0.0, "length": max(WEEK, length // WEEK * WEEK)})
        budget = runs or RUNS_PER_PACKAGE * len(bench.ids)
        chosen = simulating(bench, before, asked, warm_up, budget, note)
        moments_before = earlier_moments(int(jobs["submit_time"].min()), cut, earlier)
        named = [(_day_of(at, jobs, settings.tz), at) for at in moments_before]
        evidence = replay_earlier(bench, before, asked, warm_up, named, seed)
        if evidence is not None:
            weighed[day] = evidence
            chosen = with_backtest(chosen, evidence)
        chosen += naive(bench)
        tables.append(_judge(day, chosen, bench, after, warm_up))
        notes.append(_about(tables[-1], bench, min(length, int(jobs["submit_time"].max()) - cut)))
        if evidence is not None:
            notes.append(f"{day}: {evidence.sentence()}")
    table = pd.concat(tables, ignore_index=True)
    return Forward(table, [*notes, *_record(table)], weighed)


def _day_of(at: int, jobs: pd.DataFrame, tz: str | None) -> str:
    """Name a cut: its local day, or its second in a log without dates."""
    return f"{pd.Timestamp(at, unit='s', tz='UTC').tz_convert(tz or 'UTC'):%Y-%m-%d}" if has_dates(jobs) else str(at)


def _cuts(jobs: pd.DataFrame, cuts: Sequence[str] | None, tz: str | None, length: int) -> list[tuple[str, int]]:
    """Return the cuts and their moments; each has three weeks before it and jobs after."""
    first, last = int(jobs["submit_time"].min()), int(jobs["submit_time"].max())
    if not cuts:
        if not has_dates(jobs):
            raise ArgumentError("cut", "this log has no dates, so cuts are to be given, in its seconds")
        months = pd.date_range(pd.Timestamp(first, unit="s"), pd.Timestamp(last, unit="s"), freq="MS").strftime(
            "%Y-%m-%d"
        )
        found = [(day, day_bounds(day, tz or "UTC")[0]) for day in months]
        found = [(day, at) for day, at in found if at - first >= 3 * WEEK and last - at >= 2 * WEEK]
        if not found:
            raise ArgumentError("cut", "the log has no first of a month with three weeks before it and two after")
        return found
    found = []
    for text in cuts:
        try:
            at = day_bounds(text, tz or "UTC")[0] if len(text) == 10 and has_dates(jobs) else moment(text, tz or "UTC")
        except TableError as error:
            raise ArgumentError("cut", str(error)) from None
        if not first + 3 * WEEK <= at <= last:
            raise ArgumentError(
                "cut",
                f"{text} was given; the log goes from {utc_text(first)} to {utc_text(last)}, and a cut has three weeks "
                "of it before and some jobs after",
            )
        found.append((text, at))
    return found


def _judge(day: str, chosen: list[Choice], bench: Candidates, jobs: pd.DataFrame, warm_up: int) -> pd.DataFrame:
    """Replay what came on every package, and say how each choice did."""
    came = bench.judge(jobs, warm_up)
    wait = came["mean_wait_time"].to_numpy(dtype="float64")
    saturated = came["saturated"].to_numpy(dtype="float64")
    best = int(wait.argmin())
    ratios = np.maximum(wait, REGRET_FLOOR) / max(wait[best], REGRET_FLOOR)
    near, random = float((ratios <= NEAR_BEST).mean()), float(np.exp(np.log(ratios).mean()))
    halves, halves_ratio = _halves(bench, jobs, warm_up)
    rows = []
    for one in chosen:
        known = one.rows is not None and one.figure is not None and len(one.rows) > 2
        told = pd.Series(one.figure).corr(pd.Series(wait[one.rows]), method="spearman") if known else np.nan
        best_chance, near_chance, low, high = one.stated
        rows.append(
            {
                "cut": day, "rule": one.rule, "package_id": bench.ids[one.row], "mean_wait_time": wait[one.row],
                "best_package_id": bench.ids[best], "best_mean_wait_time": wait[best], "ratio": ratio_of(wait, one.row),
                "n_judged": len(wait), "n_runs": one.n_runs, "saturated": bool(saturated[one.row]),
                "best_chance": best_chance, "near_chance": near_chance, "low_wait_time": low, "high_wait_time": high,
                "rank_correlation": told, "random_ratio": random,
                "share_saturated": float(np.nanmean(saturated)),
                "share_near_best": near, "halves_correlation": halves,
                "halves_ratio": halves_ratio, "chosen_rule": one.of,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _halves(bench: Candidates, jobs: pd.DataFrame, warm_up: int) -> tuple[float, float]:
    """Replay the two halves of what came, each after a warm-up; return ``halves_correlation``, ``halves_ratio``.

    NaN where one has no job to count.
    """
    first, last = int(jobs["submit_time"].min()) + warm_up, int(jobs["submit_time"].max())
    middle = (first + last) // 2
    halves = between(jobs, first - warm_up, middle), between(jobs, middle - warm_up, last + 1)
    if last - first < 4 * warm_up or any(half.empty for half in halves):
        return float("nan"), float("nan")
    for half in halves:
        with_clock_of(jobs, half)
    one, other = (bench.judge(half, warm_up)["mean_wait_time"].to_numpy("float64") for half in halves)
    crossed = [ratio_of(other, int(one.argmin())), ratio_of(one, int(other.argmin()))]
    return rank_correlation(one, other), float(np.sqrt(np.prod(crossed)))


def _record(table: pd.DataFrame) -> list[str]:
    """Say which rule has chosen well over the cuts, and how surely it differs from the recommended one."""
    if table["cut"].nunique() < 2:
        return []
    log = np.log(table.pivot_table(index="cut", columns="rule", values="ratio", sort=False))
    mean = log.mean().sort_values(kind="stable")
    shown = ", ".join(f"{rule} {np.exp(value):.2f}" for rule, value in mean.items())
    found = [f"over {len(log)} cuts the choice waits so many times the best (geometric mean): {shown}"]
    first = str(mean.index[0])
    if first != "recommended":
        gap = log["recommended"] - log[first]
        better, worse = int((gap > 1e-9).sum()), int((gap < -1e-9).sum())
        chance = binomtest(better, better + worse).pvalue if better + worse else 1.0
        found.append(
            f"{first} has chosen better than recommended in {better} of {len(log)} cuts and worse in {worse} (sign "
            f"test: p = {chance:.2f})"
            + ("; that is no reason to prefer it" if chance > 1 - OUT else "; on this log it has been the better rule")
        )
    return found


def _about(table: pd.DataFrame, bench: Candidates, length: int) -> str:
    first, told = table.iloc[0], table.loc[table["rule"] == "past", "rank_correlation"].iloc[0]
    return (
        f"{first['cut']}: judged on {counted(len(bench.ids), 'package')} over {duration(length)} after it; "
        f"{first['share_saturated']:.0%} of them saturate; the best in hindsight waits "
        f"{duration(first['best_mean_wait_time'])}; the past's replay and what came order the packages with a rank "
        f"correlation of {float(told):.2f}"
    )
