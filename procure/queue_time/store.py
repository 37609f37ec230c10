"""The model file of a site: a fitted model, its last jobs, and how it was trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from procure.errors import TableError
from procure.files import Archive, read_archive, write_archive
from procure.queue_time.booster import Booster
from procure.queue_time.log import Log, Outcomes, read_jobs
from procure.queue_time.model import QueueTimeModel, Settings
from procure.queue_time.published import Published

SCHEMA = "procure-queue-time/11"
HISTORY, SPAN, MOST_HISTORY = 30_000, 8 * 86_400, 100_000
"""Last jobs that a model file keeps; more if the longest window of the features, in seconds, has more; the most."""
GROWN = 0.2
"""How many more waits are known when boosters are trained again, as a share of those that they learnt from: all
trainings before the last then learn from at most 1/0.2 = 5 rows for each of these, so that cost grows with the log."""
_STATE, _COUNTS = ("experts", "ends", "counted"), ("share", "until")
"""The arrays and numbers of a `mixture.Mixture`."""
_TEXT = ("job_id", "user", "partition", "gpu_type")
_NUMBER = tuple(
    (
        "submit_time requested_time run_time n_nodes cpus_per_node mem_mb_per_node gpus_per_node start_time end_time"
    ).split()
)


@dataclass
class SiteModel:
    """The content of a model file.

    ``about`` says when, on what and how it was trained, the site's partitions and largest job, the drift
    bounds and the trend's record; ``history`` is a job table of the last jobs.
    """

    method: str
    model: QueueTimeModel | Published
    about: dict[str, Any]
    history: pd.DataFrame

    @cached_property
    def laid_out(self) -> Log:
        """The history as arrays, made once."""
        return read_jobs(self.history)

    @property
    def seen(self) -> dict[str, float]:
        """The most of each resource that was in use before the history begins, of which features state shares.

        A job may have asked for more, which never ran: ``about["most"]`` is what may be asked for.
        """
        return dict(self.about.get("seen", self.about["most"]))  # a file of an older version knows that alone

    @cached_property
    def partitions(self) -> list[str]:
        """The partitions of the history, those of most jobs first."""
        return [str(name) for name in self.history["partition"].value_counts().index]


def recent(jobs: pd.DataFrame) -> pd.DataFrame:
    """Return the last jobs of a log in submission order: those that the next job's features need."""
    if "gpu_type" not in jobs.columns:
        jobs = jobs.assign(gpu_type="")
    submit = jobs["submit_time"].to_numpy()
    in_span = len(jobs) - int(np.searchsorted(submit, submit[-1] - SPAN)) if len(jobs) else 0
    return jobs.tail(min(max(HISTORY, in_span), MOST_HISTORY)).reset_index(drop=True)


def save(site: SiteModel, path: Path) -> None:
    """Write a model file, whole or not at all.

    Examples
    --------
    >>> import procure
    >>> from pathlib import Path
    >>> model = procure.train_queue(procure.read_log("ran.parquet").jobs, method="gbt")
    >>> procure.save_queue(model, Path("site.model"))
    """
    arrays, boosters, settings = _parts(site.model)
    head = {
        "schema": SCHEMA,
        "method": site.method,
        "settings": settings,
        "about": site.about,
    }
    arrays |= {name: np.frombuffer(booster.content, np.uint8) for name, booster in boosters.items()}
    write_archive(path, Archive(head, arrays | _history_arrays(site.history)))


def load(path: Path) -> SiteModel:
    """Read a model file.

    Raises
    ------
    TableError
        No such file, a truncated or damaged one, or one of another schema.

    Examples
    --------
    >>> import procure
    >>> from pathlib import Path
    >>> procure.save_queue(procure.train_queue(procure.read_log("ran.parquet").jobs, method="gbt"), Path("a.model"))
    >>> procure.load_queue(Path("a.model")).method
    'gbt'
    """
    archive = read_archive(path, SCHEMA, "; `procure queue train` writes one")
    head = archive.head
    try:
        model = _assemble(head["method"], head["settings"], archive, str(path))
        return SiteModel(head["method"], model, head["about"], _history_frame(archive.arrays))
    except TableError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError):
        raise TableError(f"{path}: not a whole model file, a part of it is missing; train it again") from None


