"""The commands that change a campaign: amend, continue, stop, look, unmask, abort and others."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from seqbatch.cli.campaign import (
    Force,
    Name,
    Reason,
    Where,
    Who,
    app,
    next_command,
    opened,
    plain_look,
    say_how_to_adopt,
    say_look,
)
from seqbatch.cli.console import (
    Json,
    dump,
    say,
    say_next,
)
from seqbatch.cli.messages import STORE, command
from seqbatch.display import counted
from seqbatch.errors import InvalidArgumentError

__all__ = ["app"]


@app.command()
def amend(
    name: Name,
    reason: Reason,
    sizes: Annotated[
        str | None, typer.Option(help="Sizes of the remaining waves, for example 2000,3000.")
    ] = None,
    units: Annotated[int | None, typer.Option(help="Total number of units.")] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(help="Action to add, as NAME or NAME:price=2; repeat for several."),
    ] = None,
    retire: Annotated[
        list[str] | None, typer.Option(help="Action to retire; repeat for several.")
    ] = None,
    floor: Annotated[float | None, typer.Option(help="Minimum probability of each action.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Setting of a metric, for example revenue.format=1.234,56 or revenue.rows=sum; "
            "repeat for several."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Amend even if later waves lose the control.")
    ] = False,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Amend a campaign between two waves; units keep their actions.

    You can change settings of metrics within a wave, too.

    Example: seqbatch campaign amend spring --retire mail --reason "too expensive"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.amend(
            reason=reason,
            sizes=None if sizes is None else _sizes(sizes),
            units=units,
            add=[_action(text) for text in add or ()],
            retire=retire,
            floor=floor,
            metrics=_metrics(metric or ()),
            force=force,
        )
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
        return
    from seqbatch.campaign.views.history import what_was_done

    say(f"Amended (event {event.sequence}): {what_was_done(event)}.")
    say_next(then)


def _metrics(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the settings that were given as METRIC.SETTING=VALUE."""
    made: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        name, dot, setting = place.rpartition(".")
        if not (equals and dot):
            raise InvalidArgumentError(
                "metric", "METRIC.SETTING=VALUE, such as revenue.rows=sum", repr(text)
            )
        made.setdefault(name, {})[setting] = _number(text, value) if setting == "absent" else value
    return made


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        rule = "METRIC.absent=NUMBER, such as revenue.absent=0"
        raise InvalidArgumentError("metric", rule, repr(text)) from None


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(
            "sizes", "whole numbers, such as 2000,3000", repr(text)
        ) from None


def _action(text: str) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    try:
        pairs = [part.split("=") for part in rest.split(",") if part]
        return {"name": name, "features": {key: float(value) for key, value in pairs}}
    except ValueError:
        raise InvalidArgumentError("add", "NAME or NAME:feature=number,...", repr(text)) from None


