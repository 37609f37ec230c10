"""The description of the interface, as OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from procure._version import __version__
from procure.serve.live import SPANS
from procure.serve.settings import Service

_PARAMETERS = {
    "cpus": ("CPUs in all.", True, {"type": "integer", "minimum": 1}),
    "time": ("The limit, as in sbatch: 480 (minutes), 8:00:00, 2-00, or 8h.", True, {"type": "string"}),
    "mem": ("Memory per node, as in sbatch: 64G is 64 GiB.", False, {"type": "string", "default": "0"}),
    "gpus": ("GPUs in all.", False, {"type": "integer", "minimum": 0, "default": 0}),
    "nodes": ("Nodes.", False, {"type": "integer", "minimum": 1, "default": 1}),
    "partition": ("Partition; the most used one by default.", False, {"type": "string"}),
}
_SECONDS = {"type": "number", "description": "Seconds from now."}
_ENDS = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
_ANSWER = {
    "type": "object",
    "required": ["median_s", "interval_s", "chance", "because", "caution", "model", "state_age_s"],
    "properties": {
        "median_s": _SECONDS,
        "interval_s": _ENDS | {"description": "Nine in ten start between these, seconds from now."},
        "interval_50_s": _ENDS | {"description": "One in two starts between these, seconds from now."},
        "chance": {
            "type": "object",
            "properties": {name: {"type": "number", "minimum": 0, "maximum": 1} for name in ("1h", "4h", "12h")},
            "description": "The chance of a start within these.",
        },
        "because": {"type": "string"},
        "caution": {"type": "array", "items": {"type": "string"}},
        "partition": {"type": "string"},
        "model": {"type": "object", "description": "trained_at and updated_at in Unix seconds, rows."},
        "state_age_s": {"type": "integer", "description": "Seconds since the queue was seen."},
    },
}
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


def document(service: Service) -> dict[str, Any]:
    """Return the document."""
    ask = [
        {"name": name, "in": "query", "required": needed, "description": text, "schema": schema}
        for name, (text, needed, schema) in _PARAMETERS.items()
    ]
    job = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    span = {"type": "integer", "default": 28, "enum": list(SPANS)}
    days = [{"name": "days", "in": "query", "schema": span, "description": "0 = all."}]
    study = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    many = {"type": "object", "properties": {"requests": {"type": "array", "items": {"type": "object"}}}}
    answers = {"type": "object", "properties": {"answers": {"type": "array", "items": _ANSWER}}}
    paths: dict[str, Any] = {
        "/v1/predict": {
            "get": _operation("When would a job start if it were submitted now?", ask, _ANSWER, 400, 429, 503),
            "post": _operation("The same of up to 100 jobs.", [], answers, 400, 413, 429, 503)
            | {"requestBody": {"content": {"application/json": {"schema": many}}}},
        },
        "/v1/advice": {"get": _operation("The same in a line; kept as the job's forecast.", ask, None, 400, 429, 503)},
        "/v1/pending": {"get": _operation("When may my waiting jobs start?", [], {"type": "object"}, 403, 503)},
        "/v1/jobs/{id}": {"get": _operation("What of my job?", job, {"type": "object"}, 403, 404, 503)},
        "/v1/queue": {"get": _operation("What waits and runs, by partition.", [], {"type": "object"}, 503)},
        "/v1/honesty": {"get": _operation("How have the forecasts held?", days, {"type": "object"}, 400)},
        "/study/{name}": {"get": _operation("A published report.", study, None, 404)},
        "/health": {"get": _operation("Does the process answer?", [], {"type": "object"})},
        "/ready": {"get": _operation("Can it answer questions, and what is amiss?", [], {"type": "object"}, 503)},
        "/metrics": {"get": _operation("For Prometheus.", [], None)},
    }
    about = {"title": f"procure serve: queue times of {service.name}", "version": __version__}
    return {"openapi": "3.1.0", "info": about, "paths": paths}


def _operation(text: str, parameters: list[Any], answer: dict[str, Any] | None, *errors: int) -> dict[str, Any]:
    content = {"text/plain": {}} if answer is None else {"application/json": {"schema": answer}}
    responses: dict[str, Any] = {"200": {"description": "The answer.", "content": content}}
    for status in errors:
        responses[str(status)] = {
            "description": "A sentence on why there is none.",
            "content": {"application/json": {"schema": _ERROR}},
        }
    return {"summary": text, "parameters": parameters, "responses": responses}
