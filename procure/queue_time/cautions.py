"""When does a forecast rest on little? What the model does not know of a job, said in a line each."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from procure.queue_time.drift import warnings
from procure.queue_time.predict import Request, Situation, knows_partitions
from procure.queue_time.store import GROWN, SiteModel
from procure.queue_time.why import Neighbours
from procure.text import be, counted, roughly

FEW = 20
"""Fewer starts of like jobs, or in a partition, are few."""
CADENCE = 86_400
"""How often a model is continued, s: its features look back over hours, a day and a week."""


@dataclass(frozen=True)
class Caution:
    """A reason to believe a forecast less.

    ``code`` names it, ``text`` says it in a sentence; ``doubt`` is how much wider it makes the distribution,
    see `predict.widened`.
    """

    code: str
    text: str
    doubt: float = 0.0


def cautions(
    site: SiteModel, asked: Request, here: Situation, near: Neighbours, state: pd.DataFrame | None
) -> list[Caution]:
    """Return what the model does not know of a job that is submitted now.

    Parameters
    ----------
    site
        The model.
    asked
        What the user asked for.
    here, near
        The job in the queue, of `predict.situation`, and the jobs like it.
    state
        The queue as it is, if it was given.
    """
    found = _of_the_job(site, asked, here, near)
    if state is not None:
        found += [*age_of(site, here.now), *_of_the_state(site, state)]
    more = site.about["rows_since"] / site.about["trained_rows"]
    if more >= GROWN:
        text = (
            f"{more:.0%} more waits are known than the boosters have learnt from; train them again on the whole "
            "log with `procure queue train --update MODEL --refit`."
        )
        found.append(Caution("old_training", text, 0.1))
    window = (site.about["first"], site.about["last"])
    if unlike := warnings(site.about["bounds"], here.features, window, site.about["last"]):
        text = f"The load is not what the model was trained on: {'; '.join(unlike)}."
        found.append(Caution("drift", text, 0.2))
    return found


def _of_the_job(site: SiteModel, asked: Request, here: Situation, near: Neighbours) -> list[Caution]:
    found = []
    if near.n_like < FEW:
        n = near.n_like
        known = "No job like this one is" if n == 0 else f"Only {counted(n, 'job')} like this one {be(n)}"
        found.append(Caution("few_like", f"{known} known ({near.what}); the interval is wider.", 0.3))
    if asked.user and near.n_user == 0:
        found.append(Caution("unknown_user", f"No job of {asked.user} is known to the model.", 0.1))
    partitions = site.about["partitions"]
    if not asked.partition and len(partitions) > 1:
        text = f"Partition {here.request.partition} is assumed, the most used one; --partition names yours."
        found.append(Caution("assumed_partition", text))
    if asked.partition and near.n_partition < FEW:
        text = f"Partition {asked.partition} is new to the model: {counted(near.n_partition, 'start')} known there."
        found.append(Caution("new_partition", text, 0.3))
    if asked.mem_mb and not site.about["most"]["mem"]:
        found.append(Caution("no_memory", "The model's log says nothing of memory: --mem changes nothing."))
    return found


def _of_the_state(site: SiteModel, state: pd.DataFrame) -> list[Caution]:
    """Return a caution where the model knows none of the partitions in which jobs wait or run."""
    seen, known = set(state["partition"]), set(site.about["partitions"])
    if not seen or seen & known:
        return []
    if not knows_partitions(site):
        text = "The model's log names no partitions: the jobs of all of them count as ahead of yours or as running."
        return [Caution("no_partitions", text)]
    text = "The model knows no partition of the state of the queue: one of them may be another cluster's."
    return [Caution("other_cluster", text, 0.3)]


def age_of(site: SiteModel, now: int) -> list[Caution]:
    """Return a caution where the state of the queue and the end of the model's log lie apart."""
    behind = now - int(site.about["end"])
    if behind < -60:
        text = f"The state of the queue is {roughly(-behind)} older than the end of the model's log."
        return [Caution("old_state", text, 0.2)]
    if behind > CADENCE:
        text = (
            f"The model's log ends {roughly(behind)} before now, so that recent waits are not known; continue it with "
            "`procure queue train --update MODEL`."
        )
        return [Caution("old_model", text, 0.2)]
    return []


def doubt_of(found: list[Caution]) -> float:
    """Return how much wider these cautions make a distribution together."""
    return min(sum(one.doubt for one in found), 0.6)
