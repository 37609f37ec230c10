"""A study: the quotes, the budget, the workloads and every choice of one question, in one TOML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pandas as pd
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from procure.errors import ArgumentError, TableError, within
from procure.objectives import objective
from procure.objectives.aggregate import CVAR_SHARE
from procure.objectives.conditions import JobClass, parse_classes
from procure.objectives.constraints import objectives_of, of_class, parse
from procure.offers import OfferReading
from procure.packages import PackageRules, read_quotes
from procure.packages.costs import Costs
from procure.packages.quotes import read_quote_file
from procure.packages.rules import OrderLines, order_lines, study_lines, with_whole_orders
from procure.policies import catalog
from procure.progress import silent
from procure.settings import (
    MOST_COUNTED,
    MOST_LISTED,
    Count,
    Folder,
    InputFile,
    Name,
    NaturalInt,
    PositiveInt,
    Seed,
    Settings,
    merged,
    named,
    read_toml,
    validated,
)
from procure.study.existing import read_existing
from procure.study.sections import (
    NODES,
    PAST,
    POLICY,
    Award,
    Speed,
    StudyFutures,
    StudySite,
    Workload,
    logged_speed,
    read_workloads,
)
from procure.text import nearest
from procure.workload.speed import speed_notes
from procure.workload.speedups import Application, GpuModel


def _policy_label(policy: Any, info: ValidationInfo) -> str:
    """Return the label of ``"easy"``, ``"easy:depth=4"`` or ``{name = "easy", depth = 4}``."""
    given = {"name": policy} if isinstance(policy, str) else policy
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ValueError(f'{policy!r} was given; write "easy", "easy:depth=4" or {{name = "easy", depth = 4}}')
    more = {key: given[key] for key in given if key != "name"}
    return catalog.spec(given["name"], more, (info.context or {}).get("folder")).label


Policy = Annotated[str, BeforeValidator(_policy_label)]


class Simulate(Settings):
    """Which policies decide, whether a job ends at its limit, and how fast the logged system was.

    A policy is a name, ``NAME:key=value,key=value``, or a table of its name and parameters; here it
    becomes the label that the results carry, e.g. ``easy:depth=4``; a file that a policy reads is named
    relative to the study file, and wholly in the label. ``logged_processor`` or
    ``logged_speed`` hold for every workload that has neither of its own.
    """

    policies: Annotated[tuple[Policy, ...], Field(max_length=MOST_LISTED)] = (catalog.DEFAULT,)
    kill_at_limit: bool = False
    logged_processor: str | None = None
    logged_speed: Speed | None = None

    @field_validator("policies")
    @classmethod
    def _once_each(cls, policies: tuple[str, ...]) -> tuple[str, ...]:
        if not policies:
            raise ValueError("name at least one policy")
        again = [name for name in dict.fromkeys(policies) if policies.count(name) > 1]
        if again:
            raise ValueError(f"each policy may stand once; {again[0]} stands {policies.count(again[0])} times")
        return policies


MOST_SWEPT = 500_000
"""A study of more packages than this is searched and not swept, unless it says otherwise."""


class Sweep(Settings):
    """Which distinct packages are simulated: the first of every ``sample``.

    Without a ``sample``, all are where that is few enough runs, else every tenth: `procure.study.rules.sample_of`.
    Of more than ``max_packages`` there is no list: packages are searched for instead.
    """

    REMOVED: ClassVar[dict[str, str]] = {"offset": "the first of every sample is simulated; leave it out"}

    sample: PositiveInt | None = None
    batch_size: NaturalInt = 0
    max_packages: PositiveInt = MOST_SWEPT


class ModelChoice(Settings):
    """Which model predicts the packages that were not simulated."""

    REMOVED: ClassVar[dict[str, str]] = {"kind": "models are XGBoost's trees; leave it out"}

    feature_set: Literal["composition", "totals"] = "composition"
    folds: Annotated[int, Field(ge=2, le=MOST_COUNTED)] = 5
    seed: Seed = 1


class Evaluate(Settings):
    """What a hit is, and the list lengths at which hits are counted.

    With ``hit_threshold`` several workloads are judged together: a hit is among the best ``hit_share``
    on more of them than that.
    """

    hit_share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    hit_threshold: NaturalInt | None = None
    k: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MOST_LISTED)] = (10, 50, 100, 500, 1000)


class Recommend(Settings):
    """How many packages are recommended and confirmed by simulation, by which objective, within which bounds.

    ``objective`` is one of `procure.objectives.OBJECTIVES`; ``constraints`` are written as
    `procure.objectives.constraints.parse` reads them; ``cvar_share`` is the share of the workloads' weight that the
    objective ``cvar`` is the mean of.
    """

    k: Count = 50
    objective: str = "mean-wait"
    constraints: Annotated[tuple[str, ...], Field(max_length=MOST_LISTED)] = ()
    cvar_share: Annotated[float, Field(gt=0, le=1)] = CVAR_SHARE

    @field_validator("objective")
    @classmethod
    def _known_objective(cls, name: str) -> str:
        return name if of_class(name) else objective(name).name  # the study knows the classes

    @field_validator("constraints")
    @classmethod
    def _readable(cls, constraints: tuple[str, ...]) -> tuple[str, ...]:
        for text in constraints:
            parse(text)
        return constraints


class Search(Settings):
    """How much an active search may simulate, and when it ends; ``runs``, where given, instead of ``share``."""

    runs: Count | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 0.01
    seed: Seed = 1
    batch: Count = 24
    k: Count = 50
    stable_rounds: NaturalInt = 5


MOST_WORKLOADS = 10_000
"""Workloads of a study: a day each of 27 years."""
MOST_APPLICATIONS = 100
"""Applications of a study."""
MOST_MADE = 3_000_000
"""Jobs that the workloads of a study may ask for without a file: all are held at once."""


class Study(Settings):
    """One study file, checked; all paths are absolute or relative to the working folder."""

    REMOVED: ClassVar[dict[str, str]] = {
        "owners": "say whose nodes are whose by the partitions of a [site], as Slurm does",
        "targets": "bound what is promised: recommend.constraints = ['gpu_p95_wait<=4h in 9 of 10']",
    }

    name: Name
    quotes: InputFile
    results: Folder = Path("results")
    offers: OfferReading = OfferReading()
    packages: PackageRules
    workloads: Annotated[tuple[Workload, ...], Field(max_length=MOST_WORKLOADS)]
    simulate: Simulate = Simulate()
    sweep: Sweep = Sweep()
    search: Search = Search()
    model: ModelChoice = ModelChoice()
    evaluate: Evaluate = Evaluate()
    recommend: Recommend = Recommend()
    costs: Costs = Costs()
    award: Award | None = None
    futures: StudyFutures | None = None
    classes: dict[str, str] = Field(default_factory=dict)
    gpu_models: Annotated[dict[str, GpuModel], AfterValidator(named)] = Field(default_factory=dict)
    applications: Annotated[dict[str, Application], Field(max_length=MOST_APPLICATIONS), AfterValidator(named)] = Field(
        default_factory=dict
    )
    site: StudySite | None = None
    _path: Path = PrivateAttr(default=Path("study.toml"))

    @model_validator(mode="before")
    @classmethod
    def _with_the_nodes_of_its_site(cls, values: Any) -> Any:
        """Let the nodes of a site stay, unless others are named."""
        if not isinstance(values, dict):
            return values
        site, packages = values.get("site"), values.get("packages")
        if isinstance(site, dict) and isinstance(site.get("path"), str) and isinstance(packages, dict):
            return values | {"packages": {"existing_nodes": f"{site['path']}/{NODES}"} | packages}
        return values

    @field_validator("workloads")
    @classmethod
    def _named_once(cls, workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
        if not workloads:
            raise ValueError("at least one [[workloads]] table is needed")
        names = [workload.name for workload in workloads]
        again = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if again:
            raise ValueError(f"two workloads are named {again[0]!r}")
        made = sum(one.generate.n_made for one in workloads if one.generate is not None)
        if made > MOST_MADE:
            raise ValueError(
                f"they make up {made:,} jobs, at most {MOST_MADE:,} are; `procure workload generate` makes job tables"
            )
        return workloads

    @field_validator("classes")
    @classmethod
    def _classes_can_be_read(cls, classes: dict[str, str]) -> dict[str, str]:
        return classes if parse_classes(classes) else {}

    @model_validator(mode="after")
    def _classes_are_known(self) -> Study:
        legal = objectives_of(self.classes)
        for name, one in self.award.quantities.items() if self.award is not None else ():
            if one.name not in legal:
                raise ValueError(f"award.weights.{name}: no class of [classes] has it; {nearest(one.name, legal)}")
        try:
            objective(self.recommend.objective, classes=self.classes)
        except TableError as error:
            raise ValueError(f"recommend.objective: {error}") from None
        return self

    @cached_property
    def job_classes(self) -> tuple[JobClass, ...]:
        """The classes of jobs that it defines."""
        return parse_classes(self.classes)

    @property
    def scenarios(self) -> tuple[Workload, ...]:
        """What packages are simulated on: the workloads, or with [futures] the past, which is all of them as one log.

        This has the logged speed and the warm-up of the first workload.
        """
        if self.futures is None:
            return self.workloads
        keep = {"day": None, "generate": None, "begin": "empty", "name": PAST, "weight": 1.0}
        return (self.workloads[0].model_copy(update=keep),)

    @property
    def made_up(self) -> list[str]:
        """The workloads whose jobs are made up."""
        return [one.name for one in self.workloads if one.generate is not None]

    @property
    def path(self) -> Path:
        """The study file."""
        return self._path

    @property
    def folder(self) -> Path:
        """Where this study's tables go: the results folder and the study's name."""
        return self.results / self.name

    def read_quotes(self) -> pd.DataFrame:
        """Read the study's quotes, with what offer and ``[costs]`` charge a node."""
        return OrderLines(study_lines(self.costs.lines)).with_services(read_quotes(self.quotes, self.offers))

    def order_lines(self) -> OrderLines:
        """Return the lines that are no servers and are bought, of the offer and of ``[costs]``."""
        found = order_lines(read_quote_file(self.quotes, self.offers).lines, self.offers.warranty_years)
        return OrderLines((*found.bought, *study_lines(self.costs.lines)), found.left)

    def quote_notes(self) -> list[str]:
        """Say how much of the quote file was guessed, and what is bought beside servers."""
        return [*read_quote_file(self.quotes, self.offers).notes(), *self.order_lines().notes()]

    def logged_processor(self, workload: Workload) -> str | None:
        """Return the processor that a workload was logged on, where the study names one."""
        own = workload.logged_processor is not None or workload.logged_speed is not None
        return (workload if own else self.simulate).logged_processor

    def logged_speed(self, workload: Workload, quotes: pd.DataFrame) -> str | None:
        """Return the speed of the system that a workload was logged on, as decimal text; None = ratio 1.0."""
        if workload.logged_processor is not None or workload.logged_speed is not None:
            return logged_speed(workload, quotes, f"workload {workload.name}")
        return logged_speed(self.simulate, quotes, "simulate")

    def speed_notes(
        self, quotes: pd.DataFrame, existing: pd.DataFrame | None, names: Collection[str] | None = None
    ) -> list[str]:
        """Say how run times are scaled on quoted types and existing nodes, of all workloads or of some."""
        some = [one for one in self.scenarios if names is None or one.name in names]
        speeds = {one.name: self.logged_speed(one, quotes) for one in some}
        return speed_notes(speeds, {one.name: self.logged_processor(one) for one in some}, quotes, existing)

    def read_existing_nodes(self, note: Callable[[str], None] = silent) -> pd.DataFrame | None:
        """Read the node table that is added to every package, None where no node stays; note what is odd about it."""
        rules = self.packages
        if rules.existing_nodes is None:
            return None
        system = read_existing(rules.existing_nodes, rules.retire, rules.existing_down)
        for text in system.notes:
            note(text)
        return None if system.nodes.empty else system.nodes

    def document(self) -> dict[str, Any]:
        """Give every setting, defaults included, as plain values; paths are relative to the study file."""
        return self.model_dump(mode="json", context={"folder": self.path.parent})


