"""Applications: whose each job is, how long it runs on which processor, and what turns on each speed."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import write_study
from typer.testing import CliRunner

import procure
from procure.cli.main import app
from procure.errors import TableError
from procure.objectives.conditions import find, parse_terms
from procure.packages.nodes import package_nodes
from procure.study import load_plan
from procure.study.applications import Applications
from procure.sweep.runner import make_bench, simulate_rows
from procure.tables import JOB, check, write
from procure.workload.speedups import GPUS, KINDS, Application, map_applications, run_times_on, speeds_of
from tests.naive_applications import application_run_times
from tests.naive_tasks import Sim, best_fit
from tests.policy_cases import as_dicts, found

pytestmark = pytest.mark.plain

QUOTES = """name,category,cpus,mem_gb,gpus,price_usd,processor,spec_rate
Epyc,a,16,64,0,10000,AMD EPYC 9654,8
Xeon,b,16,64,0,9000,Intel Xeon Platinum 8592+,7.3
Old,c,16,64,0,2500,,3
"""
TWO = """[applications]
vasp = { share = 0.3, by = "job_name ~ vasp", speed = { "AMD EPYC 9654" = 1.9, "Intel Xeon Platinum 8592+" = 1.07 } }
cfd = { share = 0.2, by = "job_name = Foam|su2", speed = { "amd epyc 9654" = 2.3 } }
"""
TWINS = [
    {"column": "job_name", "op": "~", "texts": ["vasp"], "share": "0.3", "speed": {"AMD EPYC 9654": "1.9",
     "Intel Xeon Platinum 8592+": "1.07"}},
    {"column": "job_name", "op": "=", "texts": ["foam", "su2"], "share": "0.2", "speed": {"AMD EPYC 9654": "2.3"}},
]  # fmt: skip
NAMES = ["VASP-std", "foam", "foam2", "", "post", "su2"]


def named_jobs(n: int = 60, names: list[str] = NAMES) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = {
        "job_id": [str(i) for i in range(n)], "submit_time": np.sort(rng.integers(0, 20_000, n)),
        "run_time": rng.integers(0, 9_000, n), "cpus_per_node": rng.integers(1, 17, n), "mem_mb_per_node": 1000,
        "job_name": [names[i % len(names)] for i in range(n)], "account": [f"group{i % 3}" for i in range(n)],
    }  # fmt: skip
    return check(pd.DataFrame(frame), JOB)


def study(folder: Path, more: str = TWO, jobs: pd.DataFrame | None = None) -> Path:
    (folder / "quotes.csv").write_text(QUOTES)
    write(named_jobs() if jobs is None else jobs, folder / "jobs.csv")
    log = 'jobs = "jobs.csv"\nlogged_speed = 5'
    rules = {"quotes": "quotes.csv", "budget": 30_000, "packages": "min_gpu_nodes = 0"}
    return write_study(folder / "study.toml", log, more, **rules)


def refused(folder: Path, more: str, **rest: pd.DataFrame) -> str:
    said = CliRunner().invoke(app, ["study", "check", str(study(folder, more, **rest))])
    assert said.exit_code == 1 and isinstance(said.exception, TableError)
    return " ".join(str(said.exception).split())


@pytest.mark.parametrize("named", [True, False])
def test_both_simulation_paths_equal_the_slow_twin(tmp_path: Path, named: bool):
    """Batched and general: the jobs run as long as fractions say, one at a time, and so all waits are the same."""
    jobs = named_jobs() if named else named_jobs().drop(columns="job_name")
    plan = load_plan(procure.load_study(study(tmp_path, jobs=jobs)))
    bench, counts = make_bench(plan, "log", "best-fit"), np.array([1, 1, 2])
    assert bench.bits is not None
    nodes = [{"processor": row.processor, "spec": str(row.spec_rate)} for row in plan.quotes.itertuples()]
    rows = jobs.to_dict(orient="records")
    took = np.array([application_run_times(rows, node, TWINS, "5") for node in nodes])
    ready = bench.ready
    assert (ready.durations.took[ready.kinds.speed[ready.kind_of]] == took[:, ready.jobs.row]).all()
    assert (np.diff(took, axis=0) != 0).any()
    bought = package_nodes(dict(zip(plan.types, counts.tolist(), strict=True)), plan.quotes)
    table, of_nodes = plan.workloads["log"], took[np.repeat(np.arange(3), counts)].T.tolist()
    asked, servers = as_dicts(table, bought)
    sim = Sim([row | {"runs": runs} for row, runs in zip(asked, of_nodes, strict=True)], servers)
    start, where = sim.simulate(best_fit())
    batched = simulate_rows(bench, ["x"], counts[None, :])[0].to_pandas()
    waits = np.array(start) - (table["submit_time"] - table["submit_time"].min())
    assert batched["mean_wait_time"].iloc[0] == pytest.approx(waits.mean(), abs=1e-9)
    for fast in (True, False):
        run = procure.simulate(table, bought, "best-fit", logged_speed="5", kill_at_limit=False, fast_lane=fast)
        assert found(run, table) == (start, [tuple(bought["node_id"].iloc[n] for n in one) for one in where])


@given(
    run_time=st.integers(0, 10**7), first=st.integers(1, 400), second=st.integers(1, 400), share=st.integers(1, 60),
    logged=st.sampled_from([None, "2.1"]), spec=st.sampled_from([None, "0.3", "7"]),
    name=st.sampled_from(["a", "b", ""]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_run_times_are_exact_and_rounded_up_once(run_time, first, second, share, logged, spec, name):
    """Taken by a name, or mixed by shares with the SPEC number for the rest: as the slow twin says."""
    jobs = named_jobs(1).assign(run_time=run_time, job_name=name)
    speeds, shares = (first / 100, second / 100), (share / 100, 0.4)
    apps = {
        key: Application(by=f"job_name = {key}", share=part, speed={"P": speed})
        for key, part, speed in zip("ab", shares, speeds, strict=True)
    }
    mapped = map_applications(jobs, apps, [{"Big": Fraction(str(speed))} for speed in speeds])
    twins = [
        {"column": "job_name", "op": "=", "texts": [key], "share": str(part), "speed": {"P": str(speed)}}
        for key, part, speed in zip("ab", shares, speeds, strict=True)
    ]
    rows = [{"run_time": run_time, "job_name": name}]
    for kind, processor in (("Big", "P"), ("Other", "Q")):
        twin = application_run_times(rows, {"processor": processor, "spec": spec}, twins, logged)
        assert run_times_on(mapped, logged, spec, "", kind).tolist() == twin


def test_a_gpu_multiplies_the_speed_of_the_application():
    """⌈run time / (3 × 1.5)⌉ on a node of a kind with a speed; without GPUs the kind's alone."""
    jobs = named_jobs(2).assign(
        run_time=1000, gpus_per_node=[1, 0], gpu_type="v", gpu_speeds="h=3", kind_speeds=["Big=1.5", "Big=1.5"]
    )
    assert run_times_on(jobs, "5", "8", "H", "Big").tolist() == [223, 667]
    assert run_times_on(jobs, "5", "8", "", "Small").tolist() == [625, 625]


