"""The web side: answers equal the library's, and nobody gets what is not theirs."""

import asyncio
import json
import os
import pwd
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from serve_cases import (
    HOSTILE,
    ask,
    ask_json,
    hurried,
    keep_model,
    make_log,
    make_place,
    over_socket,
    play,
    quick_model,
    replaying,
)

from procure.queue_time.answer import predict_queue
from procure.queue_time.predict import Request, pending_waits
from procure.serve import live as web
from procure.serve.collector import Collector
from procure.serve.live import Snapshot
from procure.serve.serving import Guard
from procure.serve.settings import Http, Place

ME = pwd.getpwuid(os.getuid()).pw_name
MINE = over_socket(os.getuid())
QUESTION = "/v1/predict?cpus=4&mem=4G&time=1:00:00&partition=long"


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Return a log in which the account that runs the tests is a user, and names are hostile."""
    log = make_log()
    names = {"ann": ME, "ben": f"other{HOSTILE}", "cleo": "cleo"}
    return log.assign(user=log["user"].map(names), partition=log["partition"].replace({"short": HOSTILE}))


@pytest.fixture(scope="module")
def place(log: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place(tmp_path_factory.mktemp("served"))
    keep_model(place, quick_model(log, int(log["submit_time"].iloc[350])))
    collector = replaying(place, log, int(log["submit_time"].iloc[360]))
    play(collector, 2)
    collector.close()
    return place


def opened(place: Place) -> Any:
    """Return a service's application that has looked once."""
    guard = Guard(place)
    guard.live.refresh()
    return SimpleNamespace(guard=guard, live=guard.live)


@pytest.fixture
def app(place: Place) -> Any:
    return opened(place)


@pytest.fixture
def copied(place: Place, tmp_path: Path) -> Place:
    for path in (place.database, place.model, place.queue):
        shutil.copy(path, tmp_path)
    return Place(tmp_path, place.service)


def test_an_answer_is_the_librarys(app: Any) -> None:
    """Questions laid out together are answered as `procure queue predict` answers each, once a model is proven."""
    snapshot = app.live.snapshot
    partition = snapshot.open["partition"].iloc[0]
    asked = [
        Request(4, 3600, 4096, partition="long", user=ME),
        Request(4, 3600, 4096, partition="long", user=""),
        Request(1, 600, partition=partition, user="cleo"),
        Request(8, 14_400, user="somebody new"),
        Request(6, 0, nodes=2, partition="long"),
    ]
    history = snapshot.table[snapshot.table["end_time"].notna()]
    proven = {"about": snapshot.site.about | {"trained_rows": 1000}}  # a young one says so first
    site = snapshot.site.__class__(**(vars(snapshot.site) | proven | {"history": history}))
    snapshot = Snapshot(site, snapshot.table, snapshot.now)
    for one, request in zip(snapshot.answer(asked), asked, strict=True):
        want = predict_queue(site, request, snapshot.open, now=snapshot.now)
        assert one["median_s"] == pytest.approx(want["median"], rel=1e-4)
        assert one["interval_s"] == pytest.approx([want["lower_90"], want["upper_90"]], rel=1e-4)
        assert one["interval_50_s"] == pytest.approx([want["lower_50"], want["upper_50"]], rel=1e-4)
        assert one["caution"] == want["caution"]


