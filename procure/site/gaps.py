"""What a configuration says, or goes by, that is not modelled: each with what it may change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from procure.site.accounting import Accounting
from procure.site.conf import Configuration, Record
from procure.site.model import NotUnderstood, gaps_of
from procure.site.rows import NO_EFFECT, NODES, PARTITION, SETTINGS, TOGETHER, Row, parsed, taken
from procure.site.values import UNSET, enforced, whole, words
from procure.workload.slurm import MODEL, expand_nodes

GPU = re.compile(rf"gpu(?::(?!no_consume|\d+[kKmMgG]$)({MODEL}))?(?:[:=](\d+))?")
"""A node's GPUs: the model, and how many."""
_STATES = re.compile("(UNKNOWN|DOWN|IDLE|ALLOCATED|ERROR|MIXED|FUTURE|EXTERNAL|CLOUD.*|DRAIN.*|FAIL.*)?$")
"""What a line of a node may set."""


def without_database(found: Configuration) -> list[NotUnderstood]:
    """Take out what Slurm leaves without effect where no slurmdbd keeps its accounts, and name it."""
    store, gaps = found.settings.get("accountingstoragetype"), []
    for name in ("accountingstorageenforce", "priorityweightfairshare"):
        value = found.settings.get(name, "")
        if store and not store.endswith("slurmdbd") and not UNSET.fullmatch(value.lower()):
            effect = f"AccountingStorageType={store}: without slurmdbd it has no effect, in Slurm and here"
            gaps.append(NotUnderstood(setting=name, value=value, where=found.where[name], effect=effect))
            del found.settings[name]
    return gaps


def missing(found: Configuration, accounting: Accounting) -> list[NotUnderstood]:
    """Name the files that the configuration goes by and that do not stand beside it."""
    get = found.settings.get
    enforce = enforced(get("accountingstorageenforce", ""))
    limits = {"associations", "limits", "qos", "safe", "all"} & set(enforce)
    odd = ",".join(word for word in enforce if word not in (*limits, "0", "none", "wckeys", "nojobs", "nosteps"))
    shares = get("priorityweightfairshare", "0") != "0"
    ranks = get("priorityweightqos", "0") != "0" or get("preempttype", "").lower() == "preempt/qos"
    put = "are unknown and bind nobody; put beside slurm.conf what `sacctmgr show {} --parsable` prints"
    plugin = get("topologyplugin", "").removeprefix("topology/")
    gaps = gaps_of([
        ((limits or shares) and not accounting.associations.keys() - {("root", "", "")}, "associations", "",
         f"accounts, users and their limits {put.format('assoc tree')}"),
        ((limits or ranks) and not accounting.preempt_modes, "QOS", "", f"QOS and their limits {put.format('qos')}"),
        (shares and any(partition for _, _, partition in accounting.associations), "associations by partition", "",
         "in Slurm each has shares and use of its own; here a user is one, with a share of 1"),
        (odd, "AccountingStorageEnforce", odd, "no word of Slurm's: it enforces nothing"),
        (not get("selecttype"), "SelectType", "",
         "not given: cons_tres is taken, as by Slurm since 23.11; before it was linear, whole nodes: write it"),
        (not get("prioritytype") and any(get(row.name, "0") != "0" for row in SETTINGS if "weight" in row.name),
         "PriorityType", "",
         "not given: multifactor is taken, as by Slurm since 23.11; before it was basic, by submission: write it"),
        (plugin in ("tree", "block") and not found.topology[0], "TopologyPlugin", plugin,
         "topology.conf is missing: nodes are taken without a network; put it, or what `scontrol show topology` "
         "prints, beside slurm.conf"),
    ])  # fmt: skip
    if found.network and plugin in ("tree", ""):
        known, tops = set(found.network.nodes["node_id"]), found.network.n_tops
        alone = [n for each in found.nodes for n in expand_nodes(each["nodename"]) if n not in known] if plugin else []
        effect = "these nodes stand under no switch: in Slurm no job spans them and others, here one may"
        apart = f"{tops} switches have none in common: in Slurm no job spans them, here one may"
        rows = [(alone, "topology", ",".join(alone)[:80], effect), (tops > 1, "topology", "", apart)]
        gaps += gaps_of(rows, found.topology[0])
    return gaps


