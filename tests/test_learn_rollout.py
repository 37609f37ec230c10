"""Rollouts: the simulation ahead equals a slow one, and the best order decides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_learn import Twin
from policy_cases import pool_case, shared_case
from test_learn import arrays_of

from procure.learn.days import OnDay
from procure.learn.features import follow_classes
from procure.learn.policy import compiled
from procure.learn.rollout import LEFT_AT_LEAST, ORDERS, _find_keys, waiting_ahead
from procure.learn.store import TrainedPolicy
from procure.policies.lines import follow_queue
from procure.run import prepare, run_prepared
from procure.simulator.state import waiting

pytestmark = pytest.mark.plain

FEW = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


def slow_ahead(state, twin, key, horizon):
    """Seconds waited within the horizon, job by job, with lists, every second of a change looked at anew."""
    free = {r: [int(x) for x in getattr(state, f"free_{r}")] for r in ("cpus", "mem", "gpus")}
    now = start = int(state.now[0])
    running = []
    for job in state.running[: state.n_running[0]].tolist():
        expected = twin.expected(state, job)[0]
        left = max(expected - (now - int(state.start[job])), LEFT_AT_LEAST * expected, 1.0)
        nodes = state.node_list[state.node_first[job] : state.node_first[job + 1]].tolist()
        running.append((now + int(left), job, nodes))
    queue = sorted(waiting(state), key=lambda job: (key(job), job))
    total = 0

    class View:
        """The state with what is free in this simulation."""

        def __getattr__(self, name):
            return np.array(free[name[5:]]) if name.startswith("free_") else getattr(state, name)

    while True:
        for job in list(queue):
            able = [
                n
                for n in range(len(free["cpus"]))
                if all(free[r][n] >= getattr(state, r)[job] for r in free) and state.node_types[n] & state.types[job]
            ]
            wanted = int(state.n_nodes[job])
            if len(able) < wanted:
                continue
            nodes = able[:wanted]
            if wanted == 1:
                nodes = [min(able, key=lambda n: (twin.cost(View(), job, n), n))]
            for n in nodes:
                for r in free:
                    free[r][n] -= int(getattr(state, r)[job])
            running.append((now + int(max(twin.expected(state, job)[0], 1.0)), job, nodes))
            queue.remove(job)
        if not queue or not running:
            return total + len(queue) * (start + horizon - now)
        moment = min(running)[0]
        total += len(queue) * (min(moment, start + horizon) - now)
        now = moment
        if now >= start + horizon:
            return total
        for entry in [entry for entry in running if entry[0] == now]:
            running.remove(entry)
            for n in entry[2]:
                for r in free:
                    free[r][n] += int(getattr(state, r)[entry[1]])


@FEW
@given(
    seed=st.integers(0, 10**6),
    case=st.sampled_from([pool_case, shared_case]),
    horizon=st.sampled_from([5, 40, 400]),
)
def test_the_simulation_ahead_equals_a_slow_one(seed, case, horizon):
    """Under each order with keys that do not tie, at every decision, the seconds waited are those of the twin."""
    rng = np.random.default_rng(seed)
    jobs, nodes = case(rng)
    trained = TrainedPolicy("search", arrays_of(rng, 0))
    prior = np.full(len(jobs), 7.0)
    twin = Twin(trained.arrays, prior)
    n_compared = 0

    class Watched(OnDay):
        def make(self, state):
            inner = compiled(state, trained, prior, horizon, 1)

            def decide(state):
                nonlocal n_compared
                for job in state.ended[: state.n_ended[0]].tolist():
                    twin.ended.setdefault(job, int(state.now[0]))
                base = inner.own.scored
                follow_classes(state, base.lines, base.kin)
                follow_queue(state, base.lines)
                _find_keys(state, inner.own)
                for which in range(len(ORDERS)):
                    keys = inner.own.keys[which]
                    quick = waiting_ahead(state, inner.own, which)
                    slow = slow_ahead(state, twin, lambda job, keys=keys: keys[base.lines.line_of[job]], horizon)
                    held = [keys[line] for line in base.lines.filled[: base.lines.counters[0]]]
                    if len(set(held)) == len(held):  # classes that tie are served as blocks by one, mixed by the other
                        assert quick == slow
                        n_compared += 1
                return inner(state)

            return decide

    run_prepared(prepare(jobs, nodes), Watched.model_validate({"trained": trained, "prior": prior}))
    assert n_compared or len(jobs) < 2
