"""Run the service: the collector in a process of its own, the web side here; the one door to uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import struct
import subprocess
import sys
import time as clock
from collections import Counter
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from procure.errors import TableError
from procure.serve.files import make
from procure.serve.guard import SOCKET
from procure.serve.http import Service, application
from procure.serve.live import Live
from procure.serve.page import studies
from procure.serve.settings import Http, Place
from procure.text import printable

LOG = logging.getLogger("procure.serve")
AGAIN = 5
"""Seconds after which a collector that has ended is started again."""
LASTS = 30
"""Seconds after which one that runs is well."""
LONGEST_HEAD = 16_384


def protocol(how: Http) -> type[H11Protocol]:
    """Return the protocol of connections: who is there, how many there may be, and how long they may say nothing."""
    there: Counter[str] = Counter()

    class Connection(H11Protocol):
        """A connection whose other end is known, and which does not stay for nothing."""

        peer = ""
        watch: asyncio.TimerHandle | None = None
        asked: Any = None
        left = 0

        def connection_made(self, transport: Any) -> None:
            """Look who is there; refuse one too many."""
            super().connection_made(transport)
            own, self.peer = transport.get_extra_info("socket"), "address"
            if own is not None and own.family == socket.AF_UNIX:
                _, uid, _ = struct.unpack("3i", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                self.peer, self.client = f"uid {uid}", (SOCKET, uid)
            there[self.peer] += 1
            if there[self.peer] > how.connections_each or there.total() > how.connections:
                transport.abort()
                return
            self.watch = self.loop.call_later(how.idle, self._look)

        def _look(self) -> None:
            """Close one on which since the last look no whole request has come, or nothing of an answer was read."""
            left, self.left = self.left, self.transport.get_write_buffer_size()
            busy = self.cycle is not None and not self.cycle.response_complete
            idle = not busy and not self.left
            if self.cycle is self.asked and (idle or 0 < left == self.left):
                self.transport.abort()
                return
            self.asked = self.cycle
            self.watch = self.loop.call_later(how.idle, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            """Count one less."""
            if self.peer:
                there[self.peer] -= 1
                if there[self.peer] <= 0:
                    del there[self.peer]
            if self.watch is not None:
                self.watch.cancel()
            super().connection_lost(exc)

    return Connection


def listen(place: Place) -> list[socket.socket]:
    """Open the Unix socket, which every account may connect to, and the loopback address."""
    how, found = place.service.http, []
    path = place.socket
    try:
        make(path.parent, 0o755)
        if path.is_socket():
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    raise TableError(f"{path}: a service listens there already")
            path.unlink()
        own = socket.socket(socket.AF_UNIX)
        own.bind(str(path))
        path.chmod(0o666)  # who connects is known by the kernel's word, and gets what is theirs
        found.append(own)
        if how.listen:
            host, _, port = how.listen.rpartition(":")
            family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
            open_port = socket.socket(family)
            open_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            open_port.bind((host.strip("[]").replace("localhost", "127.0.0.1"), int(port)))
            found.append(open_port)
    except OSError as error:
        raise TableError(
            f"the service cannot listen at {path} and {how.listen or 'no port'}: {error.strerror}"
        ) from None
    for one in found:
        one.listen(1024)
        one.setblocking(False)
    return found


def run(config: Path, place: Place) -> None:
    """Serve until told to stop.

    Raises
    ------
    TableError
        Another service listens there, or collects into the folder.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # who sends what is no request cannot fill the log
    with contextlib.suppress(OSError):
        make(place.studies, 0o755)
    for name in studies(place.studies)[1]:
        text = "a report is a plain file that can be read, of at most 60 MB; 100 are published"
        LOG.warning("%s is not published: %s", place.studies / f"{printable(name)}.html", text)
    sockets = listen(place)
    guard, service = application(place)
    settings = uvicorn.Config(
        guard,  # type: ignore[arg-type]
        http=protocol(place.service.http),
        ws="none",
        proxy_headers=False,  # a client is who it is; a header cannot say otherwise
        server_header=False,
        access_log=False,
        log_config=None,
        lifespan="off",
        h11_max_incomplete_event_size=LONGEST_HEAD,
        timeout_keep_alive=place.service.http.idle,
        timeout_graceful_shutdown=5,
    )
    try:
        asyncio.run(_serve(uvicorn.Server(settings), sockets, service, config))
    finally:
        with contextlib.suppress(OSError):
            place.socket.unlink()


async def _serve(server: uvicorn.Server, sockets: list[socket.socket], service: Service, config: Path) -> None:
    tasks = [asyncio.create_task(one) for one in (service.live.follow(), _collect(config, service.live))]
    try:
        await server.serve(sockets=sockets)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _collect(config: Path, live: Live) -> None:
    """Keep a collector running; say where it has ended until it has run for a while."""
    command = [sys.executable, "-P", "-m", "procure.serve.collector", str(config)]
    while True:
        began = clock.monotonic()
        child = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), LASTS)
            if child.returncode is None:
                live.broken = ""
                await child.wait()
            live.broken = "The collector has ended and is started again; the service's log says why."
        except asyncio.CancelledError:
            child.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), 5)
            if child.returncode is None:
                child.kill()
            raise
        LOG.warning("the collector has ended with %s; it is started again", child.returncode)
        await asyncio.sleep(max(AGAIN - (clock.monotonic() - began), 1))
