"""The place `closest` and the policy `window`: jobs wait until their window closes, and are then placed together.

As in the published program: window k closes at k · length after the first submission, and looks at jobs
submitted before that. It is skipped if since the last one nobody was submitted and nobody ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo

from procure.errors import TableError
from procure.policies.easy import Easy
from procure.policies.parameters import OneOf, in_folder
from procure.policies.scheduler import make_queue, strict
from procure.settings import LARGEST, LAST_SEED, MOST_COUNTED
from procure.simulator.arrays import filled
from procure.simulator.drive import CompiledPolicy, Policy, loop
from procure.simulator.seams import place as seam
from procure.simulator.state import WAIT, State
from procure.topology.fat_tree import FatTree
from procure.topology.policies import OnTree, Places, make_places
from procure.window.problem import MODULUS, Board, Window, best_start, compiled, lay_out, make_board
from procure.window.search import MOST_CELLS
from procure.window.solve import (
    COMPILED,
    STEPS,
    TOO_LARGE,
    Solver,
    check_method,
    make_solver,
    read_network,
    solve_compiled,
)


@seam
class ClosestNodes(NamedTuple):
    """The nodes at the best start along the line of idle nodes, cyclic; ties: the first."""

    places: Places
    idle: np.ndarray  # int64[n_places], room for the places of the nodes among which is picked
    board: Board  # room for all nodes

    def pick(self, state, job, n):
        """Keep the nodes that the job gets, by place in the tree."""
        shape, places, board, wanted = self.places.shape, self.places, self.board, state.n_nodes[job]
        for at in range(places.row.size):
            board.owner[at] = -1
        for i in range(n):
            board.owner[places.place[state.chosen[i]]] = 0
        found = 0
        for at in range(places.row.size):
            if board.owner[at] == 0:
                self.idle[found] = at
                board.leaf[found] = at // shape.nodes
                board.pod[found] = at // (shape.nodes * shape.leaves)
                found += 1
        start = best_start(board, n, wanted)
        for i in range(wanted):  # in order along the tree: those past its end come first
            past = max(0, start + wanted - n)
            state.chosen[i] = places.row[self.idle[i if i < past else start + i - past]]


def make_closest(tree: FatTree) -> ClosestNodes:
    """Make the place of one run."""
    every = np.arange(tree.size)
    board = make_board(tree.shape, every, np.ones(1, np.int64), 0)
    board.line[:] = every
    return ClosestNodes(make_places(tree), every.copy(), board)


CLOSED_AT, ARRIVED, ENDED, N_WINDOWS, START_AT, N_PICKED, N_ALONE, NEXT, N_IDLE, MOMENT, SEEN = range(11)
"""What the notes hold: the last window, what it had seen, the jobs that are to start, and how far ends are counted."""


class WindowOwn(NamedTuple):
    """The parameters, and what the policy keeps during a run."""

    method: int
    steps: int
    with_exact: int
    seed: int
    length: int  # s
    most_jobs: int  # of several nodes
    solve_time: int  # s
    tree: Places
    places: np.ndarray  # int64[sum of n_nodes], each job's places, as `State.node_list` has rows
    idle: np.ndarray  # int64[n_places], room for the places of the idle nodes
    n_ended: np.ndarray  # int64[1], jobs that have ended
    picked: np.ndarray  # int64[n_nodes], jobs of several nodes that are to start, then those of one node
    keys: np.ndarray  # int64[n_jobs], room for sorting
    admitted: np.ndarray  # int64[n_jobs], s of the first window that saw the job
    notes: np.ndarray  # int64[11]


@compiled
def window(state, own):
    """Collect jobs for ``length`` seconds, then place them together; until then everybody waits.

    A window takes jobs by how many windows they have waited (most first), then by nodes (fewest first),
    then in queue order, until the next does not fit the idle nodes or would be one too many
    (``most_jobs``, of several nodes). Jobs of one node then get the first idle nodes that are left.
    """
    if close_window(state, own):
        solve_window(state, own)
    return next_start(state, own)


@compiled
def window_loop(world, state, own):
    """The compiled loop of `window`."""
    return loop(world, state, window, own)


@compiled
def close_window(state, own):
    """Say whether a window closes now with jobs that are to be solved; ``picked`` then holds them."""
    notes, now = own.notes, state.now[0]
    own.n_ended[0] += state.n_ended[0] - (notes[SEEN] if notes[MOMENT] == now else 0)
    notes[MOMENT], notes[SEEN] = now, state.n_ended[0]
    if now % own.length or now == notes[CLOSED_AT] or notes[NEXT] < notes[N_PICKED] + notes[N_ALONE]:
        return False
    arrived = state.n_submitted[0]
    while arrived > 0 and state.submit[arrived - 1] == now:
        arrived -= 1
    notes[CLOSED_AT] = now
    if arrived == notes[ARRIVED] and own.n_ended[0] == notes[ENDED]:
        return False
    own.admitted[notes[ARRIVED] : arrived] = now
    notes[ARRIVED], notes[ENDED] = arrived, own.n_ended[0]
    _pick(state, own, arrived)
    n_taken = notes[N_PICKED] + notes[N_ALONE]
    if n_taken > 0:
        notes[N_WINDOWS] += 1
        notes[START_AT] = now + own.solve_time
    return notes[N_PICKED] > 0


@compiled
def _list_idle(state, own):
    """Write the places of the idle nodes to ``idle``, ascending; returns how many."""
    n, row = 0, own.tree.row
    for place in range(row.size):
        if row[place] >= 0 and state.free_cpus[row[place]] >= 0:
            own.idle[n] = place
            n += 1
    return n


@compiled
def _pick(state, own, arrived):
    """Choose the window's jobs: ``picked`` begins with those of several nodes and ends with those of one."""
    notes = own.notes
    left = notes[N_IDLE] = _list_idle(state, own)
    notes[N_PICKED] = notes[N_ALONE] = notes[NEXT] = 0
    n_jobs = state.submit.size
    job = state.next_waiting[n_jobs]
    while job < arrived and left > 0:  # jobs that one window saw first have waited for equally many
        seen_first = own.admitted[job]
        n = 0
        while job < arrived and own.admitted[job] == seen_first:
            own.keys[n] = state.n_nodes[job] * (n_jobs + 1) + job
            n += 1
            job = state.next_waiting[job]
        own.keys[:n].sort()
        for key in own.keys[:n]:
            size, other = key // (n_jobs + 1), key % (n_jobs + 1)
            if size > left or (size > 1 and notes[N_PICKED] == own.most_jobs):
                return
            left -= size
            if size > 1:
                own.picked[notes[N_PICKED]] = other
                notes[N_PICKED] += 1
            else:
                notes[N_ALONE] += 1
                own.picked[own.picked.size - notes[N_ALONE]] = other


