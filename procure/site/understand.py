"""What Slurm's configuration means for when jobs start; what is not modelled is listed, never guessed."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import ValidationError

from procure.errors import TableError
from procure.files.gpu_pools import joined_pools
from procure.settings import complaint, problems
from procure.site.accounting import mode_of, read_accounting
from procure.site.conf import Configuration, Record, read_folder
from procure.site.model import (
    Latency,
    NodeEvent,
    NotUnderstood,
    Partition,
    Preemption,
    Priority,
    Qos,
    Reservation,
    Scheduler,
    Select,
    Site,
)
from procure.site.store import SiteFolder, check_site
from procure.tables import NODE, check
from procure.text import counted
from procure.workload.clock import from_local
from procure.workload.slurm_text import expand_nodes, slurm_duration, slurm_memory

COMPARED = ("22.05",)
"""Versions of Slurm that the rules were compared with."""

_EFFECTS = {
    "fairsharedampeningfactor": "",  # of the older algorithm without Fair Tree only
    "jobsubmitplugins": "a plugin may change partition, QOS or requests of a job at its submission",
    "prioritysiteplugin": "the site's own factor of the priority is taken as 0",
    "prioritysitefactorplugin": "the site's own factor of the priority is taken as 0",
    "burstbuffertype": "waiting for burst buffers is not modelled",
    "suspendtime": "nodes that are powered down are taken to start at once",
    "federationparameters": "jobs of other clusters are not seen",
    "completewait": "nodes are free again after the latency of a job's end",
    "epilog": "each end brings a pass at once, as in Slurm; how long the epilog takes is unknown: set latency.job_end",
    "epilogslurmctld": "the epilog's time is part of the latency of a job's end: set latency.job_end",
    "prologslurmctld": "the prolog's time is not modelled: jobs begin to work at once",
    "resumetimeout": "",
    "suspendtimeout": "",
    "schedulertimeslice": "",
    "maxnodecount": "",
    "prepplugins": "",
    "nodefeaturesplugins": "features that change by reboot are taken as fixed",
    "maxmempercpu": "Slurm refuses jobs above it, or gives them more CPUs; here they start as they are",
    "maxmempernode": "Slurm refuses jobs above it; here they start",
    "overtimelimit": "jobs are ended at their limit, and not so many minutes later",
}
_SCHEDULING = [
    "accountingstorageenforce",
    "enforcepartlimits",
    "schedulertype",
    "schedulerparameters",
    "selecttype",
    "selecttypeparameters",
    "prioritytype",
    "priorityweightage",
    "priorityweightassoc",
    "priorityweightfairshare",
    "priorityweightjobsize",
    "priorityweightpartition",
    "priorityweightqos",
    "priorityweighttres",
    "prioritymaxage",
    "priorityfavorsmall",
    "priorityflags",
    "prioritydecayhalflife",
    "prioritycalcperiod",
    "priorityusageresetperiod",
    "preempttype",
    "preemptmode",
    "preemptexempttime",
    "preemptparameters",
    "topologyplugin",
    "topologyparam",
    "licenses",
    "clustername",
    "defmempercpu",
    "defmempernode",
    "slurm_version",
    "version",
    "grestypes",
    "accountingstoragetres",
]
_UNSET = re.compile(r"|0( sec| min)?|no|infinite|unlimited|(.*/)?none")
_NO_EFFECT = re.compile(
    r"(acct|accounting|auth|allow|batch|boot|cgroup|cli|comm|communication|control|cpufreq|cred|debug|defcpu|dependency|"
    r"disable|energy|env|eio|ext|epilogmsg|fast|first|getenv|group|hash|health|inactive|interactive|job(?:acct|comp|"
    r"container|cred|file|requeue)|keepalive|kill|launch|log|mail|max(?:array|dbd|job|step|task)|"
    r"mcs|message|min_?job|mpi|msg|next|node|openmode|over|plugin|plug|power|private|proctrack|prolog(?:epilog|flags)|"
    r"propagate|rebootprogram|reconfig|request|resume|route|return|requeue|salloc|sbatch|sched_?log|slurm|snapshot|"
    r"srun|state|step|suspend(?:exc|prog|rate)|switch|sysconf|task|tcp|tls|tmp|track|tree|unkill|usepam|vsize|wait|x11|"
    r"hostname|token|resv|extsensors|gpufreq|sluctld|multiple|site|data|url|certmgr|stepmgr|prior(?:itymcs)|frontend|epilogtimeout|prologtimeout|bcast|job_?def)",
)


def read_slurm(folder: str | Path, tz: str | None = None) -> SiteFolder:
    """Read a folder of Slurm's files as a site.

    Parameters
    ----------
    folder
        With slurm.conf, or what ``scontrol show config``, ``node`` and ``partition`` printed; beside it, where there
        are any, gres.conf, topology.conf, ``scontrol show reservation``, and accounts, users and QOS as a script or a
        dump of sacctmgr or its ``--parsable`` tables. Files are told apart by what stands in them.
    tz
        Zone of the times that scontrol printed, which are of the clock where it ran; None = UTC, and said where
        there are any.

    Returns
    -------
    SiteFolder
        The rules, with everything ``not_understood``, and the node table.

    Raises
    ------
    TableError
        The folder or a file that it includes is missing, a partition names unknown nodes, or a number is none.
    """
    found = read_folder(folder)
    try:
        nodes, events = _nodes(found)
        site = _site(found, events, tz)
    except ValidationError as error:
        raise TableError(complaint(str(folder), problems(error))) from None
    except ValueError as error:
        is_own = isinstance(error, TableError) or not str(error).startswith(("invalid literal", "could not convert"))
        said = str(error) if is_own else _no_number(Path(folder), str(error))
        raise TableError(f"{folder}: {said}") from None
    check_site(site, nodes, str(folder))
    return SiteFolder(site, nodes)


def _no_number(folder: Path, said: str) -> str:
    """Name the line of a value that Python could not read as a number."""
    value = said.rpartition(": ")[2].strip("'\"")
    for path in sorted(one for one in folder.iterdir() if one.is_file()):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if match := re.search(rf"(\w+)=[^\s=]*{re.escape(value)}", line):
                return f"{path.name} line {number}, {match[1]}: {value!r} was given; a number is needed"
    return f"{value!r} was given; a number is needed"


def _site(found: Configuration, events: list[NodeEvent], tz: str | None) -> Site:
    accounting = read_accounting(found.accounting)
    unknown = [NotUnderstood(setting=line, where=where, effect="not a setting") for where, line in found.unread]
    unknown += accounting.not_understood
    scheduler, of_scheduler = read_scheduler(found)
    partitions = tuple(read_partition(record, unknown) for record in found.partitions)
    values: dict[str, Any] = {
        "cluster": found.settings.get("clustername", ""),
        "version": (re.findall(r"\d+\.\d+(?:\.\d+)?", found.settings.get("slurm_version", "")) or [""])[0],
        "enforce": tuple(_words(found.settings.get("accountingstorageenforce", ""))),
        "enforce_part_limits": {"yes": "all", "all": "all", "any": "any"}.get(
            found.settings.get("enforcepartlimits", "no").lower(), "no"
        ),
        "scheduler": scheduler,
        "priority": read_priority(found, unknown),
        "select": _select(found, unknown),
        "preemption": _preemption(found),
        # With an epilog every node reports the end of a job itself (slurm.conf, Epilog).
        "latency": Latency(pass_at_end=1) if found.settings.get("epilog") else Latency(),
        "licenses": _licenses(found.settings.get("licenses", "")),
        "partitions": partitions,
        "qos": accounting.all_qos(),
        "associations": accounting.all_associations(),
        "reservations": tuple(read_reservation(record, tz) for record in found.reservations),
    }
    if found.reservations and tz is None:
        effect = "their times are taken as UTC; state the zone of the clock where scontrol ran with --tz"
        value = ", ".join(record["reservationname"] for record in found.reservations)
        unknown.append(NotUnderstood(setting="ReservationName", value=value, effect=effect))
    unknown += of_scheduler + _rest(found) + _preemption_gaps(found, partitions, values["qos"])
    past = _past_events(accounting.events, found, tz, unknown)
    dated = {name for one in past if one.end is None for name in expand_nodes(one.nodes)}
    today = [one for one in events if not set(expand_nodes(one.nodes)) <= dated]
    values["events"] = (*today, *past)
    unknown += _of_nodes(partitions, today)
    if values["version"] and not values["version"].startswith(COMPARED):
        effect = f"the rules were compared with Slurm {', '.join(COMPARED)}; another version may differ"
        unknown.append(NotUnderstood(setting="SLURM_VERSION", value=values["version"], effect=effect))
    return Site(**values, not_understood=tuple(unknown))


def _past_events(
    rows: list[dict[str, str]], found: Configuration, tz: str | None, unknown: list[NotUnderstood]
) -> list[NodeEvent]:
    """Return when nodes were down or drained, as `sacctmgr show event` says; what is not used goes to ``unknown``."""
    known = {name for record in found.nodes for name in expand_nodes(record["nodename"])}
    events: list[NodeEvent] = []
    n_unused = 0
    for row in rows:
        if not row.get("nodename"):
            continue  # of the cluster itself
        words = {word.strip("*~#$@!%^-") for word in row.get("state", "").lower().replace(" ", "+").split("+")}
        state = next((kind for word, kind in _CLOSED_STATES if word in words), None)
        end = row.get("timeend", "Unknown")
        try:
            begin, until = _moment(row["timestart"], tz), None if end == "Unknown" else _moment(end, tz)
        except (KeyError, ValueError):
            state = None
        if state is None or not set(expand_nodes(row["nodename"])) <= known:
            n_unused += 1
            continue
        reason = row.get("reason", "")
        events.append(NodeEvent(nodes=row["nodename"], start=begin, end=until, state=state, reason=reason))
    if n_unused:
        effect = "not used: of a node that is not in the table, of a state other than down, drain or fail, or undated"
        value = counted(n_unused, "row")
        unknown.append(NotUnderstood(setting="sacctmgr show event", value=value, effect=effect))
    if events and tz is None:
        effect = "their times are taken as UTC; state the zone of the clock where sacctmgr ran with --tz"
        value = counted(len(events), "row")
        unknown.append(NotUnderstood(setting="sacctmgr show event", value=value, effect=effect))
    return events


def _of_nodes(partitions: Sequence[Partition], events: Sequence[NodeEvent]) -> list[NotUnderstood]:
    """Say what of nodes over time, and of partitions without nodes, a replay cannot know."""
    lines = [
        NotUnderstood(setting="PartitionName", value=one.name, effect="it has no nodes: no job of it can start there")
        for one in partitions
        if not one.nodes
    ]
    if events:
        names = ", ".join(dict.fromkeys(one.nodes for one in events))
        effect = "closed for the whole of any log: strike their [[events]] out where the log is from before"
        lines.append(NotUnderstood(setting="State", value=f"down or drained: {names}", effect=effect))
    return lines


def _preemption_gaps(found: Configuration, partitions: Sequence[Partition], qos: Sequence[Qos]) -> list[NotUnderstood]:
    """Name what a site's preemption has that is not simulated."""
    kind = found.settings.get("preempttype", "preempt/none").lower().removeprefix("preempt/")
    mode = found.settings.get("preemptmode", "OFF")
    turns = _turns(partitions, kind, found.where.get("preemptmode", "")) if "gang" in _words(mode.lower()) else []
    if kind == "none":
        return turns
    where, gaps = found.where.get("preempttype", ""), []
    if kind not in _PREEMPT_TYPES:
        gaps.append(("PreemptType", kind, "not simulated: jobs that would give way run on"))
    given = [("PreemptMode", mode)]
    given += [(f"partition {each.name} PreemptMode", each.preempt_mode or "") for each in partitions]
    given += [(f"QOS {each.name} PreemptMode", each.preempt_mode or "") for each in qos]
    for setting, value in given:
        for word in _words(value):
            if word in _NOT_PREEMPTED and (word != "suspend" or kind == "qos"):
                gaps.append((setting, value, f"{word.upper()} is not simulated: {_NOT_PREEMPTED[word]}"))
    for word in _words(found.settings.get("preemptparameters", "")):
        if word.partition("=")[0] not in _PREEMPT_WORDS:
            gaps.append(("PreemptParameters", word, "not modelled: other jobs may give way"))
    told = [NotUnderstood(setting=name, value=value, where=where, effect=effect) for name, value, effect in gaps]
    return told + turns


