"""What Slurm's configuration means for when jobs start; what is not modelled is listed, never guessed."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from procure.errors import TableError
from procure.settings import complaint, problems
from procure.site.accounting import Accounting, read_accounting
from procure.site.conf import Configuration, Record, read_folder
from procure.site.gaps import contradicted, gres_gaps, missing, node_gaps, reservation_gaps, unlisted, without_database
from procure.site.limits import is_counted
from procure.site.model import (
    Association,
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
    gaps_of,
)
from procure.site.network import host_names, parse_slurm_topology
from procure.site.nodes import leave_out_future, node_table, resolve_node_sets
from procure.site.past import past_events, past_reservations, unix_seconds
from procure.site.rows import DATABASE, NO_EFFECT, NODES, PARTITION, SCHEDULER, SETTINGS, Row, parsed, taken
from procure.site.store import SiteFolder, check_site
from procure.site.values import counts, mode_of, names, whole, words
from procure.text import counted
from procure.workload.slurm import expand_nodes

COMPARED = ("22.05",)
"""Versions of Slurm that the rules were compared with."""


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
        resolve_node_sets(found)
        leave_out_future(found)
        unknown = _read_network(found)
        nodes, events = node_table(found)
        site = _site(found, events, tz, nodes, unknown)
    except ValidationError as error:
        raise TableError(complaint(str(folder), problems(error))) from None
    except ValueError as error:
        raise TableError(f"{folder}: {error}") from None
    check_site(site, nodes, str(folder), {one["partitionname"]: one["_where"] for one in found.partitions})
    return SiteFolder(site, nodes)


def _read_network(found: Configuration) -> list[NotUnderstood]:
    """Read the topology; one that is no tree of at most three levels is named with what stands in its way."""
    file, text = found.topology
    try:
        found.network = parse_slurm_topology(text, file) if file else None
    except TableError as error:
        effect = f"{error}: nodes are taken without a network"
        return [NotUnderstood(setting="topology", where=file, effect=effect)]
    return []


def _site(
    found: Configuration, events: list[NodeEvent], tz: str | None, nodes: pd.DataFrame, unknown: list[NotUnderstood]
) -> Site:
    unknown += without_database(found)
    accounting = read_accounting(found.accounting, found.settings.get("clustername", ""))
    called = {name.lower(): name for name in accounting.qos}  # whatever their case, as in Slurm
    for record in found.partitions:
        for key in record.keys() & {"qos", "allowqos", "denyqos"}:
            other = str if key == "qos" else str.lower
            record[key] = ",".join(called.get(name.lower(), other(name)) for name in record[key].split(","))
    unknown += [NotUnderstood(setting=what, where=where, effect=effect) for where, what, effect in found.unread]
    unknown += accounting.not_understood + missing(found, accounting) + node_gaps(found) + contradicted(found)
    for record in found.nodes:
        unknown += unlisted(record, NODES, "node", f"node {record['nodename'][:40]}")
        unknown += gres_gaps(record, found)
    effect = "none of Slurm's files that are known, or not included: nothing of it is used"
    unknown += [NotUnderstood(setting="file", where=name, effect=effect) for name in found.unread_files]
    _refuse_unknown_nodes(found, nodes)
    partitions = tuple(read_partition(record, unknown) for record in found.partitions)
    last = max((n for n, one in enumerate(partitions) if one.default), default=-1)  # Slurm keeps the last only
    partitions = tuple(one.model_copy(update={"default": n == last}) for n, one in enumerate(partitions))
    flat, of_settings = taken(SETTINGS, found.settings, lambda name: found.where.get(name, "slurm.conf"))
    values: dict[str, Any] = {key: value for key, value in flat.items() if "." not in key}
    within: dict[str, dict[str, Any]] = {"priority": {}, "select": {}, "preemption": {}}
    for key, value in flat.items():
        if "." in key:
            part, name = key.split(".")
            within[part][name] = value
    remote = [f"{one['licensename']}:{one.get('total')}" for one in found.licenses if one.get("remote") == "yes"]
    values |= {
        "licenses": counts(",".join(remote)) | values.get("licenses", {}),
        "version": (re.findall(r"\d+\.\d+(?:\.\d+)?", found.settings.get("slurm_version", "")) or [""])[0],
        "scheduler": _scheduler(found, unknown),
        "priority": _priority(found, within["priority"], tz, unknown),
        "select": _select(found, within["select"], unknown),
        "preemption": _preemption(found, within["preemption"]),
        "latency": _latency(found, tz),
        "partitions": partitions,
        "qos": tuple(Qos(**one) for one in accounting.qos.values()),
        "associations": tuple(Association(**one) for _, one in sorted(accounting.associations.items())),
    }
    found.reservations += past_reservations(accounting.reservations, found, nodes, unknown)
    values["reservations"] = tuple(read_reservation(record, tz) for record in found.reservations)
    of = ", ".join(record["reservationname"] for record in found.reservations)
    effect = "their times are taken as UTC; state the zone of the clock where scontrol ran with --tz"
    unknown += gaps_of([(of and tz is None, "ReservationName", of, effect)])
    unknown += reservation_gaps(found.reservations)
    unknown += taken(DATABASE, found.database[0], found.database[1].__getitem__, "slurmdbd ")[1]
    unknown += of_settings + unlisted(found.settings, SETTINGS, "settings", "", found.where)
    unknown += _preemption_gaps(found, partitions, accounting.preempt_modes)
    past = past_events(accounting.events, found, tz, unknown)
    dated = {name for one in past if one.end is None for name in expand_nodes(one.nodes)}
    today = [one for one in events if not set(expand_nodes(one.nodes)) <= dated]
    values["events"] = (*today, *past)
    unknown += _of_nodes(partitions, today)
    parents = {one["parent"] for one in accounting.associations.values() if "parent" in one}
    named = {name for one in partitions for name in (*one.allow_accounts, *one.deny_accounts)} & parents
    effect = "taken for the accounts below, too, as by Slurm since 23.02; the version of this one is not known"
    unknown += gaps_of([(named and not values["version"], "AllowAccounts", ",".join(sorted(named)), effect)])
    unknown += _undefined_qos(accounting, partitions)
    version, effect = values["version"], f"the rules were compared with Slurm {', '.join(COMPARED)}; another may differ"
    unknown += gaps_of([(version and not version.startswith(COMPARED), "SLURM_VERSION", version, effect)])
    return Site(**values, not_understood=tuple(_placed(each, found) for each in unknown))


def _undefined_qos(accounting: Accounting, partitions: Sequence[Partition]) -> list[NotUnderstood]:
    """Name the QOS that others name and no table defines."""
    asked = {name for one in accounting.associations.values() for name in (*one.get("qos", ()), one.get("default_qos"))}
    asked |= {name for one in partitions for name in (*one.allow_qos, *one.deny_qos)}
    asked |= {name for one in accounting.qos.values() for name in one.get("preempt", ())}
    known = {name.lower() for name in accounting.qos}
    odd = ",".join(sorted(name for name in asked if name and name.lower() not in known))
    effect = "no table has these QOS: where QOS are enforced their jobs are set aside; `sacctmgr show qos --parsable`"
    return gaps_of([(odd, "QOS", odd[:80], effect)])


def _refuse_unknown_nodes(found: Configuration, nodes: pd.DataFrame) -> None:
    known = set(nodes["node_id"])
    for record in (*found.partitions, *found.down, *found.reservations):
        text = record.get("nodes", record.get("downnodes", ""))
        missing = [name for name in (host_names(text, record["_where"]) if text else ()) if name not in known]
        if missing and text.upper() != "ALL":
            kinds = (kind for kind in ("partition", "reservation") if f"{kind}name" in record)
            of = next((f"{kind} {record[f'{kind}name']}" for kind in kinds), "DownNodes")
            raise TableError(
                f"{record['_where']}: {of} names {counted(len(missing), 'node')} that "
                f"no NodeName line defines, first {missing[0]}; define them, or take them out"
            )


def _placed(gap: NotUnderstood, found: Configuration) -> NotUnderstood:
    """Add the line where a setting, a partition or a reservation stands, where nothing says it yet."""
    first, *rest = gap.setting.split()
    where = found.where.get(first.lower(), "")
    for record in (*found.partitions, *found.reservations) if rest else ():
        if rest[0] in (record.get("partitionname"), record.get("reservationname")):
            where = record["_where"]
    return gap if gap.where or not where else gap.model_copy(update={"where": where})


def _latency(found: Configuration, tz: str | None) -> Latency:
    """Return when Slurm began, of a shown configuration; with an epilog every node reports an end itself (Epilog)."""
    known: dict[str, Any] = {"pass_at_end": 1} if found.settings.get("epilog") else {}
    with contextlib.suppress(ValueError):
        known["booted"] = unix_seconds(found.settings["boot_time"], tz) if "boot_time" in found.settings else None
    return Latency(**known)


def _of_nodes(partitions: Sequence[Partition], events: Sequence[NodeEvent]) -> list[NotUnderstood]:
    """Say what of nodes over time, and of partitions without nodes, a replay cannot know."""
    names = ", ".join(dict.fromkeys(one.nodes for one in events))
    effect = "closed for the whole of any log: strike their [[events]] out where the log is from before"
    return gaps_of([
        *((not one.nodes, f"partition {one.name} Nodes", "", "it has no nodes: no job of it can start there")
          for one in partitions),
        *(("," in one.name, f"partition {one.name}", "", "one partition of that name, which no job can ask for")
          for one in partitions),
        (events, "State", f"down or drained: {names}", effect),
    ])  # fmt: skip


def _preemption_gaps(
    found: Configuration, partitions: Sequence[Partition], of_qos: dict[str, str]
) -> list[NotUnderstood]:
    """Name what a site's preemption has that is not simulated."""
    kind = found.settings.get("preempttype", "preempt/none").lower().removeprefix("preempt/")
    mode = found.settings.get("preemptmode", "OFF")
    odd = (kind == "none") != {"cancel", "requeue", "suspend", "checkpoint"}.isdisjoint(words(mode))
    turns = gaps_of([(odd, "PreemptMode", mode, f"Slurm does not start with it beside PreemptType=preempt/{kind}")])
    turns += _turns(partitions, kind if "gang" in words(mode) else "none", found.where.get("preemptmode", ""))
    if kind == "none":
        return turns
    where, gaps = found.where.get("preempttype", ""), []
    if kind not in _PREEMPT_TYPES:
        gaps.append(("PreemptType", kind, "not simulated: jobs that would give way run on"))
    given = [("PreemptMode", mode), *((f"QOS {name} PreemptMode", text) for name, text in of_qos.items())]
    given += [(f"partition {one['partitionname']} PreemptMode", one.get("preemptmode", "")) for one in found.partitions]
    for setting, value in given:
        for word in words(value):
            if word in _NOT_PREEMPTED:
                gaps.append((setting, value, f"{word.upper()} is not simulated: {_NOT_PREEMPTED[word]}"))
    for word in words(found.settings.get("preemptparameters", "")):
        if word.partition("=")[0] not in _PREEMPT_WORDS:
            gaps.append(("PreemptParameters", word, "not modelled: other jobs may give way"))
    return gaps_of(((True, *gap) for gap in gaps), where) + turns