def test_conditions_go_by_any_column():
    """Contains or equals, in any case, several texts; ``group`` is the account; an empty cell is not known."""
    jobs = named_jobs(6)
    for text, meant in (
        ("job_name ~ foam", [0, 1, 1, 0, 0, 0]),
        ("job_name = FOAM | su2", [0, 1, 0, 0, 0, 1]),
        ("group = group1", [0, 1, 0, 0, 1, 0]),
    ):
        assert find(parse_terms(text, True), jobs).holds.astype(int).tolist() == meant
    assert find(parse_terms("job_name ~ x", True), jobs).unknown.tolist() == [False, False, False, True, False, False]
    assert find(parse_terms("job_nam ~ x", True), jobs).unknown.all()


def test_speeds_relative_to_a_processor_go_by_the_spec_number_up_to_it(tmp_path: Path):
    """From the log's 5 to the EPYC's 8 by SPEC; from there to the Xeon by the application."""
    more = '[applications]\nvasp = { by = "job_name ~ vasp", relative_to = "AMD EPYC 9654", '
    more += 'speed = { "Intel Xeon Platinum 8592+" = 0.93 } }\n'
    loaded = procure.load_study(study(tmp_path, more))
    found = Applications(loaded, loaded.read_quotes(), None)
    [log] = loaded.workloads
    assert found.factors("vasp", log) == {"Xeon": Fraction("0.93") * Fraction(8, 5), "Epyc": Fraction(8, 5)}
    unknown = log.model_copy(update={"logged_speed": None})
    assert found.factors("vasp", unknown) == {"Xeon": Fraction("0.93"), "Epyc": 1}
    notes = " ".join(load_plan(loaded).notes)
    assert "no speed on Old; there the SPEC number serves" in notes


@pytest.mark.parametrize("name", ["AMD EPYC 9654", "amd EPYC 9654"])
def test_what_one_log_ran_on_is_not_what_another_ran_on(tmp_path: Path, name: str):
    """Half as fast on the Xeon as on the EPYC: from the EPYC's log half, from the Xeon's twice as fast on the EPYC."""
    more = '[[workloads]]\nname = "other"\njobs = "jobs.csv"\nlogged_processor = "Intel Xeon Platinum 8592+"\n'
    more += f'[applications]\nvasp = {{ by = "job_name ~ vasp", relative_to = "{name}", '
    more += 'speed = { "Intel Xeon Platinum 8592+" = 0.5 } }\n'
    path = study(tmp_path, more)
    path.write_text(path.read_text().replace("logged_speed = 5", 'logged_processor = "AMD EPYC 9654"'))
    loaded = procure.load_study(path)
    found = Applications(loaded, loaded.read_quotes(), None)
    here, there = (found.factors("vasp", one) for one in loaded.workloads)
    assert here == {"Xeon": Fraction(1, 2), "Epyc": 1} and there == {"Xeon": 1, "Epyc": 2}


