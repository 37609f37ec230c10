"""Fit a site to a log: rules, each kept only where replays of unseen parts come closer to it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from procure.account.account import Account, account_waits
from procure.account.inferred import Outage
from procure.account.layout import started_jobs
from procure.account.nodes import ALL, held_cpus
from procure.account.sweep import ELIGIBLE, LIMIT, OUTAGE, PAUSE, RESERVED, UNEXPLAINED
from procure.comparison.waits import compare_pairs, pair_waits
from procure.errors import TableError
from procure.fitting.policy import Rules
from procure.progress import step
from procure.run import simulate
from procure.schemas import JOB, NODE
from procure.site.model import NodeEvent, Rule, Site
from procure.site.store import node_list, write_site
from procure.tables import as_table
from procure.text import Shown, counted


class Fidelity(NamedTuple):
    """Of all jobs with both waits."""

    mean_error: float  # s, mean of the absolute differences
    distance: float  # Wasserstein distance of log(1 + wait)
    rank_correlation: float
    level: float = 1.0  # mean wait of the schedule over the log's

    def ratios(self, other: Fidelity) -> np.ndarray:
        """Return how far this is beside another in each of the three, 1 = as far."""
        own, beside = (np.array([one.mean_error, one.distance, 1 - one.rank_correlation]) for one in (self, other))
        return (own + 1e-9) / (beside + 1e-9)


def fidelity(jobs: pd.DataFrame, schedule: pd.DataFrame) -> Fidelity:
    """Compare the starts of a schedule with those of its log, row by row; waits as `procure.comparison.waits`."""
    waits = pair_waits(jobs, schedule).dropna()
    if len(waits) < 2:
        return Fidelity(0.0, 0.0, 0.0)
    found = compare_pairs(waits)
    order = found["rank_correlation"]
    level = (found["simulated_mean"] + 1) / (found["logged_mean"] + 1)
    return Fidelity(found["mean_error"], found["distance"], 0.0 if math.isnan(order) else order, level)


SHORTEST = 4 * 86_400
"""s; a shorter log shows no rule that goes by days, and has no part to try a rule on."""
FEWEST = 200
"""Jobs that a fit needs."""
FOLDS = ((0.55, 0.75), (0.75, 1.0), (0.6, 1.0))
"""What is learnt on the jobs before the first share is tried on those up to the second; the last is as long a time
after what it learns from as a log that is yet to come."""
GAIN = 0.005
"""A rule must bring replays closer by this share."""
LUCK = 0.01
"""By so much a mean error may be above or below another's by luck, as parts of one log show."""
LEAST_OF_NAME = 30
"""Jobs that a user, partition or account must have for a pause of its own."""
INFERRED = "inferred"
"""How the reason of an event begins that the log shows; it is replaced when a site is fitted anew."""
HELD = [ELIGIBLE, LIMIT, RESERVED, OUTAGE, PAUSE, UNEXPLAINED]
"""Causes during which there was room."""


class _Seen(NamedTuple):
    """What rules are inferred from."""

    log: pd.DataFrame
    account: Account
    explained: tuple[int, ...] = ()  # causes that what is kept brings about by itself

    @property
    def held(self) -> np.ndarray:
        """How long each job waited with room, s, by causes that no limit or event of its own brings about."""
        return self.account.by_job[:, [cause for cause in HELD if cause not in self.explained]].sum(1)


@dataclass(frozen=True, repr=False)
class Fitted(Shown):
    """A site as a log shows it.

    Attributes
    ----------
    site, nodes
        The rules as lines of ``site.toml``, and the node table.
    table
        A row per rule: ``kind subject value evidence``.
    tried
        How far replays of parts that were not learnt from were from the log: ``policy part mean_error distance
        rank_correlation level``, the last of the mean wait as a share of the log's.
    notes
        Sentences.
    """

    site: Site
    nodes: pd.DataFrame
    table: pd.DataFrame
    tried: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """How much was found."""
        return f"{counted(len(self.table), 'rule')} that the log shows"

    def to_dict(self) -> dict[str, Any]:
        """Return the fit for programs."""
        return {
            "rules": [rule.model_dump(mode="json") for rule in self.site.rules],
            "tried": self.tried.to_dict(orient="records"),
            "notes": list(self.notes),
        }

    def write(self, folder: str | Path) -> Path:
        """Write the site's folder: ``site.toml`` and ``nodes.csv``."""
        return write_site(self.site, self.nodes, folder)


