"""``procure policies``: what can decide."""

from __future__ import annotations

from typing import Annotated

import pandas as pd
import typer

from procure.cli import common
from procure.errors import TableError
from procure.policies import catalog
from procure.policies.names import FITS, ORDERS


def policies(
    name: Annotated[str | None, typer.Argument(help="One of them: its rule and its parameters.")] = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """List the policies that --policy and --policies know, or describe one.

    Examples:
    procure policies
    procure policies easy
    """
    if name in ("list", "describe"):
        raise typer.BadParameter("was removed: procure policies lists them, procure policies NAME describes one")
    if name is not None:
        _describe(name, output)
        return
    rows = []
    for one in catalog.names():
        try:
            entry = catalog.entry(one)
        except TableError as error:  # of an installed package; the others are listed all the same
            common.note(str(error))
            continue
        rows.append({"name": one, "summary": entry.summary, "compiled": entry.compiled, "multi_node": entry.multi_node})
    common.print_table(pd.DataFrame(rows), output, "policies")


def _describe(name: str, output: common.Format) -> None:
    entry, model = catalog.entry(name), catalog.model_of(name)
    record = {
        "name": name,
        "summary": entry.summary,
        "options": dict(entry.preset),
        "compiled": entry.compiled,
        "multi_node": entry.multi_node,
        "target": entry.target,
    }
    parameters = catalog.parameter_rows(name)
    if output is not common.Format.TABLE:
        names = {"orders": ", ".join(ORDERS), "fits": ", ".join(FITS)}
        common.print_record(record | names | {"parameters": parameters, "rule": model.rule_text()}, output)
        return
    common.print_record(record, output, name)
    common.print_table(pd.DataFrame(parameters), output, f"parameters, as in --policy {name}:key=value")
    common.echo("\n" + model.rule_text(), kept="\n")