def _turns(partitions: Sequence[Partition], kind: str, where: str) -> list[NotUnderstood]:
    """Name the partitions whose jobs would share CPUs, in turns or at once, under ``PreemptMode=GANG``."""
    told = []
    for each in partitions:
        word, _, most = each.oversubscribe.partition(":")
        if word in ("yes", "force") and most != "1":
            effect = "time slices are not simulated: no two of its jobs take turns on a CPU (OverSubscribe=FORCE:1)"
            told.append((f"partition {each.name} OverSubscribe", each.oversubscribe, effect))
    if kind == "partition_prio":
        reach = {each.name: set(expand_nodes(each.nodes)) for each in partitions}
        for one, other in itertools.combinations(partitions, 2):
            both = reach[one.name] & reach[other.name] or "ALL" in reach[one.name] | reach[other.name]
            if one.priority_tier == other.priority_tier and both:
                effect = "Slurm lets their jobs run on the same CPUs at once; here they wait for each other"
                told.append(("PriorityTier", f"partitions {one.name} and {other.name} share nodes", effect))
    return [NotUnderstood(setting=name, value=value, where=where, effect=effect) for name, value, effect in told]


_PREEMPT_TYPES = {"partition_prio": "partition", "qos": "qos"}
_PREEMPT_WORDS = ("youngest_first", "strict_order", "reorder_count")
_NOT_PREEMPTED = {
    "suspend": "Slurm lets such QOS take turns; here their jobs run on, and those that would preempt them wait",
    "within": "jobs of one QOS do not end each other",
    "priority": "jobs also give way to others of a lower priority",
}


