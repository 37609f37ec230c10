"""What is allowed in a job table and yet seldom meant: counted, so that it is not accepted in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.schemas import as_logged
from procure.text import counted, duration, short

_YEAR = 365 * 86_400
_LATE, _LATEST = 60, 2**33
_MOST = {"cpus_per_node": (2_048, "CPUs"), "gpus_per_node": (16, "GPUs"), "mem_mb_per_node": (32_000_000, "MB")}
"""No common server has more."""


def oddities(jobs: pd.DataFrame) -> list[str]:
    """Say in a sentence each what looks wrong in a checked job table: repeated ids, limits of 0, years of run time."""
    found, logged, submit = list[str](), as_logged(jobs), jobs["submit_time"]

    def say(
        rows: pd.Series, one: str, many: str, what: str, of_all: str = f" of {len(jobs):,}", noun: str = "job"
    ) -> None:
        if n := int(rows.sum()):
            row = int(np.argmax(rows.to_numpy()))
            ran = duration(int(jobs["run_time"].iloc[row]))
            what = what.format(row=row + 1, id=short(jobs["job_id"].iloc[row]), at=f"{submit.iloc[row]:,}", ran=ran)
            found.append(f"{counted(n, noun)}{of_all} {one if n == 1 else many} {what}")

    again = "the job_id of an earlier row, the first is row {row} ({id}); each counts as a job of its own"
    say(jobs["job_id"].duplicated(), "repeats", "repeat", again, "", "row")
    unlimited = jobs["requested_time"] == 0
    say(unlimited & (not unlimited.all()), "has", "have", "a requested_time of 0: no limit")
    say(logged["cpus_per_node"] == 0, "asks", "ask", "for no CPU, first in row {row}")
    for name, (most, what) in _MOST.items():
        on_one = jobs[name].where(jobs["n_tasks"] == 0, 0) if "n_tasks" in jobs else jobs[name]
        whole = f"are these of the whole job (--column {name}=COLUMN::job, --set asks=tasks) or in another unit?"
        more = f"for more than {most:,} {what} on one node (up to {on_one.max():,}): {whole}"
        say(on_one > most, "asks", "ask", more)
    say(submit < 0, "is", "are", "submitted before second 0 of the clock, the first in row {row} ({at} s)", "")
    late = "submitted after the year 2240, the first in row {row} ({at}): are times in milliseconds?"
    say(submit > _LATEST, "is", "are", late)
    long = "for more than a year, the first in row {row} ({ran}): is its run_time an end time, or in another unit?"
    say(jobs["run_time"] > _YEAR, "ran", "ran", long)
    found += waiting_for_others(jobs)
    if len(jobs) and not logged["mem_mb_per_node"].any():
        found.append(
            "no job asks for memory, so memory keeps no job waiting and nodes with little of it look as good as "
            "others; if the log has a column of memory, name it when importing"
        )
    return found


def waiting_for_others(jobs: pd.DataFrame, held: bool = False) -> list[str]:
    """Say how many jobs wait for other jobs, or could start late and nothing tells why; ``held``: under slurm."""
    nothing = pd.Series(False, index=jobs.index)
    waiting = jobs["dependency"].fillna("").ne("") if "dependency" in jobs else nothing
    waiting = waiting | (jobs["array_limit"].fillna(0).gt(0) if "array_limit" in jobs else nothing)
    since = jobs["eligible_time"].fillna(jobs["submit_time"]) if "eligible_time" in jobs else jobs["submit_time"]
    late, found, of_all = (since - jobs["submit_time"]).gt(_LATE) & ~waiting, [], f"of {len(jobs):,}"
    if (n := int(waiting.sum())) and not held:
        found.append(
            f"{counted(n, 'job')} {of_all} {'waits' if n == 1 else 'wait'} for others (dependency, or % of an array): "
            "policy slurm simulates it, every other lets them start as soon as they are submitted"
        )
    if n := int(late.sum()):
        found.append(
            f"{counted(n, 'job')} {of_all} could start only more than a minute after submission (eligible_time), and "
            "nothing tells why: policy slurm holds them until then on any hardware, every other does not hold them"
        )
    return found
