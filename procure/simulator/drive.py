"""The one loop: at each moment the policy decides until it waits."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import weakref
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

import numpy as np
from numba import typeof
from numba.core import event
from numba.core.dispatcher import Dispatcher

from procure.errors import TableError
from procure.files.kernels import njit
from procure.progress import step
from procure.simulator.kernel import kernel
from procure.simulator.running import change_paces
from procure.simulator.seams import by_reference, source_of
from procure.simulator.state import WAIT, State, World
from procure.simulator.steps import (
    NOT_RUNNING,
    OK,
    PACE_OF_WAITING,
    PACE_TOO_LONG,
    REASONS,
    STUCK,
    advance,
    place,
    units,
)
from procure.simulator.tasks import n_answered

Policy = Callable[[State], tuple[int, np.ndarray]]
"""``policy(state) -> (job, nodes)``, or ``(WAIT, anything)``; for a job of tasks also ``(job, nodes, tasks on each)``.

Without the third, the nodes are filled in their order, so that each has one task at least.
"""


@dataclass(frozen=True)
class CompiledPolicy:
    """A policy of compiled functions with what is its own in this run; called from Python it decides once."""

    decide: Callable
    """``decide(state, own) -> (job, nodes)``, compiled; or only the job, whose nodes then stand in ``chosen``."""
    loop: Callable
    """``loop(world, state, own)``, compiled: `drive.loop` with ``decide`` (`procure.policies.scheduler` shows it)."""
    own: tuple
    """A named tuple of the policy's parameters, as numbers, and of the arrays that it keeps during the run."""
    columns: Callable[[], dict[str, list]] | None = None
    """What the policy has to say of each job after the run, in queue order: further columns of the schedule."""
    rejected: np.ndarray | None = None
    """bool[n_jobs] in queue order, the jobs that the policy's rules never let start; they are set aside at once."""
    may_strand: bool = False
    """True = jobs that wait when nothing runs and nothing will be submitted stay unstarted; else it is an error."""

    def __call__(self, state: State) -> tuple:
        """Decide once."""
        answer = self.decide(state, self.own)
        return answer if isinstance(answer, tuple) else answered(state, answer)


def _chosen(state: State, job: int) -> np.ndarray:
    if job == WAIT:
        return state.chosen[:0]
    return state.chosen[: state.n_nodes[job] if state.tasks is None else state.tasks.n_chosen[0]]


def answered(state: State, job: int) -> tuple:
    """Return the answer that a kernel has laid into the state, as a policy in Python gives it."""
    nodes = _chosen(state, job)
    return (job, nodes) if state.tasks is None else (job, nodes, state.tasks.units[nodes])


def compiled(rule: Callable, own: tuple, columns: Callable[[], dict[str, list]] | None = None) -> CompiledPolicy:
    """Make the policy of a run from a kernel, and the compiled loop that it rides.

    Parameters
    ----------
    rule
        ``rule(state, own) -> job`` or WAIT, a `procure.simulator.kernel.part`; the nodes stand in ``chosen``.
    own
        A named tuple of what is the policy's own in this run. Kernels call the methods of the named tuples in it
        (`procure.kernel`): each combination of classes is compiled once, and kept on the disk until the source of
        one of them changes.
    columns
        As `CompiledPolicy.columns`.
    """
    return CompiledPolicy(*_entrances(rule, classes_of(own)), own, columns)


def classes_of(own: tuple) -> tuple[type, ...]:
    """Return the classes of a named tuple and of those in it, the outermost first."""
    inner = (one for each in own if isinstance(each, tuple) and hasattr(each, "_fields") for one in classes_of(each))
    return tuple(dict.fromkeys((type(own), *inner)))


@functools.cache
def _entrances(rule: Callable, classes: tuple[type, ...]) -> tuple[Callable, Callable]:
    return _specialised(_ask, (rule, *classes), rule), _specialised(_run, (rule, *classes), rule)


def specialised(function: Callable, *tuples: tuple) -> Callable:
    """Return a kernel of a function for the classes of some named tuples whose methods it calls."""
    return _specialised(function, tuple(one for each in tuples for one in classes_of(each)))


