"""What ``site.toml`` holds: the scheduler's settings, partitions, QOS, associations, reservations, events."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from procure.settings import NaturalInt, PositiveInt, Settings

_FAR = 2**40
"""More seconds, MB or TRES-minutes than any site states; arithmetic stays exact."""
Tres = dict[str, Annotated[int, Field(ge=0, le=_FAR)]]
"""Amounts of trackable resources by Slurm's names: ``cpu``, ``mem`` (MB), ``node``, ``gres/gpu``, ``gres/gpu:a100``."""
Moment = Annotated[int, Field(ge=-_FAR, le=_FAR)]
"""Unix seconds."""
Weights = dict[str, float]
Names = tuple[str, ...]
Mode = Literal["off", "cancel", "requeue", "suspend"]


class Limits(Settings):
    """Limits of an association or a QOS; what is absent is not limited. Times in seconds, TRES-minutes as Slurm's.

    ``grp_*`` bounds the sum over all jobs of the association (and those below it) or the QOS; ``max_*_per_job``
    one job; of a QOS, ``…_per_user`` and ``…_per_account`` the sum over each of its users and accounts.
    """

    grp_jobs: NaturalInt | None = None
    grp_submit_jobs: NaturalInt | None = None
    grp_tres: Tres = {}
    grp_tres_mins: Tres = {}
    grp_tres_run_mins: Tres = {}
    grp_wall: NaturalInt | None = None
    max_jobs: NaturalInt | None = None
    max_submit_jobs: NaturalInt | None = None
    max_jobs_per_user: NaturalInt | None = None
    max_jobs_per_account: NaturalInt | None = None
    max_submit_jobs_per_user: NaturalInt | None = None
    max_submit_jobs_per_account: NaturalInt | None = None
    max_tres_per_job: Tres = {}
    max_tres_per_node: Tres = {}
    max_tres_per_user: Tres = {}
    max_tres_per_account: Tres = {}
    max_tres_mins_per_job: Tres = {}
    max_wall: NaturalInt | None = None
    min_tres_per_job: Tres = {}


class Qos(Settings):
    """A quality of service."""

    name: str
    priority: NaturalInt = 0
    flags: Names = ()
    preempt: Names = Field(default=(), description="the QOS whose jobs give way to this one's")
    preempt_mode: Mode | None = None
    exempt_time: NaturalInt | None = Field(default=None, description="s that a job runs before it may be preempted")
    grace_time: NaturalInt = Field(default=0, description="s that Slurm leaves a job that is to be ended")
    usage_factor: float = 1.0
    limits: Limits = Limits()


class Association(Settings):
    """An account below another, or a user within an account, with its shares and limits."""

    account: str
    user: str = ""
    partition: str = ""
    parent: str = Field("root", description="of an account: the account above")
    shares: NaturalInt | Literal["parent"] = 1
    usage: float = Field(default=0.0, ge=0, description="raw usage at the beginning, weighted TRES-seconds")
    priority: NaturalInt = 0
    qos: Names = Field(default=(), description="empty = those of the association above")
    default_qos: str = ""
    default: bool = Field(default=False, description="the user's default account")
    limits: Limits = Limits()


class Partition(Settings):
    """A partition."""

    name: str
    nodes: str = Field(default="", description="a node list such as n[1-4],g1; ALL = every node")
    default: bool = False
    state: Literal["up", "down", "drain", "inactive"] = "up"
    priority_tier: NaturalInt = 1
    priority_job_factor: NaturalInt = 1
    max_time: NaturalInt | None = Field(default=None, description="s; none = unlimited")
    default_time: NaturalInt | None = Field(default=None, description="s; none = max_time")
    max_nodes: NaturalInt | None = None
    min_nodes: NaturalInt = 0
    def_mem_per_cpu_mb: NaturalInt | None = None
    def_mem_per_node_mb: NaturalInt | None = None
    def_cpu_per_gpu: NaturalInt | None = None
    def_mem_per_gpu_mb: NaturalInt | None = None
    max_mem_per_cpu_mb: NaturalInt | None = None
    max_mem_per_node_mb: NaturalInt | None = None
    max_cpus_per_node: NaturalInt | None = None
    qos: str = Field(default="", description="the partition QOS, whose limits bind its jobs")
    allow_qos: Names = ()
    deny_qos: Names = ()
    allow_accounts: Names = ()
    deny_accounts: Names = ()
    oversubscribe: str = Field(default="no", description="no, exclusive, yes:N or force:N")
    lln: bool = Field(default=False, description="least-loaded nodes first")
    preempt_mode: Mode | None = None
    grace_time: NaturalInt = 0
    billing_weights: Weights = {}


