"""A study under a centre's rules: packages are judged as its Slurm would use them, and rules are changed."""

import functools
import json
import tempfile
from pathlib import Path

import pandas as pd
import pytest

import procure
from procure.comparison.waits import with_rules
from procure.errors import ArgumentError, TableError
from procure.site.change import changed
from procure.site.model import Limits, Partition, Preemption, Priority, Qos, Scheduler, Site
from procure.site.store import read_site, write_site
from procure.site.understand import read_slurm
from procure.study import load_study
from procure.study.check import check_study
from procure.sweep import load_plan, run_sweep
from procure.tables import NODE, check

pytestmark = pytest.mark.plain

QUOTES = "name,category,cpus,mem_gb,gpus,price_usd\nCompute,compute,4,32,0,4000\nGpu,gpu,16,64,2,9000\n"
SITE = Site(
    enforce=("limits",),
    partitions=(Partition(name="general", nodes="n1", default=True), Partition(name="gpu", nodes="g1")),
    priority=Priority(type="basic"),
    qos=(Qos(name="normal"), Qos(name="long", limits=Limits(grp_tres={"cpu": 16}))),
)
STUDY = """quotes = "quotes.csv"
[packages]
rules = "published"
budget_usd = 18_000
min_gpu_nodes = 0
[site]
path = "site"
[site.new_nodes]
compute = ["general"]
gpu = ["gpu"]
[site.new_features]
gpu = ["a100"]
[[workloads]]
name = "day"
jobs = "jobs.csv"
[simulate]
policies = ["slurm", "best-fit"]
"""


def written(folder: Path, study: str = STUDY) -> Path:
    """Write a centre of two nodes, 60 jobs of one CPU partition and a few GPU jobs, and a study of both policies."""
    nodes = {"node_id": ["n1", "g1"], "kind": ["old", "oldgpu"], "cpus": [4, 16], "mem_mb": 64_000, "gpus": [0, 2]}
    write_site(SITE, check(pd.DataFrame(nodes), NODE), folder / "site")
    n = 36
    jobs = pd.DataFrame({"job_id": [str(i) for i in range(n)], "submit_time": range(n)}).assign(
        requested_time=1200, run_time=600, n_nodes=1, cpus_per_node=2, mem_mb_per_node=1000, gpus_per_node=0,
        partition="general", qos="long", constraint="",
    )  # fmt: skip
    jobs.loc[::12, ["partition", "qos", "gpus_per_node"]] = ["gpu", "normal", 1]
    jobs.to_csv(folder / "jobs.csv", index=False)
    (folder / "quotes.csv").write_text(QUOTES)
    (folder / "study.toml").write_text(study)
    return folder / "study.toml"


@functools.cache
def swept() -> Path:
    """Sweep the study once per process."""
    path = written(Path(tempfile.mkdtemp(prefix="procure-site-")))
    run_sweep(load_plan(load_study(path)), "serial")
    return path


def test_a_study_goes_by_its_site(tmp_path):
    """Policies that go by a site get it with what bought nodes join; the site's nodes stay; the default is slurm."""
    study = load_study(written(tmp_path))
    folder = (tmp_path / "site").as_posix()
    assert study.simulate.policies == (f"slurm:site={folder},new=compute@general;gpu@gpu,features=gpu@a100", "best-fit")
    kept = study.read_existing_nodes()
    assert kept is not None and kept["node_id"].tolist() == ["n1", "g1"]
    text = STUDY.replace('[simulate]\npolicies = ["slurm", "best-fit"]\n', "")
    assert load_study(written(tmp_path, text)).simulate.policies == study.simulate.policies[:1]
    again = load_study(
        written(tmp_path, STUDY.replace('path = "site"', 'path = "site"\nchange = ["bf_max_job_user=5"]'))
    )
    assert again.simulate.policies[0].endswith(",change=bf_max_job_user=5")
    other = STUDY.replace("[packages]", '[packages]\nretire = ["n1"]')
    kept = load_study(written(tmp_path, other)).read_existing_nodes()
    assert kept is not None and kept["node_id"].tolist() == ["g1"]


