"""Is the service well? What can be read, how fresh it is, and whether the intervals hold."""

from __future__ import annotations

import time as clock
from contextlib import closing
from typing import NamedTuple

from procure.errors import TableError
from procure.serve import ledger
from procure.serve.settings import Place
from procure.serve.sources import Slurm
from procure.serve.store import Store
from procure.text import roughly


class Check(NamedTuple):
    """What was looked at, whether it is well, and what was seen."""

    what: str
    ok: bool
    seen: str


def check(place: Place) -> list[Check]:
    """Look at everything once; nothing is changed."""
    found = _slurm(place) if place.service.source.kind == "slurm" else []
    if not place.database.is_file():
        return [*found, Check("state", False, "the service has never run here")]
    with closing(Store(place.database)) as store:
        return [*found, *_kept(place, store)]


def _slurm(place: Place) -> list[Check]:
    slurm = Slurm(place.service.source, lambda code, text: None)
    now, found = slurm.now(), []

    def queue() -> str:
        jobs = slurm.queue().jobs
        waits = int(jobs["start_time"].isna().sum())
        return f"{len(jobs) - waits:,} jobs run, {waits:,} wait"

    def ended() -> str:
        jobs = slurm.ended(now - 86_400, now)
        users = jobs["user"].nunique() if len(jobs) else 0
        return f"{len(jobs):,} jobs of {users:,} users ended in the last day"

    for name, look in (("squeue", queue), ("sacct", ended)):
        try:
            found.append(Check(name, True, look()))
        except TableError as error:
            found.append(Check(name, False, str(error)))
    return found


def _kept(place: Place, store: Store) -> list[Check]:
    looked, trained = store.fact("looked_wall"), store.fact("trained_at")
    age = None if looked is None else max(clock.time() - looked, 0.0)
    most = 4 * max(place.service.source.every, 30)
    fresh = age is not None and (age < most or bool(store.fact("finished")))
    found = [Check("state", fresh, "never seen" if age is None else f"the queue was seen {roughly(age)} ago")]
    if trained is None:
        n = store.fact("starts_known", 0)
        found.append(Check("model", False, f"not trained yet: the starts of {n:,} jobs are known"))
    else:
        behind = int(store.fact("looked", 0)) - int(store.fact("updated", 0))
        seen = f"of {store.fact('trained_rows'):,} jobs; it learnt {roughly(behind)} before the last look"
        found.append(Check("model", behind <= 3 * place.service.model.update_every, seen))
    now = int(store.fact("looked", 0))
    [month] = ledger.record(store, now - 28 * ledger.DAY)
    if month["n"]:
        said = f"{month['coverage_90']:.1%} of {month['n']:,} jobs of 28 days within the 90 % interval"
        found.append(Check("intervals", ledger.warning(store, now) is None, said))
    else:
        found.append(Check("intervals", True, "no forecast has been judged yet"))
    return found + [Check("problem", False, text) for _, _, text in store.problems()]
