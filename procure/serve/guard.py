"""Before a question is read: who asks, and how large it is.

A caller on the Unix socket is who the kernel says (SO_PEERCRED). Of the web server's own account alone, the header with
the user's name is believed. A caller on the loopback address is nobody: any local account can connect there.
"""

from __future__ import annotations

import asyncio
import logging
import pwd
import re
import time as clock
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from starlette.responses import JSONResponse

from procure.errors import where
from procure.serve.metrics import Metrics
from procure.serve.settings import Http

LOG = logging.getLogger("procure.serve")
Scope = dict[str, Any]
Messages = Callable[[], Awaitable[Any]]
Sender = Callable[[Any], Awaitable[None]]
SOCKET = "procure-socket"
"""The client's host in a scope of a connection over the Unix socket; its port is the user id."""
_NAME = re.compile(r"\w(?:[\w.@+$\\ -]{0,62}[\w.@+$-])?")
_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
        b"form-action 'self'; frame-ancestors 'self'",
    ),
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
    """An ASGI application before another."""

    def __init__(self, inner: Any, how: Http, metrics: Metrics) -> None:
        """Take the application that answers."""
        self.inner, self.how, self.metrics = inner, how, metrics
        self.proxy = pwd.getpwnam(how.proxy_user).pw_uid if how.proxy_user else None
        self.header = how.user_header.lower().encode()

    async def __call__(self, scope: Scope, receive: Messages, send: Sender) -> None:
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
                own = {name for name, _ in message["headers"]}
                more = [one for one in _HEADERS if one[0] not in own]
                message = message | {"headers": [*message["headers"], *more]}
            await send(message)

        try:
            scope["procure.caller"] = self.caller(scope)
            length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
            if not length.isdigit() or int(length[:12]) > 1024 * self.how.body_kb:
                raise Refused(413, f"the body has more than {self.how.body_kb} KiB")
            await self.inner(scope, await self._read(receive), watched)
        except Refused as error:
            number, text = error.args
            await JSONResponse({"error": text}, number, {"connection": "close"})(scope, receive, watched)
        except Exception as error:  # the application has answered 500 and raises for the log
            LOG.error("a request failed: %s", where(error))
        finally:
            route = getattr(scope.get("endpoint"), "__name__", "none")
            self.metrics.count(route, status, clock.perf_counter() - began)

    def caller(self, scope: Scope) -> Caller:
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
                        raise Refused(413, f"the body has more than {self.how.body_kb} KiB")
        except TimeoutError:
            raise Refused(408, "the body did not come in time") from None
        whole = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Any:
            return next(whole, None) or await receive()

        return again


@lru_cache(10_000)
def _name_of(uid: int) -> str:
    return pwd.getpwuid(uid).pw_name
