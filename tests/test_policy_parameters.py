"""Parameters of policies: one grammar, one label, one error; and policies of installed packages."""

from __future__ import annotations

import json

import pytest
from policy_cases import found, job_table, node_table
from sweep_lab import make_study

from procure import run as procure_run
from procure.errors import ArgumentError, TableError
from procure.policies import catalog, entries
from procure.policies.easy import Easy
from procure.study import load_study
from procure.study.check import check_study
from procure.sweep.results import policy_of


def case():
    return job_table(
        submit_time=[0, 1, 1, 1, 1], n_nodes=[2, 2, 3, 1, 1], run_time=[4, 3, 2, 10, 3],
        requested_time=[4, 3, 2, 10, 3],
    ), node_table(3)  # fmt: skip


@pytest.mark.parametrize("name", catalog.names())
def test_every_policy_says_what_it_takes(name):
    """Each parameter that can be set has a meaning, a default that is legal, and a label that reads back."""
    spec = catalog.spec(name)
    assert spec.label == name
    for row in catalog.parameter_rows(name):
        assert row["meaning"] and row["parameter"] not in spec.entry.preset
        assert catalog.spec(f"{name}:{row['parameter']}={row['default']}").label == name
    changed = catalog.spec(name, {"exclusive": True})
    assert changed.label == f"{name}:exclusive=true"
    assert catalog.spec(changed.label) == changed


def test_labels_are_one_way_to_write_a_policy():
    """Whatever the order, spaces and defaults written out, equal parameters give one label."""
    label = catalog.spec("easy: depth=4, order=sjf").label
    assert label == catalog.spec("easy:order=sjf,depth=4,fit=first").label == "easy:order=sjf,depth=4"
    assert catalog.spec("easy", {"depth": 4, "order": "sjf"}).label == label
    assert catalog.spec("priority:weight_age=0.1").label == "priority:weight_age=0.1"
    assert catalog.split_list("fcfs, easy:depth=4,order=sjf,best-fit,easy:fit=best@oracle") == [
        "fcfs", "easy:depth=4,order=sjf", "best-fit", "easy:fit=best@oracle",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("easy:dept=4", "policy easy: no parameter 'dept'; did you mean depth"),
        ("easy:depth=0", "policy easy: depth: '0' was given.*at least 1"),
        ("easy:depth", "write NAME:key=value"),
        ("easy:depth=", "write NAME:key=value"),
        ("easy:depth=2,depth=3", "depth is given twice"),
        ("priority:weight_age=true", "weight_age: 'true' was given"),
        ("easy:", "write NAME:key=value"),
        ("easy-sjf:order=f1", "no parameter 'order'"),
        ("fcfs:fit=bset", "did you mean best"),
        ("eassy:depth=4", "did you mean easy"),
        ("tabu:seconds=9", "depends on the computer's speed; give rounds"),
        ("priority:weight_size=nan", "weight_size"),
        ("easy:order=sfj", "did you mean sjf"),
        ("easy:depth=many", "depth: .many. was given"),
        ("easy:depth=2,by_time_only=true", "one reservation"),
        ("easy:depth=2,keep=true", "one reservation"),
        ("easy:weight_age=2", "counts only in the order priority"),
        ("fcfs:depth=2", r"fcfs: no parameter 'depth'; known: exclusive.*place"),
    ],
)
def test_what_is_wrong_is_one_error_with_what_is_legal(policy, message, procure, tmp_path):
    """The same error in Python and, as bad usage, on the command line; two mistakes are both named."""
    with pytest.raises(TableError, match=message):
        catalog.spec(policy)
    jobs, nodes = case()
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    given = ["--jobs", tmp_path / "jobs.csv", "--nodes", tmp_path / "nodes.csv"]
    code, out, err = procure("simulate", *given, "--policy", policy)
    assert code == 2 and not out and "--policy" in err
    with pytest.raises(TableError, match="2 problems"):
        catalog.spec("easy:dept=4,depth=0")


