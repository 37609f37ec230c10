"""Accounts, users and QOS: from a script of sacctmgr commands, its dump, or its ``--parsable`` tables."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from procure.errors import TableError
from procure.site.model import Association, Limits, Mode, NotUnderstood, Qos
from procure.workload.slurm_text import slurm_duration, slurm_memory

_COUNTS = {
    "grpjobs": "grp_jobs", "grpsubmitjobs": "grp_submit_jobs", "grpsubmit": "grp_submit_jobs",
    "maxjobs": "max_jobs", "maxsubmitjobs": "max_submit_jobs", "maxsubmit": "max_submit_jobs",
    "maxjobsperuser": "max_jobs_per_user", "maxjobspu": "max_jobs_per_user",
    "maxjobsperaccount": "max_jobs_per_account", "maxjobspa": "max_jobs_per_account",
    "maxsubmitjobsperuser": "max_submit_jobs_per_user", "maxsubmitpu": "max_submit_jobs_per_user",
    "maxsubmitjobspu": "max_submit_jobs_per_user", "maxsubmitpa": "max_submit_jobs_per_account",
    "maxsubmitjobsperaccount": "max_submit_jobs_per_account", "maxsubmitjobspa": "max_submit_jobs_per_account",
}  # fmt: skip
_TRES = {
    "grptres": "grp_tres", "grptresmins": "grp_tres_mins", "grptresrunmins": "grp_tres_run_mins",
    "maxtres": "max_tres_per_job", "maxtresperjob": "max_tres_per_job", "maxtrespj": "max_tres_per_job",
    "maxtrespernode": "max_tres_per_node", "maxtrespn": "max_tres_per_node",
    "maxtresperuser": "max_tres_per_user", "maxtrespu": "max_tres_per_user",
    "maxtresperaccount": "max_tres_per_account", "maxtrespa": "max_tres_per_account",
    "maxtresmins": "max_tres_mins_per_job", "maxtresminsperjob": "max_tres_mins_per_job",
    "maxtresminspj": "max_tres_mins_per_job",
    "mintres": "min_tres_per_job", "mintrespj": "min_tres_per_job", "mintresperjob": "min_tres_per_job",
}  # fmt: skip
_OLD_TRES = {
    "grpcpus": ("grp_tres", "cpu"), "grpnodes": ("grp_tres", "node"), "grpmemory": ("grp_tres", "mem"),
    "maxcpus": ("max_tres_per_job", "cpu"), "maxcpusperjob": ("max_tres_per_job", "cpu"),
    "maxnodes": ("max_tres_per_job", "node"), "maxnodesperjob": ("max_tres_per_job", "node"),
    "maxcpusperuser": ("max_tres_per_user", "cpu"), "maxcpuspu": ("max_tres_per_user", "cpu"),
    "maxnodesperuser": ("max_tres_per_user", "node"), "maxnodespu": ("max_tres_per_user", "node"),
    "grpcpumins": ("grp_tres_mins", "cpu"), "maxcpumins": ("max_tres_mins_per_job", "cpu"),
}  # fmt: skip
_IGNORED = {
    "name", "names", "account", "user", "cluster", "partition", "description", "organization", "adminlevel",
    "defaultaccount", "defaultqos", "parent", "parentname", "coordinator", "rawusage", "where", "set", "id", "lft",
    "rgt", "comment", "email", "defqos", "accounts", "users", "clusters", "defaultwckey", "withdeleted",
}  # fmt: skip

_WHO = ("name", "account", "user", "cluster", "partition")
_OF_QOS = {
    "maxjobs": "maxjobsperuser",
    "maxsubmitjobs": "maxsubmitjobsperuser",
    "maxsubmit": "maxsubmitjobsperuser",
}


@dataclass
class Accounting:
    """What has been read so far, by name."""

    qos: dict[str, dict[str, Any]] = field(default_factory=dict)
    associations: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    events: list[dict[str, str]] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)
    cluster_qos: tuple[str, ...] = ()

    def all_qos(self) -> tuple[Qos, ...]:
        """Return the QOS; ``normal`` is always there, unless it was removed."""
        return tuple(Qos(**each) for each in self.qos.values())

    def all_associations(self) -> tuple[Association, ...]:
        """Return the associations, accounts before users."""
        return tuple(Association(**each) for _, each in sorted(self.associations.items()))


def read_accounting(files: list[tuple[str, str]]) -> Accounting:
    """Read files of sacctmgr commands, dumps and tables; later files add to earlier ones."""
    found = Accounting(qos={"normal": {"name": "normal"}})
    for name, text in files:
        first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
        if "|" in first:
            _take_table(name, text, found)
        elif re.match(r"(Cluster|Parent|Account|User) - ", first):
            _take_dump(name, text, found)
        else:
            _take_script(name, text, found)
    return found


def _assoc(found: Accounting, account: str, user: str = "", partition: str = "") -> dict[str, Any]:
    made = {"account": account, "user": user, "partition": partition}
    return found.associations.setdefault((account, user, partition), made)


def _take_script(name: str, text: str, found: Accounting) -> None:
    for number, raw in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(raw, comments=True)
        except ValueError:
            found.not_understood.append(NotUnderstood(setting="line", value=raw, where=f"{name}:{number}"))
            continue
        words = [word for word in words if word not in ("sacctmgr", "-i")]
        if len(words) < 2 or words[0].lower() in ("list", "show"):
            continue
        _command(words, f"{name}:{number}", found)


def _command(words: list[str], where: str, found: Accounting) -> None:
    verb, kind, rest = words[0].lower(), words[1].lower(), words[2:]
    target: dict[str, str] = {}
    given: dict[str, str] = {}
    part = given
    for word in rest:
        if word.lower() in ("where", "set"):
            part = target if word.lower() == "where" else given
            continue
        key, equals, value = word.partition("=")
        into = (
            target
            if not equals or key.lower().rstrip("s") in ("name", "account", "user", "cluster", "partition")
            else part
        )
        sign = key[-1] if equals and key[-1:] in ("+", "-") and key.lower().startswith("qos") else ""
        into[key.lower().rstrip("+-") + sign if equals else "name"] = value if equals else word
    names = (target.get("name") or target.get("names") or target.get(kind) or "").split(",")
    if kind == "cluster":
        if "qos" in given:
            found.cluster_qos = tuple(given["qos"].split(","))
    elif kind == "qos":
        for each in filter(None, names):
            if verb in ("remove", "delete"):
                found.qos.pop(each, None)
            else:
                take_qos(found.qos.setdefault(each, {"name": each}), given, where, found)
    elif kind == "account":
        for each in filter(None, names):
            held = _assoc(found, each)
            if "parent" in given:
                held["parent"] = given["parent"]
            take_assoc(held, given, where, found)
    elif kind == "user":
        _take_user(verb, names, target, given, where, found)
    elif kind != "associations":
        found.not_understood.append(NotUnderstood(setting=f"{verb} {kind}", where=where, effect="not read"))


def _take_user(
    verb: str, names: list[str], target: dict[str, str], given: dict[str, str], where: str, found: Accounting
) -> None:
    for user in filter(None, names):
        default = given.get("defaultaccount", "")
        accounts = [a for a in target.get("account", target.get("accounts", default)).split(",") if a]
        if verb == "modify" or not accounts:
            held = [a for (a, u, _) in found.associations if u == user and (not accounts or a in accounts)]
            accounts = held or accounts
        for account in accounts:
            record = _assoc(found, account, user, target.get("partition", ""))
            if account == default:
                record["default"] = True
            take_assoc(record, given, where, found)
    if not any(names) and verb == "modify":
        for key, record in list(found.associations.items()):
            if key[1]:
                take_assoc(record, given, where, found)


def _take_dump(name: str, text: str, found: Accounting) -> None:
    """Take ``sacctmgr dump``: ``Account - 'a':Fairshare=1:QOS='x'`` below ``Parent - 'root'``."""
    parent = "root"
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"(Cluster|Parent|Account|User) - '?([^':]*)'?(.*)", line)
        if not match:
            continue
        kind, who, rest = match.groups()
        given = {key.lower(): value.strip("'") for key, value in re.findall(r":(\w+)=('[^']*'|[^:]*)", rest)}
        where = f"{name}:{number}"
        if kind == "Parent":
            parent = who
        elif kind == "Cluster":
            found.cluster_qos = tuple(filter(None, given.get("qos", "").split(",")))
        elif kind == "Account":
            record = _assoc(found, who)
            record["parent"] = parent
            take_assoc(record, given, where, found)
        else:
            record = _assoc(found, parent, who, given.get("partition", ""))
            if given.get("defaultaccount") == parent:
                record["default"] = True
            take_assoc(record, given, where, found)


def _take_table(name: str, text: str, found: Accounting) -> None:
    """Take ``sacctmgr show qos|assoc|event --parsable``."""
    rows = [line.rstrip("|").split("|") if line.count("|") else [] for line in text.splitlines() if line.strip()]
    header = [word.strip().lower().replace(" ", "").replace("def qos", "defqos") for word in rows[0]]
    for number, row in enumerate(rows[1:], 2):
        record = dict(zip(header, row, strict=False))
        where = f"{name}:{number}"
        given = {key: value for key, value in record.items() if value}
        if not {"nodename", "timestart"} & set(header) and not given.get("account", given.get("name")):
            line = NotUnderstood(
                setting="line", value="|".join(row), where=where, effect="not a row of the table above it"
            )
            found.not_understood.append(line)
        elif "nodename" in header or "timestart" in header:
            found.events.append(given)
        elif "account" in header:
            held = _assoc(found, record["account"], record.get("user", ""), record.get("partition", ""))
            if given.get("parname") or given.get("parentname"):
                held["parent"] = given.pop("parname", "") or given.pop("parentname", "")
            if not (record["account"] == "root" and not record.get("user")):
                take_assoc(held, given, where, found)
        elif "name" in header:
            take_qos(found.qos.setdefault(record["name"], {"name": record["name"]}), given, where, found)


def _limit(record: dict[str, Any], key: str, value: str) -> bool:
    """Take one limit; says whether it is one. −1 takes a limit away."""
    limits = record["limits"].model_dump() if "limits" in record else {}
    if key in _COUNTS:
        limits[_COUNTS[key]] = None if value.startswith("-") else int(value)
    elif key in _TRES:
        amounts = dict(limits.get(_TRES[key], {}))
        for item in filter(None, value.split(",")):
            name, _, amount = item.partition("=")
            if amount.startswith("-"):
                amounts.pop(name, None)
            else:
                amounts[name] = round(slurm_memory(amount)[0]) if name == "mem" else int(float(amount))
        limits[_TRES[key]] = amounts
    elif key in _OLD_TRES:
        group, name = _OLD_TRES[key]
        amounts = {k: v for k, v in limits.get(group, {}).items() if k != name}
        limits[group] = amounts if value.startswith("-") else amounts | {name: int(value)}
    elif key in ("maxwall", "maxwalldurationperjob", "grpwall"):
        minutes = value.isdecimal()
        seconds = None if value.startswith("-") else 60 * int(value) if minutes else int(slurm_duration(value))
        limits["grp_wall" if key == "grpwall" else "max_wall"] = seconds
    else:
        return False
    record["limits"] = Limits(**limits)
    return True


def _held_qos(record: dict[str, Any], found: Accounting) -> tuple[str, ...]:
    """Return the QOS of an association: its own, else those of its account, of the accounts above, of the cluster."""
    account, seen = record, set[str]()
    while not account.get("qos"):
        above = account["account"] if account.get("user") else account.get("parent", "")
        if not above or above in seen:
            return found.cluster_qos or ("normal",)
        seen.add(above)
        account = found.associations.get((above, "", ""), {"account": above})
    return tuple(account["qos"])


def take_assoc(record: dict[str, Any], given: dict[str, str], where: str, found: Accounting) -> None:
    """Take settings of an association, by their names in lower case; what is not modelled is noted."""
    for key, value in given.items():
        try:
            _take_assoc(record, key, value, where, found)
        except ValueError:
            raise TableError(f"{where}: {key}={value!r} of an association: a number is needed") from None


def _take_assoc(record: dict[str, Any], key: str, value: str, where: str, found: Accounting) -> None:
    if key in ("fairshare", "share", "shares", "fairshares"):
        record["shares"] = "parent" if value.lower() == "parent" or value == "2147483647" else int(value)
    elif key in ("qos", "qoslevel", "qoslist", "qoslevels"):
        record["qos"] = tuple(filter(None, value.lstrip("+,").split(",")))
    elif key[:-1] in ("qos", "qoslevel", "qoslist", "qoslevels") and key[-1] in "+-":
        named = [one for one in value.split(",") if one]
        kept = [one for one in _held_qos(record, found) if one not in named]
        record["qos"] = tuple(kept + named if key[-1] == "+" else kept)
    elif key in ("defaultqos", "defqos"):
        record["default_qos"] = value
    elif key == "rawusage":
        record["usage"] = float(value)
    elif key == "priority":
        record["priority"] = int(value)
    elif not _take_limit(record, key, value, where, found) and key not in _IGNORED:
        _not_known("association", key, value, where, found)


def _take_limit(record: dict[str, Any], key: str, value: str, where: str, found: Accounting) -> bool:
    try:
        return _limit(record, key, value)
    except ValueError:
        effect = "not a number; the limit is not applied"
        found.not_understood.append(NotUnderstood(setting=key, value=value, where=where, effect=effect))
        return True


def take_qos(record: dict[str, Any], given: dict[str, str], where: str, found: Accounting) -> None:
    """Take settings of a QOS, by their names in lower case; what is not modelled is noted."""
    for key, value in given.items():
        try:
            _take_qos(record, key, value, where, found)
        except ValueError:
            raise TableError(f"{where}: {key}={value!r} of a QOS: a number is needed") from None


def _take_qos(record: dict[str, Any], key: str, value: str, where: str, found: Accounting) -> None:
    key = _OF_QOS.get(key, key)
    if key == "priority":
        record["priority"] = int(value)
    elif key == "preempt":
        record["preempt"] = tuple(filter(None, value.split(",")))
    elif key == "preemptmode":
        mode = mode_of(value)
        if mode is not None or value.lower() != "cluster":
            record["preempt_mode"] = mode
    elif key in ("preemptexempttime", "preemptexempt"):
        record["exempt_time"] = int(slurm_duration(value)) if not value.startswith("-") else None
    elif key == "usagefactor":
        record["usage_factor"] = float(value)
    elif key == "flags":
        record["flags"] = tuple(filter(None, value.split(",")))
    elif key == "gracetime":
        record["grace_time"] = 0 if value.startswith("-") else _grace(value)
    elif not _take_limit(record, key, value, where, found) and key not in _IGNORED:
        _not_known("QOS", key, value, where, found)


def _grace(text: str) -> int:
    """Read seconds, or a time such as 00:02:00."""
    return int(text) if text.isdecimal() else int(slurm_duration(text))


def mode_of(text: str) -> Mode | None:
    """Return how preempted jobs end, from the words of a PreemptMode; None = it does not say."""
    for mode in ("off", "cancel", "requeue", "suspend"):
        if mode in text.lower().split(","):
            return mode  # type: ignore[return-value]
    return None


def _not_known(what: str, key: str, value: str, where: str, found: Accounting) -> None:
    effect = f"a setting of the {what} that is not modelled: its jobs may be held or ordered otherwise"
    found.not_understood.append(NotUnderstood(setting=key, value=value, where=where, effect=effect))