@compiled
def solve_window(state, own):
    """Solve the window by a compiled method and note each job's places."""
    sizes = np.empty(own.notes[N_PICKED], np.int64)
    for i in range(sizes.size):
        sizes[i] = state.n_nodes[own.picked[i]]
    idle = own.idle[: own.notes[N_IDLE]]
    board = lay_out(own.tree.shape, idle, sizes, (own.seed + own.notes[N_WINDOWS]) % MODULUS)
    solve_compiled(board, own.method, own.steps, own.with_exact)
    note_places(state, own, board.first, board.held)


@compiled
def note_places(state, own, first, held):
    """Note the places of the picked jobs; ``held[first[j]:first[j + 1]]`` are positions of ``idle``."""
    for i in range(first.size - 1):
        begin = state.node_first[own.picked[i]]
        for k in range(first[i], first[i + 1]):
            own.places[begin + k - first[i]] = own.idle[held[k]]


@compiled
def next_start(state, own):
    """Answer with the next job that is to start now, or ask to be called when there may be one."""
    notes, now = own.notes, state.now[0]
    n_taken = notes[N_PICKED] + notes[N_ALONE]
    if notes[NEXT] == n_taken or now < notes[START_AT]:
        state.wake[0] = (now // own.length + 1) * own.length if notes[NEXT] == n_taken else notes[START_AT]
        return WAIT, state.chosen[:0]
    i = notes[NEXT]
    notes[NEXT] += 1
    if i < notes[N_PICKED]:
        return _start_on_places(state, own, own.picked[i])
    job = own.picked[own.picked.size - (i - notes[N_PICKED]) - 1]
    _list_idle(state, own)
    own.places[state.node_first[job]] = own.idle[0]
    return _start_on_places(state, own, job)


@compiled
def _start_on_places(state, own, job):
    """Answer with a job whose places stand in ``places``."""
    places = own.places[state.node_first[job] : state.node_first[job + 1]]
    places.sort()
    for i in range(places.size):
        state.chosen[i] = own.tree.row[places[i]]
    return job, state.chosen[: places.size]


def _method(method: str, info: ValidationInfo) -> str:
    kind, colon, file = check_method(method).partition(":")
    if not colon:
        return method
    path = in_folder(file, info)
    read_network(path)  # refused here, before anything is simulated
    return f"{kind}:{path}"


class ClosestPlace(OnTree):
    """Each job at the start along the idle nodes with the fewest hops; for any composed policy."""

    most_looked_at: ClassVar[int] = 0

    def make_picker(self, state: State) -> Any:
        """Make what picks the nodes of a job."""
        return make_closest(self.make_tree(state))


class Closest(Easy):
    """Parameters of `easy` on the closest nodes."""

    takes_tasks: ClassVar[bool] = False
    queue: Annotated[str, OneOf(("easy", "fcfs"))] = Field(
        "easy", description="whether jobs may overtake the first one without delaying it"
    )

    def make(self, state: State) -> CompiledPolicy:
        """Make the policy of one run."""
        return super().make(state) if self.queue == "easy" else make_queue(self, state, strict)


class Windows(OnTree):
    """Parameters of `window`."""

    rule: ClassVar = window
    method: Annotated[str, AfterValidator(_method)] = Field(
        "lns", description="how a window's jobs are placed: a method of `procure.solve_window`"
    )
    length: int = Field(10, ge=1, le=LARGEST, description="s between two windows")
    most_jobs: int = Field(5, ge=1, le=LARGEST, description="jobs of several nodes in one window")
    steps: int = Field(0, ge=0, le=MOST_COUNTED, description="of a method that takes steps; 0 = as many as is usual")
    seed: int = Field(0, ge=0, le=LAST_SEED, description="of the random numbers; each window adds 1")
    solve_time: int = Field(0, ge=0, le=LARGEST, description="s that a window's jobs wait for the solver")

    def files(self) -> tuple[str, ...]:
        """Return the name of the method's network, if it has one."""
        _, colon, file = self.method.partition(":")
        return (file,) if colon else ()

    def make(self, state: State) -> Policy:
        """Make the policy of one run: compiled where the method is."""
        tree = self.make_tree(state)
        small = len(tree) << min(self.most_jobs, 60) <= MOST_CELLS
        if self.method == "exact" and not small:
            raise TableError(f"{TOO_LARGE} on this tree: lower most_jobs or take method=lns")
        if self.method in COMPILED:
            return CompiledPolicy(window, window_loop, self._own(state, tree, small))
        return self.follow(state, make_solver(self.method))

    def follow(
        self, state: State, solver: Solver, watch: Callable[[Window, int], None] = lambda window, now: None
    ) -> Policy:
        """Make the policy of one run in plain Python; ``watch`` is called with each window and when it closes, s."""
        tree = self.make_tree(state)
        own = self._own(state, tree, small=False)

        def decide(state: State) -> tuple[int, np.ndarray]:
            if close_window(state, own):
                picked = own.picked[: own.notes[N_PICKED]]
                idle = own.idle[: own.notes[N_IDLE]].copy()
                problem = Window(tree, idle, tuple(map(str, picked.tolist())), state.n_nodes[picked])
                seed = self.seed + int(own.notes[N_WINDOWS])
                board = make_board(tree.shape, idle, problem.sizes, seed)
                solver(board, problem, seed, self.steps)
                watch(problem, int(state.now[0]))
                note_places(state, own, board.first, board.held)
            return next_start(state, own)

        return decide

    def _own(self, state: State, tree: FatTree, small: bool) -> WindowOwn:
        name = self.method.partition(":")[0]
        return WindowOwn(
            method=COMPILED.index(name) if name in COMPILED else -1,
            steps=self.steps or STEPS.get(name, 1),
            with_exact=int(small),
            seed=self.seed,
            length=self.length,
            most_jobs=self.most_jobs,
            solve_time=self.solve_time,
            tree=make_places(tree),
            places=np.full(state.node_list.size, -1, np.int64),
            idle=np.zeros(tree.size, np.int64),
            n_ended=np.zeros(1, np.int64),
            picked=np.zeros(len(tree), np.int64),
            **filled(len(state.submit), keys=0, admitted=0),
            notes=np.array([-1, *[0] * 8, -1, 0], np.int64),
        )
