"""Every whole number that a user gives has an upper bound, and no error names an option that a command has not."""

from __future__ import annotations

import importlib
import pkgutil

import annotated_types
import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

import procure
from procure.cli import learn
from procure.cli.main import app
from procure.comparison.side_by_side import check_policies
from procure.errors import ArgumentError, TableError
from procure.settings import Settings
from procure.study import load_study
from procure.workload import generate
from procure.workload.futures import Futures, draw_futures

STUDY = """
quotes = "q.csv"
packages = {{ budget_usd = 90_000, min_gpu_nodes = 0 }}
workloads = {workloads}
{more}
"""
ONE = '[{ name = "w", generate = { seed = 1, n_jobs = 20 } }]'


def commands(command=None, path=()):
    """Walk all commands of the tree, with their names."""
    command = command or typer.main.get_command(app)
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.resolve_command(context, [name])[1], (*path, name))


def whole_numbers():
    """List the options that take a whole number."""
    for name, command in commands():
        for option in command.params:
            kind = getattr(option, "type_descriptor", None)
            if kind is not None and kind.annotation in (int, int | None, list[int]):
                yield f"{name} {option.opts[0]}", option


def test_every_whole_number_on_the_command_line_has_an_upper_bound():
    found = dict(whole_numbers())
    assert len(found) > 12
    assert not [name for name, option in found.items() if option.max is None]


def settings_classes(base=Settings):
    """Walk all kinds of settings."""
    for one in base.__subclasses__():
        yield one
        yield from settings_classes(one)


def bounded(annotation, metadata) -> bool:
    """Tell whether all whole numbers in an annotation have an upper bound."""
    here = [*metadata, *getattr(annotation, "__metadata__", ())]
    here = [one for each in here for one in (each, *getattr(each, "metadata", ()))]
    if any(isinstance(one, annotated_types.Le | annotated_types.Lt) for one in here):
        return True
    parts = [part for part in getattr(annotation, "__args__", ()) if part is not Ellipsis]
    if hasattr(annotation, "__metadata__"):
        return bounded(annotation.__origin__, here)
    return annotation is not int and all(bounded(part, ()) for part in parts)


def test_every_whole_number_in_settings_has_an_upper_bound():
    for module in pkgutil.walk_packages(procure.__path__, "procure."):
        importlib.import_module(module.name)
    classes = [one for one in settings_classes() if one.__module__.startswith("procure.")]
    assert len(classes) > 40
    free = {
        f"{one.__name__}.{name}"
        for one in classes
        for name, field in one.model_fields.items()
        if not bounded(field.annotation, field.metadata)
    }
    assert free == set()


@pytest.mark.parametrize(
    ("more", "workloads", "says"),
    [
        ("model.folds = 1_000_000_000", ONE, "model.folds.*at most 1,000,000 is allowed"),
        ("search.runs = 1_000_000_000_000", ONE, "search.runs.*at most 1,000,000 is allowed"),
        (f"simulate.policies = {['fcfs'] * 20_000}", ONE, "simulate.policies.*at most 1,000 are allowed"),
        (f"evaluate.k = {[5] * 20_000}", ONE, "evaluate.k.*at most 1,000 are allowed"),
        (
            "",
            str([{"name": f"d{i}", "generate": {"seed": i}} for i in range(4000)]),
            "they make up .* jobs, at most 3,000,000 are",
        ),
        ("", str([{"name": f"d{i}", "jobs": "q.csv"} for i in range(20_000)]), "workloads.*at most 10,000 are allowed"),
    ],
)
def test_a_study_that_asks_for_too_much_is_one_error(tmp_path, more, workloads, says):
    (tmp_path / "q.csv").write_text("name,category,cpus,mem_gb,gpus,price_usd\nx,c,32,128,0,6960\n")
    text = workloads.replace("'generate': {'seed': ", "'generate' = {'seed' = ").replace("': ", "' = ")
    (tmp_path / "s.toml").write_text(STUDY.format(workloads=text, more=more))
    with pytest.raises(TableError, match=says) as error:
        load_study(tmp_path / "s.toml")
    assert len(str(error.value)) < 1000


def test_too_many_policies_are_not_compared():
    with pytest.raises(TableError, match="20,000 policies were given; at most 1,000 are compared"):
        check_policies(["fcfs"] * 20_000)


def test_futures_without_an_end_are_refused():
    """Growth of ten times a year for twenty years would hold more jobs than memory."""
    jobs = pd.concat(
        [generate(1, 50).assign(submit_time=lambda day, n=n: day["submit_time"] + n * 86_400) for n in range(30)],
        ignore_index=True,
    ).assign(job_id=np.arange(1500).astype(str))
    with pytest.raises(TableError, match="jobs; at most 3,000,000 are drawn"):
        list(draw_futures(jobs, Futures(growth=10, years=20)))


def test_an_error_names_no_option_that_the_command_has_not(tmp_path, monkeypatch):
    """What the library refuses of its own arguments is a failure of the command, not bad usage of it."""

    def refuse(path):
        raise ArgumentError("ended_by" if path.name == "a" else "file", "7 s lies before 8 s")

    monkeypatch.setattr(learn, "read_policy", refuse)
    tables = ["--jobs", "j", "--nodes", "n"]
    inner = CliRunner().invoke(app, ["learn", "evaluate", "a", *tables])
    assert isinstance(inner.exception, TableError) and not isinstance(inner.exception, ArgumentError)
    assert "ended" not in inner.output and inner.exit_code == 1
    own = CliRunner().invoke(app, ["learn", "evaluate", "b", *tables], env={"COLUMNS": "200"})
    assert own.exit_code == 2 and "FILE" in own.output and "7 s lies before 8 s" in own.output