def _turns(partitions: Sequence[Partition], kind: str, where: str) -> list[NotUnderstood]:
    """Name the partitions whose jobs would share CPUs, in turns or at once, under ``PreemptMode=GANG``."""
    effect = "no two of its jobs share a CPU here, at once or in turns (as under OverSubscribe=FORCE:1)"
    alone = re.compile("no|exclusive|.*:1")
    told = gaps_of(
        (not alone.fullmatch(one.oversubscribe), f"partition {one.name} OverSubscribe", one.oversubscribe, effect)
        for one in partitions
    )
    reach = {each.name: set(expand_nodes(each.nodes)) for each in partitions if kind == "partition_prio"}
    effect = "Slurm lets their jobs run on the same CPUs at once; here they wait for each other"
    for one, other in itertools.combinations(partitions, 2) if reach else ():
        both = reach[one.name] & reach[other.name] or "ALL" in reach[one.name] | reach[other.name]
        names = f"partitions {one.name} and {other.name} share nodes"
        told += gaps_of([(both and one.priority_tier == other.priority_tier, "PriorityTier", names, effect)], where)
    return told


_PREEMPT_TYPES = {"partition_prio": "partition", "qos": "qos"}
_PREEMPT_WORDS = ("youngest_first", "strict_order", "reorder_count")
_NOT_PREEMPTED = {
    "suspend": "here such jobs run on, and those that would have their CPUs wait",
    "checkpoint": "here such jobs run on, and those that would have their CPUs wait",
    "within": "jobs of one QOS do not end each other",
    "priority": "jobs also give way to others of a lower priority",
}


