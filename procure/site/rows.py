"""Slurm's settings, a row each: its name, where it stands in a site, how it is read, and what it may change otherwise.

Reading a folder, ``--rule`` and the list of what is not modelled all go by these rows. A setting of which several
decide one rule together (SelectType, PreemptMode, …) has the field `TOGETHER` and is read in `procure.site.understand`.
"""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from procure.errors import TableError
from procure.site.model import NotUnderstood
from procure.site.values import (
    UNSET,
    billing_weights,
    counts,
    decimal,
    enforced,
    if_positive,
    mode_of,
    names,
    or_usual,
    positive,
    seconds,
    shared,
    time_limit,
    unless_all,
    unless_negative,
    whole,
    words,
    yes,
)
from procure.workload.slurm import expand_nodes, slurm_memory

TOGETHER = "*"
NO_EFFECT = {
    of: frozenset(words.split())
    for of, words in tomllib.loads(Path(__file__).with_name("no_effect.toml").read_text(encoding="utf-8")).items()
}
"""Names that leave starts alone, of `settings`, `scheduler`, `partition`, `node` and `accounting`."""
_NEVER = 1_000_000_000
"""s; an age that no job reaches."""


class Row(NamedTuple):
    """A setting of Slurm."""

    name: str  # in lower case
    field: str = ""  # of the model; empty = not modelled
    read: Callable[[str], Any] = str  # None = the value says nothing
    effect: str = ""  # what it may change all the same, where it is not modelled or only shown; empty = nothing


_grace = or_usual(0, lambda text: int(text) if text.isdecimal() else seconds(text))


def _rows(effect: str, *given: str) -> tuple[Row, ...]:
    return tuple(Row(name, effect=effect) for name in given)


_PRIORITY = (
    Row("priorityweightage", "priority.weight_age", whole),
    Row("priorityweightassoc", "priority.weight_assoc", whole),
    Row("priorityweightfairshare", "priority.weight_fair_share", whole),
    Row("priorityweightjobsize", "priority.weight_job_size", whole),
    Row("priorityweightpartition", "priority.weight_partition", whole),
    Row("priorityweightqos", "priority.weight_qos", whole),
    Row("prioritymaxage", "priority.max_age", lambda text: 1 if text == "0" else seconds(text) or _NEVER),
    Row("prioritydecayhalflife", "priority.decay_half_life", seconds),
    Row(
        "prioritycalcperiod",
        "priority.calc_period",
        lambda text: 60 * (positive(text) or 5) if text.isdecimal() else seconds(text),
    ),
    Row("priorityfavorsmall", "priority.favor_small", yes),
    Row("fairsharedampeningfactor", "priority.damping", if_positive),
)


def _per_gpu(of: str) -> Iterator[Row]:
    """Return the rows of the defaults per GPU, which stand alone or in JobDefaults."""
    for name, field in (("DefCpuPerGPU", "def_cpu_per_gpu"), ("DefMemPerGPU", "def_mem_per_gpu_mb")):
        yield Row(name.lower(), of + field, if_positive)
        yield Row("jobdefaults", of + field, functools.partial(_of_defaults, name.lower()))


def _of_defaults(name: str, text: str) -> int | None:
    return next((if_positive(item.split("=")[-1]) for item in text.split(",") if item.lower().startswith(name)), None)