@functools.cache
def _specialised(template: Any, of: tuple[Any, ...], rule: Any = None) -> Callable:
    """Compile a copy of a function under a name of its own, which changes with the source of what it is for.

    Numba keeps a kernel's code under its qualified name until its file changes, and sees no other.
    """
    parts = [getattr(one, "py_func", one) for one in of]
    names = " ".join(f"{one.__module__}.{one.__qualname__}" for one in parts)
    name = parts[0].__name__ if rule else template.__name__
    made = FunctionType(template.__code__, {**template.__globals__, "_rule": rule}, name)
    digest = hashlib.sha256(names.encode() + source_of(*parts)).hexdigest()[:12]
    made.__qualname__, made.__module__ = f"{name}.{template.__name__}.{digest}", template.__module__
    return kernel(made)


def _ask(state, own):
    return _rule(by_reference(state), by_reference(own))


def _run(world, state, own):
    return kernel_loop(world, state, _rule, own)


def _rule(state, own):
    """Stand for the rule, which `_entrances` sets."""
    return WAIT


class PolicyError(TableError):
    """A policy decided what cannot be, or failed; says what, when and in which state."""


@njit(inline="always")
def loop(world, state, decide, own):
    """Run to the end; returns (status, job, nodes), the last two being what was refused."""
    while advance(world, state):
        job, nodes = decide(state, own)
        while job != WAIT:
            status = place(world, state, job, nodes)
            if status == OK and state.n_asked[0] > 0:
                status, job = change_paces(world, state)
            if status != OK:
                return status, job, nodes
            job, nodes = decide(state, own)
        if state.n_asked[0] > 0:
            status, job = change_paces(world, state)
            if status != OK:
                return status, job, nodes
    done = state.n_waiting[0] == 0 and world.n_heap[0] == 0
    return (OK if done else STUCK), WAIT, state.chosen[:0]


@njit(inline="always")
def kernel_loop(world, state, decide, own):
    """Do the same with a policy that is a `procure.simulator.kernel.kernel`: it answers only the job.

    It is handed the state and what is its own by reference, so it reads them by attribute only. Returns
    (status, job), the job being what was refused.
    """
    world, state, own = by_reference(world), by_reference(state), by_reference(own)
    job = WAIT
    while job != WAIT or advance(world, state):  # one call of each function: more would be compiled as often
        if job != WAIT:
            status = place(world, state, job, state.chosen[: n_answered(state, state.tasks, job)])
            if status != OK:
                return status, job
            if state.n_asked[0] > 0:
                status, job = change_paces(world, state)
                if status != OK:
                    return status, job
        job = decide(state, own)
        if job == WAIT and state.n_asked[0] > 0:
            status, about = change_paces(world, state)
            if status != OK:
                return status, about
    done = state.n_waiting[0] == 0 and world.n_heap[0] == 0
    return (OK if done else STUCK), WAIT


_loop_in_python = getattr(loop, "py_func", loop)  # without Numba's compiler, the function itself


def policy_name(policy: Callable) -> str:
    """Return what to call a policy in a message."""
    policy = policy.decide if isinstance(policy, CompiledPolicy) else policy
    function = policy.py_func if isinstance(policy, Dispatcher) else policy
    return getattr(function, "__name__", type(function).__name__)


def _situation(state: State) -> str:
    now, n_waiting, n_running = int(state.now[0]), int(state.n_waiting[0]), int(state.n_running[0])
    return f"{now} s after the first submission ({n_waiting} jobs waiting, {n_running} running)"


def _take_units(state: State, job: int, nodes: np.ndarray, given: Any = None) -> None:
    """Lay the tasks on each of the nodes of an answer where `place` reads them; not said, the nodes are filled."""
    tasks, known = state.tasks, nodes[(nodes >= 0) & (nodes < len(state.free_cpus))]
    if not 0 <= job < len(state.submit) or len(known) < len(nodes) or tasks is None:
        return  # which `place` refuses
    if given is not None:
        tasks.units[nodes] = np.broadcast_to(np.asarray(given), nodes.shape).astype(np.int64, casting="safe")
        return
    left = int(state.n_nodes[job])
    for later, node in zip(range(len(nodes) - 1, -1, -1), nodes.tolist(), strict=True):
        held = int(units(state, node, job))
        tasks.units[node] = max(1, min(held, left - later))
        left -= int(tasks.units[node])