def _scheduler(found: Configuration, unknown: list[NotUnderstood]) -> Scheduler:
    """Read SchedulerType and SchedulerParameters; adds what is not modelled."""
    where, get = found.where.get("schedulerparameters", ""), found.settings.get
    kind = get("schedulertype", "sched/backfill").removeprefix("sched/")
    told = [(kind not in ("backfill", "builtin"), "SchedulerType", kind, "backfill is taken in its place")]
    # Of a parameter that is a word alone the value is the word.
    given = {
        name: value or name
        for name, _, value in (word.lstrip("=").partition("=") for word in words(get("schedulerparameters", "")))
    }
    values, gaps = taken(SCHEDULER, given, lambda _: where, "SchedulerParameters ")
    effect = "this parameter of the scheduler is not modelled; which jobs overtake may differ"
    odd = sorted(given.keys() - {row.name for row in SCHEDULER} - NO_EFFECT["scheduler"])
    told += [(True, f"SchedulerParameters {name}", given[name], effect) for name in odd]
    off = given.get("sched_interval", "").startswith("-")
    told += [(off, "SchedulerParameters sched_interval", "-1", "the main scheduler is off in Slurm, but not here")]
    unknown += gaps + gaps_of(told)
    return Scheduler(backfill=kind != "builtin" and not given.get("bf_interval", "").startswith("-"), **values)


