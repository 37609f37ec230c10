"""What packages are compared by, named objectives, and bounds on it, such as ``p95_wait<=4h``."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from difflib import SequenceMatcher

import numpy as np

from procure.errors import TableError
from procure.schemas import CLASS_FIGURES, CLASSES, COST_UNITS, METRICS, PACKAGE
from procure.text import MONEY_UNITS, NUMBER, TIME_UNITS, nearest, number, short, with_unit


@dataclass(frozen=True)
class Quantity:
    """A figure of a package: to be made small, or to be kept within bounds.

    ``name`` is as in ``--objective`` or a constraint; ``column`` and ``source`` say whether it is of the result table
    (``result``: known by simulation, predicted elsewhere), the package table (``package``) or
    `procure.packages.costs.total_costs` (``cost``), known for every package. ``how`` workloads are put together, see
    `aggregate`; ``kept``: the least value that so large a ``share`` of the workloads does not exceed.
    """

    name: str
    column: str
    source: str
    unit: str
    meaning: str
    how: str = "mean"
    share: float | None = None

    @property
    def per_workload(self) -> bool:
        """Whether it turns on single workloads, so that a prediction is needed for each."""
        return self.source == "result" and self.how in ("worst", "cvar", "regret-max")

    @property
    def job_class(self) -> str | None:
        """The class of jobs that it is about, built in or a study's own; None = all jobs."""
        if self.source != "result":
            return None
        ends = (f"_{one}" for one in CLASS_FIGURES)
        return next((self.column.removesuffix(end) for end in ends if self.column.endswith(end)), None)


def quantities_of_class(name: str) -> tuple[Quantity, ...]:
    """Return the objectives of one class of jobs: ``NAME-wait``, ``NAME-p95-wait``, ``NAME-share-over-1h``."""
    return tuple(
        Quantity(f"{name}{end}", f"{name}_{figure}", "result", unit, meaning.format(name))
        for end, (figure, unit, meaning) in _OF_CLASS.items()
    )


REMOVED = dict.fromkeys(("rank", "rank-by-class"), "it chose no better than mean-wait on the past; use that")
_OF_CLASS = {
    "-wait": ("mean_wait_time", "s", "mean wait of the class {}"),
    "-p95-wait": ("p95_wait_time", "s", "95th percentile of the wait of the class {}"),
    "-share-over-1h": ("share_over_1h", "share", "share of the class {} over an hour"),
}
_REGRET = "largest over the workloads of (wait − the best there)/max(the best there, 60 s)"
_EVERY = [
    *(Quantity(one.objective, one.name, "result", one.unit, one.goal or one.meaning,
               "max" if one.how == "max" else "mean") for one in METRICS if one.objective),
    Quantity("worst-day", "mean_wait_time", "result", "s", "mean wait on the workload where it is longest", "worst"),
    Quantity("cvar", "mean_wait_time", "result", "s", "mean wait over the worst share of the workloads", "cvar"),
    Quantity("regret-max", "mean_wait_time", "result", "share", _REGRET, "regret-max"),
    *(one for name in CLASSES for one in quantities_of_class(name)),
    Quantity("price", "price_usd", "package", "US$", "purchase price"),
    Quantity("tco", "tco_usd", "cost", "US$", "total cost of ownership over the study's years"),
    Quantity("cost-per-job", "usd_per_job", "cost", "US$/job", "total cost of ownership per job"),
    Quantity("cost-per-core-hour", "usd_per_core_hour", "cost", "US$/core-hour", "total cost per core-hour used"),
    Quantity("energy", "energy_kwh_per_year", "cost", "kWh/year", "energy, cooling included"),
]  # fmt: skip
OBJECTIVES = {one.name: one for one in _EVERY}
"""By name, in the order in which help shows them; less is better for each."""
MEAN_WAIT = OBJECTIVES["mean-wait"]
SHORT = {"wait": "mean-wait", "cost": "tco"}
"""Short names that a bound, or an axis of a front, may have."""


def of_class(name: str) -> bool:
    """Tell whether a name is written like an objective of a class of jobs."""
    return any(name.endswith(end) and name != end[1:] for end in _OF_CLASS)