_ENFORCED = {"yes": "all", "all": "all", "any": "any"}
SETTINGS = (
    *_PRIORITY,
    Row("priorityweighttres", "priority.weight_tres", billing_weights),
    Row("priorityflags", "priority.flags", words),
    Row("priorityusageresetperiod", "priority.usage_reset", str.lower, "usage is not reset in a replay"),
    Row("clustername", "cluster"),
    Row("accountingstorageenforce", "enforce", enforced),
    Row("enforcepartlimits", "enforce_part_limits", lambda text: _ENFORCED.get(text.lower(), "no")),
    Row("licenses", "licenses", counts),
    Row("defmempercpu", "select.def_mem_per_cpu_mb", if_positive),
    Row("defmempernode", "select.def_mem_per_node_mb", if_positive),
    Row("jobrequeue", "preemption.requeue", lambda text: text.strip() != "0"),
    Row("preemptexempttime", "preemption.exempt_time", or_usual(0, seconds)),
    *(
        Row(name, TOGETHER)
        for name in (
            "schedulertype", "schedulerparameters", "selecttype", "selecttypeparameters", "prioritytype", "preempttype",
            "preemptmode", "preemptparameters", "topologyplugin", "topologyparam", "slurm_version", "version"
        )
    ),
    *_rows("a plugin may change partition, QOS or requests of a job at its submission", "jobsubmitplugins"),
    *_per_gpu("select."),
    *_rows("jobs of different labels may be kept from sharing a node; here they share it", "mcsplugin"),
    *_rows("the site's own factor of the priority is taken as 0", "prioritysiteplugin", "prioritysitefactorplugin"),
    *_rows("waiting for burst buffers is not modelled", "burstbuffertype"),
    *_rows("nodes that are powered down are taken to start at once", "suspendtime"),
    *_rows("jobs of other clusters are not seen", "federationparameters"),
    *_rows("nodes are free again after the latency of a job's end", "completewait"),
    *_rows(
        "each end brings a pass at once, as in Slurm; how long the epilog takes is unknown: set latency.job_end",
        "epilog"
    ),
    *_rows("the epilog's time is part of the latency of a job's end: set latency.job_end", "epilogslurmctld"),
    *_rows("the prolog's time is not modelled: jobs begin to work at once", "prologslurmctld"),
    *_rows("features that change by reboot are taken as fixed", "nodefeaturesplugins"),
    *_rows("Slurm refuses jobs above it, or gives them more CPUs; here they start as they are", "maxmempercpu"),
    *_rows("Slurm refuses jobs above it; here they start", "maxmempernode"),
    *_rows("jobs are ended at their limit, and not so many minutes later", "overtimelimit"),
)  # fmt: skip
"""Of slurm.conf, and of what ``scontrol show config`` prints."""
DATABASE = (
    *_rows("what others own may be hidden from who is no operator: collect as one, or jobs are missing", "privatedata"),
    *_rows("older jobs are gone from sacct: a log from before begins with a queue that it lacks", "purgejobafter"),
    *_rows("older ones are gone: nodes closed before that stand open in a replay", "purgeeventafter", "purgeresvafter"),
)
"""Of slurmdbd, as ``sacctmgr show config`` prints them: what the answers of sacct and sacctmgr may lack."""
RULE_SETTINGS = {row.name: row for row in _PRIORITY}
"""Those that ``--rule`` may set, beside the numbers of SchedulerParameters and AccountingStorageEnforce."""

NUMBERS = (
    *(
        Row(name, name, unless_negative)
        for name in (
            "default_queue_depth", "partition_job_depth", "batch_sched_delay", "bf_max_job_start",
            "bf_max_job_user", "bf_max_job_part", "bf_max_job_assoc", "bf_max_job_user_part",
            "bf_max_job_array_resv", "bf_min_age_reserve", "bf_min_prio_reserve", "bf_job_part_count_reserve"
        )
    ),
    Row("bf_max_job_test", "bf_max_job_test", lambda text: unless_negative(text) or None),
    *(Row(name, name, positive) for name in ("sched_interval", "bf_interval", "bf_resolution")),
    Row("bf_window", "bf_window", lambda text: (number := positive(text)) and 60 * number),
)  # fmt: skip
SCHEDULER = (
    Row("max_job_bf", "bf_max_job_test", lambda text: unless_negative(text) or None),
    *NUMBERS,
    Row("sched_min_interval", "sched_min_interval", lambda text: whole(text) / 1e6),
    *(Row(name, name, lambda _: True) for name in ("bf_continue", "defer", "assoc_limit_stop")),
    Row("bf_one_resv_per_job", "bf_one_resv_per_job", lambda _: True, "a job may hold several reservations"),
)  # fmt: skip
"""Words of SchedulerParameters."""