def test_the_interface_that_scripts_rely_on(app: Any) -> None:
    """`/v1/predict` gives the keys that are promised, and the same to a POST of many."""
    status, found = ask_json(app, QUESTION)
    assert status == 200
    assert {"median_s", "interval_s", "chance", "because", "caution", "model", "state_age_s"} <= found.keys()
    assert set(found["chance"]) == {"1h", "4h", "12h"} and set(found["model"]) >= {"trained_at", "rows"}
    low, high = found["interval_s"]
    assert 0 <= low <= found["median_s"] <= high
    body = json.dumps(
        {"requests": [{"cpus": 4, "mem": "4G", "time": "1:00:00", "partition": "long"}, {"cpus": 10**8, "time": "1h"}]}
    )
    status, many = ask_json(app, "/v1/predict", method="POST", body=body.encode())
    assert status == 200, many
    assert many["answers"][0]["median_s"] == found["median_s"]
    assert "the most seen" in many["answers"][1]["error"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("/v1/predict", "cpus: missing"),
        ("/v1/predict?cpus=4", "time: missing"),
        ("/v1/predict?cpus=0&time=1h", "at least 1"),
        ("/v1/predict?cpus=%EF%BC%94&time=1h", "whole number"),
        ("/v1/predict?cpus=4&time=soon", "soon"),
        ("/v1/predict?cpus=4&time=1h&user=root", "unknown key"),
        ("/v1/predict?cpus=4&time=1h&cpu=4", "did you mean"),
        ("/v1/predict?cpus=4&time=1h&cpus=5", "given twice"),
        ("/v1/predict?cpus=1&nodes=2&time=1h", "2 nodes"),
        ("/v1/predict?cpus=4&time=1h&partition=" + "x" * 500, "100"),
        ("/v1/predict?cpus=4&time=" + "9" * 90, "9"),
        ("/v1/honesty?days=5", "is none of 0, 1, 7, 28"),
    ],
)
def test_a_wrong_question_is_a_sentence(app: Any, target: str, said: str) -> None:
    """Bad usage is 400 with one sentence in JSON, no traceback, nothing that is not printable."""
    status, found = ask_json(app, target)
    assert status == 400 and said in found["error"] and "Traceback" not in found["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 50_000,
        b"[]",
        b'{"requests": 3}',
        b'[{"cpus": [1]}]',
        b"\xff\xfe",
        b"1e999",
        b'[{"cpus": 99999999999999999999999, "time": "1h"}]',
        b"null",
        b'[{"cpus": 1, "time": "\\ud800"}]',
        b'[{"cpus": 1, "time": "1h", "partition": "\\ud800"}]',
        b'[{"cpus": true, "time": "1h"}]',
        b'[{"cpus": 1.5, "time": "1h"}]',
        b'[{"cpus": 1, "time": null}]',
        b'[{"cpus": 1, "time": "1h", "\\ud800": 1}]',
    ],
)
def test_a_wrong_body_is_a_sentence(app: Any, body: bytes) -> None:
    """Whatever is posted, the answer is 400 in JSON."""
    status, found = ask_json(app, "/v1/predict", method="POST", body=body)
    assert status == 400 and found["error"]


def test_the_kernel_says_who_asks(app: Any) -> None:
    """Over the socket a caller is the account at its other end, whatever headers say; over an address nobody."""
    status, found = ask_json(app, "/v1/pending", client=MINE, X_Remote_User="cleo")
    assert (status, found["user"]) == (200, ME)
    for client in (("127.0.0.1", os.getuid()), ("::1", 0), over_socket(987_654_321)):
        status, found = ask_json(
            app, "/v1/pending", client=client, X_Remote_User="cleo", X_Forwarded_For="procure-socket"
        )
        assert status == 403 and "cleo" not in found["error"]


def test_a_header_is_believed_from_the_proxy_alone(place: Place) -> None:
    """With a proxy's account set, its processes name the user; a name given twice, or an odd one, is nobody."""
    app = opened(Place(place.folder, place.service.model_copy(update={"http": Http(proxy_user=ME)})))
    assert ask_json(app, "/v1/pending", client=MINE, X_Remote_User="cleo")[1]["user"] == "cleo"
    assert ask_json(app, "/v1/pending", client=MINE)[0] == 403
    assert ask_json(app, "/v1/pending", client=MINE, X_Remote_User="UNI\\ann lee")[1]["user"] == "UNI\\ann lee"
    for name in ("cleo\u00e9\n", "(null)", " ", "cleo ", "a/b", "x" * 65):
        assert ask_json(app, "/v1/pending", client=MINE, X_Remote_User=name)[0] == 403
    other = over_socket(pwd.getpwnam("nobody").pw_uid)
    assert ask_json(app, "/v1/pending", client=other, X_Remote_User="cleo")[1]["user"] == "nobody"
    scope = {"client": MINE, "headers": [(b"x-remote-user", b"cleo"), (b"x-remote-user", b"ann")]}
    assert app.guard.caller(scope).user == ""