class Priority(Settings):
    """How a job's priority is made (priority/multifactor), or that it is the order of submission (basic)."""

    type: Literal["basic", "multifactor"] = "multifactor"
    weight_age: NaturalInt = 0
    weight_assoc: NaturalInt = 0
    weight_fair_share: NaturalInt = 0
    weight_job_size: NaturalInt = 0
    weight_partition: NaturalInt = 0
    weight_qos: NaturalInt = 0
    weight_tres: Weights = {}
    max_age: PositiveInt = 7 * 86_400
    favor_small: bool = False
    flags: Names = ()
    decay_half_life: NaturalInt = Field(default=7 * 86_400, description="s; 0 = usage never decays")
    calc_period: PositiveInt = 300
    damping: PositiveInt = Field(default=1, description="FairShareDampeningFactor of the classic fair share")
    usage_reset: str = "none"
    usage_at: Moment | None = Field(
        default=None, description="when sshare told the usage of associations, Unix s; none = at the first submission"
    )


class Scheduler(Settings):
    """The main scheduler's and backfill's parameters, in seconds; the defaults are Slurm's."""

    backfill: bool = True
    default_queue_depth: NaturalInt = 100
    partition_job_depth: NaturalInt = 0
    sched_interval: PositiveInt = 60
    sched_min_interval: float = Field(default=2e-6, ge=0)
    batch_sched_delay: NaturalInt = 3
    defer: bool = False
    assoc_limit_stop: bool = False
    bf_interval: PositiveInt = 30
    bf_window: PositiveInt = 86_400
    bf_resolution: PositiveInt = 60
    bf_max_job_test: NaturalInt = 500
    bf_max_job_start: NaturalInt = 0
    bf_max_job_user: NaturalInt = 0
    bf_max_job_part: NaturalInt = 0
    bf_max_job_assoc: NaturalInt = 0
    bf_max_job_user_part: NaturalInt = 0
    bf_max_job_array_resv: NaturalInt = 20
    bf_min_age_reserve: NaturalInt = 0
    bf_min_prio_reserve: NaturalInt = 0
    bf_job_part_count_reserve: NaturalInt = 0
    bf_one_resv_per_job: bool = False
    bf_continue: bool = False


class Select(Settings):
    """What is allocated, and which nodes are taken first."""

    consume: Literal["node", "socket", "core", "cpu"] = "core"
    memory: bool = True
    pack_nodes: bool = False
    lln: bool = False
    def_mem_per_cpu_mb: NaturalInt | None = None
    def_mem_per_node_mb: NaturalInt | None = None
    def_cpu_per_gpu: NaturalInt | None = None
    def_mem_per_gpu_mb: NaturalInt | None = None
    topology: Literal["none", "tree", "block"] = "none"


class Preemption(Settings):
    """Who gives way to whom."""

    type: Literal["none", "qos", "partition"] = "none"
    mode: Mode = "off"
    exempt_time: NaturalInt = 0
    youngest_first: bool = False
    strict_order: bool = False
    reorder_count: Annotated[int, Field(ge=0, le=100)] = 1
    patience: NaturalInt = Field(
        default=40, description="s in which a job ends no further jobs for itself: KillWait and MessageTimeout"
    )
    requeue: bool = Field(
        default=True,
        description="JobRequeue; without, jobs that would be requeued are over, as are"
        " those under which a node goes down",
    )
    requeue_delay: NaturalInt = Field(default=120, description="s that a requeued job waits at least: cred_expire")


class Latency(Settings):
    """How long Slurm itself takes, s; measured on Slurm 22.05 (see docs/claims/site.md)."""

    REMOVED: ClassVar[dict[str, str]] = dict.fromkeys(
        ("backfill_clock", "moments", "backfill_moments", "end_moments", "submit_moments", "reported_ends"),
        "only a laboratory's log told it; leave it out",
    )

    job_end: float = Field(
        default=0.006,
        ge=0,
        le=86_400,
        description="from the end of a job until a pass can use its nodes, with what an epilog takes",
    )
    pass_at_end: float = Field(
        default=0.04,
        ge=0,
        le=1,
        description="share of ends that a node reports by a message of its own, at which the main scheduler runs at "
        "once: all where the site has an epilog",
    )
    clock: float = Field(
        default=-1.69,
        le=0,
        ge=-_FAR,
        description="when the periodic work of scheduler and priorities began, s after the first submission; its "
        "fraction is the moment at which it comes within a second",
    )
    booted: Moment | None = Field(
        default=None,
        description="when slurmctld was started (BOOT_TIME of scontrol show config), Unix s: decides clock, by periods",
    )


