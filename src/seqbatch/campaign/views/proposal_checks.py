"""What a verification asks of proposals: the same sizes again, and those adopted that were made."""

from collections.abc import Sequence
from typing import Any

from seqbatch.campaign.deciding.next_sizes import proposed
from seqbatch.campaign.record.situation import Situation
from seqbatch.campaign.record.store import Event
from seqbatch.campaign.views.stopping_checks import alike


def wrong_proposal(now: Situation, state: Any, event: Event) -> str | None:
    """Say what is wrong with the proposal that a closing stored, None where nothing is.

    Parameters
    ----------
    now
        Where the campaign stood when the wave was closed, what it taught included.
    state
        What the policy knew afterwards, learned again from the rows.
    event
        That of closing.
    """
    stored = event.payload.get("proposal")
    if stored is None and not now.spec.grid.adaptive:
        return None
    again = proposed(now, state)
    plain = None if again is None else again.plain()
    return None if alike(stored, plain) else f"the rows give {plain}, not {stored}"


def wrong_adoption(now: Situation, events: Sequence[Event], event: Event) -> str | None:
    """Say in what an adoption differs from the proposal that it names, None where in nothing.

    Parameters
    ----------
    now
        Where the campaign stood before it.
    events, event
        All events, and that of the adoption.
    """
    payload = event.payload
    if "adopted" not in payload:
        return None
    made = events[payload["adopted"] - 1].payload.get("proposal")
    if made is None or now.proposal != made:
        return f"event {payload['adopted']} made no proposal that could be adopted then"
    ahead = payload["sizes"][now.wave - 1 :]
    if (ahead, payload["explored"]) != (made["sizes"], made["explored"]):
        return (
            f"sizes {ahead} with {payload['explored']:g} at random were adopted, proposed were "
            f"{made['sizes']} with {made['explored']:g}"
        )
    return None
