"""``procure policies``: what can decide."""

from __future__ import annotations

from typing import Annotated

import typer

from procure.cli import common

app = typer.Typer(
    add_completion=False,
    help="List and describe the scheduling policies.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("list")
def list_policies(output: common.FormatOption = common.Format.TABLE) -> None:
    """List the policies that --policy and --policies know.

    [bold]Examples[/bold]

    \b
    procure policies list
    procure policies list --format json
    """
    import pandas as pd

    from procure.policies.catalog import POLICIES

    rows = [
        {"name": name, "summary": entry.summary, "compiled": bool(entry.loop), "multi_node": entry.multi_node}
        for name, entry in POLICIES.items()
    ]
    common.print_table(pd.DataFrame(rows), output, "policies")


@app.command("describe")
def describe(
    name: Annotated[str, typer.Argument(help="A name from `procure policies list`.")],
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Describe one policy: its rule, its options and where it stands.

    [bold]Examples[/bold]

    \b
    procure policies describe easy
    """
    import inspect

    from procure.policies import catalog
    from procure.policies.names import FITS, ORDERS

    entry = catalog.entry(name)
    policy = catalog.load(name)
    record = {
        "name": name,
        "summary": entry.summary,
        "options": dict(entry.options),
        "orders": ", ".join(ORDERS),
        "fits": ", ".join(FITS),
        "compiled": bool(entry.loop),
        "multi_node": entry.multi_node,
        "target": entry.target,
    }
    rule = inspect.getdoc(getattr(policy, "py_func", policy)) or ""
    if output is not common.Format.TABLE:
        common.print_record(record | {"rule": rule}, output)
        return
    common.print_record(record, output, name)
    common.echo("\n" + rule)