class Reservation(Settings):
    """Nodes set aside; times are Unix seconds."""

    name: str
    start: Moment
    end: Moment
    nodes: str
    flags: Names = ()
    users: Names = ()
    accounts: Names = ()

    @property
    def every(self) -> int:
        """After how many seconds it comes again; 0 = never."""
        steps = {"hourly": 3600, "daily": 86_400, "weekly": 7 * 86_400}
        return next((steps[flag.lower()] for flag in self.flags if flag.lower() in steps), 0)

    @property
    def over(self) -> int:
        """When it is over for good, Unix s."""
        return _FAR if self.every else self.end


class NodeEvent(Settings):
    """Nodes that took no new jobs (drain) or lost theirs (down) for a time; Unix seconds, no end = to the last."""

    nodes: str
    start: Moment
    end: Moment | None = None
    state: Literal["down", "drain"] = "drain"
    reason: str = ""


RULES = ("limit", "pause")
"""Kinds of rules that a log suggests."""


class Rule(Settings):
    """A rule that the log suggests, with its evidence: strike the table out to ignore it."""

    kind: str
    subject: str = ""
    value: str | Moment | float = ""
    evidence: str = ""

    @model_validator(mode="after")
    def _can_be_used(self) -> Rule:
        if self.kind not in RULES:
            raise ValueError(f"kind {self.kind!r} was given; {' and '.join(RULES)} are known: strike the table out")
        least = 1 if self.kind == "limit" else 0
        if not _number(self.value, least):
            raise ValueError(f"the value of a rule {self.kind} is a number from {least} on; {self.value!r} was given")
        if self.kind == "limit" and not re.fullmatch(r"(user|account|partition) .+ (jobs|cpus)", self.subject):
            raise ValueError(
                f"a limit is of user, account or partition NAME, and of jobs or cpus; {self.subject!r} was given"
            )
        return self


def _number(value: object, least: float) -> bool:
    try:
        found = float(str(value))
    except ValueError:
        return False
    return math.isfinite(found) and least <= found


class NotUnderstood(Settings):
    """A setting that is not modelled, where it stands, and what that may change."""

    setting: str
    value: str = ""
    where: str = ""
    effect: str = ""


def gaps_of(rows: Iterable[tuple[object, str, str, str]], where: str = "") -> list[NotUnderstood]:
    """Make gaps of rows of whether it is one, setting, value and effect."""
    return [NotUnderstood(setting=s, value=v, where=where, effect=e) for there, s, v, e in rows if there]


class Site(Settings):
    """The rules of one centre."""

    REMOVED: ClassVar[dict[str, str]] = {"tz": "no hour is closed any more; strike it out"}

    cluster: str = ""
    version: str = Field(default="", description="of Slurm, where the configuration tells it")
    enforce: Names = Field(default=(), description="AccountingStorageEnforce")
    enforce_part_limits: Literal["no", "any", "all"] = "no"
    scheduler: Scheduler = Scheduler()
    priority: Priority = Priority()
    select: Select = Select()
    preemption: Preemption = Preemption()
    latency: Latency = Latency()
    licenses: Tres = {}
    partitions: tuple[Partition, ...] = ()
    qos: tuple[Qos, ...] = ()
    associations: tuple[Association, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    events: tuple[NodeEvent, ...] = ()
    rules: tuple[Rule, ...] = ()
    not_understood: tuple[NotUnderstood, ...] = ()

    @property
    def accounts_hold_below(self) -> bool:
        """Whether AllowAccounts and DenyAccounts mean the accounts below, too: since Slurm 23.02."""
        return not self.version or [int(n) for n in self.version.split(".")[:2]] >= [23, 2]

    new_nodes: dict[str, Names] = Field(
        default={}, exclude=True, description="partitions that bought nodes join, by the beginning of their kind"
    )
    new_features: dict[str, Names] = Field(default={}, exclude=True, description="features that they get, likewise")

    @model_validator(mode="before")
    @classmethod
    def _bought_nodes_stand_in_the_study(cls, values: Any) -> Any:
        for name in ("new_nodes", "new_features"):
            if isinstance(values, dict) and name in values:
                raise ValueError(f"{name} stands in the study that buys: [site.{name}]")
        return values

    @model_validator(mode="after")
    def _names_once(self) -> Site:
        for what, names in (
            ("partition", [one.name for one in self.partitions]),
            ("QOS", [one.name for one in self.qos]),
            ("association", [f"{a.account} {a.user} {a.partition}".strip() for a in self.associations]),
            ("reservation", [one.name for one in self.reservations]),
        ):
            if twice := [name for name, n in Counter(names).items() if n > 1]:
                raise ValueError(f"{what} {twice[0]!r} stands twice")
        return self
