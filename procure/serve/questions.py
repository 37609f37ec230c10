"""Read a question, and write its answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from starlette.exceptions import HTTPException

from procure.queue_time.predict import Request
from procure.serve.engine import Answer
from procure.serve.ledger import DEADLINES
from procure.settings import LARGEST
from procure.text import nearest, printable, roughly
from procure.workload.slurm_text import slurm_limit, slurm_memory_limit

if TYPE_CHECKING:
    from procure.serve.live import Live

LEAST = {"cpus": 1, "gpus": 0, "nodes": 1}
LONGEST = 100


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise ValueError
    return int(text)


Whole = Annotated[int, BeforeValidator(_digits)]
Text = Annotated[str, Field(max_length=LONGEST)]


class Question(BaseModel):
    """A job that might be submitted, as an address or a body asks about it."""

    model_config = ConfigDict(extra="forbid")

    cpus: Whole = Field(ge=1, le=LARGEST, description="CPUs in all.")
    time: Text = Field(description="The limit, as in sbatch: 480 (minutes), 8:00:00, 2-00, or 8h.")
    mem: Text = Field("0", description="Memory per node, as in sbatch: 64G is 64 GiB.")
    gpus: Whole = Field(0, ge=0, le=LARGEST, description="GPUs in all.")
    nodes: Whole = Field(1, ge=1, le=LARGEST, description="Nodes.")
    partition: Text = Field("", description="Partition; the most used one by default.")

    @model_validator(mode="before")
    @classmethod
    def _of_texts(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not all(isinstance(value, str | int) for value in given.values()):
            raise ValueError("a request is an object with text and whole numbers, such as cpus and time")
        return {name: text for name, value in given.items() if (text := str(value).strip())}

    def request(self, user: str) -> Request:
        """Return it as the model reads it."""
        try:
            limit, memory = slurm_limit(self.time), slurm_memory_limit(self.mem)
        except (ValueError, OverflowError) as error:
            raise HTTPException(400, printable(str(error))) from None
        if self.nodes > self.cpus:
            raise HTTPException(400, f"{self.nodes:,} nodes were asked for, but {self.cpus:,} CPUs in all")
        return Request(self.cpus, limit, memory, self.gpus, self.nodes, self.partition, user)


def of_values(given: Sequence[tuple[str, Any]], user: str) -> Request:
    """Read a question from names and values.

    Raises
    ------
    starlette.exceptions.HTTPException
        400, with a sentence: an unknown or repeated parameter, or a value that is none.
    """
    once(given)
    try:
        return Question.model_validate(dict(given)).request(user)
    except ValidationError as error:
        raise HTTPException(400, sentence(error.errors())) from None


def once(given: Sequence[tuple[str, Any]]) -> None:
    """Refuse what was given twice."""
    for name, n in Counter(name for name, _ in given).items():
        if n > 1:
            raise HTTPException(400, f"{_short(name)} was given twice")


def sentence(errors: Sequence[Any]) -> str:
    """Say in a sentence what is wrong with a question, as pydantic found it."""
    one = errors[0]
    name, kind = str(one["loc"][-1]) if one["loc"] else "", one["type"]
    if kind == "missing":
        return f"{name} is missing; ask as in ?cpus=16&mem=64G&time=8:00:00"
    if kind == "extra_forbidden":
        return f"unknown parameter {_short(name)}; {nearest(name[:LONGEST], list(Question.model_fields))}"
    if kind == "string_too_long":
        return f"{name} is longer than {LONGEST} characters"
    if name in LEAST:
        return f"{name}={_short(str(one['input']))} is not a whole number from {LEAST[name]} to {LARGEST:,}"
    return str(one.get("ctx", {}).get("error", f"{name} cannot be read as text"))


def of_body(body: bytes, user: str, most: int) -> list[Request]:
    """Read questions from a JSON body: ``{"requests": [{"cpus": 16, "time": "8:00:00"}, …]}``, or one of them."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON") from None
    asked = given.get("requests", given) if isinstance(given, dict) else given
    asked = asked if isinstance(asked, list) else [asked]
    if not 1 <= len(asked) <= most:
        raise HTTPException(400, f"{len(asked):,} requests were given; 1 to {most} are taken")
    if not all(isinstance(one, dict) for one in asked):
        raise HTTPException(400, "a request is an object with text and whole numbers, such as cpus and time")
    return [of_values(list(one.items()), user) for one in asked]


def _short(text: str) -> str:
    return repr(printable(text[:40]))


def told(answer: Answer, live: Live) -> dict[str, Any]:
    """Return an answer as the interface gives it."""
    if answer.error:
        return {"error": printable(answer.error)}
    stale = live.staleness()
    return {
        "median_s": answer.median,
        "interval_s": answer.interval(90),
        "interval_50_s": answer.interval(50),
        "chance": {name: answer.row[f"chance_{name}"] for name in DEADLINES},
        "because": answer.because,
        "caution": [*answer.caution, *([stale] if stale else [])],
        "partition": answer.partition,
        "model": live.model_facts(),
        "state_age_s": live.state_age(),
    }


def advice(answer: Answer, stale: str | None) -> str:
    """Say an answer in a line, and that the queue was seen long ago where that is so."""
    low, high = (roughly(one) for one in answer.interval(90))
    if answer.median < 2.5:
        when = "is likely to start at once"
    else:
        when = f"is expected to start in about {roughly(answer.median)}"
    between = "" if high == "at once" else f" (9 in 10: {'within' if low == 'at once' else f'{low} to'} {high})"
    return printable(f"procure: this job {when}{between}. {answer.because}{f' {stale}' if stale else ''}") + "\n"


def written(said: dict[str, Any]) -> str:
    """Write an answer of `told` for people."""
    low, high = said["interval_s"]
    start = "at once" if said["median_s"] < 2.5 else f"in about {roughly(said['median_s'])}"
    chance = ", ".join(f"{name[:-1]} h {share:.0%}" for name, share in said["chance"].items())
    lines = [
        f"starts {start} (as likely sooner as later)",
        f"  9 in 10: {roughly(low)} to {roughly(high)}",
        f"  chance of a start within {chance}",
        said["because"],
    ]
    return _lines([*lines, *(f"Careful: {one}" for one in said["caution"])])


def written_jobs(said: dict[str, Any]) -> str:
    """Write what is said of a caller's waiting jobs for people."""
    careful = [f"Careful: {one}" for one in said["caution"]]
    if not said["jobs"]:
        return _lines(["none of your jobs waits", *careful])
    lines = [f"{'job':<16} {'CPUs':>6}  {'partition':<12} {'may start in':<14} 9 in 10"]
    for job in said["jobs"]:
        low, high = job["interval_s"]
        between = "–" if low is None or low != low else f"{roughly(low)} to {roughly(high)}"
        lines.append(
            f"{job['job_id']:<16} {job['cpus']:>6}  {job['partition']:<12} {roughly(job['median_s']):<14} {between}"
        )
    if said["n"] > len(said["jobs"]):
        lines.append(f"{len(said['jobs'])} of {said['n']} shown, those that wait longest")
    return _lines(lines + careful)


def _lines(lines: list[str]) -> str:
    return "".join(f"{printable(line)}\n" for line in lines)
