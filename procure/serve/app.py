"""The web side: what is asked for, what is told, what Prometheus reads; and the page, which reads without a script."""

from __future__ import annotations

import math
import time as clock
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import jinja2
from fastapi import Depends, FastAPI, Query
from fastapi import Request as Asked
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Tally
from pydantic import BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response

from procure._version import __version__
from procure.queue_time.predict import Request
from procure.serve.live import SPANS, Live, lines_of, lines_of_jobs
from procure.serve.settings import Place
from procure.settings import LARGEST, Settings, problems
from procure.text import counted, duration, plain, printable, roughly, short
from procure.workload.slurm import slurm_limit, slurm_memory_limit

HERE = Path(__file__).parent
_TICKS = {0: "now", 600: "10 min", 3600: "1 h", 14_400: "4 h", 43_200: "12 h", 172_800: "2 d", 604_800: "7 d"}
_TICKS |= {2_592_000: "30 d", 31_536_000: "1 year"}
WIDTH, LEFT = 640, 150
"""Of the drawings, in units of their own; a narrow screen scrolls them."""


def render(live: Live, user: str, mine: dict[str, Any], honesty: dict[str, Any], **asked: Any) -> str:
    """Write the page for a user, "" if nobody knows who reads it.

    ``mine`` is of `Live.pending`, empty for nobody, and ``honesty`` of `Live.honesty`. What is ``asked`` are ``given,
    answer, wrong``: the question in the page's address, its answer, and what was wrong with it.
    """
    jobs, readiness = mine.get("jobs", []), live.readiness()
    whole = max([sum(live.cpus.values()), *(one["cpus"] for one in live.hours)]) or 1
    partitions = {str(one) for one in (live.site.about["partitions"] if live.site else [])}
    return _template().render(
        **asked,
        **{name: readiness[name] for name in ("problems", "ready")},
        name=live.place.service.name,
        user=user,
        jobs=jobs,
        n_jobs=mine.get("n", 0),
        chart=timeline(jobs),
        honesty=honesty,
        totals=live.totals,
        any_closed=any(one["nodes_closed"] for one in live.totals),
        notices=live.snapshot.notices if live.snapshot else [],
        hours=[one | {"share": one["cpus"] / whole} for one in live.hours],
        most=max([one["waiting_cpus"] + one["running_cpus"] for one in live.totals], default=1) or 1,
        partitions=sorted(partitions - {"", "ALL", *live.hide}),
        facts=live.model_facts(),
        width=WIDTH,
        left=LEFT,
    )


def timeline(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return where on a time line each job's intervals and median lie, in units of the drawing."""
    longest, left = max([job["interval_s"][1] for job in jobs], default=0), LEFT
    left = max([left, *(9 * len(str(job["job_id"])) for job in jobs)])  # an id is never cut
    end = next((seconds for seconds in _TICKS if seconds >= max(longest, 3600)), max(_TICKS))

    def at(seconds: float) -> float:
        share = math.log1p(min(seconds, end) / 300) / math.log1p(end / 300)
        return round(left + share * (WIDTH - LEFT - 30), 1)

    bars = []
    for job in jobs:
        outer, inner = ([at(one) for one in job[name]] for name in ("interval_s", "interval_50_s"))
        bars.append({"outer": outer, "inner": inner, "at": at(job["median_s"])})
    return {
        "width": WIDTH - LEFT + left,
        "bars": bars,
        "ticks": [(at(seconds), text) for seconds, text in _TICKS.items() if seconds <= end],
    }


@cache
def _template() -> jinja2.Template:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value, kept="\n\t") if isinstance(value, str) else value,
    )
    made.filters |= {
        "roughly": roughly,
        "counted": counted,
        "wait": duration,
        "limit": lambda seconds: duration(seconds) if seconds else "none",
        "share": lambda value: "–" if value is None else f"{100 * value:.1f} %",
        "figure": lambda value: "–" if value is None else f"{value:.3f}",
        "day": lambda seconds: clock.strftime("%Y-%m-%d", clock.gmtime(seconds)),
        "moment": lambda seconds: clock.strftime("%Y-%m-%d %H:%M UTC", clock.gmtime(seconds)) if seconds else "–",
    }
    return made.get_template("page.html")


