"""The evaluation as one HTML file: Tables 2.4 to 2.6, Figures 2.1, 2.4 and 2.5, and what they leave out."""

from __future__ import annotations

import html
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.page import svg
from procure.queue_time.evaluation import Evaluation, coverage_by
from procure.queue_time.features import PUBLISHED
from procure.queue_time.metrics import HOURS, calibration_bins, confusion, covered
from procure.queue_time.trend import fit_line, judge_trend, steps, windows

_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0;font-size:.85rem}td,th{padding:.25rem .6rem;border-bottom:1px solid #ddd;
text-align:right}th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}
.wide{overflow-x:auto}"""


def write_report(found: Evaluation, path: Path, seed: int = 0) -> Path:
    """Write an evaluation's report, whole or not at all.

    Parameters
    ----------
    found
        Of `evaluation.evaluate`.
    path
        The HTML file.
    seed
        Of the trend's random split.

    Raises
    ------
    TableError
        The file cannot be written.
    """
    parts = ["<h1>When will a job start?</h1>", _overview(found), "<h2>All methods</h2>", _methods(found)]
    parts += ["<h2>Correlation of features (Table 2.4)</h2>", _correlations(found), _deadlines(found)]
    parts += [_elbow(found), _use(found), _intervals(found), _trend(found, seed)]
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Queue-time prediction</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        raise TableError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def _table(frame: pd.DataFrame) -> str:
    shown = frame.copy()
    for name in shown.columns:
        if shown[name].dtype.kind == "f":
            shown[name] = [
                "–" if pd.isna(v) else f"{v:,.3f}" if abs(v) < 10 else f"{v:,.0f}" for v in frame[name]
            ]
    return f'<div class="wide">{shown.to_html(index=False, border=0, na_rep="–")}</div>'


def _overview(found: Evaluation) -> str:
    known = found.wait[~np.isnan(found.wait)]
    return (
        f"<p>{len(found.jobs):,} jobs, {len(known):,} with a known wait; mean wait {known.mean():,.0f} s, median "
        f"{np.median(known):,.0f} s. Every feature was known when its job was submitted. A random split lets a model "
        "see the neighbours of the jobs it is judged on; users get what the chronological split shows.</p>"
    )


def _methods(found: Evaluation) -> str:
    columns = [
        "split", "method", "mae", "rmse", "mse_log10", "within_2x", "within_3x", "pinball", "deadline_accuracy",
        "majority_accuracy", "coverage_90", "brier", "brier_base",
    ]  # fmt: skip
    rows = pd.DataFrame(found.rows)
    return _table(rows[rows["deadline_label"] == "mean"][columns])


def _correlations(found: Evaluation) -> str:
    frame = found.features[PUBLISHED].astype(float).assign(wait=found.wait).dropna()
    frame = frame.loc[:, frame.max() > frame.min()]
    matrix = frame.corr(method="pearson").round(3).reset_index(names="feature")
    note = "<p>Pearson's coefficient; a feature that never varies in this log is left out.</p>"
    return note + _table(matrix)


def _deadlines(found: Evaluation) -> str:
    parts = ["<h2>Deadlines (Table 2.5)</h2><p>Positive: starts by the deadline. Recall = TP/(TP+FN).</p>"]
    rows = pd.DataFrame(found.rows)
    keep = [
        "split", "method", "deadline_label", "tp", "fp", "fn", "tn", "deadline_accuracy", "precision", "recall", "f1",
        "majority_accuracy",
    ]  # fmt: skip
    chosen = rows[rows["method"].isin(["procure", "kmeans-gbt", "gbt"])][keep]
    return "".join([*parts, _table(chosen)])


def _elbow(found: Evaluation) -> str:
    parts = []
    for name, curve in found.curves.items():
        figure, axes = svg.figure()
        axes.plot(curve["k"], curve["rmse"], marker="o", color=svg.BLUE)
        axes.set_xlabel("number of groups k")
        axes.set_ylabel("RMSE on the validation part (s)")
        drawn = svg.inline(figure, f"elbow-{name}", f"RMSE over k, {name} split")
        parts.append(f"<h2>RMSE as k varies (Figure 2.4), {html.escape(name)} split</h2>{drawn}")
    return "".join(parts)


def _use(found: Evaluation) -> str:
    moment = pd.to_datetime(found.jobs["submit_time"], unit="s")
    figure, axes = svg.figure()
    for name, label, colour in (("cpus_in_use", "CPUs", svg.BLUE), ("mem_in_use", "memory", svg.ORANGE)):
        values = found.features[name].astype(float)
        if values.max() > 0:
            daily = (100 * values / values.max()).groupby(moment.dt.floor("D")).mean()
            axes.plot(daily.index, daily.to_numpy(), label=label, color=colour, linewidth=1)
    axes.set_ylabel("in use (% of the most)")
    axes.legend(frameon=False)
    return "<h2>CPUs and memory in use (Figure 2.1)</h2>" + svg.inline(
        figure, "use", "CPUs and memory in use"
    )


def _intervals(found: Evaluation) -> str:
    parts = []
    for (name, method), (rows, forecast) in found.forecasts.items():
        if forecast.quantiles is None:
            continue
        wait = found.wait[rows]
        weeks = coverage_by(found.jobs, rows, covered(wait, forecast.quantiles))
        figure, axes = svg.figure(columns=2)
        axes[0].plot(range(len(weeks)), 100 * weeks["coverage"], color=svg.BLUE)
        axes[0].axhline(90, color=svg.GREY, linewidth=0.8)
        axes[0].set_xlabel("week of the test part")
        axes[0].set_ylabel("waits inside the 90 % interval (%)")
        axes[1].plot([0, 1], [0, 1], color=svg.GREY, linewidth=0.8)
        for hours, colour in zip(HOURS, svg.PALETTE, strict=False):
            chance = (forecast.chances or {}).get(hours * 3600.0)
            if chance is not None:
                bins = calibration_bins(chance, wait <= hours * 3600)
                bins = bins[bins["share"] > 0.01]
                axes[1].plot(bins["stated"], bins["observed"], marker=".", color=colour, label=f"{hours} h")
        axes[1].set_xlabel("stated chance of a start by the deadline")
        axes[1].set_ylabel("observed share")
        axes[1].legend(frameon=False)
        months = coverage_by(found.jobs, rows, covered(wait, forecast.quantiles), "M")
        drawn = svg.inline(figure, f"intervals-{name}-{method}", f"coverage and calibration, {name}")
        parts.append(f"<h2>Intervals and chances, {html.escape(name)} split</h2>{drawn}{_table(months)}")
    return "".join(parts)


def _trend(found: Evaluation, seed: int) -> str:
    try:
        judged = judge_trend(found.jobs, found.features, seed)
    except TableError as error:
        return f"<h2>Trend (Table 2.6)</h2><p>{html.escape(str(error))}</p>"
    table = steps(windows(found.jobs, found.features))
    line = fit_line(table["d_cpus"].to_numpy(), table["d_wait"].to_numpy())
    figure, axes = svg.figure()
    axes.scatter(table["d_cpus"], table["d_wait"], s=4, color=svg.BLUE)
    ends = np.array([table["d_cpus"].min(), table["d_cpus"].max()])
    axes.plot(ends, line.predict(ends), color=svg.RED)
    axes.set_xlabel("change of mean CPUs in use")
    axes.set_ylabel("change of mean wait (s)")
    correlation = (
        float(np.corrcoef(table["d_cpus"], table["d_wait"])[0, 1]) if len(table) > 2 else float("nan")
    )
    said = line.predict(table["d_cpus"].to_numpy()) > 0
    rises = (table["d_wait"] > 0).to_numpy()
    honest = confusion((rises).astype(float), said.astype(float), 0.5)
    falls = int((~said).sum())
    return (
        "<h2>Change of CPUs against change of wait (Figure 2.5)</h2>"
        + svg.inline(figure, "trend", "change of CPUs in use against change of wait")
        + f"<p>Correlation {correlation:.3f} over {len(table):,} steps of four hours.</p>"
        "<h2>Will waits rise? (Table 2.6, both readings)</h2>"
        f"<p>Over all steps, read as stated: TP {honest['tp']}, FP {honest['fp']}, FN {honest['fn']}, TN "
        f"{honest['tn']}: accuracy {honest['accuracy']:.3f}. As the published count was made, “accuracy” is the share "
        f"of calls that waits fall: {falls / len(table):.3f}, whatever came of them.</p>" + _table(judged)
    )