def fit_site(
    jobs: pd.DataFrame | str | Path,
    nodes: pd.DataFrame | str | Path,
    site: Site | None = None,
) -> Fitted:
    """Infer from a log the rules under which its jobs started.

    Rules are pauses (of all, of partitions, accounts and users) and limits of users, accounts and partitions. They are
    learnt on the first part of the log, three times, and tried by replaying the part that follows with what ran and
    waited as it began: a rule is kept if mean error, distance and rank correlation come closer to the log than without
    it, in their mean and in the worst of them, and none of the three is over 1 % further than EASY's. What is kept is
    then learnt again on the whole log.

    Parameters
    ----------
    jobs
        Job table with ``start_time``, of at least four days and 200 jobs.
    nodes
        Node table.
    site
        Known rules, to which the inferred ones are added; inferred ones of before are replaced. Its events take nodes
        away in the account and the replays.

    Raises
    ------
    TableError
        No start times, too short a log, several clusters, or nodes that do not hold what ran on them.

    Examples
    --------
    >>> import procure
    >>> fitted = procure.fit_site("logged.parquet", "nodes.csv")
    >>> list(fitted.table.columns)
    ['kind', 'subject', 'value', 'evidence']
    >>> sorted(fitted.tried["policy"].unique())
    ['easy', 'rules']
    """
    table, system = as_table(jobs, JOB), as_table(nodes, NODE)
    log = started_jobs(table)
    span = int(log["submit_time"].max() - log["submit_time"].min())
    if span < SHORTEST or len(log) < FEWEST:
        raise TableError(
            f"the log has {counted(len(log), 'job')} submitted within {span / 86_400:.1f} days; rules are inferred "
            f"from at least {FEWEST} jobs and {SHORTEST // 86_400} days"
        )
    known = site or Site()
    held = held_cpus(log, system["cpus"].to_numpy(np.int64), known)
    if (held > log["cpus_per_node"].to_numpy(np.int64)).any():  # the replays of a fit know no partitions
        log = log.assign(held_cpus_per_node=held)
    with tempfile.TemporaryDirectory() as folder:
        return _fit(log, system, known, Path(folder))


def _fit(log: pd.DataFrame, system: pd.DataFrame, site: Site, folder: Path) -> Fitted:
    parts = [(log.iloc[: int(a * len(log))], log.iloc[int(a * len(log)) : int(b * len(log))]) for a, b in FOLDS]
    parts = [tuple(part.reset_index(drop=True) for part in pair) for pair in parts]  # type: ignore[misc]
    replayed = [pd.concat([_open(first, later), later], ignore_index=True) for first, later in parts]
    site = site.model_copy(update={"events": _events(log, system, site, folder)})
    names = set(system["node_id"])
    gone = Site(events=tuple(one for one in site.events if names.issuperset(node_list(one.nodes, system))))
    explained = (OUTAGE,) if gone.events else ()
    whole = _Seen(log, account_waits(log, system, gone), explained)
    firsts = [_Seen(first, account_waits(first, system, gone, part=True), explained) for first, _ in parts]

    def tried(learnt: Sequence[tuple[Rule, ...]], policy: str) -> list[Fidelity]:
        found = []
        for rules, (_, later), every in zip(learnt, parts, replayed, strict=True):
            write_site(gone.model_copy(update={"rules": rules}), system, folder)
            named = "easy" if policy == "easy" else Rules.model_validate({"site": folder.as_posix()})
            schedule = simulate(every, system, named).schedule.tail(len(later)).reset_index(drop=True)
            found.append(fidelity(later, schedule))
        return found

    with step("replaying under EASY"):
        easy = tried([()] * len(parts), "easy")
    kinds: list[str] = []
    seen = tried([()] * len(parts), "rules") if gone.events else easy
    best = _score(seen, easy)[0] if gone.events else 1.0
    for kind, infer in _KINDS.items():
        with step(f"trying rules: {kind}"):
            if not any(infer(first) for first in firsts):
                continue
            found = tried([_rules([*kinds, kind], first) for first in firsts], "rules")
            score, is_no_worse = _score(found, easy)
            if score < best * (1 - GAIN) and is_no_worse:
                kinds, best, seen = [*kinds, kind], score, found
    rules = _rules(kinds, whole)
    rows = [
        {"policy": policy, "part": f"{a:.0%} to {b:.0%}", **one._asdict()}
        for policy, found in (("easy", easy), ("rules", seen))
        for (a, b), one in zip(FOLDS, found, strict=True)
    ]
    notes = _notes(kinds, gone.events)
    fitted = site.model_copy(update={"rules": (*(r for r in site.rules if r.kind not in _INFERRED), *rules)})
    shown = pd.DataFrame([rule.model_dump() for rule in rules], columns=["kind", "subject", "value", "evidence"])
    return Fitted(fitted, system, shown, pd.DataFrame(rows), notes)


def _open(first: pd.DataFrame, later: pd.DataFrame) -> pd.DataFrame:
    """Return the earlier jobs that a later part of a log begins with.

    What ran then is submitted as it started, what waited as the part begins.
    """
    begin = int(later["submit_time"].iloc[0])
    left = first[first["end_time"] > begin]
    left = left.assign(submit_time=np.minimum(left["start_time"], begin))
    return left.sort_values("submit_time", kind="stable")


def _events(log: pd.DataFrame, system: pd.DataFrame, site: Site, folder: Path) -> tuple[NodeEvent, ...]:
    """Return when nodes were away: as the site says, else as the log shows where its replay comes closer by that."""
    if known := tuple(one for one in site.events if not one.reason.startswith(INFERRED)):
        return known
    found = tuple(_away(account_waits(log, system).outages, int(log["submit_time"].min()), system))
    if not found:
        return ()
    with step("trying nodes that were away"):
        write_site(Site(events=found), system, folder)
        policies = ("easy", Rules.model_validate({"site": folder.as_posix()}))
        easy, away = ([fidelity(log, simulate(log, system, policy).schedule)] for policy in policies)
    score, is_no_worse = _score(away, easy)
    return found if score < 1 - GAIN and is_no_worse else ()


