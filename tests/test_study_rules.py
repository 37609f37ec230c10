"""`study check` refuses whatever a later stage would refuse, all of it at once."""

from __future__ import annotations

import re

import pytest
from small_study import swept

import procure
from procure.errors import ArgumentError, TableError
from procure.recommender.values import criteria_of
from procure.study import load_plan, load_study
from procure.study.check import check_study
from procure.study.rules import check_folds, check_threshold

QUOTES = "name,category,cpus,mem_gb,gpus,price_usd,power_w\nx,c,32,128,0,6960,500\ny,d,64,256,0,9960,\n"
STUDY = """
quotes = "q.csv"
packages = {{ rules = "published", budget_usd = 90_000, min_gpu_nodes = 0 }}
workloads = [{{ name = "w", {jobs} }}]
{more}
"""


def study(folder, more="", jobs="generate = { seed = 1, n_jobs = 20 }"):
    (folder / "q.csv").write_text(QUOTES)
    path = folder / "s.toml"
    path.write_text(STUDY.format(more=more, jobs=jobs))
    return path


BAD = [
    ("simulate.policies = ['tiers']", "tiers needs the leaf and the pod of each node", load_plan),
    ("simulate.policies = ['fcfs', 'window:method=sa']", "needs the leaf and the pod", load_plan),
    ("simulate.policies = ['window:method=neural:no.zip']", "no.zip: no such file", None),
    ("recommend.constraints = ['waste<=4h']", "'waste' is unknown", criteria_of),
    ("recommend.constraints = ['price_usd<=4h']", "is not a unit of price_usd", criteria_of),
    ("recommend.constraints = ['p95_wait<=1h', 'p95_wait>=2h']", "contradict each other", criteria_of),
    ("costs = { usd_per_kwh = 0.2 }", "needs the idle_power_w of every quote|needs the power_w of every", None),
    ("costs = { usd_per_rack_unit_year = 5 }", "needs the rack_units of every quote", None),
    ("evaluate.hit_threshold = 1", "the study has one workload", None),
    ("simulate.policies = ['easie']", "easy", load_plan),
]


@pytest.mark.parametrize(("more", "message", "later"), BAD, ids=[more[:40] for more, _, _ in BAD])
def test_check_refuses_what_a_later_stage_refuses_in_the_same_words(more, message, later, tmp_path):
    """Each thing is refused before a sweep, as the stage that needs it would refuse it afterwards."""
    path = study(tmp_path, more)
    with pytest.raises(TableError, match=message) as at_check:
        check_study(path)
    if later is not None:
        with pytest.raises(TableError, match=message) as at_stage:
            later(load_study(path))
        assert str(at_stage.value).split(": ")[-1] in str(at_check.value)


def test_check_reads_the_workloads(tmp_path):
    (tmp_path / "j.csv").write_text("job_id,submit_time,run_time,cpus_per_node\na,0,1,none\n")
    with pytest.raises(TableError, match=r"j.csv, row 1, column cpus_per_node: 'none' is not a whole number"):
        check_study(study(tmp_path, jobs='jobs = "j.csv"'))


def test_a_threshold_that_no_package_can_pass_is_refused_by_check_and_evaluate():
    check_threshold(2, ["a", "b", "c"])
    with pytest.raises(TableError, match="at most 2 leaves any"):
        check_threshold(4, ["a", "b", "c"])
    with pytest.raises(ArgumentError, match="one workload"):
        procure.evaluate(swept(), hit_threshold=0)


def test_folds_beyond_the_sample_are_refused_where_packages_are_left_out():
    """A million folds of a sample are refused; of a few packages that can all be simulated, no model is needed."""
    example = load_study("pipelines/example.toml").model_copy(
        update={"model": load_study("pipelines/example.toml").model.model_copy(update={"folds": 10**6})}
    )
    with pytest.raises(TableError, match=re.escape("model.folds = 1,000,000: cross-validation needs 2,000,000")):
        check_folds(example, 100, 1000)
    check_folds(example, 100, 300)
