"""The web side: what is asked for, and what is told."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query
from fastapi import Request as Asked
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from procure._version import __version__
from procure.queue_time.predict import Request
from procure.serve import page
from procure.serve.guard import Caller, Guard
from procure.serve.live import SPANS, Live
from procure.serve.metrics import CONTENT_TYPE, Metrics
from procure.serve.questions import (
    Question,
    advice,
    of_body,
    of_values,
    once,
    sentence,
    told,
    written,
    written_jobs,
)
from procure.serve.settings import Place
from procure.text import plain

MOST_TOGETHER = 100
"""Questions in one request."""
PART = 65_536
"""Bytes of the parts in which a report is sent: who does not read it holds no more of them."""
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
"""A published report may run its own script, without the site's origin: it cannot ask here in a reader's name."""


def caller_of(asked: Asked) -> Caller:
    """Return who asks, as `Guard` has found."""
    found = asked.scope["procure.caller"]
    assert isinstance(found, Caller)
    return found


def given_once(asked: Asked) -> None:
    """Refuse a parameter that was given twice."""
    once(asked.query_params.multi_items())


Handler = Callable[..., Awaitable[Response]]
Known = Annotated[Caller, Depends(caller_of)]
Once = Annotated[None, Depends(given_once)]
Asks = Annotated[Question, Query()]
Days = Annotated[str, Query(description="Days of the record, 0 = all.", json_schema_extra={"enum": [*map(str, SPANS)]})]


class Service:
    """The handlers of a service; ``live`` knows the queue."""

    def __init__(self, place: Place) -> None:
        """Take the service's folder."""
        self.place, self.live, self.metrics = place, Live(place), Metrics()

    async def predict(self, asked: Asked, caller: Known, question: Asks, _: Once) -> Response:
        """When would a job start if it were submitted now?"""
        [answer] = await self._answers([question.request(caller.user)], caller)
        if "error" in answer:
            raise HTTPException(400, answer["error"])
        return PlainTextResponse(written(answer)) if as_text(asked) else json_of(answer)

    async def predict_many(self, asked: Asked, caller: Known) -> Response:
        """When would each of up to 100 jobs start?"""
        requests = of_body(await asked.body(), caller.user, MOST_TOGETHER)
        return json_of({"answers": await self._answers(requests, caller)})

    async def _answers(self, requests: list[Request], caller: Caller) -> list[dict[str, Any]]:
        self._ready()
        found = await self.live.ask(requests, caller.key)
        return [told(answer, self.live) for answer in found]

    async def advice(self, caller: Known, question: Asks, _: Once) -> Response:
        """Say in a line when a job that is being submitted may start."""
        self._ready()
        [answer] = await self.live.ask([question.request(caller.user)], caller.key)
        if answer.error:
            raise HTTPException(400, answer.error)
        return PlainTextResponse(advice(answer, self.live.staleness()))

    async def pending(self, asked: Asked, caller: Known) -> Response:
        """When may my waiting jobs start?"""
        user = self._own(caller)
        rows, n = await self.live.pending(user)
        found = {"user": user, "n": n, "jobs": rows} | self._age()
        return PlainTextResponse(written_jobs(found)) if as_text(asked) else json_of(found)

    async def job(self, caller: Known, id: str) -> Response:
        """Say what is known of one job of the caller; of another's, as of one that is not there, nothing."""
        found = await self.live.job(self._own(caller), id)
        if found is None:
            raise HTTPException(404, "you have no such job that waits, runs, or ended lately")
        return json_of(found | self._age())

    async def queue(self) -> Response:
        """What waits and runs, by partition."""
        self._ready()
        snapshot = self.live.snapshot
        assert snapshot is not None
        found = {"at": snapshot.now, "partitions": self.live.totals, "next_hours": self.live.hours}
        found |= {"notices": snapshot.notices, "cpus": self.live.cpus, "state_age_s": self.live.state_age()}
        return json_of(found)

    async def honesty(self, days: Days = "28") -> Response:
        """How have the forecasts that were given out held?"""
        if days not in map(str, SPANS):
            raise HTTPException(400, f"days={days[:40]!r} is none of {', '.join(map(str, SPANS))} (0 = all)")
        return json_of(await self.live.honesty(int(days)))

    async def health(self) -> Response:
        """Does the process answer?"""
        return json_of({"status": "ok", "version": __version__})

    async def ready(self) -> Response:
        """Can questions be answered, and what is amiss?"""
        found = self.live.readiness()
        return json_of(found, 200 if found["ready"] else 503)

    async def show_metrics(self) -> Response:
        """What Prometheus reads."""
        text = self.metrics.text(await self.live.honesty(28), self.live)
        return Response(text, media_type=CONTENT_TYPE)

    async def page(self, asked: Asked, caller: Known) -> Response:
        """Render the page; with a question in its address, the answer too."""
        given = asked.query_params.multi_items()
        answer, wrong = None, ""
        if given and self.live.snapshot is not None:
            try:
                [answer] = await self._answers([of_values(given, caller.user)], caller)
                wrong = answer.get("error", "")
            except HTTPException as error:
                wrong = str(error.detail)
        mine = await self.live.pending(caller.user) if caller.user and self.live.snapshot is not None else ([], 0)
        text = await run_in_threadpool(
            page.render, self.live, caller.user, mine, await self.live.honesty(28), dict(given), answer, wrong
        )
        return HTMLResponse(text)

    async def file(self, asked: Asked) -> Response:
        """Return the page's script or style."""
        return page.file(asked.url.path.rpartition("/")[2])

    async def study(self, name: str) -> Response:
        """Return a report that the administrator has put into ``studies``."""
        stream = await run_in_threadpool(page.open_study, self.place.studies, name)
        if stream is None:
            raise HTTPException(404, "no study of that name is published here")

        async def parts() -> AsyncIterator[bytes]:
            with stream:
                while part := await run_in_threadpool(stream.read, PART):
                    yield part

        length = str(os.fstat(stream.fileno()).st_size)
        headers = {"content-security-policy": SANDBOX, "content-length": length}
        return StreamingResponse(parts(), media_type="text/html", headers=headers)

    def _ready(self) -> None:
        if self.live.snapshot is None:
            raise HTTPException(503, "; ".join(self.live.readiness()["problems"]) or "the queue has not been seen yet")

    def _age(self) -> dict[str, Any]:
        """Return how old is what is known of a caller's jobs, and a caution where that is too old."""
        stale = self.live.staleness()
        return {"state_age_s": self.live.state_age(), "caution": [stale] if stale else []}

    def _own(self, caller: Caller) -> str:
        """Return who asks, or refuse who is not known."""
        if not caller.user:
            text = "who you are is not known over this address: ask over the socket (curl --unix-socket) or the page"
            raise HTTPException(403, text)
        self._ready()
        return caller.user


