"""Changes of a centre's rules, in Slurm's own words: ``bf_max_job_user=50``, ``qos long GrpTRES=cpu=20%``.

One change names a setting of slurm.conf or of SchedulerParameters, or what sacctmgr and scontrol call an entity with
its settings: ``qos NAME KEY=VALUE …``, ``account NAME …``, ``user NAME [account=NAME] …``, ``partition NAME …``.
Several stand with ``;`` between them. An amount in percent is of that resource of all nodes, rounded down; ``+`` may
stand for the comma between amounts, since the parameters of a policy hold no comma.
"""

from __future__ import annotations

import re

import pandas as pd

from procure.errors import TableError
from procure.site.accounting import Accounting, take_assoc, take_qos
from procure.site.conf import Record
from procure.site.model import NotUnderstood, Partition, Priority, Scheduler, Site
from procure.site.rows import NUMBERS, PARTITION, RULE_SETTINGS, parsed
from procure.site.store import node_list
from procure.site.values import enforced
from procure.text import nearest

ENTITIES = ("qos", "account", "user", "partition")
_PERCENT = re.compile(r"(cpu|mem|node|gres/gpu)=(\d+(?:\.\d+)?)%")
_GROUPS = re.compile(r"\+(?=[A-Za-z])")
_ENFORCE = "accountingstorageenforce"
_NUMBERS = {row.name: row for row in NUMBERS}
_OF_PARTITION = {row.name: row for row in PARTITION if row.field and not row.effect}


def split_changes(text: str) -> list[str]:
    """Return the single changes of a text; one that names nothing, or sets nothing, is a TableError."""
    found = [item.strip() for item in text.split(";") if item.strip()]
    for item in found:
        words = item.split()
        if len(words) == 1:
            name = words[0].partition("=")[0].lower()
            legal = (*_NUMBERS, *RULE_SETTINGS, _ENFORCE)
            if "=" not in words[0]:
                raise _wrong(item, "it sets nothing; write SETTING=VALUE or, for example, qos NAME GrpTRES=cpu=200")
            if name not in legal:
                raise _wrong(item, f"no setting {name!r} is modelled; {nearest(name, legal)}")
        elif words[0].lower() not in ENTITIES:
            raise _wrong(item, f"{words[0]!r} is none of {', '.join(ENTITIES)}")
        elif len(words) < 3 or not all("=" in word for word in words[2:]):
            raise _wrong(item, f"write {words[0].lower()} NAME KEY=VALUE")
    return found


def changed(site: Site, text: str, nodes: pd.DataFrame) -> Site:
    """Return a site with its rules changed; percentages are of all ``nodes`` that are simulated.

    A change that cannot be read, names what the site does not have, or would change nothing is a TableError.
    """
    known = set(nodes["node_id"])
    for item in split_changes(text):
        try:
            after = _one(site, _GROUPS.sub(",", _amounts(item, nodes)))
        except TableError:
            raise
        except ValueError as error:
            message = str(error).splitlines()[-1] if "validation error" not in str(error) else "a value is not allowed"
            raise _wrong(item, message) from None
        other = {each.nodes for each in after.partitions} - {each.nodes for each in site.partitions}
        missing = [name for text in sorted(other) for name in node_list(text, nodes) if name not in known]
        if missing:
            raise _wrong(item, f"no node {missing[0]!r} is simulated; {nearest(missing[0], sorted(known))}")
        if after == site:
            raise _wrong(item, "the site has this value already, so that nothing changes")
        site = after
    return site


def _wrong(item: str, why: str) -> TableError:
    return TableError(f"rule {item!r}: {why}")


def _amounts(item: str, nodes: pd.DataFrame) -> str:
    totals = {
        "cpu": nodes["cpus"].sum(), "mem": nodes["mem_mb"].sum(), "node": len(nodes), "gres/gpu": nodes["gpus"].sum(),
    }  # fmt: skip

    def amount(match: re.Match[str]) -> str:
        share = float(match[2])
        if share > 100:
            raise _wrong(item, f"{match[0]}: a share is at most 100 %")
        return f"{match[1]}={int(totals[match[1]] * share / 100)}{'M' if match[1] == 'mem' else ''}"

    found = _PERCENT.sub(amount, item)
    if "%" in found:
        raise _wrong(item, "a percentage is of cpu, mem, node or gres/gpu, as in GrpTRES=cpu=20%")
    return found