_MODELLED_FLAGS = {
    "no_normal_assoc", "no_normal_part", "no_normal_qos", "no_normal_tres", "no_normal_all", "fair_tree",
    "small_relative_to_time", "max_tres", "no_fair_tree", "accrue_always", "incr_only", "calculate_running",
}  # fmt: skip
_KNOWN_SELECT = re.compile(
    r"cr_(core|cpu|socket|memory|pack_nodes|lln|core_memory|cpu_memory|socket_memory|core_default_dist_block|"
    r"one_task_per_core)$|none$|multiple_sharing_gres_pj$"
)


def _priority(found: Configuration, values: dict[str, Any], tz: str | None, unknown: list[NotUnderstood]) -> Priority:
    """Read the priority's type and flags beside its rows; adds what is not modelled."""
    kind = found.settings.get("prioritytype", "priority/multifactor").removeprefix("priority/")
    told = any("RawUsage" in text for _, text in found.accounting)
    known = found.shown_at and (tz is not None or found.shown_at.isdecimal())
    with contextlib.suppress(ValueError):  # sshare ran beside scontrol
        values["usage_at"] = unix_seconds(found.shown_at, tz) if told and found.shown_at else None
    effect = "when sshare ran is not known (scontrol show config tells it, --tz its zone): strike usage of later out"
    unknown += gaps_of([(told and not known, "sshare RawUsage", "", effect)])
    odd = sorted(name for name in values.get("weight_tres", {}) if not is_counted(name))
    unknown += gaps_of([(odd, "PriorityWeightTRES", ",".join(odd), "this TRES counts for nothing in the priority")])
    flags = sorted(set(values.get("flags", ())) - _MODELLED_FLAGS)
    effect = "this flag is not modelled: the order of the queue may differ"
    unknown += gaps_of((True, f"PriorityFlags {flag}", "", effect) for flag in flags)
    if kind not in ("basic", "multifactor"):
        effect = "multifactor is taken in its place: the order of the queue may differ"
        unknown += gaps_of([(True, "PriorityType", kind, effect)])
        kind = "multifactor"
    return Priority(type=kind, **values)  # type: ignore[arg-type]


def _select(found: Configuration, values: dict[str, Any], unknown: list[NotUnderstood]) -> Select:
    get = found.settings.get
    kind = get("selecttype", "select/cons_tres").removeprefix("select/")
    given = words(get("selecttypeparameters", ""))
    unit = next((of for of in ("cpu", "socket") if any(word.startswith(f"cr_{of}") for word in given)), "core")
    values["consume"] = "node" if kind == "linear" else unit
    values["memory"] = (not given and kind != "linear") or any("memory" in word for word in given)
    values["pack_nodes"], values["lln"] = "cr_pack_nodes" in given, "cr_lln" in given
    # topology.yaml stands above the plugin (topology.yaml(5)).
    plugin = get("topologyplugin", "").removeprefix("topology/")
    if found.topology[0].endswith(".yaml"):
        each = re.split(r"(?m)^-\s*topology:", found.topology[1])
        default = next(
            (one for one in each if re.search(r"cluster_default:\s*(?i:true|yes)", one)), each[min(len(each) - 1, 1)]
        )
        plugin = "block" if re.search(r"(?m)^\s*block:", default) else "tree"
    values["topology"] = plugin if plugin in ("tree", "block") and found.network else "none"
    threads = any(node.get("threadspercore", "1") != "1" for node in found.nodes)
    of, network = "SelectTypeParameters", words(get("topologyparam", ""))
    unknown += gaps_of([
        (kind not in ("linear", "cons_tres", "cons_res"), "SelectType", kind,
         "cons_tres is taken in its place: which nodes a job gets may differ"),
        (values["pack_nodes"], f"{of} cr_pack_nodes", "", "nodes are chosen as without it: a job may get other ones"),
        ("cr_one_task_per_core" in given and threads, f"{of} cr_one_task_per_core", "",
         "in Slurm each task has a core of its own; here jobs take the CPUs that they ask for"),
        (unit == "socket", f"{of} cr_socket", "",
         "jobs take as few whole sockets as hold them; Slurm deals their tasks out to all free ones: jobs wait longer"),
        *((not _KNOWN_SELECT.match(word), f"{of} {word}", "", "cores are taken in its place")
          for word in given),
        (plugin == "block", "TopologyPlugin", plugin, "blocks are taken as leaf switches"),
        (plugin not in ("", "none", "default", "flat", "tree", "block"), "TopologyPlugin", plugin,
         "nodes are taken without a topology"),
        ("switchasnoderank" in network, "TopologyParam SwitchAsNodeRank", "",
         "nodes are taken in the order of their names, not of their switches"),
        *((word not in ("switchasnoderank", "routepart", "routetree"), f"TopologyParam {word}", "",
           "not modelled: which nodes a job gets may differ") for word in network),
    ])  # fmt: skip
    return Select(**values)


