"""Study files: what loads, what is refused, and the whole list of what is wrong."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError
from small_study import swept
from sweep_lab import make_study
from typer.testing import CliRunner

import procure
from procure.cli.study import app
from procure.errors import ArgumentError, TableError
from procure.recommender.values import criteria_of
from procure.study import Study, load_plan, load_study
from procure.study.check import check_study, plan_size, study_text
from procure.study.rules import check_folds, check_threshold, sample_of
from procure.study.sections import Workload

ROOT = Path(__file__).resolve().parent.parent
QUOTES = ROOT / "quotes" / "example-2023.csv"
MINIMAL = f"""
quotes = "{QUOTES.as_posix()}"
[packages]
rules = "published"
budget_usd = 100_000
[[workloads]]
name = "day"
generate = {{ seed = 1 }}
"""


def days(n: int, jobs: str) -> str:
    """So many workloads, and the beginning of another."""
    return "".join(f'[[workloads]]\nname = "d{i}"\n{jobs}\n' for i in range(n)) + "[[workloads]]"


def study_file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_paths_are_relative_to_the_study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, jobs, nodes and results are looked up beside the study file, wherever one stands."""
    (tmp_path / "q.csv").write_text(QUOTES.read_text())
    (tmp_path / "n.csv").write_text("node_id,cpus,mem_mb\nold,8,1000\n")
    (tmp_path / "j.csv").write_text("anything")
    text = """quotes = "q.csv"\nresults = "../out"
    packages = { rules = "published", budget_usd = "$100,000", existing_nodes = "n.csv" }
    workloads = [{ name = "log", jobs = "j.csv" }]"""
    path = study_file(tmp_path, text)
    monkeypatch.chdir("/")
    study = load_study(path)
    assert study.packages.budget_usd == 100_000
    assert study.quotes == tmp_path / "q.csv"
    assert study.workloads[0].jobs == tmp_path / "j.csv"
    assert study.folder == tmp_path.parent / "out" / "mine"
    existing = study.read_existing_nodes()
    assert existing is not None and existing["node_id"].tolist() == ["old"]