def _one(site: Site, item: str) -> Site:
    words = item.split()
    if len(words) == 1:
        name, _, value = item.partition("=")
        return _setting(site, name, value, item)
    kind, name = words[0].lower(), words[1]
    given = {key.lower(): value for key, _, value in (word.partition("=") for word in words[2:])}
    if kind == "partition":
        return _partition(site, name, given, item)
    if kind == "qos":
        return _qos(site, name, given, item)
    return _association(site, kind, name, given, item)


def _setting(site: Site, name: str, value: str, item: str) -> Site:
    key = name.lower()
    if key == _ENFORCE:
        return site.model_copy(update={"enforce": enforced(value)})
    if key in _NUMBERS:
        if not value.isdecimal():
            raise _wrong(item, f"{value!r} was given; {key} is a whole number")
        return site.model_copy(
            update={"scheduler": Scheduler(**(dict(site.scheduler) | {key: _NUMBERS[key].read(value)}))}
        )
    if site.priority.type == "basic":
        raise _wrong(item, "the site starts jobs in the order of submission (priority/basic), so that nothing changes")
    row = RULE_SETTINGS[key]
    field = row.field.removeprefix("priority.")
    if field.startswith("weight_") and not value.isdecimal():
        raise _wrong(item, f"{value!r} was given; {name} is a whole number")
    update = {field: parsed(row, value, f"rule {item!r}")}
    return site.model_copy(update={"priority": Priority(**(dict(site.priority) | update))})


def _partition(site: Site, name: str, given: Record, item: str) -> Site:
    names = [each.name for each in site.partitions]
    if name not in names:
        raise _wrong(item, f"the site has no partition {name!r}; {nearest(name, names)}")
    for key in given:
        if key not in _OF_PARTITION:
            raise _wrong(item, f"no setting {key!r} of a partition can be changed; {nearest(key, list(_OF_PARTITION))}")
    if given.get("qos") and given["qos"] not in {each.name for each in site.qos}:
        raise _wrong(item, f"the site has no QOS {given['qos']!r}")
    rows = [row for row in PARTITION if row.name in given]
    update = {row.field: parsed(row, given[row.name], f"rule {item!r}") for row in rows}

    def swap(each: Partition) -> Partition:
        return Partition(**(dict(each) | update)) if each.name == name else each

    return site.model_copy(update={"partitions": tuple(swap(each) for each in site.partitions)})


def _qos(site: Site, name: str, given: Record, item: str) -> Site:
    names = [each.name for each in site.qos]
    if name not in names:
        raise _wrong(item, f"the site has no QOS {name!r}; {nearest(name, names)}")
    taken = Accounting()
    before = site.qos[names.index(name)]
    record = before.model_dump()
    take_qos(record, given, item, taken)
    after = type(before)(**record)
    _refuse(site, item, taken.not_understood, before.limits != after.limits)
    return site.model_copy(update={"qos": tuple(after if each.name == name else each for each in site.qos)})


def _association(site: Site, kind: str, name: str, given: Record, item: str) -> Site:
    account = given.pop("account", "") if kind == "user" else name
    fits = [
        each
        for each in site.associations
        if (each.user == name if kind == "user" else not each.user) and account in ("", each.account)
    ]
    if not fits:
        names = [each.user if kind == "user" else each.account for each in site.associations]
        known = sorted(set(filter(None, names)))
        raise _wrong(item, f"the site has no {kind} {name!r}; {nearest(name, known) if known else 'it lists none'}")
    update = {}
    for before in fits:
        taken, record = Accounting(), before.model_dump()
        take_assoc(record, given, item, taken)
        after = type(before)(**record)
        _refuse(site, item, taken.not_understood, before.limits != after.limits)
        update[before.account, before.user, before.partition] = after
    found = tuple(update.get((a.account, a.user, a.partition), a) for a in site.associations)
    return site.model_copy(update={"associations": found})


def _refuse(site: Site, item: str, unknown: list[NotUnderstood], limits: bool) -> None:
    """Refuse a setting that is not modelled, and a limit where limits are not enforced."""
    for each in unknown:
        raise _wrong(item, f"{each.setting}={each.value}: {each.effect}")
    if limits and not {"limits", "safe", "all"} & set(site.enforce):
        raise _wrong(
            item, "the site does not enforce limits, so that it changes nothing; AccountingStorageEnforce=limits would"
        )
