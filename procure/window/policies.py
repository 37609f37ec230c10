"""The parameters of the policy `window` and the place `closest`, and how their runs are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field, ValidationInfo

from procure.errors import TableError
from procure.policies.easy import Easy
from procure.policies.parameters import OneOf, in_folder
from procure.policies.queue import make_queue, strict
from procure.settings import LARGEST, LAST_SEED, MOST_COUNTED
from procure.simulator.drive import CompiledPolicy, Policy
from procure.simulator.state import State
from procure.topology.fat_tree import FatTree
from procure.topology.policies import OnTree
from procure.topology.shared_links import make_places
from procure.window.board import make_board
from procure.window.closest import make_closest
from procure.window.exact import MOST_CELLS
from procure.window.loop import (
    N_IDLE,
    N_PICKED,
    N_WINDOWS,
    WindowOwn,
    close_window,
    next_start,
    note_places,
    window,
    window_loop,
)
from procure.window.network import read_network
from procure.window.problem import Window
from procure.window.solve import COMPILED, STEPS, TOO_LARGE, Solver, check_method, make_solver


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
            keys=np.zeros(len(state.submit), np.int64),
            admitted=np.zeros(len(state.submit), np.int64),
            notes=np.array([-1, *[0] * 8, -1, 0], np.int64),
        )
