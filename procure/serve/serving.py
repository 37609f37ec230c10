"""Run the service, the one door to uvicorn: the collector beside, and who may ask: how much, how long, as whom.

A caller on the Unix socket is who the kernel says (SO_PEERCRED). Of the web server's own account alone, the header with
the user's name is believed. A caller on the loopback address is nobody: any local account can connect there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pwd
import re
import resource
import socket
import struct
import subprocess
import sys
import time as clock
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from procure.errors import TableError, where
from procure.serve.app import Caller, application
from procure.serve.files import make
from procure.serve.live import Live
from procure.serve.settings import Http, Place

LOG = logging.getLogger("procure.serve")
Messages = Callable[[], Awaitable[Any]]
SOCKET = "procure-socket"
"""The client's host in a scope of a connection over the Unix socket; its port is the user id."""
_NAME = re.compile(r"\w(?:[\w.@+$\\ -]{0,62}[\w.@+$-])?")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'self'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cache-control", b"no-store"),
]


class Refused(Exception):
    """A request that is not answered: a status and why."""


class Guard:
    """The ASGI application of a service, before the one that answers; ``live`` is what that knows."""

    def __init__(self, place: Place) -> None:
        """Make the application that answers."""
        self.inner, pages = application(place)
        self.how, self.live, self.count = place.service.http, pages.live, pages.metrics.count
        how = self.how
        self.proxy = pwd.getpwnam(how.proxy_user).pw_uid if how.proxy_user else None
        self.header = how.user_header.lower().encode()
        self.too_large = Refused(413, f"the body has more than {how.body_kb} KiB")

    async def __call__(self, scope: dict[str, Any], receive: Messages, send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            return
        if scope["method"] == "HEAD":  # the web server sends no body then
            scope = {**scope, "method": "GET"}
        began, status = clock.perf_counter(), 500

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = message | {"headers": [*message["headers"], *_HEADERS]}
            await send(message)

        try:
            scope["procure.caller"] = self.caller(scope)
            length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
            if not length.isdigit() or int(length[:12]) > 1024 * self.how.body_kb:
                raise self.too_large
            await self.inner(scope, await self._read(receive), watched)
        except Refused as error:
            number, text = error.args
            await JSONResponse({"error": text}, number, {"connection": "close"})(scope, receive, watched)
        except Exception as error:  # the application has answered 500 and raises for the log
            LOG.error("a request failed: %s", where(error))
        finally:
            self.count(getattr(scope.get("endpoint"), "__name__", "none"), status, clock.perf_counter() - began)

    def caller(self, scope: dict[str, Any]) -> Caller:
        """Return who asks, by the rule at the head of this module."""
        host, port = scope.get("client") or ("", 0)
        if host != SOCKET:
            return Caller("", f"address {host}")
        if port != self.proxy:
            try:
                return Caller(_name_of(port), f"uid {port}")
            except KeyError:  # which is asked again: the account may be made
                return Caller("", f"uid {port}")
        given = [value for name, value in scope["headers"] if name == self.header]
        name = given[0].decode(errors="replace") if len(given) == 1 else ""
        name = name if _NAME.fullmatch(name) else ""
        return Caller(name, f"user {name}" if name else "proxy")

    async def _read(self, receive: Messages) -> Messages:
        """Read a whole body within the limits of size and time, before anything is done with it."""
        body, more = b"", True
        try:
            async with asyncio.timeout(self.how.idle):
                while more:
                    message = await receive()
                    body, more = body + message.get("body", b""), message.get("more_body", False)
                    if len(body) > 1024 * self.how.body_kb:
                        raise self.too_large
        except TimeoutError:
            raise Refused(408, "the body did not come in time") from None
        whole = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(whole, None) or await receive()

        return again


@lru_cache(10_000)
def _name_of(uid: int) -> str:
    return pwd.getpwuid(uid).pw_name


def protocol(how: Http) -> type[H11Protocol]:
    """Return uvicorn's protocol with what it lacks: who is there, and limits of connections and of their silence."""
    there: Counter[str] = Counter()

    class Connection(H11Protocol):
        peer = ""
        watch: asyncio.TimerHandle | None = None
        asked: Any = None
        left = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            own, self.peer = transport.get_extra_info("socket"), "address"
            if own is not None and own.family == socket.AF_UNIX:
                _, uid, _ = struct.unpack("3i", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
                self.peer, self.client = f"uid {uid}", (SOCKET, uid)
            there[self.peer] += 1
            if there[self.peer] > how.connections_each or there.total() > how.connections:
                transport.abort()
            else:
                self.watch = self.loop.call_later(how.idle, self._look)

        def _look(self) -> None:
            """Close one on which since the last look no whole request has come, or nothing of an answer was read."""
            left, self.left = self.left, self.transport.get_write_buffer_size()
            busy = self.cycle is not None and not self.cycle.response_complete
            if self.cycle is self.asked and (0 < left == self.left if busy or self.left else True):
                self.transport.abort()
                return
            self.asked = self.cycle
            self.watch = self.loop.call_later(how.idle, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            there.subtract([self.peer])
            if self.watch is not None:
                self.watch.cancel()
            super().connection_lost(exc)

    return Connection


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
    guard = Guard(place)
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
        asyncio.run(_serve(uvicorn.Server(settings), sockets, guard.live, config))
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