MOST_TOGETHER = 100
"""Questions in one request."""
LONGEST = 100
"""Characters of a value."""


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise ValueError(f"{short(text)} was given; a whole number is needed")
    return int(text)


Whole = Annotated[int, BeforeValidator(_digits)]
Limit = Annotated[int, BeforeValidator(slurm_limit), WithJsonSchema({"type": "string"})]
Memory = Annotated[int, BeforeValidator(slurm_memory_limit), WithJsonSchema({"type": "string"})]


@dataclass(frozen=True)
class Caller:
    """Who asks: a user's name, "" if nobody knows; ``key`` is whose questions it counts to."""

    user: str
    key: str


class Question(Settings):
    """A job that might be submitted, as an address or a body asks about it."""

    cpus: Whole = Field(ge=1, le=LARGEST, description="CPUs in all.")
    time: Limit = Field(le=LARGEST, description="The limit: 480 (minutes), 8:00:00, 2-00, or 8h.")
    mem: Memory = Field(0, le=LARGEST, description="Memory per node: 64G is 64 GiB.")
    gpus: Whole = Field(0, ge=0, le=LARGEST, description="GPUs in all.")
    nodes: Whole = Field(1, ge=1, le=LARGEST, description="Nodes.")
    partition: str = Field("", description="Partition; the most used one by default.")

    @model_validator(mode="before")
    @classmethod
    def _of_texts(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not all(isinstance(value, str | int) for value in given.values()):
            raise ValueError("a request is an object with text and whole numbers, such as cpus and time")
        texts = {printable(name): text for name, value in given.items() if (text := str(value).strip())}
        if long := next((name for name, text in texts.items() if len(text) > LONGEST), None):
            raise ValueError(f"{short(long)} has more than {LONGEST} characters")
        return texts

    @model_validator(mode="after")
    def _has_a_cpu_on_each_node(self) -> Question:
        if self.nodes > self.cpus:
            raise ValueError(f"{self.nodes:,} nodes were asked for, but {self.cpus:,} CPUs in all")
        return self

    def of(self, caller: Caller) -> Request:
        """Return it as the model reads it."""
        return Request(self.cpus, self.time, self.mem, self.gpus, self.nodes, self.partition, caller.user)


class Questions(Settings):
    """Several at once."""

    requests: list[Question] = Field(min_length=1, max_length=MOST_TOGETHER)

    @model_validator(mode="before")
    @classmethod
    def _of_json(cls, given: Any) -> Any:
        return from_json(given) if isinstance(given, bytes) else given  # of who names no type of the body, as curl


def caller_of(asked: Asked) -> Caller:
    """Return who asks, as `procure.serve.serving.Guard` has found."""
    found = asked.scope["procure.caller"]
    assert isinstance(found, Caller)
    return found


def own(caller: Annotated[Caller, Depends(caller_of)]) -> str:
    """Return the name of who asks, or refuse who is not known."""
    if not caller.user:
        text = "who you are is not known over this address: ask over the socket (curl --unix-socket) or the page"
        raise HTTPException(403, text)
    return caller.user


def once(asked: Asked) -> None:
    """Refuse a parameter that was given twice."""
    for name, n in Counter(name for name, _ in asked.query_params.multi_items()).items():
        if n > 1:
            raise HTTPException(400, f"{short(printable(name))} was given twice")


Known = Annotated[Caller, Depends(caller_of)]
User = Annotated[str, Depends(own)]
Asks = Annotated[Question, Query()]
Once = Annotated[None, Depends(once)]
Days = Annotated[str, Query(description="Days of the record, 0 = all.", json_schema_extra={"enum": [*map(str, SPANS)]})]


def told(asked: Asked, said: dict[str, Any], lines: Callable[[dict[str, Any]], list[str]]) -> Response:
    """Return an answer as JSON, or where text is wanted, as by `curl` in a shell, in lines."""
    if asked.headers.get("accept", "").startswith("text/plain"):
        return text_of(lines(said))
    return json_of(said)


def text_of(lines: Iterable[str]) -> Response:
    """Return lines, nothing in which a terminal obeys."""
    return PlainTextResponse("".join(f"{printable(line)}\n" for line in lines))


def json_of(value: Any, status: int = 200) -> Response:
    """Return JSON, in which nothing is NaN."""
    return JSONResponse(plain(value), status)


def sentence(error: Any) -> str:
    """Say in a sentence what is wrong with a question, as pydantic found it."""
    first = problems(error)[0]
    for begin in ("query.", "body.", "query: ", "body: "):
        first = first.removeprefix(begin)
    return printable(first[:400])


async def _refused(asked: Asked, error: Any) -> Response:
    return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)


