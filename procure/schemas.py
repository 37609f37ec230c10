"""The five tables of procure, each written once as data: column, dtype, unit, meaning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Column:
    """One column of a table.

    ``dtype`` is ``int``, ``float``, ``str`` or ``bool``. A column that is not ``required`` may be
    absent; then it is filled with ``default``, or left out where the default is None or the column ``beside`` it is
    absent, too. A ``nullable`` int is pandas' ``Int64``; text has at most ``longest`` characters; ``money`` accepts
    currency text such as ``$6,960``. ``how`` says how the values of several runs become one: ``mean``, ``max``, or
    the sum of a ``count``. ``synonyms`` are headings by which an offer may name the column, separated by commas,
    ``example`` is what the template shows beneath it. ``objective`` is the name by which packages are ranked by a
    metric, and ``goal`` what that is, where it is not the column's own meaning.
    """

    name: str
    dtype: str
    unit: str
    meaning: str
    required: bool = True
    default: object = None
    nullable: bool = False
    minimum: float | None = None
    maximum: float | None = None
    longest: int | None = None
    money: bool = False
    how: str = "mean"
    synonyms: str = ""
    example: str = ""
    objective: str = ""
    goal: str = ""
    beside: str = ""

    @property
    def pandas_dtype(self) -> str:
        """The dtype that a checked frame holds."""
        if self.dtype == "int":
            return "Int64" if self.nullable else "int64"
        return {"float": "float64", "str": "object", "bool": "bool"}[self.dtype]


@dataclass(frozen=True)
class Schema:
    """A table's columns in order; ``unique`` names the column whose values may not repeat.

    An ``open`` table may carry further columns (a count per quoted type, a log's own extras); they
    stand after the known ones, unchecked.
    """

    name: str
    columns: tuple[Column, ...]
    unique: str | None = None
    open: bool = False
    version: int = 1

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @property
    def names(self) -> list[str]:
        """The columns' names in order."""
        return [column.name for column in self.columns]


_LARGEST = {"s, Unix, UTC": 2**40, "s": 2**40, "nodes": 10**8, "MB": 10**10}  # MB of all nodes are still an int64
"""The largest whole number of a unit; of any other, a milliard."""


def _int(name: str, unit: str, meaning: str, **rest: object) -> Column:
    rest.setdefault("minimum", 0)
    rest.setdefault("maximum", _LARGEST.get(unit, 10**9))
    return Column(name, "int", unit, meaning, **rest)  # type: ignore[arg-type]


def _float(name: str, unit: str, meaning: str, **rest: object) -> Column:
    rest.setdefault("minimum", 0)
    return Column(name, "float", unit, meaning, **rest)  # type: ignore[arg-type]


def _str(name: str, meaning: str, **rest: object) -> Column:
    rest.setdefault("longest", 1000)
    return Column(name, "str", "", meaning, **rest)  # type: ignore[arg-type]


_TIME: dict[str, object] = {"minimum": -_LARGEST["s, Unix, UTC"]}
_OPTIONAL: dict[str, object] = {"required": False, "nullable": True}
_EMPTY: dict[str, object] = {"required": False, "default": ""}
_GPU_TYPE = "GPU model, or pools (2x A100 + 2x L40S); empty = any"
SPEEDS = (1e-6, 10**9)
"""The least and the largest speed of a core that is no slip, in any measure."""
_OF_TASKS: dict[str, object] = {"required": False, "default": 0, "beside": "n_tasks"}
_SPEED = _OPTIONAL | {"maximum": SPEEDS[1]}


@dataclass(frozen=True)
class CostItem:
    """What a node costs each year by its quote: a column of quotes, a part of the costs, a line of the bill.

    ``kind`` is that of the line, as in an offer.
    """

    name: str
    meaning: str
    kind: str

    @property
    def column(self) -> str:
        """The column of the quotes, US$ a year for one node."""
        return f"{self.name}_usd_per_year"

    @property
    def cost(self) -> str:
        """The column of the costs, US$ over all years."""
        return f"{self.name}_usd"


COST_ITEMS = (CostItem("licence", "licences", "software"), CostItem("support", "support", "support"))
"""All that is reckoned so; a further row is read from quotes, priced, and stands on the bill."""


QUOTE = Schema(
    "quote",
    (
        _str("name", "the vendor's name of the server type; a column of the package table", longest=200, synonyms=(
            "server type, node type, server, model, configuration, type, product, produkt, gerät, bezeichnung, "
            "servertyp, modell, knotentyp"
        )),
        _str("category", "e.g. compute, bigmem, gpu; a package takes one type of each, or as the study says",
             longest=200, synonyms="kategorie", example="compute"),
        _int("cpus", "CPUs", "CPU cores per node", minimum=1, maximum=100_000, example="64", synonyms=(
            "cores, cpu cores, cores per node, cores per server, cores in total per node, kerne, anzahl kerne, "
            "cpu-kerne, kerne pro knoten, kerne pro server"
        )),
        _float("mem_gb", "GB = 1,000 MB", "memory per node", minimum=1e-6, maximum=10**7, example="768", synonyms=(
            "memory, mem, ram, main memory, memory per node, ram per node, arbeitsspeicher, hauptspeicher, speicher, "
            "ram pro knoten"
        )),
        _int("gpus", "GPUs", "GPUs per node", maximum=10_000, example="0", synonyms=(
            "gpu, accelerators, gpus per node, number of gpus, beschleuniger, anzahl gpus, gpus pro knoten"
        )),
        _float("price_usd", "US$", "price of one node; text such as $6,960 is accepted", money=True, synonyms=(
            "unit price, price per node, price per server, price each, unit cost, price, einzelpreis, "
            "preis pro knoten, preis pro server, preis je knoten, stückpreis, preis pro stück, preis"
        ), example="14950.00"),
        _str("vendor", "who quoted", **_EMPTY, synonyms="bidder, supplier, anbieter, lieferant, hersteller",
             example="Vendor"),
        _str("gpu_type", _GPU_TYPE, **_EMPTY,
             synonyms="gpu model, gpu type, type of gpu, gpu-typ, gpu-modell, gpu typ, gpu modell"),
        _str("processor", "processor model, for information", **_EMPTY, example="AMD EPYC 9354",
             synonyms="cpu, cpu model, cpu type, processor model, prozessor, cpu-typ, prozessortyp"),
        _float("spec_rate", "any speed", "speed of one core; empty = ratio 1.0", **_SPEED),
        _float("spec_rate_node", "any speed", "speed of all cores together, instead of spec_rate", **_SPEED),
        _float("power_w", "W", "power of one busy node", **_OPTIONAL, example="780",
               synonyms="power, power consumption, max power, leistungsaufnahme, leistung, stromaufnahme"),
        _float("idle_power_w", "W", "power of one idle node", **_OPTIONAL, example="250",
               synonyms="idle power, leerlaufleistung"),
        _float("rack_units", "U", "height of one node in a rack", **_OPTIONAL, example="1",
               synonyms="height, höheneinheiten, bauhöhe"),
        _int("min_count", "nodes", "fewest nodes of the type in a package that holds it", **_OPTIONAL),
        _int("max_count", "nodes", "most nodes of the type in a package", **_OPTIONAL),
        _int("pack_size", "nodes", "sold only in multiples of this", minimum=1, **_OPTIONAL),
        _str("lot", "the lot that the type is offered for; a lot goes to one vendor", **_EMPTY, synonyms="los"),
        Column("mandatory", "bool", "", "the type is in every package", required=False, default=False, example="false"),
        _str("valid_until", "last day of the offer, YYYY-MM-DD", **_EMPTY, synonyms="valid to, gültig bis",
             example="2027-03-31"),
        _str("quote_number", "the vendor's number of the offer", required=False, example="Q-1",
             synonyms="quotation number, quote number, offer number, angebotsnummer"),
        *(_float(one.column, "US$/year", f"{one.meaning} per node", money=True, **_OPTIONAL) for one in COST_ITEMS),
        _str("source", "where the figures come from", **_EMPTY, synonyms="quelle", example="data sheet"),
    ),
    unique="name",
)  # fmt: skip

PACKAGE = Schema(
    "package",
    (
        _str("package_id", "type=count pairs joined by commas, in quote-file order, without zeros", longest=None),
        _float("price_usd", "US$", "price of all nodes of the package"),
        _int("total_cpus", "CPUs", "CPU cores of all nodes", maximum=None),
        _float("total_mem_gb", "GB = 1,000 MB", "memory of all nodes"),
        _int("total_gpus", "GPUs", "GPUs of all nodes", maximum=None),
        Column("distinct", "bool", "", "the first row with these counts; only these are simulated"),
    ),
    open=True,
)

JOB = Schema(
    "job",
    (
        _str("job_id", "the log's own identifier"),
        _str("user", "who submitted; empty = unknown", **_EMPTY),
        _int("submit_time", "s, Unix, UTC", "when the job was submitted", **_TIME),
        _int("requested_time", "s", "the user's limit; 0 = none", required=False, default=0),
        _int("run_time", "s", "what it took on the logged system"),
        _int("n_nodes", "nodes", "nodes, each with the amounts below", required=False, default=1, minimum=1),
        _int("cpus_per_node", "CPUs", "CPUs asked for on each node"),
        _int("mem_mb_per_node", "MB", "memory asked for on each node", required=False, default=0),
        _int("gpus_per_node", "GPUs", "GPUs asked for on each node", required=False, default=0),
        _str("gpu_type", "GPU models that will do, such as v100|H100; empty = any", **_EMPTY),
        _str("gpu_speeds", "how many times faster it is on which GPU model: H100=3.1|L40S=1.4", required=False),
        _str(
            "kind_speeds",
            "times faster than in the log by kind of node, perhaps of a share of the run time: Big=1.4|Small=1.2:0.3",
            required=False,
            longest=None,
        ),
        _str("job_name", "name that its user gave it", required=False, longest=None),
        _str("partition", "partition or queue; empty = unknown", **_EMPTY),
        _str("account", "account or group", required=False),
        _str("qos", "quality of service", required=False),
        _float("priority", "", "priority as logged", required=False, nullable=True, minimum=None),
        _str("state", "final state as logged, e.g. COMPLETED", required=False),
        _int("eligible_time", "s, Unix, UTC", "when the job could first start", **_TIME, **_OPTIONAL),
        _int("start_time", "s, Unix, UTC", "when it started; empty = never", **_TIME, **_OPTIONAL),
        _int("end_time", "s, Unix, UTC", "when it ended; empty = not yet", **_TIME, **_OPTIONAL),
        _str("node_ids", "the nodes that it got, separated by commas", required=False, longest=None),
        _int("n_tasks", "tasks", "tasks asked for, wherever there is room; 0 = nodes, as above", **_OF_TASKS),
        _int("cpus_per_task", "CPUs", "CPUs of each task", **_OF_TASKS | {"default": 1, "minimum": 1}),
        _int("mem_mb_per_task", "MB", "memory of each task; 0 = mem_mb_per_node on each node used", **_OF_TASKS),
        _int("gpus_per_task", "GPUs", "GPUs of each task; 0 = gpus_per_node on each node used", **_OF_TASKS),
        _int("tasks_per_node", "tasks", "most tasks on one node; 0 = any", **_OF_TASKS),
        _int("min_nodes", "nodes", "fewest nodes for the tasks", **_OF_TASKS | {"default": 1, "minimum": 1}),
        _int("max_nodes", "nodes", "most nodes for the tasks; 0 = any", **_OF_TASKS),
        Column("exclusive", "bool", "", "takes its nodes whole", required=False, default=False, beside="n_tasks"),
        _float("cpu_percent", "%", "how busy it keeps its CPUs when alone", maximum=100, **_OPTIONAL),
        _float("mem_percent", "%", "how much of its share of the memory it fills", maximum=100, **_OPTIONAL),
        _float("bandwidth_percent", "%", "of its share of the memory bandwidth", maximum=100, **_OPTIONAL),
    ),
    open=True,
)


REQUEST = ["n_nodes", "cpus_per_node", "mem_mb_per_node", "gpus_per_node", "gpu_type"]
"""What a job asks for: columns of the job table."""
TASKS = [column.name for column in JOB.columns if column.beside]
"""What a job of tasks asks for besides; the last, ``exclusive``, a job of nodes may ask for, too."""


def request_columns(jobs: pd.DataFrame) -> list[str]:
    """Return the columns that say what a job table's jobs ask for."""
    return REQUEST + [name for name in TASKS if name in jobs]


def as_logged(jobs: pd.DataFrame, rows: Any = True) -> pd.DataFrame:
    """Return a job table in which rows of tasks, or some of them, ask for the nodes that were logged; else itself."""
    if "n_tasks" not in jobs:
        return jobs
    table, tasks = jobs.copy(deep=False), jobs["n_tasks"].to_numpy() > 0
    if some := (rows := tasks & rows).any():
        on_each = -(-table["n_tasks"] // table["n_nodes"])
        for node, task in (("mem_mb_per_node", "mem_mb_per_task"), ("gpus_per_node", "gpus_per_task")):
            table[node] = table[node].where(~(rows & (table[task] > 0).to_numpy()), on_each * table[task])
    if not (tasks & ~rows).any():
        return table.drop(columns=TASKS[: -1 if table["exclusive"].any() else None])
    for name in TASKS[:-1] if some else ():
        table[name] = table[name].where(~rows, int(name in ("cpus_per_task", "min_nodes")))
    return table


NODE = Schema(
    "node",
    (
        _str("node_id", "name of the server"),
        _str("kind", "its server type", required=False, default="node"),
        _int("cpus", "CPUs", "CPU cores"),
        _int("mem_mb", "MB", "memory"),
        _int("gpus", "GPUs", "GPUs", required=False, default=0),
        _str("gpu_type", _GPU_TYPE, **_EMPTY),
        _float("speed", "any speed", "speed of one core; empty = ratio 1.0", **_SPEED),
        _float("power_w", "W", "power of the busy node", **_OPTIONAL),
        _float("idle_power_w", "W", "power of the idle node", **_OPTIONAL),
        _str("features", "Slurm's features of the node, separated by commas", required=False),
        _int("weight", "", "Slurm's weight: nodes with the least are taken first", **_OPTIONAL),
        _int("threads_per_core", "", "hardware threads that count as CPUs", minimum=1, **_OPTIONAL),
        _int("cpus_per_socket", "", "CPUs of a socket, where jobs take whole ones (CR_Socket)", minimum=1, **_OPTIONAL),
        _int("leaf", "", "leaf switch", **_OPTIONAL),
        _int("pod", "", "pod of the fat-tree", **_OPTIONAL),
        _int("uplinks", "", "uplinks of the leaf switch; empty = as many as the largest leaf has nodes", **_OPTIONAL),
    ),
    unique="node_id",
)


_OF_EACH = {
    "mean_wait_time": ("s", "mean wait of {}; empty = none ran"),
    "p95_wait_time": ("s", "95th percentile of the wait of {}"),
    "share_over_1h": ("share", "share of {} that wait over an hour"),
}
CLASS_FIGURES = tuple(_OF_EACH)
"""What is measured of each class of jobs, in columns ``CLASS_FIGURE``."""
_OF_CLASS = {
    "gpu": "jobs with a GPU",
    "memory": "jobs of more than 8 GB per CPU, without GPU",
    "wide": "jobs on several nodes, without GPU or much memory",
    "cpu": "jobs on one node, without GPU or much memory",
}
CLASSES = tuple(_OF_CLASS)
"""Classes of jobs, see `procure.workload.describe.class_of`."""


def _metric(name: str, unit: str, meaning: str, ranked: str = "", how: str = "mean", make: Any = _float) -> Column:
    """Return a metric; ``ranked`` by it are packages: the objective's name, and after a colon what it is."""
    objective, _, goal = ranked.partition(": ")
    return make(name, unit, meaning, nullable=True, how=how, objective=objective, goal=goal)


METRICS = (
    _int("n_jobs", "jobs", "jobs in the workload, without those of the warm-up", how="count"),
    _metric("n_completed", "jobs", "jobs that ran, killed ones included", how="count", make=_int),
    _metric("n_unrunnable", "jobs", "jobs that fit no empty set of nodes", how="count", make=_int),
    _metric("n_killed", "jobs", "jobs cut at their limit", how="count", make=_int),
    _metric("mean_wait_time", "s", "mean of start − submit over the jobs that ran",
            "mean-wait: mean wait over all jobs"),
    _metric("median_wait_time", "s", "median wait", "median-wait: median wait; several workloads: their mean by jobs"),
    _metric("p95_wait_time", "s", "95th percentile of the wait, linear interpolation",
            "p95-wait: 95th percentile of the wait; several: their mean by jobs"),
    _metric("max_wait_time", "s", "longest wait", "max-wait: longest wait of any job", "max"),
    _metric("mean_bounded_slowdown", "", "mean of max(1, (end − submit)/max(run, 10 s))",
            "slowdown: mean bounded slowdown over all jobs"),
    _metric("mean_turnaround_time", "s", "mean of end − submit",
            "turnaround: mean of end − submit over all jobs"),
    _metric("makespan", "s", "last end − first submit, over the jobs that ran", how="max"),
    _metric("utilization_cpu", "share", "busy CPU-seconds / (CPUs × makespan)"),
    _metric("utilization_mem", "share", "busy MB-seconds / (MB × makespan)"),
    _metric("utilization_gpu", "share", "busy GPU-seconds / (GPUs × makespan)"),
    _metric("max_queue_depth", "jobs", "most jobs waiting after the decisions of a moment", how="max", make=_int),
    _metric("work_left", "share", "work of the counted jobs that was waiting or running at the last submission"),
    _metric("saturated", "0 or 1",
            "the queue grows to the end: the backlog's low tides rise (see Scheduling semantics)", "", "max", _int),
    _metric("share_over_1h", "share", "share of the jobs that ran that waited over an hour",
            "share-over-1h: share of the jobs that wait over an hour"),
    _metric("user_fair_wait_time", "s",
            "mean over the users of each one's mean wait; jobs without a user are one user's",
            "user-fair-wait: mean over the users of each one's mean wait"),
    *(
        _metric(f"{name}_{figure}", unit, meaning.format(jobs))
        for name, jobs in _OF_CLASS.items()
        for figure, (unit, meaning) in _OF_EACH.items()
    ),
)  # fmt: skip
"""What one run is measured by, in the order in which `simulate` reports it."""

RESULT = Schema(
    "result",
    (
        _str("package_id", "which package was simulated", longest=None),
        _str("workload", "which workload"),
        _str("policy", "which policy"),
        _str("status", "ok, or failed"),
        _str("reason", "why a run failed; empty if it did not", longest=None),
        *METRICS,
        _int("schema_version", "", "version of this table"),
    ),
    open=True,
    version=2,
)

SCHEMAS = {schema.name: schema for schema in (QUOTE, PACKAGE, JOB, NODE, RESULT)}

_OTHER_UNITS = {
    "n_nodes": "nodes",
    "busy_share": "share",
    "energy_kwh_per_year": "kWh/year",
    "carbon_t_per_year": "t CO2/year",
    "rack_units": "U",
    "n_switches": "switches",
    "n_cables": "cables",
    "usd_per_job": "US$/job",
    "usd_per_core_hour": "US$/core-hour",
}
_COSTS = (
    "purchase_usd fixed_usd n_nodes busy_share energy_kwh_per_year energy_usd carbon_t_per_year rack_units space_usd "
    f"n_switches n_cables network_usd {' '.join(one.cost for one in COST_ITEMS)} staff_usd lines_usd tax_usd "
    "residual_usd tco_usd usd_per_job usd_per_core_hour"
)
COST_UNITS = {name: _OTHER_UNITS.get(name, "US$") for name in _COSTS.split()}
"""The columns of `total_costs` and their units, in order."""


def group_column(jobs: pd.DataFrame) -> str:
    """Return what says of which group a job is: its account, or its user where the log has no accounts."""
    return "account" if "account" in jobs and (jobs["account"].fillna("") != "").any() else "user"
