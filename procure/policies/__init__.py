"""The policies: each decides which waiting job starts now, and on which nodes. One rule per file.

A policy is any callable ``policy(state) -> (job, nodes)``; it answers ``(WAIT, state.chosen[:0])`` when
no job is to start. See `procure.simulator.state.State` for what it may see. Policies never touch the
disk and keep nothing between runs.
"""