def _words(text: str) -> list[str]:
    return [word.strip().lower() for word in text.split(",") if word.strip()]


def _minutes(text: str) -> int | None:
    """Read a limit of time: minutes, or as sbatch writes it; UNLIMITED and INFINITE are none."""
    if text.upper() in ("UNLIMITED", "INFINITE", "NONE", ""):
        return None
    return 60 * int(text) if text.isdecimal() else round(_seconds(text))


def _seconds(text: str) -> float:
    """Read D-HH:MM:SS, D-HH, HH:MM:SS or a number of minutes, in seconds."""
    if text.isdecimal():
        return 60.0 * int(text)
    seconds = slurm_duration(text)
    if math.isnan(seconds):
        raise ValueError(f"{text!r} is not a time such as 7-0, 12:00:00 or a number of minutes")
    return seconds


_BF_MINUTES = {"bf_window": 60}
_SCHED_NUMBERS = {
    name: name
    for name in (
        "default_queue_depth", "partition_job_depth", "sched_interval", "batch_sched_delay", "bf_interval", "bf_window",
        "bf_resolution", "bf_max_job_test", "bf_max_job_start", "bf_max_job_user", "bf_max_job_part",
        "bf_max_job_assoc",
        "bf_max_job_user_part", "bf_max_job_array_resv", "bf_min_age_reserve", "bf_min_prio_reserve",
        "bf_job_part_count_reserve",
    )
}  # fmt: skip
SCHEDULER_NUMBERS = tuple(_SCHED_NUMBERS)
"""Numbers in SchedulerParameters that are modelled."""
_SCHED_NUMBERS["max_job_bf"] = "bf_max_job_test"
_SCHED_FLAGS = {"bf_continue", "defer", "assoc_limit_stop", "bf_one_resv_per_job"}
_SCHED_NO_EFFECT = {
    "max_script_size", "bf_max_time", "bf_yield_interval", "bf_yield_sleep", "sched_max_job_start", "max_switch_wait",
    "bf_yield_rpc_cnt", "max_rpc_cnt", "max_sched_time", "build_queue_timeout", "bf_running_job_reserve",
    "nohold_on_prolog_fail",
    "ignore_prefer_validation", "kill_invalid_depend", "requeue_setup_env_fail", "enable_user_top",
    "assoc_limit_continue", "preempt_youngest_first", "preempt_strict_order", "preempt_reorder_count",
}  # fmt: skip


