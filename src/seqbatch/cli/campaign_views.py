"""The commands that look at a campaign and change nothing."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from seqbatch.cli.campaign import STORE, Format, Name, Where, app, dump, opened, say
from seqbatch.cli.console import FOUND, Json, kindly, show
from seqbatch.policies import registry

__all__ = ["app"]

AtEvent = Annotated[
    int | None, typer.Option("--at-event", help="As it was right after this event.")
]


@app.command()
def status(
    name: Name,
    at_event: AtEvent = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Show where a campaign stands.

    Example: seqbatch campaign status spring
    """
    with opened(name, store, None, as_json) as campaign:
        now = campaign.status(at_event=at_event)
    if as_json:
        dump(asdict(now))
        return
    where = f"wave {now.wave}" if now.condition == "open" else now.condition
    say(f"Campaign {now.name}: {where}; policy {registry.text(now.policy)}; {now.events} events.")
    rows: list[list[Any]] = [
        [
            wave.wave,
            "open-ended" if wave.size is None else f"{wave.size:,}",
            wave.assigned,
            wave.observed,
            "closed" if wave.closed else "open" if wave.wave == now.wave else "to come",
        ]
        for wave in now.waves
    ]
    show("Waves", ["wave", "size", "assigned", "outcomes", "state"], rows, False)
    named = {row.action: f"{row.action} (control)" for row in now.actions}
    named |= {row.action: row.action for row in now.actions if row.action != now.control}
    rows = [
        [row.wave, named[row.action], row.units, row.randomised, row.outcomes]
        for row in now.actions
    ]
    show("Assigned", ["wave", "action", "units", "randomised", "outcomes"], rows, False)
    rows = [
        [
            row.wave, named[row.action], _number(row.mean), _with_error(row.weighted, row.error),
            *([_with_error(row.difference, row.difference_error)] if now.control else []),
        ]
        for row in now.actions
    ]  # fmt: skip
    columns = ["wave", "action", "mean", "weighted mean ± se"]
    if now.control:
        columns += ["less control ± se"]
    show("Observed", columns, rows, False)
    if now.conflicts or now.quarantined:
        say(
            f"Held rows so far (resubmitted rows count again): {now.conflicts:,} conflicts, "
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
    number: Annotated[int | None, typer.Argument(help="The event (default: all of them).")] = None,
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
def seal(
    name: Name,
    out: Annotated[Path, typer.Option(help="The file to write; keep it elsewhere.")],
    key: Annotated[
        Path | None, typer.Option(help="An Ed25519 private key to sign it with (ssh-keygen).")
    ] = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write the newest event's hash to a file, to show later that nothing was cut off.

    Example: seqbatch campaign seal spring --out spring.seal.json
    """
    with opened(name, store, None, as_json) as campaign:
        made = campaign.seal(out, key=key)
    if as_json:
        dump({**asdict(made), "out": str(out)})
    else:
        say(f"Sealed event {made.event} of campaign {name}; written to {out}.")
        say(f"Keep it elsewhere. To compare: seqbatch campaign verify {name} --seal {out}")


@app.command()
def verify(
    name: Name,
    sealed: Annotated[
        Path | None, typer.Option("--seal", help="A seal that must still hold.")
    ] = None,
    signer: Annotated[
        Path | None, typer.Option(help="The public key whose owner signed the seal.")
    ] = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Check every hash, replay every estimate and decision. Exit code 1: discrepancies found."""
    with opened(name, store, None, as_json) as campaign:
        result = campaign.verify(seal=sealed, signer=signer)
    if as_json:
        dump({**asdict(result), "sound": result.sound})
    else:
        say(
            f"Campaign {name}: {result.events:,} events, {result.units:,} decisions replayed, "
            f"{result.outcomes:,} outcomes, {result.states:,} estimates recomputed."
        )
        for finding in result.findings:
            say(f"  {finding}")
        for note in result.notes:
            say(f"Note: {note}.")
        if result.sound:
            say("Verified: no discrepancies.")
        else:
            say(f"NOT verified: {len(result.findings):,} discrepancies.")
    if not result.sound:
        raise typer.Exit(FOUND)


@app.command()
def export(
    name: Name,
    out: Annotated[str, typer.Option(help="The file to write, or - for standard output.")],
    what: Annotated[str, typer.Option(help="units, outcomes, held or events.")] = "units",
    at_event: AtEvent = None,
    file_format: Format = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write what is stored to a file: units with decisions and outcomes, or the events.

    Example: seqbatch campaign export spring --out spring.parquet
    """
    with opened(name, store, None, as_json) as campaign:
        count = campaign.export(out, what=what, at_event=at_event, file_format=file_format)
    if as_json and out != "-":
        dump({"rows": count, "out": out})
    elif out != "-":
        say(f"Wrote {count:,} rows to {out}.")


@app.command()
def report(
    name: Name,
    out: Annotated[Path, typer.Option(help="The page to write; a picture goes beside it.")],
    at_event: AtEvent = None,
    store: Where = STORE,
    as_json: Json = False,
) -> None:
    """Write a page about a campaign, with a picture; it opens without a network.

    Example: seqbatch campaign report spring --out report.html
    """
    with opened(name, store, None, as_json) as campaign:
        files = campaign.report(out, at_event=at_event)
    if as_json:
        dump({"files": [str(file) for file in files]})
    else:
        say("\n".join(str(file) for file in files))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _with_error(value: float | None, error: float | None) -> str:
    return _number(value) if error is None else f"{_number(value)} ± {error:.2g}"
