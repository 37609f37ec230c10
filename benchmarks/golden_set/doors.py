"""The doors into procure that golden values pass through; what is renamed there is renamed here and nowhere else.

Most are the command line and the functions of `procure` itself. Those of rooms are the last four.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import procure

ROOT = Path(__file__).resolve().parents[2]
PROCURE = str(Path(sys.executable).with_name("procure"))


def command(*words: object, folder: Path | None = None) -> str:
    """Run a command of procure; return what it prints to stdout."""
    line = [PROCURE, *map(str, words)]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"procure {' '.join(line[1:])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def answer(*words: object, folder: Path | None = None) -> object:
    """Run a command with ``--format json``; return what it answers."""
    return json.loads(command(*words, "--format", "json", folder=folder))


def policy_labels() -> list[str]:
    """Return the name of every policy."""
    return [row["name"] for row in answer("policies")]


def schedule(jobs: pd.DataFrame, nodes: pd.DataFrame, policy: str, kill: bool = True) -> pd.DataFrame | None:
    """Return the schedule of a policy; None where it refuses these jobs or nodes, or is not there."""
    try:
        return procure.simulate(jobs, nodes, policy, kill_at_limit=kill, fast_lane=False).schedule
    except procure.TableError:
        return None


def feature_table(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the queue-time features of each job of a log, as of its submission."""
    from procure.queue_time.features import site_features

    return site_features(jobs)


def ranking(criteria: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, float]:
    """Rank algorithms by makespan, usage and slowdown as published: ratios, eigenvector, eigenvalue."""
    from procure.comparison import PUBLISHED_WEIGHTS, rank

    found = rank(criteria, PUBLISHED_WEIGHTS, {"usage"})
    return found.ratios.to_numpy(), np.asarray(found.score), float(found.value)


def published_schedule(jobs: pd.DataFrame, nodes: pd.DataFrame, backfill: bool) -> pd.DataFrame:
    """Return the schedule of the published topology study's program on whole nodes."""
    from window_published import published_queue

    return procure.simulate(jobs, nodes, published_queue(backfill), parameters={"exclusive": 1}).schedule
