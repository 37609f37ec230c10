"""Other conditions for the same packages: more load, more GPU jobs, another policy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pandas as pd

from procure.comparison.rule_waits import with_rules
from procure.errors import ArgumentError, TableError, argument
from procure.models import Case
from procure.policies import catalog
from procure.study import Plan
from procure.tables import with_clock_of
from procure.workload.scale import scale_load

NO_GPUS = "gpu-share: no job of this workload asks for GPUs, so there are none to multiply"


@dataclass(frozen=True)
class Changes:
    """What is to be different; None = as it is.

    Attributes
    ----------
    growth
        Factor on the CPU-seconds submitted (`procure.workload.scale.scale_load`).
    gpu_jobs
        Factor on the CPU-seconds of GPU jobs; those of other jobs stay.
    gpu_share
        Instead of ``gpu_jobs``: the share of the jobs that ask for GPUs.
    policy
        Name of another policy.
    rules
        Changes of the centre's rules, see `procure.site.change`; the policy must go by them.
    seed
        Of which bursts are added or left out.
    """

    growth: float | None = None
    gpu_jobs: float | None = None
    gpu_share: float | None = None
    policy: str | None = None
    rules: tuple[str, ...] | None = None
    seed: int = 1

    def policy_of(self, policy: str) -> str:
        """Return the policy that decides in the place of another one, under changed rules."""
        policy = self.policy or policy
        return with_rules(policy, self.rules) if self.rules else policy

    def check(self) -> None:
        """Refuse a growth or share that is not above 0, an unknown policy, and nothing to change."""
        for name in ("growth", "gpu_jobs", "gpu_share"):
            value, what = getattr(self, name), name.replace("jobs", "share")
            if value is not None and not 0 < value < float("inf"):
                wrong = f"{what.replace('_', '-')} {value:g} was given"
                raise ArgumentError(what, f"{wrong}; it must be above 0, 1 being no change")
        if self.gpu_share is not None and self.gpu_share >= 1:
            message = f"gpu-share {self.gpu_share:.0%} was given; a share of the jobs is below 100%"
            raise ArgumentError("gpu_share", message)
        if self.policy is not None:
            with argument("policy"):
                catalog.spec(self.policy)
        given = (self.growth, self.gpu_jobs, self.gpu_share, self.policy, self.rules)
        if all(one is None for one in given):
            message = "nothing changes: give a growth, a GPU share, a policy or a rule"
            raise ArgumentError("growth", message)

    def singles(self) -> list[tuple[str, Changes]]:
        """Return each change alone, with what to call it."""
        names = {
            "growth": f"load × {self.growth or 0:g}",
            "gpu_jobs": f"GPU jobs × {self.gpu_jobs or 0:g}",
            "gpu_share": f"GPU jobs {self.gpu_share or 0:.1%} of all",
            "policy": f"policy {self.policy}",
            "rules": f"rule {'; '.join(self.rules or ())}",
        }
        given = {key: getattr(self, key) for key in names}
        return [
            (names[key], Changes(**{key: value}, seed=self.seed)) for key, value in given.items() if value is not None
        ]


def parse_gpu_share(text: str | None) -> dict[str, float]:
    """Read ``2x`` or ``0.5x`` (a factor on the GPU jobs) or ``30%`` (of all jobs) as fields of `Changes`."""
    if text is None:
        return {}
    found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([x×%])\s*", text)
    if found is None:
        message = f"gpu-share {text!r} was given; write 2x (twice the GPU jobs) or 30% (of all jobs)"
        raise ArgumentError("gpu_share", message)
    value = float(found.group(1))
    return {"gpu_share": value / 100} if found.group(2) == "%" else {"gpu_jobs": value}


def changed_jobs(jobs: pd.DataFrame, changes: Changes) -> pd.DataFrame:
    """Return a workload with its load and GPU jobs changed; whole bursts are superposed or left out.

    Too many jobs, and GPU jobs that are to be more where there are none, are errors.
    """
    factor = changes.gpu_jobs
    gpu = (jobs["gpus_per_node"] > 0).to_numpy()
    if changes.gpu_share is not None:
        # Of n jobs, f·g out of f·g + (n − g) are to ask for GPUs.
        others = int((~gpu).sum())
        factor = changes.gpu_share * others / ((1 - changes.gpu_share) * max(int(gpu.sum()), 1))
    if factor is not None and factor != 1:
        if not gpu.any():
            raise TableError(NO_GPUS)
        if gpu.all() and changes.gpu_share is not None:
            raise TableError("gpu-share: every job of this workload asks for GPUs; use growth")
        with argument("gpu_share"):
            more = scale_load(jobs[gpu], factor, changes.seed)
        rest = jobs[~gpu].drop(columns=[name for name in jobs if name not in more])
        mixed = pd.concat([rest, more]) if len(rest) else more
        mixed = mixed.sort_values("submit_time", kind="stable", ignore_index=True)
        jobs = with_clock_of(jobs, mixed)
    if changes.growth is not None:
        with argument("growth"):
            jobs = scale_load(jobs, changes.growth, changes.seed)
    return jobs


def asks_gpus(jobs: pd.DataFrame) -> bool:
    """Say whether any job asks for a GPU."""
    return bool((jobs["gpus_per_node"] > 0).any())


def jobs_of(plan: Plan, case: Case, changes: Changes) -> pd.DataFrame:
    """Return a day's changed jobs; a day without GPU jobs among others that have some keeps its own."""
    jobs = plan.workloads[case.name]
    if not asks_gpus(jobs):
        changes = replace(changes, gpu_jobs=None, gpu_share=None)
    return changed_jobs(jobs, changes)
