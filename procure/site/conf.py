"""Slurm's own files as plain records: slurm.conf, gres.conf, topology.conf and what scontrol shows.

The forms are those of Slurm's manual pages slurm.conf(5), gres.conf(5), topology.conf(5) and scontrol(1).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from procure.errors import TableError
from procure.files.read import as_utf8, is_file, read_bytes
from procure.site.accounting import SACCTMGR
from procure.site.network import Network, host_names, is_slurm_topology, joined_lines
from procure.site.values import enforced, words
from procure.text import counted

Record = dict[str, str]
"""One line or block: values by lower-case key; ``_where`` is file and line."""

_PAIR = re.compile(r"(\w+(?:/\w+)?)\s*=\s*(\"[^\"]*\"|\S*(?: (?:sec|min)\b)?)")
_FREE = re.compile(
    r"(?m)\b(Reason|Comment|Extra)=(.*?)(?= (?:Reason|Comment|Extra|ResvName|InstanceId|InstanceType)=|$)"
)
"""What scontrol shows and may hold anything, and what may stand behind it on its line."""
_MUTE = re.compile(r"^(?!.*(down|drain|fail)).*(\*|not_responding|no_respond)")
_DEEPEST, _MOST_NODES = 10, 250_000


@dataclass
class Configuration:
    """What a folder of Slurm's files says, before anything is made of it."""

    settings: Record = field(default_factory=dict)
    where: Record = field(default_factory=dict)
    nodes: list[Record] = field(default_factory=list)
    partitions: list[Record] = field(default_factory=list)
    reservations: list[Record] = field(default_factory=list)
    gres: list[Record] = field(default_factory=list)
    licenses: list[Record] = field(default_factory=list)
    twice: list[tuple[Record, Record]] = field(default_factory=list)  # what counts, and what another file says of it
    topology: tuple[str, str] = ("", "")  # file, text
    network: Network | None = None  # what it says; none where it is no tree of at most three levels
    accounting: list[tuple[str, str]] = field(default_factory=list)  # (file, text)
    unread: list[tuple[str, str, str]] = field(default_factory=list)  # (file and line, what stands there, effect)
    unread_files: list[str] = field(default_factory=list)  # names of files that are none of Slurm's, or not needed
    node_sets: list[Record] = field(default_factory=list)
    down: list[Record] = field(default_factory=list)  # DownNodes
    database: tuple[Record, Record] = field(default_factory=lambda: ({}, {}))  # slurmdbd's settings, and where
    shown_at: str = ""  # when scontrol showed the configuration
    # What NodeName=DEFAULT and PartitionName=DEFAULT say: for all lines below, in the files that these include, too.
    defaults: dict[str, Record] = field(default_factory=lambda: {"nodename": {}, "partitionname": {}})

    defined: dict[tuple[str, str], str] = field(default_factory=dict)  # where each node and partition stands
    included: set[Path] = field(default_factory=set)  # files that others include, or that were read

    @functools.cached_property
    def gres_of(self) -> dict[str, list[Record]]:
        """The lines of gres.conf by node, behind those of every node; these also stand under an empty name."""
        found: dict[str, list[Record]] = {"": [each for each in self.gres if "nodename" not in each]}
        for each in self.gres:
            for name in host_names(each["nodename"], each["_where"]) if "nodename" in each else ():
                found.setdefault(name, [*found[""]]).append(each)
        return found


_NO_SLURM_CONF = re.compile(
    r"(acct_gather|burst_buffer|cgroup|cgroup_allowed_devices_file|cli_filter|ext_sensors|helpers|job_container|knl_\w+|"
    r"mpi|namespace|oci|plugstack|scrun|slurmdbd|slurmrestd)\.(conf|yaml)$"
)
"""Slurm's other files: nothing in them decides when jobs start."""
_TEMPLATE = re.compile(r"\{\{|\{%|<%")
"""What Jinja, Salt and Puppet put in the place of a value."""
_BESIDE = ("README", ".md", ".lock", "jobs.csv", "jobs.psv", "jobs.parquet")
_BLOCKS = {f"{one}name": f"{one}s" for one in ("node", "partition", "reservation", "license")}


