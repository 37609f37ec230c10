"""What a service is told: ``config.toml``."""

from __future__ import annotations

import pwd
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, field_validator, model_validator

from procure.errors import TableError
from procure.queue_time.model import Settings as ModelSettings
from procure.settings import Settings, read_toml, validated

LEAST_BETWEEN = 30
"""Seconds between two `squeue` of a service at least: what it may add to a controller."""
Days = Annotated[int, Field(ge=1, le=1000)]
Span = Annotated[int, Field(ge=60, le=30 * 86_400)]


class Source(Settings):
    """Where the queue and the accounting come from: Slurm's commands, or the files of ``dumps`` that they wrote.

    ``every`` is seconds between two looks at the queue. ``history_days`` of accounting are read at the first start.
    """

    REMOVED: ClassVar = {"kind": "delete the line, Slurm is the only kind"} | dict.fromkeys(
        ("log", "speed", "train_share"), "no log is replayed; `procure queue evaluate LOG` judges forecasts of a log"
    )
    every: Annotated[int, Field(ge=1, le=30 * 86_400)] = LEAST_BETWEEN
    history_days: Days = 90
    cluster: str | None = None
    dumps: Path | None = None

    @model_validator(mode="after")
    def _is_gentle(self) -> Source:
        if self.dumps is None and self.every < LEAST_BETWEEN:
            raise ValueError(f"every = {self.every} was given; Slurm is asked at most every {LEAST_BETWEEN} s")
        return self


class Model(Settings):
    """How the model is kept fresh.

    It learns from outcomes every ``update_every`` s; its boosters are trained again when ``retrain_grown`` percent
    more waits are known than they learnt from, on the last ``max_rows`` of them in ``rounds`` rounds.
    """

    update_every: Span = 3600
    retrain_grown: Annotated[float, Field(ge=1, le=1e6)] = 20.0
    max_rows: Annotated[int, Field(ge=200, le=1_000_000)] = 30_000
    rounds: Annotated[int, Field(ge=5, le=1000)] = 100

    def boosters(self) -> ModelSettings:
        """Return the settings of a training."""
        return ModelSettings(max_rows=self.max_rows, rounds=self.rounds)


class Http(Settings):
    """Who may ask, and how much.

    ``socket`` is a Unix socket: the kernel says who is at its other end. ``listen`` is an address of this machine
    without that knowledge, for totals and questions alone; "" = none. ``proxy_user`` is the account of the site's web
    server: of its processes alone the header ``user_header`` is believed, and only over the socket.
    """

    REMOVED: ClassVar = dict.fromkeys(("rate", "burst"), "limit the rate in the web server before the service")
    socket: Path = Path("run/procure.sock")
    listen: Annotated[str, Field(pattern=r"^((127\.0\.0\.1|\[::1\]|localhost):[0-9]{1,5})?$")] = "127.0.0.1:8042"
    proxy_user: str = ""
    user_header: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$", max_length=60)] = "X-Remote-User"
    body_kb: Annotated[int, Field(ge=1, le=1024)] = 64
    connections: Annotated[int, Field(ge=10, le=100_000)] = 4000
    connections_each: Annotated[int, Field(ge=1, le=100_000)] = 1500
    idle: Annotated[int, Field(ge=1, le=600)] = 15

    @field_validator("listen")
    @classmethod
    def _has_a_port(cls, text: str) -> str:
        if text and int(text.rpartition(":")[2]) > 65_535:
            raise ValueError(f"{text!r} was given; ports go to 65535")
        return text

    @field_validator("proxy_user")
    @classmethod
    def _is_an_account(cls, name: str) -> str:
        try:
            return pwd.getpwnam(name).pw_name if name else ""
        except KeyError:
            raise ValueError(f"there is no account {name!r} on this machine") from None


class Service(Settings):
    """The whole of ``config.toml``; a relative path counts from its folder.

    The partitions of ``hide`` are in no totals by partition, and unknown to who has no job there.
    """

    name: Annotated[str, Field(max_length=60)] = "this cluster"
    hide: tuple[str, ...] = ()
    source: Source = Source()
    model: Model = Model()
    http: Http = Http()


class Place:
    """The files of a service."""

    def __init__(self, folder: Path, service: Service) -> None:
        """Take the folder of ``config.toml`` and its settings."""
        self.folder, self.service, self.socket = folder, service, folder / service.http.socket
        self.database, self.model = folder / "procure.sqlite", folder / "site.model"
        self.queue, self.lock = folder / "queue.parquet", folder / "collector.lock"
        self.dumps = None if service.source.dumps is None else folder / service.source.dumps

    @property
    def stale_after(self) -> int:
        """Seconds after which what is known of the queue is old."""
        return 4 * max(self.service.source.every, LEAST_BETWEEN)


def read_service(path: Path) -> Place:
    """Read and check a service's settings; a `TableError` says what is missing or wrong."""
    path = path.resolve()
    place = Place(path.parent, validated(Service, read_toml(path, "; `procure serve init` writes one"), str(path)))
    if place.dumps is not None and not place.dumps.is_dir():
        raise TableError(f"{path}: source.dumps: {place.dumps}: no such folder")
    return place
