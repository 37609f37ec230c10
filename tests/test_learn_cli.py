"""`procure learn` as a user calls it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_learn import log
from test_window import random_network

from procure.errors import TableError
from procure.learn.features import RunTimes
from procure.learn.store import UNTRAINED, load, read_policy, write_policy
from procure.policies import catalog
from procure.run import simulate
from procure.study import Plan, load_study
from procure.sweep.results import policy_of
from procure.sweep.store import refuse_other_inputs, write_manifest
from procure.tables import JOB, read, write
from procure.window.solve import write_network


def settings(**given):
    """Write options."""
    return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]


SMALL = settings(min_jobs=10, min_wait=0)
QUICK = settings(generations=1, processes=1) + SMALL


@pytest.fixture
def files(tmp_path):
    jobs, nodes = log()
    write(jobs, tmp_path / "jobs.parquet")
    write(nodes, tmp_path / "nodes.csv")
    return tmp_path, ("--jobs", tmp_path / "jobs.parquet", "--nodes", tmp_path / "nodes.csv")


def test_nothing_to_learn_from_is_said_and_nothing_written(procure, files):
    """Days without waiting jobs, and days that are not there, end with one line and exit code 1."""
    folder, tables = files
    for options in (settings(min_jobs=10, min_wait=10**9), settings(days="2020-01") + SMALL):
        code, out, err = procure("learn", "train", *tables, *options, "--out", folder / "x.policy")
        assert code == 1 and out == "" and "nothing to learn from" in err and "Traceback" not in err
        assert not (folder / "x.policy").exists()


def test_easy_takes_the_estimates_of_a_policy(procure, files):
    """`easy:estimates=FILE` schedules as easy does with the same estimates given; a wrong mix is one error."""
    folder, tables = files
    policy = folder / "site.policy"
    assert procure("learn", "train", *tables, *QUICK, "--out", policy)[0] == 0
    jobs, nodes = log(n_days=1, per_day=150, seed=3)
    plain = simulate(jobs, nodes, "easy").schedule["start_time"]
    given = simulate(jobs, nodes, "easy", estimates=np.ceil(read_policy(policy).history.predict(jobs))).schedule
    assert simulate(jobs, nodes, f"easy:estimates={policy}").schedule["start_time"].equals(given["start_time"])
    assert not given["start_time"].equals(plain)
    for wrong, message in (("quantile=0.5", "removed|leave"), (f"estimates={policy},last_two=true", "give one")):
        with pytest.raises(TableError, match=message):
            simulate(jobs, nodes, f"easy:{wrong}")


STUDY = """
quotes = "quotes.csv"
[packages]
rules = "published"
budget_usd = 100_000
[simulate]
policies = [
    "sjf", {name = "learned", file = "trained/a.policy"}, "learned:file=trained/b.policy,patience=60",
    "easy:estimates=trained/a.policy", "window:method=neural:trained/net.npz",
]
[[workloads]]
name = "day"
generate = { seed = 1 }
"""


def test_a_study_names_a_policys_file_from_its_own_folder(files, monkeypatch):
    """Wherever a command runs, each policy reads the file beside the study; new contents are another sweep."""
    folder = files[0]
    for place in ("mine/trained", "elsewhere/trained"):
        (folder / place).mkdir(parents=True)
    history = RunTimes().fit(*_fit(files))
    own, other = (replace(UNTRAINED, history=history, trained={"seed": seed}) for seed in (1, 2))
    for name in ("a", "b"):
        write_policy(folder / f"mine/trained/{name}.policy", own)
        write_policy(folder / f"elsewhere/trained/{name}.policy", other)
    write_network(folder / "mine/trained/net.npz", random_network())
    quotes = Path(__file__).parent.parent / "quotes" / "example-2023.csv"
    (folder / "mine" / "quotes.csv").write_bytes(quotes.read_bytes())
    (folder / "mine" / "study.toml").write_text(STUDY)
    monkeypatch.chdir(folder / "elsewhere")
    study = load_study("../mine/study.toml")
    at = (folder / "mine" / "trained").as_posix()
    assert study.simulate.policies == (
        "sjf", f"learned:file={at}/a.policy", f"learned:file={at}/b.policy,patience=60",
        f"easy:estimates={at}/a.policy", f"window:method=neural:{at}/net.npz",
    )  # fmt: skip
    assert load(catalog.spec(study.simulate.policies[1]).parameters.file).trained == {"seed": 1}
    assert policy_of(study, "learned:file=trained/a.policy") == study.simulate.policies[1]
    assert catalog.spec("learned:file=trained/a.policy").label == "learned:file=trained/a.policy"

    study.folder.mkdir(parents=True)
    before = _plan(study, 4)
    write_manifest(before)
    refuse_other_inputs(before)
    write_policy(folder / "mine/trained/b.policy", other)
    after = _plan(study, 4)
    changed = {name for name, value in before.fingerprint.items() if after.fingerprint[name] != value}
    assert changed == {f"policy file {at}/b.policy"}
    with pytest.raises(TableError, match="changed"):
        refuse_other_inputs(after)
    refuse_other_inputs(_plan(study, 1))  # policies may go


def _plan(study, n_policies):
    some = study.simulate.model_copy(update={"policies": study.simulate.policies[:n_policies]})
    jobs = pd.DataFrame({"submit_time": [0]})
    packages = pd.DataFrame({"distinct": [True]})
    return Plan(study.model_copy(update={"simulate": some}), study.read_quotes(), packages, {"day": jobs}, None)


def _fit(files):
    jobs = read(files[0] / "jobs.parquet", JOB)
    return jobs, int(jobs["submit_time"].iloc[200])
