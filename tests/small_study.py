"""A small study, swept once per test process, for the commands that need results, and commands as users type them."""

import functools
import tempfile
from pathlib import Path

import pandas as pd
from click.testing import Result
from typer.testing import CliRunner

from procure import explorer
from procure.cli.main import app
from procure.packages.quotes import check_quotes
from procure.study import load_study
from procure.sweep import load_plan, run_sweep

OFFERS = """name,category,cpus,mem_gb,gpus,price_usd,power_w,idle_power_w
Small,compute,8,32,0,5000,300,100
Mid,compute,24,128,0,9000,0,0
Big,bigmem,16,512,0,9000,600,200
Gpu,gpu,16,64.5,4,15000,1500,400
Gpu2,gpu,64,900,4,25000,2000,500
"""
QUOTES = Path(__file__).resolve().parent.parent / "quotes" / "example-2023.csv"


@functools.cache
def swept(n_days: int = 1) -> Path:
    """Return the path of a study of 70,000 US$ and so many days of 300 jobs, every third package simulated."""
    folder = Path(tempfile.mkdtemp(prefix="procure-small-"))
    days = "".join(
        f'[[workloads]]\nname = "day-{i}"\ngenerate = {{ seed = {i}, n_jobs = 300 }}\n' for i in range(1, n_days + 1)
    )
    path = folder / "small.toml"
    path.write_text(
        f'name = "small"\nquotes = "{QUOTES}"\n[packages]\nrules = "published"\n'
        f"budget_usd = 70_000\n{days}[sweep]\nsample = 3\n"
        "[model]\nfolds = 2\n",
        encoding="utf-8",
    )
    run_sweep(load_plan(load_study(path)), "serial")
    return path


def run(*words: object, code: int = 0) -> Result:
    """Run a command; return its result."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def write_study(
    path: Path, workload: str, more: str = "", *, quotes: object = QUOTES, budget: int = 70_000, packages: str = ""
) -> Path:
    """Write a study of one workload under the published rules; return its path."""
    path.write_text(
        f'quotes = "{quotes}"\n[packages]\nrules = "published"\nbudget_usd = {budget}\n{packages}\n'
        f'[[workloads]]\nname = "log"\n{workload}\n{more}\n',
        encoding="utf-8",
    )
    return path


def offered(folder: Path, text: str, sweep: bool = True) -> Path:
    """Write a study of five types, and sweep it; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "quotes.csv").write_text(OFFERS)
    path = folder / "study.toml"
    path.write_text(text)
    if sweep:
        run("sweep", path, "--farm", "serial")
    return path


def search(path, **asked):
    """Search a study; keys of its [search] stand among the arguments."""
    keys = {name: asked.pop(name) for name in ("runs", "share", "batch", "stable_rounds", "seed") if name in asked}
    study = load_study(path, [f"search.{name}={value}" for name, value in keys.items()])
    return explorer.search(study, **asked)


def quote_table(**columns: object) -> pd.DataFrame:
    """Quotes of compute nodes of 24 CPUs and 256 GB at 10 US$, but for what is said."""
    names = columns["name"]
    defaults = {"category": "compute", "cpus": 24, "mem_gb": 256, "gpus": 0, "price_usd": 10}
    return pd.DataFrame({"name": names} | defaults | columns, index=range(len(names)))


def three_quotes(**columns: object) -> pd.DataFrame:
    """Two compute types, a and b, and a GPU type g, of which b and g are vendor B's."""
    kinds = {"name": ["a", "b", "g"], "category": ["compute", "compute", "gpu"], "gpus": [0, 0, 2]}
    prices = {"price_usd": [10, 15, 30], "vendor": ["A", "B", "B"]}
    return check_quotes(quote_table(**kinds | prices | columns))