def test_jobs_that_others_ended_run_on_in_a_study(tmp_path):
    """A run before a requeue is left out where the site's rules end jobs, and one that was over runs to its limit."""
    path = written(tmp_path)
    jobs = pd.read_csv(tmp_path / "jobs.csv").assign(state="COMPLETED")
    jobs["job_id"] = jobs["job_id"].astype(str).replace({"2": "3~1"})
    jobs.loc[[2, 4], "state"] = "PREEMPTED"
    jobs.to_csv(tmp_path / "jobs.csv", index=False)
    assert len(load_plan(load_study(path)).workloads["day"]) == 36
    write_site(SITE.model_copy(update={"preemption": Preemption(type="qos")}), read_site(tmp_path / "site").nodes,
               tmp_path / "site")  # fmt: skip
    plan = load_plan(load_study(path))
    day = plan.workloads["day"].set_index("job_id")
    assert len(day) == 35 and day.loc["3", "submit_time"] == 2 and day.loc["4", "run_time"] == 1200
    assert any("1 run before a requeue left out, 1 job run to the limit" in one for one in plan.notes)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('gpu = ["gpu"]', 'gpu = ["fast"]', "new nodes gpu: partition 'fast' is not at the site; known: general, gpu"),
        ('gpu = ["gpu"]', 'gp = ["gpu"]\nfat = ["gpu"]', "site.new_nodes: no quoted type begins with 'fat'"),
        ('path = "site"', 'path = "sites"', "sites/nodes.csv: no such file"),
        ('path = "site"', 'path = "site"\nchange = ["bf_max_job_usr=5"]', "did you mean bf_max_job_user"),
        ('path = "site"', 'path = "site"\nchange = ["qos lng GrpTRES=cpu=5"]', "the site has no QOS 'lng'"),
        ('path = "site"', 'path = "site"\nnew_node = {}', "site.new_node: unknown key; did you mean new_nodes"),
    ],
)
def test_a_wrong_site_is_named(tmp_path, old, new, says):
    with pytest.raises(TableError, match=says):
        check_study(written(tmp_path, STUDY.replace(old, new)))


@pytest.mark.slow
def test_the_rules_change_what_is_bought():
    """CPU jobs may not use GPU nodes under the rules: CPU nodes are bought; best fit would buy GPU nodes for them."""
    rules = procure.recommend(swept(), k=1).ranking.iloc[0]
    free = procure.recommend(swept(), k=1, policy="best-fit").ranking.iloc[0]
    assert rules["package_id"] == "Compute=4"
    assert "Gpu" in free["package_id"]
    told = procure.explain(swept(), rules["package_id"])
    assert "Compute=4" in str(told)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("partition general Nodes=zz[1-3]", "no node 'zz1' is simulated"),
        ("PriorityWeightAge=x", "'x' was given; PriorityWeightAge is a whole number"),
    ],
)
def test_a_change_of_what_is_not_there_is_refused(change, says):
    """Nodes that nobody simulates and a weight that is no number are named."""
    nodes = check(pd.DataFrame({"node_id": ["n1", "g1"], "cpus": 4, "mem_mb": 1000, "gpus": 0}), NODE)
    site = SITE.model_copy(update={"priority": Priority(type="multifactor")})
    with pytest.raises(TableError, match=says):
        changed(site, change, nodes)


def test_an_empty_rule_is_refused():
    with pytest.raises(ArgumentError, match="'' was given"):
        with_rules("slurm", [" "])


def test_a_rule_is_changed_and_the_result_ends_in_a_conclusion():
    """Twice the CPUs for a QOS: its jobs wait less, which the conclusion says; the others' waits are beside it."""
    found = procure.what_if(swept(), "Compute=4", rules=["qos long GrpTRES=cpu=24"])
    before, after = found.table["mean_wait_time"]
    assert after < before
    waits = found.waits.set_index("class")
    assert waits.loc["QOS long", "mean_after"] < waits.loc["QOS long", "mean_before"]
    assert waits.loc["all", "n_jobs"] == 36
    assert found.notes[-1].startswith("with rule qos long GrpTRES=cpu=24 jobs wait ")
    assert "QOS long" in found.notes[-1]


def test_rules_need_a_policy_that_has_them():
    """Best fit has no rules to change; a wrong rule is refused before anything is simulated."""
    with pytest.raises(ArgumentError, match="policy best-fit goes by no centre's rules"):
        procure.what_if(swept(), "Compute=4", policy="best-fit", rules=["bf_max_job_user=5"])
    with pytest.raises(ArgumentError, match="write qos NAME KEY=VALUE"):
        procure.what_if(swept(), "Compute=4", rules=["qos long"])


