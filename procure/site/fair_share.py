"""The fair-share tree, and the part of a job's priority that does not change while it waits.

Slurm's pages *Fair Tree Fairshare Algorithm* and *Multifactor Priority Plugin*.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from procure.site.limits import MODEL
from procure.site.model import Site

STARTED = 1.5
"""s from the second of a boot (BOOT_TIME) until the periodic work of scheduler and priorities begins, as measured."""

if TYPE_CHECKING:
    from procure.site.names import Known


class Tree(NamedTuple):
    """The fair-share tree: accounts and users, each below its parent."""

    path: np.ndarray  # int64[n_users, depth], rows from below the root to the user's own; −1 = no further
    parent: np.ndarray  # int64[n_rows]; −1 = the root
    share: np.ndarray  # float64[n_rows], of the sum of its siblings'; −1 = its parent's
    usage: np.ndarray  # float64[n_rows], TRES-seconds at the beginning
    user_of: np.ndarray  # int64[n_rows], row of `path`; −1 = an account


def fair_tree(site: Site, accounts: list[str], users: list[str]) -> tuple[Tree, np.ndarray]:
    """Build the tree from the associations; a job whose association is unknown gets a share of one.

    Returns
    -------
    Tree
        The user root of Slurm is among its users.
    numpy.ndarray
        int64[n_jobs], the row of each job's user.
    """
    users = [user or "(none)" for user in users]  # the empty name stands for an account's own row
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for each in site.associations:
        if (each.account, each.user) != ("root", "") and not each.partition:
            rows[each.account, each.user] = {"shares": each.shares, "usage": each.usage, "parent": each.parent}
    rows.setdefault(("root", "root"), {"shares": 1, "usage": 0.0, "parent": "root"})
    for account, user in dict.fromkeys(zip(accounts, users, strict=True)):
        if account not in ("", "root"):
            rows.setdefault((account, ""), {"shares": 1, "usage": 0.0, "parent": "root"})
        rows.setdefault((account or "root", user), {"shares": 1, "usage": 0.0, "parent": "root"})
    for account in [r["parent"] for r in rows.values()]:
        if account != "root":
            rows.setdefault((account, ""), {"shares": 1, "usage": 0.0, "parent": "root"})
    number = {key: n for n, key in enumerate(rows)}
    parent = np.full(len(rows), -1, np.int64)
    for (account, user), row in rows.items():
        above = account if user else row["parent"]
        parent[number[account, user]] = number.get((above, ""), -1)
    share = np.zeros(len(rows))
    usage = np.array([row["usage"] for row in rows.values()], np.float64)
    given = np.array([-1 if row["shares"] == "parent" else row["shares"] for row in rows.values()], float)
    for n in range(len(rows)):
        total = given[(parent == parent[n]) & (given > 0)].sum()
        share[n] = -1.0 if given[n] < 0 else given[n] / total if total else 0.0
    of_accounts = usage.copy()
    for n in range(len(rows)):  # what a user has used counts for every account above
        above = parent[n]
        while above >= 0 and usage[n] and list(rows)[n][1]:
            of_accounts[above] += usage[n] if not usage[above] else 0.0
            above = parent[above]
    users_rows = [n for (_, user), n in number.items() if user]
    paths = [_path(n, parent) for n in users_rows]
    depth = max(map(len, paths))
    path = np.full((len(paths), depth), -1, np.int64)
    user_of = np.full(len(rows), -1, np.int64)
    for i, rows_above in enumerate(paths):
        path[i, : len(rows_above)] = rows_above
        user_of[users_rows[i]] = i
    of_job = np.array([number[a or "root", u] for a, u in zip(accounts, users, strict=True)], np.int64)
    return Tree(path, parent, share, of_accounts, user_of), of_job


_FIRST_BASIC = 4_294_901_760
"""Priority of the first job under priority/basic, less one for each before it and its nice value (Slurm 22.05)."""
_MOST_HALVED = 4
"""Half-lives over which what a log used is taken off: each doubles what the log lacks."""
_ROUNDED = 0.02
"""Of the usage told; less than so much is left by the rounding of times and amounts."""


def usage_before(
    site: Site, tree: Tree, of_job: np.ndarray, billing: np.ndarray, factor: np.ndarray, jobs: pd.DataFrame
) -> np.ndarray:
    """Return the usage at the first submission, of that which sshare told later: float64[n_rows].

    What the log's jobs used until then is taken off. Where sshare ran before, or more than `_MOST_HALVED` half-lives
    after, it is taken as it is.
    """
    at, half_life = site.priority.usage_at, site.priority.decay_half_life
    first = int(jobs["submit_time"].iloc[0])
    since = 0 if at is None else at - first
    if at is None or since < 0 or "start_time" not in jobs or (half_life and since > _MOST_HALVED * half_life):
        return tree.usage
    unsure = np.zeros(len(jobs))
    if "billing" in jobs:  # of what they held; sacct cuts its fraction off
        held = pd.to_numeric(jobs["billing"], errors="coerce").fillna(0).to_numpy(np.float64)
        other = (held > 0) & (np.floor(billing) != held)
        billing, unsure = np.where(other, held, billing), other.astype(np.float64)
    start = np.minimum(jobs["start_time"].fillna(at).to_numpy(np.float64), at) - first
    ran = jobs["end_time"] - jobs["start_time"] if "end_time" in jobs else jobs["run_time"]
    end = np.minimum(start + ran.fillna(at).to_numpy(np.float64), since)
    seconds, left = _decayed(site, first, start, end, since)
    if "held_time" in jobs:  # before a requeue
        until = jobs["held_until"].to_numpy(np.float64) - first
        seconds += _decayed(site, first, until - jobs["held_time"].to_numpy(np.float64), until, since)[0]
    used, cut, row = np.zeros(len(tree.usage)), np.zeros(len(tree.usage)), of_job.copy()
    while (row >= 0).any():
        np.add.at(used, row[row >= 0], (billing * factor * seconds)[row >= 0])
        np.add.at(cut, row[row >= 0], (unsure * factor * seconds)[row >= 0])
        row = np.where(row >= 0, tree.parent[row], -1)
    before = tree.usage - used
    return np.where(before > _ROUNDED * tree.usage + cut, before, 0.0) / left


def _decayed(site: Site, first: int, start: np.ndarray, end: np.ndarray, at: int) -> tuple[np.ndarray, float]:
    """Return what of each job's seconds counts at a moment, as Slurm computes it, and what is left of usage before all.

    At each calculation usage decays by a whole period, and what ran since is added; the rest of a job is added when it
    ends. Times in seconds after the first submission.
    """
    period, half_life, booted = site.priority.calc_period, site.priority.decay_half_life, site.latency.booted
    began = math.floor(site.latency.clock) if booted is None else booted + STARTED - first
    each = 1 - 0.693 / half_life if half_life else 1.0
    kept, last = each**period, math.floor((at - began) / period)
    before, after = (np.ceil((moment - began) / period) for moment in (start, end))  # calculations that come next
    within = before == after
    head = np.where(within, end - start, began + before * period - start)
    tail = np.where(within, 0.0, end - began - (after - 1) * period)
    whole = np.maximum(after - 1 - before, 0)
    middle = period * kept * (whole if kept == 1 else (1 - kept**whole) / (1 - kept))
    head *= each**head * kept ** np.where(within, last - after + 1, last - before)
    return head + (middle + tail * each**tail) * kept ** (last - after + 1), kept ** (last - (0 - began) // period)


def _path(row: int, parent: np.ndarray) -> list[int]:
    path = [row]
    while parent[path[0]] >= 0 and len(path) < 64:
        path.insert(0, int(parent[path[0]]))
    return path


def decay_table(site: Site) -> np.ndarray:
    """Return what is left of usage after 0 … PriorityCalcPeriod seconds, by Slurm's own 1 − 0.693 / half-life."""
    half_life = site.priority.decay_half_life
    factor = 1 - 0.693 / half_life if half_life else 1.0
    return np.array([factor**second for second in range(site.priority.calc_period + 1)])