def _parts(
    model: QueueTimeModel | Published,
) -> tuple[dict[str, np.ndarray], dict[str, Booster], dict[str, Any]]:
    if isinstance(model, QueueTimeModel):
        arrays = {"usual": model.usual, "deadlines": model.deadlines}
        arrays |= {f"mixture_{name}": getattr(model.mixture, name) for name in _STATE}
        arrays |= {f"jobs_{name}": values for name, values in vars(model.mixture.jobs).items()}
        boosters = {f"booster_{name}": booster for name, booster in model.boosters.items()}
        settings = asdict(model.settings) | {"names": model.names}
        settings |= {"most_waiting": model.most_waiting, "again_until": model.again_until}
        settings["mixture"] = {name: getattr(model.mixture, name) for name in _COUNTS}
        return arrays, boosters, settings
    arrays, boosters = _published_parts(model)
    return arrays, boosters, {"k": model.k, "seed": model.seed}


def _published_parts(model: Published) -> tuple[dict[str, np.ndarray], dict[str, Booster]]:
    arrays = {"low": model.low, "high": model.high, "centres": model.centres}
    return arrays, {"base": model.base} | {f"group{value}": booster for value, booster in model.boosters.items()}


def _published(arrays: Mapping[str, np.ndarray], k: int, seed: int, read: Callable[[str], Booster]) -> Published:
    model = Published(k, seed)
    model.low, model.high, model.centres = arrays["low"], arrays["high"], arrays["centres"]
    model.base = read("base")
    model.boosters = {int(name.removeprefix("group")): read(name) for name in arrays if name.startswith("group")}
    return model


def _assemble(method: str, settings: dict[str, Any], archive: Archive, source: str) -> QueueTimeModel | Published:
    arrays = archive.arrays

    def read(name: str) -> Booster:
        return Booster.from_bytes(arrays[name].tobytes(), source)

    if method == "procure":
        names = list(settings.pop("names"))
        counts = settings.pop("mixture")
        again_until = float(settings.pop("again_until"))
        most_waiting = [float(value) for value in settings.pop("most_waiting")]
        model = QueueTimeModel(Settings(**settings), names, arrays["deadlines"])
        model.usual, model.most_waiting = arrays["usual"], most_waiting
        model.again_until = again_until
        kept = [name for name in arrays if name.startswith("booster_")]
        model.boosters = {name.removeprefix("booster_"): read(name) for name in kept}
        for name in _STATE:
            setattr(model.mixture, name, arrays[f"mixture_{name}"])
        for name in _COUNTS:
            setattr(model.mixture, name, float(counts[name]))
        model.mixture.jobs = Outcomes(*(arrays[f"jobs_{one.name}"] for one in fields(Outcomes)))
        return model
    return _published(arrays, settings["k"], settings["seed"], read)


def _history_arrays(history: pd.DataFrame) -> dict[str, np.ndarray]:
    arrays = {f"history_{name}": history[name].astype(str).to_numpy(dtype="U") for name in _TEXT}
    for name in _NUMBER:
        values = history[name].astype("Int64").fillna(-(2**62)).to_numpy(dtype=np.int64)
        arrays[f"history_{name}"] = values
    return arrays


def _history_frame(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    columns: dict[str, Any] = {name: arrays[f"history_{name}"].astype(object) for name in _TEXT}
    for name in _NUMBER:
        values = pd.Series(arrays[f"history_{name}"])
        nullable = name in ("start_time", "end_time")
        columns[name] = values.astype("Int64").where(values > -(2**62)) if nullable else values
    return pd.DataFrame(columns)
