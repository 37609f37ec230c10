"""Before a question is read: who asks, how many connections they hold, how large it is, and how long it may take.

A caller on the Unix socket is who the kernel says (SO_PEERCRED). Of the web server's own account alone, the header with
the user's name is believed. A caller on the loopback address is nobody: any local account can connect there.
"""

from __future__ import annotations

import asyncio
import logging
import pwd
import re
import socket
import struct
import time as clock
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from starlette.responses import JSONResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from procure.errors import where
from procure.serve.settings import Http

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


@dataclass(frozen=True)
class Caller:
    """Who asks: a user's name, "" if nobody knows; ``key`` is whose questions it counts to."""

    user: str
    key: str


class Refused(Exception):
    """A request that is not answered: a status and why."""


class Guard:
    """An ASGI application before another; ``count`` is told of each answer's handler, status and seconds."""

    def __init__(self, inner: Any, how: Http, count: Callable[[str, int, float], None]) -> None:
        """Take the application that answers."""
        self.inner, self.how, self.count = inner, how, count
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
