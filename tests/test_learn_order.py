"""The order `learned` in composed schedulers."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_learn import Twin
from policy_cases import few, pool_case, shared_case

from procure.errors import TableError
from procure.learn.features import AGE, FEATURES, REQUESTED, expected_before
from procure.learn.store import UNTRAINED, TrainedPolicy, write_policy
from procure.policies import catalog
from procure.policies.catalog import with_seams
from procure.policies.scheduler import Skipping
from procure.run import prepare, run_prepared

pytestmark = pytest.mark.plain

FEW = settings(max_examples=few(25), deadline=None, suppress_health_check=list(HealthCheck))


def written(tmp_path_factory, weights, **arrays):
    """Write a policy; the name of its file."""
    path = tmp_path_factory.mktemp("learned") / "site.policy"
    write_policy(path, TrainedPolicy("search", dict(UNTRAINED.arrays) | {"weights": weights} | arrays))
    return path.as_posix()


def first_fit(file):
    """Whoever fits, in the order of a policy's file, on the first nodes."""
    given = {"order": "learned", "file": file}
    return with_seams(Skipping, given)(**given)


@FEW
@given(seed=st.integers(0, 10**6))
def test_on_the_first_node_it_equals_its_slow_twin(seed, tmp_path_factory):
    """Jobs of one node start when and where the order's twin starts them, with any weights."""
    rng = np.random.default_rng(seed)
    jobs, nodes = shared_case(rng, 25)
    jobs["n_nodes"] = 1
    weights = rng.standard_normal(len(FEATURES))
    weights[AGE] = -abs(weights[AGE])
    file = written(tmp_path_factory, weights, trust=np.array([2.0]))
    ready = prepare(jobs, nodes)
    composed = run_prepared(ready, first_fit(file))
    prior = expected_before(ready.jobs, None)
    arrays = dict(UNTRAINED.arrays) | {"weights": weights, "trust": np.array([2.0])}
    twin = run_prepared(ready, Twin(arrays, prior))
    assert composed.start.tolist() == twin.start.tolist()
    assert composed.node_list.tolist() == twin.node_list.tolist()


@FEW
@given(seed=st.integers(0, 10**6), case=st.sampled_from([pool_case, shared_case]))
@pytest.mark.parametrize("composed", ["easy:order=ORDER", "easy:order=ORDER,queue_order=ORDER,place=best"])
def test_ordered_by_the_request_alone_easy_backfills_as_by_sjf(composed, seed, case, tmp_path_factory):
    """With weight on the requested time alone, EASY starts every job when and where it does in SJF's order."""
    jobs, nodes = case(np.random.default_rng(seed))
    file = written(tmp_path_factory, np.eye(len(FEATURES))[REQUESTED])
    ready = prepare(jobs, nodes)
    learned = run_prepared(ready, f"{composed.replace('ORDER', 'learned')},file={file}")
    sjf = run_prepared(ready, composed.replace("ORDER", "sjf"))
    assert learned.start.tolist() == sjf.start.tolist()
    assert learned.node_list.tolist() == sjf.node_list.tolist()


def test_a_long_wait_never_counts_against_a_job(tmp_path_factory):
    """With weight on the age alone, of either sign, nobody is served behind a job that was submitted later."""
    jobs, nodes = pool_case(np.random.default_rng(3), 25)
    jobs["n_nodes"] = 1
    ready = prepare(jobs, nodes)
    fcfs = run_prepared(ready, "first-fit").start.tolist()
    for weight in (1.0, -1.0):
        file = written(tmp_path_factory, weight * np.eye(len(FEATURES))[AGE])
        assert run_prepared(ready, first_fit(file)).start.tolist() == fcfs


def test_the_file_is_a_parameter_of_the_order(tmp_path_factory):
    """It is part of the label, is one of the files that the decisions depend on, and belongs to this order only."""
    file = written(tmp_path_factory, np.ones(len(FEATURES)))
    spec = catalog.spec(f"easy:order=learned,file={file}")
    assert spec.label == f"easy:order=learned,file={file}"
    assert spec.parameters.files() == (file,)
    assert catalog.spec(f"easy:order=learned,file={file},estimates=none").parameters.files() == (file,)
    with pytest.raises(TableError, match="no parameter 'file'"):
        catalog.spec(f"easy:order=sjf,file={file}")


