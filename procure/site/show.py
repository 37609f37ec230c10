"""A site as a person reads it, and as scripts do."""

from __future__ import annotations

from typing import Any

import pandas as pd

from procure.site.model import Limits, Site
from procure.site.store import SiteFolder, node_list
from procure.text import plain


def _span(seconds: int | None) -> str:
    if seconds is None:
        return "no limit"
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    parts = [f"{days} d" if days else "", f"{hours} h" if hours else "", f"{rest // 60} min" if rest >= 60 else ""]
    return " ".join(filter(None, parts)) or f"{seconds} s"


def said(limits: Limits) -> str:
    """Write limits in words."""
    found = []
    for name, value in limits.model_dump(exclude_defaults=True).items():
        what = name.replace("_", " ")
        if isinstance(value, dict):
            found += [f"{what} {tres} ≤ {amount:,}" for tres, amount in value.items()]
        else:
            found.append(f"{what} ≤ {_span(value) if name in ('max_wall', 'grp_wall') else format(value, ',')}")
    return "; ".join(found)


def partition_table(site: SiteFolder) -> pd.DataFrame:
    """Return a row per partition."""
    rows = []
    for each in site.rules.partitions:
        nodes = site.nodes[site.nodes["node_id"].isin(node_list(each.nodes, site.nodes))]
        rows.append(
            {
                "partition": each.name + ("*" if each.default else ""),
                "nodes": len(nodes),
                "cpus": int(nodes["cpus"].sum()),
                "gpus": int(nodes["gpus"].sum()),
                "tier": each.priority_tier,
                "job_factor": each.priority_job_factor,
                "longest": _span(each.max_time),
                "qos": each.qos,
                "takes": ", ".join(each.allow_qos) or "every QOS",
                "whole_nodes": each.oversubscribe.startswith("exclusive") or site.rules.select.consume == "node",
            }
        )
    return pd.DataFrame(rows)


def qos_table(site: Site) -> pd.DataFrame:
    """Return a row per QOS."""
    return pd.DataFrame(
        [
            {"qos": q.name, "priority": q.priority, "preempts": ", ".join(q.preempt), "limits": said(q.limits)}
            for q in site.qos
        ]
    )


def account_table(site: Site) -> pd.DataFrame:
    """Return a row per account, and one per user with limits of its own."""
    return pd.DataFrame(
        [
            {"account": a.account, "user": a.user, "shares": str(a.shares), "below": a.parent, "limits": said(a.limits)}
            for a in site.associations
            if not a.user or a.limits != Limits()
        ],
        columns=["account", "user", "shares", "below", "limits"],
    )


def weights(site: Site) -> str:
    """Say in a line what makes a job's priority."""
    p = site.priority
    if p.type == "basic":
        return "priority: the order of submission"
    terms: dict[str, float] = {
        "age": p.weight_age, "fair share": p.weight_fair_share, "size": p.weight_job_size,
        "partition": p.weight_partition, "QOS": p.weight_qos, "association": p.weight_assoc,
    }  # fmt: skip
    terms |= p.weight_tres
    shown = ", ".join(f"{name} {weight:,.10g}" for name, weight in terms.items() if weight)
    return (
        f"priority: {shown or 'all weights are 0'}; age counts up to {_span(p.max_age)}, "
        f"usage halves in {_span(p.decay_half_life) if p.decay_half_life else 'no time: it never decays'}"
    )


def preemption(site: Site) -> str:
    """Say in a line who gives way to whom; empty = nobody does."""
    rules = site.preemption
    if rules.type == "none":
        return ""
    by = "QOS" if rules.type == "qos" else "the tier of partitions"
    again = f"; a job that is requeued waits {_span(rules.requeue_delay)} at least" if rules.requeue else ""
    return f"preemption by {by}, mode {rules.mode}{again}"


def _place(where: str) -> dict[str, str | int | None]:
    """Part ``slurm.conf:12`` into the file and the line; of a block there is no line."""
    file, _, line = where.partition(":")
    return {"file": file, "line": int(line)} if line.isdecimal() else {"file": where, "line": None}


def document(site: SiteFolder) -> dict[str, Any]:
    """Return a site as scripts read it: ``partitions qos accounts nodes not_understood``."""
    rules = site.rules
    kinds = site.nodes.groupby("kind", sort=False).agg(
        n_nodes=("node_id", "size"), cpus=("cpus", "first"), mem_mb=("mem_mb", "first"), gpus=("gpus", "first")
    )
    return plain(
        {
            "cluster": rules.cluster,
            "version": rules.version,
            "partitions": partition_table(site).to_dict(orient="records"),
            "qos": [each.model_dump(mode="json", exclude_defaults=True) for each in rules.qos],
            "accounts": [each.model_dump(mode="json", exclude_defaults=True) for each in rules.associations],
            "nodes": kinds.reset_index().to_dict(orient="records"),
            "not_understood": [
                each.model_dump(mode="json", exclude={"where"}) | _place(each.where)
                for each in rules.not_understood
                if each.setting != "file"
            ],
            "unread_files": [each.where for each in rules.not_understood if each.setting == "file"],
        }
    )