def contradicted(found: Configuration) -> list[NotUnderstood]:
    """Name what scontrol shows otherwise than the file that counts, as where it was changed since."""
    gaps = []
    for kept, other in found.twice:
        name, at = other.get("partitionname"), other["_where"]
        rows = [row for row in (PARTITION if name else SETTINGS) if kept.get(row.name) and other.get(row.name)]
        first, second = (
            [set(words(one[row.name])) if row.field == TOGETHER else parsed(row, one[row.name], at) for row in rows]
            for one in (kept, other)
        )
        odd = {row.name: "" for row, a, b in zip(rows, first, second, strict=True) if row.field and a != b}
        value = ",".join(sorted(odd.keys() - {"nodes", "accountingstorageenforce"}))
        effect = f"{kept.get('_where', 'slurm.conf')} has other values, which count here"
        gaps += gaps_of([(value, f"partition {name}" if name else "settings", value, effect)], at)
    return gaps


def listed_gpus(node: str, found: Configuration) -> dict[str, int]:
    """Count the GPUs that gres.conf lists for a node, by model; empty = none of a model."""
    counts: dict[str, int] = {}
    for each in found.gres_of.get(node, found.gres_of[""]):
        if each.get("name") == "gpu":
            files = str(len(expand_nodes(each.get("file", ""))) or 1)
            n = parsed(Row("count", read=whole), each.get("count", files), each["_where"])
            counts[each.get("type", "")] = counts.get(each.get("type", ""), 0) + n
    return counts


def gres_gaps(record: Record, found: Configuration) -> list[NotUnderstood]:
    """Name what a node has besides GPUs, and GPUs that gres.conf lists and its line does not."""
    given = [item for item in re.sub(r"\([^)]*\)", "", record.get("gres", "")).split(",") if item]
    other = sorted({item.partition(":")[0] for item in given if not GPU.fullmatch(item)} - {"", "N/A"})
    of = f"node {record['nodename'][:40]} gres"
    names = expand_nodes(record["nodename"])
    lines = {n: found.gres_of.get(n, found.gres_of[""]) for n in names}
    shown, gpus = "_shown" in record, any(item.startswith("gpu") for item in given)
    own = (each.get("name") == "gpu" and "nodename" in each for n in names for each in lines[n])
    detected = {n for n in names if any(one.get("autodetect", "off").lower() != "off" for one in lines[n])}
    listed = [] if shown else [listed_gpus(n, found) for n in names if n not in detected]
    matched = [match for item in given if (match := GPU.fullmatch(item))]
    n_given, models = sum(int(match[2] or 1) for match in matched), {(match[1] or "").lower() for match in matched}
    mine = [[n for model, n in each.items() if not model or {"", model.lower()} & models] for each in listed if each]
    fewer = min(map(sum, mine), default=n_given)
    return gaps_of([
        (fewer < n_given, of, f"{fewer} of {n_given}", "GPUs are in gres.conf: Slurm drains the node, here it has all"),
        (other, of, ",".join(other), "not modelled: jobs get what they ask for, and of GPUs none"),
        (gpus and not shown and "gpu" not in words(found.settings.get("grestypes", "")), of, "gpu",
         "GresTypes does not name it: in Slurm no job gets these, here they do; add gpu to GresTypes"),
        (not shown and not gpus and any(own), of, "",
         "gres.conf lists GPUs that its line does not have: Slurm gives out none, and so does procure"),
    ], record["_where"])  # fmt: skip