async def _wrong(asked: Asked, error: Any) -> Response:
    return JSONResponse({"error": sentence(error)}, 400)


async def _failed(asked: Asked, error: Exception) -> Response:
    return JSONResponse({"error": "the service has failed to answer; its log says why"}, 500)


class Pages:
    """The handlers of a service; ``live`` knows the queue."""

    def __init__(self, place: Place) -> None:
        """Take the service's folder."""
        self.live, self.metrics = Live(place), Metrics()

    async def predict(self, asked: Asked, caller: Known, question: Asks, _: Once) -> Response:
        """When would a job start if it were submitted now?"""
        return told(asked, await self._one(question, caller), lines_of)

    async def predict_many(self, caller: Known, questions: Questions) -> Response:
        """When would each of up to 100 jobs start?"""
        return json_of({"answers": await self.live.ask([one.of(caller) for one in questions.requests], caller.key)})

    async def advice(self, caller: Known, question: Asks, _: Once) -> Response:
        """Say in a line when a job that is being submitted may start."""
        return text_of([" ".join([lines_of(await self._one(question, caller))[0], *self.live.stale()])])

    async def _one(self, question: Question, caller: Caller) -> dict[str, Any]:
        [answer] = await self.live.ask([question.of(caller)], caller.key)
        if "error" in answer:
            raise HTTPException(400, answer["error"])
        return answer

    async def pending(self, asked: Asked, user: User) -> Response:
        """When may my waiting jobs start?"""
        return told(asked, await self.live.pending(user), lines_of_jobs)

    async def job(self, user: User, id: str) -> Response:
        """Say what is known of one job of the caller; of another's, as of one that is not there, nothing."""
        found = await self.live.job(user, id)
        if found is None:
            raise HTTPException(404, "you have no such job that waits, runs, or ended lately")
        return json_of(found)

    async def queue(self) -> Response:
        """What waits and runs, by partition."""
        live, snapshot = self.live, self.live.known()
        found = {"at": snapshot.now, "partitions": live.totals, "next_hours": live.hours}
        return json_of(found | {"notices": snapshot.notices, "cpus": live.cpus, "state_age_s": live.state_age()})

    async def honesty(self, days: Days = "28") -> Response:
        """How have the forecasts that were given out held?"""
        if days not in map(str, SPANS):
            raise HTTPException(400, f"days={short(days)} is none of {', '.join(map(str, SPANS))} (0 = all)")
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
        return Response(self.metrics.text(await self.live.honesty(28), self.live), media_type=CONTENT_TYPE_LATEST)

    async def page(self, asked: Asked, caller: Known) -> Response:
        """Render the page; with a question in its address, the answer too."""
        given, live = dict(asked.query_params), self.live
        answer, wrong, mine = None, "", {}
        if given and live.snapshot is not None:
            try:
                answer = await self._one(Question.model_validate(given), caller)
            except ValidationError as error:
                wrong = sentence(error)
            except HTTPException as error:
                wrong = str(error.detail)
        if caller.user and live.snapshot is not None:
            mine = await live.pending(caller.user)
        asked_for = {"given": given, "answer": answer, "wrong": wrong}
        text = await run_in_threadpool(render, live, caller.user, mine, await live.honesty(28), **asked_for)
        return HTMLResponse(text)

    async def file(self, asked: Asked) -> Response:
        """Return the page's script or style."""
        return FileResponse(HERE / asked.url.path.rpartition("/")[2])


