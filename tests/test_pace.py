"""Wakes and changing paces: the loop equals slow twins in plain Python that go second by second."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from policy_cases import few, job_table, node_table

from procure import run as procure_run
from procure.policies import Parameters
from procure.simulator.drive import CompiledPolicy, PolicyError, kernel_loop
from procure.simulator.running import ask_pace
from procure.simulator.state import FAR, PACE_MOST, PACE_ONE, WAIT, waiting

pytestmark = pytest.mark.plain

SEEDS = pytest.mark.parametrize("seeds", [range(few(60)), pytest.param(range(1000, 2000), marks=pytest.mark.slow)])
PACES = (0, 0, PACE_ONE // 3, PACE_ONE // 2, PACE_ONE, PACE_ONE * 7 // 5, 3 * PACE_ONE, 1, 250_001)


def first_on_idle(state):
    """The first waiting job and idle nodes for it, or WAIT."""
    idle = np.flatnonzero(state.free_cpus == 1)
    for job in waiting(state):
        if state.n_nodes[job] <= len(idle):
            return job, idle[: state.n_nodes[job]]
        break
    return WAIT, []


def random_case(seed: int):
    """Some jobs on one-CPU nodes, and a script: at which second which running job gets which pace."""
    rng = np.random.default_rng(seed)
    n, n_nodes = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    run = rng.choice([0, 1, 2, 5, 9, 20], n)
    jobs = job_table(
        submit_time=np.sort(rng.integers(0, 25, n)),
        run_time=run,
        requested_time=rng.choice([0, 3, 10, 25], n),
        n_nodes=rng.integers(1, n_nodes + 1, n),
    )
    times = np.sort(rng.choice(np.arange(40), int(rng.integers(0, 25))))  # several at one second
    script = [(int(t), int(rng.integers(0, 8)), int(rng.choice(PACES))) for t in times]
    return jobs, node_table(n_nodes), [*script, *((41, i, PACE_ONE) for i in range(n))]


class Scripted(Parameters):
    """FCFS without overtaking; at each second of the script, the i-th job gets a pace if it runs."""

    script: tuple = ()

    def make(self, state):
        seconds = sorted({t for t, _, _ in self.script})
        done = set()

        def decide(state):
            now = int(state.now[0])
            job, nodes = first_on_idle(state)
            if job == WAIT and now not in done:
                done.add(now)
                running = set(state.running[: state.n_running[0]].tolist())
                for t, i, pace in self.script:
                    if t == now and i in running:
                        ask_pace(state, i, pace)
            state.wake[0] = next((t for t in seconds if t > now), -1)
            return job, nodes

        return decide


def by_the_second(jobs, n_nodes, script, kill):
    """The twin: work is a fraction of seconds, a limit counts the seconds in which the job is not paused."""
    rows = jobs.to_dict("records")
    n = len(rows)
    start, end, killed = [None] * n, [None] * n, [False] * n
    work = [Fraction(int(job["run_time"])) for job in rows]
    allowed = [int(job["requested_time"]) or 10**9 if kill else 10**9 for job in rows]
    pace = [PACE_ONE] * n
    for now in range(3000):
        for j in range(n):
            if start[j] is not None and end[j] is None and now > start[j] and pace[j] > 0:
                work[j] -= Fraction(pace[j], PACE_ONE)
                allowed[j] -= 1
                if work[j] <= 0 or allowed[j] == 0:
                    end[j], killed[j] = now, work[j] > 0
        for j in range(n):
            busy = sum(rows[i]["n_nodes"] for i in range(n) if start[i] is not None and end[i] is None)
            if rows[j]["submit_time"] <= now and start[j] is None:
                if rows[j]["n_nodes"] > n_nodes - busy:
                    break
                start[j] = now
                if work[j] == 0:
                    end[j] = now
        for t, i, asked in script:
            if t == now and i < n and start[i] is not None and end[i] is None:
                pace[i] = asked
        if None not in end:
            return start, end, killed
    raise AssertionError("the twin did not come to an end")


@SEEDS
def test_changing_paces_equal_the_slow_twin(seeds):
    """Starts, ends and kills are those of counting second by second, with pauses and many changes at one second."""
    for seed in seeds:
        jobs, nodes, script = random_case(seed)
        kill = bool(seed % 2)
        run = procure_run.simulate(jobs, nodes, Scripted(script=tuple(script)), kill_at_limit=kill)
        first = int(jobs["submit_time"].min())
        moved = jobs.assign(submit_time=jobs["submit_time"] - first)
        start, end, killed = by_the_second(moved, len(nodes), script, kill)
        assert (run.schedule["start_time"] - first).tolist() == start, seed
        assert (run.schedule["end_time"] - first).tolist() == end, seed
        assert run.killed.tolist() == killed, seed
        assert run.metrics["n_killed"] == sum(killed)


class OnTheBeat(Parameters):
    """Starts jobs only at the seconds that a generator draws, and asks for junk wakes besides."""

    seed: int = 0

    def make(self, state):
        rng = np.random.default_rng(self.seed)
        beats = sorted(set(rng.integers(0, 60, 12).tolist()) | {61})
        junk = rng.integers(-5, 3, 400).tolist()

        def decide(state):
            now = int(state.now[0])
            coming = next((t for t in beats if t > now), None)
            state.wake[0] = coming if coming is not None else now + junk.pop() - 3
            job, nodes = first_on_idle(state)
            return (job, nodes) if now in beats or now > 61 else (WAIT, [])

        return decide


@SEEDS
def test_wakes_equal_the_slow_twin(seeds):
    """A policy is called at the seconds that it asks for, and a wake in the past is none."""
    for seed in seeds:
        jobs, nodes, _ = random_case(seed)
        run = procure_run.simulate(jobs, nodes, OnTheBeat(seed=seed), kill_at_limit=False)
        first = int(jobs["submit_time"].min())
        rng = np.random.default_rng(seed)
        beats = set(rng.integers(0, 60, 12).tolist()) | {61}
        rows, start, end = jobs.to_dict("records"), {}, {}
        for now in range(1000):
            events = [row["submit_time"] - first for row in rows] + list(end.values())
            if now in beats or (now > 61 and now in events):
                for j, row in enumerate(rows):
                    busy = sum(rows[i]["n_nodes"] for i in start if end[i] > now)
                    if row["submit_time"] - first <= now and j not in start:
                        if row["n_nodes"] > len(nodes) - busy:
                            break
                        start[j], end[j] = now, now + row["run_time"]
        assert (run.schedule["start_time"] - first).tolist() == [start[j] for j in range(len(rows))], seed


def states(policy, jobs, nodes, **options):
    """Run a policy and return its state and world at the end."""
    kept = {}

    class Kept(Parameters):
        def make(self, state):
            kept["state"] = state
            return policy

    run = procure_run.simulate(jobs, nodes, Kept(), **options)
    return run, kept["state"]


def test_what_the_scheduler_expects_moves_with_the_pace():
    """Half the pace doubles what is left of the estimate, a pause makes it unknown, and going on restores it."""
    seen = []

    def decide(state):
        now = int(state.now[0])
        if state.start[0] < 0:
            return 0, [0]
        if state.n_running[0]:
            ask_pace(state, 0, {10: PACE_ONE // 2, 20: 0, 50: PACE_ONE}.get(now, int(state.pace[0])))
            seen.append((now, int(state.expected_end[0])))
            state.wake[0] = now + 10 - now % 10
        return WAIT, []

    jobs = job_table(submit_time=[0], run_time=[40], requested_time=[60])
    run, _ = states(decide, jobs, node_table(1))
    # 10 s of work by 10, 5 s more by 20, nothing until 50, the other 25 s by 75.
    assert run.schedule["end_time"].tolist() == [75]
    assert dict(seen) == {0: 60, 10: 60, 20: 110, 30: FAR, 40: FAR, 50: FAR, 60: 95, 70: 95}


def test_what_cannot_be_is_an_error():
    """A pace of a waiting job, out of range, and jobs that are paused for ever are one PolicyError each."""
    jobs = job_table(submit_time=[0, 0], run_time=[5, 5])

    def pausing(state):
        job, nodes = first_on_idle(state)
        if job != WAIT:
            ask_pace(state, job, 0)
        return job, nodes

    def of_waiting(state):
        ask_pace(state, 1, 5)
        return WAIT, []

    def asking(job, pace):
        return lambda state: ask_pace(state, job, pace)

    for policy, message in [
        (pausing, "jobs wait or are paused"),
        (of_waiting, "to change the pace of job 1.*does not run"),
        (asking(0, -1), "at least 0"),
        (asking(0, PACE_MOST + 1), "at most PACE_MOST"),
        (asking(7, 5), "no such job"),
    ]:
        with pytest.raises(PolicyError, match=message):
            procure_run.simulate(jobs, node_table(1), policy)

    class Answering(Parameters):
        def make(self, state):
            def decide(state, own):
                state.chosen[:] = 0
                return pausing(state)[0]

            return CompiledPolicy(
                decide, lambda *given: getattr(kernel_loop, "py_func", kernel_loop)(*given[:2], decide, given[2]), ()
            )

    with pytest.raises(PolicyError, match="jobs wait or are paused"):
        procure_run.simulate(jobs, node_table(1), Answering())
    long = job_table(submit_time=[0], run_time=[2**40])
    with pytest.raises(PolicyError, match="2\\^40 s"):
        procure_run.simulate(long, node_table(1, speed=0.5), pausing, logged_speed="1")


@pytest.mark.slow
def test_a_policy_that_wakes_for_ever_is_stopped():
    """A policy that asks again and again where nothing else will happen waits for ever, and the run says so."""

    def waking(state):
        state.wake[0] = state.now[0] + 1
        return WAIT, []

    with pytest.raises(PolicyError, match="waits for ever"):
        procure_run.simulate(job_table(submit_time=[0], run_time=[5]), node_table(1), waking)