def geometry(given: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return a node's CPUs, its threads per core and its sockets, as Slurm makes them of what its line gives."""
    threads, cores, boards = (given.get(name) or 1 for name in ("threads_per_core", "cores", "boards"))  # 0 is 1
    cpus = given.get("cpus")
    each = cores * threads
    usual = cpus // each if cpus and cpus % each == 0 else boards
    sockets = boards * given["sockets_per_board"] if "sockets_per_board" in given else given.get("sockets") or usual
    if cpus not in (sockets, sockets * cores, sockets * each):
        cpus = sockets * each
    # CPUs that equal cores, or sockets, have one thread each, whatever threads there are (slurm.conf(5), CPUs).
    return cpus, threads if cpus == sockets * each else 1, sockets


def node_gaps(found: Configuration) -> list[NotUnderstood]:
    """Name what lines of nodes leave out or contradict, with what it is taken to be."""
    told: dict[tuple[str, str], list[Record]] = {}
    sizes: dict[str, tuple[Any, ...]] = {}
    if found.settings.get("fastschedule") == "0":
        effect = "nodes are as they report, not as their lines say: put what `scontrol show node` prints in their place"
        told["FastSchedule", effect] = [{"nodename": "0", "_where": found.where["fastschedule"]}]
    for record in found.nodes:
        given, _ = taken(NODES, record, lambda _: "")
        cpus, state = geometry(given)[0], record.get("state", "").upper()
        sized = given.keys() & {"cpus", "boards", "sockets", "sockets_per_board", "cores", "threads_per_core"}
        gres = re.sub(r"\([^)]*\)", "", record.get("gres", ""))
        size = cpus, given.get("mem_mb", 1), gres, given.get("features", ""), given.get("weight", 1)
        twice = [sizes.setdefault(name, size) for name in expand_nodes(record["nodename"])]
        gaps = {
            ("CPUs, RealMemory, Gres, Feature, Weight", "others stand in a file before, which count here"): any(
                one != size for one in twice
            ),
            ("CPUs", "not given: 1, as Slurm takes it"): not sized,
            ("CPUs", f"no product of sockets, cores and threads: {cpus}, as Slurm resets it"): (
                given.get("cpus", cpus) != cpus
            ),
            ("RealMemory", "not given: 1 MB, as Slurm takes it: jobs that ask for memory fit nowhere"): (
                "mem_mb" not in given
            ),
            ("State", f"{state} is no state of Slurm's: taken to be up"): (
                "_shown" not in record and not _STATES.match(state)
            ),
            ("State", "CLOUD: taken to be up whenever a job needs it"): "CLOUD" in state,
        }
        for gap in (gap for gap, there in gaps.items() if there):
            told.setdefault(gap, []).append(record)
    return [
        NotUnderstood(
            setting=setting, value=",".join(n["nodename"] for n in of)[:80], where=of[0]["_where"], effect=effect
        )
        for (setting, effect), of in told.items()
    ]


def unlisted(
    record: Record, table: Sequence[Row], kind: str, of: str, where: Record | None = None
) -> list[NotUnderstood]:
    """List what a line, or slurm.conf with its ``where``, says that no row of its table and no effect is known of."""
    known, at = {row.name for row in table} | NO_EFFECT[kind], where or dict.fromkeys(record, record.get("_where", ""))
    effect = "not known to procure; it is taken to have no effect on when jobs start"
    return [
        NotUnderstood(setting=f"{of} {key}".strip(), value=value[:80], where=at[key], effect=effect)
        for key, value in record.items()
        if not key.startswith("_") and "/" not in key and key not in known
        and not UNSET.fullmatch(value.lower()) and value.upper() not in ("N/A", "(NULL)")
    ]  # fmt: skip


_ALONE = "not modelled: its nodes are closed to others for its time alone"
_FLAGS = {
    **dict.fromkeys(("WEEKDAY", "WEEKEND"), "that it comes again is not modelled: it stands for its own day only"),
    "MAGNETIC": "jobs that do not name it stay outside, also of those whom it would draw",
    "TIME_FLOAT": "it begins ever later, as scontrol showed it: here it begins at the time shown",
    "REPLACE": "its nodes stay the same, also once jobs run on them",
    "PURGE_COMP": "it stands to its end, also where nobody uses it",
}


def reservation_gaps(records: list[Record]) -> list[NotUnderstood]:
    """Name what reservations set aside besides whole nodes."""
    gaps = []
    for record in records:
        name, get = f"reservation {record['reservationname']}", record.get
        groups, licences = (get(key, "").replace("(null)", "") for key in ("groups", "licenses"))
        flags = set(get("flags", "").upper().split(",")) - NO_EFFECT["reservation_flags"] - {""}
        gaps += gaps_of([
            ("coreids" in record, name, get("corecnt", ""), "of some cores of its nodes: these are free for everybody"),
            (groups, name, groups, "groups are not known: users and accounts that it names may use it"),
            (licences, name, licences, "licences are not reserved: any job may take them"),
            *((True, name, flag, _FLAGS.get(flag.partition("=")[0], _ALONE)) for flag in sorted(flags)),
        ], get("_where", ""))  # fmt: skip
        gaps += unlisted(record, (), "reservation", name)
    return gaps