def test_what_was_not_said_is_as_trained(tmp_path_factory):
    """A policy trained inside EASY also holds the first reservation and chooses the nodes, unless these are given."""
    jobs, nodes = shared_case(np.random.default_rng(4), 40)
    ready = prepare(jobs, nodes)
    path = tmp_path_factory.mktemp("learned") / "site.policy"
    arrays = dict(UNTRAINED.arrays) | {"weights": np.eye(len(FEATURES))[REQUESTED]}
    write_policy(path, TrainedPolicy("search", arrays, None, {"queue_order": "learned", "place": "best"}))
    short = run_prepared(ready, f"easy:order=learned,file={path}")
    full = run_prepared(ready, "easy:order=sjf,queue_order=sjf,place=best")
    assert short.start.tolist() == full.start.tolist() and short.node_list.tolist() == full.node_list.tolist()
    given = run_prepared(ready, f"easy:order=learned,file={path},queue_order=fcfs,place=first")
    assert given.start.tolist() == run_prepared(ready, "easy:order=sjf").start.tolist()
    assert short.start.tolist() != given.start.tolist()


@FEW
@given(seed=st.integers(0, 10**6), moment=st.integers(1, 40))
def test_what_has_not_ended_is_not_known(seed, moment, tmp_path_factory):
    """Jobs that run past a moment may run any longer: nothing that was decided until then changes."""
    rng = np.random.default_rng(seed)
    jobs, nodes = shared_case(rng, 25)
    policy = f"easy:order=learned,file={written(tmp_path_factory, rng.standard_normal(len(FEATURES)))}"
    ready = prepare(jobs, nodes, kill_at_limit=False)
    before = run_prepared(ready, policy)
    longer = (before.end > moment) | (before.start < 0)
    changed = jobs.copy()
    changed.loc[ready.jobs.row[longer], "run_time"] += rng.integers(1, 1000, longer.sum())
    after = run_prepared(prepare(changed, nodes, kill_at_limit=False), policy)
    early = (before.start >= 0) & (before.start <= moment)
    assert (after.start[early] == before.start[early]).all()


def stream(n=150):
    """Somebody wants all eight nodes, and others want two each, for a minute, faster than these come free."""
    rows = [{"submit_time": 15 * i, "run_time": 60, "n_nodes": 2} for i in range(n)]
    rows.insert(1, {"submit_time": 1, "run_time": 60, "n_nodes": 8})
    jobs = pd.DataFrame(rows).assign(requested_time=60, cpus_per_node=1, mem_mb_per_node=0, gpus_per_node=0)
    jobs["job_id"] = [f"j{i}" for i in range(len(jobs))]
    return jobs, pd.DataFrame({"node_id": [f"n{i}" for i in range(8)], "cpus": 1, "mem_mb": 1, "gpus": 0})


@FEW
@given(seed=st.integers(0, 10**6), case=st.sampled_from(["stream", "pool", "shared"]))
def test_nobody_waits_for_ever_whatever_the_file_says(seed, case, tmp_path_factory):
    """Whoever has waited as long as ``patience`` waits for no more than those before him."""
    rng = np.random.default_rng(seed)
    jobs, nodes = {"stream": stream, "pool": lambda: pool_case(rng, 40), "shared": lambda: shared_case(rng, 40)}[case]()
    jobs["run_time"] = jobs["requested_time"] = jobs["requested_time"].clip(lower=1)
    file = written(tmp_path_factory, 10.0 * rng.standard_normal(len(FEATURES)))
    patience = int(rng.integers(1, 400))
    ready = prepare(jobs, nodes)
    run = run_prepared(ready, f"easy:order=learned,queue_order=learned,file={file},patience={patience}")
    ran = run.start >= 0
    before = np.cumsum(ran)
    latest = ready.jobs.submit + patience + before * int(ready.jobs.requested.max())
    assert (run.start[ran] <= latest[ran]).all()