def read_folder(folder: str | Path) -> Configuration:
    """Read every file of a folder that is one of Slurm's, by what stands in it.

    Raises
    ------
    TableError
        No such folder, no Slurm configuration in it, or an Include that is missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        what = "a file: name its folder" if folder.is_file() else "no such folder"
        raise TableError(f"{folder}: {what}; it should hold slurm.conf or what `scontrol show config` printed")
    found = Configuration()
    first = ("slurm.conf", "gres.conf", "topology.yaml", "topology.conf")  # of both topologies Slurm takes the YAML
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    files.sort(key=lambda path: first.index(path.name) if path.name in first else len(first) + _stands_alone(path))
    whole = files[:1] == [folder / "slurm.conf"]  # then another .conf counts where it is included
    for path in files:
        if path in found.included:
            continue
        text = _text(path)
        kind = _kind(path, text)
        if kind == "conf" and whole and path.name != "slurm.conf":
            found.unread_files.append(path.name)
        elif kind == "conf":
            _take_lines(path, found)
        elif kind in ("shown", "database"):
            _take_shown(path, text, found, kind)
        elif path.name == "slurmdbd.conf":
            _take_lines(path, own := Configuration())
            found.database = own.settings | found.database[0], own.where | found.database[1]
        elif kind in _BLOCKS.values():
            _take_blocks(path, text, found, kind)
        elif kind == "gres":
            found.gres.extend(one | {"name": one.get("name", "").lower()} for one in _records(path, found))
        elif kind == "topology" and not found.topology[0]:
            if re.search(r"(?im)^\s*include\s", text):
                text = "\n".join(line for _, _, line in _lines_with_included(path, found))
            found.topology = path.name, text
        elif kind == "accounting":
            found.accounting.append((path.name, _parsable(path, text, found)))
        elif kind != "other" and not path.name.endswith(_BESIDE):
            found.unread_files.append(path.name)
    found.unread_files = [name for name in found.unread_files if folder / name not in found.included]
    if not found.nodes or not found.partitions:
        raise _nothing_defined(folder, found)
    _note_left_out(found)
    return found


def _stands_alone(path: Path) -> bool:
    return path.suffix != ".conf" or not re.search(rb"(?im)^\s*include\s", read_bytes(path))


def _nothing_defined(folder: Path, found: Configuration) -> TableError:
    """Say which of nodes and partitions a folder lacks, and what to do."""
    what, key = ("node", "nodename") if not found.nodes else ("partition", "partitionname")
    only = f" ({found.defaults[key]['_where']} sets defaults only)" if found.defaults[key] else ""
    beside = f" (not read: {', '.join(found.unread_files)}; a template, such as slurm.conf.j2, is rendered first, "
    beside += "and what Slurm prints is printed without --json)"
    below = next((path for n in range(1, 4) for path in folder.glob("*/" * n + "slurm.conf")), None)
    beside = f" ({below} stands below: name its folder)" if below else beside if found.unread_files else ""
    return TableError(
        f"{folder}: no {what} is defined{only}{beside}; slurm.conf, or the output of "
        "scontrol show config, node and partition, should stand there (`procure site collect`)"
    )


def _note_left_out(found: Configuration) -> None:
    """Note what the settings leave out and Slurm decides by its version, or leaves without effect."""
    get, where = found.settings.get, found.where.get
    given = enforced(get("accountingstorageenforce", "")) if get("accountingstoragetype", "dbd").endswith("dbd") else ()
    enforce = {"associations", "limits", "qos", "safe", "all"} & set(given)
    shares = get("priorityweightfairshare", "0") != "0"
    by, kind = set(words(get("selecttypeparameters", ""))) - {"none"}, get("selecttype", "")
    old = shares and not re.search("fair_tree", get("priorityflags", "").lower()) and "fastschedule" in found.settings
    held = [one for one in found.partitions if {one.get("allowaccounts", "ALL").upper(), one.get("denyaccounts", "")}
            - {"ALL", ""}]  # fmt: skip
    weights = [(one.get("tresbillingweights", ""), one["_where"]) for one in found.partitions]
    weights.append((get("priorityweighttres", ""), where("priorityweighttres", "")))
    weighed = [at for text, at in weights if "gres/" in text.lower()]
    tracked = "gres/" in get("accountingstoragetres", "").lower()
    version = [int(n) for n in re.findall(r"\d+", get("slurm_version", ""))[:2]]
    mute = [one for one in found.nodes if _MUTE.search(one.get("state", "").lower())]
    told = [
        ((enforce or shares) and not found.shown_at and "accountingstoragetype" not in found.settings,
         where("accountingstorageenforce", where("priorityweightfairshare", "")), "AccountingStorageType",
         "not given: slurmdbd is taken; where it is missing, Slurm enforces nothing: write it"),
        ("cons_" in kind and not by, where("selecttype", ""), "SelectTypeParameters",
         "not given: CR_Core_Memory is taken, as by Slurm 22.05 and later; before it may be CR_CPU: write it"),
        ("cons_" in kind and by and not re.search("cpu|core|socket", ",".join(by)), where("selecttypeparameters", ""),
         "SelectTypeParameters", "without CR_Core, CR_CPU or CR_Socket Slurm does not start; cores are taken"),
        ("fastschedule" in found.settings and not re.search("job_test|max_job_bf", get("schedulerparameters", "")),
         where("fastschedule", ""), "SchedulerParameters bf_max_job_test",
         "not given: 500 is taken, as by Slurm 22.05; it is 100 until 19.05, and FastSchedule is of before 20.02"),
        (old, where("fastschedule", ""), "PriorityFlags",
         "without FAIR_TREE; it is taken, as by Slurm since 19.05, and FastSchedule is of before 20.02"),
        (held and not enforce and (not version or version >= [23, 2]), held[0]["_where"] if held else "",
         "AllowAccounts", "binds nobody, as in Slurm since 23.02 where AccountingStorageEnforce has no associations"),
        (mute, mute[0]["_where"] if mute else "", "State",
         f"{counted(len(mute), 'node')} from {mute[0]['nodename'] if mute else ''} on did not answer (*): in Slurm "
         "they take no jobs, here they do"),
        ("max_powered_nodes" in get("slurmctldparameters", "").lower(), where("slurmctldparameters", ""),
         "SlurmctldParameters", "max_powered_nodes is not modelled: jobs may start on more nodes than in Slurm"),
        (weighed and not tracked, "".join(weighed[:1]), "AccountingStorageTRES",
         "does not name gres/gpu, which weights name: Slurm does not count it, here it counts"),
    ]  # fmt: skip
    found.unread += [(at, what, effect) for there, at, what, effect in told if there]


def _kind(path: Path, text: str) -> str:
    """Say what a file is by its name, else by its first words; empty = none of Slurm's."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    head = " ".join(lines[:3])
    if re.match(r"No (reservations|nodes|partitions|licenses) (in the system|configured)", head):
        return "other"
    if re.search(r"^Configuration data as of", head):
        return "database" if "SlurmDBD configuration" in text else "shown"
    if path.name in ("slurm.conf", "gres.conf", "topology.conf"):
        return "conf" if path.name == "slurm.conf" else path.stem
    if is_slurm_topology(path):
        return "topology"
    if re.match(r"(Cluster|Parent|Account|User|QOS) - |(add|modify|remove|delete|create)\s", head):
        return "accounting"
    if _NO_SLURM_CONF.match(path.name):
        return "other"
    if path.suffix == ".conf":
        return "conf" if re.search(r"(?im)^\s*(clustername|nodename|partitionname|include)\b", text) else ""
    if not lines:
        return ""
    if SACCTMGR.search(text) or _is_table(lines[0]) or _is_aligned(lines):
        return "accounting"
    for key, kind in _BLOCKS.items():
        if head.lower().startswith(f"{key}=") and ".conf" not in path.name:  # as in a copy, nodes.conf.old
            return kind
    return ""


