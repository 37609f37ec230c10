"""Which partitions bought nodes join, and which features they get: ``gpu@general+gpu;compute@general``."""

from __future__ import annotations

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.site.model import Site
from procure.site.store import node_list
from procure.text import listed, nearest


def read_joins(text: str) -> dict[str, tuple[str, ...]]:
    """Read ``KIND@NAME+NAME;KIND@NAME``.

    Raises
    ------
    ValueError
        It is not written so, or a kind stands twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for item in filter(None, text.split(";")):
        kind, at, names = item.strip().partition("@")
        if not (kind and at and all(names.split("+"))) or kind in found:
            raise ValueError(f"{item!r} was given; write KIND@NAME+NAME, each kind once, with ; between them")
        found[kind] = tuple(names.split("+"))
    return found


def with_bought(site: Site, new: str, features: str) -> Site:
    """Return a site that bought nodes join.

    Raises
    ------
    TableError
        A partition that the site does not define.
    """
    joins = read_joins(new)
    defined = [each.name for each in site.partitions]
    for kind, names in joins.items():
        for name in names:
            if name not in defined:
                raise TableError(f"new nodes {kind}: partition {name!r} is not at the site; {nearest(name, defined)}")
    return site.model_copy(update={"new_nodes": joins, "new_features": read_joins(features)})


def joined(site: Site, nodes: pd.DataFrame) -> tuple[list[str], np.ndarray]:
    """Return the features of the nodes, and the nodes of each partition, bool[n_partitions, n_nodes], bought ones too.

    A bought node is one that no partition lists.
    """
    lists = [nodes["node_id"].isin(node_list(each.nodes, nodes)).to_numpy() for each in site.partitions]
    members, features = np.array(lists, bool), texts(nodes, "features")
    bought, kinds = ~members.any(axis=0), [kind.casefold() for kind in texts(nodes, "kind")]
    number = {each.name: n for n, each in enumerate(site.partitions)}
    for begins, names in site.new_nodes.items():
        here = bought & np.array([kind.startswith(begins.casefold()) for kind in kinds])
        for name in names:
            members[number[name]] |= here
    for begins, more in site.new_features.items():
        for node in np.flatnonzero(bought):
            if kinds[node].startswith(begins.casefold()):
                features[node] = ",".join(filter(None, [features[node], *more]))
    return features, members


def texts(frame: pd.DataFrame, name: str) -> list[str]:
    """Return a text column of a table, empty where the table has none."""
    if name not in frame:
        return [""] * len(frame)
    return [str(value) if isinstance(value, str) else "" for value in frame[name]]


def idle_kinds(site: Site, nodes: pd.DataFrame) -> list[str]:
    """Return the kinds of nodes that no partition lists and that join none: no job runs on them."""
    inside = {name for each in site.partitions for name in node_list(each.nodes, nodes)}
    begins = tuple(kind.casefold() for kind in site.new_nodes)
    out = nodes.loc[~nodes["node_id"].isin(inside), "kind"].astype(str)
    return [kind for kind in dict.fromkeys(out) if not kind.casefold().startswith(begins or ("\0",))]


def say_idle(kinds: list[str]) -> list[str]:
    """Say which bought types stand idle under the rules, and what to write."""
    said = "would join no partition of the site, so that no job runs there; say which in [site.new_nodes]"
    return [f"careful: {listed(kinds)} {said}"] if kinds else []
