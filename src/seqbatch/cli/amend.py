"""The commands that change a campaign: amend, replan, continue, unmask, abort, delete."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from seqbatch.cli.campaign import (
    Name,
    Reason,
    Where,
    Who,
    app,
    next_command,
    opened,
    say_how_to_adopt,
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
        str | None, typer.Option(help="Sizes of the waves to come, as 2000,3000.")
    ] = None,
    units: Annotated[int | None, typer.Option(help="Units of the whole campaign.")] = None,
    add: Annotated[
        list[str] | None, typer.Option(help="An action to add; with features as NAME:price=2.")
    ] = None,
    retire: Annotated[list[str] | None, typer.Option(help="An action to retire.")] = None,
    floor: Annotated[float | None, typer.Option(help="The least probability of an action.")] = None,
    absent: Annotated[
        float | None, typer.Option(help="What a unit without an outcome counts as at close.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="How long after its assignment, as '14 days'.")
    ] = None,
    reward_format: Annotated[
        str | None, typer.Option(help="How outcomes are spelled, as '1.234,56 EUR'.")
    ] = None,
    metric_format: Annotated[
        list[str] | None, typer.Option(help="How a metric is spelled, as 'calls=1.234,56'.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Amend even though the control is then lost.")
    ] = False,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Change a campaign between two waves; what was assigned stays.

    What a unit without an outcome counts as (--absent, --after) can be changed within a wave, too.

    Example: seqbatch campaign amend spring --retire mail --reason "too dear"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.amend(
            reason=reason,
            sizes=None if sizes is None else _sizes(sizes),
            units=units,
            add=[_action(text) for text in add or ()],
            retire=retire,
            floor=floor,
            absent=absent,
            after=after,
            reward_format=reward_format,
            metric_formats=dict(_metric_format(text) for text in metric_format or ()),
            force=force,
        )
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
        return
    from seqbatch.campaign.views.history import what_was_done

    say(f"Amended (event {event.sequence}): {what_was_done(event)}.")
    if absent is not None:
        wait = "" if after is None else f", {after} after its assignment at the earliest"
        say(f"A unit without an outcome counts as {absent:g} when its wave is closed{wait}.")
    say_next(then)


def _metric_format(text: str) -> tuple[str, str]:
    column, equals, example = text.rpartition("=")
    if not equals:
        raise InvalidArgumentError("metric_format", "COLUMN=EXAMPLE, as calls=1.234,56", repr(text))
    return column, example


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError("sizes", "whole numbers, as 2000,3000", repr(text)) from None


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
    """Go on although the declared stopping rule says to stop.

    Example: seqbatch campaign continue spring --reason "the second goal needs more data"
    """
    with opened(name, store, who, as_json) as campaign:
        event = campaign.go_on(reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
    else:
        say(
            f'Campaign {name} goes on against "{event.payload["against"]}" '
            f"(event {event.sequence})."
        )
        say_next(then)


@app.command()
def unmask(
    name: Name,
    key: Annotated[Path, typer.Option(help="The key that create wrote.")],
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Bring back the key of a masked campaign: its actions have their names from then on.

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
def abort(
    name: Name,
    reason: Reason,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """End a campaign early; outcomes may still be recorded."""
    with opened(name, store, who, as_json) as campaign:
        event = campaign.abort(reason=reason)
        then = next_command(campaign, store)
    if as_json:
        dump({**asdict(event), "next": then})
    else:
        say(f"Campaign {name} is aborted (event {event.sequence}). Outcomes may still be recorded.")
        say_next(then)


@app.command()
def replan(
    name: Name,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Make the proposed sizes the campaign's.")
    ] = False,
    reason: Annotated[
        str, typer.Option(help="Why; what the proposal rests on, where left out.")
    ] = "",
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Show the sizes that closing the last wave proposed; --adopt makes them the campaign's.

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

    said = f"No proposal. {why_none(now)}"
    say(said if found is None else proposal_text(found, now.spec.reward.unit))
    if adopt and now.sequence == before:
        say("Adopted already. Nothing was changed.")
    elif adopt:
        say(f"Adopted (event {now.sequence}).")
    elif found is not None and found.changes:
        say_how_to_adopt(name, store)
    say_next(then)


@app.command()
def delete(
    name: Name,
    reason: Reason,
    force: Annotated[
        bool, typer.Option("--force", help="Delete even though units were assigned.")
    ] = False,
    store: Where = STORE,
    who: Who = None,
    as_json: Json = False,
) -> None:
    """Delete a campaign that has no outcomes yet; its name is free again.

    Example: seqbatch campaign delete spring --reason "a trial run"
    """
    with opened(name, store, who, as_json) as campaign:
        tombstone = campaign.delete(reason=reason, force=force)
    if as_json:
        dump(asdict(tombstone))
        return
    said = f"{counted(tombstone.events, 'event')} and {counted(tombstone.units, 'unit')}"
    say(f"Deleted campaign {name} with {said}; its name is free again.")
    say(f"What is left of it: {command('list', '--deleted', store=store)}")
