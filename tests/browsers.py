"""A real browser for tests of pages: the driver, a page that notes what it does, and who could not read it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` is not installed")
axe = pytest.importorskip("axe_playwright_python.base", reason="the extra `browser` is not installed")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
IN_A_BROWSER = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")]
QUIET = "gpu quic background-networking component-update sync".split()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        alone = ["--no-sandbox"] if os.getuid() == 0 else []
        started = driver.chromium.launch(executable_path=BROWSER, args=[*(f"--disable-{one}" for one in QUIET), *alone])
        yield started
        started.close()


def opened(browser: Any, address: str, **options: Any) -> tuple[Any, list[str], list[str]]:
    """Open a page; return it, what the console said, and what was asked for."""
    page = browser.new_page(**options)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    return page, said, asked


def violations(page: Any) -> list[tuple[str, str]]:
    """Return what axe-core objects to."""
    page.evaluate(Path(axe.AXE_FILE_PATH).read_text(encoding="utf-8"))
    return [(one["id"], one["nodes"][0]["html"][:120]) for one in page.evaluate("axe.run()")["violations"]]