def quantity_of(name: str) -> Quantity:
    """Return an objective, or one of a class of jobs that a study may have, by its name."""
    end = max((end for end in _OF_CLASS if name.endswith(end) and name != end[1:]), key=len, default="")
    return OBJECTIVES[name] if name in OBJECTIVES else objectives_of([name.removesuffix(end)])[name]


def objectives_of(classes: Iterable[str] = ()) -> dict[str, Quantity]:
    """Return `OBJECTIVES`, and those of a study's own classes of jobs, by name."""
    return OBJECTIVES | {one.name: one for name in classes for one in quantities_of_class(name)}


def objective(name: str, columns: Iterable[str] | None = None, classes: Iterable[str] = ()) -> Quantity:
    """Look an objective up, one of `OBJECTIVES` or of a study's own ``classes`` of jobs.

    That it is unknown, or ``columns`` (what the results and the cost table hold; default: everything) are without its
    column, is a `TableError` that lists those that are there, the nearest first.
    """
    every = objectives_of(classes)
    there = list(every) if columns is None else [one for one in every if every[one].column in set(columns)]
    if name in there:
        return every[name]
    if name in REMOVED:
        raise TableError(f"objective {name!r} was removed: {REMOVED[name]}")
    if name in every:
        raise TableError(
            f"objective {name!r} needs column {every[name].column}, which these results do not hold; "
            f"available here: {_listed(name, there)}"
        )
    raise TableError(f"objective {name!r} is unknown; available here: {_listed(name, there)}")


def _listed(name: str, there: list[str]) -> str:
    return ", ".join(sorted(there, key=lambda one: -SequenceMatcher(None, name, one).ratio())) or "none"


_OPERATOR = re.compile("<=|>=|==|<|>")
_VALUE = re.compile(rf"((?:US)?\$|USD)?\s*({NUMBER})\s*([A-Za-z%]*)")
_OFTEN = re.compile(r"\s+in\s+(\d+)\s+of\s+(\d+)(?:\s+workloads)?\s*$")
_SHAPE = "write NAME OP VALUE, e.g. 'p95_wait<=4h'; OP is one of <= < >= > =="

UNITS: dict[str, dict[str, str]] = {
    "s": {unit: str(seconds) for unit, seconds in TIME_UNITS.items()},
    "US$": {unit: str(usd) for unit, usd in MONEY_UNITS.items()},
    "kWh": {"kWh": "1", "MWh": "1000", "GWh": "1000000"},
    "t": {"t": "1", "kt": "1000"},
    "W": {"W": "1", "kW": "1000", "MW": "1000000"},
    "share": {"%": "0.01"},
    "GB": {"GB": "1", "TB": "1000"},
    "U": {"U": "1"},
}
"""Per dimension, the units that may follow a number, and their factors; a bare number is in the first."""

_CLOSE, _LONGEST = 1e-9, 300
_COMPARE = {"<=": np.less_equal, "<": np.less, ">=": np.greater_equal, ">": np.greater}


@dataclass(frozen=True)
class Constraint:
    """One bound: what the user wrote, what is bounded, by ``<=``, ``<``, ``>=``, ``>`` or ``==``, in its unit."""

    text: str
    of: Quantity
    op: str
    value: float

    def holds(self, values: np.ndarray) -> np.ndarray:
        """Say which values satisfy it, bool; a NaN does not. ``==`` is to nine places."""
        if self.op == "==":
            return np.isclose(values, self.value, rtol=_CLOSE, atol=_CLOSE)
        return _COMPARE[self.op](values, self.value)

    def best(self, values: np.ndarray) -> float:
        """Return the value that comes nearest to satisfying it, or that satisfies it most; NaN of none."""
        known = values[~np.isnan(values)]
        if not len(known):
            return float("nan")
        if self.op == "==":
            return float(known[np.argmin(np.abs(known - self.value))])
        return float(known.min() if self.op[0] == "<" else known.max())