@pytest.mark.parametrize(
    ("policy", "parameters", "message"),
    [
        ("easy", {"depth": True}, "depth: true was given; it must be a number"),
        ("priority", {"weight_age": False}, "weight_age: false was given; it must be a number"),
        ("easy:depth=2", {"depth": 4}, "depth is given twice"),
    ],
)
def test_a_truth_is_no_number_and_a_key_is_given_once(policy, parameters, message):
    """Neither a switch for a number nor a parameter in the name and beside it is taken."""
    with pytest.raises(TableError, match=message):
        catalog.spec(policy, parameters)


@pytest.mark.slow
def test_parameters_reach_the_schedule_by_every_door(procure, tmp_path):
    """A depth of two, given in five ways, gives one schedule, and it is not that of depth one."""
    jobs, nodes = case()
    plain = found(procure_run.simulate(jobs, nodes, "easy"), jobs)
    deep = found(procure_run.simulate(jobs, nodes, "easy", parameters={"depth": 2}), jobs)
    assert deep != plain
    for policy, options in [("easy:depth=2", {}), (Easy(depth=2), {}), ("easy", {"depth": 2})]:
        assert found(procure_run.simulate(jobs, nodes, policy, parameters=options), jobs) == deep
    with pytest.raises(TableError, match="depth: unknown key"):
        procure_run.simulate(jobs, nodes, lambda state: (-1, []), parameters={"depth": 2})
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    given = ["--jobs", tmp_path / "jobs.csv", "--nodes", tmp_path / "nodes.csv", "--format", "json"]
    waits = [
        json.loads(procure("simulate", *given, *policy)[1])["mean_wait_time"]
        for policy in (["--policy", "easy:depth=2"], ["--policy", "easy"])
    ]
    assert waits[0] != waits[1]
    _, out, _ = procure("compare", *given, "--policies", "easy,easy:depth=2,fit=best")
    assert [row["policy"] for row in json.loads(out)] == ["easy", "easy:place=best,depth=2"]
    _, out, _ = procure("policies", "easy", "--format", "json")
    depth = next(row for row in json.loads(out)["parameters"] if row["parameter"] == "depth")
    assert (depth["type"], depth["default"], depth["range"]) == ("int", "1", "≥ 1; ≤ 1,000,000,000")


def test_a_study_sets_parameters(tmp_path):
    """Two entries of one policy are two policies; what is wrong is named by the check, all at once."""
    path = make_study(tmp_path)
    text = path.read_text()
    key = 'policies = ["easy", {name = "easy", depth = 4}, "easy:order=sjf"]\n'
    path.write_text(text.replace("[simulate]\n", f"[simulate]\n{key}"))
    assert load_study(path).simulate.policies == ("easy", "easy:depth=4", "easy:order=sjf")
    text = text.replace("[simulate]", "[simulate]\npolicies = []")
    path.write_text(text.replace("[]", '[{name = "easy", dept = 4}, "easi", 7, {depth = 1}]'))
    with pytest.raises(TableError) as error:
        check_study(path)
    for part in ("did you mean depth", "did you mean easy", "7 was given", "{'depth': 1} was given"):
        assert part in str(error.value)
    path.write_text(text.replace("[]", '["easy:depth=4", {name = "easy", depth = 4}]'))
    with pytest.raises(TableError, match="easy:depth=4 stands 2 times"):
        load_study(path)


def test_a_policy_of_a_study_is_known_however_it_is_written(tmp_path):
    """The order of a policy's parameters, and defaults written out, do not matter where one of a study's is named."""
    path = make_study(tmp_path)
    path.write_text(
        path.read_text().replace("[simulate]\n", '[simulate]\npolicies = ["fcfs", "easy:order=sjf,depth=4"]\n')
    )
    study = load_study(path)
    assert policy_of(study, None) == "fcfs"
    for written in ("easy:depth=4,order=sjf", "easy: order=sjf, fit=first, depth=4"):
        assert policy_of(study, written) == "easy:order=sjf,depth=4"
    for other in ("easy", "fcfsx"):
        with pytest.raises(ArgumentError, match=f"{other}' is not in the study"):
            policy_of(study, other)