def read_scheduler(found: Configuration) -> tuple[Scheduler, list[NotUnderstood]]:
    """Read SchedulerType and SchedulerParameters, and what of them is not modelled."""
    where = found.where.get("schedulerparameters", "")
    kind = found.settings.get("schedulertype", "sched/backfill").removeprefix("sched/")
    values: dict[str, Any] = {"backfill": kind == "backfill"}
    unknown = []
    if kind not in ("backfill", "builtin"):
        effect = "backfill is taken in its place"
        unknown.append(NotUnderstood(setting="SchedulerType", value=kind, effect=effect))
        values["backfill"] = True
    for word in _words(found.settings.get("schedulerparameters", "")):
        name, _, value = word.partition("=")
        if name in _SCHED_FLAGS:
            values[name] = True
        elif name == "sched_min_interval":
            values[name] = int(value) / 1e6
        elif name in _SCHED_NUMBERS:
            if not value.lstrip("-").isdecimal():
                raise ValueError(f"{where}: {name}={value} is not a whole number")
            if int(value) >= 0:
                values[_SCHED_NUMBERS[name]] = int(value) * _BF_MINUTES.get(name, 1)
        elif name not in _SCHED_NO_EFFECT:
            effect = "this parameter of the scheduler is not modelled; which jobs overtake may differ"
            unknown.append(
                NotUnderstood(setting=f"SchedulerParameters {name}", value=value, where=where, effect=effect)
            )
    return Scheduler(**values), unknown