def application(place: Place) -> tuple[FastAPI, Pages]:
    """Return the web application of a service, which trusts who asks, and its handlers."""
    pages = Pages(place)
    inner = FastAPI(
        title=f"procure serve: queue times of {place.service.name}",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _refused, RequestValidationError: _wrong, Exception: _failed},
    )
    hidden: dict[str, Callable[..., Any]] = {"/": pages.page, "/page.js": pages.file, "/page.css": pages.file}
    shown: dict[str, Callable[..., Any]] = {
        "/v1/predict": pages.predict, "/v1/advice": pages.advice, "/v1/jobs/{id}": pages.job,
        "/v1/pending": pages.pending, "/v1/queue": pages.queue, "/v1/honesty": pages.honesty,
        "/health": pages.health, "/ready": pages.ready, "/metrics": pages.show_metrics,
    }  # fmt: skip
    for path, handler in (hidden | shown).items():
        inner.add_api_route(path, handler, response_model=None, include_in_schema=path in shown)
    inner.add_api_route("/v1/predict", pages.predict_many, methods=["POST"], response_model=None)
    return inner, pages


_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_RECORD = ("coverage_50", "coverage_90", "mae", "mae_week_median", "mae_last_five", "brier_4h", "brier_base_4h")
"""Of `procure.serve.store.record`, of the last 28 days."""


class Metrics:
    """Counters of requests, and the record."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.registry, name = CollectorRegistry(), "procure_queue_request"
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Tally(f"{name}s", "Requests by handler and status.", ["handler", "status"], **own)
        self.seconds = Histogram(f"{name}_seconds", "Time to answer.", ["handler"], buckets=_BUCKETS, **own)

    def count(self, handler: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(handler, str(status)).inc()
        self.seconds.labels(handler).observe(seconds)

    def text(self, honesty: dict[str, Any], live: Live) -> bytes:
        """Return everything as text; ``partition=""`` is all of them."""
        registry = CollectorRegistry()

        def gauge(name: str, text: str, values: Mapping[str, float | None], label: str = "") -> None:
            made = Gauge(f"procure_queue_{name}", text, [label] if label else [], registry=registry)
            for key, value in values.items():
                if value is not None:
                    (made.labels(key[:100]) if label else made).set(value)

        gauge("state_age_seconds", "Seconds since the queue was seen.", {"": live.state_age()})
        gauge("ready", "1 if questions can be answered.", {"": live.snapshot is not None})
        gauge("model_rows", "Jobs that the boosters learnt from.", {"": live.facts.get("trained_rows") or 0})
        states = {state: sum(one[state] for one in live.totals) for state in ("waiting", "running")}
        gauge("jobs", "Jobs by state.", states, "state")
        rows = {"": honesty["all"] or {}} | {str(row["partition"]): row for row in honesty["by_partition"]}
        names = {"n": "judged_jobs"} | {key: f"{key}_seconds" if key[:3] == "mae" else key for key in _RECORD}
        for key, name in names.items():
            gauge(name, f"{key} of 28 days.", {part: row.get(key) for part, row in rows.items()}, "partition")
        return generate_latest(self.registry) + generate_latest(registry)
