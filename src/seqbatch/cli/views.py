"""The commands that show a campaign: status, findings, rule, list, report, verify, export."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seqbatch.cli.amend import app
from seqbatch.cli.campaign import (
    Force,
    Format,
    Name,
    OpenedBy,
    Where,
    next_command,
    opened,
    say_or_close,
)
from seqbatch.cli.console import (
    FOUND,
    Json,
    dump,
    kindly,
    present,
    say,
    say_files,
    say_next,
    say_whole,
    show,
)
from seqbatch.cli.messages import STORE, command
from seqbatch.display import counted
from seqbatch.document import Table

if TYPE_CHECKING:
    from seqbatch.campaign.record.current_situation import Situation

__all__ = ["app"]

AtEvent = Annotated[
    int | None,
    typer.Option("--at-event", help="Show the campaign as it was right after this event."),
]


PageFile = Annotated[Path, typer.Option(help="File to write: .html, .md or .json.")]
PageFormat = Annotated[
    str | None,
    typer.Option("--format", help="Format: html, md or json (default: by the file name)."),
]


Appendix = Annotated[
    bool, typer.Option("--appendix", help="Show the appendix: all numbers, notes and methods.")
]


@app.command()
def status(
    name: Name,
    at_event: AtEvent = None,
    key: OpenedBy = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Show the status of a campaign.

    Example: seqbatch campaign status spring
    """
    with opened(name, store, None, as_json) as campaign:
        now, then, position = campaign.status(at_event=at_event, key=key), None, None
        # The next step depends on the present, not on an earlier event.
        if at_event is None:
            position = campaign.situation()
            then = next_command(campaign, store, position)
    if as_json:
        dump({**asdict(now), "next": then})
        return
    present(now.document())
    if position is not None:
        say_or_close(position, store)
    say_next(then)


@app.command()
def findings(
    name: Name,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    at_event: AtEvent = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Add a rule in a few words, judged on the last wave.")
    ] = False,
    boosted_trees: Annotated[
        bool,
        typer.Option("--boosted-trees", help="Say if a rule by trees would have done better."),
    ] = False,
    appendix: Appendix = False,
    conditional_power: Annotated[
        bool,
        typer.Option("--conditional-power", help="Say what the looks to come may show."),
    ] = False,
    key: OpenedBy = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Show what was learned: what works, by how much, how certain it is, what to run next.

    Example: seqbatch campaign findings spring
    """
    with opened(name, store, None, as_json, doing="estimating the lifts of") as campaign:
        found = campaign.findings(
            level=level, at_event=at_event, tree=tree, boosted_trees=boosted_trees,
            conditional_power=conditional_power, key=key,
        )  # fmt: skip
    if as_json:
        dump(found.plain())
        return
    present(found.document(appendix=appendix))
    if found.known and not appendix:
        words = ["findings", name, "--appendix", *(["--key", str(key)] if key else [])]
        say_whole(f"Appendix: {command(*words, store=store)}")


@app.command()
def rule(
    name: Name,
    file_format: Annotated[
        str, typer.Option("--format", help="What to write: json, sql or python (a program).")
    ] = "json",
    kind: Annotated[
        str, typer.Option(help="Rule: linear (all predictions) or tree (a few words).")
    ] = "linear",
    dialect: Annotated[
        str,
        typer.Option(help="SQL dialect: duckdb, postgres, spark, bigquery, snowflake or trino."),
    ] = "duckdb",
    units: Annotated[
        str, typer.Option(help="Table of units in SQL, as table or schema.table.")
    ] = "units",
    out: Annotated[Path | None, typer.Option(help="File to write (default: print it).")] = None,
    at_event: AtEvent = None,
    force: Force = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write the rule to run next, to give actions to units outside the campaign.

    Example: seqbatch campaign rule spring --kind tree --format sql --units customers
    """
    from seqbatch.output_files import atomically, require_target

    with opened(name, store, None, as_json) as campaign:
        if out is not None:
            ending = {"json": ".json", "sql": ".sql"}.get(file_format, ".py")
            apart = {"the store": campaign.store.files}
            require_target(out, force=force, endings=(ending,), apart_from=apart)
        text = campaign.next_rule(
            kind=kind, file_format=file_format, dialect=dialect, units=units, at_event=at_event
        )
        if out is not None:
            with atomically(out) as partial:
                partial.write_text(text, encoding="utf-8")
    if as_json:
        dump({"rule": text, "out": None if out is None else str(out)})
    elif out is None:
        # Print without wrapping, because a wrapped statement could not be pasted.
        typer.echo(text, nl=False)
    else:
        say_files([out])