_MODELLED_FLAGS = {
    "no_normal_assoc", "no_normal_part", "no_normal_qos", "no_normal_tres", "no_normal_all", "fair_tree",
    "small_relative_to_time", "max_tres",
}  # fmt: skip
_KNOWN_SELECT = re.compile(
    r"cr_(core|cpu|socket|memory|pack_nodes|lln|core_memory|cpu_memory|socket_memory|core_default_dist_block|"
    r"one_task_per_core)$|none$|multiple_sharing_gres_pj$"
)


PRIORITY_SETTINGS = {
    "priorityweightage": "weight_age", "priorityweightassoc": "weight_assoc",
    "priorityweightfairshare": "weight_fair_share", "priorityweightjobsize": "weight_job_size",
    "priorityweightpartition": "weight_partition", "priorityweightqos": "weight_qos",
    "prioritymaxage": "max_age", "prioritydecayhalflife": "decay_half_life", "prioritycalcperiod": "calc_period",
    "priorityfavorsmall": "favor_small",
}  # fmt: skip
"""Settings of the multifactor priority that are single values."""


def read_priority(found: Configuration, unknown: list[NotUnderstood]) -> Priority:
    """Read the priority's type, weights and times; adds what is not modelled."""
    get = found.settings.get
    kind = get("prioritytype", "priority/multifactor").removeprefix("priority/")
    if kind not in ("basic", "multifactor"):
        effect = "multifactor is taken in its place: the order of the queue may differ"
        unknown.append(NotUnderstood(setting="PriorityType", value=kind, effect=effect))
        kind = "multifactor"
    values: dict[str, Any] = {"type": kind}
    for key, name in PRIORITY_SETTINGS.items():
        if name.startswith("weight_"):
            values[name] = int(get(key, "0") or 0)
    weights = [item.partition("=") for item in filter(None, get("priorityweighttres", "").split(","))]
    values["weight_tres"] = {name.lower(): float(value) for name, _, value in weights}
    if "prioritymaxage" in found.settings:
        values["max_age"] = max(1, round(_seconds(get("prioritymaxage", ""))))
    if "prioritydecayhalflife" in found.settings:
        values["decay_half_life"] = round(_seconds(get("prioritydecayhalflife", "")))
    if "prioritycalcperiod" in found.settings:
        values["calc_period"] = round(_seconds(get("prioritycalcperiod", "")))
    values["favor_small"] = get("priorityfavorsmall", "no").lower() in ("yes", "true", "1")
    values["flags"] = tuple(_words(get("priorityflags", "")))
    for flag in sorted(set(values["flags"]) - _MODELLED_FLAGS):
        effect = "this flag is not modelled: the order of the queue may differ"
        unknown.append(NotUnderstood(setting=f"PriorityFlags {flag}", effect=effect))
    values["usage_reset"] = get("priorityusageresetperiod", "none").lower()
    if values["usage_reset"] != "none":
        effect = "usage is not reset in a replay"
        unknown.append(NotUnderstood(setting="PriorityUsageResetPeriod", value=values["usage_reset"], effect=effect))
    return Priority(**values)