def job_size(known: Known, amounts: dict[str, np.ndarray], limit: np.ndarray) -> dict[str, np.ndarray]:
    """Return `Requests.size` and `Requests.per_size`: beyond what a job asks for it grows by what it would get."""
    rules, cpus = known.site.priority, float(known.nodes["cpus"].sum())
    none = np.zeros(len(amounts["cpu"]))
    weight = 0.0 if rules.type == "basic" else float(rules.weight_job_size) * (-1 if rules.favor_small else 1)
    if "small_relative_to_time" in rules.flags:
        size = np.maximum(amounts["node"] * cpus / len(known.nodes), amounts["cpu"])
        return {"size": size, "per_size": weight / cpus / np.maximum(limit // 60, 1)}
    return {"size": amounts["cpu"], "per_size": none + weight / (2 * cpus)}


def base_priority(
    known: Known, amounts: dict[str, np.ndarray], stated: dict[str, np.ndarray], limit: np.ndarray
) -> np.ndarray:
    """Return each job's priority without age and fair share: size, partition, QOS, association, TRES, less nice.

    ``amounts`` are what the jobs asked for, also of those that take nodes whole: the size factor "correlates to the
    number of nodes or CPUs the job has requested" (priority_multifactor, *Job Size Factor*). ``stated`` are the same
    with the CPUs of the request, not of whole cores: PriorityWeightTRES counts these.
    """
    site, rules, nodes = known.site, known.site.priority, known.nodes
    if rules.type == "basic":  # each submission, an array once, counts one less than the one before it
        records = known.jobs["job_id"].astype(str).str.replace(r"_\d+$", "", regex=True)
        return _FIRST_BASIC - pd.factorize(records)[0] - known.numbers("nice")
    cluster_cpus, n_nodes = float(nodes["cpus"].sum()), len(nodes)
    if "small_relative_to_time" in rules.flags:
        size = np.maximum(amounts["node"] * cluster_cpus / n_nodes, amounts["cpu"]) / np.maximum(limit // 60, 1)
        size = size / cluster_cpus
        size = 1 - size if rules.favor_small else size
    else:
        size = (amounts["node"] / n_nodes + amounts["cpu"] / cluster_cpus) / 2
        size = 1 - size if rules.favor_small else size
    whole = {flag.removeprefix("no_normal_") for flag in rules.flags if flag.startswith("no_normal_")}

    def normal(values: list[int], what: str) -> np.ndarray:
        found = np.array(values or [0], np.float64)
        return found if {what, "all"} & whole else found / max(found.max(), 1.0)

    partition = normal([each.priority_job_factor for each in site.partitions], "part")
    qos = dict(zip([q.name for q in site.qos], normal([q.priority for q in site.qos], "qos"), strict=False))
    association = normal([a.priority for a in site.associations], "assoc")
    of_association = {(a.account, a.user): v for a, v in zip(site.associations, association, strict=False)}
    base = rules.weight_job_size * np.clip(size, 0.0, 1.0)
    base += rules.weight_partition * partition[known.partition_of]
    base += rules.weight_qos * np.array([qos.get(name, 0.0) for name in known.qos])
    if rules.weight_assoc:
        pairs = zip(known.account, known.user, strict=True)
        base += rules.weight_assoc * np.array([of_association.get(pair, 0.0) for pair in pairs])
    for name, weight in rules.weight_tres.items():
        base += weight * _tres_factor(known, stated, name, bool({"tres", "all"} & whole))
    return base - known.numbers("nice")


def _tres_factor(known: Known, amounts: dict[str, np.ndarray], name: str, raw: bool) -> np.ndarray:
    """Return a TRES of each job, as a share of its partition's unless amounts are weighted as they are."""
    if name not in amounts:
        return np.zeros(len(amounts["cpu"]))
    if raw:
        return amounts[name]
    column = {"cpu": "cpus", "mem": "mem_mb", "gres/gpu": "gpus"}.get("gres/gpu" if name.startswith(MODEL) else name)
    values = np.ones(len(known.nodes)) if column is None else known.nodes[column].to_numpy(float)
    if name.startswith(MODEL):
        values = values * (known.model_of_node == name.removeprefix(MODEL))
    totals = known.partition_nodes @ values
    return amounts[name] / np.maximum(totals[known.partition_of], 1.0)
