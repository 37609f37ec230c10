"""What the names in a job table mean at a site: partition, QOS, account, reservation, dependency, array."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files.gpu_pools import models_of
from procure.simulator.arrays import gpus_of, task_columns
from procure.site.bought import joined, texts
from procure.site.limits import MODEL, accounts_above
from procure.site.model import Association, Partition, Site
from procure.site.values import counts

UNLIMITED = 365 * 86_400
"""s; what Slurm's backfill takes where neither job nor partition has a limit: a year."""
_LONGEST = 2**35
"""s; no limit is longer, so that the time when it ends and a row of the job table fit in one word."""
_ARRAY = re.compile(r"([\d-]+)_(\d+)$")
"""Slurm writes the tasks of array 17 as 17_0, 17_1 …; a word before the number makes no array."""


class Known:
    """Names of a job table, looked up at a site; jobs in queue order."""

    def __init__(self, site: Site, nodes: pd.DataFrame, jobs: pd.DataFrame, job: np.ndarray | None = None) -> None:
        """Look up each job's partition, account and QOS; ``job`` = that of each row, as `in_each_partition` says."""
        self.site, self.nodes, self.jobs = site, nodes, jobs
        self.job = np.arange(len(jobs)) if job is None else job
        self.n_jobs = int(self.job.max(initial=-1)) + 1
        self.asked = self._asked, self._n_nodes = jobs[["requested_time", "n_nodes"]].to_numpy(np.int64).T
        self.features, self.partition_nodes = joined(site, nodes)
        number = {each.name: n for n, each in enumerate(site.partitions)}
        default = next((n for n, each in enumerate(site.partitions) if each.default), -1)
        if default < 0 and len(site.partitions) == 1:
            default = 0
        given = self.text("partition")
        self.unknown_partition = {name for name in given if name and name not in number}
        of = [default if not name or name not in number else number[name] for name in given]
        if -1 in of:
            job = jobs["job_id"].iloc[of.index(-1)]
            raise TableError(f"job {job} names no partition of the site, and the site has no default partition")
        self.given_partition = given
        self.partition_of = np.array(of, np.int64)
        self.user = self.text("user")
        self.given_account = self.text("account")
        defaults: dict[str, str] = {}
        self._of: dict[tuple[str, str], Association] = {}
        self._by_partition = {(a.account, a.user, a.partition): a for a in site.associations if a.partition}
        for each in site.associations:
            if each.user and (each.default or each.user not in defaults):
                defaults[each.user] = each.account
            self._of[each.account, each.user] = each
        self.account = [a or defaults.get(u, "") for a, u in zip(self.given_account, self.user, strict=True)]
        self.given_qos = self.text("qos")
        self.partition = [site.partitions[n].name for n in of]
        owners = list(zip(self.account, self.user, self.partition, strict=True))
        self._above = {name: accounts_above(site, name) for name in set(self.account)}
        self.qos_of = {each: self._qos_of(*each) for each in set(owners)}
        self.qos = [given or self.qos_of[each][0] for given, each in zip(self.given_qos, owners, strict=True)]
        self.given_reservation = self.text("reservation")
        times: dict[str, list[tuple[int, int]]] = {}  # when each time of a reservation is over, NAME, NAME~1 …
        for n, one in enumerate(site.reservations):
            times.setdefault(re.sub(r"~\d+$", "", one.name), []).append((one.over, n))
        submitted = jobs["submit_time"].tolist()
        self.time_of = [
            next(((over, n) for over, n in sorted(times.get(name, ())) if when < over), max(times.get(name, [(0, -1)])))
            for name, when in zip(self.given_reservation, submitted, strict=True)
        ]
        self.reservation_over = [when >= over for (over, _), when in zip(self.time_of, submitted, strict=True)]
        self.model_of_node = np.array([kind.casefold() for kind in texts(nodes, "gpu_type")], object)
        self.gpu_type = [
            kind.casefold() if n else "" for kind, n in zip(self.text("gpu_type"), gpus_of(jobs), strict=True)
        ]

    def text(self, name: str) -> list[str]:
        """Return a text column of the jobs, empty where the table has none."""
        return texts(self.jobs, name)

    def numbers(self, name: str) -> np.ndarray:
        """Return a numeric column of the jobs, 0 where missing: float64[n_jobs]."""
        if name not in self.jobs:
            return np.zeros(len(self.jobs))
        values = pd.to_numeric(self.jobs[name], errors="coerce")
        return np.nan_to_num(values.to_numpy(np.float64, na_value=np.nan))

    def _qos_of(self, account: str, user: str, partition: str) -> tuple[str, tuple[str, ...]]:
        """Return an association's default QOS and the QOS that it may use, its own or those of accounts above it."""
        found = [self._by_partition.get((account, user, partition)), self._of.get((account, user))]
        found += [self._of.get((name, "")) for name in self._above[account]]
        may = next((each.qos for each in found if each and each.qos), ())
        usual = next((each.default_qos for each in found if each and each.default_qos), "")
        usual = usual if not may or usual in may else ""
        return usual or ("normal" if "normal" in may or not may else may[0]), may

    def of_partition(self, what: Callable[[Partition], object]) -> np.ndarray:
        """Return a whole number of each job's partition: int64[n_jobs]."""
        return np.array([int(bool(what(each))) for each in self.site.partitions], np.int64)[self.partition_of]

    def has_gpu_type(self, gpu_type: str) -> np.ndarray:
        """Return which nodes have GPUs of a type; a node that states none may have any."""
        asked = models_of(gpu_type)
        types = [models_of(kind) for kind in texts(self.nodes, "gpu_type")]
        return np.array([not asked or not models or bool(models & asked) for models in types], bool)

    def whole(self) -> np.ndarray:
        """Return which jobs take their nodes whole: bool[n_jobs]."""
        exclusive = [each.oversubscribe.startswith("exclusive") for each in self.site.partitions]
        asked = np.array([value not in ("", "0", "no", "False") for value in self._as_text("exclusive")])
        linear = self.site.select.consume == "node"
        return np.array(exclusive, bool)[self.partition_of] | asked | linear

    def all_memory(self) -> np.ndarray:
        """Return which jobs take all memory of their nodes, where memory counts, and no more: bool[n_jobs]."""
        asked = np.array([value in ("1", "True") for value in self._as_text("all_memory")], bool)
        return asked & bool(self.site.select.memory) & ~self.whole()

    def own_cores(self) -> np.ndarray:
        """Return `Requests.own_cores`."""
        return np.array([{"task": 1, "cpu": 2}.get(value, 0) for value in self._as_text("own_cores")], np.int64)

    def of_whole_nodes(self, column: str) -> np.ndarray:
        """Return the CPUs or MB per node that a job counts for when it takes its nodes whole: its partition's mean."""
        total = self.nodes[column].to_numpy(np.float64)
        means = (self.partition_nodes @ total) / np.maximum(self.partition_nodes.sum(axis=1), 1)
        return np.ceil(means)[self.partition_of].astype(np.int64)

    def _as_text(self, name: str) -> list[str]:
        if name not in self.jobs:
            return [""] * len(self.jobs)
        return ["" if pd.isna(value) else str(value) for value in self.jobs[name]]

    def memory(self, n_cpus: np.ndarray) -> np.ndarray:
        """Return the memory per node that is allocated, MB: what was asked for, else the default of so many CPUs."""
        asked, per_cpu = self.jobs["mem_mb_per_node"].to_numpy(np.int64), self.memory_per_cpu()
        return np.where(asked > 0, asked, np.where(per_cpu > 0, n_cpus * per_cpu, self._memory_per_node()))

    def _memory_per_node(self) -> np.ndarray:
        usual = self.site.select.def_mem_per_node_mb or 0
        return np.array([each.def_mem_per_node_mb or usual for each in self.site.partitions])[self.partition_of]

    def per_gpu(self, field: str, what: str) -> np.ndarray:
        """Return a default per GPU of each job whose `gpu_defaults` name it: int64[n_jobs]; 0 = none."""
        usual = getattr(self.site.select, field) or 0
        given = np.array([getattr(each, field) or usual for each in self.site.partitions], np.int64)
        return given[self.partition_of] * np.array([what in text for text in self.text("gpu_defaults")], bool)

    def memory_per_cpu(self) -> np.ndarray:
        """Return the memory that comes with each CPU of a job, MB; 0 where it asks for that of nodes, or gets so much.

        A log says what a job got by default as what it asked for: the default of its CPUs is taken to be it.
        """
        select = self.site.select  # of both Slurm takes that per node
        usual = 0 if select.def_mem_per_node_mb else select.def_mem_per_cpu_mb or 0
        each = [0 if e.def_mem_per_node_mb else e.def_mem_per_cpu_mb or usual for e in self.site.partitions]
        default, of = np.array(each, np.int64)[self.partition_of], task_columns(self.jobs)
        asked, cpus = self.jobs[["mem_mb_per_node", "cpus_per_node"]].to_numpy(np.int64).T
        shared = -(-self._memory_per_node() // np.maximum(of["n_tasks"], 1))  # as a log shares a node's default out
        of_task = np.where(of["mem_mb_per_task"] == shared, 0, of["mem_mb_per_task"])
        of_cpu = of_task // np.maximum(of["cpus_per_task"], 1)
        return np.where(of_cpu > 0, of_cpu, np.where((asked > 0) & (asked != default * cpus), 0, default))

    def limits_of_time(self) -> np.ndarray:
        """Return each job's limit in whole minutes, s: its own, at most the partition's, else the usual one."""
        asked = self.jobs["requested_time"].to_numpy(np.int64)
        asked = -(-asked // 60) * 60
        most = np.array([each.max_time or UNLIMITED for each in self.site.partitions])[self.partition_of]
        usual = np.array([each.default_time or UNLIMITED for each in self.site.partitions])[self.partition_of]
        return np.minimum(np.minimum(np.where(asked > 0, asked, usual), most), _LONGEST).astype(np.int64)

    def eligible(self, first: int) -> np.ndarray:
        """Return when a job may start at the earliest, s after the first submission.

        A begin time counts; the logged time of a job that depends on jobs of the table does not: that is simulated.
        """
        submit = self.jobs["submit_time"].to_numpy(np.int64) - first
        begin = self.numbers("begin_after").astype(np.int64)
        found = submit + begin
        if "eligible_time" in self.jobs:
            logged = self.numbers("eligible_time").astype(np.int64) - first
            depends = np.array([bool(each_on) for each_on in self._dependencies()])  # of jobs of the table
            limited = self.numbers("array_limit") > 0
            found = np.where((logged > found) & ~depends & ~limited, logged, found)
        return found

    @functools.cached_property
    def licenses(self) -> list[dict[str, int]]:
        """The licenses of each job, by name, where the site counts any."""
        found = []
        for job, text in zip(self.jobs["job_id"], self.text("licenses"), strict=True):
            try:
                found.append(counts(re.sub("[;&]", ",", text)) if self.site.licenses else {})
            except ValueError:
                raise TableError(f"job {job}: licenses {text!r} was given; names such as a:2,b are needed") from None
        return found

    def classes(self) -> tuple[list[tuple[str, ...]], np.ndarray]:
        """Number the combinations of partition QOS, QOS, account, user, and the partition that an association names."""
        part_qos = [self.site.partitions[n].qos for n in self.partition_of]
        owners = zip(self.account, self.user, self.partition, strict=True)
        of_assoc = [p if (a, u, p) in self._by_partition else "" for a, u, p in owners]
        keys = list(zip(part_qos, self.qos, self.account, self.user, of_assoc, strict=True))
        number: dict[tuple[str, ...], int] = {}
        of_job = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
        return list(number), of_job

    @staticmethod
    def by_model(models: list[str], gpus: np.ndarray) -> dict[str, np.ndarray]:
        """Return the GPUs of each job as amounts of the TRES of their model."""
        of = np.array(models, object)
        return {MODEL + model: np.where(of == model, gpus, 0.0) for model in set(models) - {""}}

    def _models_got(self) -> list[str]:
        """Return the GPU model that each job gets: the one that it names, or the only one of its partition."""
        there = [set(self.model_of_node[mask & (self.nodes["gpus"] > 0)]) for mask in self.partition_nodes]
        only = ["".join(models) if len(models) == 1 else "" for models in there]
        return [named or only[n] for named, n in zip(self.gpu_type, self.partition_of, strict=True)]

    def billing(self, amounts: dict[str, np.ndarray]) -> np.ndarray:
        """Return what a job counts for (TRES billing): its CPUs, or what the partition's weights make of it."""
        most = "max_tres" in self.site.priority.flags
        amounts = amounts | self.by_model(self._models_got(), amounts["gres/gpu"])
        found = amounts["cpu"].copy()
        for n, each in enumerate(self.site.partitions):
            if each.billing_weights:
                here = self.partition_of == n
                terms = [amounts.get(k, 0 * found) * w for k, w in each.billing_weights.items()]
                found[here] = (np.maximum.reduce(terms) if most else sum(terms))[here]  # type: ignore[index]
        return found

    def weight_of(self, tres: str) -> np.ndarray:
        """Return by how much the billing of each job grows with a CPU or an MB that it holds: float64[n_jobs]."""
        most = "max_tres" in self.site.priority.flags  # then it may be another TRES that counts
        usual = {"cpu": 1.0}
        weights = [
            {} if most and each.billing_weights else each.billing_weights or usual for each in self.site.partitions
        ]
        return np.array([each.get(tres, 0.0) for each in weights])[self.partition_of]

    def usage_factor(self) -> np.ndarray:
        """Return by how much each job's usage counts, as its QOS says: float64[n_jobs]."""
        factor = {each.name: each.usage_factor for each in self.site.qos}
        return np.array([factor.get(name, 1.0) for name in self.qos])

    def reservation(self) -> np.ndarray:
        """Return each job's reservation, int64[n_jobs], −1 = none."""
        return np.array([n for _, n in self.time_of], np.int64)

    def arrays(self) -> dict[str, np.ndarray]:
        """Number the arrays with more than one task; their limits of running tasks."""
        ids = [_ARRAY.match(str(job)) for job in self.jobs["job_id"]]
        number: dict[str, int] = {}
        of_job = np.array([-1 if m is None else number.setdefault(m[1], len(number)) for m in ids], np.int64)
        limit, there = np.zeros(len(number), np.int64), of_job >= 0
        np.maximum.at(limit, of_job[there], self.numbers("array_limit").astype(np.int64)[there])
        return {"array": of_job, "array_limit": limit}

    def _dependencies(self) -> list[list[list[tuple[str, int]]]]:
        """Return what each job waits for: alternatives, each a list of kinds and jobs; a whole array is all its tasks.

        Of a list with ``?`` each job, or array, is an alternative; of one with ``,`` all together are the only one. An
        alternative of which no job is in the table counts as satisfied: then the job waits for nothing.
        """
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.jobs["job_id"].astype(str).iloc[: self.n_jobs]):
            rows.setdefault(name, []).append(row)
            match = _ARRAY.match(name)
            if match:
                rows.setdefault(match[1], []).append(row)
        found = []
        alike: dict[tuple[str, str], list[int]] = {}
        """Like jobs from the last singleton on, which waits for all before it."""
        texts = self.text("dependency")
        named = zip(texts[: self.n_jobs], self.text("job_name"), self.user, strict=False)
        for job, (text, name, user) in enumerate(named):
            each_on: list[list[tuple[str, int]]] = []
            before = alike.setdefault((name, user), [])
            for item in filter(None, re.split("[,?]", text.replace("(unfulfilled)", ""))):
                kind, _, jobs = item.partition(":")
                if kind == "singleton":
                    each_on.append([("afterany", n) for n in before])
                    if "?" not in text:  # with another alternative it need not have waited for them
                        before.clear()
                for one in filter(None, jobs.split(":")):
                    each_on.append([(kind, row) for row in rows.get(one.partition("+")[0], []) if row != job])
            before.append(job)
            if "?" in text:
                found.append(each_on if all(each_on) else [])
            else:
                found.append([on] if (on := list(itertools.chain(*each_on))) else [])
        return [found[job] for job in self.job]

    def dependencies(self, left: list[list[list[tuple[str, int]]]] | None = None) -> dict[str, np.ndarray]:
        """Lay the dependencies out, or those that are left; those on jobs that are not in the table are satisfied."""
        found = self._dependencies() if left is None else left
        first = np.concatenate([[0], np.cumsum([sum(map(len, each_on)) for each_on in found])]).astype(np.int64)
        flat = [(n, *each) for each_on in found for n, on in enumerate(each_on) for each in on]
        return {
            "on_first": first,
            "on": np.array([row for _, _, row in flat], np.int64),
            "on_start": np.array([kind == "after" for _, kind, _ in flat], np.int64),
            "on_either": np.array([n for n, _, _ in flat], np.int64),
        }

    def failing(self) -> np.ndarray:
        """Return the jobs that do not end well: by their logged state, or because their limit comes first."""
        run = self.jobs["run_time"].to_numpy(np.int64)
        asked = self.jobs["requested_time"].to_numpy(np.int64)
        failed = (asked > 0) & (run > asked)
        states = np.array(self.text("state"))
        return np.flatnonzero(failed | ~np.isin(states, ["", "COMPLETED"]))

    def never_satisfied(self, failed: set[int]) -> tuple[list[int], list[list[list[tuple[str, int]]]]]:
        """Return the jobs whose ``afterok`` job fails or whose ``afternotok`` job does not, and those after them.

        And what each job waits for without the alternatives that are never satisfied.
        """
        hopeless: list[int] = []
        bad, dead, left = set(failed), set[int](), []

        def never(kind: str, other: int) -> bool:
            return (kind == "afterok" and other in bad) or (kind == "afternotok" and other not in bad) or other in dead

        for job, each_on in enumerate(self._dependencies()):
            left.append([on for on in each_on if not any(never(kind, other) for kind, other in on)])
            if each_on and not left[job]:
                hopeless.append(job)
                bad.add(job)
                dead.add(job)
        return hopeless, left

    def refusal(self, job: int) -> str:
        """Say why the site would not take a job, but for limits and nodes; empty = it would."""
        site, partition = self.site, self.site.partitions[self.partition_of[job]]
        name = self.given_partition[job]
        if name in self.unknown_partition:
            return f"partition {name} is not at the site"
        enforced = {"associations", "limits", "qos", "safe", "all"} & set(site.enforce)
        account, user, qos = self.account[job], self.user[job], self.qos[job]
        if enforced and self._of.keys() - {("root", "")} and (account, user) not in self._of:
            if (account, "") not in self._of:
                return f"account {account or '(none)'} is not at the site"
            return "its user has no association with its account"
        if {"qos", "safe", "limits", "all"} & set(site.enforce) and qos not in {each.name for each in site.qos}:
            return f"QOS {qos} is not at the site"
        may = self.qos_of[account, user, partition.name][1]
        if {"qos", "all"} & set(site.enforce) and may and qos.lower() not in {each.lower() for each in may}:
            return f"its association does not take QOS {qos}"
        if not _takes(partition.allow_qos, partition.deny_qos, {qos}):
            return f"partition {partition.name} does not take QOS {qos}"
        above = self._above[account] if site.accounts_hold_below else ()
        by_account = enforced or not site.accounts_hold_below  # since Slurm 23.02 they hold where associations do
        if by_account and not _takes(partition.allow_accounts, partition.deny_accounts, {account, *above}):
            return f"partition {partition.name} does not take account {account}"
        if partition.state in ("down", "inactive", "drain"):
            return f"partition {partition.name} is {partition.state}"
        asked = int(self._asked[job])
        if partition.max_time is not None and max(-(-asked // 60), 1) * 60 > partition.max_time:
            return f"its limit is longer than partition {partition.name} allows"
        n_nodes = int(self._n_nodes[job])
        if n_nodes < partition.min_nodes or (partition.max_nodes is not None and n_nodes > partition.max_nodes):
            return f"partition {partition.name} does not take its number of nodes"
        if lacking := [name for name, n in self.licenses[job].items() if n > site.licenses.get(name, 0)]:
            return f"the site has not so many licences {lacking[0]}"
        reservation = self.given_reservation[job]
        if reservation:
            if self.time_of[job][1] < 0:
                return f"reservation {reservation} is not at the site"
            found = site.reservations[self.time_of[job][1]]
            if self.reservation_over[job]:
                return f"reservation {reservation} was over when it was submitted"
            if not (_may(found.users, {user}) and _may(found.accounts, {account, *self._above[account]})):
                return f"reservation {reservation} does not take its user"
        return ""


def _takes(allowed: Sequence[str], denied: Sequence[str], of: set[str]) -> bool:
    """Tell whether a partition takes any of these names; what it denies counts where it allows all."""
    return bool(of & set(allowed)) if allowed else not of & set(denied)


def _may(named: Sequence[str], of: set[str]) -> bool:
    """Tell whether a list of a reservation takes any of these names; -bob takes all but bob."""
    plain = {name for name in named if not name.startswith("-")}
    return not {f"-{name}" for name in of} & set(named) and (not plain or bool(plain & of))