def _select(found: Configuration, unknown: list[NotUnderstood]) -> Select:
    get = found.settings.get
    kind = get("selecttype", "select/cons_tres").removeprefix("select/")
    words = _words(get("selecttypeparameters", ""))
    values: dict[str, Any] = {"consume": "core"}
    if kind == "linear":
        values |= {"consume": "node"}
    elif kind not in ("cons_tres", "cons_res"):
        effect = "cons_tres is taken in its place: which nodes a job gets may differ"
        unknown.append(NotUnderstood(setting="SelectType", value=kind, effect=effect))
    if kind != "linear" and any(word.startswith("cr_cpu") for word in words):
        values["consume"] = "cpu"
    values["memory"] = not words or any("memory" in word for word in words)
    values["pack_nodes"] = "cr_pack_nodes" in words
    values["lln"] = "cr_lln" in words
    for word in words:
        if not _KNOWN_SELECT.match(word) or "socket" in word:
            effect = "cores are taken in its place"
            unknown.append(NotUnderstood(setting=f"SelectTypeParameters {word}", effect=effect))
    for key, name in (("defmempercpu", "def_mem_per_cpu_mb"), ("defmempernode", "def_mem_per_node_mb")):
        if get(key, "UNLIMITED").isdecimal() and int(get(key, "0")) > 0:
            values[name] = int(get(key, "0"))
    plugin = get("topologyplugin", "").removeprefix("topology/")
    if plugin in ("tree", "block"):
        values["topology"] = plugin if found.switches else "none"
        if plugin == "block":
            unknown.append(
                NotUnderstood(setting="TopologyPlugin", value=plugin, effect="blocks are taken as leaf switches")
            )
    elif plugin not in ("", "none", "default", "flat"):
        effect = "nodes are taken without a topology"
        unknown.append(NotUnderstood(setting="TopologyPlugin", value=plugin, effect=effect))
    if "switchasnoderank" in get("topologyparam", "").lower():
        effect = "nodes are taken in the order of their names, not of their switches"
        unknown.append(NotUnderstood(setting="TopologyParam SwitchAsNodeRank", effect=effect))
    return Select(**values)


def _preemption(found: Configuration) -> Preemption:
    get = found.settings.get
    kind = get("preempttype", "preempt/none").lower().removeprefix("preempt/")
    words = _words(get("preemptparameters", ""))
    words += [
        word.removeprefix("preempt_") for word in _words(get("schedulerparameters", "")) if word.startswith("preempt_")
    ]
    given = dict(word.partition("=")[::2] for word in words)
    exempt = get("preemptexempttime", "-1")
    expire = re.search(r"cred_expire=(\d+)", get("authinfo", ""))
    values: dict[str, Any] = {
        "type": _PREEMPT_TYPES.get(kind, "none"),
        "mode": mode_of(get("preemptmode", "off")) or "off",
        "exempt_time": 0 if exempt.startswith("-") else round(_seconds(exempt)),
        "youngest_first": "youngest_first" in given,
        "strict_order": "strict_order" in given,
        "patience": sum(
            _first_number(get(name, ""), usual) for name, usual in (("killwait", 30), ("messagetimeout", 10))
        ),
        "requeue": get("jobrequeue", "1").strip() != "0",
    }
    if given.get("reorder_count", "").isdecimal():
        values["reorder_count"] = int(given["reorder_count"])
    if expire:
        values["requeue_delay"] = int(expire[1])
    return Preemption(**values)


def _first_number(text: str, usual: int) -> int:
    """Read ``30`` or ``30 sec``."""
    match = re.match(r"\d+", text.strip())
    return int(match[0]) if match else usual


def _licenses(text: str) -> dict[str, int]:
    pairs = [re.split("[:=*]", item) for item in filter(None, text.split(","))]
    return {pair[0]: int(pair[1]) if len(pair) > 1 and pair[1].isdecimal() else 1 for pair in pairs}


_PARTITION_ONLY_READ = (
    "allowgroups",
    "exclusiveuser",
    "rootonly",
    "reqresv",
    "maxcpuspersocket",
    "maxmempercpu",
    "maxmempernode",
    "alternate",
)


