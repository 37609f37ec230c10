"""The environment is the one loop; the published agent trains in it and runs without torch."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from policy_cases import few, job_table, node_table, shared_case

from procure.errors import ArgumentError, TableError
from procure.learn.order import AtHand
from procure.learn.published import LAYERS, N_SLOTS, shapes
from procure.learn.published_training import make_env
from procure.learn.store import TrainedPolicy, read_policy, write_policy
from procure.run import prepare, run_prepared, simulate
from procure.simulator.state import WAIT, waiting

pytestmark = pytest.mark.plain

FEW = settings(max_examples=few(15), deadline=None, suppress_health_check=list(HealthCheck))


def single(rng, n_jobs=20):
    jobs, nodes = shared_case(rng, n_jobs)
    return prepare(jobs.assign(n_nodes=1), nodes)


def agent(rng, n_nodes, n_hidden=5):
    return {name: 0.1 * rng.standard_normal(shape) for name, shape in shapes(n_nodes, n_hidden).items()}


def test_gymnasium_accepts_the_environment():
    """Gymnasium's own checker finds nothing wrong, under either reward."""
    checker = pytest.importorskip("gymnasium.utils.env_checker", reason="needs gymnasium")
    for reward in ("wait", "utilization"):
        checker.check_env(make_env(single(np.random.default_rng(1)), reward), skip_render_check=True)


@FEW
@given(seed=st.integers(0, 10**6))
def test_stepping_equals_simulating(seed):
    """Random allowed actions give, start by start, what the simulator makes of the same decisions."""
    pytest.importorskip("gymnasium", reason="needs gymnasium")
    rng = np.random.default_rng(seed)
    ready = single(rng)
    env = make_env(ready)
    env.reset(seed=0)
    decisions, ended = [], not env.action_masks().any()
    while not ended:
        allowed = np.flatnonzero(env.action_masks())
        state = env.unwrapped.state
        fitting = [
            job
            for job in waiting(state)
            if any(
                state.free_cpus[n] >= state.cpus[job] and state.free_mem[n] >= state.mem[job]
                and state.free_gpus[n] >= state.gpus[job] and state.node_types[n] & state.types[job]
                for n in range(len(state.free_cpus))
            )
        ]  # fmt: skip
        action = int(rng.choice(allowed))
        slot, node = divmod(action, len(state.free_cpus))
        moment = int(state.now[0])
        _, _, ended, _, info = env.step(action)
        assert (info["job"], info["node"]) == (fitting[slot], node)
        decisions.append((moment, info["job"], node))
    env_start = env.unwrapped.state.start.copy()
    left = list(decisions)

    def replay(state):
        if left and left[0][0] == int(state.now[0]):
            _, job, node = left.pop(0)
            return job, [node]
        return WAIT, []

    assert run_prepared(ready, replay).start.tolist() == env_start.tolist() and not left


def test_what_is_seen_allowed_and_rewarded():
    """Two nodes, three jobs: numbers as published, memory in kB; a forbidden action changes nothing and says so."""
    pytest.importorskip("gymnasium", reason="needs gymnasium")
    jobs = job_table(
        submit_time=[0, 0, 0], run_time=[10, 20, 30], requested_time=[60, 120, 180], cpus_per_node=[3, 4, 1],
        mem_mb_per_node=[50, 100, 0], gpus_per_node=[0, 0, 1],
    )  # fmt: skip
    nodes = node_table(2, cpus=[4, 2], mem_mb=[100, 100], gpus=[0, 1])
    env = make_env(prepare(jobs, nodes))
    seen, _ = env.reset(seed=0)
    assert seen[:12].tolist() == [50_000, 3, 0, 60, 100_000, 4, 0, 120, 0, 1, 1, 180]
    assert not seen[12 : 4 * N_SLOTS].any() and seen[4 * N_SLOTS :].tolist() == [100_000, 4, 0, 100_000, 2, 1]
    assert np.flatnonzero(env.action_masks()).tolist() == [0, 2, 5]  # job × n_nodes + node
    same, _, ended, _, info = env.step(1)
    assert info == {"invalid": True} and not ended and (same == seen).all()
    _, reward, *_ = env.step(0)  # job 0 on node 0
    assert reward == 0.0
    env.step(3)  # invalid now: job 2 stands in slot 0
    env.step(1)
    _, reward, ended, _, info = env.step(0)  # at 10 s: job 1 on node 0
    assert reward == 0.0 and ended and info["mean_wait"] == pytest.approx(10 / 3)
    env = make_env(prepare(jobs, nodes), "utilization")
    env.reset(seed=0)
    _, reward, *_ = env.step(0)
    assert reward == pytest.approx((0.5 + 0.75) / 6)
    with pytest.raises(ArgumentError, match="reward"):
        make_env(prepare(jobs, nodes), "luck")
    with pytest.raises(TableError, match="several"):
        make_env(prepare(jobs.assign(n_nodes=2), nodes))