def test_a_type_with_a_bar_in_its_name_is_refused(tmp_path: Path):
    path = study(tmp_path, TWO)
    (tmp_path / "quotes.csv").write_text(QUOTES.replace("Epyc,a", "Ep|yc,a"))
    with pytest.raises(TableError, match=r"applications\.vasp\.speed: type 'Ep\|yc' holds \| or ="):
        load_plan(procure.load_study(path))


def test_study_check_says_what_is_covered(tmp_path: Path):
    """Shares of the core hours by name and by share, and where the SPEC number serves."""
    path = study(tmp_path)
    said = CliRunner().invoke(app, ["study", "check", str(path), "--format", "json"])
    assert said.exit_code == 0, said.output
    jobs = named_jobs()
    load = (jobs["run_time"] * jobs["cpus_per_node"]).groupby(jobs["job_name"]).sum() / jobs["run_time"].mul(
        jobs["cpus_per_node"]
    ).sum()
    vasp, cfd = json.loads(said.stdout)["applications"]
    assert vasp["n_jobs"] == 10 and vasp["load_share"] == pytest.approx(load["VASP-std"], abs=1e-4)
    assert vasp["assumed_share"] == pytest.approx(0.3 * load[""], abs=1e-4)
    assert cfd["n_jobs"] == 20 and cfd["load_share"] == pytest.approx(load["foam"] + load["su2"], abs=1e-4)
    assert "applications.cfd: no speed on Intel Xeon Platinum 8592+, Old; there the SPEC number serves" in said.stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('a = { share = 1, speed = { EPYC7 = 1 } }', "applications.a.speed: no quote has the processor 'EPYC7'"),
        ('a = { share = 1, relative_to = "K", speed = { P9 = 1 } }', "applications.a.relative_to: no quote"),
        ('a = { share = 1, speed = { P9 = 1, "amd epyc 9654" = 2 } }', "two names mean one processor"),
        ('a = { share = 0.7, speed = { P9 = 1 } }\nb = { share = 0.4, speed = { P9 = 1 } }', "add up to 1.1"),
        ('a = { by = "job_name ~ fo", speed = { P9 = 1 } }\nb = { by = "job_name = foam", speed = { P9 = 1 } }',
         "applications.b.by: takes 10 jobs that applications.a.by takes, too, such as job 1;"),
        ('a = { by = "job_nme ~ x", speed = { P9 = 1 } }', "a.by: unknown column 'job_nme'; did you mean job_name"),
        ('a = { by = "qos = x", speed = { P9 = 1 } }', "a.by: no workload has the column 'qos'; give share"),
        ('a = { by = "job_name > x", speed = { P9 = 1 } }', "study.toml: applications.a.by: 'job_name > x': job_name "
         "is text; compare it by ==, != or ~, e.g. 'job_name == a|b*'; write conditions joined by 'and'"),
        ('a = { by = "nodes ~ 4", speed = { P9 = 1 } }', "applications.a.by: 'nodes ~ 4'"),
        ('a = { by = "cpus > 4 and cpus < 2", speed = { P9 = 1 } }', "a.by: no job can be in it: 'cpus > 4'"),
        ('a = { by = "job_name ~ x and", speed = { P9 = 1 } }', "applications.a.by: ''"),
        ('a = { share = 0.5, speed = { P9 = true } }', "applications.a.speed.AMD EPYC 9654: True was given"),
        ('a = { share = 0.5, speed = { "" = 1 } }', "applications.a.speed: an empty name was given"),
        ('"" = { share = 0.5, speed = { P9 = 1 } }', "applications: an empty name was given"),
        ('a = { share = 0.7, speed = { P9 = 1 } }\nb = { share = 0.3000001, speed = { P9 = 1 } }', "to 1.0000001;"),
        ('a = { speed = { P9 = 1 } }', "applications.a: give by"),
        ('a = { share = 0.5, speed = { P9 = 0 } }', "applications.a.speed: AMD EPYC 9654: 0"),
    ],
)  # fmt: skip
def test_bad_input_is_named_by_key(tmp_path: Path, more: str, words: str):
    more = more.replace("P9", '"AMD EPYC 9654"')
    assert words in refused(tmp_path, f"[applications]\n{more}\n")


@pytest.mark.parametrize("text", "B =2 B=0 B=-1 B=x B=1/0 B=2:0 B=2:1.1 B=nan =2|B".split())
def test_a_job_table_with_speeds_that_are_none_is_refused(text: str):
    for kind, name in ((KINDS, "kind_speeds"), (GPUS, "gpu_speeds")):
        with pytest.raises(TableError, match=name):
            speeds_of(text, kind)


def test_speeds_that_stand_in_the_log_are_not_overwritten(tmp_path: Path):
    assert "has speeds of its own" in refused(tmp_path, TWO, jobs=named_jobs().assign(kind_speeds="Epyc=2"))
