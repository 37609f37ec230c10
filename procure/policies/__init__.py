"""The policies: each decides which waiting job starts now, and on which nodes. One rule per file.

A policy is any callable ``policy(state) -> (job, nodes)``; it answers ``(WAIT, state.chosen[:0])`` when
no job is to start. See `procure.simulator.state.State` for what it may see. It is made once per run by a
frozen model of its parameters, a subclass of `Parameters`; `procure.policies.catalog` has their names.
Policies keep nothing between runs.
"""

from procure.policies.parameters import Parameters

__all__ = ["Parameters"]
