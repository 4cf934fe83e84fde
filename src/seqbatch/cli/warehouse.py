"""The commands for waves inside a database: sql, record-sums."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqbatch.cli.campaign import (
    FINDINGS,
    Force,
    Name,
    Reason,
    Where,
    Who,
    next_command,
    opened,
    say_how_to_adopt,
    show_closed,
)
from seqbatch.cli.console import Json, dump, say, say_files, say_next
from seqbatch.cli.init import app
from seqbatch.cli.messages import STORE, command

if TYPE_CHECKING:
    from seqbatch.campaign.steps.record_sums import SumsRecorded

__all__ = ["app"]


@app.command()
def sql(
    name: Name,
    units: Annotated[
        str | None, typer.Option(help="Table of units, as table or schema.table, to assign.")
    ] = None,
    what: Annotated[
        str,
        typer.Option(
            help="Statement to write: assign (decisions), scaling (what the first wave says about "
            "columns), sums (to close the wave) or findings (sums that findings need next)."
        ),
    ] = "assign",
    dialect: Annotated[
        str,
        typer.Option(help="SQL dialect: duckdb, postgres, spark, bigquery, snowflake or trino."),
    ] = "duckdb",
    outcomes: Annotated[str | None, typer.Option(help="Table of outcomes, for sums.")] = None,
    assignments: Annotated[
        str | None,
        typer.Option(help="Table of assignments: its units get no action again; for sums, too."),
    ] = None,
    write: Annotated[
        bool,
        typer.Option("--write", help="Insert the wave into the table of assignments, once."),
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="Accept fewer units than the wave has planned.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write, .sql (default: print it).")
    ] = None,
    force: Force = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write the open wave's rule as one SQL statement.

    Example: seqbatch campaign sql spring --units customers --assignments spring_units --write
    """
    from seqbatch.output_files import atomically, require_target

    with opened(name, store, None, as_json) as campaign:
        if out is not None:
            apart = {"the store": campaign.store.files}
            require_target(out, force=force, endings=(".sql",), apart_from=apart)
        text = campaign.sql(
            what=what,
            dialect=dialect,
            units=units,
            assignments=assignments,
            outcomes=outcomes,
            write=write,
            partial=partial,
        )
        _require_printable(text, out)
        if out is not None:
            with atomically(out) as file:
                file.write_text(text, encoding="utf-8")
    if as_json:
        dump({"statement": text, "out": None if out is None else str(out)})
    elif out is None:
        # Print without wrapping, because a wrapped statement could not be pasted.
        typer.echo(text, nl=False)
    else:
        say_files([out])


def _require_printable(text: str, out: Path | None) -> None:
    """Refuse to print terminal control characters."""
    from seqbatch.errors import InvalidArgumentError

    hidden = {character for character in text if not character.isprintable()} - {"\n"}
    if out is None and hidden:
        rule = "given if names or levels contain control characters"
        raise InvalidArgumentError("out", rule, "none")


@app.command("record-sums")
def record_sums(
    name: Name,
    sums: Annotated[
        str, typer.Argument(help="File with the result of the statement, or - for standard input.")
    ],
    statement: Annotated[Path, typer.Option(help="File with the statement that was run.")],
    force: Annotated[
        bool, typer.Option("--force", help="Close even if units or outcomes are missing.")
    ] = False,
    reason: Reason = "",
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Record sums over rows that are kept elsewhere: they close the wave, or are for findings.

    Example: seqbatch campaign record-sums spring sums.csv --statement sums-2.sql
    """
    with opened(name, store, who, as_json) as campaign:
        result = campaign.record_sums(sums, statement=statement, force=force, reason=reason)
        now = campaign.situation()
        then = next_command(campaign, store, now)
        if now.look_due or not (result.closed or result.complete):
            then = command("sql", campaign.name, *FINDINGS, store=store)
    if as_json:
        dump({**asdict(result), "next": then})
        return
    if (closed := result.closed) is not None:
        show_closed(closed)
        say("Its rows are kept elsewhere; the event holds the statement and its sums.")
        if closed.proposal is not None and closed.proposal.changes:
            say_how_to_adopt(name, store)
    else:
        _show_recorded(result)
    say_next(then)


def _show_recorded(result: "SumsRecorded") -> None:
    """Say what was recorded."""
    from seqbatch.campaign.decide.stopping import look_text
    from seqbatch.display import enumerated

    waves = enumerated([str(wave) for wave in result.waves])
    if result.kind == "scaling":
        say(f"Scaling of columns learned from wave 1 (event {result.event})")
        return
    say(f"Sums for findings recorded: {result.kind} of wave {waves} (event {result.event})")
    if result.stopping is not None:
        say(look_text(result.stopping))