def checked(policy: Policy, name: str) -> Policy:
    """Wrap a plain-Python policy: its answer becomes (int, int64 array), its failures a `PolicyError`."""

    def decide(state: State) -> tuple[int, np.ndarray]:
        try:
            answer = policy(state)
        except PolicyError:
            raise
        except Exception as error:  # whatever a policy's author overlooked
            raise PolicyError(f"policy {name} raised {type(error).__name__}: {error}, {_situation(state)}") from error
        try:
            job, nodes, *given = cast("tuple[Any, ...]", answer)
            found = np.atleast_1d(np.asarray(nodes)).astype(np.int64, casting="safe")
            if state.tasks is not None and job != WAIT:
                _take_units(state, int(job), found, *given)
            return int(job), found
        except (TypeError, ValueError):
            if isinstance(answer, tuple) and len(answer) == 2 and np.size(answer[1]) == 0:
                return int(answer[0]), state.chosen[:0]
            raise PolicyError(
                f"policy {name} answered {answer!r}, {_situation(state)}; "
                "an answer is (job, array of node rows), for tasks (job, rows, tasks on each), or (WAIT, anything)"
            ) from None

    return decide


class _Compiling(event.Listener):
    """Opens a step as long as something is compiled; what the cache on the disk holds is not."""

    def __init__(self, name: str, steps: contextlib.ExitStack) -> None:
        self._name, self._steps = name, steps
        self._depth = 0  # what a function calls is compiled within it

    def on_start(self, event: event.Event) -> None:
        self._depth += 1
        if self._depth == 1:
            self._steps.enter_context(step(f"compiling {self._name}, once after installation"))

    def on_end(self, event: event.Event) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._steps.close()


@contextlib.contextmanager
def compiling(name: str) -> Iterator[None]:
    """Say that ``name`` is being compiled, if something in here is; watchers of `procure.progress` hear of it."""
    with (
        contextlib.ExitStack() as steps,
        event.install_listener("numba:compile", _Compiling(name, steps)),
    ):
        yield


def load_compiled(function: Callable, *arguments: Any) -> None:
    """Compile a function for these arguments, or load its code, without running it; nothing if it is not compiled.

    So that a measurement of the run that follows is of the run alone.
    """
    if isinstance(function, Dispatcher) and (of := _form(arguments)) not in _LOADED.setdefault(function, set()):
        function.compile(tuple(typeof(argument) for argument in arguments))
        _LOADED[function].add(of)


_LOADED: weakref.WeakKeyDictionary[Dispatcher, set[Hashable]] = weakref.WeakKeyDictionary()
"""Of each function, the forms of arguments that it is loaded for: Numba takes milliseconds to find a state's types."""


def _form(argument: Any) -> Hashable:
    """Return what Numba's type of an argument turns on."""
    if isinstance(argument, tuple):
        return type(argument), tuple(_form(one) for one in argument)
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return argument.dtype, argument.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    return typeof(argument)


def drive(world: World, state: State, policy: Policy, *, name: str = "") -> None:
    """Run a policy to the end of the workload; world and state are modified.

    A `CompiledPolicy` runs compiled throughout; anything else is called from Python at each decision. A `PolicyError`,
    which calls the policy by its ``name``, if it named a job that is not waiting or nodes that cannot hold it, waits
    for ever, raised, or answered something else.
    """
    name = name or policy_name(policy)
    if isinstance(policy, CompiledPolicy):
        status, job, *refused = policy.loop(world, state, policy.own)
        nodes = refused[0] if refused else _chosen(state, job)
    else:
        decide = checked(policy, name)
        status, job, nodes = _loop_in_python(world, state, lambda state, own: decide(state), None)
    if status == OK or (status == STUCK and world.n_heap[0] == 0 and getattr(policy, "may_strand", False)):
        return
    what = f" to start job {job} on nodes {np.asarray(nodes).tolist()}"
    if status in (PACE_OF_WAITING, PACE_TOO_LONG):
        what = f" to change the pace of job {job}"
    elif status == NOT_RUNNING:
        what = f" to end job {job}"
    elif status == STUCK:
        what = ""
    raise PolicyError(f"policy {name} decided{what}, {_situation(state)}: {REASONS[status]}")