def _is_table(header: str) -> bool:
    """Tell whether a line is the header of a ``--parsable`` table of sacctmgr; sacct's has a JobID."""
    names = [name.strip().lower() for name in header.split("|")]
    known = {"account", "name", "nodename", "timestart", "user"}
    return len(names) > 1 and bool(known & set(names)) and not any(name.startswith("jobid") for name in names)


def _is_aligned(lines: list[str]) -> bool:
    """Tell whether lines are a table of sacctmgr without ``--parsable``: names, and lines of dashes beneath."""
    dashes = len(lines) > 1 and re.fullmatch(r"-+( +-+)*\s*", lines[1]) is not None
    return dashes and _is_table("|".join(lines[0].split()))


def _parsable(path: Path, text: str, found: Configuration) -> str:
    """Turn an aligned table into a parsable one; a cell that its width has cut is named."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not _is_aligned([line.strip() for line in lines]):
        return text
    spans = [match.span() for match in re.finditer("-+", lines[1])]
    rows = [[line[a:b].strip() for a, b in spans] for line in (lines[0], *lines[2:])]
    for number, row in enumerate(rows[1:], 3):
        for name, cell in zip(rows[0], row, strict=True):
            used = "RawUsage" not in rows[0] or name in ("Account", "User", "RawShares", "RawUsage")
            if cell.endswith("+") and used:
                what = "cut by the width of its column, and taken as it stands: print the table with --parsable"
                found.unread.append((f"{path.name}:{number}", f"{name}={cell}", what))
    # Of an account's name the spaces before it say how deep it stands in the tree.
    deep = rows[0].index("Account") if "Account" in rows[0] else None
    if deep is not None:
        for line, row in zip(lines[2:], rows[1:], strict=True):
            cell = line[slice(*spans[deep])]
            row[deep] = " " * (len(cell) - len(cell.lstrip())) + cell.strip()
    head, *rest = ("|".join([*row, ""]) for row in rows)
    return "\n".join([head, "", *rest]) + "\n"  # lines keep their numbers


_PROMPT = re.compile(r"(?m)^[^=|\n]{0,80}[#$%>] *(sudo +)?((scontrol|sacctmgr) .*\b(show|list)|sshare)\b.*$")
"""The line of a terminal that asked for what stands below it."""


def _text(path: Path) -> str:
    return _PROMPT.sub("", as_utf8(read_bytes(path)).decode("utf-8", errors="replace"))


def _lines_with_included(path: Path, found: Configuration, depth: int = 0) -> Iterator[tuple[Path, int, str]]:
    """Give the lines of a file, and in their place those of the files that it includes, with where they stand."""
    found.included.add(path)
    for number, line in joined_lines(_text(path)):
        if include := re.match(r"(?i)include\s+(\S+)", line):
            one = _included(path, include[1], f"{path.name}:{number}", found, depth)
            yield from _lines_with_included(one, found, depth + 1)
        elif line:
            yield path, number, line


def _records(path: Path, found: Configuration) -> Iterator[Record]:
    """Give the settings of each line."""
    for file, number, line in _lines_with_included(path, found):
        where = f"{file.name}:{number}"
        if _TEMPLATE.search(line):
            raise TableError(f"{file.parent}, {where}: a template stands here; render it first: {line[:80]}")
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        rest = " ".join(_PAIR.sub(" ", line).split()) if pairs else ""
        yield pairs | {"_where": where, "_line": line, "_rest": rest}


def _take_lines(path: Path, found: Configuration) -> None:
    defaults = found.defaults
    for record in _records(path, found):
        line, where = record.pop("_line"), record["_where"]
        if rest := record.pop("_rest"):  # words without "=", "+=", a value with spaces that no quotes hold
            found.unread.append((where, rest, "not a setting"))
        first = re.match(r"\w+(?=\s*=)", line.lower())
        key = first[0] if first and first[0] in defaults else None
        if key:
            if sum(name.lower() in defaults for name, _ in _PAIR.findall(line)) > 1:
                raise TableError(f"{path.parent}, {where}: a line holds one node or partition; put each on its own")
            if "features" in record:  # another name of it
                record.setdefault("feature", record.pop("features"))
            if record[key].upper() == "DEFAULT":
                defaults[key] |= record
            else:
                _refuse_twice(key, record, found, path.parent)
                getattr(found, _BLOCKS[key]).append(defaults[key] | record)
        elif first and first[0] in ("nodeset", "downnodes"):
            (found.node_sets if first[0] == "nodeset" else found.down).append(record)
        elif "=" in line:
            for name, value in record.items():  # several settings may stand on a line
                if name != "_where":
                    found.settings[name], found.where[name] = value, where
        else:
            found.unread.append((where, line, "not a setting"))


def _refuse_twice(key: str, record: Record, found: Configuration, folder: Path) -> None:
    """Refuse a node or a partition that a line before defines, as Slurm does."""
    what = "node" if key == "nodename" else "partition"
    for name in host_names(record[key], f"{folder}, {record['_where']}") if key == "nodename" else [record[key]]:
        before = found.defined.setdefault((what, name), record["_where"])
        if before is not record["_where"]:
            where, line = record["_where"], before.partition(":")
            raise TableError(
                f"{folder}, {where}: {what} {name} stands already in line {line[2]} of {line[0]}; Slurm does not start "
                "with both: take one of them out"
            )

    if len(found.defined) > _MOST_NODES:
        raise TableError(
            f"{folder}, {record['_where']}: more than {_MOST_NODES:,} nodes are defined; no site has so many"
        )


def _included(path: Path, name: str, where: str, found: Configuration, depth: int) -> Path:
    """Return the file that a line includes: of /etc/slurm/conf/nodes.conf as much of its end as stands here."""
    name = name.replace("%c", found.settings.get("clustername", "%c").lower())
    parts = Path(name.lstrip("/")).parts
    named = next((one for n in range(len(parts)) if is_file(one := path.parent.joinpath(*parts[n:]))), None)
    if depth >= _DEEPEST or named is None:
        deep = depth >= _DEEPEST
        what = "includes nest too deep" if deep else f"the included file {name} is missing"
        more = "a file may not include itself" if deep else "put it beside " + path.name
        if "*" in name:
            more = "Slurm takes no pattern here: write an Include for each file"
        if "%c" in name:
            more = "%c is the ClusterName, which no line before gives"
        raise TableError(f"{path.parent}, {where}: {what}; {more}")
    return named


def _take_shown(path: Path, text: str, found: Configuration, kind: str) -> None:
    """Take ``Key = value`` lines as ``show config`` prints them, of slurmdbd's its own; of ``Epilog[0]``, … one."""
    values: Record = {"_where": path.name}
    where: Record = {}
    after = text.partition("SlurmDBD configuration")[0].count("\n") if kind == "database" else 0
    for number, line in enumerate(text.splitlines()[after:], after + 1):
        match = re.match(r"(\w+)(?:\[\d+\])?\s+= (.*)", line)
        if match and match[2].strip() not in ("(null)", "N/A", "(none)"):
            name = match[1].lower()
            values.setdefault(name, match[2].strip())
            where.setdefault(name, f"{path.name}:{number}")
    if kind == "database":
        found.database = values | found.database[0], where | found.database[1]
        return
    found.shown_at = text.split()[4]  # Configuration data as of
    found.twice.append((found.settings, values))
    found.settings, found.where = values | found.settings, where | found.where


