"""Explain one package of a study, or why it is better or worse than another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from procure.errors import ArgumentError
from procure.explanation.package import (
    PackageExplanation,
    comparison_sentences,
    differences,
    explain_package,
    longest_waiting,
    sentences,
)
from procure.models import pool_workloads
from procure.progress import silent
from procure.study import Study
from procure.sweep.results import StudyResults, load_results
from procure.sweep.trial import about_limits, find_package
from procure.text import as_html, as_html_list

_N_SHAPES = 8


@dataclass(frozen=True)
class Explanation:
    """Why jobs wait as long as they do on one package, or on two.

    ``notes`` say what could not be explained, and how many jobs are cut at their limit.
    """

    study: str
    packages: list[PackageExplanation]
    notes: list[str] = field(default_factory=list)

    @property
    def differences(self) -> pd.DataFrame:
        """Two packages side by side: ``what item first second difference``; empty for one."""
        return differences(*self.packages) if len(self.packages) == 2 else pd.DataFrame()

    @property
    def table(self) -> pd.DataFrame:
        """All figures as one long table: ``package_id section item value``."""
        rows: list[tuple[str, str, str, Any]] = []
        for one in self.packages:
            mine: list[tuple[str, str, Any]] = [("count", kind, n) for kind, n in one.counts.items()]
            mine += [("total", "price_usd", one.price_usd), ("wait", "all", one.wait)]
            mine += [("wait", row.workload, row.mean_wait_time) for row in one.waits.itertuples()]
            mine += [("factor", row.feature, row.factor) for row in one.factors.itertuples()]
            for workload, bottleneck in one.bottlenecks.items():
                mine += [(f"lacked_seconds {workload}", cause, s) for cause, s in bottleneck.seconds.items()]
            mine += [("saved_seconds", row.type, row.saved_seconds) for row in one.marginal.itertuples()]
            rows += [(one.package_id, *row) for row in mine]
        return pd.DataFrame(rows, columns=["package_id", "section", "item", "value"])

    def lines(self) -> list[str]:
        """Explain each package, and two beside each other, in sentences."""
        lines = [line for one in self.packages for line in (f"{self.study}: {one.package_id}", *sentences(one))]
        return lines + (comparison_sentences(*self.packages) if len(self.packages) == 2 else [])

    def summary(self) -> str:
        """Return the explanation as text."""
        return "\n".join([*self.notes, *self.lines()])

    def _repr_html_(self) -> str:
        tables = "".join(as_html(one.package_id, one.waits, sentences(one)) for one in self.packages)
        return as_html_list(self.notes) + tables

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as ``procure explain --format json`` prints it."""
        return {
            "packages": [_plain(one) for one in self.packages],
            "differences": self.differences.to_dict(orient="records"),
        }


def explain(
    study: str | Path | Study | StudyResults,
    package_id: str,
    other: str | None = None,
    *,
    workload: str | None = None,
    policy: str | None = None,
    marginal: bool = True,
    note: Callable[[str], None] = silent,
) -> Explanation:
    """Explain why jobs wait as long as they do on a package, and why more or less than on another.

    Parameters
    ----------
    study
        The path of a swept study, the study, or its results.
    package_id, other
        A package of the study, as `procure.recommend` names it, simulated now if it was not; another to compare with.
    workload, policy
        One of the study's; None = all its workloads, its first policy. The schedule of the workload with the longest
        wait is replayed.
    marginal, note
        Whether to simulate one more node of each type; called with a line on each step that takes long.

    Raises
    ------
    TableError
        The study has no such package, workload or policy (`ArgumentError`), no results yet, or a run failed.

    Examples
    --------
    >>> import procure
    >>> best = procure.recommend("study.toml", k=1).ranking["package_id"].iloc[0]
    >>> procure.explain("study.toml", best, marginal=False).summary() != ""
    True
    """
    if other == package_id:
        raise ArgumentError("other", f"the same package is given twice: {other}")
    results = load_results(study, policy, workload, search=True)
    counts = [find_package(results.plan, package_id)]
    if other is not None:
        counts.append(find_package(results.plan, other, "other"))
        if (counts[0] == counts[1]).all():
            raise ArgumentError("other", f"{other} is the same package as {package_id}")
    note(f"learning from the simulated packages; replaying {'both packages' if other else 'the package'}")
    whole = pool_workloads(results.cases)
    predicted = results.learn_if_useful(whole)
    notes = []
    if predicted is None:
        notes.append(f"{results.why_no_model(whole)}, and the effect of each feature is unknown")
    names = [case.name for case in results.cases]
    called = ("this package",) if other is None else ("the first package", "the second")
    for one, which in zip(counts, called, strict=True):
        notes.append(about_limits(results.plan, one, names, results.policy, which))
    replayed = [longest_waiting(results.cases)]
    packages = [explain_package(results, one, whole, predicted, replayed, marginal) for one in counts]
    return Explanation(results.plan.study.name, packages, list(dict.fromkeys(notes)))


def _plain(one: PackageExplanation) -> dict[str, Any]:
    keys = ("package_id", "counts", "price_usd", "totals", "wait", "typical_seconds", "predicted_seconds")
    tables = {"waits": one.waits, "factors": one.factors, "factors_by_subject": one.grouped, "marginal": one.marginal}
    bottlenecks = {
        workload: {
            "seconds": found.seconds,
            "spread_seconds": found.fragmented_seconds,
            "n_unrunnable": found.n_unrunnable,
            "over_time": found.over_time().to_dict(orient="records"),
            "requests": found.shapes.head(_N_SHAPES).to_dict(orient="records"),
        }
        for workload, found in one.bottlenecks.items()
    }
    plain = {key: table.to_dict(orient="records") for key, table in tables.items()}
    return {key: getattr(one, key) for key in keys} | plain | {"binding": bottlenecks}