_NOT_HELD = "not modelled: more jobs may start in the partition than in Slurm"
PARTITION = (
    Row("nodes", "nodes", lambda text: "ALL" if text.upper() == "ALL" else ",".join(text.split())),
    Row("default", "default", yes),
    Row("state", "state", str.lower),
    Row("prioritytier", "priority_tier", whole),
    Row("priorityjobfactor", "priority_job_factor", whole),
    Row("priority", "priority_tier", whole),
    Row("priority", "priority_job_factor", whole),
    Row("maxtime", "max_time", time_limit),
    Row("defaulttime", "default_time", time_limit),
    Row("maxnodes", "max_nodes", lambda text: 0 if text == "0" else if_positive(text)),
    Row("minnodes", "min_nodes", whole),
    Row("defmempercpu", "def_mem_per_cpu_mb", if_positive),
    Row("defmempernode", "def_mem_per_node_mb", if_positive),
    Row("maxmempercpu", "max_mem_per_cpu_mb", if_positive, _NOT_HELD),
    Row("maxmempernode", "max_mem_per_node_mb", if_positive, _NOT_HELD),
    Row("maxcpuspernode", "max_cpus_per_node", if_positive),
    Row("qos", "qos"),
    Row("allowqos", "allow_qos", unless_all),
    Row("denyqos", "deny_qos", unless_all),
    *(Row(f"{one}accounts", f"{one}_accounts", lambda text: unless_all(text.lower())) for one in ("allow", "deny")),
    *(Row(name, "oversubscribe", shared) for name in ("shared", "oversubscribe")),
    Row(
        "exclusive",
        "oversubscribe",
        lambda text: "exclusive" if text.upper() == "NODE" else None,
        "of NODE, USER and TOPO only NODE is applied",
    ),
    Row("lln", "lln", yes),
    Row("preemptmode", "preempt_mode", mode_of),
    Row("gracetime", "grace_time", _grace),
    Row("tresbillingweights", "billing_weights", billing_weights),
    *_per_gpu(""),
    *_rows("the cluster's own rule of allocation is taken", "selecttypeparameters"),
    *_rows("nodes are taken by the topology that is the cluster's default", "topology"),
    *_rows("jobs are ended at their limit, and not so many minutes later", "overtimelimit"),
    *_rows("nodes that are powered down are taken to start at once", "suspendtime", "powerdownonidle"),
    *_rows(_NOT_HELD, "allowgroups", "exclusiveuser", "exclusivetopo", "rootonly", "reqresv"),
    *_rows(_NOT_HELD, "maxcpuspersocket", "alternate"),
)
"""Of a line PartitionName."""

NODES = (
    *(Row(name, "cpus", whole) for name in ("cputot", "procs", "cpus")),
    Row("boards", "boards", whole),
    Row("socketsperboard", "sockets_per_board", whole),
    Row("sockets", "sockets", whole),
    Row("corespersocket", "cores", whole),
    Row("threadspercore", "threads_per_core", whole),
    Row("realmemory", "mem_mb", whole),
    Row("memspeclimit", "reserved_mb", whole),
    Row("cpuefctv", "usable", whole),
    Row("corespeccount", "reserved_cores", whole),
    Row("cpuspeclist", "reserved_cpus", lambda text: [int(n) for n in expand_nodes(f"[{text}]")]),
    Row("weight", "weight", lambda text: min(whole(text), 10**9)),  # Slurm's largest is 2³²: it comes last
    *(Row(name, "features") for name in ("availablefeatures", "activefeatures", "feature")),
)
"""Of a line NodeName."""

_NOT_APPLIED = "read and shown, not applied: more jobs may start, or be taken, than in Slurm"


def _limit(names: str, field: str, read: Callable[[str], Any], effect: str = "") -> tuple[Row, ...]:
    return tuple(Row(name, field, read, effect) for name in names.split())


def _amount(name: str, text: str) -> int:
    amount = slurm_memory(text)[0] if name == "mem" else decimal(text)
    if not math.isfinite(amount):
        raise ValueError("a number is needed")
    return round(amount) if name == "mem" else int(amount)


def _tres(text: str) -> dict[str, int | None]:
    """Read ``cpu=100,mem=1T``; −1 takes a limit away, which is None."""
    pairs = [(name.lower(), amount) for name, _, amount in (item.partition("=") for item in names(text))]
    return {name: None if amount.startswith("-") else _amount(name, amount) for name, amount in pairs}


def _of(tres: str) -> Callable[[str], dict[str, int | None]]:
    return lambda text: _tres(f"{tres}={text}")


