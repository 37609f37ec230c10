"""Limits of associations, QOS and partition QOS as rows, each a sum over running jobs with a bound.

The order in which limits apply is that of Slurm's page *Resource Limits*, section *Hierarchy*: partition QOS, job QOS,
user association, account associations. Of several bounds on one amount the first that is set binds; group limits of
accounts above each other all bind.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from procure.site.model import Association, Limits, Qos, Site

SUM, RUN_MINUTES, MINUTES, USED, DIFFERENT, ALONE, LICENSE = range(7)
"""What a row counts: an amount while jobs run, that times the minutes left of their limits, these and the minutes used
so far (AccountingStorageEnforce=safe), the minutes used alone: a job starts as long as they are below the bound,
the different nodes that its running jobs are on, the CPUs of a job that takes its nodes whole, or licences."""
TRES = ("cpu", "mem", "node", "gres/gpu", "billing")
MODEL = "gres/gpu:"
"""How the TRES of one GPU model begins; as in Slurm, jobs that name the model count, others do not."""
JOBS = "jobs"
_ANY = 2**31
"""Nodes; no job has so many."""


def is_counted(tres: str) -> bool:
    """Say whether limits on a TRES are applied."""
    return tres in TRES or tres.startswith(MODEL)


class LimitRows(NamedTuple):
    """Which bounds bind which job; the same row is shared by all jobs that it sums over."""

    bound: np.ndarray  # float64[n_rows]
    kind: np.ndarray  # int64[n_rows], `SUM` and so on
    place: np.ndarray  # int64[n_rows], number of each row of `DIFFERENT` nodes among these; −1 = another kind
    late: np.ndarray  # bool[n_rows], Slurm compares it once it has chosen nodes: all but jobs, licences and use so far
    lasting: np.ndarray  # bool[n_rows], use does not decay (a QOS with NoDecay)
    first: np.ndarray  # int64[n_jobs + 1]
    row: np.ndarray  # int64[…], rows of job j: row[first[j]:first[j + 1]]
    amount: np.ndarray  # float64[…], what the job adds to each
    binds: np.ndarray  # bool[…], the row keeps the job; else the job only counts: what comes before sets that bound
    asked: np.ndarray  # float64[…], what it counts for until nodes are chosen: CPUs that it asks for, not whole nodes
    of_qos: np.ndarray  # int64[n_rows], number of the QOS whose limit for all its jobs each row is; −1 = of none
    nodes_of: np.ndarray  # int64[n_jobs], `place` of the first of its rows that limits different nodes; −1 = none


class _Rows:
    def __init__(self) -> None:
        self.number: dict[tuple[Any, ...], int] = {}
        self.bound: list[float] = []
        self.kind: list[int] = []
        self.late: list[bool] = []
        self.lasting: list[bool] = []
        self.of_qos: list[int] = []
        self.qos: dict[str, int] = {}

    def row(self, scope: tuple[Any, ...], kind: int, what: str, bound: float, lasting: bool = False) -> int:
        kind = DIFFERENT if kind == SUM and what == "node" else kind
        key = (*scope, kind, what)
        if key not in self.number:
            self.number[key] = len(self.bound)
            self.bound.append(bound)
            self.kind.append(kind)
            self.late.append(kind not in (USED, LICENSE) and what != JOBS)
            self.lasting.append(lasting)
            whole = len(scope) == 2 and scope[0] == "qos"
            self.of_qos.append(self.qos.setdefault(scope[1], len(self.qos)) if whole else -1)
        return self.number[key]


_GROUPS = ((SUM, "grp_tres"), (RUN_MINUTES, "grp_tres_run_mins"), (MINUTES, "grp_tres_mins"))
_AT_ONCE = (
    *((name, "") for name in ("grp_tres", "max_tres_per_user", "max_tres_per_account")),
    *((name, "minutes of ") for name in ("grp_tres_run_mins", "max_tres_mins_per_job", "grp_tres_mins")),
)
_PER_JOB = (("max_tres_per_job", 1.0), ("max_tres_per_node", 0.0))


def limit_rows(
    site: Site,
    classes: list[tuple[str, ...]],
    class_of: np.ndarray,
    amounts: dict[str, np.ndarray],
    asked: dict[str, np.ndarray],
    licenses: list[dict[str, int]],
) -> LimitRows:
    """Lay the limits out for jobs of classes (partition QOS, QOS, account, user, partition of the association).

    Parameters
    ----------
    classes
        Names; empty where there is none.
    class_of
        int64[n_jobs].
    amounts
        float64[n_jobs] of each of `TRES` and of `JOBS`, all 1.
    asked
        Of those that are others until nodes are chosen.
    licenses
        Of each job, by name; they are bounded by the site's.
    """
    rows = _Rows()
    of_class = [_rows_of(site, names, rows) for names in classes]
    row, amount, before, binds, first = [], [], [], [], [0]
    for job, number in enumerate(class_of):
        for each, what, keeps in of_class[number]:
            adds = amounts[what][job] if what in amounts else 0.0
            at_first = asked[what][job] if what in asked else adds
            if adds > 0 and (rows.kind[each] != ALONE or adds != at_first):
                row.append(each)
                binds.append(keeps)
                amount.append(adds)
                before.append(at_first)
        for name, n in licenses[job].items():
            row.append(rows.row(("license", name), LICENSE, "license", site.licenses.get(name, 0)))
            binds.append(True)
            amount.append(float(n))
            before.append(float(n))
        first.append(len(row))
    kind = np.array(rows.kind, np.int64)
    place = np.where(kind == DIFFERENT, np.cumsum(kind == DIFFERENT) - 1, -1)
    found = [place[[r for r, b in zip(row[i:j], binds[i:j], strict=True) if b]] for i, j in pairwise(first)]
    return LimitRows(
        np.array(rows.bound, np.float64), kind, place.astype(np.int64), np.array(rows.late, bool),
        np.array(rows.lasting, bool),
        np.array(first, np.int64),
        np.array(row, np.int64), np.array(amount, np.float64), np.array(binds, bool), np.array(before, np.float64),
        np.array(rows.of_qos, np.int64),
        np.array([next((n for n in each if n >= 0), -1) for each in found], np.int64),
    )  # fmt: skip


def _rows_of(site: Site, names: tuple[str, ...], rows: _Rows) -> list[tuple[int, str, bool]]:
    """Return the rows in which the jobs of a class count, the amount that each sums, and whether it binds them."""
    if not {"limits", "safe", "all"} & set(site.enforce):
        return []
    part_qos, qos, account, user, *partition = names
    found: list[tuple[int, str, bool]] = []
    taken: set[tuple[Any, ...]] = set()  # amounts that a QOS bounds, so that what comes after it does not
    seen: set[tuple[Any, ...]] = set()

    def bind(scope: tuple[Any, ...], kind: int, what: str, bound: float | None, key: tuple[Any, ...]) -> None:
        seen.update([key] if bound is not None else [])
        if bound is not None:
            kind = USED if kind == MINUTES and not {"safe", "all"} & set(site.enforce) else kind
            found.append((rows.row(scope, kind, what, bound, scope in lasting), what, key not in taken))

    lasting = {("qos", each.name) for each in site.qos if "nodecay" in {flag.lower() for flag in each.flags}}

    for each in _both_qos(site, part_qos, qos):
        if each is None:
            continue
        _group(each.limits, ("qos", each.name), bind)
        _each(each.limits, each.name, user, account, bind)
        taken |= seen
    association = _association(site, account, user, *partition)
    own = ("association", account, user, *((association.partition,) if association and association.partition else ()))
    if association is not None:
        scope = own
        _group(association.limits, scope, bind)
        bind(scope, SUM, JOBS, association.limits.max_jobs, ("user", SUM, JOBS))
    for name in accounts_above(site, account):
        above = _association(site, name, "")
        if above is not None:
            _group(above.limits, ("association", name, ""), bind)
            if association is None or association.limits.max_jobs is None:
                bind(own, SUM, JOBS, above.limits.max_jobs, ("user", SUM, JOBS))
    alone = (each.limits.max_tres_per_job.get("cpu") for each in _in_order(site, names) if each)
    for bound in [each for each in alone if each is not None][:1]:
        found.append((rows.row(("job", bound), ALONE, "cpu", bound), "cpu", True))
    return found


def _group(limits: Limits, scope: tuple[Any, ...], bind: Any) -> None:
    bind(scope, SUM, JOBS, limits.grp_jobs, ("grp", SUM, JOBS))
    for kind, name in _GROUPS:
        for what, bound in getattr(limits, name).items():
            if is_counted(what):
                bind(scope, kind, what, bound, ("grp", kind, what))


def _each(limits: Limits, name: str, user: str, account: str, bind: Any) -> None:
    """Bind what a QOS grants each user and each account."""
    for who, jobs, tres in (
        (("user", user), limits.max_jobs_per_user, limits.max_tres_per_user),
        (("account", account), limits.max_jobs_per_account, limits.max_tres_per_account),
    ):
        bind(("qos", name, *who), SUM, JOBS, jobs, (who[0], SUM, JOBS))
        for what, bound in tres.items():
            if is_counted(what):
                bind(("qos", name, *who), SUM, what, bound, (who[0], SUM, what))


def exceeded(site: Site, names: tuple[str, ...], amounts: dict[str, float], n_nodes: int, limit: int) -> str:
    """Say which limit a job of a class can never meet; empty = it can start."""
    seen: set[str] = set()
    for each in _in_order(site, names):
        if each is None:
            continue
        limits = each.limits
        called = f"QOS {each.name}" if isinstance(each, Qos) else f"association {each.account} {each.user}".strip()
        if limits.max_wall is not None and "wall" not in seen:
            seen.add("wall")
            if limit > limits.max_wall:
                return f"MaxWall of {called}"
        for name, whole in _PER_JOB:
            for what, bound in getattr(limits, name).items():
                if what in amounts and f"{name} {what}" not in seen:
                    seen.add(f"{name} {what}")
                    if (amounts[what] if whole else -(-amounts[what] // n_nodes)) > bound:
                        return f"{name} {what} of {called}"
        for name, of in _AT_ONCE[: None if {"safe", "all"} & set(site.enforce) else -1]:
            for what, bound in getattr(limits, name).items():
                if f"{name} {what}" not in seen and amounts.get(what, 0) * (limit / 60 if of else 1) > bound:
                    return f"a limit on {of}{what} of {called}"
                if isinstance(each, Qos) or name.startswith("max"):  # those of accounts above each other all bind
                    seen.add(f"{name} {what}")
        for what, bound in limits.min_tres_per_job.items():
            if amounts.get(what, bound) < bound:
                return f"MinTRES {what} of {called}"
    return ""


def most_nodes(site: Site, names: tuple[str, ...]) -> int:
    """Return how many nodes a job of a class may have, of those that it finds."""
    bounds = (each.limits.max_tres_per_job.get("node") for each in _in_order(site, names) if each)
    return next((bound for bound in bounds if bound is not None), _ANY)


def _in_order(site: Site, names: tuple[str, ...]) -> list[Qos | Association | None]:
    """Return those whose limits bind a class, the first that sets one first; none where limits are not enforced."""
    part_qos, qos, account, user, *partition = names
    found: list[Qos | Association | None] = [
        *_both_qos(site, part_qos, qos),
        _association(site, account, user, *partition),
    ]
    found += [_association(site, name, "") for name in accounts_above(site, account)]
    return found if {"limits", "safe", "all"} & set(site.enforce) else []


def _both_qos(site: Site, part_qos: str, qos: str) -> list[Qos | None]:
    """Return the partition's QOS and the job's, whose limits stand above under the flag OverPartQOS."""
    both = [_qos(site, part_qos), _qos(site, qos)]
    over = both[1] is not None and "overpartqos" in {flag.lower() for flag in both[1].flags}
    return both[::-1] if over else both


def _qos(site: Site, name: str) -> Qos | None:
    return next((each for each in site.qos if each.name == name), None) if name else None


def _association(site: Site, account: str, user: str, partition: str = "") -> Association | None:
    """Return an association: that of the partition where there is one, else that of all partitions."""
    found = [a for a in site.associations if a.account == account and a.user == user]
    own = [a for a in found if partition and a.partition == partition]
    return next((a for a in own or found if a.partition in ("", partition)), None)


def accounts_above(site: Site, account: str) -> list[str]:
    """Return an account and those above it, the nearest first."""
    above: list[str] = []
    while account and account not in above:
        above.append(account)
        found = _association(site, account, "")
        account = "" if found is None or account == "root" else found.parent
    return above