def read_partition(record: Record, unknown: list[NotUnderstood]) -> Partition:
    """Read a partition's line; adds what is not modelled."""
    get = record.get

    def names(key: str) -> tuple[str, ...]:
        text = get(key, "")
        return () if text.upper() == "ALL" else tuple(filter(None, text.split(",")))

    def number(key: str) -> int | None:
        text = get(key, "")
        return int(text) if text.isdecimal() and int(text) > 0 else None

    priority = get("priority", "1")
    shared = get("oversubscribe", get("shared", "no")).lower()
    values: dict[str, Any] = {
        "name": record["partitionname"],
        "nodes": get("nodes", ""),
        "default": get("default", "no").lower() in ("yes", "true"),
        "state": get("state", "up").lower(),
        "priority_tier": int(get("prioritytier", priority) or 1),
        "priority_job_factor": int(get("priorityjobfactor", priority) or 1),
        "max_time": _minutes(get("maxtime", "")),
        "default_time": _minutes(get("defaulttime", "")),
        "max_nodes": number("maxnodes"),
        "min_nodes": int(get("minnodes", "0") or 0),
        "def_mem_per_cpu_mb": number("defmempercpu"),
        "def_mem_per_node_mb": number("defmempernode"),
        "max_mem_per_cpu_mb": number("maxmempercpu"),
        "max_mem_per_node_mb": number("maxmempernode"),
        "max_cpus_per_node": number("maxcpuspernode"),
        "qos": get("qos", ""),
        "allow_qos": names("allowqos"),
        "deny_qos": names("denyqos"),
        "allow_accounts": names("allowaccounts"),
        "deny_accounts": names("denyaccounts"),
        "oversubscribe": shared,
        "lln": get("lln", "no").lower() == "yes",
        "preempt_mode": mode_of(get("preemptmode", "")),
        "grace_time": int(get("gracetime", "0") or 0),
    }
    for key in _PARTITION_ONLY_READ:
        value = get(key, "")
        if value.upper() not in ("", "0", "ALL", "NO", "UNLIMITED", "NONE"):
            effect = "not modelled: more jobs may start in the partition than in Slurm"
            unknown.append(
                NotUnderstood(setting=f"{values['name']} {key}", value=value, where=record["_where"], effect=effect)
            )
    return Partition(**values)


def _moment(text: str, tz: str | None) -> int:
    """Return a time that Slurm prints by the clock of a zone, UTC without, as Unix s."""
    if text.isdecimal():
        return int(text)
    local = np.array([pd.Timestamp(text).timestamp()], np.int64)
    return int(from_local(local, tz)[0])


def read_reservation(record: Record, tz: str | None) -> Reservation:
    """Read a reservation; ``tz`` is the zone of its times, unless they are Unix seconds."""

    def moment(text: str) -> int:
        return _moment(text, tz)

    def names(key: str) -> tuple[str, ...]:
        return tuple(filter(None, record.get(key, "").split(",")))

    needed = ("reservationname", "starttime", "endtime")
    if missing := [key for key in needed if not record.get(key)]:
        raise TableError(f"a reservation has no {missing[0]}; `scontrol show reservation` prints {', '.join(needed)}")
    return Reservation(
        name=record["reservationname"], start=moment(record["starttime"]), end=moment(record["endtime"]),
        nodes=record.get("nodes", ""), flags=names("flags"), users=names("users"), accounts=names("accounts"),
    )  # fmt: skip


_GPU = re.compile(r"gpu(?::([A-Za-z_][\w.-]*|\d[\w.-]*[A-Za-z_.-][\w.-]*))?(?:[:=](\d+))?")

_CLOSED_STATES: tuple[tuple[str, Literal["down", "drain"]], ...] = (
    ("drain", "drain"), ("draining", "drain"), ("drained", "drain"), ("down", "down"), ("fail", "drain"),
    ("failing", "drain"),
)  # fmt: skip


def closed_as(node: Record) -> Literal["down", "drain"] | None:
    """Tell whether a node takes no jobs, and how; POWERED_DOWN is no DOWN: one that sleeps is there for jobs."""
    states = {word.strip("*~#$@!%^-") for word in node.get("state", "").lower().split("+")}
    return next((kind for word, kind in _CLOSED_STATES if word in states), None)


