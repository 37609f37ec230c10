"""An option that another one makes void is refused before anything is computed, not ignored."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from procure.cli.main import app

VOID = (
    ("queue train log.swf --out m --method gbt --k 5", "--k"),
    ("queue train log.swf --out m --method kmeans-gbt --sweep-log s", "--sweep-log"),
    ("queue train log.swf --out m --method kmeans-gbt --k-sweep 2:9 --k 5", "--k"),
    ("queue evaluate log.swf --method gbt --k 5", "--k"),
    ("queue evaluate log.swf --test-log later.swf --test-from 5", "--test-from"),
    ("learn train --jobs j.csv --nodes n.csv --out p --method ppo --generations 5", "--generations"),
    ("learn train --jobs j.csv --nodes n.csv --out p --steps 5", "--steps"),
    ("learn evaluate p --jobs j.csv --nodes n.csv --every 5", "--every"),
    ("workload days log.swf --probe-every 5", "--probe-every"),
    ("workload days log.swf -n 5", "-n"),
    ("workload days log.swf --by calendar --seed 5", "--seed"),
    ("packages study.toml --package a=1", "--package"),
    ("packages study.toml --costs --max-packages 5", "--max-packages"),
)


@pytest.mark.parametrize(("words", "option"), VOID)
def test_a_void_option_is_bad_usage(words: str, option: str) -> None:
    """Exit code 2, nothing on stdout, and the option's name, though not one of the files exists."""
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.search(rf"(?<!\S)'?{option}\b", done.stderr) and "no such file" not in done.stderr