PACKAGE = '''
from typing import ClassVar, NamedTuple
import numpy as np
from numba import njit
from procure.policies import Parameters
from procure.policies.catalog import Entry
from procure.simulator.drive import CompiledPolicy, loop
from procure.simulator.state import WAIT, waiting
from pydantic import Field

class Last(Parameters):
    """The newest job first, on the highest rows."""
    skip: int = Field(0, ge=0, description="nodes at the top that stay empty")
    def make(self, state):
        def decide(state):
            for job in reversed(list(waiting(state))):
                rows = np.flatnonzero(state.free_cpus >= state.cpus[job])[::-1][self.skip:]
                if len(rows) >= state.n_nodes[job]:
                    return job, rows[:state.n_nodes[job]]
            return WAIT, []
        return decide

class Own(NamedTuple):
    top: int

@njit
def one_row(state, own):
    job = state.next_waiting[state.submit.size]
    if job != state.submit.size and state.free_cpus[own.top] >= state.cpus[job]:
        state.chosen[0] = own.top
        return job, state.chosen[:1]
    return WAIT, state.chosen[:0]

@njit
def one_row_loop(world, state, own):
    return loop(world, state, one_row, own)

class OneRow(Parameters):
    """Everything on one node."""
    rule: ClassVar = one_row
    row: int = Field(0, ge=0, description="the node")
    def make(self, state):
        return CompiledPolicy(one_row, one_row_loop, Own(self.row))

LAST = Entry("their_policies:Last", "the newest job first", multi_node=True)
ONE_ROW = Entry("their_policies:OneRow", "all on one node", compiled=True)
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that offers two policies, one that is broken, and one that is no policy."""
    (tmp_path / "their_policies.py").write_text(PACKAGE)
    folder = tmp_path / "their_policies-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: their-policies\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[procure.policies]\nlast = their_policies:LAST\none-row = their_policies:ONE_ROW\n"
        "broken = no_such_module:ENTRY\nno-entry = their_policies:Own\nfcfs = their_policies:LAST\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entries.offered.cache_clear()
    yield
    entries.offered.cache_clear()


@pytest.mark.slow
def test_a_package_brings_policies(installed, procure, tmp_path):
    """A plain and a compiled policy of an installed package are listed, described and simulated with parameters."""
    jobs, nodes = job_table(submit_time=[0, 0], run_time=[5, 5]), node_table(3, cpus=2)
    assert found(procure_run.simulate(jobs, nodes, "last:skip=1"), jobs)[1] == [("n1",), ("n1",)]
    assert found(procure_run.simulate(jobs, nodes, "one-row", parameters={"row": 2}), jobs)[1] == [("n2",)] * 2
    with pytest.raises(TableError, match="no parameter 'skipp'; did you mean skip"):
        catalog.spec("last:skipp=1")
    with pytest.raises(TableError, match="j0 asks for 2 nodes"):
        procure_run.simulate(jobs.assign(n_nodes=2), nodes, "one-row")
    for name, message in [("broken", "cannot be loaded"), ("no-entry", "is no procure.policies.catalog.Entry")]:
        with pytest.raises(TableError, match=message):
            catalog.spec(name)
    code, out, err = procure("policies", "--format", "json")
    names = [row["name"] for row in json.loads(out)]
    assert code == 0 and {"last", "one-row"} < set(names) and "broken" in err
    assert names.count("fcfs") == 1 and catalog.entry("fcfs").target != "their_policies:Last"
    code, out, _ = procure("policies", "last")
    assert code == 0 and "nodes at the top that stay empty" in out and "The newest job first" in out