def test_a_caller_sees_own_jobs_only(app: Any) -> None:
    """`/v1/pending` is what `queue watch` says of the caller; another's job is one that is not there."""
    snapshot = app.live.snapshot
    waiting = snapshot.open[snapshot.open["start_time"].isna()]
    assert set(waiting["user"]) > {ME}
    status, found = ask_json(app, "/v1/pending", client=MINE)
    want = pending_waits(snapshot.site, snapshot.open, ME, snapshot.now)
    assert [job["job_id"] for job in found["jobs"]] == want["job_id"].to_list()
    mine = waiting.loc[waiting["user"] == ME, "job_id"].iloc[-1]
    status, one = ask_json(app, f"/v1/jobs/{mine}", client=MINE)
    assert (status, one["state"]) == (200, "waits")
    assert one["forecast"]["median_s"] == pytest.approx(found["jobs"][-1]["median_s"])
    theirs = waiting.loc[waiting["user"] != ME, "job_id"].iloc[0]
    nothing = ask_json(app, "/v1/jobs/999999", client=MINE)
    assert ask_json(app, f"/v1/jobs/{theirs}", client=MINE) == nothing and nothing[0] == 404
    assert ask_json(app, f"/v1/jobs/{mine}")[0] == 403


ANSWERS = "/ /v1/queue /v1/honesty?days=0 /metrics /ready /health /openapi.json /v1/pending /v1/advice?cpus=4&time=1h"


@pytest.mark.parametrize("target", [QUESTION, *ANSWERS.split()])
def test_no_answer_names_another_user(app: Any, target: str) -> None:
    """Whatever is asked, no other user's name is in it, neither plain nor escaped."""
    for client in (MINE, ("127.0.0.1", 9)):
        status, _, body = ask(app, target, client=client)
        assert status == (403 if target == "/v1/pending" and client != MINE else 200)
        text = body.decode()
        assert "cleo" not in text and not re.search(r"other<|other&lt;", text)


def test_hostile_names_stay_text(app: Any) -> None:
    """A partition that is a script is shown escaped; the page's policy allows no script but its own file."""
    status, headers, body = ask(app, "/?cpus=4&time=%3Cscript%3E", client=MINE)
    text = body.decode()
    assert status == 200 and "<script>alert" not in text and "&lt;script&gt;" in text
    assert re.findall(r"<script[^>]*>", text) == ['<script src="page.js" defer>']
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text)


def test_a_body_has_a_limit(app: Any) -> None:
    """A declared length or a body beyond the limit is 413."""
    assert ask(app, "/v1/predict", method="POST", content_length="99999999")[0] == 413
    assert ask(app, "/v1/predict", method="POST", body=b" " * 70_000)[0] == 413
    assert ask(app, "/v1/predict", method="POST", content_length="-1")[0] == 413


def test_metrics_have_the_names_that_scripts_rely_on(app: Any) -> None:
    ask(app, QUESTION)
    text = ask(app, "/metrics")[2].decode()
    for name in ("procure_queue_state_age_seconds", "procure_queue_requests_total", "procure_queue_ready 1.0"):
        assert name in text
    honest = ask_json(app, "/v1/honesty?days=28")[1]["all"]
    if honest["n"]:
        assert f'procure_queue_coverage_90{{partition=""}} {honest["coverage_90"]}' in text


