"""`procure.kernel`: composed schedulers equal their slow twin, with seams that another package offers too."""

from __future__ import annotations

import re

import naive_tasks as naive
import numpy as np
import pytest
from policy_cases import as_dicts, as_found, crowded_case, few, found, pool_case, shared_case

import procure.kernel
from procure import run as procure_run
from procure.errors import TableError
from procure.kernel import Easy, Skipping, Strict, order
from procure.policies import catalog, entries
from procure.policies.catalog import with_seams

pytestmark = pytest.mark.plain

KEYS = {
    "fcfs": naive.as_submitted,
    "lcfs": naive.last,
    "sjf": naive.estimate,
    "smallest": naive.size,
    "wfp3": naive.wfp3,
    "widest": lambda sim, j: -sim.jobs[j]["n"],
}
PICKS = ("first", "best", "worst", "last-rows")
PLANS = {"strict": Strict, "skipping": Skipping, "easy": Easy}


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A package that offers an order, a hold-back and a place."""
    folder = tmp_path / "their_seams-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: their-seams\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[procure.seams]\norder.widest = their_seams:WidestFirst\nhold.one-each = their_seams:OneEach\n"
        "place.last-rows = their_seams:LastRows\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entries.offered.cache_clear()
    yield
    entries.offered.cache_clear()


def compare(plan, key, pick, held, queue, depth, seed):
    rng = np.random.default_rng(seed)
    case, kill = (pool_case, shared_case, crowded_case)[seed % 3], bool(seed % 2)
    jobs, nodes = case(rng, kill=kill)
    parameters = {"order": key, "place": pick, "hold": "one-each" if held else "nobody"}
    if plan == "easy":
        parameters |= {"queue_order": queue, "queue_depth": depth}
    made = with_seams(PLANS[plan], parameters)(**parameters)
    run = procure_run.simulate(jobs, nodes, made, kill_at_limit=kill)
    how = {"key": KEYS[key], "admits": naive.one_each(jobs["user"].tolist()) if held else naive.everybody}
    twin = naive.queue(skip=plan == "skipping", **how)
    if plan == "easy":
        twin = naive.easy(head_key=KEYS[queue], reach=depth or None, **how)
    sim = naive.Sim(*as_dicts(jobs, nodes, kill), pick)
    sim.pool = sim.is_pool()
    assert found(run, jobs) == as_found(*sim.simulate(twin)), (plan, parameters, seed)


def drawn(seed, orders, picks, holds):
    """Draw a combination."""
    rng = np.random.default_rng(1000 + seed)
    plan = str(rng.choice(list(PLANS)))
    return (
        plan, str(rng.choice(orders)), str(rng.choice(picks)), bool(rng.choice(holds)),
        str(rng.choice(orders)), int(rng.choice([0, 0, 3])), seed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seeds", "orders", "picks", "holds"),
    [
        (range(few(60)), ["fcfs", "lcfs", "sjf", "smallest", "wfp3"], PICKS[:3], [False]),
        pytest.param(range(100, 400), list(KEYS), PICKS, [False, True], marks=pytest.mark.slow),
    ],
)
def test_composed_scheduler_equals_its_slow_twin(theirs, seeds, orders, picks, holds):
    """Random combinations of plan, orders, place and depth, of ours and theirs, start each job as the twin does."""
    for seed in seeds:
        compare(*drawn(seed, orders, picks, holds))


def test_seams_of_another_package_equal_their_slow_twin(theirs):
    """So do combinations with an order, a hold-back and a place that another package offers by entry points."""
    for seed in range(few(15)):
        compare("easy", "widest", "last-rows", True, "fcfs", 0, seed)


def test_seams_of_another_package_go_by_one_grammar(theirs):
    """Their names are legal wherever ours are, and what they are is told from the label."""
    label = catalog.spec("easy:place=last-rows,order=widest").label
    assert label == "easy:order=widest,place=last-rows"
    with pytest.raises(TableError, match="did you mean widest"):
        catalog.spec("easy:order=widst")


def test_a_class_without_its_method_is_refused():
    with pytest.raises(TypeError, match="no method score"):

        @order
        class Empty(tuple):
            pass


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("conservative:hold=forecast", "conservative promises every job a start"),
        ("easy:hold=forecast,depth=2", "one reservation"),
        ("easy:queue_depth=9,depth=2", "one reservation"),
        ("easy:place=nowhere", "'nowhere' is not known"),
        ("isolated:place=first", "no parameter 'place'"),
        ("conservative:place=isolated", "take easy with depth=1"),
        ("easy:depth=3,place=tiers", "take easy with depth=1"),
        ("any:slowdown=0.5", "topology worth"),
    ],
)
def test_pairs_that_make_no_sense_are_refused_by_name(policy, reason):
    with pytest.raises(TableError, match=reason):
        catalog.spec(policy)


def test_the_face_is_documented():
    """Every name of `procure.kernel` stands in its table, and every name there exists."""
    named = set(re.findall(r"`(\w+)`", procure.kernel.__doc__))
    assert named == set(procure.kernel.__all__)
