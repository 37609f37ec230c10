"""The model file of a site: a fitted model, its last jobs, and how it was trained."""

from __future__ import annotations

from collections.abc import Mapping
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
from procure.queue_time.mixture import Mixture
from procure.queue_time.model import QueueTimeModel, Settings

SCHEMA = "procure-queue-time/11"
HISTORY, SPAN, MOST_HISTORY = 30_000, 8 * 86_400, 100_000
"""Last jobs that a model file keeps; more if the longest window of the features, in seconds, has more; the most."""
GROWN = 0.2
"""How many more waits are known when boosters are trained again, as a share of those that they learnt from: all
trainings before the last then learn from at most 1/0.2 = 5 rows for each of these, so that cost grows with the log."""
_KEPT = ("names", "most_waiting", "again_until")
_STATE, _COUNTS = ("experts", "ends", "counted"), ("share", "until")
"""What is written of a `QueueTimeModel`, and of its `mixture.Mixture` the arrays and numbers."""
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

    model: QueueTimeModel
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

    @property
    def grown(self) -> float:
        """How many waits became known since the boosters were trained, per wait that they learnt from."""
        return float(self.about["rows_since"] / self.about["trained_rows"])

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
    >>> model = procure.train_queue(procure.read_log("ran.parquet").jobs)
    >>> procure.save_queue(model, Path("site.model"))
    """
    settings, arrays, boosters = _flat(site.model)
    head = {"schema": SCHEMA, "method": "procure", "settings": settings, "about": site.about}
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
    >>> procure.save_queue(procure.train_queue(procure.read_log("ran.parquet").jobs), Path("a.model"))
    >>> procure.load_queue(Path("a.model")).about["n_rows"] >= 100
    True
    """
    archive = read_archive(path, SCHEMA, "; `procure queue train` writes one")
    head, arrays = archive.head, archive.arrays
    try:
        model = _assemble(head, arrays, str(path))
        return SiteModel(model, head["about"], _history_frame(arrays))
    except TableError:
        raise
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError):
        raise TableError(f"{path}: not a whole model file, a part of it is missing; train it again") from None


def _flat(model: QueueTimeModel) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, Booster]]:
    """Return what a model is of: settings, arrays, boosters."""
    mixture = model.mixture
    arrays = {"usual": model.usual, "deadlines": model.deadlines}
    arrays |= {f"mixture_{name}": getattr(mixture, name) for name in _STATE}
    arrays |= {f"jobs_{name}": values for name, values in vars(mixture.jobs).items()}
    settings = asdict(model.settings) | {name: getattr(model, name) for name in _KEPT}
    settings["mixture"] = {name: getattr(mixture, name) for name in _COUNTS}
    return settings, arrays, {f"booster_{name}": booster for name, booster in model.boosters.items()}


def _assemble(head: Mapping[str, Any], arrays: Mapping[str, np.ndarray], source: str) -> QueueTimeModel:
    settings = dict(head["settings"])

    def boosters(prefix: str) -> dict[str, Booster]:
        names = (name for name in arrays if name.startswith(prefix))
        return {name.removeprefix(prefix): Booster.from_bytes(arrays[name].tobytes(), source) for name in names}

    if head["method"] != "procure":
        raise TableError(f"{source}: the method {head['method']!r:.40} has no model files any more; train it again")
    counts, kept = settings.pop("mixture"), {name: settings.pop(name) for name in _KEPT}
    ours = QueueTimeModel(Settings(**settings), deadlines=arrays["deadlines"], usual=arrays["usual"], **kept)
    ours.boosters = boosters("booster_")
    state: dict[str, Any] = {name: arrays[f"mixture_{name}"] for name in _STATE}
    state |= {name: float(counts[name]) for name in _COUNTS}
    ours.mixture = Mixture(Outcomes(*(arrays[f"jobs_{one.name}"] for one in fields(Outcomes))), **state)
    return ours


def _history_arrays(history: pd.DataFrame) -> dict[str, np.ndarray]:
    texts = {f"history_{name}": history[name].astype(str).to_numpy(dtype="U") for name in _TEXT}
    whole = history[list(_NUMBER)].astype("Int64").fillna(-(2**62)).astype(np.int64)
    return texts | {f"history_{name}": whole[name].to_numpy() for name in _NUMBER}


def _history_frame(arrays: Mapping[str, np.ndarray]) -> pd.DataFrame:
    columns: dict[str, Any] = {name: arrays[f"history_{name}"].astype(object) for name in _TEXT}
    columns |= {name: pd.Series(arrays[f"history_{name}"]) for name in _NUMBER}
    for name in ("start_time", "end_time"):
        columns[name] = columns[name].astype("Int64").where(columns[name] > -(2**62))
    return pd.DataFrame(columns)
