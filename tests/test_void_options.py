"""An option that another one makes void is refused before anything is computed, not ignored."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from procure.cli.main import app
from procure.errors import TableError
from procure.policies import catalog
from procure.policies.removed import REMOVED

VOID = (
    ("learn train --jobs j.csv --nodes n.csv --out p --method ppo-published --set generations=5", "generations"),
    ("learn train --jobs j.csv --nodes n.csv --out p --set steps=5", "steps"),
    ("learn evaluate p --jobs j.csv --nodes n.csv --set max_jobs=5", "max_jobs"),
    ("workload days log.swf -n 5", "-n"),
    ("packages study.toml --package a=1", "--package"),
)


@pytest.mark.parametrize(("words", "option"), VOID)
def test_a_void_option_is_bad_usage(words: str, option: str) -> None:
    """Exit code 2, nothing on stdout, and the option's name, though not one of the files exists."""
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert re.search(rf"(?<!\S)'?{option}\b", done.stderr) and "no such file" not in done.stderr


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("warm", "procure doctor --warm"),
        ("queue train log.swf --out m --refit", "train anew"),
        ("study merge s.toml", "procure study status STUDY --merge"),
        ("window compare", "solve_window"),
        ("search s.toml --stable-rounds 2", "--set search.stable_rounds=VALUE"),
        ("sweep s.toml --memory 3", "--set farm.memory=VALUE"),
        ("packages q.csv --max-power 3", "--set packages.max_power_w=VALUE"),
        ("simulate --depth 4", "--policy NAME:depth=VALUE"),
        ("queue train log --preset beocat", "--set preset=VALUE"),
        ("award s.toml --no-verify", "procure recommend"),
        ("topology check s.csv --plot x.svg", "--format json"),
    ],
)
def test_what_was_removed_is_named_with_what_to_do_instead(words: str, instead: str) -> None:
    """Exit code 2, and the sentence of the one table."""
    done = CliRunner().invoke(app, words.split(), prog_name="procure", env={"COLUMNS": "300"})
    assert done.exit_code == 2 and "removed" in done.stderr and instead in done.stderr


def test_a_removed_parameter_of_a_policy_is_named_with_what_to_do_instead() -> None:
    for label, instead in REMOVED.items():
        name, colon, key = label.partition(":")
        if colon:
            with pytest.raises(TableError, match=re.escape(instead)):
                catalog.spec(name, {key: 1})
