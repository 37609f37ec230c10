"""The evaluation as one HTML file: Tables 2.4 to 2.6, Figures 2.1, 2.4 and 2.5, and what they leave out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from procure.errors import TableError
from procure.page.html import render, write_page
from procure.page.names import heading
from procure.page.vega import BLUE, ORANGE, column, records, still, time_axis
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
    spec = {
        "data": {"values": records(k=curve["k"], rmse=curve["rmse"])},
        "mark": {"type": "line", "point": True, "color": BLUE},
        "encoding": {
            "x": column("k", title="number of groups k"),
            "y": column("rmse", **time_axis("RMSE on the validation part", curve["rmse"])),
        },
    }
    return still(f"elbow-{split}", f"RMSE over k, {split} split", spec)


def _use(evaluation: Evaluation, tz: str | None) -> Markup:
    submit, dated = evaluation.jobs["submit_time"], has_dates(evaluation.jobs)
    day = local_times(submit, tz).floor("D") if dated else (submit - submit.min()) // 86_400
    rows = []
    for name, label in (("cpus_in_use", "CPUs"), ("mem_in_use", "memory")):
        values = evaluation.features[name].astype(float)
        if values.max() > 0:
            daily = (100 * values / values.max()).groupby(day).mean()
            days = [f"{one:%Y-%m-%d}" for one in daily.index] if dated else daily.index
            rows += records(day=days, share=daily, what=label)
    x = column("day", title="days since the first submission")
    if dated:
        x |= {"type": "temporal", "title": f"day ({tz or 'UTC'})", "axis": {"format": "%e %b", "labelOverlap": True}}
    spec = {
        "data": {"values": rows},
        "mark": {"type": "line", "strokeWidth": 1.2},
        "encoding": {
            "x": x,
            "y": column("share", title="in use (% of the most)"),
            "color": {
                "field": "what",
                "type": "nominal",
                "scale": {"domain": ["CPUs", "memory"], "range": [BLUE, ORANGE]},
            },
        },
    }
    return still("use", "CPUs and memory in use", spec)


def _trend(evaluation: Evaluation, seed: int) -> dict[str, object]:
    """Judge whether the mean wait of the next four hours rises; ``refused`` says why it cannot be judged."""
    try:
        judged = judge_trend(evaluation.jobs, evaluation.features, seed)
    except TableError as error:
        return {"refused": str(error)}
    table = steps(windows(evaluation.jobs, evaluation.features))
    d_cpus, d_wait = table["d_cpus"].to_numpy(), table["d_wait"].to_numpy()
    line = fit_line(d_cpus, d_wait)
    ends = np.array([d_cpus.min(), d_cpus.max()])
    spec = {
        "encoding": {
            "x": column("cpus", title="change of mean CPUs in use"),
            "y": column("wait", title="change of mean wait, h"),
        },
        "layer": [
            {"data": {"values": records(cpus=d_cpus, wait=d_wait / 3600)},
             "mark": {"type": "point", "filled": True, "size": 10, "color": BLUE}},
            {"data": {"values": records(cpus=ends, wait=line(ends) / 3600)}, "mark": {"type": "line", "color": ORANGE}},
        ],
    }  # fmt: skip
    rises = line(d_cpus) > 0
    return {
        "chart": still("trend", "change of CPUs in use against change of wait", spec),
        "correlation": float(np.corrcoef(d_cpus, d_wait)[0, 1]) if len(table) > 2 else np.nan,
        "n_steps": len(table),
        "stated": confusion((d_wait > 0).astype(float), rises.astype(float), 0.5),
        "falls": float((~rises).mean()),
        "judged": judged.rename(columns={"n_windows": "steps"}),
    }