def test_document_is_plain_and_portable(tmp_path: Path) -> None:
    """The settings as plain values survive JSON, give the same study, and hold no absolute path."""
    (tmp_path / "q.csv").write_text(QUOTES.read_text())
    path = study_file(tmp_path, MINIMAL.replace(QUOTES.as_posix(), "q.csv"))
    study = load_study(path)
    document = study.document()
    assert json.loads(json.dumps(document)) == document
    assert document["quotes"] == "q.csv" and document["results"] == "results"
    again = Study.model_validate(document, context={"folder": tmp_path})
    assert again.model_dump() == study.model_dump()


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Unknown keys with the nearest legal ones, illegal values and missing files, in one error and in plain words."""
    text = """quotes = "nope.csv"
    nam = "x"
    name = "a b"
    costs = 5
    model = { feature_set = "net" }
    sweep = { sample = 0, batch_size = "x" }
    packages = { budget_usd = -3, maxmal = true }
    workloads = [{ name = "a", generate = { sed = 1 } }]
    """
    with pytest.raises(TableError) as error:
        load_study(study_file(tmp_path, text))
    said = str(error.value)
    assert "10 problems" in said
    for part in [
        f"quotes: {tmp_path / 'nope.csv'}: no such file",
        "nam: unknown key; did you mean name?",
        "name: 'a b' was given; letters, digits",
        "costs: 5 was given; a table is needed",
        "model.feature_set: 'net' was given; allowed: 'composition'",
        "sweep.sample: 0 was given; at least 1 is needed",
        "sweep.batch_size: 'x' was given; a whole number is needed",
        "packages.budget_usd: -3 was given",
        "packages.maxmal: unknown key; did you mean maximal?",
        "workloads[1].generate.sed: unknown key; did you mean seed?",
    ]:
        assert part in said
    assert not re.search(r"(?i)input|pattern|pars(e|ing)|pydantic|\^\[", said.replace(str(tmp_path), ""))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("budget_usd = 100_000", "budget_usd = 100_000\nfixed_cost_usd = 100_000", "leaves nothing"),
        ("budget_usd = 100_000", "types = { a = { min_count = 2, max_count = 1 } }", "above max_count"),
        ("budget_usd = 100_000", "min_gpu_nodes = 1", "packages.budget_usd: missing"),
        ("generate = { seed = 1 }", "", "exactly one of generate and jobs"),
        ("generate = { seed = 1 }", 'jobs = "gone.parquet"', "workloads.1..jobs: .*gone.parquet: no such file"),
        ("generate = { seed = 1 }", 'generate = {}\npreset = "beocat"', "preset belongs to jobs"),
        ("generate = { seed = 1 }", "generate = {}\nday = 2021-05-04", "day needs tz"),
        (
            "generate = { seed = 1 }",
            'generate = {}\ntz = "Mars/Olympus"',
            "unknown time zone 'Mars/Olympus'; use a name such as",
        ),
        ("generate = { seed = 1 }", "generate = {}\nlogged_speed = 0", "logged_speed: .* greater than 0"),
        ("generate = { seed = 1 }", 'generate = {}\nlogged_speed = 1\nlogged_processor = "x"', "at most one"),
        ('name = "day"', 'name = "a/b"', "workloads.1..name: 'a/b' was given"),
        ("[[workloads]]", "[sweep]\noffset = 1\n[[workloads]]", "offset: unknown key; it was removed"),
        ("[[workloads]]", '[simulate]\npolicies = ["easy", "easy"]\n[[workloads]]', "each policy may stand once"),
        ("[[workloads]]", "[model]\nkind = 'gbt'\n[[workloads]]", "model.kind: unknown key; it was removed"),
        ("[[workloads]]", '[[workloads]]\nname = "day"\ngenerate = {}\n[[workloads]]', "two workloads"),
        ("[[workloads]]", "workloads = [", "not a TOML file: .*line"),
        ("[[workloads]]", "[model]\nfolds = 1_000_000_000\n[[workloads]]", "model.folds.*at most 1,000,000 is allowed"),
        (
            "[[workloads]]",
            f"[simulate]\npolicies = {['fcfs'] * 20_000}\n[[workloads]]",
            "policies.*at most 1,000 are",
        ),
        ("[[workloads]]", days(20_000, "jobs = 'mine.toml'"), "workloads.*at most 10,000 are"),
        ("[[workloads]]", days(4000, "generate = {}"), "they make up .* jobs, at most 3,000,000 are"),
        ("[[workloads]]", "[futures]\ngrowth = 0\n[[workloads]]", "growth: 0 was given; at least 0.1"),
        (
            "[[workloads]]",
            "[futures]\nmix = { gpus = 1.2 }\n[[workloads]]",
            "allowed: 'gpu', 'memory', 'wide' or",
        ),
        ("[[workloads]]", '[futures]\nlength = "10d"\n[[workloads]]', "whole weeks"),
    ],
    ids=lambda one: one[:40],
)
def test_a_contradiction_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    """Each setting that is illegal, contradicts another or asks for too much is refused by its key, in a few lines."""
    with pytest.raises(TableError, match=says) as error:
        load_study(study_file(tmp_path, MINIMAL.replace(old, new, 1)))
    assert len(str(error.value)) < 1000


def test_a_log_needs_its_format(tmp_path: Path) -> None:
    """How a log is read can be said only of a log; columns are read from their short text."""
    log = {"name": "log", "jobs": "log.csv"}
    with pytest.raises(ValidationError, match="clock needs format or preset"):
        Workload(**log, clock="unix")
    columns = {"run_time": "Elapsed:min", "mem_mb_per_node": {"column": "ReqMem", "unit": "GB"}}
    read = Workload(**log, format="csv", columns=columns).columns
    assert read is not None
    assert (read["run_time"].column, read["run_time"].unit, read["mem_mb_per_node"].unit) == (
        "Elapsed", "min", "GB"
    )  # fmt: skip
    with pytest.raises(ValidationError, match="unknown unit"):
        Workload(**log, format="csv", columns={"run_time": "Elapsed:GB"})


def test_check_reads_what_the_study_names(tmp_path: Path) -> None:
    """The check reports quotes, nodes, processors and packages that are wrong, together."""
    (tmp_path / "n.csv").write_text("node_id\nold\n")
    text = MINIMAL.replace("100_000", '1_000\nexisting_nodes = "n.csv"') + 'logged_processor = "Z80"\n'
    with pytest.raises(TableError) as error:
        check_study(study_file(tmp_path, text))
    said = str(error.value)
    assert "3 problems" in said
    assert "column cpus is missing" in said and "'Z80'" in said and "budget excludes" in said


def test_check_reads_the_quotes_of_a_broken_study(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("name\nA\n")
    text = MINIMAL.replace(QUOTES.as_posix(), "q.csv").replace("seed", "sed")
    with pytest.raises(TableError, match=r"(?s)2 problems.*sed.*no table of servers"):
        check_study(study_file(tmp_path, text))


def test_the_sample_counts_the_runs(tmp_path: Path) -> None:
    """Runs = sampled distinct packages × workloads × policies."""
    extra = '[simulate]\npolicies = ["best-fit", "fcfs"]\n[sweep]\nsample = 7\n'
    size = plan_size(load_study(study_file(tmp_path, MINIMAL + extra)))
    assert size["n_sampled"] == sum(row % 7 == 0 for row in range(size["n_distinct"]))
    assert size["n_runs"] == 2 * size["n_sampled"]


def test_init_writes_a_study_that_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`init` writes a study that `check` accepts, with a path relative to it, and never overwrites."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quotes.csv").write_text(QUOTES.read_text())
    (tmp_path / "deep").mkdir()
    runner = CliRunner()
    command = ["init", "deep/new.toml", "--budget", "60000.50"]
    assert runner.invoke(app, command).exit_code == 0
    result = runner.invoke(app, ["check", "deep/new.toml", "--format", "json"])
    document = json.loads(result.stdout)
    assert document["name"] == "new" and document["budget_usd"] == 60_000.5 and document["n_runs"] > 0
    again = runner.invoke(app, command)
    assert isinstance(again.exception, TableError) and "exists already" in str(again.exception)


def test_template_shows_every_key_and_its_default() -> None:
    """Every setting stands in the template; its commented lines are legal, and give the defaults."""
    text = study_text(Path("x.toml"), Path("q.csv"), 1e6)
    for model in (Study, Workload, *(f.annotation for f in Study.model_fields.values())):
        for key in getattr(model, "model_fields", {}):
            shown = (f"{key} = ", f"[{key}]", f"[[{key}]]", f".{key}.", f".{key}]]")
            assert any(spelled in text for spelled in shown), key
    sections = text.split("[simulate]")[1]
    shown = tomllib.loads("[simulate]" + re.sub("(?m)^# ", "", sections))
    given = tomllib.loads(text)
    defaults = Study.model_validate(given).model_dump(mode="json")
    Study.model_validate(given | shown)
    for table, settings in shown.items():
        assert set(settings) == set(defaults[table])
        for key, value in settings.items():
            # TOML has no word for nothing: where that is the default, an example stands.
            assert defaults[table][key] in (None, [], value), key


@pytest.mark.parametrize(("n_distinct", "sample"), [(1_000, 1), (1_001, 10)])
def test_without_a_sample_all_packages_are_simulated_where_that_takes_minutes(tmp_path, n_distinct, sample):
    """Two policies: up to 1,000 packages are 2,000 runs; a sample that is set counts."""
    more = '[simulate]\npolicies = ["easy", "best-fit"]\n'
    study = load_study(study_file(tmp_path, MINIMAL + more))
    assert sample_of(study, n_distinct) == sample
    assert sample_of(load_study(study_file(tmp_path, MINIMAL + more + "[sweep]\nsample = 3\n")), n_distinct) == 3


def test_what_is_set_stands_in_place_of_the_file(tmp_path: Path) -> None:
    """As TOML writes it: numbers, text bare or in quotes, dates as text, entries of lists by number, whole tables."""
    path = make_study(tmp_path)
    given = ["recommend.k=7", "workloads.0.weight=2.5", "name=2024-01-01", "costs.years = 3"]
    given += [
        'simulate.policies=["easy:depth=2", "best-fit"]',
        "recommend.cvar_share=0.2",
        "applications.'a b'={speed={X=2}, share=1}",
    ]
    study = load_study(path, given)
    assert (study.recommend.k, study.recommend.cvar_share, study.name, study.costs.years) == (7, 0.2, "2024-01-01", 3)
    assert (study.workloads[0].weight, study.simulate.policies[1]) == (2.5, "best-fit")
    assert "a b" in study.applications
    for wrong in ("k", "=3", "name.k=1", "workloads.9.weight=1", "recommend.k=0", "recommend.kk=1"):
        with pytest.raises(ArgumentError):
            load_study(path, [wrong])
    path.write_text(path.read_text() + "\n[recommend]\nk = 0\n")
    with pytest.raises(TableError) as error:  # the file itself is wrong, whatever is set
        load_study(path, ["name=other"])
    assert not isinstance(error.value, ArgumentError)


TWO_TYPES = "name,category,cpus,mem_gb,gpus,price_usd,power_w\nx,c,32,128,0,6960,500\ny,d,64,256,0,9960,\n"
SHORT = """
quotes = "q.csv"
packages = {{ rules = "published", budget_usd = 90_000, min_gpu_nodes = 0 }}
workloads = [{{ name = "w", {jobs} }}]
{more}
"""


def short_study(folder, more="", jobs="generate = { seed = 1, n_jobs = 20 }"):
    (folder / "q.csv").write_text(TWO_TYPES)
    path = folder / "s.toml"
    path.write_text(SHORT.format(more=more, jobs=jobs))
    return path


BAD = [
    ("simulate.policies = ['tiers']", "tiers needs the leaf and the pod of each node", load_plan),
    ("simulate.policies = ['fcfs', 'window:method=sa']", "needs the leaf and the pod", load_plan),
    ("simulate.policies = ['window:method=neural:no.zip']", "no.zip: no such file", None),
    ("recommend.objective = 'pric'", "objective 'pric' is unknown; available here: ", criteria_of),
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
    path = short_study(tmp_path, more)
    with pytest.raises(TableError, match=message) as at_check:
        check_study(path)
    if later is not None:
        with pytest.raises(TableError, match=message) as at_stage:
            later(load_study(path))
        assert str(at_stage.value).split(": ")[-1] in str(at_check.value)


def test_check_reads_the_workloads(tmp_path):
    (tmp_path / "j.csv").write_text("job_id,submit_time,run_time,cpus_per_node\na,0,1,none\n")
    with pytest.raises(TableError, match=r"j.csv, row 1, column cpus_per_node: 'none' is not a whole number"):
        check_study(short_study(tmp_path, jobs='jobs = "j.csv"'))


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
