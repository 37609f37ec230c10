"""Words, printed pages, size and time of a study's report, and what axe-core finds: one JSON line.

    python benchmarks/report_page.py pipelines/example.toml [--picture FIRST_PAGE.png]

Needs the extra ``browser`` and a Chromium on the PATH. The study has to be swept. The first report finds what `procure
recommend` has kept, the second also what the first has.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import sync_playwright

import procure

QUIET = ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]  # fmt: skip


def made(study: str, out: Path) -> dict[str, float]:
    """Recommend, as `make sweep` does, then write the report twice; return the seconds of each."""
    procure.recommend(study, k=10)
    found = {}
    for which in ("first", "second"):
        began, used = time.perf_counter(), time.process_time()
        procure.report(study, out)
        found[f"{which}_seconds"] = round(time.perf_counter() - began, 1)
        found[f"{which}_cpu_seconds"] = round(time.process_time() - used, 1)
    return found


def looked_at(path: Path, picture: str | None) -> dict[str, object]:
    """Open a report in a browser and count."""
    alone = ["--no-sandbox"] if os.getuid() == 0 else []
    found: dict[str, object] = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=[*QUIET, *alone])
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme, viewport={"width": 1200, "height": 800})
            page.goto(path.as_uri())
            page.evaluate(Path(AXE_FILE_PATH).read_text(encoding="utf-8"))
            found[f"axe_violations_{scheme}"] = len(page.evaluate("axe.run()")["violations"])
        for width in (390, 768, 1200):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.goto(path.as_uri())
            found[f"too_wide_{width}"] = page.evaluate("document.documentElement.scrollWidth") - width
        page = browser.new_page(viewport={"width": 900, "height": 800})
        page.goto(path.as_uri())
        found["words_first_page"] = len(page.evaluate("document.getElementById('answer').textContent").split())
        for paper in ("A4", "Letter"):
            found[f"pages_{paper}"] = len(re.findall(rb"/Type\s*/Page\b(?!s)", page.pdf(format=paper)))
        if picture:
            page.locator("#answer").screenshot(path=picture)
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study")
    parser.add_argument("--picture", help="write a picture of the first page here, PNG")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.html"
        timed = made(asked.study, out)
        size = {"bytes": out.stat().st_size}
        print(json.dumps({"study": asked.study} | looked_at(out, asked.picture) | size | timed))


if __name__ == "__main__":
    main()
