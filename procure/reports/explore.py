"""The list and the picture of all packages, live: bounds are typed in, and answered from what was simulated."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from procure.errors import ArgumentError, TableError
from procure.objectives import objectives_of
from procure.offers.reading import in_usd
from procure.page.charts import library, picture
from procure.page.html import as_json, render
from procure.progress import silent
from procure.recommender.rank import Note, confirm_list, learn_values, ranking_table, simulator, try_swaps
from procure.recommender.recommendation import Recommendation
from procure.recommender.recommender import recommend
from procure.recommender.values import Criteria, criteria_of
from procure.reports import pictures
from procure.reports.purchase import page_data, title_of
from procure.study import Study, load_study

_FOLDER = Path(__file__).parent
MOST_LISTED = 200
"""The longest list that a page shows."""


class Explorer:
    """Answers under other bounds about every package of a study; the first of its own list are simulated, once.

    It was swept or bought; that there are no results yet, or too few to learn from, is a `TableError`.
    """

    def __init__(self, study: str | Path | Study, note: Note = silent) -> None:
        """Load the results, learn from them, and confirm the first packages as the report does."""
        self._study = load_study(study)
        self._lists: dict[float, Recommendation] = {}
        self._lock = threading.Lock()
        self._done = done = self._of_budget(None, note)
        values = done.package_values
        if done.front is None:
            values.simulate = simulator(done.results, list(values.results), [])
            confirm_list(values, done.criteria, done.k)
            try_swaps(values, done.criteria, done.results.counts, done.k)
            values.simulate = None

    def _of_budget(self, budget: float | None, note: Note = silent) -> Recommendation:
        """Return the packages of a budget with what is known of them, from a list that is made once."""
        own = self._study.packages.budget_usd
        usd = own if budget is None else budget
        if not 0 < usd <= own:
            raise ArgumentError("budget", f"US$ {usd:,.2f} was given; packages of the study cost up to US$ {own:,.2f}")
        bounds = [] if usd == own else [f"price_usd<={usd}"]
        with self._lock if usd not in self._lists else contextlib.nullcontext():
            if usd not in self._lists:
                known = next(iter(self._lists.values())).results if self._lists else self._study
                asked = {"constraints": bounds, "verify": False, "resamples": 0, "exchanges": 0, "note": note}
                self._lists[usd] = recommend(known, **asked)  # type: ignore[arg-type]
        return self._lists[usd]

    def _learn(self, of_budget: Recommendation, criteria: Criteria) -> None:
        """Learn what criteria ask for and nobody has asked for yet; what is known is never waited for."""
        values = of_budget.package_values
        if all(map(values.is_learnt, criteria.quantities)) and not (criteria.need_costs and values.costs.empty):
            return
        with self._lock:
            learn_values(values, of_budget.results, criteria, verify=False)

    def prepare(self) -> None:
        """Learn the waits that bounds are usually about, of all jobs and of each class with jobs, one by one.

        Meanwhile questions about what is known are answered at once; others wait for the model that is being fitted.
        Then come the packages of 90 and 80 % of the budget, so that a cut is answered at once, too.
        """
        cases, criteria = self._done.results.cases, self._done.criteria
        classes = {None} | {name for case in cases for name, n in case.class_jobs.items() if n}
        for of in objectives_of(self._study.classes).values():
            if of.source == "result" and of.job_class in classes and not (of.per_workload and len(cases) > 1):
                with contextlib.suppress(TableError):  # a wait that the results do not hold: said to who asks for it
                    self._learn(self._done, replace(criteria, objective=of))
        for share in (90, 80):
            with contextlib.suppress(TableError):  # it buys no package
                self._of_budget(round(self._study.packages.budget_usd * share / 100, 2))

    def answer(
        self, *, budget: float | None = None, constraints: Sequence[str] = (), k: int | None = None
    ) -> dict[str, Any]:
        """Rank all packages again.

        ``budget`` is what the servers may cost, US$, at most the study's: packages of a new one are listed and
        predicted, in seconds. Returns what `procure.reports.purchase.page_data` does, with predicted packages, and
        ``n_packages``, ``n_kept`` (which keep the bounds). A wrong bound, or that none keeps it, is a `TableError`.
        """
        length = self._done.k if k is None else k
        if not 1 <= length <= MOST_LISTED:
            raise ArgumentError("k", f"{length} was given; a list has 1 to {MOST_LISTED} packages")
        of_budget, criteria = self._of_budget(budget), criteria_of(self._study, constraints=constraints)
        most = [one.value for one in criteria.constraints if one.of.column == "price_usd" and one.op == "<="]
        if budget is None and most and 0 < min(most) < self._study.packages.budget_usd:
            of_budget = self._of_budget(min(most))
        bounds = (*criteria.constraints, *(one for one in of_budget.criteria.constraints if budget is not None))
        criteria = replace(criteria, constraints=tuple(dict.fromkeys(bounds)))
        self._learn(of_budget, criteria)
        ranking = ranking_table(of_budget.package_values, criteria)
        kept = int(ranking["satisfies"].sum()) if "satisfies" in ranking else len(ranking)
        done = replace(of_budget, criteria=criteria, ranking=ranking, k=min(length, max(kept, 1)), confidence=None)
        return page_data(done, predicted=True) | {"n_packages": len(ranking), "n_kept": kept}

    def page(self) -> str:
        """Return the page; it asks the server that it came from, and nothing else."""
        study, data = self._done.results.plan.study, self.answer()
        page = render(
            _FOLDER / "explore.html",
            script=library() + (_FOLDER / "purchase.js").read_text(encoding="utf-8"),
            title=title_of(study),
            budget=f"{study.packages.budget_usd:.2f}".removesuffix(".00"),
            bounds=study.recommend.constraints,
            cloud=picture("cloud", "Price and mean wait of the packages", pictures.cloud(data), ["packages"]),
            data=data,
        )
        return str(page)


def serve(explorer: Explorer, port: int, opened: Callable[[str], None]) -> None:
    """Serve a page on loopback until it is interrupted; ``opened`` is called with the address.

    Port 0 = any that is free; one that is taken is an error. The address holds a secret, so that others on the same
    machine read nothing.
    """
    secret, page = secrets.token_urlsafe(16), explorer.page().encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if self.headers.get("Host") != here.removeprefix("http://"):  # another name that leads to this machine
                self._send(403, "text/plain", b"wrong host")
            elif url.path == f"/{secret}/":
                self._send(200, "text/html; charset=utf-8", page)
            elif url.path == f"/{secret}/answer":
                self._send(200, "application/json", _answer(explorer, parse_qs(url.query)))
            else:
                self._send(404, "text/plain", b"not here")

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ArgumentError("port", f"{port} cannot be used: {error.strerror}; leave it out for a free one") from None
    here = f"http://127.0.0.1:{server.server_port}"
    with server:
        threading.Thread(target=explorer.prepare, daemon=True).start()
        opened(f"{here}/{secret}/")
        server.serve_forever()


def _answer(explorer: Explorer, asked: dict[str, list[str]]) -> bytes:
    """Answer a query as JSON; what cannot be answered as ``error``."""
    try:
        budget, k = asked.get("budget", [""])[0], asked.get("k", [""])[0]
        constraints = [one for text in asked.get("constraints", []) for one in text.split(";") if one.strip()]
        usd, length = in_usd(budget, {}) if budget else None, int(k) if k else None
        answer = explorer.answer(budget=usd, constraints=constraints, k=length)
    except (TableError, ValueError) as error:
        answer = {"error": str(error)}
    return str(as_json(answer)).encode()
