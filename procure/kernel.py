"""The simulator's public face: what a policy sees, what it may call, and the seams by which schedulers are composed.

Everything that a policy, an order, a hold-back or a place of another package needs stands here, and stays as it is
within a major version. ``docs/how-to/write-a-policy.md`` has one example of each.

================================  ===============================================================================
What a policy sees and answers    `State`, `WAIT`, `FAR`, `PACE_ONE`, `waiting`, `ask_pace`, `Facts`, `PolicyError`
How it is made                    `Parameters`, `Entry`, `OneOf`, `CompiledPolicy`, `compiled`
How kernels are compiled          `kernel`, `part`, `inlined`, `loop`, `kernel_loop`
The seams                         `order`, `hold`, `place`, `Reservation`
Schedulers composed of them       `Strict`, `Skipping`, `Easy`, `Conservative`, `Composed`, `Scheduler`
What a plan is made of            `follow`, `first_admitted`, `answer`, `refuse`, `Lines`, `make_lines`,
                                  `follow_queue`, `precedes`, `lay_out`, `Nodes`, `FREE`, `IN_TIME`, `BESIDE`
What is free over time            `Plan`, `make_plan`, `begin_plan`, `earliest`, `promise`, `withdraw`
Beside these                      `holds`, `units`, `margin`, `sort_by`
================================  ===============================================================================
"""

from __future__ import annotations

from procure.policies.conservative import Conservative
from procure.policies.easy import Easy
from procure.policies.entries import Entry
from procure.policies.lines import Lines, follow_queue, make_lines, precedes, refuse
from procure.policies.order import lay_out
from procure.policies.parameters import Facts, OneOf, Parameters
from procure.policies.place import BESIDE, FREE, IN_TIME, Nodes, Reservation, margin, sort_by
from procure.policies.profile import Plan, begin_plan, earliest, make_plan, promise, withdraw
from procure.policies.scheduler import Composed, Scheduler, Skipping, Strict, answer, first_admitted, follow
from procure.simulator.drive import CompiledPolicy, PolicyError, compiled, kernel_loop, loop
from procure.simulator.kernel import inlined, kernel, part
from procure.simulator.running import ask_pace
from procure.simulator.seams import hold, order, place
from procure.simulator.state import FAR, PACE_ONE, WAIT, State, waiting
from procure.simulator.steps import holds, units

__all__ = [
    "BESIDE", "FAR", "FREE", "IN_TIME", "PACE_ONE", "WAIT", "CompiledPolicy", "Composed", "Conservative", "Easy",
    "Entry", "Facts", "Lines", "Nodes", "OneOf", "Parameters", "Plan", "PolicyError", "Reservation", "Scheduler",
    "Skipping", "State", "Strict", "answer", "ask_pace", "begin_plan", "compiled", "earliest", "first_admitted",
    "follow", "follow_queue", "hold", "holds", "inlined", "kernel", "kernel_loop", "lay_out", "loop", "make_lines",
    "make_plan", "margin", "order", "part", "place", "precedes", "promise", "refuse", "sort_by", "units", "waiting",
    "withdraw",
]  # fmt: skip