def _nodes(found: Configuration) -> tuple[pd.DataFrame, list[NodeEvent]]:
    """Make the node table, and an event of each node that is shown as down or drained."""
    switch_of = _switches(found)
    rows, events = [], []
    for record in found.nodes:
        names = expand_nodes(record["nodename"])
        row = _node(record)
        for name in names:
            leaf, pod = switch_of.get(name, (None, None))
            gpus, gpu_type = _gpus(name, record, found)
            rows.append({"node_id": name, **row, "gpus": gpus, "gpu_type": gpu_type, "leaf": leaf, "pod": pod})
        if "_shown" in record and (kind := closed_as(record)) is not None:
            at = -(2**40) + 1  # since before any log
            events.append(NodeEvent(nodes=record["nodename"], start=at, state=kind, reason=record.get("reason", "")))
    frame = pd.DataFrame(rows).drop_duplicates("node_id", keep="first")
    kinds = ["cpus", "mem_mb", "gpus", "gpu_type", "features"]
    number = frame.groupby(kinds, sort=False).ngroup()
    prefix = frame["node_id"].str.extract(r"^(.*?)\d*$")[0].where(lambda text: text != "", "node")
    first = prefix.groupby(number).first()
    repeated = first.duplicated(keep=False)
    called = {n: f"{first[n]}-{n + 1}" if repeated[n] else first[n] for n in first.index}
    frame["kind"] = number.map(called)
    if frame["leaf"].isna().all():
        frame = frame.drop(columns=["leaf", "pod"])
    # Slurm has its nodes in the order of their names, however slurm.conf lists them, and among equals takes the first.
    parts = frame["node_id"].map(lambda name: [_place(part) for part in re.findall("[0-9]+|.", name)])
    return check(frame.loc[sorted(frame.index, key=parts.get)], NODE), events


def _place(part: str) -> tuple[int, bool, int | str]:
    """Return what puts parts of names in order: a number counts as a whole, one that begins with 0 digit by digit."""
    return (48, part[0] != "0", part if part[0] == "0" else int(part)) if part.isdecimal() else (ord(part), False, "")


def _node(record: Record) -> dict[str, Any]:
    get = record.get
    sockets = int(get("socketsperboard", get("sockets", "1")) or 1)
    cores, threads = int(get("corespersocket", "1") or 1), int(get("threadspercore", "1") or 1)
    cpus = get("cpus", get("procs", get("cputot", "")))
    features = get("feature", get("features", get("activefeatures", get("availablefeatures", ""))))
    return {
        "cpus": int(cpus) if cpus else sockets * cores * threads,
        "mem_mb": int(slurm_memory(get("realmemory", "1"))[0]) - int(get("memspeclimit", "0") or 0),
        "features": features,
        "weight": int(get("weight", "1") or 1),
        "threads_per_core": threads,
    }


def _gpus(name: str, record: Record, found: Configuration) -> tuple[int, str]:
    """Count a node's GPUs: as its line says, where that names gpu, else as gres.conf counts them."""
    kinds: dict[str, int] = {}
    for item in filter(None, re.sub(r"\([^)]*\)", "", record.get("gres", "")).split(",")):
        match = _GPU.fullmatch(item)
        if match:
            kinds[match[1] or ""] = kinds.get(match[1] or "", 0) + int(match[2] or 1)
    if not kinds and "_shown" not in record:
        return 0, ""
    if set(kinds) == {""}:
        for each in found.gres:
            named = "nodename" not in each or name in expand_nodes(each["nodename"])
            if named and each.get("name") == "gpu" and each.get("type"):
                return kinds[""], each["type"]
    return joined_pools(list(kinds.items()))


def _switches(found: Configuration) -> dict[str, tuple[int, int]]:
    """Number the leaf switches in order, and the switch above each."""
    of: dict[str, tuple[int, int]] = {}
    above: dict[str, int] = {}
    for number, record in enumerate(found.switches):
        for name in expand_nodes(record.get("switches", "")):
            above[name] = number
    leaves = [r for r in found.switches if r.get("nodes") and "switches" not in r]
    tops = sorted({above.get(r.get("switchname", r.get("blockname", "")), -1) for r in leaves})
    for leaf, record in enumerate(leaves):
        top = tops.index(above.get(record.get("switchname", record.get("blockname", "")), -1))
        for name in expand_nodes(record["nodes"]):
            of.setdefault(name, (leaf, top))
    return of


def _rest(found: Configuration) -> list[NotUnderstood]:
    """List settings that are neither modelled nor known to leave start times alone."""
    unknown = []
    for key, value in found.settings.items():
        effect = _EFFECTS.get(key)
        if effect is None and (key in _SCHEDULING or _NO_EFFECT.match(key)):
            continue
        if effect == "" or _UNSET.fullmatch(value.lower()):
            continue
        if key == "suspendtime" and value.startswith("-"):
            continue
        effect = effect or "not known to procure; it is taken to have no effect on when jobs start"
        unknown.append(NotUnderstood(setting=key, value=value[:80], where=found.where[key], effect=effect))
    return unknown
