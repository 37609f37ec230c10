"""The reports in a real browser: nothing runs, nothing is asked for, every control works, and everybody can read it."""

import asyncio
import json
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
from serve_cases import HOSTILE as ODD
from serve_cases import keep_model, make_log, make_place, play, quick_model, replaying
from small_study import swept
from test_reports import HOSTILE, NAMES, reports

from procure.reports.explore import Explorer, serve
from procure.serve.serving import SOCKET, Guard
from procure.text import duration

pytestmark = IN_A_BROWSER


@pytest.fixture(scope="module")
def pages(reports: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, text in reports.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in reports}


@pytest.mark.parametrize("width", [390, 768, 1200])
@pytest.mark.parametrize("name", NAMES)
def test_a_report_fits_its_screen_and_asks_for_nothing(browser, pages, name, width):
    """No sideways scrolling, no message on the console, no request, whatever things are named."""
    page, said, asked = opened(browser, pages[name].as_uri(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert (said, asked[1:]) == ([], [])
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing(browser, pages, name, scheme):
    """The accessibility checks of axe-core find no violation, in light and in dark."""
    page, _, _ = opened(browser, pages[name].as_uri(), color_scheme=scheme, viewport={"width": 1200, "height": 800})
    assert violations(page) == []
    page.close()


def test_every_control_of_the_list_works(browser, pages):
    """Sorting, filtering, comparing two packages and choosing axes answer without an error."""
    page, said, _ = opened(browser, pages["purchase"].as_uri(), viewport={"width": 1200, "height": 800})
    ranks = lambda: [int(one) for one in page.locator("#list tbody tr td:first-child").all_inner_texts()]  # noqa: E731
    assert ranks() == [1, 2, 3]
    page.click("#list th[data-key=rank] button")
    page.click("#list th[data-key=rank] button")
    assert ranks() == [3, 2, 1]
    assert page.get_attribute("#list th[data-key=rank]", "aria-sort") == "descending"
    page.fill("#filter", "no such type")
    assert page.inner_text("#n-shown") == "0 of 3 shown"
    page.fill("#filter", "")
    page.check('[aria-label="compare rank 1"]')
    page.check('[aria-label="compare rank 2"]')
    assert page.locator("#compared thead th").count() == 3
    page.check('[aria-label="compare rank 3"]')  # the last two stay
    assert not page.is_checked('[aria-label="compare rank 1"]')
    cells = page.locator("#compared tbody tr", has_text="mean wait").locator("td").all_inner_texts()
    data = json.loads(page.inner_html("#data"))
    assert cells == [duration(one["mean_wait_time"]) for one in data["list"][1:3]]  # as Python writes it
    page.wait_for_selector("#picture-cloud[tabindex]")
    page.focus("#picture-cloud")
    page.keyboard.press("ArrowRight")
    assert "mean wait" in page.inner_text("#point")
    page.keyboard.press("Enter")
    assert page.locator("#compared thead th").count() == 3
    page.fill("#most-price", "1")
    assert page.inner_text("#n-drawn").startswith("0 of ")
    page.fill("#most-price", "")
    assert page.locator(".picture > svg").count() == 0  # each is live now
    assert HOSTILE in page.inner_text("#bill") or HOSTILE in page.inner_text("#packages")
    assert said == []
    page.close()


def test_a_report_reads_without_script(browser, pages):
    """Without script the list is whole, and no control stands there that does nothing."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["purchase"].as_uri())
    assert page.locator("#list tbody tr").count() == 3
    assert not page.is_visible("#types") and not page.is_visible("#filter")
    assert page.locator(".picture > svg").first.is_visible()
    context.close()


def test_the_bill_stands_behind_a_memo_of_two_printed_pages(browser, pages, tmp_path):
    """On A4 and on letter; nothing of the money is cut on a screen of 768 px."""
    for width, height in ((718, 1046), (740, 980)):  # px of the paper between its margins
        page, _, _ = opened(browser, pages["purchase"].as_uri(), viewport={"width": width, "height": height})
        page.emulate_media(media="print")
        total = page.locator("#bill tr.total").bounding_box()
        assert total["y"] + total["height"] < 3 * height
        page.close()
    for paper in ("A4", "Letter"):
        page, _, _ = opened(browser, pages["purchase"].as_uri())
        made = page.pdf(format=paper)
        assert len(re.findall(rb"/Type\s*/Page\b(?!s)", made)) <= 12
        page.close()
    page, _, _ = opened(browser, pages["purchase"].as_uri(), viewport={"width": 768, "height": 800})
    frame = page.locator("#bill .wide").first
    assert frame.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.close()


def test_bounds_typed_into_the_live_page_are_answered(browser, tmp_path):
    """The list and the picture follow; what cannot be answered is said, and axe finds nothing."""
    opened_at: list[str] = []
    threading.Thread(target=serve, args=(Explorer(swept()), 0, opened_at.append), daemon=True).start()
    while not opened_at:
        time.sleep(0.05)
    page, said, _ = opened(browser, opened_at[0], viewport={"width": 390, "height": 800})
    page.wait_for_selector("#picture-cloud[tabindex]")
    page.fill("[name=budget]", "66000")
    page.click("#ask button")
    page.locator("#told", has_text="packages keep").wait_for()
    prices = [int(one.replace(",", "")) for one in page.locator("#list tbody tr td:nth-child(3)").all_inner_texts()]
    assert prices and max(prices) <= 66_000
    page.fill("[name=constraints]", "nonsense")
    page.click("#ask button")
    page.locator("#told", has_text="nonsense").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 and said == []
    assert violations(page) == []
    page.close()


__all__ = ["browser", "reports"]
ME = pwd.getpwuid(os.getuid()).pw_name


class Running:
    """A service's page on a free port; its reader is the account that runs the tests."""

    def __init__(self, folder: Path) -> None:
        log = make_log()
        names = {"ann": ME, "ben": ODD, "cleo": "cleo"}
        log = log.assign(user=log["user"].map(names), partition=log["partition"].replace({"short": ODD}))
        log["job_id"] = [f"{one}_<b>{ODD}" if row % 7 == 0 else one for row, one in enumerate(log["job_id"])]
        self.place = make_place(folder)
        keep_model(self.place, quick_model(log, int(log["submit_time"].iloc[350])))
        collector = replaying(self.place, log, int(log["submit_time"].iloc[360]))
        play(collector, 3)
        collector.close()
        self._serve()

    def _serve(self) -> None:
        guard = Guard(self.place)
        self.live = guard.live

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
