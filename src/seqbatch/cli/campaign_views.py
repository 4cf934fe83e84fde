"""The commands that look at a campaign and change nothing."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from seqbatch.cli.campaign import STORE, Format, Name, Where, app, dump, opened, policy_text, say
from seqbatch.cli.console import FOUND, Json, kindly, show

__all__ = ["app"]


@app.command()
def status(
    name: Name,
    at: Annotated[
        int | None, typer.Option("--at-event", help="As it was right after this event.")
    ] = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Show where a campaign stands.

    Example: seqbatch campaign status spring
    """
    with opened(name, store, None, as_json) as campaign:
        now = campaign.status(at=at)
    if as_json:
        dump(asdict(now))
        return
    where = f"wave {now.wave}" if now.condition == "open" else now.condition
    say(f"Campaign {now.name}: {where}; policy {policy_text(now.policy)}; {now.events} events.")
    rows: list[list[Any]] = [
        [
            wave.wave,
            "as it comes" if wave.size is None else f"{wave.size:,}",
            wave.assigned,
            wave.observed,
            "closed" if wave.closed else "open" if wave.wave == now.wave else "to come",
        ]
        for wave in now.waves
    ]
    show("Waves", ["wave", "size", "assigned", "outcomes", "state"], rows, False)
    rows = [
        [
            row.wave, f"{row.action} (control)" if row.action == now.control else row.action,
            row.units, row.holdout, row.outcomes, _number(row.mean),
            _number(row.weighted), _number(row.error),
            *([_number(row.difference), _number(row.difference_error)] if now.control else []),
        ]
        for row in now.actions
    ]  # fmt: skip
    columns = ["wave", "action", "units", "holdout", "outcomes", "mean", "weighted mean", "± se"]
    if now.control:
        columns += ["less control", "± se"]
    show("Actions", columns, rows, False)
    if now.conflicts or now.quarantined:
        say(
            f"Rows held so far, each as often as it came: {now.conflicts:,} conflicts, "
            f"{now.quarantined:,} quarantined."
        )
    for note in now.notes:
        say(f"Note: {note}.")
    say(f"State {now.state}")


@app.command("list")
def list_campaigns(store: Where = STORE, as_json: Json = False) -> None:
    """List the campaigns of a store."""
    with kindly(as_json=as_json):
        from seqbatch.campaign import Campaign
        from seqbatch.storage import open_store

        base = open_store(store, create=False)
        rows: list[list[Any]] = []
        for name in base.names():
            now = Campaign.open(name, store=base).situation()
            wave = min(now.wave, len(now.sizes))
            rows.append([name, now.condition, wave, len(now.sizes), now.assigned, now.sequence])
        label = base.label
        base.close()
    show(label, ["campaign", "condition", "wave", "waves", "units", "events"], rows, as_json)


@app.command("show-event")
def show_event(
    name: Name,
    number: Annotated[
        int | None, typer.Argument(help="The event; all of them if not said.")
    ] = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Show what was done: one event in full, or all in short."""
    from seqbatch.errors import InvalidArgumentError

    with opened(name, store, None, as_json) as campaign:
        events = campaign.events()
        if number is not None and not 1 <= number <= len(events):
            raise InvalidArgumentError("number", f"between 1 and {len(events)}", number)
    if number is not None:
        dump(asdict(events[number - 1]))
        return
    rows = [
        [e.sequence, e.kind, e.at, e.who, e.why, json.dumps(e.counts, ensure_ascii=False)]
        for e in events
    ]
    show(f"Events of {name}", ["event", "kind", "at", "who", "why", "counts"], rows, as_json)


@app.command()
def verify(name: Name, store: Where = STORE, as_json: Json = False) -> None:
    """Check every hash and replay every estimate and decision. Exit code 1 says what was found."""
    with opened(name, store, None, as_json) as campaign:
        result = campaign.verify()
    if as_json:
        dump({**asdict(result), "sound": result.sound})
    else:
        say(
            f"Campaign {name}: {result.events:,} events, {result.units:,} decisions replayed, "
            f"{result.outcomes:,} outcomes, {result.states:,} estimates learned again."
        )
        for finding in result.findings:
            say(f"  {finding}")
        say("Everything is as it was signed." if result.sound else "It is NOT as it was signed.")
    if not result.sound:
        raise typer.Exit(FOUND)


@app.command()
def export(
    name: Name,
    out: Annotated[str, typer.Option(help="The file to write, or - for standard output.")],
    what: Annotated[str, typer.Option(help="units, outcomes, held or events.")] = "units",
    at: Annotated[
        int | None, typer.Option("--at-event", help="As it was right after this event.")
    ] = None,
    kind: Format = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write what is stored to a file: units with decisions and outcomes, or the events.

    Example: seqbatch campaign export spring --out spring.parquet
    """
    with opened(name, store, None, as_json) as campaign:
        count = campaign.export(out, what=what, at=at, kind=kind)
    if as_json and out != "-":
        dump({"rows": count, "out": out})
    elif out != "-":
        say(f"Wrote {count:,} rows to {out}.")


@app.command()
def report(
    name: Name,
    out: Annotated[Path, typer.Option(help="The page to write; a picture goes beside it.")],
    at: Annotated[
        int | None, typer.Option("--at-event", help="As it was right after this event.")
    ] = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write a page about a campaign, with a picture; it opens without a network.

    Example: seqbatch campaign report spring --out report.html
    """
    with opened(name, store, None, as_json) as campaign:
        from seqbatch.campaign.report import write_report

        status = campaign.status(at=at)
        files = write_report(status, campaign.events()[: status.events], out)
    if as_json:
        dump({"files": [str(file) for file in files]})
    else:
        say("\n".join(str(file) for file in files))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"
