"""``procure policies``: what can decide."""

from __future__ import annotations

from typing import Annotated

import pandas as pd
import typer

from procure.cli import common, lazy
from procure.errors import TableError
from procure.policies import catalog
from procure.policies.names import FITS, ORDERS

app = lazy.command_group()


@app.command("list")
def list_policies(output: common.FormatOption = common.Format.TABLE) -> None:
    """List the policies that --policy and --policies know.

    Examples:
    procure policies list
    procure policies list --format json
    """
    rows = []
    for name in catalog.names():
        try:
            entry = catalog.entry(name)
        except TableError as error:  # of an installed package; the others are listed all the same
            common.note(str(error))
            continue
        rows.append(
            {
                "name": name,
                "summary": entry.summary,
                "compiled": entry.compiled,
                "multi_node": entry.multi_node,
            }
        )
    common.print_table(pd.DataFrame(rows), output, "policies")


@app.command("describe")
def describe(
    name: Annotated[str, typer.Argument(help="A name from `procure policies list`.")],
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Describe one policy: its rule, its parameters and where it stands.

    Examples:
    procure policies describe easy
    """
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