LIMITS = (
    *_limit("grpjobs", "grp_jobs", whole),
    *_limit("grpsubmitjobs grpsubmit", "grp_submit_jobs", whole, _NOT_APPLIED),
    *_limit("maxjobs", "max_jobs", whole),
    *_limit("maxsubmitjobs maxsubmit", "max_submit_jobs", whole, _NOT_APPLIED),
    *_limit("maxjobsperuser maxjobspu", "max_jobs_per_user", whole),
    *_limit("maxjobsperaccount maxjobspa", "max_jobs_per_account", whole),
    *_limit("maxsubmitjobsperuser maxsubmitpu maxsubmitjobspu", "max_submit_jobs_per_user", whole, _NOT_APPLIED),
    *_limit("maxsubmitjobsperaccount maxsubmitpa maxsubmitjobspa", "max_submit_jobs_per_account", whole, _NOT_APPLIED),
    *_limit("maxwall maxwalldurationperjob maxwallduration", "max_wall", time_limit),
    *_limit("grpwall", "grp_wall", time_limit, _NOT_APPLIED),
    *_limit("grptres", "grp_tres", _tres),
    *_limit("grptresmins grptresmin", "grp_tres_mins", _tres),
    *_limit("grptresrunmins grptresrunmin", "grp_tres_run_mins", _tres),
    *_limit("maxtres maxtresperjob maxtrespj", "max_tres_per_job", _tres),
    *_limit("maxtrespernode maxtrespn", "max_tres_per_node", _tres),
    *_limit("maxtresperuser maxtrespu", "max_tres_per_user", _tres),
    *_limit("maxtresperaccount maxtrespa", "max_tres_per_account", _tres),
    *_limit("maxtresmins maxtresminsperjob maxtresminspj", "max_tres_mins_per_job", _tres),
    *_limit("mintres mintrespj mintresperjob", "min_tres_per_job", _tres),
    *_limit("grpcpus", "grp_tres", _of("cpu")),
    *_limit("grpnodes", "grp_tres", _of("node")),
    *_limit("grpmemory grpmem", "grp_tres", _of("mem")),
    *_limit("maxcpus maxcpusperjob", "max_tres_per_job", _of("cpu")),
    *_limit("maxnodes maxnodesperjob", "max_tres_per_job", _of("node")),
    *_limit("maxcpusperuser maxcpuspu", "max_tres_per_user", _of("cpu")),
    *_limit("maxnodesperuser maxnodespu", "max_tres_per_user", _of("node")),
    *_limit("grpcpumins", "grp_tres_mins", _of("cpu")),
    *_limit("grpcpurunmins", "grp_tres_run_mins", _of("cpu")),
    *_limit("maxcpumins", "max_tres_mins_per_job", _of("cpu")),
)
"""Of associations and QOS, as sacctmgr calls them."""
QOS = (
    *_limit("priority", "priority", or_usual(0, whole)),
    *_limit("preempt", "preempt", names),
    *_limit("preemptmode", "preempt_mode", mode_of),
    *_limit(
        "preemptexempttime preemptexempt", "exempt_time", lambda text: None if text.startswith("-") else seconds(text)
    ),
    *_limit("usagefactor", "usage_factor", or_usual(1.0, decimal)),
    *_limit("flags", "flags", names),
    *_limit("gracetime", "grace_time", _grace),
)
ASSOCIATION = (
    *_limit(
        "fairshare share shares fairshares", "shares",
        lambda text: "parent" if text.lower() in ("parent", "2147483647") else or_usual(1, whole)(text)
    ),
    *_limit("qos qoslevel qoslist qoslevels", "qos", names),
    *_limit("defaultqos defqos", "default_qos", str),
    *_limit("rawusage", "usage", decimal),
    *_limit("priority", "priority", or_usual(0, whole)),
)  # fmt: skip


def parsed(row: Row, text: str, where: str, what: str = "") -> Any:
    """Read a value.

    Raises
    ------
    TableError
        It cannot be read: with file and line, key, what was given, and what is needed.
    """
    try:
        value = row.read(text)
        most, amounts = (2**40, value.values()) if isinstance(value, dict) else (10**9, [value])
        if any(isinstance(amount, int) and amount > most for amount in amounts):
            raise ValueError(f"a number up to {most:,} is needed")
        return value
    except ValueError as error:
        said = str(error)
        needed = said if said.endswith("needed") else "a number is needed"
        raise TableError(f"{where}, {what}{row.name}: {text!r} was given; {needed}") from None


def taken(
    table: Iterable[Row], given: Mapping[str, str], where: Callable[[str], str], of: str = ""
) -> tuple[dict[str, Any], list[NotUnderstood]]:
    """Read what is given by a table's rows, in their order.

    Parameters
    ----------
    table
        Rows; of several for one field the last that is given counts.
    given
        Values by name in lower case; what has no row is left out.
    where
        File and line of a name.
    of
        Of what these are, for messages: ``"batch "``.

    Returns
    -------
    tuple
        Values by field, and what is given that is not modelled.
    """
    values: dict[str, Any] = {}
    unknown = []
    for row in table:
        text = given.get(row.name, "")
        if not text or row.field == TOGETHER:
            continue
        if row.field and (value := parsed(row, text, where(row.name), of)) is not None:
            values[row.field] = value
        unset = UNSET.fullmatch(text.lower()) and (row.name, text.lower()) != ("overtimelimit", "unlimited")
        if row.effect and not unset:
            unknown.append(
                NotUnderstood(setting=f"{of}{row.name}", value=text[:80], where=where(row.name), effect=row.effect)
            )
    return values, unknown