def _take_blocks(path: Path, text: str, found: Configuration, kind: str) -> None:
    """Take what ``scontrol show node|partition|reservation|license`` prints: blocks, or a line each with -o."""
    first = next(key for key, name in _BLOCKS.items() if name == kind)
    held: list[Record] = getattr(found, kind)
    have = {record[first]: record for record in held}
    number = 1
    for block in re.split(rf"(?im)^(?={first}=)", text):
        free = dict(_FREE.findall(block))
        pairs = {key.lower(): value for key, value in _PAIR.findall(_FREE.sub("", block))}
        if name := re.match(rf"(?i){first}=(.*?)(?=\s+\w+=|\s*$)", block):  # a reservation's may hold spaces
            pairs[first] = name[1]
        if "Reason" in free:
            pairs["reason"] = free["Reason"].strip()
        if first in pairs:
            pairs = {key: "" if value in ("(null)", "N/A") else value for key, value in pairs.items()}
            pairs |= {key: pairs[key].replace(":(null)", "") for key in pairs.keys() & {"gres"}}
            pairs |= {"_where": f"{path.name}:{number}", "_shown": "1"}
            if (kept := have.setdefault(pairs[first], pairs)) is pairs:
                held.append(pairs)
            else:
                found.twice.append((kept, pairs))
        number += block.count("\n")


def shown(text: str, kind: str) -> list[Record]:
    """Read what ``scontrol show node``, ``partition`` or ``reservation`` prints; ``kind`` is the plural."""
    found = Configuration()
    _take_blocks(Path(kind), text, found, kind)
    return list(getattr(found, kind))
