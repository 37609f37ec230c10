"""How jobs of several nodes meet nodes of another size: as tasks wherever there is room, or with their old nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.schemas import CLASSES, TASKS, as_logged
from procure.tables import with_clock_of
from procure.text import nearest
from procure.workload.describe import class_of

Shape = Literal["tasks", "as-logged"]
SHAPES: tuple[str, ...] = get_args(Shape)


def shape_jobs(
    jobs: pd.DataFrame,
    shape: str = "tasks",
    rules: Mapping[str, str] | None = None,
    *,
    node_cpus: int | None = None,
    repack: bool = True,
) -> pd.DataFrame:
    """Return a job table whose jobs ask for nodes as they were logged, or for tasks.

    ``shape`` ``as-logged`` makes rows of tasks rows of nodes, with the nodes and CPUs that stand in them. ``tasks``
    keeps rows of tasks, and those of nodes but for whole-node jobs of several nodes, where ``repack`` makes of jobs
    that held whole nodes (exclusive, or all of ``node_cpus``) tasks of one CPU, or of one GPU and its share, with as
    much memory in all. One that held one node keeps one: it may need that node's memory for all its threads.

    ``rules`` are shapes of some jobs: ``{"partition=debug": "as-logged"}``, by a column of text, or ``class``; the
    first that holds counts.

    Examples
    --------
    >>> import procure
    >>> from procure.workload.shapes import shape_jobs
    >>> jobs = procure.generate(seed=1, n_jobs=10).assign(n_nodes=2, cpus_per_node=8)
    >>> shape_jobs(jobs, node_cpus=8)["n_tasks"].unique().tolist()
    [16]
    """
    by_nodes = _ruled(jobs, shape, rules or {})
    if "n_tasks" not in jobs and not repack:
        return jobs
    table = as_logged(jobs, by_nodes)
    if repack:
        table = with_clock_of(jobs, _to_tasks(table.copy(), ~by_nodes, node_cpus))
    return table


def check_rules(rules: Mapping[str, str]) -> Mapping[str, str]:
    """Refuse a rule that is not of the form ``COLUMN=VALUE`` with a known shape."""
    for rule, shape in rules.items():
        if not all(rule.partition("=")[::2]):
            raise ValueError(f"{rule!r} is no rule; write COLUMN=VALUE, such as partition=debug or class=gpu")
        if shape not in SHAPES:
            raise ValueError(f"{rule}: unknown shape {shape!r}; {nearest(shape, SHAPES)}")
    return rules


def _ruled(jobs: pd.DataFrame, shape: str, rules: Mapping[str, str]) -> np.ndarray:
    """Return which jobs keep the nodes that were logged."""
    if shape not in SHAPES:
        raise TableError(f"unknown shape {shape!r}; {nearest(shape, SHAPES)}")
    by_nodes = np.full(len(jobs), shape == "as-logged")
    for rule, what in reversed([*check_rules(rules).items()]):
        column, _, value = rule.partition("=")
        if column == "class":
            texts = pd.Series(np.array(CLASSES)[class_of(jobs)], index=jobs.index)
        elif column in jobs and jobs[column].dtype == object:
            texts = jobs[column].fillna("").astype(str)
        else:
            known = ["class", *jobs.columns[[dtype.kind == "O" for dtype in jobs.dtypes]]]
            raise TableError(f"shape rule {rule!r}: no column of text {column!r}; {nearest(column, known)}")
        by_nodes[(texts == value).to_numpy()] = what == "as-logged"
    return by_nodes


def _to_tasks(table: pd.DataFrame, rows: np.ndarray, node_cpus: int | None) -> pd.DataFrame:
    """Let whole-node jobs ask for the CPUs, memory and GPUs of their nodes, wherever these are."""
    exclusive = table["exclusive"].to_numpy(bool) if "exclusive" in table else np.zeros(len(table), bool)
    of_nodes = table["n_tasks"].to_numpy() == 0 if "n_tasks" in table else np.ones(len(table), bool)
    exclusive = exclusive & rows
    if exclusive.any():
        table = as_logged(table, exclusive).copy()
        table["exclusive"] &= ~exclusive
        held = np.maximum(table["cpus_per_node"], node_cpus or 0)
        table["cpus_per_node"] = table["cpus_per_node"].where(~exclusive, held)
    all_of_each = (table["cpus_per_node"] >= (node_cpus or np.inf)).to_numpy() & of_nodes
    whole = rows & (table["n_nodes"] > 1).to_numpy() & (exclusive | all_of_each)
    if not whole.any():
        return table
    gpus = table["gpus_per_node"].to_numpy()
    each = np.where(gpus > 0, gpus, table["cpus_per_node"].to_numpy())
    asked: dict[str, object] = {
        "n_tasks": table["n_nodes"] * each,
        "cpus_per_task": np.ceil(table["cpus_per_node"] / np.maximum(each, 1)).astype("int64"),
        "mem_mb_per_task": np.ceil(table["mem_mb_per_node"] / np.maximum(each, 1)).astype("int64"),
        "gpus_per_task": np.where(gpus > 0, 1, 0),
        "tasks_per_node": 0,
        "min_nodes": 1,
        "max_nodes": 0,
        "mem_mb_per_node": 0,
        "gpus_per_node": 0,
        "exclusive": False,
    }
    for name, values in asked.items():
        before = table[name] if name in table else int(name in ("cpus_per_task", "min_nodes"))
        values = np.where(whole, values, before)  # type: ignore[call-overload]
        table[name] = values.astype(bool if name == "exclusive" else "int64")
    return table[[*(n for n in table if n not in TASKS), *TASKS]]
