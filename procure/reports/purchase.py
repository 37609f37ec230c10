"""Fill the report's template: from what was found to one HTML text."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.models import Case, Predicted
from procure.models.crossfit import correlations
from procure.packages.runnable import count_matrix
from procure.page.html import render as render_template
from procure.recommender.recommender import Recommendation
from procure.recommender.summary import budget_by_category, records, servers_by_type
from procure.reports import charts

_EXAMPLES = 3
_SHOWN_FIRST = 10
_FIRST_DATE = 315_532_800


@dataclass(frozen=True)
class Contents:
    """Everything that a report says.

    Attributes
    ----------
    study
        The study's name.
    quotes
        The quote table.
    budget_usd
        What could be spent, fixed costs taken off, US$.
    n_packages
        Rows of the package table, repeated compositions included.
    workloads
        Job tables by name, in the case's order; ``zones`` are the time zones to show them in.
    policy
        Which policy decided.
    case, predicted, found
        What was known, learnt and recommended; ``predicted`` is None where too little was simulated.
    rankings
        Further predicted waits per package by name, for the comparison of precision.
    evaluation
        Rows of `procure.evaluation.ranking.evaluate_case` of the study's model.
    cautions
        Sentences on where the ranking comes from.
    hit_share
        Which part of the ranked packages are hits.
    study_text
        The study file.
    study_path, options, verify
        How the report was asked for, as shell text: ``options["policy"]`` for commands that take a policy,
        ``options["both"]`` for those that take a workload too.
    inputs
        Digests of the inputs, and versions.
    answers
        Sentences right under the first choice, by the question that they answer.
    ranked_by
        What the list is in the order of.
    sections
        Further sections as HTML, in order; an empty one does not appear.
    """

    study: str
    quotes: pd.DataFrame
    budget_usd: float
    n_packages: int
    workloads: dict[str, pd.DataFrame]
    policy: str
    case: Case
    predicted: Predicted | None
    found: Recommendation
    rankings: dict[str, np.ndarray]
    evaluation: pd.DataFrame
    cautions: list[str]
    hit_share: float
    study_text: str
    study_path: str
    options: dict[str, str] = field(default_factory=lambda: {"policy": "", "both": ""})
    verify: bool = True
    zones: dict[str, str | None] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    sections: list[Markup] = field(default_factory=list)
    ranked_by: str = "the mean time that these jobs would have waited"
    answers: dict[str, list[str]] = field(default_factory=dict)


def render(contents: Contents) -> Markup:
    """Return the report as HTML that refers to nothing outside itself."""
    return render_template(Path(__file__).with_name("purchase.html"), **_values(contents))


def _values(c: Contents) -> dict[str, object]:
    case, top = c.case, c.found.ranking.head(c.found.k)
    chosen = case.packages.iloc[top["row"].to_numpy()]
    judged = np.flatnonzero(case.runs_all & case.simulated)
    spent = budget_by_category(chosen, c.quotes)
    types = servers_by_type(chosen, c.quotes)
    return {
        "c": c,
        "top": records(c.found),
        "shown_first": _SHOWN_FIRST,
        "types": types.to_dict(orient="records"),
        "spent": spent.to_dict(orient="records"),
        "budget_chart": charts.budget(spent),
        "rank_chart": charts.waits_by_rank(top["mean_wait_time"], top["simulated"]),
        **_judged(c, judged),
        "evaluation": c.evaluation.to_dict(orient="records"),
        "correlations": _heat(correlations(case.packages, case.wait)),
        "jobs": [_workload(name, jobs, c.zones.get(name)) for name, jobs in c.workloads.items()],
        "examples": _examples(c),
        "categories": list(c.quotes["category"].unique()),
        "n_able": int(case.runs_all.sum()),
        "n_judged": len(judged),
        "n_simulated": int(case.simulated.sum()),
    }


def _judged(c: Contents, judged: np.ndarray) -> dict[str, str]:
    """Draw predictions against what was simulated; nothing where there is neither."""
    found = {"scatter": "", "precision": "", "box": ""}
    if not len(judged):
        return found
    wait = c.case.wait[judged]
    price = c.case.packages["price_usd"].to_numpy(dtype="float64")[judged]
    rankings = {name: values[judged] for name, values in c.rankings.items()}
    found["precision"] = charts.precision_by_k(rankings, wait, price, c.hit_share, c.found.k)
    if c.predicted is not None:
        predicted = c.predicted.wait[judged]
        found["scatter"] = charts.predicted_against_simulated(predicted, wait)
        found["box"] = charts.favourites_against_rest(predicted, wait, price, c.hit_share)
    return found


def _workload(name: str, jobs: pd.DataFrame, tz: str | None) -> dict[str, object]:
    columns = {
        "memory per node, GB": jobs["mem_mb_per_node"] / 1000,
        "CPUs per node": jobs["cpus_per_node"],
        "GPUs per node": jobs["gpus_per_node"],
        "requested time, h": jobs["requested_time"] / 3600,
        "run time, h": jobs["run_time"] / 3600,
    }
    figures = [
        {"what": what, "mean": v.mean(), "std": v.std(ddof=1), "low": v.min(), "high": v.max()}
        for what, v in columns.items()
    ]
    # A job table from a file says nothing of its clock; times before 1980 are no dates of a batch system.
    log_clock = jobs.attrs.get("clock", "unix") == "log" or int(jobs["submit_time"].max()) < _FIRST_DATE
    return {
        "name": name,
        "log_clock": log_clock,
        "n_jobs": len(jobs),
        "n_gpu_jobs": int((jobs["gpus_per_node"] > 0).sum()),
        "chart": charts.jobs_over_time(jobs, name, tz, log_clock),
        "figures": figures,
    }


def _heat(table: pd.DataFrame) -> list[dict[str, object]]:
    names = {
        "total_mem_gb": "memory", "total_cpus": "CPUs", "total_gpus": "GPUs", "mean_wait_time": "mean wait",
    }  # fmt: skip
    return [
        {
            "name": names[str(row)],
            "cells": [
                {
                    "value": value,
                    # Blue for positive and orange for negative, paler toward 0; the number says the rest.
                    "colour": f"rgba({'0,114,178' if value > 0 else '230,159,0'},{min(abs(value), 1) * 0.6:.2f})"
                    if value == value
                    else "transparent",
                }
                for value in values
            ],
        }
        for row, values in zip(table.index, table.to_numpy(), strict=True)
    ]


def _examples(c: Contents) -> list[dict[str, object] | None]:
    """Return the first, some middle and the last package; None stands for rows left out."""
    packages, n = c.case.packages, len(c.case.packages)
    middle = n // 2
    blocks = [range(min(_EXAMPLES, n)), range(middle, middle + 2), range(n - 1, n)]
    rows = sorted({row for block in blocks for row in block if row < n})
    counts = count_matrix(packages.iloc[rows], c.quotes)
    found: list[dict[str, object] | None] = []
    for i, row in enumerate(rows):
        if i and row != rows[i - 1] + 1:
            found.append(None)
        package = packages.iloc[row]
        parts = {
            str(category): ", ".join(
                f"{count} × {name}"
                for name, count, of in zip(c.quotes["name"], counts[i], c.quotes["category"], strict=True)
                if count and of == category
            )
            for category in c.quotes["category"].unique()
        }
        found.append(
            {
                "row": row + 1,
                "parts": parts,
                "price_usd": package["price_usd"],
                "left_usd": c.budget_usd - package["price_usd"],
                "left_out": int(c.case.left_out[row]),
                "wait": c.case.wait[row],
            }
        )
    return found
