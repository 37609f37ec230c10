"""Accounts, users and QOS: from a script of sacctmgr commands, its dump, or its ``--parsable`` tables."""

from __future__ import annotations

import itertools
import re
import shlex
from dataclasses import dataclass, field
from typing import Any

from procure.errors import TableError
from procure.site.limits import is_counted
from procure.site.model import NotUnderstood, gaps_of
from procure.site.rows import ASSOCIATION, LIMITS, NO_EFFECT, QOS, Row, parsed, taken
from procure.site.values import names
from procure.text import listed

SACCTMGR = re.compile(r"(?im)^\s*(?:\$ )?(?:sudo\s+)?(?:\S*/|\$\{?)?sacctmgr\}?\s")
"""A line of a script, in which its own variable may hold the command."""
_REDIRECTED = re.compile(r"\s\d*[<>]{1,2}&?\s*\S+")
_LIMITS = {row.name: row for row in LIMITS}
_FIELD = {row.name: row.field for row in ASSOCIATION}
_VERBS = {"add": "add", "create": "add", "modify": "modify", "update": "modify", "remove": "remove", "delete": "remove"}
_NAMED = re.compile(r"(name|account|user|qos(level|list)?|parent|default(account|qos)|preempt)s?[+-]?")
"""Whose values are names, which sacctmgr keeps in lower case."""
_QOS_FLAGS = {"denyonlimit", "overpartqos", "nodecay"}
"""Flags of a QOS that are modelled, or that decide only what becomes of a job that may never start."""
_OF_QOS = {"maxjobs": "maxjobsperuser", "maxsubmitjobs": "maxsubmitjobsperuser", "maxsubmit": "maxsubmitjobsperuser"}


_USUAL = ("normal",)
"""QOS of root where a cluster is given none."""
_OTHER = "not ClusterName: taken for this cluster all the same"
_HEADINGS = {"defacct": "defaultaccount", "descr": "description", "org": "organization", "admin": "adminlevel"}


@dataclass
class Accounting:
    """What has been read so far, by name."""

    qos: dict[str, dict[str, Any]] = field(default_factory=dict)
    associations: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    of_user: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)  # these, before sshare's
    events: list[dict[str, str]] = field(default_factory=list)
    reservations: list[dict[str, str]] = field(default_factory=list)
    cluster: str = ""
    not_understood: list[NotUnderstood] = field(default_factory=list)
    preempt_modes: dict[str, str] = field(default_factory=dict)  # of QOS, as they stand

    def say(self, setting: str, value: str, where: str, effect: str) -> None:
        """Note what is not modelled."""
        self.not_understood += gaps_of([(True, setting, value, effect)], where)


def read_accounting(files: list[tuple[str, str]], cluster: str = "") -> Accounting:
    """Read files of sacctmgr commands, dumps and tables, of which rows of another cluster than this are left out.

    Later files add to earlier ones, and those of sshare come last; what they say otherwise is noted.
    """
    found = Accounting(qos={"normal": {"name": "normal"}}, cluster=cluster)
    before = _told(found)
    effect = "a file before has other values: those of this one stand; take out what is not in force"
    for name, text in sorted(files, key=lambda file: "RawUsage" in file[1]):
        first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
        if "|" in first:
            _take_table(name, text, found)
        elif re.match(r"(Cluster|Parent|Account|User|QOS) - ", first):
            _take_dump(name, text, found)
        else:
            _take_script(name, text, found)
        after = _told(found)
        odd = dict.fromkeys(key[0] for key, value in before.items() if after.get(key) != value)
        found.not_understood += gaps_of([(odd, "sacctmgr", ", ".join(odd)[:80], effect)], name)
        before = after
    return found


def _told(found: Accounting) -> dict[tuple[str, str, str], Any]:
    """Return what is said so far: a value each of QOS and associations, but for the usage, by what it is of."""
    told = {}
    known = {f"QOS {name}": one for name, one in found.qos.items()}
    for of, record in (known | {" ".join(key).rstrip(): one for key, one in found.associations.items()}).items():
        for name, value in {**record, **record.get("limits", {}), "limits": "", "usage": ""}.items():
            for tres, amount in value.items() if isinstance(value, dict) else [("", value)]:
                told[of, name, tres] = set(amount) if isinstance(amount, tuple) else amount
    return told


def _assoc(found: Accounting, account: str, user: str = "", partition: str = "") -> dict[str, Any]:
    made = {"account": account, "user": user, "partition": partition}
    return found.associations.setdefault((account, user, partition), made)


