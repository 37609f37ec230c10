"""What holds for every policy of the catalog, on any workload."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from policy_cases import case_for, few, job_table, node_table, pool_case, shared_case, with_tree

from procure import run as procure_run
from procure.policies import catalog
from procure.simulator import state as simulator_state
from procure.simulator.state import WAIT

pytestmark = pytest.mark.plain
POLICIES = catalog.names()
FEW = settings(max_examples=few(12), deadline=None, suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 10**6)
CASES = st.sampled_from([pool_case, shared_case])


@pytest.mark.parametrize("policy", POLICIES)
@FEW
@given(seed=SEEDS, case=CASES, kill=st.booleans(), exclusive=st.booleans())
def test_capacity_causality_completeness(policy, seed, case, kill, exclusive):
    """No node is ever over its capacity, nobody starts before submission, every runnable job ends once."""
    jobs, nodes = case_for(policy, case)(np.random.default_rng(seed), kill=kill)
    options = {"exclusive": int(exclusive)}
    schedule = procure_run.simulate(jobs, nodes, policy, kill_at_limit=kill, parameters=options).schedule
    rows = {name: i for i, name in enumerate(nodes["node_id"])}
    held = []
    has = {name: nodes[name].to_numpy() for name in ("cpus", "mem_mb", "gpus", "gpu_type")}
    for job in schedule.to_dict("records"):
        suitable = (
            (has["cpus"] >= job["cpus_per_node"])
            & (has["mem_mb"] >= job.get("mem_mb_per_node", 0))
            & (has["gpus"] >= job.get("gpus_per_node", 0))
        )
        asked = job.get("gpu_type", "") if job.get("gpus_per_node", 0) else ""
        suitable &= (has["gpu_type"] == asked) | (has["gpu_type"] == "") | (asked == "")
        runnable = suitable.sum() >= job["n_nodes"]
        assert runnable == (job["start_time"] == job["start_time"] and job["node_ids"] != "")
        if not runnable:
            continue
        limit = job["requested_time"]
        took = min(job["run_time"], limit) if kill and limit else job["run_time"]
        assert job["start_time"] >= job["submit_time"]
        assert job["end_time"] == job["start_time"] + took
        places = [rows[name] for name in job["node_ids"].split(",")]
        assert len(set(places)) == len(places) == job["n_nodes"]
        assert suitable[places].all()
        held += [(place, job) for place in places]
    for place in range(len(nodes)):
        own = [job for at, job in held if at == place and job["end_time"] > job["start_time"]]
        for moment in {job["start_time"] for job in own}:
            there = [job for job in own if job["start_time"] <= moment < job["end_time"]]
            assert not exclusive or len(there) == 1
            for column, asked in (("cpus", "cpus_per_node"), ("mem_mb", "mem_mb_per_node"), ("gpus", "gpus_per_node")):
                assert sum(job.get(asked, 0) for job in there) <= has[column][place]


@pytest.mark.parametrize("policy", POLICIES)
def test_waits_on_an_empty_queue(policy):
    ready = procure_run.prepare(job_table(submit_time=[0], run_time=[1]), with_tree(node_table(2)))
    _, state = simulator_state.build(ready.jobs, ready.system, ready.durations)
    assert catalog.spec(policy).parameters.make(state)(state)[0] == WAIT


def promises(policy, jobs, nodes, watch):
    """Run a policy from Python; ``watch(state, own, promised)`` notes promises after every decision."""
    promised = {}

    class Watched(catalog.model_of(policy)):
        def make(self, state):
            inner = super().make(state)

            def decide(state):
                answer = inner(state)
                if answer[0] == WAIT:
                    watch(state, inner.own, promised)
                return answer

            return decide

    run = procure_run.simulate(jobs, nodes, Watched(**catalog.entry(policy).preset))
    first = jobs["submit_time"].min()
    return promised, (run.schedule["start_time"] - first).tolist()


def head_reservation(state, own, promised):
    """The earliest moment at which the first waiting job fits, given that nothing more starts."""
    n_jobs = len(state.submit)
    head = int(state.next_waiting[n_jobs])
    if head == n_jobs:
        return
    free = [state.free_cpus.copy(), state.free_mem.copy(), state.free_gpus.copy()]
    for job in state.running[: state.n_running[0]]:
        for node in state.node_list[state.node_first[job] : state.node_first[job + 1]]:
            free[0][node] += state.cpus[job]
            free[1][node] += state.mem[job]
            free[2][node] += state.gpus[job]
        fits = (free[0] >= state.cpus[head]) & (free[1] >= state.mem[head]) & (free[2] >= state.gpus[head])
        if (fits & (state.node_types & state.types[head] != 0)).sum() >= state.n_nodes[head]:
            moment = int(state.expected_end[job])
            assert moment <= promised.get(head, moment), "a decision delayed the head's reservation"
            promised[head] = min(promised.get(head, moment), moment)
            return


@FEW
@given(seed=SEEDS, case=CASES, exact=st.booleans())
def test_easy_never_delays_the_reservation_of_the_head(seed, case, exact):
    """The first waiting job starts no later than any reservation that it ever had."""
    jobs, nodes = case(np.random.default_rng(seed))
    if exact:
        jobs["requested_time"] = jobs["run_time"].clip(lower=1)
    promised, start = promises("easy", jobs, nodes, head_reservation)
    assert all(start[job] <= moment for job, moment in promised.items())


@FEW
@given(seed=SEEDS, case=CASES, exact=st.booleans())
def test_conservative_never_delays_a_promise(seed, case, exact):
    """Every job starts no later than it was first promised, also when others end early."""
    jobs, nodes = case(np.random.default_rng(seed))
    if exact:
        jobs["requested_time"] = jobs["run_time"].clip(lower=1)

    def watch(state, own, promised):
        for job in simulator_state.waiting(state):
            assert own.plan.start[job] >= 0
            assert own.plan.start[job] <= promised.get(job, own.plan.start[job])
            promised[job] = int(own.plan.start[job])

    promised, start = promises("conservative", jobs, nodes, watch)
    assert all(start[job] <= moment for job, moment in promised.items())
