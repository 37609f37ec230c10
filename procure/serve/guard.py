"""Before a question is read: who asks, how often, and how large it is.

A caller on the Unix socket is who the kernel says (SO_PEERCRED). Of the web server's own account alone, the header with
the user's name is believed. A caller on the loopback address is nobody: any local account can connect there. Each
account has a rate of its own all the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pwd
import re
import time as clock
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from procure.errors import where
from procure.serve.metrics import Metrics
from procure.serve.settings import Http

LOG = logging.getLogger("procure.serve")
Scope = dict[str, Any]
Messages = Callable[[], Awaitable[Any]]
Sender = Callable[[Any], Awaitable[None]]
SOCKET = "procure-socket"
"""The client's host in a scope of a connection over the Unix socket; its port is the user id."""
LOOPBACK = "loopback of user "
"""How the client's host begins in a scope of a connection to the loopback address; the user id follows."""
_NAME = re.compile(r"\w(?:[\w.@+$\\ -]{0,62}[\w.@+$-])?")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cache-control", b"no-store"),
]
POLICY = (
    b"content-security-policy",
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    b"form-action 'self'; frame-ancestors 'self'",
)
MOST_CALLERS = 10_000


@dataclass(frozen=True)
class Caller:
    """Who asks: a user's name, "" if nobody knows; ``key`` is whose rate it counts to."""

    user: str
    key: str


class TooLarge(Exception):
    """A body of more bytes than are taken."""


class Guard:
    """An ASGI application before another."""

    def __init__(self, inner: Any, how: Http, metrics: Metrics) -> None:
        """Take the application that answers."""
        self.inner, self.how, self.metrics = inner, how, metrics
        self.proxy = pwd.getpwnam(how.proxy_user).pw_uid if how.proxy_user else None
        self.header = how.user_header.lower().encode()
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self.names: dict[int, str] = {}

    async def __call__(self, scope: Scope, receive: Messages, send: Sender) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.inner(scope, receive, send)
            return
        began, status = clock.perf_counter(), 500

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", []))
                own = {name for name, _ in headers}
                message = message | {"headers": headers + [one for one in (*_HEADERS, POLICY) if one[0] not in own]}
            await send(message)

        caller, refusal = self._look(scope)
        try:
            if refusal is not None:
                await _answer(watched, *refusal)
                return
            scope["procure.caller"] = caller
            await self.inner(scope, await self._read(receive), watched)
        except TooLarge:
            await _answer(watched, 413, f"the body has more than {self.how.body_kb} KiB")
        except TimeoutError:
            await _answer(watched, 408, "the body did not come in time")
        except Exception as error:  # Starlette has answered 500 and raises for the log
            LOG.error("a request failed: %s", where(error))
        finally:
            route = getattr(scope.get("endpoint"), "__name__", "none")
            self.metrics.count(route, status, clock.perf_counter() - began)

    def _look(self, scope: Scope) -> tuple[Caller, tuple[int, str] | None]:
        caller = self.caller(scope)
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not length.isdigit() or int(length[:12]) > 1024 * self.how.body_kb:
            return caller, (413, f"the body has more than {self.how.body_kb} KiB")
        if not self.may(caller.key):
            return caller, (429, f"more than {self.how.rate:g} questions a second; wait a moment")
        return caller, None

    def caller(self, scope: Scope) -> Caller:
        """Return who asks, by the rule at the head of this module."""
        host, port = scope.get("client") or ("", 0)
        if host != SOCKET:
            return Caller("", f"address {host}")
        if port != self.proxy:
            return Caller(self._name(port), f"uid {port}")
        given = [value for name, value in scope["headers"] if name == self.header]
        name = given[0].decode(errors="replace") if len(given) == 1 else ""
        name = name if _NAME.fullmatch(name) else ""
        return Caller(name, f"user {name}" if name else "proxy")

    def _name(self, uid: int) -> str:
        if uid not in self.names:
            try:
                self.names[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                return ""
        return self.names[uid]

    def may(self, key: str, n: int = 1) -> bool:
        """Take ``n`` from a caller's bucket, which fills at the rate, if they are there: a question costs one."""
        now = clock.monotonic()
        left, at = self.left.pop(key, (float(self.how.burst), now))
        left = min(left + (now - at) * self.how.rate, float(self.how.burst))
        self.left[key] = (left - n if left >= n else left, now)
        if len(self.left) > MOST_CALLERS:
            self.left.popitem(last=False)
        return left >= n

    async def _read(self, receive: Messages) -> Messages:
        """Read a whole body within the limits of size and time, before anything is done with it."""
        parts: list[bytes] = []

        async def collect() -> None:
            size = 0
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > 1024 * self.how.body_kb:
                    raise TooLarge
                if not message.get("more_body"):
                    return

        await asyncio.wait_for(collect(), self.how.idle)
        body, given = b"".join(parts), False

        async def again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again


async def _answer(send: Sender, status: int, text: str) -> None:
    body = json.dumps({"error": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 429:
        headers.append((b"retry-after", b"1"))
    if status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