NODES = pd.DataFrame({"node_id": ["a", "b"], "cpus": [10, 30], "mem_mb": 100, "gpus": 0})


def test_changes_are_in_slurms_words():
    """Settings, limits with shares of all nodes, partitions, users."""
    site = SITE.model_copy(update={"priority": Priority(), "scheduler": Scheduler(bf_interval=60)})
    text = "bf_max_job_user=50; bf_window=10;PriorityWeightAge=7;qos long GrpTRES=cpu=20%+node=3 MaxWall=60;"
    found = changed(site, text + "partition gpu MaxTime=2:00:00 PriorityTier=3", NODES)
    assert found.scheduler == Scheduler(bf_interval=60, bf_max_job_user=50, bf_window=600)
    assert found.priority == Priority(weight_age=7)
    assert found.qos[1].limits == Limits(grp_tres={"cpu": 8, "node": 3}, max_wall=3600)
    assert (found.partitions[1].max_time, found.partitions[1].priority_tier) == (7200, 3)
    assert found.partitions[1].nodes == "g1" and found.partitions[0] == site.partitions[0]
    assert changed(site, "qos long GrpTRES=cpu=-1", NODES).qos[1].limits == Limits()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bf_max_job_user=many", "'many' was given; bf_max_job_user is a whole number"),
        ("bf_interval=0", "a number from 1 on is needed"),
        ("bf_interval=30", "the site has this value already"),
        ("bf_max_job_user", "it sets nothing"),
        ("queue long GrpTRES=cpu=1", "'queue' is none of qos, account, user, partition"),
        ("qos long GrpTRES=billing=20%", "a percentage is of cpu, mem, node or gres/gpu"),
        ("qos long GrpTRES=cpu=120%", "at most 100 %"),
        ("qos long GrpCpuz=4", "grpcpuz=4: a setting of the QOS that is not modelled"),
        ("qos long GrpJobs=some", "not a number"),
        ("user eve MaxJobs=1", "the site has no user 'eve'"),
        ("partition gpu Colour=red", "no setting 'colour' of a partition can be changed"),
        ("PriorityWeightAge=3", "in the order of submission"),
        ("AccountingStorageEnforce=none;qos long GrpTRES=cpu=1", "does not enforce limits"),
    ],
)
def test_a_wrong_change_is_named(text, says):
    """What cannot be read, what the site does not have and what would change nothing are refused by name."""
    with pytest.raises(TableError, match=says):
        changed(SITE, text, NODES)


def test_simulate_with_a_rule_says_what_it_changes(procure, tmp_path):
    """`procure simulate --site --rule` shows waits by class before and after, and ends in a sentence."""
    written(tmp_path)
    given = ("simulate", "--jobs", tmp_path / "jobs.csv", "--site", tmp_path / "site")
    code, out, err = procure(*given, "--rule", "qos long GrpTRES=cpu=50%", "--format", "json")
    assert code == 0, err
    classes = {row["class"]: row for row in json.loads(out)["rules"]}
    assert classes["QOS long"]["mean_after"] == classes["QOS long"]["mean_before"]  # one node of 4 CPUs decides
    code, out, err = procure(*given, "--rule", "qos long GrpTRES=cpu=2")
    assert code == 0 and "with rule qos long GrpTRES=cpu=2 jobs wait " in out
    code, _, err = procure(*given, "--rule", "qos lng GrpTRES=cpu=2")
    assert code == 2 and "the site has no QOS 'lng'" in " ".join(err.replace("│", " ").split())
    code, _, err = procure(*given[:3], "--nodes", tmp_path / "site" / "nodes.csv", "--rule", "bf_interval=5")
    assert code == 2 and "goes by no centre's rules" in " ".join(err.replace("│", " ").split())


def test_the_study_of_the_readme_stands_on_the_centre_beside_it():
    """The site of `pipelines/site.toml` is what `site read` makes of `pipelines/centre`; slurm judges there."""
    folder = Path(__file__).resolve().parent.parent / "pipelines"
    with tempfile.TemporaryDirectory() as out:
        site = read_slurm(str(folder / "centre"))
        write_site(site.rules, site.nodes, out)
        for name in ("site.toml", "nodes.csv"):
            assert (Path(out) / name).read_text() == (folder / "site" / name).read_text()
    assert load_study(folder / "site.toml").simulate.policies[0].startswith("slurm:")