def _away(outages: list[Outage], origin: int, system: pd.DataFrame) -> Iterator[NodeEvent]:
    """Turn outages into events; of CPUs without a node the last nodes are taken that have no more."""
    spans: dict[tuple[int, int], list[Outage]] = {}
    for one in outages:
        spans.setdefault((one.begin, one.end), []).append(one)
    names, last = set(system["node_id"]), system.iloc[::-1]
    for (begin, end), given in sorted(spans.items()):
        nodes = [one.node_id for one in given if one.node_id in names]
        if [one.node_id for one in given] == [ALL]:
            nodes = last["node_id"][(last["cpus"].cumsum() <= given[0].cpus).to_numpy()].tolist()
        if nodes:
            share = np.mean([one.share for one in given])
            yield NodeEvent(
                nodes=",".join(nodes),
                start=origin + begin,
                end=origin + end,
                reason=f"{INFERRED}: ran nothing while jobs waited, for {share:.0%} of the time with no room elsewhere",
            )


def _score(found: list[Fidelity], easy: list[Fidelity]) -> tuple[float, bool]:
    """Return how far replays are beside EASY's: the mean over all parts and measures, and the worst of them, halved.

    What is close in the mean alone may be far in one measure, and farther in it on a log that is yet to come. And say
    whether none of the three measures is further than EASY's, in the mean over the parts, but for luck.
    """
    ratios = np.array([one.ratios(other) for one, other in zip(found, easy, strict=True)])
    return float((ratios.mean() + ratios.max()) / 2), bool((ratios.mean(0) <= 1 + LUCK).all())


def _rules(kinds: list[str], seen: _Seen) -> tuple[Rule, ...]:
    if "limits" in kinds:
        seen = seen._replace(explained=(*seen.explained, LIMIT))
    rules = tuple(rule for kind in kinds for rule in _KINDS[kind](seen))
    if sum(kind.startswith("pause") for kind in kinds) == 2:  # of more, a name's pause may stand above another name's
        everybody = {rule.value for rule in rules if rule.kind == "pause" and not rule.subject}
        rules = tuple(rule for rule in rules if rule.kind != "pause" or not rule.subject or rule.value not in everybody)
    return rules


def _pause(held: np.ndarray, subject: str = "") -> Rule:
    """Return somebody's pause, by default everybody's: the median of the time that their jobs waited with room, s."""
    low, middle, high = np.percentile(held, [25, 50, 75])
    evidence = f"median time with room of {len(held):,} jobs; quartiles {low:,.0f} to {high:,.0f} s"
    return Rule(kind="pause", subject=subject, value=int(middle), evidence=evidence)


def _pauses_of(key: str) -> Callable[[_Seen], list[Rule]]:
    def infer(seen: _Seen) -> list[Rule]:
        """Return the pause of each user, partition or account with enough jobs, where there are several."""
        if key not in seen.log:
            return []
        names = seen.log[key].fillna("").astype(str).to_numpy()
        parts = [(name, held.to_numpy()) for name, held in pd.Series(seen.held).groupby(names)]
        kept = [(name, held) for name, held in parts if len(held) >= LEAST_OF_NAME and name and len(parts) > 1]
        return [_pause(held, f"{key} {name}") for name, held in kept]

    return infer


def _limits(seen: _Seen) -> list[Rule]:
    """Return the limit of each user, account or partition of which the log shows one."""
    return [
        Rule(
            kind="limit",
            subject=f"{one.kind} {seen.account.names[one.owner]} {one.resource}",
            value=one.value,
            evidence=f"{one.n_jobs:,} of {one.n_with_room:,} jobs that waited over half an hour with room did so at "
            f"this most; by chance {one.chance:.1g}",
        )
        for one in seen.account.limits
        if one.kind in _LIMITED
    ]


_LIMITED = ("user", "account", "partition")
"""Whose limits a site's rules can say; the account tells those of QOS, which `site read` takes from Slurm."""
_KINDS: dict[str, Callable[[_Seen], list[Rule]]] = {
    "pause": lambda seen: [_pause(seen.held)],
    "pause by partition": _pauses_of("partition"),
    "pause by account": _pauses_of("account"),
    "pause by user": _pauses_of("user"),
    "limits": _limits,
}
_INFERRED = ("pause", "limit")


def _notes(kinds: list[str], events: tuple[NodeEvent, ...]) -> tuple[str, ...]:
    notes = []
    if inferred := [one for one in events if one.reason.startswith(INFERRED)]:
        notes.append(
            f"the log shows {counted(len(inferred), 'time')} at which nodes were away: they stand as events in the "
            "site, for replays of this log; the parts tried are replayed with them"
        )
    if not kinds:
        but = " but for the site's events" if events else ""
        notes.append(f"no rule brought a replay of unseen jobs closer to the log: policy rules is EASY{but}")
    return tuple(notes)
