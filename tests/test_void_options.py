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
    ("queue train log.swf --out m --method gbt --k 5", "--k"),
    ("queue train log.swf --out m --method kmeans-gbt --sweep-log s", "--sweep-log"),
    ("queue train log.swf --out m --method kmeans-gbt --k-sweep 2:9 --k 5", "--k"),
    ("queue evaluate log.swf --method gbt --k 5", "--k"),
    ("queue evaluate log.swf --test-log later.swf --test-from 5", "--test-from"),
    ("learn train --jobs j.csv --nodes n.csv --out p --method ppo-published --generations 5", "--generations"),
    ("learn train --jobs j.csv --nodes n.csv --out p --steps 5", "--steps"),
    ("learn evaluate p --jobs j.csv --nodes n.csv --max-jobs 5", "--max-jobs"),
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


@pytest.mark.parametrize("words", [words for words in REMOVED if words.startswith("procure ")])
def test_what_was_removed_is_named_with_what_to_do_instead(words: str) -> None:
    """Exit code 2, and the sentence of the one table."""
    done = CliRunner().invoke(app, words.split()[1:], prog_name="procure")
    assert done.exit_code == 2 and "removed" in done.stderr


def test_a_removed_parameter_of_a_policy_is_named_with_what_to_do_instead() -> None:
    """Of each policy that had one."""
    for label, instead in REMOVED.items():
        name, colon, key = label.partition(":")
        if colon and " " not in label:
            with pytest.raises(TableError, match=re.escape(instead)):
                catalog.spec(name, {key: 1})