def test_the_record_is_counted_once_for_all_who_ask(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many who ask at once wait for one count, made over another connection than the one that follows the queue."""
    counted, stores = web.track_record, []
    monkeypatch.setattr(web, "track_record", lambda store, *how: (stores.append(store), counted(store, *how))[1])

    async def run() -> list[dict[str, Any]]:
        return await asyncio.gather(*(app.live.honesty(days) for days in [7, 28] * 20))

    found = asyncio.run(run())
    assert len(stores) == 2 and all(one == found[0] | {"days": one["days"]} for one in found if one["days"] == 7)
    assert app.live.store not in stores


def test_what_cannot_be_read_is_looked_at_again(place: Place, copied: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A queue that is none stops nothing, and the next one is taken."""
    live = Guard(copied).live
    pd.read_parquet(copied.queue).drop(columns="partition").to_parquet(copied.queue)

    async def run() -> None:
        following = asyncio.create_task(live.follow())
        await until(lambda: "KeyError" in caplog.text)
        stamped = dict(live.stamps)
        shutil.copy(place.queue, copied.queue)
        await until(lambda: live.snapshot is not None)
        following.cancel()
        assert copied.queue not in stamped

    async def until(what: Callable[[], bool]) -> None:
        for _ in range(200):
            if what():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(caplog.text)

    asyncio.run(run())


def test_a_failure_is_500_without_its_reason(
    app: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails inside is one sentence outside, and in the log a place without values."""
    monkeypatch.setattr(app.live, "readiness", lambda: 1 / 0)
    status, found = ask_json(app, "/ready")
    assert status == 500 and "zero" not in found["error"]
    assert "ZeroDivisionError in" in caplog.text and "Traceback" not in caplog.text


def test_before_the_first_look_nothing_is_claimed(tmp_path: Path) -> None:
    """A service that has seen nothing says so with 503, its page too, and is healthy."""
    app = opened(make_place(tmp_path))
    assert ask(app, "/ready")[0] == 503 and ask(app, QUESTION)[0] == 503 and ask(app, "/health")[0] == 200
    assert "No question can be answered yet" in ask(app, "/")[2].decode()
    assert ask(app, "/metrics")[0] == 200 == ask(app, "/health", method="HEAD")[0]


def test_a_database_that_is_deleted_is_said(copied: Place, caplog: pytest.LogCaptureFixture) -> None:
    """What is kept goes nowhere then: `/ready` says so, and the collector's log once; questions are answered."""
    app, collector, stop = opened(copied), hurried(Collector(copied)), threading.Event()
    copied.database.unlink()
    assert "was deleted" in str(ask_json(app, "/ready")[1]["problems"]) and ask(app, QUESTION)[0] == 200
    tick, looks = collector.tick, []
    collector.tick = lambda: (looks.append(1), len(looks) > 2 and stop.set(), tick())  # type: ignore[method-assign]
    collector.run(stop)
    assert caplog.text.count("was deleted") == 1
    collector.close()


def test_a_hidden_partition_is_unknown_to_who_has_no_job_there(place: Place, log: pd.DataFrame) -> None:
    """It is in no totals and no suggestion; who has jobs there is answered."""
    app = opened(Place(place.folder, place.service.model_copy(update={"hide": ("long",)})))
    for target in ("/v1/queue", "/v1/honesty?days=0", "/metrics", "/"):
        status, _, body = ask(app, target)
        assert status == 200 and not re.search(r"\"long\"|>long<", body.decode()), target
    refused = ask_json(app, QUESTION)
    assert refused[0] == 400 and "unknown partition 'long'" in refused[1]["error"]
    assert "long" not in ask_json(app, QUESTION.replace("=long", "=lnog"))[1]["error"]
    assert ask(app, QUESTION, client=MINE)[0] == 200


def test_too_many_questions_are_refused_not_kept_waiting(app: Any) -> None:
    from starlette.exceptions import HTTPException

    async def run() -> int:
        many = [asyncio.create_task(app.live.ask([Request(1, 60 + n)], "one")) for n in range(400)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException) as refused:
            await app.live.ask([Request(2, 60)], "one")
        for one in many:
            one.cancel()
        await asyncio.gather(*many, return_exceptions=True)
        return refused.value.status_code

    assert asyncio.run(run()) == 503
    assert not app.live.of_caller


def test_a_known_question_is_not_answered_again_with_the_next_new_one(app: Any, monkeypatch: Any) -> None:
    """Nobody waits for it any more; of thousands of such the next look's first question waited for seconds."""
    asked: list[list[Request]] = []
    answer = app.live.snapshot.answer
    monkeypatch.setattr(app.live.snapshot, "answer", lambda some: (asked.append(some), answer(some))[1])

    async def run() -> None:
        await app.live.ask([Request(1, 70)], "one")
        await app.live.ask([Request(1, 70)], "one")
        app.live.snapshot.kept.clear()  # as a new look has none
        await app.live.ask([Request(1, 71)], "one")

    asyncio.run(run())
    assert asked == [[Request(1, 70)], [Request(1, 71)]]