@FEW
@given(seed=st.integers(0, 10**6))
def test_the_network_in_the_loop_does_what_it_does_in_the_environment(seed):
    """Stepping the greatest allowed output, computed by NumPy, gives the schedule of the compiled policy."""
    pytest.importorskip("gymnasium", reason="needs gymnasium")
    rng = np.random.default_rng(seed)
    ready = single(rng)
    arrays = agent(rng, len(ready.kind_of))
    quick = run_prepared(ready, AtHand.model_validate({"trained": TrainedPolicy("ppo", arrays), "prior": np.zeros(0)}))
    env = make_env(ready)
    seen, _ = env.reset(seed=0)
    while env.action_masks().any():
        inner = np.tanh(arrays["weight_1"] @ seen.astype(float) + arrays["bias_1"])
        inner = np.tanh(arrays["weight_2"] @ inner + arrays["bias_2"])
        out = np.where(env.action_masks(), arrays["weight_3"] @ inner + arrays["bias_3"], -np.inf)
        seen, *_ = env.step(int(out.argmax()))
    assert env.unwrapped.state.start.tolist() == quick.start.tolist()


def test_an_agent_fits_the_system_it_was_trained_for():
    """Another number of nodes is refused, and so are jobs of several nodes."""
    rng = np.random.default_rng(0)
    trained = AtHand.model_validate({"trained": TrainedPolicy("ppo", agent(rng, 3)), "prior": np.zeros(0)})
    jobs = job_table(submit_time=[0], run_time=[1])
    with pytest.raises(TableError, match="trained for 3 nodes; these are 2"):
        run_prepared(prepare(jobs, node_table(2)), trained)
    with pytest.raises(TableError, match="several"):
        run_prepared(prepare(jobs.assign(n_nodes=2), node_table(3)), trained)


def gpu_log():
    """A log that a published training set can be drawn from."""
    rng = np.random.default_rng(0)
    n = 2300
    jobs = job_table(
        submit_time=1_620_000_000 + np.arange(n), run_time=rng.integers(1, 500, n), requested_time=1000,
        cpus_per_node=rng.choice([4, 24, 32], n, p=[0.02, 0.49, 0.49]), mem_mb_per_node=100,
        gpus_per_node=(np.arange(n) % 40 == 0).astype(int),
    )  # fmt: skip
    return jobs, node_table(2, cpus=64, mem_mb=1000, gpus=[0, 4])


def test_a_training_set_is_the_published_one():
    """2,000 jobs of more than 20 CPUs and 40 with GPUs, each once, at one moment; too few are said."""
    from procure.learn.published_training import training_set

    jobs, nodes = gpu_log()
    drawn = training_set(jobs, nodes, 1)
    assert len(drawn) == 2040 and drawn["job_id"].is_unique and drawn["submit_time"].nunique() == 1
    gpus = drawn["gpus_per_node"] > 0
    assert gpus.sum() == 40 and (drawn.loc[~gpus, "cpus_per_node"] > 20).all()
    assert (training_set(jobs, nodes, 1)["job_id"] == drawn["job_id"]).all()
    assert (training_set(jobs, nodes, 2)["job_id"] != drawn["job_id"]).any()
    with pytest.raises(TableError, match="needs 40 jobs with GPUs"):
        training_set(jobs.assign(gpus_per_node=0, cpus_per_node=32), nodes, 1)


@pytest.mark.slow
def test_ppo_trains_and_runs_without_torch(tmp_path):
    """A short training gives a file that runs by name; torch's likeliest action is our network's."""
    pytest.importorskip("sb3_contrib", reason="needs the extra rl")
    import torch

    from procure.learn.published_training import train_published, training_set

    jobs, nodes = gpu_log()
    path = tmp_path / "ppo.policy"
    write_policy(path, train_published(jobs, nodes, steps=2048))
    found = read_policy(path)
    assert [point[0] for point in found.trained["curve"]] == [0, 2048]
    drawn = training_set(jobs, nodes, 1)
    env = make_env(prepare(drawn, nodes))
    seen, _ = env.reset(seed=0)
    layers = [torch.tensor(found.arrays[name]) for name in LAYERS]
    inner = torch.tensor(seen, dtype=torch.float64)
    for weight, bias in (layers[:2], layers[2:4]):
        inner = torch.tanh(weight @ inner + bias)
    out = (layers[4] @ inner + layers[5]).numpy()
    best = int(np.where(env.action_masks(), out, -np.inf).argmax())
    run = simulate(drawn, nodes, f"learned:file={path}").schedule
    assert run["start_time"].iloc[best // 2] == run["submit_time"].iloc[best // 2]