def quantities(types: Iterable[str] = (), classes: Iterable[str] = ()) -> dict[str, Quantity]:
    """Return what can be bounded, by name.

    Result columns (``p95_wait_time``, and ``p95_wait`` for short), objectives (``worst_day``; ``wait`` and ``cost`` for
    short), package columns (``price_usd``, ``total_nodes``, ``jobs_left_out``), cost columns and ``power_w`` (all nodes
    busy), the number of nodes of each quoted type, and the figures of a study's own classes of jobs. Several workloads:
    the mean by jobs, but the largest of maxima.
    """
    found: dict[str, Quantity] = {}
    for column in METRICS:
        if column.how != "count":
            one = Quantity(column.name, column.name, "result", column.unit, column.meaning, column.how)
            found[column.name] = found[column.name.removesuffix("_time")] = one
    for name, objective in objectives_of(classes).items():
        found.setdefault(name.replace("-", "_"), objective)
        if objective.job_class is not None:
            found.setdefault(objective.column, objective)
            found.setdefault(objective.column.removesuffix("_time"), objective)
    found |= {short: OBJECTIVES[name] for short, name in SHORT.items()}
    numbers = [one for one in PACKAGE.columns if one.dtype in ("int", "float")]
    costs, paid = COST_UNITS | {"power_w": "W"}, "from the quotes and the study's [costs]"
    fixed = [
        *((one.name, "package", one.unit.split(" =")[0], one.meaning) for one in numbers),
        ("total_nodes", "package", "nodes", "nodes of all types"),
        ("jobs_left_out", "package", "jobs", "jobs that the package cannot run"),
        *((name, "cost", unit, paid) for name, unit in costs.items()),
        *((name, "package", "nodes", "nodes of this type") for name in types),
    ]
    return found | {name: Quantity(name, name, source, unit, meaning) for name, source, unit, meaning in fixed}


def parse(text: str, known: Mapping[str, Quantity] | None = None) -> Constraint:
    """Read one constraint.

    ``NAME OP VALUE[UNIT]``, e.g. ``p95_wait<=4h``, ``price_usd <= $900,000``, ``utilization_cpu>=50%``; an upper bound
    may end in ``in 9 of 10``: it is kept in that share of the workloads. ``known`` is from `quantities`; None checks
    only how the text is written. What is no such expression, and an unknown name or unit, is a `TableError`.
    """
    if len(text) > _LONGEST:
        raise TableError(f"constraint {short(text)}: at most {_LONGEST:,} characters are allowed; {_SHAPE}")
    bare, often = _OFTEN.sub("", text), _OFTEN.search(text)
    match = _OPERATOR.search(bare)
    name, right = (bare[: match.start()].strip(), bare[match.end() :].strip()) if match else ("", "")
    if match is None or not name or re.search("[<>=]", name + right):
        raise TableError(f"constraint {text!r} cannot be read; {_SHAPE}")
    op = match[0]
    value = _VALUE.fullmatch(right)
    if value is None:
        raise TableError(f"constraint {text!r}: {right!r} is not a number with a unit; {_SHAPE}")
    if known is None:
        return Constraint(text, Quantity(name, name, "", "", ""), op, float("nan"))
    of = known.get(name) or known.get(name.replace("-", "_"))
    if of is None:
        raise TableError(f"constraint {text!r}: {name!r} is unknown; {nearest(name, known)}")
    return Constraint(text, _kept(of, op, text, often) if often else of, op, _amount(text, of, *value.groups()))


def _kept(of: Quantity, op: str, text: str, often: re.Match[str]) -> Quantity:
    """Return the figure that a share of the workloads does not exceed."""
    n, m = map(int, often.groups())
    if not 1 <= n <= m or of.source != "result" or of.how != "mean" or op[0] != "<":
        needs = "'in N of M' follows an upper bound on a figure of each workload, N from 1 to M"
        raise TableError(f"constraint {text!r}: {needs}")
    return replace(of, name=f"{of.name} in {n} of {m}", how="kept", share=n / m)


def _amount(text: str, of: Quantity, currency: str | None, digits: str, unit: str) -> float:
    legal = UNITS.get(re.split("[ /]", of.unit)[0], {})
    if (currency and "USD" not in legal) or (unit and unit not in legal):
        given = unit if unit and unit not in legal else currency
        allowed = ", ".join(legal) or "a plain number"
        raise TableError(f"constraint {text!r}: {given!r} is not a unit of {of.name}; allowed: {allowed}")
    return float(number(digits) * Decimal(legal.get(unit, "1")))


def parse_all(texts: Sequence[str], known: Mapping[str, Quantity]) -> list[Constraint]:
    """Read constraints, and refuse those that contradict each other whatever the packages are."""
    found = [parse(text, known) for text in texts]
    if lines := contradictions(found):
        raise TableError("the constraints cannot be satisfied by any package: " + "; ".join(lines))
    return found


