"""The service's page in a real browser: every control, hostile names, every screen, and everybody can read it."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from browsers import IN_A_BROWSER, browser, opened, violations
from serve_cases import HOSTILE, keep_model, make_log, make_place, play, quick_model, replaying

from procure.serve.app import application
from procure.serve.guard import SOCKET

__all__ = ["browser"]
pytestmark = IN_A_BROWSER
ME = pwd.getpwuid(os.getuid()).pw_name


class Running:
    """A service's page on a free port; its reader is the account that runs the tests."""

    def __init__(self, folder: Path) -> None:
        log = make_log()
        names = {"ann": ME, "ben": HOSTILE, "cleo": "cleo"}
        log = log.assign(user=log["user"].map(names), partition=log["partition"].replace({"short": HOSTILE}))
        log["job_id"] = [f"{one}_<b>{HOSTILE}" if row % 7 == 0 else one for row, one in enumerate(log["job_id"])]
        self.place = make_place(folder)
        keep_model(self.place, quick_model(log, int(log["submit_time"].iloc[350])))
        collector = replaying(self.place, log, int(log["submit_time"].iloc[360]))
        play(collector, 3)
        collector.close()
        self._serve()

    def _serve(self) -> None:
        guard, self.live = application(self.place)

        async def as_me(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                scope["client"] = (SOCKET, os.getuid())
            await guard(scope, receive, send)

        own = socket.socket()
        own.bind(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{own.getsockname()[1]}/"
        self.server = uvicorn.Server(uvicorn.Config(as_me, lifespan="off", log_config=None, ws="none"))

        async def run() -> None:
            self.live.refresh()
            await self.server.serve(sockets=[own])

        self.thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
        self.thread.start()
        while not self.server.started and self.thread.is_alive():
            time.sleep(0.05)

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("page"))
    yield made
    made.close()


def page_of(browser: Any, running: Running, **options: Any) -> tuple[Any, list[str], list[str]]:
    """Open the page; return it, what the console said, and what was asked for outside of it."""
    page, said, asked = opened(browser, running.address, **options)
    page.wait_for_selector("#answer .what")
    return page, said, [one for one in asked if running.address not in one]


@pytest.mark.parametrize("width", [390, 768, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_is_readable_and_asks_nothing_outside(browser, running, width, scheme):
    """No sideways scrolling, nothing on the console, no outside request, and axe finds no violation."""
    page, said, outside = page_of(browser, running, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
    assert (said, outside) == ([], [])
    page.close()


def test_the_answer_changes_as_one_types(browser, running):
    """Each field of the form changes the question; what is wrong with it is a sentence in its place."""
    page, said, _ = page_of(browser, running, viewport={"width": 1200, "height": 800})
    answers = []
    for name, value in (("cpus", "1"), ("time", "10"), ("mem", "2G"), ("nodes", "1")):
        with page.expect_response(re.compile("/v1/predict")) as reply:
            page.fill(f"[name={name}]", value)
        assert reply.value.status == 200 and f"{name}={value}" in reply.value.url
        answers.append(page.inner_text("#answer"))
    with page.expect_response(re.compile("/v1/predict")) as reply:
        page.select_option("[name=partition]", "long")
    assert "partition=long" in reply.value.url
    with page.expect_response(re.compile("/v1/predict")) as reply:
        page.fill("[name=cpus]", "99999")
    page.locator("#answer", has_text="the most seen").wait_for()
    assert reply.value.status == 400
    page.focus("[name=cpus]")
    with page.expect_response(re.compile("/v1/predict")):
        page.fill("[name=cpus]", "2")
        page.keyboard.press("Enter")
    page.locator("#answer", has_text="9 in 10").wait_for()
    assert [one for one in said if "400" not in one] == []  # the browser itself notes a refused question
    page.close()


def test_the_page_reads_without_script(browser, running):
    """Without script the form asks by itself, and the answer stands in the page."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(running.address)
    page.fill("[name=cpus]", "2")
    page.click("button[type=submit]")
    assert "cpus=2" in page.url and "9 in 10" in page.inner_text("#answer")
    context.close()
