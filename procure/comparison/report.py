"""A comparison as one self-contained HTML file: tables, box plots, tests."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from procure.comparison.side_by_side import TESTED, Comparison
from procure.page.svg import figure, inline
from procure.tables import whole_file

_MAIN = [
    *("policy", "rank", "score", "mean_wait_time", "median_wait_time", "p95_wait_time"),
    *("mean_bounded_slowdown", "makespan", "utilization_cpu", "resource_usage"),
    *("n_completed", "n_unrunnable", "n_killed", "elapsed"),
]


def _html(frame: pd.DataFrame) -> str:
    return frame.to_html(index=False, float_format="{:,.3f}".format, na_rep="–", border=0)


def box_plots(values: pd.DataFrame, name: str, label: str) -> str:
    """Return box plots, a box per column, as SVG whose ids begin with ``name``."""
    made, axes = figure(9, 4)
    axes.boxplot([values[one].dropna().to_numpy(float) for one in values], showmeans=True)
    axes.set_xticks(range(1, len(values.columns) + 1), list(values.columns), rotation=20)
    axes.set_ylabel(label)
    return f"<figure>{inline(made, name, f'{label} under each policy')}</figure>"


def sections(found: Comparison) -> list[tuple[str, str, str]]:
    """Return heading, note and HTML of each part of the report."""
    out = [
        (
            "Side by side",
            "Times in seconds. Rank and score: the multi-criteria ranking over makespan, bounded slowdown and "
            "resource usage. Utilization as a share of all CPUs over the makespan; resource usage counts only "
            "CPUs that somebody wanted.",
            _html(found.table[_MAIN]),
        ),
        ("Relative to the best", "1 is the best of the policies compared.", _html(found.relative)),
    ]
    if not found.parts.empty:
        for metric in TESTED:
            values = found.parts.pivot_table(index=["part", "seed"], columns="policy", values=metric)
            values = values[list(found.table["policy"])]
            label = metric.replace("_", " ") + (" (s)" if metric.endswith("time") else "")
            note = f"Over {len(values)} parts (slices and shaken copies). "
            note += f"One-way ANOVA, as the compared papers use it: p = {found.anova[metric]:.3g}."
            out.append((f"Spread of the {label}", note, box_plots(values, metric, label)))
        note = (
            "Against the first policy. low to high: 95 % bootstrap interval of the mean difference; "
            "p of the paired t-test and of Wilcoxon's signed-rank test. Not corrected for several comparisons."
        )
        out.append(("Paired tests", note, _html(found.tests)))
    out.append(("By size of job", "Classes by CPUs over all nodes.", _by_class(found.by_size)))
    note = "Users who take half of the CPU-seconds are heavy, those up to 90 % medium, the others light."
    out.append(("By class of user", note, _by_class(found.by_user)))
    if not found.fidelity.empty:
        note = "Simulated against logged waits, by CPUs: how much to believe of the above."
        out.append(("Replay fidelity", note, _html(found.fidelity)))
    return out


def _by_class(frame: pd.DataFrame) -> str:
    wide = frame.pivot_table(index="policy", columns="class", values="mean_wait_time", observed=True)
    waits = _html(wide.loc[frame["policy"].unique(), frame["class"].unique()].reset_index())
    front = ["policy", "class"]
    every = _html(frame[[*front, *frame.columns.drop(front)]])
    return f"<p>Mean wait (s)</p>{waits}<details><summary>Every metric</summary>{every}</details>"


def write_report(found: Comparison, path: str | Path, about: str) -> Path:
    """Write the report, whole or not at all."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("procure.comparison", "."), autoescape=True)
    template = environment.get_template("report.html")
    text = template.render(title="Schedulers side by side", about=about, sections=sections(found))
    path = Path(path)
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