def _take_script(name: str, text: str, found: Accounting) -> None:
    held = ""
    for number, line in enumerate(text.splitlines(), 1):
        raw, held = held + line, ""
        if raw.endswith("\\"):
            held = raw[:-1]
            continue
        raw = _REDIRECTED.sub("", re.sub(r"(?i)(^\s*\$ |\$\{?)sacctmgr\b\}?", "sacctmgr", raw))
        try:
            tokens = shlex.shlex(raw, posix=True, punctuation_chars=";&|")
            tokens.whitespace_split = True
            words = list(tokens)
        except ValueError:
            found.say("line", raw, f"{name}:{number}", "a quotation mark is not closed: not read")
            continue
        if "$" in raw:
            effect = "holds a variable of the shell: not read; put what `sacctmgr dump` writes in its place"
            found.say("line", raw[:80], f"{name}:{number}", effect)
            continue
        for apart, command in itertools.groupby(words, lambda word: word.strip(";&|") == ""):
            each = list(command)
            at = next((n for n, word in enumerate(each, 1) if re.fullmatch(r"(\S*/)?sacctmgr", word)), 0)
            each = list(itertools.dropwhile(lambda word: word.startswith("-"), each[at:]))
            word = each[0].lower() if each and not apart else ""
            verb = next((what for full, what in _VERBS.items() if len(word) > 2 and full.startswith(word)), "")
            if verb and len(each) > 1:
                _command(verb, each[1:], f"{name}:{number}", found)
            elif word not in ("", "list", "show", "set") and (at or not SACCTMGR.search(text)):
                found.say(" ".join(each[:2]), "", f"{name}:{number}", "not read")


def _command(verb: str, words: list[str], where: str, found: Accounting) -> None:
    kind, rest = re.sub("(account|user)s$", r"\1", words[0].lower()), words[1:]
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
        signed = key[-1:] in ("+", "-") and key.lower().startswith(("qos", "flags", "preempt"))
        key, value = (key.lower() if signed else key.lower().rstrip("+-"), value) if equals else ("name", word)
        into[key] = value.lower() if _NAMED.fullmatch(key) else value
    names = (target.get("name") or target.get("names") or target.get(kind) or "").split(",")
    others = {one for one in target.get("cluster", target.get("clusters", "")).lower().split(",") if one}
    if kind in ("account", "user") and others and found.cluster and found.cluster.lower() not in others:
        found.say(f"{verb} {kind}", ",".join(names), where, f"of cluster {', '.join(sorted(others))}: not read")
    elif kind in ("account", "qos") and not any(names):
        found.say(f"{verb} {kind}", "", where, "not read: it names none, and changes all")
    elif verb == "remove" and kind in ("account", "user"):
        n, of = (0, "") if kind == "account" else (1, target.get("account", ""))
        for gone in [one for one in found.associations if one[n] in names and of in ("", one[0])]:
            del found.associations[gone]
    elif kind == "cluster":
        _take_root(given, where, found)
    elif kind == "qos":
        for each in filter(None, names):
            if verb == "remove":
                found.qos.pop(each, None)
            else:
                take_qos(found.qos.setdefault(each, {"name": each}), given, where, found)
    elif kind == "account":
        _assoc(found, "root").setdefault("qos", _USUAL)
        for each in filter(None, names):
            held = _assoc(found, each)
            if "parent" in given:
                held["parent"] = given["parent"]
            take_assoc(held, given, where, found)
    elif kind == "user":
        _take_user(verb, names, target, given, where, found)
    elif kind != "associations":
        found.say(f"{verb} {kind}", "", where, "not read")


def _take_user(
    verb: str, names: list[str], target: dict[str, str], given: dict[str, str], where: str, found: Accounting
) -> None:
    for user in filter(None, names):
        default = given.get("defaultaccount", "")
        accounts = [a for a in target.get("account", target.get("accounts", default)).split(",") if a]
        if verb == "modify" or not accounts:
            held = [a for (a, u, _) in found.associations if u == user and (not accounts or a in accounts)]
            accounts = held or accounts
        if not accounts:
            found.say(f"{verb} user", user, where, "not read: it names no account, and none before does")
        for account, partition in itertools.product(accounts, target.get("partition", "").split(",")):
            there = [each for key, each in found.associations.items() if key[:2] == (account, user)]
            every = verb == "modify" and not partition and there
            for record in every or [_assoc(found, account, user, partition)]:
                if account == default:
                    record["default"] = True
                take_assoc(record, given, where, found)
    if not any(names) and verb == "modify":
        of = target.get("account", "").split(",")
        for key, record in list(found.associations.items()):
            if key[1] and (of == [""] or key[0] in of):
                take_assoc(record, given, where, found)


