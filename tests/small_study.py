"""A small study, swept once per test process, for the commands that need results."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from procure import explorer
from procure.study import load_study
from procure.sweep import load_plan, run_sweep

QUOTES = Path(__file__).resolve().parent.parent / "quotes" / "example-2023.csv"


@functools.cache
def swept(n_days: int = 1) -> Path:
    """Return the path of a study of 70,000 US$ and so many days of 300 jobs, every third package simulated."""
    folder = Path(tempfile.mkdtemp(prefix="procure-small-"))
    days = "".join(
        f'[[workloads]]\nname = "day-{i}"\ngenerate = {{ seed = {i}, n_jobs = 300 }}\n' for i in range(1, n_days + 1)
    )
    path = folder / "small.toml"
    path.write_text(
        f'name = "small"\nquotes = "{QUOTES}"\n[packages]\nrules = "published"\n'
        f"budget_usd = 70_000\n{days}[sweep]\nsample = 3\n"
        "[model]\nfolds = 2\n",
        encoding="utf-8",
    )
    run_sweep(load_plan(load_study(path)), "serial")
    return path


def search(path, **asked):
    """Search a study; keys of its [search] stand among the arguments."""
    keys = {name: asked.pop(name) for name in ("runs", "share", "batch", "stable_rounds", "seed") if name in asked}
    study = load_study(path, [f"search.{name}={value}" for name, value in keys.items()])
    return explorer.search(study, **asked)