def as_text(asked: Asked) -> bool:
    """Tell whether an answer is wanted as people read it, as by `curl` in a shell."""
    return asked.headers.get("accept", "").startswith("text/plain")


def json_of(value: Any, status: int = 200) -> Response:
    """Return JSON, in which nothing is NaN."""
    return JSONResponse(plain(value), status)


async def _refused(asked: Asked, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)


async def _wrong(asked: Asked, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"error": sentence(error.errors())}, 400)


async def _failed(asked: Asked, error: Exception) -> Response:
    return JSONResponse({"error": "the service has failed to answer; its log says why"}, 500)


def application(place: Place) -> tuple[Guard, Service]:
    """Return the web application of a service, behind its guard, and its handlers."""
    service = Service(place)
    inner = FastAPI(
        title=f"procure serve: queue times of {place.service.name}",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _refused, RequestValidationError: _wrong, Exception: _failed},
    )
    route = inner.add_api_route
    for path in ("/", "/page.js", "/page.css"):
        route(path, service.page if path == "/" else service.file, response_model=None, include_in_schema=False)
    handlers: dict[str, Handler] = {
        "/v1/predict": service.predict,
        "/v1/jobs/{id}": service.job,
        "/v1/pending": service.pending,
        "/v1/queue": service.queue,
        "/v1/honesty": service.honesty,
        "/health": service.health,
        "/ready": service.ready,
        "/v1/advice": service.advice,
        "/metrics": service.show_metrics,
        "/study/{name}": service.study,
    }
    for path, handler in handlers.items():
        route(path, handler, response_model=None)
    many = {"type": "object", "properties": {"requests": {"type": "array", "items": Question.model_json_schema()}}}
    body = {"requestBody": {"content": {"application/json": {"schema": many}}}}
    route("/v1/predict", service.predict_many, methods=["POST"], response_model=None, openapi_extra=body)
    return Guard(inner, place.service.http, service.metrics), service