def load_study(path: str | Path | Study, settings: Iterable[str] = ()) -> Study:
    """Read a study file; a study is returned as it is.

    Parameters
    ----------
    path
        A TOML file. Paths inside it are relative to its folder; ``name`` defaults to the file's name
        and ``results`` to the folder ``results`` beside it.
    settings
        What is to hold in place of the file's, see `procure.settings.merged`: ``"recommend.k=10"``.

    Raises
    ------
    TableError
        The file is missing or no TOML (with the line), or holds unknown keys, illegal values, or
        input files that do not exist: all of them, one line each.

    Examples
    --------
    >>> import procure
    >>> procure.load_study("study.toml").name
    'small'
    """
    if isinstance(path, Study):
        return path
    path, settings = Path(path), tuple(settings)
    study = _validated(path, settings)
    try:
        lines = study.order_lines()
    except TableError:
        lines = OrderLines()  # every reader of the quotes complains of them
    if lines.bought:
        study = study.model_copy(update={"packages": lines.rules(study.packages)})
    if study.costs.within_budget:
        study = study.model_copy(update={"packages": with_whole_orders(study.packages, study.costs)})
    if study.site is not None:  # by which its policies go
        named = "policies" in study.simulate.model_fields_set
        with within(f"{path}: site"):
            labels = tuple(map(study.site.label, study.simulate.policies if named else (POLICY,)))
        study = study.model_copy(update={"simulate": study.simulate.model_copy(update={"policies": labels})})
    study._path = path
    return study


def _validated(path: Path, settings: tuple[str, ...]) -> Study:
    """Check a study's values; where they are wrong with these settings only, it is these that are wrong."""
    values = read_values(path, settings)
    try:
        return validated(Study, values, str(path), folder=path.parent)
    except TableError as error:
        if not settings:
            raise
        validated(Study, read_values(path), str(path), folder=path.parent)
        raise ArgumentError("settings", str(error)) from None


def read_values(path: Path, settings: Iterable[str] = ()) -> dict[str, Any]:
    """Read a study file's plain values, not yet checked; a file that is no TOML is an error, which names the line."""
    values = read_toml(path)
    for texts in ((), settings):
        merged(values, texts)
        if isinstance(values.get("workloads"), str):
            values["workloads"] = read_workloads(path.parent / values["workloads"], path.parent)
    return {"name": study_name(path), "results": "results"} | values


def study_name(path: Path) -> str:
    """Return the name that a study takes from its file: ``my study.toml`` is ``my-study``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("._-")[:100] or "study"
