"""``procure explore``: its answers are the library's, and nobody but its own page is answered."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from functools import partial
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest
from small_study import swept

import procure
from procure.errors import ArgumentError, TableError
from procure.page.html import as_json
from procure.reports.explore import Explorer, serve


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return Explorer(swept())


@pytest.fixture(scope="module")
def address(explorer: Explorer) -> Iterator[str]:
    """A server of its own, as a user starts it."""
    opened: list[str] = []
    threading.Thread(target=serve, args=(explorer, 0, opened.append), daemon=True).start()
    end = time.monotonic() + 30
    while not opened and time.monotonic() < end:
        time.sleep(0.05)
    yield opened[0]


def asked(address: str, **query: str) -> dict:
    with urlopen(f"{address}answer?{urlencode(query, quote_via=quote)}") as got:
        return json.load(got)


@pytest.mark.parametrize(
    ("budget", "constraints"), [(None, []), (66_000, []), (None, ["total_gpus>=1"]), (67_000, ["mean_wait<=10d"]),
     (None, ["usd_per_job<=1000"]), (None, ["energy_kwh_per_year<200MWh"])]
)  # fmt: skip
def test_what_is_typed_in_is_answered_as_the_library_does(explorer: Explorer, budget, constraints):
    """As `ask` for less money, as the report without bounds; a bound keeps what was confirmed without it."""
    ask = partial(procure.recommend, resamples=0) if budget is None else partial(procure.ask, budget=budget)
    try:
        told = ask(swept(), constraints=constraints, k=5)
    except TableError as error:
        with pytest.raises(TableError, match=re.escape(str(error)[:40])):
            explorer.answer(budget=budget, constraints=constraints, k=5)
        return
    answer = explorer.answer(budget=budget, constraints=constraints, k=5)
    assert answer["n_packages"] == len(told.ranking)
    assert answer["n_kept"] == (told.ranking["satisfies"].sum() if "satisfies" in told.ranking else len(told.ranking))
    ids, listed = {one[0] for one in answer["packages"]}, [one["package_id"] for one in answer["list"]]
    assert set(answer["guessed"]) <= ids and set(listed) <= ids
    if budget is None and constraints:
        return
    top = told.ranking.head(told.k)
    assert listed == top["package_id"].tolist()
    assert [one["mean_wait_time"] for one in answer["list"]] == top["mean_wait_time"].tolist()


def test_a_bound_on_the_price_is_a_budget(explorer: Explorer) -> None:
    """Packages that use up less money are listed for it, as for `budget`."""
    bound, budget = explorer.answer(constraints=["price_usd<=66,000"]), explorer.answer(budget=66_000)
    assert [one["package_id"] for one in bound["list"]] == [one["package_id"] for one in budget["list"]]
    assert bound["n_packages"] == budget["n_packages"]


def test_what_is_learnt_is_answered_while_another_wait_is_being_learnt(monkeypatch):
    """What `prepare` has learnt needs no model any more, and never waits for one that is being fitted."""
    ours, known = Explorer(swept()), "memory_p95_wait<=10d"
    ours.prepare()
    monkeypatch.setattr("procure.reports.explore.learn_values", pytest.fail)
    wanted = ours.answer(constraints=[known])
    found: list[dict] = []
    with ours._lock:
        asking = threading.Thread(target=lambda: found.append(ours.answer(constraints=[known])), daemon=True)
        asking.start()
        asking.join(30)
    assert list(map(as_json, found)) == [as_json(wanted)]


def test_only_the_page_is_answered(address: str):
    """Without the secret, or under another name of this machine, there is nothing."""
    host = re.match(r"http://(127\.0\.0\.1:\d+)/[\w-]{20,}/$", address)[1]
    with urlopen(address) as got:
        page = got.read().decode()
    assert "connect-src 'self'" in page and 'id="ask"' in page
    for url, headers in ((f"http://{host}/", {}), (address, {"Host": "evil.example"}), (address + "../etc", {})):
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(url, headers=headers))
        assert refused.value.code in (403, 404)


def test_bad_bounds_are_one_line(address: str):
    """What cannot be read, and what nothing keeps, is said; the server goes on."""
    for query in (
        {"constraints": "mean_wait<=soon"},
        {"budget": "-1"},
        {"k": "0"},
        {"constraints": "total_cpus>=1000000"},
    ):
        assert len(asked(address, **query)["error"]) > 10
    assert "no job is of class gpu" in asked(address, constraints="gpu_p95_wait<=4h")["error"]
    assert asked(address, k="2")["list"][0]["rank"] == 1


def test_a_port_that_is_taken_is_said(explorer: Explorer, address: str):
    port = int(address.split(":")[2].split("/")[0])
    with pytest.raises(ArgumentError, match=f"{port} cannot be used"):
        serve(explorer, port, print)
