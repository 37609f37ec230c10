"""The one loop: at each moment the policy decides until it waits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.extending import register_jitable

from procure.errors import TableError
from procure.simulator.state import WAIT, State, World
from procure.simulator.steps import OK, REASONS, STUCK, advance, place

Policy = Callable[[State], tuple[int, np.ndarray]]


class PolicyError(TableError):
    """A policy decided what cannot be; says what, when and in which state."""


@register_jitable
def loop(world, state, policy):
    """Run to the end; returns (status, job, nodes), the last two being what was refused."""
    while advance(world, state):
        job, nodes = policy(state)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status != OK:
                return status, job, nodes
            job, nodes = policy(state)
    return (STUCK if state.n_waiting[0] > 0 else OK), WAIT, state.chosen[:0]


def drive(world: World, state: State, policy: Policy, compiled_loop: Callable | None = None) -> None:
    """Run a policy to the end of the workload; world and state are modified.

    Parameters
    ----------
    policy
        ``policy(state) -> (job, nodes)``, or ``(WAIT, anything)``. A compiled one (Numba's njit)
        needs its ``compiled_loop`` to run compiled throughout; without it, it is called from Python.

    Raises
    ------
    PolicyError
        The policy named a job that is not waiting or nodes that cannot hold it, or waits for ever.
    """
    if compiled_loop is None:
        status, job, nodes = loop(world, state, policy)
    else:
        status, job, nodes = compiled_loop(world, state)
    if status == OK:
        return
    name = (
        policy.py_func.__name__
        if isinstance(policy, Dispatcher)
        else getattr(policy, "__name__", repr(policy))
    )
    what = "" if status == STUCK else f" to start job {job} on nodes {np.asarray(nodes).tolist()}"
    raise PolicyError(
        f"policy {name}, {int(state.now[0])} s after the first submission, decided{what}: {REASONS[status]} "
        f"({int(state.n_waiting[0])} jobs waiting, {int(state.n_running[0])} running)"
    )
