"""The evaluation as one HTML file: Tables 2.4 to 2.6, Figures 2.1, 2.4 and 2.5, and what they leave out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.errors import TableError
from procure.page import svg
from procure.page.html import render, write_page
from procure.page.names import heading
from procure.queue_time.evaluation import Evaluation, verdict
from procure.queue_time.features import PUBLISHED
from procure.queue_time.metrics import confusion
from procure.queue_time.trend import fit_line, judge_trend, steps, windows
from procure.text import counted, duration
from procure.workload.clock import has_dates, local_times

_METHODS = (
    "split method mae rmse mse_log10 within_2x within_3x pinball deadline_accuracy majority_accuracy "
    "coverage_90 brier brier_base"
).split()
_DEADLINES = ("split method deadline_label tp fp fn tn deadline_accuracy precision recall f1 majority_accuracy").split()


def write_report(evaluation: Evaluation, path: Path, seed: int = 0, tz: str | None = None) -> Path:
    """Write an evaluation's report, whole or not at all.

    Parameters
    ----------
    evaluation
        Of `evaluation.evaluate`.
    path
        The HTML file.
    seed
        Of the trend's random split.
    tz
        The site's zone, in which days begin; None = UTC.

    Raises
    ------
    TableError
        The file cannot be written.
    """
    rows = pd.DataFrame(evaluation.rows)
    known = evaluation.wait[~np.isnan(evaluation.wait)]
    text = render(
        Path(__file__).with_name("report.html"),
        about=_about(len(evaluation.jobs), known),
        lines=[(line, "methods") for line in verdict(evaluation).splitlines()],
        methods=rows.loc[rows["deadline_label"] == "mean", _METHODS],
        correlations=_correlations(evaluation),
        deadlines=rows.loc[rows["method"].isin(["procure", "kmeans-gbt", "gbt"]), _DEADLINES],
        elbows={name: _elbow(name, curve) for name, curve in evaluation.curves.items()},
        use=_use(evaluation, tz),
        trend=_trend(evaluation, seed),
    )
    return write_page(path, text)


def _about(n_jobs: int, known: np.ndarray) -> str:
    """Say how many jobs there are and how long they wait; ``known`` are the waits that are known, s."""
    half = float(np.median(known))
    return f"{counted(n_jobs, 'job')}, {len(known):,} with a known wait: {duration(known.mean())} on average, " + (
        f"half of them under {duration(half)}" if half else "most start at once"
    )


def _correlations(evaluation: Evaluation) -> pd.DataFrame:
    frame = evaluation.features[PUBLISHED].astype(float).assign(wait=evaluation.wait).dropna()
    frame = frame.loc[:, frame.max() > frame.min()]
    found = frame.corr(method="pearson").round(3).reset_index(names="feature")
    return found.assign(feature=[heading(name) for name in found["feature"]])


def _elbow(split: str, curve: pd.DataFrame) -> Markup:
    figure, axes = svg.figure()
    axes.plot(curve["k"], curve["rmse"], marker="o", color=svg.BLUE)
    axes.set(xlabel="number of groups k", ylabel="RMSE on the validation part")
    svg.time_axis(axes, "y")
    return svg.inline(figure, f"elbow-{split}", f"RMSE over k, {split} split")


def _use(evaluation: Evaluation, tz: str | None) -> Markup:
    submit, dated = evaluation.jobs["submit_time"], has_dates(evaluation.jobs)
    day = local_times(submit, tz).floor("D") if dated else (submit - submit.min()) // 86_400
    figure, axes = svg.figure()
    for name, label, colour in (("cpus_in_use", "CPUs", svg.BLUE), ("mem_in_use", "memory", svg.ORANGE)):
        values = evaluation.features[name].astype(float)
        if values.max() > 0:
            daily = (100 * values / values.max()).groupby(day).mean()
            axes.plot(daily.index, daily.to_numpy(), label=label, color=colour, linewidth=1)
    axes.set_ylabel("in use (% of the most)")
    axes.set_xlabel(f"day ({tz or 'UTC'})" if dated else "days since the first submission")
    axes.legend(frameon=False)
    return svg.inline(figure, "use", "CPUs and memory in use")


def _trend(evaluation: Evaluation, seed: int) -> dict[str, object]:
    """Judge whether the mean wait of the next four hours rises; ``refused`` says why it cannot be judged."""
    try:
        judged = judge_trend(evaluation.jobs, evaluation.features, seed)
    except TableError as error:
        return {"refused": str(error)}
    table = steps(windows(evaluation.jobs, evaluation.features))
    d_cpus, d_wait = table["d_cpus"].to_numpy(), table["d_wait"].to_numpy()
    line = fit_line(d_cpus, d_wait)
    figure, axes = svg.figure()
    axes.scatter(d_cpus, d_wait, s=4, color=svg.BLUE)
    ends = np.array([d_cpus.min(), d_cpus.max()])
    axes.plot(ends, line(ends), color=svg.RED)
    axes.set(xlabel="change of mean CPUs in use", ylabel="change of mean wait")
    svg.time_axis(axes, "y")
    rises = line(d_cpus) > 0
    return {
        "chart": svg.inline(figure, "trend", "change of CPUs in use against change of wait"),
        "correlation": float(np.corrcoef(d_cpus, d_wait)[0, 1]) if len(table) > 2 else np.nan,
        "n_steps": len(table),
        "stated": confusion((d_wait > 0).astype(float), rises.astype(float), 0.5),
        "falls": float((~rises).mean()),
        "judged": judged.rename(columns={"n_windows": "steps"}),
    }