def _take_dump(name: str, text: str, found: Accounting) -> None:
    """Take ``sacctmgr dump``: ``Account - 'a':Fairshare=1:QOS='x'`` below ``Parent - 'root'``."""
    parent, mine = "root", rf"Cluster - '?{re.escape(found.cluster)}'?(?::|$)"
    if re.search(f"(?im)^{mine}", text):  # then what is of others counts for nothing; lines keep their numbers
        others = rf"(?ims)^(?=Cluster - )(?!{mine}).*?(?=^Cluster - |\Z)"
        text = re.sub(others, lambda of: "\n" * of[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"(Cluster|Parent|Account|User|QOS) - '?(.*?)'?(:|(?::\w+[+-]?=.*)?)$", line)
        if not match:
            continue
        kind, who, rest = match.groups()
        pairs = re.findall(r":(\w+[+-]?)=('[^']*'|(?:[^:]|(?<=gres/gpu):)*)", rest)
        given = {key.lower(): value.strip("'") for key, value in pairs}
        where = f"{name}:{number}"
        if kind == "Parent":
            parent = who
        elif kind == "QOS":
            take_qos(found.qos.setdefault(who, {"name": who}), given, where, found)
        elif kind == "Cluster":
            if found.cluster and who.lower() != found.cluster.lower():
                found.say("cluster", who, where, _OTHER)
            _assoc(found, "root").setdefault("qos", _USUAL)
            _take_root(given, where, found)
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
    """Take ``sacctmgr show qos|assoc|event|reservation --parsable``, or ``sshare --parsable``."""
    (_, first), *lines = ((n, line) for n, line in enumerate(text.splitlines(), 1) if re.match(r"\s*[^#\s]", line))
    header = [word.strip().lower().replace(" ", "") for word in first.split("|")]
    header = [_HEADINGS.get(word, word) for word in header]
    header = [word if "account" in header or word != "defaultaccount" else "account" for word in header]  # show user
    rows = [(f"{name}:{number}", dict(zip(header, line.split("|"), strict=False))) for number, line in lines]
    clusters = {row["cluster"].strip().lower() for _, row in rows if row.get("cluster")}
    mine = found.cluster.lower()
    if not set(header) & ({"timestart", "account"} | {row.name for row in (*QOS, *LIMITS)}) or "server" in header:
        return found.say("file", "", name, "none of sacctmgr's that is read")
    if len(clusters) > 1 and mine not in clusters:
        raise TableError(f"{name}: holds clusters {listed(sorted(clusters))}, and none is ClusterName; print one alone")
    if clusters and mine and mine not in clusters:
        found.say("cluster", ", ".join(clusters), name, _OTHER)
    if not set(header) & ({"timestart", "rawusage"} | _LIMITS.keys()):
        found.say("columns", first[:80], name, "limits are not among them, and are taken as none: print all columns")
    gone = 0
    for key, each in found.associations.items() if "rawusage" in header else ():
        found.of_user.setdefault(key[:2], []).append(each)
    above: list[tuple[int, str]] = []  # accounts above the row, by how far their names are set in (show assoc tree)
    for (where, row), (_, line) in zip(rows, lines, strict=True):
        if len(clusters) > 1 and row.get("cluster", "").strip().lower() != mine:
            continue
        if "Deleted" in row.get("flags", "") or row.get("deleted") == "1":  # withdeleted
            gone += 1
            continue
        if line.count("|") + 1 != len(header) or not (row.get("account") or row.get("name") or "timestart" in header):
            found.say("line", line[:80], where, "not a row of the table above it")
            continue
        given = {key: value for key, value in row.items() if value}
        if "timestart" in header:
            (found.reservations if "name" in header else found.events).append(given | {"_where": where})
        elif "account" in header:
            _take_assoc_row(given, where, above, found)
        else:
            take_qos(found.qos.setdefault(row["name"], {"name": row["name"]}), given, where, found)
    flat = len(above) == 1 and not {"parname", "parentname"} & set(header)
    many = len({row["account"] for _, row in rows if row.get("account", "root") != "root"}) > 1 if flat else False
    found.not_understood += gaps_of([
        (gone, "rows", str(gone), "deleted, as withdeleted shows them: not used"),
        (many, "ParentName", "", "not in the table, nor are names set in (show assoc tree): all are taken below root"),
    ], name)  # fmt: skip


def _take_assoc_row(given: dict[str, str], where: str, above: list[tuple[int, str]], found: Accounting) -> None:
    """Take an association; its account stands in the tree as deep as its name is set in."""
    shown = given["account"]
    deep, given["account"], user = len(shown) - len(shown.lstrip()), shown.strip(), given.get("user", "")
    if not user:
        while above and above[-1][0] >= deep:
            above.pop()
        if above and deep:
            given.setdefault("parname", given.get("parentname") or above[-1][1])
        above.append((deep, given["account"]))
    held = found.of_user.get((given["account"], user), [])
    if "rawusage" in given:  # of sshare, which has no partition
        if not found.associations:
            table = "put beside it what `sacctmgr show assoc tree --parsable` prints"
            found.say("sshare", "", where, f"accounts and shares are those of sshare; limits are unknown: {table}")
        shares = {} if held else {"fairshare": given.get("rawshares", "1")}
        given = {key: given.get(key, "") for key in ("account", "rawusage", "parname")} | shares
    if "rawusage" not in given or not held:
        held = [_assoc(found, given["account"], user, given.get("partition", ""))]
    for each in held:
        if parent := given.get("parname") or given.get("parentname"):
            each["parent"] = parent
        if user and given.get("defaultaccount") == given["account"]:
            each["default"] = True
        take_assoc(each, given, where, found)


def _take_root(given: dict[str, str], where: str, found: Accounting) -> None:
    """Take what a cluster has as root's, which is above all accounts."""
    if kept := {key: text for key, text in given.items() if key.rstrip("+-") in _LIMITS | _FIELD}:
        take_assoc(_assoc(found, "root"), kept, where, found)


def _held_qos(record: dict[str, Any], found: Accounting) -> tuple[str, ...]:
    """Return the QOS of an association: its own, else those of its account, of the accounts above, of root."""
    account, seen = record, set[str]()
    while not account.get("qos"):
        above = account["account"] if account.get("user") else account.get("parent", "")
        if not above or above in seen:
            return _USUAL
        seen.add(above)
        account = found.associations.get((above, "", ""), {"account": above})
    return tuple(account["qos"])


def take_assoc(record: dict[str, Any], given: dict[str, str], where: str, found: Accounting) -> None:
    """Take settings of an association, by their names in lower case; what is not modelled is noted."""
    plain = dict(given)
    for key in given:
        sign = key[-1:] if key.endswith(("+", "-")) else ""
        if _FIELD.get(key.rstrip("+-")) == "qos" and (
            sign or re.match(",?[+-]", given[key])
        ):  # to those of the account
            kept = list(_held_qos(record, found))
            for word in names(plain.pop(key)):
                one = word.lstrip("+-")
                kept = [each for each in kept if each != one]
                kept += [one] if (sign or word[0]) != "-" else []
            record["qos"] = tuple(kept)
    _take(ASSOCIATION, record, plain, where, "association", found)


def take_qos(record: dict[str, Any], given: dict[str, str], where: str, found: Accounting) -> None:
    """Take settings of a QOS, by their names in lower case; what is not modelled is noted."""
    plain = {_OF_QOS.get(key, key): value for key, value in given.items()}
    for of, sign in itertools.product(("flags", "preempt"), "+-"):
        if of + sign in plain:
            named = names(plain.pop(of + sign))
            kept = [one for one in record.get(of, ()) if one.lower() not in {each.lower() for each in named}]
            record[of] = (*kept, *named) if sign == "+" else tuple(kept)
    _take(QOS, record, plain, where, "QOS", found)
    found.preempt_modes[record["name"]] = plain.get("preemptmode", found.preempt_modes.get(record["name"], ""))
    if "flags" in plain or "flags+" in given:
        for flag in (one for one in record.get("flags", ()) if one.lower() not in _QOS_FLAGS):
            effect = "this flag of the QOS is not modelled: its jobs may be held, or overtake, otherwise"
            found.say("flags", flag, where, effect)


def _take(
    table: tuple[Row, ...], record: dict[str, Any], given: dict[str, str], where: str, what: str, found: Accounting
) -> None:
    """Take settings by their rows; −1 takes a limit away, and a limit that is no number is noted."""
    values, _ = taken(table, given, lambda _: where, f"{what} ")
    record |= values
    if {"preemptexempttime", "preemptexempt"} & given.keys():  # −1 is none
        record["exempt_time"] = values.get("exempt_time")
    limits = record.setdefault("limits", {})
    known = {row.name for row in table} | NO_EFFECT["accounting"]
    for key, text in given.items():
        row = _LIMITS.get(key)
        if row is None:
            if key not in known:
                effect = f"a setting of the {what} that is not modelled: its jobs may be held or ordered otherwise"
                found.say(key or "column without a name", text, where, effect)
            continue
        try:
            value = parsed(row, text, where) if not text.startswith("-") or "tres" in row.field else None
        except TableError:
            found.say(key, text, where, "not a number; the limit is not applied")
            continue
        if isinstance(value, dict):
            for name in sorted(name for name in value if not is_counted(name)):
                found.say(key, text, where, f"limits on {name} are not applied: more jobs may start than in Slurm")
            amounts = limits.get(row.field, {}) | value
            value = {name: amount for name, amount in amounts.items() if amount is not None}
        limits[row.field] = value
        if row.effect and value is not None:
            found.say(key, text, where, row.effect)
