"""Which policy decides a run, by its name, its parameters, or a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import Field

from procure.errors import ArgumentError
from procure.policies import catalog
from procure.policies.parameters import Facts, Parameters
from procure.settings import validated
from procure.simulator.drive import Policy, policy_name
from procure.simulator.state import Options, State


def label(policy: str | Parameters | Callable) -> str:
    """Return what to call a policy: its name as given, its parameters' class and values, or its function's name."""
    if not isinstance(policy, Parameters):
        return policy if isinstance(policy, str) else policy_name(policy)
    changed = ",".join(f"{key}={value}" for key, value in policy.model_dump(exclude_defaults=True).items())
    return type(policy).__name__ + (f":{changed}" if changed else "")


class Chosen(NamedTuple):
    """Which policy decides a run: what to call it, how it is made, and what the simulator does for it."""

    name: str
    make: Callable[[State, Facts], Policy]
    options: Options
    batched: bool = False
    made: Parameters | None = None


class _CallableOptions(Parameters):
    half_life: float = Field(0.0, ge=0)

    def options(self) -> Options:
        return super().options()._replace(half_life=self.half_life)


def chosen_policy(policy: Any, parameters: dict[str, Any]) -> Chosen:
    """Return what decides a run, of a name, of parameters that make it, or of a callable of the policy protocol."""
    if isinstance(policy, str):
        spec = catalog.spec(policy, parameters)
        made = spec.parameters
        return Chosen(spec.name, made.make_with, made.options(), spec.batched, made)
    if isinstance(policy, Parameters):
        if parameters:
            raise ArgumentError("parameters", "they belong to a policy that is named, or to a callable")
        return Chosen(label(policy), policy.make_with, policy.options(), made=policy)
    plain = validated(_CallableOptions, parameters, "parameters of a callable policy")
    return Chosen(label(policy), lambda state, facts: policy, plain.options())
