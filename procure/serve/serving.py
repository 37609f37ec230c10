"""Run the service: the collector in a process of its own, the web side here; the one door to uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import subprocess
import sys
import time as clock
from pathlib import Path

import uvicorn

from procure.errors import TableError
from procure.serve.app import application
from procure.serve.files import make
from procure.serve.guard import protocol
from procure.serve.live import Live
from procure.serve.settings import Place

LOG = logging.getLogger("procure.serve")
AGAIN, LASTS = 5, 30
"""Seconds after which a collector that has ended is started again, and after which one that runs is well."""
LONGEST_HEAD = 16_384


def listen(place: Place) -> list[socket.socket]:
    """Open the Unix socket, which every account may connect to, and the loopback address."""
    path, address = place.socket, place.service.http.listen
    found = [socket.socket(socket.AF_UNIX)]
    try:
        make(path.parent, 0o755)
        if path.is_socket():
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(path)) == 0:
                    raise TableError(f"{path}: a service listens there already")
            path.unlink()
        found[0].bind(str(path))
        path.chmod(0o666)  # who connects is known by the kernel's word, and gets what is theirs
        if address:
            host, _, port = address.rpartition(":")
            family = socket.AF_INET6 if host == "[::1]" else socket.AF_INET
            found.append(socket.create_server((host.strip("[]"), int(port)), family=family, backlog=1024))
        found[0].listen(1024)
    except OSError as error:
        text = f"the service cannot listen at {path} and {address or 'no port'}: {error.strerror}"
        raise TableError(text) from None
    return found


def run(config: Path, place: Place) -> None:
    """Serve until told to stop; a `TableError` says that another service listens there."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # who sends what is no request cannot fill the log
    sockets = listen(place)
    guard, live = application(place)
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
        asyncio.run(_serve(uvicorn.Server(settings), sockets, live, config))
    finally:
        place.socket.unlink(missing_ok=True)


async def _serve(server: uvicorn.Server, sockets: list[socket.socket], live: Live, config: Path) -> None:
    tasks = [asyncio.create_task(one) for one in (live.follow(), _collect(config, live))]
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
        except asyncio.CancelledError:
            child.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), 5)
            if child.returncode is None:
                child.kill()
            raise
        live.broken = "The collector has ended and is started again; the service's log says why."
        LOG.warning("the collector has ended with %s; it is started again", child.returncode)
        await asyncio.sleep(max(AGAIN - (clock.monotonic() - began), 1))