def _preemption(found: Configuration, values: dict[str, Any]) -> Preemption:
    get = found.settings.get
    kind = get("preempttype", "preempt/none").lower().removeprefix("preempt/")
    said = (*words(get("preemptparameters", "")), *words(get("schedulerparameters", "")))
    given = dict(word.removeprefix("preempt_").partition("=")[::2] for word in said)
    expire = re.search(r"cred_expire=(\d+)", get("authinfo", ""))
    values |= {
        "type": _PREEMPT_TYPES.get(kind, "none"),
        "mode": parsed(Row("preemptmode", read=mode_of), get("preemptmode", "off"), found.where.get("preemptmode", ""))
        or "off",
        "youngest_first": "youngest_first" in given,
        "strict_order": "strict_order" in given,
        "patience": sum(_number(found, name, usual) for name, usual in (("killwait", 30), ("messagetimeout", 10))),
    }
    if given.get("reorder_count", "").isdecimal():
        values["reorder_count"] = int(given["reorder_count"])
    if expire:
        values["requeue_delay"] = int(expire[1])
    return Preemption(**values)


def _number(found: Configuration, name: str, usual: int) -> int:
    text = found.settings.get(name)
    return parsed(Row(name, read=whole), text, found.where[name]) if text else usual  # type: ignore[no-any-return]


def read_partition(record: Record, unknown: list[NotUnderstood]) -> Partition:
    """Read a partition's line; adds what is not modelled."""
    name = record["partitionname"]
    values, gaps = taken(PARTITION, record, lambda _: record["_where"], f"partition {name} ")
    unknown += gaps + unlisted(record, PARTITION, "partition", f"partition {name}")
    effect = "not counted as billing: limits on it bind later, and its use costs less of a share, than in Slurm"
    odd = sorted(name for name in values.get("billing_weights", {}) if not is_counted(name))
    unknown += gaps_of(((True, f"partition {name} tresbillingweights", one, effect) for one in odd), record["_where"])
    try:
        return Partition(name=name, **values)
    except ValidationError as error:
        raise TableError(complaint(f"{record['_where']}, partition {name}", problems(error))) from None


def read_reservation(record: Record, tz: str | None) -> Reservation:
    """Read a reservation; ``tz`` is the zone of its times, unless they are Unix seconds."""

    def moment(key: str) -> int:
        try:
            return unix_seconds(record[key], tz)
        except ValueError:
            where = f"{record.get('_where', '')}, reservation {record['reservationname']} {key}"
            needed = "a time such as 2024-05-01T08:00:00 is needed"
            raise TableError(f"{where}: {record[key]!r} was given; {needed}") from None

    needed = ("reservationname", "starttime", "endtime")
    if missing := [key for key in needed if not record.get(key)]:
        at = f"{record['_where']}: " if "_where" in record else ""
        raise TableError(
            f"{at}a reservation has no {missing[0]}; `scontrol show reservation` prints {', '.join(needed)}"
        )
    return Reservation(
        name=record["reservationname"], start=moment("starttime"), end=moment("endtime"),
        nodes="" if "coreids" in record else record.get("nodes", ""),
        flags=names(record.get("flags", "")), users=names(record.get("users", "")),
        accounts=names(record.get("accounts", "")),
    )  # fmt: skip
