"""The commands of stores: check and copy."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from seqbatch.cli.campaign import Where
from seqbatch.cli.console import FOUND, Json, Visible, dump, kindly, say, show, waiting
from seqbatch.cli.messages import STORE, command
from seqbatch.display import counted
from seqbatch.document import Table

app = typer.Typer(cls=Visible, help="Check or copy a store of campaigns.", no_args_is_help=True)


@app.command()
def check(store: Where = STORE, as_json: Json = False) -> None:
    """Verify every campaign of a store. Exit code 1: discrepancies found.

    Example: seqbatch store check --store campaigns.db
    """
    with kindly(as_json=as_json, extra="campaign"):
        from seqbatch.campaign import Campaign
        from seqbatch.storage import open_store

        base = open_store(store, create=False)
        try:
            found = {}
            for name in base.names():
                with waiting(f"checking {name}"):
                    found[name] = Campaign.open(name, store=base).verify()
        finally:
            base.close()
    if as_json:
        dump([{"campaign": name, **asdict(one), "sound": one.sound} for name, one in found.items()])
    else:
        rows = [
            (name, one.events, one.units, one.outcomes, "sound" if one.sound else "NOT sound")
            for name, one in found.items()
        ]
        columns = ("campaign", "events", "units", "outcomes", "state")
        show(Table(f"Campaigns of {base.label}", columns, rows, words=("campaign", "state")))
        for name, one in found.items():
            for finding in one.findings:
                say(f"{name}: {finding}")
    if not all(one.sound for one in found.values()):
        raise typer.Exit(FOUND)


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store to copy.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A new or empty store.")],
    as_json: Json = False,
) -> None:
    """Copy a store to an empty one of any kind, while it is in use, and compare the copy.

    Use it for backups, and to move from SQLite to PostgreSQL. All hashes stay the same.

    Example: seqbatch store copy campaigns.db backup-2026-11-19.db
    """
    with kindly(as_json=as_json, extra="campaign"):
        from seqbatch.storage import copy_store, open_store

        opened: list[Any] = [open_store(source, create=False)]
        try:
            opened.append(open_store(target))
            with waiting(f"copying {source}"):
                made = copy_store(*opened)
        finally:
            for each in opened:
                each.close()
    if as_json:
        dump(asdict(made))
        return
    rows = counted(sum(made.rows.values()), "row")
    files = f" and {counted(made.files, 'file')}" if made.files else ""
    campaigns = counted(len(made.campaigns), "campaign")
    say(f"Copied {campaigns} to {opened[-1].label}: {rows}{files}, all compared.")
    say(f"Next: {command('check', store=target, group='store')}")