@app.command("list")
def list_campaigns(
    deleted: Annotated[
        bool, typer.Option("--deleted", help="List deleted campaigns instead.")
    ] = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """List the campaigns of a store."""
    if deleted:
        _list_deleted(store, as_json)
        return
    with kindly(as_json=as_json):
        from seqbatch.campaign.views.status import listed
        from seqbatch.storage import open_store

        base = open_store(store, create=False)
        found = listed(base, base.names())
        label = base.label
        base.close()
    columns = ("campaign", "condition", "wave", "waves", "units", "events")
    rows = [[each.name, *_in_short(each.now, plain=as_json)] for each in found]
    show(Table(label, columns, rows, words=columns[:2]), as_json=as_json)
    for each in found:
        if each.damage:
            say(f"{each.name}: {each.damage}", to_errors=True)


def _in_short(now: "Situation | None", *, plain: bool) -> list[Any]:
    """Return a campaign's cells in the list; a damaged one has none but its condition."""
    if now is None:
        return ["damaged", None, None, None, None]
    from seqbatch.campaign.record.current_situation import condition_text

    said = now.condition if plain else condition_text(now.condition)
    return [said, now.last_opened, len(now.sizes), now.assigned, now.sequence]


def _list_deleted(store: str, as_json: bool) -> None:
    with kindly(as_json=as_json):
        from seqbatch.storage import open_store

        base = open_store(store, create=False)
        found = base.tombstones()
        label = base.label
        base.close()
    if as_json:
        dump([asdict(tombstone) for tombstone in found])
        return
    columns = ("campaign", "when (UTC)", "who", "why", "events", "units", "last event")
    rows = [
        (t.name, t.at[:19].replace("T", " "), t.who, t.why, t.events, t.units, t.last)
        for t in found
    ]
    words = ("campaign", "when (UTC)", "who", "why", "last event")
    show(Table(f"Deleted from {label}", columns, rows, words=words))


@app.command("show-event")
def show_event(
    name: Name,
    number: Annotated[
        int | None, typer.Argument(help="Number of the event (default: all events).")
    ] = None,
    key: OpenedBy = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Show one event in full, or a table of all events.

    Without its key, the seed of a masked campaign and withheld results are left out.
    """
    from seqbatch.errors import InvalidArgumentError

    with opened(name, store, None, as_json) as campaign:
        events = campaign.shown_events(key=key)
        if number is not None and not 1 <= number <= len(events):
            raise InvalidArgumentError("number", f"between 1 and {len(events)}", number)
    if number is not None:
        dump(asdict(events[number - 1]))
        return
    if as_json:
        keys = ("kind", "at", "who", "why", "counts")
        dump([
            {"event": e.sequence} | {key: getattr(e, key) for key in keys}
            | {"changes": e.payload.get("changes", [])}
            for e in events
        ])  # fmt: skip
        return
    from seqbatch.campaign.views.history import events_table

    show(events_table(name, events))


@app.command()
def seal(
    name: Name,
    out: Annotated[Path, typer.Option(help="File to write; keep it outside the store.")],
    key: Annotated[
        Path | None, typer.Option(help="Ed25519 private key to sign it with (from ssh-keygen).")
    ] = None,
    force: Force = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write the newest event's hash to a file, to show later that no event was removed.

    Example: seqbatch campaign seal spring --out spring.seal.json
    """
    with opened(name, store, None, as_json) as campaign:
        made = campaign.seal(out, key=key, force=force)
    if as_json:
        dump({**asdict(made), "out": str(out)})
    else:
        say(f"Sealed event {made.event} of campaign {name}; written to {out}.")
        say(f"Keep it outside the store. To check: seqbatch campaign verify {name} --seal {out}")


@app.command()
def verify(
    name: Name,
    sealed: Annotated[
        Path | None, typer.Option("--seal", help="Seal to check the campaign against.")
    ] = None,
    signer: Annotated[Path | None, typer.Option(help="Public key of the seal's signer.")] = None,
    key: Annotated[
        Path | None, typer.Option(help="Key of a masked campaign, to check its holder's looks.")
    ] = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Check every hash and replay every estimate and decision. Exit code 1: discrepancies found."""
    with opened(name, store, None, as_json, doing="replaying") as campaign:
        result = campaign.verify(seal=sealed, signer=signer, key=key)
    if as_json:
        dump({**asdict(result), "sound": result.sound})
    else:
        say(
            f"Campaign {name}: {result.events:,} events, {result.units:,} decisions replayed, "
            f"{counted(result.outcomes, 'row')} of outcomes (corrections included), "
            f"{counted(result.states, 'estimate')} recomputed."
        )
        for finding in result.findings:
            say(f"  {finding}")
        for note in result.notes:
            say(f"Note: {note}.")
        for signature in result.signatures:
            say(f"Signed: {signature.text()}.")
        if result.sound:
            say("Verified: no discrepancies.")
        else:
            found = "discrepancy" if len(result.findings) == 1 else "discrepancies"
            say(f"NOT verified: {len(result.findings):,} {found}.")
    if not result.sound:
        raise typer.Exit(FOUND)


@app.command()
def export(
    name: Name,
    out: Annotated[str, typer.Option(help="File to write, or - for standard output.")],
    what: Annotated[
        str, typer.Option(help="What to export: units, outcomes, rows, held, events or sums.")
    ] = "units",
    at_event: AtEvent = None,
    file_format: Format = None,
    key: OpenedBy = None,
    force: Force = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Export units with decisions and outcomes, outcomes, logged or held rows, or events to a file.

    A later campaign can start from the sums of this one: [history] in its spec.

    Example: seqbatch campaign export spring --out spring.parquet
    """
    with opened(name, store, None, as_json) as campaign:
        count = campaign.export(
            out, what=what, at_event=at_event, file_format=file_format, force=force, key=key
        )
    if as_json and out != "-":
        dump({"rows": count, "out": out})
    elif out != "-":
        rows = counted(count, "row") if what != "sums" else f"the sums of {counted(count, 'unit')}"
        say(f"Wrote {rows} to {out}.")


@app.command()
def report(
    name: Name,
    out: PageFile,
    at_event: AtEvent = None,
    file_format: PageFormat = None,
    appendix: Appendix = False,
    key: OpenedBy = None,
    force: Force = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write a report to share: the decision on one page, and an appendix to open.

    The page needs no network connection.

    Example: seqbatch campaign report spring --out report.html
    """
    with opened(name, store, None, as_json, doing="writing the report of") as campaign:
        file = campaign.report(
            out, at_event=at_event, file_format=file_format, force=force, key=key,
            appendix=appendix,
        )  # fmt: skip
    _say_page(file, as_json=as_json)


@app.command()
def protocol(
    name: Name,
    out: PageFile,
    rehearsal: Annotated[
        Path | None, typer.Option(help="JSON file of the spec's rehearsal, to include its tables.")
    ] = None,
    file_format: PageFormat = None,
    force: Force = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write the protocol: what was declared before the first unit, for a committee.

    Example: seqbatch campaign protocol trial --out protocol.html
    """
    with opened(name, store, None, as_json) as campaign:
        file = campaign.protocol(out, rehearsal=rehearsal, file_format=file_format, force=force)
    _say_page(file, as_json=as_json)


@app.command()
def package(
    name: Name,
    out: Annotated[Path, typer.Option(help="File to write: .zip.")],
    rehearsal: Annotated[
        Path | None, typer.Option(help="JSON file of the spec's rehearsal, to include it.")
    ] = None,
    key: OpenedBy = None,
    force: Force = False,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write everything about a campaign to an archive, with a script that verifies it elsewhere.

    Example: seqbatch campaign package trial --out trial.zip
    """
    with opened(name, store, None, as_json) as campaign:
        newest = campaign.package(out, rehearsal=rehearsal, force=force, key=key)
    if as_json:
        dump({"out": str(out), "hash": newest})
        return
    say(f"Packaged up to {newest}; written to {out}. To verify it: unpack it, python verify.py")


def _say_page(file: Path, *, as_json: bool) -> None:
    """Print which page was written."""
    if as_json:
        dump({"files": [str(file)]})
        return
    say_files([file])
    if file.suffix == ".html":
        say(f"Open {file} in a browser.")