@app.command("continue")
def go_on(
    name: Name,
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Continue a campaign despite its stopping rule.

    Example: seqbatch campaign continue spring --reason "the second goal needs more data"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.go_on(reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
    else:
        say(
            f"Campaign {name} continues despite its stopping rule "
            f'("{event.payload["against"]}"; event {event.sequence}).'
        )
        say_next(then)


@app.command()
def stop(
    name: Name,
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Confirm that a campaign stops as its rule says; afterwards it cannot continue.

    Example: seqbatch campaign stop trial --reason "the committee's verdict after wave 2"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.stop(reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
        return
    verdict, wave = event.payload["verdict"], event.payload["wave"]
    say(
        f"Campaign {name} is stopped by its rule after wave {wave} ({verdict}; event "
        f"{event.sequence}). You can still record outcomes."
    )
    say_next(then)


@app.command()
def unmask(
    name: Name,
    key: Annotated[Path, typer.Option(help="Key file that create wrote.")],
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Unmask a campaign with its key: its actions are shown by name from then on.

    Example: seqbatch campaign unmask trial --key trial.key --reason "the last wave is closed"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.unmask(key, reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
        return
    told = ", ".join(f"{code} is {action}" for code, action in event.payload["codes"].items())
    say(f"Campaign {name} is unmasked (event {event.sequence}): {told}.")
    say_next(then)


@app.command()
def look(
    name: Name,
    key: Annotated[Path, typer.Option(help="Key file that create wrote.")],
    out: Annotated[Path, typer.Option(help="File for the closed report: .html, .md or .json.")],
    reason: Reason = "",
    force: Force = False,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Take the look at a masked campaign with its key; only the verdict is recorded.

    Example: seqbatch campaign look trial --key trial.key --out closed-report.html
    """
    with opened(name, store, who, as_json) as campaign:
        looked = campaign.look(key, out=out, force=force, reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**plain_look(looked), "out": str(out), "next": then})
        return
    say_look(looked, out)
    say_next(then)


@app.command()
def unblind(
    name: Name,
    unit: Annotated[list[str], typer.Argument(help="The unit: one value for each id column.")],
    key: Annotated[Path, typer.Option(help="Key file that create wrote.")],
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Show the action of one unit of a masked campaign, in an emergency; it is recorded.

    Example: seqbatch campaign unblind trial P-0041 --key trial.key --reason "anaphylaxis"
    """
    with opened(name, store, who, as_json) as campaign:
        found = campaign.unblind(unit, key=key, reason=reason)
    if as_json:
        dump(asdict(found))
        return
    say(f"{' '.join(found.unit)} got {found.action} (event {found.event}). Nothing else is shown.")


@app.command()
def screen(
    name: Name,
    assessed: Annotated[int, typer.Option(help="How many units were assessed.")],
    excluded: Annotated[
        list[str] | None,
        typer.Option(help='How many a rule excluded: "under 18=12"; repeat for several rules.'),
    ] = None,
    reason: Reason = "",
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Record how many units were assessed and excluded before they were assigned.

    Example: seqbatch campaign screen trial --assessed 120 --excluded "under 18=12"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.screen(assessed, excluded=_excluded(excluded or ()), reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
        return
    gone = sum(event.counts["excluded"].values())
    say(f"Recorded (event {event.sequence}): {assessed:,} assessed, {gone:,} excluded.")
    say_next(then)


def _excluded(texts: Iterable[str]) -> dict[str, int]:
    """Return the exclusions that were given as RULE=NUMBER."""
    made: dict[str, int] = {}
    for text in texts:
        rule, equals, number = text.rpartition("=")
        if not equals or not number.strip().isdigit():
            raise InvalidArgumentError("excluded", "RULE=NUMBER, such as under 18=12", repr(text))
        made[rule] = made.get(rule, 0) + int(number)
    return made


@app.command()
def sign(
    name: Name,
    meaning: Annotated[
        str, typer.Option(help='What it means, such as "approved by the statistician".')
    ],
    reason: Reason = "",
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Sign everything that is recorded so far; the event says how your name is known.

    Example: seqbatch campaign sign trial --meaning "approved by the statistician"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.sign(meaning, reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
        return
    from seqbatch.campaign.views.signatures import signatures

    [signature] = signatures([event])
    say(f"Signed by {signature.text()}.")
    say_next(then)


@app.command()
def abort(
    name: Name,
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """End a campaign early; you can still record outcomes."""
    with opened(name, store, who, as_json) as campaign:
        event = campaign.abort(reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
    else:
        say(f"Campaign {name} is aborted (event {event.sequence}). You can still record outcomes.")
        say_next(then)


@app.command()
def replan(
    name: Name,
    adopt: Annotated[bool, typer.Option("--adopt", help="Adopt the proposed sizes.")] = False,
    reason: Annotated[
        str, typer.Option(help="Why; recorded with the event (default: the proposal's reason).")
    ] = "",
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Show the wave sizes proposed at the last close; --adopt adopts them.

    Example: seqbatch campaign replan spring --adopt
    """
    with opened(name, store, who, as_json) as campaign:
        before = campaign.situation().sequence
        found = campaign.replan(adopt=adopt, reason=reason)
        now = campaign.situation()
        then = next_command(campaign, store, now)
    if as_json:
        shown = None if found is None else found.plain()
        dump({"proposal": shown, "adopted": adopt, "sizes": now.sizes, "next": then})
        return
    from seqbatch.campaign.decide.replanning import proposal_text, why_none
    from seqbatch.campaign.spec.measure import Measure

    said = f"No proposal. {why_none(now)}"
    say(said if found is None else proposal_text(found, Measure.of_objective(now.spec)))
    if adopt and now.sequence == before:
        say("Already adopted; nothing was changed.")
    elif adopt:
        say(f"Adopted (event {now.sequence}).")
    elif found is not None and found.changes:
        say_how_to_adopt(name, store)
    say_next(then)


@app.command()
def erase(
    name: Name,
    units: Annotated[str, typer.Option(help="File with the ids, or - for standard input.")],
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Erase units from every record; decisions about others stay, and can be verified.

    Example: seqbatch campaign erase spring --units request-12.csv --reason "request 12"
    """
    with opened(name, store, who, as_json) as campaign:
        erased = campaign.erase(units, reason=reason)
    if as_json:
        dump(erased.plain())
        return
    say(erased.text())
    say_next(command("verify", name, store=store))


@app.command()
def delete(
    name: Name,
    reason: Reason,
    force: Annotated[
        bool, typer.Option("--force", help="Delete even if units were assigned.")
    ] = False,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Delete a campaign that has no outcomes; its name can be used again.

    Example: seqbatch campaign delete spring --reason "a trial run"
    """
    with opened(name, store, who, as_json) as campaign:
        tombstone = campaign.delete(reason=reason, force=force)
    if as_json:
        dump(asdict(tombstone))
        return
    said = f"{counted(tombstone.events, 'event')} and {counted(tombstone.units, 'unit')}"
    say(f"Deleted campaign {name} with {said}; its name can be used again.")
    say(f"To see what is kept of it: {command('list', '--deleted', store=store)}")