def price_bound(constraints: Iterable[Constraint]) -> float | None:
    """Return what a package may cost at most, US$; None where that is not bounded."""
    bounds = (one for one in constraints if one.of.column == "price_usd" and one.op[0] != ">")
    return min((one.value - 0.01 * (one.op == "<") for one in bounds), default=None)


def contradictions(constraints: Sequence[Constraint]) -> list[str]:
    """Name each pair of bounds on one figure that excludes everything, and each below 0."""
    below = [one for one in constraints if one.op[0] in "<=" and (one.value < 0 or (one.op == "<" and one.value == 0))]
    lines = [f"{one.text!r} asks for less than 0" for one in below]
    for pair in itertools.combinations(constraints, 2):
        same = len({(one.of.column, one.of.source, one.of.how) for one in pair}) == 1
        # Of two bounds at one place, the strict one leaves the place out.
        low = max((-np.inf, 0) if one.op[0] == "<" else (one.value, int(one.op == ">")) for one in pair)
        high = min((np.inf, 0) if one.op[0] == ">" else (one.value, -int(one.op == "<")) for one in pair)
        if same and (low[0] > high[0] or (low[0] == high[0] and (low[1] > 0 or high[1] < 0))):
            lines.append(f"{pair[0].text!r} and {pair[1].text!r} contradict each other")
    return lines


def explain(constraints: Sequence[Constraint], values: Sequence[np.ndarray], n_known: Sequence[int]) -> list[str]:
    """Say why no package satisfies all constraints.

    For each constraint how many satisfy it alone and the best that can be had; then the pairs that exclude each other
    here. ``values`` are each one's figure of every package in question, of which ``n_known`` are simulated.
    """
    held = [one.holds(figures) for one, figures in zip(constraints, values, strict=True)]
    lines = []
    for one, figures, ok, known in zip(constraints, values, held, n_known, strict=True):
        source = "" if known == len(figures) else f" ({known:,} simulated, the others predicted)"
        kept = f"{one.text}: satisfied by {int(ok.sum()):,} of {len(figures):,} packages{source} on its own"
        lines.append(f"{kept}; the {_extreme(one)} is {_best(one, figures)}")
    both = itertools.combinations(range(len(held)), 2)
    pairs = [(i, j) for i, j in both if held[i].any() and held[j].any() and not (held[i] & held[j]).any()]
    for i, j in pairs:
        a, b = constraints[i], constraints[j]
        first = f"with the first, the {_extreme(b)} {b.of.name} is {_best(b, values[j][held[i]])}"
        second = f"with the second, the {_extreme(a)} {a.of.name} is {_best(a, values[i][held[j]])}"
        lines.append(f"{a.text} and {b.text} contradict each other among these packages: {first}; {second}")
    if not pairs and len(held) > 2 and all(ok.any() for ok in held):
        lines.append("any two of them can be satisfied together, but not all")
    return lines


def _extreme(one: Constraint) -> str:
    return {"<": "least", ">": "largest", "=": "nearest"}[one.op[0]]


def _best(one: Constraint, values: np.ndarray) -> str:
    """Write the best value that can be had, rounded so that a bound at the number written holds for it."""
    best = one.best(values)
    if best != best:
        return with_unit(best)
    exact, unit = Decimal(str(best)), one.of.unit
    step = _step(exact, unit)
    up_or_down = {"<": ROUND_CEILING, ">": ROUND_FLOOR, "=": ROUND_HALF_EVEN}[one.op[0]]
    bound = (exact / step).to_integral_value(up_or_down) * step
    if bound == exact and one.op in ("<", ">"):
        bound += step if one.op == "<" else -step
    if unit != "s":
        return with_unit(float(bound), unit)
    seconds = f"{bound:,} s"
    return seconds if abs(bound) < 120 else f"{with_unit(float(bound), unit)} ({seconds})"


def _step(value: Decimal, unit: str) -> Decimal:
    """Return by what the numbers that `procure.text.with_unit` writes differ near a value; whole seconds for times."""
    if unit == "share":
        return Decimal("0.001")
    if unit == "s" or abs(value) >= 1000:
        return Decimal(1)
    return Decimal("0.01") if unit.startswith("US$") else Decimal(1).scaleb(value.adjusted() - 3)
