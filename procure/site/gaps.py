"""What a configuration says, or goes by, that is not modelled: each with what it may change."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from procure.site.accounting import Accounting
from procure.site.conf import Configuration, Record
from procure.site.model import NotUnderstood
from procure.site.network import parse_slurm_topology
from procure.site.rows import NO_EFFECT, SETTINGS, UNSET, Row, words
from procure.workload.slurm_text import expand_nodes

GPU = re.compile(r"gpu(?::([A-Za-z_][\w.-]*|\d[\w.-]*[A-Za-z_.-][\w.-]*))?(?:[:=](\d+))?")
"""A node's GPUs: the model, and how many."""


def missing(found: Configuration, accounting: Accounting) -> list[NotUnderstood]:
    """Name the files that the configuration goes by and that do not stand beside it."""
    lines = []
    enforced = {"associations", "limits", "qos", "safe", "all"} & set(
        words(found.settings.get("accountingstorageenforce", ""))
    )
    if enforced and not accounting.associations:
        lines.append(
            ("associations", "accounts, users and their limits are unknown and bind nobody", "show assoc tree")
        )
    if enforced and not any("qos" in text.lower() or "Priority|" in text for _, text in found.accounting):
        lines.append(("QOS", "QOS and their limits are unknown and bind nobody", "show qos"))
    gaps = [
        NotUnderstood(
            setting=what, effect=f"{effect}; put beside slurm.conf what `sacctmgr {command} --parsable` prints"
        )
        for what, effect, command in lines
    ]
    plugin = found.settings.get("topologyplugin", "").removeprefix("topology/")
    if plugin in ("tree", "block") and not found.topology[0]:
        effect = (
            "topology.conf is missing: nodes are taken without a network; put it, or what `scontrol show topology` "
            "prints, beside slurm.conf"
        )
        gaps.append(NotUnderstood(setting="TopologyPlugin", value=plugin, effect=effect))
    if found.topology[0] and plugin in ("tree", ""):
        tops = parse_slurm_topology(found.topology[1], found.topology[0]).n_tops
        if tops > 1:
            effect = f"{tops} switches have none in common: in Slurm no job spans them, here one may"
            gaps.append(NotUnderstood(setting="topology", where=found.topology[0], effect=effect))
    return gaps


def gres_gaps(record: Record, found: Configuration) -> list[NotUnderstood]:
    """Name what a node has besides GPUs, and GPUs that gres.conf lists and its line does not."""
    given = [item for item in re.sub(r"\([^)]*\)", "", record.get("gres", "")).split(",") if item]
    other = sorted({item.partition(":")[0] for item in given if not GPU.fullmatch(item)} - {"", "N/A"})
    of = f"node {record['nodename'][:40]} gres"
    gaps = []
    if other:
        effect = "not modelled: jobs that ask for it start as if there were enough of it"
        gaps.append(NotUnderstood(setting=of, value=",".join(other), where=record["_where"], effect=effect))
    if "_shown" not in record and not any(item.startswith("gpu") for item in given):
        listed = {
            n
            for each in found.gres
            if each.get("name") == "gpu" and "nodename" in each
            for n in expand_nodes(each["nodename"])
        }
        if listed & set(expand_nodes(record["nodename"])):
            effect = "gres.conf lists GPUs that its line does not have: Slurm gives out none, and so does procure"
            gaps.append(NotUnderstood(setting=of, where=record["_where"], effect=effect))
    return gaps


def unlisted(record: Record, table: Sequence[Row], harmless: Collection[str], of: str) -> list[NotUnderstood]:
    """List what a line says that no row of its table knows."""
    known = {row.name for row in table}
    effect = "not known to procure; it is taken to have no effect on when jobs start"
    return [
        NotUnderstood(setting=f"{of} {key}", value=value[:80], where=record["_where"], effect=effect)
        for key, value in record.items()
        if not key.startswith("_") and "/" not in key and key not in known and key not in harmless
        and not UNSET.fullmatch(value.lower()) and value.upper() not in ("N/A", "(NULL)")
    ]  # fmt: skip


def of_cores(record: Record) -> bool:
    """Tell whether a reservation is of some cores of its nodes only."""
    return "coreids" in record


def reservation_gaps(records: list[Record]) -> list[NotUnderstood]:
    """Name what reservations set aside besides whole nodes."""
    gaps = []
    for record in records:
        name = record["reservationname"]
        if of_cores(record):
            effect = "of some cores of its nodes: these are taken as free for everybody"
            gaps.append((name, record.get("corecnt", ""), effect))
        if said := [word for word in record.get("flags", "").split(",") if word in ("WEEKDAY", "WEEKEND")]:
            gaps.append((name, ",".join(said), "that it comes again is not modelled: it stands for its own day only"))
        if record.get("licenses", "(null)") not in ("(null)", ""):
            gaps.append((name, record["licenses"], "licences are not reserved: any job may take them"))
    return [NotUnderstood(setting=f"reservation {n}", value=v, effect=e) for n, v, e in gaps]


def no_rows(found: Configuration) -> list[NotUnderstood]:
    """List settings that no row knows, unless their names say that they leave starts alone."""
    known = {row.name for row in SETTINGS}
    effect = "not known to procure; it is taken to have no effect on when jobs start"
    return [
        NotUnderstood(setting=key, value=value[:80], where=found.where[key], effect=effect)
        for key, value in found.settings.items()
        if key not in known and key not in NO_EFFECT and not UNSET.fullmatch(value.lower())
    ]
