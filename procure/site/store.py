"""A site on the disk: a folder with ``site.toml`` and ``nodes.csv``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd
import tomli_w

from procure.errors import TableError
from procure.files.write import whole_file
from procure.settings import read_toml, validated
from procure.site.model import Site
from procure.tables import NODE, read, write
from procure.workload.slurm import expand_nodes

RULES, NODES = "site.toml", "nodes.csv"


class SiteFolder(NamedTuple):
    """A site's rules and its node table."""

    rules: Site
    nodes: pd.DataFrame


def read_site(folder: str | Path) -> SiteFolder:
    """Read and check a site folder.

    Raises
    ------
    TableError
        A file is missing or wrong, or a partition, reservation or event names a node that is not in the table.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise TableError(f"{folder}: no such folder; a site is a folder with {RULES} and {NODES}")
    hint = f"; a site is a folder with {RULES} and {NODES}, as `procure site read` writes it"
    site = validated(Site, read_toml(folder / RULES, hint), str(folder / RULES))
    nodes = read(folder / NODES, NODE)
    check_site(site, nodes, str(folder / RULES))
    return SiteFolder(site, nodes)


def check_site(site: Site, nodes: pd.DataFrame, source: str, where: dict[str, str] | None = None) -> None:
    """Refuse partitions (``where`` they stand), reservations and events of unknown nodes, and QOS not defined."""
    known = set(nodes["node_id"])
    named = [(f"partition {each.name}", each.nodes) for each in site.partitions]
    named += [(f"reservation {each.name}", each.nodes) for each in site.reservations]
    named += [("an event", each.nodes) for each in site.events]
    for what, text in named:
        missing = [name for name in node_list(text, nodes) if name not in known]
        if missing:
            raise TableError(f"{source}: {what} names node {missing[0]}, which is not in {NODES}")
    defined = {each.name for each in site.qos}
    unknown = {each.name: each.qos for each in site.partitions if each.qos and each.qos not in defined}
    if unknown:
        at = where or {}
        which = ", ".join(f"{at.get(name, '')} partition {name} has QOS {qos}".strip() for name, qos in unknown.items())
        one = len(set(unknown.values())) == 1
        raise TableError(
            f"{source}: {which}; {'it is' if one else 'they are'} not defined: put beside slurm.conf what "
            "`sacctmgr show qos --parsable` prints"
        )


def node_list(text: str, nodes: pd.DataFrame) -> list[str]:
    """Expand a node list; ALL is every node of the table."""
    if text.upper() == "ALL":
        return nodes["node_id"].tolist()
    return expand_nodes(text) if text else []


def write_site(site: Site, nodes: pd.DataFrame, folder: str | Path) -> Path:
    """Write a site folder, what has its default left out; an existing one is replaced file by file."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    values = site.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    with whole_file(folder / RULES) as temporary:
        temporary.write_bytes(tomli_w.dumps(values, multiline_strings=False).encode())
    write(nodes, folder / NODES)
    return folder
