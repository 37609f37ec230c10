"""Nodes that groups have paid for: theirs first, others' while idle; what each got against what it paid."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import QUOTES

from procure import simulate
from procure.comparison.owners import OTHERS, what_each_got
from procure.errors import TableError
from procure.policies import catalog
from procure.policies.owners import owners_of_nodes, read_owners
from procure.study import load_study

POLICY = "{}:hold=owners,owners=physics@0.5+chem@0.25"
SHARES = {"physics": 0.5, "chem": 0.25}
NODES = pd.DataFrame({"node_id": ["n0", "n1", "n2", "n3"], "cpus": 2, "mem_mb": 1000, "gpus": 0})
OWNER = [0, 0, 1, -1]


def jobs_of(rows: list[tuple[int, int, int, int, str]]) -> pd.DataFrame:
    """A job table of (submission, run time, nodes, CPUs per node, account)."""
    names = ["submit_time", "run_time", "n_nodes", "cpus_per_node", "account"]
    table = pd.DataFrame(rows, columns=names).sort_values("submit_time", kind="stable", ignore_index=True)
    return table.assign(job_id=[f"j{i}" for i in range(len(table))], user="u")


def by_hand(jobs: pd.DataFrame, strict: bool) -> list[int]:
    """Start jobs one by one, over plain lists: the order of submission, the first open nodes."""
    free, queue, running = [2] * 4, [], []
    group = [["physics", "chem"].index(a) if a in SHARES else -1 for a in jobs["account"]]
    start, n = [-1] * len(jobs), jobs["n_nodes"].tolist()
    cpus, runs, submit = (jobs[c].tolist() for c in ("cpus_per_node", "run_time", "submit_time"))
    times, arriving = sorted(set(submit)), list(range(len(jobs)))
    while times:
        now = times.pop(0)
        for end, job, nodes in [one for one in running if one[0] <= now]:
            running.remove((end, job, nodes))
            for node in nodes:
                free[node] += cpus[job]
        queue += [job for job in arriving if submit[job] <= now]
        arriving = [job for job in arriving if submit[job] > now]
        again = True
        while again:
            again = False
            for job in list(queue):
                waiting = {group[one] for one in queue}
                fits = [i for i in range(4) if free[i] >= cpus[job]]
                mine = [i for i in fits if OWNER[i] in (-1, group[job]) or OWNER[i] not in waiting]
                if len(mine) >= n[job]:
                    nodes = mine[: n[job]]
                    for node in nodes:
                        free[node] -= cpus[job]
                    queue.remove(job)
                    start[job] = now
                    running.append((now + runs[job], job, nodes))
                    times = sorted({*times, now + runs[job]})
                    again = True
                    break
                if strict and len(fits) < n[job]:
                    break
    return start


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30), st.integers(1, 20), st.integers(1, 3), st.integers(1, 2),
            st.sampled_from(["physics", "chem", "bio"]),
        ),
        min_size=1,
        max_size=14,
    ),
    st.sampled_from(["fcfs", "first-fit"]),
)  # fmt: skip
def test_starts_are_those_of_a_slow_twin(rows, name):
    jobs = jobs_of(rows)
    found = simulate(jobs, NODES, POLICY.format(name)).schedule["start_time"].tolist()
    assert found == by_hand(jobs, name == "fcfs")


def test_what_each_got_is_what_the_schedule_says():
    """CPU-seconds on whose nodes, by a loop over the jobs' nodes."""
    rng = np.random.default_rng(3)
    rows = [
        (
            int(rng.integers(0, 99)),
            int(rng.integers(1, 60)),
            int(rng.integers(1, 3)),
            int(rng.integers(1, 3)),
            who,
        )
        for who in ["physics", "chem", "bio"] * 12
    ]
    schedule = simulate(jobs_of(rows), NODES, POLICY.format("first-fit")).schedule
    used = np.zeros((3, 3))
    for row in schedule.itertuples():
        for node in row.node_ids.split(","):
            held = (row.end_time - row.start_time) * row.cpus_per_node
            used[["physics", "chem", "bio"].index(row.account), [0, 0, 1, 2][int(node[1])]] += held
    table = what_each_got(schedule, NODES, SHARES)
    assert table["group"].tolist() == ["physics", "chem", OTHERS] and table["paid"].tolist() == [
        0.5,
        0.25,
        0.25,
    ]
    assert table["got"].to_numpy() == pytest.approx(used.sum(axis=1) / used.sum())
    assert table["on_own"].to_numpy() == pytest.approx(np.diag(used) / used.sum(axis=1))
    assert table["lent"].to_numpy() == pytest.approx(1 - np.diag(used) / used.sum(axis=0))
    wait = schedule["start_time"] - schedule["submit_time"]
    assert table["mean_wait_time"].to_numpy() == pytest.approx(
        [wait[schedule["account"] == who].mean() for who in ("physics", "chem", "bio")]
    )


def test_nodes_of_each_kind_are_dealt_by_the_largest_remainder():
    """Of ten and of three nodes: 3 and 2.5 of ten are 3 and 2; of three, the one node goes to the larger remainder."""
    owner = owners_of_nodes(["a"] * 10 + ["b"] * 3, [0.3, 0.25])
    assert owner[:10].tolist() == [0, 0, 0, 1, 1, -1, -1, -1, -1, -1] and owner[10:].tolist() == [0, -1, -1]


@pytest.mark.parametrize("text", ["physics", "physics@0", "physics@1.5", "a@0.6+b@0.6", "a@0.1+a@0.1", "@0.3"])
def test_owners_that_cannot_be_are_refused(text):
    with pytest.raises(ValueError, match="owners"):
        read_owners(text)
    with pytest.raises(TableError, match="owners"):
        catalog.spec("first-fit", {"hold": "owners", "owners": text})


def test_owners_need_shares_and_a_policy_without_reservations():
    with pytest.raises(TableError, match="needs owners=GROUP@SHARE"):
        catalog.spec("first-fit:hold=owners")
    with pytest.raises(TableError, match="goes with fcfs and first-fit"):
        catalog.spec("easy:hold=owners,owners=physics@0.3")


def test_a_study_with_owners_goes_by_them(tmp_path):
    path = tmp_path / "study.toml"
    text = f'quotes = "{QUOTES}"\n[packages]\nrules = "published"\nbudget_usd = 60_000\n[[workloads]]\nname = "w"\n'
    text += "generate = { seed = 1, n_jobs = 50 }\n[owners]\nphysics = 0.3\n"
    path.write_text(text)
    assert load_study(path).simulate.policies == ("first-fit:hold=owners,owners=physics@0.3",)
    path.write_text(f'{text}[simulate]\npolicies = ["best-fit"]\n')
    with pytest.raises(TableError, match="owners"):
        load_study(path)
